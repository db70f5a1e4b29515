//! Rules on what an agent may reach, as a person writes them: `HOST[:PORT]`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use super::address::is_public;

/// The ports of a rule that names no port.
pub(crate) const PORTS: [u16; 2] = [80, 443];

/// The target host of a connection, as a name or an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// A name in lower case and without a trailing dot.
    Name(String),
    Address(IpAddr),
}

/// A rule: one host, or all hosts below a name, with one port or the two default ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EgressRule {
    host: Pattern,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Pattern {
    Exactly(Host),
    /// Names that end in a dot followed by this name.
    Below(String),
    /// Every name. There is no text form for it in a rule.
    AnyName,
}

/// The reason why a text is not a host or a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not usable: {why}")]
pub struct RuleError {
    text: String,
    why: &'static str,
}

impl EgressRule {
    /// Returns a rule for every name, at the two default ports. The addresses behind a name are checked as for any
    /// other rule.
    #[must_use]
    pub(crate) const fn any_name() -> Self {
        Self { host: Pattern::AnyName, port: None }
    }

    /// Returns `true` if the rule allows a connection.
    #[must_use]
    pub(crate) fn allows(&self, host: &Host, port: u16) -> bool {
        let port_fits = match self.port {
            Some(only) => only == port,
            None => PORTS.contains(&port),
        };
        port_fits
            && match (&self.host, host) {
                (Pattern::Exactly(allowed), host) => allowed == host,
                (Pattern::Below(name), Host::Name(host)) => is_subdomain(host, name),
                (Pattern::AnyName, Host::Name(_)) => true,
                (Pattern::Below(_) | Pattern::AnyName, Host::Address(_)) => false,
            }
    }
}

impl EgressRule {
    /// Returns `true` if every host of the other rule is also a host of this one, whatever the ports are.
    #[must_use]
    pub(crate) fn covers_hosts(&self, other: &Self) -> bool {
        match (&self.host, &other.host) {
            (Pattern::Exactly(one), Pattern::Exactly(other)) => one == other,
            (Pattern::Below(name), Pattern::Exactly(Host::Name(other))) => is_subdomain(other, name),
            (Pattern::Below(name), Pattern::Below(other)) => name == other || is_subdomain(other, name),
            _ => false,
        }
    }

    /// Returns `true` if this rule allows everything that the other rule allows.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let port_fits = match (self.port, other.port) {
            (None, None) => true,
            (None, Some(port)) => PORTS.contains(&port),
            (Some(one), Some(other)) => one == other,
            (Some(_), None) => false,
        };
        port_fits && self.covers_hosts(other)
    }

    /// Returns `true` if both rules are about the same ports. The two default ports count as one.
    #[must_use]
    pub(crate) fn shares_ports(&self, other: &Self) -> bool {
        let class = |port: Option<u16>| port.filter(|port| !PORTS.contains(port));
        class(self.port) == class(other.port)
    }
}

impl FromStr for EgressRule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = |why| RuleError { text: shortened(text), why };
        let (host, port) = split_port(text).ok_or_else(|| wrong("a port is a number from 1 to 65535"))?;
        let host = match host.strip_prefix("*.") {
            None => Pattern::Exactly(host.parse().map_err(|error: RuleError| wrong(error.why))?),
            Some(below) => match below.parse().map_err(|error: RuleError| wrong(error.why))? {
                // `*.org` would allow a whole top-level domain.
                Host::Name(name) if name.contains('.') => Pattern::Below(name),
                Host::Name(_) => return Err(wrong("\"*.\" needs a name of at least two parts after it")),
                Host::Address(_) => return Err(wrong("an address has no names below it")),
            },
        };
        match host {
            Pattern::Exactly(Host::Address(address)) if !is_public(address) => {
                Err(wrong("it is not an address of the public internet"))
            }
            host => Ok(Self { host, port }),
        }
    }
}

impl FromStr for Host {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let wrong = |why| RuleError { text: shortened(text), why };
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            let address: Ipv6Addr =
                inner.parse().map_err(|_| wrong("only an IPv6 address may be in brackets"))?;
            return Ok(Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Address(address));
        }
        // Case and a trailing dot make no difference in a name.
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if !name.is_ascii() {
            return Err(wrong("write a name with other letters than a-z as punycode (xn--…)"));
        }
        let label_fits = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if name.len() > 253 || !name.split('.').all(label_fits) {
            return Err(wrong("it is not the name of a host"));
        }
        // A name that ends in a number is an IPv4 address in one of the old forms that the system's resolver still
        // accepts.
        let last = name.rsplit('.').next().unwrap_or_default();
        let hex =
            last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if hex || last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong("write an address as four numbers or in brackets"));
        }
        Ok(Self::Name(name))
    }
}

/// Returns `true` if `name` is a subdomain of `above`.
fn is_subdomain(name: &str, above: &str) -> bool {
    name.strip_suffix(above).is_some_and(|front| front.ends_with('.'))
}

