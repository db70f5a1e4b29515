//! Copies OpenClaw's state folder, either completely, to be put back later, or for a trial, without keys and without
//! links that leave the state.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::state::{failed, make, remove};
use crate::home::HomeError;

/// Returns an error of kind `Interrupted` if the caller no longer waits.
pub(super) fn check_cancelled(cancel: &CancellationToken) -> io::Result<()> {
    if cancel.is_cancelled() {
        return Err(io::Error::new(io::ErrorKind::Interrupted, "nobody waits for it any more"));
    }
    Ok(())
}

/// The part of a state that is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyMode<'a> {
    /// Everything, with symbolic links kept as they are.
    Whole,
    /// Everything except key files and links that lead out of the state.
    Alone {
        /// Path of the state in use. References to it inside the copy are rewritten to point into the copy.
        live: &'a Path,
    },
}

/// Copies a state folder. Locks and sockets belong to the running process and are left out.
///
/// # Errors
///
/// Returns [`HomeError`] if something can't be read or written, or if the caller no longer waits. The partial copy
/// stays, and the caller removes it.
pub(crate) fn copy(
    from: &Path,
    to: &Path,
    extent: CopyMode<'_>,
    cancel: &CancellationToken,
) -> Result<(), HomeError> {
    remove(to)?;
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let (source, target) = (from.join(&inner), to.join(&inner));
        make(&target)?;
        let entries = fs_err::read_dir(&source).map_err(failed("read", &source))?;
        for entry in entries {
            let entry = entry.map_err(failed("read", &source))?;
            if is_lock(&entry.file_name()) || extent.excludes(&entry.file_name()) {
                continue;
            }
            let kind = entry.file_type().map_err(failed("look at", entry.path()))?;
            let place = inner.join(entry.file_name());
            if kind.is_dir() {
                open.push(place);
            } else if kind.is_symlink() {
                let points = fs_err::read_link(entry.path()).map_err(failed("read", entry.path()))?;
                if extent.has(from, &entry.path(), &points) {
                    std::os::unix::fs::symlink(points, to.join(&place))
                        .map_err(failed("make", to.join(&place)))?;
                }
            } else if kind.is_file() {
                match copy_file(&entry.path(), &to.join(&place), cancel) {
                    Ok(()) => extent.rewrite_index(&to.join(&place), to)?,
                    // Temporary files of a running version may vanish between the listing and the copy.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failed("copy", entry.path())(error)),
                }
            }
        }
    }
    Ok(())
}

impl CopyMode<'_> {
    fn excludes(self, name: &OsStr) -> bool {
        matches!(self, Self::Alone { .. }) && KEY_FILES.iter().any(|key| name == *key)
    }

    /// Returns `true` if a symbolic link is copied. A trial's copy takes only relative links that resolve to a place
    /// inside the state.
    fn has(self, root: &Path, link: &Path, points: &Path) -> bool {
        let Self::Alone { .. } = self else { return true };
        let inside = || Some(link.canonicalize().ok()?.starts_with(root.canonicalize().ok()?));
        points.is_relative() && inside().unwrap_or(false)
    }

    /// Rewrites an index of conversations so that it names the files of the copy instead of those of the state in use.
    /// A version that migrates conversations during a trial must migrate only the copy's.
    fn rewrite_index(self, file: &Path, root: &Path) -> Result<(), HomeError> {
        let Self::Alone { live } = self else { return Ok(()) };
        if file.file_name() != Some(OsStr::new(INDEX_FILE)) {
            return Ok(());
        }
        // The JSON escaped form of the path, with its opening quote, so that only whole paths at the start of a string
        // match.
        let within = |folder: &Path| {
            let text = serde_json::to_string(&format!("{}/", folder.display())).unwrap_or_default();
            text.trim_end_matches('"').to_owned()
        };
        let text = fs_err::read(file).map_err(failed("read", file))?;
        let text = String::from_utf8_lossy(&text);
        fs_err::write(file, text.replace(&within(live), &within(root))).map_err(failed("write", file))
    }
}

fn copy_file(from: &Path, to: &Path, cancel: &CancellationToken) -> io::Result<()> {
    let source = std::fs::File::open(from)?;
    let mode = source.metadata()?.permissions();
    // Private while it is incomplete. The source's mode is set at the end.
    let mut target = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    loop {
        check_cancelled(cancel)?;
        if io::copy(&mut (&source).take(CHUNK_SIZE), &mut target)? == 0 {
            return target.set_permissions(mode);
        }
    }
}

