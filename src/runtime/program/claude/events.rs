//! Reads the output of Claude Code with `--output-format stream-json --verbose --include-partial-messages`.
//!
//! Each block of an answer comes twice: in pieces (`stream_event`), and whole (`assistant`) when it is complete. An
//! answer that breaks off is requested again, and its pieces are then void.

use serde_json::Value;

use crate::provider::Usage;
use crate::runtime::program::environment;
use crate::runtime::program::extract::{self, content, count, items, one_line, status, text};
use crate::runtime::program::interface::{Parser, ProgramExit, RunOutcome};
use crate::runtime::program::run_progress::RunProgress;
use crate::runtime::{ProgramEvent, ToolEvent};

const TITLE: &str = "Claude Code";

/// Prefix of the names of flock's tools.
const FLOCK_TOOL_PREFIX: &str = "mcp__flock__";

/// Text with which it says that it does not know the conversation.
const UNKNOWN_CONVERSATION: &str = "No conversation found with session ID";

/// Parser of its events.
#[derive(Default)]
pub(super) struct ClaudeParser {
    progress: RunProgress,
    /// The text of the answer since the last tool call.
    answer: String,
    /// Id of the message that arrives in pieces, and its blocks so far.
    streamed: String,
    blocks: Vec<StreamedBlock>,
    /// Ids and names of calls of its own tools that have not ended.
    open: Vec<(String, String)>,
    /// The reason why the turn cannot end well.
    doomed: Option<String>,
    result: Option<ResultEvent>,
    /// Tokens of all results so far.
    usage: Usage,
    cost: f64,
}

/// A block of a message that arrives in pieces.
struct StreamedBlock {
    index: u64,
    kind: BlockKind,
    /// The text that was reported, and the number of bytes that it takes in the answer.
    told: String,
    answer: usize,
    /// Set once the whole block has arrived.
    is_whole: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockKind {
    Text,
    Thinking,
}

/// The event that ends a run.
struct ResultEvent {
    is_error: bool,
    turns: u64,
    status: Option<u16>,
    message: String,
    cut: bool,
    is_unknown: bool,
}

impl Parser for ClaudeParser {
    fn line(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        // An event of a sub-agent. Its answer is not the agent's.
        if text(line, "/parent_tool_use_id").is_some() {
            return;
        }
        match text(line, "/type").unwrap_or_default() {
            "system" => self.system(line, said),
            "stream_event" => self.piece(line, said),
            "assistant" => self.assistant(line, said),
            "user" => self.user(line, said),
            "result" => self.result(line, said),
            _ => {}
        }
    }

    fn is_over(&self) -> bool {
        self.result.is_some()
    }

    fn end(&mut self, exit: &ProgramExit<'_>) -> RunOutcome {
        // The result may name the unknown conversation, or there is no result and only standard error does.
        let is_fresh = self.progress.is_resumed && !self.progress.begun;
        match (&self.result, &self.doomed) {
            (Some(result), _) if result.is_unknown && is_fresh => RunOutcome::Unknown,
            (None, _) if self.progress.is_unknown(exit, UNKNOWN_CONVERSATION) => RunOutcome::Unknown,
            (_, Some(why)) => RunOutcome::Failed { status: None, message: why.clone() },
            (Some(result), None) if result.is_error => {
                RunOutcome::Failed { status: result.status, message: result.message.clone() }
            }
            // No model call was made, so the prompt was handled as a slash command.
            (Some(result), None) if result.turns == 0 => RunOutcome::Failed {
                status: None,
                message: one_line(&format!(
                    "{TITLE} took the prompt for a command of its own: {}",
                    result.message
                )),
            },
            (Some(result), None) => RunOutcome::Well { cut: result.cut },
            (None, None) => extract::broken(TITLE, exit),
        }
    }
}

impl ClaudeParser {
    pub(super) fn new(is_resumed: bool) -> Self {
        Self { progress: RunProgress::new(is_resumed), ..Self::default() }
    }

    fn system(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        match text(line, "/subtype").unwrap_or_default() {
            // The event may come again with the same id.
            "init" => {
                self.progress.named(text(line, "/session_id"), said);
                let server = |server: &&Value| text(server, "/name") == Some(environment::SERVER);
                let state = items(line, "/mcp_servers").find(server);
                let state = state.map(|server| text(server, "/status").unwrap_or_default());
                // A pending server may still connect. flock itself sees if the program lists its tools.
                if let Some(state) = state.filter(|state| !matches!(*state, "connected" | "pending")) {
                    let why = one_line(&format!("{TITLE} can't use flock's tools: MCP says {state}"));
                    said.push(ProgramEvent::WillFail(why.clone()));
                    self.doomed = Some(why);
                }
            }
            "api_retry" => {
                // The answer that broke off is asked for again from its beginning.
                self.take_back(0, said);
                let why = match (text(line, "/error"), status(line, "/error_status")) {
                    (Some(error), Some(status)) => format!("{error} ({status})"),
                    (Some(error), None) if error != "unknown" => error.to_owned(),
                    _ => "the answer did not come, or broke off".to_owned(),
                };
                said.push(ProgramEvent::Retrying(one_line(&why)));
            }
            _ => {}
        }
    }

