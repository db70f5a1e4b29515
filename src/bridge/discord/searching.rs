//! Reads the messages that a channel has.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::model::{self, Attachment, Member, Message};
use super::refusal::code;
use super::rendering::{render, username, with_author};
use super::rest::Request;
use super::{Account, Discord, snowflake};
use crate::bridge::message::{IncomingFile, IncomingMessage, OutgoingMessage};
use crate::bridge::platform::PlatformError;
use crate::clock::unix_ms;

/// Number of messages that Discord gives at once.
const PAGE: usize = 100;
/// Number of pages in which an earlier attempt at a message is searched.
const MAX_PAGES: usize = 10;
/// Milliseconds after which no attempt at a message can be found. What waits to be sent is dropped after seven days.
const MAX_AGE: i64 = 8 * 86_400_000;
/// Time for which the roles of a person are remembered.
const ROLES_LAST: Duration = Duration::from_secs(300);
/// Largest number of people whose roles are remembered.
const MAX_PEOPLE: usize = 10_000;

/// The roles of people by server and account, with the time at which they were seen.
pub(super) type KnownRoles = HashMap<(String, String), (Instant, Vec<String>)>;

/// Messages that Discord gave at once, the oldest first.
pub(super) struct Page {
    pub(super) messages: Vec<Message>,
    /// Set if there are no more.
    pub(super) is_last: bool,
}

/// The side of a message on which others are read.
#[derive(Clone, Copy)]
pub(super) enum Side {
    Before(u64),
    After(u64),
    Newest,
}

impl Discord {
    /// Reads one page of messages, the oldest first.
    pub(super) async fn page(&self, external: &str, side: Side) -> Result<Page, PlatformError> {
        let query = match side {
            Side::Before(id) => format!("limit={PAGE}&before={id}"),
            Side::After(id) => format!("limit={PAGE}&after={id}"),
            Side::Newest => format!("limit={PAGE}"),
        };
        let request = Request::get("/channels/{}/messages", &[external]).query(query);
        let page: Vec<Value> = self.client.call(request.needs("Read Message History")).await?;
        let is_whole = page.len() >= PAGE;
        let mut messages: Vec<Message> = model::each(page);
        messages.retain(|message| snowflake::parse(&message.id).is_some());
        messages.sort_by_key(|message| snowflake::parse(&message.id));
        // After a page of which nothing can be read, there is no place to go on from.
        Ok(Page { is_last: !is_whole || messages.is_empty(), messages })
    }

    /// Searches the newest messages for one that flock sent with this author and text.
    ///
    /// Discord shows no key of a webhook's message, so the text is compared. The newest one that is equal may be an
    /// earlier message, which the caller knows by its id.
    pub(super) async fn find(&self, sent: &OutgoingMessage<'_>) -> Result<Option<String>, PlatformError> {
        let account = self.account().await?;
        let earliest = snowflake::at(unix_ms().saturating_sub(MAX_AGE));
        let mut side = Side::Newest;
        for _ in 0..MAX_PAGES {
            let page = self.page(sent.external, side).await?;
            if let Some(found) =
                page.messages.iter().rev().find(|message| self.is_that(message, sent, account))
            {
                return Ok((snowflake::parse(&found.id) >= Some(earliest)).then(|| found.id.clone()));
            }
            match page.oldest() {
                Some(oldest) if !page.is_last && oldest > earliest => side = Side::Before(oldest),
                _ => break,
            }
        }
        Ok(None)
    }

    /// Returns `true` if a message is one that flock sent in either way, with the same author, text and files.
    fn is_that(&self, message: &Message, sent: &OutgoingMessage<'_>, account: &Account) -> bool {
        if !self.is_own(message, account) || message.attachments.len() != sent.files.len() {
            return false;
        }
        let text = render(sent.markdown, sent.mentions);
        let by_webhook = message.webhook_id.is_some()
            && !sent.author.is_empty()
            && message.author.username == username(sent.author)
            && message.content.trim() == text.trim();
        let by_bot = message.author.id == account.id
            && message.content.trim() == with_author(sent.author, &text).trim();
        by_webhook || by_bot
    }

