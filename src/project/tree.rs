//! The files of a commit are written into an empty folder, byte for byte: no filter, no line ends of this machine, no
//! submodule, no `.git`.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use git2::{FileMode, ObjectType, Tree};

use super::incoming::names;
use super::{ObjectId, ProjectError, ProjectRepository};

/// The limits of a checkout.
#[derive(Clone, Copy, Debug)]
pub struct CheckoutLimits {
    /// Most files, folders and links.
    pub entries: usize,
    /// Most bytes of all files together.
    pub bytes: u64,
}

impl Default for CheckoutLimits {
    fn default() -> Self {
        Self { entries: 200_000, bytes: 4 << 30 }
    }
}

/// The size of a written tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckoutSize {
    /// Number of files, folders and links.
    pub entries: usize,
    /// Number of bytes of all files.
    pub bytes: u64,
}

/// Returns the hash of a commit's tree, which stands for all of its files.
///
/// # Errors
///
/// Returns [`ProjectError::NoCommit`] if the commit is missing.
pub fn hash(repository: &ProjectRepository, commit: ObjectId) -> Result<ObjectId, ProjectError> {
    Ok(repository.commit(commit)?.tree_id())
}

/// Writes the files of a commit into `folder`, which must be empty or missing. Links are written as links and not
/// followed. A submodule becomes an empty folder.
///
/// # Errors
///
/// Returns [`ProjectError::Tree`] if the tree exceeds a limit or has a name that no folder may have, and an error if the
/// folder can't be written. Then it holds a part of the files.
pub fn checkout(
    repository: &ProjectRepository,
    commit: ObjectId,
    folder: &Path,
    limits: CheckoutLimits,
) -> Result<CheckoutSize, ProjectError> {
    let found = repository.commit(commit)?;
    let tree = found.tree().map_err(ProjectError::git("read a tree of", repository.folder()))?;
    make_folder(folder, true)?;
    let mut writing = Writing { repository, commit, limits, size: CheckoutSize::default() };
    if fs_err::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(writing.refused(format!("{} is not empty", folder.display())));
    }
    writing.tree(&tree, folder, 0)?;
    Ok(writing.size)
}

struct Writing<'a> {
    repository: &'a ProjectRepository,
    commit: ObjectId,
    limits: CheckoutLimits,
    size: CheckoutSize,
}

impl Writing<'_> {
    fn tree(&mut self, tree: &Tree<'_>, folder: &Path, depth: usize) -> Result<(), ProjectError> {
        if depth > MAX_DEPTH {
            return Err(self.refused(format!("it has more than {MAX_DEPTH} folders in each other")));
        }
        let failed = ProjectError::git("read a tree of", self.repository.folder());
        for entry in tree {
            let name = entry.name_bytes();
            if let Some(why) = names::refused(name) {
                return Err(self.refused(format!("{:?} {why}", String::from_utf8_lossy(name))));
            }
            self.size.entries += 1;
            if self.size.entries > self.limits.entries {
                return Err(self.refused(format!("it has more than {} files", self.limits.entries)));
            }
            // Every name is created, never opened: a link of the same name, which no honest tree has, is not followed.
            let path = folder.join(OsStr::from_bytes(name));
            let git = self.repository.git();
            match entry.filemode() {
                mode if mode == i32::from(FileMode::Tree) => {
                    make_folder(&path, false)?;
                    self.tree(&git.find_tree(entry.id()).map_err(&failed)?, &path, depth + 1)?;
                }
                mode if mode == i32::from(FileMode::Commit) => make_folder(&path, false)?,
                mode if mode == i32::from(FileMode::Link) => {
                    self.count(entry.id())?;
                    let blob = git.find_blob(entry.id()).map_err(&failed)?;
                    if blob.size() > MAX_LINK || blob.content().contains(&0) || blob.content().is_empty() {
                        return Err(self.refused(format!("{} leads nowhere", path.display())));
                    }
                    fs_err::os::unix::fs::symlink(OsStr::from_bytes(blob.content()), &path)
                        .map_err(ProjectError::io("make the link", &path))?;
                }
                mode => {
                    self.count(entry.id())?;
                    let blob = git.find_blob(entry.id()).map_err(&failed)?;
                    let is_program = mode == i32::from(FileMode::BlobExecutable);
                    write_file(&path, blob.content(), if is_program { 0o755 } else { 0o644 })?;
                }
            }
        }
        Ok(())
    }

    /// Counts a file's size before the file is loaded.
    fn count(&mut self, id: ObjectId) -> Result<(), ProjectError> {
        let failed = ProjectError::git("read a file of", self.repository.folder());
        let odb = self.repository.git().odb().map_err(&failed)?;
        let (size, kind) = odb.read_header(id).map_err(&failed)?;
        if kind != ObjectType::Blob {
            return Err(self.refused(format!("{id} is not a file")));
        }
        self.size.bytes = self.size.bytes.saturating_add(size as u64);
        if self.size.bytes > self.limits.bytes {
            return Err(self.refused(format!("its files have more than {} bytes", self.limits.bytes)));
        }
        Ok(())
    }

    fn refused(&self, reason: String) -> ProjectError {
        ProjectError::Tree { commit: self.commit.to_string(), reason }
    }
}

fn make_folder(path: &Path, may_exist: bool) -> Result<(), ProjectError> {
    let made = if may_exist { fs_err::create_dir_all(path) } else { fs_err::create_dir(path) };
    made.and_then(|()| fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o755)))
        .map_err(ProjectError::io("make the folder", path))
}

