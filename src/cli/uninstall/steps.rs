//! The steps of an uninstall. Each can be repeated. A failed step does not stop the others, and its error names the
//! command that repairs it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::{Failure, service, stop, team};
use super::facts;
use super::plan::{OPENCLAW_FOLDERS, UninstallStep};
use crate::error::Kind;
use crate::home::Home;
use crate::home::lock::Lock;
use crate::home::remove_tree::clear;
use crate::install::{InstallLock, versions};
use crate::openclaw::sandboxes;
use crate::sandbox::engine::Engine;
use crate::sandbox::kubernetes::relocation;
use crate::sandbox::{containers, image, volumes};
use crate::supervise::control;
use crate::supervise::env_marker::EnvMarker;
use crate::supervise::halt::HaltResult;
use crate::supervise::openclaw_wait;
use crate::supervise::orphans;
use crate::supervise::unit::OPENCLAW;

/// Locks that keep the home still until the uninstall is complete.
#[derive(Debug, Default)]
pub(crate) struct UninstallLocks {
    halted: Option<HaltResult>,
    installer: Option<InstallLock>,
    /// Set if an earlier step left something. The next call must then still find out whose home it is.
    pub unfinished: bool,
}

impl UninstallLocks {
    /// Stops everything that runs and keeps anything from starting.
    ///
    /// # Errors
    ///
    /// Returns an error that names the processes which could not be ended.
    pub(crate) async fn stop_everything(&mut self, home: &Home) -> Result<(), Failure> {
        if !home.run().is_dir() {
            // Every process of the home has files in this folder.
            return Ok(());
        }
        self.lock_installer(home)?;
        // The socket is looked up before the supervisor ends: only the supervisor's file names one outside the home.
        let socket = control::place::find(home).filter(|socket| !socket.starts_with(home.root()));
        let halted = stop::end(home).await?;
        let survivors = stop::still_there(home, &halted);
        stop::require_stopped(&halted, &survivors).map_err(|failure| failure.hint("flock stop"))?;
        if let Some(socket) = socket {
            // The socket has no listener any more. An error here leaves only a dead file.
            let _ = fs_err::remove_file(socket);
        }
        self.halted = Some(halted);
        Ok(())
    }

    /// Takes the installer's lock, so that nobody else installs.
    ///
    /// # Errors
    ///
    /// Returns an error if another process holds it.
    pub(crate) fn lock_installer(&mut self, home: &Home) -> Result<(), Failure> {
        if self.installer.is_none() && home.run().is_dir() {
            self.installer = Some(InstallLock::begin(home)?);
        }
        Ok(())
    }
}

/// Carries out one step.
///
/// # Errors
///
/// Returns an error that names what is left and the command that repairs it.
pub(crate) async fn carry_out(
    step: &UninstallStep,
    home: &Home,
    held: &mut UninstallLocks,
) -> Result<(), Failure> {
    match step {
        UninstallStep::Service(path) => {
            // The service may be gone since the plan was made, which is as good as removed.
            let found = service::installed(home)?.into_iter().find(|service| service.path == *path);
            found.map_or(Ok(()), |service| service.remove())
        }
        UninstallStep::Stop { .. } => held.stop_everything(home).await,
        UninstallStep::StopOpenClaw => {
            held.lock_installer(home)?;
            stop_openclaw(home).await
        }
        UninstallStep::Engine { all, .. } => engine(home, *all).await,
        UninstallStep::OpenClaw(paths) => {
            held.lock_installer(home)?;
            remove(home, paths, held.unfinished)?;
            // Each folder stands before its parent in this list, so that the parents become empty too.
            OPENCLAW_FOLDERS.iter().try_for_each(|folder| remove_empty(&home.root().join(folder)))
        }
        UninstallStep::Files(paths) => remove(home, paths, held.unfinished),
        UninstallStep::Empty(paths) => {
            paths.iter().try_for_each(|path| remove_empty_tree(&home.root().join(path), facts::LEVELS))
        }
        UninstallStep::Home => remove_empty(home.root()),
    }
}

/// Removes the link to the OpenClaw in use.
///
/// A running supervisor then ends OpenClaw. Without a supervisor its processes are ended here.
async fn stop_openclaw(home: &Home) -> Result<(), Failure> {
    let link = home.openclaw();
    if link.is_symlink() {
        remove_file(&link)?;
    }
    let mark = EnvMarker::new(home, OPENCLAW);
    let supervised = Lock::is_held(&home.supervisor_lock()).unwrap_or(false);
    let grace = if supervised { STOP_TIMEOUT } else { Duration::ZERO };
    // An OpenClaw that is still being prepared has no process yet. Afterwards it would start, or write what is removed
    // here.
    if supervised && !openclaw_wait::is_down(home, STOP_TIMEOUT).await {
        let text = "the supervisor did not stop OpenClaw in time".to_owned();
        return Err(Failure::new(Kind::Failed, text).hint("flock stop"));
    }
    // The mark is in the environment of OpenClaw's processes, so children that left its process group are found too.
    let bearers = mark.bearers();
    let mut left = orphans::gone(&bearers, grace).await;
    if !supervised {
        let mut journal = crate::supervise::journal::Journal::new(home, None);
        left = orphans::sweep(&mark, &mut journal).await;
    }
    match left.first() {
        None => Ok(()),
        Some(one) => {
            let text = format!("OpenClaw still runs: {}", stop::describe(*one));
            Err(Failure::new(Kind::Failed, text).hint("flock stop"))
        }
    }
}

