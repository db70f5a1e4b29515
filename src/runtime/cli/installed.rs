//! What an installed program says of itself: its version, and whether it has what a turn is started with.

use super::{Found, Program, locate};

/// A program that is installed, with the version it says it has.
pub struct Installed {
    /// Which.
    pub program: &'static dyn Program,
    /// Its version; `None` where it did not say one.
    pub version: Option<String>,
    /// The options that a turn needs and it does not have. One that is new enough is not asked.
    pub missing: Vec<&'static str>,
}

impl Installed {
    /// As in `Claude Code 2.1.330`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.program.title()),
            None => self.program.title().to_owned(),
        }
    }

    /// Asks a program that was found what it is.
    pub async fn ask(program: &'static dyn Program, found: &Found) -> Self {
        let version = locate::version(program, found).await;
        let mut installed = Self { program, version, missing: Vec::new() };
        // One whose version can't be read may be of any age.
        if installed.version.is_none() || installed.is_old() {
            installed.missing = locate::missing_options(program, found).await.unwrap_or_default();
        }
        installed
    }

    /// Whether it is older than what flock knows of it.
    #[must_use]
    pub fn is_old(&self) -> bool {
        let number =
            |text: &str| -> Vec<u64> { text.split('.').map_while(|part| part.parse().ok()).collect() };
        self.version.as_deref().is_some_and(|version| number(version) < number(self.program.oldest()))
    }

    /// Why it can't run turns, if it can't.
    #[must_use]
    pub fn unfit(&self) -> Option<String> {
        let options = self.missing.join(", ");
        (!self.missing.is_empty()).then(|| format!("{} is too old: it has no {options}", self.label()))
    }
}

/// How to install a program.
#[must_use]
pub fn install_hint(program: &dyn Program) -> String {
    format!("npm install -g {}", program.package())
}

/// How to put a newer version in the place of an old one. Without a version npm takes one that suits the Node it runs with,
/// which may be the old one again.
#[must_use]
pub fn renewal_hint(program: &dyn Program) -> String {
    format!("npm install -g {}@latest", program.package())
}
