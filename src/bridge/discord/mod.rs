//! Discord, by its gateway and its REST API (version 10), as a bot.
//!
//! Events come by the library twilight-gateway, which keeps the websocket and resumes its session. Requests are sent
//! by a small client of flock's own: twilight-http has no `enforce_nonce`, and keeps its own memory of limits and of
//! tokens that were refused.

#[cfg(test)]
mod answers;
mod changing;
mod channels;
mod cursor;
mod following;
mod form;
mod gateway;
mod limits;
mod markup;
mod model;
mod patience;
mod permission;
mod places;
mod reading;
mod refusal;
mod rendering;
mod rest;
mod searching;
mod sending;
mod snowflake;
mod webhooks;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::sync::{OnceCell, mpsc};
use twilight_gateway::queue::InMemoryQueue;

use self::patience::patiently;
use super::message::{
    BotAccount, ExternalChannel, IncomingFile, IncomingMessage, OutgoingMessage, PlatformEvent, Position,
};
use super::platform::{Answer, Limits, Platform, PlatformError, Repetition};
use crate::config::Bridge;
use crate::home::Home;
use crate::provider::BoxFuture;
use model::{Application, User};
use places::Places;
use rest::{Client, Request};
use searching::KnownRoles;
use webhooks::Webhooks;

/// Largest size of a file that is sent: the limit in a server that nobody pays for.
const MAX_FILE: usize = 10 << 20;
/// Time for which Discord shows that somebody writes.
const TYPING: Duration = Duration::from_secs(10);
/// The flags of an app that may read messages: in many servers, and in few.
const READS_MESSAGES: u64 = 1 << 18 | 1 << 19;

/// A bot on Discord.
pub(crate) struct Discord {
    client: Arc<Client>,
    token: String,
    account: OnceCell<Account>,
    webhooks: Webhooks,
    places: Mutex<Places>,
    roles: Mutex<KnownRoles>,
    /// The ids of the channels to single people, by their accounts. Discord limits how often one is opened.
    direct: Mutex<HashMap<String, String>>,
    /// Spaces the beginnings of sessions, of which Discord takes one in five seconds. It has a task, so it is made at the
    /// first connection.
    queue: OnceLock<InMemoryQueue>,
}

/// The account of the bot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    id: String,
    name: String,
    /// The id of the app that the bot belongs to.
    application: String,
}

impl Discord {
    /// Makes the connection for a bot. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the HTTP client can't be made, or if the token is none.
    pub(crate) fn new(home: &Home, bridge: &Bridge, token: String) -> Result<Self, PlatformError> {
        let token = token.strip_prefix("Bot ").map(str::to_owned).unwrap_or(token);
        Ok(Self {
            client: Arc::new(Client::new(bridge.api.as_deref(), &token)?),
            token,
            account: OnceCell::new(),
            webhooks: Webhooks::new(home, &bridge.name),
            places: Mutex::default(),
            roles: Mutex::default(),
            direct: Mutex::default(),
            queue: OnceLock::new(),
        })
    }

    /// Returns the account, which is asked for once.
    async fn account(&self) -> Result<&Account, PlatformError> {
        let ask = || async {
            let user: User = self.client.call(Request::get("/users/@me", &[])).await?;
            let app: Application = self.client.call(Request::get("/applications/@me", &[])).await?;
            if app.flags & READS_MESSAGES == 0 {
                return Err(PlatformError::Refused(gateway::without_intent()));
            }
            Ok(Account { id: user.id, name: user.username, application: app.id })
        };
        self.account.get_or_try_init(ask).await
    }

    fn places<T>(&self, act: impl FnOnce(&mut Places) -> T) -> T {
        act(&mut self.places.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn roles<T>(&self, act: impl FnOnce(&mut KnownRoles) -> T) -> T {
        act(&mut self.roles.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Platform for Discord {
    fn identify(&self) -> Answer<'_, BotAccount> {
        Box::pin(async move {
            let account = self.account().await?;
            Ok(BotAccount { id: account.id.clone(), name: account.name.clone() })
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            // The bot's own messages also have a key, but those of webhooks have none.
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
        Box::pin(async move { self.follow(from, events).await.unwrap_or_else(|error| error) })
    }

    fn fits(&self, author: &str, markdown: &str) -> bool {
        rendering::fits(author, markdown)
    }

    fn send<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, String> {
        Box::pin(self.send_message(message))
    }

    fn find_sent<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, Option<String>> {
        Box::pin(self.find(message))
    }

    fn edit<'a>(&'a self, message: &'a str, new: &'a OutgoingMessage<'a>) -> Answer<'a, ()> {
        Box::pin(self.edit_message(message, new))
    }

    fn delete<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, ()> {
        Box::pin(self.delete_message(external, message))
    }

    fn react<'a>(&'a self, external: &'a str, message: &'a str, emoji: &'a str) -> Answer<'a, ()> {
        Box::pin(self.add_reaction(external, message, emoji))
    }

    fn show_typing<'a>(&'a self, external: &'a str) -> Answer<'a, ()> {
        Box::pin(self.type_in(external))
    }

    fn answer_apart<'a>(&'a self, to: &'a IncomingMessage, markdown: &'a str) -> Answer<'a, ()> {
        Box::pin(self.tell(to, markdown))
    }

    fn has_message<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, Option<bool>> {
        Box::pin(self.has(external, message))
    }

    fn find_channel<'a>(&'a self, name: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(patiently(|| self.find_by_name(name)))
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
        Box::pin(self.fetch(file, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::PlatformName;

    /// Makes a bot that is connected to nothing, and the folder of its home.
    pub(super) fn discord() -> (Discord, tempfile::TempDir) {
        discord_at("http://127.0.0.1:9")
    }

    pub(super) fn discord_at(api: &str) -> (Discord, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let bridge = Bridge { api: Some(api.to_owned()), ..Bridge::new("d", PlatformName::Discord) };
        let home = Home::new(folder.path().canonicalize().unwrap(), None);
        (Discord::new(&home, &bridge, "Bot token".to_owned()).unwrap(), folder)
    }

    #[tokio::test]
    async fn a_platform_that_is_not_there_is_unavailable() {
        let (discord, _folder) = discord();
        assert!(matches!(discord.identify().await, Err(PlatformError::Unavailable(_))));
        assert_eq!(discord.token, "token");
    }
}
