//! One turn of a session at a time: a line of waiting turns for each session, and a limit over all of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::id::SessionKey;
use crate::provider::BoxFuture;

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
pub struct Place {
    queues: Arc<Queues>,
    session: SessionKey,
    at: At,
    is_nested: bool,
}

/// Where in its line a place is.
enum At {
    /// At its front.
    Front(Option<OwnedSemaphorePermit>),
    /// Behind others. It stands in the line already, whoever is the first to wait.
    Behind(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
}

impl At {
    /// The last place of a line.
    fn end_of(line: Arc<Semaphore>) -> Self {
        // Without a task's budget, which could keep it from being put into the line at once. The line is never closed, so
        // there is always a permit to come.
        let turn = tokio::task::unconstrained(async move { line.acquire_owned().await.ok() });
        let mut turn: BoxFuture<'static, _> = Box::pin(turn);
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Self::Front(permit),
            Poll::Pending => Self::Behind(turn),
        }
    }
}

/// The right to run one turn of a session, given back when dropped.
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
        // Still under the lock: who enters first stands first.
        let at = At::end_of(line.turn.clone());
        lines.places += 1;
        Ok(Place { queues: self.clone(), session: session.clone(), at, is_nested: nested })
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
    pub async fn wait(mut self) -> Permit {
        let turn = match std::mem::replace(&mut self.at, At::Front(None)) {
            At::Front(permit) => permit,
            At::Behind(turn) => turn.await,
        };
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
        assert_eq!(queues.enter(&key("x"), false).err(), Some(Full::Session));
        let _other = queues.enter(&key("y"), false).unwrap().wait().await;
        drop(first);
        drop(second.wait().await);
        assert_eq!(queues.places(), 1);
        assert!(!queues.lines().sessions.contains_key(&key("x")), "an empty line is forgotten");
    }

    #[tokio::test]
    async fn who_enters_first_is_first_whoever_waits_first() {
        let queues = Arc::new(Queues::new(4, 100, 100));
        let running = queues.enter(&key("x"), false).unwrap().wait().await;
        let places: Vec<Place> = (0..50).map(|_| queues.enter(&key("x"), false).unwrap()).collect();
        let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
        for (number, place) in places.into_iter().enumerate().rev() {
            let sender = sender.clone();
            tokio::spawn(async move {
                let permit = place.wait().await;
                sender.send(number).unwrap();
                drop(permit);
            });
            tokio::task::yield_now().await;
        }
        drop((running, sender));
        let mut seen = Vec::new();
        while let Some(number) = order.recv().await {
            seen.push(number);
        }
        assert_eq!(seen, (0..50).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_place_that_is_given_up_holds_nobody_up() {
        let queues = Arc::new(Queues::new(4, 100, 100));
        let front = queues.enter(&key("x"), false).unwrap();
        let behind = queues.enter(&key("x"), false).unwrap();
        let last = queues.enter(&key("x"), false).unwrap();
        drop((front, behind));
        assert!(!is_blocked(last).await);
    }

    #[tokio::test]
    async fn turns_are_limited_over_all_sessions_but_nested_ones_go_on() {
        let queues = Arc::new(Queues::new(1, 8, 1));
        let _running = queues.enter(&key("x"), false).unwrap().wait().await;
        assert!(is_blocked(queues.enter(&key("y"), false).unwrap()).await);
        assert!(!is_blocked(queues.enter(&key("y"), true).unwrap()).await);
        let _waiting = queues.enter(&key("z"), false).unwrap();
        assert_eq!(queues.enter(&key("w"), false).err(), Some(Full::Gateway));
    }
}
