//! The origin of a turn's input. It is stored with the input, so that after a crash the transcript itself shows what
//! was delivered.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::id::{ChannelId, SessionKey, TurnId};

/// The origin of an input. Only flock creates these values; none is ever parsed from text of a model or a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Provenance {
    /// Messages of a channel.
    Channel {
        channel: ChannelId,
        /// Sequence number of the first message shown.
        from: i64,
        /// Sequence number of the last message shown.
        to: i64,
    },
    /// A direct message.
    Dm {
        /// The sender: an agent's id or `human:<name>`.
        peer: String,
        /// Id of the row in the inbox.
        item: String,
    },
    /// A message from another session of the same agent.
    InterSession {
        /// The sending session.
        session: SessionKey,
        /// The tool that sent it. Older versions did not store it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Id of the row in the inbox, if it came through one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        item: Option<String>,
    },
    /// A request to this agent, or a decision about one of its own requests.
    Request {
        /// Id of the row in the inbox.
        item: String,
    },
    /// The answer to a task.
    Answer {
        /// Id of the task.
        task: String,
        /// Id of the row in the inbox.
        item: String,
    },
    /// The continuation of a turn that a crash broke off.
    Resume {
        /// The turn that was broken off.
        turn: TurnId,
    },
    /// A provenance of a newer version, kept unchanged.
    #[serde(untagged)]
    Other(serde_json::Value),
}

/// Facts about another session that sent an input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceSession<'p> {
    /// The session's key.
    pub session: Option<Cow<'p, str>>,
    /// The channel that the session belongs to.
    pub channel: Option<Cow<'p, str>>,
    /// The tool that sent the input.
    pub tool: Option<Cow<'p, str>>,
}

impl Provenance {
    /// Name of the tool that sends a message to another session.
    pub(crate) const SEND_TOOL: &str = "sessions_send";

    /// Name of the tool that starts another session with a task.
    pub(crate) const SPAWN_TOOL: &str = "sessions_spawn";

    /// Returns the facts about the session that sent this, or `None` if no other session did.
    ///
    /// The facts are complete if flock wrote the provenance. They may all be missing if an older version or another
    /// program did.
    #[must_use]
    pub(crate) fn source_session(&self) -> Option<SourceSession<'_>> {
        match self {
            Self::InterSession { session, tool, item } => Some(SourceSession {
                session: Some(session.as_str().into()),
                channel: session.channel().map(|channel| channel.to_string().into()),
                // Only this tool puts messages of sessions into an inbox.
                tool: tool.as_deref().or_else(|| item.as_ref().map(|_| Self::SEND_TOOL)).map(Cow::from),
            }),
            // The second name of each pair is the one that other programs use.
            Self::Other(value) => {
                let field = |names: [&str; 2]| {
                    let found = names.iter().find_map(|name| value.get(name)?.as_str());
                    found.map(str::trim).filter(|text| !text.is_empty())
                };
                (field(["kind", "kind"]) == Some("inter_session")).then_some(())?;
                let session = field(["session", "sourceSessionKey"]);
                // A key that does not parse is still shown to the model, but no channel can be read from it.
                let key = session.and_then(|key| key.parse::<SessionKey>().ok());
                let channel = field(["channel", "sourceChannel"]).map(Cow::from);
                Some(SourceSession {
                    session: session.map(Cow::from),
                    channel: channel.or_else(|| Some(key?.channel()?.to_string().into())),
                    tool: field(["tool", "sourceTool"]).map(Cow::from),
                })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "provenance_tests.rs"]
mod tests;
