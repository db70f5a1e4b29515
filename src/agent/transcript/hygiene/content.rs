//! What a message may hold at all: blocks of its role, no blank text, no answer that no model said or finished.

use std::sync::Arc;

use super::applied::{Notes, Rule};
use super::policy::{Marks, Policy};
use super::provenance;
use super::target::Target;
use super::thinking;
use crate::agent::transcript::{Entry, Kind};
use crate::provider::google::signature::is_base64;
use crate::provider::{Block, Role, StopReason};

/// Stands for a result, or a user's message, of nothing but blanks.
pub(super) const OMITTED: &str = "[empty content omitted]";

/// Stands for what an answer held of a kind that this version does not know, where it held nothing else to read.
pub(super) const UNKNOWN: &str = "[content of an unknown kind omitted]";

pub(super) fn is_blank(block: &Block) -> bool {
    matches!(block, Block::Text { text, .. } if text.trim().is_empty())
}

/// Whether a text is there for its signature alone, as Gemini's last one can be.
fn carries_signature(block: &Block) -> bool {
    matches!(block, Block::Text { signature: Some(signature), .. } if is_base64(signature))
}

/// Leaves out what people alone are shown, what a failed call left behind and what has no content.
pub(super) fn tidy(entries: &mut Vec<Entry>, target: &Target, policy: &Policy, notes: &mut Notes) {
    entries.retain_mut(|entry| {
        if entry.role() == Role::Assistant {
            if entry.about.kind == Kind::ForPeople {
                notes.add(Rule::ForPeople, entry);
                return false;
            }
            if entry.about.kind == Kind::Filled {
                notes.add(Rule::Empty, entry);
                return false;
            }
            if is_reasoning_only(entry) {
                notes.add(Rule::ReasoningOnly, entry);
                return false;
            }
        }
        let had_unknown = has_unknown(entry);
        leave_out(entry, Rule::Foreign, |role, block| !belongs(role, block), notes);
        if matches!(entry.about.stop, Some(StopReason::Error | StopReason::Aborted)) {
            // Its thinking is not signed to the end, and nobody ran its calls: what a person saw of it stays.
            leave_out(entry, Rule::BrokenOff, |_, block| !matches!(block, Block::Text { .. }), notes);
        } else if had_unknown {
            stand_in(entry, notes);
        }
        let signs = matches!(policy.marks, Marks::Base64 { .. }) && thinking::is_own(entry, target);
        leave_out(
            entry,
            Rule::Blank,
            |_, block| is_blank(block) && !(signs && carries_signature(block)),
            notes,
        );
        fill_results(entry, notes);
        // A mark alone would be taken for that of whatever is said next.
        if !entry.message.content.iter().all(provenance::is_own) {
            return true;
        }
        notes.add(Rule::Empty, entry);
        if entry.role() == Role::User {
            Arc::make_mut(&mut entry.message).content.push(Block::text(OMITTED));
        }
        entry.role() == Role::User
    });
}

/// Whether this kind of block can be in a message of this role.
const fn belongs(role: Role, block: &Block) -> bool {
    match role {
        Role::User => matches!(block, Block::Text { .. } | Block::Image { .. }),
        Role::Assistant => !matches!(block, Block::ToolResult { .. } | Block::Image { .. } | Block::Other(_)),
        Role::Tool => matches!(block, Block::ToolResult { .. }),
    }
}

/// The provider's state of such an answer is incomplete.
fn is_reasoning_only(entry: &Entry) -> bool {
    let content = &entry.message.content;
    entry.about.stop == Some(StopReason::Length)
        && content.iter().any(|block| matches!(block, Block::Thinking { .. }))
        && content.iter().all(|block| matches!(block, Block::Thinking { .. }) || is_blank(block))
}

/// Whether an answer holds something of a kind that this version does not know.
fn has_unknown(entry: &Entry) -> bool {
    entry.role() == Role::Assistant
        && entry.message.content.iter().any(|block| matches!(block, Block::Other(_)))
}

/// Names what was left out of an answer, where nothing to read or run is left of it: it keeps its place. Thinking that was
/// cut off with it is not signed to the end.
fn stand_in(entry: &mut Entry, notes: &mut Notes) {
    if !entry.message.content.iter().all(|block| thinking::is_thinking(block) || is_blank(block)) {
        return;
    }
    if entry.about.stop == Some(StopReason::Length) {
        leave_out(entry, Rule::ReasoningOnly, |_, block| thinking::is_thinking(block), notes);
    }
    Arc::make_mut(&mut entry.message).content.push(Block::text(UNKNOWN));
}

fn leave_out(entry: &mut Entry, rule: Rule, goes: impl Fn(Role, &Block) -> bool, notes: &mut Notes) {
    let role = entry.role();
    if entry.message.content.iter().any(|block| goes(role, block)) {
        Arc::make_mut(&mut entry.message).content.retain(|block| !goes(role, block));
        notes.add(rule, entry);
    }
}

/// What a result may not be: empty, partly blank, or anything but texts and pictures.
fn is_lacking(content: &[Block]) -> bool {
    content.is_empty()
        || content
            .iter()
            .any(|part| is_blank(part) || !matches!(part, Block::Text { .. } | Block::Image { .. }))
}

fn fill_results(entry: &mut Entry, notes: &mut Notes) {
    let lacks = |block: &Block| matches!(block, Block::ToolResult { content, .. } if is_lacking(content));
    if !entry.message.content.iter().any(lacks) {
        return;
    }
    for block in &mut Arc::make_mut(&mut entry.message).content {
        if let Block::ToolResult { content, .. } = block
            && is_lacking(content)
        {
            let says = |part: &&Block| !is_lacking(std::slice::from_ref(*part));
            let mut kept: Vec<Block> = content.iter().filter(says).cloned().collect();
            if kept.is_empty() {
                kept.push(Block::text(OMITTED));
            }
            *content = kept.into();
        }
    }
    notes.add(Rule::Blank, entry);
}
