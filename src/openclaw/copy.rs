//! Copying a state: all of it, to be put back later, or for a trial, in which nothing may be a key or lead out of it.

use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::state::{failed, make, remove};
use crate::home::HomeError;

/// Somebody who waits for a copy. Without them it is given up.
#[derive(Debug, Default)]
pub struct Waiting(Arc<AtomicBool>);

impl Waiting {
    /// What the copy looks at, on whatever thread it is made.
    #[must_use]
    pub fn patience(&self) -> Patience {
        Patience(Arc::clone(&self.0))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Whether somebody still waits for a copy.
#[derive(Clone, Debug, Default)]
pub struct Patience(Arc<AtomicBool>);

impl Patience {
    /// Goes on only where somebody waits.
    pub(super) fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "nobody waits for it any more"));
        }
        Ok(())
    }
}

/// What of a state is copied.
#[derive(Clone, Copy, Debug)]
pub enum Extent<'a> {
    /// All of it, with its links as they are.
    Whole,
    /// Without keys and without what leads out of it.
    Alone {
        /// Where the state is that is run on: what the copy says of its own files is said with this path.
        live: &'a Path,
    },
}

/// Copies a state. Locks and sockets belong to who runs on it and are left out.
///
/// # Errors
///
/// What could not be copied, or that nobody waits for it any more. What was copied of it stays, to be removed by the
/// caller.
pub fn copy(from: &Path, to: &Path, extent: Extent<'_>, patience: &Patience) -> Result<(), HomeError> {
    remove(to)?;
    let mut open = vec![PathBuf::new()];
    while let Some(inner) = open.pop() {
        let (source, target) = (from.join(&inner), to.join(&inner));
        make(&target)?;
        let entries = fs_err::read_dir(&source).map_err(failed("read", &source))?;
        for entry in entries {
            let entry = entry.map_err(failed("read", &source))?;
            if is_lock(&entry.file_name()) || extent.leaves_out(&entry.file_name()) {
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
                match copy_file(&entry.path(), &to.join(&place), patience) {
                    Ok(()) => extent.turn_inwards(&to.join(&place), to)?,
                    // A temporary file of a version that runs.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(failed("copy", entry.path())(error)),
                }
            }
        }
    }
    Ok(())
}

impl Extent<'_> {
    fn leaves_out(self, name: &OsStr) -> bool {
        matches!(self, Self::Alone { .. }) && KEYS.iter().any(|key| name == *key)
    }

    /// Whether a link is copied: alone, only one that leads from the state into the state wherever it is.
    fn has(self, root: &Path, link: &Path, points: &Path) -> bool {
        let Self::Alone { .. } = self else { return true };
        let inside = || Some(link.canonicalize().ok()?.starts_with(root.canonicalize().ok()?));
        points.is_relative() && inside().unwrap_or(false)
    }

    /// Has an index of conversations name the files beside it, where it names those of the state that is run on: a
    /// version that moves them into another form must move its own.
    fn turn_inwards(self, file: &Path, root: &Path) -> Result<(), HomeError> {
        let Self::Alone { live } = self else { return Ok(()) };
        if file.file_name() != Some(OsStr::new(INDEX)) {
            return Ok(());
        }
        let within = |folder: &Path| {
            let text = serde_json::to_string(&format!("{}/", folder.display())).unwrap_or_default();
            text.trim_end_matches('"').to_owned()
        };
        let text = fs_err::read(file).map_err(failed("read", file))?;
        let text = String::from_utf8_lossy(&text);
        fs_err::write(file, text.replace(&within(live), &within(root))).map_err(failed("write", file))
    }
}

fn copy_file(from: &Path, to: &Path, patience: &Patience) -> io::Result<()> {
    let source = std::fs::File::open(from)?;
    let mode = source.metadata()?.permissions();
    let mut target = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    loop {
        patience.check()?;
        if io::copy(&mut (&source).take(PIECE), &mut target)? == 0 {
            return target.set_permissions(mode);
        }
    }
}

/// A lock by its name, as in `gateway.lock` and `gateway.103ffb93.lock.sqlite`.
fn is_lock(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.ends_with(".lock") || name.contains(".lock.")
}

/// Where versions keep keys of providers; older ones write those that they were given into the first.
const KEYS: [&str; 5] = ["models.json", "auth-profiles.json", "auth-state.json", "auth.json", "oauth.json"];
/// Where older versions say in which files conversations are.
const INDEX: &str = "sessions.json";
/// So many bytes are copied before it is looked again whether somebody waits.
const PIECE: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_for_a_trial_has_no_key_and_nothing_in_it_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (live, left, trial) = (root.join("state"), root.join("state-of-x"), root.join("trial"));
        for folder in ["agents/coder/agent", "agents/coder/sessions", "media"] {
            fs_err::create_dir_all(left.join(folder)).unwrap();
        }
        let agent = left.join("agents/coder/agent");
        for key in KEYS {
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

        let nobody = Patience::default();
        copy(&left, &trial, Extent::Alone { live: &live }, &nobody).unwrap();
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

        copy(&left, &trial, Extent::Whole, &nobody).unwrap();
        assert_eq!(names(&trial.join("agents/coder/agent")), names(&agent));
        assert_eq!(names(&trial.join("media")).len(), 5);
        assert_eq!(fs_err::read(trial.join(index)).unwrap(), fs_err::read(left.join(index)).unwrap());
    }

    #[test]
    fn a_copy_that_nobody_waits_for_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs_err::create_dir_all(&from).unwrap();
        // Sparse: larger than one piece and no work for the disk.
        fs_err::File::create(from.join("large")).unwrap().set_len(3 * PIECE + 1).unwrap();
        let waiting = Waiting::default();
        let patience = waiting.patience();
        copy(&from, &to, Extent::Whole, &patience).unwrap();
        assert_eq!(fs_err::metadata(to.join("large")).unwrap().len(), 3 * PIECE + 1);
        drop(waiting);
        let error = copy(&from, &to, Extent::Whole, &patience).unwrap_err();
        assert!(
            matches!(&error, HomeError::Io { source, .. } if source.kind() == io::ErrorKind::Interrupted)
        );
        assert_eq!(fs_err::metadata(to.join("large")).unwrap().len(), 0);
    }
}
