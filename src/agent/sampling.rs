//! Asks an agent's model for somebody else: for a program whose tool the agent calls (sampling). The call belongs to the
//! agent's turn: its models, credential, budget, freeze and quota apply. It gets nothing of the agent's conversation and
//! no tools.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::engine::Engine;
use super::estimate::{ImageEstimate, cost, fixed_cost};
use super::failover::{FailoverDecision, ModelQueue, of_provider};
use super::oversight::ModelCall;
use super::quota::{CallPermit, QuotaRefusal, login_of};
use super::reservation::CallReservation;
use super::transcript::hygiene::{Target, sanitise};
use super::transcript::{Entry, EntryMetadata};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::error::chain;
use crate::id::McpServerName;
use crate::provider::message::joined_text;
use crate::provider::{Message, ProviderError, Request, ResolvedModel, StopReason, Usage, quota};
use crate::sync::lock;
use crate::tool::CallContext;

/// A question to an agent's model.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SampleQuestion {
    pub system: String,
    pub messages: Vec<Message>,
    /// The most tokens of the answer.
    pub max_tokens: u32,
}

/// The call of a tool that a question belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SampledCall<'a> {
    pub context: &'a CallContext,
    /// The MCP server that asks.
    pub server: &'a McpServerName,
}

/// The answer of an agent's model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SampleAnswer {
    pub text: String,
    /// The provider's name of the model that answered.
    pub model: String,
    /// `true` if the answer reached its longest length.
    pub is_cut: bool,
    pub usage: Usage,
}

/// The reason why a model did not answer. The texts go to the program that asked, so they name neither amounts nor
/// providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SampleError {
    /// The agent has no model that flock can ask.
    #[error(
        "the agent has no model that flock can ask: its turns are run by a program with a login of its own"
    )]
    NoModel,
    /// The agent's budget does not have enough left.
    #[error("the agent's budget has no room for this")]
    Paused,
    /// The quota of the agent's credential is used up.
    #[error("the quota of the agent's model is used up for now")]
    Parked,
    #[error("the messages are too long for the agent's model")]
    TooLong,
    #[error("the agent's model did not answer")]
    Failed,
    #[error("the agent's model gave no text")]
    Silent,
}

/// The reason why one model did not answer.
enum ModelTrouble {
    /// No other model is asked.
    Final(SampleError),
    /// Another model may be asked.
    Provider(ProviderError),
    /// The model may not be asked now.
    Other(SampleError),
}

impl Engine {
    /// Asks an agent's models until one answers. Dropping the future ends the call, which is then charged as far as it
    /// came.
    pub(crate) async fn sample(
        &self,
        asked: SampledCall<'_>,
        question: &SampleQuestion,
    ) -> Result<SampleAnswer, SampleError> {
        let oversight = &self.parts.oversight;
        oversight.thawed(&asked.context.agent).await;
        // Read after the thaw: a person may have changed the models meanwhile.
        let config = self.parts.config.current();
        let agent = config.agent(&asked.context.agent).ok_or(SampleError::NoModel)?;
        if agent.model.is_none() || login_of(agent, &config, &self.parts.catalog).is_some() {
            return Err(SampleError::NoModel);
        }
        let mut line = ModelQueue::new(self.cooldowns.order(agent.models(), unix_ms()));
        let mut last = SampleError::NoModel;
        while let Some(model) = line.pop() {
            let resolved = match self.parts.catalog.resolve(&model, &config) {
                Ok(resolved) => resolved,
                Err(error) => {
                    tracing::warn!(agent = %agent.id, %model, error = chain(&error), "no model for sampling");
                    continue;
                }
            };
            if !line.admit(resolved.context_window) {
                continue;
            }
            oversight.thawed(&agent.id).await;
            let sampling = Sampling { engine: self, asked, config: &config, is_last: line.is_empty() };
            let (trouble, error) = match sampling.ask(&resolved, question).await {
                Ok(answer) => {
                    self.cooldowns.answered(&model);
                    return Ok(answer);
                }
                Err(ModelTrouble::Final(error)) => return Err(error),
                Err(ModelTrouble::Other(error)) => {
                    last = error;
                    continue;
                }
                Err(ModelTrouble::Provider(error)) => {
                    tracing::warn!(agent = %agent.id, %model, error = chain(&error), "sampling failed");
                    (of_provider(&error), SampleError::Failed)
                }
            };
            if let Some(trouble) = trouble {
                self.cooldowns.failed(&model, trouble, unix_ms());
            }
            last = error;
            if line.failed(trouble, resolved.context_window, false) == FailoverDecision::GiveUp {
                break;
            }
        }
        Err(last)
    }
}

