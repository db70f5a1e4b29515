//! Opening files of the home that must be regular files. Opening a FIFO would block until somebody writes to it, which
//! nobody does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
///
/// Returns an error if the file can't be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_with(path, OpenOptions::new().read(true))
}

/// Opens a regular file with `options`, whose custom flags are replaced.
///
/// # Errors
///
/// Returns an error if the file can't be opened, or is not a regular file.
pub(crate) fn open_with(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // O_NONBLOCK has no effect on a regular file, and makes the open of a FIFO return at once.
    let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY | nix::libc::O_CLOEXEC;
    let file = match options.custom_flags(flags).open(path) {
        // A FIFO opened for writing that has no reader, or a socket.
        Err(error) if error.raw_os_error() == Some(nix::libc::ENXIO) => return Err(not_regular_error()),
        file => file?,
    };
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular_error()) }
}

/// Copies a regular file with its permissions.
///
/// # Errors
///
/// Returns an error if `from` can't be opened or is not a regular file, or if the copy can't be written.
pub fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    // Only the check is needed: `std::fs::copy` opens the file itself.
    drop(open(from)?);
    std::fs::copy(from, to)
}

fn not_regular_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_files_are_refused_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "x").unwrap();
        open(&at("file")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for name in ["fifo", "socket"] {
            let appending = open_with(&at(name), OpenOptions::new().append(true).create(true));
            let copied = copy(&at(name), &at("copy"));
            for error in [open(&at(name)).unwrap_err(), appending.unwrap_err(), copied.unwrap_err()] {
                assert_eq!(error.to_string(), "it is no regular file", "{name}");
            }
        }
        assert!(!at("copy").exists());
        assert_eq!(open(folder.path()).unwrap_err().to_string(), "it is no regular file");
        assert_eq!(open(&at("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
