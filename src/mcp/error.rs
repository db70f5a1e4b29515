//! The errors of an MCP server, each with the command that helps.

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::id::McpServerName;
use crate::sandbox::SandboxError;
use crate::store::{McpCapability, StoreError};

/// An error of an MCP server.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    #[error("there is no MCP server {0}")]
    Unknown(McpServerName),
    /// Another gateway runs it, or will in a moment.
    #[error("the MCP server {0} is at another gateway")]
    Elsewhere(McpServerName),
    /// A secret of the configuration is missing.
    #[error("the MCP server {server} needs the secret {secret:?}, which is not there")]
    NoSecret { server: McpServerName, secret: String },
    /// The installed package is not the one that the configuration pins.
    #[error("the MCP server {server} can't start: {problem}")]
    Package { server: McpServerName, problem: String },
    /// The program did not start, or did not speak the protocol.
    #[error("the MCP server {server} did not start: {reason}")]
    NotStarted { server: McpServerName, reason: String },
    /// It failed, and is not tried again before some time has passed.
    #[error("the MCP server {server} failed and is tried again in {seconds} s: {reason}")]
    Waits { server: McpServerName, seconds: u64, reason: String },
    /// It ended while a call ran.
    #[error("the MCP server {server} ended: {reason}")]
    Ended { server: McpServerName, reason: String },
    /// The server at a URL could not be asked, or answered with an error of HTTP.
    #[error("the MCP server {server} could not be asked: {reason}")]
    Unreached { server: McpServerName, reason: String },
    /// The server at a URL wants a person to sign in, or to give more. The reason says how.
    #[error("the MCP server {server} wants a sign-in: {reason}")]
    NotSignedIn { server: McpServerName, reason: String },
    /// The sign-in to a server at a URL failed.
    #[error("signing in to the MCP server {server} failed: {reason}")]
    SignIn { server: McpServerName, reason: String },
    /// It did not answer in time.
    #[error("the MCP server {server} did not answer within {seconds} s{reported}")]
    Silent {
        server: McpServerName,
        seconds: u64,
        /// The last progress that it reported, as the end of the sentence. Empty if it reported none.
        reported: String,
    },
    /// It answered with an error of the protocol.
    #[error("the MCP server {server} answered with the error {code}: {message}")]
    Answered { server: McpServerName, code: i32, message: String },
    /// It can't go on without something that it could have been granted.
    #[error(
        "the MCP server {server} needs {} for this call, and that was not granted; a person can grant it: {}",
        needed(*wanted), grant_command(server, *wanted)
    )]
    NotGranted { server: McpServerName, wanted: McpCapability },
    /// It asked for something during a call, which ended without it.
    #[error("the MCP server {server} asked for {} during the call and did not get it: {why}", needed(*wanted))]
    NotAnswered { server: McpServerName, wanted: McpCapability, why: String },
    /// It broke a limit on what it may send.
    #[error("the MCP server {server} {what}")]
    Excess { server: McpServerName, what: String },
    /// The caller cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Home(#[from] HomeError),
}

const fn needed(wanted: McpCapability) -> &'static str {
    match wanted {
        McpCapability::Sampling => "an answer of the agent's model",
        McpCapability::Elicitation => "an answer of a person",
    }
}

fn grant_command(server: &McpServerName, wanted: McpCapability) -> String {
    match wanted {
        McpCapability::Sampling => format!("flock mcp grant {server} AGENT --sampling"),
        McpCapability::Elicitation => format!("flock mcp grant {server} AGENT --elicitation"),
    }
}

impl Explain for McpError {
    fn kind(&self) -> Kind {
        match self {
            Self::Sandbox(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Home(error) => error.kind(),
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) => Some("flock mcp list".to_owned()),
            Self::Elsewhere(_) => Some("flock status".to_owned()),
            Self::NotGranted { server, wanted } => Some(grant_command(server, *wanted)),
            Self::NotAnswered { server, .. } => Some(format!("flock mcp show {server}")),
            Self::Package { server, .. } => Some(format!("flock mcp update {server} --locked")),
            Self::NoSecret { server, .. } => Some(format!("flock mcp show {server}")),
            Self::NotStarted { server, .. }
            | Self::Waits { server, .. }
            | Self::Ended { server, .. }
            | Self::Silent { server, .. }
            | Self::Unreached { server, .. }
            | Self::Answered { server, .. }
            | Self::Excess { server, .. } => Some(format!("flock mcp test {server}")),
            Self::SignIn { server, .. } | Self::NotSignedIn { server, .. } => {
                Some(format!("flock mcp login {server}"))
            }
            Self::Cancelled => None,
            Self::Sandbox(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Home(error) => error.hint(),
        }
    }
}