/// Returns `true` for the name of a lock file, for example `gateway.lock` or `gateway.103ffb93.lock.sqlite`.
fn is_lock(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.ends_with(".lock") || name.contains(".lock.")
}

/// Files in which the known versions keep provider keys. Older versions write the keys that they were given into
/// `models.json`.
pub(crate) const KEY_FILES: [&str; 5] =
    ["models.json", "auth-profiles.json", "auth-state.json", "auth.json", "oauth.json"];
/// Index in which older versions record the paths of conversation files.
const INDEX_FILE: &str = "sessions.json";
/// Number of bytes that are copied between two checks for cancellation.
const CHUNK_SIZE: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_isolated_copy_has_no_keys_and_no_outside_references() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (live, left, trial) = (root.join("state"), root.join("state-of-x"), root.join("trial"));
        for folder in ["agents/coder/agent", "agents/coder/sessions", "media"] {
            fs_err::create_dir_all(left.join(folder)).unwrap();
        }
        let agent = left.join("agents/coder/agent");
        for key in KEY_FILES {
            fs_err::write(agent.join(key), "sk-planted").unwrap();
        }
        fs_err::write(agent.join("openclaw-agent.sqlite"), "data").unwrap();
        let index = Path::new("agents/coder/sessions/sessions.json");
        let own = live.join("agents/coder/sessions/1.jsonl");
        let elsewhere = root.join("state-of-y/1.jsonl");
        let text =
            serde_json::json!({"a": {"sessionFile": own}, "b": {"sessionFile": elsewhere}}).to_string();
        fs_err::write(left.join(index), text).unwrap();
        fs_err::create_dir_all(&live).unwrap();
        let link = |points: &Path, name: &str| {
            std::os::unix::fs::symlink(points, left.join("media").join(name)).unwrap();
        };
        link(Path::new("../agents"), "inside");
        link(Path::new("../../state"), "beside");
        link(&live, "absolute");
        link(&left.join("agents"), "own");
        link(Path::new("nowhere"), "dangling");

        let nobody = CancellationToken::new();
        copy(&left, &trial, CopyMode::Alone { live: &live }, &nobody).unwrap();
        let names = |folder: &Path| {
            let entries = fs_err::read_dir(folder).unwrap();
            let mut names: Vec<_> =
                entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&trial.join("agents/coder/agent")), ["openclaw-agent.sqlite"]);
        assert_eq!(names(&trial.join("media")), ["inside"]);
        let copied: serde_json::Value =
            serde_json::from_slice(&fs_err::read(trial.join(index)).unwrap()).unwrap();
        assert_eq!(
            copied["a"]["sessionFile"],
            serde_json::json!(trial.join("agents/coder/sessions/1.jsonl"))
        );
        assert_eq!(copied["b"]["sessionFile"], serde_json::json!(elsewhere), "only what is in the copy");

        copy(&left, &trial, CopyMode::Whole, &nobody).unwrap();
        assert_eq!(names(&trial.join("agents/coder/agent")), names(&agent));
        assert_eq!(names(&trial.join("media")).len(), 5);
        assert_eq!(fs_err::read(trial.join(index)).unwrap(), fs_err::read(left.join(index)).unwrap());
    }

    #[test]
    fn a_copy_is_cancelled_when_its_caller_stops_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs_err::create_dir_all(&from).unwrap();
        // A sparse file is larger than one piece but costs the disk nothing.
        fs_err::File::create(from.join("large")).unwrap().set_len(3 * CHUNK_SIZE + 1).unwrap();
        let patience = CancellationToken::new();
        let waiting = patience.clone().drop_guard();
        copy(&from, &to, CopyMode::Whole, &patience).unwrap();
        assert_eq!(fs_err::metadata(to.join("large")).unwrap().len(), 3 * CHUNK_SIZE + 1);
        drop(waiting);
        let error = copy(&from, &to, CopyMode::Whole, &patience).unwrap_err();
        assert!(
            matches!(&error, HomeError::Io { source, .. } if source.kind() == io::ErrorKind::Interrupted)
        );
        assert_eq!(fs_err::metadata(to.join("large")).unwrap().len(), 0);
    }
}
