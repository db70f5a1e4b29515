//! The files of a skill in memory: which ones a skill may have, how many and how large, and the hash that pins them.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::ImportError;
use crate::clean;
use crate::id::hex;

/// The file that makes a folder a skill.
pub(crate) const SKILL_FILE: &str = "SKILL.md";
/// The most files of a skill.
pub(crate) const MAX_FILES: usize = 1_000;
/// The most bytes of one file.
pub(crate) const MAX_FILE_BYTES: u64 = 4 << 20;
/// The most bytes of all files together.
pub(crate) const MAX_BYTES: u64 = 32 << 20;
/// The most bytes of `SKILL.md`, which is also what an agent can read of one file.
pub(crate) const MAX_TEXT_BYTES: u64 = 1 << 20;
/// The most names of a path.
const MAX_DEPTH: usize = 8;
/// The most bytes of a name.
const MAX_NAME_BYTES: usize = 128;
/// The most entries that are named as left out.
const MAX_LEFT_OUT: usize = 100;

/// A file of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkillFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) is_executable: bool,
}

impl SkillFile {
    /// Returns the text of the file, or `None` if it is not UTF-8 or has a zero byte.
    #[must_use]
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok().filter(|text| !text.contains('\0'))
    }
}

/// The files of a skill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SkillContent {
    /// The place it was read from, for messages.
    place: String,
    /// The files by their paths, whose names are separated by `/`.
    files: BTreeMap<String, SkillFile>,
    /// Hidden entries, which are never part of a skill.
    left_out: Vec<String>,
    bytes: u64,
}

impl SkillContent {
    /// Creates a content without files. `place` is where they come from, for messages.
    #[must_use]
    pub(super) fn new(place: impl Into<String>) -> Self {
        Self { place: place.into(), ..Self::default() }
    }

    /// Returns the path of an entry of the folder `above`, or `None` if the entry is hidden and left out.
    ///
    /// # Errors
    ///
    /// Returns an error if the name can't be that of a file of a skill, or if the entry is too deep.
    pub(super) fn admit(&mut self, above: &str, name: &[u8]) -> Result<Option<String>, ImportError> {
        let shown = String::from_utf8_lossy(name).into_owned();
        let path = if above.is_empty() { shown.clone() } else { format!("{above}/{shown}") };
        // `.` and `..`, which a hostile tree may have as names, begin with a dot too.
        if name.starts_with(b".") {
            if self.left_out.len() < MAX_LEFT_OUT {
                self.left_out.push(path);
            }
            return Ok(None);
        }
        let is_text = std::str::from_utf8(name).is_ok();
        let is_plain = !shown.contains(['/', '\\']) && !shown.chars().any(clean::is_ignorable);
        if name.is_empty() || !is_text || !is_plain || shown.trim() != shown {
            return Err(self.unfit(&path, "has a name with characters that a file of a skill can't have"));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(self.unfit(&path, &format!("has a name of more than {MAX_NAME_BYTES} bytes")));
        }
        if path.split('/').count() > MAX_DEPTH {
            return Err(self.unfit(&path, &format!("is deeper than {MAX_DEPTH} folders")));
        }
        Ok(Some(path))
    }

    /// Checks that there is room for a file of this size, before it is read.
    ///
    /// # Errors
    ///
    /// Returns an error if the file or all files together would be too large, or too many.
    pub(super) fn check_room(&self, path: &str, size: u64) -> Result<(), ImportError> {
        let most = if path == SKILL_FILE { MAX_TEXT_BYTES } else { MAX_FILE_BYTES };
        if size > most {
            return Err(self.unfit(path, &format!("has {size} bytes; at most {most} are allowed")));
        }
        if self.files.len() >= MAX_FILES {
            return Err(self.excess(format!("it has more than {MAX_FILES} files")));
        }
        if self.bytes + size > MAX_BYTES {
            return Err(self.excess(format!("its files have more than {} MiB together", MAX_BYTES >> 20)));
        }
        Ok(())
    }

    /// Adds a file.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no room for it, or if the path is there already.
    pub(super) fn add(&mut self, path: String, file: SkillFile) -> Result<(), ImportError> {
        let size = file.bytes.len() as u64;
        self.check_room(&path, size)?;
        if self.files.contains_key(&path) {
            return Err(self.unfit(&path, "is there twice"));
        }
        self.bytes += size;
        self.files.insert(path, file);
        Ok(())
    }

    pub(super) fn unfit(&self, path: &str, reason: &str) -> ImportError {
        // The path may have bytes that no name can have, and is shown in messages.
        let path = clean::summary(path, 200);
        ImportError::Unfit { place: self.place.clone(), path, reason: reason.to_owned() }
    }

    pub(super) fn excess(&self, reason: String) -> ImportError {
        ImportError::Excess { place: self.place.clone(), reason }
    }

    /// Returns the place that the files were read from, for messages.
    #[must_use]
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the files by their paths.
    #[must_use]
    pub(crate) const fn files(&self) -> &BTreeMap<String, SkillFile> {
        &self.files
    }

    /// Returns the hidden entries that were left out, up to a limit.
    #[must_use]
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the number of bytes of all files.
    #[must_use]
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the text of `SKILL.md`, or nothing if there is none or if it is no text.
    #[must_use]
    pub(crate) fn instructions(&self) -> &str {
        self.files.get(SKILL_FILE).and_then(SkillFile::text).unwrap_or_default()
    }

    /// Returns the hash of paths, modes and contents, as `sha256:` and 64 hex digits.
    ///
    /// It is the SHA-256 of one line for each file, in the order of the bytes of their paths: the mode (`100644`, or
    /// `100755` if it is executable), the SHA-256 of its content, and its path, with one space between them.
    #[must_use]
    pub(crate) fn hash(&self) -> String {
        let mut all = Sha256::new();
        for (path, file) in &self.files {
            let mode = if file.is_executable { "100755" } else { "100644" };
            // No path has a line end, so no two skills have the same lines.
            all.update(format!("{mode} {} {path}\n", hex(&Sha256::digest(&file.bytes))));
        }
        format!("sha256:{}", hex(&all.finalize()))
    }
}
