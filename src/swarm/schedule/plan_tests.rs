use proptest::prelude::*;

use super::super::times::{Times, find_zone};
use super::*;
use crate::clock::MAX_DIFFERENCE;
use crate::store::Timing;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;

fn hourly() -> Times {
    Times::Every { from: 0, period: HOUR }
}

fn state(covered: i64, ran: &BTreeSet<i64>) -> SlotState<'_> {
    SlotState { covered, pruned_until: 0, ran, clock_difference: 0 }
}

fn runs(plan: &Plan) -> Vec<i64> {
    let run = |step: &Step| if let Step::Run { slot, .. } = step { Some(*slot) } else { None };
    plan.steps.iter().filter_map(run).collect()
}

fn missed(plan: &Plan) -> u64 {
    let count = |step: &Step| if let Step::Miss(missed) = step { missed.count } else { 0 };
    plan.steps.iter().map(count).sum()
}

#[test]
fn a_slot_that_is_due_runs_and_the_next_one_is_waited_for() {
    let none = BTreeSet::new();
    for policy in [MissedPolicy::Once, MissedPolicy::Skip, MissedPolicy::All] {
        let early = plan(&hourly(), policy, state(0, &none), HOUR - 1);
        assert_eq!(early, Plan { steps: vec![], wake_at: Some(HOUR) });
        let due = plan(&hourly(), policy, state(0, &none), HOUR + 5);
        assert_eq!(
            due,
            Plan { steps: vec![Step::Run { slot: HOUR, for_others: 0 }], wake_at: Some(2 * HOUR) }
        );
    }
}

#[test]
fn missed_slots_follow_their_policy() {
    let none = BTreeSet::new();
    let of = |policy| plan(&hourly(), policy, state(0, &none), 5 * HOUR + 10 * MINUTE);
    let once = of(MissedPolicy::Once);
    assert_eq!((runs(&once), missed(&once)), (vec![5 * HOUR], 4));
    assert!(once.steps.contains(&Step::Run { slot: 5 * HOUR, for_others: 4 }));
    let skip = of(MissedPolicy::Skip);
    assert_eq!((runs(&skip), missed(&skip)), (vec![], 5));
    let all = of(MissedPolicy::All);
    assert_eq!((runs(&all).len(), missed(&all)), (5, 0));
    // The slot that is due now runs with every policy.
    let now = plan(&hourly(), MissedPolicy::Skip, state(0, &none), 5 * HOUR + 1);
    assert_eq!((runs(&now), missed(&now)), (vec![5 * HOUR], 4));
}

#[test]
fn a_gateway_whose_clock_is_ahead_takes_no_time_for_missed_by_that() {
    let none = BTreeSet::new();
    let now = HOUR + 5 * MINUTE;
    let alone = plan(&hourly(), MissedPolicy::Skip, state(0, &none), now);
    assert_eq!((runs(&alone), missed(&alone)), (vec![], 1));
    let in_group = SlotState { clock_difference: MAX_DIFFERENCE, ..state(0, &none) };
    let taken_over = plan(&hourly(), MissedPolicy::Skip, in_group, now);
    assert_eq!((runs(&taken_over), missed(&taken_over)), (vec![HOUR], 0));
    let too_late = plan(&hourly(), MissedPolicy::Skip, in_group, HOUR + 7 * MINUTE);
    assert_eq!((runs(&too_late), missed(&too_late)), (vec![], 1));
    // The clock of the next gateway is right again: nothing runs a second time.
    let ran = BTreeSet::from([HOUR]);
    let back = SlotState { clock_difference: MAX_DIFFERENCE, ..state(HOUR, &ran) };
    let next = plan(&hourly(), MissedPolicy::Skip, back, HOUR - MINUTE);
    assert_eq!((runs(&next), next.wake_at), (vec![], Some(2 * HOUR)));
}

#[test]
fn a_flood_of_missed_slots_is_bounded() {
    let none = BTreeSet::new();
    let every_minute = Times::Every { from: 0, period: MINUTE };
    let all = plan(&every_minute, MissedPolicy::All, state(0, &none), 3000 * MINUTE);
    assert_eq!((runs(&all).len(), missed(&all)), (MOST_RUNS, 2900));
    // Years of minutes are not counted one by one.
    let years = plan(&every_minute, MissedPolicy::Once, state(0, &none), 40_000_000 * MINUTE);
    assert_eq!(runs(&years), [40_000_000 * MINUTE]);
    assert!(missed(&years) >= MOST_COUNTED);
}

