//! Builds the program: its source is fetched and compiled in a folder of its own. An interrupted build is continued.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::choice::UpdateSource;
use super::{LOG, SelfUpdateError, UpdateLock};
use crate::home::Home;
use crate::home::log::{Log, RotationLimits};
use crate::install::source::{self, FetchedCommit, RepositoryAddress, ResolvedReference};
use crate::install::staging::{Stage, StagingFolder};
use crate::install::step::{self, StepCommand};
use crate::install::versions::short;
use crate::install::{InstallError, InstallEvent, InstallPhase, build_environment, machine};

/// The result of a build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuiltProgram {
    pub file: PathBuf,
    /// The commit that it was built from, 40 hex digits.
    pub commit: String,
    /// The version in its Cargo.toml, as in `0.2.0`.
    pub version: String,
}

impl BuiltProgram {
    /// Returns the version text that the program must print.
    #[must_use]
    pub(crate) fn name(&self) -> String {
        format!("{} ({})", self.version, short(&self.commit))
    }
}

/// Free bytes that a build needs. A release build of flock takes about 1.5 GB, besides the crates of the registry.
const MIN_FREE_DISK: u64 = 4_000_000_000;

/// Time limit of the whole compilation. One core of a slow machine takes well over half an hour.
const BUILD_LIMIT: Duration = Duration::from_secs(4 * 3600);
const FETCH_LIMIT: Duration = Duration::from_secs(3600);
const QUERY_LIMIT: Duration = Duration::from_secs(300);

/// Builds the commit of `tip`, or returns the build that is already there.
///
/// # Errors
///
/// Returns an error if there is no cargo, too little disk, the source cannot be fetched or is not flock, or a command
/// fails. The program in use is never changed.
pub(crate) fn build(
    _: &UpdateLock,
    home: &Home,
    source: &UpdateSource,
    origin: &RepositoryAddress,
    tip: &ResolvedReference,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<BuiltProgram, SelfUpdateError> {
    let cargo = cargo().ok_or(SelfUpdateError::NoCargo)?;
    let staging = StagingFolder::of_program(home);
    check_disk_space(machine::measure(home.root(), staging.root())?.disk)?;
    let (fetched, stage) = obtain_files(&staging, origin, &source.reference, tip, events)?;
    let work = BuildContext { home, staging: &staging, cargo: &cargo, commit: &fetched.commit, events };
    let version = work.version(origin.as_str())?;
    let file = work.target().join("release").join(NAME);
    // The program may be missing although the stage was recorded.
    if stage < Stage::Built || !file.is_file() {
        work.compile()?;
        staging.reach(origin.as_str(), &fetched.commit, Stage::Built)?;
    }
    // Also after a successful compilation: the package may have no program with this name.
    if !file.is_file() {
        return Err(not_flock(origin.as_str(), "it has no program of that name"));
    }
    Ok(BuiltProgram { file, commit: fetched.commit, version })
}

/// Removes the files of a build.
///
/// # Errors
///
/// Returns an error if a file cannot be removed.
pub(crate) fn clear(_: &UpdateLock, home: &Home) -> Result<(), SelfUpdateError> {
    Ok(StagingFolder::of_program(home).remove()?)
}

fn check_disk_space(free: u64) -> Result<(), SelfUpdateError> {
    if free >= MIN_FREE_DISK {
        return Ok(());
    }
    Err(SelfUpdateError::Space { needed: machine::gigabytes(MIN_FREE_DISK), found: machine::gigabytes(free) })
}

/// Returns the cargo on PATH, or the one in rustup's usual folder.
fn cargo() -> Option<PathBuf> {
    let usual = dirs::home_dir().map(|home| home.join(".cargo/bin/cargo"));
    which::which("cargo").ok().or_else(|| usual.filter(|path| path.is_file()))
}

/// Returns the files of the commit: those of an interrupted build, or newly fetched ones.
fn obtain_files(
    staging: &StagingFolder,
    origin: &RepositoryAddress,
    reference: &str,
    tip: &ResolvedReference,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<(FetchedCommit, Stage), SelfUpdateError> {
    let root = staging.checkout();
    // A checkout that cannot be restored is fetched again, which clears the folder.
    if let Some(commit) = tip.commit.as_deref()
        && let Some(stage) = staging.stage(origin.as_str(), commit)
        && let Ok(fetched) = source::restore(&root, commit, false)
    {
        events(InstallEvent::Phase(InstallPhase::Resuming { commit }));
        return Ok((fetched, stage));
    }
    Ok((staging.fetch(origin, reference, tip, events)?, Stage::Fetched))
}

struct BuildContext<'a> {
    home: &'a Home,
    staging: &'a StagingFolder,
    cargo: &'a Path,
    commit: &'a str,
    events: &'a dyn Fn(InstallEvent<'_>),
}

