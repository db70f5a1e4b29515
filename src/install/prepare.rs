//! Makes a version: all steps up to a complete folder that is not in use yet.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::io;
use super::node::{self, Node};
use super::package::{self, Checkout};
use super::plan::{self, BuildStep, BuildStepKind, BuildTools, PackageManager};
use super::source::{self, RepositoryAddress};
use super::staging::{Stage, StagingFolder};
use super::step::{self, StepCommand};
use super::versions::{self, InstalledVersion};
use super::{
    InstallError, InstallEvent, InstallLock, InstallPhase, InstallTarget, build_environment, checkout_diff,
    machine, swap, tags,
};
use crate::clock;
use crate::home::Home;
use crate::home::log::{Log, RotationLimits};

/// Name of the build log.
pub(crate) const LOG: &str = "build-openclaw";

/// Makes the wanted version, or returns the one that is already there. The version is complete and tried, but not in
/// use: [`swap()`](super::swap()) puts it in use. An interrupted installation is continued.
///
/// # Errors
///
/// Returns an error if any step fails. No installed version is changed.
pub(crate) fn prepare(
    _: &InstallLock,
    home: &Home,
    wanted: &InstallTarget,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<InstalledVersion, InstallError> {
    let origin = RepositoryAddress::parse_encrypted(&wanted.repository)?;
    let folder = home.openclaw_versions();
    fs_err::create_dir_all(&folder).map_err(io("make the folder", &folder))?;
    swap::sweep(home)?;
    events(InstallEvent::Phase(InstallPhase::Asking));
    let tip = source::resolve(&origin, &wanted.reference)?;
    let named =
        RequestedVersion { origin: origin.as_str(), reference: &wanted.reference, follows: tip.is_branch };
    // Before anything is fetched: whoever moved a tag may have put another program there.
    if let Some(moved) = versions::moved(home, origin.as_str(), &wanted.reference, &tip)? {
        return Err(InstallError::Moved { repository: origin.as_str().to_owned(), moved });
    }
    tags::note(&home.openclaw_tags_file(), origin.as_str(), &tip)?;
    if let Some(version) = tip.commit.as_deref().and_then(|commit| find_intact(home, commit, events)) {
        return named.take_up(&version);
    }

    let staging = StagingFolder::of(home);
    let left = tip.commit.as_deref().and_then(|commit| staging.stage(origin.as_str(), commit));
    if left.is_none() && plan::is_large_source(&wanted.repository) {
        // Known to be too much for this machine before anything is fetched.
        plan::check_machine(&machine::measure(home.root(), staging.root())?)?;
    }
    let (fetched, mut stage) = obtain_source(&staging, &origin, &wanted.reference, &tip, events)?;
    if let Some(version) = find_intact(home, &fetched.commit, events) {
        // The reference was a shortened commit, or a branch that has moved to an installed commit.
        staging.remove()?;
        return named.take_up(&version);
    }
    let root = staging.checkout();
    let shape = |reason| InstallError::Shape { repository: origin.as_str().to_owned(), reason };
    let checkout = package::read(&root).map_err(shape)?;
    let node = node::find(checkout.package.engines.node.as_deref(), wanted.node.as_deref())?;
    if plan::needs_large_machine(&checkout, stage) {
        plan::check_machine(&machine::measure(home.root(), staging.root())?)?;
    }
    let work = BuildContext {
        home,
        staging: &staging,
        origin: &origin,
        commit: &fetched.commit,
        node: &node,
        events,
    };
    if stage < Stage::Built {
        stage = work.build(&checkout, stage)?;
    }
    debug_assert_eq!(stage, Stage::Built);
    // Tried before the record is written: a folder without a record is not a version.
    work.try_out(&checkout.package.version)?;

    let mut version = InstalledVersion {
        version: checkout.package.version,
        commit: fetched.commit.clone(),
        reference: named.reference.to_owned(),
        follows: named.follows,
        origin: named.origin.to_owned(),
        committed_at: fetched.committed_at,
        built_at: clock::unix_ms() / 1000,
        node: node.path.clone(),
        node_version: node.version.clone(),
        replaces: None,
        // A build may change files of the commit. What it changed is recorded, so that later changes are noticed.
        altered: Some(
            checkout_diff::find(&root, &fetched.commit).map_err(|error| source::unusable(&root, error))?,
        ),
        path: root.clone(),
    };
    version.write(&root)?;
    let place = folder.join(version.name());
    if place.symlink_metadata().is_ok() {
        // Not a version, or it would have been found above. A person or a failure left it under this name.
        fs_err::remove_dir_all(&place).map_err(io("remove", &place))?;
    }
    fs_err::rename(&root, &place).map_err(io("move into place", &place))?;
    // The rename must be on the disk before the staging folder is removed.
    swap::sync(&folder)?;
    staging.remove()?;
    version.path = place;
    Ok(version)
}

/// Returns an installed version of this commit, if its files are still those that were cloned and built.
fn find_intact(home: &Home, commit: &str, events: &dyn Fn(InstallEvent<'_>)) -> Option<InstalledVersion> {
    let known = versions::list(home).ok()?;
    let found = known.into_iter().find(|version| version.commit == commit && version.entry().is_file())?;
    match found.check() {
        Ok(()) => Some(found),
        Err(_) => {
            events(InstallEvent::Phase(InstallPhase::Anew { commit }));
            None
        }
    }
}

/// The name under which a version was requested this time.
struct RequestedVersion<'a> {
    origin: &'a str,
    reference: &'a str,
    follows: bool,
}

impl RequestedVersion<'_> {
    /// Updates the record of an installed version to the present request.
    fn take_up(&self, version: &InstalledVersion) -> Result<InstalledVersion, InstallError> {
        let named = InstalledVersion {
            origin: self.origin.to_owned(),
            reference: self.reference.to_owned(),
            follows: self.follows,
            ..version.clone()
        };
        if named != *version {
            named.write(&named.path)?;
        }
        Ok(named)
    }
}

