//! Doing what was planned. Each step can be done again; one that fails leaves the others be, and says what mends it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::{Failure, service, stop};
use super::facts;
use super::plan::{OPENCLAW_FOLDERS, Step};
use crate::error::Kind;
use crate::home::Home;
use crate::home::clear::clear;
use crate::home::lock::Lock;
use crate::install::{Installer, versions};
use crate::openclaw::sandboxes;
use crate::sandbox::engine::Engine;
use crate::sandbox::{image, owned, volumes};
use crate::supervise::control;
use crate::supervise::halt::Halted;
use crate::supervise::leftover;
use crate::supervise::mark::Mark;
use crate::supervise::settled;
use crate::supervise::unit::OPENCLAW;

/// What holds the home still until all is done.
#[derive(Debug, Default)]
pub struct Held {
    halted: Option<Halted>,
    installer: Option<Installer>,
    /// Whether something is left of an earlier step: the next call must still know whose home it is.
    pub unfinished: bool,
}

impl Held {
    /// Stops what runs and sees to it that nothing starts.
    ///
    /// # Errors
    ///
    /// What would not end.
    pub async fn still(&mut self, home: &Home) -> Result<(), Failure> {
        if !home.run().is_dir() {
            // Whatever runs has its files there.
            return Ok(());
        }
        self.installing(home)?;
        // Before it ends: where it is not in the home, only the supervisor's file says it.
        let socket = control::place::find(home).filter(|socket| !socket.starts_with(home.root()));
        let halted = stop::end(home).await?;
        let survivors: Vec<String> = halted.survivors.iter().map(|one| stop::describe(*one)).collect();
        if !survivors.is_empty() || halted.lock.is_none() {
            let names = if survivors.is_empty() { "the supervisor".to_owned() } else { survivors.join(", ") };
            return Err(Failure::new(Kind::Failed, format!("still there: {names}")).hint("flock stop"));
        }
        if let Some(socket) = socket {
            // It has no listener any more.
            let _ = fs_err::remove_file(socket);
        }
        self.halted = Some(halted);
        Ok(())
    }

    /// Becomes the one who installs, so that nobody else does.
    ///
    /// # Errors
    ///
    /// If somebody does.
    pub fn installing(&mut self, home: &Home) -> Result<(), Failure> {
        if self.installer.is_none() && home.run().is_dir() {
            self.installer = Some(Installer::begin(home)?);
        }
        Ok(())
    }
}

/// Does one step.
///
/// # Errors
///
/// What is left of it, and the command that mends that.
pub async fn carry_out(step: &Step, home: &Home, held: &mut Held) -> Result<(), Failure> {
    match step {
        Step::Service(path) => {
            let found = service::installed(home)?.into_iter().find(|service| service.path == *path);
            found.map_or(Ok(()), |service| service.remove())
        }
        Step::Stop { .. } => held.still(home).await,
        Step::StopOpenClaw => {
            held.installing(home)?;
            stop_openclaw(home).await
        }
        Step::Engine { all, .. } => engine(home, *all).await,
        Step::OpenClaw(paths) => {
            held.installing(home)?;
            remove(home, paths, held.unfinished)?;
            OPENCLAW_FOLDERS.iter().try_for_each(|folder| remove_empty(&home.root().join(folder)))
        }
        Step::Files(paths) => remove(home, paths, held.unfinished),
        Step::Empty(paths) => {
            paths.iter().try_for_each(|path| remove_hollow(&home.root().join(path), facts::LEVELS))
        }
        Step::Home => remove_empty(home.root()),
    }
}

/// Takes away the link to the OpenClaw in use. A supervisor that runs it then lets it end; what nobody watches is ended
/// here.
async fn stop_openclaw(home: &Home) -> Result<(), Failure> {
    let link = home.openclaw();
    if link.is_symlink() {
        remove_file(&link)?;
    }
    let mark = Mark::new(home, OPENCLAW);
    let supervised = Lock::is_held(&home.supervisor_lock()).unwrap_or(false);
    let grace = if supervised { STOP } else { Duration::ZERO };
    // One that is only being made ready has no process yet, and would write what is removed, or begin, afterwards.
    if supervised && !settled::is_down(home, STOP).await {
        let text = "the supervisor did not let go of OpenClaw in time".to_owned();
        return Err(Failure::new(Kind::Failed, text).hint("flock stop"));
    }
    let bearers = mark.bearers();
    let mut left = leftover::gone(&bearers, grace).await;
    if !supervised {
        let mut journal = crate::supervise::journal::Journal::new(home, None);
        left = leftover::sweep(&mark, &mut journal).await;
    }
    match left.first() {
        None => Ok(()),
        Some(one) => {
            let text = format!("OpenClaw still runs: {}", stop::describe(*one));
            Err(Failure::new(Kind::Failed, text).hint("flock stop"))
        }
    }
}

