//! Formats the answers of the session tools as short, bounded texts.

use super::{HistoryEntry, SessionInfo};
use crate::provider::Role;
use crate::tool::safe_text;

/// Maximum number of sessions in a listing.
const MAX_LISTED: usize = 50;

/// Maximum bytes of one message in a history.
const MAX_ENTRY: usize = 4 * 1024;

/// Maximum bytes of a whole history.
const MAX_HISTORY: usize = 30 * 1024;

pub(super) fn list(sessions: &[SessionInfo]) -> String {
    if sessions.is_empty() {
        return "you have no sessions yet".to_owned();
    }
    // One line for each session: a model that needs more asks for the status of one.
    let mut lines: Vec<String> = sessions.iter().take(MAX_LISTED).map(line).collect();
    // Sessions come with the most recently used first, so the last ones are dropped.
    if sessions.len() > MAX_LISTED {
        lines.push(format!("{} older ones are not shown", sessions.len() - MAX_LISTED));
    }
    lines.join("\n")
}

fn line(info: &SessionInfo) -> String {
    let busy = if info.busy { ", busy" } else { "" };
    format!("{}: {} turns, last used {}{busy}", info.key, info.turns, format_time(info.updated_at))
}

pub(super) fn status(info: &SessionInfo) -> String {
    let usage = &info.usage;
    format!(
        "session {}\nstate: {}\nmodel: {}\nturns: {}\nstarted: {}\nlast used: {}\ntokens: {} in, {} out, \
         {} read from cache, {} written to cache",
        info.key,
        if info.busy { "busy" } else { "idle" },
        info.model.as_deref().unwrap_or("none yet"),
        info.turns,
        format_time(info.created_at),
        format_time(info.updated_at),
        usage.input,
        usage.output,
        usage.cache_read,
        usage.cache_write,
    )
}

/// Returns the newest messages that fit, oldest first.
pub(super) fn history(entries: &[HistoryEntry]) -> String {
    if entries.is_empty() {
        return "the session is empty".to_owned();
    }
    let mut room = MAX_HISTORY;
    let mut lines = Vec::new();
    // From the newest on, because the newest messages are kept if not all of them fit.
    for entry in entries.iter().rev() {
        let line = format!(
            "[{} {}] {}",
            format_time(entry.at),
            role(entry.role),
            safe_text::middle_cut(&entry.text, MAX_ENTRY)
        );
        let Some(left) = room.checked_sub(line.len() + 1) else {
            break;
        };
        room = left;
        lines.push(line);
    }
    let missing = entries.len() - lines.len();
    if missing > 0 {
        lines.push(format!("[{missing} older messages do not fit here]"));
    }
    lines.reverse();
    lines.join("\n")
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn format_time(unix_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_ms)
        .map_or_else(|_| "at an unknown time".to_owned(), |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_is_bounded_and_keeps_the_newest() {
        let entries: Vec<HistoryEntry> = (0..200)
            .map(|n| HistoryEntry {
                role: Role::User,
                text: format!("{n} {}", "x".repeat(500)),
                at: 1000 * n,
            })
            .collect();
        let text = history(&entries);
        assert!(text.len() < MAX_HISTORY + 100);
        assert!(text.starts_with("[1"), "{}", &text[..60]);
        assert!(text.contains("older messages do not fit here]\n[1970-01-01T00:0"));
        assert!(text.contains("user] 199 x"));
        let long = [HistoryEntry { role: Role::Tool, text: "y".repeat(1_000_000), at: 0 }];
        assert!(history(&long).contains("bytes cut here"));
    }
}
