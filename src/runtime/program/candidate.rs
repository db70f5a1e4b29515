//! A program that a request names, before it is known to be on this machine.

use super::interface::{Program, ProgramFiles};
use super::{PROGRAMS, acp, locate, version_check};

/// A program that a runtime's name means, whether it is on this machine or not.
///
/// A [`Program`] that only its command describes is kept until the process ends, and a request can name any number of
/// commands. So a request is answered from this, and only a program that is found becomes a [`Program`].
pub(crate) enum ProgramCandidate {
    /// One of [`PROGRAMS`].
    Listed(&'static dyn Program),
    /// One that its command describes.
    Described {
        /// The whole name, as in `acp:qwen --acp`.
        name: String,
        description: acp::Description,
    },
}

impl ProgramCandidate {
    /// Returns the program that a runtime's name means, or `None` if it means none.
    #[must_use]
    pub(crate) fn named(name: &str) -> Option<Self> {
        let listed = PROGRAMS.iter().copied().find(|program| program.name() == name);
        listed.map(Self::Listed).or_else(|| {
            let description = acp::describe(name)?;
            Some(Self::Described { name: name.to_owned(), description })
        })
    }

    /// Returns the name in an agent's `runtime` setting.
    #[must_use]
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Listed(program) => program.name(),
            Self::Described { name, .. } => name,
        }
    }

    /// Returns the name for people.
    #[must_use]
    pub(crate) fn title(&self) -> &str {
        match self {
            Self::Listed(program) => program.title(),
            Self::Described { description, .. } => &description.title,
        }
    }

    /// Returns the command that installs it.
    #[must_use]
    pub(crate) fn install_hint(&self) -> String {
        match self {
            Self::Listed(program) => version_check::install_hint(*program),
            Self::Described { description, .. } => version_check::command_hint(&description.command),
        }
    }

    /// Finds the program on this machine, with its files.
    ///
    /// # Errors
    ///
    /// Returns the missing part. The text completes "… is not installed: …".
    pub(crate) fn find(self) -> Result<(&'static dyn Program, ProgramFiles), String> {
        match self {
            Self::Listed(program) => Ok((program, locate::find(program)?)),
            Self::Described { name, description } => {
                let files = locate::files(&description.command, &[], |command| description.parts(command))?;
                Ok((acp::keep(&name, description), files))
            }
        }
    }
}
