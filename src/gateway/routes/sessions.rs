//! `/api/sessions`: lists sessions and their turns, and shows, compacts, resets or imports a session.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::JsonResult;
use crate::agent::session::ContextReport;
use crate::agent::transcript::Record;
use crate::agent::{Command, TurnError, TurnRequest};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::driver::{ActiveTurn, TurnHandle, TurnOrigin};
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query};
use crate::gateway::peers;
use crate::gateway::state::Gateway;
use crate::gateway::turn_error::{failure, refusal};
use crate::home::reverse_lines::ReverseLines;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::{Message, Role};
use crate::store::{Level, NewSession};
use crate::swarm::Actor;

/// The query parameters of the list.
#[derive(Debug, Deserialize)]
pub(crate) struct SessionListQuery {
    agent: Option<String>,
}

/// A transcript that is in its place already, and the session that it becomes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportSession {
    key: SessionKey,
    file: String,
}

/// Returns the sessions, and the turns that run or wait.
pub(crate) async fn list(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Query(filter): Query<SessionListQuery>,
) -> JsonResult {
    let agent = filter.agent.map(|agent| gateway.agent(&agent)).transpose()?.map(|agent| agent.id);
    agent.as_ref().map_or(Ok(()), |agent| caller.check_agent(agent))?;
    let mut sessions = match caller.agents() {
        // The list is read for each of the caller's agents, because its length is limited and the sessions of other
        // agents would use it up.
        Some(agents) if agent.is_none() => {
            let mut all = Vec::new();
            for agent in agents {
                all.extend(gateway.records.sessions(Some(agent)).await?);
            }
            all
        }
        _ => gateway.records.sessions(agent.as_ref()).await?,
    };
    if caller.home_person().is_some() {
        // The sessions that other people have are not shown.
        let key = |session: &Value| session["key"].as_str().and_then(|key| key.parse::<SessionKey>().ok());
        sessions.retain(|session| key(session).is_some_and(|key| caller.sees_session(&key)));
    }
    let mut turns = peers::turns(&gateway).await;
    turns.extend(shown_turns(&gateway));
    // The oldest first, so those of a session that wait stand in the order of its queue.
    turns.sort_by_key(|turn| (turn.since, turn.turn));
    // This gateway knows only of its own turns that a session is busy.
    let busy: BTreeSet<&str> = turns.iter().map(|turn| turn.session.as_str()).collect();
    for session in &mut sessions {
        if session["key"].as_str().is_some_and(|key| busy.contains(key)) {
            session["busy"] = true.into();
        }
    }
    turns.retain(|turn| {
        agent.as_ref().is_none_or(|agent| turn.agent == *agent) && caller.sees_session(&turn.session)
    });
    Ok(axum::Json(json!({"sessions": sessions, "turns": turns})))
}

/// A turn that runs or waits, as the list shows it.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::gateway) struct ShownTurn {
    pub turn: TurnId,
    pub agent: AgentId,
    pub session: SessionKey,
    /// One of `running` and `waiting`.
    pub state: String,
    /// The message of one that waits, and its sender.
    pub text: Option<String>,
    pub by: Option<String>,
    /// Unix milliseconds at which it began, or began to wait.
    pub since: i64,
}

/// Returns the turns that run or wait at this gateway.
pub(in crate::gateway) fn shown_turns(gateway: &Gateway) -> Vec<ShownTurn> {
    let shown = |(turn, active): (TurnId, ActiveTurn)| {
        let state = if active.waits() { "waiting" } else { "running" }.to_owned();
        let (text, by) = active.waiting.map(|message| (message.text, message.by)).unzip();
        let (agent, session, since) = (active.agent, active.session, active.since);
        ShownTurn { turn, agent, session, state, text, by: by.flatten(), since }
    };
    gateway.driver.list().into_iter().map(shown).collect()
}

/// Returns what a session's next request would hold.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> JsonResult {
    let key = readable_key(&gateway, &caller, &key).await?;
    let report = report(&gateway, key).await?;
    Ok(axum::Json(json!(report)))
}

