//! Derives the log of a turn from its transcript, for turns without a log of their own: flock's own loop and OpenClaw
//! write down every call with its result instead.

use serde_json::Value;

use super::transcript::Exchange;
use crate::id::AgentId;
use crate::provider::Block;
use crate::provider::message::joined_text;
use crate::runtime::trace::TraceFormatter;
use crate::runtime::{ProgramEvent, ToolEvent};

/// Returns the log of a turn that was read in full, in the form of a program's own log.
pub(super) fn trace(exchange: &Exchange, agent: &AgentId) -> Vec<String> {
    let mut lines = Vec::new();
    let mut trace = TraceFormatter::new(agent.as_str());
    let records = exchange.between.iter().chain(&exchange.answer);
    for block in records.flat_map(|record| &record.message.content) {
        if let Some(said) = said(block) {
            trace.said(&said, &mut lines);
        }
    }
    if let Some(usage) = exchange.ended.as_ref().and_then(|end| end.usage) {
        trace.said(&ProgramEvent::Usage(usage), &mut lines);
    }
    trace.end(&mut lines);
    lines
}

/// Returns a call of one of flock's tools as log lines. Programs leave out of their logs the calls that flock itself
/// runs.
pub(super) fn call(agent: &AgentId, tool: &str, arguments: &Value, failure: Option<&str>) -> Vec<String> {
    let (mut lines, mut trace) = (Vec::new(), TraceFormatter::new(agent.as_str()));
    // Each of these logs has a single call, so the call needs no id.
    let (call, tool, arguments) = (String::new(), tool.to_owned(), arguments.clone());
    let ended = ToolEvent::Ended {
        call: call.clone(),
        tool: tool.clone(),
        result: String::new(),
        error: failure.map(str::to_owned),
        took: None,
    };
    for event in [ToolEvent::Began { call, tool, arguments }, ended] {
        trace.said(&ProgramEvent::Tool(event), &mut lines);
    }
    lines
}

fn said(block: &Block) -> Option<ProgramEvent> {
    Some(match block {
        Block::Text { text, .. } => ProgramEvent::Text(text.clone()),
        Block::Thinking { thinking, .. } => ProgramEvent::Thinking(thinking.clone()),
        Block::ToolCall { id, name, arguments, .. } => ProgramEvent::Tool(ToolEvent::Began {
            call: id.clone(),
            tool: name.clone(),
            arguments: arguments.clone(),
        }),
        Block::ToolResult { call_id, name, content, is_error } => {
            let result = joined_text(content);
            ProgramEvent::Tool(ToolEvent::Ended {
                call: call_id.clone(),
                tool: name.clone(),
                error: is_error.then(|| result.clone()),
                result,
                took: None,
            })
        }
        Block::Image { .. } | Block::Other(_) => return None,
    })
}
