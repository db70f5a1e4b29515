//! Turns Discord's messages into those of bridges.

use super::model::{Interaction, Member, Message, Reaction, User};
use super::{Account, Discord, markup, snowflake};
use crate::bridge::message::{IncomingFile, IncomingMessage, PressedButton, Sender, Thread};

/// The kinds of messages that somebody wrote: ordinary ones, answers, and those of commands. The others are Discord's
/// own words, for instance that somebody joined.
const WRITTEN: [u64; 4] = [0, 19, 20, 23];
/// The kind of an interaction by which a button is pressed.
const COMPONENT: u64 = 3;
/// The kind of a reference by which a message answers another one.
const ANSWER: u64 = 0;
/// Largest number of files that are taken from one message.
const MAX_FILES: usize = 20;

impl Discord {
    /// Returns the message that people wrote. `None` for flock's own, and for what Discord says itself.
    pub(super) fn incoming(&self, message: &Message, account: &Account) -> Option<IncomingMessage> {
        let id = snowflake::parse(&message.id).filter(|_| !message.id.is_empty())?;
        if !WRITTEN.contains(&message.kind) || message.author.id.is_empty() || self.is_own(message, account) {
            return None;
        }
        let place = self.places(|places| places.place(&message.channel_id).cloned());
        let text = self.places(|places| markup::read(message, &account.id, places));
        let thread = place.as_ref().and_then(|place| {
            let channel = place.thread_of()?.to_owned();
            Some(Thread { channel, title: place.name.clone() })
        });
        let answered = message.message_reference.as_ref().filter(|reference| reference.kind == ANSWER);
        Some(IncomingMessage {
            external: message.channel_id.clone(),
            thread,
            is_direct: place.is_some_and(|place| place.guild.is_none()),
            id: message.id.clone(),
            sent_at: snowflake::time(id),
            sender: sender(&message.author, message.member.as_ref(), message.webhook_id.is_some()),
            text: text.markdown,
            is_to_bot: text.is_to_bot,
            reply_to: answered.and_then(|reference| reference.message_id.clone()),
            is_forwarded: !message.message_snapshots.is_empty()
                || message.message_reference.as_ref().is_some_and(|reference| reference.kind != ANSWER),
            files: files(message),
        })
    }
}

fn sender(user: &User, member: Option<&Member>, is_webhook: bool) -> Sender {
    Sender {
        account: user.id.clone(),
        username: user.username.clone(),
        roles: member.map(|member| member.roles.clone()).unwrap_or_default(),
        is_bot: user.bot || is_webhook,
    }
}

/// The address of a file has a signature in it and lasts for a day, so a file is known by where it is.
fn files(message: &Message) -> Vec<IncomingFile> {
    let file = |attachment: &super::model::Attachment| IncomingFile {
        id: format!("{}/{}/{}", message.channel_id, message.id, attachment.id),
        name: attachment.filename.clone(),
        bytes: attachment.size,
    };
    message.attachments.iter().take(MAX_FILES).map(file).collect()
}

/// Returns the button that was pressed. `None` for other interactions.
pub(super) fn pressed(interaction: Interaction) -> Option<PressedButton> {
    if interaction.kind != COMPONENT || interaction.data.custom_id.is_empty() {
        return None;
    }
    let member = interaction.member.as_ref();
    let user = member.and_then(|member| member.user.clone()).or(interaction.user)?;
    Some(PressedButton {
        sender: sender(&user, member, false),
        external: interaction.channel_id,
        message: interaction.message?.id,
        button: interaction.data.custom_id,
    })
}

