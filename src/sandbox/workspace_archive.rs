//! A workspace as a tar archive, on its way to an engine on another machine and back, with a tally by which both ends are
//! compared.
//!
//! An agent wrote the files, and another machine sent the archive: files are read and written through [`Root`] only.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::home::beneath::{BeneathError, FileKind, Owner, Root};
use crate::sandbox::spec::SandboxUser;

/// Limit on the number of entries.
const MAX_ENTRIES: u64 = 1_000_000;
/// Limit on the depth of folders.
const MAX_DEPTH: usize = 200;

/// The content of a workspace in numbers. Two workspaces with the same files have the same tally, in whatever order they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub folders: u64,
    pub files: u64,
    pub links: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// The sum of the digests of all entries with their contents.
    sum: u128,
}

impl Tally {
    fn add(&mut self, kind: FileKind, path: &Path, mode: u32, size: u64, content: &[u8]) {
        let (count, letter) = match kind {
            FileKind::Folder => (&mut self.folders, b'd'),
            FileKind::File => (&mut self.files, b'f'),
            FileKind::Link | FileKind::Other => (&mut self.links, b'l'),
        };
        *count += 1;
        self.bytes += size;
        let mut hash = Sha256::new();
        hash.update([letter]);
        // The permissions of a link mean nothing.
        hash.update(if letter == b'l' { 0 } else { mode & 0o777 }.to_be_bytes());
        hash.update((path.as_os_str().len() as u64).to_be_bytes());
        hash.update(path.as_os_str().as_encoded_bytes());
        hash.update(content);
        let digest = hash.finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        // A sum does not depend on the order, and unlike XOR it does not cancel what is there twice.
        self.sum = self.sum.wrapping_add(u128::from_be_bytes(first));
    }

    fn check(&self) -> io::Result<()> {
        if self.folders + self.files + self.links > MAX_ENTRIES {
            return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} files")));
        }
        Ok(())
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} files, {} folders, {} links, {} bytes",
            self.files, self.folders, self.links, self.bytes
        )
    }
}

/// Packs a workspace below the folder `top` of the archive, for a user of the other machine. The names in `without` are left
/// out, if they are files at the top. Returns what was packed.
///
/// # Errors
///
/// Returns an error if a file can't be read, or the archive can't be written.
pub(crate) fn pack(
    root: &Root,
    top: &str,
    user: SandboxUser,
    without: &[&str],
    to: impl Write,
) -> io::Result<Tally> {
    let mut packing = Packing { root, top, user, archive: tar::Builder::new(to), tally: Tally::default() };
    packing.entry(Path::new(""), tar::EntryType::Directory, 0o755, 0, io::empty())?;
    packing.folder(Path::new(""), without, 0)?;
    packing.archive.into_inner()?.flush()?;
    Ok(packing.tally)
}

struct Packing<'a, W: Write> {
    root: &'a Root,
    top: &'a str,
    user: SandboxUser,
    archive: tar::Builder<W>,
    tally: Tally,
}

