//! The tar archive of a bundle. Every header follows from the name and the size of its entry, and a reader accepts no
//! other header: no links, no folders, no owners, no times, no extensions.

use std::io::{self, Read, Write};

use super::{MAX_BUNDLE, refused};
use crate::receipt::ReceiptError;

const BLOCK: usize = 512;
/// Limit on the number of entries.
const MAX_ENTRIES: usize = 500_000;

/// Returns the only header that an entry of this name and size has. `None` if the name is too long.
fn header(name: &str, size: u64) -> Option<[u8; BLOCK]> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).ok()?;
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    Some(*header.as_bytes())
}

/// Writes entries to an archive.
pub(super) struct Writer<W: Write>(pub W);

impl<W: Write> Writer<W> {
    pub fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let header = header(name, content.len() as u64);
        self.0.write_all(&header.ok_or_else(|| io::Error::other("a name is too long"))?)?;
        self.0.write_all(content)?;
        self.0.write_all(&[0; BLOCK][..padding(content.len())])
    }

    pub fn finish(mut self) -> io::Result<W> {
        self.0.write_all(&[0; 2 * BLOCK])?;
        self.0.flush()?;
        Ok(self.0)
    }
}

fn padding(length: usize) -> usize {
    (BLOCK - length % BLOCK) % BLOCK
}

/// Reads all entries of an archive in their order.
///
/// # Errors
///
/// Returns [`ReceiptError::Malformed`] if the archive is not one that [`Writer`] writes, or is too large.
pub(super) fn entries(from: impl Read) -> Result<Vec<(String, Vec<u8>)>, ReceiptError> {
    let mut from = from.take(MAX_BUNDLE + 1);
    let mut found = Vec::new();
    let broken = |error: io::Error| refused(format!("it can't be read: {error}"));
    loop {
        let mut block = [0; BLOCK];
        from.read_exact(&mut block).map_err(broken)?;
        if block == [0; BLOCK] {
            break;
        }
        let (name, size) =
            name_and_size(&block).ok_or_else(|| refused("a header in it is not one of a bundle"))?;
        if header(&name, size) != Some(block) {
            return Err(refused("a header in it is not one of a bundle"));
        }
        if found.len() == MAX_ENTRIES {
            return Err(refused("it has too many parts"));
        }
        let length = usize::try_from(size).map_err(|_| refused("a part of it is too large"))?;
        if size > crate::receipt::objects::MAX_OBJECT as u64 {
            return Err(refused("a part of it is too large"));
        }
        // Grows with what is really there, whatever the header says.
        let mut content = Vec::new();
        from.by_ref().take(size).read_to_end(&mut content).map_err(broken)?;
        let mut rest = vec![0; padding(length)];
        from.read_exact(&mut rest).map_err(broken)?;
        if content.len() != length || rest.iter().any(|byte| *byte != 0) {
            return Err(refused("it is cut off, or has bytes between its parts"));
        }
        found.push((name, content));
    }
    let mut end = Vec::new();
    from.take(2 * BLOCK as u64).read_to_end(&mut end).map_err(broken)?;
    if end != [0; BLOCK] {
        return Err(refused("it does not end as an archive does, or is too large"));
    }
    Ok(found)
}

fn name_and_size(block: &[u8; BLOCK]) -> Option<(String, u64)> {
    let name = block.get(..100)?.split(|byte| *byte == 0).next()?;
    let size = std::str::from_utf8(block.get(124..135)?).ok()?;
    Some((std::str::from_utf8(name).ok()?.to_owned(), u64::from_str_radix(size, 8).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> Vec<u8> {
        let mut writer = Writer(Vec::new());
        writer.add("receipt.json", b"{}").unwrap();
        writer.add("objects/a", &[7; 513]).unwrap();
        writer.finish().unwrap()
    }

    #[test]
    fn an_archive_is_read_back_and_tar_can_read_it() {
        let bytes = archive();
        let found = entries(bytes.as_slice()).unwrap();
        assert_eq!(found[0], ("receipt.json".to_owned(), b"{}".to_vec()));
        assert_eq!(found[1].1, [7; 513]);
        let mut plain = tar::Archive::new(bytes.as_slice());
        let names: Vec<_> =
            plain.entries().unwrap().map(|entry| entry.unwrap().path().unwrap().into_owned()).collect();
        assert_eq!(names, [std::path::Path::new("receipt.json"), std::path::Path::new("objects/a")]);
    }

    #[test]
    fn any_other_byte_outside_the_contents_is_refused() {
        let good = archive();
        for at in 0..good.len() {
            let in_content = (512..514).contains(&at) || (1536..2049).contains(&at);
            if in_content {
                continue;
            }
            let mut bad = good.clone();
            bad[at] ^= 1;
            let found = entries(bad.as_slice());
            // The name of an entry is judged later.
            let is_name = (0..100).contains(&at) || (1024..1124).contains(&at);
            assert!(
                found.is_err() || (is_name && found.unwrap() != entries(good.as_slice()).unwrap()),
                "{at}"
            );
        }
        for length in [0, 100, 511, 512, 600, 1024, good.len() - 1, good.len() - 512] {
            assert!(entries(&good[..length]).is_err(), "{length}");
        }
        assert!(entries([good.as_slice(), &[0]].concat().as_slice()).is_err());
    }
}
