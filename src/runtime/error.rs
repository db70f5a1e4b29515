//! Why a program did not run a turn to its end.

use crate::error::{Explain, Kind};

/// Why a program did not run a turn to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuntimeError {
    /// It is not there, or not ready to be asked.
    #[error("{program} is not installed: {reason}")]
    NotInstalled {
        /// As in `OpenClaw`.
        program: &'static str,
        /// What is missing.
        reason: String,
        /// What mends it.
        hint: String,
    },
    /// It can't ask the agent's model. Nothing of the turn has begun.
    #[error("{program} can't ask the model {model}: {reason}")]
    NoModel {
        /// Which program.
        program: &'static str,
        /// The model.
        model: String,
        /// What is in the way.
        reason: String,
        /// What mends it.
        hint: String,
    },
    /// It does not answer. Nothing of the turn has begun.
    #[error("{program} does not answer: {reason}")]
    NotRunning {
        /// Which program.
        program: &'static str,
        /// What was tried and came of it.
        reason: String,
        /// What mends it.
        hint: String,
    },
    /// Its model's provider does not answer. Nothing of the turn has begun.
    #[error("{program} got no answer from its model: {message}")]
    NoAnswer {
        /// Which program.
        program: &'static str,
        /// What the provider, or the program, said.
        message: String,
        /// What mends it.
        hint: String,
    },
    /// It could not be begun with: what it needs before it is started was not to be had. That may pass.
    #[error("{program} could not begin the turn: {reason}")]
    NotBegun {
        /// Which program.
        program: &'static str,
        /// What was in the way.
        reason: String,
        /// Where more is said.
        hint: String,
    },
    /// flock does not let its model be asked for now: the budget. It may have been in the middle of the turn.
    #[error("{why}")]
    Paused {
        /// Why, for people.
        why: String,
        /// The call that was not let through: tokens of the request and of the answer, at most.
        call: (u64, u64),
    },
    /// It did not take the turn.
    #[error("{program} refused the turn ({status}): {message}")]
    Refused {
        /// Which program.
        program: &'static str,
        /// The HTTP status, or what stands for one.
        status: u16,
        /// What it said.
        message: String,
        /// What mends it.
        hint: String,
    },
    /// It took the turn and says that it failed.
    #[error("{program} failed to run the turn: {message}")]
    Failed {
        /// Which program.
        program: &'static str,
        /// What it said.
        message: String,
        /// Where more is said.
        hint: String,
    },
    /// Its model's provider failed in the middle, in a way that may pass: the turn can be gone on with then.
    #[error("{program} got no answer from its model in the middle of the turn: {message}")]
    Unanswered {
        /// Which program.
        program: &'static str,
        /// What the provider, or the program, said.
        message: String,
        /// Where more is said.
        hint: String,
    },
    /// It broke off in the middle: what it had done until then is not known.
    #[error("{program} was interrupted, the outcome of the turn is unknown: {message}")]
    Interrupted {
        /// Which program.
        program: &'static str,
        /// What was seen.
        message: String,
        /// Where more is said.
        hint: String,
    },
}

impl RuntimeError {
    /// Whether the trouble may pass: what was wanted may go well later.
    #[must_use]
    pub const fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::NotRunning { .. } | Self::NoAnswer { .. } | Self::NotBegun { .. } | Self::Unanswered { .. }
        )
    }

    /// Whether the program had begun with the turn, or nobody knows.
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
            Self::Paused { .. } => None,
        }
    }
}