fn write_file(path: &Path, content: &[u8], mode: u32) -> Result<(), ProjectError> {
    let mut options = fs_err::OpenOptions::new();
    options.write(true).create_new(true);
    fs_err::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, nix::libc::O_NOFOLLOW);
    let written = options.open(path).and_then(|mut file| {
        file.write_all(content)?;
        // After the creation, because this process's umask takes rights away.
        file.set_permissions(std::fs::Permissions::from_mode(mode))
    });
    written.map_err(ProjectError::io("write", path))
}

/// Limit on the depth of folders.
const MAX_DEPTH: usize = 200;
/// Limit on the length of a link's target.
const MAX_LINK: usize = 4_095;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::{Sample, entry, git};

    #[test]
    fn a_tree_is_written_byte_for_byte() {
        let sample = Sample::new();
        let files = [
            (".gitattributes", "*.txt text eol=crlf filter=evil\n$Id$ ident\n"),
            ("a.txt", "one\ntwo\n$Id$\n"),
            ("deep/er/b", "b"),
            ("link", "-> /etc/passwd"),
            ("deep/up", "-> ../a.txt"),
        ];
        let commit = sample.commit(&[], &files);
        let folder = sample.folder.path().join("out");
        let size = checkout(&sample.repository, commit, &folder, CheckoutLimits::default()).unwrap();
        assert_eq!(size.entries, 7);
        for (path, text) in files {
            let path = folder.join(path);
            match text.strip_prefix("-> ") {
                Some(target) => assert_eq!(std::fs::read_link(path).unwrap(), Path::new(target)),
                None => assert_eq!(std::fs::read_to_string(path).unwrap(), text),
            }
        }
        assert!(!folder.join(".git").exists());
        // The machine's git finds the same tree in these files.
        git(&folder, &["init", "-q"]);
        std::fs::remove_file(folder.join(".gitattributes")).unwrap();
        git(&folder, &["add", "-A"]);
        let tree = git(&folder, &["write-tree"]);
        let without = sample.commit(&[], &files[1..]);
        assert_eq!(tree, hash(&sample.repository, without).unwrap().to_string());
    }

    #[test]
    fn programs_stay_programs_and_submodules_are_empty() {
        let sample = Sample::new();
        let repository = sample.repository.git();
        let blob = repository.blob(b"#!/bin/sh\n").unwrap();
        let mut index = git2::Index::new().unwrap();
        index.add(&entry("run", 0o100_755, blob)).unwrap();
        index.add(&entry("sub", 0o160_000, git2::Oid::from_bytes(&[7; 20]).unwrap())).unwrap();
        let tree = repository.find_tree(index.write_tree_to(repository).unwrap()).unwrap();
        let author = git2::Signature::now("a", "a@b").unwrap();
        let commit = repository.commit(None, &author, &author, "x", &tree, &[]).unwrap();
        let folder = sample.folder.path().join("out");
        checkout(&sample.repository, commit, &folder, CheckoutLimits::default()).unwrap();
        let mode = std::fs::metadata(folder.join("run")).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o755);
        assert!(std::fs::read_dir(folder.join("sub")).unwrap().next().is_none());
    }

    #[test]
    fn limits_and_used_folders_are_refused() {
        let sample = Sample::new();
        let commit = sample.commit(&[], &[("a", "12345"), ("b", "12345")]);
        let out = |name: &str, limits| {
            checkout(&sample.repository, commit, &sample.folder.path().join(name), limits)
        };
        let small = CheckoutLimits { bytes: 9, ..CheckoutLimits::default() };
        assert!(matches!(out("one", small), Err(ProjectError::Tree { .. })));
        let few = CheckoutLimits { entries: 1, ..CheckoutLimits::default() };
        assert!(matches!(out("two", few), Err(ProjectError::Tree { .. })));
        assert!(out("three", CheckoutLimits::default()).is_ok());
        assert!(matches!(out("three", CheckoutLimits::default()), Err(ProjectError::Tree { .. })));
    }

    #[test]
    fn a_tree_with_a_link_and_a_folder_of_one_name_writes_nothing_outside() {
        let sample = Sample::new();
        let git = sample.repository.git();
        let odb = git.odb().unwrap();
        let outside = sample.folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let blob = git.blob(b"evil").unwrap();
        let link = git.blob(outside.to_str().unwrap().as_bytes()).unwrap();
        let raw = |entries: &[(&str, &str, git2::Oid)]| {
            let mut bytes = Vec::new();
            for (mode, name, id) in entries {
                bytes.extend_from_slice(format!("{mode} {name}\0").as_bytes());
                bytes.extend_from_slice(id.as_bytes());
            }
            odb.write(ObjectType::Tree, &bytes).unwrap()
        };
        let inner = raw(&[("100644", "file", blob)]);
        for (n, entries) in [
            &[("120000", "a", link), ("40000", "a", inner)][..],
            &[("100644", "..", blob)][..],
            &[("40000", ".GIT", inner)][..],
            &[("40000", "", inner)][..],
        ]
        .into_iter()
        .enumerate()
        {
            let tree = raw(entries);
            let text = format!("tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx");
            let commit = odb.write(ObjectType::Commit, text.as_bytes()).unwrap();
            let folder = sample.folder.path().join(format!("out{n}"));
            assert!(checkout(&sample.repository, commit, &folder, CheckoutLimits::default()).is_err(), "{n}");
            assert!(std::fs::read_dir(&outside).unwrap().next().is_none());
        }
    }
}
