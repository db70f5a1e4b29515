//! Sends messages, and changes those that were sent.

use ruma::api::client::message::send_message_event;
use ruma::api::client::redact::redact_event;
use ruma::events::MessageLikeEventType;
use ruma::serde::Raw;
use ruma::{OwnedTransactionId, RoomId};
use serde_json::Value;

use super::failure::{Failure, Reason};
use super::outgoing::{self, Bodies};
use super::place::{self, Place};
use super::{Matrix, files};
use crate::bridge::message::{IncomingMessage, OutgoingMessage};
use crate::bridge::platform::PlatformError;

impl Matrix {
    /// Sends a message and its files, and returns the id of the first event.
    pub(super) async fn send_message(&self, message: &OutgoingMessage<'_>) -> Result<String, PlatformError> {
        let place = Place::parse(message.external)?;
        self.check_unencrypted(&place.room).await?;
        // The files are uploaded first, so that one that is refused does not leave half of a message. Another attempt
        // uploads them again, and shows them once: the keys of the events are the same.
        let mut addresses = Vec::new();
        for file in message.files {
            addresses.push(files::upload(&self.client, file).await?);
        }
        let mut contents = Vec::new();
        if !message.markdown.is_empty() || message.files.is_empty() {
            let bodies = Bodies::new(message.author, message.markdown, message.mentions);
            contents.push((message.key.to_owned(), bodies.content()));
        }
        for (number, (file, address)) in message.files.iter().zip(&addresses).enumerate() {
            contents.push((format!("{}-file-{number}", message.key), files::content(file, address)));
        }
        let mut first = None;
        for (key, mut content) in contents {
            // What it answers is said by the first event alone.
            let answered = message.reply_to.filter(|_| first.is_none());
            outgoing::relate(&mut content, &place, answered);
            let event =
                self.send_event(&place.room, MessageLikeEventType::RoomMessage, &key, &content).await?;
            first.get_or_insert(event);
        }
        self.stop_typing(&place.room).await;
        first.ok_or_else(|| PlatformError::Refused("there is nothing to send".to_owned()))
    }

    pub(super) async fn edit_message(
        &self,
        message: &str,
        new: &OutgoingMessage<'_>,
    ) -> Result<(), PlatformError> {
        let place = Place::parse(new.external)?;
        self.check_unencrypted(&place.room).await?;
        let content = Bodies::new(new.author, new.markdown, new.mentions).edit(message);
        self.send_event(&place.room, MessageLikeEventType::RoomMessage, new.key, &content).await?;
        Ok(())
    }

    pub(super) async fn redact(&self, external: &str, message: &str) -> Result<(), PlatformError> {
        let room = Place::parse(external)?.room;
        let key = OwnedTransactionId::from(format!("flock-delete-{message}"));
        match self.client.send(redact_event::v3::Request::new(room, place::event(message)?, key)).await {
            // It is gone already.
            Ok(_) | Err(Failure { reason: Reason::Missing, .. }) => Ok(()),
            Err(failure) => Err(failure.error),
        }
    }

    pub(super) async fn add_reaction(
        &self,
        external: &str,
        message: &str,
        emoji: &str,
    ) -> Result<(), PlatformError> {
        let room = Place::parse(external)?.room;
        let content = outgoing::reaction(message, emoji);
        let key = format!("flock-react-{message}-{emoji}");
        match self.post_event(&room, MessageLikeEventType::Reaction, &key, &content).await {
            Ok(_) | Err(Failure { reason: Reason::Duplicate, .. }) => Ok(()),
            Err(failure) => Err(failure.error),
        }
    }

    /// Answers a message in the thread that begins with it, or in the one that it is in.
    pub(super) async fn answer_in_thread(
        &self,
        to: &IncomingMessage,
        markdown: &str,
    ) -> Result<(), PlatformError> {
        let mut place = Place::parse(&to.external)?;
        self.check_unencrypted(&place.room).await?;
        if place.root.is_none() {
            place.root = Some(place::event(&to.id)?);
        }
        let mut content = Bodies::new("", markdown, &[]).content();
        outgoing::relate(&mut content, &place, Some(&to.id));
        let key = format!("flock-apart-{}", uuid::Uuid::now_v7());
        self.send_event(&place.room, MessageLikeEventType::RoomMessage, &key, &content).await?;
        Ok(())
    }

    async fn send_event(
        &self,
        room: &RoomId,
        kind: MessageLikeEventType,
        key: &str,
        content: &Value,
    ) -> Result<String, PlatformError> {
        let lack = "flock's account may not write in the room, or is not in it; invite it, or change its power level in \
                    the room's settings (Roles & Permissions)";
        self.post_event(room, kind, key, content).await.map_err(|failure| failure.if_forbidden(lack))
    }

    async fn post_event(
        &self,
        room: &RoomId,
        kind: MessageLikeEventType,
        key: &str,
        content: &Value,
    ) -> Result<String, Failure> {
        let raw = Raw::new(content).map_err(|error| PlatformError::Refused(error.to_string()))?;
        let key = OwnedTransactionId::from(key);
        let request =
            send_message_event::v3::Request::new_raw(room.to_owned(), key, kind, raw.cast_unchecked());
        Ok(self.client.send(request).await?.event_id.into())
    }
}
