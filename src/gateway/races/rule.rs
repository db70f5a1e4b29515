//! Decides when a race ends, and which copy wins. Pure.

use std::cmp::Reverse;

use crate::store::RaceState;

/// The facts about a copy while the race runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CopyFacts {
    pub(crate) number: u32,
    /// Set if a submission of it has passed its checks.
    pub(crate) is_proven: bool,
    /// Set if a submission of it is in the queue or is being checked.
    pub(crate) is_submitting: bool,
    /// Set if a turn of it runs, or something waits that begins one.
    pub(crate) is_busy: bool,
    /// Unix milliseconds at which its last turn ended.
    pub(crate) last_at: Option<i64>,
}

/// The limits of a race, and what is known of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RaceFacts {
    /// Unix milliseconds.
    pub(crate) created_at: i64,
    pub(crate) ends_at: Option<i64>,
    /// Set once the budget had no more room for a call.
    pub(crate) is_spent: bool,
    /// Milliseconds after which a copy that does nothing has given up.
    pub(crate) idle: i64,
    pub(crate) now: i64,
}

/// The way in which the work of a copy has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyEnd {
    /// Its submission has passed the checks.
    Delivered,
    /// It does nothing any more, and has delivered nothing.
    GaveUp,
    /// The budget of the race is used up.
    Spent,
    /// The time of the race is over.
    Late,
}

impl CopyEnd {
    /// Returns the end in words.
    #[must_use]
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Delivered => "it delivered",
            Self::GaveUp => "it gave up",
            Self::Spent => "the budget was used up",
            Self::Late => "the time was over",
        }
    }
}

/// Returns how the work of a copy has ended, or `None` while it works.
#[must_use]
pub(crate) fn end(race: RaceFacts, copy: CopyFacts) -> Option<CopyEnd> {
    if copy.is_proven {
        return Some(CopyEnd::Delivered);
    }
    // What was submitted in time is still checked.
    if copy.is_submitting {
        return None;
    }
    if race.is_spent {
        return Some(CopyEnd::Spent);
    }
    if race.ends_at.is_some_and(|ends_at| ends_at <= race.now) {
        return Some(CopyEnd::Late);
    }
    let since = copy.last_at.unwrap_or(race.created_at).max(race.created_at);
    (!copy.is_busy && race.now - since >= race.idle).then_some(CopyEnd::GaveUp)
}

/// Returns `true` if no agent of a copy may go on: it has delivered, or nobody may any more.
#[must_use]
pub(crate) fn is_held(race: RaceFacts, copy: CopyFacts) -> bool {
    copy.is_proven || race.is_spent || race.ends_at.is_some_and(|ends_at| ends_at <= race.now)
}

/// The work that a copy has delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Number of the submission. An earlier one has a smaller number.
    pub(crate) submission: i64,
    /// Number of reasons for which a person has to look at it. Without any, its receipt is accepted.
    pub(crate) findings: usize,
    /// Number of tests that ran.
    pub(crate) tests: u64,
    /// Number of lines that were added and removed.
    pub(crate) lines: u64,
    /// Number of tokens that the copy has used.
    pub(crate) tokens: u64,
}

impl Delivery {
    /// Returns `true` if it can win without a person.
    #[must_use]
    pub(crate) const fn is_accepted(&self) -> bool {
        self.findings == 0
    }

    /// The smallest one is the best.
    fn rank(&self) -> (usize, Reverse<u64>, u64, u64, i64) {
        (self.findings, Reverse(self.tests), self.lines, self.tokens, self.submission)
    }

    /// Returns the first point in which this one is better than another one.
    fn advantage(&self, other: &Self) -> String {
        match (self.findings, other.findings) {
            (0, 1..) => return "its receipt is accepted, and a person has to look at the other".to_owned(),
            (own, more) if own < more => return format!("fewer findings, {own} against {more}"),
            _ => {}
        }
        if self.tests != other.tests {
            return format!("more tests ran, {} against {}", self.tests, other.tests);
        }
        if self.lines != other.lines {
            return format!("a smaller change, {} lines against {}", self.lines, other.lines);
        }
        if self.tokens != other.tokens {
            return format!("fewer tokens, {} against {}", self.tokens, other.tokens);
        }
        "it was submitted first".to_owned()
    }
}

