//! Follows the account's stream of events.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ruma::api::client::filter::{Filter, FilterDefinition, RoomEventFilter, RoomFilter};
use ruma::api::client::sync::sync_events;
use ruma::{OwnedRoomId, OwnedUserId, RoomId};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Matrix;
use super::client::Version;
use super::direct::{DirectRooms, Invitation};
use super::events::{self, EventKind, RoomEvent, TYPES};
use super::failure::unless_refused;
use super::moved::{self, Successor};
use super::threads::Threads;
use super::timeline::{self, End};
use super::{content, files, incoming, place, rooms};
use crate::bridge::message::{BotAccount, PlatformEvent, Position};
use crate::bridge::platform::PlatformError;

/// Time that the homeserver holds a request for events while there are none.
const POLL: Duration = Duration::from_secs(30);

/// One connection.
pub(super) struct Follower<'a> {
    matrix: &'a Matrix,
    own: OwnedUserId,
    events: mpsc::Sender<PlatformEvent>,
    /// The linked rooms with the time in Unix milliseconds since which they are. Those that are linked later are not
    /// among them, but are seen.
    linked: BTreeMap<String, i64>,
    /// The rooms in which flock's account was while something happened there.
    seen: BTreeSet<String>,
    /// The rooms that flock's account entered for what was said in them before.
    entered: BTreeSet<String>,
    /// The rooms that replace others, where flock's account was not let in yet.
    awaited: BTreeMap<OwnedRoomId, OwnedRoomId>,
    direct: DirectRooms,
    threads: Threads,
}

impl<'a> Follower<'a> {
    /// Reads what a connection has to know before its first event.
    pub(super) async fn new(
        matrix: &'a Matrix,
        position: &Position,
        events: mpsc::Sender<PlatformEvent>,
    ) -> Result<Self, PlatformError> {
        let own = matrix.own().await?;
        if let Some(largest) = files::largest(&matrix.client).await? {
            matrix.limit_files(largest);
        }
        let mut linked = BTreeMap::new();
        for channel in &position.channels {
            let (room, _) = place::apart(&channel.external);
            let since = linked.entry(room.to_owned()).or_insert(channel.since);
            *since = channel.since.min(*since);
        }
        Ok(Self {
            direct: DirectRooms::load(&matrix.client, &own).await?,
            threads: Threads::new(position.channels.iter().map(|channel| channel.external.as_str())),
            matrix,
            own,
            events,
            linked,
            seen: BTreeSet::new(),
            entered: BTreeSet::new(),
            awaited: BTreeMap::new(),
        })
    }

    /// Follows the stream from a position on, or from now on, until the connection fails.
    pub(super) async fn run(mut self, cursor: Option<String>) -> PlatformError {
        match self.follow(cursor).await {
            Ok(()) => PlatformError::Unavailable("the homeserver ended the connection".to_owned()),
            Err(error) => error,
        }
    }

    async fn follow(&mut self, cursor: Option<String>) -> Result<(), PlatformError> {
        let account = BotAccount { name: self.own.to_string(), id: self.own.to_string() };
        let mut since = cursor;
        let mut is_first = true;
        loop {
            let answer = match self.poll(since.clone(), is_first).await {
                // The homeserver forgot the position, as after a restored backup. Everything since the links were made
                // is read anew, and the core recognises what was taken before.
                Err(PlatformError::Refused(why)) if is_first && since.is_some() => {
                    tracing::warn!(why, "a Matrix homeserver does not know its own position any more");
                    since = None;
                    continue;
                }
                answer => answer?,
            };
            self.report(PlatformEvent::Connected(account.clone())).await?;
            if is_first {
                self.catch_up_with_replaced_rooms().await?;
            }
            self.invited(&answer["rooms"]["invite"]).await?;
            for (room, update) in answer["rooms"]["join"].as_object().into_iter().flatten() {
                let Ok(room) = RoomId::parse(room) else { continue };
                self.seen.insert(room.to_string());
                self.room(&room, update, since.as_deref()).await?;
            }
            for (room, _) in answer["rooms"]["leave"].as_object().into_iter().flatten() {
                if self.was_linked(room) {
                    tracing::warn!(
                        ?room,
                        "flock's account is no more in a linked Matrix room; invite it again"
                    );
                }
            }
            let Some(next) = answer["next_batch"].as_str() else {
                return Err(PlatformError::Unavailable("the homeserver's answer has no position".to_owned()));
            };
            self.report(PlatformEvent::Cursor(next.to_owned())).await?;
            since = Some(next.to_owned());
            is_first = false;
        }
    }

