//! One turn of a session at a time: a line of waiting turns for each session, and a limit over all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::id::SessionKey;

/// Why a turn may not even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// Too many wait for this session.
    #[error("too many turns wait for this session")]
    Session,
    /// Too many wait in all.
    #[error("too many turns wait")]
    Gateway,
}

/// All lines.
#[derive(Debug)]
pub struct Queues {
    lines: Mutex<Lines>,
    turns: Arc<Semaphore>,
    per_session: usize,
    in_all: usize,
}

#[derive(Debug, Default)]
struct Lines {
    sessions: HashMap<SessionKey, Line>,
    places: usize,
}

#[derive(Debug)]
struct Line {
    turn: Arc<Semaphore>,
    places: usize,
}

/// A place in a session's line, given up when dropped.
#[derive(Debug)]
pub struct Place {
    queues: Arc<Queues>,
    session: SessionKey,
    turn: Arc<Semaphore>,
    is_nested: bool,
}

/// The right to run one turn of a session, given back when dropped.
#[derive(Debug)]
pub struct Permit {
    _turn: Option<OwnedSemaphorePermit>,
    _overall: Option<OwnedSemaphorePermit>,
    _place: Place,
}

impl Queues {
    /// At most `turns` at once, `per_session` waiting for one session, `in_all` waiting.
    #[must_use]
    pub fn new(turns: usize, per_session: usize, in_all: usize) -> Self {
        Self {
            lines: Mutex::default(),
            turns: Arc::new(Semaphore::new(turns)),
            per_session,
            in_all: in_all.saturating_add(turns),
        }
    }

    /// Takes the last place in a session's line. A `nested` turn is waited for by another one that holds a
    /// place among those that run; taking a second one could block all of them for ever.
    ///
    /// # Errors
    ///
    /// [`Full`] where too many wait already.
    pub fn enter(self: &Arc<Self>, session: &SessionKey, nested: bool) -> Result<Place, Full> {
        let mut lines = self.lines();
        if lines.places >= self.in_all {
            return Err(Full::Gateway);
        }
        let line = lines
            .sessions
            .entry(session.clone())
            .or_insert_with(|| Line { turn: Arc::new(Semaphore::new(1)), places: 0 });
        if line.places > self.per_session {
            return Err(Full::Session);
        }
        line.places += 1;
        let turn = line.turn.clone();
        lines.places += 1;
        Ok(Place { queues: self.clone(), session: session.clone(), turn, is_nested: nested })
    }

    /// How many turns run or wait.
    #[must_use]
    pub fn places(&self) -> usize {
        self.lines().places
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Waits for its turn.
    pub async fn wait(self) -> Permit {
        // Neither semaphore is ever closed, so there is always a permit to come.
        let turn = self.turn.clone().acquire_owned().await.ok();
        let overall =
            if self.is_nested { None } else { self.queues.turns.clone().acquire_owned().await.ok() };
        Permit { _turn: turn, _overall: overall, _place: self }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut lines = self.queues.lines();
        lines.places -= 1;
        if let Some(line) = lines.sessions.get_mut(&self.session) {
            line.places -= 1;
            if line.places == 0 {
                lines.sessions.remove(&self.session);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::SessionKind;
    use std::time::Duration;

    fn key(peer: &str) -> SessionKey {
        SessionKey::new(&"a".parse().unwrap(), SessionKind::Main, peer)
    }

    async fn is_blocked(place: Place) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.wait()).await.is_err()
    }

    #[tokio::test]
    async fn a_session_runs_one_turn_and_lets_few_wait() {
        let queues = Arc::new(Queues::new(4, 1, 8));
        let first = queues.enter(&key("x"), false).unwrap().wait().await;
        let second = queues.enter(&key("x"), false).unwrap();
        assert_eq!(queues.enter(&key("x"), false).unwrap_err(), Full::Session);
        let _other = queues.enter(&key("y"), false).unwrap().wait().await;
        drop(first);
        drop(second.wait().await);
        assert_eq!(queues.places(), 1);
        assert!(!queues.lines().sessions.contains_key(&key("x")), "an empty line is forgotten");
    }

    #[tokio::test]
    async fn turns_are_limited_over_all_sessions_but_nested_ones_go_on() {
        let queues = Arc::new(Queues::new(1, 8, 1));
        let _running = queues.enter(&key("x"), false).unwrap().wait().await;
        assert!(is_blocked(queues.enter(&key("y"), false).unwrap()).await);
        assert!(!is_blocked(queues.enter(&key("y"), true).unwrap()).await);
        let _waiting = queues.enter(&key("z"), false).unwrap();
        assert_eq!(queues.enter(&key("w"), false).unwrap_err(), Full::Gateway);
    }
}
