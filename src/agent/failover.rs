//! Which model answers where one does not: what a failure means, who is asked next, and how long a model that failed
//! is passed over. Pure; [`super::line`] asks.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::overflow::is_too_long;
use super::turn::TurnError;
use crate::id::ModelRef;
use crate::provider::ProviderError;

/// A model that failed is passed over for this long at first; it doubles with each failure after.
const FIRST_REST: Duration = Duration::from_secs(30);
/// As [`FIRST_REST`], for one that refused the key: that needs a person.
const FIRST_REST_WITHOUT_KEY: Duration = Duration::from_secs(300);
/// The longest of these times.
const LONGEST_REST: Duration = Duration::from_secs(3_600);
/// Models that are remembered; a configuration names fewer.
const MOST_REMEMBERED: usize = 256;

/// Why a model did not answer, as far as another one may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is not configured, or its provider does not have it.
    Missing,
    /// Its provider refused the key.
    Refused,
    /// Its provider limits requests, or has no money left for them. It may have said for how long.
    Limited(Option<Duration>),
    /// Its provider failed, was silent or can't be understood.
    Down,
    /// The conversation does not fit into its context.
    TooLong,
}

/// What an error means for other models; `None` where they would only fail too, or where nobody is to ask on.
pub(super) fn trouble(error: &TurnError) -> Option<Trouble> {
    match error {
        TurnError::Provider(error) => of_provider(error),
        TurnError::TooLong { .. } | TurnError::Overflow { .. } => Some(Trouble::TooLong),
        _ => None,
    }
}

/// As `trouble`, for what a provider said.
#[must_use]
pub fn of_provider(error: &ProviderError) -> Option<Trouble> {
    Some(match error {
        ProviderError::NotConfigured { .. } => Trouble::Missing,
        ProviderError::Unauthorised { .. } => Trouble::Refused,
        ProviderError::Limited { retry_after, .. } => Trouble::Limited(*retry_after),
        ProviderError::Failed { .. } | ProviderError::TimedOut { .. } | ProviderError::Garbled { .. } => {
            Trouble::Down
        }
        error if is_too_long(error) => Trouble::TooLong,
        ProviderError::Rejected { status: 402 | 429, .. } => Trouble::Limited(None),
        ProviderError::Rejected { status: 404, .. } => Trouble::Missing,
        // The request itself is wrong, and would be for others too.
        ProviderError::Rejected { .. } => return None,
    })
}

/// What to do after a model did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// The next model is asked.
    Next,
    /// The turn ends with the error.
    GiveUp,
}

/// Whether another model is asked. Never after something of the answer was shown: two answers would be read as one.
pub(super) const fn decide(trouble: Option<Trouble>, shown: bool, others: usize) -> Decision {
    match trouble {
        Some(_) if !shown && others > 0 => Decision::Next,
        _ => Decision::GiveUp,
    }
}

/// How long a model is passed over after this many failures in a row.
pub(super) fn rest(trouble: Trouble, failures: u32) -> Option<Duration> {
    let first = match trouble {
        // The configuration says that again each time, and a long conversation is not the model's fault.
        Trouble::Missing | Trouble::TooLong => return None,
        Trouble::Refused => FIRST_REST_WITHOUT_KEY,
        Trouble::Limited(Some(asked)) => asked.max(FIRST_REST),
        Trouble::Limited(None) | Trouble::Down => FIRST_REST,
    };
    Some(first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LONGEST_REST))
}

/// When models may be asked first again, as far as that is not now.
#[derive(Debug, Default)]
pub struct Cooldowns(Mutex<HashMap<ModelRef, Cooling>>);

#[derive(Clone, Copy, Debug)]
struct Cooling {
    failures: u32,
    /// Unix milliseconds.
    until: i64,
}

impl Cooldowns {
    /// A model failed at `now` (Unix milliseconds).
    pub fn failed(&self, model: &ModelRef, trouble: Trouble, now: i64) {
        let mut models = self.models();
        let failures = models.get(model).map_or(1, |cooling| cooling.failures.saturating_add(1));
        let Some(rest) = rest(trouble, failures) else { return };
        if models.len() >= MOST_REMEMBERED {
            models.retain(|_, cooling| cooling.until > now);
        }
        let until = now.saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
        if models.len() < MOST_REMEMBERED || models.contains_key(model) {
            models.insert(model.clone(), Cooling { failures, until });
        }
    }

    /// A model answered.
    pub fn answered(&self, model: &ModelRef) {
        self.models().remove(model);
    }

    /// The models in the order in which they are asked: those that failed a short while ago come last, the one
    /// that may be asked soonest first.
    pub fn order<'m>(&self, models: impl Iterator<Item = &'m ModelRef>, now: i64) -> VecDeque<ModelRef> {
        let known = self.models();
        let mut order: Vec<(i64, &ModelRef)> = models
            .map(|model| {
                let until = known.get(model).map_or(0, |cooling| cooling.until);
                (if until > now { until } else { 0 }, model)
            })
            .collect();
        order.sort_by_key(|(until, _)| *until);
        order.into_iter().map(|(_, model)| model.clone()).collect()
    }

    fn models(&self) -> MutexGuard<'_, HashMap<ModelRef, Cooling>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "failover_tests.rs"]
mod tests;
