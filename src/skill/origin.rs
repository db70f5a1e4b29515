//! The place that a skill comes from: a folder of this machine, or a folder of a git repository.

use std::path::PathBuf;

use super::content::{SKILL_FILE, SkillContent};
use super::error::ImportError;
use super::git::GitOrigin;
use super::record::{RecordedOrigin, SkillRecord};
use super::{folder, git};
use crate::clean;
use crate::home::{Home, beneath, user_dirs};
use crate::id::FolderName;
use crate::install::source::RepositoryAddress;

/// The branch that a repository itself names as its main one.
const HEAD: &str = "HEAD";

/// A place that a skill can be read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SkillOrigin {
    /// A folder of this machine.
    Folder(PathBuf),
    /// A folder of a repository.
    Git(GitOrigin),
}

impl SkillOrigin {
    /// Reads a source from a person: a folder, or `REPOSITORY#PATH[@REFERENCE]`.
    ///
    /// # Errors
    ///
    /// Returns an error if it is neither, or if the path could lead out of the repository.
    pub(crate) fn parse(given: &str) -> Result<Self, ImportError> {
        let refuse = |reason: &str| {
            Err(ImportError::Source { given: clean::summary(given, 200), reason: reason.to_owned() })
        };
        if given.is_empty() || given.chars().any(clean::is_unseen) {
            return refuse("it is empty, or has characters that nobody sees");
        }
        let path = PathBuf::from(given);
        // A folder may have a hash sign in its name.
        if path.is_dir() {
            return Ok(Self::Folder(beneath::real(&path)));
        }
        let (repository, rest) = match given.rsplit_once('#') {
            Some((repository, rest)) => (repository, rest),
            None if given.contains("://")
                || given.split('/').next().is_some_and(|first| first.contains(':')) =>
            {
                (given, "")
            }
            None => return refuse("there is no such folder"),
        };
        let (path, reference) = match rest.rsplit_once('@') {
            Some((path, reference)) => (path, reference),
            None => (rest, HEAD),
        };
        let path = path.trim_matches('/');
        let path = if path == "." { "" } else { path };
        if !path.is_empty() && path.split('/').any(|name| matches!(name, "" | "." | ".." | ".git")) {
            return refuse("the path after # must lead down into the repository");
        }
        if !is_reference(reference) {
            return refuse("after @ stands a branch, a tag or a commit");
        }
        let address = RepositoryAddress::parse_encrypted(repository)?;
        Ok(Self::Git(GitOrigin { address, path: path.to_owned(), reference: reference.to_owned() }))
    }

    /// Returns the origin of an imported skill. `reference` takes the place of the recorded branch, tag or commit.
    ///
    /// # Errors
    ///
    /// Returns an error if the record has an address or a path that can't be used, or if a reference is given for a folder.
    pub(crate) fn of_record(
        name: &FolderName,
        record: &SkillRecord,
        reference: Option<&str>,
    ) -> Result<Self, ImportError> {
        match &record.source {
            RecordedOrigin::Folder { path } if reference.is_none() => Ok(Self::Folder(PathBuf::from(path))),
            RecordedOrigin::Folder { path } => Err(ImportError::Source {
                given: path.clone(),
                reason: "it is a folder, which has no branches and commits".to_owned(),
            }),
            RecordedOrigin::Git { repository, path, reference: recorded, .. } => {
                let reference = reference.unwrap_or(recorded);
                // The record is a file, so what it says is checked like what a person types.
                match Self::parse(&format!("{repository}#{path}@{reference}"))? {
                    found @ Self::Git(_) => Ok(found),
                    Self::Folder(_) => Err(ImportError::Record {
                        name: name.clone(),
                        reason: "its source is no repository".to_owned(),
                    }),
                }
            }
        }
    }

    /// Reads the skill. Nothing of it is run, and nothing is written outside `run/`. `progress` is told how many bytes have
    /// arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the source can't be read, if it has no `SKILL.md`, or if it has something that can't be imported.
    pub(crate) fn read(
        &self,
        home: &Home,
        progress: &dyn Fn(u64),
    ) -> Result<(SkillContent, RecordedOrigin), ImportError> {
        match self {
            Self::Folder(path) => {
                let place = path.display().to_string();
                let root = user_dirs::open(path)
                    .map_err(|source| ImportError::Files { folder: path.clone(), source })?;
                // A folder with many skills is looked through for them, before everything in it is read.
                if root.stat(SKILL_FILE.as_ref()).is_err() {
                    return Err(ImportError::NoSkill { place, candidates: folder::candidates(&root) });
                }
                let content = folder::read(&root, "".as_ref(), &place)?;
                let Some(path) = path.to_str() else {
                    let reason = "its path is not plain text".to_owned();
                    return Err(ImportError::Source { given: place, reason });
                };
                Ok((checked(content)?, RecordedOrigin::Folder { path: path.to_owned() }))
            }
            Self::Git(origin) => {
                let (content, recorded) = git::read(home, origin, progress)?;
                Ok((checked(content)?, recorded))
            }
        }
    }

    /// Returns the name that the source gives a skill: what its front matter says, else the last part of its path.
    ///
    /// # Errors
    ///
    /// Returns an error if that can't be the name of a skill.
    pub(crate) fn name(&self, front_matter: Option<&str>) -> Result<FolderName, ImportError> {
        let text = match (front_matter, self) {
            (Some(name), _) => name.to_owned(),
            (None, Self::Folder(path)) => {
                path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
            (None, Self::Git(origin)) => {
                let address = origin.address.as_str().trim_end_matches('/').trim_end_matches(".git");
                let whole = if origin.path.is_empty() { address } else { &origin.path };
                whole.rsplit(['/', ':']).next().unwrap_or_default().to_owned()
            }
        };
        Ok(text.parse()?)
    }
}

/// Returns the content if it is a skill.
fn checked(content: SkillContent) -> Result<SkillContent, ImportError> {
    let Some(file) = content.files().get(SKILL_FILE) else {
        return Err(ImportError::NoSkill { place: content.place().to_owned(), candidates: Vec::new() });
    };
    if file.text().is_none() {
        return Err(content.unfit(SKILL_FILE, "is no text in UTF-8"));
    }
    Ok(content)
}

/// Returns `true` for a text that can be a branch, a tag or a commit. It becomes part of what a git server is asked for.
fn is_reference(text: &str) -> bool {
    let is_odd = |c: char| c.is_whitespace() || c.is_control() || "~^:?*[\\".contains(c);
    !text.is_empty()
        && text.len() <= 200
        && !text.starts_with(['-', '/'])
        && !text.contains("..")
        && !text.contains("@{")
        && !text.contains(is_odd)
}
