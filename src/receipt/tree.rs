//! A delivered tree: its files by path, read from git objects. The agent chose every name in it, so names that leave the
//! tree, name git's own folder or stand twice are refused.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::ObjectType;
use sha2::{Digest as _, Sha256};

use super::ReceiptError;
use super::objects::Objects;
use crate::id::hex;
use crate::sandbox::check::{TreeFile, TreeFileKind, TreeSource};

const MAX_FILES: usize = 200_000;
const MAX_DEPTH: usize = 100;
const MAX_PATH: usize = 3500;

/// A tree and the place from which its contents are read.
pub struct Tree {
    id: String,
    files: Vec<TreeFile>,
    /// The hashes of the trees in it, its own first.
    trees: Vec<String>,
    objects: Arc<dyn Objects>,
}

impl Tree {
    /// Reads the tree with this hash.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Object`] if an object is missing or wrong, and [`ReceiptError::Tree`] if a name in it is not
    /// one that git writes, or if it is too large.
    pub fn load(objects: Arc<dyn Objects>, id: &str) -> Result<Self, ReceiptError> {
        let mut loading = Loading { objects: &*objects, files: Vec::new(), trees: BTreeSet::new() };
        loading.folder(id, Path::new(""), 0)?;
        let mut files = loading.files;
        files.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        let trees = loading.trees.into_iter().collect();
        Ok(Self { id: id.to_owned(), files, trees, objects })
    }

    /// Returns the file at a path.
    #[must_use]
    pub fn file(&self, path: &Path) -> Option<&TreeFile> {
        let at = self.files.binary_search_by(|file| file.path.as_os_str().cmp(path.as_os_str())).ok()?;
        self.files.get(at)
    }

    /// Returns `true` if a path is a file of the tree or a folder in it.
    #[must_use]
    pub fn has(&self, path: &Path) -> bool {
        self.files.iter().any(|file| file.path.starts_with(path))
    }

    /// Returns the content of a file, or nothing for the place of another repository.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Object`] if it can't be read.
    pub fn content(&self, file: &TreeFile) -> Result<Vec<u8>, ReceiptError> {
        match file.kind {
            TreeFileKind::Submodule => Ok(Vec::new()),
            _ => self.objects.read(ObjectType::Blob, &file.id),
        }
    }

    /// Returns the content of the file at a path as text, or `None` if there is no regular file of at most 1 MiB.
    #[must_use]
    pub fn text(&self, path: &Path) -> Option<String> {
        let file = self.file(path)?;
        let is_file = matches!(file.kind, TreeFileKind::File | TreeFileKind::Executable);
        let content = is_file.then(|| self.content(file).ok())??;
        (content.len() <= 1 << 20).then(|| String::from_utf8_lossy(&content).into_owned())
    }

    /// Returns the hashes of all objects of the tree with their kinds, each once.
    #[must_use]
    pub fn objects(&self) -> BTreeMap<String, ObjectType> {
        let trees = self.trees.iter().map(|id| (id.clone(), ObjectType::Tree));
        let blobs = self.files.iter().filter(|file| file.kind != TreeFileKind::Submodule);
        trees.chain(blobs.map(|file| (file.id.clone(), ObjectType::Blob))).collect()
    }

    /// Returns the SHA-256 of the whole tree, which does not rest on git's SHA-1. docs/receipts.md describes what is
    /// hashed.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Object`] if a file can't be read.
    pub fn sha256(&self) -> Result<String, ReceiptError> {
        let mut whole = Sha256::new();
        for file in &self.files {
            let content = match file.kind {
                TreeFileKind::Submodule => file.id.clone().into_bytes(),
                _ => self.content(file)?,
            };
            whole.update(mode(file.kind));
            whole.update(b" ");
            whole.update(hex(&Sha256::digest(&content)));
            whole.update(b" ");
            whole.update(file.path.as_os_str().as_bytes());
            whole.update(b"\0");
        }
        Ok(hex(&whole.finalize()))
    }
}

/// Returns git's mode of a kind of file.
pub(crate) const fn mode(kind: TreeFileKind) -> &'static str {
    match kind {
        TreeFileKind::File => "100644",
        TreeFileKind::Executable => "100755",
        TreeFileKind::Link => "120000",
        TreeFileKind::Submodule => "160000",
    }
}

