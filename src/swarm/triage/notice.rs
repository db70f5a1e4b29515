//! What sessions and channels are told of a request.

use crate::id::Party;
use crate::store::{ItemKind, NewItem, NewPost, RequestRow};
use crate::swarm::channel::system;

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
    row.channel.as_ref().map(|channel| system(channel, text.to_owned(), now))
}
