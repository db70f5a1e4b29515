//! OpenClaw's own state when its version changes. A newer version may bring it into a form that the older one does
//! not know: 2026.9.6 moves conversations from files into a database, and 2026.2.9 then starts well and has none of
//! them. So what a version leaves is copied before another one starts on it, and put back where that is needed.
//!
//! [`ready`] does both. It is called before each start, when nothing runs on the state; killed at any point, it does
//! the rest at the next one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::copy::{Extent, Patience, copy};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic};
use crate::id::AgentId;
use crate::install::Version;

/// Larger ones are not copied: a start must not wait for minutes, nor the disk be filled.
pub const LARGEST: u64 = 2 << 30;

/// Who the state belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Note {
    /// The folder's name of the version that was started on it last.
    last: Option<String>,
    /// The folder's name of the version that gets its copy back when it is started next.
    put_back: Option<String>,
    /// Whether the one that was started last has been healthy on it.
    healthy: bool,
}

/// What became of the state before a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readied {
    /// The same version runs on it as before, or there was none yet.
    Same,
    /// What another version left has been copied.
    Copied,
    /// It is too large for a copy.
    TooLarge,
    /// The version has what it left itself; what the other one left is aside.
    PutBack,
}

/// Makes the state ready for a version that is about to be started on it.
///
/// # Errors
///
/// If it can't be copied or put back, or nobody waits for it any more. What is there is whole all the same.
pub fn ready(home: &Home, version: &Version, patience: &Patience) -> Result<Readied, HomeError> {
    make(&home.openclaw_versions())?;
    // A start that was given up may still be at it.
    let _one = alone(home, patience)?;
    let name = version.name();
    let note = read(home);
    let state = home.openclaw_state();
    let own = copy_of(home, &name);
    let last = note.last.clone().filter(|last| *last != name);
    let mut readied = Readied::Same;
    let wanted = note.put_back.as_deref() == Some(&name);
    let aside = last.as_ref().map(|last| copy_of(home, last));
    if wanted && !own.is_dir() && state.is_dir() && aside.as_ref().is_some_and(|aside| aside.is_dir()) {
        // Put back already, by a call that did not come to its end.
        readied = Readied::PutBack;
    } else if wanted && own.is_dir() {
        if state.is_dir() {
            // Where it was this version itself that ran last, what it has is aside under another name than its copy.
            let aside = aside.unwrap_or_else(|| copy_of(home, &format!("{name}{SINCE}")));
            remove(&aside)?;
            rename(&state, &aside)?;
        }
        rename(&own, &state)?;
        readied = Readied::PutBack;
    } else if let Some(last) = &last
        && state.is_dir()
    {
        for old in copies(home) {
            remove(&old)?;
        }
        readied = if is_copyable(home, &state) {
            let draft = home.openclaw_versions().join(DRAFT);
            // Half a copy only takes room.
            copy(&state, &draft, Extent::Whole, patience).inspect_err(|_| drop(remove(&draft)))?;
            rename(&draft, &copy_of(home, last))?;
            Readied::Copied
        } else {
            Readied::TooLarge
        };
    }
    let healthy = note.healthy && readied == Readied::Same && last.is_none();
    let after = Note { last: Some(name), put_back: None, healthy };
    if after != note {
        write(home, &after)?;
    }
    Ok(readied)
}

/// Waits until nobody else makes the state ready.
fn alone(home: &Home, patience: &Patience) -> Result<Lock, HomeError> {
    let path = home.openclaw_versions().join("state-owner.lock");
    let end = Instant::now() + LONGEST;
    loop {
        let lock = Lock::acquire(&path, PAUSE);
        patience.check().map_err(failed("wait for", &path))?;
        match lock {
            Err(HomeError::Held { .. }) if Instant::now() < end => {}
            other => return other,
        }
    }
}

/// Remembers that this version, which was started last, is healthy.
///
/// # Errors
///
/// If that can't be noted.
pub fn was_seen_healthy(home: &Home, version: &str) -> Result<(), HomeError> {
    let note = read(home);
    if note.healthy || note.last.as_deref() != Some(version) {
        return Ok(());
    }
    write(home, &Note { healthy: true, ..note })
}

/// Whether this version is the one that was started last and has been healthy since it came into use: what was said
/// since is in the state that it has.
#[must_use]
pub fn has_been_healthy(home: &Home, version: &Version) -> bool {
    let note = read(home);
    note.healthy && note.last.as_deref() == Some(&version.name())
}

/// Has a version get back what it left, when it is started next; nothing happens where there is no copy.
///
/// # Errors
///
/// If that can't be noted.
pub fn put_back_at_start(home: &Home, version: &Version) -> Result<(), HomeError> {
    let note = Note { put_back: Some(version.name()), ..read(home) };
    write(home, &note)
}

/// Whether a version gets back what it left, when it is started next: it does not do with what is there.
#[must_use]
pub fn is_to_be_put_back(home: &Home, version: &Version) -> bool {
    let name = version.name();
    read(home).put_back.as_deref() == Some(&name) && copy_of(home, &name).is_dir()
}

