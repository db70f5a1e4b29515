//! Identifies contents by their hash, and reads files so that holes cost nothing.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::str::FromStr;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::id::hex;

/// Bytes that are read, hashed and written at once. A block of zeros is a hole.
pub(super) const BLOCK: usize = 64 << 10;

/// The SHA-256 of a content. It is the name under which the content is stored.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentId(pub(super) [u8; 32]);

impl ContentId {
    /// Returns the id of the bytes of a tree.
    pub(super) fn of_tree(bytes: &[u8]) -> Self {
        // The prefix keeps trees and files apart: no file can be taken for a tree.
        Self(Sha256::new().chain_update(b"tree\0").chain_update(bytes).finalize().into())
    }

    /// Returns the id of a file with these bytes.
    pub(super) fn of_file(bytes: &[u8]) -> Self {
        let mut hasher = ContentHasher::new(bytes.len() as u64);
        for (at, block) in bytes.chunks(BLOCK).enumerate() {
            hasher.block((at * BLOCK) as u64, block);
        }
        hasher.id()
    }
}

impl fmt::Display for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for ContentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A text that is no content id.
#[derive(Debug, thiserror::Error)]
#[error("not the id of a content")]
pub struct NotAnId;

impl FromStr for ContentId {
    type Err = NotAnId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return Err(NotAnId);
        }
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(bytes.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16).filter(|_| !c.is_ascii_uppercase());
            let (high, low) = (digit(pair[0]).ok_or(NotAnId)?, digit(pair[1]).ok_or(NotAnId)?);
            *byte = u8::try_from(high * 16 + low).map_err(|_| NotAnId)?;
        }
        Ok(Self(id))
    }
}

impl Serialize for ContentId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Hashes a file by its size and its blocks that are not all zeros. A file has the same id with and without holes.
pub(super) struct ContentHasher(Sha256);

impl ContentHasher {
    pub(super) fn new(size: u64) -> Self {
        Self(Sha256::new().chain_update(b"file\0").chain_update(size.to_le_bytes()))
    }

    pub(super) fn block(&mut self, at: u64, bytes: &[u8]) {
        if bytes.iter().any(|byte| *byte != 0) {
            self.0.update(at.to_le_bytes());
            self.0.update(bytes);
        }
    }

    pub(super) fn id(self) -> ContentId {
        ContentId(self.0.finalize().into())
    }
}

/// Passes the blocks of a file up to `size` bytes to `each`, without its holes.
///
/// # Errors
///
/// Returns [`io::ErrorKind::UnexpectedEof`] if the file has become shorter, and otherwise the error of a system call or
/// of `each`.
pub(super) fn blocks(
    file: &File,
    size: u64,
    mut each: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let block = BLOCK as u64;
    let mut buffer = vec![0; usize::try_from(size.min(block)).unwrap_or(BLOCK)];
    let mut at = 0;
    while at < size {
        // A small file has no hole that is worth a system call.
        if size > block {
            let Some(data) = next_data(file, at)? else { break };
            at = data / block * block;
            if at >= size {
                break;
            }
        }
        let length = usize::try_from((size - at).min(block)).unwrap_or(BLOCK);
        file.read_exact_at(&mut buffer[..length], at)?;
        each(at, &buffer[..length])?;
        at += block;
    }
    Ok(())
}

/// Returns the first place from `at` on that is no hole, or `None` if only a hole follows.
fn next_data(file: &File, at: u64) -> io::Result<Option<u64>> {
    let from = i64::try_from(at).map_err(io::Error::other)?;
    match lseek(file, from, Whence::SeekData) {
        Ok(data) => Ok(Some(u64::try_from(data).unwrap_or(at).max(at))),
        Err(Errno::ENXIO) => Ok(None),
        // The file system does not know about holes.
        Err(Errno::EINVAL) => Ok(Some(at)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn id_of(file: &File) -> ContentId {
        let size = file.metadata().unwrap().len();
        let mut hasher = ContentHasher::new(size);
        blocks(file, size, |at, bytes| {
            hasher.block(at, bytes);
            Ok(())
        })
        .unwrap();
        hasher.id()
    }

    #[test]
    fn a_hole_and_zeros_have_the_same_id() {
        let hole = tempfile::tempfile().unwrap();
        hole.set_len(5 * BLOCK as u64 + 7).unwrap();
        hole.write_all_at(b"x", 3 * BLOCK as u64 + 1).unwrap();
        let mut full = tempfile::tempfile().unwrap();
        let mut bytes = vec![0; 5 * BLOCK + 7];
        bytes[3 * BLOCK + 1] = b'x';
        full.write_all(&bytes).unwrap();
        assert_eq!(id_of(&hole), id_of(&full));
        assert_eq!(id_of(&full), ContentId::of_file(&bytes));
        bytes.push(0);
        assert_ne!(id_of(&full), ContentId::of_file(&bytes), "one zero more is another content");
    }

    #[test]
    fn an_empty_terabyte_is_read_at_once() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 40).unwrap();
        let mut read = 0;
        blocks(&file, 1 << 40, |_, bytes| {
            read += bytes.len();
            Ok(())
        })
        .unwrap();
        assert_eq!(read, 0);
    }

    #[test]
    fn an_id_round_trips_and_nothing_else_parses() {
        let id = ContentId::of_tree(b"x");
        assert_eq!(id.to_string().parse::<ContentId>().unwrap(), id);
        assert_ne!(id, ContentId::of_file(b"x"));
        for bad in [String::new(), "é".repeat(32), id.to_string().to_uppercase(), format!("{id}0")] {
            assert!(bad.parse::<ContentId>().is_err(), "{bad}");
        }
    }
}
