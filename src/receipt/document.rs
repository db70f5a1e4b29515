//! The receipt itself: what was delivered, what was checked, in which sandbox, and how it ended. Its canonical form is
//! what is hashed and signed.

use serde::{Deserialize, Serialize};

use super::canary::CanaryRun;
use super::test_count::TestCounts;
use super::{Checks, ReceiptError, canonical};
use crate::sandbox::check::{CheckEnd, CheckSandbox, CommandReport};

/// Version of the format. A reader refuses any other.
pub const FORMAT: u64 = 1;

/// The record of one run of checks on one delivered tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// Unix milliseconds at which the checks had ended.
    pub at: i64,
    /// The agent that delivered the tree.
    pub author: String,
    pub base: Commit,
    /// The results of the same commands on the base. Empty if the base was not checked.
    pub base_runs: Vec<Run>,
    pub branch: String,
    /// The results of the commands that notice a failing test on the base, with such a test in the delivered tree.
    pub canaries: Vec<CanaryRun>,
    /// The last row of the audit chain before the checks ended. The receipt's own row follows it.
    pub chain: ChainPosition,
    /// Differences between base and delivered tree that concern the checks.
    pub check_files: Vec<CheckFile>,
    pub checks: Checks,
    /// The SHA-256 of the canonical form of `checks`.
    pub checks_hash: String,
    /// The packages that the checks could use, with everything that they need.
    pub closure: Vec<ClosurePath>,
    pub delivered: Commit,
    /// The SHA-256 of the delivered tree, which docs/receipts.md describes.
    pub delivered_sha256: String,
    /// The version of flock that ran the checks.
    pub flock: String,
    pub format: u64,
    /// The results of the commands that run tests, without the tests that only the delivered tree has. Empty if it has none.
    pub old_tests: Vec<Run>,
    pub packages: Vec<Package>,
    pub probe: Probe,
    pub project: String,
    pub required: Vec<RequiredFile>,
    pub runs: Vec<Run>,
    pub sandbox: CheckSandbox,
    /// The SHA-256 of the canonical form of `sandbox`.
    pub sandbox_hash: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<SetupRun>,
    pub task: String,
}

/// A commit and its tree, by their hashes in git.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    pub commit: String,
    pub tree: String,
}

/// A row of the audit chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainPosition {
    pub hash: String,
    pub row: i64,
}

/// A file of the checks that the branch changed, or another change that concerns them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckFile {
    /// `added`, `deleted`, `modified`, `kind` or `link`.
    pub change: String,
    /// `true` if a person has to look at it before the tree is accepted.
    pub needs_person: bool,
    pub path: String,
    /// A text that follows the path in a message.
    pub reason: String,
}

/// A path of the Nix store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClosurePath {
    /// The hash of the content, as Nix writes it.
    pub nar_hash: String,
    pub path: String,
}

/// A package of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// The attribute in the flake.
    pub attribute: String,
    /// The flake with its revision.
    pub flake: String,
    /// The hash of the flake's content, if it was pinned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nar_hash: Option<String>,
    pub paths: Vec<String>,
}

/// The result of the probe of the sandbox. A sandbox with findings runs no checks, so there are none here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Unix milliseconds.
    pub at: i64,
    pub findings: Vec<String>,
    /// The id of the image that the sandbox was made of.
    pub image: String,
}

/// A file that had to exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequiredFile {
    pub path: String,
    pub present: bool,
}

/// The result of one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// The delivered files that the command changed while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    pub command: String,
    /// The numbers of tests in the output.
    pub counts: Vec<TestCounts>,
    /// `exited`, `timed-out`, `cancelled` or `not-run`.
    pub end: String,
    /// The exit code of a command that ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The SHA-256 of the kept part of the output: of its first and last bytes, one after the other.
    pub kept_sha256: String,
    /// Number of bytes of the whole output.
    pub output_bytes: u64,
    /// The SHA-256 of the whole output.
    pub output_sha256: String,
    pub took_ms: u64,
}

