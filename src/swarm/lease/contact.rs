//! The contact of a gateway with the database: if it may end others, and until when it may act itself.

use crate::store::{Beat, Epoch, GATEWAY_LIFETIME_MS, Judging};

/// The time between two signs of life, in milliseconds.
pub const BEAT_MS: i64 = 2_000;

/// The pause after a sign of life that failed, in milliseconds. It is short, so that a gateway whose connection broke is back
/// before it counts as dead.
pub const RETRY_MS: i64 = 500;

/// The shortest pause before a sign of life that comes early because another gateway is due.
const SHORTEST_MS: i64 = 100;

/// The time that a gateway stops before others may end it, in milliseconds. It covers clocks that do not run at the same
/// rate, up to a tenth.
const MARGIN_MS: i64 = 1_000;

/// The contact of this gateway with the database, from which it follows if it may end others.
///
/// If the database was away, no gateway could say that it lives. So whoever was cut off itself leaves the others the time to
/// come back, instead of ending all of them because it was the first.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contact {
    /// The time since which no sign of life came late, and that of the last one. Both are of the database's clock.
    span: Option<(i64, i64)>,
}

impl Contact {
    /// Returns the right to end others, which this gateway has once the contact has lasted long enough for all that live to
    /// come back.
    #[must_use]
    pub fn judging(&self) -> Judging {
        match self.span {
            Some((since, last)) if last - since >= GATEWAY_LIFETIME_MS => Judging::Yes,
            _ => Judging::No,
        }
    }

    /// Takes note of a sign of life that was answered.
    pub fn beaten(&mut self, beat: &Beat) {
        let since = match self.span {
            // A clock that was set back begins anew.
            Some((since, _)) if !beat.was_late && since <= beat.now => since,
            _ => beat.now,
        };
        self.span = Some((since, beat.now));
    }
}

/// Returns the time until the next sign of life in milliseconds. It comes early if another gateway is due before, so that its
/// work goes on without a needless wait.
#[must_use]
pub fn next_beat(me: Epoch, beat: &Beat, judging: Judging) -> i64 {
    if judging == Judging::No {
        return BEAT_MS;
    }
    let others = beat.living.iter().filter(|other| other.epoch != me);
    let due = others.map(|other| other.beat_until - beat.now).filter(|wait| *wait > 0).min();
    due.map_or(BEAT_MS, |wait| wait.clamp(SHORTEST_MS, BEAT_MS))
}

/// The time until which this gateway may act outside of the database, where no fence stops it. Times are milliseconds of a
/// clock of this machine that is never set and goes on while the machine is suspended.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hold {
    until: Option<i64>,
}

impl Hold {
    /// Takes note of a sign of life that was answered. It counts from the moment at which it was sent: the database took
    /// the time later, so its own count ends later too.
    pub fn beaten(&mut self, sent: i64) {
        let until = sent + GATEWAY_LIFETIME_MS - MARGIN_MS;
        self.until = Some(self.until.map_or(until, |known| known.max(until)));
    }

    /// Returns `true` if this gateway may act now.
    #[must_use]
    pub fn is_valid(&self, now: i64) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Returns the time until which this gateway may act, or `None` before its first sign of life.
    #[must_use]
    pub const fn until(&self) -> Option<i64> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::LivingGateway;
    use crate::store::testing::living_gateway;

    fn beat(now: i64, was_late: bool) -> Beat {
        Beat { now, was_late, ended: Vec::new(), living: Vec::new() }
    }

    fn living(epoch: i64, beat_until: i64) -> LivingGateway {
        LivingGateway { beat_until, ..living_gateway(Epoch(epoch)) }
    }

    #[test]
    fn only_a_gateway_in_lasting_contact_judges() {
        let mut contact = Contact::default();
        assert_eq!(contact.judging(), Judging::No);
        for (now, was_late, judging) in [
            (1_000, false, Judging::No),
            (6_999, false, Judging::No),
            (7_000, false, Judging::Yes),
            (9_000, false, Judging::Yes),
            // The database was away, or its clock was set forward.
            (60_000, true, Judging::No),
            (65_999, false, Judging::No),
            (66_000, false, Judging::Yes),
            // Its clock was set back.
            (10_000, false, Judging::No),
            (16_000, false, Judging::Yes),
        ] {
            contact.beaten(&beat(now, was_late));
            assert_eq!(contact.judging(), judging, "{now}");
        }
    }

    #[test]
    fn a_gateway_looks_when_another_is_due() {
        let me = Epoch(2);
        let with = |until: &[(i64, i64)]| Beat {
            living: until.iter().map(|(epoch, until)| living(*epoch, *until)).collect(),
            ..beat(10_000, false)
        };
        for (others, wait) in [
            (&[(2, 10_500)][..], BEAT_MS),
            (&[(1, 10_500), (2, 16_000)], 500),
            (&[(1, 10_010)], SHORTEST_MS),
            (&[(1, 15_000), (3, 11_000)], 1_000),
            // It can't be ended by looking more often.
            (&[(1, 9_000)], BEAT_MS),
        ] {
            assert_eq!(next_beat(me, &with(others), Judging::Yes), wait, "{others:?}");
            assert_eq!(next_beat(me, &with(others), Judging::No), BEAT_MS);
        }
    }

    #[test]
    fn a_gateway_stops_before_others_may_end_it() {
        let mut hold = Hold::default();
        assert!(!hold.is_valid(0));
        hold.beaten(1_000);
        assert!(hold.is_valid(5_999) && !hold.is_valid(6_000));
        // An answer that comes out of order takes nothing away.
        hold.beaten(500);
        assert!(hold.is_valid(5_999));
    }
}
