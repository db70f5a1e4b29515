//! Whether anything can be written in the home: its disk may be full or read-only.

use std::io::Write as _;

use crate::error::{Explain, Kind};
use crate::home::Home;

/// So much is written to find out: on a full disk an empty file can often still be made.
const BYTES: usize = 64 << 10;

/// Nothing can be written in a folder of the home.
#[derive(Debug, thiserror::Error)]
#[error("nothing can be written in {}", path.display())]
pub struct Unwritable {
    path: std::path::PathBuf,
    #[source]
    source: std::io::Error,
}

impl Explain for Unwritable {
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

/// Tries it with a file that has no name and is gone at once; `None` where it can be written, or there is no home.
pub fn unwritable(home: &Home) -> Option<Unwritable> {
    let path = home.data();
    if !path.is_dir() {
        return None;
    }
    let tried = tempfile::tempfile_in(&path).and_then(|mut file| {
        file.write_all(&[0; BYTES])?;
        // Some file systems find out only here that there is no room.
        file.sync_data()
    });
    tried.err().map(|source| Unwritable { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_can_be_written_is_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        assert!(unwritable(&home).is_none(), "there is no home");
        std::fs::create_dir(home.data()).unwrap();
        assert!(unwritable(&home).is_none());
        assert_eq!(std::fs::read_dir(home.data()).unwrap().count(), 0);
    }
}
