//! Reads Slack's events and the messages of its history.

use serde_json::Value;

use super::ts::Ts;
use super::{emoji, place};
use crate::bridge::message::{IncomingFile, PlatformEvent, PressedButton, Sender};

/// Largest number of files that are taken of one message. Slack's own limit is 10.
const MAX_FILES: usize = 20;

/// flock's account in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Own {
    /// The id of the account, which people mention.
    pub(super) user: String,
    /// The id of the app's bot. A message with a name of its own has only this one.
    pub(super) bot: String,
    pub(super) name: String,
}

/// A message as Slack tells of it: people are ids, and the text is in Slack's markup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawMessage {
    pub(super) channel: String,
    pub(super) ts: Ts,
    /// The first message of the thread, in a reply.
    pub(super) thread: Option<Ts>,
    pub(super) is_direct: bool,
    /// The account, or the id of a bot without one.
    pub(super) sender: String,
    pub(super) is_bot: bool,
    /// The name that a bot gave itself.
    pub(super) bot_name: Option<String>,
    pub(super) text: String,
    pub(super) files: Vec<IncomingFile>,
    /// The time of the last change of the text.
    pub(super) edited: Option<Ts>,
}

impl RawMessage {
    /// Returns the id of the channel, or of the thread.
    pub(super) fn external(&self) -> String {
        external(&self.channel, self.thread)
    }
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    Message(RawMessage),
    /// A changed text. The time of the event tells it from another change.
    Edited(RawMessage, Ts),
    Deleted {
        channel: String,
        thread: Option<Ts>,
        ts: Ts,
        at: Ts,
    },
    /// Something that needs no look at the workspace.
    Other(PlatformEvent),
    /// The bot token does not work any more.
    Revoked,
    /// Nothing that flock takes.
    Nothing,
}

/// Reads the payload of an event. `None` for one that can't be read though it should be.
pub(super) fn happening(payload: &Value, own: &Own) -> Option<Happening> {
    let event = payload.get("event").filter(|event| event.is_object())?;
    Some(match text(event, "type") {
        "message" => return message_event(event, own),
        "reaction_added" => reaction(event).map_or(Happening::Nothing, Happening::Other),
        "channel_rename" | "group_rename" => {
            let (id, name) = (text(&event["channel"], "id"), text(&event["channel"], "name"));
            let renamed = PlatformEvent::Renamed { external: id.to_owned(), title: format!("#{name}") };
            if id.is_empty() || name.is_empty() { Happening::Nothing } else { Happening::Other(renamed) }
        }
        "channel_id_changed" => {
            let (from, to) = (text(event, "old_channel_id"), text(event, "new_channel_id"));
            let moved = PlatformEvent::Moved { from: from.to_owned(), to: to.to_owned() };
            if from.is_empty() || to.is_empty() { Happening::Nothing } else { Happening::Other(moved) }
        }
        "app_uninstalled" => Happening::Revoked,
        "tokens_revoked" if has(&event["tokens"]["bot"], &own.user) => Happening::Revoked,
        _ => Happening::Nothing,
    })
}

/// Returns a reaction that somebody added to a message of a channel. Its emoji is a name in Slack.
fn reaction(event: &Value) -> Option<PlatformEvent> {
    let (account, item) = (text(event, "user"), &event["item"]);
    let (channel, message) = (text(item, "channel"), text(item, "ts"));
    if account.is_empty() || channel.is_empty() || text(item, "type") != "message" {
        return None;
    }
    Some(PlatformEvent::Reacted {
        external: channel.to_owned(),
        message: message.parse::<Ts>().ok()?.to_string(),
        sender: Sender { account: account.to_owned(), username: account.to_owned(), ..Sender::default() },
        emoji: emoji::symbol(text(event, "reaction"))?.to_owned(),
    })
}

fn message_event(event: &Value, own: &Own) -> Option<Happening> {
    let channel = text(event, "channel");
    let at = text(event, "event_ts").parse().or_else(|()| text(event, "ts").parse()).ok()?;
    if channel.is_empty() {
        return None;
    }
    let previous = &event["previous_message"];
    match text(event, "subtype") {
        "message_changed" => {
            let new = &event["message"];
            // The first message of a thread is not deleted but replaced, because its replies stay.
            if text(new, "subtype") == "tombstone" {
                return Some(deleted(channel, previous, at, own));
            }
            // Slack tells in the same way of a picture of a link that it shows, or of a new reply.
            if text(new, "text") == text(previous, "text") {
                return Some(Happening::Nothing);
            }
            let changed = message(channel, new, own).filter(|message| !message.is_bot);
            Some(changed.map_or(Happening::Nothing, |message| Happening::Edited(message, at)))
        }
        "message_deleted" => Some(deleted(channel, previous, at, own)),
        _ => Some(message(channel, event, own).map_or(Happening::Nothing, Happening::Message)),
    }
}

