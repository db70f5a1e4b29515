//! The reason for which a turn may not go on at the moment.

use crate::id::AgentId;

/// The reason why a turn may not go on at the moment. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PauseReason {
    /// A budget has no room for the call, or can't limit it. The text names the budget.
    #[error("{0}")]
    Budget(String),
    /// The database can't be read, so nobody knows the remaining budget. The same call may be made once it can be read.
    #[error("the budgets could not be checked")]
    UnknownBudget,
    /// The agent was frozen, and its program can't be held.
    #[error("{0} was frozen while its turn ran")]
    Frozen(AgentId),
    /// The person for whom the work was begun was removed since.
    #[error("{0} was removed from this home")]
    PersonRemoved(String),
}

impl PauseReason {
    /// Returns `true` if the pause never ends.
    #[must_use]
    pub(crate) const fn is_for_good(&self) -> bool {
        // Nobody gets the name of a removed person again.
        matches!(self, Self::PersonRemoved(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_work_of_a_removed_person_is_paused_for_good_whatever_a_text_says() {
        let text = "ann was removed from this home";
        for (reason, said, is_for_good) in [
            (PauseReason::Budget(text.to_owned()), text, false),
            (PauseReason::UnknownBudget, "the budgets could not be checked", false),
            (PauseReason::Frozen("coder".parse().unwrap()), "coder was frozen while its turn ran", false),
            (PauseReason::PersonRemoved("ann".to_owned()), text, true),
        ] {
            assert_eq!((reason.to_string().as_str(), reason.is_for_good()), (said, is_for_good));
        }
    }
}
