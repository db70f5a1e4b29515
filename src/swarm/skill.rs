//! Skills: what a person has written down about how something is done, `skills/<name>/SKILL.md` in the home.

use std::path::{Path, PathBuf};

use crate::error::Explain;
use crate::home::Home;
use crate::home::beneath::BeneathError;
use crate::home::shared;
use crate::id::{FolderName, IdError};

/// The largest skill that is read, in bytes.
pub const MAX_READ: u64 = 1024 * 1024;

/// Why a skill could not be read. The texts are for a model.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// Not a name that a skill can have.
    #[error(transparent)]
    Name(#[from] IdError),
    /// There is none with this name.
    #[error("there is no skill {name}: {}", those_that_are(.known))]
    Unknown {
        /// As it was given.
        name: FolderName,
        /// Those that are there.
        known: Vec<FolderName>,
    },
    /// Its file could not be opened.
    #[error("the skill {name} can't be read")]
    File {
        /// Which.
        name: FolderName,
        /// Why.
        #[source]
        source: BeneathError,
    },
}

impl Explain for SkillError {}

/// The skills of a home.
#[derive(Clone, Debug)]
pub struct Skills {
    folder: PathBuf,
}

impl Skills {
    /// Those of this home.
    #[must_use]
    pub fn new(home: &Home) -> Self {
        Self { folder: home.skills() }
    }

    /// Their names, in order.
    #[must_use]
    pub fn names(&self) -> Vec<FolderName> {
        shared::names(&self.folder)
    }

    /// The text of one.
    ///
    /// # Errors
    ///
    /// As [`SkillError`] says.
    pub fn read(&self, name: &FolderName) -> Result<String, SkillError> {
        // Below the folder of all skills: `name` is one component, and no link is followed.
        let path = Path::new(name.as_str()).join("SKILL.md");
        match shared::open(&self.folder).and_then(|root| root.read(&path, MAX_READ)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(BeneathError::NotFound { .. }) => {
                Err(SkillError::Unknown { name: name.clone(), known: self.names() })
            }
            Err(source) => Err(SkillError::File { name: name.clone(), source }),
        }
    }
}

fn those_that_are(known: &[FolderName]) -> String {
    const SHOWN: usize = 100;
    if known.is_empty() {
        return "there are none".to_owned();
    }
    let names: Vec<&str> = known.iter().take(SHOWN).map(FolderName::as_str).collect();
    format!("there are {}{}", names.join(", "), if known.len() > SHOWN { ", …" } else { "" })
}
