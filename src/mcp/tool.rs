//! A granted tool of a server, as agents call it.

use std::sync::Arc;

use serde_json::Value;

use super::servers::Servers;
use crate::id::McpServerName;
use crate::provider::{BoxFuture, ToolSpec};
use crate::tool::{CallContext, Tool, ToolError, ToolOutput};

/// A tool that a person granted.
pub(super) struct GrantedTool {
    pub spec: ToolSpec,
    pub server: McpServerName,
    /// The server's own name of the tool.
    pub tool: String,
    pub servers: Arc<Servers>,
}

impl Tool for GrantedTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>> {
        Box::pin(self.servers.call(context, &self.server, &self.tool, arguments))
    }
}
