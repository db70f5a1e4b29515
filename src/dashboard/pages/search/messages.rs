//! The search in the messages of all channels, the newest first.

use askama::Template;
use serde::Deserialize;

use super::Tab;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::pages::channels;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::markdown;

#[derive(Deserialize)]
struct Found {
    messages: Vec<Message>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    channel_id: String,
    seq: u64,
    author: String,
    content: String,
    created_at: i64,
}

#[derive(Template)]
#[template(path = "search_messages.html")]
struct MessagesPage {
    layout: Layout,
    tab: Tab,
    words: String,
    results: Vec<ResultView>,
}

struct ResultView {
    channel: String,
    seq: u64,
    /// The place of the message in its channel.
    address: String,
    author: String,
    at: Moment,
    html: String,
}

/// Returns the page. `?q=` in its query has the words.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, query: &str) -> Result<Page, ApiFailure> {
    let words = query::value(query, "q").unwrap_or_default();
    let found = if words.trim().is_empty() {
        Found { messages: Vec::new() }
    } else {
        fetch(api, &format!("/api/search?q={}", query::encoded(&words))).await?
    };
    let results = found.messages.into_iter().map(|message| {
        let (channel, seq) = (channels::address(&message.channel_id), message.seq);
        ResultView {
            address: format!("{channel}?around={seq}#m{seq}"),
            channel: message.channel_id,
            seq,
            author: message.author,
            at: Moment::new(message.created_at),
            html: markdown::html_in_page(&message.content, &[], &[]),
        }
    });
    let layout = Layout::new(viewer, Some(NavItem::Search), viewer.texts().search_messages);
    Page::of(&MessagesPage { layout, tab: Tab::Messages, words, results: results.collect() })
}
