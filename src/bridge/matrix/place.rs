//! The places in which people talk: rooms, and threads in rooms.

use ruma::{EventId, OwnedEventId, OwnedRoomId, RoomId};

use crate::bridge::platform::PlatformError;

/// A room, or a thread in it. The id of a thread is that of its room, `/`, and that of its first message, as in
/// `!room:server/$event`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) room: OwnedRoomId,
    /// The first message of the thread.
    pub(super) root: Option<OwnedEventId>,
}

impl Place {
    /// Reads the id of a place.
    pub(super) fn parse(id: &str) -> Result<Self, PlatformError> {
        let (room, root) = apart(id);
        let refused = |error: &dyn std::error::Error| PlatformError::Refused(format!("{id}: {error}"));
        Ok(Self {
            room: RoomId::parse(room).map_err(|error| refused(&error))?,
            root: root.map(EventId::parse).transpose().map_err(|error| refused(&error))?,
        })
    }
}

/// Parts an id, or the name of a room with a thread after it.
pub(super) fn apart(id: &str) -> (&str, Option<&str>) {
    // The id of an event begins with `$`, and no id has a `/` before one.
    match id.split_once("/$") {
        Some((room, _)) => (room, Some(&id[room.len() + 1..])),
        None => (id, None),
    }
}

/// Returns the id of a thread.
pub(super) fn thread(room: &str, root: &str) -> String {
    format!("{room}/{root}")
}

pub(super) fn event(id: &str) -> Result<OwnedEventId, PlatformError> {
    EventId::parse(id).map_err(|error| PlatformError::Refused(format!("{id}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_named_by_its_room_and_its_first_message() {
        let place = Place::parse("!r:h/$e").unwrap();
        assert_eq!((place.room.as_str(), place.root.as_deref().map(EventId::as_str)), ("!r:h", Some("$e")));
        assert_eq!(thread("!r:h", "$e"), "!r:h/$e");
        assert_eq!(Place::parse("!r:h").unwrap().root, None);
        // From version 12 of rooms on, ids have no server.
        assert_eq!(Place::parse("!abc_-1/$x_y").unwrap().room, "!abc_-1");
        assert_eq!(apart("#room:h/$e"), ("#room:h", Some("$e")));
        for wrong in ["", "room", "#room:h", "$e", "/$e"] {
            assert!(Place::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
