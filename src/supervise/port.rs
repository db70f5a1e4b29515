//! The holder of the gateway's port, as far as it can be found out.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::env_marker::EnvMarker;
use super::health::{self, HealthError, HomeIdentity, Imposter, PORT_HINT};
use super::unit::NAMES;
use crate::error::{Explain, Kind};
use crate::home::Home;
use crate::process::{ProcessId, descends};

/// An error for a port that this home's gateway can't use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PortError {
    /// The gateway of another home has the port.
    #[error("port {port} is taken by the gateway of {}", describe_owner(home.as_ref(), *pid))]
    OtherHome {
        port: u16,
        /// The other home, if it can be found out.
        home: Option<PathBuf>,
        /// The pid of that gateway.
        pid: i32,
    },
    /// Another program has the port.
    #[error("port {port} is taken by {}", holder.as_ref().map_or("another program".to_owned(), ToString::to_string))]
    Program {
        port: u16,
        /// The program, if it can be found out.
        holder: Option<PortHolder>,
    },
    /// The port is free but may not be used, for example because it is below 1024.
    #[error("port {port} can't be listened on")]
    Refused {
        port: u16,
        #[source]
        source: std::io::Error,
    },
}

/// A process that listens on a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortHolder {
    pub pid: i32,
    /// The name from `/proc/<pid>/comm`, without control characters.
    pub name: String,
}

impl std::fmt::Display for PortHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

fn describe_owner(home: Option<&PathBuf>, pid: i32) -> String {
    match home {
        Some(home) => format!("the home {} (pid {pid})", home.display()),
        None => format!("another home (pid {pid})"),
    }
}

impl Explain for PortError {
    fn kind(&self) -> Kind {
        match self {
            Self::OtherHome { .. } => Kind::Conflict,
            Self::Program { .. } | Self::Refused { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::OtherHome { home: Some(home), .. } => Some(format!("flock --home {} stop", home.display())),
            _ => Some(PORT_HINT.to_owned()),
        }
    }
}

/// Checks that this home's gateway can use the port or has it already.
///
/// # Errors
///
/// Returns [`PortError`] if another program has the port, or if it may not be used.
pub(crate) async fn check(home: &Home, port: u16, identity: &HomeIdentity) -> Result<(), PortError> {
    let end = Instant::now() + SETTLE_TIMEOUT;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(source) => return Err(PortError::Refused { port, source }),
        }
        // Something listens. It may be this home's own gateway, which can prove that.
        let asked = health::ask(port, identity, Duration::from_secs(2)).await;
        let holder = holder(port);
        match asked {
            Ok(_) => return Ok(()),
            Err(HealthError::Imposter(Imposter::OtherHome { pid, .. })) => {
                // The kernel is more reliable than what the other program reports.
                let pid = holder.map_or(pid, |holder| holder.pid);
                return Err(PortError::OtherHome { port, home: home_of_process(pid), pid });
            }
            // This home's gateway does not answer any more while it ends.
            Err(_) if holder.as_ref().is_some_and(|holder| is_ours(home, holder.pid)) => return Ok(()),
            Err(_) if holder.is_some() || Instant::now() >= end => {
                return Err(PortError::Program { port, holder });
            }
            // No holder is visible: it has just ended, or belongs to another user.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Checks that a port is free. Waits a moment for a program that is just giving it up.
///
/// # Errors
///
/// Returns [`PortError`] if another program has the port, or if it may not be used.
pub(crate) async fn free(port: u16) -> Result<(), PortError> {
    let end = Instant::now() + SETTLE_TIMEOUT;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                return Err(PortError::Refused { port, source: error });
            }
            Err(_) if Instant::now() >= end => return Err(PortError::Program { port, holder: holder(port) }),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// The time for which a port may appear taken without a visible holder.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);

fn is_ours(home: &Home, pid: i32) -> bool {
    ProcessId::of(pid)
        .is_some_and(|process| NAMES.iter().any(|name| EnvMarker::new(home, name).is_on(process)))
}

/// Returns the home named in a process's environment.
fn home_of_process(pid: i32) -> Option<PathBuf> {
    let environment = fs_err::read(format!("/proc/{pid}/environ")).ok()?;
    let name = crate::env::HOME_DIR.name.as_bytes();
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")))?;
    std::str::from_utf8(value).ok().map(PathBuf::from)
}

/// Returns the process that listens on a port of 127.0.0.1. Returns `None` if it belongs to another user or the system
/// does not tell.
#[must_use]
pub(crate) fn holder(port: u16) -> Option<PortHolder> {
    sockets(port)?.first().and_then(|socket| process_with_socket(socket.inode))
}

/// Checks that the listener on a port of 127.0.0.1 is `process` or a descendant of it. Succeeds if the system does not
/// tell who listens.
///
/// # Errors
///
/// Returns a description of the actual holder, as in `node (pid 7)`.
pub(crate) fn check_held_by(port: u16, process: ProcessId) -> Result<(), String> {
    let Some(sockets) = sockets(port) else { return Ok(()) };
    let Some(socket) = sockets.first() else { return Err("nobody".to_owned()) };
    match process_with_socket(socket.inode) {
        Some(holder) if descends(holder.pid, process) => Ok(()),
        Some(holder) => Err(holder.to_string()),
        None => Err(format!("a process of the user {}", socket.uid)),
    }
}

/// Returns the process that has a socket open, if this user is allowed to see it.
fn process_with_socket(inode: u64) -> Option<PortHolder> {
    let wanted = format!("socket:[{inode}]");
    for entry in fs_err::read_dir("/proc").ok()? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // The descriptors of other users' processes can't be listed.
        let Ok(files) = fs_err::read_dir(entry.path().join("fd")) else { continue };
        let holds = files
            .flatten()
            .any(|file| fs_err::read_link(file.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()));
        if holds {
            let name = fs_err::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
            return Some(PortHolder { pid, name });
        }
    }
    None
}

/// Returns the sockets that a connection to this port of 127.0.0.1 could reach, the preferred one first. Returns `None`
/// if the system has no table of sockets.
fn sockets(port: u16) -> Option<Vec<ListeningSocket>> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| fs_err::read_to_string(table).ok());
    // One table is enough: a system without IPv6 lacks the second.
    if tables.iter().all(Option::is_none) {
        return None;
    }
    let mut found: Vec<ListeningSocket> =
        tables.iter().flatten().flat_map(|table| listening_sockets(table, port)).collect();
    found.sort_by_key(|socket| socket.rank);
    Some(found)
}

