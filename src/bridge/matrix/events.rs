//! Reads the events of a room.

use serde_json::Value;

use super::content::{self, Content};

/// The types of events that are asked for.
pub(super) const TYPES: [&str; 8] = [
    "m.room.message",
    "m.reaction",
    "m.room.redaction",
    "m.room.name",
    "m.room.tombstone",
    "m.room.encryption",
    "m.room.encrypted",
    "m.room.member",
];
/// Longest name of a room, in characters.
const MAX_NAME: usize = 200;

/// Longest emoji, in characters. Some clients put words there.
const MAX_EMOJI: usize = 20;

/// An event of a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RoomEvent {
    pub(super) id: String,
    pub(super) sender: String,
    /// Unix milliseconds by the sender's homeserver.
    pub(super) at: i64,
    pub(super) kind: EventKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EventKind {
    Message(Content),
    /// A new content of the message `of`.
    Edit {
        of: String,
        content: Content,
    },
    /// An emoji below the message `to`.
    Reaction {
        to: String,
        emoji: String,
    },
    /// The deletion of an event.
    Redaction(String),
    Name(String),
    /// The room was replaced by another one.
    Replaced(String),
    /// The room is encrypted from here on, or this event is.
    Encrypted,
    /// Flock's account joined.
    Joined,
    /// Another change of who is in the room.
    Member,
}

/// Reads an event. `None` for one that is of no interest, or that does not follow the specification.
pub(super) fn read(event: &Value, own: &str) -> Option<RoomEvent> {
    let content = &event["content"];
    let kind = match event["type"].as_str()? {
        "m.room.message" => message(content, own)?,
        "m.reaction" => {
            let relation = &content["m.relates_to"];
            let (to, emoji) = (relation["event_id"].as_str()?, relation["key"].as_str()?);
            EventKind::Reaction { to: to.to_owned(), emoji: emoji.chars().take(MAX_EMOJI).collect() }
        }
        "m.room.redaction" => {
            // Up to version 10 of rooms, the id is beside the content.
            let deleted = content["redacts"].as_str().or_else(|| event["redacts"].as_str())?;
            EventKind::Redaction(deleted.to_owned())
        }
        "m.room.name" => EventKind::Name(name(content["name"].as_str()?)),
        "m.room.tombstone" => EventKind::Replaced(content["replacement_room"].as_str()?.to_owned()),
        "m.room.encryption" | "m.room.encrypted" => EventKind::Encrypted,
        "m.room.member" if event["state_key"] == own && content["membership"] == "join" => {
            // A change of the name that is shown looks the same, but for what was before.
            let before = &event["unsigned"]["prev_content"]["membership"];
            if before == "join" { EventKind::Member } else { EventKind::Joined }
        }
        "m.room.member" => EventKind::Member,
        _ => return None,
    };
    Some(RoomEvent {
        id: event["event_id"].as_str()?.to_owned(),
        sender: event["sender"].as_str()?.to_owned(),
        at: event["origin_server_ts"].as_i64().unwrap_or_default(),
        kind,
    })
}

fn message(content: &Value, own: &str) -> Option<EventKind> {
    let relation = &content["m.relates_to"];
    if relation["rel_type"] != "m.replace" {
        return content::read(content, own).map(EventKind::Message);
    }
    let of = relation["event_id"].as_str()?.to_owned();
    content::read(&content["m.new_content"], own).map(|content| EventKind::Edit { of, content })
}

/// Replaces the content of a message by the newest one, which the homeserver puts beside a message that it returns
/// from the history.
pub(super) fn update(read: &mut RoomEvent, event: &Value, own: &str) {
    let newest = &event["unsigned"]["m.relations"]["m.replace"];
    if newest["sender"] == event["sender"]
        && let EventKind::Message(old) = &mut read.kind
        && let Some(new) = content::read(&newest["content"]["m.new_content"], own)
    {
        *old = Content { root: old.root.take(), reply_to: old.reply_to.take(), ..new };
    }
}

