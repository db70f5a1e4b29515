//! Unpacks the archives of packages: plain files and folders below one folder, within limits. Links, devices and owners of an
//! archive are left out, as npm and pip leave them out.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use super::error::PackageError;

/// The limits on all packages of a server. That on files is also one on folders.
const MAX_FILES: u64 = 200_000;
const MAX_BYTES: u64 = 3 << 30;
/// The most bytes of a path in an archive, and the most folders of one.
const MAX_PATH: usize = 1024;
const MAX_DEPTH: usize = 64;
/// The most bytes before an entry of a tarball, and of the list of entries of a wheel. The libraries keep them in memory.
const MAX_HEADER: u64 = 1 << 20;
const MAX_DIRECTORY: u64 = 32 << 20;

/// Unpacks archives, and counts what it writes.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    pub files: u64,
    pub folders: u64,
    pub bytes: u64,
}

impl Unpacker {
    /// Unpacks the archive of a package of npm into a folder. Only paths that `wanted` agrees to are written.
    ///
    /// # Errors
    ///
    /// Returns [`PackageError::Hostile`] if an entry leads elsewhere or can't be read, and [`PackageError::TooLarge`] at a
    /// limit.
    pub fn tarball(
        &mut self,
        package: &str,
        archive: File,
        folder: &Path,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> Result<(), PackageError> {
        let hostile = |what: String| PackageError::Hostile { package: package.to_owned(), what };
        let unreadable = |error: std::io::Error| hostile(format!("its archive can't be read: {error}"));
        let reader = flate2::read::MultiGzDecoder::new(BufReader::new(archive));
        let left = Rc::new(Cell::new(MAX_HEADER));
        // The limit is also one on what the archive itself says about sizes.
        let reader = Budgeted { inner: reader.take(MAX_BYTES), left: Rc::clone(&left) };
        let mut archive = tar::Archive::new(reader);
        let mut entries = archive.entries().map_err(unreadable)?;
        loop {
            left.set(MAX_HEADER);
            let Some(entry) = entries.next() else { return Ok(()) };
            let mut entry = entry.map_err(unreadable)?;
            left.set(MAX_BYTES);
            let kind = entry.header().entry_type();
            let bytes = entry.path_bytes().into_owned();
            let path = String::from_utf8(bytes).ok().and_then(|text| relative(&text));
            let path = path.ok_or_else(|| {
                let shown = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                hostile(format!("its archive has the path {:?}", crate::clean::summary(&shown, 100)))
            })?;
            // The first folder stands for the package, whatever it is called.
            let path: PathBuf = path.components().skip(1).collect();
            if path.as_os_str().is_empty() || !(kind.is_file() || kind.is_contiguous()) || !wanted(&path) {
                // Read here, because it would count as a part of the next header otherwise.
                std::io::copy(&mut entry, &mut std::io::sink()).map_err(unreadable)?;
                continue;
            }
            let is_program = entry.header().mode().is_ok_and(|mode| mode & 0o111 != 0);
            self.file(package, entry, &folder.join(&path), is_program)?;
        }
    }

    /// Unpacks a wheel: its packages into `site`, its data beside that.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Self::tarball`].
    pub fn wheel(&mut self, package: &str, archive: File, site: &Path) -> Result<(), PackageError> {
        let hostile = |what: String| PackageError::Hostile { package: package.to_owned(), what };
        let unreadable =
            |error: zip::result::ZipError| hostile(format!("its archive can't be read: {error}"));
        let left = Rc::new(Cell::new(MAX_DIRECTORY));
        let reader = Budgeted { inner: BufReader::new(archive), left: Rc::clone(&left) };
        let mut archive = zip::ZipArchive::new(reader).map_err(unreadable)?;
        left.set(u64::MAX);
        for at in 0..archive.len() {
            let entry = archive.by_index(at).map_err(unreadable)?;
            let name = entry.name().map_err(unreadable)?.into_owned();
            let path = relative(&name).ok_or_else(|| {
                hostile(format!("its archive has the path {:?}", crate::clean::summary(&name, 100)))
            })?;
            if !entry.is_file() {
                continue;
            }
            let Some(place) = in_wheel(&path) else { continue };
            let is_program = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
            self.file(package, entry, &site.join(place), is_program)?;
        }
        Ok(())
    }

    /// Writes one file. No link was ever written below the folder, so none can lead out of it.
    fn file(
        &mut self,
        package: &str,
        content: impl Read,
        path: &Path,
        is_program: bool,
    ) -> Result<(), PackageError> {
        let hostile = |error: &dyn std::fmt::Display| PackageError::Hostile {
            package: package.to_owned(),
            what: format!("{}: {error}", path.file_name().unwrap_or_default().display()),
        };
        self.files += 1;
        if self.files > MAX_FILES {
            return Err(PackageError::TooLarge {
                what: package.to_owned(),
                limit: format!("{MAX_FILES} files"),
            });
        }
        if let Some(above) = path.parent() {
            self.folders += make_folders(above)?;
        }
        if self.folders > MAX_FILES {
            let limit = format!("{MAX_FILES} folders");
            return Err(PackageError::TooLarge { what: package.to_owned(), limit });
        }
        let mode = if is_program { 0o755 } else { 0o644 };
        let opened = File::options().write(true).create(true).truncate(true).mode(mode).open(path);
        let mut file = match opened {
            Ok(file) => file,
            // A folder has the name, or a part of the path is a file.
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                return Err(PackageError::host(path)(error));
            }
            Err(error) => return Err(hostile(&error)),
        };
        let left = MAX_BYTES.saturating_sub(self.bytes);
        let mut content = content.take(left + 1);
        let mut buffer = vec![0; 1 << 16];
        loop {
            // What can't be read is the archive's fault, what can't be written is the disk's.
            let count = content.read(&mut buffer).map_err(|error| hostile(&error))?;
            if count == 0 {
                break;
            }
            self.bytes += count as u64;
            file.write_all(&buffer[..count]).map_err(PackageError::host(path))?;
        }
        if self.bytes > MAX_BYTES {
            let limit = format!("{} GiB", MAX_BYTES >> 30);
            return Err(PackageError::TooLarge { what: package.to_owned(), limit });
        }
        // Whatever the umask of this process is, the sandbox's user reads it.
        file.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(PackageError::host(path))
    }
}

