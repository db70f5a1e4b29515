//! Messages of flock's: how they are sent, found again, changed and deleted.

use serde_json::{Value, json};

use super::catch_up::next;
use super::event::{self, Own, text};
use super::files;
use super::outgoing;
use super::place;
use super::ts::Ts;
use super::{Slack, emoji};
use crate::bridge::message::{IncomingMessage, OutgoingMessage};
use crate::bridge::platform::PlatformError;
use crate::bridge::text::split;

/// The type of the metadata that has the key of a message.
const METADATA: &str = "flock_message";
/// The scope with which a message shows the name of its author.
const CUSTOMIZE: &str = "chat:write.customize";
/// Largest number of characters of a name.
const MAX_NAME: usize = 80;
/// Pages that are searched for a message that may have been sent.
const SEARCHED_PAGES: usize = 5;
/// Largest number of pages of a thread that are read to get to its newest messages.
const MAX_PAGES: usize = 100;

impl Slack {
    pub(super) async fn post(&self, message: &OutgoingMessage<'_>) -> Result<String, PlatformError> {
        // A message that brings files can't have a name of its own.
        if !message.files.is_empty() {
            let (channel, thread) = place_of(message);
            let shown = outgoing::message(Some(message.author), message.markdown, message.mentions);
            return files::send(&self.api, channel, thread, &shown, message.files).await;
        }
        let mut body = self.content(message).await?;
        let (channel, thread) = place_of(message);
        body["channel"] = channel.into();
        body["unfurl_links"] = false.into();
        body["unfurl_media"] = false.into();
        body["metadata"] = json!({"event_type": METADATA, "event_payload": {"key": message.key}});
        if let Some(thread) = thread {
            body["thread_ts"] = thread.to_string().into();
            // An answer to a message of the channel is for the channel too.
            body["reply_broadcast"] = (!message.external.contains('/')).into();
        }
        if self.shows_names().await? && !message.author.is_empty() {
            body["username"] = message.author.chars().take(MAX_NAME).collect::<String>().into();
            if let Some(avatar) = message.avatar {
                body["icon_url"] = avatar.into();
            }
        }
        let answer = self.api.write("chat.postMessage", &body).await?;
        id_of(text(&answer, "ts"))
    }

    /// Returns the text and blocks of a message.
    async fn content(&self, message: &OutgoingMessage<'_>) -> Result<Value, PlatformError> {
        let author = Some(message.author).filter(|author| !author.is_empty());
        let author = if self.shows_names().await? { None } else { author };
        let shown = outgoing::message(author, message.markdown, message.mentions);
        // Without blocks in the request, a changed message would keep its old ones.
        let blocks = if message.buttons.is_empty() {
            json!([])
        } else {
            outgoing::blocks(author, message.markdown, message.mentions, message.buttons)
        };
        Ok(json!({"text": shown, "blocks": blocks, "mrkdwn": true, "parse": "none", "link_names": false}))
    }

    /// Returns `true` if a message can have the name of its author instead of the app's.
    async fn shows_names(&self) -> Result<bool, PlatformError> {
        if self.api.scopes().is_none() {
            self.sign_in().await?;
        }
        Ok(self.api.scopes().is_some_and(|scopes| scopes.contains(CUSTOMIZE)))
    }

