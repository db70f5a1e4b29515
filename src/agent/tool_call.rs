//! Checks, runs and bounds one tool call of a model, and reports it to the oversight. Bad input from the model becomes a
//! result that it can read. Only a tool itself can fail the turn.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::call_result::CallResult;
use super::client_tools::ClientSide;
use super::deadline::Deadline;
use super::engine::Engine;
use super::oversight::ToolCallRecord;
use super::repetition::{Repetition, RepetitionOutcome};
use super::tool_trace;
use super::turn::{TurnError, TurnEvent};
use crate::config::Agent;
use crate::fault_point::{self, FaultPoint};
use crate::id::hex;
use crate::provider::message::ToolCall;
use crate::provider::{Block, StopReason};
use crate::telemetry::{self, OpenSpan};
use crate::tool::policy::{self, Decision};
use crate::tool::{CallContext, ProgressSink, Registry, Tool, ToolError, safe_text};

/// The most calls of one answer that are run.
const MAX_CALLS: usize = 64;

const MAX_NAME: usize = 64;
const PREVIEW_CHARS: usize = 160;

/// Time a tool has to end by itself after the turn was stopped.
const GRACE: Duration = Duration::from_secs(5);

/// The decision about a call.
enum CallDecision {
    Run(Arc<dyn Tool>),
    /// Ask a person about this tool, for this reason.
    Ask(String, String),
    /// Hand it to the client.
    HandOut,
    /// Don't run it. The model reads the reason.
    Refuse(String),
}

