//! Errors of a program that runs turns.

use super::PauseReason;
use crate::error::{Explain, Kind};

/// The reasons why a program did not run a turn to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// The program is not installed, or not ready to be asked.
    #[error("{program} is not installed: {reason}")]
    NotInstalled {
        /// Name for people, such as `OpenClawUnit`.
        program: String,
        /// The part that is missing.
        reason: String,
        /// A command that fixes it.
        hint: String,
    },
    /// The program cannot ask the agent's model. The turn has not begun.
    #[error("{program} can't ask the model {model}: {reason}")]
    NoModel {
        program: String,
        model: String,
        /// The reason why the model cannot be asked.
        reason: String,
        /// A command that fixes it.
        hint: String,
    },
    /// The program does not answer. The turn has not begun.
    #[error("{program} does not answer: {reason}")]
    NotRunning {
        program: String,
        /// The attempt and its result.
        reason: String,
        /// A command that fixes it.
        hint: String,
    },
    /// The provider of the program's model does not answer. The turn has not begun.
    #[error("{program} got no answer from its model: {message}")]
    NoAnswer {
        program: String,
        /// The message of the provider or of the program.
        message: String,
        /// A command that fixes it.
        hint: String,
    },
    /// Something that the program needs before it is started was not available. The problem may be temporary.
    #[error("{program} could not begin the turn: {reason}")]
    NotBegun {
        program: String,
        /// The thing that was not available, and why.
        reason: String,
        /// A command that shows more.
        hint: String,
    },
    /// flock refuses the program's model calls for now, because of the budget. The turn may have begun.
    #[error("{why}")]
    Paused {
        why: PauseReason,
        /// The largest token counts of the refused call: of the request and of the answer.
        call: (u64, u64),
    },
    /// The program did not accept the turn.
    #[error("{program} refused the turn ({status}): {message}")]
    Refused {
        program: String,
        /// The HTTP status, or a number with the same meaning.
        status: u16,
        /// The message of the program.
        message: String,
        /// A command that fixes it.
        hint: String,
    },
    /// The program accepted the turn and reports that it failed.
    #[error("{program} failed to run the turn: {message}")]
    Failed {
        program: String,
        /// The message of the program.
        message: String,
        /// A command that shows more.
        hint: String,
    },
    /// The model's provider failed in the middle of the turn, in a way that may be temporary. The turn can be continued
    /// later.
    #[error("{program} got no answer from its model in the middle of the turn: {message}")]
    Unanswered {
        program: String,
        /// The message of the provider or of the program.
        message: String,
        /// A command that shows more.
        hint: String,
    },
    /// The program ended in the middle of the turn. It is not known what it had done until then.
    #[error("{program} was interrupted, the outcome of the turn is unknown: {message}")]
    Interrupted {
        program: String,
        /// The way in which the run ended, as far as flock saw it.
        message: String,
        /// A command that shows more.
        hint: String,
    },
}

impl RuntimeError {
    /// Returns the error of a turn that the program can't run as it is set up.
    #[must_use]
    pub fn unsupported(program: &str, message: String) -> Self {
        Self::Refused { program: program.to_owned(), status: 400, message, hint: "flock doctor".to_owned() }
    }

    /// Returns `true` if the problem may be temporary, so that the same turn can succeed later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::NotRunning { .. } | Self::NoAnswer { .. } | Self::NotBegun { .. } | Self::Unanswered { .. }
        )
    }

    /// Returns `true` if the program had begun the turn, or if this is not known.
    #[must_use]
    pub const fn may_have_begun(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. } | Self::Interrupted { .. } | Self::Unanswered { .. } | Self::Paused { .. }
        )
    }
}

impl Explain for RuntimeError {
    fn kind(&self) -> Kind {
        match self {
            Self::NotRunning { .. } => Kind::NotRunning,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::NotInstalled { hint, .. }
            | Self::NoModel { hint, .. }
            | Self::NotRunning { hint, .. }
            | Self::NoAnswer { hint, .. }
            | Self::NotBegun { hint, .. }
            | Self::Unanswered { hint, .. }
            | Self::Refused { hint, .. }
            | Self::Failed { hint, .. }
            | Self::Interrupted { hint, .. } => Some(hint.clone()),
            // A pause ends by itself when the budget allows calls again.
            Self::Paused { .. } => None,
        }
    }
}
