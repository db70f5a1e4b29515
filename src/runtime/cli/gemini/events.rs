//! What Gemini CLI prints with `-o stream-json`. Its thinking is not among it, and an exit code of 0 says nothing: it
//! ends so when it is told to end, and once it has printed more than its pipe took.

use serde_json::Value;

use crate::provider::Usage;
use crate::runtime::ToolEvent;
use crate::runtime::cli::program::{Ended, Exit, Parser, Said};
use crate::runtime::cli::reading::{self, count, one_line, text, valid_status};

const TITLE: &str = "Gemini CLI";

/// How flock's tools are called.
const FLOCKS: &str = "mcp_flock_";

/// Words with which it says that it has no such conversation.
const UNKNOWN: &str = "Invalid session identifier";

/// Its exit code where it can't ask its model, for want of a login. What it says beside that is of its folder, which may
/// be one of flock's.
const NO_LOGIN: i32 = 41;

/// What mends that.
const LOG_IN: &str = "its user has no login that it can use here: run gemini in a terminal and log in";

/// Reads its events.
pub(super) struct Events {
    is_resumed: bool,
    conversation: String,
    /// Calls of its own tools that have not ended.
    open: Vec<(String, String)>,
    /// Something was said or done.
    begun: bool,
    /// The last error that it told of.
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
        // A command that failed is a success here: its exit code is not told.
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
        // `input_tokens` has the cached ones; `output_tokens` has not what it thought, the sum has.
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
            // Its user's message comes back, too.
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

/// The status of the model's server: in the answer that it quotes, else the code that it exited with, which is what a
/// byte has room for of it.
fn status(message: &str, code: i32) -> Option<u16> {
    let quoted = message.split_once("\"code\":").and_then(|(_, rest)| {
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().and_then(valid_status)
    });
    let exited = u64::try_from(code).ok().filter(|code| (144..256).contains(code));
    quoted.or_else(|| exited.and_then(|code| valid_status(code + 256)))
}
