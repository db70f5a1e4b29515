//! Fingerprints of files and folders that an agent can write, to find out later if they have changed.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::beneath::{BeneathError, FileKind, Root};
use crate::id::hex;

/// The most bytes that are read for one fingerprint.
pub(crate) const MAX_BYTES: u64 = 64 << 20;
/// The most files and folders that are examined for one fingerprint.
pub(crate) const MAX_ENTRIES: usize = 5_000;
/// The depth of the deepest folder that is entered.
const MAX_DEPTH: usize = 64;

/// The state of a path at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    /// Nothing is at the path.
    Absent,
    File {
        /// The SHA-256 of its content, in hex.
        sha256: String,
        /// Its inode, mode, and the time of its last status change (ctime). That time moves with each write and can't
        /// be set back, so a file that was changed and restored differs as well.
        stamp: String,
    },
    Folder {
        /// A SHA-256 over the names, kinds, modes, stamps and contents of everything in it, in hex.
        sha256: String,
    },
}

/// The reason why a path has no fingerprint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FingerprintError {
    /// The path contains more than the limits allow.
    #[error("it holds more than {MAX_ENTRIES} files or {} MiB", MAX_BYTES >> 20)]
    TooMuch,
    /// The path contains something whose content can't be compared.
    #[error("{path:?} is neither a file nor a folder nor a link")]
    Special {
        /// Relative to the folder.
        path: PathBuf,
    },
    /// The path can't be opened safely.
    #[error(transparent)]
    Beneath(#[from] BeneathError),
    /// A file could not be read.
    #[error("failed to read {path:?}")]
    Io {
        /// Relative to the folder.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

/// Takes the fingerprint of `path` below `folder`. An empty path is the folder itself. No link is followed.
///
/// # Errors
///
/// Returns a [`FingerprintError`] if there is more than the limits allow, if something is neither a file nor a folder
/// nor a link, if reading fails, or if the path goes through a link or ends at one.
pub fn take(folder: &Path, path: &Path) -> Result<Fingerprint, FingerprintError> {
    let root = match Root::open(folder) {
        Err(BeneathError::NotFound { .. }) => return Ok(Fingerprint::Absent),
        other => other?,
    };
    let mut budget = Budget { bytes: MAX_BYTES, entries: MAX_ENTRIES };
    let kind = if path.as_os_str().is_empty() {
        FileKind::Folder
    } else {
        match root.stat(path) {
            Err(BeneathError::NotFound { .. }) => return Ok(Fingerprint::Absent),
            other => other?.kind,
        }
    };
    match kind {
        FileKind::File => {
            let (sha256, stamp) = file(&root, path, &mut budget)?;
            Ok(Fingerprint::File { sha256, stamp })
        }
        FileKind::Folder => {
            let mut digest = Sha256::new();
            tree(&root, path, &mut budget, 0, &mut digest)?;
            Ok(Fingerprint::Folder { sha256: hex(&digest.finalize()) })
        }
        FileKind::Link => Err(BeneathError::Outside { path: path.to_owned() }.into()),
        FileKind::Other => Err(FingerprintError::Special { path: path.to_owned() }),
    }
}

/// The remaining part of the limits.
struct Budget {
    bytes: u64,
    entries: usize,
}

/// Returns the digest and the stamp of a file.
fn file(root: &Root, path: &Path, budget: &mut Budget) -> Result<(String, String), FingerprintError> {
    let (open, size) = root.open_file(path)?;
    let io = |source| FingerprintError::Io { path: path.to_owned(), source };
    // Taken before the content is read: a write during the read then changes the next stamp.
    let before = open.metadata().map_err(io)?;
    if size > budget.bytes {
        return Err(FingerprintError::TooMuch);
    }
    let mut digest = Sha256::new();
    // The file may grow while it is read. One byte more than the budget shows that.
    let length = std::io::copy(&mut open.take(budget.bytes + 1), &mut digest).map_err(io)?;
    budget.bytes = budget.bytes.checked_sub(length).ok_or(FingerprintError::TooMuch)?;
    let stamp = format!(
        "{}:{}.{:09}:{:o}",
        before.ino(),
        before.ctime(),
        before.ctime_nsec(),
        before.mode() & 0o7777
    );
    Ok((hex(&digest.finalize()), stamp))
}

fn tree(
    root: &Root,
    path: &Path,
    budget: &mut Budget,
    depth: usize,
    digest: &mut Sha256,
) -> Result<(), FingerprintError> {
    if depth > MAX_DEPTH {
        return Err(FingerprintError::TooMuch);
    }
    // A fingerprint of only a part would miss changes in the rest, so too many entries are an error.
    let (entries, has_more) = root.list(path, budget.entries)?;
    if has_more {
        return Err(FingerprintError::TooMuch);
    }
    budget.entries = budget.entries.saturating_sub(entries.len());
    for entry in entries {
        // The lengths keep the end of a name from being taken for the start of a content.
        let mut add = |kind: &str, content: &[u8]| {
            let name = entry.path.as_os_str().as_bytes();
            digest.update(format!("{kind} {} {} ", name.len(), content.len()));
            digest.update(name);
            digest.update(content);
        };
        match entry.kind {
            FileKind::File => {
                let (sha256, stamp) = file(root, &entry.path, budget)?;
                add("file", format!("{stamp} {sha256}").as_bytes());
            }
            // A link counts by its target's path, because the target itself is never read.
            FileKind::Link => add("link", root.read_link(&entry.path)?.as_os_str().as_bytes()),
            FileKind::Folder => {
                add("folder", b"");
                tree(root, &entry.path, budget, depth + 1, digest)?;
            }
            FileKind::Other => return Err(FingerprintError::Special { path: entry.path }),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(folder: &Path, path: &str) -> Fingerprint {
        take(folder, Path::new(path)).unwrap()
    }

    #[test]
    fn a_change_is_seen_also_where_it_was_undone() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/run.sh"), "echo one").unwrap();
        let (file, tree, none) = (at(root, "a/run.sh"), at(root, ""), at(root, "a/none"));
        assert_eq!(none, Fingerprint::Absent);
        assert_eq!(
            (at(root, "a/run.sh"), at(root, "")),
            (file.clone(), tree.clone()),
            "reading changes nothing"
        );
        std::fs::rename(root.join("a/run.sh"), root.join("a/old.sh")).unwrap();
        assert_eq!(at(root, "a/run.sh"), Fingerprint::Absent);
        std::fs::write(root.join("a/run.sh"), "echo one").unwrap();
        let again = at(root, "a/run.sh");
        assert_ne!(again, file, "it is another file with the same words");
        let (Fingerprint::File { sha256: one, .. }, Fingerprint::File { sha256: two, .. }) = (file, again)
        else {
            panic!("both are files")
        };
        assert_eq!(one, two);
        assert_ne!(at(root, ""), tree);
    }

    #[test]
    fn a_folder_differs_by_whatever_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let mut seen = vec![at(root, "")];
        let mut differs = || {
            let now = at(root, "");
            assert!(!seen.contains(&now));
            seen.push(now);
        };
        std::fs::create_dir(root.join("deep")).unwrap();
        differs();
        std::fs::write(root.join("deep/file"), "x").unwrap();
        differs();
        std::os::unix::fs::symlink("/etc/passwd", root.join("deep/link")).unwrap();
        differs();
        std::fs::remove_file(root.join("deep/link")).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", root.join("deep/link")).unwrap();
        differs();
        std::fs::set_permissions(root.join("deep/file"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        differs();
    }

    #[test]
    fn links_fifos_and_large_trees_have_no_fingerprint() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::os::unix::fs::symlink("/etc", root.join("link")).unwrap();
        for path in ["link", "link/passwd", "../x"] {
            assert!(take(root, Path::new(path)).is_err(), "{path}");
        }
        std::fs::create_dir(root.join("fifo")).unwrap();
        nix::unistd::mkfifo(&root.join("fifo/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in ["fifo", "fifo/pipe"] {
            let error = take(root, Path::new(path)).unwrap_err();
            assert!(matches!(error, FingerprintError::Special { .. }), "{path}: {error}");
        }
        let large = std::fs::File::create(root.join("large")).unwrap();
        large.set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(take(root, Path::new("large")), Err(FingerprintError::TooMuch)));
    }
}
