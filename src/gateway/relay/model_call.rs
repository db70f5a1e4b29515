//! Finds a model that answers. The agent's own model comes first and is asked again after a temporary failure. Then
//! come the fallback models that use the same wire format.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;

use super::request_body::RequestBody;
use super::{Relay, Ticket, api_format};
use crate::agent::quota::{CallPermit, QuotaParked, QuotaRefusal};
use crate::agent::{CallReservation, CallUsage, FailoverDecision, ModelCall, ModelQueue, trouble_of};
use crate::clock::unix_ms;
use crate::config::Config;
use crate::id::ModelRef;
use crate::provider::http::RequestError;
use crate::provider::passthrough::{ForwardKind, ForwardedAnswer};
use crate::provider::retry::Policy;
use crate::provider::{ProviderError, RelayFormat, ResolvedModel, Usage, quota};
use crate::runtime::program::gate::CallRefusal;
use crate::telemetry;

/// A question of a program.
pub(super) struct ModelRequest {
    pub(super) ticket: Arc<Ticket>,
    pub(super) format: &'static RelayFormat,
    pub(super) want: ForwardKind,
    pub(super) query: Vec<(&'static str, &'static str)>,
    pub(super) headers: HeaderMap,
    pub(super) written: RequestBody,
}

/// The reason why a question is not answered.
pub(super) enum RelayError {
    /// flock does not allow the call, because of the budget or the agent's settings.
    Forbidden(CallRefusal),
    /// No model answered. This is the error of the last one that was asked.
    Refused(Box<RequestError>),
}

impl Relay {
    /// Returns the beginning of an answer, and the reservation for its cost. A count has no reservation.
    pub(super) async fn ask(
        &self,
        question: &ModelRequest,
    ) -> Result<(ForwardedAnswer, Option<CallReservation>), RelayError> {
        let ticket = &question.ticket;
        // A frozen agent waits here. The configuration is read after the thaw, so a change in the meantime counts.
        self.oversight.thawed(&ticket.agent).await;
        let config = self.live.current();
        let mut line = self.line(question, &config)?;
        let mut last: Option<RequestError> = None;
        let mut used_up = false;
        while let Some(model) = line.pop() {
            let resolved = match self.catalog.resolve(&model, &config) {
                Ok(resolved) if api_format::is_same(resolved.route.api, question.format) => resolved,
                // A fallback model with another wire format can't read this request.
                Ok(_) => continue,
                Err(error) => {
                    last.get_or_insert_with(|| error.into());
                    continue;
                }
            };
            if !line.admit(resolved.context_window) {
                continue;
            }
            if let Some(refused) = &last {
                let (agent, turn, error) = (&ticket.agent, ticket.turn, &refused.error);
                tracing::warn!(%agent, %turn, %error, "{} is asked instead", resolved.label);
            }
            // A call that is not made must neither use up the budget nor be the probe of a quota, so both come after the
            // wait for a thaw.
            self.oversight.thawed(&ticket.agent).await;
            // A server that can't count may still answer well, and one that counts may not. So a count says nothing
            // about the model's state, nor about a quota.
            let judges_model = question.want != ForwardKind::Count;
            let permit = match &resolved.credential {
                Some(credential) if judges_model => self.oversight.admit_call(credential, &model),
                _ => Ok(CallPermit::free()),
            };
            let mut permit = match permit {
                Ok(permit) => permit,
                Err(parked) => {
                    last = Some(parked_error(&parked).into());
                    used_up = true;
                    continue;
                }
            };
            let reservation = match question.want {
                ForwardKind::Count => None,
                ForwardKind::Answer | ForwardKind::Stream => Some(self.reserve(question, &resolved).await?),
            };
            let asked = AskedModel {
                resolved: &resolved,
                is_last: line.is_empty(),
                is_probe: permit.number().is_some(),
            };
            let refused = match self.call_model(question, &asked, reservation.as_ref()).await {
                Ok(answer) => {
                    permit.answered();
                    if judges_model {
                        self.cooldowns.answered(&model);
                    }
                    return Ok((answer, reservation));
                }
                Err(refused) => refused,
            };
            let trouble = trouble_of(&refused.error);
            let is_quota =
                judges_model && self.note_quota(ticket, &resolved, &refused.error, permit.number()).await;
            used_up = is_quota;
            // Held until the refusal is known, so that no second probe is made meanwhile.
            drop(permit);
            // The quota's own time says how long the model is avoided.
            if let Some(trouble) = trouble.filter(|_| judges_model && !is_quota) {
                self.cooldowns.failed(&model, trouble, unix_ms());
            }
            last = Some(refused);
            // Nothing was passed on to the program yet, so it was shown no part of an answer.
            if line.failed(trouble, resolved.context_window, false) == FailoverDecision::GiveUp {
                break;
            }
        }
        ticket.calls.note(|count| count.used_up = used_up);
        Err(RelayError::Refused(Box::new(last.unwrap_or_else(|| not_configured(&ticket.model).into()))))
    }

    /// Returns the models that may be asked, from the current configuration. A person may have removed a model since
    /// the turn began, and then nothing is sent to it.
    fn line(&self, question: &ModelRequest, config: &Config) -> Result<ModelQueue, RelayError> {
        let ticket = &question.ticket;
        let agent = config.agent(&ticket.agent);
        let forbidden = |why| RelayError::Forbidden(CallRefusal::Settings(why));
        let agent = agent.ok_or_else(|| forbidden(format!("there is no agent {} any more", ticket.agent)))?;
        if !agent.models().any(|model| *model == ticket.model) {
            return Err(forbidden(format!("{} is not a model of {} any more", ticket.model, agent.id)));
        }
        Ok(ModelQueue::new(self.cooldowns.order(agent.models(), unix_ms())))
    }

