//! Asks the agent's own model for a summary of what a compaction takes out. The summary stands beside the marker and
//! never replaces it: a model may be wrong, silent or out of budget, and then the marker must be enough.

use std::sync::Arc;
use std::time::Duration;

use super::compaction::summary::SYSTEM_PROMPT;
use super::context::{CompactionDraft, ConversationContext};
use super::deadline::Deadline;
use super::engine::Engine;
use super::estimate::{fixed_cost, text_cost};
use super::oversight::ModelCall;
use super::prompt::without_marks;
use super::reservation::CallReservation;
use super::turn::TurnError;
use crate::clean;
use crate::error::chain;
use crate::id::{SessionKey, TurnId};
use crate::provider::message::joined_text;
use crate::provider::{Message, Request, ResolvedModel, Role, Usage};
use crate::tool::safe_text;

/// The most tokens of a summary, and the most bytes of it that are kept.
const MAX_SUMMARY_TOKENS: u32 = 1_024;
const MAX_SUMMARY_BYTES: usize = 8 * 1024;

/// The most time that a summary may take. The marker is enough without it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A request for a summary.
pub(super) struct SummaryRequest<'a> {
    /// The engine, which reserves the budget.
    pub(super) engine: &'a Engine,
    pub(super) deadline: &'a Deadline,
    /// The model to ask.
    pub(super) resolved: &'a ResolvedModel,
    pub(super) session: &'a SessionKey,
    pub(super) turn: TurnId,
    /// Number of the model call within the turn.
    pub(super) step: u32,
}

impl SummaryRequest<'_> {
    /// Adds a model's summary to a draft, and returns the usage. Without an answer, the marker alone stands for it.
    ///
    /// # Errors
    ///
    /// Returns the error of a stop of the turn.
    pub(super) async fn add_to(
        &self,
        context: &ConversationContext,
        draft: &mut CompactionDraft,
    ) -> Result<Usage, TurnError> {
        let text = context.outgoing(draft);
        // Biased: a stop wins over a summary that arrives at the same moment.
        let answered = tokio::select! {
            biased;
            error = self.deadline.wait() => return Err(error),
            answered = self.ask(&text) => answered,
        };
        Ok(answered.map_or_else(Usage::default, |(summary, usage)| {
            context.summarise(draft, summary);
            usage
        }))
    }

    /// Asks for a summary of this conversation. Returns `None` if there is none, for whatever reason.
    async fn ask(&self, conversation: &str) -> Option<(String, Usage)> {
        let Self { engine, resolved, session, .. } = self;
        // At four bytes per token this is half of the context window: the estimate may be far off, and the answer needs
        // room.
        let bytes = usize::try_from(resolved.context_window.saturating_mul(2)).unwrap_or(usize::MAX);
        let text = safe_text::middle_cut(conversation, bytes);
        let input = text_cost(&text);
        let request = Request {
            model: resolved.route.model().to_owned(),
            system: SYSTEM_PROMPT.to_owned(),
            messages: vec![Arc::new(Message::text(Role::User, text))],
            max_tokens: MAX_SUMMARY_TOKENS.min(resolved.max_tokens),
            ..Request::default()
        };
        let call = ModelCall {
            agent: session.agent().clone(),
            session: (*session).clone(),
            turn: self.turn,
            model: resolved.route.model.clone(),
            input_estimate: fixed_cost(&request) + input,
            max_output: u64::from(request.max_tokens),
            step: self.step,
            server: None,
        };
        // A summary is not worth being the probe of a quota that is used up, or being refused again.
        if let Some(credential) = &resolved.credential
            && engine.parts.oversight.parked(credential, &resolved.route.model).is_some()
        {
            return None;
        }
        let work = async {
            // A missing budget is no error here. The turn reserves for its own calls and stops there if it has to.
            let reserved = CallReservation::reserve(&engine.parts.oversight, &call).await.ok()?;
            let policy = &engine.parts.limits.retry;
            Some(reserved.call(policy, &*resolved.provider, &request, &mut |_| {}, &mut |_| {}).await)
        };
        let Ok(answered) = tokio::time::timeout(TIMEOUT, work).await else {
            tracing::warn!(%session, "no summary was made: its model took too long");
            return None;
        };
        match answered? {
            Ok(response) => {
                let text = joined_text(&response.content);
                // The model may repeat the words of others, so its summary is cleaned like theirs.
                let text = without_marks(&clean::block(safe_text::start(text.trim(), MAX_SUMMARY_BYTES)));
                (!text.is_empty()).then_some((text, response.usage))
            }
            Err(error) => {
                tracing::warn!(error = chain(&error), %session, "no summary was made");
                None
            }
        }
    }
}
