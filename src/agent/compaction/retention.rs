//! Decides which messages of a conversation a compaction keeps. Pure.

use crate::provider::Role;

/// The facts about a message that the decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetentionItem {
    /// The message's author.
    pub role: Role,
    /// The message's estimated tokens.
    pub cost: u64,
    /// `true` if the message stays in any case: it was sent to the agent in the current turn.
    pub stays: bool,
}

/// Returns the index at which the newest part begins whose messages cost at most `budget`. Messages that stay are not
/// counted.
///
/// A call is never separated from its results. The part from `last` on is kept even if it is larger. Returns `None` if
/// nothing would be taken out.
#[must_use]
pub fn keep_from(pieces: &[RetentionItem], budget: u64, last: usize) -> Option<usize> {
    let last = last.min(pieces.len());
    let mut from = pieces.len();
    let mut left = budget;
    // A unit is a message with the results that follow it. The conversation can be cut only before a unit.
    let mut unit = 0;
    for (at, piece) in pieces.iter().enumerate().rev() {
        if !piece.stays {
            unit += piece.cost;
        }
        if piece.role == Role::Tool {
            continue;
        }
        // The last step is kept even over budget: without it the model could not go on.
        if at < last && unit > left {
            break;
        }
        left = left.saturating_sub(unit);
        unit = 0;
        from = at;
    }
    // Results at the very beginning belong to no call here and are taken out with what comes before them.
    pieces[..from].iter().any(|piece| !piece.stays).then_some(from)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(role: Role, cost: u64) -> RetentionItem {
        RetentionItem { role, cost, stays: false }
    }

    #[test]
    fn the_newest_items_within_budget_are_kept() {
        let pieces = [Role::User, Role::Assistant, Role::Tool, Role::Assistant].map(|role| piece(role, 10));
        assert_eq!(keep_from(&pieces, 100, 4), None, "all of it fits");
        assert_eq!(keep_from(&pieces, 30, 4), Some(1));
        assert_eq!(keep_from(&pieces, 29, 4), Some(3), "a call goes with its result");
        assert_eq!(keep_from(&pieces, 9, 4), Some(4), "nothing fits");
        assert_eq!(keep_from(&pieces, 9, 3), Some(3), "the last is kept");
        assert_eq!(keep_from(&pieces, 9, 1), Some(1));
        assert_eq!(keep_from(&pieces, 9, 0), None);
    }

    #[test]
    fn pinned_items_cost_nothing_and_free_nothing() {
        let question = RetentionItem { stays: true, ..piece(Role::User, 1_000) };
        let pieces = [question, piece(Role::Assistant, 10), piece(Role::Tool, 10)];
        assert_eq!(keep_from(&pieces, 20, 3), None);
        assert_eq!(keep_from(&pieces, 10, 3), Some(3));
        assert_eq!(keep_from(&pieces, 10, 1), None, "only what stays would be taken out");
    }

    fn any_item() -> impl Strategy<Value = RetentionItem> {
        let role = prop_oneof![Just(Role::User), Just(Role::Assistant), Just(Role::Tool)];
        (role, 0_u64..50, any::<bool>()).prop_map(|(role, cost, stays)| RetentionItem {
            role,
            cost,
            stays: stays && role == Role::User,
        })
    }

    proptest! {
        #[test]
        fn calls_and_results_stay_together_within_the_budget(pieces in proptest::collection::vec(any_item(), 0..40), budget in 0_u64..500) {
            let Some(from) = keep_from(&pieces, budget, pieces.len()) else { return Ok(()) };
            prop_assert!(pieces.get(from).is_none_or(|piece| piece.role != Role::Tool));
            let cost = |pieces: &[RetentionItem]| pieces.iter().filter(|piece| !piece.stays).map(|piece| piece.cost).sum::<u64>();
            prop_assert!(cost(&pieces[from..]) <= budget);
            prop_assert!(pieces[..from].iter().any(|piece| !piece.stays));
        }
    }
}
