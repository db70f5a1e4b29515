//! The result of a tool call within its limits: what the model reads, and what only a program is given.

use super::result_limits::{bound, text};
use crate::provider::Block;
use crate::tool::{Attachment, ToolOutput};

/// The result of a tool call.
pub(super) struct CallResult {
    /// Text and pictures.
    pub(super) content: Vec<Block>,
    /// `true` if the result is an error that the model reads.
    pub(super) is_error: bool,
    /// Parts for a program that made the call by MCP. They are in no record.
    pub(super) attachments: Vec<Attachment>,
}

impl CallResult {
    /// Returns the result of a call that has an answer of flock's own.
    pub(super) fn answer(answer: &str) -> Self {
        Self { content: text(answer), is_error: false, attachments: Vec::new() }
    }

    /// Returns the result of a call that failed or was not run.
    pub(super) fn error(reason: &str) -> Self {
        Self { is_error: true, ..Self::answer(reason) }
    }
}

impl From<ToolOutput> for CallResult {
    fn from(output: ToolOutput) -> Self {
        let ToolOutput { content, attachments } = bound(output);
        Self { content, is_error: false, attachments }
    }
}
