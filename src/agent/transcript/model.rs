//! The records of a transcript. A reader takes what it knows: a line of a kind it does not know, and a
//! field it does not know, stay in the file as they are.

use serde::{Deserialize, Serialize};

use super::loose;
use crate::agent::Provenance;
use crate::config::Api;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{Message, StopReason, Usage};

/// The version of the format.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Record {
    /// The first line.
    Session(Header),
    /// Something said, by whomever.
    Message(Box<MessageRecord>),
    /// A turn began or ended.
    Turn(TurnRecord),
    /// What was said before makes way for less.
    Compaction(Box<CompactionRecord>),
    /// The conversation begins anew; nothing before this is shown to a model again.
    Reset(ResetRecord),
    /// A person had something done with the session; no model is ever shown it.
    Command(CommandRecord),
    /// All records before this one were brought from elsewhere.
    Imported(ImportedRecord),
    /// A kind of record that this version does not know, or one that it can't read.
    #[serde(skip)]
    Unknown,
}

/// What the file is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// The session.
    pub key: SessionKey,
    /// Whose it is.
    pub agent: AgentId,
    /// When it was made, in Unix milliseconds.
    pub created: i64,
}

/// One message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageRecord {
    /// Its id, a UUIDv7.
    pub id: String,
    /// The record it follows, where that is not the one before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// When it was written, in Unix milliseconds.
    pub at: i64,
    /// The message itself.
    pub message: Message,
    /// Of the message a turn answers: a client's system text, which the model is shown beside the message,
    /// with the time, as untrusted. Other messages have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<String>>,
    /// Of the message a turn answers: what flock itself said beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guidance: Vec<String>,
    /// Of an answer: what it cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Of an answer: the model, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Of an answer: the wire format it came by. With the model it says which provider state in it can be
    /// given back, and to whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// Of an answer: why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopReason>,
    /// Of an input: where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// Whether it was brought from elsewhere. What a reader knows by where it lies in the file, and a copy in a
    /// compaction by this.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
    /// Of an answer: that nobody said it, and mending put a text where there was none.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub filled: bool,
    /// Of a turn's answer: the log of what a program did for it, a line each. For people, and for a program that is told
    /// what was said before; no request is made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

impl MessageRecord {
    /// A message of a turn, with a new id.
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

/// Where a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Phase {
    /// It began.
    Started,
    /// It ended with an answer.
    Done,
    /// It ended with an error.
    Failed,
    /// It was stopped.
    Cancelled,
    /// Its process died.
    Interrupted,
}

/// A turn began or ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnRecord {
    /// Which.
    pub turn: TurnId,
    /// Where it is from now on.
    pub state: Phase,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// The model, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many model calls it took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// What they cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Of a beginning: the program that runs it, where that is not flock's own loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Of an end without an answer: what the answer would have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace: Vec<String>,
}

impl TurnRecord {
    /// That a turn is there from now on, and nothing else.
    #[must_use]
    pub const fn new(turn: TurnId, state: Phase, at: i64) -> Self {
        Self {
            turn,
            state,
            at,
            model: None,
            steps: None,
            usage: None,
            error: None,
            runtime: None,
            trace: Vec::new(),
        }
    }
}

/// From here on a model is shown the beginning of the conversation, the marker and what came last, in the place
/// of all that was said before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactionRecord {
    /// Its id, a UUIDv7.
    pub id: String,
    /// When it was written, in Unix milliseconds.
    pub at: i64,
    /// The turn in which it was made; none where a person asked for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// Which one of the conversation it is, from 1.
    pub number: u32,
    /// A copy of the message that the conversation began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<Box<MessageRecord>>,
    /// What stands for what was taken out, as a model reads it.
    pub marker: String,
    /// What a model made of it, where it was asked and answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Tasks that are known to be done from results that are not shown any more, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<String>,
    /// Copies of what was said to the agent in the turn that runs and lies before what is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub said: Vec<MessageRecord>,
    /// The first record that is still shown as it is; none where that begins after this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_from: Option<String>,
    /// What the conversation was estimated to cost before.
    pub tokens_before: u64,
    /// And after.
    pub tokens_after: u64,
}

/// The conversation begins anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetRecord {
    /// Its id, a UUIDv7.
    pub id: String,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// Whether the next conversation of a program may be told what was said last. A person who begins anew wants it
    /// forgotten; who wants a fresh conversation of the program does not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_recent: bool,
}