/// Makes a folder, and those above it, that everybody may read. Returns the number of folders that were not there.
pub(super) fn make_folders(folder: &Path) -> Result<u64, PackageError> {
    if folder.is_dir() {
        return Ok(0);
    }
    let above = folder.parent().map_or(Ok(0), make_folders)?;
    let open = std::fs::Permissions::from_mode(0o755);
    let made = std::fs::create_dir(folder).and_then(|()| std::fs::set_permissions(folder, open));
    made.map_err(PackageError::host(folder))?;
    Ok(above + 1)
}

/// A reader that gives only so many bytes. What is left can be set while a library reads.
struct Budgeted<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Budgeted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 && !buffer.is_empty() {
            return Err(std::io::Error::other("its list of files is too long"));
        }
        let wanted = buffer.len().min(left);
        let count = self.inner.read(&mut buffer[..wanted])?;
        self.left.set(self.left.get().saturating_sub(count as u64));
        Ok(count)
    }
}

impl<R: Seek> Seek for Budgeted<R> {
    fn seek(&mut self, to: SeekFrom) -> std::io::Result<u64> {
        self.inner.seek(to)
    }
}

/// Returns a path of an archive if it stays below the folder that it is unpacked into.
fn relative(name: &str) -> Option<PathBuf> {
    if name.len() > MAX_PATH || name.chars().any(char::is_control) {
        return None;
    }
    let mut path = PathBuf::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => path.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (path.components().count() <= MAX_DEPTH).then_some(path)
}

