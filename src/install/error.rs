//! Why a gateway could not be installed.

use std::path::PathBuf;

use super::tags::Moved;
use crate::error::{Explain, Kind};
use crate::home::{HomeError, existing};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The home's own files.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// Another install is under way.
    #[error("another flock is installing a gateway in this home")]
    Busy,
    /// The repository can't be named like this.
    #[error("{repository} can't be cloned: {reason}")]
    Repository {
        /// As it was given, without a password.
        repository: String,
        /// Why not.
        reason: &'static str,
    },
    /// The repository does not answer, or breaks off.
    #[error("failed to {verb} {repository}")]
    Fetch {
        /// As in `fetch`.
        verb: &'static str,
        /// From where.
        repository: String,
        /// Why.
        #[source]
        source: git2::Error,
    },
    /// There is no such branch, tag or commit.
    #[error("{repository} has no branch, tag or commit {reference}")]
    NoReference {
        /// Where it was looked for.
        repository: String,
        /// What was looked for.
        reference: String,
    },
    /// A tag is no longer at the commit that it was at.
    #[error("{}", moved_text(repository, moved))]
    Moved {
        /// Of which repository.
        repository: String,
        /// Which tag, and where it was and is.
        moved: Moved,
    },
    /// The repository gave another commit than the one that was asked for.
    #[error("{repository} gave commit {given} for {reference}, which is commit {wanted}")]
    Another {
        /// From where.
        repository: String,
        /// What was asked for.
        reference: String,
        /// The commit that it is.
        wanted: String,
        /// The commit that came.
        given: String,
    },
    /// A checkout is not what its commit has.
    #[error("{} is not what commit {commit} has: {file} is another one; nothing of it is run", path.display())]
    Altered {
        /// The checkout.
        path: PathBuf,
        /// The commit.
        commit: String,
        /// The first file that differs.
        file: String,
    },
    /// A file or folder of an installation.
    #[error("failed to {verb} {}", path.display())]
    Io {
        /// As in `read`.
        verb: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// What was cloned is no OpenClaw.
    #[error("what was cloned from {repository} is no OpenClaw: {reason}")]
    Shape {
        /// From where.
        repository: String,
        /// What it lacks.
        reason: String,
    },
    /// No Node that fits.
    #[error("this OpenClaw needs Node {needed}; {found}")]
    Node {
        /// The range, as the package writes it.
        needed: String,
        /// What there is instead.
        found: String,
    },
    /// The package manager is not there.
    #[error("this OpenClaw is built with {manager}, and neither it nor corepack nor npm is on PATH")]
    Manager {
        /// Its name.
        manager: &'static str,
    },
    /// The machine is too small.
    #[error("building OpenClaw from source needs {needed} of {what}; this machine has {found}")]
    Machine {
        /// As in `memory`.
        what: &'static str,
        /// As in `8 GB`.
        needed: String,
        /// As in `3.9 GB`.
        found: String,
    },
    /// A step of the build failed.
    #[error("{}", step_text(command, how, tail, log))]
    Step {
        /// What was run, as in `npm run build`.
        command: String,
        /// As in `ended with code 1`.
        how: String,
        /// Whether that says something of what is built, and not of the network or the machine.
        own: bool,
        /// The last lines it wrote.
        tail: Vec<String>,
        /// Where all of it is.
        log: PathBuf,
    },
    /// There is nothing installed, or nothing of that name.
    #[error("{0}")]
    Missing(String),
}

impl InstallError {
    /// The same of a step that says nothing of what is built, however it ended.
    pub(super) fn of_nobody(mut self) -> Self {
        if let Self::Step { own, .. } = &mut self {
            *own = false;
        }
        self
    }
}

fn moved_text(repository: &str, moved: &Moved) -> String {
    let Moved { tag, was, now, is_branch } = moved;
    let kind = if *is_branch { "is a branch now, at commit" } else { "is at commit" };
    format!(
        "{tag} of {repository} was a tag at commit {was} when it was first seen here, and {kind} {now}: \
         whoever moved it may have put something else in its place, so nothing is taken"
    )
}

fn step_text(command: &str, how: &str, tail: &[String], log: &std::path::Path) -> String {
    let mut text = format!("{command} {how}; all it wrote is in {}", log.display());
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
            Self::Fetch { repository, .. } => {
                format!("git ls-remote {repository} shows whether it answers; then {AGAIN} goes on")
            }
            Self::NoReference { repository, .. } => format!("git ls-remote {repository}"),
            Self::Moved { moved, .. } => {
                format!("{AGAIN} --ref {} takes what it is now, --ref {} what it was", moved.now, moved.was)
            }
            Self::Another { .. } | Self::Altered { .. } => format!("{AGAIN} makes it anew"),
            Self::Io { source, path, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                format!("df -h {}", existing(path).display())
            }
            Self::Io { path, .. } => format!("ls -ld {}", existing(path).display()),
            Self::Shape { .. } => format!("{AGAIN} --repo URL --ref REF"),
            Self::Node { needed, .. } => format!(
                "install Node {needed} from https://nodejs.org or with nvm, or name one: FLOCK_NODE=/path/to/node {AGAIN}"
            ),
            Self::Manager { manager } => format!("npm install --global {manager}, then {AGAIN}"),
            Self::Machine { .. } => {
                format!(
                    "take a repository that holds OpenClaw built, as its npm package is: {AGAIN} --repo URL"
                )
            }
            Self::Step { log, .. } => format!("less {}; {AGAIN} tries again", log.display()),
            Self::Missing(_) => AGAIN.to_owned(),
        })
    }
}

/// Shorthand for errors of files.
pub(super) fn io(
    verb: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(std::io::Error) -> InstallError {
    let path = path.into();
    move |source| InstallError::Io { verb, path, source }
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
