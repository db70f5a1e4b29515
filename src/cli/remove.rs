//! `flock remove`: takes an agent out of the team.

use std::path::Path;

use serde_json::json;

use super::{Context, Exit, Failure, team};
use crate::config::{self, Agent, ConfigError, agents};
use crate::error::Kind;
use crate::home::Home;
use crate::id::AgentId;
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
    let id: AgentId = args.id.parse()?;
    let home = context.home_to_change()?;
    let config = config::read(&home)?;
    let Some(agent) = config.agent(&id).cloned() else { return Err(ConfigError::Unknown(id).into()) };
    if args.purge && !context.yes() {
        agree(&home, &agent, context)?;
    }
    context.block_on(async {
        let gateway = team::gateway(&home, &config).await?;
        config::edit(&home, |document| agents::remove(document, &id))?;
        let removed = match &gateway {
            Some(gateway) => team::release(gateway, &id).await,
            None => team::unmake(&home, &id).await,
        };
        removed.map_err(|mut failure| {
            failure.causes.insert(0, failure.message);
            failure.message =
                format!("agent {id} is out of the configuration, but its container may be left");
            failure
        })
    })?;
    let kept = if args.purge { purge(&home, &agent)? } else { vec![agent.workspace.display().to_string()] };
    if context.printer.json_wanted() {
        context.printer.json(&json!({"removed": id, "purged": args.purge, "kept": kept}));
        return Ok(Exit::Done);
    }
    context.printer.line(Line::new().with(Tone::Good, "removed").plain(" ").accent(id.as_str()));
    for path in kept {
        context.printer.say(Line::new().plain("kept ").accent(path));
    }
    Ok(Exit::Done)
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
fn purge(home: &Home, agent: &Agent) -> Result<Vec<String>, Failure> {
    delete(&home.agent(&agent.id))?;
    if agent.workspace == home.workspace(&agent.id) {
        delete(&agent.workspace)?;
        Ok(Vec::new())
    } else {
        Ok(vec![agent.workspace.display().to_string()])
    }
}

/// Links in the folder are removed, not followed.
fn delete(folder: &Path) -> Result<(), Failure> {
    match fs_err::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::caused(format!("failed to delete {}", folder.display()), &error))
        }
        _ => Ok(()),
    }
}
