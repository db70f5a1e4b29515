//! Reads the messages and other events in updates.
//!
//! Everything is read from JSON values: a field that is missing or has another type than expected costs that field, or at
//! most its message, and never the connection.

use serde_json::Value;

use super::entities;
use super::files::files;
use super::names::{Bot, MAX_NAME, name_of, title_of};
use super::place::Place;
use super::topics::Topics;
use crate::bridge::message::{IncomingMessage, PlatformEvent, PressedButton, Sender, Thread};

/// Returns the events that an update tells of, in order.
pub(super) fn events(update: &Value, bot: &Bot, topics: &Topics) -> Vec<PlatformEvent> {
    if let Some(pressed) = pressed(&update["callback_query"]) {
        return vec![PlatformEvent::Pressed(pressed)];
    }
    if update["message_reaction"].is_object() {
        return reactions(&update["message_reaction"]);
    }
    if let Some(message) = message(&update["edited_message"], bot, topics) {
        return vec![PlatformEvent::Edited(message)];
    }
    let content = ["message", "channel_post"].into_iter().find(|&key| update[key].is_object());
    let Some(content) = content.map(|key| &update[key]) else { return Vec::new() };
    let Some(place) = place(content) else { return Vec::new() };
    topics.learn(place, content);
    let service = service(content, place);
    if service.is_empty() {
        return message(content, bot, topics).map(PlatformEvent::Message).into_iter().collect();
    }
    service
}

/// Returns the chat of a message, or the topic in it.
fn place(message: &Value) -> Option<Place> {
    let chat = message["chat"]["id"].as_i64()?;
    // Threads of answers in a group without topics have numbers too.
    let is_topic = message["is_topic_message"] == true && message["chat"]["type"] != "private";
    Some(Place::new(chat, message["message_thread_id"].as_i64().filter(|_| is_topic)))
}

/// Returns what a message says of its chat itself.
fn service(message: &Value, place: Place) -> Vec<PlatformEvent> {
    let chat = place.chat;
    let mut events = Vec::new();
    if let Some(to) = message["migrate_to_chat_id"].as_i64() {
        events.push(PlatformEvent::Moved { from: chat.to_string(), to: to.to_string() });
    }
    if let Some(from) = message["migrate_from_chat_id"].as_i64() {
        events.push(PlatformEvent::Moved { from: from.to_string(), to: chat.to_string() });
    }
    if let Some(title) = message["new_chat_title"].as_str() {
        events.push(PlatformEvent::Renamed { external: chat.to_string(), title: title.to_owned() });
    }
    if let Some(name) = message["forum_topic_edited"]["name"].as_str()
        && place.topic.is_some()
    {
        let title = format!("{} / {name}", title_of(&message["chat"]));
        events.push(PlatformEvent::Renamed { external: place.to_string(), title });
    }
    events
}

/// Returns the message in a value. `None` if it is none, is of flock itself, or has neither a text nor a file.
fn message(value: &Value, bot: &Bot, topics: &Topics) -> Option<IncomingMessage> {
    let place = place(value)?;
    let number = value["message_id"].as_i64().filter(|&number| number > 0)?;
    if value["from"]["id"].as_i64() == Some(bot.id) {
        return None;
    }
    let is_direct = value["chat"]["type"] == "private";
    let (text, is_to_bot) = text(value, bot);
    let files = files(value);
    if text.is_empty() && files.is_empty() && !is_to_bot {
        return None;
    }
    Some(IncomingMessage {
        external: place.to_string(),
        thread: place.topic.map(|_| Thread { channel: place.chat.to_string(), title: topics.name(place) }),
        is_direct,
        id: place.message_id(number),
        sent_at: value["date"].as_i64().unwrap_or_default().saturating_mul(1000),
        sender: sender(value, place),
        text,
        is_to_bot,
        reply_to: reply_to(value, place),
        is_forwarded: value["forward_origin"].is_object(),
        files,
    })
}

/// Returns the sender. Who writes in the name of a chat (an anonymous administrator, a channel) can't be told from
/// others who do, so nobody is heard in it: it counts as a program.
fn sender(message: &Value, place: Place) -> Sender {
    let (chat, from) = (&message["sender_chat"], &message["from"]);
    if chat.is_object() || !from["id"].is_i64() {
        let id = chat["id"].as_i64().unwrap_or(place.chat);
        let name = if chat.is_object() { name_of(chat) } else { name_of(&message["chat"]) };
        return Sender { account: id.to_string(), username: name, roles: Vec::new(), is_bot: true };
    }
    person(from)
}

