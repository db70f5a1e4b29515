//! A second look at a database that SQLite calls damaged: SQLite reports the same error if the disk fails to read,
//! which may pass.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use super::Engine;
use super::connection::wal_of;
use super::integrity::{self, CheckDepth};
use crate::error::chain;
use crate::home::regular;
use crate::store::StoreError;
use crate::store::health::{DatabaseAccess, StorageHealth};

/// The raw file of a database, opened beside SQLite's connections.
///
/// It is never closed while the process runs: closing any descriptor of a file drops all POSIX locks that the process
/// has on it, SQLite's included.
#[derive(Debug, Default)]
pub(in crate::store) struct RawFile(OnceLock<ManuallyDrop<File>>);

/// The number of bytes read at once.
const BLOCK_BYTES: usize = 1 << 20;
/// The number of looks that must all find damage while the whole file can be read. A disk may fail during one look
/// only.
pub(super) const LOOKS: u32 = 2;

impl RawFile {
    /// Reads all of the database at `path` and of its write-ahead log.
    pub(super) fn read(&self, path: &Path) -> io::Result<()> {
        let file = match self.0.get() {
            Some(file) => file,
            None => {
                let opened = ManuallyDrop::new(regular::open(path)?);
                // Another thread may have been faster. Its file stays, and this one is not closed either, for the same
                // reason.
                self.0.get_or_init(|| opened)
            }
        };
        read_all(file)?;
        // SQLite takes no locks on the log, so the log may be opened and closed.
        read_log(path)
    }
}

impl Engine {
    /// Searches the whole database for damage, until `is_over` returns `true`. Blocks the calling thread.
    pub(in crate::store) fn search_for_damage(
        &self,
        condition: &StorageHealth,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), StoreError> {
        let checked = integrity::look_until(&self.path, is_over)?;
        if !checked.is_whole() {
            condition.mark_unusable(DatabaseAccess::Read, checked.summary(), true);
        }
        Ok(())
    }

    /// Returns the reason why what looks like damage is none, or `None` if it is. Blocks the calling thread.
    pub(in crate::store) fn doubt(&self, limit: Duration) -> Option<String> {
        for _ in 0..LOOKS {
            if let Err(error) = self.raw.read(&self.path) {
                return Some(error.to_string());
            }
            match integrity::look(&self.path, CheckDepth::Quick(limit)) {
                // A look that ran out of time proves nothing, so the error that led here is trusted.
                Ok(checked) if !checked.is_whole() || checked.is_partial => {}
                Ok(_) => return Some("its disk failed to read it".to_owned()),
                Err(error) => return Some(chain(&error)),
            }
        }
        // A disk that fails only now may have failed during the looks as well.
        self.raw.read(&self.path).err().map(|error| error.to_string())
    }
}

/// Reads all of a database, and of its log, to which no connection of this process is open.
pub(super) fn read(path: &Path) -> io::Result<()> {
    read_all(&regular::open(path)?)?;
    read_log(path)
}

fn read_log(path: &Path) -> io::Result<()> {
    match regular::open(&wal_of(path)) {
        Ok(file) => read_all(&file),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn read_all(file: &File) -> io::Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    let mut at = 0;
    loop {
        match file.read_at(&mut block, at) {
            Ok(0) => return Ok(()),
            Ok(count) => at += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::Store;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn an_intact_database_is_not_damaged_whatever_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let store = Store::open(&home).unwrap();
        store.pool.condition().mark_unusable(
            DatabaseAccess::Read,
            "database disk image is malformed".to_owned(),
            true,
        );
        assert!(!store.confirm_damage(LIMIT));
        assert!(!store.trouble().unwrap().is_damage, "it may pass");
        store.pool.condition().well();
        assert_eq!(store.trouble(), None);
    }

    #[test]
    fn a_search_finds_damage_that_no_read_has_met() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        integrity::tests::filled(&home);
        let store = Store::open(&home).unwrap();
        store.search_for_damage(|| false).unwrap();
        assert_eq!(store.trouble(), None);
        integrity::tests::flip(&home.database());
        store.search_for_damage(|| true).unwrap();
        assert_eq!(store.trouble(), None, "it was ended before it looked");
        store.search_for_damage(|| false).unwrap();
        assert!(store.trouble().unwrap().is_damage);
        assert!(store.confirm_damage(LIMIT));
    }

    #[test]
    fn damage_is_confirmed_for_a_damaged_database() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        integrity::tests::filled(&home);
        let store = Store::open(&home).unwrap();
        integrity::tests::flip(&home.database());
        store.pool.condition().mark_unusable(
            DatabaseAccess::Read,
            "database disk image is malformed".to_owned(),
            true,
        );
        assert!(store.confirm_damage(LIMIT));
        assert!(store.trouble().unwrap().is_damage);
    }
}