/// The result of comparing the copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) state: RaceState,
    pub(crate) winner: Option<u32>,
    pub(crate) why: String,
    /// Why each copy won or lost, in the order in which they were given.
    pub(crate) reasons: Vec<(u32, String)>,
}

/// Compares what the copies have delivered. Only an accepted receipt wins without a person. Among those, and among those that
/// a person has to look at, the order is: fewest findings, most tests run, smallest change, fewest tokens, first submitted.
#[must_use]
pub(crate) fn choose(copies: &[(u32, Option<Delivery>, CopyEnd)]) -> Choice {
    let mut order: Vec<(u32, Delivery)> =
        copies.iter().filter_map(|(number, delivery, _)| Some((*number, (*delivery)?))).collect();
    order.sort_by_key(|(_, delivery)| delivery.rank());
    let best = order.first().copied();
    let winner = best.filter(|(_, delivery)| delivery.is_accepted());
    let reason = |number: u32, delivery: Option<Delivery>, end: CopyEnd| {
        let (Some(delivery), Some((first, best))) = (delivery, best) else {
            return format!("nothing of it passed the checks: {}", end.text());
        };
        if number != first {
            return format!("copy {first} is better: {}", best.advantage(&delivery));
        }
        if winner.is_none() {
            return "it is the best one, but a person has to look at it".to_owned();
        }
        match order.get(1) {
            Some((second, other)) => format!("better than copy {second}: {}", best.advantage(other)),
            None => "the only one that passed the checks".to_owned(),
        }
    };
    let reasons: Vec<(u32, String)> =
        copies.iter().map(|(number, delivery, end)| (*number, reason(*number, *delivery, *end))).collect();
    let own = |number: u32| {
        reasons.iter().find(|(of, _)| *of == number).map(|(_, text)| text.clone()).unwrap_or_default()
    };
    let (state, winner, why) = match (winner, best) {
        (Some((number, _)), _) => (RaceState::Decided, Some(number), own(number)),
        (None, Some((number, _))) => (RaceState::Person, None, format!("copy {number}: {}", own(number))),
        (None, None) => {
            (RaceState::Over, None, "no copy delivered anything that passed the checks".to_owned())
        }
    };
    Choice { state, winner, why, reasons }
}