    async fn reserve(
        &self,
        question: &ModelRequest,
        resolved: &ResolvedModel,
    ) -> Result<CallReservation, RelayError> {
        let ticket = &question.ticket;
        let call = ModelCall {
            agent: ticket.agent.clone(),
            session: ticket.session.clone(),
            turn: ticket.turn,
            model: resolved.route.model.clone(),
            input_estimate: question.written.input(resolved.route.model(), resolved.context_window),
            max_output: question.written.output(u64::from(resolved.max_tokens)),
            step: ticket.step(),
            server: None,
        };
        let size = (call.input_estimate, call.max_output);
        let reservation = CallReservation::reserve(&self.oversight, &call)
            .await
            .map_err(|why| RelayError::Forbidden(CallRefusal::Paused { why, call: size }))?;
        reservation.estimate(|seen| seen.input = question.written.text());
        let counted = Arc::clone(ticket);
        let reservation = reservation.on_settled(move |taken| {
            counted.calls.note(|count| count.usage += turn_usage(taken, &call));
        });
        // A call that was allowed shows that an earlier refusal no longer holds, unless the call is smaller.
        ticket.calls.note(|count| {
            count.forbidden.take_if(|forbidden| forbidden.is_lifted_by(size));
        });
        Ok(reservation)
    }

    /// Reports a refusal that says that a quota is used up. Returns `true` if it is one.
    async fn note_quota(
        &self,
        ticket: &Ticket,
        resolved: &ResolvedModel,
        error: &ProviderError,
        probe: Option<u64>,
    ) -> bool {
        let signal = match probe {
            Some(_) => quota::signal_of_probe(error),
            None => quota::signal(error, self.live.current().quota_patience),
        };
        let (Some(signal), Some(credential)) = (signal, &resolved.credential) else { return false };
        let refused = QuotaRefusal {
            agent: ticket.agent.clone(),
            credential: credential.clone(),
            model: resolved.route.model.clone(),
            signal,
            reason: error.to_string(),
            probe,
        };
        self.oversight.quota_refused(refused).await;
        true
    }

    /// Asks one model until it answers or no retry is left. Nothing of an answer has been passed on before this
    /// returns.
    async fn call_model(
        &self,
        question: &ModelRequest,
        asked: &AskedModel<'_>,
        reservation: Option<&CallReservation>,
    ) -> Result<ForwardedAnswer, RequestError> {
        let AskedModel { resolved, is_last, is_probe } = *asked;
        let ModelRequest { ticket, want, query, headers, written, .. } = question;
        let name = resolved.route.model();
        let body = written.to(name, u64::from(resolved.max_tokens));
        // While another model is left, a silent one is not waited for again: the other may answer in that time.
        let policy = match (want, is_last) {
            (ForwardKind::Count, _) => Policy { attempts: 1, silent_attempts: 1, ..self.retry },
            (_, true) => self.retry,
            (_, false) => self.retry.with_fallbacks(),
        };
        // The others wait for what a probe tells, so it does not wait itself.
        let patience = if is_probe { Duration::ZERO } else { self.live.current().quota_patience };
        let policy = policy.with_patience(patience);
        let mut attempt = 1;
        loop {
            let passage = resolved.provider.passage(name, *want);
            let passage = passage.ok_or_else(|| not_configured(&resolved.route.model))?;
            if let Some(reservation) = reservation {
                reservation.start_attempt();
            }
            let sent = passage.send(query, headers.clone(), body.clone());
            let current = reservation.and_then(CallReservation::current);
            let refused = match telemetry::scoped(current, sent).await {
                Ok(answer) => {
                    if let Some(reservation) = reservation {
                        reservation.start_answer();
                    }
                    return Ok(answer);
                }
                Err(refused) => refused,
            };
            if let Some(reservation) = reservation {
                reservation.fail_attempt(Some(&refused.error));
            }
            let Some(wait) = policy.next(attempt, &refused.error, rand::random()) else {
                return Err(refused);
            };
            let (agent, turn, error, ms) = (&ticket.agent, ticket.turn, &refused.error, wait.as_millis());
            tracing::info!(%agent, %turn, %error, ms, "a model is asked again");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }
}

/// A model that is asked.
struct AskedModel<'a> {
    resolved: &'a ResolvedModel,
    /// `true` if no fallback is left behind it.
    is_last: bool,
    /// `true` if the call shows whether a quota can be used again.
    is_probe: bool,
}

/// Returns the error of a model that is not asked because its quota is used up.
fn parked_error(parked: &QuotaParked) -> ProviderError {
    ProviderError::Limited {
        provider: parked.name.clone(),
        status: 429,
        message: parked.to_string(),
        retry_after: Some(parked.wait(unix_ms())),
    }
}

/// Returns the usage of a call for the turn's count. If nobody knows it, it is estimated in the same way as for the
/// budget.
fn turn_usage(taken: CallUsage, call: &ModelCall) -> Usage {
    match taken {
        CallUsage::Nothing => Usage::default(),
        CallUsage::Sent => Usage { input: call.input_estimate, ..Usage::default() },
        CallUsage::Begun => Usage { input: call.input_estimate, output: call.max_output, ..Usage::default() },
        CallUsage::Told(usage) => usage,
    }
}

fn not_configured(model: &ModelRef) -> ProviderError {
    ProviderError::NotConfigured {
        provider: model.provider().to_owned(),
        model: model.to_string(),
        reason: "requests to it can't be passed on".to_owned(),
        hint: "flock doctor".to_owned(),
    }
}
