//! Checks of the machine: the gateway's port, the `flock` that a shell finds, and free disk space.

use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use super::super::{Failure, team, util_linux, write_check};
use super::check::Check;
use crate::env;
use crate::home::{Home, free_space};
use crate::supervise::gateway_client::Client;
use crate::supervise::health::PORT_HINT;

/// Checks that the gateway's port is used by this home's gateway, which is `found`, or by nobody.
pub(crate) async fn gateway(home: &Home, port: u16, found: Result<Option<Client>, Failure>) -> Check {
    const NAME: &str = "gateway";
    match found {
        Ok(Some(client)) if client.address().port() != port => {
            Check::warn(NAME, team::port_message(client.address().port(), port), "flock restart")
        }
        Ok(Some(client)) => match team::trouble(home, client.address().port()).await {
            Some(reason) => Check::bad(NAME, reason, "flock logs gateway"),
            None => Check::ok(NAME, format!("runs at http://{}", client.address())),
        },
        Err(failure) => Check::failed(NAME, failure),
        // Binding the port is the only reliable test. The listener is closed at once.
        Ok(None) => match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(_) => Check::ok(NAME, format!("not running; port {port} is free")),
            Err(error) => Check::bad(NAME, format!("port {port} can't be used: {error}"), PORT_HINT),
        },
    }
}

/// Checks that a shell finds this program as `flock`.
pub(crate) fn path() -> Check {
    const NAME: &str = "path";
    let own = own_path();
    let add = own.parent().unwrap_or(Path::new("/")).display().to_string();
    match first_flock() {
        // The file on PATH is often a symbolic link, so the real paths are compared.
        Some(first) if first.canonicalize().is_ok_and(|real| real == own) => {
            Check::ok(NAME, format!("the flock on PATH is {}", first.display()))
        }
        Some(first) => {
            let text =
                format!("the flock on PATH is {}, not this program, {}", first.display(), own.display());
            Check::warn(NAME, text, format!("put {add} first on PATH"))
        }
        None => Check::warn(NAME, "no flock is on PATH", format!("put {add} on PATH")),
    }
}

/// Reports the lock program of util-linux, which has the same name and which system scripts call.
pub(crate) fn other_flock() -> Check {
    const NAME: &str = "other";
    match util_linux::other_flock() {
        None => Check::ok(NAME, "there is no other program named flock on PATH"),
        Some(other) if first_flock().as_deref() == Some(&other) => {
            Check::ok(NAME, format!("the lock program {} comes first on PATH", other.display()))
        }
        Some(other) => {
            Check::ok(NAME, format!("{} is run for command lines that are meant for it", other.display()))
        }
    }
}

/// Checks the free space on the home's file system.
pub(crate) fn space(home: &Home) -> Check {
    const NAME: &str = "space";
    // The home may not exist yet. Its nearest existing parent is on the file system that it will be on.
    let there = home.root().ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match free_space::measure(there) {
        Ok(free) => {
            let mib = free >> 20;
            let text = format!("{mib} MiB free at {}", there.display());
            if mib < MIN_FREE_MIB {
                Check::warn(NAME, text, format!("df -h {}", there.display()))
            } else {
                Check::ok(NAME, text)
            }
        }
        Err(error) => Check::warn(NAME, format!("{}: {error}", there.display()), "df -h"),
    }
}

/// Checks that the home can be written to.
pub(crate) fn writable(home: &Home) -> Option<Check> {
    write_check::unwritable(home).map(|error| Check::failed("disk", error.into()))
}

/// Free space in MiB below which the next image or package is likely to fail.
const MIN_FREE_MIB: u64 = 2048;

fn first_flock() -> Option<PathBuf> {
    which::which_in("flock", env::PATH.get_os(), "/").ok()
}

fn own_path() -> PathBuf {
    std::env::current_exe().and_then(|exe| exe.canonicalize()).unwrap_or_default()
}
