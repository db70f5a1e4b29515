//! Skills: instructions that a person has written, in `skills/<name>/SKILL.md` below the home.

use std::path::{Path, PathBuf};

use crate::error::Explain;
use crate::home::Home;
use crate::home::beneath::BeneathError;
use crate::home::user_dirs;
use crate::id::{FolderName, IdError};

/// Maximum number of skills that an error names.
const MAX_NAMED: usize = 100;
/// Maximum size of a skill that is read, in bytes.
pub(crate) const MAX_READ: u64 = 1024 * 1024;

/// An error from reading a skill. The texts are written for a model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SkillError {
    /// The name is not valid for a skill.
    #[error(transparent)]
    Name(#[from] IdError),
    /// No skill has this name.
    #[error("there is no skill {name}: {}", list_known(.known, MAX_NAMED))]
    Unknown {
        name: FolderName,
        /// The names of existing skills.
        known: Vec<FolderName>,
    },
    /// The skill's file could not be opened or read.
    #[error("the skill {name} can't be read")]
    File {
        name: FolderName,
        #[source]
        source: BeneathError,
    },
}

impl Explain for SkillError {}

/// The skills of a home.
#[derive(Clone, Debug)]
pub(crate) struct Skills {
    folder: PathBuf,
}

impl Skills {
    #[must_use]
    pub(crate) fn new(home: &Home) -> Self {
        Self { folder: home.skills() }
    }

    /// Returns the names of all skills, sorted.
    #[must_use]
    pub(crate) fn names(&self) -> Vec<FolderName> {
        user_dirs::names(&self.folder)
    }

    /// Returns the text of a skill.
    ///
    /// # Errors
    ///
    /// Returns [`SkillError::Unknown`] if there is no such skill, and [`SkillError::File`] if its file can't be read or
    /// is too large.
    pub(crate) fn read(&self, name: &FolderName) -> Result<String, SkillError> {
        // Opened below the skills folder: `name` is one path component, and no symbolic link is followed.
        let path = Path::new(name.as_str()).join("SKILL.md");
        match user_dirs::open(&self.folder).and_then(|root| root.read(&path, MAX_READ)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(BeneathError::NotFound { .. }) => {
                Err(SkillError::Unknown { name: name.clone(), known: self.names() })
            }
            Err(source) => Err(SkillError::File { name: name.clone(), source }),
        }
    }
}

/// Returns the sentence for a model with the names of what exists, or that there is none. The list is a hint, so a part
/// of it is enough.
pub(super) fn list_known(known: &[FolderName], most: usize) -> String {
    if known.is_empty() {
        return "there are none".to_owned();
    }
    let names: Vec<&str> = known.iter().take(most).map(FolderName::as_str).collect();
    format!("there are {}{}", names.join(", "), if known.len() > most { ", …" } else { "" })
}
