//! Pictures as the route takes them.

use std::sync::Arc;

use super::applied::{Notes, Rule};
use super::policy::Policy;
use super::target::Target;
use crate::agent::transcript::Entry;
use crate::provider::Block;

/// Pictures that were made smaller before, so that each is encoded once and not at every request.
#[derive(Debug, Default)]
pub struct Pictures {}

/// Makes each picture fit, or names it where it cannot be shown.
pub(super) fn fit(entries: &mut [Entry], target: &Target, _policy: &Policy, notes: &mut Notes) {
    let is_picture = |block: &Block| matches!(block, Block::Image { .. });
    let shows = |block: &Block| match block {
        Block::ToolResult { content, .. } => content.iter().any(is_picture),
        other => is_picture(other),
    };
    for entry in entries.iter_mut() {
        if target.images || !entry.message.content.iter().any(shows) {
            continue;
        }
        for block in &mut Arc::make_mut(&mut entry.message).content {
            if let Block::ToolResult { content, .. } = block {
                let mut named = content.to_vec();
                named.iter_mut().for_each(name);
                *content = named.into();
            } else {
                name(block);
            }
        }
        notes.add(Rule::Picture, entry);
    }
}

fn name(block: &mut Block) {
    if let Block::Image { media_type, .. } = block {
        *block = Block::text(format!("[a picture ({media_type}); this model does not take pictures]"));
    }
}
