//! Who may reach what, asked for each connection, and the record of it.

use std::time::Duration;

use super::rule::{EgressRule, Host};
use crate::config::Network;
use crate::id::AgentId;
use crate::sandbox::docker::ConfigSource;

/// What an agent may reach. Whoever implements it adds what was approved to what is configured.
pub trait EgressPolicy: Send + Sync {
    /// The rules as they are now. Asked for each connection, and again while one stands, on the runtime's threads:
    /// it must be quick.
    fn rules(&self, agent: &AgentId) -> Vec<EgressRule>;

    /// A connection has ended, or was refused.
    fn note(&self, agent: &AgentId, connection: &Connection);
}

/// A connection of an agent: where to and how much, nothing of what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Where to.
    pub host: Host,
    /// Its port.
    pub port: u16,
    /// What became of it.
    pub fate: Fate,
    /// Bytes from the sandbox.
    pub sent: u64,
    /// Bytes to the sandbox.
    pub received: u64,
    /// From the request to the end.
    pub took: Duration,
}

/// What became of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stood.
    Connected,
    /// No rule lets it pass.
    NotAllowed,
    /// A rule does, and its name leads to no address of the public internet.
    NotPublic,
    /// It was let pass and could not be made.
    Failed,
}

impl Fate {
    /// The word for logs and records.
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

/// What the configuration allows and nothing else; records go to the log.
pub struct ConfiguredEgress {
    config: ConfigSource,
}

impl ConfiguredEgress {
    /// Follows the configuration.
    #[must_use]
    pub const fn new(config: ConfigSource) -> Self {
        Self { config }
    }
}

impl EgressPolicy for ConfiguredEgress {
    fn rules(&self, agent: &AgentId) -> Vec<EgressRule> {
        let config = (self.config)();
        let Some(agent) = config.agent(agent).filter(|agent| agent.network == Network::Proxy) else {
            return Vec::new();
        };
        let read = |text: &String| match text.parse() {
            Ok(rule) => Some(rule),
            Err(error) => {
                tracing::warn!(agent = %agent.id, %error, "a rule in its egress list counts for nothing");
                None
            }
        };
        agent.egress.iter().filter_map(read).collect()
    }

    fn note(&self, agent: &AgentId, connection: &Connection) {
        let Connection { host, port, fate, sent, received, took } = connection;
        let (fate, ms) = (fate.as_str(), u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        tracing::debug!(%agent, %host, port, fate, sent, received, ms, "a connection out of a sandbox");
    }
}
