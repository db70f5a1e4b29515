//! The OpenClaw runtime. A turn is one streamed request to OpenClaw's chat completions. OpenClaw's agent has its own
//! conversation, prompt and tools. It reaches flock's tools through the plugin, which also reports what OpenClaw's own
//! tools do.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Runtime, RuntimeError, RuntimeEvent, RuntimeEventSink, RuntimeReply, RuntimeRequest};
use crate::config::{Config, secret};
use crate::error::chain;
use crate::home::Home;
use crate::install::versions;
use crate::openclaw::{RUNTIME, place};
use crate::provider::http::{Endpoint, HttpClients};
use crate::provider::key::ApiKey;
use crate::provider::{Block, BoxFuture, Delta, Message, ProviderError, Role, StopReason, Usage, openai};
use crate::supervise::unit::OPENCLAW;
use crate::supervise::{self, pid_file};

/// Name for people.
const TITLE: &str = "OpenClaw";

/// The text that OpenClaw's endpoint returns if its agent has said nothing, and the text that its agents write in order
/// to say nothing.
const SILENT_ANSWERS: [&str; 2] = ["No response from OpenClaw.", "NO_REPLY"];

/// Beginning of the text with which OpenClaw 2026.2 reports a failed turn. The stream looks like a success otherwise.
const FAILURE: &str = "Error: ";

/// The present address of OpenClaw.
#[derive(Clone, Debug)]
pub struct OpenClawAddress {
    /// The port of its gateway on 127.0.0.1.
    pub port: u16,
    /// The token of its gateway.
    pub token: String,
}

/// Finds OpenClaw at the beginning of each turn, because port and token may change while flock runs.
pub type AddressLookup = Arc<dyn Fn() -> Result<OpenClawAddress, RuntimeError> + Send + Sync>;

/// Finds the OpenClaw of this home.
///
/// # Errors
///
/// Returns [`RuntimeError::NotInstalled`] with the missing part, and [`RuntimeError::NotRunning`] if OpenClaw does not
/// run, or if its port is held by a process that the supervisor did not start.
pub fn find(home: &Home, config: &Config) -> Result<OpenClawAddress, RuntimeError> {
    let missing = |reason: String, hint: &str| RuntimeError::NotInstalled {
        program: TITLE.to_owned(),
        reason,
        hint: hint.to_owned(),
    };
    let Some(port) = config.openclaw.port else {
        return Err(missing("gateway.port is not set".to_owned(), "flock init --gateway openclaw"));
    };
    if versions::current(home).is_none() {
        return Err(missing("there is no version in this home".to_owned(), "flock init --gateway openclaw"));
    }
    let silent = |reason: String, hint: &str| RuntimeError::NotRunning {
        program: TITLE.to_owned(),
        reason,
        hint: hint.to_owned(),
    };
    let Some(record) = pid_file::read(&home.pid_file(OPENCLAW)).filter(|record| record.process.is_alive())
    else {
        return Err(silent("it does not run".to_owned(), "flock start"));
    };
    // Another program that listens there must get neither the token nor the conversation.
    if let Err(holder) = supervise::port::check_held_by(port, record.process) {
        let reason = match holder.as_str() {
            "nobody" => format!("nothing listens on its port {port} yet"),
            _ => format!("its port {port} is held by {holder}"),
        };
        return Err(silent(reason, "flock status"));
    }
    match secret::get(home, place::TOKEN) {
        Ok(Some(token)) => Ok(OpenClawAddress { port, token }),
        Ok(None) => Err(missing("it was never started, so it has no token".to_owned(), "flock restart")),
        Err(error) => Err(missing(format!("its token: {}", chain(&error)), "flock doctor")),
    }
}

/// The runtime that runs turns on OpenClaw.
pub struct OpenClaw {
    find: AddressLookup,
    http: HttpClients,
}

impl OpenClaw {
    /// Makes a runtime for the OpenClaw that `find` returns.
    #[must_use]
    pub fn new(find: AddressLookup) -> Self {
        Self { find, http: HttpClients::default() }
    }

