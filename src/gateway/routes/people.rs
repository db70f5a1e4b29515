//! `/api/people`: the people of the home with their roles and tokens, and people who come from other platforms with their
//! accounts there.

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::clean::looks_like;
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::id::{AgentId, ChannelId, Party};
use crate::process;
use crate::store::{
    Account, ClientToken, Level, NewPerson, Person, PersonChange, PersonRole, RenameOutcome, SignIn,
};
use crate::swarm::person::AccountWish;
use crate::swarm::{SwarmError, budget, person as home_person};

/// A request for a new person.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AddPerson {
    pub(crate) name: String,
    pub(crate) role: PersonRole,
    /// The agents that the person may see. `None` stands for all of them.
    pub(crate) agents: Option<Vec<AgentId>>,
    /// The channels that the person is on. `None` stands for all of them, or for none if `agents` is given.
    pub(crate) channels: Option<Vec<ChannelId>>,
    /// The most tokens of a day.
    pub(crate) day_tokens: Option<u64>,
    /// The most millionths of a dollar of a day.
    pub(crate) day_cost_micros: Option<u64>,
    /// Name of the person who asks, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A change of a person. What is left out stays, and `null` is no limit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ChangePerson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<PersonRole>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) agents: Option<Option<Vec<AgentId>>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) channels: Option<Option<Vec<ChannelId>>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) day_tokens: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) day_cost_micros: Option<Option<u64>>,
    /// The account with which the person signs in to the dashboard.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub(crate) oidc: Option<Option<ChangeAccount>>,
    /// Name of the person who asks, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// The account of a person at the provider of OpenID Connect.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChangeAccount {
    /// The provider's id of the account.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// The e-mail address by which the account is known at its first sign-in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) email: Option<String>,
}

/// Reads a field that is there, also if it is `null`.
fn given<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::<T>::deserialize(deserializer).map(Some)
}

/// A request for a new token of a person.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CreatePersonToken {
    /// Unix milliseconds at which the token expires. `None` stands for never.
    #[serde(default)]
    pub(crate) expires_at: Option<i64>,
    /// Name of the person who asks, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// The query parameters of a removal.
#[derive(Debug, Deserialize)]
pub(crate) struct RemovePersonQuery {
    by: Option<String>,
}

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

/// Returns the people of the home, and those of other platforms with their accounts.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    let store = team.swarm.store();
    let accounts = store.accounts().list().await.map_err(ApiError::explained)?;
    let people = store.people().list().await.map_err(ApiError::explained)?;
    Ok(axum::Json(json!({"accounts": accounts, "people": people})))
}

/// Adds a person to the home.
pub(crate) async fn add(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(wanted): JsonBody<AddPerson>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let new = NewPerson {
        name: wanted.name,
        role: wanted.role,
        agents: wanted.agents,
        channels: wanted.channels,
        day_tokens: wanted.day_tokens,
        day_cost: wanted.day_cost_micros,
    };
    let added = home_person::add(team.swarm.store(), &team.swarm.config(), &by, new).await?;
    Ok((StatusCode::CREATED, axum::Json(json!(added))))
}

/// Returns a person of the home with their tokens and browsers, and what is used of their budget today.
pub(crate) async fn show(State(team): State<TeamState>, Path(name): Path<String>) -> JsonResult {
    let store = team.swarm.store();
    let person = home_person::find(store, &name).await?;
    let mut tokens = store.tokens().list().await.map_err(ApiError::explained)?;
    tokens.retain(|token: &ClientToken| token.person.as_ref() == Some(&person.name));
    let mut browsers = store.sign_ins().list().await.map_err(ApiError::explained)?;
    let now = unix_ms();
    browsers.retain(|browser: &SignIn| browser.person == person.name && browser.is_good(now));
    let mut shown = json!(person);
    shown["tokens"] = json!(tokens);
    shown["browsers"] = json!(browsers.len());
    shown["budget"] = used_today(&team, &person).await?;
    Ok(axum::Json(shown))
}

