//! Writes a delivered tree into a workspace, and packs and unpacks what a setup step made beside it.
//!
//! The delivered code wrote what is packed, so it is read through [`Root`], and no link is followed.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{CheckError, ExtraFile, TreeFile, TreeFileKind, TreeSource};
use crate::home::beneath::{BeneathError, FileKind, Owner, Root};

/// Limits on what a setup step may leave.
const MAX_ENTRIES: u64 = 500_000;
const MAX_BYTES: u64 = 8 << 30;
/// Limit on the depth of folders.
const MAX_DEPTH: usize = 200;

/// Writes the files of a tree into an empty folder. With `only`, the others are left out.
///
/// # Errors
///
/// Returns [`CheckError::Tree`] with the file that can't be read or written.
pub(super) fn write_tree(
    workspace: &Path,
    tree: &dyn TreeSource,
    only: Option<&BTreeSet<PathBuf>>,
    owner: Option<Owner>,
) -> Result<(), CheckError> {
    let root = open(workspace)?;
    let mut folder = PathBuf::new();
    for file in tree.files().iter().filter(|file| only.is_none_or(|only| only.contains(&file.path))) {
        let failed = |source| CheckError::Tree { path: file.path.clone(), source };
        // Files are sorted by path, so most are in the same folder as the one before.
        let above = file.path.parent().unwrap_or(Path::new(""));
        if above != folder {
            root.create_dir_all(above, owner).map_err(|error| failed(io::Error::other(error)))?;
            above.clone_into(&mut folder);
        }
        let written = match file.kind {
            TreeFileKind::Submodule => root.create_dir_all(&file.path, owner),
            TreeFileKind::Link => {
                let target = OsString::from_vec(tree.read(file).map_err(failed)?);
                root.link(&file.path, Path::new(&target))
            }
            TreeFileKind::File => {
                root.write(&file.path, &tree.read(file).map_err(failed)?, Some(0o644), owner)
            }
            TreeFileKind::Executable => {
                root.write(&file.path, &tree.read(file).map_err(failed)?, Some(0o755), owner)
            }
        };
        written.map_err(|error| failed(io::Error::other(error)))?;
    }
    Ok(())
}

/// Writes files beside the tree or in place of files of it. The folders above them must exist.
///
/// # Errors
///
/// Returns [`CheckError::Tree`] with the file that can't be written.
pub(super) fn write_extra(
    workspace: &Path,
    extra: &[ExtraFile],
    owner: Option<Owner>,
) -> Result<(), CheckError> {
    let root = open(workspace)?;
    extra.iter().try_for_each(|file| {
        // A file that is replaced keeps its mode.
        root.write(&file.path, &file.content, None, owner).map_err(|error| tree_error(&file.path, error))
    })
}

/// Returns those of the watched files that are not as they were written. A link counts by its target.
///
/// # Errors
///
/// Returns [`CheckError::Tree`] if the tree can't be read. A file that can't be read in the workspace was changed.
pub(super) fn changed(
    workspace: &Path,
    tree: &dyn TreeSource,
    watched: &[PathBuf],
    extra: &[ExtraFile],
) -> Result<Vec<PathBuf>, CheckError> {
    let Ok(root) = open(workspace) else { return Ok(watched.to_vec()) };
    let watched: BTreeSet<&Path> = watched.iter().map(PathBuf::as_path).collect();
    let mut found = Vec::new();
    for file in tree.files().iter().filter(|file| watched.contains(file.path.as_path())) {
        let replaced = extra.iter().find(|extra| extra.path == file.path);
        let before = match replaced {
            Some(extra) => extra.content.clone(),
            None => tree.read(file).map_err(|source| CheckError::Tree { path: file.path.clone(), source })?,
        };
        let is_same = match file.kind {
            TreeFileKind::Submodule => true,
            TreeFileKind::Link => {
                root.read_link(&file.path).is_ok_and(|target| target.as_os_str().as_bytes() == before)
            }
            TreeFileKind::File | TreeFileKind::Executable => {
                root.read(&file.path, before.len() as u64).is_ok_and(|now| now == before)
            }
        };
        if !is_same {
            found.push(file.path.clone());
        }
    }
    Ok(found)
}

