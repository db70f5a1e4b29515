//! Channels: found, joined and created.

use serde_json::{Value, json};

use super::Slack;
use super::catch_up::next;
use super::event::{Own, text};
use super::place;
use super::ts::Ts;
use crate::bridge::message::ExternalChannel;
use crate::bridge::platform::PlatformError;

/// Largest number of pages of channels that are searched for a name.
const MAX_PAGES: usize = 50;
/// Largest number of characters of a topic, and of a name.
const MAX_TOPIC: usize = 250;
const MAX_NAME: usize = 80;

impl Slack {
    /// Finds a channel by its id or its name, or a thread by the id of the channel and of its first message.
    pub(super) async fn find_by(&self, name: &str) -> Result<ExternalChannel, PlatformError> {
        let own = self.account().await?;
        let (id, thread) = place::apart(name);
        if thread.is_none() && name.contains('/') {
            return Err(PlatformError::Refused(format!(
                "{name} is no thread; write CHANNEL/TIMESTAMP, both as ids"
            )));
        }
        let channel = if is_id(id) {
            self.api.read("conversations.info", &[("channel", id)]).await?["channel"].clone()
        } else {
            self.by_name(name.trim_start_matches('#')).await?
        };
        let channel = self.joined(channel, &own).await?;
        let id = text(&channel, "id").to_owned();
        let title = title(&channel);
        let is_private =
            channel["is_private"] == true || channel["is_im"] == true || channel["is_mpim"] == true;
        let members = if is_private { Some(self.members(&id, &own).await?) } else { None };
        match thread {
            None => Ok(ExternalChannel { id, title, members }),
            Some(thread) => {
                self.check_thread(&id, thread).await?;
                Ok(ExternalChannel {
                    id: format!("{id}/{thread}"),
                    title: format!("{title}, thread {thread}"),
                    members,
                })
            }
        }
    }

    async fn by_name(&self, name: &str) -> Result<Value, PlatformError> {
        let mut cursor = String::new();
        for _ in 0..MAX_PAGES {
            let mut asked = vec![
                ("types", "public_channel,private_channel"),
                ("exclude_archived", "true"),
                ("limit", "999"),
            ];
            asked.extend(
                Some(cursor.as_str()).filter(|cursor| !cursor.is_empty()).map(|cursor| ("cursor", cursor)),
            );
            let page = self.api.read("conversations.list", &asked).await?;
            let mut channels = page["channels"].as_array().into_iter().flatten();
            if let Some(found) = channels.find(|channel| text(channel, "name") == name) {
                return Ok(found.clone());
            }
            cursor = next(&page);
            if cursor.is_empty() {
                break;
            }
        }
        Err(PlatformError::Refused(format!(
            "there is no channel #{name} that the app can see; if it is private, write /invite with the app's name there"
        )))
    }

    /// Checks that the app is in a channel. It joins a public one itself if it may.
    async fn joined(&self, channel: Value, own: &Own) -> Result<Value, PlatformError> {
        if channel["is_archived"] == true {
            return Err(PlatformError::Refused(format!("{} is archived", title(&channel))));
        }
        if channel["is_member"] == true || channel["is_im"] == true {
            return Ok(channel);
        }
        let may_join = self.api.scopes().is_some_and(|scopes| scopes.contains("channels:join"));
        if channel["is_private"] == true || !may_join {
            return Err(PlatformError::Refused(format!(
                "not_in_channel: the app is not in {}; write /invite @{} there",
                title(&channel),
                own.name
            )));
        }
        self.api.write("conversations.join", &json!({"channel": text(&channel, "id")})).await?;
        Ok(channel)
    }

    /// Returns the ids of those who are in a channel, without flock's own account.
    async fn members(&self, channel: &str, own: &Own) -> Result<Vec<String>, PlatformError> {
        let (mut members, mut cursor) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let mut asked = vec![("channel", channel), ("limit", "999")];
            asked.extend(
                Some(cursor.as_str()).filter(|cursor| !cursor.is_empty()).map(|cursor| ("cursor", cursor)),
            );
            let page = self.api.read("conversations.members", &asked).await?;
            let found = page["members"].as_array().into_iter().flatten().filter_map(Value::as_str);
            members.extend(found.filter(|member| *member != own.user).map(str::to_owned));
            cursor = next(&page);
            if cursor.is_empty() {
                break;
            }
        }
        Ok(members)
    }

    async fn check_thread(&self, channel: &str, thread: Ts) -> Result<(), PlatformError> {
        let thread = thread.to_string();
        self.api
            .read("conversations.replies", &[("channel", channel), ("ts", &thread), ("limit", "1")])
            .await
            .map(drop)
    }

    /// Creates a public channel. In a private one, only flock could invite anybody.
    pub(super) async fn create(&self, name: &str, topic: &str) -> Result<ExternalChannel, PlatformError> {
        let body = json!({"name": name_of(name), "is_private": false});
        let channel = self.api.write("conversations.create", &body).await?["channel"].clone();
        let id = text(&channel, "id").to_owned();
        if !topic.is_empty()
            && let Err(error) = self.change_topic(&id, topic).await
        {
            // The channel is there, and its topic can be written by hand.
            tracing::warn!(%error, "a new Slack channel has no topic");
        }
        Ok(ExternalChannel { id, title: title(&channel), members: None })
    }

    pub(super) async fn change_topic(&self, external: &str, topic: &str) -> Result<(), PlatformError> {
        let (channel, thread) = place::apart(external);
        if thread.is_some() {
            return Err(PlatformError::Refused("a thread has no topic".to_owned()));
        }
        let topic: String = topic.chars().take(MAX_TOPIC).collect();
        self.api.write("conversations.setTopic", &json!({"channel": channel, "topic": topic})).await.map(drop)
    }
}

fn is_id(name: &str) -> bool {
    name.len() >= 8
        && name.starts_with(['C', 'G', 'D'])
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

fn title(channel: &Value) -> String {
    match text(channel, "name") {
        "" => "direct messages".to_owned(),
        name => format!("#{}", crate::clean::summary(name, MAX_NAME)),
    }
}

/// Returns a name that a channel can have: lower-case letters, digits and `-`.
fn name_of(name: &str) -> String {
    let letters = name
        .to_lowercase()
        .chars()
        .map(|c| if c.is_alphanumeric() || c == '_' { c } else { '-' })
        .take(MAX_NAME)
        .collect::<String>();
    let name = letters.trim_matches('-');
    if name.is_empty() { "flock".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_names() {
        assert!(is_id("C0123ABCD") && is_id("G0123ABCD") && is_id("D0123ABCD"));
        assert!(!is_id("general") && !is_id("#C0123ABCD") && !is_id("C1") && !is_id("CHANNEL-1"));
    }

    #[test]
    fn a_name_becomes_one_that_slack_allows() {
        assert_eq!(name_of("Fizz Buzz!"), "fizz-buzz");
        assert_eq!(name_of("a_b-c"), "a_b-c");
        assert_eq!(name_of("##"), "flock");
        assert_eq!(name_of(&"x".repeat(200)).len(), MAX_NAME);
    }

    #[test]
    fn a_channel_has_a_title() {
        assert_eq!(title(&json!({"name": "general"})), "#general");
        assert_eq!(title(&json!({"is_im": true})), "direct messages");
    }
}
