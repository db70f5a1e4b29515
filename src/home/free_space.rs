//! The free space of a disk.

use std::io;
use std::path::Path;

/// Bytes that stay free for everything else: a disk that is full would stop the gateway.
pub(crate) const RESERVE: u64 = 64 << 20;

/// Returns the number of bytes that are free for this user on the disk of a folder.
///
/// # Errors
///
/// Returns an error if the file system of the folder can't be queried.
pub(crate) fn measure(folder: &Path) -> io::Result<u64> {
    let found = nix::sys::statvfs::statvfs(folder)?;
    // The blocks available to this user are fewer than all free ones, because some are reserved for root.
    Ok(found.blocks_available().saturating_mul(found.fragment_size()))
}
