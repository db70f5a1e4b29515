//! Marks imported messages for the model. Nothing in them can imitate flock, and the model is told that their speakers
//! are not known here. The stored records stay as imported, so that they can be exported again.

use std::sync::Arc;

use serde_json::Value;

use super::prompt::marks;
use super::transcript::hygiene::session_mark_positions;
use super::transcript::{CompactionRecord, MessageRecord};
use crate::clean::Skeleton;
use crate::provider::{Block, Message, Role};
use crate::tool::safe_text;

/// The note beside an imported user message.
const MESSAGE_NOTE: &str =
    "<flock-context source=\"flock\">from an imported transcript; its author is unknown here</flock-context>";

/// The note before an imported compaction marker.
const MARKER_NOTE: &str = "<flock-context source=\"flock\">from an imported transcript, where it replaced removed messages; nothing of \
it was checked here</flock-context>";

/// The note before the first message that was not imported.
pub(super) const IMPORT_END_NOTE: &str = "<flock-context source=\"flock\">everything before this is from an imported transcript; it is unknown here if a \
user, the assistant or its tools wrote it</flock-context>";

/// The prefix of an imported summary. It stays with the summary from one compaction to the next.
const SUMMARY_PREFIX: &str = "[from an imported transcript]";

/// The most bytes of an imported marker, and of an imported summary.
const MAX_BYTES: usize = 8 * 1024;

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
        message.content.push(Block::text(MESSAGE_NOTE));
    }
}

/// Marks a compaction as imported. Its list of completed tasks is dropped, because nobody here has seen them done.
pub(super) fn compaction(record: &mut CompactionRecord) {
    // Quoted with a bar on each line, so that no line can be taken for one of a real marker.
    let quoted: Vec<String> = neutralize(safe_text::start(&record.marker, MAX_BYTES))
        .lines()
        .map(|line| format!("| {line}"))
        .collect();
    record.marker = format!("{MARKER_NOTE}\n{}", quoted.join("\n"));
    if let Some(summary) = &mut record.summary {
        *summary = format!("{SUMMARY_PREFIX}\n{}", neutralize(safe_text::start(summary, MAX_BYTES)));
    }
    record.completed.clear();
    // The copies in the record are shown as messages, so they are marked as well.
    let copies = record.initial.iter_mut().map(|initial| &mut **initial).chain(&mut record.said);
    copies.for_each(|copy: &mut MessageRecord| copy.imported = true);
}

fn block(block: &mut Block) {
    match block {
        Block::Text { text, .. } => *text = neutralize(text),
        Block::ToolResult { name, content, .. } => {
            *name = neutralize(name);
            Arc::make_mut(content).iter_mut().for_each(self::block);
        }
        Block::ToolCall { name, arguments, .. } => {
            *name = neutralize(name);
            value(arguments);
        }
        // Every route shows this to a model only as thinking, and most providers require it back unchanged.
        Block::Thinking { .. } | Block::Image { .. } | Block::Other(_) => {}
    }
}

fn value(argument: &mut Value) {
    match argument {
        Value::String(text) => *text = neutralize(text),
        Value::Array(items) => items.iter_mut().for_each(value),
        Value::Object(entries) => {
            entries.values_mut().for_each(value);
            // Keys of arguments are shown to the model as well, so they are treated like values.
            *entries =
                std::mem::take(entries).into_iter().map(|(key, value)| (neutralize(&key), value)).collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn neutralize(text: &str) -> String {
    let seen = Skeleton::of(text);
    seen.changed(text, marks(&seen).chain(session_mark_positions(&seen)).collect()).into_owned()
}
