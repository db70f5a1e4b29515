//! A workspace as a tar archive, on its way to an engine on another machine and back, with a tally by which both ends are
//! compared.
//!
//! An agent wrote the files, and another machine sent the archive: files are read and written through [`Root`] only.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::home::beneath::{FileKind, Owner, Root};
use crate::sandbox::disk_room::{BLOCK, DiskRoom};
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
        // An agent chooses the sizes, which files with holes make as large as it likes.
        self.bytes = self.bytes.saturating_add(size);
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
        check_entries(self.folders + self.files + self.links)
    }
}

fn check_entries(count: u64) -> io::Result<()> {
    match count > MAX_ENTRIES {
        true => Err(io::Error::other(format!("it has more than {MAX_ENTRIES} files"))),
        false => Ok(()),
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

/// Packs a workspace below the folder `top` of the archive, for a user of the other machine. What has a name in `without` at
/// the top is left out. Returns what was packed.
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
            let text = format!("it has more than {MAX_ENTRIES} files, or one that can't be examined");
            return Err(io::Error::other(text));
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

/// The folder on this machine into which a workspace is unpacked.
pub(crate) struct Destination<'a> {
    /// The folder itself, which must be empty.
    pub root: &'a Root,
    pub owner: Option<Owner>,
    pub room: DiskRoom,
}

impl Destination<'_> {
    /// Writes a file of this length, with a hole wherever it is zero: its agent can make it longer than the disk.
    fn write_file(&mut self, path: &Path, mode: u32, length: u64, content: &mut impl Read) -> io::Result<()> {
        self.room.announce(length)?;
        let file: File = self.root.create_file(path, self.owner).map_err(io::Error::other)?;
        let size = self.write_content(&file, content)?;
        // A hole at the end is made by nothing else.
        file.set_len(size)?;
        self.root.set_mode(path, mode).map_err(io::Error::other)
    }

    /// Writes the blocks that are not zero. Returns the size with the holes.
    fn write_content(&mut self, file: &File, content: &mut impl Read) -> io::Result<u64> {
        let mut block = Vec::new();
        let mut at = 0;
        loop {
            block.clear();
            content.by_ref().take(BLOCK).read_to_end(&mut block)?;
            if block.is_empty() {
                return Ok(at);
            }
            if block.iter().any(|byte| *byte != 0) {
                self.room.take(BLOCK)?;
                file.write_all_at(&block, at)?;
            }
            at += block.len() as u64;
        }
    }
}

/// Reads an archive of a workspace as an engine sends it, below one folder. With `into` the files are written there. What has a
/// name in `without` at the top is left out, under its other names too. Returns what was in it.
///
/// # Errors
///
/// Returns an error if the archive is damaged or has something that no workspace has, if a file can't be written, or if there
/// is no room for it.
pub(crate) fn unpack(from: impl Read, without: &[&str], into: Option<Destination<'_>>) -> io::Result<Tally> {
    let mut archive = tar::Archive::new(from);
    let mut unpacking = Unpacking {
        without,
        into,
        tally: Tally::default(),
        entries: 0,
        folders: Vec::new(),
        names: HashMap::new(),
    };
    for entry in archive.entries()? {
        unpacking.entry(&mut entry?)?;
    }
    unpacking.finish()
}

struct Unpacking<'a> {
    without: &'a [&'a str],
    into: Option<Destination<'a>>,
    tally: Tally,
    /// Number of entries, with those that are left out.
    entries: u64,
    /// The modes of folders come last: one without the right to write would keep its files out.
    folders: Vec<(PathBuf, u32)>,
    /// Everything that a later entry may be another name of.
    names: HashMap<PathBuf, Unpacked>,
}

/// Something that may have several names. An engine sends all but the first as links to it, whatever its kind is.
#[derive(Clone)]
enum Unpacked {
    File { mode: u32, size: u64, digest: Vec<u8> },
    Link { target: PathBuf },
    LeftOut,
}

