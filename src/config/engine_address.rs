//! Addresses of container engines: a socket of this machine, one that is reached by `ssh`, a port with TLS, or a Kubernetes
//! cluster.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::cluster::ClusterAddress;

/// The socket of an engine behind `ssh` if the address names none.
const ENGINE_SOCKET: &str = "/var/run/docker.sock";
/// The port of an engine with TLS if the address names none.
const TLS_PORT: u16 = 2376;

/// The address of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EngineAddress {
    /// A socket of this machine, as in `unix:///run/second/docker.sock`.
    Socket(PathBuf),
    /// A socket of another machine, as in `ssh://ann@gpu:2222/run/docker.sock`.
    Ssh(SshAddress),
    /// A port of another machine, as in `tcp://gpu:2376`. It is always used with TLS.
    Tls(TlsAddress),
    /// A namespace of a Kubernetes cluster, as in `k8s://work/flock`.
    Cluster(ClusterAddress),
}

impl EngineAddress {
    /// Returns `true` if the engine is on another machine, whose files are not this machine's.
    #[must_use]
    pub const fn is_remote(&self) -> bool {
        !matches!(self, Self::Socket(_))
    }
}

impl FromStr for EngineAddress {
    type Err = String;

    /// Reads an address. The error continues a sentence that begins with the address.
    fn from_str(text: &str) -> Result<Self, String> {
        const FORMS: &str = "as in unix:///run/second/docker.sock, ssh://ann@gpu, tcp://gpu.example.org:2376 or k8s://work/flock";
        match text.split_once("://") {
            Some(("unix", path)) if is_plain(path) => Ok(Self::Socket(path.into())),
            Some(("ssh", _)) => text.parse().map(Self::Ssh).map_err(str::to_owned),
            Some(("tcp", _)) => text.parse().map(Self::Tls).map_err(str::to_owned),
            Some(("k8s", _)) => text.parse().map(Self::Cluster).map_err(str::to_owned),
            Some(("http" | "https", _)) => Err(format!(
                "is not supported: write tcp:// for an engine with TLS; flock uses none without. The address must be one {FORMS}"
            )),
            _ => Err(format!("must be the address of an engine, {FORMS}")),
        }
    }
}

/// The address of an engine that is reached by `ssh`, as in `ssh://ann@gpu:2222/run/docker.sock`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshAddress {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    socket: String,
}

impl SshAddress {
    /// Returns the destination as `ssh` takes it.
    #[must_use]
    pub fn destination(&self) -> String {
        match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        }
    }

    /// Returns the port, if the address names one.
    #[must_use]
    pub const fn port(&self) -> Option<u16> {
        self.port
    }

    /// Returns the path of the engine's socket on the other machine.
    #[must_use]
    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// Returns the port and the destination as arguments of `ssh` and of `ssh-copy-id`, for a command that a person runs.
    #[must_use]
    pub fn arguments(&self) -> String {
        match self.port {
            Some(port) => format!("-p {port} {}", self.destination()),
            None => self.destination(),
        }
    }
}

impl FromStr for SshAddress {
    type Err = &'static str;

    /// Reads an address. Each part stands in a command line later, so none can be an option or have characters of a shell.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("ssh://").ok_or("must begin with ssh://")?;
        let (place, socket) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, ENGINE_SOCKET),
        };
        let (user, place) = match place.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, place),
        };
        let (host, port) = host_and_port(place)?;
        if !user.is_none_or(is_word) {
            return Err("has no usable user name before the @");
        }
        // `ssh` separates the two ends of a forwarding by a colon, and replaces what begins with % or $.
        let is_usable = |c: char| !c.is_control() && !matches!(c, ':' | '%' | '$' | '\\' | '"' | '\'');
        if !is_plain(socket) || !socket.chars().all(is_usable) {
            return Err("has no usable path of a socket");
        }
        Ok(Self {
            user: user.map(str::to_owned),
            host: host.to_owned(),
            port: port.map(port_number).transpose()?,
            socket: socket.to_owned(),
        })
    }
}

/// The address of an engine with TLS, as in `tcp://gpu:2376`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsAddress {
    /// A name, or an IP address without brackets.
    pub host: String,
    pub port: u16,
}

