//! One channel: its conversation, its members, and the form for a message.

use std::collections::BTreeSet;

use askama::Template;
use serde::Deserialize;

use super::channels::{self, Channel, state_text};
use super::file::{File, FileShape, FileView};
use super::{requests, sessions};
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Offer, Page, Viewer, fetch, fetch_if, query};
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::markdown;
use crate::swarm::{attachment, triage};

/// Number of messages that a page has at first, and that each further part adds.
const MESSAGES: usize = 50;
/// Number of ids of requests in them that are looked for.
const MAX_IDS: usize = 20;

#[derive(Deserialize)]
struct Messages {
    messages: Vec<Message>,
    before: Option<u64>,
    after: Option<u64>,
}

#[derive(Default, Deserialize)]
struct BridgeList {
    bridges: Vec<Bridge>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bridge {
    platform: String,
    state: String,
    last_error: Option<String>,
    links: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    channel: String,
    title: String,
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message {
    seq: u64,
    author: String,
    content: String,
    created_at: i64,
    turn: Option<Turn>,
    #[serde(default)]
    files: Vec<File>,
}

/// The turn that posted a message.
#[derive(Deserialize)]
struct Turn {
    id: String,
    session: SessionKey,
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
    /// Number of messages in one element of the page.
    stretch: usize,
    /// The address of the part with the messages before these.
    earlier: Option<String>,
    /// The address of the part with the messages after these.
    later: Option<String>,
    address: String,
    links: Vec<LinkView>,
}

/// A channel of another platform that this one is linked with.
struct LinkView {
    platform: String,
    title: String,
    /// The states of the link and of its bridge.
    state: String,
    problem: Option<String>,
}

struct MemberView {
    name: String,
    /// Its answer to being archived: `Some(true)` if it is ready.
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
    /// The address of the turn that posted it.
    turn: Option<String>,
    /// HTML that flock's own writer made of the message's Markdown.
    html: String,
    files: Vec<FileView>,
}

/// Returns the page, or with `?before=` or `?after=` in its query another part of the conversation.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, id: &str, query: &str) -> Result<Page, ApiFailure> {
    let base = format!("/api/channels/{id}");
    let number = |name| query::value(query, name).and_then(|value| value.parse::<u64>().ok());
    // A place in the middle is shown with what was said before it.
    let after =
        number("after").or_else(|| number("around").map(|seq| seq.saturating_sub(MESSAGES as u64 / 2)));
    let place = match (after, number("before")) {
        (Some(after), _) => format!("&after={after}"),
        (None, Some(before)) => format!("&before={before}"),
        (None, None) => String::new(),
    };
    let messages_path = format!("{base}/messages?limit={MESSAGES}{place}");
    let (channel, page, bridges) = tokio::join!(
        fetch::<Channel>(api, &base),
        fetch::<Messages>(api, &messages_path),
        fetch_if::<BridgeList>(viewer.has(Offer::Administer), api, "/api/bridges"),
    );
    let (channel, page, bridges) = (channel?, page?, bridges?);
    let requests = linked_requests(api, &page.messages).await;
    let name = channel.name.clone().unwrap_or_else(|| channel.channel_id.clone());
    let ready = |member: &String| {
        let archive = channel.archive.as_ref()?;
        archive.ready.contains(member).then_some(true).or(archive.waiting.contains(member).then_some(false))
    };
    let members =
        channel.members.iter().map(|member| MemberView { name: member.clone(), ready: ready(member) });
    let address = channels::address(&channel.channel_id);
    Page::of(&ChannelPage {
        layout: Layout::new(viewer, Some(NavItem::Channels), format!("#{name}")),
        members: members.collect(),
        messages: views(&channel.channel_id, &channel.members, &requests, page.messages),
        stretch: MESSAGES,
        earlier: page.before.map(|before| format!("{address}?before={before}")),
        later: page.after.map(|after| format!("{address}?after={after}")),
        links: links(bridges, &channel.channel_id),
        address,
        state_text: state_text(viewer.texts(), &channel.state),
        state: channel.state,
        topic: channel.topic,
        id: channel.channel_id,
        name,
    })
}

fn links(bridges: BridgeList, channel: &str) -> Vec<LinkView> {
    let all = bridges.bridges.into_iter().flat_map(|bridge| {
        let (platform, state, problem) = (bridge.platform, bridge.state, bridge.last_error);
        bridge.links.into_iter().map(move |link| (link, platform.clone(), state.clone(), problem.clone()))
    });
    all.filter(|(link, ..)| link.channel.eq_ignore_ascii_case(channel))
        .map(|(link, platform, state, problem)| LinkView {
            platform,
            title: link.title,
            state: format!("{}, {state}", link.state),
            problem,
        })
        .collect()
}

/// Returns the ids in these messages that are ids of requests, with the addresses of these.
async fn linked_requests(api: &dyn Api, messages: &[Message]) -> Vec<(String, String)> {
    let ids: BTreeSet<&str> =
        messages.iter().rev().flat_map(|message| triage::ids_in(&message.content)).take(MAX_IDS).collect();
    let found = ids.into_iter().map(|id| async move {
        // An agent can write any id. Without such a request it stays a text.
        let is_known = api.get(&format!("/api/approvals/{id}")).await.is_ok();
        is_known.then(|| (id.to_owned(), requests::address(id)))
    });
    futures_util::future::join_all(found).await.into_iter().flatten().collect()
}

/// Returns the messages of a page. A mention of a member is a link to what it does in this channel, and the id of a
/// request to that request.
fn views(
    channel: &str,
    members: &[String],
    requests: &[(String, String)],
    messages: Vec<Message>,
) -> Vec<MessageView> {
    let requests: Vec<(&str, String)> =
        requests.iter().map(|(id, address)| (id.as_str(), address.clone())).collect();
    // Members that are no agents have no session.
    let agents = members.iter().filter_map(|member| Some((member.as_str(), member.parse::<AgentId>().ok()?)));
    let sessions: Vec<(&str, String)> = agents
        .map(|(name, agent)| {
            (name, sessions::address(&SessionKey::new(&agent, SessionKind::Channel, channel)))
        })
        .collect();
    let mut before: Option<String> = None;
    messages
        .into_iter()
        .map(|message| {
            let continues = before.as_ref() == Some(&message.author);
            before = Some(message.author.clone());
            let is_human = message.author.starts_with("human:");
            // What is shown as a file need not be read as its place too.
            let text = if is_human && !message.files.is_empty() {
                attachment::without_places(channel, &message.content)
            } else {
                message.content
            };
            let route = format!("/api/channels/{}/messages/{}", query::encoded(channel), message.seq);
            MessageView {
                seq: message.seq,
                kind: if is_human { "human" } else { "agent" },
                author: message.author,
                continues,
                at: Moment::new(message.created_at),
                turn: message.turn.map(|turn| sessions::turn_address(&turn.session, &turn.id)),
                html: markdown::html_in_page(&text, &sessions, &requests),
                files: message.files.into_iter().map(|file| FileView::new(&route, file)).collect(),
            }
        })
        .collect()
}
