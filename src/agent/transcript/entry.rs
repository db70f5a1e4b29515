//! One message of a conversation as a request is made from it: what was said, and what is known about it.

use std::sync::Arc;

use super::MessageRecord;
use crate::agent::Provenance;
use crate::provider::{Message, Role, Route, StopReason, Usage};

/// A message, shared with whoever else holds it: hygiene changes a copy of the few messages it has to change.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What was said, as the model is to be shown it.
    pub message: Arc<Message>,
    /// What is known about it.
    pub about: Arc<About>,
}

/// What is known about a message. None of it is ever read from the message's own text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// The record it comes from; empty where it comes from none.
    pub id: String,
    /// When it was written, in Unix milliseconds.
    pub at: i64,
    /// Of an answer: which way it came.
    pub route: Option<Route>,
    /// Of an answer: why it ended.
    pub stop: Option<StopReason>,
    /// Of an answer: what it cost.
    pub usage: Option<Usage>,
    /// Of an input: where it came from.
    pub provenance: Option<Provenance>,
    /// Whether it was brought from elsewhere.
    pub imported: bool,
    /// What it is besides something said.
    pub kind: Kind,
}

/// What a message is besides something said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Nothing else.
    #[default]
    Said,
    /// What compaction put in the place of what was said before.
    Compacted,
    /// An answer that is in the transcript for people only: no model said it.
    ForPeople,
    /// An answer that there was none of; mending put a text in its place.
    Filled,
}

/// As whose answers gateways of OpenClaw's kind store what people were shown and no model said.
const FOR_PEOPLE: [&str; 2] = ["openclaw/delivery-mirror", "openclaw/gateway-injected"];

fn kind_of(record: &MessageRecord) -> Kind {
    if record.filled {
        return Kind::Filled;
    }
    match record.model.as_deref() {
        Some(model) if FOR_PEOPLE.contains(&model) => Kind::ForPeople,
        _ => Kind::Said,
    }
}

impl Entry {
    /// A stored message. `message` is the record's as the model is shown it, with what stands beside it.
    #[must_use]
    pub fn stored(record: &MessageRecord, message: Message) -> Self {
        let model = record.model.as_deref().and_then(|model| model.parse().ok());
        let about = About {
            id: record.id.clone(),
            at: record.at,
            route: model.zip(record.api).map(|(model, api)| Route { model, api }),
            stop: record.stop,
            usage: record.usage,
            // What a document says of that is no knowledge of flock's.
            provenance: record.provenance.clone().filter(|_| !record.imported),
            imported: record.imported,
            kind: kind_of(record),
        };
        Self { message: Arc::new(message), about: Arc::new(about) }
    }

    /// Who it is from.
    #[must_use]
    pub fn role(&self) -> Role {
        self.message.role
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TurnId;

    #[test]
    fn what_no_model_said_is_known_by_its_record() {
        let kind = |model: Option<&str>, filled| {
            let mut record = MessageRecord::new(TurnId::new(), 1, Message::text(Role::Assistant, "x"));
            (record.model, record.filled) = (model.map(str::to_owned), filled);
            Entry::stored(&record, record.message.clone()).about.kind
        };
        for model in FOR_PEOPLE {
            assert_eq!(kind(Some(model), false), Kind::ForPeople);
        }
        let mut traced = MessageRecord::new(TurnId::new(), 1, Message::text(Role::Assistant, "x"));
        let plain = Entry::stored(&traced, traced.message.clone());
        traced.trace = vec!["[coder] cmd: ls → exit 0".into()];
        assert_eq!(Entry::stored(&traced, traced.message.clone()), plain, "the log is for people");
        assert_eq!(kind(Some("openclaw/main"), false), Kind::Said);
        assert_eq!((kind(None, true), kind(None, false)), (Kind::Filled, Kind::Said));
    }
}
