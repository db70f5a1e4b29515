//! Reasoning items of the Responses API. An item goes back whole, in its place and only to the model that made it,
//! together with the output that followed it. Output whose reasoning was removed must not refer to it any more.

use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use super::policy::{HygienePolicy, Thinking};
use super::signature;
use super::target::Target;
use super::text_signatures;
use super::thinking::{self, is_thinking};
use crate::agent::transcript::Entry;
use crate::provider::{Block, Role};

/// Removes reasoning that is not an item, items of another route, items from before another route answered, and items
/// that nothing follows.
///
/// A removed item stays removed: when the conversation returns to a route, its older items do not.
pub(super) fn remove_orphaned(
    entries: &mut Vec<Entry>,
    target: &Target,
    policy: &HygienePolicy,
    notes: &mut RuleLog,
) {
    if policy.thinking != Thinking::Items {
        return;
    }
    let is_other = |entry: &Entry| entry.role() == Role::Assistant && !thinking::is_own(entry, target);
    let switched = entries.iter().rposition(is_other).unwrap_or(0);
    let mut at = 0;
    entries.retain_mut(|entry| {
        let place = at;
        at += 1;
        if entry.role() != Role::Assistant || !entry.message.content.iter().any(is_thinking) {
            return true;
        }
        let own = thinking::is_own(entry, target) && place >= switched;
        let content = &entry.message.content;
        let last = content.iter().rposition(|block| !is_thinking(block));
        let followed = last.map_or(0, |last| last + 1);
        let is_good = |(at, block): (usize, &Block)| {
            !is_thinking(block) || (own && at < followed && signature::is_reasoning_item(block))
        };
        if content.iter().enumerate().all(is_good) {
            return true;
        }
        notes.add(if own { Rule::OrphanReasoning } else { Rule::ForeignThinking }, entry);
        let content = &mut Arc::make_mut(&mut entry.message).content;
        let mut at = 0;
        // `retain` gives no index, so one is counted.
        content.retain(|block| {
            at += 1;
            is_good((at - 1, block))
        });
        // A message item without its reasoning is rejected as well, so its id is removed.
        for block in content.iter_mut() {
            let left = text_signatures::left(block, policy);
            if let Block::Text { signature, .. } = block {
                *signature = left;
            }
        }
        !content.is_empty()
    });
}
