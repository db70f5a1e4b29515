//! The place of a server among several gateways: one of them runs it, and the others have it make their agents' calls.

use std::any::Any;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::error::McpError;
use super::Servers;
use crate::config::McpServer;
use crate::id::{AgentId, McpServerName, SessionKey, TurnId};
use crate::provider::BoxFuture;
use crate::tool::{CallContext, ToolError, ToolOutput};

/// A guard. While it lives, no other gateway runs the server.
pub(crate) type Hold = Box<dyn Any + Send + Sync>;

/// The call of a tool, as one gateway tells it another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServerCall {
    pub agent: AgentId,
    pub session: SessionKey,
    pub turn: TurnId,
    pub server: McpServerName,
    /// The server's own name of the tool.
    pub tool: String,
    pub arguments: Value,
}

/// Knows which gateway runs a server.
pub(crate) trait ServerPlace: Send + Sync + 'static {
    /// Returns `true` if there may be other gateways.
    fn is_shared(&self) -> bool;

    /// Begins to run a server here. Returns `None` if another gateway may run it.
    fn enter(&self, server: &McpServerName) -> Option<Hold>;

    /// Has a call made by the gateway that runs the server. Returns `None` if that is this one.
    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        call: ServerCall,
    ) -> BoxFuture<'a, Option<Result<ToolOutput, ToolError>>>;
}

impl Servers {
    /// Sets who knows which gateway runs a server. Only the first call has an effect. Before it, all servers run here.
    pub(crate) fn placed_by(&self, place: Arc<dyn ServerPlace>) {
        drop(self.place.set(place));
    }

    /// Begins to run a server here. One at a URL has no folder, and any gateway may use it.
    pub(super) fn enter(&self, server: &McpServer) -> Result<Option<Hold>, McpError> {
        let Some(place) = self.place.get().filter(|_| server.remote.is_none()) else { return Ok(None) };
        place.enter(&server.name).map(Some).ok_or_else(|| McpError::Elsewhere(server.name.clone()))
    }

    /// Has a call made by another gateway, if one runs the server.
    pub(super) async fn call_elsewhere(
        &self,
        context: &CallContext,
        (server, tool): (&McpServer, &str),
        arguments: &Value,
    ) -> Option<Result<ToolOutput, ToolError>> {
        let place = self.place.get().filter(|place| server.remote.is_none() && place.is_shared())?;
        let call = ServerCall {
            agent: context.agent.clone(),
            session: context.session.clone(),
            turn: context.turn,
            server: server.name.clone(),
            tool: tool.to_owned(),
            arguments: arguments.clone(),
        };
        place.call(context, call).await
    }
}