fn deleted(channel: &str, previous: &Value, at: Ts, own: &Own) -> Happening {
    match (text(previous, "ts").parse(), is_own(previous, own)) {
        (Ok(ts), false) => {
            Happening::Deleted { channel: channel.to_owned(), thread: thread(previous, ts), ts, at }
        }
        _ => Happening::Nothing,
    }
}

/// Reads a message of an event or of the history. `None` for those of flock itself, and for Slack's own notices, such as
/// of a new topic.
pub(super) fn message(channel: &str, message: &Value, own: &Own) -> Option<RawMessage> {
    let ts: Ts = text(message, "ts").parse().ok()?;
    let kind = text(message, "subtype");
    let is_said = matches!(kind, "" | "file_share" | "thread_broadcast" | "me_message" | "bot_message");
    if !is_said || is_own(message, own) || text(message, "type") != "message" {
        return None;
    }
    let (user, bot) = (text(message, "user"), text(message, "bot_id"));
    let bot_name = [text(message, "username"), text(&message["bot_profile"], "name")];
    let files = message["files"].as_array().into_iter().flatten().filter_map(file).take(MAX_FILES).collect();
    Some(RawMessage {
        channel: channel.to_owned(),
        ts,
        thread: thread(message, ts),
        is_direct: place::is_direct(channel),
        sender: Some(user).filter(|user| !user.is_empty()).unwrap_or(bot).to_owned(),
        is_bot: kind == "bot_message" || !bot.is_empty() || user == "USLACKBOT",
        bot_name: bot_name.into_iter().find(|name| !name.is_empty()).map(str::to_owned),
        text: if kind == "me_message" {
            format!("_{}_", text(message, "text"))
        } else {
            text(message, "text").to_owned()
        },
        files,
        edited: message["edited"]["ts"].as_str().and_then(|ts| ts.parse().ok()),
    })
}

fn file(file: &Value) -> Option<IncomingFile> {
    let id = text(file, "id");
    // What was deleted, or is hidden by the plan's limit, has no content.
    if id.is_empty() || matches!(text(file, "mode"), "tombstone" | "hidden_by_limit") {
        return None;
    }
    Some(IncomingFile {
        id: id.to_owned(),
        name: text(file, "name").to_owned(),
        bytes: file["size"].as_u64().unwrap_or(0),
    })
}

/// Reads the press of a button. The channel and the message are those of the container, which Slack fills in.
pub(super) fn pressed(payload: &Value) -> Option<PressedButton> {
    if text(payload, "type") != "block_actions" {
        return None;
    }
    let (container, user) = (&payload["container"], &payload["user"]);
    let action = payload["actions"].as_array()?.first().filter(|action| text(action, "type") == "button")?;
    let (channel, message) = (text(container, "channel_id"), text(container, "message_ts"));
    let ts: Ts = message.parse().ok()?;
    let thread = text(container, "thread_ts").parse().ok().filter(|&thread| thread != ts);
    let name = [text(user, "username"), text(user, "name")].into_iter().find(|name| !name.is_empty());
    let account = text(user, "id");
    if channel.is_empty() || account.is_empty() {
        return None;
    }
    Some(PressedButton {
        external: external(channel, thread),
        message: message.to_owned(),
        sender: Sender {
            account: account.to_owned(),
            username: name.unwrap_or(account).to_owned(),
            ..Sender::default()
        },
        button: text(action, "value").to_owned(),
    })
}

/// Returns the id of a channel, or of a thread in it.
pub(super) fn external(channel: &str, thread: Option<Ts>) -> String {
    match thread {
        Some(thread) => format!("{channel}/{thread}"),
        None => channel.to_owned(),
    }
}

/// Returns the thread of a reply.
fn thread(message: &Value, ts: Ts) -> Option<Ts> {
    text(message, "thread_ts").parse().ok().filter(|&thread| thread != ts)
}

/// Returns `true` for a message of flock's.
pub(super) fn is_own(message: &Value, own: &Own) -> bool {
    let is = |key: &str, id: &str| !id.is_empty() && text(message, key) == id;
    is("user", &own.user) || is("bot_id", &own.bot)
}

fn has(list: &Value, id: &str) -> bool {
    list.as_array().is_some_and(|list| list.iter().any(|one| one == id))
}

/// Returns a text of an object, which is empty where there is none.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
#[path = "event_tests.rs"]
mod tests;