/// The result of the setup step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupRun {
    /// `true` if the result of an earlier run with the same key was used.
    pub cached: bool,
    /// The SHA-256 of everything that the step reads.
    pub key: String,
    /// The SHA-256 of the archive of its result. Empty if it failed.
    pub result_sha256: String,
    pub run: Run,
}

impl Run {
    /// Returns the record of a command.
    #[must_use]
    pub fn of(report: &CommandReport, counts: Vec<TestCounts>) -> Self {
        let (end, exit) = match report.end {
            CheckEnd::Exited(code) => ("exited", Some(code)),
            CheckEnd::TimedOut => ("timed-out", None),
            CheckEnd::Cancelled => ("cancelled", None),
            CheckEnd::NotRun => ("not-run", None),
        };
        Self {
            changed: report.changed.iter().map(|path| path.display().to_string()).collect(),
            command: report.command.clone(),
            counts,
            end: end.to_owned(),
            exit,
            kept_sha256: canonical::hash(&[report.output.head.as_slice(), &report.output.tail].concat()),
            output_bytes: report.output.total,
            output_sha256: report.digest.clone(),
            took_ms: u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns `true` if the command succeeded.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.end == "exited" && self.exit == Some(0)
    }

    /// Returns a text that completes "the check …".
    #[must_use]
    pub fn verdict(&self) -> String {
        match (self.end.as_str(), self.exit) {
            ("exited", Some(0)) => "succeeded".to_owned(),
            ("exited", Some(code)) => format!("failed with exit code {code}"),
            ("timed-out", _) => "reached its time limit".to_owned(),
            ("not-run", _) => "was not run".to_owned(),
            _ => "was cancelled".to_owned(),
        }
    }
}

impl Receipt {
    /// Returns the canonical form.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Malformed`] if it is too large.
    pub fn canonical(&self) -> Result<Vec<u8>, ReceiptError> {
        canonical::write("the receipt", self)
    }

    /// Returns the id: the hash of the canonical form.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Malformed`] if it is too large.
    pub fn id(&self) -> Result<String, ReceiptError> {
        Ok(canonical::hash(&self.canonical()?))
    }

    /// Reads a receipt, which must be in its canonical form and agree with itself.
    ///
    /// # Errors
    ///
    /// Returns [`ReceiptError::Malformed`] if it is something else.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReceiptError> {
        let receipt: Self = canonical::read("the receipt", bytes)?;
        let malformed = |reason: String| ReceiptError::Malformed { what: "the receipt", reason };
        if receipt.format != FORMAT {
            return Err(malformed(format!(
                "it has format {}, and this flock reads {FORMAT}",
                receipt.format
            )));
        }
        if receipt.checks.hash()? != receipt.checks_hash {
            return Err(malformed("the hash of its checks is not theirs".to_owned()));
        }
        if canonical::hash(&canonical::write("the sandbox", &receipt.sandbox)?) != receipt.sandbox_hash {
            return Err(malformed("the hash of its sandbox is not the sandbox's".to_owned()));
        }
        let commands = receipt.runs.iter().map(|run| &run.command);
        if !commands.eq(receipt.checks.commands.iter()) {
            return Err(malformed("its results are not those of its checks".to_owned()));
        }
        let required = receipt.required.iter().map(|file| &file.path);
        if !required.eq(receipt.checks.required.iter()) {
            return Err(malformed("its required files are not those of its checks".to_owned()));
        }
        // They become parts of a search path, and may come from a stranger.
        let plain = |c: char| c.is_ascii_alphanumeric() || "+-._?=/".contains(c);
        let mut paths = receipt.sandbox.packages.iter();
        if paths.any(|path| !path.starts_with("/nix/store/") || !path.chars().all(plain)) {
            return Err(malformed("a package of it is not in the store".to_owned()));
        }
        if receipt.setup.is_some() != receipt.checks.setup.is_some() {
            return Err(malformed("its setup step is not that of its checks".to_owned()));
        }
        Ok(receipt)
    }
}
