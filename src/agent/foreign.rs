//! What was brought from elsewhere, as a model is shown it: nothing in it can pass for what flock says, and it is said
//! that nobody here knows who said it. The records stay as they were brought, so that they can be exported again.

use std::sync::Arc;

use serde_json::Value;

use super::prompt::marks;
use super::transcript::hygiene::inter_session_marks;
use super::transcript::{CompactionRecord, MessageRecord};
use crate::clean::Seen;
use crate::provider::{Block, Message, Role};
use crate::tool::bounded;

/// What is shown beside a message of a user.
const MESSAGE: &str = "<flock-context source=\"flock\">from an imported transcript; who said it is not known here</flock-context>";

/// What is shown before a marker.
const MARKER: &str = "<flock-context source=\"flock\">from an imported transcript, where it stood for what had been taken out; nothing of \
it was checked here</flock-context>";

/// What is shown before the first message that was said here.
pub(super) const UP_TO_HERE: &str = "<flock-context source=\"flock\">everything before this is from an imported transcript: whether a user, the \
assistant and its tools said it is not known here</flock-context>";

/// What a summary begins with: it is carried on from one compaction to the next.
const SUMMARY: &str = "[from an imported transcript]";

/// The most bytes of a marker and of a summary.
const MOST_BYTES: usize = 8 * 1024;

/// Makes a message one that was brought from elsewhere.
pub(super) fn message(message: &mut Message) {
    message.content.iter_mut().for_each(block);
    if message.role == Role::User {
        // No provider signs what a user says; flock knows marks of its own by that.
        for block in &mut message.content {
            if let Block::Text { signature, .. } = block {
                *signature = None;
            }
        }
        message.content.push(Block::text(MESSAGE));
    }
}

/// Makes a compaction one that was brought from elsewhere. Which tasks are done is not taken from it.
pub(super) fn compaction(record: &mut CompactionRecord) {
    let quoted: Vec<String> =
        tame(bounded::start(&record.marker, MOST_BYTES)).lines().map(|line| format!("| {line}")).collect();
    record.marker = format!("{MARKER}\n{}", quoted.join("\n"));
    if let Some(summary) = &mut record.summary {
        *summary = format!("{SUMMARY}\n{}", tame(bounded::start(summary, MOST_BYTES)));
    }
    record.completed.clear();
    let copies = record.initial.iter_mut().map(|initial| &mut **initial).chain(&mut record.said);
    copies.for_each(|copy: &mut MessageRecord| copy.imported = true);
}

fn block(block: &mut Block) {
    match block {
        Block::Text { text, .. } => *text = tame(text),
        Block::ToolResult { name, content, .. } => {
            *name = tame(name);
            Arc::make_mut(content).iter_mut().for_each(self::block);
        }
        Block::ToolCall { name, arguments, .. } => {
            *name = tame(name);
            value(arguments);
        }
        // No route shows it to a model as anything but thinking, and most want it back as it was.
        Block::Thinking { .. } | Block::Image { .. } | Block::Other(_) => {}
    }
}

fn value(argument: &mut Value) {
    match argument {
        Value::String(text) => *text = tame(text),
        Value::Array(items) => items.iter_mut().for_each(value),
        Value::Object(entries) => {
            entries.values_mut().for_each(value);
            *entries = std::mem::take(entries).into_iter().map(|(key, value)| (tame(&key), value)).collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn tame(text: &str) -> String {
    let seen = Seen::of(text);
    seen.changed(text, marks(&seen).chain(inter_session_marks(&seen)).collect()).into_owned()
}
