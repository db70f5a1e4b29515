//! Chooses the port of OpenClaw's gateway. It is chosen once and then kept as `gateway.port` of the configuration.

use std::net::{Ipv4Addr, TcpListener};

use serde_json::{Value, json};

use super::OpenClawError;
use crate::config::{self, Config, ConfigError};
use crate::home::Home;

/// The port at which the search begins.
const FIRST_PORT: u16 = 3790;
/// Number of consecutive ports that must be free. Some versions also listen on the ports right after the first.
const PORT_COUNT: u16 = 4;

/// Returns the configured port of OpenClaw's gateway or, if none is configured, a free one.
#[must_use]
pub(crate) fn choose(config: &Config) -> Option<u16> {
    config.openclaw.port.or_else(|| find_free(FIRST_PORT, config.port, is_free))
}

/// Chooses a port if none is configured, and stores it, so that every later start has the same.
///
/// # Errors
///
/// Returns [`OpenClawError::NoPort`] if no port is free, or an error if the configuration can't be read or written.
pub(crate) fn assign(home: &Home) -> Result<(), OpenClawError> {
    let config = config::read(home)?;
    if config.openclaw.port.is_some() {
        return Ok(());
    }
    let port = choose(&config).ok_or(OpenClawError::NoPort)?;
    config::edit(home, |document| {
        set(document, port);
        Ok::<_, ConfigError>(())
    })?;
    Ok(())
}

/// Sets the document's port unless it already has one.
pub(crate) fn set(document: &mut Value, port: u16) {
    let gateway = document.get_mut("gateway").and_then(Value::as_object_mut);
    if let Some(gateway) = gateway
        && gateway.get("port").is_none_or(Value::is_null)
    {
        gateway.insert("port".to_owned(), json!(port));
    }
}

/// Returns a free port for a trial. The search begins at a random port, so that two homes that run a trial at the same
/// time do not collide.
#[must_use]
pub(crate) fn for_trial(own: u16) -> Option<u16> {
    let first = rand::random_range(20_000..30_000);
    find_free(first, own, is_free)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn find_free(start: u16, own: u16, is_free: impl Fn(u16) -> bool) -> Option<u16> {
    (start..start + 1000)
        .step_by(usize::from(PORT_COUNT))
        // flock's own port counts as taken, even while its gateway does not run.
        .find(|first| (*first..first + PORT_COUNT).all(|port| port != own && is_free(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_run_of_ports_is_chosen() {
        assert_eq!(find_free(FIRST_PORT, 3779, |_| true), Some(3790));
        assert_eq!(find_free(FIRST_PORT, 3779, |port| port != 3792), Some(3794));
        assert_eq!(find_free(FIRST_PORT, 3795, |port| port != 3792), Some(3798));
        assert_eq!(find_free(FIRST_PORT, 3779, |_| false), None);
    }

    #[test]
    fn a_configured_port_is_kept() {
        let mut document = json!({"gateway": {"port": 18789}});
        set(&mut document, 3790);
        assert_eq!(document["gateway"]["port"], 18789);
        let mut document = json!({"gateway": {"mode": "local"}});
        set(&mut document, 3790);
        assert_eq!(document["gateway"], json!({"mode": "local", "port": 3790}));
        let mut odd = json!({"gateway": 1});
        set(&mut odd, 3790);
        assert_eq!(odd, json!({"gateway": 1}));
    }
}
