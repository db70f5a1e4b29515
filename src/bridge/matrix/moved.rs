//! Rooms that were replaced by others, as by an upgrade to a newer version of rooms.

use ruma::api::client::membership::{join_room_by_id, join_room_by_id_or_alias, leave_room};
use ruma::events::StateEventType;
use ruma::{RoomId, ServerName};

use super::client::Client;
use super::failure::unless_refused;
use super::rooms;
use crate::bridge::platform::PlatformError;

/// The result of entering a room that replaces another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Successor {
    Entered,
    /// Flock's account is not let in.
    Closed,
    /// It does not say that it replaces the other room.
    Wrong,
}

/// Returns the room that replaces this one and the account that said so, if there is one.
pub(super) async fn replacement(
    client: &Client,
    room: &RoomId,
) -> Result<Option<(String, String)>, PlatformError> {
    match rooms::state_event(client, room, StateEventType::RoomTombstone).await {
        Ok(None) => Ok(None),
        Ok(Some(event)) => {
            let by = event["content"]["replacement_room"].as_str();
            Ok(by.zip(event["sender"].as_str()).map(|(by, sender)| (by.to_owned(), sender.to_owned())))
        }
        // Flock's account is no more in it.
        Err(PlatformError::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Joins the room `by`, which replaces `room` as the account `sender` says. `is_inside` is set if flock's account was in
/// it before: then it stays there in any case.
pub(super) async fn enter(
    client: &Client,
    room: &RoomId,
    by: &RoomId,
    sender: &str,
    is_inside: bool,
) -> Result<Successor, PlatformError> {
    let mut request = join_room_by_id_or_alias::v3::Request::new(by.to_owned().into());
    // The homeserver may not know the new room yet, but that of the sender does.
    let server = sender.split_once(':').and_then(|(_, server)| ServerName::parse(server).ok());
    request.via = server.into_iter().collect();
    match client.send(request).await.map_err(PlatformError::from) {
        Ok(_) => {}
        Err(PlatformError::Refused(why)) => {
            tracing::warn!(%room, %by, why, "a Matrix room was replaced by one that flock can't join; invite it there");
            return Ok(Successor::Closed);
        }
        Err(error) => return Err(error),
    }
    let created = unless_refused(rooms::state(client, by, StateEventType::RoomCreate).await)?;
    let created = created.flatten().unwrap_or_default();
    if created["predecessor"]["room_id"] == room.as_str() {
        return Ok(Successor::Entered);
    }
    tracing::warn!(%room, %by, "a Matrix room does not say that it replaces the linked one, so flock does not follow");
    if is_inside {
        return Ok(Successor::Wrong);
    }
    let left = client.send(leave_room::v3::Request::new(by.to_owned())).await;
    unless_refused(left.map_err(PlatformError::from)).map(|_| Successor::Wrong)
}

/// Joins a linked room again.
pub(super) async fn rejoin(client: &Client, room: &RoomId) -> Result<(), PlatformError> {
    let joined = client.send(join_room_by_id::v3::Request::new(room.to_owned())).await;
    unless_refused(joined.map_err(PlatformError::from)).map(drop)
}
