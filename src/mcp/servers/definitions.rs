//! The definitions of granted tools: what a person has seen, and what the servers say now.

use std::sync::Arc;

use super::super::definition::ListedTool;
use super::super::error::McpError;
use super::super::running::Running;
use super::Servers;
use super::calls::for_model;
use crate::clock::unix_ms;
use crate::id::McpServerName;
use crate::store::PinnedTool;
use crate::tool::{CallContext, ToolError};

impl Servers {
    /// Returns the tools of a running server. What is new among them is compared with what was granted.
    pub(super) async fn tools_of(&self, running: &Running) -> Result<Arc<Vec<ListedTool>>, McpError> {
        let (tools, is_new) = running.tools().await?;
        if is_new {
            self.compare(&running.server.name, &tools).await?;
        }
        Ok(tools)
    }

    /// Records which of the granted tools a server defines differently now.
    pub(super) async fn compare(&self, server: &McpServerName, tools: &[ListedTool]) -> Result<(), McpError> {
        let (pins, _) = self.store.mcp_tools().all().await?;
        for pin in pins.into_iter().filter(|pin| pin.server == *server) {
            self.note_change(&pin, tools).await?;
        }
        Ok(())
    }

    /// Records if a server defines a granted tool differently now. Returns the other definition's digest.
    async fn note_change(&self, pin: &PinnedTool, tools: &[ListedTool]) -> Result<Option<String>, McpError> {
        let Some(Ok(now)) = tools.iter().find(|tool| tool.name == pin.tool).map(|tool| &tool.definition)
        else {
            // A tool that is gone, or that can't be used any more, can't be called either.
            return Ok(None);
        };
        let changed = (now.sha256 != pin.sha256).then(|| (now.canonical.clone(), now.sha256.clone()));
        let known = pin.changed.as_ref().map(|(_, sha256)| sha256);
        if known != changed.as_ref().map(|(_, sha256)| sha256) {
            let (server, tool) = (pin.server.clone(), pin.tool.clone());
            self.store.mcp_tools().note_change(server, tool, changed.clone(), unix_ms()).await?;
            tracing::warn!(server = %pin.server, tool = pin.tool, changed = changed.is_some(),
                "the definition of a tool of an MCP server is not what it was");
        }
        Ok(changed.map(|(_, sha256)| sha256))
    }

    /// Accepts the changed definition of a tool, if it is still the one with this digest. Returns `false` if it is not.
    pub(crate) async fn accept(
        &self,
        (server, tool): (&McpServerName, &str),
        sha256: &str,
        by: &str,
    ) -> Result<bool, McpError> {
        let tools = self.store.mcp_tools();
        let (name, sha256, by) = (tool.to_owned(), sha256.to_owned(), by.to_owned());
        let is_accepted = tools.accept_change(server.clone(), name, sha256, by, unix_ms()).await?;
        self.refresh().await?;
        Ok(is_accepted)
    }

    /// Returns the definition that a person has seen, if the server has no other one now.
    pub(super) async fn check_listed(
        &self,
        context: &CallContext,
        (server, tool): (&McpServerName, &str),
        tools: &[ListedTool],
    ) -> Result<PinnedTool, ToolError> {
        let pin = self.store.mcp_tools().find(server, tool).await;
        let pin = pin.map_err(|error| ToolError::Fatal(Box::new(error)))?;
        let pin = pin.ok_or_else(|| ToolError::model(format!("{tool} of {server} was taken back")))?;
        self.check_definition(context, &pin, tools).await?;
        Ok(pin)
    }

    /// Returns an error unless the server defines a tool as a person has seen it.
    async fn check_definition(
        &self,
        context: &CallContext,
        pin: &PinnedTool,
        tools: &[ListedTool],
    ) -> Result<(), ToolError> {
        let (server, tool) = (&pin.server, &pin.tool);
        match tools.iter().find(|listed| listed.name == *tool).map(|listed| &listed.definition) {
            None => Err(ToolError::model(format!("the MCP server {server} has no tool {tool} any more"))),
            Some(Err(why)) => {
                Err(ToolError::model(format!("{tool} of {server} can't be used any more: {why}")))
            }
            Some(Ok(_)) => {
                let changed = self.note_change(pin, tools).await.map_err(|error| for_model(&error))?;
                let Some(sha256) = changed else { return Ok(()) };
                let told = match self.review.get() {
                    Some(review) => review.changed(context, server, tool, &sha256).await,
                    None => "a person has to look at it".to_owned(),
                };
                Err(ToolError::model(format!(
                    "not run: the MCP server {server} describes {tool} differently than when it was granted. {told}"
                )))
            }
        }
    }
}
