//! The state that only the database has, as views show it, and the parts of it that could not be read.

use std::collections::{BTreeMap, HashMap};

use super::database;
use super::team::SleepState;
use crate::error::{Explain as _, Kind};
use crate::gateway::unread::Unread;
use crate::home::Home;
use crate::id::{AgentId, EngineName};
use crate::store::{AgentState, FreezeState, Reader, RequestRow, RequestState, StoreError};

/// The part with the frozen agents.
pub(crate) const FREEZES: &str = "freezes";
/// The part with the sleeping agents.
pub(crate) const SLEEP: &str = "sleep";
/// The part with the engines of agents.
pub(crate) const PLACEMENTS: &str = "placements";
/// All parts, as `unread` names them.
const PARTS: [&str; 4] = [FREEZES, SLEEP, "approvals", PLACEMENTS];

/// The state of a team in the database of a home. What was not read is empty, and is named in `unread`.
#[derive(Debug, Default)]
pub(crate) struct StoredState {
    pub frozen: FreezeState,
    pub asleep: HashMap<AgentId, SleepState>,
    /// The number of requests that wait for a person. `None` if it was not read.
    pub approvals_waiting: Option<usize>,
    /// The engine of each agent that is placed.
    pub placed: BTreeMap<AgentId, EngineName>,
    pub unread: Vec<Unread>,
    /// The kind of the first error.
    pub failure: Option<Kind>,
}

impl StoredState {
    /// Reads the state by one connection. A server that does not answer costs a few seconds.
    pub(crate) fn read(home: &Home) -> Self {
        let mut state = Self::default();
        match database::read_view(home, async |reader| Ok::<_, StoreError>(Parts::read(&reader).await)) {
            // A home without a database has no requests.
            Ok(None) => state.approvals_waiting = Some(0),
            Ok(Some(parts)) => state.take(parts),
            Err(error) => {
                state.unread = PARTS.map(|part| Unread::because(part, &error)).to_vec();
                state.failure = Some(error.kind());
            }
        }
        state
    }

    fn take(&mut self, parts: Parts) {
        let [freezes, sleep, approvals, placements] = PARTS;
        self.frozen = self.known(freezes, parts.freezes).unwrap_or_default();
        self.asleep = self.known(sleep, parts.asleep).unwrap_or_default();
        self.approvals_waiting = self.known(approvals, parts.waiting);
        self.placed = self.known(placements, parts.placed).unwrap_or_default();
    }

    /// Returns what was read, or takes note that it was not.
    fn known<T>(&mut self, part: &str, read: Result<T, StoreError>) -> Option<T> {
        let error = match read {
            Ok(found) => return Some(found),
            Err(error) => error,
        };
        let entry = match self.unread.first() {
            // The first read may have waited until the deadline, and then the others had no time to see what is wrong.
            Some(first) if error.is_fault() => Unread { part: part.to_owned(), ..first.clone() },
            _ => Unread::because(part, &error),
        };
        self.unread.push(entry);
        self.failure.get_or_insert(error.kind());
        None
    }
}

/// The answers of the database.
struct Parts {
    freezes: Result<FreezeState, StoreError>,
    asleep: Result<HashMap<AgentId, SleepState>, StoreError>,
    waiting: Result<usize, StoreError>,
    placed: Result<BTreeMap<AgentId, EngineName>, StoreError>,
}

impl Parts {
    async fn read(reader: &Reader) -> Self {
        let waiting =
            |rows: Vec<RequestRow>| rows.iter().filter(|row| row.state == RequestState::Waiting).count();
        Self {
            freezes: reader.freezes().state().await,
            asleep: reader.agents().states().await.map(asleep),
            waiting: reader.requests().list(true, u32::MAX).await.map(waiting),
            placed: reader.placements().list().await,
        }
    }
}

fn asleep(states: Vec<AgentState>) -> HashMap<AgentId, SleepState> {
    let sleeping = |state: AgentState| {
        let since = state.asleep_at?;
        Some((state.agent, SleepState { since, reason: state.sleep_reason.unwrap_or_default() }))
    };
    states.into_iter().filter_map(sleeping).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_home_without_a_database_has_nothing_unread() {
        let folder = tempfile::tempdir().unwrap();
        let state = StoredState::read(&Home::new(folder.path().to_owned(), None));
        assert!(state.unread.is_empty() && state.failure.is_none());
        assert_eq!(state.approvals_waiting, Some(0));
    }

    #[test]
    fn a_server_that_is_gone_leaves_every_part_unread() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = gone.local_addr().unwrap().port();
        drop(gone);
        let place = format!(r#"{{"postgres": "postgres://flock@127.0.0.1:{port}/flock?sslmode=disable"}}"#);
        fs_err::write(home.store_location(), place).unwrap();
        let state = StoredState::read(&home);
        let parts: Vec<&str> = state.unread.iter().map(|unread| unread.part.as_str()).collect();
        assert_eq!(parts, PARTS);
        let hint = state.unread[0].hint.as_deref().unwrap();
        assert!(hint.contains("store.json"), "{hint}");
        assert_eq!((state.approvals_waiting, state.failure), (None, Some(Kind::Unreachable)));
    }
}
