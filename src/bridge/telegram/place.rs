//! The ids of chats, topics and messages.

use std::fmt;

use crate::bridge::platform::PlatformError;

/// The number of the topic *General*, to which messages are sent without a topic.
const GENERAL: i64 = 1;
/// Chats with lower ids are supergroups and channels.
const SUPERGROUPS: i64 = -1_000_000_000_000;
/// The mark of a message's id in a small group.
const SMALL: char = 'g';

/// A chat, or a topic in it. It is written as `CHAT` or `CHAT/TOPIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) chat: i64,
    pub(super) topic: Option<i64>,
}

impl Place {
    pub(super) fn new(chat: i64, topic: Option<i64>) -> Self {
        Self { chat, topic: topic.filter(|&topic| topic > GENERAL) }
    }

    pub(super) fn parse(external: &str) -> Result<Self, PlatformError> {
        let (chat, topic) = match external.split_once('/') {
            Some((chat, topic)) => (chat.parse().ok(), topic.parse().ok().map(Some)),
            None => (external.parse().ok(), Some(None)),
        };
        let place = chat.zip(topic).map(|(chat, topic)| Self::new(chat, topic));
        place.ok_or_else(|| {
            PlatformError::Refused(format!("{external} is not the id of a chat of Telegram's"))
        })
    }

    /// Returns `true` for a group that is no supergroup yet.
    fn is_small_group(self) -> bool {
        self.chat < 0 && self.chat > SUPERGROUPS
    }

    /// Returns the id of a message.
    ///
    /// A small group that becomes a supergroup counts its messages anew, and its link stays. A mark keeps the old ids
    /// from being taken for new ones.
    pub(super) fn message_id(self, number: i64) -> String {
        if self.is_small_group() { format!("{SMALL}{number}") } else { number.to_string() }
    }

    /// Returns the number of a message in this chat. `None` if it is of the group that this one was before.
    pub(super) fn message_number(self, id: &str) -> Option<i64> {
        let id = if self.is_small_group() { id.strip_prefix(SMALL)? } else { id };
        id.parse().ok().filter(|&number| number > 0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.topic {
            Some(topic) => write!(f, "{}/{topic}", self.chat),
            None => write!(f, "{}", self.chat),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for id in ["-1001234567890", "-1001234567890/45", "5500000001", "-4100001"] {
            assert_eq!(Place::parse(id).unwrap().to_string(), id);
        }
        for id in ["", "x", "-100123/", "/4", "-100123/x", "1/2/3", "99999999999999999999"] {
            assert!(matches!(Place::parse(id), Err(PlatformError::Refused(_))), "{id}");
        }
    }

    #[test]
    fn the_topic_general_is_the_chat_itself() {
        assert_eq!(Place::parse("-1001234567890/1").unwrap().to_string(), "-1001234567890");
    }

    #[test]
    fn a_message_of_a_small_group_is_none_of_the_supergroup_after_it() {
        let (small, large) = (Place::new(-4_100_001, None), Place::new(-1_001_234_567_890, None));
        assert_eq!((small.message_id(7), large.message_id(7)), ("g7".to_owned(), "7".to_owned()));
        assert_eq!((small.message_number("g7"), large.message_number("7")), (Some(7), Some(7)));
        assert_eq!((small.message_number("7"), large.message_number("g7")), (None, None));
        assert_eq!((large.message_number("-7"), large.message_number("x")), (None, None));
    }
}
