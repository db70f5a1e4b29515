//! `flock remove`: takes an agent out of the team.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{Context, Exit, Failure, person, settled, team};
use crate::clock::unix_ms;
use crate::config::{self, Agent, Config, ConfigError, agents};
use crate::error::Kind;
use crate::home::Home;
use crate::home::clear::clear;
use crate::id::{AgentId, IdError, Party};
use crate::openclaw::{identity, state};
use crate::sandbox::engine::Engine;
use crate::sandbox::names;
use crate::store::{AuditEntry, Level, Store};
use crate::ui::{Line, Tone, ask};

/// Remove an agent
///
/// Takes it out of the configuration and removes its container. Its workspace and transcripts stay, unless
/// --purge is given.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its id
    pub id: String,
    /// Delete its workspace and transcripts, too, after asking
    #[arg(long)]
    pub purge: bool,
}

/// Removes the agent.
///
/// # Errors
///
/// If there is no such agent, deleting was not agreed to, or its container could not be removed.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let id: AgentId = args.id.parse().map_err(|error: IdError| Failure::from(error).hint("flock list"))?;
    let home = context.home_to_change()?;
    let config = config::read(&home)?;
    let Some(agent) = config.agent(&id).cloned() else { return Err(ConfigError::Unknown(id).into()) };
    if args.purge && !context.yes() {
        agree(&home, &agent, context)?;
    }
    let kept = context.block_on(async {
        let gateway = team::gateway(&home, &config).await?;
        if gateway.is_none() {
            team::require_none(&home)?;
        }
        config::edit(&home, |document| agents::remove(document, &id))?;
        let removed = match &gateway {
            Some(gateway) => team::release(gateway, &id).await,
            None => team::unmake(&home, &config, &id).await,
        };
        if let Err(failure) = removed {
            let name = names::sandbox(&home, &id);
            context.printer.warn(&format!("the container {name} may be left: {}", failure.text()));
        }
        revoke(&home, &id).await?;
        identity::forget_role(&home, &id)?;
        if args.purge {
            purge(&home, &config, &agent).await?;
            forget(&home, &id, context).await?;
        }
        Ok::<_, Failure>(left(&home, &agent))
    })?;
    if context.printer.json_wanted() {
        context.printer.json(&json!({"removed": id, "purged": args.purge, "kept": kept}));
        return Ok(Exit::Done);
    }
    context.printer.line(Line::new().with(Tone::Good, "removed").plain(" ").accent(id.as_str()));
    for path in kept {
        context.printer.say(Line::new().plain("kept ").accent(path.display().to_string()));
    }
    Ok(Exit::Done)
}

/// What it was granted and what it still waits for ends with it: an agent that gets the same id later is
/// another one.
async fn revoke(home: &Home, id: &AgentId) -> Result<(), Failure> {
    if !home.database().exists() {
        return Ok(());
    }
    let entry = AuditEntry {
        actor: Party::human(&person::login()).to_string(),
        action: "request.revoke",
        subject: id.to_string(),
        level: Level::Yellow,
        detail: "the agent was removed".to_owned(),
        session: None,
        turn: None,
    };
    let removed = AuditEntry { action: "agent.remove", ..entry.clone() };
    let store = Store::open(home)?;
    store.revoke_grants(id.clone(), None, entry, unix_ms()).await?;
    store.audit(removed, unix_ms()).await?;
    Ok(())
}

fn agree(home: &Home, agent: &Agent, context: &Context) -> Result<(), Failure> {
    if !context.may_ask() {
        let text = format!("deleting the workspace and transcripts of {} needs a yes", agent.id);
        return Err(Failure::new(Kind::Usage, text).hint(format!("flock remove {} --purge --yes", agent.id)));
    }
    let question =
        format!("Delete {} and {} for good?", agent.workspace.display(), home.agent(&agent.id).display());
    if ask::confirm(&question, false)? {
        Ok(())
    } else {
        Err(Failure::new(Kind::Failed, format!("agent {} was not removed", agent.id)))
    }
}

/// Deletes what is the agent's in the home. A workspace elsewhere is a person's own folder and stays.
async fn purge(home: &Home, config: &Config, agent: &Agent) -> Result<(), Failure> {
    if home.database().exists() {
        let store = Store::open(home)?;
        let sessions = store.sessions(Some(&agent.id), u32::MAX)?;
        store.forget_sessions(sessions.into_iter().map(|session| session.key).collect()).await?;
    }
    delete(&home.agent(&agent.id))?;
    if agent.workspace == home.workspace(&agent.id) {
        delete(&agent.workspace)?;
    }
    // Packages are only a name less that keeps them; where no store runs there is nothing to forget.
    let packages = team::store(home, config, Arc::new(Engine::from_env()));
    if packages.state().await.is_ok_and(|state| state.state == "running") {
        packages.forget(&agent.id).await?;
    }
    Ok(())
}

/// Deletes the agent's conversations in OpenClaw. One that runs would write them again as long as it has the agent.
async fn forget(home: &Home, id: &AgentId, context: &Context) -> Result<(), Failure> {
    let folders = state::of_agent(home, id);
    if folders.is_empty() {
        return Ok(());
    }
    let progress = context.printer.progress("waiting until OpenClaw no longer has the agent");
    if !settled::has_dropped(home, id, PATIENCE).await {
        drop(progress);
        let text = format!("OpenClaw still has the agent {id}: its conversations there are not deleted");
        // A restart puts what was changed in place.
        let mends: Vec<String> =
            folders.iter().map(|folder| format!("rm -r '{}'", folder.display())).collect();
        return Err(Failure::new(Kind::Failed, text).hint(format!("flock restart && {}", mends.join(" && "))));
    }
    progress.done("OpenClaw no longer has the agent");
    folders.iter().try_for_each(|folder| delete(folder))
}

fn left(home: &Home, agent: &Agent) -> Vec<PathBuf> {
    let own = [agent.workspace.clone(), home.agent(&agent.id)].into_iter().filter(|folder| folder.exists());
    own.chain(state::of_agent(home, &agent.id)).collect()
}

/// How long OpenClaw may take to do without an agent: it is asked first whether it takes its new configuration, and
/// may be started anew.
const PATIENCE: Duration = Duration::from_secs(240);

/// Links in the folder are removed, not followed.
fn delete(folder: &Path) -> Result<(), Failure> {
    let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else { return Ok(()) };
    clear(above, Path::new(name)).map_err(|(stuck, _)| {
        Failure::caused(format!("failed to delete {}", stuck.path.display()), &stuck.error)
    })
}