/// Returns the person that a user is.
fn person(user: &Value) -> Sender {
    Sender {
        account: user["id"].as_i64().unwrap_or_default().to_string(),
        username: name_of(user),
        roles: Vec::new(),
        is_bot: user["is_bot"] == true,
    }
}

/// Returns the id of the answered message. A message in a topic that answers nothing counts as an answer to the one that
/// opened the topic.
fn reply_to(message: &Value, place: Place) -> Option<String> {
    let number = message["reply_to_message"]["message_id"].as_i64()?;
    (place.topic != Some(number)).then(|| place.message_id(number))
}

/// Returns the text in Markdown, and `true` if it mentions the bot.
fn text(message: &Value, bot: &Bot) -> (String, bool) {
    let (text, entities) = match message["text"].as_str() {
        Some(text) => (text, &message["entities"]),
        None => (message["caption"].as_str().unwrap_or_default(), &message["caption_entities"]),
    };
    let (mut text, is_to_bot) = entities::markdown(text, entities, bot);
    if text.is_empty() {
        text = content(message).unwrap_or_default();
    }
    if let Some(origin) = forwarded_from(message) {
        // Somebody else's words must not look like the sender's.
        return (format!("(forwarded from {origin})\n{}", quoted(&text)), is_to_bot);
    }
    if let Some(quote) = message["quote"]["text"].as_str()
        && message["quote"]["is_manual"] == true
    {
        text = format!("{}\n\n{text}", quoted(quote));
    }
    (text, is_to_bot)
}

fn quoted(text: &str) -> String {
    text.trim().lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

fn forwarded_from(message: &Value) -> Option<String> {
    let origin = &message["forward_origin"];
    let name = match origin["type"].as_str()? {
        "user" => name_of(&origin["sender_user"]),
        "hidden_user" => {
            origin["sender_user_name"].as_str().unwrap_or_default().chars().take(MAX_NAME).collect()
        }
        "chat" => name_of(&origin["sender_chat"]),
        "channel" => name_of(&origin["chat"]),
        _ => String::new(),
    };
    Some(if name.is_empty() { "somebody".to_owned() } else { name })
}

/// Returns what a message without a text says.
fn content(message: &Value) -> Option<String> {
    if let Some(emoji) = message["sticker"]["emoji"].as_str() {
        return Some(emoji.to_owned());
    }
    if let Some(question) = message["poll"]["question"].as_str() {
        let options = message["poll"]["options"].as_array().into_iter().flatten();
        let options: String = options
            .filter_map(|option| option["text"].as_str())
            .take(20)
            .map(|option| format!("\n- {option}"))
            .collect();
        return Some(format!("Poll: {question}{options}"));
    }
    let at = |key: &str| message["location"][key].as_f64();
    if let (Some(latitude), Some(longitude)) = (at("latitude"), at("longitude")) {
        return Some(format!("Location: {latitude}, {longitude}"));
    }
    let phone = message["contact"]["phone_number"].as_str()?;
    Some(format!("Contact: {} {phone}", name_of(&message["contact"])))
}

/// Returns the reactions that somebody added to a message. Telegram tells bots of them only in groups that they
/// administer.
fn reactions(change: &Value) -> Vec<PlatformEvent> {
    let (Some(place), Some(number)) = (place(change), change["message_id"].as_i64()) else {
        return Vec::new();
    };
    if !change["user"]["id"].is_i64() {
        return Vec::new();
    }
    let before = change["old_reaction"].as_array().map(Vec::as_slice).unwrap_or_default();
    let added = change["new_reaction"].as_array().into_iter().flatten().filter(|one| !before.contains(one));
    let emoji = added.filter_map(|reaction| reaction["emoji"].as_str());
    emoji
        .map(|emoji| PlatformEvent::Reacted {
            external: place.to_string(),
            message: place.message_id(number),
            sender: person(&change["user"]),
            emoji: emoji.to_owned(),
        })
        .collect()
}

fn pressed(query: &Value) -> Option<PressedButton> {
    let message = &query["message"];
    let place = place(message)?;
    query["from"]["id"].as_i64()?;
    Some(PressedButton {
        external: place.to_string(),
        message: place.message_id(message["message_id"].as_i64()?),
        sender: person(&query["from"]),
        button: query["data"].as_str()?.to_owned(),
    })
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
