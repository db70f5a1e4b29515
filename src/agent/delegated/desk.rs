//! Where programs that run turns come with what their models want of flock: a tool called, a call reported. It goes
//! to the turn that runs in their conversation; outside one, to [`super::outside`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;
use crate::id::{AgentId, SessionKey};
use crate::provider::Block;
use crate::runtime::ToolEvent;

/// What waits for one turn at most.
const WAITING: usize = 64;
/// Conversations outside turns whose calls are remembered.
const MOST_OUTSIDE: usize = 64;
/// Sessions whose budget had no room for a call that are remembered; those forgotten begin one turn in vain.
const MOST_SHORT: usize = 512;

/// Where something comes from, as the program's own knowledge has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The agent.
    pub agent: AgentId,
    /// What the program knows the conversation by.
    pub conversation: String,
}

/// A call of one of flock's tools.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its id, unique in an answer of the model.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The arguments, as the model wrote them.
    pub arguments: Value,
    /// Cancelled when nobody waits for the result any more.
    pub cancel: CancellationToken,
}

/// What a call gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Text and images.
    pub content: Vec<Block>,
    /// Whether it is an error that the model reads.
    pub is_error: bool,
}

impl Answered {
    pub(super) fn error(text: &str) -> Self {
        Self { content: vec![Block::text(text)], is_error: true }
    }
}

/// What a program tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// Of a call of its own.
    Tool(ToolEvent),
    /// Its agent has ended in this conversation: no call is under way any more.
    Over,
}

/// What comes for a turn.
pub(super) enum Knock {
    Call(Asked, oneshot::Sender<Answered>),
    Told(Told),
}

/// Who sits where.
#[derive(Default)]
pub(in crate::agent) struct Desk {
    seats: Mutex<HashMap<String, Seat>>,
    outside: Mutex<HashMap<String, Ledger>>,
    /// The calls that ended the last turn of their session, because the budget had no room for them: tokens of the
    /// request and of the answer.
    short: Mutex<HashMap<SessionKey, (u64, u64)>>,
    /// No end of a call was reported when one was waited for: some versions report none.
    mute: AtomicBool,
}

struct Seat {
    agent: AgentId,
    sender: mpsc::Sender<Knock>,
}

impl Desk {
    /// A turn runs in this conversation from now on, until what is given is dropped.
    pub(super) fn sit(&self, source: &Source) -> (Seated<'_>, mpsc::Receiver<Knock>) {
        let (sender, knocks) = mpsc::channel(WAITING);
        let seat = Seat { agent: source.agent.clone(), sender };
        lock(&self.seats).insert(source.conversation.clone(), seat);
        (Seated { desk: self, conversation: source.conversation.clone() }, knocks)
    }

    /// The turn that runs in a conversation of this agent. Programs may write the name in lower case.
    pub(super) fn turn(&self, source: &Source) -> Option<mpsc::Sender<Knock>> {
        let seats = lock(&self.seats);
        let seat = seats.get(&source.conversation)?;
        (seat.agent == source.agent).then(|| seat.sender.clone())
    }

    /// Whether it makes sense to wait for the end of a call to be reported.
    pub(super) fn tells_ends(&self) -> bool {
        !self.mute.load(Ordering::Relaxed)
    }

    /// The end of a call was reported, or none was in time.
    pub(super) fn heard_end(&self, heard: bool) {
        self.mute.store(!heard, Ordering::Relaxed);
    }

    /// A turn of this session was ended by a call that the budget had no room for; `None` where a turn begins.
    pub(super) fn no_room(&self, session: &SessionKey, call: Option<(u64, u64)>) {
        let mut short = lock(&self.short);
        let Some(call) = call else {
            short.remove(session);
            return;
        };
        if short.len() >= MOST_SHORT {
            short.clear();
        }
        short.insert(session.clone(), call);
    }

    /// The call that ended the session's last turn, if one did because the budget had no room for it.
    pub(super) fn had_no_room(&self, session: &SessionKey) -> Option<(u64, u64)> {
        lock(&self.short).get(session).copied()
    }

    /// The calls of a conversation without a turn.
    pub(super) fn outside<T>(&self, source: &Source, work: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut outside = lock(&self.outside);
        if outside.len() >= MOST_OUTSIDE && !outside.contains_key(&source.conversation) {
            outside.clear();
        }
        work(outside.entry(source.conversation.clone()).or_default())
    }
}

/// A turn at its place.
pub(super) struct Seated<'d> {
    desk: &'d Desk,
    conversation: String,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        lock(&self.desk.seats).remove(&self.conversation);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
