//! Where the control socket is: in the home, or, where the home's path is too long for a socket, in the
//! user's runtime folder. The supervisor writes the latter into its PID file, because the variable that
//! names the runtime folder may be another one for whoever asks.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::env;
use crate::home::Home;
use crate::supervise::pid;

/// What fits into `sun_path` everywhere, its final zero included in the 104 bytes of the smallest.
const LONGEST: usize = 100;

/// The socket's place in the home, if it can be there.
#[must_use]
pub fn usual(home: &Home) -> Option<PathBuf> {
    Some(home.control_socket()).filter(|path| path.as_os_str().len() <= LONGEST)
}

/// Where a client finds the socket of a supervisor that may be running.
#[must_use]
pub fn find(home: &Home) -> Option<PathBuf> {
    let noted = || pid::read(&home.pid_file(super::super::SUPERVISOR))?.socket;
    // The PID file of a copied home tells of the supervisor of the home that it was copied from.
    let is_own = |socket: &PathBuf| socket.file_name().is_some_and(|name| *name == *name_of(home));
    usual(home).or_else(|| noted().filter(is_own))
}

/// The name of a home's socket outside of it.
fn name_of(home: &Home) -> String {
    let digest = Sha256::digest(home.root().as_os_str().as_bytes());
    format!("flock-{}.sock", crate::id::hex(&digest[..8]))
}

/// A place outside of the home, in a folder that nobody else can write.
///
/// # Errors
///
/// If there is none.
pub fn elsewhere(home: &Home) -> io::Result<PathBuf> {
    let name = name_of(home);
    let uid = nix::unistd::Uid::current().as_raw();
    let fits = |folder: PathBuf| {
        let path = folder.join(&name);
        (is_private(&folder, uid) && path.as_os_str().len() <= LONGEST).then_some(path)
    };
    let own = PathBuf::from(format!("/tmp/flock-{uid}"));
    env::RUNTIME_DIR
        .get_os()
        .and_then(|folder| fits(folder.into()))
        .or_else(|| fits(format!("/run/user/{uid}").into()))
        .or_else(|| {
            // Somebody else's folder of that name does not pass the test.
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
        assert!(place.as_os_str().len() <= LONGEST, "{}", place.display());
        assert_eq!(elsewhere(&long).unwrap(), place);
        assert_ne!(elsewhere(&Home::new(Path::new("/srv").join("y".repeat(100)), None)).unwrap(), place);
    }
}
