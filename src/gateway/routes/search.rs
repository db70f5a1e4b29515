//! `GET /api/search/memory`: the search through memory files, findings, transcripts, vaults and channels.
//! `GET /api/search/memory/file`: a file that it can find.

use axum::extract::State;
use serde::Deserialize;

use super::{JsonResult, TeamState};
use crate::gateway::error::ApiError;
use crate::gateway::extract::Query;
use crate::id::{AgentId, FolderName};
use crate::swarm::search::{FileOwner, MAX_RESULTS, SearchArea, SearchRequest};

/// Number of results if the request names none.
const DEFAULT_LIMIT: usize = 20;

/// The query parameters of a search.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MemoryQuery {
    /// The words to look for.
    q: String,
    /// The agent as which the person searches.
    agent: Option<AgentId>,
    /// The areas, separated by commas.
    r#in: Option<String>,
    limit: Option<usize>,
}

/// Returns what was found, the best matches first.
pub(crate) async fn memory(State(team): State<TeamState>, Query(asked): Query<MemoryQuery>) -> JsonResult {
    let names = asked.r#in.unwrap_or_default();
    let areas: Result<Vec<SearchArea>, ApiError> =
        names.split(',').map(str::trim).filter(|name| !name.is_empty()).map(area).collect();
    let request = SearchRequest {
        text: asked.q,
        agent: asked.agent,
        turn: None,
        areas: areas?,
        limit: asked.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_RESULTS),
    };
    let answer = team.swarm.search_memory(request).await?;
    Ok(axum::Json(serde_json::to_value(answer).map_err(ApiError::internal)?))
}

/// The query parameters of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileQuery {
    /// The agent in whose workspace it is.
    agent: Option<AgentId>,
    /// The vault in which it is.
    vault: Option<FolderName>,
    path: String,
}

/// Returns a file that the search can find, as it is now.
pub(crate) async fn file(State(team): State<TeamState>, Query(asked): Query<FileQuery>) -> JsonResult {
    let owner = match (asked.agent, asked.vault) {
        (Some(agent), None) => FileOwner::Agent(agent),
        (None, Some(vault)) => FileOwner::Vault(vault),
        _ => return Err(ApiError::invalid("invalid_query", "name either an agent or a vault")),
    };
    let found = team.swarm.searched_file(owner, asked.path).await?;
    let missing = || ApiError::not_found("file_not_found", "the search finds no file at this path");
    Ok(axum::Json(serde_json::to_value(found.ok_or_else(missing)?).map_err(ApiError::internal)?))
}

fn area(name: &str) -> Result<SearchArea, ApiError> {
    SearchArea::ALL.into_iter().find(|area| area.as_str() == name).ok_or_else(|| {
        let all = SearchArea::ALL.map(SearchArea::as_str).join(", ");
        ApiError::invalid("invalid_query", format!("in is one or more of {all}"))
    })
}
