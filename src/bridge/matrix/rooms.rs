//! Rooms: finding, checking, creating and changing them.

use ruma::api::client::alias::get_alias;
use ruma::api::client::membership::{join_room_by_id, joined_members};
use ruma::api::client::room::{create_room, get_room_event};
use ruma::api::client::state::{get_state_event_for_key, send_state_event};
use ruma::events::StateEventType;
use ruma::serde::Raw;
use ruma::{OwnedRoomId, RoomAliasId, RoomId};
use serde_json::{Value, json};

use super::client::{Client, Version};
use super::failure::{Failure, if_found};
use super::place::{self, Place};
use super::{events, outgoing};
use crate::bridge::message::ExternalChannel;
use crate::bridge::platform::PlatformError;

/// Longest title of a thread, in characters.
const MAX_TITLE: usize = 80;
/// The power that everything needs for which a room says nothing.
const CHANGE_POWER: i64 = 50;

/// Reads a piece of a room's state. `None` if the room has none of that type.
pub(super) async fn state(
    client: &Client,
    room: &RoomId,
    kind: StateEventType,
) -> Result<Option<Value>, PlatformError> {
    let request = get_state_event_for_key::v3::Request::new(room.to_owned(), kind, String::new());
    if_found(client.json(request, Version::Old).await)
}

/// Reads an event of a room's state with its sender. `None` if the room has none of that type.
pub(super) async fn state_event(
    client: &Client,
    room: &RoomId,
    kind: StateEventType,
) -> Result<Option<Value>, PlatformError> {
    let mut request = get_state_event_for_key::v3::Request::new(room.to_owned(), kind, String::new());
    request.format = get_state_event_for_key::v3::StateEventFormat::Event;
    if_found(client.json(request, Version::Old).await)
}

pub(super) async fn is_encrypted(client: &Client, room: &RoomId) -> Result<bool, PlatformError> {
    Ok(state(client, room, StateEventType::RoomEncryption).await?.is_some())
}

/// Returns those who are in a room.
pub(super) async fn members(client: &Client, room: &RoomId) -> Result<Vec<String>, PlatformError> {
    let answer = client.json(joined_members::v3::Request::new(room.to_owned()), Version::Old).await?;
    Ok(answer["joined"].as_object().into_iter().flatten().map(|(account, _)| account.clone()).collect())
}

/// Reads an event. `None` if the room has none with this id, which may be no id at all, or the account may not see it.
pub(super) async fn event(client: &Client, room: &RoomId, id: &str) -> Result<Option<Value>, PlatformError> {
    let Ok(id) = place::event(id) else { return Ok(None) };
    let request = get_room_event::v3::Request::new(room.to_owned(), id);
    match client.json(request, Version::Old).await {
        Err(Failure { error: PlatformError::Refused(_), .. }) => Ok(None),
        answer => Ok(Some(answer?)),
    }
}

/// Returns the title of a thread, which is the beginning of its first message.
pub(super) fn title(root: &Value) -> String {
    let body = root["content"]["body"].as_str().unwrap_or_default();
    let line = body.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("thread");
    line.chars().filter(|c| !c.is_control()).take(MAX_TITLE).collect()
}

/// Finds a room, or a thread in it, joins it, and checks that `own` can read and write there.
pub(super) async fn find(client: &Client, own: &str, name: &str) -> Result<ExternalChannel, PlatformError> {
    let (room_name, root) = place::apart(name);
    let room = joined(client, room_name).await?;
    if is_encrypted(client, &room).await? {
        return Err(PlatformError::Refused(outgoing::encrypted(&room)));
    }
    can_write(client, own, &room).await?;
    let rules = state(client, &room, StateEventType::RoomJoinRules).await?;
    let is_public = rules.is_none_or(|rules| rules["join_rule"] == "public");
    let members = if is_public { None } else { Some(members(client, &room).await?) };
    let mut title = room_name.to_owned();
    if room_name.starts_with('!')
        && let Some(state) = state(client, &room, StateEventType::RoomName).await?
        && let Some(given) = state["name"].as_str().map(events::name).filter(|given| !given.is_empty())
    {
        title = given;
    }
    let Some(root) = root else {
        return Ok(ExternalChannel { id: room.into(), title, members });
    };
    let Some(message) = event(client, &room, root).await? else {
        return Err(PlatformError::Refused(format!("the room {room_name} has no message {root}")));
    };
    Ok(ExternalChannel { id: place::thread(room.as_str(), root), title: self::title(&message), members })
}

/// Joins a room by its alias or its id. Joining a room that was joined before changes nothing.
async fn joined(client: &Client, name: &str) -> Result<OwnedRoomId, PlatformError> {
    let room = match <&RoomAliasId>::try_from(name) {
        Ok(alias) => client.send(get_alias::v3::Request::new(alias.to_owned())).await?.room_id,
        Err(_) => RoomId::parse(name).map_err(|_| {
            PlatformError::Refused(format!("{name} is neither a room id (!…) nor an alias (#name:server)"))
        })?,
    };
    let lack = "flock's account is not in the room; invite it";
    let joined = client.send(join_room_by_id::v3::Request::new(room)).await;
    Ok(joined.map_err(|failure| failure.if_forbidden(lack))?.room_id)
}

