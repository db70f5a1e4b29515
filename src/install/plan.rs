//! Decides which commands make a checkout run, from the checkout and the machine. All functions are pure.

use std::path::PathBuf;

use super::machine::{MachineResources, gigabytes};
use super::package::{Checkout, Package};
use super::staging::Stage;
use super::{DEFAULT_REPOSITORY, InstallError};

/// A package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PackageManager {
    Npm,
    Pnpm,
    Yarn,
    Bun,
}

impl PackageManager {
    /// Returns the name of the program.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::Pnpm => "pnpm",
            Self::Yarn => "yarn",
            Self::Bun => "bun",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Npm, Self::Pnpm, Self::Yarn, Self::Bun].into_iter().find(|manager| manager.as_str() == name)
    }
}

/// The programs that are installed, with their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuildTools {
    pub managers: Vec<(PackageManager, PathBuf)>,
    /// The version of the installed Yarn, if it reports one. Yarn 1 and the later versions cannot install each other's
    /// packages.
    pub yarn: Option<String>,
    /// Corepack, which runs pnpm and Yarn in the version that a package asks for.
    pub corepack: Option<PathBuf>,
}

impl BuildTools {
    fn path(&self, manager: PackageManager) -> Option<&PathBuf> {
        self.managers.iter().find(|(known, _)| *known == manager).map(|(_, path)| path)
    }
}

/// A command of the build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuildStep {
    pub kind: BuildStepKind,
    pub program: PathBuf,
    pub args: Vec<String>,
    /// The command for people, as in `pnpm run build`.
    pub title: String,
}

/// The purpose of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BuildStepKind {
    /// Installs dependencies.
    Dependencies,
    /// Builds.
    Build,
}

/// Returns `true` if there is nothing to build: the checkout is built, and has no sources or no build script.
#[must_use]
pub(crate) fn is_package(checkout: &Checkout) -> bool {
    checkout.built && (!checkout.sources || !checkout.package.scripts.contains_key(BUILD_SCRIPT))
}

/// Decides the steps that make a checkout run, in their order. There are none if there is nothing to do.
///
/// # Errors
///
/// Returns [`InstallError::Manager`] if the package manager is not installed and cannot be run in another way.
pub(crate) fn plan(checkout: &Checkout, programs: &BuildTools) -> Result<Vec<BuildStep>, InstallError> {
    if is_package(checkout) {
        if checkout.package.dependencies.is_empty() || checkout.installed {
            return Ok(Vec::new());
        }
        let start = launcher(PackageManager::Npm, None, programs)?;
        let mut steps = Vec::new();
        if !checkout.package.dev_dependencies.is_empty() {
            // npm resolves them even where it omits them, and fails if they conflict. People who install a package by
            // its name never have them.
            steps.push(start.step(BuildStepKind::Dependencies, &["pkg", "delete", "devDependencies"]));
        }
        let args = ["install", "--omit=dev", "--no-audit", "--no-fund"];
        steps.push(start.step(BuildStepKind::Dependencies, &args));
        return Ok(steps);
    }
    let (manager, version) = manager(&checkout.package, &checkout.locks);
    let start = launcher(manager, version.as_deref(), programs)?;
    // The lock file is respected, so a build gets the dependencies that upstream tested.
    let mut steps =
        vec![start.step(BuildStepKind::Dependencies, install_args(manager, version.as_deref(), checkout))];
    for script in scripts(&checkout.package) {
        steps.push(start.step(BuildStepKind::Build, &["run", script]));
    }
    Ok(steps)
}

/// Returns the package manager: the one in `packageManager`, or the owner of a lock file, or npm.
fn manager(package: &Package, locks: &[&str]) -> (PackageManager, Option<String>) {
    let named = package.package_manager.as_deref().and_then(|text| {
        let (name, version) = text.split_once('@').unwrap_or((text, ""));
        // A checksum follows the plus sign. Only Corepack can use it.
        let version = version.split('+').next().filter(|version| !version.is_empty());
        // The version becomes a part of a command line.
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        PackageManager::named(name)
            .map(|manager| (manager, version.filter(|text| text.chars().all(plain)).map(str::to_owned)))
    });
    named.unwrap_or_else(|| {
        let by_lock = match locks.first() {
            Some(&"pnpm-lock.yaml") => PackageManager::Pnpm,
            Some(&"yarn.lock") => PackageManager::Yarn,
            Some(&("bun.lock" | "bun.lockb")) => PackageManager::Bun,
            _ => PackageManager::Npm,
        };
        (by_lock, None)
    })
}

/// The way in which a package manager is started.
struct Launcher {
    manager: PackageManager,
    program: PathBuf,
    before: Vec<String>,
}

impl Launcher {
    fn step(&self, kind: BuildStepKind, args: &[&str]) -> BuildStep {
        let own = args.iter().map(|arg| (*arg).to_owned());
        BuildStep {
            kind,
            program: self.program.clone(),
            args: self.before.iter().cloned().chain(own).collect(),
            title: format!("{} {}", self.manager.as_str(), args.join(" ")),
        }
    }
}

