//! Granting the tools of servers to agents, and taking them back.

use std::sync::Arc;

use super::super::definition::ListedTool;
use super::super::error::McpError;
use super::{ServerState, Servers};
use crate::clock::unix_ms;
use crate::id::{AgentId, McpServerName};
use crate::store::{
    AuditEntry, Level, McpCapability, McpCapabilityGrant, McpGrant, McpRevocation, NewMcpGrant, PinnedTool,
};

/// The grants of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Grants {
    /// The tools whose definitions a person has seen.
    pub pins: Vec<PinnedTool>,
    pub tools: Vec<McpGrant>,
    pub capabilities: Vec<McpCapabilityGrant>,
}

/// The reason why tools were not granted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GrantError {
    #[error(transparent)]
    Server(#[from] McpError),
    #[error("there is no agent {0}")]
    NoAgent(AgentId),
    #[error("the MCP server {0} has no tool {1:?}")]
    NoTool(McpServerName, String),
    #[error("the tool {0:?} can't be granted: {1}")]
    Unusable(String, String),
    /// The definition is not the one that the person was shown.
    #[error("the definition of {0:?} has changed since it was shown")]
    Changed(String),
}

impl Servers {
    /// Starts a server if it does not run, and returns its tools.
    pub(crate) async fn list(
        &self,
        name: &McpServerName,
    ) -> Result<(ServerState, Arc<Vec<ListedTool>>), McpError> {
        let running = self.running(name).await?;
        let _use = running.begin();
        let tools = self.tools_of(&running).await?;
        Ok((self.state(name), tools))
    }

    /// Grants tools to an agent: names, and the digests of the definitions that a person was shown.
    pub(crate) async fn grant(
        &self,
        (server, agent): (&McpServerName, &AgentId),
        (shown, capabilities): (&[(String, String)], &[McpCapability]),
        readonly_ok: bool,
        by: &str,
    ) -> Result<(), GrantError> {
        if self.live.current().agent(agent).is_none() {
            return Err(GrantError::NoAgent(agent.clone()));
        }
        let listed = if shown.is_empty() { Arc::default() } else { self.list(server).await?.1 };
        let mut tools = Vec::with_capacity(shown.len());
        for (name, sha256) in shown {
            let found = listed.iter().find(|tool| tool.name == *name);
            let found = found.ok_or_else(|| GrantError::NoTool(server.clone(), name.clone()))?;
            let now = found.definition.as_ref();
            let now = now.map_err(|why| GrantError::Unusable(name.clone(), why.clone()))?;
            if now.sha256 != *sha256 {
                return Err(GrantError::Changed(name.clone()));
            }
            tools.push((name.clone(), now.canonical.clone(), now.sha256.clone()));
        }
        let names: Vec<&str> = tools
            .iter()
            .map(|(name, ..)| name.as_str())
            .chain(capabilities.iter().map(|capability| capability.as_str()))
            .collect();
        let detail = format!("to {agent}: {}", names.join(", "));
        let entry = AuditEntry::new(by, "mcp.grant", server.as_str(), Level::Yellow, detail);
        let new = NewMcpGrant {
            server: server.clone(),
            agent: agent.clone(),
            tools,
            capabilities: capabilities.to_vec(),
            readonly_ok,
            by: by.to_owned(),
            now: unix_ms(),
        };
        self.store.mcp_tools().grant(new, entry).await.map_err(McpError::from)?;
        Ok(self.refresh().await?)
    }

    /// Takes grants away from an agent. Returns their number.
    pub(crate) async fn revoke(
        &self,
        (server, agent): (&McpServerName, &AgentId),
        revocation: McpRevocation,
        by: &str,
    ) -> Result<usize, McpError> {
        let which = match &revocation {
            McpRevocation::All => "everything of it".to_owned(),
            McpRevocation::These(names, capabilities) => {
                let capabilities = capabilities.iter().map(|capability| capability.as_str());
                names.iter().map(String::as_str).chain(capabilities).collect::<Vec<_>>().join(", ")
            }
        };
        let detail = format!("from {agent}: {which}");
        let entry = AuditEntry::new(by, "mcp.revoke", server.as_str(), Level::Yellow, detail);
        let tools = self.store.mcp_tools();
        let ended = tools.revoke(server.clone(), agent.clone(), revocation, entry, unix_ms()).await?;
        self.refresh().await?;
        Ok(ended)
    }

    /// Forgets a server that was taken out of the configuration: its grants, and its sandbox. Its files stay.
    pub(crate) async fn forget(&self, server: &McpServerName, by: &str) -> Result<(), McpError> {
        let entry = AuditEntry::new(by, "mcp.remove", server.as_str(), Level::Yellow, String::new());
        self.store.mcp_tools().forget_server(server.clone(), entry, unix_ms()).await?;
        self.stop(server, "it was removed").await;
        self.launcher.release(server).await?;
        self.refresh().await
    }

    /// Returns what was granted of all servers.
    pub(crate) async fn granted(&self) -> Result<Grants, McpError> {
        let (pins, tools) = self.store.mcp_tools().all().await?;
        let capabilities = self.store.mcp_tools().capabilities().await?;
        Ok(Grants { pins, tools, capabilities })
    }
}
