//! Computes the hash of a folder's content as Nix does. It covers an archive (NAR) of names, file contents, symbolic
//! links and the executable bit, and nothing else.

use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 of the archive of the tree at `path`. Symbolic links are not followed.
///
/// # Errors
///
/// Fails if something cannot be read, or if it is neither a file, a folder nor a symbolic link.
pub fn hash(path: &Path) -> io::Result<[u8; 32]> {
    let mut archive = NarHasher(Sha256::new());
    archive.text(b"nix-archive-1");
    archive.node(path)?;
    Ok(archive.0.finalize().into())
}

struct NarHasher(Sha256);

impl NarHasher {
    fn text(&mut self, text: &[u8]) {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self.write_padding(text.len() as u64);
    }

    fn texts(&mut self, texts: &[&str]) {
        for text in texts {
            self.text(text.as_bytes());
        }
    }

    fn write_padding(&mut self, length: u64) {
        let over = usize::try_from(length % 8).unwrap_or_default();
        self.0.update(&[0; 8][..(8 - over) % 8]);
    }

    fn node(&mut self, path: &Path) -> io::Result<()> {
        let metadata = fs_err::symlink_metadata(path)?;
        self.texts(&["(", "type"]);
        if metadata.is_dir() {
            self.text(b"directory");
            let mut entries: Vec<_> =
                fs_err::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
            // The format demands the entries in byte order.
            entries.sort_unstable_by(|a, b| a.as_bytes().cmp(b.as_bytes()));
            for name in entries {
                self.texts(&["entry", "(", "name"]);
                self.text(name.as_bytes());
                self.text(b"node");
                self.node(&path.join(&name))?;
                self.text(b")");
            }
        } else if metadata.is_symlink() {
            self.texts(&["symlink", "target"]);
            self.text(fs_err::read_link(path)?.as_os_str().as_bytes());
        } else if metadata.is_file() {
            self.text(b"regular");
            // Nix looks at the owner's executable bit only.
            if metadata.permissions().mode() & 0o100 != 0 {
                self.texts(&["executable", ""]);
            }
            self.text(b"contents");
            self.contents(path, metadata.len())?;
        } else {
            return Err(io::Error::other(format!("{} is no file, folder or link", path.display())));
        }
        self.text(b")");
        Ok(())
    }

    /// Adds a file's contents. The length comes first in the archive, so a file whose length changes while it is read
    /// is an error.
    fn contents(&mut self, path: &Path, length: u64) -> io::Result<()> {
        self.0.update(length.to_le_bytes());
        // One byte more than expected shows that the file has grown.
        let mut file = fs_err::File::open(path)?.take(length + 1);
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            total += count as u64;
            self.0.update(&buffer[..count]);
        }
        if total != length {
            return Err(io::Error::other(format!("{} changed while it was read", path.display())));
        }
        self.write_padding(length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;

    use super::*;

    #[test]
    fn a_folder_hash_matches_nix() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("b")).unwrap();
        std::fs::write(at("b/run"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(at("b/run"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(at("B"), "12345678").unwrap();
        std::fs::write(at("empty"), "").unwrap();
        std::os::unix::fs::symlink("b/run", at("link")).unwrap();
        // The result of `nix hash path` of Nix 2.8.
        let expected = "EkpVQqwgCy9v5GiXPSaVQt2Uu8a2TsplNctEQFtclAQ=";
        let found = base64::engine::general_purpose::STANDARD.encode(hash(folder.path()).unwrap());
        assert_eq!(found, expected);
        std::fs::set_permissions(at("B"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(base64::engine::general_purpose::STANDARD.encode(hash(folder.path()).unwrap()), expected);
    }
}
