//! Decides which copies of a vault stay. Pure: the caller passes in the time.
//!
//! The newest one stays for ever. Of those that were replaced within the last day, the last one of each hour stays, and of those
//! that were replaced within the last week, the last one of each day. So what somebody deletes or spoils in a vault can be had
//! back for a week, also if the vault had rested for a year before.
//!
//! A copy is newer than those before it. So after one of a clock that was ahead, all others have times just after it, until the
//! clock has caught up. These times say nothing, so as long as they are ahead the copies stay, and after that the last few.

use std::collections::HashSet;

use crate::clock::MAX_DIFFERENCE;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;

/// Number of the newest copies that stay for a week, however close together they are.
const NEWEST: usize = 10;
/// The most copies that stay because they are ahead of the clock.
const MAX_AHEAD: usize = 1000;

/// Returns the copies that go. `records` are the times of all copies, newest first.
pub(super) fn surplus(records: &[i64], now: i64) -> Vec<i64> {
    let (mut hours, mut days) = (HashSet::new(), HashSet::new());
    let mut replaced_at = None;
    let mut gone = Vec::new();
    for (newer, at) in records.iter().enumerate() {
        let is_last_of_hour = hours.insert(at.div_euclid(HOUR));
        let is_last_of_day = days.insert(at.div_euclid(DAY));
        // The one before it in the list has taken its place.
        let stays = replaced_at.replace(*at).is_none_or(|replaced_at| {
            let age = now.saturating_sub(replaced_at);
            let is_ahead = *at > now.saturating_add(MAX_DIFFERENCE);
            (age < DAY && is_last_of_hour)
                || (age < WEEK && (is_last_of_day || newer < NEWEST))
                || (is_ahead && newer < MAX_AHEAD)
        });
        if !stays {
            gone.push(*at);
        }
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 20_000 * DAY;

    #[test]
    fn what_was_there_before_a_change_stays_for_a_week() {
        let year = 365 * DAY;
        let (old, new) = (START, START + year);
        assert_eq!(surplus(&[new, old], new + WEEK), [old]);
        for (records, now, why) in [
            (&[new, old][..], new, "it was replaced just now"),
            (&[new, old], new + WEEK - 1, "it was replaced within the week"),
            (&[new], new + year, "the newest one stays"),
            (&[new, old], old, "a clock that was set back deletes nothing"),
            (&[], new, "there is none"),
        ] {
            assert!(surplus(records, now).is_empty(), "{why}");
        }
    }

    #[test]
    fn a_clock_that_was_ahead_costs_no_history() {
        let ahead = START + 30 * DAY;
        let mut records = vec![ahead, START];
        for step in 1..60 {
            records.insert(0, ahead + step);
            assert!(surplus(&records, START + step * HOUR).is_empty(), "{step}");
        }
        // The clock has caught up. What was there before the first of them was replaced by it.
        let caught_up = ahead + HOUR;
        assert_eq!(surplus(&records, caught_up), records[NEWEST..60]);
        assert_eq!(surplus(&records, caught_up + WEEK), records[1..]);
        // One that is years ahead does not fill the place.
        drop(records.splice(..0, (60..2_000).rev().map(|step| ahead + step)));
        assert_eq!(surplus(&records, START + HOUR), records[MAX_AHEAD..2_000]);
    }

    #[test]
    fn a_vault_that_changes_all_the_time_has_few_copies() {
        let mut records: Vec<i64> = Vec::new();
        for step in 0..30 * 24 * 6 {
            let now = START + step * HOUR / 6;
            records.insert(0, now);
            let gone = surplus(&records, now);
            records.retain(|at| !gone.contains(at));
            assert!(records.len() <= NEWEST + 25 + 8, "{}", records.len());
            // For each moment of the last week, there is a copy that is at most a day older, and an hour for the last day.
            for (back, gap) in [(HOUR, HOUR), (20 * HOUR, HOUR), (3 * DAY, DAY), (6 * DAY, DAY)] {
                let wanted = now - back;
                let found = records.iter().find(|at| **at <= wanted);
                let is_early = wanted - gap < START;
                assert!(is_early || found.is_some_and(|at| wanted - at <= gap), "{step} {back}: {records:?}");
            }
        }
    }
}
