//! Reads the output of `codex exec --json`: one event for each item of its work. The text of an answer comes as a
//! whole.

use serde_json::{Value, json};

use crate::provider::Usage;
use crate::runtime::program::environment;
use crate::runtime::program::extract::{self, content, count, one_line, text, valid_status};
use crate::runtime::program::interface::{Parser, ProgramExit, RunOutcome};
use crate::runtime::program::run_progress::RunProgress;
use crate::runtime::{ProgramEvent, ToolEvent};

const TITLE: &str = "Codex";

/// Text with which it says that it does not know the conversation.
const UNKNOWN_CONVERSATION: &str = "no rollout found for thread id";

/// Text with which it says that flock's tools cannot be reached.
const MCP_UNAVAILABLE: &str = "required MCP servers failed to initialize";

/// Parser of its events.
#[derive(Default)]
pub(super) struct CodexParser {
    /// The token counts of a resumed run are those of the whole conversation.
    progress: RunProgress,
    /// Ids of calls that have not ended.
    open: Vec<String>,
    /// The last error that was not just a retry.
    error: Option<String>,
    end: Option<ReportedEnd>,
}

enum ReportedEnd {
    Completed,
    Failed(String),
}

impl CodexParser {
    pub(super) fn new(is_resumed: bool) -> Self {
        Self { progress: RunProgress::new(is_resumed), ..Self::default() }
    }

    fn item(&mut self, item: &Value, is_done: bool, said: &mut Vec<ProgramEvent>) {
        let id = text(item, "/id").unwrap_or_default();
        match text(item, "/type").unwrap_or_default() {
            "agent_message" if is_done => {
                self.progress.text(text(item, "/text").unwrap_or_default(), said);
            }
            "reasoning" if is_done => {
                self.progress.thought(text(item, "/text").unwrap_or_default(), said);
            }
            "command_execution" => {
                let arguments = json!({"command": text(item, "/command").unwrap_or_default()});
                // The event of the beginning may be missing.
                self.began(id, "command_execution", arguments, said);
                if is_done {
                    self.ran(id, item, said);
                }
            }
            "file_change" => {
                let changes = item.get("changes").cloned().unwrap_or_default();
                self.began(id, "file_change", json!({ "changes": changes }), said);
                if is_done {
                    self.ended(id, "file_change", String::new(), failure_reason(item, ""), said);
                }
            }
            "mcp_tool_call" => self.mcp(id, item, is_done, said),
            // A search is reported once, when it is done.
            "web_search" if is_done => {
                self.progress.begun = true;
                if let Some(query) = text(item, "/query").or_else(|| text(item, "/action/query")) {
                    said.push(ProgramEvent::Search(query.to_owned()));
                }
            }
            "error" if is_done => {
                said.push(ProgramEvent::Note(one_line(text(item, "/message").unwrap_or_default())));
            }
            _ => {}
        }
    }

    /// Reports the end of a command.
    fn ran(&mut self, id: &str, item: &Value, said: &mut Vec<ProgramEvent>) {
        let output = text(item, "/aggregated_output").unwrap_or_default();
        let code = item.get("exit_code").and_then(Value::as_i64);
        if let Some(code) = code {
            said.push(ProgramEvent::Exit { call: id.to_owned(), code });
        }
        let error = match code {
            Some(code) if code != 0 => Some(format!("exit code {code}\n{output}")),
            _ => failure_reason(item, output),
        };
        self.ended(id, "command_execution", output.to_owned(), error, said);
    }

    fn mcp(&mut self, id: &str, item: &Value, is_done: bool, said: &mut Vec<ProgramEvent>) {
        let server = text(item, "/server").unwrap_or_default();
        if server == environment::SERVER {
            // An MCP call has two events in the stream. One report is enough.
            if !is_done || !self.open.iter().any(|open| open == id) {
                self.progress.call();
                said.push(ProgramEvent::FlockTool);
            }
            if is_done {
                self.open.retain(|open| open != id);
            } else {
                self.open.push(id.to_owned());
            }
            return;
        }
        let tool = format!("{server}.{}", text(item, "/tool").unwrap_or_default());
        self.began(id, &tool, item.get("arguments").cloned().unwrap_or_default(), said);
        if is_done {
            let result = item.pointer("/result/content").map(content).unwrap_or_default();
            let error = failure_reason(item, &result);
            self.ended(id, &tool, result, error, said);
        }
    }