/// Returns the best delivery, also one that a person has to look at.
#[must_use]
pub(crate) fn best(copies: &[(u32, Option<Delivery>)]) -> Option<u32> {
    let delivered = copies.iter().filter_map(|(number, delivery)| Some((*number, (*delivery)?)));
    delivered.min_by_key(|(_, delivery)| delivery.rank()).map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn race() -> RaceFacts {
        RaceFacts { created_at: 0, ends_at: Some(900), is_spent: false, idle: 100, now: 500 }
    }

    fn good(submission: i64) -> Delivery {
        Delivery { submission, findings: 0, tests: 10, lines: 20, tokens: 1000 }
    }

    #[test]
    fn a_copy_works_until_it_delivers_or_nothing_happens_any_more() {
        let busy = CopyFacts { number: 1, is_busy: true, ..CopyFacts::default() };
        let quiet = CopyFacts { number: 1, last_at: Some(450), ..CopyFacts::default() };
        let rows = [
            (race(), busy, None, false),
            (race(), quiet, None, false),
            (race(), CopyFacts { last_at: Some(400), ..quiet }, Some(CopyEnd::GaveUp), false),
            // One that never began anything has its time from the start of the race.
            (RaceFacts { now: 50, ..race() }, CopyFacts { last_at: None, ..quiet }, None, false),
            (race(), CopyFacts { last_at: None, ..quiet }, Some(CopyEnd::GaveUp), false),
            (race(), CopyFacts { is_submitting: true, last_at: Some(1), ..quiet }, None, false),
            (race(), CopyFacts { is_proven: true, ..busy }, Some(CopyEnd::Delivered), true),
            (RaceFacts { is_spent: true, ..race() }, busy, Some(CopyEnd::Spent), true),
            (RaceFacts { now: 900, ..race() }, busy, Some(CopyEnd::Late), true),
            // It stops, and what it submitted in time is still checked.
            (RaceFacts { now: 900, ..race() }, CopyFacts { is_submitting: true, ..busy }, None, true),
            (
                RaceFacts { is_spent: true, ..race() },
                CopyFacts { is_proven: true, ..busy },
                Some(CopyEnd::Delivered),
                true,
            ),
        ];
        for (race, copy, expected, held) in rows {
            assert_eq!((end(race, copy), is_held(race, copy)), (expected, held), "{race:?} {copy:?}");
        }
    }

    #[test]
    fn the_first_difference_decides() {
        let worse = [
            ("a person has to look", Delivery { findings: 1, tests: 99, lines: 1, ..good(1) }),
            ("more tests ran, 10 against 9", Delivery { tests: 9, lines: 1, tokens: 1, ..good(1) }),
            ("a smaller change, 20 lines against 21", Delivery { lines: 21, tokens: 1, ..good(1) }),
            ("fewer tokens, 1000 against 1001", Delivery { tokens: 1001, ..good(1) }),
            ("it was submitted first", good(8)),
        ];
        for (text, other) in worse {
            for own in [1, 2] {
                let mut copies = [(1, Some(other), CopyEnd::Delivered), (2, Some(other), CopyEnd::Delivered)];
                copies[own - 1].1 = Some(good(7));
                let choice = choose(&copies);
                let number = u32::try_from(own).unwrap();
                assert_eq!((choice.state, choice.winner), (RaceState::Decided, Some(number)), "{text}");
                assert!(choice.why.contains(text) && choice.reasons[own - 1].1 == choice.why, "{choice:?}");
                assert!(
                    choice.reasons[2 - own].1.starts_with(&format!("copy {number} is better")),
                    "{choice:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_wins_without_a_person_that_a_person_has_to_look_at() {
        let weak = |findings, submission| Delivery { findings, ..good(submission) };
        let copies = [
            (1, Some(weak(3, 1)), CopyEnd::Delivered),
            (2, Some(weak(2, 2)), CopyEnd::Delivered),
            (3, None, CopyEnd::Spent),
        ];
        let choice = choose(&copies);
        assert_eq!((choice.state, choice.winner), (RaceState::Person, None));
        assert!(
            choice.why.starts_with("copy 2: ") && choice.reasons[0].1.contains("2 against 3"),
            "{choice:?}"
        );
        assert_eq!(choice.reasons[2].1, "nothing of it passed the checks: the budget was used up");
        assert_eq!(best(&copies.map(|(number, delivery, _)| (number, delivery))), Some(2));
        let with_accepted =
            [copies[0], copies[1], (3, Some(Delivery { tests: 0, ..good(9) }), CopyEnd::Delivered)];
        assert_eq!(choose(&with_accepted).winner, Some(3));
    }

    #[test]
    fn without_a_delivery_nobody_wins() {
        let choice = choose(&[(1, None, CopyEnd::GaveUp), (2, None, CopyEnd::Late)]);
        assert_eq!((choice.state, choice.winner), (RaceState::Over, None));
        assert_eq!(choice.reasons[1].1, "nothing of it passed the checks: the time was over");
        assert_eq!(best(&[(1, None)]), None);
        let alone = choose(&[(1, None, CopyEnd::GaveUp), (2, Some(good(1)), CopyEnd::Delivered)]);
        assert_eq!(alone.why, "the only one that passed the checks");
    }
}
