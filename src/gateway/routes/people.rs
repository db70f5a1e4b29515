//! `/api/people`: people who come from other platforms, and their accounts there.

use axum::extract::{Extension, State};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{JsonResult, TeamState};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::id::Party;
use crate::process;
use crate::store::{Account, Level, RenameOutcome};
use crate::swarm::SwarmError;

/// A request to bind an account to a person.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct BindAccount {
    /// The name of the person, without `human:`. `None` forgets the account.
    pub(crate) name: Option<String>,
    /// The name of a bridge, or of a platform.
    pub(crate) bridge: String,
    /// The platform's id of the account.
    pub(crate) account: String,
    /// Name of the person who asks, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A request for another name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RenamePerson {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Name of the person who asks, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// Returns the people with their accounts.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let accounts = team.swarm.store().accounts().list().await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"accounts": accounts})))
}

/// Binds an account to a person, or forgets it.
pub(crate) async fn bind(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<BindAccount>,
) -> JsonResult {
    let by = caller.speaks(wanted.by.as_deref())?;
    let platform = platform(&team, &wanted.bridge)?;
    let detail = format!("{platform} account {}", wanted.account);
    let accounts = team.swarm.store().accounts();
    let Some(name) = &wanted.name else {
        let entry = by.entry("person.unlink", &wanted.account, Level::Yellow, detail);
        let forgotten = accounts.forget(platform, wanted.account.clone(), entry, unix_ms()).await;
        return match forgotten.map_err(ApiError::explained)? {
            true => Ok(axum::Json(json!({"account": wanted.account, "removed": true}))),
            false => Err(SwarmError::Refused(format!("no account {} is known", wanted.account)).into()),
        };
    };
    let person = person(&team, name)?;
    let account = Account {
        platform,
        username: wanted.account.clone(),
        id: wanted.account,
        person: person.clone(),
        bound_by: Some(by.party.to_string()),
        created_at: unix_ms(),
    };
    let entry = by.entry("person.link", &person.to_string(), Level::Yellow, detail);
    accounts.bind(account.clone(), named_people(&team), entry).await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!(account)))
}

/// Gives a person another name.
pub(crate) async fn rename(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<RenamePerson>,
) -> JsonResult {
    let by = caller.speaks(wanted.by.as_deref())?;
    let (from, to) = (person(&team, &wanted.from)?, person(&team, &wanted.to)?);
    // Somebody with such a name may decide requests: nobody gets or loses that by a renaming.
    let named = named_people(&team);
    if let Some(name) = [&from, &to].into_iter().find(|&name| named.contains(name)) {
        let text =
            format!("{name} is the owner or among approvers; an account gets that name by flock person link");
        return Err(SwarmError::Refused(text).into());
    }
    let entry = by.entry("person.rename", &to.to_string(), Level::Yellow, format!("was {from}"));
    let renamed = team.swarm.store().accounts().rename(from.clone(), to.clone(), entry, unix_ms()).await;
    match renamed.map_err(ApiError::explained)? {
        RenameOutcome::Renamed => Ok(axum::Json(json!({"from": from, "to": to}))),
        RenameOutcome::NotFound => {
            Err(SwarmError::Refused(format!("{from} has no account on a platform")).into())
        }
        RenameOutcome::Taken => {
            let text = format!(
                "{to} is somebody else; flock person link {} BRIDGE:ACCOUNT joins accounts",
                wanted.to
            );
            Err(SwarmError::Refused(text).into())
        }
    }
}

/// Returns the people whom the configuration and this machine name: those who approve, and the owner.
fn named_people(team: &TeamState) -> Vec<Party> {
    let owner = [Party::human(&process::login()), Party::human("owner")];
    team.swarm.config().approvers.iter().cloned().chain(owner).collect()
}

/// Returns the person of a name that no agent has.
fn person(team: &TeamState, name: &str) -> Result<Party, ApiError> {
    let name = name.strip_prefix("human:").unwrap_or(name);
    let person: Party = format!("human:{name}")
        .parse()
        .map_err(|error: crate::id::IdError| SwarmError::Invalid(error.to_string()))?;
    let is_agent =
        team.swarm.config().agents.iter().any(|agent| agent.id.as_str().eq_ignore_ascii_case(name));
    if is_agent {
        return Err(SwarmError::Invalid(format!("{name} is an agent")).into());
    }
    // The client of a token is no person.
    if name.contains(':') {
        return Err(SwarmError::Invalid(format!("{name} can't be the name of a person")).into());
    }
    Ok(person)
}

/// Returns the platform of a bridge, or the platform itself.
fn platform(team: &TeamState, name: &str) -> Result<String, ApiError> {
    let config = team.swarm.config();
    let bridge = config.bridges.iter().find(|bridge| bridge.name == name);
    match bridge.map(|bridge| bridge.platform.as_str()) {
        Some(platform) => Ok(platform.to_owned()),
        None if ["discord", "matrix", "slack", "telegram"].contains(&name) => Ok(name.to_owned()),
        None => Err(SwarmError::Refused(format!("there is no bridge {name:?}")).into()),
    }
}