    /// Reports the beginning of a call, unless it was reported before.
    fn began(&mut self, id: &str, tool: &str, arguments: Value, said: &mut Vec<ProgramEvent>) {
        if self.open.iter().any(|open| open == id) {
            return;
        }
        self.progress.call();
        self.open.push(id.to_owned());
        said.push(ProgramEvent::Tool(ToolEvent::Began {
            call: id.to_owned(),
            tool: tool.to_owned(),
            arguments,
        }));
    }

    fn ended(
        &mut self,
        id: &str,
        tool: &str,
        result: String,
        error: Option<String>,
        said: &mut Vec<ProgramEvent>,
    ) {
        self.open.retain(|open| open != id);
        let (call, tool) = (id.to_owned(), tool.to_owned());
        said.push(ProgramEvent::Tool(ToolEvent::Ended { call, tool, result, error, took: None }));
    }

    fn completed(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        self.end = Some(ReportedEnd::Completed);
        // `input_tokens` includes the cached ones.
        let (all, read) = (count(line, "/usage/input_tokens"), count(line, "/usage/cached_input_tokens"));
        let write = count(line, "/usage/cache_write_input_tokens");
        let usage = Usage {
            input: all.saturating_sub(read).saturating_sub(write),
            output: count(line, "/usage/output_tokens"),
            cache_read: read,
            cache_write: write,
            cost: None,
        };
        said.push(if self.progress.is_resumed {
            ProgramEvent::ConversationUsage(usage)
        } else {
            ProgramEvent::Usage(usage)
        });
    }
}

impl Parser for CodexParser {
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        match text(line, "/type").unwrap_or_default() {
            "thread.started" => {
                self.progress.named(text(line, "/thread_id"), said);
            }
            kind @ ("item.started" | "item.updated" | "item.completed") => {
                if let Some(item) = line.get("item") {
                    self.item(item, kind == "item.completed", said);
                }
            }
            "error" => {
                let message = one_line(text(line, "/message").unwrap_or_default());
                // A retry is reported as an error with this text.
                if message.starts_with("Reconnecting...") {
                    said.push(ProgramEvent::Retrying(message));
                } else {
                    self.error = Some(message);
                }
            }
            "turn.completed" => self.completed(line, said),
            "turn.failed" => {
                let message = one_line(text(line, "/error/message").unwrap_or("it does not say why"));
                self.end = Some(ReportedEnd::Failed(message));
            }
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.end.is_some()
    }

    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome {
        match (&self.end, &self.error) {
            (Some(ReportedEnd::Completed), _) => RunOutcome::Well { cut: false },
            // The reason of the failed turn wins over an earlier error.
            (Some(ReportedEnd::Failed(message)), _) | (None, Some(message)) => {
                RunOutcome::Failed { status: status(message), message: message.clone() }
            }
            (None, None) if self.progress.is_unknown(exit, UNKNOWN_CONVERSATION) => RunOutcome::Unknown,
            (None, None) => match exit.stderr.split_once(MCP_UNAVAILABLE) {
                Some((_, why)) if !self.progress.begun => RunOutcome::Failed {
                    status: None,
                    message: one_line(&format!(
                        "{TITLE} can't use flock's tools{}",
                        why.lines().next().unwrap_or_default()
                    )),
                },
                _ => extract::broken(TITLE, exit),
            },
        }
    }
}

/// Returns the reason why an item failed, if it did. Its output takes the place of a missing reason.
fn failure_reason(item: &Value, output: &str) -> Option<String> {
    let message = text(item, "/error/message").or_else(|| text(item, "/error"));
    match (message, text(item, "/status")) {
        (Some(message), _) => Some(message.to_owned()),
        (None, Some(status @ ("failed" | "declined"))) => {
            Some(if output.is_empty() { status.to_owned() } else { output.to_owned() })
        }
        _ => None,
    }
}

/// Finds the HTTP status of the model's server in the text of a failure.
fn status(message: &str) -> Option<u16> {
    ["unexpected status ", "last status: "].into_iter().find_map(|words| {
        let (_, rest) = message.split_once(words)?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok().and_then(valid_status)
    })
}