/// Returns the sender of a reaction, and the emoji. `None` for emoji that a server made itself.
pub(super) fn reacted(reaction: Reaction) -> Option<(Sender, String)> {
    if reaction.emoji.id.is_some() || reaction.user_id.is_empty() {
        return None;
    }
    let member = reaction.member.as_ref();
    let user = member.and_then(|member| member.user.clone()).unwrap_or_default();
    // Outside of servers, only the id is there.
    let user = User { id: reaction.user_id, ..user };
    Some((sender(&user, member, false), reaction.emoji.name?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::bridge::discord::tests::discord;

    fn read(message: Value) -> Option<IncomingMessage> {
        let (discord, _folder) = discord();
        for channel in [
            json!({"id": "5", "type": 0, "guild_id": "9", "name": "news"}),
            json!({"id": "6", "type": 11, "guild_id": "9", "parent_id": "5", "name": "apart"}),
            json!({"id": "7", "type": 1}),
        ] {
            discord.places(|places| places.learn(serde_json::from_value(channel).unwrap()));
        }
        let account = Account { id: "1".to_owned(), name: "flock".to_owned(), application: "2".to_owned() };
        discord.incoming(&serde_json::from_value(message).unwrap(), &account)
    }

    fn message(channel: &str, more: &Value) -> Value {
        let mut message = json!({
            "id": "175928847299117063", "channel_id": channel, "author": {"id": "8", "username": "ann"},
            "content": "hi", "member": {"roles": ["4"]},
        });
        for (key, value) in more.as_object().unwrap() {
            message[key] = value.clone();
        }
        message
    }

    #[test]
    fn a_message_is_read_with_its_sender_and_its_files() {
        let more = json!({
            "type": 19, "message_reference": {"message_id": "3"},
            "attachments": [{"id": "11", "filename": "a.txt", "size": 5, "url": "https://e.org/secret"}],
        });
        let read = read(message("5", &more)).unwrap();
        assert_eq!((read.text.as_str(), read.sent_at), ("hi", 1_462_015_105_796));
        assert_eq!(read.sender.names().collect::<Vec<_>>(), ["8", "role:4"]);
        assert_eq!((read.reply_to.as_deref(), read.is_direct, read.thread), (Some("3"), false, None));
        assert_eq!((read.files[0].id.as_str(), read.files[0].bytes), ("5/175928847299117063/11", 5));
    }

    #[test]
    fn threads_and_direct_messages_are_told_apart() {
        let thread = read(message("6", &json!({}))).unwrap();
        assert_eq!(thread.thread, Some(Thread { channel: "5".to_owned(), title: "apart".to_owned() }));
        assert!(read(message("7", &json!({}))).unwrap().is_direct);
    }

    #[test]
    fn own_messages_and_discords_own_words_are_left_out() {
        assert_eq!(read(message("5", &json!({"author": {"id": "1"}}))), None);
        assert_eq!(read(message("5", &json!({"application_id": "2", "webhook_id": "3"}))), None);
        assert_eq!(read(message("5", &json!({"type": 7}))), None);
        assert_eq!(read(message("5", &json!({"id": "x"}))), None);
        assert!(read(message("5", &json!({"webhook_id": "3"}))).unwrap().sender.is_bot);
        assert!(read(message("5", &json!({"author": {"id": "8", "bot": true}}))).unwrap().sender.is_bot);
    }

    #[test]
    fn a_forwarded_message_is_no_answer() {
        let more = json!({
            "content": "", "message_reference": {"type": 1, "message_id": "3"},
            "message_snapshots": [{"message": {"content": "old"}}],
        });
        let read = read(message("5", &more)).unwrap();
        assert_eq!((read.text.as_str(), read.reply_to, read.is_forwarded), ("old", None, true));
    }

    #[test]
    fn a_pressed_button_has_the_member_who_pressed_it() {
        let interaction = json!({
            "id": "1", "type": 3, "channel_id": "5", "data": {"custom_id": "yes"}, "message": {"id": "6"},
            "member": {"user": {"id": "8", "username": "ann"}, "roles": ["4"]},
        });
        let read = pressed(serde_json::from_value(interaction.clone()).unwrap()).unwrap();
        assert_eq!((read.button.as_str(), read.message.as_str()), ("yes", "6"));
        assert_eq!(read.sender.names().collect::<Vec<_>>(), ["8", "role:4"]);
        let mut command = interaction;
        command["type"] = json!(2);
        assert_eq!(pressed(serde_json::from_value(command).unwrap()), None);
    }

    #[test]
    fn a_reaction_has_its_sender_and_the_emoji_itself() {
        let read = |emoji: Value| {
            let member = json!({"user": {"id": "8", "username": "ann"}, "roles": ["4"]});
            let reaction = json!({"user_id": "8", "message_id": "6", "emoji": emoji, "member": member});
            reacted(serde_json::from_value(reaction).unwrap())
        };
        let (sender, emoji) = read(json!({"id": null, "name": "👍"})).unwrap();
        assert_eq!((sender.username.as_str(), emoji.as_str()), ("ann", "👍"));
        assert_eq!(sender.names().collect::<Vec<_>>(), ["8", "role:4"]);
        assert_eq!(read(json!({"id": "42", "name": "👍"})), None);
        assert_eq!(read(json!({"id": null, "name": null})), None);
    }
}
