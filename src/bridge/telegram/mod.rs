//! Telegram, by its Bot API.
//!
//! A channel is a chat, or a topic in a group with topics ([`place::Place`]). Updates are fetched by long polling: the
//! place in their stream is the offset, and Telegram keeps what was not confirmed for a day ([`updates`]). Telegram has
//! neither a history for bots nor keys against repetition.
//!
//! The token is a part of each URL, so no URL is ever in an error or a log ([`client`]).

mod channel;
mod chat_name;
mod client;
mod entities;
mod files;
mod incoming;
mod markup;
mod mentions;
mod multipart;
mod names;
mod outgoing;
mod place;
mod reaction;
mod topics;
mod updates;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::message::{
    BotAccount, ExternalChannel, IncomingFile, IncomingMessage, OutgoingMessage, PlatformEvent, Position,
};
use super::platform::{Answer, Limits, Platform, PlatformError, Repetition};
use crate::provider::BoxFuture;
use client::{Client, Failure};
use outgoing::Started;
use place::Place;
use topics::Topics;

/// The public address of the Bot API.
pub(super) const API: &str = "https://api.telegram.org";
/// Largest size of a file that a bot may send.
const MAX_FILE: usize = 50 << 20;
/// Largest size of a file that a bot may fetch.
const MAX_DOWNLOAD: usize = 20 << 20;
/// Time for which Telegram shows that somebody writes.
const TYPING: Duration = Duration::from_secs(5);
/// Longest description of a group, in characters.
const MAX_DESCRIPTION: usize = 255;

/// A bot of Telegram's.
pub(crate) struct Telegram {
    client: Client,
    topics: Topics,
    /// Groups that became supergroups, as failed requests told.
    moved: Mutex<HashMap<i64, Moved>>,
    /// Messages of which a part was sent and another failed.
    started: Mutex<HashMap<String, Started>>,
}

/// The id of the supergroup that a group became.
#[derive(Clone, Copy)]
struct Moved {
    to: i64,
    /// Set once the event is delivered.
    is_told: bool,
}

impl Telegram {
    /// Makes the connection for a bot. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the token has not the form of one, or if the HTTP client can't be made.
    pub(crate) fn new(api: &str, token: String) -> Result<Self, PlatformError> {
        Ok(Self {
            client: Client::new(api, token)?,
            topics: Topics::default(),
            moved: Mutex::default(),
            started: Mutex::default(),
        })
    }

    async fn call(&self, method: &str, parameters: &Value) -> Result<Value, PlatformError> {
        Ok(self.client.call(method, parameters).await?)
    }

    /// Reads the id of a channel. A group that became a supergroup is found by its old id too.
    fn place(&self, external: &str) -> Result<Place, PlatformError> {
        let place = Place::parse(external)?;
        let moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Place { chat: moved.get(&place.chat).map_or(place.chat, |moved| moved.to), ..place })
    }

    /// Returns the number of a message in a chat.
    fn number(place: Place, message: &str) -> Result<i64, PlatformError> {
        place.message_number(message).ok_or_else(|| {
            PlatformError::Refused(format!(
                "there is no message {message} in the chat {place}, which may have been a smaller group then"
            ))
        })
    }

    /// Turns a failure of a request about a chat into the platform's. A request to a group that became a supergroup is
    /// repeated later, and then goes there.
    fn failed(&self, place: Place, failure: Failure) -> PlatformError {
        let Failure::Moved(to) = failure else { return failure.into() };
        let mut moved = self.moved.lock().unwrap_or_else(PoisonError::into_inner);
        moved.insert(place.chat, Moved { to, is_told: false });
        PlatformError::Unavailable(format!("the group {} became the supergroup {to}", place.chat))
    }

    /// Calls a method about a message, and passes over the failure that says that there is nothing to do.
    async fn settle(
        &self,
        place: Place,
        method: &str,
        parameters: &Value,
        settled: &str,
    ) -> Result<(), PlatformError> {
        match self.client.call(method, parameters).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.says(settled) => Ok(()),
            Err(failure) => Err(self.failed(place, failure)),
        }
    }
}

