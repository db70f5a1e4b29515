//! `flock fork`: makes a second agent from an agent.

use serde_json::{Value, json};

use super::checkpoint::TIMEOUT;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::config;
use crate::id::AgentId;
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, TextStyle};

/// Make a second agent that goes on from where an agent is
///
/// The new agent has a copy of the settings, the files, the conversations and the packages. Both go on independently. Where
/// the file system can share blocks, the copy of the files takes no space until it is changed. Works without a gateway, too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of the agent
    agent: AgentId,
    /// Id of the new agent
    #[arg(value_name = "NAME")]
    name: String,
    /// Number of a checkpoint to go on from, as `flock checkpoints` shows it [default: the present state]
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
}

/// Makes the second agent.
///
/// # Errors
///
/// Returns an error if there is no such agent or checkpoint, if the new id is taken, or if a step fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    config::read(&home)?.require_agent(&args.agent)?;
    let name: AgentId = args.name.parse()?;
    let body = json!({"name": name, "checkpoint": args.checkpoint, "by": person::name()});
    let call = Call::post(&format!("/api/agents/{}/fork", args.agent)).json(&body)?;
    let done = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Unsent, TIMEOUT))?;
    let made = &done.answer["fork"];
    let line = StyledLine::new().with(TextStyle::Good, "made").plain(" ").accent(name.as_str());
    let line = line.plain(format!(" from {}, with {} conversations", args.agent, made["sessions"]));
    context.printer.result(&done.answer, line);
    for warning in made["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        context.printer.warn(warning);
    }
    Ok(Exit::Done)
}