    /// Asks for what happened since a position.
    async fn poll(&self, since: Option<String>, is_first: bool) -> Result<Value, PlatformError> {
        let mut request = sync_events::v3::Request::new();
        request.since = since;
        request.filter = Some(filter().into());
        // The first answer of a connection comes at once, so that the connection is known to stand.
        request.timeout = Some(if is_first { Duration::ZERO } else { POLL });
        Ok(self.matrix.client.json(request, Version::Old).await?)
    }

    async fn report(&self, event: PlatformEvent) -> Result<(), PlatformError> {
        let closed = |_| PlatformError::Unavailable("the gateway stops".to_owned());
        self.events.send(event).await.map_err(closed)
    }

    /// Takes what happened in a room, also what no longer fits into one answer.
    async fn room(
        &mut self,
        room: &RoomId,
        update: &Value,
        since: Option<&str>,
    ) -> Result<(), PlatformError> {
        let linked_at = self.linked.get(room.as_str()).copied();
        let (end, is_first) = match (since, linked_at) {
            (Some(since), _) => (End::Position(since), false),
            (None, Some(linked_at)) => (End::Time(linked_at), true),
            // Everything in the first answer is from before the bridge existed.
            (None, None) => return Ok(()),
        };
        let own = self.own.as_str();
        let timeline = &update["timeline"];
        let mut found = Vec::new();
        if timeline["limited"] == true
            && let Some(from) = timeline["prev_batch"].as_str()
        {
            let missed = timeline::missed(&self.matrix.client, own, room, Some(from.to_owned()), end).await;
            found = unless_refused(missed)?.unwrap_or_default();
        }
        let newest = timeline["events"].as_array().into_iter().flatten();
        found.extend(newest.filter_map(|event| events::read(event, own)));
        let keeps_older = self.entered.contains(room.as_str()) || self.direct.contains(room.as_str());
        for event in of_interest(found, is_first, linked_at, keeps_older) {
            self.event(room, event).await?;
        }
        Ok(())
    }

