//! The rules on what each agent may reach, and the record of its connections.

use std::time::Duration;

use super::rule::{EgressRule, Host};
use crate::config::Network;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::docker::ConfigSource;

/// The rules on what agents may reach. An implementation adds approvals to the configuration.
pub trait EgressPolicy: Send + Sync {
    /// Returns the agent's current rules. This is called for each connection and repeatedly while one is open, on the
    /// async runtime's threads, so it must be quick.
    fn rules<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>>;

    /// Records a connection that has ended or was refused.
    fn note(&self, agent: &AgentId, connection: &ConnectionRecord);
}

/// The record of an agent's connection: its target and size, and nothing of its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionRecord {
    pub host: Host,
    pub port: u16,
    pub fate: ConnectionOutcome,
    /// The number of bytes that came from the sandbox.
    pub sent: u64,
    /// The number of bytes that went to the sandbox.
    pub received: u64,
    /// The time from the request to the end.
    pub took: Duration,
}

/// The outcome of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionOutcome {
    /// It was established.
    Connected,
    /// No rule allows it.
    NotAllowed,
    /// A rule allows it, but its name has no address in the public internet.
    NotPublic,
    /// It was allowed but could not be established.
    Failed,
}

impl ConnectionOutcome {
    /// Returns the word for logs and records.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::NotAllowed => "not allowed",
            Self::NotPublic => "not public",
            Self::Failed => "failed",
        }
    }
}

/// The rules of the configuration alone, which is read at each call. Records go to the log.
pub(crate) struct ConfiguredEgress(pub ConfigSource);

impl ConfiguredEgress {
    fn configured_rules(&self, agent: &AgentId) -> Vec<EgressRule> {
        let config = (self.0)();
        let Some(agent) = config.agent(agent).filter(|agent| agent.network == Network::Proxy) else {
            return Vec::new();
        };
        let read = |text: &String| match text.parse() {
            Ok(rule) => Some(rule),
            // An invalid rule allows nothing, and the others still count.
            Err(error) => {
                tracing::warn!(agent = %agent.id, %error, "a rule in its egress list is invalid and has no effect");
                None
            }
        };
        agent.egress.iter().filter_map(read).collect()
    }
}

impl EgressPolicy for ConfiguredEgress {
    fn rules<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        Box::pin(async { self.configured_rules(agent) })
    }

    fn note(&self, agent: &AgentId, connection: &ConnectionRecord) {
        let ConnectionRecord { host, port, fate, sent, received, took } = connection;
        let (fate, ms) = (fate.as_str(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        tracing::debug!(%agent, %host, port, fate, sent, received, ms, "a connection out of a sandbox");
    }
}
