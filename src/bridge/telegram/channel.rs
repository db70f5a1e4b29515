//! Finds the chat that is to be linked, and looks whether flock can read and write there.

use serde_json::{Value, json};

use super::Telegram;
use super::client::Failure;

use super::chat_name::{self, ChatName};
use super::names::title_of;
use super::place::Place;
use super::updates::Me;
use crate::bridge::message::ExternalChannel;
use crate::bridge::platform::PlatformError;

/// Longest name of a topic, in characters.
const MAX_NAME: usize = 128;

impl Telegram {
    pub(super) async fn channel(&self, wanted: &str) -> Result<ExternalChannel, PlatformError> {
        let me = self.me().await?;
        let named = chat_name::parse(wanted).ok_or_else(|| unnamed(wanted, &me))?;
        let chat = self.chat(&named.chat, &me).await?;
        let id = chat["id"].as_i64();
        let id =
            id.ok_or_else(|| PlatformError::Unavailable("Telegram does not say the chat's id".to_owned()))?;
        let title = title_of(&chat);
        if chat["type"] == "private" {
            return Ok(ExternalChannel { id: id.to_string(), title, members: Some(vec![id.to_string()]) });
        }
        let member = self.call("getChatMember", &json!({"chat_id": id, "user_id": me.bot.id})).await?;
        if let Some(missing) = missing(&chat, &member, &me) {
            return Err(PlatformError::Refused(missing));
        }
        let place = Place::new(id, topic(&named, &chat)?);
        if place.topic.is_some() {
            // A topic can't be looked at, but what is done in it is refused where there is none.
            self.act(place).await?;
        }
        // The members of a group are hidden from bots, but for its administrators.
        let members = match chat["username"].as_str() {
            Some(_) => None,
            None => Some(self.administrators(id).await?),
        };
        let title =
            if place.topic.is_some() { format!("{title} / {}", self.topics.name(place)) } else { title };
        Ok(ExternalChannel { id: place.to_string(), title, members })
    }

    async fn chat(&self, named: &str, me: &Me) -> Result<Value, PlatformError> {
        match self.client.call("getChat", &json!({"chat_id": named})).await {
            Err(Failure::Moved(to)) => self.call("getChat", &json!({"chat_id": to})).await,
            Err(failure) if failure.says("chat not found") => Err(PlatformError::Refused(format!(
                "there is no chat {named}, or @{} is not in it: add the bot to the group, and take the group's id \
                 from flock's log",
                me.bot.username
            ))),
            other => Ok(other?),
        }
    }

    async fn administrators(&self, chat: i64) -> Result<Vec<String>, PlatformError> {
        let found = match self.call("getChatAdministrators", &json!({"chat_id": chat})).await {
            // A group may hide them too.
            Err(PlatformError::Refused(_)) => Value::Null,
            found => found?,
        };
        let members = found.as_array().into_iter().flatten().map(|member| &member["user"]);
        let people = members.filter(|user| user["is_bot"] != true);
        Ok(people.filter_map(|user| user["id"].as_i64()).map(|id| id.to_string()).collect())
    }

    /// Opens the topic `NAME` in the group of a name of the form `CHAT/NAME`.
    pub(super) async fn create_topic(&self, wanted: &str) -> Result<ExternalChannel, PlatformError> {
        let parts = wanted.split_once('/').map(|(chat, name)| (chat.parse::<i64>(), name.trim()));
        let Some((Ok(chat), name)) = parts.filter(|(_, name)| !name.is_empty()) else {
            return Err(PlatformError::Refused(
                "bots can't create groups; make one in Telegram, add the bot to it, and link it by its id"
                    .to_owned(),
            ));
        };
        let name: String = name.chars().take(MAX_NAME).collect();
        let created = match self.call("createForumTopic", &json!({"chat_id": chat, "name": name})).await {
            Err(PlatformError::Refused(why)) => {
                return Err(PlatformError::Refused(format!(
                    "{why}; the group has to have topics, and the bot to be an administrator who may manage them"
                )));
            }
            created => created?,
        };
        let topic = created["message_thread_id"].as_i64();
        let place = Place::new(chat, topic);
        self.topics.learn(place, &json!({"forum_topic_created": {"name": name}}));
        self.channel(&place.to_string()).await
    }

    /// Shows for a moment that the bot writes.
    pub(super) async fn act(&self, place: Place) -> Result<(), Failure> {
        let mut parameters = json!({"chat_id": place.chat, "action": "typing"});
        if let Some(topic) = place.topic {
            parameters["message_thread_id"] = json!(topic);
        }
        self.client.call("sendChatAction", &parameters).await.map(drop)
    }
}

