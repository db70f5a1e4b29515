//! Skills as agents read them: instructions that a person has written or imported, in `skills/<name>/` below the home.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::clean;
use crate::error::Explain;
use crate::home::Home;
use crate::home::beneath::BeneathError;
use crate::home::user_dirs;
use crate::home::walk::{WalkLimits, walk};
use crate::id::{FolderName, IdError};
use crate::picture;
use crate::skill::SKILL_FILE;
use crate::skill::content::{MAX_FILE_BYTES, MAX_TEXT_BYTES};

/// Maximum number of skills that an error names, and of files of a skill.
const MAX_NAMED: usize = 100;
const WALK_LIMITS: WalkLimits = WalkLimits { depth: 9, entries: 300 };
const MAX_PATH: usize = 1024;

/// A skill, or a file of one, as an agent names it: `deploy`, or `deploy/scripts/check.sh`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillPath {
    pub(crate) name: FolderName,
    /// The path of the file in the skill's folder. `None` for the instructions.
    pub(crate) file: Option<PathBuf>,
}

impl FromStr for SkillPath {
    type Err = SkillError;

    fn from_str(text: &str) -> Result<Self, SkillError> {
        let Some((name, file)) = text.split_once('/') else {
            return Ok(Self { name: text.parse()?, file: None });
        };
        let name = name.parse()?;
        // Hidden files are flock's own or a person's, and a link is refused when the file is opened.
        let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
        if file.len() > MAX_PATH || file.contains(['\\', '\0']) || !file.split('/').all(is_plain) {
            return Err(SkillError::Path { name, path: clean::summary(file, 100) });
        }
        Ok(Self { name, file: Some(file.into()) })
    }
}

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
    /// The path is not valid for a file of a skill.
    #[error("{path:?} is not the path of a file of the skill {name}: write it relative to the skill, with /")]
    Path { name: FolderName, path: String },
    /// The skill has no such file.
    #[error("the skill {name} has no file {path:?}{}", files_text(.files))]
    NoFile {
        name: FolderName,
        path: String,
        /// The files that it has.
        files: Vec<String>,
    },
    /// The file is neither text nor a picture.
    #[error(
        "{path:?} of the skill {name} is a binary file of {size} bytes; only text and pictures can be read"
    )]
    Binary { name: FolderName, path: String, size: usize },
    /// The skill's file could not be opened or read.
    #[error("the skill {name} can't be read")]
    File {
        name: FolderName,
        #[source]
        source: BeneathError,
    },
}

impl Explain for SkillError {}

/// The content of a file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileContent {
    Text(String),
    /// A picture in one of the formats that models are shown. It may be damaged.
    Picture(Vec<u8>),
}

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

    /// Returns the instructions of a skill.
    ///
    /// Characters that a reader does not see are written as escapes, so that a model sees what a person is shown.
    ///
    /// # Errors
    ///
    /// Returns [`SkillError::Unknown`] if there is no such skill, and [`SkillError::File`] if its text can't be read or is too
    /// large.
    pub(crate) fn instructions(&self, name: &FolderName) -> Result<String, SkillError> {
        match self.bytes(name, Path::new(SKILL_FILE), MAX_TEXT_BYTES) {
            Ok(bytes) => Ok(cleaned(&String::from_utf8_lossy(&bytes))),
            Err(BeneathError::NotFound { .. }) => {
                Err(SkillError::Unknown { name: name.clone(), known: self.names() })
            }
            Err(source) => Err(SkillError::File { name: name.clone(), source }),
        }
    }

    /// Returns another text file or a picture of a skill's folder. Texts are cleaned like the instructions.
    ///
    /// # Errors
    ///
    /// Returns [`SkillError::Unknown`] if there is no such skill, [`SkillError::NoFile`] if it has no such file, and another
    /// [`SkillError`] if the file is neither text nor a picture, can't be read or is too large.
    pub(crate) fn file(&self, name: &FolderName, file: &Path) -> Result<FileContent, SkillError> {
        let name = name.clone();
        let shown = || clean::summary(&file.to_string_lossy(), 100);
        let bytes = match self.bytes(&name, file, MAX_FILE_BYTES) {
            Ok(bytes) => bytes,
            Err(BeneathError::NotFound { .. }) => {
                let known = self.names();
                if !known.contains(&name) {
                    return Err(SkillError::Unknown { name, known });
                }
                let files = self.files(&name);
                return Err(SkillError::NoFile { name, path: shown(), files });
            }
            Err(source) => return Err(SkillError::File { name, source }),
        };
        let size = bytes.len() as u64;
        match std::str::from_utf8(&bytes) {
            Ok(text) if !text.contains('\0') => {
                if size > MAX_TEXT_BYTES {
                    let source = BeneathError::TooLarge { path: file.to_owned(), size, cap: MAX_TEXT_BYTES };
                    return Err(SkillError::File { name, source });
                }
                Ok(FileContent::Text(cleaned(text)))
            }
            _ if picture::sniff(&bytes).is_some() => Ok(FileContent::Picture(bytes)),
            _ => Err(SkillError::Binary { name, path: shown(), size: bytes.len() }),
        }
    }

    /// Returns `true` if the skill's folder has a regular file at this path.
    #[must_use]
    pub(crate) fn has_file(&self, name: &FolderName, file: &str) -> bool {
        let path = Path::new(name.as_str()).join(file);
        user_dirs::open(&self.folder).is_ok_and(|root| root.open_file(&path).is_ok())
    }

    /// Reads a file of a skill.
    fn bytes(&self, name: &FolderName, file: &Path, most: u64) -> Result<Vec<u8>, BeneathError> {
        // Opened below the skills folder: `name` is one path component, and no symbolic link is followed.
        user_dirs::open(&self.folder)?.read(&Path::new(name.as_str()).join(file), most)
    }

    /// Returns the files of a skill besides its instructions, up to a limit.
    #[must_use]
    pub(crate) fn files(&self, name: &FolderName) -> Vec<String> {
        let found = user_dirs::open(&self.folder)
            .and_then(|root| walk(&root, Path::new(name.as_str()), WALK_LIMITS))
            .unwrap_or_default();
        let files = found.files().filter_map(|file| file.path.strip_prefix(name.as_str()).ok());
        let names = files.map(|path| clean::inline(&path.to_string_lossy()).into_owned());
        names.filter(|path| path != SKILL_FILE).take(MAX_NAMED).collect()
    }
}

/// Returns a text as a reader is shown it.
fn cleaned(text: &str) -> String {
    let text = if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) };
    clean::block(text.strip_prefix('\u{feff}').unwrap_or(&text)).into_owned()
}

fn files_text(files: &[String]) -> String {
    if files.is_empty() {
        return String::new();
    }
    format!("; it has {}", files.join(", "))
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
