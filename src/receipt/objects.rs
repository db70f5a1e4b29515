//! Git objects from a repository or a bundle. Each is compared with its hash when it is read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use git2::{ObjectType, Oid, Repository};

use super::ReceiptError;

/// Largest size of one object in bytes.
pub(crate) const MAX_OBJECT: usize = 256 << 20;

/// A place from which git objects are read by their hash.
pub trait Objects: Send + Sync {
    /// Returns the content of an object whose kind is known.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Object`] if it is missing, of another kind, too large, or not what its hash says.
    fn read(&self, kind: ObjectType, id: &str) -> Result<Vec<u8>, ReceiptError>;
}

/// The objects of a repository.
pub struct Repo(Mutex<Repository>);

impl Repo {
    /// Opens a repository. Its configuration and hooks are not used: only objects are read from it.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Repository`] if there is none.
    pub fn open(path: &Path) -> Result<Self, ReceiptError> {
        let opened = Repository::open_ext(
            path,
            git2::RepositoryOpenFlags::NO_SEARCH,
            std::iter::empty::<&std::ffi::OsStr>(),
        );
        let repository =
            opened.map_err(|source| ReceiptError::Repository { path: path.to_owned(), source })?;
        Ok(Self(Mutex::new(repository)))
    }

    /// Returns the full hash of the tree of a commit.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Object`] if there is no such commit.
    pub fn tree_of(&self, commit: &str) -> Result<String, ReceiptError> {
        tree_of(self, commit)
    }
}

impl Objects for Repo {
    fn read(&self, kind: ObjectType, id: &str) -> Result<Vec<u8>, ReceiptError> {
        let wrong = |reason: String| ReceiptError::Object { id: shown(id), reason };
        let oid = parse(id)?;
        let repository = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let objects = repository.odb().map_err(|error| wrong(error.message().to_owned()))?;
        let header = objects.read_header(oid).map_err(|error| wrong(error.message().to_owned()))?;
        if header.0 > MAX_OBJECT {
            return Err(wrong("it is too large".to_owned()));
        }
        let object = objects.read(oid).map_err(|error| wrong(error.message().to_owned()))?;
        if object.kind() != kind {
            return Err(wrong(format!("it is no {kind}")));
        }
        verified(kind, oid, object.data().to_vec())
    }
}

/// Objects in memory, by hash.
#[derive(Default)]
pub(crate) struct ObjectMap(pub BTreeMap<String, Vec<u8>>);

impl Objects for ObjectMap {
    fn read(&self, kind: ObjectType, id: &str) -> Result<Vec<u8>, ReceiptError> {
        let data = self.0.get(id).cloned();
        let missing = || ReceiptError::Object { id: shown(id), reason: "it is missing".to_owned() };
        verified(kind, parse(id)?, data.ok_or_else(missing)?)
    }
}

fn verified(kind: ObjectType, oid: Oid, data: Vec<u8>) -> Result<Vec<u8>, ReceiptError> {
    let wrong = |reason: &str| ReceiptError::Object { id: oid.to_string(), reason: reason.to_owned() };
    let found = Oid::hash_object(kind, &data).map_err(|error| wrong(error.message()))?;
    // The kind is part of what is hashed, so an object of another kind has another hash, too.
    if found == oid { Ok(data) } else { Err(wrong("its content does not have this hash")) }
}

/// Parses a whole hash. A short one could mean another object later.
fn parse(id: &str) -> Result<Oid, ReceiptError> {
    let wrong = || ReceiptError::Object { id: shown(id), reason: "it is no hash of git".to_owned() };
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if id.len() != 40 || !id.bytes().all(is_hex) {
        return Err(wrong());
    }
    Oid::from_str(id).map_err(|_| wrong())
}

fn shown(id: &str) -> String {
    crate::clean::summary(id, 60)
}

/// Returns the hash of the tree of a commit.
pub(crate) fn tree_of(objects: &dyn Objects, commit: &str) -> Result<String, ReceiptError> {
    let data = objects.read(ObjectType::Commit, commit)?;
    let wrong = || ReceiptError::Object { id: shown(commit), reason: "it names no tree".to_owned() };
    let line = data.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let tree =
        std::str::from_utf8(line).ok().and_then(|line| line.strip_prefix("tree ")).ok_or_else(wrong)?;
    parse(tree).map(|tree| tree.to_string())
}
