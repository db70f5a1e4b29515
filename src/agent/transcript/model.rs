//! The records of a transcript. A reader uses what it knows: lines of an unknown kind and unknown fields stay in the
//! file unchanged.

use serde::{Deserialize, Serialize};

use super::lenient;
use crate::agent::Provenance;
use crate::config::Api;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{Message, StopReason, Usage};
use crate::store::PendingCall;

/// The version of the format.
pub const VERSION: u32 = 1;

/// One line of a transcript.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Record {
    /// The header, which is the first line.
    Session(Header),
    /// A message, whoever said it.
    Message(Box<MessageRecord>),
    /// The beginning or the end of a turn.
    Turn(TurnRecord),
    /// A compaction: a shorter text replaces the older messages.
    Compaction(Box<CompactionRecord>),
    /// The start of a new conversation. A model is shown nothing from before this record.
    Reset(ResetRecord),
    /// A return to an earlier moment of the conversation. A model is shown nothing from between that moment and this
    /// record.
    Rewind(RewindRecord),
    /// A person's command for the session, which no model is shown.
    Command(CommandRecord),
    /// A note that all records before this one were imported.
    Imported(ImportedRecord),
    /// A record of a kind that this version does not know, or one that it can't read.
    #[serde(skip)]
    Unknown,
}

/// The header of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    pub key: SessionKey,
    pub agent: AgentId,
    /// Unix milliseconds.
    pub created: i64,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageRecord {
    /// A UUIDv7.
    pub id: String,
    /// The record that this one follows, if that is not the previous one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub turn: TurnId,
    /// Unix milliseconds.
    pub at: i64,
    pub message: Message,
    /// On the message that a turn answers: a client's system text. The model reads it beside the message, with the
    /// time, as untrusted. `None` on other messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<String>>,
    /// On the message that a turn answers: flock's own remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// On an answer: its token usage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// On an answer: the model as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// On an answer: the API it came through. Together with the model it decides which signed content may be sent back,
    /// and to which provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// On an answer: the reason for its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// On an input: its origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// `true` if the message was imported. A reader knows that from the position in the file; only copies in a
    /// compaction carry this flag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// On an answer that nobody gave: a repair put a text in its place.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filled: bool,
    /// On a turn's answer: the log of a program's work, one entry per line. It is for people, and for a program that is
    /// told the earlier exchanges. No model request contains it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

impl MessageRecord {
    /// Creates a message of a turn with a new id.
    #[must_use]
    pub fn new(turn: TurnId, at: i64, message: Message) -> Self {
        let id = uuid::Uuid::now_v7().to_string();
        Self {
            id,
            parent: None,
            turn,
            at,
            message,
            context: None,
            guidance: Vec::new(),
            usage: None,
            model: None,
            api: None,
            stop: None,
            provenance: None,
            imported: false,
            filled: false,
            trace: Vec::new(),
        }
    }
}

/// The state of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TurnPhase {
    Started,
    /// The turn ended with an answer.
    Done,
    /// The turn ended with an error.
    Failed,
    /// The turn was stopped.
    Cancelled,
    /// The process died during the turn.
    Interrupted,
}

/// The beginning or the end of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnRecord {
    pub turn: TurnId,
    /// The state from now on.
    pub state: TurnPhase,
    /// Unix milliseconds.
    pub at: i64,
    /// The model as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Number of model calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Token usage of these calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// The error that ended the turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// On a beginning: the program that runs the turn, unless it is flock's own loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// On an end: the calls that were handed to the client. The next turn begins with their results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingCall>,
    /// On an end without an answer: the log that the answer would have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

impl TurnRecord {
    /// Creates a record with a state and no further facts.
    #[must_use]
    pub const fn new(turn: TurnId, state: TurnPhase, at: i64) -> Self {
        Self {
            turn,
            state,
            at,
            model: None,
            steps: None,
            usage: None,
            error: None,
            runtime: None,
            pending: Vec::new(),
            trace: Vec::new(),
        }
    }
}

/// A compaction: from here on a model is shown the first message, the marker and the newest messages in place of
/// everything before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionRecord {
    /// A UUIDv7.
    pub id: String,
    /// Unix milliseconds.
    pub at: i64,
    /// The turn that compacted, or `None` if a person asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Number of the compaction within the conversation, from 1.
    pub number: u32,
    /// A copy of the conversation's first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Box<MessageRecord>>,
    /// The text, as a model reads it, that replaces what was taken out.
    pub marker: String,
    /// A model's summary, if one was asked for and given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Tasks that results which were taken out showed as done, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<String>,
    /// Copies of the messages to the agent in the current turn that are older than the kept part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<MessageRecord>,
    /// Id of the first record that is still shown unchanged. `None` if that part begins after this record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_from: Option<String>,
    /// Estimated tokens of the conversation before the compaction.
    pub tokens_before: u64,
    /// Estimated tokens after it.
    pub tokens_after: u64,
}

