//! Checks, runs and bounds one tool call of a model. Bad input from the model becomes a result that it can read. Only a
//! tool itself can fail the turn.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::checkpoint::{self, Checkpoint};
use crate::config::Agent;
use crate::id::hex;
use crate::provider::message::ToolCall;
use crate::provider::{Block, StopReason};
use crate::tool::policy::{self, Decision};
use crate::tool::{CallContext, Registry, Tool, ToolError, ToolOutput, safe_text};

/// The most calls of one answer that are run.
const MAX_CALLS: usize = 64;

/// The most bytes of text in one result.
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The most pictures in one result, and the most bytes of one in base64.
const MAX_IMAGES: usize = 4;
const MAX_IMAGE_BYTES: usize = 8 * 1024 * 1024;

const MAX_NAME: usize = 64;
const PREVIEW_CHARS: usize = 160;

/// The content of the result, and `true` if it is an error.
pub(super) type CallResult = (Vec<Block>, bool);

/// The decision about a call.
pub(super) enum CallDecision<'r> {
    Run(&'r dyn Tool),
    /// Ask a person about this tool, for this reason.
    Ask(&'r str, String),
    /// Don't run it. The model reads the reason.
    Refuse(String),
}

/// Decides if a call can be run. `place` is its position in the answer.
pub(super) fn check<'r>(
    agent: &Agent,
    registry: &'r Registry,
    call: &ToolCall<'_>,
    place: usize,
    stop: StopReason,
) -> CallDecision<'r> {
    if place >= MAX_CALLS {
        return CallDecision::Refuse(format!("not run: one answer can make at most {MAX_CALLS} calls"));
    }
    let Some(tool) = registry.get(call.name) else {
        // A model that made up a name learns from the answer which tools it really has.
        let specs = registry.iter().map(|tool| tool.spec());
        let names: Vec<String> = policy::offered(agent, specs).into_iter().map(|spec| spec.name).collect();
        let name = safe_text::start(call.name, MAX_NAME);
        return CallDecision::Refuse(format!(
            "there is no tool {name:?}; your tools are: {}",
            names.join(", ")
        ));
    };
    let name = &tool.spec().name;
    let decision = policy::decide(agent, name, call.arguments);
    if let Decision::Deny(reason) = decision {
        return CallDecision::Refuse(format!("not run: {reason}"));
    }
    // Arguments are checked before a person is asked: nobody should approve a call that can't be run anyway.
    if let Some(reason) = argument_fault(call.arguments, stop) {
        return CallDecision::Refuse(reason);
    }
    match decision {
        Decision::Ask(reason) => CallDecision::Ask(name, reason),
        _ => CallDecision::Run(&**tool),
    }
}

/// Returns the fault of arguments that are not an object.
fn argument_fault(arguments: &Value, stop: StopReason) -> Option<String> {
    match arguments {
        Value::Object(_) => None,
        Value::String(_) if stop == StopReason::Length => Some(
            "not run: your answer reached its limit before this call was complete; do it in smaller parts"
                .to_owned(),
        ),
        Value::String(text) => {
            Some(format!("not run: the arguments are not valid JSON ({})", json_error_reason(text)))
        }
        _ => Some("not run: the arguments must be a JSON object".to_owned()),
    }
}

fn json_error_reason(text: &str) -> String {
    match serde_json::from_str::<serde::de::IgnoredAny>(text) {
        Err(error) => error.to_string(),
        Ok(_) => "they are a JSON string".to_owned(),
    }
}

/// Runs the tool. An `Err` ends the turn.
pub(super) async fn run(
    tool: &dyn Tool,
    context: &CallContext,
    arguments: &Value,
) -> Result<CallResult, Box<dyn std::error::Error + Send + Sync>> {
    // A panic in one tool must not end the turn without a result, or end the gateway's task with it.
    let called = AssertUnwindSafe(tool.call(context, arguments)).catch_unwind().await;
    checkpoint::reach(Checkpoint::Called);
    match called {
        Ok(Ok(output)) => Ok((bound(output), false)),
        Ok(Err(ToolError::ForModel(reason))) => Ok((text(&reason), true)),
        Ok(Err(ToolError::Fatal(source))) => Err(source),
        Err(_) => {
            tracing::error!(tool = tool.spec().name, "a tool panicked");
            Ok((text("the tool failed because of a defect; its effect is unknown"), true))
        }
    }
}

