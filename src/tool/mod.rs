//! The tools that a model can call. A [`Tool`] describes itself and does its work; a [`Registry`] holds the tools of
//! one gateway. The policy, not the tool, decides which agent is offered which tool.

pub(crate) mod arguments;
mod attachment;
pub mod catalog;
pub mod definition;
pub mod exec;
pub mod files;
pub mod function;
pub(crate) mod lines;
mod log;
pub mod policy;
pub mod process;
mod progress;
pub(crate) mod safe_text;
mod sandbox_failure;
pub mod sessions;
pub mod team;

use std::sync::Arc;

pub use attachment::{AttachedContent, Attachment, ResourceBody, ResourceLink};
pub(crate) use definition::ToolDefinition;
pub use log::{LogLevel, LogMessage};
pub use progress::{CallNews, CallProgress, ProgressSink};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::id::{AgentId, IdError, SessionKey, TurnId};
use crate::provider::{Block, BoxFuture, ToolSpec};

/// The caller of a tool. The turn creates it from its session, never from anything that the model wrote.
#[derive(Clone, Debug)]
pub struct CallContext {
    pub agent: AgentId,
    /// The session that the turn belongs to.
    pub session: SessionKey,
    pub turn: TurnId,
    /// Cancelled when the turn is stopped.
    pub cancel: CancellationToken,
    /// The recipient of the call's progress and log messages.
    pub progress: Option<ProgressSink>,
}

/// The output of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text and pictures, for the model and the transcript.
    pub content: Vec<Block>,
    /// Parts that programs are given in place of single blocks, in the order of these.
    pub attachments: Vec<Attachment>,
}

impl ToolOutput {
    /// Returns an output with a single text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self::from(vec![Block::text(text)])
    }
}

impl From<Vec<Block>> for ToolOutput {
    fn from(content: Vec<Block>) -> Self {
        Self { content, attachments: Vec::new() }
    }
}

impl From<String> for ToolOutput {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

/// The error of a call.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// A failure that the model reads and can react to.
    #[error("{0}")]
    ForModel(String),
    /// A failure that ends the turn.
    #[error("the tool could not run")]
    Fatal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ToolError {
    /// Returns an error that the model reads.
    #[must_use]
    pub fn model(reason: impl Into<String>) -> Self {
        Self::ForModel(reason.into())
    }
}

impl From<IdError> for ToolError {
    fn from(error: IdError) -> Self {
        Self::model(error.to_string())
    }
}

/// The result of a tool's function.
pub type ToolResult<O = String> = Result<O, ToolError>;

/// Looks up an agent in the current configuration. Returns `None` for an agent that was removed.
pub type AgentLookup = Arc<dyn Fn(&AgentId) -> Option<crate::config::Agent> + Send + Sync>;

/// A tool that a model can call.
pub trait Tool: Send + Sync {
    /// Returns name, description and parameters.
    fn spec(&self) -> &ToolSpec;

    /// Returns alternative names. They are accepted but not offered; the policy knows the tool by the name in its
    /// specification.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Runs the tool. The arguments are parsed JSON and have not been checked.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::ForModel`] for every failure that the model can react to, and [`ToolError::Fatal`] for one
    /// that ends the turn.
    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// A source of tools that differ from agent to agent and change while flock runs.
pub trait ToolSource: Send + Sync {
    /// Returns the tools that an agent has at the moment. Their order does not change from call to call.
    fn tools(&self, agent: &crate::config::Agent) -> Vec<Arc<dyn Tool>>;
}

/// The tools of one gateway, in the order in which they were added.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
    sources: Vec<Arc<dyn ToolSource>>,
}

impl Registry {
    /// Adds a tool. It replaces an earlier one with the same name.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        let name = &tool.spec().name;
        match self.tools.iter().position(|known| known.spec().name == *name) {
            // It takes over the place in the order, so that the offered tools keep theirs.
            Some(at) => self.tools[at] = tool,
            None => self.tools.push(tool),
        }
    }

    /// Adds a source. Its tools come after all others, so that a change of them leaves the beginning of requests as it is.
    pub fn add_source(&mut self, source: Arc<dyn ToolSource>) {
        self.sources.push(source);
    }

    /// Returns the tool that an agent means by a name. A tool of a source never takes the place of another one.
    #[must_use]
    pub(crate) fn find(&self, agent: &crate::config::Agent, name: &str) -> Option<Arc<dyn Tool>> {
        if let Some(tool) = self.get(name) {
            return Some(Arc::clone(tool));
        }
        let mut tools = self.sources.iter().flat_map(|source| source.tools(agent));
        tools.find(|tool| tool.spec().name == name)
    }

    /// Returns the tools that are offered to an agent's model.
    #[must_use]
    pub(crate) fn offered(&self, agent: &crate::config::Agent) -> Vec<ToolSpec> {
        let mut offered = policy::offered(agent, self.tools.iter().map(|tool| tool.spec()));
        for tool in self.sources.iter().flat_map(|source| source.tools(agent)) {
            let spec = tool.spec();
            if policy::offers(agent, &spec.name) && offered.iter().all(|other| other.name != spec.name) {
                offered.push(spec.clone());
            }
        }
        offered
    }

    /// Returns the tool with this name, or else the first one with this alternative name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        // A tool's own name goes before another tool's alternative name.
        let named = self.tools.iter().find(|tool| tool.spec().name == name);
        named.or_else(|| self.tools.iter().find(|tool| tool.aliases().contains(&name)))
    }

    /// Returns all tools.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/fake_tool.rs"]
pub(crate) mod fake;
