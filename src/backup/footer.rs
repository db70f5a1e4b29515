//! The last bytes of an archive, which say where its manifest is.
//!
//! An archive is three members of gzip behind each other, which unpack as one: the files, the manifest with the end of the
//! tar file, and an empty member whose extra field is this. So flock reads the manifest before the files, although its
//! content is known only after them. The digests are of the packed bytes, so a change of any byte is noticed.

use super::manifest::Digest;

/// The size of the footer.
pub(super) const SIZE: usize = 114;

/// The position and content of an archive's manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Footer {
    /// Offset of the member with the manifest.
    pub(super) offset: u64,
    /// Number of bytes of the manifest itself.
    pub(super) size: u64,
    /// SHA-256 of the packed files.
    pub(super) files: Digest,
    /// SHA-256 of the packed manifest.
    pub(super) manifest: Digest,
}

/// The beginning of a member of gzip with an extra field, up to its length.
const BEGIN: [u8; 12] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 92, 0];
/// The name of the extra field, and the length of its content.
const FIELD: [u8; 4] = [b'F', b'K', 88, 0];
const MAGIC: [u8; 8] = *b"flockbk1";
/// An empty compressed text with its checksum and length.
const END: [u8; 10] = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0];

impl Footer {
    pub(super) fn encode(&self) -> Vec<u8> {
        let (offset, size) = (self.offset.to_le_bytes(), self.size.to_le_bytes());
        [&BEGIN[..], &FIELD, &MAGIC, &offset, &size, &self.files.0, &self.manifest.0, &END].concat()
    }

    /// Returns `None` if these are not the last bytes of an archive.
    pub(super) fn decode(bytes: &[u8; SIZE]) -> Option<Self> {
        let rest = bytes.strip_prefix(&BEGIN)?.strip_prefix(&FIELD)?.strip_prefix(&MAGIC)?;
        let (offset, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let (files, rest) = rest.split_first_chunk()?;
        let (manifest, rest) = rest.split_first_chunk()?;
        let footer = Self {
            offset: u64::from_le_bytes(*offset),
            size: u64::from_le_bytes(*size),
            files: Digest(*files),
            manifest: Digest(*manifest),
        };
        (rest == END).then_some(footer)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_footer_is_an_empty_member_of_gzip_and_is_read_back() {
        let footer = Footer { offset: 77, size: 1 << 40, files: Digest([5; 32]), manifest: Digest([6; 32]) };
        let bytes: [u8; SIZE] = footer.encode().try_into().unwrap();
        assert_eq!(Footer::decode(&bytes), Some(footer));
        let mut text = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
        assert!(text.is_empty());
        for at in (0..24).chain(104..SIZE) {
            let mut other = bytes;
            other[at] ^= 1;
            assert_eq!(Footer::decode(&other), None, "byte {at}");
        }
    }
}
