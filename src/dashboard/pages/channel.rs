//! One channel: its conversation, its members, and the form for a message.

use askama::Template;
use serde::Deserialize;

use super::channels::{Channel, state_text};
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::markdown;

/// Number of messages that a page has at first, and that each further part adds.
const MESSAGES: usize = 50;

#[derive(Deserialize)]
struct Messages {
    messages: Vec<Message>,
    before: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    seq: u64,
    author: String,
    content: String,
    created_at: i64,
}

#[derive(Template)]
#[template(path = "channel.html")]
struct ChannelPage {
    layout: Layout,
    id: String,
    name: String,
    topic: String,
    state: String,
    state_text: &'static str,
    members: Vec<MemberView>,
    messages: Vec<MessageView>,
    /// The address of the part with the messages before these.
    earlier: Option<String>,
}

struct MemberView {
    name: String,
    /// What it says about being archived: `Some(true)` if it is ready.
    ready: Option<bool>,
}

struct MessageView {
    seq: u64,
    author: String,
    /// The author's kind, for styles: `human` or `agent`.
    kind: &'static str,
    /// `true` if the message before has the same author.
    continues: bool,
    at: Moment,
    /// HTML that flock's own writer made of the message's Markdown.
    html: String,
}

/// Returns the page, or with `?before=` or `?after=` in its query another part of the conversation.
pub(crate) async fn page(
    viewer: &Viewer,
    api: &dyn Api,
    id: &str,
    query: &str,
) -> Result<Page, ApiFailure> {
    let base = format!("/api/channels/{id}");
    let number = |name| query::value(query, name).and_then(|value| value.parse::<u64>().ok());
    let place = match (number("after"), number("before")) {
        (Some(after), _) => format!("&after={after}"),
        (None, Some(before)) => format!("&before={before}"),
        (None, None) => String::new(),
    };
    let messages_path = format!("{base}/messages?limit={MESSAGES}{place}");
    let (channel, page) = tokio::join!(
        fetch::<Channel>(api, &base),
        fetch::<Messages>(api, &messages_path),
    );
    let (channel, page) = (channel?, page?);
    let name = channel.name.clone().unwrap_or_else(|| channel.channel_id.clone());
    let ready = |member: &String| {
        let archive = channel.archive.as_ref()?;
        archive.ready.contains(member).then_some(true).or(archive.waiting.contains(member).then_some(false))
    };
    let members =
        channel.members.iter().map(|member| MemberView { name: member.clone(), ready: ready(member) });
    let address = super::channels::address(&channel.channel_id);
    Page::of(&ChannelPage {
        layout: Layout::new(viewer, Some(NavItem::Channels), format!("#{name}")),
        members: members.collect(),
        messages: views(page.messages),
        earlier: page.before.map(|before| format!("{address}?before={before}")),
        state_text: state_text(viewer.texts(), &channel.state),
        state: channel.state,
        topic: channel.topic,
        id: channel.channel_id,
        name,
    })
}

fn views(messages: Vec<Message>) -> Vec<MessageView> {
    let mut before: Option<String> = None;
    messages
        .into_iter()
        .map(|message| {
            let continues = before.as_ref() == Some(&message.author);
            before = Some(message.author.clone());
            MessageView {
                seq: message.seq,
                kind: if message.author.starts_with("human:") { "human" } else { "agent" },
                author: message.author,
                continues,
                at: Moment::new(message.created_at),
                html: markdown::html(&message.content),
            }
        })
        .collect()
}
