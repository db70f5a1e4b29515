//! Skills that a person imports from elsewhere: folders with a `SKILL.md`, pinned by the hash of their content and, where
//! they come from git, by a commit.
//!
//! Nothing of a skill is ever run here. A skill is read into memory within limits ([`content`]), from a folder or a commit
//! ([`origin`]); [`inspection`] says what it contains and [`difference`] what an update changes; [`installed`] puts it into
//! the home in one step. Agents read it with `flock_read_skill`, like a skill that the person wrote. [`arguments`] and
//! [`links`] are about the text of any skill: the values that it takes, and the files that it refers to.

pub(crate) mod arguments;
pub(crate) mod content;
pub(crate) mod difference;
mod error;
mod folder;
pub(crate) mod front_matter;
mod git;
pub(crate) mod inspection;
pub(crate) mod installed;
pub(crate) mod links;
pub(crate) mod origin;
pub(crate) mod record;
pub(crate) mod view;

#[cfg(test)]
mod tests;

pub(crate) use content::{SKILL_FILE, SkillContent};
pub(crate) use error::ImportError;
pub(crate) use installed::{InstalledSkill, SkillChanges, SkillState};
pub(crate) use origin::SkillOrigin;
pub(crate) use record::{PinKind, RecordedOrigin, SkillRecord};