#[test]
fn a_clock_that_was_set_back_repeats_nothing() {
    let ran = BTreeSet::from([2 * HOUR, 3 * HOUR]);
    // The slots at 2 and at 3 have run, then the clock was set back from 3 to half past 1.
    let back = plan(&hourly(), MissedPolicy::Once, state(3 * HOUR, &ran), HOUR + 30 * MINUTE);
    assert_eq!(back, Plan { steps: vec![Step::SetBack], wake_at: Some(4 * HOUR) });
    let later = plan(&hourly(), MissedPolicy::All, state(HOUR + 30 * MINUTE, &ran), 4 * HOUR + 1);
    assert_eq!(runs(&later), [4 * HOUR]);
    // What was only recorded as missed while the clock was ahead comes again.
    let fresh = plan(&hourly(), MissedPolicy::All, state(HOUR + 30 * MINUTE, &BTreeSet::new()), 2 * HOUR);
    assert_eq!(runs(&fresh), [2 * HOUR]);
    // Rows that are gone can't say what ran, so nothing runs up to their time.
    let none = BTreeSet::new();
    let pruned = SlotState { pruned_until: 7 * HOUR, ..state(9 * HOUR, &none) };
    let plan = plan(&hourly(), MissedPolicy::Once, pruned, HOUR);
    assert_eq!(plan, Plan { steps: vec![Step::SetBack], wake_at: Some(8 * HOUR) });
}

/// The stored state as the database keeps it, without the database.
#[derive(Default)]
struct Rows {
    covered: i64,
    ran: Vec<i64>,
    missed: u64,
}

impl Rows {
    fn take(&mut self, step: &Step, now: i64) {
        match step {
            Step::SetBack => self.covered = now,
            Step::Miss(missed) => {
                self.missed += missed.count;
                self.covered = self.covered.max(missed.last);
            }
            Step::Run { slot, .. } => {
                self.ran.push(*slot);
                self.covered = self.covered.max(*slot);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    /// The clock goes on, stands still for days, is set back and forth, and the process is killed between any two steps.
    #[test]
    fn nothing_runs_twice_and_every_slot_is_accounted_for(
        policy in proptest::sample::select(&[MissedPolicy::Once, MissedPolicy::Skip, MissedPolicy::All][..]),
        pattern in proptest::sample::select(&["*/20 * * * *", "30 2 * * *", "0 9 * * 1-5"][..]),
        zone in proptest::sample::select(&["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Seoul"][..]),
        moves in proptest::collection::vec((-3 * HOUR..40 * HOUR, 0..4_usize), 1..80),
        goes_back in any::<bool>(),
    ) {
        find_zone(zone).unwrap();
        let timing = Timing::Cron { pattern: pattern.to_owned(), zone: zone.to_owned() };
        let times = Times::of(&timing).unwrap();
        let start = 1_774_000_000_000;
        let (mut now, mut oldest, mut newest) = (start, start, start);
        let mut rows = Rows { covered: start, ..Rows::default() };
        for (by, kill_after) in moves {
            now += if goes_back { by } else { by.abs() };
            (oldest, newest) = (oldest.min(now), newest.max(now));
            let ran: BTreeSet<i64> = rows.ran.iter().copied().filter(|slot| *slot > rows.covered.min(now)).collect();
            let planned = plan(&times, policy, state(rows.covered, &ran), now);
            for step in planned.steps.iter().take(kill_after) {
                rows.take(step, now);
            }
        }
        // The last process is not killed.
        let ran: BTreeSet<i64> = rows.ran.iter().copied().filter(|slot| *slot > rows.covered.min(now)).collect();
        for step in plan(&times, policy, state(rows.covered, &ran), now).steps {
            rows.take(&step, now);
        }
        let once: BTreeSet<i64> = rows.ran.iter().copied().collect();
        prop_assert_eq!(once.len(), rows.ran.len(), "a slot ran twice");
        let mut slots = 0;
        let mut at = start;
        while let Some(next) = times.next_after(at).filter(|next| *next <= newest) {
            slots += 1;
            at = next;
        }
        // A clock that was set back before the schedule was added lets times come that were over then.
        prop_assert!(rows.ran.iter().all(|slot| *slot > oldest && *slot <= newest));
        if !goes_back {
            prop_assert_eq!(rows.ran.len() as u64 + rows.missed, slots);
        }
        if policy == MissedPolicy::All && !goes_back {
            prop_assert!(rows.missed == 0 || slots > 100);
        }
    }
}
