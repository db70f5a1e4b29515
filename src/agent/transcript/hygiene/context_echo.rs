//! Removes flock's own context from answers in which a model repeated it. In the next request it would pass for flock's
//! words, and models imitate what they have written before.

use std::sync::Arc;

use super::applied_rules::{Rule, RuleLog};
use crate::agent::context_wrapper::unwrapped;
use crate::agent::transcript::Entry;
use crate::provider::{Block, Role};

/// Removes wrappers from the beginning and the end of answers. A signed text belongs to the provider and is not
/// changed.
pub(super) fn unwrap(entries: &mut [Entry], notes: &mut RuleLog) {
    for entry in entries.iter_mut().filter(|entry| entry.role() == Role::Assistant) {
        if !entry.message.content.iter().any(|block| bare(block).is_some()) {
            continue;
        }
        for block in &mut Arc::make_mut(&mut entry.message).content {
            if let Some(bare) = bare(block) {
                *block = Block::text(bare);
            }
        }
        notes.add(Rule::Echo, entry);
    }
}

fn bare(block: &Block) -> Option<String> {
    match block {
        Block::Text { text, signature: None } => unwrapped(text).map(str::to_owned),
        _ => None,
    }
}
