//! Errors of installing the OpenClaw gateway.

use std::path::{Path, PathBuf};

use super::tags::MovedTag;
use crate::error::{Explain, Kind};
use crate::home::{HomeError, atomic, existing};

/// The reasons why an installation fails.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// An error of the home's own files.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Another installation is running.
    #[error("another flock is installing a gateway in this home")]
    Busy,
    /// The repository address is not usable.
    #[error("{repository} can't be cloned: {reason}")]
    Repository {
        /// The address as it was given, without a password.
        repository: String,
        reason: &'static str,
    },
    /// The repository does not answer, or the connection breaks.
    #[error("failed to {verb} {repository}")]
    Fetch {
        /// Verb of the message, as in `fetch`.
        verb: &'static str,
        repository: String,
        #[source]
        source: git2::Error,
    },
    /// The repository has no such branch, tag or commit.
    #[error("{repository} has no branch, tag or commit {reference}")]
    NoReference { repository: String, reference: String },
    /// A tag points to another commit than before.
    #[error("{}", moved_text(repository, moved))]
    Moved { repository: String, moved: MovedTag },
    /// The repository sent another commit than the one that was requested.
    #[error("{repository} sent commit {given} for {reference}, but {reference} is commit {wanted}")]
    Another {
        repository: String,
        reference: String,
        /// The commit that the reference means.
        wanted: String,
        /// The commit that was received.
        given: String,
    },
    /// A checkout differs from its commit.
    #[error("{} differs from commit {commit}: {file} was changed, so nothing of it is run", path.display())]
    Altered {
        path: PathBuf,
        commit: String,
        /// The first file that differs.
        file: String,
    },
    /// An operation on a file or folder failed.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// Verb of the message, as in `read`.
        verb: &'static str,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The cloned files are not an OpenClaw.
    #[error("the clone of {repository} is not OpenClaw: {reason}")]
    Shape {
        repository: String,
        /// The part that is missing or wrong.
        reason: String,
    },
    /// There is no Node of a suitable version.
    #[error("this OpenClaw needs Node {needed}; {found}")]
    Node {
        /// The version range, as the package writes it.
        needed: String,
        /// The Node programs that were found instead, with their versions.
        found: String,
    },
    /// The package manager is not installed.
    #[error("this OpenClaw is built with {manager}, and neither it nor corepack nor npm is on PATH")]
    Manager { manager: &'static str },
    /// The machine has too little memory or disk.
    #[error("building OpenClaw from source needs {needed} of {what}; this machine has {found}")]
    Machine {
        /// `memory` or `free disk`.
        what: &'static str,
        /// Required size, as in `8 GB`.
        needed: String,
        /// Present size, as in `3.9 GB`.
        found: String,
    },
    /// A step of the build failed.
    #[error("{}", step_text(command, how, tail, log))]
    Step {
        /// The command, as in `npm run build`.
        command: String,
        /// The way in which it ended, as in `ended with code 1`.
        how: String,
        /// `true` if the failure is the fault of the built code, and not of the network or the machine.
        own: bool,
        /// The last lines of its output.
        tail: Vec<String>,
        /// The log with the whole output.
        log: PathBuf,
    },
    /// Nothing is installed, or nothing with that name.
    #[error("{0}")]
    Missing(String),
}

impl InstallError {
    /// Returns the error with [`InstallError::Step`] marked as not the fault of the built code.
    pub(super) fn not_commit_fault(mut self) -> Self {
        if let Self::Step { own, .. } = &mut self {
            *own = false;
        }
        self
    }
}

fn moved_text(repository: &str, moved: &MovedTag) -> String {
    let MovedTag { tag, was, now, is_branch } = moved;
    let kind = if *is_branch { "is a branch now, at commit" } else { "is at commit" };
    format!(
        "{tag} of {repository} was a tag at commit {was} when it was first seen here, and {kind} {now}: whoever \
         moved it may have put other code in its place, so flock does not take it"
    )
}

fn step_text(command: &str, how: &str, tail: &[String], log: &Path) -> String {
    let mut text = format!("{command} {how}; its whole output is in {}", log.display());
    if !tail.is_empty() {
        text.push_str("; its last lines:");
        for line in tail {
            text.push_str("\n  ");
            text.push_str(line);
        }
    }
    text
}

impl Explain for InstallError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Busy => Kind::Conflict,
            Self::Repository { .. } => Kind::Usage,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        const AGAIN: &str = "flock init --gateway openclaw";
        Some(match self {
            Self::Home(error) => return error.hint(),
            Self::Busy => "wait for it to end, then flock status".to_owned(),
            Self::Repository { .. } => format!("{AGAIN} --repo https://github.com/openclaw/openclaw.git"),
            // An interrupted fetch or build is continued, so the same command is worth repeating.
            Self::Fetch { repository, .. } => {
                format!("to see if it answers: git ls-remote {repository}; to continue: {AGAIN}")
            }
            Self::NoReference { repository, .. } => format!("git ls-remote {repository}"),
            Self::Moved { moved, .. } => {
                // The full commit is a reference of its own, so a person can accept either one explicitly.
                format!(
                    "to take the new commit: {AGAIN} --ref {}; to take the earlier one: --ref {}",
                    moved.now, moved.was
                )
            }
            Self::Another { .. } | Self::Altered { .. } => format!("to clone it again: {AGAIN}"),
            Self::Io { source, path, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                format!("df -h {}", existing(path).display())
            }
            Self::Io { path, .. } => format!("ls -ld {}", existing(path).display()),
            Self::Shape { .. } => format!("{AGAIN} --repo URL --ref REF"),
            Self::Node { needed, .. } => format!(
                "install Node {needed} from https://nodejs.org or with nvm, or name one: FLOCK_NODE=/path/to/node {AGAIN}"
            ),
            Self::Manager { manager } => format!("npm install --global {manager}, then {AGAIN}"),
            // A package that comes built needs no large machine.
            Self::Machine { .. } => {
                format!(
                    "take a repository that holds OpenClaw built, as its npm package is: {AGAIN} --repo URL"
                )
            }
            Self::Step { log, .. } => format!("less {}; to try again: {AGAIN}", log.display()),
            Self::Missing(_) => AGAIN.to_owned(),
        })
    }
}

/// Makes an error of a file operation.
pub(super) fn io(
    verb: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> InstallError {
    let path = path.into();
    move |source| InstallError::Io { verb, path, source }
}

/// Writes a record atomically, readable only by its owner.
pub(super) fn write_record(path: &Path, text: serde_json::Result<Vec<u8>>) -> Result<(), InstallError> {
    let text = text.map_err(|error| io("describe", path)(error.into()))?;
    Ok(atomic::write(path, &text, 0o600)?)
}

/// Removes a file. A missing file is no error.
pub(super) fn remove_file(path: &Path) -> Result<(), InstallError> {
    match fs_err::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        for (code, command) in [(nix::libc::ENOSPC, "df -h"), (nix::libc::EACCES, "ls -ld")] {
            let source = std::io::Error::from_raw_os_error(code);
            let error = io("make the folder", dir.path().join("openclaw/versions/x"))(source);
            assert_eq!(error.hint(), Some(format!("{command} {}", dir.path().display())));
        }
    }
}
