//! Marks workspaces that are not on this machine.
//!
//! The workspace of an agent whose container engine is on another machine is a volume there. In the place of its folder here
//! is a small file, the mark, that names the engine and the volume. So whoever opens the workspace as a folder of this
//! machine fails with [`BeneathError::Elsewhere`], and nobody takes an old or an empty folder for it.
//!
//! The mark alone tells which volume a workspace is. The name of each volume is chosen by chance and used once, so it is
//! never that of another home on the same engine, and several gateways with one folder of workspaces find the same volume.
//!
//! The mark is trusted: the folder of all workspaces is flock's own, and an agent reaches only what is in its own workspace.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use super::HomeError;
use super::atomic;
use super::beneath::{BeneathError, FileKind, Root};
use crate::id::{AgentId, EngineName, hex};

/// The first line of a mark.
const TITLE: &str = "This workspace is on another machine.";
/// The beginning of the second line, before the name of the engine.
const ENGINE: &str = "engine: ";
/// The beginning of the third line, before the name of the volume.
const VOLUME: &str = "volume: ";
/// The beginning of the names of all volumes that are workspaces.
pub(crate) const VOLUMES: &str = "flock-ws-";
/// The longest name of a volume, in bytes.
const MAX_VOLUME: usize = 128;
/// Limit on the bytes of a mark that are read.
const MAX_BYTES: u64 = 4096;

/// The place of a workspace that is on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The engine that has it.
    pub engine: EngineName,
    /// The name of the volume in it.
    pub volume: String,
}

impl Mark {
    /// Returns a mark with a volume that does not exist yet.
    #[must_use]
    pub fn new(engine: &EngineName, agent: &AgentId) -> Self {
        let volume = format!("{VOLUMES}{agent}-{}", hex(&rand::random::<[u8; 8]>()));
        Self { engine: engine.clone(), volume }
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_prefix(TITLE)?.strip_prefix('\n')?.lines();
        let engine = lines.next()?.strip_prefix(ENGINE)?.parse().ok()?;
        let volume = lines.next()?.strip_prefix(VOLUME)?;
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let is_volume =
            volume.starts_with(VOLUMES) && volume.len() <= MAX_VOLUME && volume.bytes().all(is_name);
        is_volume.then(|| Self { engine, volume: volume.to_owned() })
    }

    fn text(&self) -> String {
        format!("{TITLE}\n{ENGINE}{}\n{VOLUME}{}\n", self.engine, self.volume)
    }
}

/// Returns the mark of a workspace, or `None` if there is none.
#[must_use]
pub fn read(workspace: &Path) -> Option<Mark> {
    let bytes = atomic::read(workspace, MAX_BYTES).ok()??;
    Mark::parse(std::str::from_utf8(&bytes).ok()?)
}

/// Returns the engine that has a workspace, or `None` if the path is no mark.
#[must_use]
pub fn engine_of(workspace: &Path) -> Option<EngineName> {
    Some(read(workspace)?.engine)
}

/// Returns the agents with marks in the folder of all workspaces, sorted.
///
/// # Errors
///
/// Returns an error if the folder or a file in it can't be read, or if a mark is damaged: what is not known must not be taken
/// for what is not there.
pub(crate) fn marks(workspaces: &Path) -> io::Result<Vec<(AgentId, Mark)>> {
    let entries = match fs_err::read_dir(workspaces) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // A mark that is being written has another name, and a longer file is something else.
        let Some(agent) = entry.file_name().to_str().and_then(|name| name.parse::<AgentId>().ok()) else {
            continue;
        };
        if !entry.file_type()?.is_file() || entry.metadata()?.len() > MAX_BYTES {
            continue;
        }
        let bytes = atomic::read(&entry.path(), MAX_BYTES).map_err(io::Error::other)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        if !text.starts_with(TITLE) {
            continue;
        }
        let damaged = || io::Error::other(format!("{:?} is the damaged mark of a workspace", entry.path()));
        found.push((agent, Mark::parse(&text).ok_or_else(damaged)?));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found)
}

/// Marks a workspace as being on an engine. A folder that was there is moved aside in the same step, and its new path is
/// returned. It may be removed once its files are in the engine.
///
/// # Errors
///
/// Returns a [`MarkError`] if something else than a folder is there, which may be a mark, or the mark can't be written.
pub fn mark(workspace: &Path, mark: &Mark) -> Result<Option<PathBuf>, MarkError> {
    let text = mark.text();
    let (above, name) = split(workspace)?;
    let root = Root::open(above)?;
    match root.stat(Path::new(name)) {
        Ok(found) if found.kind == FileKind::Folder => {}
        // Not even another mark, which alone knows its volume.
        Ok(_) => return Err(MarkError::InTheWay { path: workspace.to_owned() }),
        Err(BeneathError::NotFound { .. }) => {
            atomic::write(workspace, text.as_bytes(), 0o644)?;
            return Ok(None);
        }
        Err(error) => return Err(error.into()),
    }
    let mut aside = OsString::from(".");
    aside.push(name);
    aside.push(format!(".moved-{:016x}", rand::random::<u64>()));
    let kept = above.join(&aside);
    atomic::write(&kept, text.as_bytes(), 0o644)?;
    if let Err(error) = root.exchange(Path::new(&aside), Path::new(name)) {
        // The name shows what it is, if this fails as well.
        let _ = root.remove(Path::new(&aside));
        return Err(error.into());
    }
    root.sync_folder(Path::new(""))?;
    Ok(Some(kept))
}