    async fn event(&mut self, room: &RoomId, event: RoomEvent) -> Result<(), PlatformError> {
        match event.kind {
            EventKind::Message(content) => {
                if event.sender == self.own {
                    return Ok(());
                }
                let is_direct = self.direct.is_direct(&self.matrix.client, room).await?;
                let mut message =
                    incoming::message(room, &event.id, &event.sender, event.at, content.clone());
                message.is_direct = is_direct;
                self.place(room, content.root.as_deref(), &mut message).await?;
                self.report(PlatformEvent::Message(message)).await
            }
            EventKind::Edit { of, content } => {
                if event.sender == self.own {
                    return Ok(());
                }
                // The homeserver does not look who edits. Anybody could put words into the mouth of another one.
                let old = rooms::event(&self.matrix.client, room, &of).await?;
                let Some(old) = old.filter(|old| old["sender"] == event.sender.as_str()) else {
                    return Ok(());
                };
                let root = events::read(&old, self.own.as_str()).and_then(|old| match old.kind {
                    EventKind::Message(content) => content.root,
                    _ => None,
                });
                let mut message = incoming::message(room, &of, &event.sender, event.at, content);
                message.is_direct = self.direct.is_direct(&self.matrix.client, room).await?;
                self.place(room, root.as_deref(), &mut message).await?;
                self.report(PlatformEvent::Edited(message)).await
            }
            EventKind::Reaction { to, emoji } if event.sender != self.own => {
                let reacted =
                    incoming::message(room, &event.id, &event.sender, event.at, content::Content::default());
                for external in self.threads.places_of(&to, room.as_str()) {
                    let (message, sender, emoji) = (to.clone(), reacted.sender.clone(), emoji.clone());
                    self.report(PlatformEvent::Reacted { external, message, sender, emoji }).await?;
                }
                Ok(())
            }
            EventKind::Reaction { .. } => Ok(()),
            EventKind::Redaction(message) if event.sender != self.own => {
                for external in self.threads.places_of(&message, room.as_str()) {
                    self.report(PlatformEvent::Deleted { external, message: message.clone() }).await?;
                }
                Ok(())
            }
            EventKind::Redaction(_) => Ok(()),
            EventKind::Name(title) => {
                let external = room.to_string();
                self.report(PlatformEvent::Renamed { external, title }).await
            }
            EventKind::Replaced(by) => self.replaced(room, &by, &event.sender).await,
            EventKind::Encrypted => {
                self.matrix.note_encrypted(room);
                Ok(())
            }
            EventKind::Joined | EventKind::Member => {
                self.direct.forget_members(room.as_str());
                Ok(())
            }
        }
    }

    /// Sets the thread of a message.
    async fn place(
        &mut self,
        room: &RoomId,
        root: Option<&str>,
        message: &mut crate::bridge::message::IncomingMessage,
    ) -> Result<(), PlatformError> {
        let Some(root) = root else { return Ok(()) };
        message.thread = Some(self.threads.of(&self.matrix.client, room, root).await?);
        message.external = place::thread(room.as_str(), root);
        self.threads.note(&message.id, &message.external);
        Ok(())
    }

    /// Takes the invitations. The rooms of links are joined when they are linked, so other invitations wait there.
    async fn invited(&mut self, invitations: &Value) -> Result<(), PlatformError> {
        for (id, update) in invitations.as_object().into_iter().flatten() {
            let Ok(room) = RoomId::parse(id) else { continue };
            let Some(invitation) = Invitation::read(update, self.own.as_str()) else { continue };
            if let Some(old) = self.awaited.get(&room).cloned() {
                self.replaced(&old, id, &invitation.from).await?;
            } else if self.was_linked(id) {
                moved::rejoin(&self.matrix.client, &room).await?;
            } else if invitation.is_direct {
                self.direct.answer(&self.matrix.client, &room, &invitation).await?;
            } else {
                tracing::info!(?room, "somebody invites flock to a Matrix room; link it to join");
            }
        }
        Ok(())
    }

    /// Returns `true` for a room that somebody here linked. Flock's account is in no others but direct ones.
    fn was_linked(&self, room: &str) -> bool {
        (self.linked.contains_key(room) || self.seen.contains(room)) && !self.direct.contains(room)
    }

    /// Looks which of the linked rooms were replaced. It may have happened before the bridge had a position, or
    /// without a way into the new room.
    async fn catch_up_with_replaced_rooms(&mut self) -> Result<(), PlatformError> {
        let linked: Vec<_> = self.linked.keys().filter_map(|room| RoomId::parse(room).ok()).collect();
        for room in linked {
            if let Some((by, sender)) = moved::replacement(&self.matrix.client, &room).await? {
                self.replaced(&room, &by, &sender).await?;
            }
        }
        Ok(())
    }

