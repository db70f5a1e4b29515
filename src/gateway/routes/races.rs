//! `/api/races`: copies of a channel's team that work on the same task.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::Path;
use crate::gateway::races::{RaceRequest, RacesError};
use crate::id::{ChannelId, ProjectName};
use crate::store::Race;

/// A race that a person wants.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewRaceBody {
    pub(crate) channel: ChannelId,
    pub(crate) copies: u32,
    pub(crate) project: ProjectName,
    pub(crate) task: String,
    /// Tokens of all copies together.
    #[serde(default)]
    pub(crate) tokens: Option<u64>,
    /// Millionths of a dollar of all copies together.
    #[serde(default)]
    pub(crate) cost_micros: Option<u64>,
    #[serde(default)]
    pub(crate) minutes: Option<u64>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A person's word about a race.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByBody {
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A person's choice of a winner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeepBody {
    /// The number of the copy. `None` is the best one.
    #[serde(default)]
    pub(crate) copy: Option<u32>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// Returns the newest races.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    Ok(axum::Json(json!({"races": team.races.list().await?})))
}

/// Returns one race with its copies.
pub(crate) async fn show(State(team): State<TeamState>, Path(number): Path<i64>) -> JsonResult {
    let race = team.races.find(number).await?;
    shown(&team, &race).await
}

/// Begins a race.
pub(crate) async fn begin(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<NewRaceBody>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let request = RaceRequest {
        channel: new.channel,
        copies: new.copies,
        project: new.project,
        task: new.task,
        tokens: new.tokens,
        cost: new.cost_micros,
        minutes: new.minutes,
        by: caller.person(new.by.as_deref())?,
    };
    let races = team.races.clone();
    // A task of its own: a client that disconnects must not leave half of the work to its end.
    let begun = tokio::spawn(async move { races.begin(request).await });
    let (race, warnings) = begun.await.map_err(ApiError::internal)??;
    let mut shown = team.races.shown(&race).await?;
    shown["warnings"] = json!(warnings);
    Ok((StatusCode::CREATED, axum::Json(json!({"race": shown}))))
}

/// Ends a race without a winner.
pub(crate) async fn stop(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(number): Path<i64>,
    JsonBody(body): JsonBody<ByBody>,
) -> JsonResult {
    let (by, races) = (caller.speaks(body.by.as_deref())?, team.races.clone());
    changed(&team, tokio::spawn(async move { races.stop(&by, number).await })).await
}

/// Lets a person choose the winner.
pub(crate) async fn keep(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(number): Path<i64>,
    JsonBody(body): JsonBody<KeepBody>,
) -> JsonResult {
    let (by, races) = (caller.speaks(body.by.as_deref())?, team.races.clone());
    changed(&team, tokio::spawn(async move { races.keep(&by, number, body.copy).await })).await
}

/// Removes the copies that did not win.
pub(crate) async fn drop_losers(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(number): Path<i64>,
    JsonBody(body): JsonBody<ByBody>,
) -> JsonResult {
    let (by, races) = (caller.speaks(body.by.as_deref())?, team.races.clone());
    changed(&team, tokio::spawn(async move { races.drop_losers(&by, number).await })).await
}

async fn changed(team: &TeamState, work: tokio::task::JoinHandle<Result<Race, RacesError>>) -> JsonResult {
    let race = work.await.map_err(ApiError::internal)??;
    shown(team, &race).await
}

async fn shown(team: &TeamState, race: &Race) -> JsonResult {
    Ok(axum::Json(json!({"race": team.races.shown(race).await?})))
}