impl<W: Write> Packing<'_, W> {
    fn folder(&mut self, path: &Path, without: &[&str], depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::other(format!("{path:?} is deeper than {MAX_DEPTH} folders")));
        }
        let (entries, more) = self
            .root
            .list(path, usize::try_from(MAX_ENTRIES).unwrap_or(usize::MAX))
            .map_err(io::Error::other)?;
        if more {
            return Err(io::Error::other(format!("it has more than {MAX_ENTRIES} files")));
        }
        for entry in entries {
            if depth == 0 && without.iter().any(|name| entry.path == Path::new(name)) {
                continue;
            }
            match entry.kind {
                FileKind::Folder => {
                    let mode = self.root.mode(&entry.path).map_err(io::Error::other)?;
                    self.entry(&entry.path, tar::EntryType::Directory, mode, 0, io::empty())?;
                    self.tally.add(FileKind::Folder, &entry.path, mode, 0, &[]);
                    self.folder(&entry.path, &[], depth + 1)?;
                }
                FileKind::File => self.file(&entry.path)?,
                FileKind::Link => self.link(&entry.path)?,
                // A socket or a FIFO of a process that has ended is of no use.
                FileKind::Other => {}
            }
            self.tally.check()?;
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> io::Result<()> {
        let (file, size) = self.root.open_file(path).map_err(io::Error::other)?;
        let metadata = file.metadata()?;
        let mode = metadata.permissions().mode();
        let mut header = self.header(tar::EntryType::Regular, mode, size);
        header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or_default());
        let mut content = Hashing { from: file.take(size), hash: Sha256::new(), read: 0 };
        self.archive.append_data(&mut header, self.place(path), &mut content)?;
        if content.read != size {
            return Err(io::Error::other(format!("{path:?} changed while it was read")));
        }
        self.tally.add(FileKind::File, path, mode, size, &content.hash.finalize());
        Ok(())
    }

    fn link(&mut self, path: &Path) -> io::Result<()> {
        let target = self.root.read_link(path).map_err(io::Error::other)?;
        let mut header = self.header(tar::EntryType::Symlink, 0o777, 0);
        self.archive.append_link(&mut header, self.place(path), &target)?;
        self.tally.add(FileKind::Link, path, 0, 0, target.as_os_str().as_encoded_bytes());
        Ok(())
    }

    fn entry(
        &mut self,
        path: &Path,
        kind: tar::EntryType,
        mode: u32,
        size: u64,
        content: impl Read,
    ) -> io::Result<()> {
        let mut header = self.header(kind, mode, size);
        self.archive.append_data(&mut header, self.place(path), content)
    }

    fn place(&self, path: &Path) -> PathBuf {
        Path::new(self.top).join(path)
    }

    fn header(&self, kind: tar::EntryType, mode: u32, size: u64) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode & 0o777);
        header.set_size(size);
        header.set_uid(u64::from(self.user.uid));
        header.set_gid(u64::from(self.user.gid));
        header.set_mtime(0);
        header
    }
}

/// Reads an archive of a workspace as an engine sends it, below one folder. With `into` the files are written to that
/// folder, which must be empty. Returns what was in it.
///
/// # Errors
///
/// Returns an error if the archive is damaged or has something that no workspace has, or if a file can't be written.
pub(crate) fn unpack(
    from: impl Read,
    without: &[&str],
    into: Option<&Root>,
    owner: Option<Owner>,
) -> io::Result<Tally> {
    let mut archive = tar::Archive::new(from);
    let mut tally = Tally::default();
    // The modes of folders come last: one without the right to write would keep its files out.
    let mut folders: Vec<(PathBuf, u32)> = Vec::new();
    let mut files: HashMap<PathBuf, (u32, u64, Vec<u8>)> = HashMap::new();
    for entry in archive.entries()? {
        let mut entry = entry?;
        let Some(path) = below_top(&entry.path_bytes())? else { continue };
        if path.components().count() == 1 && without.iter().any(|name| path == Path::new(name)) {
            continue;
        }
        let kind = entry.header().entry_type();
        let mode = entry.header().mode()? & 0o777;
        match kind {
            tar::EntryType::Directory => {
                if let Some(root) = into {
                    root.create_dir_all(&path, owner).map_err(io::Error::other)?;
                }
                tally.add(FileKind::Folder, &path, mode, 0, &[]);
                folders.push((path, mode));
            }
            tar::EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                let target = PathBuf::from(OsString::from_vec(target));
                if let Some(root) = into {
                    root.link(&path, &target).map_err(io::Error::other)?;
                    root.change_owner(&path, owner).map_err(io::Error::other)?;
                }
                tally.add(FileKind::Link, &path, 0, 0, target.as_os_str().as_encoded_bytes());
            }
            tar::EntryType::Link => {
                // A second name of a file that came before.
                let target = below_top(&entry.link_name_bytes().unwrap_or_default())?;
                let known = target.as_ref().and_then(|target| Some((target, files.get(target)?.clone())));
                let Some((target, (mode, size, digest))) = known else {
                    return Err(io::Error::other(format!("{path:?} is another name of what is not there")));
                };
                if let Some(root) = into {
                    root.hard_link(target, &path).map_err(io::Error::other)?;
                }
                tally.add(FileKind::File, &path, mode, size, &digest);
                files.insert(path, (mode, size, digest));
            }
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                let mut content = Hashing { from: &mut entry, hash: Sha256::new(), read: 0 };
                match into {
                    Some(root) => write_file(root, &path, mode, owner, &mut content)?,
                    None => drop(io::copy(&mut content, &mut io::sink())?),
                }
                let (size, digest) = (content.read, content.hash.finalize().to_vec());
                tally.add(FileKind::File, &path, mode, size, &digest);
                files.insert(path, (mode, size, digest));
            }
            // Sockets, FIFOs and devices: none of them is of use elsewhere.
            _ => {}
        }
        tally.check()?;
    }
    if let Some(root) = into {
        for (path, mode) in folders.iter().rev() {
            root.set_mode(path, *mode).map_err(io::Error::other)?;
        }
    }
    Ok(tally)
}