    fn piece(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        let Some(event) = line.get("event") else { return };
        let index = count(event, "/index");
        match text(event, "/type").unwrap_or_default() {
            "message_start" => {
                // A message that begins again replaces all of its former pieces.
                self.take_back(0, said);
                self.blocks.clear();
                text(event, "/message/id").unwrap_or_default().clone_into(&mut self.streamed);
            }
            "content_block_start" => match text(event, "/content_block/type").unwrap_or_default() {
                "text" => self.more(index, BlockKind::Text, text(event, "/content_block/text"), said),
                "thinking" => {
                    self.more(index, BlockKind::Thinking, text(event, "/content_block/thinking"), said);
                }
                _ => {}
            },
            "content_block_delta" => match text(event, "/delta/type").unwrap_or_default() {
                "text_delta" => self.more(index, BlockKind::Text, text(event, "/delta/text"), said),
                "thinking_delta" => {
                    self.more(index, BlockKind::Thinking, text(event, "/delta/thinking"), said);
                }
                _ => {}
            },
            "message_stop" => {
                // The field says from which block on the message is void.
                if let Some(first) =
                    line.pointer("/abandoned_blocks/from_block_index").and_then(Value::as_u64)
                {
                    for block in &mut self.blocks {
                        block.is_whole &= block.index < first;
                    }
                    self.take_back(first, said);
                }
            }
            _ => {}
        }
    }

    /// Adds a piece of a block.
    fn more(&mut self, index: u64, kind: BlockKind, piece: Option<&str>, said: &mut Vec<ProgramEvent>) {
        let Some(piece) = piece.filter(|piece| !piece.is_empty()) else { return };
        let at = self.blocks.iter().position(|block| block.index == index && block.kind == kind);
        let mut told = 0;
        if kind == BlockKind::Text {
            told = self.say(piece, at.is_none(), said);
        } else {
            said.push(ProgramEvent::Thinking(piece.to_owned()));
        }
        self.progress.begun = true;
        match at.and_then(|at| self.blocks.get_mut(at)) {
            Some(block) => {
                block.told.push_str(piece);
                block.answer += told;
            }
            None => {
                let block =
                    StreamedBlock { index, kind, told: piece.to_owned(), answer: told, is_whole: false };
                self.blocks.push(block);
            }
        }
    }

    /// Reports more of the answer. Returns the number of bytes by which it grew.
    fn say(&mut self, piece: &str, is_first: bool, said: &mut Vec<ProgramEvent>) -> usize {
        // A blank line separates two blocks of text.
        let piece =
            if is_first && !self.answer.is_empty() { format!("\n\n{piece}") } else { piece.to_owned() };
        self.answer.push_str(&piece);
        let grown = piece.len();
        said.push(ProgramEvent::Text(piece));
        grown
    }

    /// Withdraws the reported text of incomplete blocks, beginning with the block `first`.
    fn take_back(&mut self, first: u64, said: &mut Vec<ProgramEvent>) {
        let mut gone = 0;
        self.blocks.retain(|block| {
            let stays = block.is_whole || block.index < first;
            gone += if stays { 0 } else { block.answer };
            stays
        });
        if gone > 0 {
            // The withdrawn text is at the end of the answer: blocks that arrive whole later were never sent in pieces.
            let left = self.answer.len().saturating_sub(gone);
            self.answer.truncate(self.answer.floor_char_boundary(left));
            said.push(ProgramEvent::Replaced(self.answer.clone()));
        }
    }

    fn assistant(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        // A message of the program itself, for example about a failure. The result repeats it.
        if text(line, "/message/model") == Some("<synthetic>") {
            return;
        }
        let id = text(line, "/message/id").unwrap_or_default();
        if id != self.streamed {
            self.take_back(0, said);
            self.blocks.clear();
            self.streamed.clear();
        }
        for block in items(line, "/message/content") {
            match text(block, "/type").unwrap_or_default() {
                "text" => self.whole(BlockKind::Text, text(block, "/text").unwrap_or_default(), said),
                "thinking" => {
                    self.whole(BlockKind::Thinking, text(block, "/thinking").unwrap_or_default(), said);
                }
                "tool_use" => self.call(block, said),
                "server_tool_use" => {
                    self.progress.begun = true;
                    if let Some(query) = text(block, "/input/query") {
                        said.push(ProgramEvent::Search(query.to_owned()));
                    }
                }
                _ => {}
            }
        }
    }