fn unnamed(wanted: &str, me: &Me) -> PlatformError {
    PlatformError::Refused(format!(
        "{wanted:?} is neither an id (-100…), nor a public name (@name), nor a link to a message (https://t.me/c/…). \
         Bots can't list their groups: add @{} to the group, and take the group's id from flock's log",
        me.bot.username
    ))
}

/// Returns the topic that is to be linked. The number in a link is that of a message where there are no topics.
fn topic(named: &ChatName, chat: &Value) -> Result<Option<i64>, PlatformError> {
    match named.topic {
        Some(_) if chat["is_forum"] == true => Ok(named.topic),
        Some(_) if !named.is_of_link => Err(PlatformError::Refused("the group has no topics".to_owned())),
        _ => Ok(None),
    }
}

/// Returns what the bot lacks to read and write in a chat, and where it is given.
fn missing(chat: &Value, member: &Value, me: &Me) -> Option<String> {
    let bot = &me.bot.username;
    let status = member["status"].as_str().unwrap_or("left");
    let is_there = match status {
        "creator" | "administrator" | "member" => true,
        "restricted" => member["is_member"] != false,
        _ => false,
    };
    if !is_there {
        return Some(format!("@{bot} is not in the group; add it in the group's settings"));
    }
    let is_administrator = matches!(status, "creator" | "administrator");
    if chat["type"] == "channel" {
        let may_post = status == "creator" || is_administrator && member["can_post_messages"] == true;
        return (!may_post).then(|| {
            format!(
                "@{bot} may not post in the channel; make it an administrator with the right to post messages"
            )
        });
    }
    if is_administrator {
        return None;
    }
    let denied = if status == "restricted" { member } else { &chat["permissions"] };
    if denied["can_send_messages"] == false {
        return Some(format!(
            "@{bot} may not write in the group; make it an administrator, or permit members to send messages, in the \
             group's settings under Permissions"
        ));
    }
    (!me.reads_all).then(|| {
        format!(
            "@{bot} does not see what people write in the group, because its privacy mode is on. Send /setprivacy to \
             @BotFather, choose the bot and Disable, then remove the bot from the group and add it again. Or make it \
             an administrator of the group"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::super::names::Bot;
    use super::*;

    fn lacks(chat: Value, member: Value, reads_all: bool) -> String {
        let me = Me { bot: Bot { id: 7, username: "flock_bot".to_owned() }, reads_all };
        missing(&chat, &member, &me).unwrap_or_default()
    }

    #[test]
    fn a_member_without_privacy_mode_lacks_nothing() {
        let group = json!({"type": "supergroup", "permissions": {"can_send_messages": true}});
        assert_eq!(lacks(group.clone(), json!({"status": "member"}), true), "");
        assert_eq!(lacks(group.clone(), json!({"status": "administrator"}), false), "");
        assert!(lacks(group, json!({"status": "member"}), false).contains("/setprivacy"));
    }

    #[test]
    fn who_is_not_there_or_may_not_write_is_told_so() {
        let group = json!({"type": "supergroup", "permissions": {"can_send_messages": false}});
        for status in ["left", "kicked", "?"] {
            assert!(lacks(group.clone(), json!({"status": status}), true).contains("not in the group"));
        }
        assert!(lacks(json!({"type": "group"}), json!({}), true).contains("not in the group"));
        assert!(lacks(group.clone(), json!({"status": "member"}), true).contains("Permissions"));
        let restricted = json!({"status": "restricted", "is_member": true, "can_send_messages": false});
        assert!(lacks(json!({"type": "supergroup"}), restricted, true).contains("may not write"));
        assert_eq!(lacks(group, json!({"status": "administrator"}), true), "");
    }

    #[test]
    fn a_channel_needs_the_right_to_post() {
        let channel = json!({"type": "channel"});
        assert_eq!(
            lacks(channel.clone(), json!({"status": "administrator", "can_post_messages": true}), false),
            ""
        );
        assert!(lacks(channel, json!({"status": "administrator"}), true).contains("right to post"));
    }

    #[test]
    fn a_number_in_a_link_is_a_topic_only_where_there_are_topics() {
        let find = |text: &str, is_forum: bool| {
            topic(&chat_name::parse(text).unwrap(), &json!({"is_forum": is_forum}))
        };
        assert_eq!(find("t.me/c/12345/6", true), Ok(Some(6)));
        assert_eq!(find("t.me/c/12345/6", false), Ok(None));
        assert!(find("-10012345/6", false).is_err());
        assert_eq!(find("-10012345", false), Ok(None));
    }
}