fn write_file(
    root: &Root,
    path: &Path,
    mode: u32,
    owner: Option<Owner>,
    content: &mut impl Read,
) -> io::Result<()> {
    let failed = |error: BeneathError| io::Error::other(error);
    let mut file: File = root.create_file(path, owner).map_err(failed)?;
    io::copy(content, &mut file)?;
    root.set_mode(path, mode).map_err(failed)
}

/// Returns the tally of a workspace on this machine.
///
/// # Errors
///
/// Returns an error if a file can't be read.
pub(crate) fn tally(root: &Root, without: &[&str]) -> io::Result<Tally> {
    pack(root, "workspace", SandboxUser { uid: 0, gid: 0 }, without, io::sink())
}

/// Returns a path of an archive below its one top folder, or `None` for that folder itself.
fn below_top(bytes: &[u8]) -> io::Result<Option<PathBuf>> {
    let path = PathBuf::from(OsString::from_vec(bytes.to_vec()));
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            _ => return Err(io::Error::other(format!("the archive has the path {path:?}"))),
        }
    }
    let mut parts = plain.components();
    parts.next();
    let rest = parts.as_path();
    Ok((!rest.as_os_str().is_empty()).then(|| rest.to_owned()))
}

/// Counts and hashes what is read.
struct Hashing<R> {
    from: R,
    hash: Sha256,
    read: u64,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.read += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: SandboxUser = SandboxUser { uid: 1000, gid: 1000 };

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/long"), "x".repeat(100_000)).unwrap();
        std::fs::write(at("run"), "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(at("run"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(at("AGENTS.md"), "who").unwrap();
        std::os::unix::fs::symlink("/etc/passwd", at("a/link")).unwrap();
        std::fs::hard_link(at("run"), at("a/run")).unwrap();
        std::fs::set_permissions(at("a/b"), std::fs::Permissions::from_mode(0o500)).unwrap();
        folder
    }

    #[test]
    fn a_workspace_comes_back_as_it_went() {
        let from = folder();
        let root = Root::open(from.path()).unwrap();
        let mut archive = Vec::new();
        let packed = pack(&root, "workspace", USER, &["AGENTS.md"], &mut archive).unwrap();
        assert_eq!(packed.to_string(), "3 files, 2 folders, 1 links, 100020 bytes");
        assert_eq!(unpack(archive.as_slice(), &[], None, None).unwrap(), packed);
        let to = tempfile::tempdir().unwrap();
        let there = Root::open(to.path()).unwrap();
        assert_eq!(unpack(archive.as_slice(), &[], Some(&there), None).unwrap(), packed);
        assert_eq!(tally(&there, &[]).unwrap(), packed);
        assert_eq!(std::fs::read_link(to.path().join("a/link")).unwrap(), Path::new("/etc/passwd"));
        // Another content, another mode and another name are each seen.
        std::fs::write(to.path().join("run"), "#!/bin/ss\n").unwrap();
        assert_ne!(tally(&there, &[]).unwrap(), packed);
    }

    #[test]
    fn a_cut_archive_is_not_taken_for_a_whole_one() {
        let from = folder();
        let root = Root::open(from.path()).unwrap();
        let mut archive = Vec::new();
        let packed = pack(&root, "workspace", USER, &[], &mut archive).unwrap();
        for length in (0..archive.len() - 1024).step_by(512) {
            let found = unpack(&archive[..length], &[], None, None);
            assert!(found.is_err() || found.unwrap() != packed, "{length}");
        }
    }

    #[test]
    fn a_hostile_archive_writes_nothing_elsewhere() {
        let to = tempfile::tempdir().unwrap();
        let inside = to.path().join("in");
        std::fs::create_dir(&inside).unwrap();
        let root = Root::open(&inside).unwrap();
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, "workspace/out", "..").unwrap();
        let mut header = tar::Header::new_gnu();
        header.set_size(1);
        header.set_mode(0o644);
        archive.append_data(&mut header, "workspace/out/file", &b"x"[..]).unwrap();
        let archive = archive.into_inner().unwrap();
        assert!(unpack(archive.as_slice(), &[], Some(&root), None).is_err());
        assert!(!to.path().join("file").exists());
        for path in ["/etc/x", "workspace/../../x"] {
            assert!(below_top(path.as_bytes()).is_err(), "{path}");
        }
    }
}
