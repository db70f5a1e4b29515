//! `flock rename`: gives an agent another id.

use serde_json::json;

use super::{Context, Exit, Failure, pending_operations, person, start, stop, team};
use crate::clock::unix_ms;
use crate::config::{self, Config, ConfigError};
use crate::error::Kind;
use crate::home::Home;
use crate::home::elsewhere;
use crate::home::lock::Lock;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::id::{AgentId, IdError};
use crate::store::Store;
use crate::supervise::control::{ControlConnection, ControlRequest};
use crate::swarm::person::why_not_agent;
use crate::ui::{StyledLine, TextStyle};

/// Change an agent's id
///
/// Changes the id everywhere: configuration, workspace, transcripts, sessions, channels, grants, packages, card and
/// budgets. The audit keeps the old id. A running gateway is restarted. If a rename was interrupted, the same command
/// or the next start finishes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Present id of the agent
    pub old: String,
    /// New id: a-z, 0-9, '-' and '_', at most 63 characters
    pub new: String,
}

/// Renames the agent.
///
/// # Errors
///
/// Returns an error if there is no such agent, if the new id or something of it is taken, or if a step failed. The same
/// command continues after a failed step.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let parse = |id: &str| id.parse().map_err(|error: IdError| Failure::from(error).hint("flock list"));
    let (old, new): (AgentId, AgentId) = (parse(&args.old)?, parse(&args.new)?);
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let restart = context.block_on(rename(&home, &config, &old, &new, context))?;
    let line = StyledLine::new().accent(old.as_str()).plain(" is ").accent(new.as_str());
    let value = json!({"renamed": old, "to": new, "restarted": restart});
    context.printer.result(&value, line.with(TextStyle::Good, " now"));
    Ok(Exit::Done)
}

/// Renames the agent. Returns `true` if a gateway was restarted for it.
async fn rename(
    home: &Home,
    config: &Config,
    old: &AgentId,
    new: &AgentId,
    context: &Context,
) -> Result<bool, Failure> {
    let begun = pending::read(home, old)?;
    // An interrupted rename has already changed a part, so these checks would fail on its own work.
    if begun.is_none() {
        check(home, config, old, new).await?;
    }
    // Refused before anything is stopped, because the work of all agents here would stop for nothing.
    if let Some(other) = team::other_gateway(home)? {
        let text = format!(
            "the gateway of {} at {} runs too, and an agent is renamed only while no other one does; nothing was changed",
            other.name, other.address
        );
        return Err(Failure::new(Kind::Conflict, text).hint("end it on its machine, and try again"));
    }
    let runs = is_supervised(home).await?;
    // While this lock is held nothing can be started.
    let halted = if runs { Some(stop::end(home).await?) } else { None };
    // A gateway may also run without a supervisor, started by hand with `flock gateway serve`.
    if halted.as_ref().is_some_and(|halted| halted.lock.is_none()) || Lock::is_held(&home.gateway_lock())? {
        return Err(Failure::new(Kind::Conflict, "a gateway of this home runs and could not be stopped")
            .hint("flock stop"));
    }
    let allowed = team::require_no_gateway(home).and_then(|()| Ok(pending::lock(home)?));
    let planned = match allowed {
        // Another home's gateway was started meanwhile.
        Err(refused) => Err(refused),
        Ok(_lock) => {
            let planned = planned(home, old, new, runs).await;
            if let Ok(pending) = &planned {
                pending::write(home, pending)?;
                pending_operations::OperationRunner::here(home)?.finish(pending.clone(), context).await?;
            }
            planned
        }
    };
    // The lock must be released before the start below.
    drop(halted);
    // An interrupted rename may have stopped a gateway, which has to run again. The gateway that was stopped above runs
    // again even if the rename was refused after that.
    let restart = runs
        || planned
            .as_ref()
            .is_ok_and(|pending| matches!(pending.operation, AgentOperation::Rename { restart: true, .. }));
    if restart {
        let config = config::read(home)?;
        let status = start::ensure_running(home, &config, ControlRequest::Start).await?;
        start::openclaw_failure(&status).map_or(Ok(()), Err)?;
    }
    planned.map(|_| restart)
}