    async fn turn(
        &self,
        order: &RuntimeRequest,
        tell: RuntimeEventSink<'_>,
    ) -> Result<RuntimeReply, RuntimeError> {
        let place = (self.find)()?;
        let endpoint = endpoint(&place, order)?;
        let mut said = AnswerFilter::default();
        let answered = {
            let mut sink = |delta| match delta {
                Delta::Text(text) => said.text(text, tell),
                Delta::Thinking(text) => tell(RuntimeEvent::Thinking(text)),
                // OpenClaw reports its own tool calls through the plugin, not in this stream.
                Delta::ToolCall => {}
            };
            openai::complete(&endpoint, &self.http, body(order).to_string().into_bytes(), &mut sink).await
        };
        let response = answered.map_err(|error| runtime_error(error, place.port))?;
        said.end(tell)?;
        // The request offers no tools, so no client can be asked to run one.
        let stop = match response.stop {
            StopReason::ToolUse => StopReason::End,
            stop => stop,
        };
        // OpenClaw 2026.2 does not count tokens.
        Ok(RuntimeReply { stop, usage: (response.usage != Usage::default()).then_some(response.usage) })
    }
}

impl Runtime for OpenClaw {
    fn name(&self) -> &'static str {
        RUNTIME
    }

    fn run<'a>(
        &'a self,
        order: &'a RuntimeRequest,
        tell: RuntimeEventSink<'a>,
    ) -> BoxFuture<'a, Result<RuntimeReply, RuntimeError>> {
        Box::pin(self.turn(order, tell))
    }
}

/// The text of the answer so far. It is held back as long as it may turn out not to be an answer.
#[derive(Default)]
struct AnswerFilter {
    held: String,
    pieces: usize,
    passed: bool,
}

impl AnswerFilter {
    fn text(&mut self, text: String, tell: RuntimeEventSink<'_>) {
        // The text was recognised as an answer before.
        if self.passed {
            return tell(RuntimeEvent::Text(text));
        }
        self.held.push_str(&text);
        self.pieces += 1;
        // A failure comes as one piece, while a model's text comes in many.
        let is_failure = self.pieces == 1 && self.held.starts_with(FAILURE);
        if !is_failure && !SILENT_ANSWERS.iter().any(|whole| whole.starts_with(self.held.as_str())) {
            self.passed = true;
            tell(RuntimeEvent::Text(std::mem::take(&mut self.held)));
        }
    }

    /// Ends the text: nothing more comes.
    fn end(self, tell: RuntimeEventSink<'_>) -> Result<(), RuntimeError> {
        if self.passed || SILENT_ANSWERS.contains(&self.held.trim()) {
            return Ok(());
        }
        match self.held.strip_prefix(FAILURE) {
            // A text in one piece that begins with the name of an exception is not a model's sentence.
            Some(message) if looks_like_exception(message) => {
                let (program, message) = (TITLE.to_owned(), shorten(message));
                Err(RuntimeError::Failed { program, message, hint: logs_hint() })
            }
            _ => {
                if !self.held.is_empty() {
                    // The held text is an answer that only began like one of the special texts.
                    tell(RuntimeEvent::Text(self.held));
                }
                Ok(())
            }
        }
    }
}

