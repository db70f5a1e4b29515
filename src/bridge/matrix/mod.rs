//! Matrix, by its client-server API with any homeserver.
//!
//! flock does not encrypt: an encrypted room is refused when it is linked, and when something is sent to it. The library
//! is ruma, which has the requests of the API and nothing else. matrix-sdk keeps a database, caches and encryption of
//! its own beside flock's.

mod client;
mod content;
mod direct;
mod events;
mod failure;
mod files;
mod follow;
mod incoming;
mod mentioned;
mod moved;
mod outgoing;
mod place;
mod rooms;
mod send;
mod threads;
mod timeline;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ruma::api::client::account::whoami;
use ruma::api::client::typing::create_typing_event;
use ruma::{OwnedRoomId, OwnedUserId, RoomId};
use tokio::sync::{OnceCell, mpsc};

use super::message::{
    BotAccount, ExternalChannel, IncomingFile, IncomingMessage, OutgoingMessage, PlatformEvent, Position,
};
use super::platform::{Answer, Limits, Platform, PlatformError, Repetition};
use crate::provider::BoxFuture;
use client::Client;
use follow::Follower;
use place::Place;

/// Largest size of a file that is sent, if the homeserver allows it.
const MAX_FILE: usize = 50 << 20;
/// Time for which a homeserver shows that somebody writes.
const TYPING: Duration = Duration::from_secs(20);

/// An account on a homeserver.
pub(crate) struct Matrix {
    client: Client,
    /// The account, once it was asked for.
    own: OnceCell<OwnedUserId>,
    /// Set for the rooms that are encrypted, unset for those that were looked at and are not.
    encrypted: Mutex<BTreeMap<OwnedRoomId, bool>>,
    file_bytes: AtomicUsize,
    /// The rooms in which it is shown that flock writes, and since when.
    typing: Mutex<BTreeMap<OwnedRoomId, Instant>>,
}

impl Matrix {
    /// Makes the connection for an account. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the HTTP client can't be made.
    pub(crate) fn new(homeserver: &str, token: String) -> Result<Self, PlatformError> {
        Ok(Self {
            client: Client::new(homeserver, token)?,
            own: OnceCell::new(),
            encrypted: Mutex::default(),
            file_bytes: AtomicUsize::new(MAX_FILE),
            typing: Mutex::default(),
        })
    }

    /// Asks whose token it is.
    async fn who_am_i(&self) -> Result<OwnedUserId, PlatformError> {
        let account = self.client.send(whoami::v3::Request::new()).await?;
        // Synapse keeps the keys of such messages in memory only.
        if account.device_id.is_none() {
            tracing::warn!(
                account = %account.user_id,
                "the Matrix token belongs to no device, so a message may appear twice if the homeserver restarts; \
                 docs/bridges.md says how to get one that does"
            );
        }
        Ok(account.user_id)
    }

    /// Returns flock's account.
    async fn own(&self) -> Result<OwnedUserId, PlatformError> {
        self.own.get_or_try_init(|| self.who_am_i()).await.cloned()
    }

    fn limit_files(&self, bytes: usize) {
        self.file_bytes.store(bytes.min(MAX_FILE), Ordering::Relaxed);
    }

    /// Notes that a room is encrypted. It stays so: there is no way back.
    fn note_encrypted(&self, room: &RoomId) {
        let mut known = self.encrypted.lock().unwrap_or_else(PoisonError::into_inner);
        if known.insert(room.to_owned(), true) != Some(true) {
            tracing::warn!(%room, "a Matrix room is encrypted now, so flock can't read what is said there");
        }
    }

    /// Returns an error for an encrypted room. Nothing that is said here may go there as if it was safe.
    async fn check_unencrypted(&self, room: &RoomId) -> Result<(), PlatformError> {
        let known = self.encrypted.lock().unwrap_or_else(PoisonError::into_inner).get(room).copied();
        let is_encrypted = match known {
            Some(known) => known,
            None => {
                let is_encrypted = rooms::is_encrypted(&self.client, room).await?;
                let mut known = self.encrypted.lock().unwrap_or_else(PoisonError::into_inner);
                // The stream of events may have said it meanwhile.
                let known = known.entry(room.to_owned()).or_default();
                *known |= is_encrypted;
                *known
            }
        };
        if is_encrypted { Err(PlatformError::Refused(outgoing::encrypted(room))) } else { Ok(()) }
    }

    async fn set_typing(&self, room: &RoomId, is_typing: bool) -> Result<(), PlatformError> {
        let typing = if is_typing {
            create_typing_event::v3::TypingInfo::new(TYPING).into()
        } else {
            create_typing_event::v3::Typing::No
        };
        let own = self.own().await?;
        self.client.send(create_typing_event::v3::Request::new(own, room.to_owned(), typing)).await?;
        Ok(())
    }

    /// Shows no longer that flock writes, after a message. The homeserver would show it for the rest of its time.
    async fn stop_typing(&self, room: &RoomId) {
        let since = self.typing.lock().unwrap_or_else(PoisonError::into_inner).remove(room);
        if since.is_some_and(|since| since.elapsed() < TYPING)
            && let Err(error) = self.set_typing(room, false).await
        {
            tracing::debug!(%room, %error, "failed to end the sign that flock writes");
        }
    }

