//! Lets each session run one turn at a time. Each session has a queue of waiting turns, and there is a limit over all
//! sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::id::SessionKey;
use crate::provider::BoxFuture;
use crate::sync::lock;

/// The reason why a turn may not even wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueFull {
    /// Too many turns wait for this session.
    #[error("too many turns wait for this session")]
    Session,
    /// Too many turns wait in total.
    #[error("too many turns wait")]
    Gateway,
}

/// The queues of all sessions.
#[derive(Debug)]
pub(crate) struct SessionQueues {
    lines: Mutex<QueueTable>,
    turns: Arc<Semaphore>,
    per_session: usize,
    in_all: usize,
}

#[derive(Debug, Default)]
struct QueueTable {
    sessions: HashMap<SessionKey, SessionQueue>,
    places: usize,
}

#[derive(Debug)]
struct SessionQueue {
    turn: Arc<Semaphore>,
    places: usize,
}

/// A place in a session's queue. Dropping it gives the place up.
pub(crate) struct QueueSlot {
    queues: Arc<SessionQueues>,
    session: SessionKey,
    at: Position,
    is_nested: bool,
}

/// The position of a place in its queue.
enum Position {
    /// The front of the queue.
    Front(Option<OwnedSemaphorePermit>),
    /// Behind others. The future is queued in the semaphore already, so the order does not depend on who polls first.
    Behind(BoxFuture<'static, Option<OwnedSemaphorePermit>>),
}

impl Position {
    /// Takes the last place of a queue.
    fn end_of(line: Arc<Semaphore>) -> Self {
        // `unconstrained` turns off tokio's task budget, which could keep the first poll from queueing the future. The
        // semaphore is never closed, so a permit always comes in the end.
        let turn = tokio::task::unconstrained(async move { line.acquire_owned().await.ok() });
        let mut turn: BoxFuture<'static, _> = Box::pin(turn);
        match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(permit) => Self::Front(permit),
            Poll::Pending => Self::Behind(turn),
        }
    }
}

/// The right to run one turn of a session. Dropping it gives the right back.
pub(crate) struct TurnPermit {
    // Fields drop in this order: the place goes last, so its queue is not forgotten while its permit is still held.
    _turn: Option<OwnedSemaphorePermit>,
    _overall: Option<OwnedSemaphorePermit>,
    _place: QueueSlot,
}

impl SessionQueues {
    /// Creates queues that run at most `turns` turns at once. At most `per_session` turns may wait for one session, and
    /// `in_all` in total.
    #[must_use]
    pub(crate) fn new(turns: usize, per_session: usize, in_all: usize) -> Self {
        Self {
            lines: Mutex::default(),
            turns: Arc::new(Semaphore::new(turns)),
            per_session,
            // Running turns hold a place too, so the limit includes them.
            in_all: in_all.saturating_add(turns),
        }
    }

    /// Takes the last place in a session's queue.
    ///
    /// Another turn waits for a `nested` turn and holds one of the running slots meanwhile. The nested turn takes no
    /// second slot, because that could block all of them for ever.
    ///
    /// # Errors
    ///
    /// Returns [`QueueFull`] if too many turns wait already, in this session or in total.
    pub(crate) fn enter(
        self: &Arc<Self>,
        session: &SessionKey,
        nested: bool,
    ) -> Result<QueueSlot, QueueFull> {
        let mut lines = lock(&self.lines);
        if lines.places >= self.in_all {
            return Err(QueueFull::Gateway);
        }
        let line = lines
            .sessions
            .entry(session.clone())
            .or_insert_with(|| SessionQueue { turn: Arc::new(Semaphore::new(1)), places: 0 });
        if line.places > self.per_session {
            return Err(QueueFull::Session);
        }
        line.places += 1;
        // This is still under the lock, so the order of entry is the order in the queue.
        let at = Position::end_of(line.turn.clone());
        lines.places += 1;
        Ok(QueueSlot { queues: self.clone(), session: session.clone(), at, is_nested: nested })
    }
}

impl QueueSlot {
    /// Waits until the turn may run: first for its session, then for one of the running slots.
    pub(crate) async fn wait(mut self) -> TurnPermit {
        let turn = match std::mem::replace(&mut self.at, Position::Front(None)) {
            Position::Front(permit) => permit,
            Position::Behind(turn) => turn.await,
        };
        let overall =
            if self.is_nested { None } else { self.queues.turns.clone().acquire_owned().await.ok() };
        TurnPermit { _turn: turn, _overall: overall, _place: self }
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        let mut lines = lock(&self.queues.lines);
        lines.places -= 1;
        if let Some(line) = lines.sessions.get_mut(&self.session) {
            line.places -= 1;
            // An empty queue is removed, or the map would grow with every session ever used.
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

    async fn is_blocked(place: QueueSlot) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.wait()).await.is_err()
    }

    #[tokio::test]
    async fn a_session_runs_one_turn_and_lets_few_wait() {
        let queues = Arc::new(SessionQueues::new(4, 1, 8));
        let first = queues.enter(&key("x"), false).unwrap().wait().await;
        let second = queues.enter(&key("x"), false).unwrap();
        assert_eq!(queues.enter(&key("x"), false).err(), Some(QueueFull::Session));
        let _other = queues.enter(&key("y"), false).unwrap().wait().await;
        drop(first);
        drop(second.wait().await);
        assert_eq!(lock(&queues.lines).places, 1);
        assert!(!lock(&queues.lines).sessions.contains_key(&key("x")), "an empty line is forgotten");
    }

    #[tokio::test]
    async fn turns_run_in_the_order_in_which_they_were_queued() {
        let queues = Arc::new(SessionQueues::new(4, 100, 100));
        let running = queues.enter(&key("x"), false).unwrap().wait().await;
        let places: Vec<QueueSlot> = (0..50).map(|_| queues.enter(&key("x"), false).unwrap()).collect();
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
    async fn a_dropped_slot_does_not_block_later_turns() {
        let queues = Arc::new(SessionQueues::new(4, 100, 100));
        let front = queues.enter(&key("x"), false).unwrap();
        let behind = queues.enter(&key("x"), false).unwrap();
        let last = queues.enter(&key("x"), false).unwrap();
        drop((front, behind));
        assert!(!is_blocked(last).await);
    }

    #[tokio::test]
    async fn turns_are_limited_over_all_sessions_but_nested_ones_go_on() {
        let queues = Arc::new(SessionQueues::new(1, 8, 1));
        let _running = queues.enter(&key("x"), false).unwrap().wait().await;
        assert!(is_blocked(queues.enter(&key("y"), false).unwrap()).await);
        assert!(!is_blocked(queues.enter(&key("y"), true).unwrap()).await);
        let _waiting = queues.enter(&key("z"), false).unwrap();
        assert_eq!(queues.enter(&key("w"), false).err(), Some(QueueFull::Gateway));
    }
}
