//! A listing of the home's files with their modes, sizes and times.
//!
//! Names of files that an agent or the owner chose are left out: such folders show only the number and size of their
//! files.

use std::fmt::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

use crate::home::Home;

/// Largest number of lines in the listing.
const MAX_LINES: usize = 5_000;
/// Largest number of entries that are counted below one folder.
const MAX_COUNTED: u64 = 200_000;

/// Returns one line for each file: mode, owner, size, time of the last change in Unix seconds, path.
pub(crate) fn listing(home: &Home) -> String {
    let opaque = [
        home.vaults(),
        home.skills(),
        home.archetypes(),
        home.scripts(),
        home.locales(),
        home.secrets(),
        home.commands(),
        home.mcp_servers(),
        home.package_tools(),
        home.mcp_secret_folders(),
        home.openclaw_state(),
    ];
    let mut list = Listing { home: home.root(), text: String::new(), lines: 0 };
    // The folders in this list hold names that agents or the owner chose.
    list.entry(home.root(), &|path| {
        // A folder of an OpenClaw version holds a whole program, far too many files to list.
        let parent = path.parent();
        opaque.iter().any(|folder| folder == path)
            || parent == Some(&home.workspaces())
            || parent == Some(&home.openclaw_versions())
    });
    if list.lines >= MAX_LINES {
        let _ = writeln!(list.text, "… more than {MAX_LINES} files; the others are not listed");
    }
    list.text
}

struct Listing<'a> {
    home: &'a Path,
    text: String,
    lines: usize,
}

impl Listing<'_> {
    fn entry(&mut self, path: &Path, is_opaque: &dyn Fn(&Path) -> bool) {
        // The limit counts lines of the whole listing, so a damaged home can't make the bundle huge.
        if self.lines >= MAX_LINES {
            return;
        }
        self.lines += 1;
        let name = path.strip_prefix(self.home).unwrap_or(path).display();
        let meta = match fs_err::symlink_metadata(path) {
            Ok(meta) => meta,
            Err(error) => {
                let _ = writeln!(self.text, "?  {name}: {error}");
                return;
            }
        };
        let kind = match meta.file_type() {
            kind if kind.is_dir() => 'd',
            kind if kind.is_symlink() => 'l',
            kind if kind.is_fifo() => 'p',
            kind if kind.is_socket() => 's',
            kind if kind.is_file() => '-',
            _ => '?',
        };
        let (mode, owner, size, at) = (meta.mode() & 0o7777, meta.uid(), meta.len(), meta.mtime());
        let _ = write!(self.text, "{kind}{mode:04o} {owner:>5} {size:>12} {at} {name}");
        if kind == 'd' && is_opaque(path) {
            let (count, bytes) = count_files(path);
            let _ = writeln!(self.text, "  ({count} files, {bytes} bytes, not listed)");
            return;
        }
        self.text.push('\n');
        if kind == 'd' {
            for entry in sorted_entries(path) {
                self.entry(&entry, is_opaque);
            }
        }
    }
}

fn sorted_entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs_err::read_dir(folder) else { return Vec::new() };
    // A folder with more entries than the listing can show need not be read to its end.
    let mut paths: Vec<_> = entries.take(MAX_LINES).filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// Counts the files below a folder and adds up their sizes. It follows no symbolic link.
fn count_files(folder: &Path) -> (u64, u64) {
    let (mut count, mut bytes, mut seen) = (0, 0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs_err::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MAX_COUNTED {
                return (count, bytes);
            }
            // `DirEntry::metadata` does not follow links, so a loop of links can't keep this running.
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => folders.push(entry.path()),
                Ok(meta) => (count, bytes) = (count + 1, bytes + meta.len()),
                Err(_) => {}
            }
        }
    }
    (count, bytes)
}
