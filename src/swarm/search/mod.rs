//! The search through memory files, findings, transcripts, vaults and channels.
//!
//! The index only says where something may be. The text of a result is read from there when it is shown, and only if
//! the searcher may read it at that moment. So nothing that was deleted comes back, however old the index is.

mod catch_up;
mod corpus;
mod files;
mod pace;
mod reading;
mod results;
mod snippet;
mod words;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use self::catch_up::CatchUp;
use self::corpus::Corpus;
use self::results::Results;
use super::vault::Vaults;
use super::{Swarm, SwarmError};
use crate::clock::unix_ms;
use crate::id::{AgentId, TurnId};
use crate::store::{IndexHit, IndexMeta, SearchIndex, StoreError};

pub(crate) use reading::FileOwner;
pub(crate) use results::{FoundPlace, SearchResult};

/// The name of the tool. Its calls in transcripts are not found, or each search would find the searches before it.
const TOOL: &str = "flock_memory_search";
/// The most bytes of a message that are searched.
const MAX_TEXT: usize = 64 * 1024;
/// The most bytes of a query.
const MAX_QUERY: usize = 4 * 1024;
/// The most results of one search.
pub(crate) const MAX_RESULTS: usize = 100;
/// The time that a search may take to bring the index up to date.
const CATCH_UP_TIME: Duration = Duration::from_millis(1500);
/// The time in milliseconds after which the words of deleted texts leave the file, at the latest.
const TIDY_AFTER: i64 = 10 * 60 * 1000;
/// The number of entries up to which the file is tidied at once, because that takes less than a second.
const SMALL_INDEX: i64 = 20_000;

/// A kind of place where something can be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchArea {
    /// Memory of agents: MEMORY.md and memory/ of their workspaces
    Memory,
    /// Findings of agents: deliverables/findings/ of their workspaces
    Findings,
    /// Transcripts of sessions
    Sessions,
    /// Vaults, which all agents share
    Vaults,
    /// Messages in channels
    Channels,
}

impl SearchArea {
    pub(crate) const ALL: [Self; 5] =
        [Self::Memory, Self::Findings, Self::Sessions, Self::Vaults, Self::Channels];

    /// Returns the word for the area in commands, tools and JSON.
    #[must_use]
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Findings => "findings",
            Self::Sessions => "sessions",
            Self::Vaults => "vaults",
            Self::Channels => "channels",
        }
    }
}

/// A search.
#[derive(Clone, Debug)]
pub(crate) struct SearchRequest {
    pub text: String,
    /// The agent that searches, or as which a person does; `None` searches everything.
    pub agent: Option<AgentId>,
    /// The turn that searches. What it says itself is not found.
    pub turn: Option<TurnId>,
    /// The areas to search; none means all.
    pub areas: Vec<SearchArea>,
    pub limit: usize,
}

/// The result of a search.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct SearchAnswer {
    /// The best matches, best first.
    pub results: Vec<SearchResult>,
    /// Unset if not everything that changed could be taken into the index in time.
    #[serde(rename = "complete")]
    pub is_complete: bool,
    /// The areas that the agent's tool policy closes to it.
    pub closed: Vec<SearchArea>,
}

