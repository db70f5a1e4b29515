//! Finds, creates and changes channels.

use reqwest::Method;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::model::{self, Channel, Guild, Member, Named, kind};
use super::patience::patiently;
use super::places::Place;
use super::refusal::{APPS, code};
use super::rest::Request;
use super::{Discord, permission, snowflake};
use crate::bridge::message::ExternalChannel;
use crate::bridge::platform::PlatformError;

/// Largest number of characters in the name of a channel.
const MAX_NAME: usize = 100;
const MAX_TOPIC: usize = 1024;

impl Discord {
    pub(super) async fn channel(&self, id: &str) -> Result<Channel, PlatformError> {
        Ok(self.client.call(Request::get("/channels/{}", &[id])).await?)
    }

    /// Asks for something that a person waits for, and waits out a limit with them.
    async fn look_up<T: DeserializeOwned>(
        &self,
        route: &'static str,
        ids: &[&str],
    ) -> Result<T, PlatformError> {
        patiently(|| async { Ok(self.client.call(Request::get(route, ids)).await?) }).await
    }

    /// Finds a channel by its id, by `#name` or by `Server/#name`.
    pub(super) async fn find_by_name(&self, name: &str) -> Result<ExternalChannel, PlatformError> {
        let name = name.trim();
        let channel = match snowflake::parse(name).filter(|_| !name.is_empty()) {
            Some(_) => self.look_up("/channels/{}", &[name]).await?,
            None => self.named(name).await?,
        };
        self.checked(channel).await
    }

    async fn named(&self, name: &str) -> Result<Channel, PlatformError> {
        let (server, name) = match name.rsplit_once('/') {
            Some((server, name)) => (Some(server), name),
            None => (None, name),
        };
        let name = name.trim_start_matches('#');
        let (mut found, mut titles) = (Vec::new(), Vec::new());
        for guild in self.guilds(server).await? {
            let channels: Vec<Channel> =
                model::each(self.look_up("/guilds/{}/channels", &[&guild.id]).await?);
            for mut channel in channels {
                let title = channel.name.as_deref().unwrap_or_default();
                if title.eq_ignore_ascii_case(name) && kind::has_text(channel.kind) {
                    titles.push(format!("{}/#{title} ({})", guild.name, channel.id));
                    channel.guild_id = Some(guild.id.clone());
                    found.push(channel);
                }
            }
        }
        match (found.pop(), found.is_empty()) {
            (Some(channel), true) => Ok(channel),
            (Some(_), false) => Err(PlatformError::Refused(format!(
                "there are several channels #{name}: {}; name one by Server/#name or by its id",
                titles.join(", ")
            ))),
            (None, _) => Err(PlatformError::Refused(format!(
                "flock's bot sees no channel #{name} in which messages can be written; a thread is named by its id"
            ))),
        }
    }

    /// Returns the servers that the bot is in, or the one with a name or id.
    async fn guilds(&self, server: Option<&str>) -> Result<Vec<Named>, PlatformError> {
        let mut guilds: Vec<Named> = model::each(self.look_up("/users/@me/guilds", &[]).await?);
        if guilds.is_empty() {
            return Err(PlatformError::Refused(format!(
                "flock's bot is in no server; invite it by the OAuth2 page of its app at {APPS}"
            )));
        }
        if let Some(server) = server {
            guilds.retain(|guild| guild.id == server || guild.name.eq_ignore_ascii_case(server));
            if guilds.is_empty() {
                return Err(PlatformError::Refused(format!("flock's bot is in no server {server}")));
            }
        }
        Ok(guilds)
    }

