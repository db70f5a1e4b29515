//! The files of a home's generations: one for each, named by its number.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::record::{FORMAT, Generation};
use crate::home::{Home, HomeError, atomic};

/// Number of generations that are kept, unless the configuration says another.
pub const DEFAULT_KEEP: u32 = 100;

/// Largest file of a generation, in bytes. A configuration has at most 8 MiB.
const MAX_BYTES: u64 = 16 << 20;

/// Returns the numbers of all generations, the oldest first.
///
/// # Errors
///
/// Returns an error if the folder exists but can't be read.
pub fn numbers(home: &Home) -> Result<Vec<u64>, HomeError> {
    let folder = home.generations();
    let entries = match fs_err::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(HomeError::io("read", &folder))?,
    };
    let number = |name: &str| name.strip_suffix(SUFFIX)?.parse::<u64>().ok();
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(HomeError::io("read", &folder))?;
        // Temporary files and the records of changes in progress have other names.
        found.extend(entry.file_name().to_str().and_then(number).filter(|number| *number > 0));
    }
    found.sort_unstable();
    Ok(found)
}

/// Reads a generation. Returns `None` if there is none with this number.
///
/// # Errors
///
/// Returns an error if its file can't be read, is damaged, or has the format of a newer flock.
pub fn read(home: &Home, number: u64) -> Result<Option<Generation>, HomeError> {
    read_file(&path(home, number))
}

/// Returns the newest generation, if there is one.
///
/// # Errors
///
/// Returns an error if its file can't be read or is damaged.
pub fn newest(home: &Home) -> Result<Option<Generation>, HomeError> {
    match numbers(home)?.last() {
        Some(number) => read(home, *number),
        None => Ok(None),
    }
}

/// Returns the versions of the database's schema that readable generations have.
#[must_use]
pub(crate) fn schemas(home: &Home) -> BTreeSet<u32> {
    let numbers = numbers(home).unwrap_or_default();
    numbers.into_iter().filter_map(|number| read(home, number).ok().flatten()?.state.schema).collect()
}

/// Returns the folder names of the newest `most` versions of OpenClaw that readable generations have.
#[must_use]
pub(crate) fn openclaw_builds(home: &Home, most: u32) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for number in numbers(home).unwrap_or_default().into_iter().rev() {
        let build = read(home, number).ok().flatten().and_then(|generation| generation.state.openclaw);
        if let Some(build) = build.filter(|build| !found.contains(build)) {
            found.push(build);
        }
        if found.len() >= usize::try_from(most).unwrap_or(usize::MAX) {
            break;
        }
    }
    found
}

/// A generation, or the number and the error of one that can't be read.
pub(crate) type ReadGeneration = Result<Generation, (u64, HomeError)>;

/// Reads all generations, the oldest first. Each one that can't be read is returned with its number and its error.
///
/// # Errors
///
/// Returns an error if the folder can't be read.
pub(crate) fn all(home: &Home) -> Result<Vec<ReadGeneration>, HomeError> {
    let read = |number: u64| match read(home, number) {
        // It was removed since the folder was read.
        Ok(None) => None,
        Ok(Some(found)) => Some(Ok(found)),
        Err(error) => Some(Err((number, error))),
    };
    Ok(numbers(home)?.into_iter().filter_map(read).collect())
}

pub(super) fn read_file(path: &Path) -> Result<Option<Generation>, HomeError> {
    let Some(bytes) = atomic::read(path, MAX_BYTES)? else { return Ok(None) };
    let fail = HomeError::io("read", path);
    let found: Generation = serde_json::from_slice(&bytes).map_err(|error| fail(error.into()))?;
    if found.format != FORMAT {
        let text = format!("it has format {}, this flock knows {FORMAT}", found.format);
        return Err(fail(std::io::Error::other(text)));
    }
    Ok(Some(found))
}

/// Writes a generation to a file, in one step.
pub(super) fn write(to: &Path, generation: &Generation) -> Result<(), HomeError> {
    let bytes =
        serde_json::to_vec_pretty(generation).map_err(|error| HomeError::io("write", to)(error.into()))?;
    atomic::write(to, &bytes, 0o600)
}

/// Removes the oldest generations, so that `keep` remain. The next call removes what can't be removed now.
pub(super) fn prune(home: &Home, keep: u32) {
    let Ok(numbers) = numbers(home) else { return };
    let keep = usize::try_from(keep.max(1)).unwrap_or(usize::MAX);
    for number in numbers.iter().take(numbers.len().saturating_sub(keep)) {
        let _ = fs_err::remove_file(path(home, *number));
    }
}

pub(super) fn path(home: &Home, number: u64) -> PathBuf {
    home.generations().join(format!("{number}{SUFFIX}"))
}

/// Returns the record of a change of the configuration that is in progress.
pub(super) fn underway(home: &Home) -> PathBuf {
    home.generations().join("underway")
}

const SUFFIX: &str = ".json";
