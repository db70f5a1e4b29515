//! The parts of Discord's objects that flock reads. Everything else in them is passed over.

use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct User {
    pub(super) id: String,
    pub(super) username: String,
    pub(super) bot: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Member {
    pub(super) user: Option<User>,
    pub(super) roles: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Application {
    pub(super) id: String,
    pub(super) flags: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) channel_id: String,
    pub(super) guild_id: Option<String>,
    pub(super) author: User,
    pub(super) member: Option<Member>,
    pub(super) content: String,
    #[serde(rename = "type")]
    pub(super) kind: u64,
    pub(super) edited_timestamp: Option<String>,
    pub(super) webhook_id: Option<String>,
    pub(super) application_id: Option<String>,
    pub(super) mentions: Vec<User>,
    pub(super) attachments: Vec<Attachment>,
    pub(super) sticker_items: Vec<Named>,
    pub(super) message_reference: Option<Reference>,
    /// The texts of messages that this one forwards.
    pub(super) message_snapshots: Vec<Snapshot>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Attachment {
    pub(super) id: String,
    pub(super) filename: String,
    pub(super) size: u64,
    pub(super) url: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) id: String,
    pub(super) name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reference {
    /// 0 for an answer, 1 for a forwarded message.
    #[serde(rename = "type")]
    pub(super) kind: u64,
    pub(super) message_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Snapshot {
    pub(super) message: Forwarded,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Forwarded {
    pub(super) content: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Channel {
    pub(super) id: String,
    #[serde(rename = "type")]
    pub(super) kind: u64,
    pub(super) guild_id: Option<String>,
    pub(super) parent_id: Option<String>,
    pub(super) name: Option<String>,
    pub(super) last_message_id: Option<String>,
    pub(super) permission_overwrites: Vec<Overwrite>,
    /// The other people of a direct channel.
    pub(super) recipients: Vec<User>,
}

/// The kinds of channels that flock tells apart.
pub(super) mod kind {
    pub(crate) const DIRECT: u64 = 1;
    pub(crate) const PRIVATE_THREAD: u64 = 12;

    /// Returns `true` for threads.
    pub(crate) const fn is_thread(kind: u64) -> bool {
        matches!(kind, 10..=PRIVATE_THREAD)
    }

    /// Returns `true` if messages can be written there: text, announcements, threads, and the chat of voice channels.
    pub(crate) const fn has_text(kind: u64) -> bool {
        matches!(kind, 0 | DIRECT | 2 | 5 | 10..=13)
    }
}

/// A change of permissions in a channel, for a role or an account.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Overwrite {
    pub(super) id: String,
    /// 0 for a role, 1 for an account.
    #[serde(rename = "type")]
    pub(super) kind: u64,
    pub(super) allow: String,
    pub(super) deny: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Guild {
    pub(super) id: String,
    pub(super) owner_id: String,
    pub(super) roles: Vec<Role>,
    /// Only in the event of the gateway, as are the threads.
    pub(super) channels: Vec<Channel>,
    pub(super) threads: Vec<Channel>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Role {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) permissions: String,
    pub(super) tags: RoleTags,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RoleTags {
    /// The bot that the role was made for.
    pub(super) bot_id: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Threads {
    pub(super) threads: Vec<Channel>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Interaction {
    pub(super) id: String,
    pub(super) token: String,
    #[serde(rename = "type")]
    pub(super) kind: u64,
    pub(super) channel_id: String,
    pub(super) data: InteractionData,
    pub(super) member: Option<Member>,
    pub(super) user: Option<User>,
    pub(super) message: Option<Message>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct InteractionData {
    pub(super) custom_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reaction {
    pub(super) user_id: String,
    pub(super) channel_id: String,
    pub(super) message_id: String,
    pub(super) member: Option<Member>,
    pub(super) emoji: Emoji,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Emoji {
    /// Set for an emoji that a server made itself.
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Deletion {
    pub(super) id: String,
    pub(super) ids: Vec<String>,
    pub(super) channel_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct GatewayAddress {
    pub(super) url: String,
    pub(super) session_start_limit: SessionStarts,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub(super) struct SessionStarts {
    pub(super) remaining: u64,
    /// Milliseconds.
    pub(super) reset_after: u64,
}

impl Default for SessionStarts {
    fn default() -> Self {
        Self { remaining: 1, reset_after: 0 }
    }
}

/// Reads each of a list's objects that has the expected form.
pub(super) fn each<T: serde::de::DeserializeOwned>(list: Vec<Value>) -> Vec<T> {
    list.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn unknown_and_missing_fields_are_no_error() {
        let read: Message =
            serde_json::from_value(json!({"id": "1", "new": {"a": 1}, "edited_timestamp": null})).unwrap();
        assert_eq!((read.id.as_str(), read.content.as_str(), read.webhook_id), ("1", "", None));
    }

    #[test]
    fn one_strange_object_does_not_hide_the_others() {
        let read: Vec<User> =
            each(vec![json!({"id": "1"}), json!({"id": 2}), json!(null), json!({"id": "3"})]);
        assert_eq!(read.iter().map(|user| user.id.as_str()).collect::<Vec<_>>(), ["1", "3"]);
    }
}
