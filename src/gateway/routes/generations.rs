//! `/api/generations`: the numbered states of the home, and one of them.

use axum::extract::State;
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::error::chain;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::generation::{self, Generation, difference};
use crate::home::Home;
use crate::install::kept::Kept;

/// Returns the generations of the home, newest first.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let home = team.swarm.home().clone();
    let found = tokio::task::spawn_blocking(move || listed(&home)).await.map_err(ApiError::internal)?;
    Ok(axum::Json(found?))
}

/// Returns one generation with all of its state.
pub(crate) async fn show(State(team): State<TeamState>, Path(number): Path<u64>) -> JsonResult {
    let home = team.swarm.home().clone();
    let read = move || {
        let found = generation::log::read(&home, number).map_err(ApiError::explained)?;
        let missing =
            || ApiError::not_found("generation_not_found", format!("there is no generation {number}"));
        let found = found.ok_or_else(missing)?;
        let kept = Kept::of(&home).map_err(ApiError::explained)?;
        Ok::<Value, ApiError>(shown(&home, &found, &kept))
    };
    Ok(axum::Json(tokio::task::spawn_blocking(read).await.map_err(ApiError::internal)??))
}

fn listed(home: &Home) -> Result<Value, ApiError> {
    let kept = Kept::of(home).map_err(ApiError::explained)?;
    let (mut generations, mut unreadable) = (Vec::new(), Vec::new());
    for found in generation::log::all(home).map_err(ApiError::explained)?.iter().rev() {
        match found {
            Ok(found) => generations.push(summary(found, &kept.lost(&found.state))),
            Err((number, error)) => unreadable.push(json!({"number": number, "problem": chain(error)})),
        }
    }
    Ok(json!({"generations": generations, "unreadable": unreadable}))
}

/// Returns a generation as it is listed. `lost` is what is not kept any more of its state.
pub(crate) fn summary(generation: &Generation, lost: &[String]) -> Value {
    json!({
        "number": generation.number,
        "at": generation.at,
        "by": generation.by,
        "why": generation.why,
        "what": generation.what,
        "backTo": generation.back_to,
        "renamed": generation.renamed.as_ref().map(|(old, new)| json!({"from": old, "to": new})),
        "lost": lost,
    })
}

/// Returns a generation with its state, and how it differs from the one before.
pub(crate) fn shown(home: &Home, generation: &Generation, kept: &Kept) -> Value {
    let before = generation::log::read(home, generation.number.saturating_sub(1)).ok().flatten();
    let mut value = summary(generation, &kept.lost(&generation.state));
    value["differences"] = json!(before.map(|before| difference::between(&before.state, &generation.state)));
    value["state"] = json!(generation.state);
    value["backup"] = json!(kept.backup(&generation.state));
    value
}
