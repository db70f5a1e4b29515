//! OpenClaw: a turn is one streamed request to its chat completions. Its agent has its own conversation, prompt and
//! tools; flock's tools reach it through the plugin, and so does what it reports of its own.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Event, Order, Reply, Runtime, RuntimeError, Tell};
use crate::config::{Config, secret};
use crate::error::chain;
use crate::home::Home;
use crate::install::versions;
use crate::openclaw::{RUNTIME, place};
use crate::provider::http::{Endpoint, Http};
use crate::provider::key::ApiKey;
use crate::provider::{Block, BoxFuture, Delta, Message, ProviderError, Role, StopReason, Usage, openai};
use crate::supervise::unit::OPENCLAW;
use crate::supervise::{self, pid};

/// As people call it.
const PROGRAM: &str = "OpenClaw";

/// What OpenClaw's endpoint says where its agent has said nothing, and what its agents say in order to say nothing.
const SILENCE: [&str; 2] = ["No response from OpenClaw.", "NO_REPLY"];

/// How 2026.2 says in its stream, as the whole answer, that a turn failed: as text, and otherwise like a success.
const FAILURE: &str = "Error: ";

/// Where OpenClaw is now.
#[derive(Clone, Debug)]
pub struct Place {
    /// Its gateway's port on 127.0.0.1.
    pub port: u16,
    /// Its gateway's own token.
    pub token: String,
}

/// Finds it, at the beginning of each turn: the port and the token may change while flock runs.
pub type Find = Arc<dyn Fn() -> Result<Place, RuntimeError> + Send + Sync>;

/// The OpenClaw of this home.
///
/// # Errors
///
/// [`RuntimeError::NotInstalled`], with what is missing; [`RuntimeError::NotRunning`] where what listens on its port is not
/// the process that the supervisor started.
pub fn find(home: &Home, config: &Config) -> Result<Place, RuntimeError> {
    let missing = |reason: String, hint: &str| RuntimeError::NotInstalled {
        program: PROGRAM,
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
        program: PROGRAM,
        reason,
        hint: hint.to_owned(),
    };
    let Some(record) = pid::read(&home.pid_file(OPENCLAW)).filter(|record| record.process.is_alive()) else {
        return Err(silent("it does not run".to_owned(), "flock start"));
    };
    // Whoever else listens there must get neither the token nor the conversation.
    if let Err(holder) = supervise::port::is_held_by(port, record.process) {
        let reason = match holder.as_str() {
            "nobody" => format!("nothing listens on its port {port} yet"),
            _ => format!("its port {port} is held by {holder}"),
        };
        return Err(silent(reason, "flock status"));
    }
    match secret::get(home, place::TOKEN) {
        Ok(Some(token)) => Ok(Place { port, token }),
        Ok(None) => Err(missing("it was never started, so it has no token".to_owned(), "flock restart")),
        Err(error) => Err(missing(format!("its token: {}", chain(&error)), "flock doctor")),
    }
}

/// Turns on OpenClaw.
pub struct OpenClaw {
    find: Find,
    http: Http,
}

impl OpenClaw {
    /// Runs turns on the OpenClaw that this finds.
    #[must_use]
    pub fn new(find: Find) -> Self {
        Self { find, http: Http::default() }
    }

    async fn turn(&self, order: &Order, tell: Tell<'_>) -> Result<Reply, RuntimeError> {
        let place = (self.find)()?;
        let endpoint = endpoint(&place, order)?;
        let mut said = Said::default();
        let answered = {
            let mut sink = |delta| match delta {
                Delta::Text(text) => said.text(text, tell),
                Delta::Thinking(text) => tell(Event::Thinking(text)),
                Delta::ToolCall => {}
            };
            openai::complete(&endpoint, &self.http, request(order), &mut sink).await
        };
        let response = answered.map_err(|error| explain(error, place.port))?;
        said.end(tell)?;
        // A call that a client is to run can't be in an answer to a request without tools.
        let stop = match response.stop {
            StopReason::ToolUse => StopReason::End,
            stop => stop,
        };
        // 2026.2 counts nothing.
        Ok(Reply { stop, usage: (response.usage != Usage::default()).then_some(response.usage) })
    }
}

impl Runtime for OpenClaw {
    fn name(&self) -> &'static str {
        RUNTIME
    }

    fn run<'a>(&'a self, order: &'a Order, tell: Tell<'a>) -> BoxFuture<'a, Result<Reply, RuntimeError>> {
        Box::pin(self.turn(order, tell))
    }
}

/// The answer's text so far, held back as long as it may turn out to be no answer.
#[derive(Default)]
struct Said {
    held: String,
    pieces: usize,
    passed: bool,
}

impl Said {
    fn text(&mut self, text: String, tell: Tell<'_>) {
        if self.passed {
            return tell(Event::Text(text));
        }
        self.held.push_str(&text);
        self.pieces += 1;
        let is_failure = self.pieces == 1 && self.held.starts_with(FAILURE);
        if !is_failure && !SILENCE.iter().any(|whole| whole.starts_with(self.held.as_str())) {
            self.passed = true;
            tell(Event::Text(std::mem::take(&mut self.held)));
        }
    }

