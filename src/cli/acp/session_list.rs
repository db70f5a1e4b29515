//! Sessions as the editor opens and lists them. Their ids are keys of flock's sessions, or name the channel.

use std::path::PathBuf;
use std::sync::Arc;

use agent_client_protocol::v1::schema::{ListSessionsResponse, SessionId, SessionInfo};
use futures_util::future::join_all;
use jiff::Timestamp;
use serde_json::Value;

use super::history;
use super::host::{AgentView, Host, TIMEOUT, Target};
use super::open_session::{OpenSession, Place, Seen};
use super::outlet::Outlet;
use crate::cli::{Failure, person};
use crate::error::Kind;
use crate::id::{ChannelId, SessionKey, SessionKind};
use crate::supervise::gateway_client::Client;

/// Between the person and the number of a session that an editor began.
const MARK: &str = ":acp:";
/// Before the id of a channel, in the id of a session that shows it.
const CHANNEL: &str = "channel:";
/// Number of sessions that a list has at most.
const MAX_LISTED: usize = 50;
/// Length of a title in characters.
const MAX_TITLE: usize = 60;

/// Begins a new conversation with the agent, or opens the channel.
///
/// # Errors
///
/// Returns an error if the gateway can't be asked, or does not know the agent or the channel.
pub(super) async fn create(host: &Host) -> Result<Arc<OpenSession>, Failure> {
    let gateway = host.gateway().await?;
    // Two views of one channel have different ids, because editors tell sessions apart by them.
    let number = uuid::Uuid::new_v4().simple().to_string();
    let number = number.get(..8).unwrap_or(&number);
    let session = if let Target::Channel(channel) = &host.target {
        let found = host.channel(&gateway, channel).await?;
        let seen = Seen { message: found["lastSeq"].as_u64().unwrap_or_default(), ..Seen::default() };
        OpenSession::new(format!("{CHANNEL}{channel}:{number}"), Place::Channel(channel.clone()), seen)
    } else {
        let agent = host.agent(&gateway).await?;
        let peer = format!("{}{MARK}{number}", person::login());
        let key = SessionKey::new(&agent.id, SessionKind::Main, &peer);
        OpenSession::new(key.to_string(), Place::Agent { key, agent }, Seen::default())
    };
    host.open(session)
}

/// Opens an earlier session. With an outlet, the editor gets what was said in it.
///
/// # Errors
///
/// Returns an error if there is no such session of the agent or channel, or if it can't be read.
pub(super) async fn load(
    host: &Host,
    id: &str,
    outlet: Option<&Outlet>,
) -> Result<Arc<OpenSession>, Failure> {
    let gateway = host.gateway().await?;
    let unknown = || {
        let text = format!("there is no session {} here", crate::clean::summary(id, 200));
        Failure::new(Kind::Usage, text).hint("flock session list")
    };
    let (place, seen) = if let Target::Channel(channel) = &host.target {
        if !is_of_channel(id, channel) {
            return Err(unknown());
        }
        host.channel(&gateway, channel).await?;
        let last = history::channel(&gateway, channel, outlet).await?;
        (Place::Channel(channel.clone()), Seen { message: last, ..Seen::default() })
    } else {
        let agent = host.agent(&gateway).await?;
        let key: SessionKey = id.parse().map_err(|_| unknown())?;
        if *key.agent() != agent.id || !sessions(&gateway, &agent).await?.iter().any(|one| one["key"] == id) {
            return Err(unknown());
        }
        let last = history::agent(&gateway, &key, &agent, outlet).await?;
        (Place::Agent { key, agent }, Seen { turn: last, ..Seen::default() })
    };
    host.open(OpenSession::new(id.to_owned(), place, seen))
}