/// Returns the files of the commit: those of an interrupted installation, or newly fetched ones.
fn obtain_source(
    staging: &StagingFolder,
    origin: &RepositoryAddress,
    reference: &str,
    tip: &source::ResolvedReference,
    events: &dyn Fn(InstallEvent<'_>),
) -> Result<(source::FetchedCommit, Stage), InstallError> {
    let root = staging.checkout();
    if let Some(commit) = tip.commit.as_deref()
        && let Some(stage) = staging.stage(origin.as_str(), commit)
    {
        events(InstallEvent::Phase(InstallPhase::Resuming { commit }));
        let anew = || source::restore(&root, commit, false).map(|fetched| (fetched, Stage::Fetched));
        // A finished build keeps its results. An unfinished build starts again from the cloned files, and so does one
        // whose files no longer match the commit.
        let restored = match stage {
            Stage::Built => source::look(&root, commit).map(|fetched| (fetched, stage)).or_else(|_| anew()),
            Stage::Installed => source::restore(&root, commit, true).map(|fetched| (fetched, stage)),
            Stage::Fetched => anew(),
        };
        if let Ok(restored) = restored {
            return Ok(restored);
        }
    }
    Ok((staging.fetch(origin, reference, tip, events)?, Stage::Fetched))
}

/// Values that the steps share.
struct BuildContext<'a> {
    home: &'a Home,
    staging: &'a StagingFolder,
    origin: &'a RepositoryAddress,
    commit: &'a str,
    node: &'a Node,
    events: &'a dyn Fn(InstallEvent<'_>),
}

