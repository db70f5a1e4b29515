//! The contents that are certainly in the store, as this machine remembers them. Without this, each copy would ask the store
//! about every file of the workspace.
//!
//! An id is added after its content, and removed before it. So a killed process costs only another request.

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::Scope;
use crate::checkpoint::content::ContentId;
use crate::checkpoint::error::CheckpointError;
use crate::home::{atomic, regular};

/// Bytes of an id.
const ID: usize = 32;

/// The most bytes of the file: two million contents.
const MAX_BYTES: u64 = 64 << 20;

/// The contents of one agent that are in the store. For a tree it means that everything below it is there, too.
#[derive(Debug)]
pub(super) struct Stored {
    path: PathBuf,
    /// Names the scope. What is known of another one says nothing about this one.
    scope: [u8; ID],
    ids: HashSet<ContentId>,
}

impl Stored {
    /// Reads what is known about a scope. Returns `false` as the second value if nothing is known.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be read or written.
    pub(super) fn open(folder: &Path, scope: &Scope) -> Result<(Self, bool), CheckpointError> {
        let path = folder.join("copied");
        let scope = digest(scope);
        let bytes = atomic::read(&path, MAX_BYTES)?.unwrap_or_default();
        let mut stored = Self { path, scope, ids: HashSet::new() };
        let Some(ids) = bytes.strip_prefix(scope.as_slice()) else {
            stored.write()?;
            return Ok((stored, false));
        };
        let (ids, torn) = ids.as_chunks::<ID>();
        stored.ids = ids.iter().map(|id| ContentId(*id)).collect();
        if !torn.is_empty() {
            // The next id would be read with the rest of the torn one.
            stored.write()?;
        }
        let is_known = !stored.ids.is_empty();
        Ok((stored, is_known))
    }

    pub(super) fn has(&self, id: ContentId) -> bool {
        self.ids.contains(&id)
    }

    /// Adds contents that are in the store now.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be written.
    pub(super) fn add(&mut self, ids: &[ContentId]) -> Result<(), CheckpointError> {
        let failed = CheckpointError::io("write", &self.path);
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.0).collect();
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(0o600);
        // A power cut may take the ids back, and then their contents are found in the store.
        let mut file = regular::open_with(&self.path, &mut options).map_err(&failed)?;
        file.write_all(&bytes).map_err(failed)?;
        self.ids.extend(ids);
        Ok(())
    }

    /// Keeps only the contents that `is_kept` wants, in a new scope. They are on the disk when this returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be written.
    pub(super) fn retain(
        &mut self,
        scope: &Scope,
        is_kept: impl Fn(ContentId) -> bool,
    ) -> Result<(), CheckpointError> {
        self.scope = digest(scope);
        self.ids.retain(|id| is_kept(*id));
        self.write()
    }

    fn write(&self) -> Result<(), CheckpointError> {
        let bytes: Vec<u8> = self.scope.into_iter().chain(self.ids.iter().flat_map(|id| id.0)).collect();
        Ok(atomic::write(&self.path, &bytes, 0o600)?)
    }
}

fn digest(scope: &Scope) -> [u8; ID] {
    let Scope { place, agent, since, epoch } = scope;
    // The number is that of the rules of a sweep. An earlier version kept trees of which it had deleted a part, so what it
    // has written counts for nothing.
    Sha256::digest(format!("2\0{place}\0{agent}\0{since}\0{epoch}")).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(place: &str, agent: &str, epoch: &str) -> Scope {
        Scope { place: place.into(), agent: agent.parse().unwrap(), since: 1, epoch: epoch.into() }
    }

    #[test]
    fn what_is_known_belongs_to_one_store_and_a_torn_id_costs_only_itself() {
        let one = scope("one", "coder", "");
        let folder = tempfile::tempdir().unwrap();
        let ids = [ContentId::of_tree(b"a"), ContentId::of_tree(b"b"), ContentId::of_tree(b"c")];
        let (mut stored, is_known) = Stored::open(folder.path(), &one).unwrap();
        assert!(!is_known && !stored.has(ids[0]));
        stored.add(&ids[..2]).unwrap();
        let path = folder.path().join("copied");
        let mut bytes = fs_err::read(&path).unwrap();
        bytes.extend([7; 9]);
        fs_err::write(&path, bytes).unwrap();
        let (mut stored, is_known) = Stored::open(folder.path(), &one).unwrap();
        assert!(is_known && stored.has(ids[0]) && stored.has(ids[1]) && !stored.has(ids[2]));
        stored.add(&ids[2..]).unwrap();
        let (mut stored, _) = Stored::open(folder.path(), &one).unwrap();
        assert!(ids.iter().all(|id| stored.has(*id)));
        let later = scope("one", "coder", "2");
        stored.retain(&later, |id| id == ids[1]).unwrap();
        let (stored, _) = Stored::open(folder.path(), &later).unwrap();
        assert!(!stored.has(ids[0]) && stored.has(ids[1]));
        for other in
            [scope("two", "coder", "2"), scope("one", "tester", "2"), Scope { since: 2, ..later }, one]
        {
            let (stored, is_known) = Stored::open(folder.path(), &other).unwrap();
            assert!(!is_known && !stored.has(ids[1]));
        }
    }
}