    /// Searches the newest messages for one with this key, or with these files.
    pub(super) async fn find(&self, message: &OutgoingMessage<'_>) -> Result<Option<String>, PlatformError> {
        let own = self.account().await?;
        let (channel, thread) = place::apart(message.external);
        let is_it = |found: &Value| match message.files {
            [] => has_key(found, message.key, &own),
            files => {
                let shown = outgoing::message(Some(message.author), message.markdown, message.mentions);
                files::has_files(found, files, &shown, &own)
            }
        };
        let mut cursor = String::new();
        let pages = if thread.is_some() { MAX_PAGES } else { SEARCHED_PAGES };
        for _ in 0..pages {
            let page = self.page(channel, thread, None, &cursor).await?;
            let mut messages = page["messages"].as_array().into_iter().flatten();
            if let Some(found) = messages.find(|&found| is_it(found)) {
                return id_of(text(found, "ts")).map(Some);
            }
            cursor = next(&page);
            if cursor.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    /// Reads a page of a channel, newest first, or of a thread, oldest first.
    async fn page(
        &self,
        channel: &str,
        thread: Option<Ts>,
        oldest: Option<Ts>,
        cursor: &str,
    ) -> Result<Value, PlatformError> {
        let (thread, oldest) = (thread.map(|ts| ts.to_string()), oldest.map(|ts| ts.to_string()));
        let mut asked = vec![("channel", channel), ("include_all_metadata", "true")];
        asked.extend(thread.as_deref().map(|ts| ("ts", ts)));
        asked.extend(oldest.as_deref().map(|ts| ("oldest", ts)));
        asked.extend(Some(cursor).filter(|cursor| !cursor.is_empty()).map(|cursor| ("cursor", cursor)));
        let method = if thread.is_some() { "conversations.replies" } else { "conversations.history" };
        self.api.page(method, &asked).await
    }

    pub(super) async fn change(&self, id: &str, new: &OutgoingMessage<'_>) -> Result<(), PlatformError> {
        let mut body = self.content(new).await?;
        body["channel"] = place::apart(new.external).0.into();
        body["ts"] = id_of(id)?.into();
        self.api.write("chat.update", &body).await.map(drop)
    }

    pub(super) async fn remove(&self, external: &str, id: &str) -> Result<(), PlatformError> {
        let body = json!({"channel": place::apart(external).0, "ts": id_of(id)?});
        done(self.api.write("chat.delete", &body).await, "message_not_found")
    }

    pub(super) async fn add_reaction(
        &self,
        external: &str,
        id: &str,
        emoji: &str,
    ) -> Result<(), PlatformError> {
        let Some(name) = emoji::name(emoji) else {
            return Err(PlatformError::Refused(format!(
                "there is no known name in Slack for the reaction {emoji:?}"
            )));
        };
        let body = json!({"channel": place::apart(external).0, "timestamp": id_of(id)?, "name": name});
        done(self.api.write("reactions.add", &body).await, "already_reacted")
    }

    /// Answers so that only the sender sees it.
    pub(super) async fn whisper(&self, to: &IncomingMessage, markdown: &str) -> Result<(), PlatformError> {
        let (channel, thread) = place::apart(&to.external);
        for part in split(markdown, |part| outgoing::fits("", part)) {
            let shown = outgoing::message(None, &part, &[]);
            let mut body = json!({
                "channel": channel, "user": to.sender.account, "text": shown, "parse": "none", "link_names": false,
            });
            if let Some(thread) = thread {
                body["thread_ts"] = thread.to_string().into();
            }
            self.api.write("chat.postEphemeral", &body).await?;
        }
        Ok(())
    }

    pub(super) async fn has(&self, external: &str, id: &str) -> Result<bool, PlatformError> {
        let ((channel, thread), id) = (place::apart(external), id_of(id)?);
        let first = thread.map(|thread| thread.to_string());
        let mut asked = vec![
            ("channel", channel),
            ("oldest", id.as_str()),
            ("latest", &id),
            ("inclusive", "true"),
            ("limit", "1"),
        ];
        asked.extend(first.as_deref().map(|first| ("ts", first)));
        let method = if first.is_some() { "conversations.replies" } else { "conversations.history" };
        let answer = match self.api.read(method, &asked).await {
            Err(PlatformError::Refused(why)) if why.starts_with("thread_not_found") => return Ok(false),
            answer => answer?,
        };
        Ok(answer["messages"].as_array().into_iter().flatten().any(|found| text(found, "ts") == id))
    }

    /// Returns the messages since a time, oldest first.
    pub(super) async fn since(
        &self,
        external: &str,
        since: i64,
        most: usize,
    ) -> Result<Vec<IncomingMessage>, PlatformError> {
        let own = self.account().await?;
        let ((channel, thread), oldest) = (place::apart(external), Ts::from_ms(since));
        let (mut found, mut cursor) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let page = self.page(channel, thread, Some(oldest), &cursor).await?;
            let messages = page["messages"].as_array().into_iter().flatten();
            let read = messages.filter_map(|message| event::message(channel, message, &own));
            found.extend(read.filter(|message| message.thread == thread));
            cursor = next(&page);
            // A channel is read from its newest message on, a thread from its oldest one.
            if cursor.is_empty() || (thread.is_none() && found.len() >= most) {
                break;
            }
        }
        found.sort_by_key(|message| message.ts);
        let newest = found.split_off(found.len().saturating_sub(most));
        let mut messages = Vec::with_capacity(newest.len());
        for raw in &newest {
            messages.push(self.names.resolve(&self.api, &own, raw).await?);
        }
        Ok(messages)
    }
}

/// Returns the channel of a message, and the thread if it goes into one.
fn place_of<'a>(message: &OutgoingMessage<'a>) -> (&'a str, Option<Ts>) {
    let (channel, thread) = place::apart(message.external);
    (channel, thread.or_else(|| message.reply_to.and_then(|answered| answered.parse().ok())))
}

