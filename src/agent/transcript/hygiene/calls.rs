//! Calls that no route takes: cut off before their arguments, without an id, with a name that a model's control tokens
//! leaked into. Before pairing: what answered such a call is then an orphan.

use std::collections::HashSet;
use std::sync::Arc;

use super::applied::{Notes, Rule};
use super::policy::Policy;
use super::target::Target;
use super::thinking::{self, is_thinking};
use crate::agent::transcript::Entry;
use crate::provider::call::is_plain;
use crate::provider::{Block, Role};

/// Leaves malformed calls out, and the answer where nothing else was in it.
pub(super) fn leave_out_malformed(entries: &mut Vec<Entry>, target: &Target, notes: &mut Notes) {
    let unknown = unknown_tools(entries, target);
    let is_bad = |block: &Block| match block {
        Block::ToolCall { id, name, arguments, .. } => {
            id.trim().is_empty()
                || arguments.is_null()
                || !is_plain(name.trim())
                || unknown.contains(id.as_str())
        }
        _ => false,
    };
    let is_loose = |block: &Block| matches!(block, Block::ToolCall { name, .. } if name.trim() != name);
    entries.retain_mut(|entry| {
        if entry.role() != Role::Assistant {
            return true;
        }
        if entry.message.content.iter().any(is_bad) {
            Arc::make_mut(&mut entry.message).content.retain(|block| !is_bad(block));
            notes.add(Rule::MalformedCall, entry);
            // What was thought for a call goes with it: beside other blocks than it was signed with it is refused.
            thinking::leave_out(entry, Rule::EditedThinking, |_| true, notes);
        }
        if entry.message.content.iter().any(is_loose) {
            for block in &mut Arc::make_mut(&mut entry.message).content {
                if let Block::ToolCall { name, .. } = block {
                    *name = name.trim().to_owned();
                }
            }
            notes.add(Rule::CallName, entry);
        }
        !entry.message.content.is_empty()
    });
}

/// The ids of calls of tools that the model is not told of. One that was answered is kept: a conversation survives a
/// change of tools.
fn unknown_tools(entries: &[Entry], target: &Target) -> HashSet<String> {
    let Some(tools) = &target.tools else { return HashSet::new() };
    let is_known = |name: &str| tools.iter().any(|tool| tool.eq_ignore_ascii_case(name.trim()));
    let calls = entries.iter().flat_map(|entry| entry.message.tool_calls());
    let mut unknown: HashSet<String> =
        calls.filter(|call| !is_known(call.name)).map(|call| call.id.to_owned()).collect();
    if !unknown.is_empty() {
        for block in entries.iter().flat_map(|entry| &entry.message.content) {
            if let Block::ToolResult { call_id, .. } = block {
                unknown.remove(call_id);
            }
        }
    }
    unknown
}

/// Where thinking is signed, calls beside it go back byte for byte. Where that cannot be (an id twice, or one that the
/// route refuses), the thinking goes: the calls and what they found stay.
pub(super) fn unthink_edited(entries: &mut [Entry], policy: &Policy, notes: &mut Notes) {
    if !policy.signs_thinking() {
        return;
    }
    let mut edited = Vec::new();
    let mut kept: HashSet<&str> = HashSet::new();
    for (at, entry) in entries.iter().enumerate() {
        if entry.role() != Role::Assistant || !entry.message.content.iter().any(is_thinking) {
            continue;
        }
        let mut ids: Vec<&str> = Vec::new();
        let fits = entry.message.tool_calls().all(|call| {
            let fits = is_plain(call.id) && !ids.contains(&call.id) && !kept.contains(call.id);
            ids.push(call.id);
            fits
        });
        if fits {
            kept.extend(ids);
        } else {
            edited.push(at);
        }
    }
    for at in edited {
        thinking::leave_out(&mut entries[at], Rule::EditedThinking, |_| true, notes);
    }
}
