//! Checks the content of each message: only blocks that fit its role, no blank text, no answer that no model gave or
//! finished.

use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::inter_session;
use super::policy::{HygienePolicy, SignatureRule};
use super::target::Target;
use super::thinking;
use crate::agent::transcript::{Entry, EntryKind};
use crate::provider::google::signature::is_base64;
use crate::provider::{Block, Role, StopReason};

/// The text for a result or a user message that contained only whitespace.
pub(super) const OMITTED: &str = "[empty content omitted]";

/// The text for an answer whose only readable content is of a kind that this version does not know.
pub(super) const UNKNOWN: &str = "[content of an unknown kind omitted]";

pub(super) fn is_blank(block: &Block) -> bool {
    matches!(block, Block::Text { text, .. } if text.trim().is_empty())
}

/// Returns `true` for a text that exists only for its signature, as Gemini's last one may.
fn has_base64_signature(block: &Block) -> bool {
    matches!(block, Block::Text { signature: Some(signature), .. } if is_base64(signature))
}

/// Removes answers that only people are shown, the remains of failed calls, and messages without content.
pub(super) fn tidy(entries: &mut Vec<Entry>, target: &Target, policy: &HygienePolicy, notes: &mut RuleLog) {
    entries.retain_mut(|entry| {
        let removed = match entry.about.kind {
            EntryKind::ForPeople => Some(Rule::ForPeople),
            EntryKind::Filled => Some(Rule::Empty),
            _ => is_reasoning_only(entry).then_some(Rule::ReasoningOnly),
        };
        if let Some(rule) = removed.filter(|_| entry.role() == Role::Assistant) {
            notes.add(rule, entry);
            return false;
        }
        // Looked up before the blocks are removed.
        let had_unknown = has_unknown(entry);
        remove_blocks(entry, Rule::ForeignBlock, |role, block| !is_allowed(role, block), notes);
        if matches!(entry.about.stop, Some(StopReason::Error | StopReason::Aborted)) {
            // Its thinking is not signed to the end and its calls were never run. A person has seen its text, so that
            // stays.
            remove_blocks(entry, Rule::BrokenOff, |_, block| !matches!(block, Block::Text { .. }), notes);
        } else if had_unknown {
            insert_note(entry, notes);
        }
        // Gemini may put a signature on an empty text, which has to go back to it.
        let signs = matches!(policy.marks, SignatureRule::Base64 { .. }) && thinking::is_own(entry, target);
        remove_blocks(
            entry,
            Rule::Blank,
            |_, block| is_blank(block) && !(signs && has_base64_signature(block)),
            notes,
        );
        fill_results(entry, notes);
        // A mark on its own would be read as belonging to the next message.
        if !entry.message.content.iter().all(inter_session::is_own) {
            return true;
        }
        notes.add(Rule::Empty, entry);
        if entry.role() == Role::User {
            Arc::make_mut(&mut entry.message).content.push(Block::text(OMITTED));
        }
        entry.role() == Role::User
    });
}

/// Returns `true` if a message of this role may contain this kind of block.
const fn is_allowed(role: Role, block: &Block) -> bool {
    match role {
        Role::User => matches!(block, Block::Text { .. } | Block::Image { .. }),
        Role::Assistant => !matches!(block, Block::ToolResult { .. } | Block::Image { .. } | Block::Other(_)),
        Role::Tool => matches!(block, Block::ToolResult { .. }),
    }
}

/// Returns `true` for an answer that reached its limit while thinking. The provider state in it is incomplete.
fn is_reasoning_only(entry: &Entry) -> bool {
    let content = &entry.message.content;
    entry.about.stop == Some(StopReason::Length)
        && content.iter().any(|block| matches!(block, Block::Thinking { .. }))
        && content.iter().all(|block| matches!(block, Block::Thinking { .. }) || is_blank(block))
}

/// Returns `true` if an answer has a block of a kind that this version does not know.
fn has_unknown(entry: &Entry) -> bool {
    entry.role() == Role::Assistant
        && entry.message.content.iter().any(|block| matches!(block, Block::Other(_)))
}

/// Adds a note about removed content to an answer that has nothing left to read or run, so that it keeps its place. If
/// the answer was cut off, its thinking is not signed to the end and is removed.
fn insert_note(entry: &mut Entry, notes: &mut RuleLog) {
    if !entry.message.content.iter().all(|block| thinking::is_thinking(block) || is_blank(block)) {
        return;
    }
    if entry.about.stop == Some(StopReason::Length) {
        remove_blocks(entry, Rule::ReasoningOnly, |_, block| thinking::is_thinking(block), notes);
    }
    Arc::make_mut(&mut entry.message).content.push(Block::text(UNKNOWN));
}

fn remove_blocks(entry: &mut Entry, rule: Rule, goes: impl Fn(Role, &Block) -> bool, notes: &mut RuleLog) {
    let role = entry.role();
    if entry.message.content.iter().any(|block| goes(role, block)) {
        Arc::make_mut(&mut entry.message).content.retain(|block| !goes(role, block));
        notes.add(rule, entry);
    }
}

/// Returns `true` for an invalid result: empty, partly blank, or with anything but texts and pictures.
fn is_invalid_result(content: &[Block]) -> bool {
    content.is_empty()
        || content
            .iter()
            .any(|part| is_blank(part) || !matches!(part, Block::Text { .. } | Block::Image { .. }))
}

fn fill_results(entry: &mut Entry, notes: &mut RuleLog) {
    let lacks =
        |block: &Block| matches!(block, Block::ToolResult { content, .. } if is_invalid_result(content));
    if !entry.message.content.iter().any(lacks) {
        return;
    }
    for block in &mut Arc::make_mut(&mut entry.message).content {
        if let Block::ToolResult { content, .. } = block
            && is_invalid_result(content)
        {
            // Valid parts of a result stay. Only a result without any gets the note.
            let says = |part: &&Block| !is_invalid_result(std::slice::from_ref(*part));
            let mut kept: Vec<Block> = content.iter().filter(says).cloned().collect();
            if kept.is_empty() {
                kept.push(Block::text(OMITTED));
            }
            *content = kept.into();
        }
    }
    notes.add(Rule::Blank, entry);
}