    /// Returns `true` for messages of flock itself.
    pub(super) fn is_own(&self, message: &Message, account: &Account) -> bool {
        message.author.id == account.id
            || message.application_id.as_deref() == Some(&account.application)
            || message.webhook_id.as_deref().is_some_and(|id| self.webhooks.is_own(id))
    }

    /// Returns the newest messages since a time, oldest first.
    pub(super) async fn since(
        &self,
        external: &str,
        since: i64,
        most: usize,
    ) -> Result<Vec<IncomingMessage>, PlatformError> {
        let account = self.account().await?;
        self.place(external).await?;
        let earliest = snowflake::at(since);
        let (mut found, mut side) = (Vec::new(), Side::Newest);
        while found.len() < most {
            let page = self.page(external, side).await?;
            let oldest = page.oldest().filter(|&oldest| !page.is_last && oldest >= earliest);
            for mut message in page.messages.into_iter().rev() {
                if snowflake::parse(&message.id) < Some(earliest) || found.len() == most {
                    break;
                }
                // Without the roles, a message still says who wrote it.
                message.member = self.roles_of(&message).await.unwrap_or_default();
                found.extend(self.incoming(&message, account));
            }
            match oldest {
                Some(oldest) => side = Side::Before(oldest),
                None => break,
            }
        }
        found.reverse();
        Ok(found)
    }

    /// Returns the sender with the roles, which a message has in the gateway's event and not when it is read later.
    pub(super) async fn roles_of(&self, message: &Message) -> Result<Option<Member>, PlatformError> {
        if message.author.bot || message.webhook_id.is_some() {
            return Ok(None);
        }
        let Some(guild) = self.place(&message.channel_id).await?.guild else { return Ok(None) };
        let key = (guild, message.author.id.clone());
        let known =
            self.roles(|roles| roles.get(&key).filter(|(seen, _)| seen.elapsed() < ROLES_LAST).cloned());
        let roles = match known {
            Some((_, roles)) => roles,
            None => {
                let request = Request::get("/guilds/{}/members/{}", &[&key.0, &key.1]);
                let roles = match self.client.call::<Member>(request).await {
                    Ok(member) => member.roles,
                    // Who has left has no roles.
                    Err(failure) if failure.code == code::UNKNOWN_MEMBER => Vec::new(),
                    Err(failure) => return Err(failure.error),
                };
                self.roles(|known| {
                    if known.len() >= MAX_PEOPLE {
                        known.clear();
                    }
                    known.insert(key, (Instant::now(), roles.clone()));
                });
                roles
            }
        };
        Ok(Some(Member { user: None, roles }))
    }

    /// Downloads a file of a message. Addresses of files last for a day, so the message is asked for a fresh one.
    pub(super) async fn fetch(&self, file: &IncomingFile, most: usize) -> Result<Vec<u8>, PlatformError> {
        let ids: Vec<&str> = file.id.split('/').filter(|id| snowflake::parse(id).is_some()).collect();
        let [channel, message, id] = ids[..] else {
            return Err(PlatformError::Refused("the file is not one of Discord's".to_owned()));
        };
        let message: Message = self.client.call(of_message(channel, message)).await?;
        let found = message.attachments.into_iter().find(|attachment| attachment.id == id);
        let Attachment { url, size, .. } =
            found.ok_or_else(|| PlatformError::Refused("the message has this file no more".to_owned()))?;
        if usize::try_from(size).is_ok_and(|size| size > most) {
            return Err(PlatformError::Refused(format!("the file has {size} bytes, more than {most}")));
        }
        self.client.download(&url, most).await
    }
}

impl Page {
    fn oldest(&self) -> Option<u64> {
        self.messages.first().and_then(|message| snowflake::parse(&message.id))
    }
}