/// Has nothing put back at the next start.
///
/// # Errors
///
/// If that can't be noted.
pub fn leave_as_it_is(home: &Home) -> Result<(), HomeError> {
    let note = read(home);
    if note.put_back.is_none() {
        return Ok(());
    }
    write(home, &Note { put_back: None, ..note })
}

/// The copy of what a version left, if there is one.
#[must_use]
pub fn left_by(home: &Home, version: &Version) -> Option<PathBuf> {
    Some(copy_of(home, &version.name())).filter(|copy| copy.is_dir())
}

/// Whether conversations that are in `before` have another form or place in `after`: a version that wrote the first
/// will not find them in the second.
#[must_use]
pub fn is_migrated(before: &Path, after: &Path) -> bool {
    let Ok(agents) = std::fs::read_dir(before.join("agents")) else { return false };
    agents.flatten().any(|agent| {
        INDEXES.iter().any(|index| {
            let place = Path::new("agents").join(agent.file_name()).join(index);
            before.join(&place).is_file() && !after.join(&place).is_file()
        })
    })
}

/// In which files the known versions keep which conversations an agent has.
const INDEXES: [&str; 2] = ["sessions/sessions.json", "agent/openclaw-agent.sqlite"];

/// The bytes of all files of a folder; `None` where that can't be found out, and as soon as they are more than is ever
/// copied.
#[must_use]
pub fn size(folder: &Path) -> Option<u64> {
    let mut sum = 0_u64;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).ok()? {
            let entry = entry.ok()?;
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => open.push(entry.path()),
                Ok(meta) => sum = sum.saturating_add(meta.len()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(_) => return None,
            }
        }
        if sum > LARGEST {
            return None;
        }
    }
    Some(sum)
}

/// Whether a copy of a state is not too large and leaves as much free again.
#[must_use]
pub fn is_copyable(home: &Home, state: &Path) -> bool {
    size(state).is_some_and(|bytes| bytes <= LARGEST && fits(home, bytes))
}

/// Whether a copy of so many bytes leaves as much free again.
fn fits(home: &Home, bytes: u64) -> bool {
    let Ok(found) = nix::sys::statvfs::statvfs(&home.openclaw_versions()) else { return false };
    let free = found.blocks_available().saturating_mul(found.fragment_size());
    bytes.saturating_mul(2) <= free
}

fn copy_of(home: &Home, name: &str) -> PathBuf {
    home.openclaw_versions().join(format!("{COPY}{name}"))
}

fn copies(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.openclaw_versions()).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(COPY) || name == DRAFT
    });
    ours.map(|entry| entry.path()).collect()
}

/// The state and every copy of it.
#[must_use]
pub fn all(home: &Home) -> Vec<PathBuf> {
    let mut all = copies(home);
    all.push(home.openclaw_state());
    all
}

fn read(home: &Home) -> Note {
    let bytes = atomic::read(&note(home), MOST_NOTE).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(home: &Home, what: &Note) -> Result<(), HomeError> {
    make(&home.openclaw_versions())?;
    atomic::write(&note(home), &serde_json::to_vec(what).unwrap_or_default(), 0o600)
}

/// Where an agent's conversations are, in the state and in its copies: one that is put back must not bring them back.
#[must_use]
pub fn of_agent(home: &Home, id: &AgentId) -> Vec<PathBuf> {
    let folders = all(home).into_iter().filter(|folder| !folder.is_symlink());
    let agents = folders.map(|folder| folder.join("agents")).filter(|agents| !agents.is_symlink());
    agents.map(|agents| agents.join(id.as_str())).filter(|own| own.symlink_metadata().is_ok()).collect()
}

/// The file that says whose the state is.
#[must_use]
pub fn note(home: &Home) -> PathBuf {
    home.openclaw_versions().join("state-owner.json")
}

/// Makes a folder that only its owner can look into, with those above it.
pub(super) fn make(folder: &Path) -> Result<(), HomeError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(failed("make", folder))
}

fn rename(from: &Path, to: &Path) -> Result<(), HomeError> {
    fs_err::rename(from, to).map_err(failed("move", from))
}

/// Removes a folder with all in it; that it is not there is fine.
pub(super) fn remove(folder: &Path) -> Result<(), HomeError> {
    match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", folder)(error)),
        _ => Ok(()),
    }
}

pub(super) fn failed(
    verb: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> HomeError {
    let path = path.into();
    move |source| HomeError::Io { verb, path, source }
}

/// What the name of a copy begins with; the rest is the version's.
const COPY: &str = "state-of-";
/// What the name of a state that was set aside for an older copy of the same version's ends with.
const SINCE: &str = "-since";
/// How long another one may be at the same.
const LONGEST: Duration = Duration::from_secs(120);
/// After how long it is looked whether somebody still waits.
const PAUSE: Duration = Duration::from_millis(100);
const DRAFT: &str = ".state-copy";
const MOST_NOTE: u64 = 64 << 10;

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
