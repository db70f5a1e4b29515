//! Messages about requests for sessions and channels.

use crate::id::{ChannelId, Party};
use crate::store::{InboxItemKind, NewInboxItem, NewPost, RequestRow};

/// Returns the message with a request's result for the session that asked.
#[must_use]
pub(crate) fn result(row: &RequestRow, text: &str, now: i64) -> NewInboxItem {
    NewInboxItem {
        session: row.session.clone(),
        kind: InboxItemKind::Result,
        sender: Party::System.to_string(),
        text: text.to_owned(),
        task: None,
        now,
    }
}

/// Returns the messages with a request's result for the session that asked: none if a server asked, which gets its answer
/// itself.
#[must_use]
pub(crate) fn results(row: &RequestRow, text: &str, now: i64) -> Vec<NewInboxItem> {
    if row.kind == super::question::KIND { Vec::new() } else { vec![result(row, text, now)] }
}

/// Returns the text for the agent whose request nobody decided in time.
#[must_use]
pub(crate) fn expired(id: &str) -> String {
    format!("Your request {id} expired undecided.")
}

/// Returns a post for the channel from which the request came, if there is one. It only informs: it wakes nobody, and
/// nothing that is said in a channel decides about a request.
#[must_use]
pub(crate) fn post(channel: Option<&ChannelId>, text: &str, now: i64) -> Option<NewPost> {
    channel.map(|channel| NewPost::of_system(channel, text.to_owned(), now))
}