/// Decides if a call can be run. `place` is its position in the answer.
fn check(
    agent: &Agent,
    registry: &Registry,
    client: Option<ClientSide<'_>>,
    call: &ToolCall<'_>,
    place: usize,
    stop: StopReason,
) -> CallDecision {
    if place >= MAX_CALLS {
        return CallDecision::Refuse(format!("not run: one answer can make at most {MAX_CALLS} calls"));
    }
    // flock's own tools come first: a client's tool can't take the place of one that was added since.
    let Some(tool) = registry.find(agent, call.name) else {
        if let Some(decision) = client.and_then(|client| client.decide(call)) {
            return match argument_fault(call.arguments, stop).map_or(decision, Err) {
                Ok(()) => CallDecision::HandOut,
                Err(reason) => CallDecision::Refuse(reason),
            };
        }
        // A model that made up a name learns from the answer which tools it really has.
        let mut names: Vec<String> = registry.offered(agent).into_iter().map(|spec| spec.name).collect();
        names.extend(client.iter().flat_map(|client| client.tools.specs()).map(|spec| spec.name.clone()));
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
        Decision::Ask(reason) => CallDecision::Ask(name.clone(), reason),
        _ => CallDecision::Run(tool),
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
async fn run(
    tool: &dyn Tool,
    context: &CallContext,
    arguments: &Value,
) -> Result<CallResult, Box<dyn std::error::Error + Send + Sync>> {
    // A panic in one tool must not end the turn without a result, or end the gateway's task with it.
    let called = AssertUnwindSafe(tool.call(context, arguments)).catch_unwind().await;
    fault_point::reach(FaultPoint::Called);
    match called {
        Ok(Ok(output)) => Ok(output.into()),
        Ok(Err(ToolError::ForModel(reason))) => Ok(CallResult::error(&reason)),
        Ok(Err(ToolError::Fatal(source))) => Err(source),
        Err(_) => {
            tracing::error!(tool = tool.spec().name, "a tool panicked");
            Ok(CallResult::error("the tool failed because of a defect; its effect is unknown"))
        }
    }
}

/// The end of a tool call.
pub(super) struct CallEnd {
    /// The result for the model. `None` ends the turn and leaves the call without a result.
    pub(super) answer: Option<CallResult>,
    /// The error that ends the turn, if the call ends it.
    pub(super) halted: Option<TurnError>,
    /// `true` if the client has to answer the call.
    pub(super) is_handed_out: bool,
}

/// Decides about single tool calls and runs them, for one agent in one session.
pub(super) struct ToolCaller<'a> {
    pub(super) engine: &'a Engine,
    pub(super) deadline: &'a Deadline,
    pub(super) context: &'a CallContext,
    /// Cancels the call alone, not the turn.
    pub(super) given_up: &'a CancellationToken,
    /// The tools that the client brings, if the turn takes any.
    pub(super) client: Option<ClientSide<'a>>,
    /// The recipient of the call's progress.
    pub(super) progress: Option<&'a ProgressSink>,
}

impl From<CallResult> for CallEnd {
    fn from(answer: CallResult) -> Self {
        Self { answer: Some(answer), halted: None, is_handed_out: false }
    }
}

impl ToolCaller<'_> {
    /// Decides about one call, runs it if the policy allows it, and reports its end to the oversight.
    pub(super) async fn call(
        &self,
        asked: &ToolCall<'_>,
        place: usize,
        stop: StopReason,
        started: Instant,
    ) -> Result<CallEnd, TurnError> {
        // The policy is evaluated with the current configuration, so that a permission that was revoked in the middle
        // of a turn is gone.
        let config = self.engine.parts.config.current();
        let id = &self.context.agent;
        let agent = config.agent(id).ok_or_else(|| TurnError::UnknownAgent(id.clone()))?;
        let oversight = &*self.engine.parts.oversight;
        let span = tool_trace::begin(self.context, asked);
        let (decision, ended) =
            match check(agent, &self.engine.parts.registry, self.client, asked, place, stop) {
                CallDecision::Run(tool) => {
                    let work = self.run_tool(&*tool, asked);
                    (Decision::Allow, telemetry::scoped(span.as_ref().map(OpenSpan::current), work).await)
                }
                CallDecision::Ask(tool, reason) => {
                    let told = oversight.ask(self.context, &tool, asked.arguments, &reason).await;
                    let answer = match told {
                        Ok(told) => CallResult::answer(&told),
                        Err(reason) => CallResult::error(&reason),
                    };
                    (Decision::Ask(reason), answer.into())
                }
                CallDecision::HandOut => {
                    (Decision::Allow, CallEnd { answer: None, halted: None, is_handed_out: true })
                }
                CallDecision::Refuse(reason) => {
                    let answer = CallResult::error(&reason);
                    (Decision::Deny(reason), answer.into())
                }
            };
        tool_trace::end(span, self.context, asked, (&decision, ended.answer.as_ref()));
        // The audit also gets refused calls and those whose outcome is unknown.
        let called = ToolCallRecord {
            call_id: asked.id.to_owned(),
            name: asked.name.to_owned(),
            decision,
            is_error: ended.answer.as_ref().map_or(!ended.is_handed_out, |answer| answer.is_error),
            took: started.elapsed(),
            preview: preview(asked.arguments),
            arguments_sha256: digest(asked.arguments),
            is_handed_out: ended.is_handed_out,
            reported: None,
        };
        oversight.called(self.context, &called).await;
        Ok(ended)
    }

    /// Runs one tool.
    ///
    /// If the turn is stopped meanwhile, or nobody waits for the call any more, the tool gets [`GRACE`] to end by
    /// itself, so that its effects are known. A stop of the turn is returned beside the answer.
    async fn run_tool(&self, tool: &dyn Tool, asked: &ToolCall<'_>) -> CallEnd {
        let failed = |source: Box<dyn std::error::Error + Send + Sync>| {
            let error = TurnError::Tool { name: asked.name.to_owned(), source };
            CallEnd { answer: None, halted: Some(error), is_handed_out: false }
        };
        // Another gateway may go on with the turn by now, and this one must not change anything beside it.
        if let Err(cut_off) = self.engine.parts.store.syncer().fence().check() {
            return failed(Box::new(cut_off));
        }
        // A child token: it is cancelled with the turn, and can be cancelled for this tool alone.
        let own = CallContext {
            cancel: self.deadline.cancel.child_token(),
            progress: self.progress.cloned(),
            ..self.context.clone()
        };
        let mut work = std::pin::pin!(run(tool, &own, asked.arguments));
        let stopped = tokio::select! {
            // A tool that is ready counts as ended even if the turn is stopped in the same instant: its result is
            // known.
            biased;
            ended = &mut work => return match ended {
                Ok(answer) => answer.into(),
                Err(source) => failed(source),
            },
            error = self.deadline.wait() => Some(error),
            () = self.given_up.cancelled() => None,
        };
        own.cancel.cancel();
        // Past the grace period the tool's future is dropped here, and the outcome of the call is unknown.
        let answer = match timeout(GRACE, work).await {
            Ok(Ok(answer)) => Some(answer),
            Ok(Err(_)) | Err(_) => None,
        };
        if stopped.is_some() {
            return CallEnd { answer, halted: stopped, is_handed_out: false };
        }
        // The call was given up and the turn goes on, so the call needs a result all the same.
        match answer {
            Some(mut answer) => {
                answer.content.push(Block::text("[flock: the call was cancelled before it had ended]"));
                answer.into()
            }
            None => CallResult::error("the call was cancelled; its effect is unknown").into(),
        }
    }
}