async fn can_write(client: &Client, own: &str, room: &RoomId) -> Result<(), PlatformError> {
    let Some(levels) = state(client, room, StateEventType::RoomPowerLevels).await? else { return Ok(()) };
    let (has, needs) = (power(&levels, own), needed(&levels));
    if has >= needs {
        return Ok(());
    }
    // From version 12 of rooms on, whoever made one has any power, and is not listed.
    let created = state_event(client, room, StateEventType::RoomCreate).await?.unwrap_or_default();
    if has_any_power(&created, own) {
        return Ok(());
    }
    Err(PlatformError::Refused(format!(
        "flock's account may not write in the room {room}: its power level is {has}, and messages need {needs}; \
         change it in the room's settings (Roles & Permissions)"
    )))
}

/// Returns `true` for an account that made a room of a version in which this gives it any power.
fn has_any_power(created: &Value, account: &str) -> bool {
    let content = &created["content"];
    let version = content["room_version"].as_str().and_then(|version| version.parse::<u32>().ok());
    let more = content["additional_creators"].as_array().into_iter().flatten();
    version.is_some_and(|version| version >= 12)
        && (created["sender"] == account || more.into_iter().any(|creator| creator == account))
}

/// Returns the power of an account.
fn power(levels: &Value, account: &str) -> i64 {
    let own = levels["users"].get(account).and_then(level);
    own.or_else(|| level(&levels["users_default"])).unwrap_or_default()
}

/// Returns the power that a message needs.
fn needed(levels: &Value) -> i64 {
    let own = levels["events"].get("m.room.message").and_then(level);
    own.or_else(|| level(&levels["events_default"])).unwrap_or_default()
}

/// Reads a level. Old rooms have some as text.
fn level(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Creates a room that people are invited to.
pub(super) async fn create(
    client: &Client,
    name: &str,
    topic: &str,
) -> Result<ExternalChannel, PlatformError> {
    let mut request = create_room::v3::Request::new();
    request.name = Some(name.to_owned());
    request.topic = (!topic.is_empty()).then(|| topic.to_owned());
    // People are invited by whoever links the room. Nobody else finds it.
    request.preset = Some(create_room::v3::RoomPreset::PrivateChat);
    let room = client.send(request).await?.room_id;
    // Some homeservers encrypt each new room.
    if is_encrypted(client, &room).await? {
        return Err(PlatformError::Refused(outgoing::encrypted(&room)));
    }
    Ok(ExternalChannel { id: room.into(), title: name.to_owned(), members: Some(Vec::new()) })
}

/// Changes the topic of a room.
pub(super) async fn set_topic(client: &Client, external: &str, topic: &str) -> Result<(), PlatformError> {
    let place = Place::parse(external)?;
    if place.root.is_some() {
        return Err(PlatformError::Refused("a thread has no topic".to_owned()));
    }
    let content =
        Raw::new(&json!({"topic": topic})).map_err(|error| PlatformError::Refused(error.to_string()))?;
    let request = send_state_event::v3::Request::new_raw(
        place.room,
        StateEventType::RoomTopic,
        String::new(),
        content.cast_unchecked(),
    );
    let lack = format!(
        "flock's account may not change the topic: m.room.topic needs more power than it has, usually {CHANGE_POWER}; \
         change it in the room's settings (Roles & Permissions)"
    );
    client.send(request).await.map(drop).map_err(|failure| failure.if_forbidden(&lack))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_the_accounts_own_or_the_rooms() {
        let levels = json!({"users": {"@a:h": 100, "@b:h": "7"}, "users_default": 5, "events_default": 10,
                            "events": {"m.room.message": 20}});
        assert_eq!(["@a:h", "@b:h", "@c:h"].map(|account| power(&levels, account)), [100, 7, 5]);
        assert_eq!(needed(&levels), 20);
        assert_eq!(needed(&json!({"events_default": 10})), 10);
        assert_eq!((power(&json!({}), "@a:h"), needed(&json!([]))), (0, 0));
    }

    #[test]
    fn whoever_made_a_new_room_has_any_power() {
        let created = |version: &str| json!({"sender": "@a:h", "content": {"room_version": version, "additional_creators": ["@b:h"]}});
        assert!(["@a:h", "@b:h"].into_iter().all(|account| has_any_power(&created("12"), account)));
        assert!(!has_any_power(&created("12"), "@c:h"));
        assert!(!has_any_power(&created("11"), "@a:h") && !has_any_power(&json!({}), "@a:h"));
    }

    #[test]
    fn the_title_of_a_thread_is_the_beginning_of_its_first_message() {
        let titled = |body: Value| title(&json!({"content": {"body": body}}));
        assert_eq!(titled(json!("\n  a plan\nwith details")), "a plan");
        assert_eq!(titled(json!("x".repeat(500))).len(), MAX_TITLE);
        assert_eq!([titled(json!("")), titled(json!(7))], ["thread", "thread"]);
    }
}