/// Returns `true` if a text begins like a JavaScript exception: `TypeError: …`, `FailoverError: …`, `Error: …`.
fn looks_like_exception(text: &str) -> bool {
    text.split_once(": ")
        .is_some_and(|(name, _)| name.ends_with("Error") && name.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn endpoint(place: &OpenClawAddress, order: &RuntimeRequest) -> Result<Endpoint, RuntimeError> {
    let url = format!("http://127.0.0.1:{}/v1/chat/completions", place.port);
    let url = url.parse().map_err(|error| RuntimeError::NotRunning {
        program: TITLE.to_owned(),
        reason: chain(&error),
        hint: "flock config get gateway.port".to_owned(),
    })?;
    let mut endpoint = Endpoint::new(TITLE, url, ApiKey::new(&place.token));
    endpoint.header("authorization", &format!("Bearer {}", place.token));
    endpoint.header("x-openclaw-agent-id", order.agent.as_str());
    // The conversation's name is the key, so a new name begins a new OpenClaw session.
    endpoint.header("x-openclaw-session-key", &order.conversation);
    Ok(endpoint)
}

/// Returns the request of a turn as a JSON document, without its token. OpenClaw makes the request to the model from
/// it.
#[must_use]
pub fn preview(order: &RuntimeRequest) -> Value {
    json!({
        "program": TITLE,
        "headers": {"x-openclaw-agent-id": order.agent, "x-openclaw-session-key": order.conversation},
        "body": body(order),
    })
}

fn body(order: &RuntimeRequest) -> Value {
    // The text about the agent comes first, as a system message.
    let system = (!order.system.is_empty()).then(|| json!({"role": "system", "content": order.system}));
    let messages = order.messages.iter().filter_map(message);
    json!({
        "model": format!("openclaw/{}", order.agent),
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": system.into_iter().chain(messages).collect::<Vec<Value>>(),
    })
}

/// Converts a message to OpenClaw's form. Returns `None` if nothing in it can be shown to the model.
fn message(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => return None,
    };
    let parts: Vec<Value> = message.content.iter().filter_map(part).collect();
    if parts.is_empty() {
        return None;
    }
    if parts.iter().any(|part| part.get("image_url").is_some()) {
        return Some(json!({"role": role, "content": parts}));
    }
    // A message without pictures is sent as one string.
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    Some(json!({"role": role, "content": texts.join("\n\n")}))
}

fn part(block: &Block) -> Option<Value> {
    Some(match block {
        Block::Text { text, .. } => json!({"type": "text", "text": text}),
        Block::Image { media_type, data, .. } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}})
        }
        _ => return None,
    })
}

fn logs_hint() -> String {
    "flock logs openclaw".to_owned()
}

fn shorten(text: &str) -> String {
    // The message goes into a log line and an error.
    const LONGEST: usize = 600;
    let end = text.floor_char_boundary(LONGEST.min(text.len()));
    text[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Converts a provider error to an error of this program. It is not a provider with a key that a person sets, so the
/// hints differ.
fn runtime_error(error: ProviderError, port: u16) -> RuntimeError {
    let (program, hint) = (TITLE.to_owned(), logs_hint());
    match error {
        // The token is flock's own. After a restart OpenClaw has the present one.
        ProviderError::Unauthorised { status, message, .. } => {
            RuntimeError::Refused { program, status, message, hint: "flock restart".to_owned() }
        }
        ProviderError::Rejected { status: status @ 404, .. } => RuntimeError::NotRunning {
            program,
            reason: format!(
                "what listens on port {port} has no chat completions ({status}); another program may have taken the port"
            ),
            hint: "flock status --probe".to_owned(),
        },
        ProviderError::Rejected { status, message, .. } => {
            // OpenClaw knows only the agents that existed when it was started.
            let hint = if status == 400 { "flock restart" } else { "flock logs openclaw" };
            RuntimeError::Refused { program, status, message, hint: hint.to_owned() }
        }
        ProviderError::Limited { status, message, .. } => {
            RuntimeError::Refused { program, status, message, hint }
        }
        // The error has no variants for these cases, so its text decides.
        ProviderError::Failed { message, .. } if message.starts_with("can't connect") => {
            RuntimeError::NotRunning { program, reason: message, hint: "flock start".to_owned() }
        }
        ProviderError::Failed { message, .. } if message.starts_with("status ") => {
            RuntimeError::Failed { program, message, hint }
        }
        ProviderError::Failed { message, .. } => RuntimeError::Interrupted { program, message, hint },
        ProviderError::Garbled { message, .. } => RuntimeError::Failed { program, message, hint },
        ProviderError::TimedOut { .. } | ProviderError::NotConfigured { .. } => {
            RuntimeError::Interrupted { program, message: error.to_string(), hint }
        }
    }
}

#[cfg(test)]
#[path = "openclaw_tests.rs"]
mod tests;
