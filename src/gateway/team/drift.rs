//! Computes the difference between the work that the database lists as under way and the work that really runs. Pure.
//!
//! The end of a piece of work is written when it has ended. If that write fails, for example on a full disk, the
//! database keeps listing it as under way, and nothing in the process would ever end it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::id::TurnId;

/// The work that the database lists as under way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct InProgress {
    /// Turns that are running.
    pub(super) turns: BTreeSet<TurnId>,
    /// Turns that were given messages or waiting items and have not concluded them.
    pub(super) given: BTreeSet<TurnId>,
    /// Model calls with a reservation: the number of each, with its turn.
    pub(super) calls: BTreeMap<i64, TurnId>,
    /// Tasks that are under way although no waiting or running turn could end them.
    pub(super) tasks: BTreeSet<String>,
}

/// The work that has to be settled. The fields match those of [`InProgress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Drift {
    pub(super) turns: Vec<TurnId>,
    pub(super) given: Vec<TurnId>,
    pub(super) calls: Vec<i64>,
    pub(super) tasks: Vec<String>,
}

impl Drift {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Compares the database with the running turns.
///
/// `before` was read before the running turns were looked up, and `after` was read after that. A turn is listed as
/// running before the database hears of it, and until its last write was tried. So a turn that is in `before`, does not
/// run and is still in `after` is under way nowhere: it neither began nor ended between the looks.
pub(super) fn compare(before: &InProgress, running: &HashSet<TurnId>, after: &InProgress) -> Drift {
    let left = |before: &BTreeSet<TurnId>, after: &BTreeSet<TurnId>| -> Vec<TurnId> {
        before.intersection(after).filter(|turn| !running.contains(turn)).copied().collect()
    };
    let calls =
        before.calls.iter().filter(|(id, turn)| after.calls.contains_key(id) && !running.contains(turn));
    Drift {
        turns: left(&before.turns, &after.turns),
        given: left(&before.given, &after.given),
        calls: calls.map(|(id, _)| *id).collect(),
        tasks: before.tasks.intersection(&after.tasks).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under_way(turns: &[TurnId], calls: &[(i64, TurnId)], tasks: &[&str]) -> InProgress {
        let turns: BTreeSet<TurnId> = turns.iter().copied().collect();
        InProgress {
            given: turns.clone(),
            turns,
            calls: calls.iter().copied().collect(),
            tasks: tasks.iter().map(|id| (*id).to_owned()).collect(),
        }
    }

    #[test]
    fn only_what_is_in_both_looks_and_does_not_run_is_settled() {
        let [ran, lost] = [TurnId::new(), TurnId::new()];
        let nothing = InProgress::default();
        let all = under_way(&[ran, lost], &[(1, ran), (2, lost)], &["t"]);
        let settled =
            Drift { turns: vec![lost], given: vec![lost], calls: vec![2], tasks: vec!["t".to_owned()] };
        let both = Drift {
            turns: vec![ran.min(lost), ran.max(lost)],
            given: vec![ran.min(lost), ran.max(lost)],
            calls: vec![1, 2],
            tasks: vec!["t".to_owned()],
        };
        for (name, before, running, after, expected) in [
            ("all is well", &nothing, vec![], &nothing, Drift::default()),
            ("one runs, one was lost", &all, vec![ran], &all, settled),
            ("nothing runs", &all, vec![], &all, both),
            ("it ended between the looks", &all, vec![ran], &nothing, Drift::default()),
            ("it began between the looks", &nothing, vec![], &all, Drift::default()),
            ("it runs and nothing was written yet", &nothing, vec![ran, lost], &nothing, Drift::default()),
        ] {
            let running: HashSet<TurnId> = running.into_iter().collect();
            let drift = compare(before, &running, after);
            assert_eq!(drift, expected, "{name}");
            assert_eq!(drift.is_empty(), expected == Drift::default(), "{name}");
        }
    }

    #[test]
    fn each_kind_is_compared_by_itself() {
        let turn = TurnId::new();
        let none = HashSet::new();
        let turns = InProgress { turns: [turn].into(), ..InProgress::default() };
        let given = InProgress { given: [turn].into(), ..InProgress::default() };
        assert!(compare(&turns, &none, &given).is_empty());
        assert_eq!(compare(&turns, &none, &turns).turns, [turn]);
        assert_eq!(compare(&given, &none, &given).given, [turn]);
    }
}