/// Compacts a session, after the turns that wait for it.
pub(crate) async fn compact(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> JsonResult {
    let key = controlled_key(&gateway, &caller, &key).await?;
    let before = report(&gateway, key.clone()).await?.compaction.map(|last| last.at);
    command(&gateway, &caller, &key, Command::Compact).await?;
    // The last compaction is reported only if it is a new one.
    let last = report(&gateway, key).await?.compaction.filter(|last| Some(last.at) != before);
    Ok(axum::Json(json!({"compacted": last})))
}

/// Starts a session anew, after the turns that wait for it.
pub(crate) async fn reset(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Path(key): Path<String>,
) -> JsonResult {
    let key = controlled_key(&gateway, &caller, &key).await?;
    let known = gateway.engine.session(&key).await.map_err(ApiError::explained)?;
    if known.is_none() {
        return Err(failure(TurnError::NoSession(key).into()));
    }
    command(&gateway, &caller, &key, Command::New).await?;
    Ok(axum::Json(json!({"reset": true})))
}

/// Creates the session of a transcript that the command line has checked and put into its place.
pub(crate) async fn adopt(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(adopt): JsonBody<ImportSession>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let ImportSession { key, file } = adopt;
    gateway.agent(key.agent().as_str())?;
    let engine = &gateway.engine;
    let no_file =
        || ApiError::invalid("no_transcript", "there is no imported transcript of this name and key");
    // Only the text of a parsed id is used, because a free name could point outside the folder.
    let file = uuid::Uuid::parse_str(&file).map_err(|_| no_file())?.to_string();
    let path = engine.transcript(&key, &file);
    let wanted = key.clone();
    let is_imported = tokio::task::spawn_blocking(move || is_imported(&path, &wanted));
    if !is_imported.await.map_err(ApiError::internal)? {
        return Err(no_file());
    }
    let new = NewSession { key: key.clone(), file };
    // The row is created only if the key is free, so two imports can't share a session.
    if !engine.store().sessions().create(new, unix_ms()).await.map_err(ApiError::explained)? {
        return Err(ApiError::conflict("session_exists", format!("session {key} exists already")));
    }
    record(&gateway, &caller, &key, "session.import").await?;
    Ok((StatusCode::CREATED, axum::Json(json!({"key": key}))))
}

/// Returns `true` if the file is a transcript of this session and ends with the record of an import.
fn is_imported(path: &std::path::Path, key: &SessionKey) -> bool {
    use std::io::BufRead as _;
    // The file is opened as a regular file only, so that a link or a pipe is refused.
    let Ok(file) = crate::home::regular::open(path) else { return false };
    let last = ReverseLines::new(&file).ok().and_then(|mut tail| {
        let line = tail.next_line().ok()??;
        Record::parse(line).ok()
    });
    let mut first = Vec::new();
    let begins = std::io::BufReader::new(&file).read_until(b'\n', &mut first).is_ok()
        && matches!(Record::parse(first.trim_ascii_end()), Ok(Record::Session(header)) if header.key == *key);
    begins && matches!(last, Some(Record::Imported(_)))
}

/// Parses the key of a session of an agent that exists, and returns it in its stored spelling.
async fn parse_key(gateway: &Gateway, key: &str) -> Result<SessionKey, ApiError> {
    let key = session_key(key)?;
    gateway.agent(key.agent().as_str())?;
    gateway.swarm.store().sessions().canonical_key(&key).await.map_err(ApiError::internal)
}

/// Parses the key of a session as [`parse_key`] does, and refuses it if the caller can't see it.
pub(super) async fn readable_key(
    gateway: &Gateway,
    caller: &Caller,
    key: &str,
) -> Result<SessionKey, ApiError> {
    let key = parse_key(gateway, key).await?;
    caller.check_agent(key.agent())?;
    check_readable(caller, &key)?;
    Ok(key)
}

/// Parses the key of a session as [`parse_key`] does, and refuses it if the caller may not stop or change it.
pub(super) async fn controlled_key(
    gateway: &Gateway,
    caller: &Caller,
    key: &str,
) -> Result<SessionKey, ApiError> {
    let key = parse_key(gateway, key).await?;
    caller.check_agent(key.agent())?;
    caller.check_control(&key)?;
    Ok(key)
}

/// Refuses a session that the caller may not read, as one that does not exist.
pub(super) fn check_readable(caller: &Caller, key: &SessionKey) -> Result<(), ApiError> {
    // A client's token is for whole agents, which is checked elsewhere.
    if caller.home_person().is_none() || caller.sees_session(key) {
        return Ok(());
    }
    Err(failure(TurnError::NoSession(key.clone()).into()))
}

/// Parses a session key.
fn session_key(key: &str) -> Result<SessionKey, ApiError> {
    key.parse().map_err(|error| ApiError::invalid("invalid_session_key", format!("{error}")))
}

/// Parses the key of one of this agent's sessions and returns it in its stored spelling.
pub(super) async fn session_of(
    gateway: &Gateway,
    key: &str,
    agent: &AgentId,
) -> Result<SessionKey, ApiError> {
    let key = session_key(key)?;
    if key.agent() != agent {
        let message = format!("session {key} does not belong to agent {agent}");
        return Err(ApiError::invalid("session_of_another_agent", message));
    }
    gateway.swarm.store().sessions().canonical_key(&key).await.map_err(ApiError::internal)
}

async fn report(gateway: &Gateway, key: SessionKey) -> Result<ContextReport, ApiError> {
    let found = gateway.engine.report(&key).await;
    found.map_err(|error| failure(error.into()))?.ok_or_else(|| failure(TurnError::NoSession(key).into()))
}

/// Runs a command in the session's own queue, so that it never runs beside a turn.
async fn command(
    gateway: &Gateway,
    caller: &Caller,
    key: &SessionKey,
    command: Command,
) -> Result<(), ApiError> {
    let action = match command {
        Command::Compact => "session.compact",
        Command::Context => "session.show",
        Command::New | Command::Fresh => "session.reset",
    };
    // The audit row comes first, so nothing is done that was not recorded.
    record(gateway, caller, key, action).await?;
    queued(gateway, key, command)?.end().await.map_err(failure)?;
    Ok(())
}

/// Puts a command into the session's queue.
pub(super) fn queued(gateway: &Gateway, key: &SessionKey, command: Command) -> Result<TurnHandle, ApiError> {
    let input = vec![Message::text(Role::User, command.as_str())];
    let order = TurnRequest { command: Some(command), ..TurnRequest::new(key.clone(), TurnId::new(), input) };
    gateway.driver.start(order, TurnOrigin::Request, CancellationToken::new(), |_| {}).map_err(refusal)
}

pub(super) async fn record(
    gateway: &Gateway,
    caller: &Caller,
    key: &SessionKey,
    action: &'static str,
) -> Result<(), ApiError> {
    let by = Actor { session: Some(key.clone()), ..Actor::party(caller.party()?) };
    let entry = by.entry(action, key.as_str(), Level::Green, String::new());
    gateway.swarm.store().audit().append(entry, unix_ms()).await.map_err(ApiError::explained)
}
