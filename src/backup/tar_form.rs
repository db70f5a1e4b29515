//! The bytes of an entry in an archive.
//!
//! An archive is a tar file in GNU's form, so that `tar` unpacks it where there is no flock. flock itself does not parse
//! it: it computes from the manifest what has to be there, and compares that byte by byte. So an archive that it accepts
//! is one that it could have written.

use tar::{EntryType, GnuExtSparseHeader, GnuSparseHeader, Header};

use super::manifest::{Entry, Node};

/// The size of a block of a tar file.
pub(super) const BLOCK: u64 = 512;

/// The folder of the home's files in an archive.
const HOME: &[u8] = b"flock-backup/home/";
/// The name of the manifest in an archive.
const MANIFEST: &[u8] = b"flock-backup/manifest.json";

/// Returns everything that precedes an entry's content. `at` is the time of the backup in Unix seconds.
pub(super) fn head(entry: &Entry, at: u64) -> Vec<u8> {
    let mut name = [HOME, &entry.path.0].concat();
    let mut header = Header::new_gnu();
    header.set_mtime(at);
    header.set_size(entry.node.stored_bytes());
    let mut target = Vec::new();
    let mut more = Vec::new();
    match &entry.node {
        Node::Folder { mode } => {
            name.push(b'/');
            header.set_entry_type(EntryType::Directory);
            header.set_mode(*mode);
        }
        Node::File { mode, modified, size, data, .. } => {
            header.set_entry_type(EntryType::Regular);
            header.set_mode(*mode);
            header.set_mtime(*modified);
            if let Some(data) = data {
                header.set_entry_type(EntryType::GNUSparse);
                more = set_places(&mut header, *size, data);
            }
        }
        Node::Link { target: to } => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            target.clone_from(&to.0);
        }
        Node::Same { of } => {
            header.set_entry_type(EntryType::Link);
            header.set_mode(0o600);
            target = [HOME, &of.0].concat();
        }
    }
    let mut bytes = named(header, &name, &target);
    bytes.extend(more);
    bytes
}

/// Returns everything that precedes a manifest of this many bytes.
pub(super) fn manifest_head(size: u64, at: u64) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_mtime(at);
    header.set_size(size);
    named(header, MANIFEST, b"")
}

/// Returns the number of zeros that follow this many bytes of content.
pub(super) const fn padding(size: u64) -> usize {
    // The remainder is below the size of a block.
    ((BLOCK - size % BLOCK) % BLOCK) as usize
}

/// Sets the name and the target of a link, with entries for long ones in front, and the checksum.
fn named(mut header: Header, name: &[u8], target: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let old = header.as_old_mut();
    for (field, text, kind) in
        [(&mut old.linkname, target, EntryType::GNULongLink), (&mut old.name, name, EntryType::GNULongName)]
    {
        if text.len() > field.len() {
            bytes.extend(long(kind, text));
        }
        let short = text.len().min(field.len());
        field[..short].copy_from_slice(&text[..short]);
    }
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    bytes.extend(header.as_bytes());
    bytes
}

/// Returns the entry for a name that does not fit into a header.
fn long(kind: EntryType, text: &[u8]) -> Vec<u8> {
    const NAME: &[u8] = b"././@LongLink";
    let mut header = Header::new_gnu();
    header.as_old_mut().name[..NAME.len()].copy_from_slice(NAME);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    // The name ends with a zero byte.
    let size = text.len() as u64 + 1;
    header.set_size(size);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(text);
    bytes.resize(bytes.len() + 1 + padding(size), 0);
    bytes
}

/// Writes the places of a sparse file's content into its header, and returns the blocks for those that do not fit.
fn set_places(header: &mut Header, size: u64, data: &[(u64, u64)]) -> Vec<u8> {
    let mut places = data.to_vec();
    // A hole at the end is shown by a place without content.
    if data.last().is_none_or(|(offset, length)| offset + length < size) {
        places.push((size, 0));
    }
    let Some(gnu) = header.as_gnu_mut() else { return Vec::new() };
    let (first, rest) = places.split_at(places.len().min(gnu.sparse.len()));
    fill(&mut gnu.sparse, first);
    gnu.set_real_size(size);
    gnu.set_is_extended(!rest.is_empty());
    let mut bytes = Vec::new();
    let mut rest = rest;
    while !rest.is_empty() {
        let mut block = GnuExtSparseHeader::new();
        let (here, next) = rest.split_at(rest.len().min(block.sparse().len()));
        fill(block.sparse_mut(), here);
        block.set_is_extended(!next.is_empty());
        bytes.extend(block.as_bytes());
        rest = next;
    }
    bytes
}

