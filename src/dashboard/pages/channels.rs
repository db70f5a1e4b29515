//! The list of channels, and the form for a new one.

use askama::Template;
use serde::Deserialize;

use crate::dashboard::format::{Moment, count};
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};

#[derive(Deserialize)]
struct ChannelList {
    channels: Vec<Channel>,
}

/// A channel as the routes describe it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Channel {
    pub channel_id: String,
    pub name: Option<String>,
    pub topic: String,
    pub members: Vec<String>,
    pub created_at: i64,
    pub state: String,
    pub last_seq: u64,
    pub archive: Option<Archive>,
}

/// The archive protocol of a channel that is being archived.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Archive {
    pub ready: Vec<String>,
    pub waiting: Vec<String>,
}

#[derive(Template)]
#[template(path = "channels.html")]
struct ChannelsPage {
    layout: Layout,
    channels: Vec<ChannelView>,
}

struct ChannelView {
    id: String,
    name: String,
    address: String,
    topic: String,
    members: Vec<String>,
    messages: String,
    last_seq: u64,
    state: String,
    state_text: &'static str,
    created: Moment,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let listed: ChannelList = fetch(api, "/api/channels").await?;
    let texts = viewer.texts();
    let mut channels: Vec<ChannelView> =
        listed.channels.into_iter().map(|channel| view(texts, channel)).collect();
    // Those in use come first; within them the newest.
    channels.sort_by(|a, b| {
        (a.state == "archived").cmp(&(b.state == "archived")).then_with(|| b.created.iso.cmp(&a.created.iso))
    });
    Page::of(&ChannelsPage { layout: Layout::new(viewer, Some(NavItem::Channels), texts.channels), channels })
}

fn view(texts: &'static Texts, channel: Channel) -> ChannelView {
    ChannelView {
        address: address(&channel.channel_id),
        name: channel.name.unwrap_or_else(|| channel.channel_id.clone()),
        id: channel.channel_id,
        topic: channel.topic,
        members: channel.members,
        messages: count(channel.last_seq),
        last_seq: channel.last_seq,
        state_text: state_text(texts, &channel.state),
        state: channel.state,
        created: Moment::new(channel.created_at),
    }
}

/// Returns the address of a channel's page.
pub(super) fn address(id: &str) -> String {
    format!("/dashboard/channels/{}", query::encoded(id))
}

pub(super) fn state_text(texts: &'static Texts, state: &str) -> &'static str {
    match state {
        "archiving" => texts.state_archiving,
        "archived" => texts.state_archived,
        _ => texts.state_active,
    }
}
