//! Direct rooms: those in which a person and flock's account are alone.
//!
//! Whoever invites flock's account to one is not known before a message, so flock joins, up to a limit. The rooms are
//! listed in the account's data under `m.direct`, where other programs of the account find them too.

use std::collections::BTreeMap;

use ruma::api::client::config::{get_global_account_data, set_global_account_data};
use ruma::api::client::membership::{join_room_by_id, joined_rooms, leave_room};
use ruma::events::GlobalAccountDataEventType;
use ruma::serde::Raw;
use ruma::{OwnedUserId, RoomId, UserId};
use serde_json::{Value, json};

use super::client::{Client, Version};
use super::failure::{if_found, unless_refused};
use super::rooms;
use crate::bridge::platform::PlatformError;

/// Largest number of direct rooms.
const MOST: usize = 50;
/// Largest number of direct rooms with one person.
const MOST_OF_ONE: usize = 3;

/// An invitation to a room.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Invitation {
    pub(super) from: String,
    pub(super) is_direct: bool,
    pub(super) is_encrypted: bool,
}

impl Invitation {
    /// Reads the state that comes with an invitation of `own`.
    pub(super) fn read(update: &Value, own: &str) -> Option<Self> {
        let events = update["invite_state"]["events"].as_array()?;
        let mut own_events =
            events.iter().filter(|event| event["type"] == "m.room.member" && event["state_key"] == own);
        let invitation = own_events.find(|event| event["content"]["membership"] == "invite")?;
        Some(Self {
            from: invitation["sender"].as_str()?.to_owned(),
            is_direct: invitation["content"]["is_direct"] == true,
            is_encrypted: events.iter().any(|event| event["type"] == "m.room.encryption"),
        })
    }
}

/// The direct rooms of an account.
pub(super) struct DirectRooms {
    own: OwnedUserId,
    /// The rooms by the person who invited flock's account.
    rooms: BTreeMap<String, Vec<String>>,
    /// Set for a room in which a person is alone with flock's account, as far as it was asked.
    alone: BTreeMap<String, bool>,
}

impl DirectRooms {
    /// Reads the list of direct rooms.
    pub(super) async fn load(client: &Client, own: &UserId) -> Result<Self, PlatformError> {
        let kind = GlobalAccountDataEventType::Direct;
        let request = get_global_account_data::v3::Request::new(own.to_owned(), kind);
        let listed = if_found(client.json(request, Version::Old).await);
        let listed = unless_refused(listed)?.flatten().unwrap_or_default();
        Ok(Self { own: own.to_owned(), rooms: listed_rooms(&listed), alone: BTreeMap::new() })
    }

    pub(super) fn contains(&self, room: &str) -> bool {
        self.rooms.values().flatten().any(|known| known == room)
    }

    /// Forgets who is in a room, after somebody came or went.
    pub(super) fn forget_members(&mut self, room: &str) {
        self.alone.remove(room);
    }

    /// Returns `true` if the room is a direct one and nobody else joined it.
    pub(super) async fn is_direct(&mut self, client: &Client, room: &RoomId) -> Result<bool, PlatformError> {
        if !self.contains(room.as_str()) {
            return Ok(false);
        }
        if let Some(known) = self.alone.get(room.as_str()) {
            return Ok(*known);
        }
        let members = unless_refused(rooms::members(client, room).await)?;
        let is_alone = members.is_some_and(|members| members.len() == 2);
        self.alone.insert(room.to_string(), is_alone);
        Ok(is_alone)
    }

    /// Accepts an invitation to a direct room, or declines it and says why. Returns `true` if the room was joined.
    pub(super) async fn answer(
        &mut self,
        client: &Client,
        room: &RoomId,
        invitation: &Invitation,
    ) -> Result<bool, PlatformError> {
        if invitation.is_encrypted {
            decline(client, room, "flock can't read encrypted rooms. Please make one without encryption.")
                .await?;
            return Ok(false);
        }
        if !self.has_space(&invitation.from) {
            self.prune(client).await?;
        }
        if !self.has_space(&invitation.from) {
            tracing::warn!(?room, from = ?invitation.from, "there are too many direct rooms in Matrix");
            decline(client, room, "This account has too many direct rooms.").await?;
            return Ok(false);
        }
        // The list is stored first: a room that is listed and not joined does no harm.
        self.rooms.entry(invitation.from.clone()).or_default().push(room.to_string());
        unless_refused(self.store(client).await)?;
        let joined = client.send(join_room_by_id::v3::Request::new(room.to_owned())).await;
        if unless_refused(joined.map_err(PlatformError::from))?.is_none() {
            return Ok(false);
        }
        // The invitation may not have said it.
        if unless_refused(rooms::is_encrypted(client, room).await)? == Some(true) {
            decline(client, room, "flock can't read encrypted rooms. Please make one without encryption.")
                .await?;
            return Ok(false);
        }
        Ok(true)
    }