/// Returns a text as a result's content, cut to its limit.
pub(super) fn text(text: &str) -> Vec<Block> {
    vec![Block::text(safe_text::middle_cut(text, MAX_TEXT_BYTES))]
}

fn bound(output: ToolOutput) -> Vec<Block> {
    // The limits are for the whole result, so that many small blocks can't exceed them.
    let mut room = MAX_TEXT_BYTES;
    let mut images = 0;
    let mut bound = Vec::with_capacity(output.content.len());
    for block in output.content {
        match block {
            Block::Text { text, .. } => {
                let text = if text.len() > room { safe_text::middle_cut(&text, room) } else { text };
                room = room.saturating_sub(text.len());
                bound.push(Block::text(text));
            }
            Block::Image { data, .. } if images == MAX_IMAGES || data.len() > MAX_IMAGE_BYTES => {
                let text = format!(
                    "[a picture of {} bytes was left out: it is too large, or there are too many]",
                    data.len()
                );
                bound.push(Block::text(text));
            }
            Block::Image { .. } => {
                images += 1;
                bound.push(block);
            }
            // A result may only contain texts and pictures.
            _ => {}
        }
    }
    if bound.is_empty() {
        bound.push(Block::text("(no output)"));
    }
    bound
}

/// Normalises the calls of an answer before they are stored and sent back to the provider: each gets a unique id, and a
/// name that every provider accepts. A single bad name would make the provider reject the session for good.
pub(super) fn tidy(content: &mut [Block]) {
    let mut seen = std::collections::HashSet::new();
    for block in content {
        let Block::ToolCall { id, name, .. } = block else { continue };
        // Some servers number the calls of each answer from the start or send no ids at all.
        if id.is_empty() || !seen.insert(id.clone()) {
            *id = format!("call_{}", uuid::Uuid::now_v7().simple());
            seen.insert(id.clone());
        }
        let valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(valid) {
            let kept: String = name.chars().map(|c| if valid(c) { c } else { '_' }).take(MAX_NAME).collect();
            *name = if kept.is_empty() { "unnamed".to_owned() } else { kept };
        }
    }
}

/// Returns the beginning of the arguments, on one line.
pub(super) fn preview(arguments: &Value) -> String {
    let text = arguments.to_string();
    let start = safe_text::start(&text, PREVIEW_CHARS);
    if start.len() < text.len() { format!("{start}…") } else { text }
}

/// Returns the SHA-256 of the arguments as JSON without spaces, in hex.
pub(super) fn digest(arguments: &Value) -> String {
    hex(&Sha256::digest(arguments.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bounded_results_state_the_cut() {
        let image = |size| Block::Image { media_type: "image/png".into(), data: "A".repeat(size) };
        let mut content = vec![Block::text("x".repeat(1 << 20)), image(MAX_IMAGE_BYTES + 1)];
        content.extend((0..6).map(|_| image(4)));
        let bound = bound(ToolOutput { content });
        let text = crate::provider::message::joined_text(&bound);
        assert!(text.len() < MAX_TEXT_BYTES + 1_000 && text.contains("left out"), "{}", text.len());
        assert_eq!(bound.iter().filter(|block| matches!(block, Block::Image { .. })).count(), MAX_IMAGES);
        assert_eq!(super::bound(ToolOutput { content: Vec::new() }).len(), 1);
    }

    #[test]
    fn calls_get_ids_and_names_that_providers_accept() {
        let call = |id: &str, name: &str| Block::call(id, name, json!({}));
        let mut content =
            vec![call("", ""), call("a", "ok"), call("a", "../etc\n"), call("b", &"x".repeat(500))];
        tidy(&mut content);
        let mut ids = std::collections::HashSet::new();
        let mut names = Vec::new();
        for block in &content {
            let Block::ToolCall { id, name, .. } = block else { panic!() };
            assert!(ids.insert(id.clone()) && !id.is_empty());
            names.push(name.clone());
        }
        assert_eq!(names, ["unnamed".to_owned(), "ok".into(), "___etc_".into(), "x".repeat(64)]);
    }
}