/// Returns what is used of a person's budget today, or `null` if the person has none.
async fn used_today(team: &TeamState, person: &Person) -> Result<Value, ApiError> {
    let Some(limit) = budget::person_limit(person) else { return Ok(Value::Null) };
    // Days are those of this machine's time zone.
    let now = jiff::Zoned::now();
    let day = budget::day(now.timestamp().as_millisecond(), now.time_zone());
    let usage = team.swarm.store().usage();
    let found = usage.limits_in_use(day.name.clone(), vec![limit]).await.map_err(ApiError::internal)?;
    Ok(budget::use_of_limits(&day, &found)["budgets"][0].take())
}

/// Changes the role, the limits or the budget of a person.
pub(crate) async fn change(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    JsonBody(wanted): JsonBody<ChangePerson>,
) -> JsonResult {
    let by = caller.speaks(wanted.by.as_deref())?;
    let change = PersonChange {
        role: wanted.role,
        agents: wanted.agents,
        channels: wanted.channels,
        day_tokens: wanted.day_tokens,
        day_cost: wanted.day_cost_micros,
    };
    let (store, config) = (team.swarm.store(), team.swarm.config());
    let account = wanted
        .oidc
        .map(|account| account.map(|ChangeAccount { subject, email }| AccountWish { subject, email }));
    let changed = match account {
        Some(wish) if change.is_empty() => home_person::set_account(store, &config, &by, &name, wish).await?,
        Some(wish) => home_person::change_with_account(store, &config, &by, &name, change, wish).await?,
        None => home_person::change(store, &config, &by, &name, change).await?,
    };
    Ok(axum::Json(json!(changed)))
}

/// Removes a person. Their tokens, browsers and streams end.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    Query(who): Query<RemovePersonQuery>,
) -> JsonResult {
    let by = caller.speaks(who.by.as_deref())?;
    home_person::remove(team.swarm.store(), &by, &name).await?;
    Ok(axum::Json(json!({"name": name.to_ascii_lowercase(), "removed": true})))
}

/// Makes a token of a person and returns it. It is never shown again.
pub(crate) async fn add_token(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<String>,
    JsonBody(wanted): JsonBody<CreatePersonToken>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(wanted.by.as_deref())?;
    let made = home_person::add_token(team.swarm.store(), &by, &name, wanted.expires_at).await?;
    let (token, known) = made;
    let mut shown = json!(known);
    // Only a digest of the token is stored, so this response is the only place where it appears.
    shown["token"] = token.into();
    Ok((StatusCode::CREATED, axum::Json(shown)))
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
    check_home_people(&team, &person).await?;
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
    // A person of the home keeps their name, and no account is given it by a renaming.
    for party in [&from, &to] {
        check_home_people(&team, party).await?;
        if is_of_home(&team, party).await? {
            let text = format!("{party} is a person of this home, whose name does not change");
            return Err(SwarmError::Refused(text).into());
        }
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

async fn is_of_home(team: &TeamState, person: &Party) -> Result<bool, ApiError> {
    let Party::Human(name) = person else { return Ok(false) };
    let found = team.swarm.store().people().find(name).await.map_err(ApiError::explained)?;
    Ok(found.is_some())
}

/// Refuses a name that would be taken for a person of the home, unless it is the name of one.
async fn check_home_people(team: &TeamState, person: &Party) -> Result<(), ApiError> {
    let Party::Human(name) = person else { return Ok(()) };
    for known in team.swarm.store().people().list().await.map_err(ApiError::explained)? {
        let is_theirs = known.name == *name && known.is_active();
        if looks_like(&known.name, name) && !is_theirs {
            let text = format!("{person} looks like {}, who is or was a person of this home", known.name);
            return Err(SwarmError::Refused(text).into());
        }
    }
    Ok(())
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