/// Splits a text into the host and the port, if it names one. Returns `None` for an invalid port.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    // An IPv6 address without brackets contains colons but no port.
    if text.parse::<Ipv6Addr>().is_ok() {
        return Some((text, None));
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            let port = port.parse::<u16>().ok().filter(|port| digits && *port > 0)?;
            Some((host, Some(port)))
        }
        _ => Some((text, None)),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

impl fmt::Display for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => out.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(out, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(out, "[{address}]"),
        }
    }
}

impl fmt::Display for EgressRule {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Pattern::Exactly(host) => write!(out, "{host}")?,
            Pattern::Below(name) => write!(out, "*.{name}")?,
            Pattern::AnyName => write!(out, "*")?,
        }
        match self.port {
            Some(port) => write!(out, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn allows(rule: &str, host: &str, port: u16) -> bool {
        rule.parse::<EgressRule>().unwrap().allows(&host.parse().unwrap(), port)
    }

    #[test]
    fn a_rule_covers_rules_within_its_hosts_and_ports() {
        let rule = |text: &str| text.parse::<EgressRule>().unwrap();
        for (one, other, covers) in [
            ("a.example", "a.example", true),
            ("a.example", "a.example:443", true),
            ("a.example", "a.example:22", false),
            ("a.example:443", "a.example", false),
            ("*.example.org", "a.example.org", true),
            ("*.example.org", "*.a.example.org:80", true),
            ("*.example.org", "*.example.org", true),
            ("*.example.org", "example.org", false),
            ("*.example.org", "badexample.org", false),
            ("a.example.org", "*.example.org", false),
            ("1.1.1.1", "1.1.1.1", true),
            ("*.example.org", "1.1.1.1", false),
        ] {
            assert_eq!(rule(one).covers(&rule(other)), covers, "{one} {other}");
        }
        assert!(rule("a.example:443").shares_ports(&rule("a.example")));
        assert!(!rule("a.example:22").shares_ports(&rule("a.example")));
    }

    #[test]
    fn a_rule_allows_only_its_hosts_and_ports() {
        for (rule, host, port) in [
            ("example.org", "example.org", 80),
            ("example.org", "example.org", 443),
            ("Example.ORG.", "EXAMPLE.org", 443),
            ("example.org", "example.org.", 443),
            ("example.org:8080", "example.org", 8080),
            ("*.example.org", "a.example.org", 443),
            ("*.example.org", "a.b.example.org", 443),
            ("*.example.org:22", "a.example.org", 22),
            ("1.1.1.1", "1.1.1.1", 443),
            ("[2606:4700:4700::1111]:853", "[2606:4700:4700::1111]", 853),
            ("2606:4700:4700::1111", "[2606:4700:4700:0::1111]", 443),
            ("xn--bcher-kva.example", "xn--bcher-kva.example", 443),
        ] {
            assert!(allows(rule, host, port), "{rule} {host}:{port}");
        }
        for (rule, host, port) in [
            ("example.org", "example.org", 8080),
            ("example.org", "a.example.org", 443),
            ("example.org", "badexample.org", 443),
            ("example.org", "example.org.evil.net", 443),
            ("example.org:8080", "example.org", 443),
            ("*.example.org", "example.org", 443),
            ("*.example.org", "badexample.org", 443),
            ("*.example.org", "example.org.evil.net", 443),
            ("one.one.one.one", "1.1.1.1", 443),
            ("1.1.1.1", "one.one.one.one", 443),
            ("1.1.1.1", "1.1.1.2", 443),
            ("1.1.1.1", "[::ffff:1.1.1.1]", 443),
        ] {
            assert!(!allows(rule, host, port), "{rule} {host}:{port}");
        }
    }

    #[test]
    fn malformed_rules_are_refused() {
        for text in [
            "",
            ".",
            "*",
            "*.",
            "*.org",
            "*.*.org",
            "a.*.org",
            "*example.org",
            "example..org",
            "-a.org",
            "a-.org",
            "exa mple.org",
            "example.org:",
            "example.org:0",
            "example.org:+80",
            "example.org:65536",
            "example.org:http",
            "https://example.org",
            "example.org/x",
            "user@example.org",
            "bücher.example",
            "127.0.0.1",
            "10.0.0.1",
            "169.254.169.254",
            "[::1]",
            "[::ffff:8.8.8.8]",
            "fd00:ec2::254",
            "127.1",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "1.2.3.08",
            "1.2.3.4.5",
            "*.1.1.1.1",
            "[1.1.1.1]",
            "[example.org]",
            "a\nb",
            "a\u{202e}b.org",
            "a%2eorg",
        ] {
            assert!(text.parse::<EgressRule>().is_err(), "{text}");
        }
        assert!("a.".repeat(128).parse::<EgressRule>().is_err(), "too long");
        assert!(format!("{}.org", "a".repeat(64)).parse::<EgressRule>().is_err());
    }

    proptest! {
        #[test]
        fn a_rule_is_written_as_it_was_read(text in "(\\*\\.)?[a-z0-9_.:\\[\\]-]{1,24}") {
            if let Ok(rule) = text.parse::<EgressRule>() {
                prop_assert_eq!(rule.to_string().parse::<EgressRule>(), Ok(rule));
            }
        }
    }
}
