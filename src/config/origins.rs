//! The origins at which browsers reach the dashboard, and senders the webhooks, through the owner's own tunnel or reverse
//! proxy.

use std::fmt;
use std::str::FromStr;

use super::view::{Problem, View};

/// An origin with HTTPS, such as `https://flock.example.org` or `https://flock.example.org:8443`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedOrigin {
    /// The host, with the port unless it is 443, in lower case.
    authority: String,
}

impl TrustedOrigin {
    /// Returns `true` if a Host header or the authority of an origin names this origin.
    #[must_use]
    pub(crate) fn has_authority(&self, authority: &str) -> bool {
        let authority = authority.strip_suffix(":443").unwrap_or(authority);
        self.authority.eq_ignore_ascii_case(authority)
    }
}

impl fmt::Display for TrustedOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority)
    }
}

impl FromStr for TrustedOrigin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "must be an origin with https and a name, as in \"https://flock.example.org\"";
        // A cookie must not travel in plain text, so http is not accepted.
        let authority = text.strip_prefix("https://").ok_or(WRONG)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) =
            authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)));
        let is_name = !host.is_empty()
            && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
            && host.starts_with(|c: char| c.is_ascii_alphanumeric());
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_name || !is_port {
            return Err(WRONG);
        }
        let authority = authority.strip_suffix(":443").unwrap_or(authority).to_ascii_lowercase();
        Ok(Self { authority })
    }
}

/// Reads the origins in the block of the dashboard, or in that of the webhooks.
pub(super) fn trusted(view: &View<'_>) -> Result<Vec<TrustedOrigin>, Problem> {
    let origins = view.get("trustedOrigins")?.items()?;
    let origin = |item: &View<'_>| item.required_text()?.parse().map_err(|wrong| item.problem(wrong));
    origins.iter().map(origin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_has_https_and_a_name() {
        for (text, shown) in [
            ("https://flock.example.org", "https://flock.example.org"),
            ("https://Flock.Example.org/", "https://flock.example.org"),
            ("https://flock.example.org:443", "https://flock.example.org"),
            ("https://flock:8443", "https://flock:8443"),
            ("https://10.0.0.5", "https://10.0.0.5"),
        ] {
            assert_eq!(text.parse::<TrustedOrigin>().unwrap().to_string(), shown);
        }
        for wrong in [
            "http://flock.example.org",
            "flock.example.org",
            "https://",
            "https://*",
            "https://*.example.org",
            "https://a/b",
            "https://a:b",
            "https://a:0",
            "https://user@a",
            "https://a?b",
        ] {
            assert!(wrong.parse::<TrustedOrigin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_authority_is_compared_without_case_and_default_port() {
        let origin: TrustedOrigin = "https://flock.example.org".parse().unwrap();
        for same in ["flock.example.org", "FLOCK.example.org", "flock.example.org:443"] {
            assert!(origin.has_authority(same), "{same}");
        }
        for other in ["flock.example.org:80", "a.flock.example.org", "flock.example.org.", "example.org", ""]
        {
            assert!(!origin.has_authority(other), "{other}");
        }
    }
}