/// Removes what a home has in the engine: all of it, or OpenClaw's containers while the rest is in use.
async fn engine(home: &Home, everything: bool) -> Result<(), Failure> {
    let engine = Engine::from_env();
    let mut failures: Vec<Failure> = Vec::new();
    let mut note =
        |result: Result<(), crate::sandbox::SandboxError>| failures.extend(result.err().map(Failure::from));
    note(sandboxes::remove_all(&engine, home).await.map(drop));
    if everything {
        note(owned::remove_all(&engine, home).await);
        let found = facts::belongings(&engine, home).await?;
        for volume in &found.volumes {
            note(volumes::remove(&engine, volume).await);
        }
        for network in &found.networks {
            note(volumes::remove_network(&engine, network).await);
        }
        // An image that somebody else's container uses is not this home's alone, and stays.
        note(image::untag(&engine, home).await.map(drop));
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Removes these. What proves that a folder is flock's goes after all else of it, and the home's id only where nothing is
/// left: then the next call can go on, wherever this one was killed.
fn remove(home: &Home, paths: &[PathBuf], unfinished: bool) -> Result<(), Failure> {
    let mut first = None;
    let mut count = 0;
    for path in paths {
        let full = home.root().join(path);
        let is_data = full == home.data();
        let proof = if is_data { home.instance() } else { full.join(versions::RECORD) };
        let inner = if proof.is_file() && !full.is_symlink() { others(&full, &proof) } else { Vec::new() };
        let inner: Vec<PathBuf> = inner.into_iter().map(|name| path.join(name)).collect();
        for part in inner.iter().chain([path]) {
            if is_data && part == path && (unfinished || first.is_some()) {
                break;
            }
            if let Err((stuck, more)) = clear(home.root(), part) {
                count += more;
                first.get_or_insert(stuck);
            }
        }
    }
    let Some(stuck) = first else { return Ok(()) };
    let others = if count > 1 { format!(", and {} more", count - 1) } else { String::new() };
    let text = format!("failed to remove {}{others}", stuck.path.display());
    let hint = match stuck.error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            // A flock that is not where root looks would be another program of that name there.
            let flock =
                std::env::current_exe().map_or_else(|_| "flock".into(), |path| path.display().to_string());
            format!("sudo {flock} --home {} uninstall", home.root().display())
        }
        _ => format!("ls -ld {}", stuck.path.display()),
    };
    Err(Failure::caused(text, &stuck.error).hint(hint))
}

fn remove_file(path: &Path) -> Result<(), Failure> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let text = format!("failed to remove {}", path.display());
            Err(Failure::caused(text, &error).hint(format!("ls -ld {}", path.display())))
        }
        _ => Ok(()),
    }
}

/// What else is in a folder.
fn others(folder: &Path, but: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path() != but).map(|entry| entry.file_name()).collect()
}

/// Removes a folder in which there are only empty folders and what killed writers left.
fn remove_hollow(folder: &Path, depth: usize) -> Result<(), Failure> {
    if folder.is_symlink() {
        return Ok(());
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).collect::<Vec<_>>() {
        if facts::is_draft(&path) {
            remove_file(&path)?;
        } else if depth > 0 {
            remove_hollow(&path, depth - 1)?;
        }
    }
    remove_empty(folder)
}

/// A folder that is not there, or has something in it, stays as it is.
fn remove_empty(folder: &Path) -> Result<(), Failure> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound};
    match fs_err::remove_dir(folder) {
        Err(error) if !matches!(error.kind(), DirectoryNotEmpty | NotADirectory | NotFound) => {
            let text = format!("failed to remove {}", folder.display());
            Err(Failure::caused(text, &error).hint(format!("ls -ld {}", folder.display())))
        }
        _ => Ok(()),
    }
}

/// How long a supervisor may take to end OpenClaw: its own grace, and a little.
const STOP: Duration = Duration::from_secs(60);
