//! One message of a conversation with the facts about it, as the input for a request.

use std::sync::Arc;

use super::MessageRecord;
use crate::agent::Provenance;
use crate::provider::{Message, Role, Route, StopReason, Usage};

/// A message that is shared by reference: hygiene copies only the few messages that it changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The message as the model is to read it.
    pub message: Arc<Message>,
    pub about: Arc<EntryMetadata>,
}

/// The facts about a message. None of them is ever read from the message's own text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryMetadata {
    /// Id of the record that the message comes from. Empty if there is none.
    pub id: String,
    /// Unix milliseconds.
    pub at: i64,
    /// On an answer: the model and API that it came from.
    pub route: Option<Route>,
    /// On an answer: the reason for its end.
    pub stop: Option<StopReason>,
    /// On an answer: its token usage.
    pub usage: Option<Usage>,
    /// On an input: its origin.
    pub provenance: Option<Provenance>,
    /// `true` if the message was imported.
    pub imported: bool,
    pub kind: EntryKind,
}

/// The kind of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryKind {
    /// An ordinary message.
    #[default]
    Said,
    /// The first message or marker that a compaction put in place of older messages.
    Compacted,
    /// An answer that only people were shown. No model gave it.
    ForPeople,
    /// An answer that nobody gave: a repair put a text in its place.
    Filled,
}

/// The models under which OpenClaw and similar gateways store texts that people were shown and no model said.
const DISPLAY_ONLY_MODELS: [&str; 2] = ["openclaw/delivery-mirror", "openclaw/gateway-injected"];

fn kind_of(record: &MessageRecord) -> EntryKind {
    // The flag wins over the model's name, because a repair keeps the model of the failed answer.
    if record.filled {
        return EntryKind::Filled;
    }
    match record.model.as_deref() {
        Some(model) if DISPLAY_ONLY_MODELS.contains(&model) => EntryKind::ForPeople,
        _ => EntryKind::Said,
    }
}

impl Entry {
    /// Creates the entry of a stored message. `message` is the record's message as the model reads it, with the context
    /// beside it.
    #[must_use]
    pub fn stored(record: &MessageRecord, message: Message) -> Self {
        // A model name that can't be parsed leaves the answer without a route, so its thinking is not sent back.
        let model = record.model.as_deref().and_then(|model| model.parse().ok());
        let about = EntryMetadata {
            id: record.id.clone(),
            at: record.at,
            route: model.zip(record.api).map(|(model, api)| Route { model, api }),
            stop: record.stop,
            usage: record.usage,
            // An imported document's claim about the origin is not flock's own knowledge, so it is dropped.
            provenance: record.provenance.clone().filter(|_| !record.imported),
            imported: record.imported,
            kind: kind_of(record),
        };
        Self { message: Arc::new(message), about: Arc::new(about) }
    }

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
    fn display_only_answers_are_recognised_by_their_model() {
        let kind = |model: Option<&str>, filled| {
            let mut record = MessageRecord::new(TurnId::new(), 1, Message::text(Role::Assistant, "x"));
            (record.model, record.filled) = (model.map(str::to_owned), filled);
            Entry::stored(&record, record.message.clone()).about.kind
        };
        for model in DISPLAY_ONLY_MODELS {
            assert_eq!(kind(Some(model), false), EntryKind::ForPeople);
        }
        let mut traced = MessageRecord::new(TurnId::new(), 1, Message::text(Role::Assistant, "x"));
        let plain = Entry::stored(&traced, traced.message.clone());
        traced.trace = vec!["[coder] cmd: ls → exit 0".into()];
        assert_eq!(Entry::stored(&traced, traced.message.clone()), plain, "the log is for people");
        assert_eq!(kind(Some("openclaw/main"), false), EntryKind::Said);
        assert_eq!((kind(None, true), kind(None, false)), (EntryKind::Filled, EntryKind::Said));
    }
}
