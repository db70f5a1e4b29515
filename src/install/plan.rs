//! What has to be done to make a checkout run, decided from what it says and what the machine has. Pure.

use std::path::PathBuf;

use super::machine::{Machine, gigabytes};
use super::package::{Checkout, Package};
use super::staging::Stage;
use super::{InstallError, REPOSITORY};

/// A package manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manager {
    /// npm.
    Npm,
    /// pnpm.
    Pnpm,
    /// Yarn.
    Yarn,
    /// Bun.
    Bun,
}

impl Manager {
    /// The program's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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

/// The programs that are there, each with its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// By name, for the managers.
    pub managers: Vec<(Manager, PathBuf)>,
    /// The version of the Yarn among them, where it says one. Yarn 1 and those after it don't take each other's packages.
    pub yarn: Option<String>,
    /// Corepack, which runs pnpm and Yarn in the version that a package asks for.
    pub corepack: Option<PathBuf>,
}

impl Programs {
    fn path(&self, manager: Manager) -> Option<&PathBuf> {
        self.managers.iter().find(|(known, _)| *known == manager).map(|(_, path)| path)
    }
}

/// A command of the build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// The command for people, as in `pnpm run build`.
    pub title: String,
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Installs dependencies.
    Dependencies,
    /// Builds.
    Build,
}

/// The steps, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// None where there is nothing to do.
    pub steps: Vec<Step>,
}

/// Whether there is nothing to build: it is built, and has not what a build starts from.
#[must_use]
pub fn is_package(checkout: &Checkout) -> bool {
    checkout.built && (!checkout.sources || !checkout.package.scripts.contains_key(BUILD))
}

/// Decides the steps.
///
/// # Errors
///
/// If the package manager can't be had.
pub fn plan(checkout: &Checkout, programs: &Programs) -> Result<Plan, InstallError> {
    if is_package(checkout) {
        if checkout.package.dependencies.is_empty() || checkout.installed {
            return Ok(Plan::default());
        }
        let start = launcher(Manager::Npm, None, programs)?;
        let mut steps = Vec::new();
        if !checkout.package.dev_dependencies.is_empty() {
            // npm looks at them even where it leaves them out, and fails where what they want does not fit together:
            // nobody who installs a package by its name ever had them.
            steps.push(start.step(StepKind::Dependencies, &["pkg", "delete", "devDependencies"]));
        }
        let args = ["install", "--omit=dev", "--no-audit", "--no-fund"];
        steps.push(start.step(StepKind::Dependencies, &args));
        return Ok(Plan { steps });
    }
    let (manager, version) = manager(&checkout.package, &checkout.locks);
    let start = launcher(manager, version.as_deref(), programs)?;
    let mut steps =
        vec![start.step(StepKind::Dependencies, install_args(manager, version.as_deref(), checkout))];
    for script in scripts(&checkout.package) {
        steps.push(start.step(StepKind::Build, &["run", script]));
    }
    Ok(Plan { steps })
}

/// `packageManager`, else whose lock file is there, else npm.
fn manager(package: &Package, locks: &[&str]) -> (Manager, Option<String>) {
    let named = package.package_manager.as_deref().and_then(|text| {
        let (name, version) = text.split_once('@').unwrap_or((text, ""));
        // After a plus is a checksum, which Corepack alone can use.
        let version = version.split('+').next().filter(|version| !version.is_empty());
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        Manager::named(name)
            .map(|manager| (manager, version.filter(|text| text.chars().all(plain)).map(str::to_owned)))
    });
    named.unwrap_or_else(|| {
        let by_lock = match locks.first() {
            Some(&"pnpm-lock.yaml") => Manager::Pnpm,
            Some(&"yarn.lock") => Manager::Yarn,
            Some(&("bun.lock" | "bun.lockb")) => Manager::Bun,
            _ => Manager::Npm,
        };
        (by_lock, None)
    })
}

/// How a package manager is started.
struct Launcher {
    manager: Manager,
    program: PathBuf,
    before: Vec<String>,
}

impl Launcher {
    fn step(&self, kind: StepKind, args: &[&str]) -> Step {
        let own = args.iter().map(|arg| (*arg).to_owned());
        Step {
            kind,
            program: self.program.clone(),
            args: self.before.iter().cloned().chain(own).collect(),
            title: format!("{} {}", self.manager.as_str(), args.join(" ")),
        }
    }
}