/// A person had something done with the session, and was told what came of it. For people who read the transcript.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandRecord {
    /// Its id, a UUIDv7.
    pub id: String,
    /// When, in Unix milliseconds.
    pub at: i64,
    /// As the person wrote it, without whom it called.
    pub command: String,
    /// What the person was told.
    pub answer: String,
    /// Where it came from, where it was not a client's request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
}

/// All records before this one were brought from elsewhere: who said in them what is not flock's own knowledge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImportedRecord {
    /// When, in Unix milliseconds.
    pub at: i64,
    /// The session they were exported from, as the file says.
    pub key: SessionKey,
}

impl Record {
    /// Reads a line. Of a message that is not as this version writes it, what can be read is: a block that it does not
    /// know is kept whole, and an unknown reason to end or wire format is taken for none. What can't be read at all, and
    /// is a record all the same, is [`Self::Unknown`].
    ///
    /// # Errors
    ///
    /// Where it is no record: not JSON, no object, without a type, or a message without its object or role.
    pub fn parse(line: &[u8]) -> Result<Self, serde_json::Error> {
        let mut record = Self::parse_exactly(line).or_else(|_| loose::parse(line))?;
        if let Self::Message(message) = &mut record
            && message.provenance.is_none()
        {
            message.provenance = loose::provenance_within(line);
        }
        Ok(record)
    }

    /// Reads a line that has to be as this version writes it.
    ///
    /// # Errors
    ///
    /// Where it is no record, or one of a known type and the wrong shape.
    pub fn parse_exactly(line: &[u8]) -> Result<Self, serde_json::Error> {
        // As flock writes them, the most frequent lines need one pass.
        if line.starts_with(br#"{"type":"message","#) {
            return serde_json::from_slice(line).map(Self::Message);
        }
        // Else two: a tagged enum would copy all of the line into a buffer first.
        Ok(match &*loose::kind(line)? {
            "session" => Self::Session(serde_json::from_slice(line)?),
            "message" => Self::Message(serde_json::from_slice(line)?),
            "turn" => Self::Turn(serde_json::from_slice(line)?),
            "compaction" => Self::Compaction(serde_json::from_slice(line)?),
            "reset" => Self::Reset(serde_json::from_slice(line)?),
            "command" => Self::Command(serde_json::from_slice(line)?),
            "imported" => Self::Imported(serde_json::from_slice(line)?),
            _ => Self::Unknown,
        })
    }

    /// Appends the record to `buffer` as a line, its end included.
    pub fn write_to(&self, buffer: &mut Vec<u8>) {
        let before = buffer.len();
        // These types always serialise: their maps have text for keys.
        if serde_json::to_writer(&mut *buffer, self).is_ok() {
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
    fn fractions_stay_as_a_model_wrote_them() {
        let text = r#"{"x":31.245270191439438,"y":0.1,"z":-2.2250738585072014e-308}"#;
        let arguments: serde_json::Value = serde_json::from_str(text).unwrap();
        let call = Block::call("c1", "plot", arguments);
        let message = Message { role: Role::Assistant, content: vec![call] };
        let line = lines(&Record::Message(Box::new(MessageRecord::new(TurnId::new(), 1, message))));
        assert!(String::from_utf8_lossy(&line).contains(text));
        assert_eq!(lines(&Record::parse(line.trim_ascii_end()).unwrap()), line);
    }

    #[test]
    fn records_read_back_as_one_line() {
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
                ..TurnRecord::new(turn, Phase::Failed, 7)
            }),
        ] {
            let line = lines(&record);
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(Record::parse(line.trim_ascii_end()).unwrap(), record);
        }
    }

    #[test]
    fn what_a_newer_version_adds_is_no_error() {
        assert_eq!(Record::parse(br#"{"type":"vision","message":"of any shape"}"#).unwrap(), Record::Unknown);
        let turn = format!(r#"{{"type":"turn","turn":"{}","state":"done","at":1,"new":[1]}}"#, TurnId::new());
        assert!(matches!(Record::parse(turn.as_bytes()).unwrap(), Record::Turn(_)));
        assert_eq!(Record::parse(br#"{"type":"turn","state":"paused"}"#).unwrap(), Record::Unknown);
        for bad in [&b"{}"[..], b"[]", b"[\"turn\"]", b"", b"{\"type\":1}", b"{\"type\":\"turn\""] {
            assert!(Record::parse(bad).is_err());
        }
    }
}
