//! Keeps OpenClaw's state across a change of its version. A newer version may migrate the state to a form that the
//! older one does not know: 2026.9.6 moves conversations from files into a database, and 2026.2.9 then starts well but
//! finds none of them. So the state that a version left is copied before another version starts on it, and is put back
//! if needed.
//!
//! [`ready`] does both. It is called before each start, when nothing runs on the state. If it is killed at any point,
//! the next call finishes the work.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::copy::{CopyMode, check_cancelled, copy};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError, atomic, free_space};
use crate::id::AgentId;
use crate::install::InstalledVersion;

/// Maximum size of a state that is copied, in bytes. A start must not take minutes, and the disk must not be filled.
pub(crate) const LARGEST: u64 = 2 << 30;

/// A record of the versions that use the state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct OwnerRecord {
    /// Folder name of the version that was started last.
    last: Option<String>,
    /// Folder name of the version that gets its copy back at its next start.
    put_back: Option<String>,
    /// `true` if the version that was started last was healthy on this state.
    healthy: bool,
}

/// The result of [`ready`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateOutcome {
    /// The same version ran on the state before, or there was no state.
    Same,
    /// The state that another version left was copied.
    Copied,
    /// The state is too large for a copy, or the disk has too little free space.
    TooLarge,
    /// The version got back the state that it left itself. The other version's state was set aside.
    PutBack,
}

/// Prepares the state for a version that is about to start.
///
/// # Errors
///
/// Returns [`HomeError`] if the state can't be copied or put back, or if the caller no longer waits. The existing state
/// is complete in any case.
pub(crate) fn ready(
    home: &Home,
    version: &InstalledVersion,
    cancel: &CancellationToken,
) -> Result<StateOutcome, HomeError> {
    make(&home.openclaw_versions())?;
    // A start that was cancelled may still be copying.
    let _one = acquire_lock(home, cancel)?;
    let name = version.name();
    let note = read(home);
    let state = home.openclaw_state();
    let own = copy_path(home, &name);
    let last = note.last.clone().filter(|last| *last != name);
    let mut readied = StateOutcome::Same;
    let wanted = note.put_back.as_deref() == Some(&name);
    let aside = last.as_ref().map(|last| copy_path(home, last));
    if wanted && !own.is_dir() && state.is_dir() && aside.as_ref().is_some_and(|aside| aside.is_dir()) {
        // An earlier call put it back and was killed before it wrote the note.
        readied = StateOutcome::PutBack;
    } else if wanted && own.is_dir() {
        if state.is_dir() {
            // If this same version ran last, its current state needs another name, because its copy has the usual one.
            let aside = aside.unwrap_or_else(|| copy_path(home, &format!("{name}{ASIDE_SUFFIX}")));
            remove(&aside)?;
            rename(&state, &aside)?;
        }
        rename(&own, &state)?;
        readied = StateOutcome::PutBack;
    } else if let Some(last) = &last
        && state.is_dir()
    {
        // Only one copy is kept: that of the version before this one.
        for old in copy_paths(home) {
            remove(&old)?;
        }
        readied = if is_copyable(home, &state) {
            let draft = home.openclaw_versions().join(DRAFT_FOLDER);
            // A partial copy has no use and takes space.
            copy(&state, &draft, CopyMode::Whole, cancel).inspect_err(|_| drop(remove(&draft)))?;
            rename(&draft, &copy_path(home, last))?;
            StateOutcome::Copied
        } else {
            StateOutcome::TooLarge
        };
    }
    // A version has to prove itself again on a state that was changed or that another version used.
    let healthy = note.healthy && readied == StateOutcome::Same && last.is_none();
    let after = OwnerRecord { last: Some(name), put_back: None, healthy };
    if after != note {
        write(home, &after)?;
    }
    Ok(readied)
}

/// Waits for the lock that admits one caller at a time, up to [`LOCK_TIMEOUT`] or until the caller no longer waits.
fn acquire_lock(home: &Home, cancel: &CancellationToken) -> Result<Lock, HomeError> {
    let path = home.openclaw_versions().join("state-owner.lock");
    let end = Instant::now() + LOCK_TIMEOUT;
    loop {
        let lock = Lock::acquire(&path, LOCK_POLL);
        check_cancelled(cancel).map_err(failed("wait for", &path))?;
        match lock {
            Err(HomeError::Held { .. }) if Instant::now() < end => {}
            other => return other,
        }
    }
}

/// Records that the version that was started last is healthy. Does nothing for any other version.
///
/// # Errors
///
/// Returns [`HomeError`] if the record can't be written.
pub(crate) fn record_healthy(home: &Home, version: &str) -> Result<(), HomeError> {
    let note = read(home);
    if note.healthy || note.last.as_deref() != Some(version) {
        return Ok(());
    }
    write(home, &OwnerRecord { healthy: true, ..note })
}

/// Returns `true` if this version was started last and has been healthy since. What was said since then is in its
/// current state.
#[must_use]
pub(crate) fn has_been_healthy(home: &Home, version: &InstalledVersion) -> bool {
    let note = read(home);
    note.healthy && note.last.as_deref() == Some(&version.name())
}

