//! Marks imported messages for the model. Nothing in them can imitate flock, and the model is told that their speakers
//! are not known here. The stored records stay as imported, so that they can be exported again.

use std::sync::Arc;

use serde_json::Value;

use super::prompt::marks;
use super::transcript::hygiene::inter_session_marks;
use super::transcript::{CompactionRecord, MessageRecord};
use crate::clean::Skeleton;
use crate::provider::{Block, Message, Role};
use crate::tool::safe_text;

/// The note beside an imported user message.
const MESSAGE: &str =
    "<flock-context source=\"flock\">from an imported transcript; its author is unknown here</flock-context>";

/// The note before an imported compaction marker.
const MARKER: &str = "<flock-context source=\"flock\">from an imported transcript, where it replaced removed messages; nothing of \
it was checked here</flock-context>";

/// The note before the first message that was not imported.
pub(super) const UP_TO_HERE: &str = "<flock-context source=\"flock\">everything before this is from an imported transcript; it is unknown here if a \
user, the assistant or its tools wrote it</flock-context>";

/// The prefix of an imported summary. It stays with the summary from one compaction to the next.
const SUMMARY: &str = "[from an imported transcript]";

/// The most bytes of an imported marker, and of an imported summary.
const MOST_BYTES: usize = 8 * 1024;

/// Marks a message as imported and removes marks that only flock may write.
pub(super) fn message(message: &mut Message) {
    message.content.iter_mut().for_each(block);
    if message.role == Role::User {
        // No provider signs a user's text, and flock recognises its own marks by a signature there: an imported one is
        // removed.
        for block in &mut message.content {
            if let Block::Text { signature, .. } = block {
                *signature = None;
            }
        }
        message.content.push(Block::text(MESSAGE));
    }
}

/// Marks a compaction as imported. Its list of completed tasks is dropped, because nobody here has seen them done.
pub(super) fn compaction(record: &mut CompactionRecord) {
    // Quoted with a bar on each line, so that no line can be taken for one of a real marker.
    let quoted: Vec<String> =
        tame(safe_text::start(&record.marker, MOST_BYTES)).lines().map(|line| format!("| {line}")).collect();
    record.marker = format!("{MARKER}\n{}", quoted.join("\n"));
    if let Some(summary) = &mut record.summary {
        *summary = format!("{SUMMARY}\n{}", tame(safe_text::start(summary, MOST_BYTES)));
    }
    record.completed.clear();
    // The copies in the record are shown as messages, so they are marked as well.
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
        // Every route shows this to a model only as thinking, and most providers require it back unchanged.
        Block::Thinking { .. } | Block::Image { .. } | Block::Other(_) => {}
    }
}

fn value(argument: &mut Value) {
    match argument {
        Value::String(text) => *text = tame(text),
        Value::Array(items) => items.iter_mut().for_each(value),
        Value::Object(entries) => {
            entries.values_mut().for_each(value);
            // Keys of arguments are shown to the model as well, so they are treated like values.
            *entries = std::mem::take(entries).into_iter().map(|(key, value)| (tame(&key), value)).collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn tame(text: &str) -> String {
    let seen = Skeleton::of(text);
    seen.changed(text, marks(&seen).chain(inter_session_marks(&seen)).collect()).into_owned()
}
