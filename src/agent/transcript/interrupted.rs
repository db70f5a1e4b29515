//! The result of a call whose turn ended before the call did.

use crate::provider::Block;

/// The text of such a result. The call may have been carried out or not.
pub const INTERRUPTED: &str = "interrupted, outcome unknown";

/// Returns the result for a call with an unknown outcome.
#[must_use]
pub fn unknown_result(id: &str, name: &str) -> Block {
    Block::ToolResult {
        call_id: id.to_owned(),
        name: name.to_owned(),
        content: [Block::text(INTERRUPTED)].into(),
        is_error: true,
    }
}