    async fn follow(&self, from: Position, events: mpsc::Sender<PlatformEvent>) -> PlatformError {
        // The token may be that of another account since the last connection.
        match self.who_am_i().await {
            Ok(own) if self.own.get().is_some_and(|known| *known != own) => {
                return PlatformError::Unauthorized(format!("the token is that of {own} now"));
            }
            Ok(_) => {}
            Err(error) => return error,
        }
        match Follower::new(self, &from, events).await {
            Ok(follower) => follower.run(from.cursor).await,
            Err(error) => error,
        }
    }

    async fn read_history(
        &self,
        external: &str,
        since: i64,
        most: usize,
    ) -> Result<Vec<IncomingMessage>, PlatformError> {
        let place = Place::parse(external)?;
        let own = self.own().await?;
        let (client, own) = (&self.client, own.as_str());
        let found = match &place.root {
            None => timeline::newest(client, own, &place.room, since, most).await?,
            Some(root) => timeline::newest_of_thread(client, own, &place.room, root, since, most).await?,
        };
        let mut threads = threads::Threads::default();
        let mut messages = Vec::new();
        for event in found {
            let events::EventKind::Message(content) = event.kind else { continue };
            let root = content.root.clone();
            let mut message = incoming::message(&place.room, &event.id, &event.sender, event.at, content);
            if let Some(root) = root {
                message.thread = Some(threads.of(client, &place.room, &root).await?);
                message.external = place::thread(place.room.as_str(), &root);
            }
            messages.push(message);
        }
        Ok(messages)
    }
}

impl Platform for Matrix {
    fn identify(&self) -> Answer<'_, BotAccount> {
        Box::pin(async move {
            let own = self.own().await?;
            Ok(BotAccount { name: own.to_string(), id: own.into() })
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            repetition: Repetition::Key,
            file_bytes: self.file_bytes.load(Ordering::Relaxed),
            has_buttons: false,
            hears_reactions: true,
            typing_lasts: TYPING,
        }
    }

    fn connect<'a>(
        &'a self,
        from: Position,
        events: mpsc::Sender<PlatformEvent>,
    ) -> BoxFuture<'a, PlatformError> {
        Box::pin(self.follow(from, events))
    }

    fn fits(&self, author: &str, markdown: &str) -> bool {
        outgoing::fits(author, markdown)
    }

    fn send<'a>(&'a self, message: &'a OutgoingMessage<'a>) -> Answer<'a, String> {
        Box::pin(self.send_message(message))
    }

    fn find_sent<'a>(&'a self, _: &'a OutgoingMessage<'a>) -> Answer<'a, Option<String>> {
        // The homeserver recognises the key.
        Box::pin(async { Ok(None) })
    }

    fn edit<'a>(&'a self, message: &'a str, new: &'a OutgoingMessage<'a>) -> Answer<'a, ()> {
        Box::pin(self.edit_message(message, new))
    }

    fn delete<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, ()> {
        Box::pin(self.redact(external, message))
    }

    fn react<'a>(&'a self, external: &'a str, message: &'a str, emoji: &'a str) -> Answer<'a, ()> {
        Box::pin(self.add_reaction(external, message, emoji))
    }

    fn show_typing<'a>(&'a self, external: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let room = Place::parse(external)?.room;
            self.set_typing(&room, true).await?;
            self.typing.lock().unwrap_or_else(PoisonError::into_inner).insert(room, Instant::now());
            Ok(())
        })
    }

    fn answer_apart<'a>(&'a self, to: &'a IncomingMessage, markdown: &'a str) -> Answer<'a, ()> {
        Box::pin(self.answer_in_thread(to, markdown))
    }

    fn has_message<'a>(&'a self, external: &'a str, message: &'a str) -> Answer<'a, Option<bool>> {
        Box::pin(async move {
            let room = Place::parse(external)?.room;
            Ok(Some(rooms::event(&self.client, &room, message).await?.is_some()))
        })
    }

    fn find_channel<'a>(&'a self, name: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(async move { rooms::find(&self.client, self.own().await?.as_str(), name).await })
    }

    fn create_channel<'a>(&'a self, name: &'a str, topic: &'a str) -> Answer<'a, ExternalChannel> {
        Box::pin(rooms::create(&self.client, name, topic))
    }

    fn set_topic<'a>(&'a self, external: &'a str, topic: &'a str) -> Answer<'a, ()> {
        Box::pin(rooms::set_topic(&self.client, external, topic))
    }

    fn history<'a>(&'a self, external: &'a str, since: i64, most: usize) -> Answer<'a, Vec<IncomingMessage>> {
        Box::pin(self.read_history(external, since, most))
    }

    fn download<'a>(&'a self, file: &'a IncomingFile, most: usize) -> Answer<'a, Vec<u8>> {
        Box::pin(files::download(&self.client, &file.id, most))
    }
}
