//! Thinking: whose it is, whether its signature still holds, and how much of it goes back.

use std::sync::Arc;

use super::applied::{Notes, Rule};
use super::policy::{Drop, Policy, Thinking};
use super::signature;
use super::target::Target;
use crate::agent::transcript::{Entry, Kind};
use crate::provider::{Block, Role};

/// Stands for an answer of which nothing but thinking was there.
pub(super) const OMITTED: &str = "[assistant reasoning omitted]";

/// Whether the answer came over the route that the request takes: provider, wire format and model.
pub(super) fn is_own(entry: &Entry, target: &Target) -> bool {
    entry.about.route.as_ref() == Some(&target.route)
}

pub(super) const fn is_thinking(block: &Block) -> bool {
    matches!(block, Block::Thinking { .. })
}

/// Takes thinking out of one answer. A turn that held nothing else keeps its place.
pub(super) fn leave_out(entry: &mut Entry, rule: Rule, goes: impl Fn(&Block) -> bool, notes: &mut Notes) {
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

/// A signature is bound to what came before it, and compaction changed that: what is older than the newest compaction
/// loses it. Before [`keep_valid`], which then finds it unsigned.
pub(super) fn unsign_before_compaction(entries: &mut [Entry], policy: &Policy, notes: &mut Notes) {
    if !policy.signs_thinking() {
        return;
    }
    let compactions = entries.iter().filter(|entry| entry.about.kind == Kind::Compacted);
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

/// Leaves out what this route did not think, or could not be shown to have thought. The newest answer is no exception:
/// what is not signed there would be refused as well.
pub(super) fn keep_valid(entries: &mut [Entry], target: &Target, policy: &Policy, notes: &mut Notes) {
    let form: fn(&Block) -> bool = match policy.thinking {
        // Items are looked at with what follows them, once calls and results are paired.
        Thinking::Any | Thinking::Items => return,
        Thinking::Own => |_| true,
        Thinking::Signed => signature::is_signed,
        Thinking::SignedBase64 => signature::is_signed_in_base64,
    };
    for entry in entries.iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        if is_own(entry, target) {
            leave_out(entry, Rule::Unsigned, |block| !form(block), notes);
        } else {
            leave_out(entry, Rule::ForeignThinking, |_| true, notes);
        }
    }
}

/// Leaves out what the provider has refused before: it would refuse it again.
pub(super) fn leave_out_refused(entries: &mut [Entry], target: &Target, notes: &mut Notes) {
    let Some(until) = target.refused_until else { return };
    let answers = entries.iter_mut().filter(|entry| entry.role() == Role::Assistant);
    for entry in answers.filter(|entry| entry.about.at <= until) {
        leave_out(entry, Rule::OlderThinking, |_| true, notes);
    }
}

/// Leaves out what the route would refuse or waste tokens on, however well it is signed.
pub(super) fn drop_older(entries: &mut [Entry], policy: &Policy, notes: &mut Notes) {
    let until = match policy.drop {
        Drop::Nothing => 0,
        Drop::All => entries.len(),
        Drop::Older => entries.iter().rposition(|entry| entry.role() == Role::Assistant).unwrap_or(0),
        // What was thought since the user last spoke belongs to the calls that are still being answered.
        Drop::Prior => match entries.iter().rposition(|entry| entry.role() == Role::User) {
            Some(last) if is_running(&entries[last..]) => last,
            _ => entries.len(),
        },
    };
    for entry in entries[..until].iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        leave_out(entry, Rule::OlderThinking, |_| true, notes);
    }
}

/// Whether a tool turn goes on after the user's last message: its results are the last that was said.
fn is_running(since: &[Entry]) -> bool {
    since.last().is_some_and(|entry| entry.role() == Role::Tool)
}