    /// Checks that flock can read and write in a channel, and returns it with those who can see it.
    async fn checked(&self, channel: Channel) -> Result<ExternalChannel, PlatformError> {
        if !kind::has_text(channel.kind) {
            return Err(PlatformError::Refused(format!(
                "messages can't be written in #{}: it is a forum or a category. A thread of a forum is named by its id",
                channel.name.unwrap_or_default()
            )));
        }
        self.places(|places| places.learn(channel.clone()));
        let title = Place::of(channel.clone()).title();
        let Some(guild) = channel.guild_id.clone() else {
            let members = channel.recipients.into_iter().map(|user| user.id).collect();
            return Ok(ExternalChannel { id: channel.id, title, members: Some(members) });
        };
        let account = self.account().await?;
        let guild: Guild = self.look_up("/guilds/{}", &[&guild]).await?;
        let member: Member = self.look_up("/guilds/{}/members/{}", &[&guild.id, &account.id]).await?;
        let is_thread = kind::is_thread(channel.kind);
        // A thread has the permissions of its channel.
        let parent = match channel.parent_id.as_deref().filter(|_| is_thread) {
            Some(parent) => &self.look_up("/channels/{}", &[parent]).await?,
            None => &channel,
        };
        let allowed = permission::of_member(&guild, parent, &account.id, &member.roles);
        let missing = permission::missing(allowed, is_thread);
        if !missing.is_empty() {
            return Err(PlatformError::Refused(format!(
                "flock's bot lacks the permission {} in {title}. Give it to its role in the server's settings under \
                 Roles, or in the channel's settings under Permissions",
                missing.join(", ")
            )));
        }
        let members = if channel.kind == kind::PRIVATE_THREAD {
            // Discord tells who is in it only to bots that may see all members.
            Some(Vec::new())
        } else {
            permission::members(&guild, parent, &account.id)
        };
        Ok(ExternalChannel { id: channel.id, title, members })
    }

    /// Creates a channel in the only server that the bot is in, or in the one before the `/`.
    pub(super) async fn create(&self, name: &str, topic: &str) -> Result<ExternalChannel, PlatformError> {
        let (server, name) = match name.rsplit_once('/') {
            Some((server, name)) => (Some(server), name),
            None => (None, name),
        };
        let mut guilds = self.guilds(server).await?;
        let (Some(guild), true) = (guilds.pop(), guilds.is_empty()) else {
            return Err(PlatformError::Refused(
                "flock's bot is in several servers; create the channel yourself, and link it by Server/#name"
                    .to_owned(),
            ));
        };
        let mut body = json!({"name": channel_name(name), "type": 0});
        if !topic.is_empty() {
            body["topic"] = json!(shortened(topic));
        }
        let request = Request::new(Method::POST, "/guilds/{}/channels", &[&guild.id]).json(body);
        let mut made: Channel = self.client.call(request.needs("Manage Channels")).await?;
        made.guild_id = Some(guild.id);
        self.checked(made).await
    }

    pub(super) async fn change_topic(&self, external: &str, topic: &str) -> Result<(), PlatformError> {
        let request = Request::new(Method::PATCH, "/channels/{}", &[external]);
        if kind::is_thread(self.place(external).await?.kind) {
            return Err(PlatformError::Refused("a thread has no topic".to_owned()));
        }
        let request = request.json(json!({"topic": shortened(topic)})).needs("Manage Channels");
        Ok(self.client.run(request).await?)
    }

    /// Returns the threads of these channels that are not archived, by server.
    pub(super) async fn threads_of(&self, guild: &str) -> Result<Vec<Channel>, PlatformError> {
        let request = Request::get("/guilds/{}/threads/active", &[guild]);
        match self.client.call::<model::Threads>(request).await {
            Ok(threads) => Ok(threads.threads),
            Err(failure) if failure.code == code::MISSING_ACCESS => Ok(Vec::new()),
            Err(failure) => Err(failure.error),
        }
    }
}

/// Returns a name as Discord has it: lower case, and `-` in place of spaces.
fn channel_name(name: &str) -> String {
    let name: String = name.trim().to_lowercase().chars().filter(|c| !c.is_control() && *c != '#').collect();
    let name: String = name.split_whitespace().collect::<Vec<_>>().join("-").chars().take(MAX_NAME).collect();
    if name.is_empty() { "flock".to_owned() } else { name }
}

fn shortened(topic: &str) -> String {
    topic.chars().take(MAX_TOPIC).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channels_name_is_one_that_discord_has() {
        for (name, wanted) in [("Fizz Buzz", "fizz-buzz"), ("#work", "work"), ("", "flock"), ("\n", "flock")]
        {
            assert_eq!(channel_name(name), wanted);
        }
        assert_eq!(channel_name(&"x".repeat(500)).len(), MAX_NAME);
        assert_eq!(shortened(&"é".repeat(5000)).chars().count(), MAX_TOPIC);
    }
}
