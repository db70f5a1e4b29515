//! The hash of an installed package, by which a later change of its files is noticed.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::error::PackageError;
use crate::id::hex;

/// The deepest folder that is entered. None that flock unpacks is deeper.
const MAX_DEPTH: usize = 256;

/// Returns the SHA-256 over the names, modes and contents of everything in a folder.
///
/// # Errors
///
/// Returns an error if something in it can't be read.
pub(super) fn hash(folder: &Path) -> Result<String, PackageError> {
    let mut hash = Sha256::new();
    add(&mut hash, folder, 0)?;
    Ok(hex(&hash.finalize()))
}

fn add(hash: &mut Sha256, folder: &Path, depth: usize) -> Result<(), PackageError> {
    let read = fs_err::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
    let mut entries = read.map_err(PackageError::host(folder))?;
    entries.sort_by_key(fs_err::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let found = fs_err::symlink_metadata(&path).map_err(PackageError::host(&path))?;
        let kind = found.file_type();
        let name = entry.file_name();
        // The length separates the parts.
        hash.update((name.len() as u64).to_le_bytes());
        hash.update(name.as_bytes());
        if kind.is_dir() {
            hash.update(b"d");
            if depth < MAX_DEPTH {
                add(hash, &path, depth + 1)?;
            }
            hash.update(b".");
        } else if kind.is_file() {
            hash.update(if found.permissions().mode() & 0o111 == 0 { b"f" } else { b"x" });
            hash.update(found.len().to_le_bytes());
            file(hash, &path).map_err(PackageError::host(&path))?;
        } else {
            // flock makes nothing else, so its being there is the difference.
            hash.update(b"o");
        }
    }
    Ok(())
}

fn file(hash: &mut Sha256, path: &Path) -> std::io::Result<()> {
    let mut file = fs_err::File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(()),
            count => hash.update(&buffer[..count]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_a_file_changes_the_hash() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("lib")).unwrap();
        std::fs::write(at("lib/a"), "one").unwrap();
        std::fs::write(at("b"), "two").unwrap();
        let mut seen = vec![hash(folder.path()).unwrap()];
        assert_eq!(hash(folder.path()).unwrap(), seen[0]);
        let mut differs = |what: &str| {
            let now = hash(folder.path()).unwrap();
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        std::fs::write(at("lib/a"), "onE").unwrap();
        differs("a content");
        std::fs::set_permissions(at("b"), std::fs::Permissions::from_mode(0o755)).unwrap();
        differs("a mode");
        std::fs::rename(at("b"), at("c")).unwrap();
        differs("a name");
        std::fs::write(at("lib/new"), "").unwrap();
        differs("a new file");
        std::os::unix::fs::symlink("/etc", at("link")).unwrap();
        differs("a link");
    }
}
