//! Decides about fallback models: the meaning of a failure, the model that is asked next, and the time for which a
//! failed model is avoided. Pure; [`super::model_chain`] makes the calls.

use std::collections::{HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use super::overflow::is_too_long;
use super::turn::TurnError;
use crate::id::ModelRef;
use crate::provider::ProviderError;
use crate::sync::lock;

/// First time for which a failed model is avoided. It doubles with each further failure.
const FIRST_COOLDOWN: Duration = Duration::from_secs(30);
/// The same for a model that refused the key. It is longer, because a person has to fix that.
const FIRST_KEY_COOLDOWN: Duration = Duration::from_secs(300);
/// Upper limit of that time.
const MAX_COOLDOWN: Duration = Duration::from_secs(3_600);
/// Number of models that are remembered. A configuration names fewer.
const MAX_REMEMBERED: usize = 256;

/// A kind of failure after which another model may still answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// The model is not configured, or its provider does not have it.
    Missing,
    /// The provider refused the key.
    Refused,
    /// The provider limits requests or has no credit left. It may have named a wait.
    Limited(Option<Duration>),
    /// The provider failed, timed out, or sent something unreadable.
    Down,
    /// The conversation exceeds the model's context.
    TooLong,
}

/// Classifies an error, or returns `None` if another model would fail too or must not be asked.
pub(super) fn trouble(error: &TurnError) -> Option<ModelFailure> {
    match error {
        TurnError::Provider(error) => of_provider(error),
        TurnError::Parked(_) => Some(ModelFailure::Limited(None)),
        TurnError::TooLong { .. } | TurnError::Overflow { .. } => Some(ModelFailure::TooLong),
        _ => None,
    }
}

/// Classifies an error of a provider, as `trouble` does.
#[must_use]
pub fn of_provider(error: &ProviderError) -> Option<ModelFailure> {
    Some(match error {
        ProviderError::NotConfigured { .. } => ModelFailure::Missing,
        ProviderError::Unauthorised { .. } => ModelFailure::Refused,
        ProviderError::Limited { retry_after, .. } => ModelFailure::Limited(*retry_after),
        ProviderError::Failed { .. } | ProviderError::TimedOut { .. } | ProviderError::Garbled { .. } => {
            ModelFailure::Down
        }
        error if is_too_long(error) => ModelFailure::TooLong,
        // 402 means that credit is used up, and 429 that too many requests were made. Another provider may still
        // answer.
        ProviderError::Rejected { status: 402 | 429, .. } => ModelFailure::Limited(None),
        ProviderError::Rejected { status: 404, .. } => ModelFailure::Missing,
        // The request itself is invalid, and would be for other models too.
        ProviderError::Rejected { .. } => return None,
    })
}

/// The action after a model failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailoverDecision {
    /// Ask the next model.
    Next,
    /// End the turn with the error.
    GiveUp,
}

/// Decides if another model is asked. That never happens after a part of the answer was shown, because two answers
/// would read as one.
const fn decide(trouble: Option<ModelFailure>, shown: bool, others: usize) -> FailoverDecision {
    match trouble {
        Some(_) if !shown && others > 0 => FailoverDecision::Next,
        _ => FailoverDecision::GiveUp,
    }
}

/// The models that one call may still be made to, in the order in which to ask them.
#[derive(Debug, Default)]
pub struct ModelQueue {
    models: VecDeque<ModelRef>,
    /// The context window of the last model, if the conversation was too long for it.
    too_small: Option<u64>,
}

impl ModelQueue {
    /// Creates a queue of models in this order.
    #[must_use]
    pub const fn new(models: VecDeque<ModelRef>) -> Self {
        Self { models, too_small: None }
    }

    /// Removes and returns the next model.
    pub fn pop(&mut self) -> Option<ModelRef> {
        self.models.pop_front()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.models.is_empty()
    }

    /// Returns `true` if a model with this context window may be asked. A conversation that was too long for one model
    /// can only fit into a larger context.
    #[must_use]
    pub fn admit(&mut self, window: u64) -> bool {
        let is_larger = self.too_small.is_none_or(|small| window > small);
        if is_larger && self.too_small.is_some() {
            self.too_small = Some(window);
        }
        is_larger
    }

    /// Decides what follows after a model with this context window failed. `shown` is `true` if a part of its answer
    /// was shown.
    pub fn failed(&mut self, trouble: Option<ModelFailure>, window: u64, shown: bool) -> FailoverDecision {
        self.too_small = (trouble == Some(ModelFailure::TooLong)).then_some(window);
        decide(trouble, shown, self.models.len())
    }
}

/// Returns the time for which a model is avoided after `failures` failures in a row, or `None` if it is not avoided.
pub(super) fn rest(trouble: ModelFailure, failures: u32) -> Option<Duration> {
    let first = match trouble {
        // A missing model is found again at once from the configuration, and a long conversation is no fault of the
        // model.
        ModelFailure::Missing | ModelFailure::TooLong => return None,
        ModelFailure::Refused => FIRST_KEY_COOLDOWN,
        ModelFailure::Limited(Some(asked)) => asked.max(FIRST_COOLDOWN),
        ModelFailure::Limited(None) | ModelFailure::Down => FIRST_COOLDOWN,
    };
    Some(first.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(MAX_COOLDOWN))
}

/// The models that failed recently, each with the time until which it is avoided.
#[derive(Debug, Default)]
pub struct Cooldowns(Mutex<HashMap<ModelRef, CooldownEntry>>);

#[derive(Clone, Copy, Debug)]
struct CooldownEntry {
    failures: u32,
    /// Unix milliseconds.
    until: i64,
}

impl Cooldowns {
    /// Records that a model failed at `now` (Unix milliseconds).
    pub fn failed(&self, model: &ModelRef, trouble: ModelFailure, now: i64) {
        let mut models = lock(&self.0);
        let failures = models.get(model).map_or(1, |cooling| cooling.failures.saturating_add(1));
        let Some(rest) = rest(trouble, failures) else { return };
        // Only expired entries are dropped. If all are active, the new failure is not remembered.
        if models.len() >= MAX_REMEMBERED {
            models.retain(|_, cooling| cooling.until > now);
        }
        let until = now.saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
        if models.len() < MAX_REMEMBERED || models.contains_key(model) {
            models.insert(model.clone(), CooldownEntry { failures, until });
        }
    }

    /// Forgets the failures of a model that answered.
    pub fn answered(&self, model: &ModelRef) {
        lock(&self.0).remove(model);
    }

    /// Returns the models in the order in which to ask them: recently failed ones come last, sorted by the end of their
    /// cooldown.
    pub fn order<'m>(&self, models: impl Iterator<Item = &'m ModelRef>, now: i64) -> VecDeque<ModelRef> {
        let known = lock(&self.0);
        let mut order: Vec<(i64, &ModelRef)> = models
            .map(|model| {
                let until = known.get(model).map_or(0, |cooling| cooling.until);
                // An expired cooldown counts like none, so that the configured order holds again.
                (if until > now { until } else { 0 }, model)
            })
            .collect();
        // The sort is stable, so the models that are not cooling down keep the order of the configuration.
        order.sort_by_key(|(until, _)| *until);
        order.into_iter().map(|(_, model)| model.clone()).collect()
    }
}

#[cfg(test)]
#[path = "failover_tests.rs"]
mod tests;
