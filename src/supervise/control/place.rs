//! The location of the control socket.
//!
//! It is in the home, unless the home's path is too long for a socket address. Then it is in the user's runtime folder,
//! and the supervisor writes its path into the PID file: the environment variable that names the runtime folder may
//! differ for the client.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::env;
use crate::home::Home;
use crate::supervise::pid_file;

/// The longest path that fits into `sun_path` on every system. The smallest has 104 bytes with the final zero.
const MAX_SOCKET_PATH: usize = 100;

/// Returns the location in the home, if the path is short enough.
#[must_use]
pub(crate) fn usual(home: &Home) -> Option<PathBuf> {
    Some(home.control_socket()).filter(|path| path.as_os_str().len() <= MAX_SOCKET_PATH)
}

/// Returns the path at which a client can reach a supervisor, if one is running.
#[must_use]
pub(crate) fn find(home: &Home) -> Option<PathBuf> {
    let noted = || pid_file::read(&home.pid_file(super::super::SUPERVISOR))?.socket;
    // The PID file of a copied home names the socket of the original home's supervisor.
    let is_own = |socket: &PathBuf| socket.file_name().is_some_and(|name| *name == *fallback_name(home));
    usual(home).or_else(|| noted().filter(is_own))
}

/// Returns the file name of a home's socket outside the home.
fn fallback_name(home: &Home) -> String {
    let digest = Sha256::digest(home.root().as_os_str().as_bytes());
    format!("flock-{}.sock", crate::id::hex(&digest[..8]))
}

/// Returns a path for the socket outside the home, in a folder that only its owner can write to.
///
/// # Errors
///
/// Returns an error if there is no such folder whose path is short enough.
pub(crate) fn elsewhere(home: &Home) -> io::Result<PathBuf> {
    let name = fallback_name(home);
    let uid = nix::unistd::Uid::current().as_raw();
    let fits = |folder: PathBuf| {
        let path = folder.join(&name);
        (is_private(&folder, uid) && path.as_os_str().len() <= MAX_SOCKET_PATH).then_some(path)
    };
    let own = PathBuf::from(format!("/tmp/flock-{uid}"));
    env::RUNTIME_DIR
        .get_os()
        .and_then(|folder| fits(folder.into()))
        .or_else(|| fits(format!("/run/user/{uid}").into()))
        .or_else(|| {
            // If another user owns a folder of that name, the check in `fits` refuses it.
            let _ = std::fs::DirBuilder::new().mode(0o700).create(&own);
            fits(own)
        })
        .ok_or_else(|| {
            io::Error::other("the home's path is too long for a socket, and there is no runtime folder")
        })
}

fn is_private(folder: &Path, uid: u32) -> bool {
    std::fs::symlink_metadata(folder)
        .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid && meta.mode() & 0o077 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_home_has_its_socket_elsewhere() {
        let short = Home::new("/srv/a".into(), None);
        assert_eq!(usual(&short), Some("/srv/a/run/control.sock".into()));
        let long = Home::new(Path::new("/srv").join("x".repeat(100)), None);
        assert_eq!(usual(&long), None);
        let place = elsewhere(&long).unwrap();
        assert!(place.as_os_str().len() <= MAX_SOCKET_PATH, "{}", place.display());
        assert_eq!(elsewhere(&long).unwrap(), place);
        assert_ne!(elsewhere(&Home::new(Path::new("/srv").join("y".repeat(100)), None)).unwrap(), place);
    }
}
