//! Makes the core's message of one of a room.

use ruma::RoomId;

use super::content::Content;
use crate::bridge::message::{IncomingMessage, Sender};

/// Returns a message of a room. Its thread is not set.
pub(super) fn message(room: &RoomId, id: &str, sender: &str, at: i64, content: Content) -> IncomingMessage {
    // What people choose to be called is no name to know them by. What stands before the homeserver's name is.
    let username = sender.strip_prefix('@').unwrap_or(sender).split(':').next().unwrap_or_default();
    IncomingMessage {
        external: room.to_string(),
        thread: None,
        is_direct: false,
        id: id.to_owned(),
        sent_at: at,
        sender: Sender {
            account: sender.to_owned(),
            username: username.to_owned(),
            roles: Vec::new(),
            is_bot: content.is_notice,
        },
        text: content.text,
        is_to_bot: content.is_to_bot,
        reply_to: content.reply_to,
        is_forwarded: false,
        files: content.files,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_known_by_the_account() {
        let content = Content { text: "hi".to_owned(), is_notice: true, ..Content::default() };
        let read = message(<&RoomId>::try_from("!r:h").unwrap(), "$1", "@Ann.B:h", 7, content);
        assert_eq!((read.external.as_str(), read.id.as_str(), read.sent_at), ("!r:h", "$1", 7));
        assert_eq!((read.sender.account.as_str(), read.sender.username.as_str()), ("@Ann.B:h", "Ann.B"));
        assert!(read.sender.is_bot);
    }
}
