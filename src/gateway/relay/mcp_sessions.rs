//! The sessions of MCP that a program begins in its turn.
//!
//! They belong to the turn's ticket and end with it. The token of the turn stays the only credential: the id of a session
//! opens nothing, and names a session of the turn that asks, never one of another turn.

use std::sync::{Arc, Mutex};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::id::hex;
use crate::sync::lock;
use crate::tool::LogLevel;

/// Most sessions of a turn. A further one ends the session that was used least recently.
pub(crate) const MAX_SESSIONS: usize = 16;

/// Most resources that a session watches.
pub(crate) const MAX_WATCHED: usize = 64;

/// The level of log messages before a client sets one. What is below it is for whoever looks for a fault in a server.
const DEFAULT_LEVEL: LogLevel = LogLevel::Info;

/// The sessions of a turn.
pub(crate) struct McpSessions {
    /// The state of all requests that name no session.
    outside: Arc<McpSession>,
    /// The session that was used least recently comes first.
    begun: Mutex<Vec<Arc<McpSession>>>,
    /// Cancelled when the turn is over.
    over: CancellationToken,
}

/// A session, or the state of the requests outside of sessions.
pub(crate) struct McpSession {
    /// The id, or `None` outside of sessions.
    pub id: Option<String>,
    /// The version of the protocol that was agreed on. `None` outside of sessions.
    pub version: Option<&'static str>,
    level: Mutex<LogLevel>,
    watched: Mutex<Vec<WatchedResource>>,
    /// Notified when the session watches something else than before.
    pub rewatched: Notify,
    /// Ends the open stream.
    stream: Mutex<CancellationToken>,
    /// Cancelled when the session has ended.
    over: CancellationToken,
}

/// A resource that a session watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WatchedResource {
    /// The address, as the client wrote it.
    pub uri: String,
    /// The state that the client was last told of.
    pub state: ResourceState,
}

/// The state of a resource, as far as it is needed to notice a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceState {
    /// A channel whose newest message has this number.
    Channel(u64),
    File {
        inode: u64,
        size: u64,
        changed_ns: i64,
    },
    /// A file that is not there any more.
    Gone,
}

impl McpSessions {
    /// Creates the sessions of a turn, which end when `over` is cancelled.
    pub(crate) fn new(over: &CancellationToken) -> Self {
        let outside = Arc::new(McpSession::new(None, None, over.child_token()));
        Self { outside, begun: Mutex::default(), over: over.clone() }
    }

    /// Begins a session in which this version of the protocol is spoken.
    pub(crate) fn begin(&self, version: &'static str) -> Arc<McpSession> {
        let id = hex(&rand::random::<[u8; 16]>());
        let session = Arc::new(McpSession::new(Some(id), Some(version), self.over.child_token()));
        let mut begun = lock(&self.begun);
        if begun.len() >= MAX_SESSIONS {
            begun.remove(0).over.cancel();
        }
        begun.push(Arc::clone(&session));
        session
    }

    /// Returns the session with this id. `None` if there is none in this turn.
    pub(crate) fn find(&self, id: &str) -> Option<Arc<McpSession>> {
        let mut begun = lock(&self.begun);
        let at = begun.iter().position(|session| session.id.as_deref() == Some(id))?;
        let session = begun.remove(at);
        begun.push(Arc::clone(&session));
        Some(session)
    }

    /// Returns the state of the requests that name no session.
    pub(crate) fn outside(&self) -> Arc<McpSession> {
        Arc::clone(&self.outside)
    }

    /// Ends a session. Returns `false` if there is none with this id.
    pub(crate) fn end(&self, id: &str) -> bool {
        let mut begun = lock(&self.begun);
        let at = begun.iter().position(|session| session.id.as_deref() == Some(id));
        at.map(|at| begun.remove(at).over.cancel()).is_some()
    }
}

impl McpSession {
    fn new(id: Option<String>, version: Option<&'static str>, over: CancellationToken) -> Self {
        Self {
            id,
            version,
            level: Mutex::new(DEFAULT_LEVEL),
            watched: Mutex::default(),
            rewatched: Notify::new(),
            stream: Mutex::default(),
            over,
        }
    }

    /// Returns the level below which no log messages are sent.
    pub(crate) fn level(&self) -> LogLevel {
        *lock(&self.level)
    }

    /// Sets the level below which no log messages are sent.
    pub(crate) fn set_level(&self, level: LogLevel) {
        *lock(&self.level) = level;
    }

    /// Opens the session's stream, and ends an earlier one: a client whose connection broke off opens another before the
    /// gateway notices. The returned token is cancelled when the stream has to end.
    pub(crate) fn open_stream(&self) -> CancellationToken {
        let stream = self.over.child_token();
        std::mem::replace(&mut *lock(&self.stream), stream.clone()).cancel();
        stream
    }

