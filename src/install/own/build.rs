//! Making the program: its source is fetched and compiled in a folder of its own. A build that was interrupted goes on.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::choice::Source;
use super::{LOG, OwnError, Updater};
use crate::home::Home;
use crate::home::log::{Cap, Log};
use crate::install::source::{self, Fetched, Origin, Tip};
use crate::install::staging::{Stage, Staging};
use crate::install::step::{self, Run};
use crate::install::versions::short;
use crate::install::{Event, InstallError, Phase, environment, machine};

/// What was compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The program.
    pub file: PathBuf,
    /// The commit it was built from, 40 hex digits.
    pub commit: String,
    /// The version in its manifest, as in `0.2.0`.
    pub version: String,
}

impl Built {
    /// What it has to say of itself.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{} ({})", self.version, short(&self.commit))
    }
}

/// Free bytes that a build needs: a release build of flock leaves about 1.5 GB, and the registry's crates come to it.
const ROOM: u64 = 4_000_000_000;

/// For the whole compilation; one core of a slow machine takes well over half an hour.
const BUILD_LIMIT: Duration = Duration::from_secs(4 * 3600);
const FETCH_LIMIT: Duration = Duration::from_secs(3600);
const ASK_LIMIT: Duration = Duration::from_secs(300);

/// Builds the commit that `tip` means, or finds it built.
///
/// # Errors
///
/// What failed. The program in use is not touched by it.
pub fn build(
    _: &Updater,
    home: &Home,
    source: &Source,
    origin: &Origin,
    tip: &Tip,
    events: &dyn Fn(Event<'_>),
) -> Result<Built, OwnError> {
    let cargo = cargo().ok_or(OwnError::NoCargo)?;
    let staging = Staging::of_program(home);
    check_room(machine::measure(home.root(), staging.root())?.disk)?;
    let (fetched, stage) = files(&staging, origin, &source.reference, tip, events)?;
    let work = Work { home, staging: &staging, cargo: &cargo, commit: &fetched.commit, events };
    let version = work.version(origin.as_str())?;
    let file = work.target().join("release").join(NAME);
    if stage < Stage::Built || !file.is_file() {
        work.compile()?;
        staging.reach(origin.as_str(), &fetched.commit, Stage::Built)?;
    }
    if !file.is_file() {
        return Err(not_flock(origin.as_str(), "it has no program of that name"));
    }
    Ok(Built { file, commit: fetched.commit, version })
}

/// Removes what a build left.
///
/// # Errors
///
/// If something can't be removed.
pub fn clear(_: &Updater, home: &Home) -> Result<(), OwnError> {
    Ok(Staging::of_program(home).remove()?)
}

fn check_room(free: u64) -> Result<(), OwnError> {
    if free >= ROOM {
        return Ok(());
    }
    Err(OwnError::Space { needed: machine::gigabytes(ROOM), found: machine::gigabytes(free) })
}

/// The cargo on PATH, else where rustup puts it.
fn cargo() -> Option<PathBuf> {
    let usual = dirs::home_dir().map(|home| home.join(".cargo/bin/cargo"));
    which::which("cargo").ok().or_else(|| usual.filter(|path| path.is_file()))
}

/// The files of the commit: those of an interrupted build, else fetched.
fn files(
    staging: &Staging,
    origin: &Origin,
    reference: &str,
    tip: &Tip,
    events: &dyn Fn(Event<'_>),
) -> Result<(Fetched, Stage), OwnError> {
    let root = staging.checkout();
    if let Some(commit) = tip.commit.as_deref()
        && let Some(stage) = staging.stage(origin.as_str(), commit)
        && let Ok(fetched) = source::restore(&root, commit, false)
    {
        events(Event::Phase(Phase::Resuming { commit }));
        return Ok((fetched, stage));
    }
    Ok((staging.fetch(origin, reference, tip, events)?, Stage::Fetched))
}

struct Work<'a> {
    home: &'a Home,
    staging: &'a Staging,
    cargo: &'a Path,
    commit: &'a str,
    events: &'a dyn Fn(Event<'_>),
}

impl Work<'_> {
    /// Outside of the checkout, so that a build that was interrupted goes on from what is compiled.
    fn target(&self) -> PathBuf {
        self.staging.root().join("target")
    }

    /// The version of the package, which has to be flock.
    fn version(&self, address: &str) -> Result<String, OwnError> {
        for file in ["Cargo.toml", "Cargo.lock"] {
            if !self.staging.checkout().join(file).is_file() {
                return Err(not_flock(address, &format!("it has no {file}")));
            }
        }
        let said = self.run("cargo pkgid", &["pkgid", "--offline"], ASK_LIMIT);
        let said = said.map_err(|error| match error {
            InstallError::Step { tail, .. } => not_flock(address, &tail.join(" ")),
            error => error.into(),
        })?;
        let id = said.iter().rev().find_map(|line| line.rsplit_once('#').map(|(_, id)| id.to_owned()));
        let found = id.as_deref().and_then(|id| id.split_once('@'));
        match found {
            Some((NAME, version)) => Ok(version.to_owned()),
            Some((name, _)) => Err(not_flock(address, &format!("its package is {name}"))),
            None => Err(not_flock(address, "it does not name its package")),
        }
    }

    fn compile(&self) -> Result<(), OwnError> {
        (self.events)(Event::Phase(Phase::Running("cargo fetch")));
        // What it fetches is elsewhere, and so is most of what can go wrong.
        let fetched = self.run("cargo fetch", &["fetch", "--locked"], FETCH_LIMIT);
        fetched.map_err(InstallError::of_nobody)?;
        (self.events)(Event::Phase(Phase::Running("cargo build")));
        let target = self.target().display().to_string();
        let args = ["build", "--release", "--locked", "--bin", NAME, "--target-dir", &target];
        self.run("cargo build --release", &args, BUILD_LIMIT)?;
        Ok(())
    }

    fn run(&self, title: &str, args: &[&str], limit: Duration) -> Result<Vec<String>, InstallError> {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        let mut env = environment::of_cargo();
        // Its build script would ask git, which may not be there.
        env.push(("FLOCK_COMMIT".into(), short(self.commit).into()));
        let run = Run {
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

/// The log of updates.
#[must_use]
pub fn log(home: &Home) -> Log {
    Log::new(home.log(LOG), Cap::default())
}

fn not_flock(address: &str, reason: &str) -> OwnError {
    OwnError::NotFlock { address: address.to_owned(), reason: reason.to_owned() }
}

const NAME: &str = "flock";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_would_fill_the_disk_is_not_begun() {
        check_room(ROOM).unwrap();
        let error = check_room(ROOM - 1).unwrap_err().to_string();
        assert!(error.contains("needs 4.0 GB") && error.contains("3.9 GB are free"), "{error}");
    }
}