impl Platform for Telegram {
    fn identify(&self) -> Answer<'_, BotAccount> {
        Box::pin(async move {
            let account = self.me().await?.account();
            let webhook = self.call("getWebhookInfo", &json!({})).await?;
            if webhook["url"].as_str().is_some_and(|url| !url.is_empty()) {
                return Err(PlatformError::Refused(client::conflict("the bot has a webhook")));
            }
            Ok(account)
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            repetition: Repetition::Nothing,
            file_bytes: MAX_FILE,
            has_buttons: true,
            // It hears them only where the bot is an administrator.
            hears_reactions: false,
            typing_lasts: TYPING,
        }
    }

    fn connect<'a>(
        &'a self,
        from: Position,
        events: mpsc::Sender<PlatformEvent>,
    ) -> BoxFuture<'a, PlatformError> {
        Box::pin(async move {
            match self.follow(from, &events).await {
                Ok(()) => PlatformError::Unavailable("the gateway stops".to_owned()),
                Err(error) => error,
            }
        })
    }

    fn fits(&self, author: &str, markdown: &str) -> bool {
        markup::fits(&markup::html(author, markdown, &[]), markup::MAX_TEXT)
    }

    fn send<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, String> {
        Box::pin(self.send_parts(message))
    }

    fn find_sent<'a>(&'a self, _: &'a OutgoingMessage<'a>) -> Answer<'a, Option<String>> {
        // There is no history to search.
        Box::pin(async { Ok(None) })
    }

    fn edit<'a>(&'a self, message: &'a str, new: &'a OutgoingMessage<'a>) -> Answer<'a, ()> {
        Box::pin(self.replace(message, new))
    }

    fn delete<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let place = self.place(external)?;
            let parameters = json!({"chat_id": place.chat, "message_id": Self::number(place, message)?});
            self.settle(place, "deleteMessage", &parameters, "message to delete not found").await
        })
    }

    fn react<'a>(&'a self, external: &'a str, message: &'a str, emoji: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let place = self.place(external)?;
            let emoji = reaction::allowed(emoji).ok_or_else(|| {
                PlatformError::Refused(format!("Telegram does not let bots react with {emoji}"))
            })?;
            let parameters = json!({
                "chat_id": place.chat, "message_id": Self::number(place, message)?,
                "reaction": [{"type": "emoji", "emoji": emoji}],
            });
            self.settle(place, "setMessageReaction", &parameters, "message is not modified").await
        })
    }

    fn show_typing<'a>(&'a self, external: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let place = self.place(external)?;
            self.act(place).await.map_err(|failure| self.failed(place, failure))
        })
    }

    fn answer_apart<'a>(&'a self, to: &'a IncomingMessage, markdown: &'a str) -> Answer<'a, ()> {
        Box::pin(self.answer(to, markdown))
    }

    fn has_message<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, Option<bool>> {
        // Bots can't look at a message that they know the number of.
        Box::pin(async { Ok(None) })
    }

    fn find_channel<'a>(&'a self, name: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(self.channel(name))
    }

    fn create_channel<'a>(&'a self, name: &'a str, _topic: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(self.create_topic(name))
    }

    fn set_topic<'a>(&'a self, external: &'a str, topic: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let place = self.place(external)?;
            if place.topic.is_some() {
                return Err(PlatformError::Refused("a topic of a group has no description".to_owned()));
            }
            let description: String = topic.chars().take(MAX_DESCRIPTION).collect();
            let parameters = json!({"chat_id": place.chat, "description": description});
            self.settle(place, "setChatDescription", &parameters, "description is not modified").await
        })
    }

    fn history<'a>(&'a self, _: &'a str, _: i64, _: usize) -> Answer<'a, Vec<IncomingMessage>> {
        Box::pin(async { Err(PlatformError::Refused("Telegram has no history for bots".to_owned())) })
    }

    fn download<'a>(&'a self, file: &'a IncomingFile, most: usize) -> Answer<'a, Vec<u8>> {
        Box::pin(async move {
            let most = most.min(MAX_DOWNLOAD);
            let too_large = || PlatformError::Refused(format!("the file has more than {most} bytes"));
            if usize::try_from(file.bytes).is_ok_and(|bytes| bytes > most) {
                return Err(too_large());
            }
            let found = self.call("getFile", &json!({"file_id": file.id})).await?;
            let path = found["file_path"].as_str().unwrap_or_default();
            self.client.download(path, most).await?.ok_or_else(too_large)
        })
    }
}

#[cfg(test)]
mod tests;