fn id_of(ts: &str) -> Result<String, PlatformError> {
    let id: Result<Ts, ()> = ts.parse();
    id.map(|ts| ts.to_string()).map_err(|()| {
        PlatformError::Refused(format!("{:?} is no message of Slack's", crate::clean::summary(ts, 40)))
    })
}

/// Returns `true` for a message of flock's own with this key. Anybody else can put the key into a message too.
fn has_key(found: &Value, key: &str, own: &Own) -> bool {
    let metadata = &found["metadata"];
    event::is_own(found, own)
        && text(metadata, "event_type") == METADATA
        && metadata["event_payload"]["key"] == key
}

/// Returns that a request was carried out also where it had been before.
fn done(answer: Result<Value, PlatformError>, before: &str) -> Result<(), PlatformError> {
    match answer {
        Err(PlatformError::Refused(why)) if why.starts_with(before) => Ok(()),
        answer => answer.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_in_own_messages_only() {
        let own = Own { user: "UBOT".to_owned(), bot: "BBOT".to_owned(), name: "flock".to_owned() };
        let message = |bot: &str, key: &str| {
            let metadata = json!({"event_type": "flock_message", "event_payload": {"key": key}});
            json!({"bot_id": bot, "metadata": metadata})
        };
        assert!(has_key(&message("BBOT", "k1"), "k1", &own));
        assert!(!has_key(&message("BBOT", "k2"), "k1", &own));
        assert!(!has_key(&message("B2", "k1"), "k1", &own));
        assert!(!has_key(&json!({"bot_id": "BBOT"}), "k1", &own));
    }

    #[test]
    fn a_message_goes_to_its_thread() {
        let place = |external, reply_to| {
            let message = OutgoingMessage { external, reply_to, ..OutgoingMessage::default() };
            let (channel, thread) = place_of(&message);
            (channel.to_owned(), thread.map(|thread| thread.to_string()))
        };
        let thread = || Some("9.000001".to_owned());
        assert_eq!(place("C1", None), ("C1".to_owned(), None));
        assert_eq!(place("C1", Some("9.000001")), ("C1".to_owned(), thread()));
        assert_eq!(place("C1/9.000001", Some("10.000001")), ("C1".to_owned(), thread()));
    }

    #[test]
    fn what_was_done_before_is_done() {
        let refused = |code: &str| Err(PlatformError::Refused(code.to_owned()));
        assert_eq!(done(refused("already_reacted"), "already_reacted"), Ok(()));
        assert!(done(refused("no_permission"), "already_reacted").is_err());
        assert!(id_of("../x").is_err() && id_of("1.000001").is_ok());
    }
}