    /// Follows a room into the one that replaces it.
    async fn replaced(&mut self, room: &RoomId, by: &str, sender: &str) -> Result<(), PlatformError> {
        // Whoever talks to flock directly must not lead it anywhere. All other rooms were linked by somebody here.
        if self.direct.contains(room.as_str()) {
            return Ok(());
        }
        let Ok(by) = RoomId::parse(by) else { return Ok(()) };
        let is_inside = self.was_linked(by.as_str()) || self.direct.contains(by.as_str());
        match moved::enter(&self.matrix.client, room, &by, sender, is_inside).await? {
            Successor::Entered => {
                self.awaited.remove(&by);
                self.entered.insert(by.to_string());
                if let Some(since) = self.linked.get(room.as_str()).copied() {
                    self.linked.insert(by.to_string(), since);
                }
                self.report(PlatformEvent::Moved { from: room.to_string(), to: by.to_string() }).await
            }
            Successor::Closed => {
                self.awaited.insert(by, room.to_owned());
                Ok(())
            }
            Successor::Wrong => Ok(()),
        }
    }
}

/// Returns the events that are to be taken, of those that were found.
fn of_interest(
    mut found: Vec<RoomEvent>,
    is_first: bool,
    linked_at: Option<i64>,
    keeps_older: bool,
) -> Vec<RoomEvent> {
    // What was said before flock's account came was not said to it. The homeserver shows it nevertheless.
    let joined = found.iter().rposition(|event| event.kind == EventKind::Joined);
    if keeps_older {
        return found;
    }
    if (is_first || joined.is_some())
        && let Some(since) = linked_at
    {
        found.retain(|event| event.at >= since);
    } else if let Some(at) = joined {
        found.drain(..at);
    }
    found
}

/// Asks for the events of rooms alone: no presence, receipts, or data of the account.
fn filter() -> FilterDefinition {
    let mut rooms = RoomFilter::default();
    rooms.timeline.types = Some(TYPES.map(str::to_owned).to_vec());
    rooms.timeline.limit = Some(100_u32.into());
    rooms.state = RoomEventFilter::ignore_all();
    rooms.ephemeral = RoomEventFilter::ignore_all();
    rooms.account_data = RoomEventFilter::ignore_all();
    let mut filter = FilterDefinition::default();
    filter.room = rooms;
    filter.presence = Filter::ignore_all();
    filter.account_data = Filter::ignore_all();
    filter
}

#[cfg(test)]
mod tests {
    use super::super::content::Content;
    use super::*;

    fn event(id: &str, at: i64, kind: EventKind) -> RoomEvent {
        RoomEvent { id: id.to_owned(), sender: "@a:h".to_owned(), at, kind }
    }

    fn found() -> Vec<RoomEvent> {
        let message = || EventKind::Message(Content::default());
        vec![event("$1", 1, message()), event("$2", 2, EventKind::Joined), event("$3", 3, message())]
    }

    fn ids(found: &[RoomEvent]) -> Vec<&str> {
        found.iter().map(|event| event.id.as_str()).collect()
    }

    #[test]
    fn messages_from_before_the_account_joined_are_left_out() {
        assert_eq!(ids(&of_interest(found(), false, None, false)), ["$2", "$3"]);
        let without_join: Vec<_> = found().into_iter().filter(|event| event.id != "$2").collect();
        assert_eq!(ids(&of_interest(without_join, false, None, false)), ["$1", "$3"]);
    }

    #[test]
    fn direct_rooms_and_replaced_ones_keep_what_was_said_before() {
        assert_eq!(ids(&of_interest(found(), false, None, true)), ["$1", "$2", "$3"]);
    }

    #[test]
    fn a_linked_room_has_what_was_said_since_it_was_linked() {
        assert_eq!(ids(&of_interest(found(), true, Some(3), false)), ["$3"]);
        assert_eq!(ids(&of_interest(found(), false, Some(1), false)), ["$1", "$2", "$3"]);
        // A clock that goes wrong does not matter at any other time.
        let late = vec![event("$4", 0, EventKind::Message(Content::default()))];
        assert_eq!(ids(&of_interest(late, false, Some(9), false)), ["$4"]);
    }
}
