//! Quotas that are used up: which calls may be made, what a turn says that may not go on, and the credentials of an
//! agent. [`parks`] decides, and [`reconcile`] if several
//! gateways know a park; the observer of turns keeps the parks and tells everybody.

pub(crate) mod parks;
pub(crate) mod reconcile;

use std::fmt;
use std::time::Duration;

use crate::clock;
use crate::config::{Agent, Config};
use crate::id::{AgentId, ModelRef};
use crate::provider::quota::QuotaSignal;
use crate::provider::{Catalog, Credential, catalog};
use crate::runtime::program::{self, model_access};
use crate::runtime::{NATIVE, model_problem};

/// A call that is not made because the quota of its credential is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaParked {
    /// The credential's name for people.
    pub name: String,
    /// Unix milliseconds at which one call is tried again.
    pub until: i64,
}

impl QuotaParked {
    /// The first words of the error. A turn's record is recognised by them.
    const BEGINNING: &'static str = "the quota of ";

    /// Returns `true` if a turn that was recorded with this error was parked.
    #[must_use]
    pub(crate) fn is_recorded(error: &str) -> bool {
        error.starts_with(Self::BEGINNING)
    }

    /// Returns the time from `now` until the next try.
    #[must_use]
    pub(crate) fn wait(&self, now: i64) -> Duration {
        Duration::from_millis(u64::try_from(self.until.saturating_sub(now)).unwrap_or(0))
    }
}

impl fmt::Display for QuotaParked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} is used up until {}", Self::BEGINNING, self.name, clock::local(self.until))
    }
}

impl std::error::Error for QuotaParked {}

/// A refusal that says that a quota is used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaRefusal {
    pub agent: AgentId,
    pub credential: Credential,
    pub model: ModelRef,
    pub signal: QuotaSignal,
    /// The provider's words.
    pub reason: String,
    /// Number of the probe whose call was refused, if it was one.
    pub probe: Option<u64>,
}

/// The permission for one model call. While a quota may be used up, only one call has it: the probe.
pub struct CallPermit {
    probe: Option<ProbeTicket>,
}

struct ProbeTicket {
    number: u64,
    on_end: Box<dyn FnOnce(ProbeEnd) + Send + Sync>,
}

/// The end of a probe, unless the quota was refused again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeEnd {
    /// The model answered.
    Answered,
    /// The call failed for another reason, or was stopped.
    GaveUp,
}

impl CallPermit {
    /// Returns a permit for a call like any other.
    #[must_use]
    pub const fn free() -> Self {
        Self { probe: None }
    }

    /// Returns the permit of a probe. `on_end` is called once.
    #[must_use]
    pub(crate) fn probe(number: u64, on_end: impl FnOnce(ProbeEnd) + Send + Sync + 'static) -> Self {
        Self { probe: Some(ProbeTicket { number, on_end: Box::new(on_end) }) }
    }

    /// Returns the probe's number, if this is one.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        self.probe.as_ref().map(|probe| probe.number)
    }

    /// Records that the model answers.
    pub fn answered(&mut self) {
        if let Some(probe) = self.probe.take() {
            (probe.on_end)(ProbeEnd::Answered);
        }
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        if let Some(probe) = self.probe.take() {
            (probe.on_end)(ProbeEnd::GaveUp);
        }
    }
}

/// Returns the models that can answer an agent's turns, in the order in which they are asked, with their credentials.
/// Models without a credential, such as scripts, are left out.
#[must_use]
pub(crate) fn models_of(agent: &Agent, config: &Config, catalog: &Catalog) -> Vec<(ModelRef, Credential)> {
    let Some(own) = &agent.model else { return Vec::new() };
    if let Some(login) = login_of(agent, config, catalog) {
        return vec![(own.clone(), login)];
    }
    let api = |model: &ModelRef| catalog::wire(model, config).ok().map(|wire| wire.api);
    let first = api(own);
    // A program's requests are written in one wire format, and OpenClaw tries no fallbacks of flock's.
    let can_answer = |model: &&ModelRef| match agent.runtime.as_str() {
        NATIVE => true,
        name if program::named(name).is_some() => api(model) == first,
        _ => *model == own,
    };
    agent
        .models()
        .filter(can_answer)
        .filter_map(|model| Some((model.clone(), catalog.credential(model, config)?)))
        .collect()
}

/// Returns `true` if a model of the agent needs no credential that could be parked.
#[must_use]
pub(crate) fn has_free_model(agent: &Agent) -> bool {
    agent.models().any(ModelRef::is_script)
}

/// Returns the login of the program that runs the agent's turns, if the program asks with it.
#[must_use]
pub(crate) fn login_of(agent: &Agent, config: &Config, catalog: &Catalog) -> Option<Credential> {
    let model = agent.model.as_ref()?;
    let is_known = || {
        let is_described = catalog.describe(model, config).is_ok();
        model_access::is_known(model, config, is_described)
    };
    (model_problem::has_own_login(agent) && !is_known()).then(|| catalog.login(&agent.runtime))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn a_probe_ends_once() {
        let ends: Arc<Mutex<Vec<ProbeEnd>>> = Arc::default();
        let permit = || {
            let ends = Arc::clone(&ends);
            CallPermit::probe(7, move |end| ends.lock().unwrap().push(end))
        };
        let mut answered = permit();
        assert_eq!(answered.number(), Some(7));
        answered.answered();
        answered.answered();
        drop(answered);
        drop(permit());
        let mut free = CallPermit::free();
        free.answered();
        assert_eq!(*ends.lock().unwrap(), [ProbeEnd::Answered, ProbeEnd::GaveUp]);
    }

    #[test]
    fn a_recorded_error_is_recognised() {
        let parked = QuotaParked { name: "lab".to_owned(), until: 1_772_280_000_000 };
        assert!(QuotaParked::is_recorded(&parked.to_string()), "{parked}");
        assert!(!QuotaParked::is_recorded("the turn was cancelled"));
        assert_eq!(parked.wait(1_772_279_999_000), Duration::from_secs(1));
        assert_eq!(parked.wait(1_772_280_001_000), Duration::ZERO);
    }
}