/// A listening socket, from the kernel's table.
#[derive(Debug, PartialEq, Eq)]
struct ListeningSocket {
    /// The order of preference: the kernel prefers a socket bound to the exact address to one bound to all addresses.
    rank: usize,
    inode: u64,
    uid: u32,
}

/// Finds the sockets in a kernel table that listen on `port` and can be reached through 127.0.0.1.
fn listening_sockets(table: &str, port: u16) -> Vec<ListeningSocket> {
    // The state LISTEN in `/proc/net/tcp`.
    const LISTENING: &str = "0A";
    /// The addresses 127.0.0.1, 127.0.0.1 mapped into IPv6, and "all addresses" of both, in this machine's byte order.
    const REACHED: [[u32; 4]; 3] = [
        [0, 0, 0, u32::from_ne_bytes([127, 0, 0, 1])],
        [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), u32::from_ne_bytes([127, 0, 0, 1])],
        [0, 0, 0, 0],
    ];
    let address = |text: &str| -> Option<[u32; 4]> {
        let words: Option<Vec<u32>> = (0..text.len() / 8)
            .map(|word| u32::from_str_radix(text.get(word * 8..word * 8 + 8)?, 16).ok())
            .collect();
        let words = words?;
        let mut whole = [0; 4];
        whole.get_mut(4_usize.checked_sub(words.len())?..)?.copy_from_slice(&words);
        Some(whole)
    };
    // The first line is the header.
    let rows = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (local, state) = (fields.get(1)?, fields.get(3)?);
        let (host, suffix) = local.split_once(':')?;
        if *state != LISTENING || u16::from_str_radix(suffix, 16).ok()? != port {
            return None;
        }
        let host = address(host)?;
        let rank = REACHED.iter().position(|reached| *reached == host)?;
        Some(ListeningSocket { rank, inode: fields.get(9)?.parse().ok()?, uid: fields.get(7)?.parse().ok()? })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> HomeIdentity {
        HomeIdentity { instance: "i".to_owned(), token: "t".to_owned() }
    }

    #[tokio::test]
    async fn the_listening_process_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = holder(port).unwrap();
        assert_eq!(found.pid, crate::process::ProcessId::current().pid);
        assert!(!found.name.is_empty());
        // This listener speaks no HTTP: it hangs up on each client.
        let hanging_up = std::thread::spawn(move || {
            drop(listener.accept());
            listener
        });
        let home = Home::new("/tmp/flock-port-test".into(), None);
        let error = check(&home, port, &nobody()).await.unwrap_err();
        assert!(matches!(&error, PortError::Program { holder: Some(_), .. }), "{error}");
        assert_eq!(error.kind(), Kind::Failed);
        drop(hanging_up.join().unwrap());
        assert!(check(&home, port, &nobody()).await.is_ok(), "it is free again");
    }

    #[test]
    fn the_kernels_table_is_read() {
        let head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";
        let row = |host: &str, state: &str, uid: u32, inode: u64| {
            format!(
                "   0: {host}:0EC3 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {uid} 0 {inode} 1\n"
            )
        };
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        let other = format!("{:08X}", u32::from_ne_bytes([192, 168, 1, 5]));
        let mapped = format!("{:016X}{:08X}{loopback}", 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]));
        let table = [
            head,
            &row(&loopback, "01", 0, 11),
            &row(&other, "0A", 0, 12),
            &row("00000000", "0A", 7, 42),
            &row(&loopback, "0A", 1000, 43),
        ]
        .concat();
        let mut found = listening_sockets(&table, 0x0ec3);
        found.sort_by_key(|socket| socket.rank);
        assert_eq!(
            found,
            [
                ListeningSocket { rank: 0, inode: 43, uid: 1000 },
                ListeningSocket { rank: 2, inode: 42, uid: 7 }
            ]
        );
        let table6 = [head, &row(&"0".repeat(32), "0A", 1, 51), &row(&mapped, "0A", 2, 52)].concat();
        let ranks: Vec<(usize, u64)> =
            listening_sockets(&table6, 0x0ec3).iter().map(|one| (one.rank, one.inode)).collect();
        assert_eq!(ranks, [(2, 51), (1, 52)]);
        assert!(listening_sockets(&table, 80).is_empty());
        assert!(listening_sockets("garbage\n\n1 2 3", 80).is_empty());
    }

    #[test]
    fn only_this_process_and_its_children_hold_its_port() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let this = ProcessId::current();
        assert_eq!(check_held_by(port, this), Ok(()));
        let other = ProcessId { started: this.started + 1, ..this };
        let said = check_held_by(port, other).unwrap_err();
        assert!(said.contains(&format!("pid {}", this.pid)), "{said}");
        drop(listener);
        assert_eq!(check_held_by(port, this), Err("nobody".to_owned()));
    }
}
