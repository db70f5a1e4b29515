//! Tools: what a model can call. A [`Tool`] says what it is and does its work; the [`Registry`] holds those
//! of one gateway. Which agent is offered which tool is the policy's decision, not the tool's.

pub mod arguments;
pub mod bounded;
pub mod catalog;
pub mod exec;
pub mod files;
pub mod lines;
pub mod process;
pub mod sessions;

use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{Block, BoxFuture, ToolSpec};

/// Who calls, from where. Made by the turn from its session, never from anything the model wrote.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The calling agent.
    pub agent: AgentId,
    /// The session the turn belongs to.
    pub session: SessionKey,
    /// The turn.
    pub turn: TurnId,
    /// Ends the call when the turn is stopped.
    pub cancel: CancellationToken,
}

/// What a call gave, for the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutput {
    /// Text and images.
    pub content: Vec<Block>,
}

impl ToolOutput {
    /// An output of one text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Block::text(text)] }
    }
}

/// Why a call gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The model reads the reason and can go on.
    #[error("{0}")]
    ForModel(String),
    /// The turn can't go on.
    #[error("the tool could not run")]
    Fatal(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ToolError {
    /// An error that the model reads.
    #[must_use]
    pub fn model(reason: impl Into<String>) -> Self {
        Self::ForModel(reason.into())
    }
}

/// The agents as the configuration has them at this moment; `None` for one that has been removed.
pub type FindAgent = Arc<dyn Fn(&AgentId) -> Option<crate::config::Agent> + Send + Sync>;

/// Something a model can call.
pub trait Tool: Send + Sync {
    /// Name, description and parameters.
    fn spec(&self) -> &ToolSpec;

    /// Other names that it is called by. They are accepted and not offered; the policy knows the tool by the
    /// name in its specification.
    fn aliases(&self) -> &[&str] {
        &[]
    }

    /// Runs it. Arguments have been parsed as JSON, not checked.
    ///
    /// # Errors
    ///
    /// [`ToolError::ForModel`] for everything the model can learn from; [`ToolError::Fatal`] ends the turn.
    fn call<'a>(
        &'a self,
        context: &'a CallContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, Result<ToolOutput, ToolError>>;
}

/// The tools of one gateway, in the order they were added.
#[derive(Clone, Default)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
}

impl Registry {
    /// Adds a tool. A later one with the same name replaces the earlier.
    pub fn add(&mut self, tool: Arc<dyn Tool>) {
        let name = &tool.spec().name;
        match self.tools.iter().position(|known| known.spec().name == *name) {
            Some(at) => self.tools[at] = tool,
            None => self.tools.push(tool),
        }
    }

    /// The tool with this name, or else the first with this other name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        let named = self.tools.iter().find(|tool| tool.spec().name == name);
        named.or_else(|| self.tools.iter().find(|tool| tool.aliases().contains(&name)))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.tools.iter()
    }
}

#[cfg(test)]
pub(crate) mod fake;