/// Returns the rename to carry out: the interrupted one, or a new one. The caller must hold [`pending::lock`].
async fn planned(
    home: &Home,
    old: &AgentId,
    new: &AgentId,
    restart: bool,
) -> Result<PendingOperation, Failure> {
    if let Some(begun) = pending::read(home, old)? {
        let same = matches!(&begun.operation, AgentOperation::Rename { to, .. } if to == new);
        return if same { Ok(begun) } else { Err(pending_operations::unfinished(&begun)) };
    }
    // Another process may have taken the new id, or removed the agent, while this one waited for the lock.
    let config = config::read(home)?;
    check(home, &config, old, new).await?;
    let agent = config.require_agent(old)?;
    Ok(PendingOperation {
        agent: old.clone(),
        operation: AgentOperation::Rename { to: new.clone(), workspace: agent.workspace.clone(), restart },
        by: person::party().to_string(),
        begun_at: unix_ms(),
        configured: false,
    })
}

/// Checks that the agent exists and that the new id is not used by an agent, an operation, files or sessions.
async fn check(home: &Home, config: &Config, old: &AgentId, new: &AgentId) -> Result<(), Failure> {
    let agent = config.require_agent(old)?;
    if config.agent(new).is_some() {
        return Err(ConfigError::Exists(new.clone()).into());
    }
    // It is known there by the name of its agent.
    if let Some(engine) = elsewhere::engine_of(&agent.workspace) {
        let text = format!(
            "the workspace of {old} is on the engine {engine}, on another machine, and can't be renamed there"
        );
        return Err(Failure::new(Kind::Conflict, text).hint(format!("flock engine drain {engine}")));
    }
    if let Some(unfinished) = pending::read(home, new)? {
        return Err(pending_operations::unfinished(&unfinished));
    }
    let store = Store::open(home)?;
    if let Some(why) = why_not_agent(&store.people().list().await?, new) {
        return Err(Failure::new(Kind::Conflict, why).hint("flock person list"));
    }
    if home.agent(new).exists() || home.workspace(new).exists() || store.agents().has_data(new).await? {
        let text = format!("files or sessions of a removed agent {new} still exist");
        return Err(Failure::new(Kind::Conflict, text).hint(format!("flock remove {new} --purge")));
    }
    // The id is part of the keys of the agent's sessions, so a longer id makes them longer.
    let longer = new.as_str().len().saturating_sub(old.as_str().len());
    if longer > 0 && store.agents().longest_session_key(old).await? + longer > MAX_KEY_BYTES {
        let text = format!("{new} is too long for the key of one of {old}'s sessions");
        return Err(Failure::new(Kind::Usage, text).hint("flock session list"));
    }
    Ok(())
}

/// Returns `true` if a supervisor runs that can be restarted from here.
///
/// A supervisor in the foreground belongs to a service manager and is refused with an error.
async fn is_supervised(home: &Home) -> Result<bool, Failure> {
    if !Lock::is_held(&home.supervisor_lock())? {
        return Ok(false);
    }
    match ControlConnection::status(home, start::QUICK).await {
        Some(status) if status.foreground => {
            let text =
                "flock runs in the foreground, for example under a service manager; stop it there first";
            Err(Failure::new(Kind::Conflict, text).hint("systemctl --user stop flock"))
        }
        _ => Ok(true),
    }
}

/// Length in bytes of the longest key that a session can have.
const MAX_KEY_BYTES: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_another_process_did_before_the_lock_was_free_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().to_owned(), None);
        let configured = |ids: &[&str]| {
            let list: Vec<_> = ids
                .iter()
                .map(|id| json!({"id": id, "workspace": home.workspace(&id.parse().unwrap())}))
                .collect();
            let own: Vec<_> = ids.iter().map(|id| json!({"id": id})).collect();
            let document = json!({
                "gateway": {"auth": {"token": "t"}},
                "agents": {"list": list},
                "plugins": {"entries": {"flock": {"config": {"gatewayAgents": own}}}},
            });
            std::fs::write(home.config(), document.to_string()).unwrap();
        };
        let (ada, bob, eve): (AgentId, AgentId, AgentId) =
            ("ada".parse().unwrap(), "bob".parse().unwrap(), "eve".parse().unwrap());
        configured(&["ada", "bob"]);
        let pending = planned(&home, &ada, &eve, false).await.unwrap();
        assert_eq!(pending.agent, ada);
        // Another process renamed bob first.
        configured(&["ada", "eve"]);
        assert_eq!(planned(&home, &ada, &eve, false).await.unwrap_err().kind, Kind::Conflict);
        assert!(planned(&home, &bob, &eve, false).await.is_err(), "there is no bob any more");
    }
}
