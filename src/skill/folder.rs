//! Reads a skill from a folder: one that a person names, or one that is installed.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use super::content::{MAX_FILE_BYTES, MAX_FILES, SKILL_FILE, SkillContent, SkillFile};
use super::error::ImportError;
use crate::home::beneath::{BeneathError, FileKind, Root};
use crate::home::walk::{WalkLimits, walk};

/// The most entries of one folder, hidden ones included.
const MAX_ENTRIES: usize = 4 * MAX_FILES;
/// The limits of the search for folders that have a `SKILL.md`.
const SEARCH: WalkLimits = WalkLimits { depth: 5, entries: 5_000 };
/// The most such folders that are named.
pub(super) const MAX_CANDIDATES: usize = 20;

/// Reads the skill in the folder `from` below `root`. An empty path is the root itself.
///
/// # Errors
///
/// Returns an error if the folder has anything but files and folders, or more than a skill may have.
pub(super) fn read(root: &Root, from: &Path, place: &str) -> Result<SkillContent, ImportError> {
    let mut content = SkillContent::new(place);
    descend(root, from, "", &mut content)?;
    Ok(content)
}

fn descend(root: &Root, from: &Path, above: &str, content: &mut SkillContent) -> Result<(), ImportError> {
    let fail = |source: BeneathError| ImportError::Files { folder: from.join(above), source };
    let (entries, more) = root.list(&from.join(above), MAX_ENTRIES).map_err(fail)?;
    if more {
        return Err(content.excess(format!("a folder of it has more than {MAX_ENTRIES} entries")));
    }
    for entry in entries {
        let name = entry.path.file_name().unwrap_or_default();
        let Some(path) = content.admit(above, name.as_bytes())? else { continue };
        match entry.kind {
            FileKind::Folder => descend(root, from, &path, content)?,
            FileKind::File => {
                content.check_room(&path, entry.size)?;
                // The file may have become another one since it was listed. Then opening it fails, or reads at most this.
                let bytes = root.read(&entry.path, MAX_FILE_BYTES).map_err(fail)?;
                let is_executable = root.mode(&entry.path).map_err(fail)? & 0o111 != 0;
                content.add(path, SkillFile { bytes, is_executable })?;
            }
            FileKind::Link => return Err(content.unfit(&path, "is a link, which is never followed")),
            FileKind::Other => return Err(content.unfit(&path, "is neither a file nor a folder")),
        }
    }
    Ok(())
}

/// Returns the folders below `root` that have a `SKILL.md`, up to a limit.
pub(super) fn candidates(root: &Root) -> Vec<String> {
    let found = walk(root, Path::new(""), SEARCH).unwrap_or_default();
    let files = found.files().filter(|file| file.path.file_name().is_some_and(|name| name == SKILL_FILE));
    let folders = files.filter_map(|file| file.path.parent()?.to_str().map(str::to_owned));
    folders.filter(|path| !path.is_empty()).take(MAX_CANDIDATES).collect()
}
