//! `flock remove`: removes an agent from the team.

use std::path::PathBuf;

use serde_json::json;

use super::{Context, Exit, Failure, pending_operations, person};
use crate::cli::database;
use crate::clock::unix_ms;
use crate::config::{self, ConfigError};
use crate::error::Kind;
use crate::home::Home;
use crate::home::pending::{self, AgentOperation, PendingOperation};
use crate::id::{AgentId, IdError};
use crate::openclaw::state;
use crate::ui::{StyledLine, TextStyle};

/// Remove an agent
///
/// Removes the agent from the configuration, and removes its container. The workspace and the transcripts stay, unless
/// --purge is given. If a removal was interrupted, the same command finishes it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the agent
    pub id: String,
    /// Also delete the workspace and the transcripts, after a confirmation
    ///
    /// Can be used for an agent that was removed before.
    #[arg(long)]
    pub purge: bool,
}

/// Removes the agent.
///
/// # Errors
///
/// Returns an error if there is no such agent, if the person did not agree to deleting, or if a step failed. The same
/// command continues after a failed step.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let id: AgentId = args.id.parse().map_err(|error: IdError| Failure::from(error).hint("flock list"))?;
    let home = context.writable_home()?;
    let pending = plan_removal(args, &id, &home)?;
    // An interrupted removal that deletes was already agreed to.
    if args.purge && !context.yes() && !pending::read(&home, &id)?.is_some_and(|begun| begun.purges()) {
        agree(&home, &pending, context)?;
    }
    let purges = pending.purges();
    let workspace = workspace_of(&pending);
    context.block_on(async {
        let operator = pending_operations::OperationRunner::open(&home).await?;
        let _lock = pending::lock(&home)?;
        // The configuration may have changed while another process held the lock.
        let pending = plan_removal(args, &id, &home)?;
        // From here on the removal is written down, so that it is completed even after a crash.
        pending::write(&home, &pending)?;
        operator.finish(pending, context).await
    })?;
    let kept = remaining_paths(&home, &id, workspace);
    let line = StyledLine::new().with(TextStyle::Good, "removed").plain(" ").accent(id.as_str());
    context.printer.result(&json!({"removed": id, "purged": purges, "kept": kept}), line);
    for path in kept {
        context.printer.say(StyledLine::new().plain("kept ").accent(path.display().to_string()));
    }
    Ok(Exit::Done)
}

/// Returns the removal to carry out: the interrupted one, or a new one.
fn plan_removal(args: &Args, id: &AgentId, home: &Home) -> Result<PendingOperation, Failure> {
    let config = config::read(home)?;
    let agent = config.agent(id);
    let begun = pending::read(home, id)?;
    let (purged, removed_from) = match begun.as_ref().map(|begun| &begun.operation) {
        Some(AgentOperation::Remove { purge, workspace }) => (*purge, Some(workspace.clone())),
        Some(AgentOperation::Rename { .. }) | None => (false, None),
    };
    if let Some(rename) = &begun
        && matches!(rename.operation, AgentOperation::Rename { .. })
    {
        return Err(pending_operations::unfinished(rename));
    }
    // With `--purge` the leftovers of an agent that was removed earlier can be deleted too.
    if agent.is_none() && begun.is_none() && !(args.purge && has_leftovers(home, id)?) {
        return Err(ConfigError::Unknown(id.clone()).into());
    }
    let workspace = removed_from.or_else(|| agent.map(|agent| agent.workspace.clone()));
    let operation = AgentOperation::Remove {
        // An interrupted removal keeps its own choice. A second command can add deleting, but can't take it back.
        purge: args.purge || purged,
        workspace: workspace.unwrap_or_else(|| home.workspace(id)),
    };
    Ok(match begun {
        // If an agent with this id was added since the interruption, the command means that one.
        Some(begun) => {
            PendingOperation { operation, configured: begun.configured && agent.is_none(), ..begun }
        }
        None => PendingOperation {
            agent: id.clone(),
            operation,
            by: person::party().to_string(),
            begun_at: unix_ms(),
            configured: false,
        },
    })
}

/// Returns `true` if an agent that was removed earlier left files or sessions.
fn has_leftovers(home: &Home, id: &AgentId) -> Result<bool, Failure> {
    if home.agent(id).exists() || home.workspace(id).exists() {
        return Ok(true);
    }
    let sessions = database::read(home, async |reader| reader.sessions().list(Some(id), 1).await)?;
    Ok(sessions.is_some_and(|sessions| !sessions.is_empty()))
}

fn workspace_of(pending: &PendingOperation) -> PathBuf {
    match &pending.operation {
        AgentOperation::Remove { workspace, .. } | AgentOperation::Rename { workspace, .. } => {
            workspace.clone()
        }
    }
}

fn agree(home: &Home, pending: &PendingOperation, context: &Context) -> Result<(), Failure> {
    let id = &pending.agent;
    let text = format!("deleting the workspace and transcripts of {id} must be confirmed");
    let unasked = Failure::new(Kind::Usage, text).hint(format!("flock remove {id} --purge --yes"));
    let workspace = workspace_of(pending);
    let question = format!("Delete {} and {} for good?", workspace.display(), home.agent(id).display());
    context.confirm(&question, unasked, &format!("agent {id} was not removed"))
}

fn remaining_paths(home: &Home, id: &AgentId, workspace: PathBuf) -> Vec<PathBuf> {
    let own = [workspace, home.agent(id)].into_iter().filter(|folder| folder.exists());
    own.chain(state::of_agent(home, id)).collect()
}