impl BuildContext<'_> {
    /// Returns the target folder of cargo. It is outside the checkout, so that restoring the checkout does not lose
    /// what an interrupted build has compiled.
    fn target(&self) -> PathBuf {
        self.staging.root().join("target")
    }

    /// Returns the version of the package, which must be flock.
    fn version(&self, address: &str) -> Result<String, SelfUpdateError> {
        // Without a lock file the build would take whatever versions are newest.
        for file in ["Cargo.toml", "Cargo.lock"] {
            if !self.staging.checkout().join(file).is_file() {
                return Err(not_flock(address, &format!("it has no {file}")));
            }
        }
        let said = self.run("cargo pkgid", &["pkgid", "--offline"], QUERY_LIMIT);
        let said = said.map_err(|error| match error {
            InstallError::Step { tail, .. } => not_flock(address, &tail.join(" ")),
            error => error.into(),
        })?;
        // The id ends in `#flock@0.2.0`.
        let id = said.iter().rev().find_map(|line| line.rsplit_once('#').map(|(_, id)| id.to_owned()));
        let found = id.as_deref().and_then(|id| id.split_once('@'));
        match found {
            Some((NAME, version)) => Ok(version.to_owned()),
            Some((name, _)) => Err(not_flock(address, &format!("its package is {name}"))),
            None => Err(not_flock(address, "it does not name its package")),
        }
    }

    fn compile(&self) -> Result<(), SelfUpdateError> {
        (self.events)(InstallEvent::Phase(InstallPhase::Running("cargo fetch")));
        // It downloads from other servers, so most failures are not the fault of this commit.
        let fetched = self.run("cargo fetch", &["fetch", "--locked"], FETCH_LIMIT);
        fetched.map_err(InstallError::not_commit_fault)?;
        (self.events)(InstallEvent::Phase(InstallPhase::Running("cargo build")));
        let target = self.target().display().to_string();
        // `--locked` refuses to change Cargo.lock, so the versions are those of the commit.
        let args = ["build", "--release", "--locked", "--bin", NAME, "--target-dir", &target];
        self.run("cargo build --release", &args, BUILD_LIMIT)?;
        Ok(())
    }

    fn run(&self, title: &str, args: &[&str], limit: Duration) -> Result<Vec<String>, InstallError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut env = build_environment::for_cargo();
        // flock's build script would ask git for the commit, and git may not be installed.
        env.push(("FLOCK_COMMIT".into(), short(self.commit).into()));
        let run = StepCommand {
            title,
            program: self.cargo,
            args: &args,
            folder: &self.staging.checkout(),
            env: &env,
            limit,
            log: self.home.log(LOG),
        };
        step::run(&run, &mut log(self.home), self.events)
    }
}

/// Returns the log of updates.
#[must_use]
pub(crate) fn log(home: &Home) -> Log {
    Log::new(home.log(LOG), RotationLimits::default())
}

fn not_flock(address: &str, reason: &str) -> SelfUpdateError {
    SelfUpdateError::NotFlock { address: address.to_owned(), reason: reason.to_owned() }
}

const NAME: &str = "flock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_disk_space_is_refused() {
        check_disk_space(MIN_FREE_DISK).unwrap();
        let error = check_disk_space(MIN_FREE_DISK - 1).unwrap_err().to_string();
        assert!(error.contains("needs 4.0 GB") && error.contains("3.9 GB are free"), "{error}");
    }
}
