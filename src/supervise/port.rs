//! Who holds the gateway's port, where that can be known.

use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::health::{self, HealthError, Identity, Imposter, PORT_HINT};
use super::mark::Mark;
use super::unit::NAMES;
use crate::error::{Explain, Kind};
use crate::home::Home;
use crate::process::ProcessId;

/// The port is somebody else's.
#[derive(Debug, thiserror::Error)]
pub enum PortTaken {
    /// Another flock's.
    #[error("port {port} is taken by the gateway of {}", owner(home.as_ref(), *pid))]
    OtherHome {
        /// Which port.
        port: u16,
        /// Whose gateway it is, where that can be known.
        home: Option<PathBuf>,
        /// The gateway's pid.
        pid: i32,
    },
    /// Some program's.
    #[error("port {port} is taken by {}", holder.as_ref().map_or("another program".to_owned(), ToString::to_string))]
    Program {
        /// Which port.
        port: u16,
        /// Who holds it, where that can be known.
        holder: Option<Holder>,
    },
    /// Nobody's, but it can't be had, as a port below 1024.
    #[error("port {port} can't be listened on")]
    Refused {
        /// Which port.
        port: u16,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// A process that listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its pid.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

fn owner(home: Option<&PathBuf>, pid: i32) -> String {
    match home {
        Some(home) => format!("the home {} (pid {pid})", home.display()),
        None => format!("another home (pid {pid})"),
    }
}

impl Explain for PortTaken {
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

/// Whether this home's gateway can have the port, or has it already.
///
/// # Errors
///
/// If somebody else has it, with who that is where it can be known.
pub async fn check(home: &Home, port: u16, identity: &Identity) -> Result<(), PortTaken> {
    let end = Instant::now() + SETTLING;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(source) => return Err(PortTaken::Refused { port, source }),
        }
        let asked = health::ask(port, identity, Duration::from_secs(2)).await;
        let holder = holder(port);
        match asked {
            Ok(_) => return Ok(()),
            Err(HealthError::Imposter(Imposter::OtherHome { pid, .. })) => {
                let pid = holder.map_or(pid, |holder| holder.pid);
                return Err(PortTaken::OtherHome { port, home: home_of(pid), pid });
            }
            // A gateway of ours that is ending answers no more.
            Err(_) if holder.as_ref().is_some_and(|holder| is_ours(home, holder.pid)) => return Ok(()),
            Err(_) if holder.is_some() || Instant::now() >= end => {
                return Err(PortTaken::Program { port, holder });
            }
            // Nobody to be seen: it has just ended, or is another user's.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// Whether a port is free, after a moment for whom has just let go of it.
///
/// # Errors
///
/// If somebody has it, with who that is where it can be known, or nobody may.
pub async fn free(port: u16) -> Result<(), PortTaken> {
    let end = Instant::now() + SETTLING;
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                return Err(PortTaken::Refused { port, source: error });
            }
            Err(_) if Instant::now() >= end => return Err(PortTaken::Program { port, holder: holder(port) }),
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// How long a port may look taken by nobody.
const SETTLING: Duration = Duration::from_secs(1);

fn is_ours(home: &Home, pid: i32) -> bool {
    ProcessId::of(pid).is_some_and(|process| NAMES.iter().any(|name| Mark::new(home, name).is_on(process)))
}

/// The home in a process' environment.
fn home_of(pid: i32) -> Option<PathBuf> {
    let environment = fs_err::read(format!("/proc/{pid}/environ")).ok()?;
    let name = crate::env::HOME_DIR.name.as_bytes();
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"=")))?;
    std::str::from_utf8(value).ok().map(PathBuf::from)
}

/// The process that listens on a port of this machine; `None` where it is another user's or the system
/// does not tell.
#[must_use]
pub fn holder(port: u16) -> Option<Holder> {
    let inode = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs_err::read_to_string(table).ok())
        .find_map(|table| listening_inode(&table, port))?;
    let wanted = format!("socket:[{inode}]");
    for entry in fs_err::read_dir("/proc").ok()? {
        let Ok(entry) = entry else { continue };
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(files) = fs_err::read_dir(entry.path().join("fd")) else { continue };
        let holds = files
            .flatten()
            .any(|file| fs_err::read_link(file.path()).is_ok_and(|to| to.as_os_str() == wanted.as_str()));
        if holds {
            let name = fs_err::read_to_string(entry.path().join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().filter(|c| !c.is_control()).collect();
            return Some(Holder { pid, name });
        }
    }
    None
}

/// The inode of the socket that listens on `port`, from a table of the kernel's.
fn listening_inode(table: &str, port: u16) -> Option<u64> {
    const LISTENING: &str = "0A";
    let suffix = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (address, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (address.ends_with(&suffix) && *state == LISTENING).then(|| inode.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nobody() -> Identity {
        Identity { instance: "i".to_owned(), token: "t".to_owned() }
    }

    #[tokio::test]
    async fn who_listens_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let found = holder(port).unwrap();
        assert_eq!(found.pid, crate::process::ProcessId::current().pid);
        assert!(!found.name.is_empty());
        // It answers no HTTP: it hangs up on whoever connects.
        let hanging_up = std::thread::spawn(move || {
            drop(listener.accept());
            listener
        });
        let home = Home::new("/tmp/flock-port-test".into(), None);
        let error = check(&home, port, &nobody()).await.unwrap_err();
        assert!(matches!(&error, PortTaken::Program { holder: Some(_), .. }), "{error}");
        assert_eq!(error.kind(), Kind::Failed);
        drop(hanging_up.join().unwrap());
        assert!(check(&home, port, &nobody()).await.is_ok(), "it is free again");
    }

    #[test]
    fn the_kernels_table_is_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:0EC3 0100007F:1234 01 00000000:00000000 00:00000000 00000000     0        0 11 1\n\
             1: 0100007F:0EC3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 42 1\n";
        assert_eq!(listening_inode(table, 0x0ec3), Some(42));
        assert_eq!(listening_inode(table, 80), None);
        assert_eq!(listening_inode("garbage\n\n1 2 3", 80), None);
    }
}