/// Returns the manager itself, or Corepack, or npm, which runs the manager from the registry. Node has no Corepack
/// since version 25.
fn launcher(
    manager: PackageManager,
    version: Option<&str>,
    programs: &BuildTools,
) -> Result<Launcher, InstallError> {
    let with =
        |program: &PathBuf, before: Vec<String>| Launcher { manager, program: program.clone(), before };
    if let Some(program) = programs.path(manager)
        && (manager != PackageManager::Yarn || is_same_major(version, programs.yarn.as_deref()))
    {
        return Ok(with(program, Vec::new()));
    }
    if let (Some(corepack), PackageManager::Pnpm | PackageManager::Yarn) = (&programs.corepack, manager) {
        return Ok(with(corepack, vec![manager.as_str().to_owned()]));
    }
    if let (Some(npm), true) = (programs.path(PackageManager::Npm), manager != PackageManager::Npm) {
        // In the registry, the package `yarn` ends with Yarn 1.
        let name = match manager {
            PackageManager::Yarn if version.is_some_and(|version| major(version) != "1") => {
                "@yarnpkg/cli-dist"
            }
            manager => manager.as_str(),
        };
        let package = version.map_or(name.to_owned(), |version| format!("{name}@{version}"));
        return Ok(with(npm, vec!["exec".to_owned(), "--yes".to_owned(), "--".to_owned(), package]));
    }
    Err(InstallError::Manager { manager: manager.as_str() })
}

/// Returns `true` if two versions have the same major number, or if one of them is unknown.
fn is_same_major(wanted: Option<&str>, found: Option<&str>) -> bool {
    wanted.zip(found).is_none_or(|(wanted, found)| major(wanted) == major(found))
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or_default()
}

/// Returns a step that tests if Corepack can get the package manager. `None` if the plan does not use Corepack, or if
/// npm could not replace it. Corepack asks only one registry, and older versions lack the keys with which packages are
/// signed today.
#[must_use]
pub(crate) fn trial(steps: &[BuildStep], programs: &BuildTools) -> Option<BuildStep> {
    let first = steps.first()?;
    let corepack = programs.corepack.as_ref().filter(|corepack| **corepack == first.program)?;
    programs.path(PackageManager::Npm)?;
    let manager = first.args.first()?.clone();
    Some(BuildStep {
        kind: BuildStepKind::Dependencies,
        program: corepack.clone(),
        title: format!("corepack {manager} --version"),
        args: vec![manager, "--version".to_owned()],
    })
}

/// Returns the arguments for installing dependencies exactly as in the lock file, if there is one.
fn install_args(
    manager: PackageManager,
    version: Option<&str>,
    checkout: &Checkout,
) -> &'static [&'static str] {
    let has = |names: &[&str]| checkout.locks.iter().any(|lock| names.contains(lock));
    match manager {
        PackageManager::Npm if has(&["package-lock.json", "npm-shrinkwrap.json"]) => {
            &["ci", "--no-audit", "--no-fund"]
        }
        PackageManager::Npm => &["install", "--no-audit", "--no-fund"],
        PackageManager::Pnpm if has(&["pnpm-lock.yaml"]) => &["install", "--frozen-lockfile"],
        // Yarn 2 and later renamed the option.
        PackageManager::Yarn if has(&["yarn.lock"]) => match version {
            Some(version) if major(version) != "1" => &["install", "--immutable"],
            _ => &["install", "--frozen-lockfile"],
        },
        PackageManager::Bun if has(&["bun.lock", "bun.lockb"]) => &["install", "--frozen-lockfile"],
        PackageManager::Pnpm | PackageManager::Yarn | PackageManager::Bun => &["install"],
    }
}

/// Returns the scripts that build a gateway. `build` may empty `dist`, which also holds the control page. The page is
/// therefore built afterwards, unless `build` does it.
fn scripts(package: &Package) -> Vec<&'static str> {
    let Some(build) = package.scripts.get(BUILD_SCRIPT) else { return Vec::new() };
    let own = package.scripts.contains_key(UI_SCRIPT) && !build.contains(UI_SCRIPT);
    if own { vec![BUILD_SCRIPT, UI_SCRIPT] } else { vec![BUILD_SCRIPT] }
}

/// Checks that the machine has enough memory and disk to build a workspace as large as OpenClaw's.
///
/// # Errors
///
/// Returns [`InstallError::Machine`] if there is too little of one.
pub(crate) fn check_machine(machine: &MachineResources) -> Result<(), InstallError> {
    // A machine sold with 8 GB has slightly less for its programs.
    let memory = ("memory", "8 GB", 7_500_000_000, machine.memory);
    let disk = ("free disk", "10 GB", 10_000_000_000, machine.disk);
    for (what, needed, least, found) in [memory, disk] {
        if found < least {
            return Err(InstallError::Machine { what, needed: needed.to_owned(), found: gigabytes(found) });
        }
    }
    Ok(())
}

/// Returns `true` if the work that is left after this stage needs such a machine. A published package also looks like a
/// workspace, but there is nothing to build in it.
#[must_use]
pub(crate) fn needs_large_machine(checkout: &Checkout, reached: Stage) -> bool {
    checkout.workspace && !is_package(checkout) && reached < Stage::Built
}

/// Returns `true` if a repository is known to hold source that needs such a machine. OpenClaw's own does in all its
/// commits.
#[must_use]
pub(crate) fn is_large_source(repository: &str) -> bool {
    repository == DEFAULT_REPOSITORY
}

const BUILD_SCRIPT: &str = "build";
const UI_SCRIPT: &str = "ui:build";

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