/// Puts a folder in the place of a mark, in one step. `folder` is beside the mark and has the files of the workspace.
///
/// # Errors
///
/// Returns a [`MarkError`] if there is no mark, or the folder can't be moved. The mark is then as before.
pub fn unmark(workspace: &Path, folder: &Path) -> Result<(), MarkError> {
    let in_the_way = || MarkError::InTheWay { path: workspace.to_owned() };
    let ((above, name), (beside, from)) = (split(workspace)?, split(folder)?);
    if engine_of(workspace).is_none() || above != beside {
        return Err(in_the_way());
    }
    let root = Root::open(above)?;
    if root.stat(Path::new(from))?.kind != FileKind::Folder {
        return Err(in_the_way());
    }
    root.exchange(Path::new(from), Path::new(name))?;
    root.remove(Path::new(from))?;
    Ok(root.sync_folder(Path::new(""))?)
}

fn split(workspace: &Path) -> Result<(&Path, &std::ffi::OsStr), MarkError> {
    let parts = workspace.parent().zip(workspace.file_name());
    parts.ok_or_else(|| MarkError::InTheWay { path: workspace.to_owned() })
}

/// An error of marking a workspace.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// Something of another kind is in the place of the workspace.
    #[error("{path:?} is neither a folder nor the mark of a workspace on another machine")]
    InTheWay { path: PathBuf },
    /// The folder of all workspaces can't be changed.
    #[error(transparent)]
    Beneath(#[from] BeneathError),
    /// The mark can't be written.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl crate::error::Explain for MarkError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_workspace_is_opened_by_nobody_and_its_folder_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let workspace = home.path().join("coder");
        let agent: AgentId = "coder".parse().unwrap();
        let first: EngineName = "far".parse().unwrap();
        let (there, other) = (Mark::new(&first, &agent), Mark::new(&"farther".parse().unwrap(), &agent));
        assert!(
            there.volume.starts_with("flock-ws-coder-") && there.volume != Mark::new(&first, &agent).volume
        );
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("work"), "work").unwrap();
        assert_eq!(engine_of(&workspace), None);
        let kept = mark(&workspace, &there).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(kept.join("work")).unwrap(), "work");
        assert_eq!(engine_of(&workspace), Some(first.clone()));
        match Root::open(&workspace) {
            Err(BeneathError::Elsewhere { engine, .. }) => assert_eq!(engine, first),
            other => panic!("{other:?}"),
        }
        assert_eq!(read(&workspace), Some(there.clone()));
        assert!(mark(&workspace, &other).is_err(), "a mark is not replaced");
        assert_eq!(marks(home.path()).unwrap(), [(agent, there)]);
        unmark(&workspace, &kept).unwrap();
        assert!(Root::open(&workspace).is_ok() && workspace.join("work").is_file() && !kept.exists());
        assert!(unmark(&workspace, &kept).is_err(), "there is no mark");
        // A workspace that never was here.
        assert_eq!(mark(&home.path().join("new"), &other).unwrap(), None);
    }

    #[test]
    fn what_is_neither_a_folder_nor_a_mark_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let place = Mark::new(&"far".parse().unwrap(), &"coder".parse().unwrap());
        let file = home.path().join("file");
        for (text, is_damaged) in [
            ("", false),
            ("somebody's notes\nengine: far\nvolume: flock-ws-a\n", false),
            ("This workspace is on another machine.\nengine: /etc\nvolume: flock-ws-a\n", true),
            ("This workspace is on another machine.\nengine: far\nvolume: flock-nix\n", true),
            ("This workspace is on another machine.\nengine: far\nvolume: flock-ws-a/../b\n", true),
            ("This workspace is on another machine.\nengine: far\n", true),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(engine_of(&file), None, "{text:?}");
            assert!(mark(&file, &place).is_err(), "{text:?}");
            assert_eq!(marks(home.path()).is_err(), is_damaged, "{text:?}");
            assert!(matches!(Root::open(&file), Err(BeneathError::WrongKind { .. })), "{text:?}");
        }
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(mark(&link, &place).is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2, "nothing else is left");
    }
}
