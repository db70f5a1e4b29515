//! The checks of a task: the commands, the files that must exist, the setup step and the limits.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ReceiptError, canonical};
use crate::sandbox::check::{CheckLimits, SetupStep};

/// The checks of a task or a project. They decide if what an agent delivers is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    /// Seconds for all commands together.
    pub all_seconds: u64,
    /// `true` to run the checks once more with a failing test that flock adds, where the tests are in a language that it
    /// knows. A delivered tree that prints its results itself is found out by that.
    pub canary: bool,
    /// The shell texts to run, in order.
    pub commands: Vec<String>,
    /// Seconds for each command.
    pub each_seconds: u64,
    /// Files and folders that the checks consist of, besides those that flock finds by itself. A branch that changes one
    /// of them needs a person.
    pub files: Vec<String>,
    /// Files that must exist in the delivered tree.
    pub required: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
}

/// The setup step of checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    pub command: String,
    /// The hosts that it may reach, `HOST[:PORT]`.
    pub egress: Vec<String>,
    /// The files of the tree that it reads. It sees no others. Empty means all of them.
    pub inputs: Vec<String>,
    pub seconds: u64,
}

impl Default for Checks {
    fn default() -> Self {
        Self {
            all_seconds: 3600,
            canary: true,
            commands: Vec::new(),
            each_seconds: 1800,
            files: Vec::new(),
            required: Vec::new(),
            setup: None,
        }
    }
}

impl Checks {
    /// Returns checks with these commands and flock's limits.
    #[must_use]
    pub fn of(commands: &[&str]) -> Self {
        Self { commands: commands.iter().map(|&text| text.to_owned()).collect(), ..Self::default() }
    }

    /// Returns `true` if nothing is checked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.required.is_empty()
    }

    /// Returns the hash of the checks. Any change of a command, a file or a limit gives another one.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Malformed`] if they are too large.
    pub fn hash(&self) -> Result<String, ReceiptError> {
        Ok(canonical::hash(&canonical::write("the checks", self)?))
    }

    /// Checks that the checks are within flock's bounds.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Checks`] with what is wrong.
    pub fn validate(&self) -> Result<(), ReceiptError> {
        let wrong = |reason: &str| Err(ReceiptError::Checks { reason: reason.to_owned() });
        let setup = self.setup.as_ref();
        let texts = || self.commands.iter().chain(setup.map(|setup| &setup.command));
        let paths =
            || self.files.iter().chain(&self.required).chain(setup.iter().flat_map(|setup| &setup.inputs));
        if self.commands.len() > MAX_COMMANDS {
            return wrong("there are more than 50 commands");
        }
        if texts().any(|text| text.trim().is_empty() || text.len() > MAX_TEXT || text.contains('\0')) {
            return wrong("a command is empty or longer than 10,000 bytes");
        }
        if paths().count() > MAX_PATHS {
            return wrong("there are more than 1,000 paths");
        }
        if paths().any(|path| !is_relative(path)) {
            return wrong("a path is not relative to the tree");
        }
        let seconds = [self.each_seconds, self.all_seconds, setup.map_or(1, |setup| setup.seconds)];
        if seconds.iter().any(|seconds| !(1..=MAX_SECONDS).contains(seconds)) {
            return wrong("a time is not between one second and a day");
        }
        Ok(())
    }

    /// Returns the limits for the runner.
    #[must_use]
    pub fn limits(&self) -> CheckLimits {
        CheckLimits {
            setup: Duration::from_secs(self.setup.as_ref().map_or(1, |setup| setup.seconds)),
            each: Duration::from_secs(self.each_seconds),
            all: Duration::from_secs(self.all_seconds),
            output: KEPT_OUTPUT,
        }
    }

    /// Returns the setup step for the runner.
    #[must_use]
    pub fn setup_step(&self) -> Option<SetupStep> {
        let Setup { command, egress, inputs, .. } = self.setup.clone()?;
        Some(SetupStep { command, egress, inputs })
    }
}

/// Returns `true` if a path names something below the tree.
fn is_relative(path: &str) -> bool {
    let part = |part: &str| !matches!(part, "" | "." | "..");
    path.len() <= 4096 && !path.contains('\0') && path.trim_end_matches('/').split('/').all(part)
}

const MAX_COMMANDS: usize = 50;
const MAX_TEXT: usize = 10_000;
const MAX_PATHS: usize = 1000;
const MAX_SECONDS: u64 = 86_400;
/// Bytes of a command's output that are kept.
const KEPT_OUTPUT: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_the_checks_changes_their_hash() {
        let checks = Checks::of(&["pytest"]);
        let changed = [
            Checks::of(&["pytest -q"]),
            Checks::of(&["pytest", "true"]),
            Checks { each_seconds: 1, ..checks.clone() },
            Checks { required: vec!["README.md".to_owned()], ..checks.clone() },
            Checks { files: vec!["tests".to_owned()], ..checks.clone() },
        ];
        for other in changed {
            assert_ne!(other.hash().unwrap(), checks.hash().unwrap(), "{other:?}");
            assert!(other.validate().is_ok(), "{other:?}");
        }
    }

    #[test]
    fn checks_out_of_bounds_are_refused() {
        let checks = Checks::of(&["pytest"]);
        for wrong in [
            Checks::of(&[" "]),
            Checks { each_seconds: 0, ..checks.clone() },
            Checks { all_seconds: u64::MAX, ..checks.clone() },
            Checks { required: vec!["../x".to_owned()], ..checks.clone() },
            Checks { files: vec!["/etc".to_owned()], ..checks.clone() },
            Checks { commands: vec!["true".to_owned(); 51], ..checks },
        ] {
            assert!(wrong.validate().is_err(), "{wrong:?}");
        }
    }
}
