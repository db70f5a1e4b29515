//! Reads the output of OpenCode with `run --format json`. There is no event for the end: the last step tells if the run
//! is finished.

use std::time::Duration;

use serde_json::Value;

use crate::provider::Usage;
use crate::provider::quota::text as quota_text;
use crate::runtime::program::extract::{self, count, one_line, status, text};
use crate::runtime::program::interface::{Parser, ProgramExit, RunOutcome};
use crate::runtime::program::run_progress::RunProgress;
use crate::runtime::{ProgramEvent, ToolEvent};

const TITLE: &str = "OpenCode";

/// Prefix of the names of flock's tools: the server's name.
const FLOCK_TOOL_PREFIX: &str = "flock_";

/// Text with which it says that it does not know the conversation.
const UNKNOWN_CONVERSATION: &str = "Session not found";

/// The words of its log for a model call that failed, and the field with the error.
const FAILED_CALL: &str = "message=\"stream error\"";
const FAILED_CALL_ERROR: &str = " error.error=";
/// Name of the errors of a model's server in its log.
const SERVER_ERROR: &str = "AI_APICallError: ";
/// The status of a refusal because of a quota. The log does not tell it.
const TOO_MANY_REQUESTS: u16 = 429;

/// Parser of its events.
#[derive(Default)]
pub(super) struct OpenCodeParser {
    progress: RunProgress,
    /// The reason why the last step ended, if it has.
    reason: Option<String>,
    error: Option<(Option<u16>, String)>,
    usage: Usage,
    cost: f64,
}

impl OpenCodeParser {
    pub(super) fn new(is_resumed: bool) -> Self {
        Self { progress: RunProgress::new(is_resumed), ..Self::default() }
    }

    /// Reports a call. The program prints it only when it has ended.
    fn called(&mut self, part: &Value, said: &mut Vec<ProgramEvent>) {
        let (Some(call), Some(tool)) = (text(part, "/callID"), text(part, "/tool")) else { return };
        self.progress.call();
        if tool.starts_with(FLOCK_TOOL_PREFIX) {
            said.push(ProgramEvent::FlockTool);
            return;
        }
        if let Some(query) = text(part, "/state/input/query").filter(|_| tool == "websearch") {
            said.push(ProgramEvent::Search(query.to_owned()));
        }
        let (call, tool) = (call.to_owned(), tool.to_owned());
        let arguments = part.pointer("/state/input").cloned().unwrap_or_default();
        said.push(ProgramEvent::Tool(ToolEvent::Began { call: call.clone(), tool: tool.clone(), arguments }));
        let result = text(part, "/state/output").unwrap_or_default().to_owned();
        let code = part.pointer("/state/metadata/exit").and_then(Value::as_i64);
        if let Some(code) = code {
            said.push(ProgramEvent::Exit { call: call.clone(), code });
        }
        let error = match (text(part, "/state/status"), code) {
            // A command that ran and failed counts as completed here, so its code decides.
            (Some("error"), _) => Some(text(part, "/state/error").unwrap_or("failed").to_owned()),
            (_, Some(code)) if code != 0 => Some(format!("exit code {code}\n{result}")),
            _ => None,
        };
        let (start, end) = (count(part, "/state/time/start"), count(part, "/state/time/end"));
        // Without a start time the duration is unknown.
        let took = end.checked_sub(start).filter(|_| start > 0).map(Duration::from_millis);
        said.push(ProgramEvent::Tool(ToolEvent::Ended { call, tool, result, error, took }));
    }

    fn step(&mut self, part: &Value, said: &mut Vec<ProgramEvent>) {
        self.reason = Some(text(part, "/reason").unwrap_or_default().to_owned());
        self.usage += Usage {
            input: count(part, "/tokens/input"),
            // The reasoning tokens are counted apart from the output.
            output: count(part, "/tokens/output").saturating_add(count(part, "/tokens/reasoning")),
            cache_read: count(part, "/tokens/cache/read"),
            cache_write: count(part, "/tokens/cache/write"),
            cost: None,
        };
        said.push(ProgramEvent::Usage(self.usage));
        self.cost += extract::dollars(part, "/cost").unwrap_or_default();
        if self.cost > 0.0 {
            said.push(ProgramEvent::Cost(self.cost));
        }
    }
}

impl Parser for OpenCodeParser {
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        self.progress.named(text(line, "/sessionID"), said);
        let kind = text(line, "/type").unwrap_or_default();
        if matches!(kind, "step_start" | "text" | "reasoning" | "tool_use") {
            // The step that has ended was not the last one.
            self.reason = None;
        }
        let words = text(line, "/part/text").unwrap_or_default();
        match kind {
            "text" => self.progress.text(words, said),
            "reasoning" => self.progress.thought(words, said),
            "tool_use" => {
                if let Some(part) = line.get("part") {
                    self.called(part, said);
                }
            }
            "step_finish" => {
                if let Some(part) = line.get("part") {
                    self.step(part, said);
                }
            }
            "error" => {
                let message = text(line, "/error/data/message").or_else(|| text(line, "/error/name"));
                let message = one_line(message.unwrap_or("it does not say why"));
                self.error = Some((status(line, "/error/data/statusCode"), message));
            }
            _ => {}
        }
    }

    fn error_line(&mut self, line: &str, said: &mut Vec<ProgramEvent>) {
        // It would wait without a word for as long as the server says, which may be a week.
        let Some(message) = refusal(line).filter(|message| quota_text::says_used_up(message)) else { return };
        if self.error.is_none() {
            self.error = Some((Some(TOO_MANY_REQUESTS), message.clone()));
            said.push(ProgramEvent::WillFail(message));
        }
    }

    fn is_over(&self) -> bool {
        // Other reasons, such as tool calls, are followed by another step.
        self.error.is_none() && matches!(self.reason.as_deref(), Some("stop" | "length"))
    }

    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome {
        match (&self.error, self.reason.as_deref()) {
            (Some((status, message)), _) => RunOutcome::Failed { status: *status, message: message.clone() },
            // Both are needed: the last step, and an exit code of 0.
            (None, Some("stop")) if exit.code == 0 => RunOutcome::Well { cut: false },
            (None, Some("length")) if exit.code == 0 => RunOutcome::Well { cut: true },
            (None, _) if self.progress.is_unknown(exit, UNKNOWN_CONVERSATION) => RunOutcome::Unknown,
            (None, _) => extract::broken(TITLE, exit),
        }
    }
}

/// Returns the words of a model's server from a line of the log that tells of a refused call.
fn refusal(line: &str) -> Option<String> {
    let (_, rest) = line.split_once(FAILED_CALL)?;
    let (_, error) = rest.split_once(FAILED_CALL_ERROR)?;
    // A text with a blank in it is written as JSON does.
    let error: String = serde_json::Deserializer::from_str(error).into_iter().next()?.ok()?;
    error.strip_prefix(SERVER_ERROR).map(one_line)
}
