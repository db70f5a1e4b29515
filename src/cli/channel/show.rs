//! Channels and messages, formatted for people.
//!
//! Control characters in text of agents are escaped. A message's text stands indented below its head, so that no text
//! can imitate the head of another message.

use jiff::tz::TimeZone;
use serde_json::Value;

use crate::clean;
use crate::ui::{Printer, StyledLine, Table, TextStyle};

/// Prints one message: a head with number, author and time, and the text below it.
pub(crate) fn message(message: &Value, printer: &Printer) {
    let text = |key: &str| message[key].as_str().unwrap_or_default();
    let author = text("author");
    let tone = if author.starts_with("human:") { TextStyle::Strong } else { TextStyle::Accent };
    let head = StyledLine::new()
        .plain(format!("[{}] ", message["seq"]))
        .with(tone, clean::inline(author))
        .with(TextStyle::Dim, format!("  {}", time(message["createdAt"].as_i64().unwrap_or_default())));
    printer.line(head);
    for line in text("content").split('\n') {
        printer.line(StyledLine::new().plain(format!("    {line}")));
    }
}

/// Prints a table of channels.
pub(crate) fn channels(all: &[Value], printer: &Printer) {
    let mut table = Table::new(&["CHANNEL", "STATE", "MEMBERS", "MESSAGES", "TOPIC"]);
    for channel in all {
        let text = |key: &str| channel[key].as_str().unwrap_or_default().to_owned();
        let tone = match channel["state"].as_str() {
            Some("active") => TextStyle::Good,
            Some("archiving") => TextStyle::Warn,
            _ => TextStyle::Dim,
        };
        table.styled_row(vec![
            (TextStyle::Accent, display_name(&text("channelId"), &text("name"))),
            (tone, text("state")),
            (TextStyle::Plain, names(&channel["members"], 8)),
            (TextStyle::Plain, channel["lastSeq"].to_string()),
            (TextStyle::Plain, truncate(&text("topic"), 60)),
        ]);
    }
    printer.table(&table);
}

/// Returns a channel's id, followed by its shown name if that differs.
fn display_name(id: &str, name: &str) -> String {
    if name.is_empty() || name == id { id.to_owned() } else { format!("{id} ({name})") }
}

/// Returns a sentence about the channel's state, for example how far archiving has got.
pub(crate) fn standing(channel: &Value) -> String {
    let id = channel["channelId"].as_str().unwrap_or_default();
    match channel["state"].as_str() {
        Some("archiving") => {
            let archive = &channel["archive"];
            let due = time(archive["dueAt"].as_i64().unwrap_or_default());
            let waiting = names(&archive["waiting"], 20);
            format!("#{id} is being archived: waiting for {waiting}, until {due} at the latest")
        }
        Some(state) => format!("#{id} is {state}"),
        None => format!("#{id}"),
    }
}

/// Joins names with commas. Only the first `most` names are printed; the rest is counted.
pub(crate) fn names(list: &Value, most: usize) -> String {
    let all: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match all.len() {
        0 => "nobody".to_owned(),
        count if count > most => format!("{}, {} more", all[..most].join(", "), count - most),
        _ => all.join(", "),
    }
}

// Counts characters and not bytes, so that no character is cut.
fn truncate(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn time(milliseconds: i64) -> String {
    // A time outside the range that jiff supports is printed as a number.
    jiff::Timestamp::from_millisecond(milliseconds).map_or_else(
        |_| milliseconds.to_string(),
        |time| time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string(),
    )
}
