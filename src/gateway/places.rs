//! Who has a place where there are only so many connections. Whoever can connect can hold all of them, so one
//! that has shown no credential yet gives way to the next one, the oldest first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The places of a server. Pure: `T` is how a connection is told that it has to go.
#[derive(Debug)]
struct Places<T> {
    limit: usize,
    next: u64,
    /// Those that nobody knows, by their coming.
    strangers: BTreeMap<u64, T>,
    known: BTreeSet<u64>,
}

impl<T> Places<T> {
    const fn new(limit: usize) -> Self {
        Self { limit, next: 0, strangers: BTreeMap::new(), known: BTreeSet::new() }
    }

    /// A place, and the one who had it until now where all were taken. `None` where all are taken by known ones.
    fn enter(&mut self, tell: T) -> Option<(u64, Option<T>)> {
        let gone = if self.strangers.len() + self.known.len() < self.limit {
            None
        } else {
            Some(self.strangers.pop_first()?.1)
        };
        let number = self.next;
        self.next += 1;
        self.strangers.insert(number, tell);
        Some((number, gone))
    }

    /// Takes note that this one is known from now on. `false` where it has lost its place.
    fn know(&mut self, number: u64) -> bool {
        let is_stranger = self.strangers.remove(&number).is_some();
        if is_stranger {
            self.known.insert(number);
        }
        is_stranger || self.known.contains(&number)
    }

    fn leave(&mut self, number: u64) {
        self.strangers.remove(&number);
        self.known.remove(&number);
    }
}

type Shared = Arc<Mutex<Places<CancellationToken>>>;

fn lock(places: &Shared) -> MutexGuard<'_, Places<CancellationToken>> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The door of a server.
#[derive(Debug)]
pub struct Door(Shared);

impl Door {
    /// A door to this many places.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Mutex::new(Places::new(limit))))
    }

    /// A place for a connection that ends when `end` is cancelled. Where all are taken, the oldest that has
    /// shown no credential is ended; `None` where each of them has shown one.
    #[must_use]
    pub fn enter(&self, end: CancellationToken) -> Option<Place> {
        let (number, gone) = lock(&self.0).enter(end)?;
        if let Some(gone) = gone {
            gone.cancel();
        }
        Some(Place { number, places: self.0.clone() })
    }
}

/// A place that is held. Dropping it gives it back.
#[derive(Debug)]
pub struct Place {
    number: u64,
    places: Shared,
}

impl Place {
    /// What the requests of this connection carry.
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing { number: self.number, places: self.places.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.places).leave(self.number);
    }
}

/// How the connection of a request stands; goes with the request's extensions.
#[derive(Clone, Debug)]
pub struct Standing {
    number: u64,
    places: Shared,
}

impl Standing {
    /// Takes note that a request of this connection had a credential: it gives way to nobody from now on.
    /// `false` where it has given way already, so that nothing must be begun for it.
    #[must_use]
    pub fn know(&self) -> bool {
        lock(&self.places).know(self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_gives_way() {
        let mut places = Places::new(3);
        assert_eq!(places.enter('a'), Some((0, None)));
        assert_eq!(places.enter('b'), Some((1, None)));
        assert_eq!(places.enter('c'), Some((2, None)));
        assert!(places.know(0));
        assert_eq!(places.enter('d'), Some((3, Some('b'))), "a is older and known");
        assert_eq!(places.enter('e'), Some((4, Some('c'))));
    }

    #[test]
    fn who_is_known_stays_and_the_next_one_is_refused() {
        let mut places = Places::new(2);
        for number in 0..2 {
            assert!(places.enter(()).is_some());
            assert!(places.know(number) && places.know(number));
        }
        assert_eq!(places.enter(()), None);
        places.leave(0);
        assert_eq!(places.enter(()), Some((2, None)));
    }

    #[test]
    fn who_gave_way_is_not_known_later_and_leaves_nobody_elses_place() {
        let mut places = Places::new(1);
        assert_eq!(places.enter('a'), Some((0, None)));
        assert_eq!(places.enter('b'), Some((1, Some('a'))));
        assert!(!places.know(0));
        places.leave(0);
        assert!(places.know(1));
        assert_eq!(places.enter('c'), None);
        assert_eq!(Places::new(0).enter(()), None);
    }

    #[test]
    fn a_place_is_given_back_and_its_end_is_told() {
        let door = Door::new(1);
        let (first, second) = (CancellationToken::new(), CancellationToken::new());
        let place = door.enter(first.clone()).unwrap();
        let other = door.enter(second.clone()).unwrap();
        assert!(first.is_cancelled() && !second.is_cancelled());
        assert!(!place.standing().know() && other.standing().know());
        assert!(door.enter(CancellationToken::new()).is_none());
        drop(place);
        assert!(door.enter(CancellationToken::new()).is_none(), "it had none to give back");
        drop(other);
        assert!(door.enter(CancellationToken::new()).is_some());
    }
}