/// Counts a finished call. A warning about repetitions becomes a part of the result, so that the model reads it with
/// the next request. Returns the error that ends the turn after too many.
pub(super) fn count_repetition(
    repetition: &mut Repetition,
    tool: &str,
    arguments: &Value,
    content: &mut Vec<Block>,
) -> Option<TurnError> {
    match repetition.note(tool, arguments, content) {
        RepetitionOutcome::Fine => None,
        RepetitionOutcome::Told(text) => {
            content.push(Block::text(text));
            None
        }
        RepetitionOutcome::Ended(text, times) => {
            content.push(Block::text(text));
            Some(TurnError::Looping { tool: tool.to_owned(), times })
        }
    }
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

/// Returns the event for the beginning of a call.
pub(super) fn started(call: &ToolCall<'_>) -> TurnEvent {
    TurnEvent::ToolStarted {
        call_id: call.id.to_owned(),
        name: call.name.to_owned(),
        arguments_preview: preview(call.arguments),
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
    use crate::agent::{NoOversight, testing};
    use crate::clock;
    use crate::home::write_fence::CutOff;
    use crate::provider::message::joined_text;
    use crate::tool::fake;
    use serde_json::json;

    #[tokio::test]
    async fn a_gateway_that_may_have_been_replaced_begins_no_tool() {
        let folder = tempfile::tempdir().unwrap();
        let engine = testing::engine(folder.path());
        let (context, given_up) = (fake::context(), CancellationToken::new());
        let (oversight, wall) = (Arc::new(NoOversight), Duration::from_secs(600));
        let deadline = Deadline::new(context.cancel.clone(), wall, oversight, context.agent.clone());
        let caller = ToolCaller {
            engine: &engine,
            deadline: &deadline,
            context: &context,
            given_up: &given_up,
            client: None,
            progress: None,
        };
        let arguments = json!({"path": "notes"});
        let asked = ToolCall { id: "1", name: "read", arguments: &arguments };
        let call = || caller.call(&asked, 0, StopReason::ToolUse, Instant::now());
        let begun = call().await.unwrap();
        assert!(begun.halted.is_none());
        assert_eq!(joined_text(&begun.answer.unwrap().content), "no tool can be called here");
        let fence = engine.store().syncer().fence();
        fence.write_until(clock::boot_ms());
        let refused = call().await.unwrap();
        let Some(TurnError::Tool { name, source }) = refused.halted else { panic!("the tool was called") };
        assert!(name == "read" && source.is::<CutOff>() && refused.answer.is_none());
        // It was cut off for a moment only.
        fence.write_until(i64::MAX);
        assert!(call().await.unwrap().answer.is_some());
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