/// Requests that a version gets back the state that it left, at its next start, or withdraws such a request. A request
/// has no effect if there is no copy.
///
/// # Errors
///
/// Returns [`HomeError`] if the request can't be recorded.
pub(crate) fn request_restore(home: &Home, version: Option<&InstalledVersion>) -> Result<(), HomeError> {
    let note = read(home);
    let put_back = version.map(InstalledVersion::name);
    if note.put_back == put_back {
        return Ok(());
    }
    write(home, &OwnerRecord { put_back, ..note })
}

/// Returns `true` if a version gets back the state that it left, at its next start. It can't work with the current
/// state.
#[must_use]
pub(crate) fn is_restore_pending(home: &Home, version: &InstalledVersion) -> bool {
    let name = version.name();
    read(home).put_back.as_deref() == Some(&name) && copy_path(home, &name).is_dir()
}

/// Returns the path of the copy of the state that a version left, if there is one.
#[must_use]
pub(crate) fn find_copy(home: &Home, version: &InstalledVersion) -> Option<PathBuf> {
    Some(copy_path(home, &version.name())).filter(|copy| copy.is_dir())
}

/// Returns `true` if conversations in `before` have another form or place in `after`. A version that wrote `before`
/// will not find them in `after`.
#[must_use]
pub(crate) fn is_migrated(before: &Path, after: &Path) -> bool {
    let Ok(agents) = std::fs::read_dir(before.join("agents")) else { return false };
    agents.flatten().any(|agent| {
        // One index that is gone is enough: its conversations would be missing.
        INDEXES.iter().any(|index| {
            let place = Path::new("agents").join(agent.file_name()).join(index);
            before.join(&place).is_file() && !after.join(&place).is_file()
        })
    })
}

/// Files in which the known versions keep the index of an agent's conversations.
const INDEXES: [&str; 2] = ["sessions/sessions.json", "agent/openclaw-agent.sqlite"];

/// Returns `true` if a state is small enough to be copied and the copy leaves at least its own size free.
#[must_use]
pub(crate) fn is_copyable(home: &Home, state: &Path) -> bool {
    // `get_size` follows no link, not even the folder's own.
    let Ok(state) = state.canonicalize() else { return false };
    // It fails if a file vanishes meanwhile, which a process that a version left behind can cause.
    let size = (0..3).find_map(|_| fs_extra::dir::get_size(&state).ok());
    size.is_some_and(|bytes| bytes <= LARGEST && has_space_for(home, bytes))
}

/// Returns `true` if a copy of this size leaves the same amount of space free.
fn has_space_for(home: &Home, bytes: u64) -> bool {
    let Ok(free) = free_space::measure(&home.openclaw_versions()) else { return false };
    bytes.saturating_mul(2) <= free
}

fn copy_path(home: &Home, name: &str) -> PathBuf {
    home.openclaw_versions().join(format!("{COPY_PREFIX}{name}"))
}

fn copy_paths(home: &Home) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(home.openclaw_versions()).into_iter().flatten().flatten();
    let ours = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_string_lossy().starts_with(COPY_PREFIX) || name == DRAFT_FOLDER
    });
    ours.map(|entry| entry.path()).collect()
}

/// Returns the paths of the state and of every copy of it.
#[must_use]
pub(crate) fn all(home: &Home) -> Vec<PathBuf> {
    let mut all = copy_paths(home);
    all.push(home.openclaw_state());
    all
}

fn read(home: &Home) -> OwnerRecord {
    let bytes = atomic::read(&note(home), MAX_RECORD_SIZE).ok().flatten().unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

fn write(home: &Home, what: &OwnerRecord) -> Result<(), HomeError> {
    make(&home.openclaw_versions())?;
    atomic::write(&note(home), &serde_json::to_vec(what).unwrap_or_default(), 0o600)
}

/// Returns an agent's conversation folders in the state and in its copies. When an agent is removed, its conversations
/// must go from the copies too, so that putting one back does not restore them.
#[must_use]
pub(crate) fn of_agent(home: &Home, id: &AgentId) -> Vec<PathBuf> {
    let folders = all(home).into_iter().filter(|folder| !folder.is_symlink());
    let agents = folders.map(|folder| folder.join("agents")).filter(|agents| !agents.is_symlink());
    agents.map(|agents| agents.join(id.as_str())).filter(|own| own.symlink_metadata().is_ok()).collect()
}

/// Returns the path of the record of the state's owner.
#[must_use]
pub(crate) fn note(home: &Home) -> PathBuf {
    home.openclaw_versions().join("state-owner.json")
}

/// Creates a folder with its parents, accessible only to its owner.
pub(super) fn make(folder: &Path) -> Result<(), HomeError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder).map_err(failed("make", folder))
}

fn rename(from: &Path, to: &Path) -> Result<(), HomeError> {
    fs_err::rename(from, to).map_err(failed("move", from))
}

/// Removes a folder with its contents. A missing folder is no error.
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

/// Name prefix of a copy. The version's name follows.
const COPY_PREFIX: &str = "state-of-";
/// Name suffix of a state that was set aside to put back an older copy of the same version.
const ASIDE_SUFFIX: &str = "-since";
/// Time limit for another caller that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
/// Time between two checks of whether the caller still waits.
const LOCK_POLL: Duration = Duration::from_millis(100);
const DRAFT_FOLDER: &str = ".state-copy";
const MAX_RECORD_SIZE: u64 = 64 << 10;

#[cfg(test)]
#[path = "state_tests.rs"]
mod tests;