    fn has_space(&self, from: &str) -> bool {
        let of_one = self.rooms.get(from).map_or(0, Vec::len);
        of_one < MOST_OF_ONE && self.rooms.values().map(Vec::len).sum::<usize>() < MOST
    }

    /// Removes the rooms from the list in which flock's account is no more.
    async fn prune(&mut self, client: &Client) -> Result<(), PlatformError> {
        let answer = client.json(joined_rooms::v3::Request::new(), Version::Old).await;
        let Some(answer) = unless_refused(answer.map_err(PlatformError::from))? else { return Ok(()) };
        let joined = answer["joined_rooms"].as_array().map(Vec::as_slice).unwrap_or_default();
        for rooms in self.rooms.values_mut() {
            rooms.retain(|room| joined.iter().any(|known| known == room));
        }
        self.rooms.retain(|_, rooms| !rooms.is_empty());
        Ok(())
    }

    async fn store(&self, client: &Client) -> Result<(), PlatformError> {
        let data = Raw::new(&json!(self.rooms)).map_err(|error| PlatformError::Refused(error.to_string()))?;
        let kind = GlobalAccountDataEventType::Direct;
        let own = self.own.clone();
        let request = set_global_account_data::v3::Request::new_raw(own, kind, data.cast_unchecked());
        client.send(request).await?;
        Ok(())
    }
}

/// Reads the content of `m.direct`.
fn listed_rooms(listed: &Value) -> BTreeMap<String, Vec<String>> {
    let rooms = |rooms: &Value| {
        let rooms = rooms.as_array().into_iter().flatten().filter_map(Value::as_str);
        rooms.map(str::to_owned).collect::<Vec<_>>()
    };
    listed
        .as_object()
        .into_iter()
        .flatten()
        .map(|(account, listed)| (account.clone(), rooms(listed)))
        .collect()
}

/// Declines an invitation, or leaves a room.
async fn decline(client: &Client, room: &RoomId, why: &str) -> Result<(), PlatformError> {
    let mut request = leave_room::v3::Request::new(room.to_owned());
    request.reason = Some(why.to_owned());
    tracing::info!(?room, why, "left a direct room in Matrix");
    // It is refused if the invitation was taken back meanwhile.
    unless_refused(client.send(request).await.map_err(PlatformError::from)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direct(listed: &Value) -> DirectRooms {
        let own = UserId::parse("@flock:h").unwrap();
        DirectRooms { own, rooms: listed_rooms(listed), alone: BTreeMap::new() }
    }

    #[test]
    fn an_invitation_says_from_whom_it_is_and_if_the_room_is_a_direct_one() {
        let invite = |content: Value, more: &[Value]| {
            let own = json!({"type": "m.room.member", "state_key": "@flock:h", "sender": "@a:h", "content": content});
            let events: Vec<_> = more.iter().cloned().chain([own]).collect();
            Invitation::read(&json!({"invite_state": {"events": events}}), "@flock:h")
        };
        let direct = invite(json!({"membership": "invite", "is_direct": true}), &[]).unwrap();
        assert_eq!((direct.from.as_str(), direct.is_direct, direct.is_encrypted), ("@a:h", true, false));
        let encrypted = json!({"type": "m.room.encryption", "content": {}});
        let room = invite(json!({"membership": "invite"}), &[json!(5), encrypted]).unwrap();
        assert_eq!((room.is_direct, room.is_encrypted), (false, true));
        assert_eq!(invite(json!({"membership": "join"}), &[]), None);
        assert_eq!(Invitation::read(&json!({"invite_state": 1}), "@flock:h"), None);
    }

    #[test]
    fn the_list_of_direct_rooms_is_bounded_for_one_and_for_all() {
        let few = direct(&json!({"@a:h": ["!1:h", "!2:h", "!3:h"], "@b:h": "odd"}));
        assert!(few.contains("!2:h") && !few.contains("!4:h"));
        assert!(!few.has_space("@a:h") && few.has_space("@b:h") && few.has_space("@c:h"));
        let many: BTreeMap<_, _> = (0..MOST).map(|n| (format!("@{n}:h"), [format!("!{n}:h")])).collect();
        assert!(!direct(&json!(many)).has_space("@new:h"));
        assert!(direct(&json!(["odd"])).has_space("@new:h"));
    }
}