/// The manager itself, else Corepack, else npm runs it from the registry: Node has shipped without Corepack since 25.
fn launcher(manager: Manager, version: Option<&str>, programs: &Programs) -> Result<Launcher, InstallError> {
    let with =
        |program: &PathBuf, before: Vec<String>| Launcher { manager, program: program.clone(), before };
    if let Some(program) = programs.path(manager)
        && (manager != Manager::Yarn || is_same_major(version, programs.yarn.as_deref()))
    {
        return Ok(with(program, Vec::new()));
    }
    if let (Some(corepack), Manager::Pnpm | Manager::Yarn) = (&programs.corepack, manager) {
        return Ok(with(corepack, vec![manager.as_str().to_owned()]));
    }
    if let (Some(npm), true) = (programs.path(Manager::Npm), manager != Manager::Npm) {
        // In the registry `yarn` ends with Yarn 1.
        let name = match manager {
            Manager::Yarn if version.is_some_and(|version| major(version) != "1") => "@yarnpkg/cli-dist",
            manager => manager.as_str(),
        };
        let package = version.map_or(name.to_owned(), |version| format!("{name}@{version}"));
        return Ok(with(npm, vec!["exec".to_owned(), "--yes".to_owned(), "--".to_owned(), package]));
    }
    Err(InstallError::Manager { manager: manager.as_str() })
}

/// Whether what is wanted and what there is have the same first number, as far as both are known.
fn is_same_major(wanted: Option<&str>, found: Option<&str>) -> bool {
    wanted.zip(found).is_none_or(|(wanted, found)| major(wanted) == major(found))
}

fn major(version: &str) -> &str {
    version.split('.').next().unwrap_or_default()
}

/// What shows whether Corepack can get the package manager, where a plan begins with it and npm could do without: it
/// asks one registry only, and older ones know none of the keys that packages are signed with today.
#[must_use]
pub fn trial(plan: &Plan, programs: &Programs) -> Option<Step> {
    let first = plan.steps.first()?;
    let corepack = programs.corepack.as_ref().filter(|corepack| **corepack == first.program)?;
    programs.path(Manager::Npm)?;
    let manager = first.args.first()?.clone();
    Some(Step {
        kind: StepKind::Dependencies,
        program: corepack.clone(),
        title: format!("corepack {manager} --version"),
        args: vec![manager, "--version".to_owned()],
    })
}

/// As the lock file says, where there is one.
fn install_args(manager: Manager, version: Option<&str>, checkout: &Checkout) -> &'static [&'static str] {
    let has = |names: &[&str]| checkout.locks.iter().any(|lock| names.contains(lock));
    match manager {
        Manager::Npm if has(&["package-lock.json", "npm-shrinkwrap.json"]) => {
            &["ci", "--no-audit", "--no-fund"]
        }
        Manager::Npm => &["install", "--no-audit", "--no-fund"],
        Manager::Pnpm if has(&["pnpm-lock.yaml"]) => &["install", "--frozen-lockfile"],
        Manager::Yarn if has(&["yarn.lock"]) => match version {
            Some(version) if major(version) != "1" => &["install", "--immutable"],
            _ => &["install", "--frozen-lockfile"],
        },
        Manager::Bun if has(&["bun.lock", "bun.lockb"]) => &["install", "--frozen-lockfile"],
        Manager::Pnpm | Manager::Yarn | Manager::Bun => &["install"],
    }
}

/// The scripts that make a gateway. `build` may empty `dist`, where the control page goes as well, so that comes
/// after it, unless `build` makes it itself.
fn scripts(package: &Package) -> Vec<&'static str> {
    let Some(build) = package.scripts.get(BUILD) else { return Vec::new() };
    let own = package.scripts.contains_key(PAGE) && !build.contains(PAGE);
    if own { vec![BUILD, PAGE] } else { vec![BUILD] }
}

/// Fails where a build of a workspace as large as upstream's would run out of memory or disk.
///
/// # Errors
///
/// [`InstallError::Machine`].
pub fn check_machine(machine: &Machine) -> Result<(), InstallError> {
    // A machine sold with 8 GB has a little less for its programs.
    let memory = ("memory", "8 GB", 7_500_000_000, machine.memory);
    let disk = ("free disk", "10 GB", 10_000_000_000, machine.disk);
    for (what, needed, least, found) in [memory, disk] {
        if found < least {
            return Err(InstallError::Machine { what, needed: needed.to_owned(), found: gigabytes(found) });
        }
    }
    Ok(())
}

/// Whether what is still to be done after this stage needs a machine of that size. A published package is a workspace
/// by its files, too, but there is nothing to build in it.
#[must_use]
pub fn needs_large_machine(checkout: &Checkout, reached: Stage) -> bool {
    checkout.workspace && !is_package(checkout) && reached < Stage::Built
}

/// Whether a repository is known to hold source that needs such a machine: OpenClaw's own does in all its commits.
#[must_use]
pub fn is_large_source(repository: &str) -> bool {
    repository == REPOSITORY
}

const BUILD: &str = "build";
const PAGE: &str = "ui:build";

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