impl FromStr for TlsAddress {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rest = text.strip_prefix("tcp://").ok_or("must begin with tcp://")?;
        let (host, port) = host_and_port(rest.strip_suffix('/').unwrap_or(rest))?;
        Ok(Self { host: host.to_owned(), port: port.map_or(Ok(TLS_PORT), port_number)? })
    }
}

/// Splits `host`, `host:port` or `[IPv6]:port`.
fn host_and_port(place: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(bracketed) = place.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']').ok_or("has a bracket that is not closed")?;
        host.parse::<std::net::Ipv6Addr>().map_err(|_| "has no IPv6 address in its brackets")?;
        return match rest.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if rest.is_empty() => Ok((host, None)),
            None => Err("has something behind its brackets"),
        };
    }
    let (host, port) = match place.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (place, None),
    };
    if is_word(host) { Ok((host, port)) } else { Err("has no usable host name") }
}

fn port_number(port: &str) -> Result<u16, &'static str> {
    port.parse::<u16>().ok().filter(|port| *port > 0).ok_or("has no usable port")
}

fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && !text.starts_with('-') && text.chars().all(allowed)
}

/// Returns `true` for an absolute path without `..` and without characters that no socket's path needs.
fn is_plain(path: &str) -> bool {
    let has_climb = Path::new(path).components().any(|part| part.as_os_str() == "..");
    path.starts_with('/') && path.len() > 1 && !has_climb && !path.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ssh_address_names_user_host_port_and_socket() {
        let found = |text: &str| {
            let found: SshAddress = text.parse().unwrap();
            (found.destination(), found.port, found.socket)
        };
        let expected =
            |destination: &str, port, socket: &str| (destination.to_owned(), port, socket.to_owned());
        assert_eq!(found("ssh://gpu"), expected("gpu", None, ENGINE_SOCKET));
        assert_eq!(found("ssh://ann@gpu.lan:2222"), expected("ann@gpu.lan", Some(2222), ENGINE_SOCKET));
        assert_eq!(found("ssh://gpu/run/user/1000/d.sock"), expected("gpu", None, "/run/user/1000/d.sock"));
        assert_eq!(found("ssh://[fe80::1]:22/d.sock"), expected("fe80::1", Some(22), "/d.sock"));
        let address: SshAddress = "ssh://ann@gpu:2222".parse().unwrap();
        assert_eq!(address.arguments(), "-p 2222 ann@gpu");
    }

    #[test]
    fn a_tls_address_names_host_and_port() {
        let found = |text: &str| {
            let TlsAddress { host, port } = text.parse().unwrap();
            (host, port)
        };
        assert_eq!(found("tcp://gpu.lan"), ("gpu.lan".to_owned(), 2376));
        assert_eq!(found("tcp://10.0.0.1:1234/"), ("10.0.0.1".to_owned(), 1234));
        assert_eq!(found("tcp://[::1]:1234"), ("::1".to_owned(), 1234));
    }

    #[test]
    fn an_address_that_could_be_more_than_an_address_is_refused() {
        for text in [
            "gpu",
            "/run/docker.sock",
            "unix://run/docker.sock",
            "unix:///run/../docker.sock",
            "http://gpu:2375",
            "https://gpu:2376",
            "tcp://",
            "tcp://gpu:0",
            "tcp://a@gpu:2376",
            "tcp://gpu:2376/x",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://-l@gpu",
            "ssh://a b@gpu",
            "ssh://@gpu",
            "ssh://gpu;x",
            "ssh://gpu:0",
            "ssh://gpu:70000",
            "ssh://gpu:",
            "ssh://gpu/",
            "ssh://gpu/a:b",
            "ssh://gpu/%h",
            "ssh://gpu/${HOME}",
            "ssh://gpu/../d.sock",
            "ssh://[gpu]/d.sock",
            "ssh://[::1/d.sock",
            "ssh://[::1]x/d.sock",
            "k8s://work",
        ] {
            assert!(text.parse::<EngineAddress>().is_err(), "{text}");
        }
    }
}
