//! Limits the number of connections of a server. Anybody who can connect could hold all slots, so a connection that has
//! not shown a credential yet is closed when a new one needs its slot. The oldest is closed first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::sync::lock;

/// The connection slots of a server, as a pure state machine. `T` is the means to tell a connection that it must close.
#[derive(Debug)]
struct SlotTable<T> {
    limit: usize,
    next: u64,
    /// Connections without a credential so far, in the order in which they came.
    strangers: BTreeMap<u64, T>,
    known: BTreeSet<u64>,
}

impl<T> SlotTable<T> {
    const fn new(limit: usize) -> Self {
        Self { limit, next: 0, strangers: BTreeMap::new(), known: BTreeSet::new() }
    }

    /// Takes a slot. If all were taken, the second value is the connection that loses its slot. Returns `None` if all
    /// slots belong to connections that have shown a credential.
    fn enter(&mut self, tell: T) -> Option<(u64, Option<T>)> {
        let gone = if self.strangers.len() + self.known.len() < self.limit {
            None
        } else {
            // Numbers only grow, so the first entry of the map is the oldest connection.
            Some(self.strangers.pop_first()?.1)
        };
        let number = self.next;
        self.next += 1;
        self.strangers.insert(number, tell);
        Some((number, gone))
    }

    /// Marks a connection as known. Returns `false` if it has lost its slot already.
    fn know(&mut self, number: u64) -> bool {
        let is_stranger = self.strangers.remove(&number).is_some();
        if is_stranger {
            self.known.insert(number);
        }
        // A second call for a known connection changes nothing.
        is_stranger || self.known.contains(&number)
    }

    fn leave(&mut self, number: u64) {
        self.strangers.remove(&number);
        self.known.remove(&number);
    }
}

type SharedSlots = Arc<Mutex<SlotTable<CancellationToken>>>;

/// The entrance of a server, where each new connection asks for a slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlots(SharedSlots);

impl ConnectionSlots {
    /// Creates an entrance with this many slots.
    #[must_use]
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(SlotTable::new(limit))))
    }

    /// Takes a slot for a connection that closes when `end` is cancelled.
    ///
    /// If all slots are taken, the oldest connection that has shown no credential is closed. Returns `None` if every
    /// connection has shown one.
    #[must_use]
    pub(crate) fn enter(&self, end: CancellationToken) -> Option<Arc<ConnectionSlot>> {
        let (number, gone) = lock(&self.0).enter(end)?;
        if let Some(gone) = gone {
            gone.cancel();
        }
        Some(Arc::new(ConnectionSlot { number, places: self.0.clone() }))
    }
}

/// A connection slot, which the connection and its requests share. Dropping the last handle frees the slot.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    number: u64,
    places: SharedSlots,
}

impl ConnectionSlot {
    /// Records that a request of this connection had a credential, so the connection is never closed in favour of
    /// another. Returns `false` if it has lost its slot already. No work may begin for the request then.
    #[must_use]
    pub(crate) fn know(&self) -> bool {
        lock(&self.places).know(self.number)
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        lock(&self.places).leave(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unauthenticated_connection_is_evicted() {
        let mut places = SlotTable::new(3);
        assert_eq!(places.enter('a'), Some((0, None)));
        assert_eq!(places.enter('b'), Some((1, None)));
        assert_eq!(places.enter('c'), Some((2, None)));
        assert!(places.know(0));
        assert_eq!(places.enter('d'), Some((3, Some('b'))), "a is older and known");
        assert_eq!(places.enter('e'), Some((4, Some('c'))));
    }

    #[test]
    fn a_new_connection_is_refused_if_all_are_authenticated() {
        let mut places = SlotTable::new(2);
        for number in 0..2 {
            assert!(places.enter(()).is_some());
            assert!(places.know(number) && places.know(number));
        }
        assert_eq!(places.enter(()), None);
        places.leave(0);
        assert_eq!(places.enter(()), Some((2, None)));
    }

    #[test]
    fn an_evicted_connection_can_neither_authenticate_nor_free_a_slot() {
        let mut places = SlotTable::new(1);
        assert_eq!(places.enter('a'), Some((0, None)));
        assert_eq!(places.enter('b'), Some((1, Some('a'))));
        assert!(!places.know(0));
        places.leave(0);
        assert!(places.know(1));
        assert_eq!(places.enter('c'), None);
        assert_eq!(SlotTable::new(0).enter(()), None);
    }

    #[test]
    fn a_dropped_slot_is_free_again_and_an_evicted_one_is_cancelled() {
        let door = ConnectionSlots::new(1);
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let place = door.enter(first.clone()).unwrap();
        let other = door.enter(second.clone()).unwrap();
        assert!(first.is_cancelled() && !second.is_cancelled());
        assert!(!place.know() && other.know());
        assert!(door.enter(CancellationToken::new()).is_none());
        drop(place);
        assert!(door.enter(CancellationToken::new()).is_none(), "it had none to give back");
        drop(other);
        assert!(door.enter(CancellationToken::new()).is_some());
    }
}
