//! Thinking blocks: their owner, the validity of their signatures, and how many of them are sent back.

use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::policy::{DroppedThinking, HygienePolicy, Thinking};
use super::signature;
use super::target::Target;
use crate::agent::transcript::{Entry, EntryKind};
use crate::provider::{Block, Role};

/// The text for an answer that contained only thinking.
pub(super) const OMITTED: &str = "[assistant reasoning omitted]";

/// Returns `true` if the answer came over the request's own route: the same provider, API and model.
pub(super) fn is_own(entry: &Entry, target: &Target) -> bool {
    entry.about.route.as_ref() == Some(&target.route)
}

pub(super) const fn is_thinking(block: &Block) -> bool {
    matches!(block, Block::Thinking { .. })
}

/// Removes thinking from an answer. An answer that had nothing else keeps its place.
pub(super) fn leave_out(entry: &mut Entry, rule: Rule, goes: impl Fn(&Block) -> bool, notes: &mut RuleLog) {
    let goes = |block: &Block| is_thinking(block) && goes(block);
    if !entry.message.content.iter().any(goes) {
        return;
    }
    let message = Arc::make_mut(&mut entry.message);
    message.content.retain(|block| !goes(block));
    if message.content.is_empty() {
        message.content.push(Block::text(OMITTED));
    }
    notes.add(rule, entry);
}

/// Removes signatures from thinking that is older than the newest compaction. A signature is bound to everything before
/// it, and the compaction changed that. To be called before [`remove_invalid`], which then finds the thinking unsigned.
pub(super) fn unsign_before_compaction(entries: &mut [Entry], policy: &HygienePolicy, notes: &mut RuleLog) {
    if !policy.signs_thinking() {
        return;
    }
    let compactions = entries.iter().filter(|entry| entry.about.kind == EntryKind::Compacted);
    let Some(newest) = compactions.map(|entry| entry.about.at).max() else { return };
    let is_signed = |block: &Block| matches!(block, Block::Thinking { signature, redacted, .. } if signature.is_some() || redacted.is_some());
    for entry in entries.iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        if entry.about.at >= newest || !entry.message.content.iter().any(is_signed) {
            continue;
        }
        for block in &mut Arc::make_mut(&mut entry.message).content {
            if let Block::Thinking { signature, redacted, .. } = block {
                (*signature, *redacted) = (None, None);
            }
        }
        notes.add(Rule::StaleSignature, entry);
    }
}

/// Removes thinking of other routes, and thinking without a valid signature. The newest answer is no exception:
/// providers reject unsigned thinking there too.
pub(super) fn remove_invalid(
    entries: &mut [Entry],
    target: &Target,
    policy: &HygienePolicy,
    notes: &mut RuleLog,
) {
    let form: fn(&Block) -> bool = match policy.thinking {
        // Reasoning items are checked together with what follows them, after calls and results are paired.
        Thinking::Any | Thinking::Items => return,
        Thinking::Own => |_| true,
        Thinking::Signed => signature::is_signed,
        Thinking::SignedBase64 => signature::is_signed_in_base64,
    };
    for entry in entries.iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        if is_own(entry, target) {
            leave_out(entry, Rule::UnsignedThinking, |block| !form(block), notes);
        } else {
            leave_out(entry, Rule::ForeignThinking, |_| true, notes);
        }
    }
}

/// Removes thinking that the provider has rejected before, because it would reject it again.
pub(super) fn remove_rejected(entries: &mut [Entry], target: &Target, notes: &mut RuleLog) {
    let Some(until) = target.refused_until else { return };
    let answers = entries.iter_mut().filter(|entry| entry.role() == Role::Assistant);
    for entry in answers.filter(|entry| entry.about.at <= until) {
        leave_out(entry, Rule::OlderThinking, |_| true, notes);
    }
}

/// Removes thinking that the route would reject or waste tokens on, even if its signature is valid.
pub(super) fn remove_older(entries: &mut [Entry], policy: &HygienePolicy, notes: &mut RuleLog) {
    let until = match policy.drop {
        DroppedThinking::Nothing => 0,
        DroppedThinking::All => entries.len(),
        DroppedThinking::Older => {
            entries.iter().rposition(|entry| entry.role() == Role::Assistant).unwrap_or(0)
        }
        // Thinking since the last user message belongs to the calls that are still being answered.
        DroppedThinking::Prior => match entries.iter().rposition(|entry| entry.role() == Role::User) {
            Some(last) if is_running(&entries[last..]) => last,
            // Without a user message, or if the last turn is complete, no thinking is needed any more.
            _ => entries.len(),
        },
    };
    for entry in entries[..until].iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        leave_out(entry, Rule::OlderThinking, |_| true, notes);
    }
}

/// Returns `true` if a tool turn is still running: the last message since the user's is a tool result.
fn is_running(since: &[Entry]) -> bool {
    since.last().is_some_and(|entry| entry.role() == Role::Tool)
}
