//! The result of a call whose turn ended before it had one.

use crate::provider::Block;

/// What such a call is told to have given: it may have been carried out or not.
pub const INTERRUPTED: &str = "interrupted, outcome unknown";

/// The result of a call of which nobody knows what it did.
#[must_use]
pub fn unknown_result(id: &str, name: &str) -> Block {
    Block::ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: [Block::text(INTERRUPTED)].into(),
        is_error: true,
    }
}