/// The paths of a tree, to decide which files beside it may stay.
pub(super) struct TreePaths {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl TreePaths {
    pub fn of(files: &[TreeFile]) -> Self {
        let mut folders = BTreeSet::new();
        for file in files {
            folders.extend(file.path.ancestors().skip(1).map(Path::to_owned));
        }
        Self { files: files.iter().map(|file| file.path.clone()).collect(), folders }
    }

    /// Returns `true` if an entry at this path would stand in the place of a part of the tree, or below a file of it.
    pub fn shadows(&self, path: &Path, is_folder: bool) -> bool {
        path.ancestors().any(|above| self.files.contains(above))
            || (!is_folder && self.folders.contains(path))
    }
}

/// Packs everything in a workspace that is not of the tree. The archive is the same for the same files: entries are
/// sorted, and have neither times nor owners.
///
/// # Errors
///
/// Returns [`CheckError::TooLarge`] if there is too much, and [`CheckError::Tree`] if something can't be read.
pub(super) fn pack(workspace: &Path, tree: &TreePaths, to: impl Write) -> Result<(), CheckError> {
    let root = open(workspace)?;
    let mut packing = Packing { root, tree, archive: tar::Builder::new(to), entries: 0, bytes: 0 };
    packing.folder(Path::new(""), 0)?;
    let finished = packing.archive.into_inner().and_then(|mut to| to.flush());
    finished.map_err(|source| CheckError::Tree { path: PathBuf::new(), source })
}

struct Packing<'a, W: Write> {
    root: Root,
    tree: &'a TreePaths,
    archive: tar::Builder<W>,
    entries: u64,
    bytes: u64,
}