/// One attempt with one model.
struct Sampling<'a> {
    engine: &'a Engine,
    asked: SampledCall<'a>,
    config: &'a Config,
    /// `true` if no other model is left behind this one.
    is_last: bool,
}

impl Sampling<'_> {
    async fn ask(
        &self,
        resolved: &ResolvedModel,
        question: &SampleQuestion,
    ) -> Result<SampleAnswer, ModelTrouble> {
        let oversight = &self.engine.parts.oversight;
        let mut request = Request {
            model: resolved.route.model().to_owned(),
            system: question.system.clone(),
            max_tokens: question.max_tokens.min(resolved.max_tokens).max(1),
            ..Request::default()
        };
        let images = ImageEstimate::of(resolved);
        let said: u64 = question.messages.iter().map(|message| cost(&message.content, images)).sum();
        let input = fixed_cost(&request) + said;
        // The estimate is rough, so a twentieth stays free, as in turns.
        let window = resolved.context_window - resolved.context_window / 20;
        if input + u64::from(request.max_tokens) > window {
            return Err(ModelTrouble::Other(SampleError::TooLong));
        }
        request.messages = self.prepared(resolved, question).await?;
        let model = &resolved.route.model;
        let permit = match &resolved.credential {
            Some(credential) => oversight.admit_call(credential, model),
            None => Ok(CallPermit::free()),
        };
        let permit = permit.map_err(|_| ModelTrouble::Other(SampleError::Parked))?;
        let probe = permit.number();
        let permit = Mutex::new(permit);
        let context = self.asked.context;
        let call = ModelCall {
            agent: context.agent.clone(),
            session: context.session.clone(),
            turn: context.turn,
            model: model.clone(),
            input_estimate: input,
            max_output: u64::from(request.max_tokens),
            step: 0,
            server: Some(self.asked.server.clone()),
        };
        let reserved = CallReservation::reserve(oversight, &call).await;
        let reserved = reserved.map_err(|_| ModelTrouble::Final(SampleError::Paused))?;
        // The others wait for what a probe tells, so it does not wait itself.
        let patience = if probe.is_some() { Duration::ZERO } else { self.config.quota_patience };
        let policy = self.engine.parts.limits.retry.with_patience(patience);
        let policy = if self.is_last { policy } else { policy.with_fallbacks() };
        let mut heard = |_| lock(&permit).answered();
        let provider = &*resolved.provider;
        match reserved.call(&policy, provider, &request, &mut heard, &mut |_| {}).await {
            Ok(response) => {
                lock(&permit).answered();
                let text = joined_text(&response.content);
                if text.trim().is_empty() {
                    return Err(ModelTrouble::Final(SampleError::Silent));
                }
                Ok(SampleAnswer {
                    text,
                    model: resolved.route.model().to_owned(),
                    is_cut: response.stop == StopReason::Length,
                    usage: response.usage,
                })
            }
            Err(error) => Err(self.note_quota(resolved, error, probe).await),
        }
    }

    /// Reports an error that says that a quota is used up.
    async fn note_quota(
        &self,
        resolved: &ResolvedModel,
        error: ProviderError,
        probe: Option<u64>,
    ) -> ModelTrouble {
        let signal = match probe {
            Some(_) => quota::signal_of_probe(&error),
            None => quota::signal(&error, self.config.quota_patience),
        };
        let (Some(signal), Some(credential)) = (signal, &resolved.credential) else {
            return ModelTrouble::Provider(error);
        };
        let refused = QuotaRefusal {
            agent: self.asked.context.agent.clone(),
            credential: credential.clone(),
            model: resolved.route.model.clone(),
            signal,
            reason: error.to_string(),
            probe,
        };
        self.engine.parts.oversight.quota_refused(refused).await;
        ModelTrouble::Other(SampleError::Parked)
    }

    /// Returns the messages in the form that the model's API accepts.
    async fn prepared(
        &self,
        resolved: &ResolvedModel,
        question: &SampleQuestion,
    ) -> Result<Vec<Arc<Message>>, ModelTrouble> {
        let target = Target {
            reasoning: resolved.reasoning,
            images: resolved.images,
            longest_side: self.config.image_side,
            pictures: self.engine.pictures.clone(),
            tools: Some(Vec::new()),
            ..Target::new(resolved.route.clone())
        };
        let about = Arc::new(EntryMetadata::default());
        let entry =
            |message: &Message| Entry { message: Arc::new(message.clone()), about: Arc::clone(&about) };
        let entries: Vec<Entry> = question.messages.iter().map(entry).collect();
        // A picture may have to be scaled, which must hold up no other task.
        let ready = tokio::task::spawn_blocking(move || sanitise(&entries, &target)).await;
        match ready {
            Ok(Ok(ready)) => Ok(ready.messages),
            _ => Err(ModelTrouble::Other(SampleError::Failed)),
        }
    }
}
