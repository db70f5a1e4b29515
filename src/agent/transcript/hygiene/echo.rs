//! What a model repeated of what flock put beside a person's words. Left in an answer, it would pass for flock's in the next
//! request, and models do what they have seen themselves do.

use std::sync::Arc;

use super::applied::{Notes, Rule};
use crate::agent::transcript::Entry;
use crate::agent::wrapper::unwrapped;
use crate::provider::{Block, Role};

/// Takes wrappers off the beginning and the end of answers. A signed text is the provider's, and stays.
pub(super) fn unwrap(entries: &mut [Entry], notes: &mut Notes) {
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
