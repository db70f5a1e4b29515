//! The span and the metrics of a model call. It follows the call's reservation, which every model call has: those of
//! flock's own loop, of compactions, and those that the relay passes on.

use std::borrow::Cow;
use std::time::Duration;

use super::content_json;
use super::metering::CallUsage;
use super::oversight::ModelCall;
use crate::id::{ModelRef, SessionKey};
use crate::provider::{ProviderError, Request, Response, Usage};
use crate::telemetry::{self, Current, Instrument, OpenSpan, SpanKind, Value, gen_ai};

/// A model call that is observed.
pub(super) struct CallTrace {
    current: Current,
    session: SessionKey,
    model: ModelRef,
    max_output: u64,
    /// `None` until the provider is asked.
    span: Option<OpenSpan>,
    attempts: u32,
    first_piece: Option<Duration>,
    /// The error of the last attempt, if it has ended with one.
    error: Option<Cow<'static, str>>,
    /// Set for the turn of a program whose own calls are not seen: then only its tokens are counted.
    is_turn: bool,
}

impl CallTrace {
    /// Observes a call, if telemetry is on.
    pub(super) fn new(call: &ModelCall) -> Option<Self> {
        let current = telemetry::current()?;
        current.telemetry().note_model(call.turn, &call.model);
        Some(Self {
            current,
            session: call.session.clone(),
            model: call.model.clone(),
            max_output: call.max_output,
            span: None,
            attempts: 0,
            first_piece: None,
            error: None,
            is_turn: false,
        })
    }

    /// Turns this into the count of a whole turn's tokens.
    pub(super) const fn count_turn(&mut self) {
        self.is_turn = true;
    }

    /// Returns what the request to the provider belongs to.
    pub(super) fn current(&self) -> Option<Current> {
        self.span.as_ref().map(OpenSpan::current)
    }

    pub(super) fn start_attempt(&mut self) {
        self.attempts += 1;
        self.error = None;
        if self.span.is_none() && !self.is_turn {
            let mut span = self.current.begin(SpanKind::Client, || gen_ai::chat_name(&self.model));
            gen_ai::describe_chat(&mut span, &self.session, &self.model);
            span.set(gen_ai::MAX_TOKENS, self.max_output);
            self.span = Some(span);
        }
    }

    pub(super) fn start_answer(&mut self) {
        if self.first_piece.is_none() {
            self.first_piece = self.span.as_ref().map(OpenSpan::elapsed);
        }
    }

    pub(super) fn fail_attempt(&mut self, error: Option<&ProviderError>) {
        let code = error.map_or(Cow::Borrowed("cancelled"), error_code);
        self.error = Some(code.clone());
        if let Some(span) = &mut self.span {
            span.fail(code, || error.map(ToString::to_string).unwrap_or_default());
        }
    }

    /// Forgets the call, because it was not made.
    pub(super) fn discard(&mut self) {
        if let Some(span) = self.span.take() {
            span.discard();
        }
    }

    /// Notes what is asked, if contents are wanted.
    pub(super) fn ask(&mut self, request: &Request) {
        let Some(span) = &mut self.span else { return };
        span.content(gen_ai::SYSTEM_INSTRUCTIONS, || content_json::system(&request.system));
        span.content(gen_ai::INPUT_MESSAGES, || {
            content_json::messages(request.messages.iter().map(|message| &**message))
        });
    }

    /// Notes what was answered.
    pub(super) fn answer(&mut self, response: &Response) {
        let Some(span) = &mut self.span else { return };
        let reason = content_json::finish_reason(response.stop);
        span.set(gen_ai::FINISH_REASONS, Value::Texts(vec![Cow::Borrowed(reason)]));
        span.content(gen_ai::OUTPUT_MESSAGES, || content_json::answer(&response.content, response.stop));
    }

    /// Ends the call with the usage that it is charged with.
    pub(super) fn settle(mut self, taken: CallUsage) {
        let operation = if self.is_turn { gen_ai::INVOKE_AGENT } else { gen_ai::CHAT };
        let labels = gen_ai::model_labels(operation, &self.model);
        let telemetry = self.current.telemetry();
        if let Some(usage) = taken.told() {
            for (kind, tokens) in [("input", input_tokens(usage)), ("output", usage.output)] {
                let mut labels = labels.clone();
                labels.push((gen_ai::TOKEN_TYPE, Cow::Borrowed(kind)));
                telemetry.observe(Instrument::TokenUsage, labels, count(tokens));
            }
        }
        // Without a span, the provider was not asked.
        let Some(mut span) = self.span.take() else { return };
        if let Some(usage) = taken.told() {
            let cached = (usage.cache_read, usage.cache_write);
            gen_ai::set_usage(&mut span, input_tokens(usage), usage.output, cached);
        }
        if let Some(first) = self.first_piece {
            span.set(gen_ai::FIRST_CHUNK, first);
            telemetry.observe(Instrument::TimeToFirstChunk, labels.clone(), first.as_secs_f64());
        }
        if self.attempts > 1 {
            span.set("flock.model.attempts", self.attempts);
        }
        if self.error.is_none() {
            // An earlier attempt may have failed.
            span.succeed();
        }
        let labels = gen_ai::with_error(labels, self.error);
        telemetry.observe(Instrument::OperationDuration, labels, span.elapsed().as_secs_f64());
        span.end();
    }
}

/// Returns all tokens of the request, also those of a cache, as the conventions count them.
pub(super) const fn input_tokens(usage: Usage) -> u64 {
    usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write)
}

#[expect(clippy::cast_precision_loss, reason = "no call has so many tokens")]
const fn count(tokens: u64) -> f64 {
    tokens as f64
}

/// Returns the word for an error of a provider: its status, or one of a small set.
fn error_code(error: &ProviderError) -> Cow<'static, str> {
    match error {
        ProviderError::NotConfigured { .. } => Cow::Borrowed("not_configured"),
        ProviderError::Unauthorised { status, .. }
        | ProviderError::Rejected { status, .. }
        | ProviderError::Limited { status, .. } => Cow::Owned(status.to_string()),
        ProviderError::Failed { unsent: true, .. } => Cow::Borrowed("unreachable"),
        ProviderError::Failed { .. } => Cow::Borrowed("provider_failed"),
        ProviderError::TimedOut { .. } => Cow::Borrowed("timeout"),
        ProviderError::Garbled { .. } => Cow::Borrowed("unreadable_answer"),
    }
}
