//! MCP servers as tools of agents. A server is a program that runs in a sandbox of its own and speaks over its standard
//! streams, or it is at a URL. flock is its client.
//!
//! Nothing of a server is trusted. A person grants each tool to an agent with the definition that was shown. A server
//! that sends another definition loses the tool until a person has seen the difference. Texts of a server are bounded,
//! cleaned and marked before a model reads them.

mod asks;
pub(crate) mod change;
mod connection;
pub(crate) mod definition;
mod elicitation;
mod error;
mod launch;
mod lines;
mod log;
pub(crate) mod oauth;
mod output;
pub(crate) mod package;
pub(crate) mod remote;
mod rounds;
mod running;
mod sampling;
mod schema;
mod servers;
mod tool;

pub use elicitation::{FieldKind, QuestionField};
pub(crate) use elicitation::{PersonAnswer, Question, content as answer_content};
pub use error::McpError;
pub(crate) use launch::clear_secrets;
pub use launch::{Launcher, SandboxLauncher, sandbox_source};
pub(crate) use package::installed_problem;
pub use package::tool_folders;
pub use servers::Servers;
pub(crate) use servers::{
    AgentModel, DefinitionReview, GrantError, Grants, Hold, Person, ServerCall, ServerPlace, ServerState,
};

#[cfg(test)]
mod tests;