impl<W: Write> Packing<'_, W> {
    fn folder(&mut self, path: &Path, depth: usize) -> Result<(), CheckError> {
        let failed = |error: BeneathError| tree_error(path, error);
        if depth > MAX_DEPTH {
            return Err(CheckError::TooLarge { what: "a path", limit: format!("{MAX_DEPTH} folders") });
        }
        let cap = usize::try_from(MAX_ENTRIES).unwrap_or(usize::MAX);
        let (entries, more) = self.root.list(path, cap).map_err(failed)?;
        self.entries += entries.len() as u64;
        if more || self.entries > MAX_ENTRIES {
            let limit = format!("{MAX_ENTRIES} files");
            return Err(CheckError::TooLarge { what: "the result of the setup step", limit });
        }
        for entry in entries {
            let is_folder = entry.kind == FileKind::Folder;
            if self.tree.shadows(&entry.path, is_folder) {
                continue;
            }
            match entry.kind {
                FileKind::Folder => {
                    if !self.tree.folders.contains(&entry.path) {
                        self.entry(&entry.path, tar::EntryType::Directory, 0o755, 0, io::empty())?;
                    }
                    self.folder(&entry.path, depth + 1)?;
                }
                FileKind::Link => self.link(&entry.path)?,
                FileKind::File => self.file(&entry.path)?,
                // A socket or a FIFO of a process that has ended is of no use.
                FileKind::Other => {}
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), CheckError> {
        let (file, size) = self.root.open_file(path).map_err(|error| tree_error(path, error))?;
        self.bytes += size;
        if self.bytes > MAX_BYTES {
            let limit = format!("{} GiB", MAX_BYTES >> 30);
            return Err(CheckError::TooLarge { what: "the result of the setup step", limit });
        }
        let metadata =
            file.metadata().map_err(|source| CheckError::Tree { path: path.to_owned(), source })?;
        let mode = if metadata.permissions().mode() & 0o100 == 0 { 0o644 } else { 0o755 };
        self.entry(path, tar::EntryType::Regular, mode, size, file.take(size))
    }

    fn link(&mut self, path: &Path) -> Result<(), CheckError> {
        let target = self.root.read_link(path).map_err(|error| tree_error(path, error))?;
        let mut header = header(tar::EntryType::Symlink, 0o777, 0);
        let added = self.archive.append_link(&mut header, path, target);
        added.map_err(|source| CheckError::Tree { path: path.to_owned(), source })
    }

    fn entry(
        &mut self,
        path: &Path,
        kind: tar::EntryType,
        mode: u32,
        size: u64,
        content: impl Read,
    ) -> Result<(), CheckError> {
        let added = self.archive.append_data(&mut header(kind, mode, size), path, content);
        added.map_err(|source| CheckError::Tree { path: path.to_owned(), source })
    }
}

fn header(kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_size(size);
    header.set_mtime(0);
    header
}

/// Unpacks such an archive into a workspace that has the tree already. An entry in the place of a file of the tree is
/// left out, so the tree stays as it was delivered.
///
/// # Errors
///
/// Returns [`CheckError::Tree`] if the archive can't be read or an entry can't be written.
pub(super) fn unpack(
    workspace: &Path,
    tree: &TreePaths,
    from: File,
    owner: Option<Owner>,
) -> Result<(), CheckError> {
    let root = open(workspace)?;
    let mut archive = tar::Archive::new(io::BufReader::new(from));
    let unreadable = |source| CheckError::Tree { path: PathBuf::new(), source };
    for entry in archive.entries().map_err(unreadable)? {
        let mut entry = entry.map_err(unreadable)?;
        let path = PathBuf::from(OsString::from_vec(entry.path_bytes().into_owned()));
        let path: PathBuf = path.components().collect();
        let kind = entry.header().entry_type();
        if tree.shadows(&path, kind.is_dir()) {
            continue;
        }
        let failed = |error: BeneathError| tree_error(&path, error);
        if let Some(above) = path.parent() {
            root.create_dir_all(above, owner).map_err(failed)?;
        }
        if kind.is_dir() {
            root.create_dir_all(&path, owner).map_err(failed)?;
        } else if kind.is_symlink() {
            let target = entry.link_name_bytes().unwrap_or_default().into_owned();
            root.link(&path, Path::new(&OsString::from_vec(target))).map_err(failed)?;
        } else {
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(unreadable)?;
            let mode = entry.header().mode().unwrap_or(0o644);
            root.write(&path, &bytes, Some(mode & 0o777), owner).map_err(failed)?;
        }
    }
    Ok(())
}

fn open(workspace: &Path) -> Result<Root, CheckError> {
    Root::open(workspace).map_err(|error| tree_error(Path::new(""), error))
}

fn tree_error(path: &Path, error: BeneathError) -> CheckError {
    CheckError::Tree { path: path.to_owned(), source: io::Error::other(error) }
}

/// Returns the bytes that stand for a path in a hash. They end with a zero byte, which no path has.
pub(super) fn path_bytes(path: &Path) -> Vec<u8> {
    let mut bytes = path.as_os_str().as_bytes().to_vec();
    bytes.push(0);
    bytes
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A tree in memory.
    pub(crate) struct FakeTree(pub Vec<TreeFile>, pub Vec<Vec<u8>>);

    impl FakeTree {
        pub fn of(files: &[(&str, TreeFileKind, &str)]) -> Self {
            let named = |(path, kind, text): &(&str, TreeFileKind, &str)| TreeFile {
                path: path.into(),
                kind: *kind,
                id: format!("id of {text}"),
            };
            let contents = files.iter().map(|(_, _, text)| text.as_bytes().to_vec()).collect();
            Self(files.iter().map(named).collect(), contents)
        }
    }

    impl TreeSource for FakeTree {
        fn id(&self) -> &str {
            "tree"
        }

        fn files(&self) -> &[TreeFile] {
            &self.0
        }

        fn read(&self, file: &TreeFile) -> io::Result<Vec<u8>> {
            let at = self.0.iter().position(|found| found == file).unwrap();
            Ok(self.1[at].clone())
        }
    }

    #[test]
    fn a_tree_is_written_as_git_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let tree = FakeTree::of(&[
            ("a/run", TreeFileKind::Executable, "#!/bin/sh\n"),
            ("a/text", TreeFileKind::File, "hello"),
            ("link", TreeFileKind::Link, "/etc/passwd"),
            ("other", TreeFileKind::Submodule, ""),
        ]);
        write_tree(folder.path(), &tree, None, None).unwrap();
        let at = |name: &str| folder.path().join(name);
        assert_eq!(std::fs::read_to_string(at("a/text")).unwrap(), "hello");
        assert_eq!(std::fs::metadata(at("a/run")).unwrap().permissions().mode() & 0o777, 0o755);
        assert_eq!(std::fs::read_link(at("link")).unwrap(), Path::new("/etc/passwd"));
        assert_eq!(std::fs::read_dir(at("other")).unwrap().count(), 0);
        let folder = tempfile::tempdir().unwrap();
        let only = BTreeSet::from([PathBuf::from("a/text")]);
        write_tree(folder.path(), &tree, Some(&only), None).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn watched_files_that_were_changed_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let tree = FakeTree::of(&[
            ("a", TreeFileKind::File, "1"),
            ("b", TreeFileKind::File, "2"),
            ("c", TreeFileKind::Link, "a"),
            ("d", TreeFileKind::File, "3"),
            ("e", TreeFileKind::File, "4"),
        ]);
        write_tree(folder.path(), &tree, None, None).unwrap();
        let extra = [ExtraFile { path: "b".into(), content: b"22".to_vec() }];
        write_extra(folder.path(), &extra, None).unwrap();
        let watched: Vec<PathBuf> = ["a", "b", "c", "d"].map(PathBuf::from).to_vec();
        let look = || changed(folder.path(), &tree, &watched, &extra).unwrap();
        assert_eq!(look(), Vec::<PathBuf>::new());
        for (name, text) in [("a", "11"), ("e", "5")] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        std::fs::remove_file(folder.path().join("c")).unwrap();
        std::fs::remove_file(folder.path().join("d")).unwrap();
        nix::unistd::mkfifo(&folder.path().join("d"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(look(), ["a", "c", "d"].map(PathBuf::from));
    }

    #[test]
    fn what_a_setup_step_changed_of_the_tree_is_left_out() {
        let made = tempfile::tempdir().unwrap();
        let tree = FakeTree::of(&[
            ("lib/a.py", TreeFileKind::File, "delivered"),
            ("lock", TreeFileKind::File, "delivered"),
        ]);
        write_tree(made.path(), &tree, None, None).unwrap();
        let at = |name: &str| made.path().join(name);
        std::fs::write(at("lib/a.py"), "changed").unwrap();
        std::fs::remove_file(at("lock")).unwrap();
        std::fs::create_dir(at("lock")).unwrap();
        std::fs::write(at("lock/inside"), "x").unwrap();
        std::fs::create_dir_all(at("node_modules/x/bin")).unwrap();
        std::fs::write(at("node_modules/x/bin/run"), "y").unwrap();
        std::os::unix::fs::symlink("../../outside", at("node_modules/link")).unwrap();
        std::fs::write(at("lib/extra"), "z").unwrap();
        let paths = TreePaths::of(tree.files());
        let (mut one, mut two) = (Vec::new(), Vec::new());
        pack(made.path(), &paths, &mut one).unwrap();
        pack(made.path(), &paths, &mut two).unwrap();
        assert_eq!(one, two);
        let folder = tempfile::tempdir().unwrap();
        let archive = folder.path().join("archive");
        std::fs::write(&archive, &one).unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        write_tree(&workspace, &tree, None, None).unwrap();
        unpack(&workspace, &paths, File::open(&archive).unwrap(), None).unwrap();
        let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap();
        assert_eq!((read("lib/a.py"), read("lock")), ("delivered".to_owned(), "delivered".to_owned()));
        assert_eq!((read("lib/extra"), read("node_modules/x/bin/run")), ("z".to_owned(), "y".to_owned()));
        assert_eq!(
            std::fs::read_link(workspace.join("node_modules/link")).unwrap(),
            Path::new("../../outside")
        );
    }

    #[test]
    fn an_archive_of_another_tree_never_replaces_delivered_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        let mut put = |path: &str, text: &str| {
            let mut header = header(tar::EntryType::Regular, 0o644, text.len() as u64);
            archive.append_data(&mut header, path, text.as_bytes()).unwrap();
        };
        put("tests/test_a.py", "replaced");
        put("tests", "a file in the place of a folder");
        put("tests/test_a.py/below", "below a file");
        put("beside", "kept");
        let file = folder.path().join("archive");
        std::fs::write(&file, archive.into_inner().unwrap()).unwrap();
        let workspace = folder.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        let tree = FakeTree::of(&[("tests/test_a.py", TreeFileKind::File, "delivered")]);
        write_tree(&workspace, &tree, None, None).unwrap();
        unpack(&workspace, &TreePaths::of(tree.files()), File::open(&file).unwrap(), None).unwrap();
        assert_eq!(std::fs::read_to_string(workspace.join("tests/test_a.py")).unwrap(), "delivered");
        assert_eq!(std::fs::read_to_string(workspace.join("beside")).unwrap(), "kept");
    }
}
