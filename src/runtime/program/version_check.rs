//! Information that an installed program gives about itself: its version, and the options that a turn needs.

use super::interface::ProgramFiles;
use super::{Program, ProgramHandle, locate};

/// An installed program with its version.
pub struct InstalledProgram {
    pub program: ProgramHandle,
    /// `None` if the program did not report a version.
    pub version: Option<String>,
    /// Options that a turn needs and the program lacks. Programs that are new enough are not asked.
    pub missing: Vec<&'static str>,
}

impl InstalledProgram {
    /// Returns the name and version, as in `Claude Code 2.1.330`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.program.title()),
            None => self.program.title().to_owned(),
        }
    }

    /// Asks a program for its version and options.
    pub async fn ask(program: ProgramHandle, found: &ProgramFiles) -> Self {
        // A program that is known by its protocol says there what it can. It is run in sandboxes alone, also for this.
        if program.facts().converses {
            return Self { program, version: None, missing: Vec::new() };
        }
        let version = locate::version(&*program, found).await;
        let mut installed = Self { program, version, missing: Vec::new() };
        // A program without a readable version may be of any age.
        if installed.version.is_none() || installed.is_old() {
            let missing = locate::missing_options(&*installed.program, found).await;
            installed.missing = missing.unwrap_or_default();
        }
        installed
    }

    /// Returns `true` if the program is older than the oldest version that flock knows.
    #[must_use]
    pub fn is_old(&self) -> bool {
        let number =
            |text: &str| -> Vec<u64> { text.split('.').map_while(|part| part.parse().ok()).collect() };
        self.version.as_deref().is_some_and(|version| number(version) < number(self.program.facts().oldest))
    }

    /// Returns the reason why the program cannot run turns, if there is one.
    #[must_use]
    pub fn unfit_reason(&self) -> Option<String> {
        let options = self.missing.join(", ");
        (!self.missing.is_empty()).then(|| format!("{} is too old: it has no {options}", self.label()))
    }
}

/// Returns the command that installs a program.
#[must_use]
pub fn install_hint(program: &dyn Program) -> String {
    let facts = program.facts();
    if facts.package.is_empty() {
        // Only the command of such a program is known.
        return format!("install the program whose command is {}, and put that on PATH", facts.command);
    }
    format!("npm install -g {}", facts.package)
}

/// Returns the command that replaces an old version. Without `@latest`, npm would choose a version that fits its Node,
/// which may be the old one again.
#[must_use]
pub fn renewal_hint(program: &dyn Program) -> String {
    format!("npm install -g {}@latest", program.facts().package)
}
