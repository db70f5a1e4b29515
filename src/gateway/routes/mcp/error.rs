//! Errors as MCP has them: with the codes of JSON-RPC.

use serde_json::{Value, json};

use super::MAX_NAME;
use crate::tool::safe_text;

pub(super) const PARSE_ERROR: i32 = -32_700;
pub(super) const INVALID_REQUEST: i32 = -32_600;
pub(super) const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;
const INTERNAL: i32 = -32_603;
/// The code of MCP itself for a resource that does not exist.
const NOT_FOUND: i32 = -32_002;
/// The code that MCP's own implementations have for a session that does not exist.
pub(super) const NO_SESSION: i32 = -32_001;

/// Most bytes of an address that an error repeats.
const MAX_URI: usize = 4 * MAX_NAME;

/// The error of a request.
#[derive(Debug, PartialEq)]
pub(super) struct McpError {
    code: i32,
    text: String,
    data: Option<Value>,
}

impl McpError {
    pub(super) fn new(code: i32, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), data: None }
    }

    /// Returns the error of a request with wrong parameters.
    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, text)
    }

    /// Returns the error of a request that can't be answered now.
    pub(super) fn internal(text: impl Into<String>) -> Self {
        Self::new(INTERNAL, text)
    }

    /// Returns the error of a resource that does not exist for this agent.
    pub(super) fn not_found(uri: &str, text: impl Into<String>) -> Self {
        let data = Some(json!({"uri": safe_text::start(uri, MAX_URI)}));
        Self { data, ..Self::new(NOT_FOUND, text) }
    }

    /// Returns the message with this error.
    pub(super) fn response(self, id: &Value) -> Value {
        let mut error = json!({"code": self.code, "message": self.text});
        if let Some(data) = self.data {
            error["data"] = data;
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error})
    }
}
