//! Final check of a request. An error that names the call helps more than a provider's rejection that names a position
//! in JSON.

use std::collections::HashSet;

use super::pairing;
use super::policy::{HygienePolicy, IdFormat};
use crate::agent::transcript::Entry;
use crate::error::{Explain, Kind};
use crate::provider::Role;

/// A conversation that providers would reject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HygieneError {
    /// A call without its result, or a result without its call.
    #[error(
        "invalid_replay_transcript: message {index} (record {record:?}): the call {call:?} and its result do not stand together"
    )]
    Unpaired {
        /// Index of the message in the request.
        index: usize,
        /// Id of the record that the message comes from.
        record: String,
        /// Id of the call.
        call: String,
    },
    /// Two calls with the same id.
    #[error(
        "invalid_replay_transcript: message {index} (record {record:?}): the id {call:?} belongs to two calls"
    )]
    SameId {
        /// Index of the message in the request.
        index: usize,
        /// Id of the record that the message comes from.
        record: String,
        call: String,
    },
    /// A pass panicked.
    #[error("making the conversation ready for the model broke off because of a defect")]
    BrokeOff,
    /// A message without content.
    #[error("invalid_replay_transcript: message {index} (record {record:?}) is empty")]
    Empty {
        /// Index of the message in the request.
        index: usize,
        /// Id of the record that the message comes from.
        record: String,
    },
}

impl Explain for HygieneError {
    fn kind(&self) -> Kind {
        Kind::Internal
    }

    fn hint(&self) -> Option<String> {
        Some("start the session anew with /new, and report this: flock should have mended it".to_owned())
    }
}

/// Checks the result of the passes.
pub(super) fn check(entries: &[Entry], policy: &HygienePolicy) -> Result<(), HygieneError> {
    let record = |index: usize| entries.get(index).map(|entry| entry.about.id.clone()).unwrap_or_default();
    if let Some(index) = pairing::first_unpaired_index(entries) {
        let call = entries[index].message.tool_calls().next().map(|call| call.id.to_owned());
        return Err(HygieneError::Unpaired { index, record: record(index), call: call.unwrap_or_default() });
    }
    if let Some(index) = entries.iter().position(|entry| entry.message.content.is_empty()) {
        return Err(HygieneError::Empty { index, record: record(index) });
    }
    let mut ids = HashSet::new();
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.role() == Role::Assistant) {
        for call in entry.message.tool_calls() {
            // A result names only the first half of a pair.
            let id = if policy.ids == IdFormat::Pairs { call.id.split('|').next() } else { None };
            let id = id.unwrap_or(call.id);
            if !ids.insert(id) {
                return Err(HygieneError::SameId { index, record: record(index), call: id.to_owned() });
            }
        }
    }
    Ok(())
}
