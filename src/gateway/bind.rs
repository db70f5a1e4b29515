//! Taking the port, and saying who has it where it is taken.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::TcpListener;

use crate::error::{Explain, Kind};
use crate::supervise::health::{self, HealthError, Identity, Imposter, PORT_HINT};

/// Why the gateway can't listen.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// This home's gateway runs already.
    #[error("this home's gateway (pid {pid}) listens at {address} already")]
    Running {
        /// Where.
        address: SocketAddr,
        /// Its pid, as it says.
        pid: i32,
    },
    /// Another home's gateway has the port.
    #[error("another home's gateway (pid {pid}) listens at {address}")]
    OtherHome {
        /// Where.
        address: SocketAddr,
        /// Its pid, as it says.
        pid: i32,
    },
    /// Another program has the port.
    #[error("another program listens at {address}")]
    Taken {
        /// Where.
        address: SocketAddr,
    },
    /// The port can't be had for another reason.
    #[error("failed to listen at {address}")]
    Refused {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Explain for BindError {
    fn kind(&self) -> Kind {
        match self {
            Self::Running { .. } | Self::OtherHome { .. } => Kind::Conflict,
            Self::Taken { .. } | Self::Refused { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Running { .. } => "flock status".to_owned(),
            Self::OtherHome { .. } | Self::Taken { .. } | Self::Refused { .. } => PORT_HINT.to_owned(),
        })
    }
}

/// Listens on 127.0.0.1. The address can be taken again at once after a gateway has ended, because the
/// socket is made with `SO_REUSEADDR`.
///
/// # Errors
///
/// As [`BindError`] says.
pub async fn bind(port: u16, home: &Identity) -> Result<TcpListener, BindError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let source = match TcpListener::bind(address).await {
        Ok(listener) => return Ok(listener),
        Err(source) => source,
    };
    if source.kind() != std::io::ErrorKind::AddrInUse {
        return Err(BindError::Refused { address, source });
    }
    Err(match health::ask(port, home, Duration::from_secs(1)).await {
        Ok(health) => BindError::Running { address, pid: health.pid },
        Err(HealthError::Imposter(Imposter::OtherHome { pid, .. })) => BindError::OtherHome { address, pid },
        Err(_) => BindError::Taken { address },
    })
}

/// Returns the error that names this home's gateway, where one answers at this port.
pub async fn running(port: u16, home: &Identity) -> Option<BindError> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let health = health::ask(port, home, Duration::from_secs(1)).await.ok()?;
    Some(BindError::Running { address, pid: health.pid })
}