impl TreeSource for Tree {
    fn id(&self) -> &str {
        &self.id
    }

    fn files(&self) -> &[TreeFile] {
        &self.files
    }

    fn read(&self, file: &TreeFile) -> io::Result<Vec<u8>> {
        self.content(file).map_err(io::Error::other)
    }
}

struct Loading<'a> {
    objects: &'a dyn Objects,
    files: Vec<TreeFile>,
    trees: BTreeSet<String>,
}

impl Loading<'_> {
    fn folder(&mut self, id: &str, path: &Path, depth: usize) -> Result<(), ReceiptError> {
        let wrong =
            |reason: &str| ReceiptError::Tree { path: Path::new("/").join(path), reason: reason.to_owned() };
        if depth > MAX_DEPTH {
            return Err(wrong("it is too deep"));
        }
        self.trees.insert(id.to_owned());
        let data = self.objects.read(ObjectType::Tree, id)?;
        let mut names = BTreeMap::new();
        let mut rest = data.as_slice();
        while !rest.is_empty() {
            let (entry, after) = entry(rest).ok_or_else(|| wrong("it is no tree"))?;
            rest = after;
            let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
            if !is_name(entry.name) {
                return Err(wrong(&format!("git writes no file with the name {:?}", shown(entry.name))));
            }
            // Two names that differ in case only are two files here, and one on other machines.
            if let Some(other) = names.insert(entry.name.to_ascii_lowercase(), entry.name) {
                let (one, two) = (shown(other), shown(entry.name));
                return Err(wrong(&format!("the names {one:?} and {two:?} are one on some machines")));
            }
            let below = path.join(OsString::from_vec(entry.name.to_vec()));
            if below.as_os_str().len() > MAX_PATH {
                return Err(wrong("a path in it is too long"));
            }
            let kind = match entry.mode {
                b"40000" => {
                    self.folder(&entry.id, &below, depth + 1)?;
                    continue;
                }
                b"100644" | b"100664" => TreeFileKind::File,
                b"100755" => TreeFileKind::Executable,
                b"120000" => TreeFileKind::Link,
                b"160000" => TreeFileKind::Submodule,
                _ => return Err(wrong("it has an entry of an unknown kind")),
            };
            if self.files.len() == MAX_FILES {
                return Err(wrong("it has more than 200,000 files"));
            }
            self.files.push(TreeFile { path: below, kind, id: entry.id });
        }
        Ok(())
    }
}

struct Entry<'a> {
    mode: &'a [u8],
    name: &'a [u8],
    id: String,
}

/// Reads the first entry of a tree object: `MODE NAME`, a zero byte, and the 20 bytes of a hash.
fn entry(data: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let space = data.iter().position(|byte| *byte == b' ')?;
    let (mode, rest) = (data.get(..space)?, data.get(space + 1..)?);
    let end = rest.iter().position(|byte| *byte == 0)?;
    let (name, rest) = (rest.get(..end)?, rest.get(end + 1..)?);
    let id = hex(rest.get(..20)?);
    Some((Entry { mode, name, id }, rest.get(20..)?))
}

/// Returns `true` if a name can be that of a file in a tree.
fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name != b"."
        && name != b".."
        && !name.contains(&b'/')
        && !name.eq_ignore_ascii_case(b".git")
}

/// The way in which a file differs between two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileChange {
    Added,
    Deleted,
    Modified,
    /// The content may be the same, but it was a file and is a link, or the like.
    Kind,
}

/// Returns the paths that differ between two trees, sorted.
#[must_use]
pub fn changes(base: &Tree, delivered: &Tree) -> BTreeMap<PathBuf, FileChange> {
    let mut found = BTreeMap::new();
    for file in &delivered.files {
        let change = match base.file(&file.path) {
            None => FileChange::Added,
            Some(old) if old.kind != file.kind => FileChange::Kind,
            Some(old) if old.id != file.id => FileChange::Modified,
            Some(_) => continue,
        };
        found.insert(file.path.clone(), change);
    }
    for file in &base.files {
        if delivered.file(&file.path).is_none() {
            found.insert(file.path.clone(), FileChange::Deleted);
        }
    }
    found
}

#[cfg(test)]
#[path = "tree_tests.rs"]
mod tests;