    /// Nothing else comes.
    fn end(self, tell: Tell<'_>) -> Result<(), RuntimeError> {
        if self.passed || SILENCE.contains(&self.held.trim()) {
            return Ok(());
        }
        match self.held.strip_prefix(FAILURE) {
            // In one piece and with the name of an exception before it this is no model's sentence.
            Some(message) if looks_like_exception(message) => {
                Err(RuntimeError::Failed { program: PROGRAM, message: bounded(message), hint: logs() })
            }
            _ => {
                if !self.held.is_empty() {
                    tell(Event::Text(self.held));
                }
                Ok(())
            }
        }
    }
}

/// Whether a text begins as JavaScript writes an exception: `TypeError: …`, `FailoverError: …`, `Error: …`.
fn looks_like_exception(text: &str) -> bool {
    text.split_once(": ")
        .is_some_and(|(name, _)| name.ends_with("Error") && name.chars().all(|c| c.is_ascii_alphanumeric()))
}

fn endpoint(place: &Place, order: &Order) -> Result<Endpoint, RuntimeError> {
    let url = format!("http://127.0.0.1:{}/v1/chat/completions", place.port);
    let url = url.parse().map_err(|error| RuntimeError::NotRunning {
        program: PROGRAM,
        reason: chain(&error),
        hint: "flock config get gateway.port".to_owned(),
    })?;
    let mut endpoint = Endpoint::new(PROGRAM, url, ApiKey::new(&place.token));
    endpoint.header("authorization", &format!("Bearer {}", place.token));
    endpoint.header("x-openclaw-agent-id", order.agent.as_str());
    endpoint.header("x-openclaw-session-key", &order.conversation);
    Ok(endpoint)
}

/// The request that a turn would be ordered with, as a document: OpenClaw makes the one to the model of it.
#[must_use]
pub fn preview(order: &Order) -> Value {
    json!({
        "program": PROGRAM,
        "headers": {"x-openclaw-agent-id": order.agent, "x-openclaw-session-key": order.conversation},
        "body": body(order),
    })
}

fn request(order: &Order) -> Vec<u8> {
    body(order).to_string().into_bytes()
}

fn body(order: &Order) -> Value {
    let system = (!order.system.is_empty()).then(|| json!({"role": "system", "content": order.system}));
    let messages = order.messages.iter().filter_map(message);
    json!({
        "model": format!("openclaw/{}", order.agent),
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": system.into_iter().chain(messages).collect::<Vec<Value>>(),
    })
}

/// A message as OpenClaw takes it; nothing of what its model could not be shown.
fn message(message: &Message) -> Option<Value> {
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => return None,
    };
    let parts: Vec<Map<String, Value>> = message.content.iter().filter_map(part).collect();
    if parts.is_empty() {
        return None;
    }
    if parts.iter().any(|part| part.contains_key("image_url")) {
        return Some(json!({"role": role, "content": parts}));
    }
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    Some(json!({"role": role, "content": texts.join("\n\n")}))
}

fn part(block: &Block) -> Option<Map<String, Value>> {
    let part = match block {
        Block::Text { text, .. } => json!({"type": "text", "text": text}),
        Block::Image { media_type, data, .. } => {
            json!({"type": "image_url", "image_url": {"url": format!("data:{media_type};base64,{data}")}})
        }
        _ => return None,
    };
    if let Value::Object(part) = part { Some(part) } else { None }
}

fn logs() -> String {
    "flock logs openclaw".to_owned()
}

fn bounded(text: &str) -> String {
    const LONGEST: usize = 600;
    let end = text.floor_char_boundary(LONGEST.min(text.len()));
    text[..end].split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What went wrong, in the words of this program: it is no provider whose key a person sets.
fn explain(error: ProviderError, port: u16) -> RuntimeError {
    let program = PROGRAM;
    match error {
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
            // It knows the agents that it was started with.
            let hint = if status == 400 { "flock restart" } else { "flock logs openclaw" };
            RuntimeError::Refused { program, status, message, hint: hint.to_owned() }
        }
        ProviderError::Limited { status, message, .. } => {
            RuntimeError::Refused { program, status, message, hint: logs() }
        }
        ProviderError::Failed { message, .. } if message.starts_with("can't connect") => {
            RuntimeError::NotRunning { program, reason: message, hint: "flock start".to_owned() }
        }
        ProviderError::Failed { message, .. } if message.starts_with("status ") => {
            RuntimeError::Failed { program, message, hint: logs() }
        }
        ProviderError::Failed { message, .. } => RuntimeError::Interrupted { program, message, hint: logs() },
        ProviderError::Garbled { message, .. } => RuntimeError::Failed { program, message, hint: logs() },
        ProviderError::TimedOut { .. } | ProviderError::NotConfigured { .. } => {
            RuntimeError::Interrupted { program, message: error.to_string(), hint: logs() }
        }
    }
}

#[cfg(test)]
#[path = "openclaw_tests.rs"]
mod tests;
