//! The threads of rooms, as far as a connection knows them.

use std::collections::{BTreeMap, VecDeque};

use ruma::RoomId;

use super::client::Client;
use super::{place, rooms};
use crate::bridge::message::Thread;
use crate::bridge::platform::PlatformError;

/// Largest number of titles that are kept.
const MAX_TITLES: usize = 500;
/// Largest number of messages whose thread is kept.
const MAX_MESSAGES: usize = 4_096;

#[derive(Default)]
pub(super) struct Threads {
    /// The threads that are linked, by their room.
    linked: BTreeMap<String, Vec<String>>,
    titles: BTreeMap<String, String>,
    /// The newest messages of threads, with the id of the thread.
    messages: VecDeque<(String, String)>,
}

impl Threads {
    /// Begins with the ids of the linked channels, of which some are threads.
    pub(super) fn new<'l>(linked: impl Iterator<Item = &'l str>) -> Self {
        let mut threads = Self::default();
        for id in linked {
            if let (room, Some(_)) = place::apart(id) {
                threads.linked.entry(room.to_owned()).or_default().push(id.to_owned());
            }
        }
        threads
    }

    /// Returns the thread of a message, after the title was read.
    pub(super) async fn of(
        &mut self,
        client: &Client,
        room: &RoomId,
        root: &str,
    ) -> Result<Thread, PlatformError> {
        let id = place::thread(room.as_str(), root);
        let title = match self.titles.get(&id) {
            Some(title) => title.clone(),
            None => rooms::title(&rooms::event(client, room, root).await?.unwrap_or_default()),
        };
        if self.titles.len() == MAX_TITLES {
            self.titles.clear();
        }
        self.titles.insert(id, title.clone());
        Ok(Thread { channel: room.to_string(), title })
    }

    /// Notes that a message is in a thread.
    pub(super) fn note(&mut self, message: &str, thread: &str) {
        if self.messages.len() == MAX_MESSAGES {
            self.messages.pop_front();
        }
        self.messages.push_back((message.to_owned(), thread.to_owned()));
    }

    /// Returns the places in which a message may have been that was deleted: nothing in the room says it any more.
    pub(super) fn places_of(&self, message: &str, room: &str) -> Vec<String> {
        if let Some((_, thread)) = self.messages.iter().rev().find(|(known, _)| known == message) {
            // A thread that is not linked belongs to its room.
            return vec![thread.clone(), room.to_owned()];
        }
        let linked = self.linked.get(room).into_iter().flatten().cloned();
        std::iter::once(room.to_owned()).chain(linked).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_message_was_in_its_thread_or_anywhere_in_the_room() {
        let mut threads = Threads::new(["!r:h", "!r:h/$0", "!other:h/$9"].into_iter());
        assert_eq!(threads.places_of("$1", "!r:h"), ["!r:h", "!r:h/$0"]);
        threads.note("$1", "!r:h/$5");
        assert_eq!(threads.places_of("$1", "!r:h"), ["!r:h/$5", "!r:h"]);
        for n in 0..=MAX_MESSAGES {
            threads.note(&format!("$x{n}"), "!r:h/$0");
        }
        assert_eq!(threads.messages.len(), MAX_MESSAGES);
        assert_eq!(threads.places_of("$1", "!r:h"), ["!r:h", "!r:h/$0"]);
    }
}
