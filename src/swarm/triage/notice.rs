//! What sessions and channels are told of a request.

use crate::id::{Party, SessionKey, SessionKind};
use crate::store::{ItemKind, Mentioned, NewItem, NewPost, RequestRow, Wake};

/// What came of it, for the session that asked.
#[must_use]
pub fn result(row: &RequestRow, text: &str, now: i64) -> NewItem {
    NewItem {
        session: row.session.clone(),
        kind: ItemKind::Result,
        sender: Party::System.to_string(),
        text: text.to_owned(),
        task: None,
        now,
    }
}

/// A word in the channel that it came from, if it came from one. It only tells: nobody is woken by it, and
/// nothing that is said in a channel decides anything.
#[must_use]
pub fn post(row: &RequestRow, text: &str, now: i64) -> Option<NewPost> {
    Some(NewPost {
        channel: row.channel.clone()?,
        author: Party::System,
        content: text.to_owned(),
        wake: Wake::Nobody,
        mentions: Mentioned::default(),
        session: None,
        turn: None,
        is_final: false,
        now,
    })
}

/// The channel of a session, if it is one's.
#[must_use]
pub fn channel(session: &SessionKey) -> Option<crate::id::ChannelId> {
    if session.kind() == SessionKind::Channel { session.peer().parse().ok() } else { None }
}