    /// Watches a resource. A watched one stays as it is, so that no change of it is lost. Returns `false` if the session
    /// watches as many as it may.
    #[must_use]
    pub(crate) fn watch(&self, resource: WatchedResource) -> bool {
        let mut watched = lock(&self.watched);
        if watched.iter().all(|known| known.uri != resource.uri) {
            if watched.len() >= MAX_WATCHED {
                return false;
            }
            watched.push(resource);
            self.rewatched.notify_one();
        }
        true
    }

    /// Ends the watch of a resource. A resource that is not watched is ignored.
    pub(crate) fn unwatch(&self, uri: &str) {
        lock(&self.watched).retain(|known| known.uri != uri);
    }

    /// Returns the watched resources.
    pub(crate) fn watched(&self) -> Vec<WatchedResource> {
        lock(&self.watched).clone()
    }

    /// Records the state of a watched resource that the client is told of.
    pub(crate) fn note(&self, uri: &str, state: ResourceState) {
        if let Some(known) = lock(&self.watched).iter_mut().find(|known| known.uri == uri) {
            known.state = state;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(number: usize) -> WatchedResource {
        let number = u64::try_from(number).unwrap();
        WatchedResource { uri: format!("flock://channel/{number}"), state: ResourceState::Channel(number) }
    }

    #[test]
    fn a_session_ends_alone_and_all_end_with_the_turn() {
        let over = CancellationToken::new();
        let sessions = McpSessions::new(&over);
        let (one, two) = (sessions.begin("2025-06-18"), sessions.begin("2025-11-25"));
        let [first, second] = [&one, &two].map(|session| session.id.clone().unwrap());
        assert!(first != second && first.len() == 32 && first.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(sessions.find(&first).unwrap().version, Some("2025-06-18"));
        let (ended, open) = (one.open_stream(), two.open_stream());
        assert!(sessions.end(&first) && !sessions.end(&first));
        assert!(sessions.find(&first).is_none() && sessions.find("").is_none());
        assert!(ended.is_cancelled() && !open.is_cancelled());
        over.cancel();
        assert!(open.is_cancelled() && two.open_stream().is_cancelled());
    }

    #[test]
    fn one_session_too_many_ends_the_one_that_was_used_least_recently() {
        let sessions = McpSessions::new(&CancellationToken::new());
        let begun: Vec<_> = (0..MAX_SESSIONS).map(|_| sessions.begin("2025-11-25")).collect();
        let ids: Vec<&str> = begun.iter().map(|session| session.id.as_deref().unwrap()).collect();
        let stream = begun[1].open_stream();
        sessions.find(ids[0]).unwrap();
        sessions.begin("2025-11-25");
        assert!(sessions.find(ids[1]).is_none() && stream.is_cancelled());
        assert!(ids.iter().filter(|id| sessions.find(id).is_some()).count() == MAX_SESSIONS - 1);
    }

    #[test]
    fn a_session_has_one_stream() {
        let sessions = McpSessions::new(&CancellationToken::new());
        let session = sessions.begin("2025-11-25");
        let (first, second) = (session.open_stream(), session.open_stream());
        assert!(first.is_cancelled() && !second.is_cancelled());
    }

    #[test]
    fn a_session_watches_only_so_much_and_forgets_no_change() {
        let sessions = McpSessions::new(&CancellationToken::new());
        let session = sessions.begin("2025-11-25");
        assert!((0..MAX_WATCHED).all(|number| session.watch(watched(number))));
        assert!(!session.watch(watched(MAX_WATCHED)));
        let again = WatchedResource { state: ResourceState::Gone, ..watched(3) };
        assert!(session.watch(again), "one that is watched needs no room");
        assert_eq!(session.watched()[3], watched(3));
        session.note("flock://channel/3", ResourceState::Channel(9));
        assert_eq!(session.watched()[3].state, ResourceState::Channel(9));
        session.unwatch("flock://channel/3");
        session.unwatch("flock://channel/none");
        assert_eq!(session.watched().len(), MAX_WATCHED - 1);
        assert!(session.watch(watched(MAX_WATCHED)));
    }

    #[test]
    fn log_messages_begin_at_info_and_each_session_has_a_level_of_its_own() {
        let sessions = McpSessions::new(&CancellationToken::new());
        let session = sessions.begin("2025-11-25");
        assert_eq!([session.level(), sessions.outside().level()], [LogLevel::Info; 2]);
        session.set_level(LogLevel::Error);
        assert_eq!([session.level(), sessions.outside().level()], [LogLevel::Error, LogLevel::Info]);
    }
}