/// The request for one message.
pub(super) fn of_message(channel: &str, message: &str) -> Request {
    Request::get("/channels/{}/messages/{}", &[channel, message]).needs("Read Message History")
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use serde_json::json;

    use super::*;
    use crate::bridge::discord::answers::Served;
    use crate::bridge::message::OutgoingFile;

    static NOW: LazyLock<i64> = LazyLock::new(unix_ms);

    fn id(seconds: i64) -> String {
        snowflake::at(*NOW + 1000 * seconds).to_string()
    }

    fn webhooks(seconds: i64, name: &str, content: &str) -> Value {
        json!({
            "id": id(seconds), "webhook_id": "7", "application_id": "2", "content": content,
            "author": {"id": "7", "username": name, "bot": true},
        })
    }

    async fn found(messages: Vec<Value>, sent: &OutgoingMessage<'_>) -> Option<String> {
        let served = Served::start(move |_| (200, Value::from(messages.clone()))).await;
        served.discord.find(sent).await.unwrap()
    }

    #[tokio::test]
    async fn an_earlier_attempt_is_found_by_its_author_and_text() {
        let sent = OutgoingMessage {
            external: "5",
            author: "coder",
            markdown: "done ",
            ..OutgoingMessage::default()
        };
        let by_bot = json!({"id": id(1), "author": {"id": "1"}, "content": "**[coder]** done"});
        for messages in [vec![webhooks(1, "coder", "done")], vec![by_bot]] {
            assert_eq!(found(messages, &sent).await, Some(id(1)));
        }
        let mut others = vec![webhooks(1, "tester", "done"), webhooks(1, "coder", "done?"), json!({"id": 5})];
        others.push(json!({"id": id(1), "author": {"id": "8", "username": "coder"}, "content": "done"}));
        assert_eq!(found(others, &sent).await, None);
        assert_eq!(found(vec![webhooks(-10 * 86_400, "coder", "done")], &sent).await, None);
        let files = [OutgoingFile { name: "a".to_owned(), content: Vec::new() }];
        let with_file = OutgoingMessage { files: &files, ..sent.clone() };
        assert_eq!(found(vec![webhooks(1, "coder", "done")], &with_file).await, None);
    }

    #[tokio::test]
    async fn the_newest_of_equal_messages_is_found() {
        let sent = OutgoingMessage { author: "coder", markdown: "done", ..OutgoingMessage::default() };
        let messages = vec![webhooks(1, "coder", "done"), webhooks(2, "coder", "done")];
        assert_eq!(found(messages, &sent).await, Some(id(2)));
    }

    #[tokio::test]
    async fn history_is_read_backwards_and_given_forwards() {
        let message = |seconds: i64| {
            json!({
                "id": id(seconds), "channel_id": "5", "content": seconds.to_string(),
                "author": {"id": "8", "username": "ann"},
            })
        };
        let served = Served::start(move |asked| match asked {
            "GET /channels/5" => (200, json!({"id": "5", "type": 0, "guild_id": "9"})),
            "GET /guilds/9/members/8" => (200, json!({"roles": ["4"]})),
            "GET /channels/5/messages?limit=100" => (200, (100..200).rev().map(message).collect()),
            asked if asked.ends_with(&format!("&before={}", id(100))) => {
                (200, (0..100).map(message).collect())
            }
            _ => (200, json!([])),
        })
        .await;
        let read = served.discord.since("5", *NOW + 50_000, 1000).await.unwrap();
        let texts: Vec<_> = read.iter().map(|message| message.text.parse::<i64>().unwrap()).collect();
        assert_eq!(texts, (50..200).collect::<Vec<_>>());
        assert_eq!(read[0].sender.roles, ["4"]);
        let asked = served.asked();
        assert_eq!(asked.iter().filter(|asked| asked.contains("/members/")).count(), 1);
        let newest = served.discord.since("5", *NOW, 3).await.unwrap();
        assert_eq!(
            newest.iter().map(|message| message.text.as_str()).collect::<Vec<_>>(),
            ["197", "198", "199"]
        );
    }

    #[tokio::test]
    async fn a_file_is_fetched_at_its_present_address_and_never_beyond_its_limit() {
        let served = Served::start(|asked| match asked {
            "GET /channels/5/messages/6" => {
                let at = |id: &str, url: &str| json!({"id": id, "url": url, "size": 1});
                (200, json!({"attachments": [at("2", "https://evil.org/")]}))
            }
            _ => (200, json!("content")),
        })
        .await;
        let file = |id: &str| IncomingFile { id: id.to_owned(), ..IncomingFile::default() };
        for id in ["5/6/2", "5/6/3", "5/6", "https://evil.org"] {
            assert!(
                matches!(served.discord.fetch(&file(id), 100).await, Err(PlatformError::Refused(_))),
                "{id}"
            );
        }
    }
}