/// Returns the place of a file of a wheel below the folder of all packages. `None` for parts that no program needs.
fn in_wheel(path: &Path) -> Option<PathBuf> {
    let mut parts = path.components();
    let first = parts.next()?.as_os_str().to_str()?;
    if !first.ends_with(".data") {
        return Some(path.to_owned());
    }
    let kind = parts.next()?.as_os_str().to_str()?.to_owned();
    let rest: PathBuf = parts.collect();
    match kind.as_str() {
        "purelib" | "platlib" => Some(rest),
        // Below `sys.prefix` otherwise, which is no folder of the package here.
        "data" => Some(Path::new(".data").join(rest)),
        _ => None,
    }
    .filter(|place| !place.as_os_str().is_empty())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(crate) fn tarball(entries: &[(&str, tar::EntryType, &str)]) -> Vec<u8> {
        let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        let mut archive = tar::Builder::new(gzip);
        for (path, kind, content) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(if path.ends_with("run") { 0o4777 } else { 0o600 });
            // Written as it is, because the library refuses hostile paths.
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            let is_link = matches!(kind, tar::EntryType::Symlink | tar::EntryType::Link);
            if is_link {
                header.as_gnu_mut().unwrap().linkname[..content.len()].copy_from_slice(content.as_bytes());
            }
            let content = if is_link { "" } else { content };
            header.set_size(content.len() as u64);
            header.set_cksum();
            archive.append(&header, content.as_bytes()).unwrap();
        }
        archive.into_inner().unwrap().finish().unwrap()
    }

    pub(crate) fn wheel(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        for (path, content) in entries {
            archive.start_file(*path, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(content.as_bytes()).unwrap();
        }
        archive.finish().unwrap().into_inner()
    }

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn plain_files_are_unpacked_and_links_are_left_out() {
        use tar::EntryType::{Directory, Fifo, Link, Regular, Symlink};
        let folder = tempfile::tempdir().unwrap();
        let site = folder.path().join("a");
        let bytes = tarball(&[
            ("package/", Directory, ""),
            ("package/out", Symlink, "/etc"),
            ("package/out/passwd", Regular, "below what would have been a link"),
            ("package/hard", Link, "/etc/passwd"),
            ("package/pipe", Fifo, ""),
            ("other-name/./lib/run", Regular, "x"),
            ("package/package.json", Regular, "{}"),
        ]);
        let mut unpacker = Unpacker::default();
        unpacker.tarball("a@1", file(&bytes), &site, &|_| true).unwrap();
        assert_eq!((unpacker.files, unpacker.bytes), (3, 36));
        let mode =
            |name: &str| std::fs::symlink_metadata(site.join(name)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("lib/run"), mode("package.json"), mode("lib")), (0o755, 0o644, 0o755));
        assert!(site.join("out").is_dir() && !site.join("hard").exists() && !site.join("pipe").exists());
    }

    #[test]
    fn an_entry_that_leads_elsewhere_is_refused() {
        use tar::EntryType::Regular;
        for path in
            ["package/../../x", "../x", "/etc/x", "package/a/../../../x", "package/a\nb", "package/\u{1b}[2J"]
        {
            let folder = tempfile::tempdir().unwrap();
            let inner = folder.path().join("inner");
            let bytes = tarball(&[(path, Regular, "x")]);
            let error = Unpacker::default().tarball("a@1", file(&bytes), &inner, &|_| true).unwrap_err();
            assert!(matches!(error, PackageError::Hostile { .. }), "{path:?}: {error}");
            let bytes = wheel(&[(path, "x")]);
            let error = Unpacker::default().wheel("a==1", file(&bytes), &inner).unwrap_err();
            assert!(matches!(error, PackageError::Hostile { .. }), "{path:?}: {error}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{path:?}");
        }
        let bytes = tarball(&[("package/a", Regular, "x"), ("package/a/b", Regular, "x")]);
        let folder = tempfile::tempdir().unwrap();
        assert!(Unpacker::default().tarball("a@1", file(&bytes), folder.path(), &|_| true).is_err());
        assert!(Unpacker::default().tarball("a@1", file(b"no archive"), folder.path(), &|_| true).is_err());
        assert!(Unpacker::default().wheel("a==1", file(b"no archive"), folder.path()).is_err());
    }

    #[test]
    fn the_parts_of_a_wheel_go_where_python_finds_them() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = wheel(&[
            ("a/__init__.py", "one"),
            ("a-1.dist-info/METADATA", "two"),
            ("a-1.data/purelib/b.py", "three"),
            ("a-1.data/scripts/tool", "four"),
            ("a-1.data/data/share/c", "five"),
        ]);
        Unpacker::default().wheel("a==1", file(&bytes), folder.path()).unwrap();
        let at = |name: &str| folder.path().join(name).exists();
        assert!(at("a/__init__.py") && at("a-1.dist-info/METADATA") && at("b.py") && at(".data/share/c"));
        assert!(!at("tool") && !at("a-1.data"));
    }

    #[test]
    fn sizes_are_counted_over_all_archives() {
        let folder = tempfile::tempdir().unwrap();
        let mut unpacker = Unpacker { bytes: MAX_BYTES - 1, ..Unpacker::default() };
        let bytes = tarball(&[("package/a", tar::EntryType::Regular, "xx")]);
        let error = unpacker.tarball("a@1", file(&bytes), folder.path(), &|_| true).unwrap_err();
        assert!(matches!(error, PackageError::TooLarge { .. }), "{error}");
        let mut unpacker = Unpacker { files: MAX_FILES, ..Unpacker::default() };
        let error = unpacker.tarball("a@1", file(&bytes), folder.path(), &|_| true).unwrap_err();
        assert!(matches!(error, PackageError::TooLarge { .. }), "{error}");
        let mut unpacker = Unpacker { folders: MAX_FILES - 1, ..Unpacker::default() };
        let bytes = tarball(&[("package/b/c/d", tar::EntryType::Regular, "x")]);
        let error = unpacker.tarball("a@1", file(&bytes), folder.path(), &|_| true).unwrap_err();
        assert!(error.to_string().contains("folders"), "{error}");
    }

    #[test]
    fn a_small_archive_with_a_huge_content_stops_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let content = "\0".repeat(8 << 20);
        let packed_tar = tarball(&[("package/a", tar::EntryType::Regular, &content)]);
        let mut zipped = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let packed =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
        zipped.start_file("a", packed).unwrap();
        zipped.write_all(content.as_bytes()).unwrap();
        let packed_zip = zipped.finish().unwrap().into_inner();
        for (bytes, is_tarball) in [(packed_tar, true), (packed_zip, false)] {
            assert!(bytes.len() < 1 << 20, "{}", bytes.len());
            let mut unpacker = Unpacker { bytes: MAX_BYTES - (1 << 20), ..Unpacker::default() };
            let unpacked = if is_tarball {
                unpacker.tarball("a@1", file(&bytes), folder.path(), &|_| true)
            } else {
                unpacker.wheel("a==1", file(&bytes), folder.path())
            };
            let error = unpacked.unwrap_err();
            assert!(matches!(error, PackageError::TooLarge { .. }), "{error}");
            let written = std::fs::metadata(folder.path().join("a")).unwrap().len();
            assert!(written <= (1 << 20) + 1, "{written}");
        }
    }

    #[test]
    fn lists_of_files_that_fill_the_memory_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        // A name that is longer than any path, which the library would read as a whole.
        let long = "a".repeat(2 << 20);
        for kind in [tar::EntryType::GNULongName, tar::EntryType::GNULongLink, tar::EntryType::XHeader] {
            let bytes = tarball(&[("package/x", kind, &long), ("package/a", tar::EntryType::Regular, "x")]);
            let error =
                Unpacker::default().tarball("a@1", file(&bytes), folder.path(), &|_| true).unwrap_err();
            assert!(error.to_string().contains("list of files is too long"), "{kind:?}: {error}");
        }
        // What is passed over does not count as a header.
        let big = tarball(&[
            ("package/no", tar::EntryType::Regular, &long),
            ("package/yes", tar::EntryType::Regular, "x"),
        ]);
        let wanted = |path: &Path| path.ends_with("yes");
        Unpacker::default().tarball("a@1", file(&big), folder.path(), &wanted).unwrap();
        assert!(folder.path().join("yes").is_file());
        let mut zipped = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let comment = "a".repeat(60_000);
        for at in 0..600 {
            let options = zip::write::FullFileOptions::default().with_file_comment(comment.as_str());
            zipped.start_file(format!("a{at}"), options).unwrap();
        }
        let bytes = zipped.finish().unwrap().into_inner();
        let error = Unpacker::default().wheel("a==1", file(&bytes), folder.path()).unwrap_err();
        assert!(error.to_string().contains("list of files is too long"), "{error}");
    }

    #[test]
    fn a_link_in_a_wheel_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut zipped = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default();
        zipped.add_symlink("out", "/etc", options).unwrap();
        zipped.start_file("out/passwd", options).unwrap();
        zipped.write_all(b"planted").unwrap();
        let bytes = zipped.finish().unwrap().into_inner();
        Unpacker::default().wheel("a==1", file(&bytes), folder.path()).unwrap();
        let kind = std::fs::symlink_metadata(folder.path().join("out")).unwrap().file_type();
        assert!(kind.is_dir() && folder.path().join("out/passwd").is_file());
    }
}