/// Returns a room's name in one line.
pub(super) fn name(given: &str) -> String {
    given.chars().filter(|c| !c.is_control()).take(MAX_NAME).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWN: &str = "@flock:h";

    fn event(kind: &str, content: Value) -> Value {
        json!({"type": kind, "event_id": "$1", "sender": "@a:h", "origin_server_ts": 7, "content": content})
    }

    fn kind(event: &Value) -> Option<EventKind> {
        read(event, OWN).map(|read| read.kind)
    }

    fn text(kind: Option<EventKind>) -> String {
        match kind {
            Some(EventKind::Message(content) | EventKind::Edit { content, .. }) => content.text,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_message_has_its_sender_and_time() {
        let read = read(&event("m.room.message", json!({"body": "hi"})), OWN).unwrap();
        assert_eq!((read.id.as_str(), read.sender.as_str(), read.at), ("$1", "@a:h", 7));
        assert_eq!(text(Some(read.kind)), "hi");
    }

    #[test]
    fn an_edit_has_the_new_text_and_the_id_of_the_first_event() {
        let content = json!({
            "body": "* b", "m.new_content": {"body": "b"},
            "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"},
        });
        let edit = kind(&event("m.room.message", content)).unwrap();
        assert!(matches!(&edit, EventKind::Edit { of, .. } if of == "$0"));
        assert_eq!(text(Some(edit)), "b");
        let without = json!({"body": "* b", "m.relates_to": {"rel_type": "m.replace", "event_id": "$0"}});
        assert_eq!(kind(&event("m.room.message", without)), None);
    }

    #[test]
    fn a_deletion_is_read_in_both_forms() {
        let new = event("m.room.redaction", json!({"redacts": "$0"}));
        let mut old = event("m.room.redaction", json!({}));
        old["redacts"] = json!("$0");
        for form in [new, old] {
            assert_eq!(kind(&form), Some(EventKind::Redaction("$0".to_owned())));
        }
        assert_eq!(kind(&event("m.room.redaction", json!({}))), None);
    }

    #[test]
    fn changes_of_the_room_are_read() {
        let name = event("m.room.name", json!({"name": "new\nname"}));
        assert_eq!(kind(&name), Some(EventKind::Name("newname".to_owned())));
        let replaced = event("m.room.tombstone", json!({"replacement_room": "!new:h"}));
        assert_eq!(kind(&replaced), Some(EventKind::Replaced("!new:h".to_owned())));
        assert_eq!(kind(&event("m.room.encrypted", json!({}))), Some(EventKind::Encrypted));
        let mut member = event("m.room.member", json!({"membership": "join"}));
        assert_eq!(kind(&member), Some(EventKind::Member));
        member["state_key"] = json!(OWN);
        assert_eq!(kind(&member), Some(EventKind::Joined));
        member["unsigned"] = json!({"prev_content": {"membership": "join"}});
        assert_eq!(kind(&member), Some(EventKind::Member));
    }

    #[test]
    fn what_does_not_follow_the_specification_is_passed_over() {
        for odd in [
            json!({}),
            json!([]),
            json!("x"),
            json!({"type": 1}),
            event("m.room.name", json!({"name": 1})),
            event("m.room.message", json!({})),
            event("org.strange", json!({"body": "x"})),
            json!({"type": "m.room.message", "content": {"body": "x"}}),
        ] {
            assert_eq!(read(&odd, OWN), None, "{odd}");
        }
        let mut timeless = event("m.room.message", json!({"body": "x"}));
        timeless["origin_server_ts"] = json!("soon");
        assert_eq!(read(&timeless, OWN).unwrap().at, 0);
    }

    #[test]
    fn the_newest_edit_counts_in_the_history_if_it_is_of_the_sender() {
        let replaced = |sender: &str| {
            let mut message = event("m.room.message", json!({"body": "old"}));
            message["unsigned"] = json!({"m.relations": {"m.replace": {
                "sender": sender, "content": {"body": "* new", "m.new_content": {"body": "new"}},
            }}});
            let mut read = read(&message, OWN).unwrap();
            update(&mut read, &message, OWN);
            text(Some(read.kind))
        };
        assert_eq!(replaced("@a:h"), "new");
        assert_eq!(replaced("@mallory:h"), "old");
    }
}
