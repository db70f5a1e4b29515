//! The least distance between the runs of all schedules of one agent. Pure functions of their times.

use super::times::Times;

/// The number of runs of a schedule whose distances are looked at.
const LOOKED_AT: usize = 400;
/// The number of runs of a schedule that are compared with those of another one. A closer one later is left out at its time.
const COMPARED: usize = 100;

/// The runs of a schedule after a time, in Unix milliseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs<'a> {
    pub(super) times: &'a Times,
    pub(super) from: i64,
}

/// Returns `true` if two runs of a schedule are closer to each other than `least`, in milliseconds.
#[must_use]
pub(super) fn is_closer(runs: Runs<'_>, least: i64) -> bool {
    let mut last = None;
    let mut at = runs.from;
    for _ in 0..LOOKED_AT {
        let Some(next) = runs.times.next_after(at) else { return false };
        if last.is_some_and(|last| next - last < least) {
            return true;
        }
        (last, at) = (Some(next), next);
    }
    false
}

/// Returns `true` if a run of one schedule is closer than `least`, in milliseconds, to a run of another one.
#[must_use]
pub(super) fn are_closer(one: Runs<'_>, other: Runs<'_>, least: i64) -> bool {
    // The runs of the rarer one reach further, so each is compared with the other.
    is_near(one, other, least) || is_near(other, one, least)
}

fn is_near(these: Runs<'_>, those: Runs<'_>, least: i64) -> bool {
    let mut at = these.from;
    for _ in 0..COMPARED {
        let Some(next) = these.times.next_after(at) else { return false };
        let near = those.times.next_after(next.saturating_sub(least).max(those.from));
        if near.is_some_and(|near| near < next.saturating_add(least)) {
            return true;
        }
        at = next;
    }
    false
}

/// Returns the time from which the next run is far enough from the last one, if that has not come.
#[must_use]
pub(super) fn wait_until(last: Option<i64>, now: i64, least: i64) -> Option<i64> {
    // A clock that was set back must not keep an agent from its schedules until it has caught up.
    let free_at = last.filter(|last| *last <= now)?.saturating_add(least);
    (free_at > now).then_some(free_at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Timing;

    const MINUTE: i64 = 60_000;
    const HOUR: i64 = 60 * MINUTE;
    const NOW: i64 = 1_774_000_000_000;

    fn cron(pattern: &str) -> Times {
        Times::of(&Timing::Cron { pattern: pattern.to_owned(), zone: "UTC".to_owned() }).unwrap()
    }

    fn after_now(times: &Times) -> Runs<'_> {
        Runs { times, from: NOW }
    }

    #[test]
    fn the_distance_between_runs_is_that_of_the_closest_two() {
        let closer = |pattern: &str| is_closer(after_now(&cron(pattern)), HOUR);
        assert!(closer("*/59 * * * *") && closer("0,30 9 * * 1") && closer("0,59 9 1 1 *"));
        assert!(!closer("0 * * * *") && !closer("30 9 * * 1-5"));
        assert!(is_closer(Runs { times: &Times::Every { from: 0, period: HOUR - 1 }, from: 5 }, HOUR));
        assert!(!is_closer(Runs { times: &Times::At(9 * HOUR), from: 5 }, HOUR));
    }

    #[test]
    fn two_schedules_are_as_far_apart_as_their_closest_runs() {
        let closer = |one: &Times, other: &Times| {
            let (there, back) = (
                are_closer(after_now(one), after_now(other), HOUR),
                are_closer(after_now(other), after_now(one), HOUR),
            );
            assert_eq!(there, back);
            there
        };
        let staggered = |minutes: i64| Times::Every { from: NOW + minutes * MINUTE, period: 2 * HOUR };
        assert!(closer(&staggered(0), &staggered(6)) && closer(&staggered(0), &staggered(0)));
        assert!(closer(&staggered(0), &staggered(61)), "the way back is shorter");
        assert!(!closer(&staggered(0), &staggered(60)));
        assert!(
            closer(&cron("0 9 * * *"), &cron("30 8 * * 0"))
                && !closer(&cron("0 9 * * *"), &cron("0 8 * * *"))
        );
        // The runs of the first one that are compared end years before the second one's next.
        assert!(closer(&cron("0 */2 * * *"), &cron("30 12 29 2 *")));
        let at = |minutes: i64| Times::At(NOW + minutes * MINUTE);
        assert!(closer(&at(61), &at(120)) && !closer(&at(60), &at(120)));
        assert!(closer(&at(150), &staggered(0)) && !closer(&at(60), &Times::At(NOW - HOUR)));
    }

    #[test]
    fn a_run_waits_for_its_distance_from_the_last_one() {
        assert_eq!(wait_until(None, NOW, HOUR), None);
        assert_eq!(wait_until(Some(NOW - HOUR), NOW, HOUR), None);
        assert_eq!(wait_until(Some(NOW - MINUTE), NOW, HOUR), Some(NOW - MINUTE + HOUR));
        assert_eq!(wait_until(Some(NOW + MINUTE), NOW, HOUR), None, "the clock was set back");
    }
}
