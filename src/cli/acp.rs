//! `flock acp`: an editor's way to an agent or a channel, by the Agent Client Protocol over stdin and stdout.
//!
//! The verb is a client of the running gateway like `flock chat`: it uses the documented routes with the owner's token,
//! and keeps nothing of its own but what the editor has open.

mod agent_turn;
mod channel_turn;
mod events;
mod follow;
mod history;
mod host;
mod modes;
mod open_session;
mod outlet;
mod permission;
mod plan;
mod prompt_content;
mod rpc_error;
mod server;
mod session_list;
mod slash;
mod tool_view;
mod transport;
mod turn_view;

use std::io::IsTerminal as _;
use std::sync::Arc;

use super::{Context, Exit, Failure};
use crate::id::{AgentId, ChannelId};

use host::{Host, Target};

/// Connect an editor to an agent or a channel
///
/// Speaks the Agent Client Protocol (ACP) on stdin and stdout, so an editor runs this command, and no person. The
/// gateway must be running. Requests of the agent that need a person's approval appear in the editor.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock acp
  flock acp --agent coder
  flock acp --channel release")]
pub(crate) struct Args {
    /// Agent to talk to [default: the orchestrator]
    #[arg(long, value_name = "ID", conflicts_with = "channel")]
    agent: Option<AgentId>,
    /// Channel to talk to, with all agents who are its members
    #[arg(long, value_name = "ID")]
    channel: Option<ChannelId>,
}

/// Serves one editor until it closes stdin.
///
/// # Errors
///
/// Returns an error if stdout can't be written. All other errors are answers to the editor's requests.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if std::io::stdin().is_terminal() {
        context.printer.say("waiting for an editor's messages on stdin; end with Ctrl-D");
    }
    let target = match (&args.agent, &args.channel) {
        (_, Some(channel)) => Target::Channel(channel.clone()),
        (Some(agent), None) => Target::Agent(agent.clone()),
        (None, None) => Target::Orchestrator,
    };
    // Nothing but the protocol may appear, so messages of the parts below are silenced.
    let host = Arc::new(Host::new(context.silent(), target));
    context.block_on(server::serve(host))
}
