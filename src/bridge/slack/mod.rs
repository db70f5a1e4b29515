//! Slack, by its Web API and by Socket Mode, which needs no address that Slack can reach.
//!
//! Answers and events are read as JSON without types, because Slack adds fields and kinds at any time. A library with
//! types was refused: slack-morphism acknowledges what it can't read, and drops what Slack sends again.

mod api;
mod catch_up;
mod channels;
mod emoji;
mod event;
mod files;
mod follow;
mod incoming;
mod messages;
mod names;
mod outgoing;
mod place;
mod refusal;
mod socket;
mod ts;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::json;
use tokio::sync::mpsc;

use super::Credentials;
use super::message::{
    BotAccount, ExternalChannel, IncomingFile, IncomingMessage, OutgoingMessage, PlatformEvent, Position,
};
use super::platform::{Answer, Limits, Platform, PlatformError, Repetition};
use crate::provider::BoxFuture;
use api::Api;
use event::{Own, text};
use names::Names;

/// Largest size of a file that is sent. Slack takes 1 GB; a file is in memory while it is sent.
const MAX_FILE: usize = 100 << 20;
/// Slack has nothing that shows that an app writes.
const TYPING: Duration = Duration::ZERO;
/// The scopes that the bot token needs.
const SCOPES: [&str; 10] = [
    "channels:history",
    "channels:read",
    "chat:write",
    "files:read",
    "files:write",
    "groups:history",
    "groups:read",
    "im:history",
    "reactions:write",
    "users:read",
];

/// An app in a workspace.
pub(crate) struct Slack {
    api: Api,
    names: Names,
    account: Mutex<Option<Own>>,
}

impl Slack {
    /// Makes the connection for an app. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if a token is missing or can't be one, or if the HTTP client can't be made.
    pub(crate) fn new(address: Option<&str>, credentials: &Credentials) -> Result<Self, PlatformError> {
        Ok(Self { api: Api::new(address, credentials)?, names: Names::new(), account: Mutex::default() })
    }

    /// Asks Slack whose the bot token is.
    async fn sign_in(&self) -> Result<Own, PlatformError> {
        let answer = self.api.write("auth.test", &json!({})).await?;
        let [user, bot, name] = ["user_id", "bot_id", "user"].map(|key| text(&answer, key).to_owned());
        if user.is_empty() || bot.is_empty() {
            return Err(PlatformError::Unauthorized("it is not a bot token (xoxb-…)".to_owned()));
        }
        let own = Own { user, bot, name };
        *self.account.lock().unwrap_or_else(PoisonError::into_inner) = Some(own.clone());
        Ok(own)
    }

    /// Returns flock's account, which never changes for a token.
    async fn account(&self) -> Result<Own, PlatformError> {
        let known = self.account.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match known {
            Some(own) => Ok(own),
            None => self.sign_in().await,
        }
    }

    async fn check(&self) -> Result<BotAccount, PlatformError> {
        let own = self.sign_in().await?;
        let given = self.api.scopes().unwrap_or_default();
        let missing: Vec<&str> = SCOPES.into_iter().filter(|scope| !given.contains(*scope)).collect();
        if !missing.is_empty() {
            return Err(PlatformError::Refused(refusal::missing(api::BOT, &missing)));
        }
        // The address is not used. It ends by itself.
        self.api.open_connection().await?;
        Ok(BotAccount { id: own.user, name: own.name })
    }
}

impl Platform for Slack {
    fn identify(&self) -> Answer<'_, BotAccount> {
        Box::pin(self.check())
    }

    fn limits(&self) -> Limits {
        Limits {
            repetition: Repetition::History,
            file_bytes: MAX_FILE,
            has_buttons: true,
            hears_reactions: true,
            typing_lasts: TYPING,
        }
    }

    fn connect<'a>(
        &'a self,
        from: Position,
        events: mpsc::Sender<PlatformEvent>,
    ) -> BoxFuture<'a, PlatformError> {
        Box::pin(async move {
            let Err(error) = follow::follow(self, from, events).await;
            error
        })
    }

    fn fits(&self, author: &str, markdown: &str) -> bool {
        outgoing::fits(author, markdown)
    }

    fn send<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, String> {
        Box::pin(self.post(message))
    }

    fn find_sent<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, Option<String>> {
        Box::pin(self.find(message))
    }

    fn edit<'a>(&'a self, message: &'a str, new: &'a OutgoingMessage<'a>) -> Answer<'a, ()> {
        Box::pin(self.change(message, new))
    }

    fn delete<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, ()> {
        Box::pin(self.remove(external, message))
    }

    fn react<'a>(&'a self, external: &'a str, message: &'a str, emoji: &'a str) -> Answer<'a, ()> {
        Box::pin(self.add_reaction(external, message, emoji))
    }

    fn show_typing<'a>(&'a self, _: &'a str) -> Answer<'a, ()> {
        // Only the old API for bots could do that.
        Box::pin(async { Ok(()) })
    }

    fn answer_apart<'a>(&'a self, to: &'a IncomingMessage, markdown: &'a str) -> Answer<'a, ()> {
        Box::pin(self.whisper(to, markdown))
    }

    fn has_message<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, Option<bool>> {
        Box::pin(async move { self.has(external, message).await.map(Some) })
    }

    fn find_channel<'a>(&'a self, name: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(self.find_by(name))
    }

    fn create_channel<'a>(&'a self, name: &'a str, topic: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(self.create(name, topic))
    }

    fn set_topic<'a>(&'a self, external: &'a str, topic: &'a str) -> Answer<'a, ()> {
        Box::pin(self.change_topic(external, topic))
    }

    fn history<'a>(&'a self, external: &'a str, since: i64, most: usize) -> Answer<'a, Vec<IncomingMessage>> {
        Box::pin(self.since(external, since, most))
    }

    fn download<'a>(&'a self, file: &'a IncomingFile, most: usize) -> Answer<'a, Vec<u8>> {
        Box::pin(files::download(&self.api, file, most))
    }
}