/// Returns the person's sessions with the agent, or the channel.
///
/// # Errors
///
/// Returns an error if the gateway can't be asked, or does not know the agent or the channel.
pub(super) async fn list(host: &Host, cwd: Option<PathBuf>) -> Result<ListSessionsResponse, Failure> {
    let gateway = host.gateway().await?;
    if let Target::Channel(channel) = &host.target {
        let found = host.channel(&gateway, channel).await?;
        let title = found["topic"].as_str().unwrap_or_default().to_owned();
        let info = SessionInfo::new(format!("{CHANNEL}{channel}"), folder(cwd, "/")).title(title);
        return Ok(ListSessionsResponse::new(vec![info]));
    }
    let agent = host.agent(&gateway).await?;
    let mut found = sessions(&gateway, &agent).await?;
    found.retain(|one| one["key"].as_str().is_some_and(is_own));
    found.sort_by_key(|one| std::cmp::Reverse(one["updatedAt"].as_i64()));
    found.truncate(MAX_LISTED);
    // flock's sessions belong to no folder, so each of them can be continued in the editor's.
    let cwd = folder(cwd, &agent.workspace);
    let infos = found.iter().map(async |one| {
        let key = one["key"].as_str().unwrap_or_default();
        let at = one["updatedAt"].as_i64().and_then(|at| Timestamp::from_millisecond(at).ok());
        SessionInfo::new(SessionId::new(key), cwd.clone())
            .title(title(&gateway, key).await)
            .updated_at(at.map(|at| at.to_string()))
    });
    Ok(ListSessionsResponse::new(join_all(infos).await))
}

/// Returns `true` for a session that this person has begun, in an editor or with `flock chat`.
fn is_own(key: &str) -> bool {
    let Ok(key) = key.parse::<SessionKey>() else { return false };
    let own = SessionKey::new(key.agent(), SessionKind::Main, &person::login());
    key == own || key.as_str().starts_with(&format!("{own}{MARK}"))
}

/// Returns `true` if the id of a session names this channel.
fn is_of_channel(id: &str, channel: &ChannelId) -> bool {
    let Some(rest) = id.strip_prefix(CHANNEL) else { return false };
    rest.split(':').next().is_some_and(|named| named.eq_ignore_ascii_case(channel.as_str()))
}

/// The folder that a list names: the editor's own, if it said one.
fn folder(cwd: Option<PathBuf>, other: &str) -> PathBuf {
    cwd.unwrap_or_else(|| PathBuf::from(other))
}

async fn sessions(gateway: &Client, agent: &AgentView) -> Result<Vec<Value>, Failure> {
    let path = format!("/api/sessions?agent={}", agent.id);
    let mut listed: Value = gateway.get_json(&path, TIMEOUT).await?;
    Ok(listed["sessions"].as_array_mut().map(std::mem::take).unwrap_or_default())
}

/// Returns the beginning of what the person said last. A session that can't be read is listed without a title.
async fn title(gateway: &Client, key: &str) -> Option<String> {
    let path = format!("/api/sessions/{key}/transcript?limit=1");
    let listed: Value = gateway.get_json(&path, TIMEOUT).await.ok()?;
    let items = listed["turns"][0]["items"].as_array()?;
    let said = items.iter().find(|item| item["kind"] == "message" && item["role"] == "user")?;
    Some(crate::clean::label(said["text"].as_str()?, MAX_TITLE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_persons_own_sessions_and_the_channels_own_ids_are_known() {
        let login = person::login();
        let agent = "coder".parse().unwrap();
        let key = |peer: &str| SessionKey::new(&agent, SessionKind::Main, peer).to_string();
        assert!(is_own(&key(&login)) && is_own(&key(&format!("{login}:acp:12345678"))));
        assert!(!is_own(&key(&format!("{login}x"))) && !is_own(&key("somebody.else")) && !is_own("nonsense"));
        let dev: ChannelId = "dev".parse().unwrap();
        assert!(is_of_channel("channel:dev", &dev) && is_of_channel("channel:Dev:1234", &dev));
        assert!(!is_of_channel("channel:devs", &dev) && !is_of_channel("dev", &dev));
    }
}
