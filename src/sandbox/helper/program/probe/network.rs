//! Lists the network interfaces and tries to connect to addresses and to sockets in the file system.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Lines;
use super::calls::{self, Dialled};
use crate::message::PROBE_PATIENCE;

/// Addresses to try: a public resolver over IPv4 and IPv6, the metadata service of clouds, which hands out a machine's
/// credentials, and a Docker engine on the default bridge.
const TARGETS: [&str; 4] =
    ["1.1.1.1:53", "[2606:4700:4700::1111]:53", "169.254.169.254:80", "172.17.0.1:2375"];
/// Timeout of one try if none is given. Without a route, connecting fails at once.
const PATIENCE: Duration = Duration::from_millis(4);
/// Sockets of engines, which the walk may not reach.
const ENGINES: [&str; 7] = [
    "/var/run/docker.sock",
    "/run/docker.sock",
    "/docker.sock",
    "/run/containerd/containerd.sock",
    "/run/podman/podman.sock",
    "/run/crio/crio.sock",
    "/nix/var/nix/daemon-socket/socket",
];
const MAX_SOCKETS: usize = 256;

pub fn interfaces(lines: &mut Lines) {
    for line in fs::read_to_string("/proc/self/net/dev").unwrap_or_default().lines() {
        if let Some((name, _)) = line.split_once(':') {
            lines.say("interface", &[name.trim().as_bytes()]);
        }
    }
}

/// Reports `connect=<address> <unreachable|refused|timeout|open>` for each address. Every result but the first means a
/// way out.
pub fn connects(targets: &str, lines: &mut Lines) {
    let words = targets.split_ascii_whitespace();
    let patience = words.clone().find_map(|word| word.strip_prefix(PROBE_PATIENCE)?.parse().ok());
    let patience = patience.map_or(PATIENCE, Duration::from_millis);
    let given = TARGETS.into_iter().chain(words.take(8));
    let addresses: Vec<(&str, SocketAddr)> =
        given.filter_map(|target| Some((target, target.parse().ok()?))).collect();
    // With a long time for each they are tried at the same time. A thread that can't be started has no result, and flock
    // then counts the network as not probed.
    let results: Vec<Option<&[u8]>> = if patience == PATIENCE {
        addresses.iter().map(|(_, address)| Some(connect(address, patience))).collect()
    } else {
        std::thread::scope(|scope| {
            let tries: Vec<_> = addresses
                .iter()
                .map(|(_, address)| {
                    std::thread::Builder::new().spawn_scoped(scope, || connect(address, patience)).ok()
                })
                .collect();
            tries.into_iter().map(|found| found.and_then(|found| found.join().ok())).collect()
        })
    };
    for ((target, _), result) in addresses.iter().zip(results) {
        lines.say("connect", &[target.as_bytes(), result.unwrap_or(b"unknown")]);
    }
}

fn connect(address: &SocketAddr, patience: Duration) -> &'static [u8] {
    match TcpStream::connect_timeout(address, patience) {
        Ok(_) => b"open",
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => b"refused",
            ErrorKind::TimedOut | ErrorKind::WouldBlock => b"timeout",
            _ => b"unreachable",
        },
    }
}

/// Reports `socket=<path> <open|closed> <inside|outside|unknown>` for each socket: if a connection was accepted, and
/// where the listener runs. A process of the host or of another container has no pid in here.
pub fn sockets(found: &[PathBuf], lines: &mut Lines) {
    let engines = ENGINES.iter().map(Path::new).filter(|path| path.exists());
    let mut paths: BTreeSet<&Path> = engines.collect();
    paths.extend(found.iter().map(PathBuf::as_path).take(MAX_SOCKETS));
    for path in paths {
        let (state, where_): (&[u8], &[u8]) = match calls::dial(path.as_os_str().as_bytes()) {
            Dialled::Closed => (b"closed", b"unknown"),
            Dialled::Unknown => (b"open", b"unknown"),
            Dialled::Open { listener: 0 } => (b"open", b"outside"),
            Dialled::Open { .. } => (b"open", b"inside"),
        };
        lines.say("socket", &[path.as_os_str().as_bytes(), state, where_]);
    }
}