    /// Handles a complete block. The part that was not reported in pieces is reported now.
    fn whole(&mut self, kind: BlockKind, whole: &str, said: &mut Vec<ProgramEvent>) {
        let streamed = self.blocks.iter_mut().find(|block| block.kind == kind && !block.is_whole);
        let Some(block) = streamed else {
            if whole.is_empty() {
                return;
            }
            self.progress.begun = true;
            if kind == BlockKind::Text {
                self.say(whole, true, said);
            } else {
                said.push(ProgramEvent::Thinking(whole.to_owned()));
            }
            return;
        };
        block.is_whole = true;
        match (whole.strip_prefix(block.told.as_str()), kind) {
            (Some(""), _) | (None, BlockKind::Thinking) => {}
            (Some(rest), BlockKind::Text) => {
                block.answer += rest.len();
                self.answer.push_str(rest);
                said.push(ProgramEvent::Text(rest.to_owned()));
            }
            (Some(rest), BlockKind::Thinking) => said.push(ProgramEvent::Thinking(rest.to_owned())),
            // The complete block differs from its pieces.
            (None, BlockKind::Text) => {
                let before = self.answer.len().saturating_sub(block.told.len());
                self.answer.truncate(self.answer.floor_char_boundary(before));
                self.answer.push_str(whole);
                block.answer = block.answer.saturating_sub(block.told.len()) + whole.len();
                whole.clone_into(&mut block.told);
                said.push(ProgramEvent::Replaced(self.answer.clone()));
            }
        }
    }

    fn call(&mut self, block: &Value, said: &mut Vec<ProgramEvent>) {
        let (Some(call), Some(tool)) = (text(block, "/id"), text(block, "/name")) else { return };
        self.progress.begun = true;
        // The answer of a turn is the text after the last call.
        self.answer.clear();
        for block in &mut self.blocks {
            block.answer = 0;
        }
        if tool.starts_with(FLOCK_TOOL_PREFIX) {
            said.push(ProgramEvent::FlockTool);
            return;
        }
        if let Some(query) = text(block, "/input/query").filter(|_| tool == "WebSearch") {
            said.push(ProgramEvent::Search(query.to_owned()));
        }
        self.open.push((call.to_owned(), tool.to_owned()));
        said.push(ProgramEvent::Tool(ToolEvent::Began {
            call: call.to_owned(),
            tool: tool.to_owned(),
            arguments: block.get("input").cloned().unwrap_or_default(),
        }));
    }

    fn user(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        for block in items(line, "/message/content") {
            let Some(id) = text(block, "/tool_use_id") else { continue };
            let Some(at) = self.open.iter().position(|(open, _)| open == id) else { continue };
            let (call, tool) = self.open.swap_remove(at);
            let result = block.get("content").map(content).unwrap_or_default();
            let failed = block.get("is_error").and_then(Value::as_bool).unwrap_or_default();
            // Only a failed command has its code in the text.
            if let Some(code) = exit_code(&result).filter(|_| failed) {
                said.push(ProgramEvent::Exit { call: call.clone(), code });
            }
            let error = failed.then(|| result.clone());
            said.push(ProgramEvent::Tool(ToolEvent::Ended { call, tool, result, error, took: None }));
        }
    }

    fn result(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        let is_error = line.get("is_error").and_then(Value::as_bool).unwrap_or(true);
        let errors: Vec<&str> = items(line, "/errors").filter_map(Value::as_str).collect();
        let mut message = text(line, "/result").map(one_line).unwrap_or_default();
        if message.is_empty() {
            message = one_line(&errors.join("; "));
        }
        if message.is_empty() {
            message = one_line(text(line, "/subtype").unwrap_or("it does not say why"));
        }
        self.result = Some(ResultEvent {
            is_error,
            turns: count(line, "/num_turns"),
            status: status(line, "/api_error_status"),
            message,
            cut: text(line, "/stop_reason") == Some("max_tokens"),
            is_unknown: is_error && errors.iter().any(|error| error.contains(UNKNOWN_CONVERSATION)),
        });
        self.spent(line, said);
    }

    /// Adds the usage since the last result. `total_cost_usd` cannot be used: it counts the whole conversation, which
    /// may be much older than this run.
    fn spent(&mut self, line: &Value, said: &mut Vec<ProgramEvent>) {
        let models = line.pointer("/model_usage_since_last_result").and_then(Value::as_object);
        let mut costs = Vec::new();
        for model in models.into_iter().flat_map(|models| models.values()) {
            self.usage += Usage {
                input: count(model, "/inputTokens"),
                output: count(model, "/outputTokens"),
                cache_read: count(model, "/cacheReadInputTokens"),
                cache_write: count(model, "/cacheCreationInputTokens"),
                cost: None,
            };
            costs.push(extract::dollars(model, "/costUSD"));
        }
        // Without usage by model, the sum of this result counts.
        if costs.is_empty() {
            self.usage += Usage {
                input: count(line, "/usage/input_tokens"),
                output: count(line, "/usage/output_tokens"),
                cache_read: count(line, "/usage/cache_read_input_tokens"),
                cache_write: count(line, "/usage/cache_creation_input_tokens"),
                cost: None,
            };
        }
        if self.usage != Usage::default() {
            said.push(ProgramEvent::Usage(self.usage));
        }
        self.cost += costs.into_iter().flatten().sum::<f64>();
        if self.cost > 0.0 {
            said.push(ProgramEvent::Cost(self.cost));
        }
    }
}

/// Reads the exit code in the first line of a failed command's result.
fn exit_code(result: &str) -> Option<i64> {
    result.lines().next()?.strip_prefix("Exit code ")?.trim().parse().ok()
}
