//! `/api/dashboard/…`: makes the codes with which browsers sign in to the dashboard, and lists and ends their sign-ins.

use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState, push};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::sign_in::codes::{self, Visitor};
use crate::gateway::state::Gateway;
use crate::id::Party;
use crate::store::{Level, PersonRole, PushSubscription, SignIn};
use crate::swarm::Actor;

/// A request for a code.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CreateCode {
    /// Name of the person whose browser signs in.
    pub by: Option<String>,
}

/// The query parameters of the end of a sign-in.
#[derive(Debug, Deserialize)]
pub(crate) struct EndQuery {
    /// Name of the person, for the audit.
    by: Option<String>,
}

/// Makes a code with which a browser signs in once.
pub(crate) async fn create_code(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<CreateCode>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let Party::Human(person) = caller.person(wanted.by.as_deref())? else {
        return Err(ApiError::forbidden("name_of_another", "only a person signs in"));
    };
    // A code that a person makes with their own token or account lets in nobody whom that does not.
    let (token, account) = match &caller {
        Caller::Person(caller) => (caller.token.clone(), caller.account.clone()),
        _ => (None, None),
    };
    let made_by = caller.sign_in().map(str::to_owned);
    let visitor = Visitor { person, token, account, made_by };
    let code = codes::create(gateway.swarm.store(), visitor).await.map_err(ApiError::explained)?;
    Ok((StatusCode::CREATED, axum::Json(json!({"code": code, "expiresAt": unix_ms() + codes::LIFETIME}))))
}

/// Returns the browsers that are signed in.
pub(crate) async fn list(State(team): State<TeamState>, Extension(caller): Extension<Caller>) -> JsonResult {
    let now = unix_ms();
    let mut found = team.swarm.store().sign_ins().list().await.map_err(ApiError::explained)?;
    // The browsers of others are the owner's business.
    let is_shown = |sign_in: &SignIn| match caller.home_person() {
        Some(person) if person.role != PersonRole::Owner => sign_in.person == person.name,
        _ => true,
    };
    found.retain(|sign_in| sign_in.is_good(now) && is_shown(sign_in));
    let told = team.swarm.store().push_subscriptions().list(now).await.map_err(ApiError::explained)?;
    let notifications = |sign_in: &SignIn| told.iter().find(|told| told.sign_in == sign_in.id);
    let sessions = found.iter().map(|sign_in| describe(sign_in, notifications(sign_in), &caller));
    let sessions = sessions.collect::<Vec<_>>();
    Ok(axum::Json(json!({"sessions": sessions})))
}

/// Ends one sign-in. `current` names the one of the caller.
pub(crate) async fn end(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(who): Query<EndQuery>,
) -> JsonResult {
    let id = match caller.sign_in() {
        Some(sign_in) if id == "current" => sign_in.to_owned(),
        _ => id,
    };
    let ended = end_some(&team, &caller, Some(id.clone()), &who).await?;
    if ended == 0 {
        let message = format!("there is no session {:?} of a browser", crate::clean::summary(&id, 80));
        return Err(ApiError::not_found("session_not_found", message).with_hint("flock dashboard sessions"));
    }
    Ok(axum::Json(json!({"ended": ended})))
}

/// Ends all sign-ins.
pub(crate) async fn end_all(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Query(who): Query<EndQuery>,
) -> JsonResult {
    let ended = end_some(&team, &caller, None, &who).await?;
    Ok(axum::Json(json!({"ended": ended})))
}

async fn end_some(
    team: &TeamState,
    caller: &Caller,
    id: Option<String>,
    who: &EndQuery,
) -> Result<usize, ApiError> {
    let by = Actor::party(caller.person(who.by.as_deref())?);
    let subject = id.as_deref().unwrap_or("all").to_owned();
    let entry = by.entry("dashboard.signout", &subject, Level::Green, String::new());
    let store = team.swarm.store();
    let ended = store.sign_ins().end(id, entry, unix_ms()).await.map_err(ApiError::explained)?;
    // A power failure must not sign a browser in again.
    store.sync().await.map_err(ApiError::explained)?;
    Ok(ended)
}

/// Returns a sign-in in the JSON form of the API.
pub(crate) fn describe(sign_in: &SignIn, told: Option<&PushSubscription>, caller: &Caller) -> Value {
    let is_current = caller.sign_in() == Some(sign_in.id.as_str());
    let mut shown = json!(sign_in);
    shown["expiresAt"] = sign_in.expires_at().into();
    shown["current"] = is_current.into();
    shown["notifications"] = told.map_or(Value::Null, push::describe);
    shown
}
