//! Removes calls that no route accepts: cut off before their arguments, without an id, or with a model's control tokens
//! in their name. This comes before pairing, because a removed call leaves its result without a call.

use std::collections::HashSet;
use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::policy::HygienePolicy;
use super::target::Target;
use super::thinking::{self, is_thinking};
use crate::agent::transcript::Entry;
use crate::provider::call::is_plain;
use crate::provider::{Block, Role};

/// Removes malformed calls, and an answer that contained nothing else.
pub(super) fn remove_malformed(entries: &mut Vec<Entry>, target: &Target, notes: &mut RuleLog) {
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
            // The thinking is removed too: beside other blocks than it was signed with, the provider rejects it.
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

/// Returns the ids of unanswered calls of tools that the model is not offered. Answered ones stay, so that a
/// conversation survives a change of tools.
fn unknown_tools(entries: &[Entry], target: &Target) -> HashSet<String> {
    let Some(tools) = &target.tools else { return HashSet::new() };
    // Case is ignored, so that a call in another spelling still belongs to its tool.
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

/// Removes thinking beside calls that have to be edited.
///
/// If thinking is signed, the calls beside it must go back byte for byte. If an id is used twice or the route
/// rejects it, the id has to change. The thinking is then removed, and the calls and their results stay.
pub(super) fn remove_edited_thinking(entries: &mut [Entry], policy: &HygienePolicy, notes: &mut RuleLog) {
    if !policy.signs_thinking() {
        return;
    }
    // Collected first and changed afterwards, because the ids are borrowed from the messages.
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
