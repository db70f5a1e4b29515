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
            kind: if record.filled { Kind::Filled } else { Kind::Said },
        };
        Self { message: Arc::new(message), about: Arc::new(about) }
    }

    /// Who it is from.
    #[must_use]
    pub fn role(&self) -> Role {
        self.message.role
    }
}
