//! Marks workspaces that are not on this machine.
//!
//! The workspace of an agent whose container engine is on another machine is a volume there. In the place of its folder here
//! is a small file, the mark, that names the engine. So whoever opens the workspace as a folder of this machine fails with
//! [`BeneathError::Elsewhere`], and nobody takes an old or an empty folder for it.
//!
//! The mark is trusted: the folder of all workspaces is flock's own, and an agent reaches only what is in its own workspace.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::HomeError;
use super::atomic;
use super::beneath::{BeneathError, FileKind, Root};
use crate::id::EngineName;

/// The first line of a mark.
const TITLE: &str = "This workspace is on another machine.";
/// The beginning of the second line, before the name of the engine.
const ENGINE: &str = "engine: ";
/// Limit on the bytes of a mark that are read.
const MAX_BYTES: u64 = 4096;

/// Returns the engine that has a workspace, or `None` if the path is no mark.
#[must_use]
pub fn engine_of(workspace: &Path) -> Option<EngineName> {
    let bytes = atomic::read(workspace, MAX_BYTES).ok()??;
    let text = String::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    if lines.next() != Some(TITLE) {
        return None;
    }
    lines.next()?.strip_prefix(ENGINE)?.parse().ok()
}

/// Marks a workspace as being on an engine. A folder that was there is moved aside in the same step, and its new path is
/// returned. It may be removed once its files are in the engine.
///
/// # Errors
///
/// Returns a [`MarkError`] if something else than a folder or a mark is there, or the mark can't be written.
pub fn mark(workspace: &Path, engine: &EngineName) -> Result<Option<PathBuf>, MarkError> {
    let text = format!("{TITLE}\n{ENGINE}{engine}\n");
    let (above, name) = split(workspace)?;
    let root = Root::open(above)?;
    match root.stat(Path::new(name)) {
        Ok(found) if found.kind == FileKind::Folder => {}
        Ok(_) if engine_of(workspace).is_some() => {
            atomic::write(workspace, text.as_bytes(), 0o644)?;
            return Ok(None);
        }
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
        let (first, second): (EngineName, EngineName) = ("far".parse().unwrap(), "farther".parse().unwrap());
        std::fs::create_dir(&workspace).unwrap();
        std::fs::write(workspace.join("work"), "work").unwrap();
        assert_eq!(engine_of(&workspace), None);
        let kept = mark(&workspace, &first).unwrap().unwrap();
        assert_eq!(std::fs::read_to_string(kept.join("work")).unwrap(), "work");
        assert_eq!(engine_of(&workspace), Some(first.clone()));
        match Root::open(&workspace) {
            Err(BeneathError::Elsewhere { engine, .. }) => assert_eq!(engine, first),
            other => panic!("{other:?}"),
        }
        assert_eq!(mark(&workspace, &second).unwrap(), None);
        assert_eq!(engine_of(&workspace), Some(second));
        unmark(&workspace, &kept).unwrap();
        assert!(Root::open(&workspace).is_ok() && workspace.join("work").is_file() && !kept.exists());
        assert!(unmark(&workspace, &kept).is_err(), "there is no mark");
        // A workspace that never was here.
        assert_eq!(mark(&home.path().join("new"), &first).unwrap(), None);
    }

    #[test]
    fn what_is_neither_a_folder_nor_a_mark_is_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let engine: EngineName = "far".parse().unwrap();
        let file = home.path().join("file");
        for text in
            ["", "somebody's notes\nengine: far\n", "This workspace is on another machine.\nengine: /etc\n"]
        {
            std::fs::write(&file, text).unwrap();
            assert_eq!(engine_of(&file), None, "{text:?}");
            assert!(mark(&file, &engine).is_err(), "{text:?}");
            assert!(matches!(Root::open(&file), Err(BeneathError::WrongKind { .. })), "{text:?}");
        }
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(mark(&link, &engine).is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 2, "nothing else is left");
    }
}
