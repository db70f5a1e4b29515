//! Check that the home can be written to: its disk may be full or read-only.

use std::io::Write as _;

use crate::error::{Explain, Kind};
use crate::home::Home;

/// Number of bytes that the test writes. On a full disk an empty file can often still be created.
const TEST_BYTES: usize = 64 << 10;

/// The error that nothing can be written in a folder of the home.
#[derive(Debug, thiserror::Error)]
#[error("nothing can be written in {}", path.display())]
pub(crate) struct NotWritable {
    path: std::path::PathBuf,
    #[source]
    source: std::io::Error,
}

impl Explain for NotWritable {
    fn kind(&self) -> Kind {
        Kind::Failed
    }

    fn hint(&self) -> Option<String> {
        let path = self.path.display();
        Some(match self.source.kind() {
            std::io::ErrorKind::ReadOnlyFilesystem => format!("findmnt -T {path}"),
            std::io::ErrorKind::PermissionDenied => format!("ls -ld {path}"),
            _ => format!("df -h {path}"),
        })
    }
}

/// Tries to write with a file that has no name and disappears at once. Returns `None` if it works, or if there is no
/// home.
pub(crate) fn unwritable(home: &Home) -> Option<NotWritable> {
    let path = home.data();
    if !path.is_dir() {
        return None;
    }
    let tried = tempfile::tempfile_in(&path).and_then(|mut file| {
        file.write_all(&[0; TEST_BYTES])?;
        // Some file systems report only here that there is no space left.
        file.sync_data()
    });
    tried.err().map(|source| NotWritable { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checking_a_writable_folder_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        assert!(unwritable(&home).is_none(), "there is no home");
        std::fs::create_dir(home.data()).unwrap();
        assert!(unwritable(&home).is_none());
        assert_eq!(std::fs::read_dir(home.data()).unwrap().count(), 0);
    }
}
