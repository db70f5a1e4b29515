//! Signatures on texts and calls: ids of message items in the Responses API, and Gemini's thought signatures.

use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::policy::{HygienePolicy, SignatureRule};
use super::signature;
use super::target::Target;
use super::thinking;
use crate::agent::transcript::Entry;
use crate::provider::google::signature::{PLACEHOLDER_SIGNATURE, is_base64};
use crate::provider::{Block, Role, responses};

/// Removes signatures that the route would reject, and adds those that it requires.
pub(super) fn clean(entries: &mut [Entry], target: &Target, policy: &HygienePolicy, notes: &mut RuleLog) {
    for entry in entries.iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        // The signature of a text or call also covers the thinking before it, so a rejection of the thinking concerns
        // it too.
        let own = thinking::is_own(entry, target)
            && target.refused_until.is_none_or(|until| entry.about.at > until);
        let goes = |signature: &str| match policy.marks {
            SignatureRule::Untouched => false,
            SignatureRule::NoItems => signature::is_item_id(signature),
            SignatureRule::Own => !own,
            SignatureRule::Base64 { .. } => {
                signature != PLACEHOLDER_SIGNATURE && (!own || !is_base64(signature))
            }
        };
        // A mark that would be replaced by itself is not counted as a change.
        let is_marked = |block: &Block| {
            mark(block).is_some_and(|mark| goes(mark) && left(block, policy).as_deref() != Some(mark))
        };
        if entry.message.content.iter().any(is_marked) {
            for block in &mut Arc::make_mut(&mut entry.message).content {
                let left = left(block, policy);
                if is_marked(block)
                    && let Block::Text { signature, .. } | Block::ToolCall { signature, .. } = block
                {
                    *signature = left;
                }
            }
            notes.add(Rule::ForeignSignature, entry);
        }
        if policy.marks == (SignatureRule::Base64 { stand_in: true }) {
            stand_in(entry, notes);
        }
    }
}

fn mark(block: &Block) -> Option<&str> {
    match block {
        Block::Text { signature, .. } | Block::ToolCall { signature, .. } => signature.as_deref(),
        _ => None,
    }
}

/// Returns the part of a removed signature that stays. Between models of the Responses API, a text keeps the phase of
/// the answer that it belongs to.
pub(super) fn left(block: &Block, policy: &HygienePolicy) -> Option<String> {
    match block {
        Block::Text { signature: Some(mark), .. } if policy.marks == SignatureRule::Own => {
            responses::strip_item_id(mark)
        }
        _ => None,
    }
}

/// Adds the placeholder signature to an answer's first call: of parallel calls, only the first is signed.
fn stand_in(entry: &mut Entry, notes: &mut RuleLog) {
    let is_call = |block: &Block| matches!(block, Block::ToolCall { .. });
    let Some(first) = entry.message.content.iter().position(is_call) else { return };
    // A call that already has a signature keeps it.
    if mark(&entry.message.content[first]).is_some() {
        return;
    }
    if let Some(Block::ToolCall { signature, .. }) = Arc::make_mut(&mut entry.message).content.get_mut(first)
    {
        *signature = Some(PLACEHOLDER_SIGNATURE.to_owned());
    }
    notes.add(Rule::SignatureStandIn, entry);
}