impl BuildContext<'_> {
    fn build(&self, checkout: &Checkout, from: Stage) -> Result<Stage, InstallError> {
        let mut log = self.log();
        // A log that cannot be written must not end a build.
        let _ = log.append(format!("== {} {}\n", self.origin.as_str(), self.commit).as_bytes());
        let mut programs = programs(self.node);
        let mut plan = plan::plan(checkout, &programs)?;
        if let Some(trial) = plan::trial(&plan, &programs)
            && self.run(&trial, TRIAL_LIMIT, &mut log).is_err()
        {
            // Without Corepack the plan uses npm to run the package manager.
            programs.corepack = None;
            plan = plan::plan(checkout, &programs)?;
        }
        let mut reached = from;
        for planned in plan {
            if planned.kind == BuildStepKind::Dependencies && from >= Stage::Installed {
                continue;
            }
            // All dependency steps come before the first build step.
            if planned.kind == BuildStepKind::Build && reached < Stage::Installed {
                reached = self.reach(Stage::Installed)?;
            }
            (self.events)(InstallEvent::Phase(InstallPhase::Running(&planned.title)));
            let ran = self.run(&planned, STEP_LIMIT, &mut log);
            ran.map_err(|error| match planned.kind {
                // It downloads from other servers, so most failures are not the fault of this commit.
                BuildStepKind::Dependencies => error.not_commit_fault(),
                _ => error,
            })?;
        }
        self.reach(Stage::Built)
    }

    fn run(&self, planned: &BuildStep, limit: Duration, log: &mut Log) -> Result<(), InstallError> {
        let run = StepCommand {
            title: &planned.title,
            program: &planned.program,
            args: &planned.args,
            folder: &self.staging.checkout(),
            env: &build_environment::for_build(&self.node.path),
            limit,
            log: self.home.log(LOG),
        };
        step::run(&run, log, self.events).map(drop)
    }

    /// Checks that the build starts and reports its version.
    fn try_out(&self, version: &str) -> Result<(), InstallError> {
        (self.events)(InstallEvent::Phase(InstallPhase::Trying));
        let title = format!("node {} --version", package::ENTRY);
        let mut env = build_environment::for_build(&self.node.path);
        // The trial must not touch the state of an OpenClaw that the user already has.
        env.push(("OPENCLAW_STATE_DIR".into(), self.staging.state().into()));
        let args = [package::ENTRY.to_owned(), "--version".to_owned()];
        let run = StepCommand {
            title: &title,
            program: &self.node.path,
            args: &args,
            folder: &self.staging.checkout(),
            env: &env,
            limit: TRIAL_LIMIT,
            log: self.home.log(LOG),
        };
        let said = step::run(&run, &mut self.log(), self.events)?;
        // Some versions draw boxes with warnings around the version.
        if said.iter().any(|line| line.contains(version)) {
            return Ok(());
        }
        Err(InstallError::Step {
            command: title,
            how: format!("did not say {version}"),
            own: true,
            tail: said,
            log: self.home.log(LOG),
        })
    }

    fn reach(&self, stage: Stage) -> Result<Stage, InstallError> {
        self.staging.reach(self.origin.as_str(), self.commit, stage)?;
        Ok(stage)
    }

    fn log(&self) -> Log {
        Log::new(self.home.log(LOG), RotationLimits::default())
    }
}

/// Returns the installed package managers. Those beside the chosen Node come before those on PATH.
fn programs(node: &Node) -> BuildTools {
    let beside = |name: &str| {
        let path = node.path.parent().unwrap_or(Path::new("/")).join(name);
        path.is_file().then_some(path)
    };
    let find = |name: &str| beside(name).or_else(|| which::which(name).ok());
    let managers: Vec<(PackageManager, PathBuf)> =
        [PackageManager::Npm, PackageManager::Pnpm, PackageManager::Yarn, PackageManager::Bun]
            .into_iter()
            .filter_map(|manager| find(manager.as_str()).map(|path| (manager, path)))
            .collect();
    let yarn = managers.iter().find(|(manager, _)| *manager == PackageManager::Yarn);
    BuildTools {
        yarn: yarn.and_then(|(_, path)| node::says(path, &build_environment::for_build(&node.path))),
        managers,
        corepack: find("corepack"),
    }
}

/// Time limit of one step. OpenClaw's whole build takes about ten minutes on a fast machine.
const STEP_LIMIT: Duration = Duration::from_secs(60 * 60);
/// Time limit of the trial. The first start after an installation took 70 seconds on a slow machine.
const TRIAL_LIMIT: Duration = Duration::from_secs(5 * 60);