impl Swarm {
    /// Searches as a person or as an agent.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] for a query that has no words or is too long, [`SwarmError::NoAgent`] if the agent
    /// does not exist, and the store's error if the database or the index can't be read.
    pub(crate) async fn search_memory(
        self: &Arc<Self>,
        request: SearchRequest,
    ) -> Result<SearchAnswer, SwarmError> {
        if request.text.len() > MAX_QUERY {
            return Err(SwarmError::Invalid(format!("a search has at most {MAX_QUERY} bytes")));
        }
        let Some(query) = words::query(&request.text) else {
            return Err(SwarmError::Invalid("name at least one word to search for".to_owned()));
        };
        let vaults = Vaults::new(self.home());
        let (mut corpus, mut closed) = match &request.agent {
            Some(agent) => Corpus::of_agent(self, &vaults, agent).await?,
            None => (Corpus::whole(self, &vaults).await?, Vec::new()),
        };
        let areas = if request.areas.is_empty() { SearchArea::ALL.to_vec() } else { request.areas.clone() };
        if !request.areas.is_empty() {
            corpus.narrow(&areas);
        }
        closed.retain(|area| areas.contains(area));
        let swarm = Arc::clone(self);
        let work = move || -> Result<SearchAnswer, StoreError> {
            let index = &swarm.search;
            let deadline = Instant::now() + CATCH_UP_TIME;
            let goes_on = || Instant::now() < deadline;
            let store = &swarm.store;
            let catch_up = CatchUp { index, store, vaults: &vaults, corpus: &corpus, goes_on: &goes_on };
            let is_complete = catch_up.run()?;
            let sources = corpus.sources(index, &areas)?;
            let limit = request.limit.clamp(1, MAX_RESULTS);
            let hits = best(index, &query, &sources, limit)?;
            let results =
                Results { store, vaults: &vaults, corpus: &corpus, terms: &query.terms, turn: request.turn };
            Ok(SearchAnswer { results: results.read(&hits, limit)?, is_complete, closed })
        };
        let done = tokio::task::spawn_blocking(work).await;
        Ok(done.unwrap_or(Err(StoreError::Stopped))?)
    }

    /// Brings the whole index up to date, however long it takes, and removes the words of deleted texts from its file. It
    /// rests between its steps, and ends before the next one if `stop` is cancelled, also if the future is dropped.
    ///
    /// # Errors
    ///
    /// Returns the store's error if the database or the index can't be read or written.
    pub(crate) async fn update_search_index(
        self: &Arc<Self>,
        stop: &CancellationToken,
    ) -> Result<(), SwarmError> {
        let vaults = Vaults::new(self.home());
        let corpus = Corpus::whole(self, &vaults).await?;
        let (swarm, stop) = (Arc::clone(self), stop.clone());
        let work = move || {
            let done = swarm.bring_up_to_date(&vaults, &corpus, &stop);
            swarm.search.close();
            done
        };
        let done = tokio::task::spawn_blocking(work).await;
        Ok(done.unwrap_or(Err(StoreError::Stopped))?)
    }

    /// Returns how many messages the index lacks at most, or `None` if nothing has searched or updated it since the start.
    /// Deleted ones are counted too.
    pub(crate) async fn messages_to_index(&self) -> Result<Option<i64>, StoreError> {
        let Some(last) = self.search.noted_last_message() else { return Ok(None) };
        Ok(Some((self.store.posts().last_row().await? - last).max(0)))
    }

    fn bring_up_to_date(
        &self,
        vaults: &Vaults,
        corpus: &Corpus,
        stop: &CancellationToken,
    ) -> Result<(), StoreError> {
        let (index, store) = (&self.search, &self.store);
        let goes_on = pace::resting(Instant::now, |time| pace::rest(stop, time));
        let catch_up = CatchUp { index, store, vaults, corpus, goes_on: &goes_on };
        if !catch_up.run()? {
            return Ok(());
        }
        let deleted_at = index.meta(IndexMeta::DeletedAt)?;
        let is_due = deleted_at > 0
            && (!(0..TIDY_AFTER).contains(&(unix_ms() - deleted_at)) || index.size()?.entries <= SMALL_INDEX);
        if is_due { index.tidy(goes_on) } else { Ok(()) }
    }
}

/// Returns the best matches. There are more than asked for, because some of them may be gone or not for the searcher. The
/// last word counts as the beginning of a longer one only if there are not enough otherwise.
fn best(
    index: &SearchIndex,
    query: &words::SearchQuery,
    sources: &[i64],
    limit: usize,
) -> Result<Vec<IndexHit>, StoreError> {
    let most = limit * 2 + 20;
    let mut hits = index.search(&query.any, sources, most)?;
    if let Some(begun) = query.begun.as_ref().filter(|_| hits.len() < limit) {
        for hit in index.search(begun, sources, most)? {
            if !hits.iter().any(|known| known.source == hit.source && known.place == hit.place) {
                hits.push(hit);
            }
        }
    }
    Ok(hits)
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