impl Unpacking<'_> {
    fn entry<R: Read>(&mut self, entry: &mut tar::Entry<'_, R>) -> io::Result<()> {
        let Some(path) = below_top(&entry.path_bytes())? else { return Ok(()) };
        self.entries += 1;
        check_entries(self.entries)?;
        // Also what is below it, if an agent has made a folder of this name.
        if self.without.iter().any(|name| path.starts_with(name)) {
            self.leave_out(path);
            return Ok(());
        }
        let mode = entry.header().mode()? & 0o777;
        match entry.header().entry_type() {
            tar::EntryType::Directory => self.folder(path, mode),
            tar::EntryType::Symlink => {
                let target = entry.link_name_bytes().unwrap_or_default().into_owned();
                self.link(path, PathBuf::from(OsString::from_vec(target)))
            }
            tar::EntryType::Link => {
                let first = below_top(&entry.link_name_bytes().unwrap_or_default())?;
                self.other_name(path, first.as_deref())
            }
            tar::EntryType::Regular | tar::EntryType::Continuous | tar::EntryType::GNUSparse => {
                self.file(path, mode, entry)
            }
            // Sockets, FIFOs and devices: none of them is of use elsewhere.
            _ => {
                self.leave_out(path);
                Ok(())
            }
        }
    }

    fn leave_out(&mut self, path: PathBuf) {
        self.names.insert(path, Unpacked::LeftOut);
    }

    fn folder(&mut self, path: PathBuf, mode: u32) -> io::Result<()> {
        if let Some(into) = &mut self.into {
            into.room.take(BLOCK)?;
            into.root.create_dir_all(&path, into.owner).map_err(io::Error::other)?;
        }
        self.tally.add(FileKind::Folder, &path, mode, 0, &[]);
        self.folders.push((path, mode));
        Ok(())
    }

    fn link(&mut self, path: PathBuf, target: PathBuf) -> io::Result<()> {
        if let Some(into) = &mut self.into {
            into.room.take(BLOCK)?;
            into.root.link(&path, &target).map_err(io::Error::other)?;
            into.root.change_owner(&path, into.owner).map_err(io::Error::other)?;
        }
        self.tally.add(FileKind::Link, &path, 0, 0, target.as_os_str().as_encoded_bytes());
        self.names.insert(path, Unpacked::Link { target });
        Ok(())
    }

    fn file<R: Read>(&mut self, path: PathBuf, mode: u32, entry: &mut tar::Entry<'_, R>) -> io::Result<()> {
        let length = entry.size();
        let mut content = Hashing { from: entry, hash: Sha256::new(), read: 0 };
        match &mut self.into {
            Some(into) => into.write_file(&path, mode, length, &mut content)?,
            None => drop(io::copy(&mut content, &mut io::sink())?),
        }
        let (size, digest) = (content.read, content.hash.finalize().to_vec());
        self.tally.add(FileKind::File, &path, mode, size, &digest);
        self.names.insert(path, Unpacked::File { mode, size, digest });
        Ok(())
    }

    /// Gives what came before a second name.
    fn other_name(&mut self, path: PathBuf, first: Option<&Path>) -> io::Result<()> {
        let known = first.and_then(|first| Some((first, self.names.get(first)?.clone())));
        let Some((first, known)) = known else {
            return Err(io::Error::other(format!("{path:?} is another name of what is not there")));
        };
        match known {
            Unpacked::File { mode, size, digest } => {
                if let Some(into) = &mut self.into {
                    // The comparison reads a file once for each of its names.
                    into.room.announce(size)?;
                    into.root.hard_link(first, &path).map_err(io::Error::other)?;
                }
                self.tally.add(FileKind::File, &path, mode, size, &digest);
                self.names.insert(path, Unpacked::File { mode, size, digest });
                Ok(())
            }
            // Two links with one target are as good as one link with two names.
            Unpacked::Link { target } => self.link(path, target),
            Unpacked::LeftOut => {
                self.leave_out(path);
                Ok(())
            }
        }
    }

    fn finish(self) -> io::Result<Tally> {
        if let Some(into) = &self.into {
            for (path, mode) in self.folders.iter().rev() {
                into.root.set_mode(path, *mode).map_err(io::Error::other)?;
            }
        }
        Ok(self.tally)
    }
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

    /// Returns the destination with this root and room for 16 MiB.
    fn into<'a>(root: &'a Root, folder: &tempfile::TempDir) -> Destination<'a> {
        Destination { root, owner: None, room: DiskRoom::limited(folder.path(), 16 << 20) }
    }

    /// Unpacks an archive into a new folder with room for this many bytes.
    fn unpacked(archive: &[u8], limit: u64) -> (tempfile::TempDir, io::Result<Tally>) {
        let to = tempfile::tempdir().unwrap();
        let root = Root::open(to.path()).unwrap();
        let room = DiskRoom::limited(to.path(), limit);
        let found = unpack(archive, &[], Some(Destination { root: &root, owner: None, room }));
        (to, found)
    }

    /// Returns an archive of the folder and what is in it.
    fn packed(folder: &Path) -> (Vec<u8>, Tally) {
        let mut archive = Vec::new();
        let tally = pack(&Root::open(folder).unwrap(), "workspace", USER, &[], &mut archive).unwrap();
        (archive, tally)
    }

    /// Returns the header of an entry without content.
    fn header(kind: tar::EntryType) -> tar::Header {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(0);
        header
    }

    #[test]
    fn a_workspace_comes_back_as_it_went() {
        let from = folder();
        let root = Root::open(from.path()).unwrap();
        let mut archive = Vec::new();
        let packed = pack(&root, "workspace", USER, &["AGENTS.md"], &mut archive).unwrap();
        assert_eq!(packed.to_string(), "3 files, 2 folders, 1 links, 100020 bytes");
        assert_eq!(unpack(archive.as_slice(), &[], None).unwrap(), packed);
        let to = tempfile::tempdir().unwrap();
        let there = Root::open(to.path()).unwrap();
        assert_eq!(unpack(archive.as_slice(), &[], Some(into(&there, &to))).unwrap(), packed);
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
            let found = unpack(&archive[..length], &[], None);
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
        assert!(unpack(archive.as_slice(), &[], Some(into(&root, &to))).is_err());
        assert!(!to.path().join("file").exists());
        for path in ["/etc/x", "workspace/../../x"] {
            assert!(below_top(path.as_bytes()).is_err(), "{path}");
        }
    }

    #[test]
    fn the_holes_of_a_file_stay_holes() {
        let from = tempfile::tempdir().unwrap();
        let file = File::create(from.path().join("image")).unwrap();
        file.write_all_at(b"middle", (5 << 20) - 3).unwrap();
        file.set_len((8 << 20) + 7).unwrap();
        std::fs::write(from.path().join("empty"), "").unwrap();
        std::fs::write(from.path().join("zeros"), vec![0_u8; 5000]).unwrap();
        let (archive, tally_before) = packed(from.path());
        // The file is longer than the room for it.
        let (to, found) = unpacked(&archive, 4 << 20);
        assert_eq!(found.unwrap(), tally_before);
        assert_eq!(tally(&Root::open(to.path()).unwrap(), &[]).unwrap(), tally_before);
        let on_disk = std::fs::metadata(to.path().join("image")).unwrap().blocks() * 512;
        assert!(on_disk < 1 << 20, "{on_disk}");
        let content = std::fs::read(to.path().join("image")).unwrap();
        assert_eq!(content, std::fs::read(from.path().join("image")).unwrap());
    }

    #[test]
    fn a_workspace_that_would_fill_the_disk_is_refused_before_it_does() {
        let full = |found: io::Result<Tally>| found.unwrap_err().kind() == io::ErrorKind::StorageFull;
        let from = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(from.path().join(name), vec![1_u8; 1 << 20]).unwrap();
        }
        let (archive, all) = packed(from.path());
        assert_eq!(unpacked(&archive, 3 << 20).1.unwrap(), all);
        let (to, found) = unpacked(&archive, 2 << 20);
        assert!(full(found));
        let size = |name: &str| std::fs::metadata(to.path().join(name)).map_or(0, |found| found.len());
        assert!(size("a") + size("b") + size("c") <= 2 << 20);
        // Zeros take no room, but somebody has to read them.
        let from = tempfile::tempdir().unwrap();
        File::create(from.path().join("zeros")).unwrap().set_len(3 << 20).unwrap();
        let (archive, all) = packed(from.path());
        assert_eq!(unpacked(&archive, 1 << 20).1.unwrap(), all);
        let (to, found) = unpacked(&archive, 1 << 19);
        assert!(full(found) && !to.path().join("zeros").exists());
    }

    #[test]
    fn what_has_several_names_comes_back_whatever_it_is() {
        let mut archive = tar::Builder::new(Vec::new());
        let mut link = |kind, name: &str, to: &str| {
            archive.append_link(&mut header(kind), Path::new("workspace").join(name), to).unwrap();
        };
        link(tar::EntryType::Symlink, "link", "target");
        link(tar::EntryType::Link, "second", "workspace/link");
        link(tar::EntryType::Link, "third", "workspace/second");
        for (kind, name) in [
            (tar::EntryType::Fifo, "pipe"),
            (tar::EntryType::Regular, "AGENTS.md"),
            (tar::EntryType::Directory, "SOUL.md"),
            (tar::EntryType::Regular, "SOUL.md/inside"),
        ] {
            archive.append_data(&mut header(kind), Path::new("workspace").join(name), io::empty()).unwrap();
        }
        let mut link = |name: &str, to: &str| {
            let path = Path::new("workspace").join(name);
            archive.append_link(&mut header(tar::EntryType::Link), path, to).unwrap();
        };
        link("second-pipe", "workspace/pipe");
        link("copy", "workspace/AGENTS.md");
        link("copy-of-copy", "workspace/copy");
        link("below", "workspace/SOUL.md/inside");
        let archive = archive.into_inner().unwrap();
        let without = ["AGENTS.md", "SOUL.md"];
        let to = tempfile::tempdir().unwrap();
        let root = Root::open(to.path()).unwrap();
        let found = unpack(archive.as_slice(), &without, Some(into(&root, &to))).unwrap();
        assert_eq!(found.to_string(), "0 files, 0 folders, 3 links, 0 bytes");
        assert_eq!(unpack(archive.as_slice(), &without, None).unwrap(), found);
        assert_eq!(tally(&root, &without).unwrap(), found);
        for name in ["link", "second", "third"] {
            assert_eq!(std::fs::read_link(to.path().join(name)).unwrap(), Path::new("target"));
        }
        assert_eq!(std::fs::read_dir(to.path()).unwrap().count(), 3, "nothing else is there");
        // A name of what never came is still no name.
        let mut archive = tar::Builder::new(Vec::new());
        archive.append_link(&mut header(tar::EntryType::Link), "workspace/a", "workspace/b").unwrap();
        assert!(unpack(archive.into_inner().unwrap().as_slice(), &[], None).is_err());
    }
}
