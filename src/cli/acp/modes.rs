//! The modes of a session: the agent's autonomy, which is a setting of the agent and so counts in all its sessions.

use agent_client_protocol::v1::schema::{SessionMode, SessionModeState};
use serde_json::json;

use super::host::Host;
use super::open_session::{OpenSession, Place};
use crate::cli::Failure;
use crate::config::setting::{self, Setting};
use crate::config::{self, Autonomy};
use crate::error::Kind;

/// All modes, with their names and what they mean.
const MODES: [(Autonomy, &str, &str); 3] = [
    (Autonomy::Readonly, "Read only", "The agent looks at things and changes nothing"),
    (Autonomy::Supervised, "Supervised", "The agent asks before actions that are hard to undo"),
    (Autonomy::Full, "Full", "The agent acts on its own in its sandbox"),
];

/// Returns the modes of a session. A channel has none, because each of its agents has its own autonomy.
///
/// # Errors
///
/// Returns an error if the configuration is not valid or has lost the agent.
pub(super) fn of(host: &Host, session: &OpenSession) -> Result<Option<SessionModeState>, Failure> {
    let Place::Agent { agent, .. } = &session.place else { return Ok(None) };
    let config = config::read(&host.context.home()?)?;
    let now = config.require_agent(&agent.id)?.autonomy;
    let modes = MODES.iter().map(|(autonomy, name, what)| {
        SessionMode::new(autonomy.as_str(), *name).description((*what).to_owned())
    });
    Ok(Some(SessionModeState::new(now.as_str(), modes.collect())))
}

/// Changes the autonomy of the session's agent, as `flock edit AGENT --autonomy` does.
///
/// # Errors
///
/// Returns an error if there is no such mode, or if the configuration can't be changed.
pub(super) async fn set(host: &Host, session: &OpenSession, mode: &str) -> Result<(), Failure> {
    let Place::Agent { agent, .. } = &session.place else {
        return Err(Failure::new(Kind::Usage, "the session of a channel has no modes"));
    };
    let Some((autonomy, ..)) = MODES.iter().find(|(autonomy, ..)| autonomy.as_str() == mode) else {
        let text = format!("there is no mode {}", crate::clean::summary(mode, 40));
        return Err(Failure::new(Kind::Usage, text).hint("flock edit --help"));
    };
    let home = host.context.writable_home()?;
    let (id, value) = (agent.id.clone(), json!(autonomy.as_str()));
    // The editor of the configuration waits for other writers, which blocks the thread.
    let edited = tokio::task::spawn_blocking(move || {
        config::edit(&home, |document| setting::set(document, &id, &[(Setting::Autonomy, value)]))?;
        Ok::<_, Failure>(())
    });
    edited.await.map_err(|error| Failure::with_cause("failed to change the mode", &error))?
}
