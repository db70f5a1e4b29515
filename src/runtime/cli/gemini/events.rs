//! Reads the output of Gemini CLI with `-o stream-json`. It does not contain the thinking. An exit code of 0 proves
//! nothing: the program also returns it when it is told to end, and when it has printed more than its pipe took.

use serde_json::Value;

use crate::provider::Usage;
use crate::runtime::ToolEvent;
use crate::runtime::cli::program::{Ended, Exit, Parser, Said};
use crate::runtime::cli::reading::{self, count, one_line, text, valid_status};

const TITLE: &str = "Gemini CLI";

/// Prefix of the names of flock's tools.
const FLOCKS: &str = "mcp_flock_";

/// Text with which it says that it does not know the conversation.
const UNKNOWN: &str = "Invalid session identifier";

/// Exit code if it cannot ask its model because it has no login. Its message then names its own folder, which may be
/// one of flock's and would mislead a person.
const NO_LOGIN: i32 = 41;

/// The advice for that.
const LOG_IN: &str = "its user has no login that it can use here: run gemini in a terminal and log in";

/// Parser of its events.
pub(super) struct Events {
    is_resumed: bool,
    conversation: String,
    /// Ids and names of calls of its own tools that have not ended.
    open: Vec<(String, String)>,
    /// Set once anything was said or done.
    begun: bool,
    /// The last error that it reported.
    error: Option<String>,
    end: Option<End>,
}

enum End {
    Well,
    Failed(String),
}

impl Events {
    pub(super) fn new(is_resumed: bool) -> Self {
        Self {
            is_resumed,
            conversation: String::new(),
            open: Vec::new(),
            begun: false,
            error: None,
            end: None,
        }
    }

    fn call(&mut self, line: &Value, said: &mut Vec<Said>) {
        let (Some(call), Some(tool)) = (text(line, "/tool_id"), text(line, "/tool_name")) else { return };
        self.begun = true;
        if tool.starts_with(FLOCKS) {
            said.push(Said::FlockTool);
            return;
        }
        if let Some(query) = text(line, "/parameters/query").filter(|_| tool == "google_web_search") {
            said.push(Said::Search(query.to_owned()));
        }
        self.open.push((call.to_owned(), tool.to_owned()));
        said.push(Said::Tool(ToolEvent::Began {
            call: call.to_owned(),
            tool: tool.to_owned(),
            arguments: line.get("parameters").cloned().unwrap_or_default(),
        }));
    }

    fn called(&mut self, line: &Value, said: &mut Vec<Said>) {
        let id = text(line, "/tool_id").unwrap_or_default();
        let Some(at) = self.open.iter().position(|(open, _)| open == id) else { return };
        let (call, tool) = self.open.swap_remove(at);
        let result = line.get("output").map(reading::content).unwrap_or_default();
        // A failed command counts as a success here, and its exit code is not reported.
        let error = (text(line, "/status") == Some("error"))
            .then(|| text(line, "/error/message").map_or_else(|| result.clone(), str::to_owned));
        said.push(Said::Tool(ToolEvent::Ended { call, tool, result, error, took: None }));
    }

    fn result(&mut self, line: &Value, said: &mut Vec<Said>) {
        self.end = Some(if text(line, "/status") == Some("success") {
            End::Well
        } else {
            let told = text(line, "/error/message").map(one_line);
            End::Failed(
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
            said.push(Said::Usage(usage));
        }
    }
}

impl Parser for Events {
    fn line(&mut self, line: &Value, said: &mut Vec<Said>) {
        match text(line, "/type").unwrap_or_default() {
            "init" => {
                if let Some(id) = text(line, "/session_id").filter(|id| *id != self.conversation) {
                    id.clone_into(&mut self.conversation);
                    said.push(Said::Conversation(id.to_owned()));
                }
            }
            // The user's message is printed as well.
            "message" if text(line, "/role") == Some("assistant") => {
                if let Some(piece) = text(line, "/content").filter(|piece| !piece.is_empty()) {
                    self.begun = true;
                    said.push(Said::Text(piece.to_owned()));
                }
            }
            "tool_use" => self.call(line, said),
            "tool_result" => self.called(line, said),
            "error" => {
                let message = one_line(text(line, "/message").unwrap_or_default());
                said.push(Said::Note(message.clone()));
                self.error = Some(message);
            }
            "result" => self.result(line, said),
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn end(&mut self, exit: &Exit<'_>) -> Ended {
        match &self.end {
            Some(End::Well) => Ended::Well { cut: false },
            Some(End::Failed(message)) => {
                Ended::Failed { status: status(message, exit.code), message: message.clone() }
            }
            None if !self.begun && self.is_resumed && exit.stderr.contains(UNKNOWN) => Ended::Unknown,
            None if !self.begun && exit.code == NO_LOGIN => {
                Ended::Failed { status: Some(401), message: LOG_IN.to_owned() }
            }
            None => reading::broken(TITLE, exit),
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
