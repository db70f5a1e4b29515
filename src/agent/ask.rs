//! One model call of a turn: what it may cost is set aside, the model is asked until it answers or gives up,
//! and what it took is settled, whatever happened.

use super::oversight::{ModelCall, Oversight, Reservation};
use super::running::Running;
use super::steps::Course;
use super::turn::{TurnError, TurnEvent};
use super::window::{self, Window};
use crate::provider::retry::{self, Retrying};
use crate::provider::{Delta, ProviderError, Request, Resolved, Response, Usage};

/// What was set aside for a model call; settled when this is dropped.
pub(super) struct Reserved<'o> {
    oversight: &'o dyn Oversight,
    reservation: Option<Reservation>,
    used: Option<Usage>,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        if let Some(reservation) = self.reservation.take() {
            self.oversight.settle(reservation, self.used);
        }
    }
}

impl Course<'_> {
    /// Sets aside what the next model call may cost. Where the budget makes the turn wait, that does not
    /// count against its time.
    pub(super) async fn reserve(
        &self,
        asked: &Request,
        window: &Window,
        running: &Running,
    ) -> Result<Reserved<'_>, TurnError> {
        let call = ModelCall {
            agent: self.context.agent.clone(),
            session: self.context.session.clone(),
            turn: self.context.turn,
            model: running.route.model.clone(),
            input_estimate: window::fixed_cost(asked) + window.cost(),
            max_output: u64::from(asked.max_tokens),
            step: running.steps + 1,
        };
        let oversight = &*self.engine.parts.oversight;
        let reservation = self.halt.uncounted(oversight.reserve(&call)).await??;
        Ok(Reserved { oversight, reservation: Some(reservation), used: None })
    }

    /// Asks, and asks again with less where the provider counts more tokens than were estimated: else a
    /// session that has once grown too long could never go on.
    pub(super) async fn ask_what_fits(
        &self,
        resolved: &Resolved,
        asked: &mut Request,
        window: &mut Window,
        mut reserved: Reserved<'_>,
    ) -> Result<Response, TurnError> {
        loop {
            asked.messages = window.messages().to_vec();
            let answered = self.ask(resolved, asked).await;
            match answered {
                Err(TurnError::Provider(error)) if is_too_long(&error) && window.narrow() => {
                    let text = "the conversation was too long for the model; its oldest part is left out";
                    self.events.tell(TurnEvent::Notice(text.to_owned()));
                }
                answered => {
                    reserved.used = answered.as_ref().ok().map(|response| response.usage);
                    return answered;
                }
            }
        }
    }

    async fn ask(&self, resolved: &Resolved, request: &Request) -> Result<Response, TurnError> {
        let mut sink = |delta| {
            self.events.tell(match delta {
                Delta::Text(text) => TurnEvent::TextDelta(text),
                Delta::Thinking(text) => TurnEvent::ThinkingDelta(text),
            });
        };
        let mut on_retry = |retrying: Retrying<'_>| {
            self.events.tell(TurnEvent::Retrying {
                attempt: retrying.attempt + 1,
                after: retrying.wait,
                reason: retrying.reason.to_string(),
            });
        };
        let policy = &self.engine.parts.limits.retry;
        tokio::select! {
            biased;
            error = self.halt.wait() => Err(error),
            response = retry::call(policy, &*resolved.provider, request, &mut sink, &mut on_retry) => Ok(response?),
        }
    }
}

/// Whether a provider says that it was sent too much. There is no code for it that all of them use.
fn is_too_long(error: &ProviderError) -> bool {
    const SIGNS: [&str; 7] = [
        "context length",
        "context_length",
        "context window",
        "context size",
        "prompt is too long",
        "input is too long",
        "too many tokens",
    ];
    let ProviderError::Rejected { message, .. } = error else { return false };
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}
