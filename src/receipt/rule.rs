//! The decision about a delivered tree: accepted, stale, for a person, or refused. Everything that says "done" asks here.

use super::document::{CheckFile, Receipt, Run};
use super::test_count::{self, TestCounts};
use super::{Checks, ReceiptError};

/// The decision about a delivered tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The checks succeeded on exactly this tree, and nothing about them needs a look.
    Accepted,
    /// The receipt is for another tree or for other checks. They have to be run again.
    Stale,
    /// The checks succeeded, but the branch changed them or ran less of them. A person has to accept it. This is RED.
    NeedsPerson(Vec<String>),
    /// A check failed, or a file is missing.
    Refused(Vec<String>),
}

impl Acceptance {
    /// Returns the word for records.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Stale => "stale",
            Self::NeedsPerson(_) => "needs-person",
            Self::Refused(_) => "refused",
        }
    }

    /// Returns the reasons, which are full clauses.
    #[must_use]
    pub fn reasons(&self) -> &[String] {
        match self {
            Self::NeedsPerson(reasons) | Self::Refused(reasons) => reasons,
            Self::Accepted | Self::Stale => &[],
        }
    }
}

/// Decides about the tree with the hash `delivered`. `checks` are those that the task has now; the receipt is one whose
/// signature was verified, or that this flock has just made.
///
/// # Errors
///
/// Returns [`ReceiptError::Malformed`] if the checks are too large to be hashed.
pub fn acceptance(checks: &Checks, receipt: &Receipt, delivered: &str) -> Result<Acceptance, ReceiptError> {
    if receipt.delivered.tree != delivered || receipt.checks_hash != checks.hash()? {
        return Ok(Acceptance::Stale);
    }
    let refused = failures(checks, receipt);
    if !refused.is_empty() {
        return Ok(Acceptance::Refused(refused));
    }
    let doubts = doubts(receipt);
    Ok(if doubts.is_empty() { Acceptance::Accepted } else { Acceptance::NeedsPerson(doubts) })
}

/// Returns what a receipt says of its own tree and its own checks.
///
/// # Errors
///
/// Returns [`ReceiptError::Malformed`] if the checks are too large to be hashed.
pub fn decision(receipt: &Receipt) -> Result<Acceptance, ReceiptError> {
    acceptance(&receipt.checks, receipt, &receipt.delivered.tree)
}

/// Returns the reasons to refuse the tree.
fn failures(checks: &Checks, receipt: &Receipt) -> Vec<String> {
    let mut reasons: Vec<String> = receipt
        .probe
        .findings
        .iter()
        .map(|finding| format!("the sandbox was not confined: {finding}"))
        .collect();
    if let Some(setup) = receipt.setup.as_ref().filter(|setup| !setup.run.is_success()) {
        reasons.push(format!("the setup step {}", setup.run.verdict()));
    }
    // The receipt is compared with the checks command by command: a receipt without a command proves nothing about it.
    for (at, command) in checks.commands.iter().enumerate() {
        let name = crate::clean::summary(command, 80);
        match receipt.runs.get(at).filter(|run| run.command == *command) {
            Some(run) if run.is_success() => {}
            Some(run) => reasons.push(format!("the check `{name}` {}", run.verdict())),
            None => reasons.push(format!("the check `{name}` was not run")),
        }
    }
    for path in &checks.required {
        let is_present = receipt.required.iter().any(|file| file.path == *path && file.present);
        if !is_present {
            reasons.push(format!("the file {path} is missing"));
        }
    }
    reasons
}

/// Returns the reasons why a person has to look at a tree whose checks succeeded.
fn doubts(receipt: &Receipt) -> Vec<String> {
    let mut reasons: Vec<String> = receipt
        .check_files
        .iter()
        .filter(|file| file.needs_person)
        .map(|CheckFile { path, reason, .. }| format!("{path} {reason}"))
        .collect();
    for canary in receipt.canaries.iter().filter(|canary| !canary.is_noticed()) {
        let name = crate::clean::summary(&canary.command, 80);
        reasons.push(if canary.fails {
            format!("`{name}` notices {} of {} tests that have to fail", canary.failed, canary.failed_on_base)
        } else {
            format!("`{name}` succeeds also with a test that fails, which it notices on the base")
        });
    }
    for run in &receipt.old_tests {
        let name = crate::clean::summary(&run.command, 80);
        let on_base = receipt.base_runs.iter().find(|base| base.command == run.command);
        let ran = |run: &Run| run.counts.iter().map(TestCounts::run).sum::<u64>();
        if !run.is_success() {
            reasons.push(format!("`{name}` fails without the tests that the branch added"));
        } else if on_base.is_some_and(|base| ran(run) < ran(base)) {
            reasons
                .push(format!("`{name}` runs fewer tests than before without those that the branch added"));
        }
    }
    // What a command changes on the base as well, such as a record of its own, it may change.
    for (at, run) in receipt.runs.iter().enumerate() {
        let on_base: &[String] = receipt.base_runs.get(at).map_or(&[], |run| &run.changed);
        let name = crate::clean::summary(&run.command, 80);
        let changed = run.changed.iter().filter(|path| !on_base.contains(path));
        reasons.extend(changed.map(|path| {
            format!("{} was changed by `{name}` while it ran", crate::clean::summary(path, 400))
        }));
    }
    for (at, run) in receipt.runs.iter().enumerate() {
        let before: &[_] = receipt.base_runs.get(at).map_or(&[], |run: &Run| &run.counts);
        let changes = test_count::compare(before, &run.counts, test_count::names_runner(&run.command));
        let name = crate::clean::summary(&run.command, 80);
        reasons.extend(changes.into_iter().map(|change| format!("`{name}`: {change}")));
    }
    reasons
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
