//! The errors of importing a skill, each with the command that helps.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::home::beneath::BeneathError;
use crate::id::{FolderName, IdError};
use crate::install::InstallError;

/// An error of importing, updating or removing a skill.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    /// The source is neither a folder nor a repository with a path.
    #[error("{given:?} is no source of a skill: {reason}")]
    Source { given: String, reason: String },
    /// The repository can't be read.
    #[error(transparent)]
    Repository(#[from] InstallError),
    /// A part of the fetched repository can't be read.
    #[error("failed to read the commit from {repository}")]
    Git {
        repository: String,
        #[source]
        source: git2::Error,
    },
    /// The server sends more than a skill can need.
    #[error("{repository} sends more than {limit} MiB for one commit")]
    TooMuch { repository: String, limit: u64 },
    /// A tag is at another commit than when it was imported.
    #[error(
        "the tag {reference} of {repository} was at commit {was} when {name} was imported, and is at {now} now: whoever moved \
         it may have put something else in its place"
    )]
    MovedTag { name: FolderName, reference: String, repository: String, was: String, now: String },
    /// The source has no such folder.
    #[error("{place} has no folder {path:?}")]
    NoFolder { place: String, path: String },
    /// The folder has no `SKILL.md`.
    #[error("{place} has no SKILL.md{}", candidates_text(.candidates))]
    NoSkill {
        place: String,
        /// The folders below it that have one.
        candidates: Vec<String>,
    },
    /// An entry of the folder can't be part of a skill.
    #[error("{place} can't be imported: {path:?} {reason}")]
    Unfit { place: String, path: String, reason: String },
    /// The folder is larger than a skill may be.
    #[error("{place} can't be imported: {reason}")]
    Excess { place: String, reason: String },
    /// The name is not valid for a skill.
    #[error(transparent)]
    Name(#[from] IdError),
    /// Something has the name already.
    #[error("there is a skill {name} already")]
    Exists { name: FolderName, is_imported: bool },
    /// No skill has the name.
    #[error("there is no skill {name}")]
    Unknown { name: FolderName },
    /// The skill was written here.
    #[error("{name} was not imported: it is your own skill")]
    NotImported { name: FolderName },
    /// The record of where the skill came from is damaged.
    #[error("the record of where {name} came from can't be used: {reason}")]
    Record { name: FolderName, reason: String },
    /// A file or folder can't be read or written.
    #[error("failed to use {}", folder.display())]
    Files {
        folder: PathBuf,
        #[source]
        source: BeneathError,
    },
    /// An earlier version of the skill could not be removed.
    #[error("failed to remove {}", path.display())]
    Left {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Home(#[from] HomeError),
}

fn candidates_text(candidates: &[String]) -> String {
    if candidates.is_empty() {
        return String::new();
    }
    format!("; these folders below it have one: {}", candidates.join(", "))
}

impl Explain for ImportError {
    fn kind(&self) -> Kind {
        match self {
            Self::Source { .. } | Self::Name(_) | Self::Repository(InstallError::Repository { .. }) => {
                Kind::Usage
            }
            Self::Exists { .. } => Kind::Conflict,
            Self::Home(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Source { .. } | Self::Repository(InstallError::Repository { .. }) => {
                "flock skill add --help".to_owned()
            }
            Self::Repository(InstallError::NoReference { repository, .. }) => {
                format!("to see the branches and tags: git ls-remote {repository}")
            }
            Self::Repository(InstallError::Fetch { repository, .. }) => {
                format!("to see whether it answers: git ls-remote {repository}")
            }
            Self::Repository(_) | Self::Git { .. } => "try again with `flock skill add`".to_owned(),
            Self::TooMuch { .. } => {
                "clone it yourself, and name the folder of the skill: flock skill add DIR".to_owned()
            }
            Self::MovedTag { name, now, .. } => {
                format!("to see what would change: flock skill update {name} --check --ref {now}")
            }
            Self::NoFolder { .. } | Self::NoSkill { .. } => {
                "name the folder that has the SKILL.md: flock skill add REPOSITORY#PATH".to_owned()
            }
            Self::Unfit { .. } | Self::Excess { .. } => {
                "copy the parts that you want into a folder, and add that: flock skill add DIR".to_owned()
            }
            Self::Name(_) => "give it a name: flock skill add SOURCE --name NAME".to_owned(),
            Self::Exists { name, is_imported: true } => format!("flock skill update {name}"),
            Self::Exists { .. } => "give it another name: flock skill add SOURCE --name NAME".to_owned(),
            Self::Unknown { .. } => "flock skill list".to_owned(),
            Self::NotImported { name } => format!("flock skill show {name}"),
            Self::Record { name, .. } => {
                format!(
                    "to keep its files as your own: flock skill adopt {name}; else: flock skill remove {name}"
                )
            }
            Self::Files { folder, .. } => format!("ls -la {}", folder.display()),
            Self::Left { path, .. } => format!("ls -ld {}", path.display()),
            Self::Home(error) => return error.hint(),
        })
    }
}
