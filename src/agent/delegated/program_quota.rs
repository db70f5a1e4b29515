//! The quota of a turn that a program runs. Through the relay, each model call is admitted by itself, and only the words
//! for the turn's end are found here. A program that asks by itself is admitted as a whole, and its last words are read.

use std::sync::Mutex;

use jiff::Zoned;

use crate::agent::engine::Engine;
use crate::agent::quota::{self, CallPermit, QuotaParked, QuotaRefusal};
use crate::agent::turn::TurnError;
use crate::config::{Agent, Config};
use crate::id::{AgentId, ModelRef};
use crate::provider::Credential;
use crate::provider::quota::{QuotaSignal, text};
use crate::runtime::{RuntimeError, program};
use crate::sync::lock;

/// The quotas of a turn's agent.
pub(in crate::agent) struct ProgramQuota {
    agent: AgentId,
    models: Vec<(ModelRef, Credential)>,
    /// The permit of a program that asks by itself. `None` if it asks through the relay.
    permit: Option<Mutex<CallPermit>>,
}

impl ProgramQuota {
    /// Admits a turn.
    ///
    /// # Errors
    ///
    /// Returns [`QuotaParked`] if no model of the agent can be asked now.
    pub(in crate::agent) fn admit(
        engine: &Engine,
        agent: &Agent,
        config: &Config,
    ) -> Result<Self, QuotaParked> {
        let catalog = &engine.parts.catalog;
        let models = quota::models_of(agent, config, catalog);
        let asks_itself =
            program::named(&agent.runtime).is_none() || quota::login_of(agent, config, catalog).is_some();
        let mut admitted = Self { agent: agent.id.clone(), models, permit: None };
        if !asks_itself {
            return admitted.parked(engine).map_or(Ok(admitted), Err);
        }
        if let Some((model, credential)) = admitted.models.first() {
            let permit = engine.parts.oversight.admit_call(credential, model)?;
            admitted.permit = Some(Mutex::new(permit));
        }
        Ok(admitted)
    }

    /// Records that the program's model answered.
    pub(super) fn answered(&self) {
        if let Some(permit) = &self.permit {
            lock(permit).answered();
        }
    }

    /// Returns the error with which a turn waits for its quota, or the error itself if it speaks of something else.
    pub(super) async fn explain(&self, engine: &Engine, error: TurnError) -> TurnError {
        let TurnError::Runtime(failed) = &error else { return error };
        let Some(permit) = &self.permit else {
            return self.parked(engine).map_or(error, TurnError::Parked);
        };
        let Some((model, credential)) = self.models.first() else { return error };
        let words = failed.to_string();
        let Some(signal) = signal(failed, &words) else { return error };
        let probe = lock(permit).number();
        let refused = QuotaRefusal {
            agent: self.agent.clone(),
            credential: credential.clone(),
            model: model.clone(),
            signal,
            reason: words,
            probe,
        };
        engine.parts.oversight.quota_refused(refused).await;
        engine.parts.oversight.parked(credential, model).map_or(error, TurnError::Parked)
    }

    /// Returns the earliest try of the agent's models, if none of them can be asked now.
    fn parked(&self, engine: &Engine) -> Option<QuotaParked> {
        let parked: Option<Vec<QuotaParked>> = self
            .models
            .iter()
            .map(|(model, credential)| engine.parts.oversight.parked(credential, model))
            .collect();
        parked?.into_iter().min_by_key(|parked| parked.until)
    }
}

/// Returns what a failure says about a quota.
fn signal(failed: &RuntimeError, words: &str) -> Option<QuotaSignal> {
    match failed {
        RuntimeError::NotInstalled { .. } | RuntimeError::NoModel { .. } | RuntimeError::NotBegun { .. } => {
            None
        }
        _ => text::signal(words, &Zoned::now()),
    }
}