/// The start of a new conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetRecord {
    /// A UUIDv7.
    pub id: String,
    /// Unix milliseconds.
    pub at: i64,
    /// `true` if a program's next conversation may be told the last exchanges. A person who starts anew wants them
    /// forgotten. A client that only wants a fresh conversation of the program does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_recent: bool,
}

/// A return to an earlier moment of the conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RewindRecord {
    /// A UUIDv7.
    pub id: String,
    /// Unix milliseconds.
    pub at: i64,
    /// Id of the last record before that moment. `None` if nothing was said before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// The checkpoint that the agent was set back to.
    pub checkpoint: u64,
    /// The person who asked for it.
    pub by: String,
}

/// A person's command for the session and its answer. For people who read the transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRecord {
    /// A UUIDv7.
    pub id: String,
    /// Unix milliseconds.
    pub at: i64,
    /// The command as the person wrote it, without mentions of agents.
    pub command: String,
    /// The answer that the person got.
    pub answer: String,
    /// The command's origin, unless it was a client's request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// A note that all records before this one were imported, so flock does not know who really said what.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedRecord {
    /// Unix milliseconds.
    pub at: i64,
    /// The session that the document says it was exported from.
    pub key: SessionKey,
}

impl Record {
    /// Parses a line leniently. If a message is not in this version's form, as much as possible of it is read: an
    /// unknown block is kept whole, and an unknown stop reason or API is dropped. A record that can't be read at all
    /// becomes [`Self::Unknown`].
    ///
    /// # Errors
    ///
    /// Returns an error if the line is no record: it is not a JSON object, has no type, or is a message without its
    /// object or role.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        let mut record = Self::parse_strict(line).or_else(|_| lenient::parse(line))?;
        // Other programs store the provenance inside the message.
        if let Self::Message(message) = &mut record
            && message.provenance.is_none()
        {
            message.provenance = lenient::nested_provenance(line);
        }
        Ok(record)
    }

    /// Parses a line that must be in this version's form.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is no record, or has a known type and the wrong fields.
    pub(crate) fn parse_strict(line: &[u8]) -> Result<Self, serde_json::Error> {
        // The most frequent lines are parsed in one pass, in the form in which flock writes them.
        if line.starts_with(br#"{"type":"message","#) {
            return serde_json::from_slice(line).map(Self::Message);
        }
        // Other lines need two passes, because an internally tagged enum would first copy the whole line into a buffer.
        Ok(match &*lenient::kind(line)? {
            "session" => Self::Session(serde_json::from_slice(line)?),
            "message" => Self::Message(serde_json::from_slice(line)?),
            "turn" => Self::Turn(serde_json::from_slice(line)?),
            "compaction" => Self::Compaction(serde_json::from_slice(line)?),
            "reset" => Self::Reset(serde_json::from_slice(line)?),
            "rewind" => Self::Rewind(serde_json::from_slice(line)?),
            "command" => Self::Command(serde_json::from_slice(line)?),
            "imported" => Self::Imported(serde_json::from_slice(line)?),
            // A later version may add kinds of records. They are kept, and ignored here.
            _ => Self::Unknown,
        })
    }

    /// Returns the record's id, or `None` if records of its kind have none.
    pub(crate) fn id(&self) -> Option<&str> {
        match self {
            Self::Message(message) => Some(&message.id),
            Self::Compaction(compaction) => Some(&compaction.id),
            Self::Reset(reset) => Some(&reset.id),
            Self::Rewind(rewind) => Some(&rewind.id),
            Self::Command(command) => Some(&command.id),
            Self::Session(_) | Self::Turn(_) | Self::Imported(_) | Self::Unknown => None,
        }
    }

    /// Returns the time of the record in Unix milliseconds.
    pub(crate) fn at(&self) -> Option<i64> {
        match self {
            Self::Session(header) => Some(header.created),
            Self::Message(message) => Some(message.at),
            Self::Turn(turn) => Some(turn.at),
            Self::Compaction(compaction) => Some(compaction.at),
            Self::Reset(reset) => Some(reset.at),
            Self::Rewind(rewind) => Some(rewind.at),
            Self::Command(command) => Some(command.at),
            Self::Imported(imported) => Some(imported.at),
            Self::Unknown => None,
        }
    }

    /// Appends the record to `buffer` as a line with its line feed.
    pub fn write_to(&self, buffer: &mut Vec<u8>) {
        let before = buffer.len();
        // Serialising these types can't fail: all their maps have text keys.
        if serde_json::to_writer(&mut *buffer, self).is_ok() {
            // The line feed is a part of the record: a line without one was torn.
            buffer.push(b'\n');
        } else {
            buffer.truncate(before);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::{Block, Role};

    fn lines(record: &Record) -> Vec<u8> {
        let mut buffer = Vec::new();
        record.write_to(&mut buffer);
        buffer
    }

    #[test]
    fn fractions_keep_their_digits() {
        let text = r#"{"x":31.245270191439438,"y":0.1,"z":-2.2250738585072014e-308}"#;
        let arguments: serde_json::Value = serde_json::from_str(text).unwrap();
        let call = Block::call("c1", "plot", arguments);
        let message = Message { role: Role::Assistant, content: vec![call] };
        let line = lines(&Record::Message(Box::new(MessageRecord::new(TurnId::new(), 1, message))));
        assert!(String::from_utf8_lossy(&line).contains(text));
        assert_eq!(lines(&Record::parse(line.trim_ascii_end()).unwrap()), line);
    }

    #[test]
    fn records_round_trip_on_one_line() {
        let turn = TurnId::new();
        let key: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let text = "two\nlines \u{2028} and a \0";
        let content = vec![
            Block::text(text),
            Block::call("1", "exec", serde_json::json!({"command": "ls"})),
            Block::call("2", "exec", serde_json::json!("{\"broken")),
            Block::Thinking { thinking: String::new(), signature: Some("s".into()), redacted: None },
        ];
        let mut message = MessageRecord::new(turn, 5, Message { role: Role::Assistant, content });
        message.usage = Some(Usage { input: 1, output: 2, cache_read: 3, cache_write: 4, cost: None });
        message.stop = Some(StopReason::ToolUse);
        message.trace = vec!["[coder] tool: read → ok".into()];
        let compaction = CompactionRecord {
            id: "c".into(),
            at: 8,
            turn: Some(turn),
            number: 2,
            initial: Some(Box::new(message.clone())),
            marker: "two\nlines".into(),
            summary: Some("s".into()),
            completed: vec!["t".into()],
            said: vec![message.clone()],
            keep_from: Some("k".into()),
            tokens_before: 9,
            tokens_after: 3,
        };
        for record in [
            Record::Compaction(Box::new(compaction)),
            Record::Compaction(Box::default()),
            Record::Reset(ResetRecord { id: "r".into(), at: 9, keeps_recent: false }),
            Record::Rewind(RewindRecord {
                id: "w".into(),
                at: 9,
                after: Some("m".into()),
                checkpoint: 3,
                by: "human:ann".into(),
            }),
            Record::Command(CommandRecord {
                id: "d".into(),
                at: 9,
                command: "/new".into(),
                answer: "two\nlines".into(),
                provenance: Some(Provenance::Resume { turn }),
            }),
            Record::Imported(ImportedRecord { at: 9, key: key.clone() }),
            Record::Session(Header { version: VERSION, agent: key.agent().clone(), key, created: 1 }),
            Record::Message(Box::new(message)),
            Record::Reset(ResetRecord { id: "k".into(), at: 9, keeps_recent: true }),
            Record::Turn(TurnRecord {
                steps: Some(3),
                error: Some("x".into()),
                runtime: Some("claude".into()),
                trace: vec!["[coder] cmd: ls → exit 0".into(), "  a".into()],
                ..TurnRecord::new(turn, TurnPhase::Failed, 7)
            }),
        ] {
            let line = lines(&record);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(Record::parse(line.trim_ascii_end()).unwrap(), record);
        }
    }

    #[test]
    fn unknown_records_and_fields_are_no_error() {
        assert_eq!(Record::parse(br#"{"type":"vision","message":"of any shape"}"#).unwrap(), Record::Unknown);
        let turn = format!(r#"{{"type":"turn","turn":"{}","state":"done","at":1,"new":[1]}}"#, TurnId::new());
        assert!(matches!(Record::parse(turn.as_bytes()).unwrap(), Record::Turn(_)));
        assert_eq!(Record::parse(br#"{"type":"turn","state":"paused"}"#).unwrap(), Record::Unknown);
        for bad in [&b"{}"[..], b"[]", b"[\"turn\"]", b"", b"{\"type\":1}", b"{\"type\":\"turn\""] {
            assert!(Record::parse(bad).is_err());
        }
    }
}
