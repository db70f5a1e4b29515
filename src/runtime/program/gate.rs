//! The interface through which a program's turn reaches flock: models through the relay, and flock's tools through MCP.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::Program;
use crate::config::Api;
use crate::id::ModelRef;
use crate::provider::Usage;
use crate::runtime::{PauseReason, RuntimeError, RuntimeRequest};

/// Grants access to turns.
pub trait AccessProvider: Send + Sync {
    /// Returns `true` if this home has the model's provider. A program uses its own login only if it does not.
    fn has_provider(&self, model: &ModelRef) -> bool;

    /// Opens access for one turn of this program. Dropping the result closes it. With `own_login`, a model whose
    /// provider is not in this home is left to the program's own login.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent's model cannot be asked, or not by this program.
    fn open(
        &self,
        order: &RuntimeRequest,
        program: &dyn Program,
        own_login: bool,
    ) -> Result<TurnAccess, RuntimeError>;
}

/// Access for one turn. Dropping it ends the access.
pub struct TurnAccess {
    /// The access to the agent's model. `None` if the program uses its own login.
    pub relay: Option<RelayAccess>,
    /// The token for MCP.
    pub mcp_token: String,
    /// flock's address for programs on the host, as in `http://127.0.0.1:3779`.
    pub host_origin: String,
    /// The counts of the turn's calls so far.
    pub calls: Arc<CallCounter>,
    /// Ends the access when it is dropped.
    pub close: Box<dyn Send + Sync>,
}

/// A model behind the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayAccess {
    /// The token for the relay. It takes the place of a provider's key.
    pub token: String,
    /// The wire format of the model.
    pub api: Api,
    /// Largest context in tokens.
    pub context_window: u64,
    /// Longest answer in tokens.
    pub max_tokens: u64,
}

/// The model calls of one turn, as counted by the relay.
#[derive(Debug, Default)]
pub struct CallCounter(watch::Sender<Count>);

/// The counts in [`CallCounter`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Count {
    /// Number of calls that were answered well.
    pub answered: u32,
    /// Tokens of these calls.
    pub usage: Usage,
    /// The provider's status and message of the last answer, if that was an error. The status is 0 if no answer came or
    /// it broke off, and 400 if such a failure is permanent.
    pub refused: Option<(u16, String)>,
    /// The reason why the last refused call was refused by flock. `None` again once a call of at least that size was
    /// allowed.
    pub forbidden: Option<CallRefusal>,
    /// Set while no model of the turn can be asked because of a quota.
    pub used_up: bool,
    /// Set once MCP was asked for the list of tools with this turn's token.
    pub listed_tools: bool,
}

/// The reason why flock refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallRefusal {
    /// The budget has no room for the call now, and may have later.
    #[error("{why}")]
    Paused {
        why: PauseReason,
        /// The largest token counts of the request and of the answer.
        call: (u64, u64),
    },
    /// The agent's settings forbid the call.
    #[error("{0}")]
    Settings(String),
}

impl CallRefusal {
    /// Returns `true` if an allowed call of this size shows that the refusal no longer applies. A smaller call, for
    /// example for a title, shows nothing about a budget.
    #[must_use]
    pub(crate) const fn is_lifted_by(&self, (input, output): (u64, u64)) -> bool {
        match self {
            Self::Paused { call, .. } => input.saturating_add(output) >= call.0.saturating_add(call.1),
            Self::Settings(_) => true,
        }
    }
}

impl CallCounter {
    /// Changes the counts.
    pub fn note(&self, change: impl FnOnce(&mut Count)) {
        self.0.send_modify(change);
    }

    /// Returns the present counts.
    #[must_use]
    pub fn now(&self) -> Count {
        self.0.borrow().clone()
    }

    /// Returns once no model could be asked because of a quota for this long. Another call of the turn may be answered
    /// meanwhile.
    pub async fn stays_used_up(&self, grace: Duration) {
        let mut counts = self.0.subscribe();
        loop {
            // The sender lives as long as this value, so waiting can't fail.
            drop(counts.wait_for(|count| count.used_up).await);
            let answered = counts.wait_for(|count| !count.used_up);
            if tokio::time::timeout(grace, answered).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_quota_that_is_used_up_has_to_stay_so() {
        let counter = CallCounter::default();
        let (short, long) = (Duration::from_millis(5), Duration::from_secs(600));
        let returns =
            async |grace, limit| tokio::time::timeout(limit, counter.stays_used_up(grace)).await.is_ok();
        assert!(!returns(short, short * 4).await, "nothing is used up");
        counter.note(|count| count.used_up = true);
        assert!(!returns(long, short * 4).await, "it may be answered yet");
        assert!(returns(short, long).await);
        counter.note(|count| count.used_up = false);
        assert!(!returns(short, short * 4).await, "it was answered");
    }

    #[test]
    fn a_call_as_large_shows_that_the_budget_has_room_again() {
        let paused = CallRefusal::Paused { why: PauseReason::UnknownBudget, call: (100, 50) };
        for (call, undone) in [((100, 50), true), ((0, 150), true), ((100, 49), false), ((1, 1), false)] {
            assert_eq!(paused.is_lifted_by(call), undone, "{call:?}");
        }
        assert!(CallRefusal::Settings("no such model".to_owned()).is_lifted_by((1, 1)));
    }
}
