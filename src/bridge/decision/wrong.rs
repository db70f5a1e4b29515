//! The limit on wrong answers: nobody guesses a code by trying, and nobody has flock answer without end.

use std::collections::HashMap;

/// Number of wrong answers after which an account is ignored.
const MOST: u32 = 5;
/// Milliseconds in which they are counted, and for which the account is ignored.
const PERIOD: i64 = 10 * 60_000;
/// Number of accounts that are remembered.
const MAX_ACCOUNTS: usize = 1000;

/// The wrong answers of the last minutes, by account.
#[derive(Debug, Default)]
pub(in crate::bridge) struct WrongAnswers(HashMap<String, Counted>);

#[derive(Debug)]
struct Counted {
    /// Unix milliseconds of the first one.
    since: i64,
    number: u32,
    /// Unix milliseconds of the last one.
    last: i64,
}

impl Counted {
    const fn is_over(&self, now: i64) -> bool {
        let from = if self.number >= MOST { self.last } else { self.since };
        // A clock that was set back must not make it last longer.
        now < self.since || now - from >= PERIOD
    }
}

impl WrongAnswers {
    /// Returns `true` if nothing that this account says decides at the moment.
    pub(super) fn is_ignored(&self, account: &str, now: i64) -> bool {
        self.0.get(account).is_some_and(|counted| counted.number >= MOST && !counted.is_over(now))
    }

    /// Counts a wrong answer. Returns `true` if the account is ignored from now on.
    pub(super) fn count(&mut self, account: &str, now: i64) -> bool {
        if !self.0.contains_key(account) && self.0.len() >= MAX_ACCOUNTS {
            self.0.retain(|_, counted| !counted.is_over(now));
        }
        if !self.0.contains_key(account) && self.0.len() >= MAX_ACCOUNTS {
            let oldest = self.0.iter().min_by_key(|(_, counted)| counted.last).map(|(name, _)| name.clone());
            oldest.map(|oldest| self.0.remove(&oldest));
        }
        let counted =
            self.0.entry(account.to_owned()).or_insert(Counted { since: now, number: 0, last: now });
        if counted.is_over(now) {
            *counted = Counted { since: now, number: 0, last: now };
        }
        counted.number += 1;
        counted.last = now;
        counted.number == MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fifth_wrong_answer_silences_an_account_for_ten_minutes() {
        let mut wrong = WrongAnswers::default();
        for number in 1..=4 {
            assert!(!wrong.count("ann", number), "{number}");
            assert!(!wrong.is_ignored("ann", number));
        }
        assert!(wrong.count("ann", 5));
        assert!(wrong.is_ignored("ann", 5) && wrong.is_ignored("ann", PERIOD + 4));
        assert!(!wrong.is_ignored("ben", 5));
        assert!(!wrong.is_ignored("ann", PERIOD + 5));
        assert!(!wrong.count("ann", PERIOD + 5), "it is counted from the beginning");
    }

    #[test]
    fn old_wrong_answers_do_not_count() {
        let mut wrong = WrongAnswers::default();
        for number in 0..20 {
            assert!(!wrong.count("ann", number * PERIOD / 4 + number), "{number}");
        }
    }

    #[test]
    fn many_accounts_take_a_limited_space_and_a_new_one_is_counted() {
        let mut wrong = WrongAnswers::default();
        for number in 0..5000 {
            wrong.count(&number.to_string(), number);
        }
        assert_eq!(wrong.0.len(), MAX_ACCOUNTS);
        for number in 1..=5 {
            assert_eq!(wrong.count("ann", 5000), number == 5);
        }
        assert!(wrong.is_ignored("ann", 5000));
    }

    #[test]
    fn a_clock_that_was_set_back_ends_it() {
        let mut wrong = WrongAnswers::default();
        for _ in 0..5 {
            wrong.count("ann", 1000);
        }
        assert!(!wrong.is_ignored("ann", 999));
    }
}
