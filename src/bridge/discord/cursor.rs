//! The place in Discord's stream of events.
//!
//! Ids of messages grow with time in all channels, so one id says how far all of them were delivered. While the
//! history is read, channels get ahead of it one by one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::snowflake;

/// Messages of one moment may arrive in another order than their ids have, so reading begins this much earlier.
const OVERLAP: i64 = 10_000;
/// Largest number of direct channels that are remembered.
const MAX_DIRECT: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Cursor {
    /// Every message up to this id was delivered.
    seen: u64,
    /// Channels in which more was delivered, while the history is read.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    filled: BTreeMap<String, u64>,
    /// Direct channels, the newest last. Discord lists them nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    direct: Vec<String>,
}

impl Cursor {
    /// Reads a cursor. One that can't be read is as good as none.
    pub(super) fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        serde_json::json!(self).to_string()
    }

    /// Returns the id after which a channel is read that is linked since a time in Unix milliseconds.
    pub(super) fn start(&self, channel: &str, since: i64) -> u64 {
        let seen = self.filled.get(channel).copied().unwrap_or(0).max(self.seen);
        let overlapped =
            if seen == 0 { 0 } else { snowflake::at(snowflake::time(seen).saturating_sub(OVERLAP)) };
        overlapped.max(snowflake::at(since).saturating_sub(1))
    }

    /// Returns the direct channels, and nothing if nothing was ever seen.
    pub(super) fn direct(&self) -> &[String] {
        if self.seen == 0 { &[] } else { &self.direct }
    }

    pub(super) fn learn_direct(&mut self, channel: &str) {
        if self.direct.last().is_some_and(|last| last == channel) {
            return;
        }
        self.direct.retain(|known| known != channel);
        self.direct.push(channel.to_owned());
        if self.direct.len() > MAX_DIRECT {
            self.direct.remove(0);
        }
    }

    /// Everything of a channel up to this id was delivered, from its history.
    pub(super) fn fill(&mut self, channel: &str, id: u64) {
        let filled = self.filled.entry(channel.to_owned()).or_default();
        *filled = id.max(*filled);
    }

    /// The history of all channels was delivered.
    pub(super) fn complete(&mut self) {
        let newest = std::mem::take(&mut self.filled).into_values().max().unwrap_or(0);
        self.seen = newest.max(self.seen);
    }

    /// A message was delivered as it was written.
    pub(super) fn see(&mut self, id: u64) {
        self.seen = id.max(self.seen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SINCE: i64 = 1_700_000_000_000;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        let mut cursor = Cursor::default();
        cursor.see(5);
        cursor.fill("c", 7);
        cursor.learn_direct("d");
        assert_eq!(Cursor::read(Some(&cursor.text())), cursor);
        for text in [None, Some(""), Some("[]"), Some("{\"seen\": \"x\"}")] {
            assert_eq!(Cursor::read(text), Cursor::default());
        }
    }

    #[test]
    fn reading_starts_at_the_link_or_a_little_before_what_was_seen() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.start("c", SINCE), snowflake::at(SINCE) - 1);
        cursor.see(snowflake::at(SINCE + 60_000));
        assert_eq!(cursor.start("c", SINCE), snowflake::at(SINCE + 50_000));
        assert_eq!(cursor.start("c", SINCE + 55_000), snowflake::at(SINCE + 55_000) - 1);
        cursor.fill("c", snowflake::at(SINCE + 90_000));
        assert_eq!(cursor.start("c", SINCE), snowflake::at(SINCE + 80_000));
        assert_eq!(cursor.start("other", SINCE), snowflake::at(SINCE + 50_000));
    }

    #[test]
    fn a_history_that_was_read_to_its_end_counts_for_all_channels() {
        let mut cursor = Cursor::default();
        cursor.fill("c", 7);
        cursor.fill("c", 6);
        cursor.see(5);
        cursor.complete();
        cursor.see(3);
        assert_eq!(cursor, Cursor { seen: 7, ..Cursor::default() });
    }

    #[test]
    fn few_direct_channels_are_remembered() {
        let mut cursor = Cursor::default();
        for number in 0..150 {
            cursor.learn_direct(&number.to_string());
        }
        cursor.learn_direct("149");
        cursor.learn_direct("60");
        assert!(cursor.direct().is_empty());
        cursor.see(1);
        assert_eq!((cursor.direct().len(), cursor.direct().last().unwrap().as_str()), (100, "60"));
    }
}
