//! Reads the output of Gemini CLI with `-o stream-json`. It does not contain the thinking. An exit code of 0 proves
//! nothing: the program also returns it when it is told to end, and when it has printed more than its pipe took.

use serde_json::Value;

use crate::provider::Usage;
use crate::runtime::program::extract::{self, count, one_line, text, valid_status};
use crate::runtime::program::interface::{Parser, ProgramExit, RunOutcome};
use crate::runtime::program::run_progress::RunProgress;
use crate::runtime::{ProgramEvent, ToolEvent};

const TITLE: &str = "Gemini CLI";

/// Prefix of the names of flock's tools.
const FLOCK_TOOL_PREFIX: &str = "mcp_flock_";

/// Text with which it says that it does not know the conversation.
const UNKNOWN_CONVERSATION: &str = "Invalid session identifier";

/// Exit code if it cannot ask its model because it has no login. Its message then names its own folder, which may be
/// one of flock's and would mislead a person.
const NO_LOGIN: i32 = 41;

/// The advice for that.
const LOGIN_HINT: &str = "its user has no login that it can use here: run gemini in a terminal and log in";

/// Parser of its events.
#[derive(Default)]
pub(super) struct GeminiParser {
    progress: RunProgress,
    /// Ids and names of calls of its own tools that have not ended.
    open: Vec<(String, String)>,
    /// The last error that it reported.
    error: Option<String>,
    end: Option<ReportedEnd>,
}

enum ReportedEnd {
    Well,
    Failed(String),
}

impl GeminiParser {
    pub(super) fn new(is_resumed: bool) -> Self {
        Self { progress: RunProgress::new(is_resumed), ..Self::default() }
    }

    fn call(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        let (Some(call), Some(tool)) = (text(line, "/tool_id"), text(line, "/tool_name")) else { return };
        self.progress.begun = true;
        if tool.starts_with(FLOCK_TOOL_PREFIX) {
            said.push(ProgramEvent::FlockTool);
            return;
        }
        if let Some(query) = text(line, "/parameters/query").filter(|_| tool == "google_web_search") {
            said.push(ProgramEvent::Search(query.to_owned()));
        }
        self.open.push((call.to_owned(), tool.to_owned()));
        said.push(ProgramEvent::Tool(ToolEvent::Began {
            call: call.to_owned(),
            tool: tool.to_owned(),
            arguments: line.get("parameters").cloned().unwrap_or_default(),
        }));
    }

    fn called(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        let id = text(line, "/tool_id").unwrap_or_default();
        let Some(at) = self.open.iter().position(|(open, _)| open == id) else { return };
        let (call, tool) = self.open.swap_remove(at);
        let result = line.get("output").map(extract::content).unwrap_or_default();
        // A failed command counts as a success here, and its exit code is not reported.
        let error = (text(line, "/status") == Some("error"))
            .then(|| text(line, "/error/message").map_or_else(|| result.clone(), str::to_owned));
        said.push(ProgramEvent::Tool(ToolEvent::Ended { call, tool, result, error, took: None }));
    }

    fn result(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        self.end = Some(if text(line, "/status") == Some("success") {
            ReportedEnd::Well
        } else {
            let told = text(line, "/error/message").map(one_line);
            ReportedEnd::Failed(
                told.or_else(|| self.error.clone()).unwrap_or_else(|| "it does not say why".to_owned()),
            )
        });
        // `input_tokens` includes the cached ones. `output_tokens` does not include the thinking, but the total does.
        let all = count(line, "/stats/input_tokens");
        let cached = count(line, "/stats/cached");
        let output = count(line, "/stats/total_tokens").saturating_sub(all);
        let usage = Usage {
            input: all.saturating_sub(cached),
            output: output.max(count(line, "/stats/output_tokens")),
            cache_read: cached,
            ..Usage::default()
        };
        if usage != Usage::default() {
            said.push(ProgramEvent::Usage(usage));
        }
    }
}

impl Parser for GeminiParser {
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        match text(line, "/type").unwrap_or_default() {
            "init" => self.progress.named(text(line, "/session_id"), said),
            // The user's message is printed as well.
            "message" if text(line, "/role") == Some("assistant") => {
                if let Some(piece) = text(line, "/content").filter(|piece| !piece.is_empty()) {
                    self.progress.begun = true;
                    said.push(ProgramEvent::Text(piece.to_owned()));
                }
            }
            "tool_use" => self.call(line, said),
            "tool_result" => self.called(line, said),
            "error" => {
                let message = one_line(text(line, "/message").unwrap_or_default());
                said.push(ProgramEvent::Note(message.clone()));
                self.error = Some(message);
            }
            "result" => self.result(line, said),
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome {
        match &self.end {
            Some(ReportedEnd::Well) => RunOutcome::Well { cut: false },
            Some(ReportedEnd::Failed(message)) => {
                RunOutcome::Failed { status: status(message, exit.code), message: message.clone() }
            }
            None if self.progress.is_unknown(exit, UNKNOWN_CONVERSATION) => RunOutcome::Unknown,
            None if !self.progress.begun && exit.code == NO_LOGIN => {
                RunOutcome::Failed { status: Some(401), message: LOGIN_HINT.to_owned() }
            }
            None => extract::broken(TITLE, exit),
        }
    }
}

/// Finds the HTTP status of the model's server: in the answer that the message quotes, or else in the exit code, which
/// is the lowest byte of the status.
fn status(message: &str, code: i32) -> Option<u16> {
    let quoted = message.split_once("\"code\":").and_then(|(_, rest)| {
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().and_then(valid_status)
    });
    // Statuses from 400 to 511 become exit codes from 144 to 255.
    let exited = u64::try_from(code).ok().filter(|code| (144..256).contains(code));
    quoted.or_else(|| exited.and_then(|code| valid_status(code + 256)))
}