/// Removes the home's objects in the engine: all of them, or only OpenClaw's containers while the rest is in use.
async fn engine(home: &Home, everything: bool) -> Result<(), Failure> {
    let engine = Engine::from_env();
    let mut failures: Vec<Failure> = Vec::new();
    // One object that can't be removed does not stop the removal of the others. The first error is reported.
    let mut note =
        |result: Result<(), crate::sandbox::SandboxError>| failures.extend(result.err().map(Failure::from));
    note(sandboxes::remove_all(&engine, home).await.map(drop));
    let others = if everything { team::other_engines(home) } else { Vec::new() };
    for engine in everything.then_some(&engine).into_iter().chain(&others) {
        // One that does not answer is not waited for. It has to be started, or given up.
        if let Err(error) = engine.ping().await {
            note(Err(error));
            continue;
        }
        note(containers::remove_all(engine, home).await);
        // Containers go first: a volume or a network that a container uses can't be removed.
        let found = facts::belongings(engine, home).await?;
        for volume in &found.volumes {
            note(volumes::remove(engine, volume).await);
        }
        for network in &found.networks {
            note(volumes::remove_network(engine, network).await);
        }
        // An image that another home's container uses only loses this home's tag.
        note(image::untag(engine, home).await.map(drop));
    }
    for placed in everything.then(|| team::clusters(home)).into_iter().flatten() {
        match placed.client.ping().await {
            Ok(_) => note(relocation::remove_home(&placed, home).await),
            Err(error) => note(Err(error)),
        }
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Removes entries of the home.
///
/// The file that proves that a folder is flock's goes after everything else in it, and the home's id goes only if
/// nothing is left. If this process is killed at any point, the next call can continue.
fn remove(home: &Home, paths: &[PathBuf], unfinished: bool) -> Result<(), Failure> {
    let mut first = None;
    let mut count = 0;
    for path in paths {
        let full = home.root().join(path);
        let is_data = full == home.data();
        let proof = if is_data { home.instance() } else { full.join(versions::RECORD) };
        // A link is removed itself. Nothing behind it is touched.
        let inner = if proof.is_file() && !full.is_symlink() { others(&full, &proof) } else { Vec::new() };
        let inner: Vec<PathBuf> = inner.into_iter().map(|name| path.join(name)).collect();
        for part in inner.iter().chain([path]) {
            // With something left elsewhere, the home's id must stay for the next call.
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
            // The full path is used, because root's PATH may find another program named flock.
            let flock =
                std::env::current_exe().map_or_else(|_| "flock".into(), |path| path.display().to_string());
            format!("sudo {flock} --home {} uninstall", home.root().display())
        }
        _ => format!("ls -ld {}", stuck.path.display()),
    };
    Err(Failure::with_cause(text, &stuck.error).hint(hint))
}

fn remove_file(path: &Path) -> Result<(), Failure> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(removal_failure(path, &error)),
        _ => Ok(()),
    }
}

fn removal_failure(path: &Path, error: &std::io::Error) -> Failure {
    let text = format!("failed to remove {}", path.display());
    Failure::with_cause(text, error).hint(format!("ls -ld {}", path.display()))
}

/// Returns the other entries of a folder.
fn others(folder: &Path, but: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter(|entry| entry.path() != but).map(|entry| entry.file_name()).collect()
}

/// Removes a folder that holds only empty folders and drafts of killed writers.
fn remove_empty_tree(folder: &Path, depth: usize) -> Result<(), Failure> {
    if folder.is_symlink() {
        return Ok(());
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).collect::<Vec<_>>() {
        if facts::is_draft(&path) {
            remove_file(&path)?;
        } else if depth > 0 {
            remove_empty_tree(&path, depth - 1)?;
        }
    }
    remove_empty(folder)
}

/// Removes an empty folder. A missing folder, or one with an entry, is left alone.
fn remove_empty(folder: &Path) -> Result<(), Failure> {
    use std::io::ErrorKind::{DirectoryNotEmpty, NotADirectory, NotFound};
    // The kernel refuses to remove a folder with entries, so there is no race with a new file.
    match fs_err::remove_dir(folder) {
        Err(error) if !matches!(error.kind(), DirectoryNotEmpty | NotADirectory | NotFound) => {
            Err(removal_failure(folder, &error))
        }
        _ => Ok(()),
    }
}

/// Time that a supervisor may take to end OpenClaw: its own grace period, and a little more.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