fn fill(fields: &mut [GnuSparseHeader], places: &[(u64, u64)]) {
    for (field, (offset, length)) in fields.iter_mut().zip(places) {
        field.set_offset(*offset);
        field.set_length(*length);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::super::manifest::{Digest, RawPath};
    use super::*;

    fn entry(path: &[u8], node: Node) -> Entry {
        Entry { path: RawPath(path.to_owned()), node }
    }

    fn file(size: u64, data: Option<Vec<(u64, u64)>>) -> Node {
        Node::File { mode: 0o640, modified: 7, size, sha256: Digest([0; 32]), data, changed: false }
    }

    /// Path, kind, link and content of an entry.
    type FoundEntry = (Vec<u8>, EntryType, Option<Vec<u8>>, Vec<u8>);

    /// Returns what a reader of tar files finds in these entries.
    fn read(entries: &[(Entry, Vec<u8>)]) -> Vec<FoundEntry> {
        let mut bytes = Vec::new();
        for (entry, content) in entries {
            bytes.extend(head(entry, 3));
            assert_eq!(content.len() as u64, entry.node.stored_bytes());
            bytes.extend(content);
            bytes.resize(bytes.len() + padding(content.len() as u64), 0);
        }
        bytes.resize(bytes.len() + 1024, 0);
        let mut archive = tar::Archive::new(bytes.as_slice());
        let read = |entry: std::io::Result<tar::Entry<'_, &[u8]>>| {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let link = entry.link_name_bytes().map(|link| link.into_owned());
            (entry.path_bytes().into_owned(), entry.header().entry_type(), link, content)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn other_programs_read_every_kind_of_entry() {
        let deep = [b"workspaces/a/".as_slice(), &[b'x'; 250], b"/", &[0xff; 250]].concat();
        let target = [b'/'; 3000].to_vec();
        let found = read(&[
            (entry(b"vaults", Node::Folder { mode: 0o700 }), Vec::new()),
            (entry(b"vaults/x", file(5, None)), b"hello".to_vec()),
            (entry(&deep, file(600, None)), vec![7; 600]),
            (entry(b"vaults/link", Node::Link { target: RawPath(target.clone()) }), Vec::new()),
            (entry(b"vaults/same", Node::Same { of: RawPath(deep.clone()) }), Vec::new()),
            (entry(b"vaults/last", file(1, None)), b"z".to_vec()),
        ]);
        let home = |path: &[u8]| [HOME, path].concat();
        assert_eq!(found[0], (home(b"vaults/"), EntryType::Directory, None, Vec::new()));
        assert_eq!(found[1], (home(b"vaults/x"), EntryType::Regular, None, b"hello".to_vec()));
        assert_eq!(found[2], (home(&deep), EntryType::Regular, None, vec![7; 600]));
        assert_eq!(found[3], (home(b"vaults/link"), EntryType::Symlink, Some(target), Vec::new()));
        assert_eq!(found[4], (home(b"vaults/same"), EntryType::Link, Some(home(&deep)), Vec::new()));
        assert_eq!(found[5].3, b"z");
    }

    #[test]
    fn other_programs_read_sparse_files() {
        let many: Vec<(u64, u64)> = (0..60).map(|at| (at * 8192, 512)).collect();
        for (size, data) in [
            (1 << 20, vec![]),
            (1 << 20, vec![(4096, 512)]),
            (5000, vec![(4608, 392)]),
            (60 * 8192, many.clone()),
            (59 * 8192 + 512, many),
        ] {
            let mut wanted = vec![0; usize::try_from(size).unwrap()];
            for (offset, length) in &data {
                wanted[*offset as usize..(offset + length) as usize].fill(9);
            }
            let stored: u64 = data.iter().map(|(_, length)| length).sum();
            let one = entry(b"vaults/x", file(size, Some(data)));
            let next = entry(b"vaults/y", file(1, None));
            let found = read(&[(one, vec![9; stored as usize]), (next, b"y".to_vec())]);
            assert!(found[0].3 == wanted, "{size}");
            assert_eq!(found[1].3, b"y");
        }
    }
}
