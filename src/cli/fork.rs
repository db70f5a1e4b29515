//! `flock fork`: makes a second agent from an agent, or a second channel with a copy of the team of a channel.

use serde_json::{Value, json};

use super::checkpoint::TIMEOUT;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, database, person};
use crate::config::{self, ConfigError};
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, ChannelId};
use crate::supervise::gateway_client::Call;
use crate::ui::{StyledLine, TextStyle};

/// Make a second agent, or a second channel with its team, that goes on from where the first one is
///
/// The new agent has a copy of the settings, the files, the conversations, the packages and the projects. Of a channel, all
/// agents among the members are copied, and the new channel has what was said until then. Both go on independently. Where
/// the file system can share blocks, the copy of the files takes no space until it is changed. Works without a gateway, too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock fork coder coder2
  flock fork '#dev' dev2      # makes #dev2, and coder-dev2 from coder")]
pub(crate) struct Args {
    /// Id of the agent or of the channel; a channel may be written as '#dev'
    #[arg(value_name = "AGENT|CHANNEL")]
    source: String,
    /// Id of the new agent or channel
    #[arg(value_name = "NAME")]
    name: String,
    /// Number of an agent's checkpoint to go on from, as `flock checkpoints` shows it [default: the present state]
    #[arg(long, value_name = "NUMBER")]
    checkpoint: Option<u64>,
}

/// The agent or channel to fork.
enum Source {
    Agent(AgentId),
    Channel(ChannelId),
}

/// Makes the second agent or channel.
///
/// # Errors
///
/// Returns an error if there is no such agent, channel or checkpoint, if the new id is taken, or if a step fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    match source(&home, &args.source)? {
        Source::Agent(agent) => fork_agent(&home, &agent, args, context),
        Source::Channel(channel) => fork_channel(&home, &channel, args, context),
    }
}

/// Finds out if a text names an agent or a channel.
fn source(home: &Home, text: &str) -> Result<Source, Failure> {
    if let Some(channel) = text.strip_prefix('#') {
        return Ok(Source::Channel(channel.parse()?));
    }
    let agent = text.parse::<AgentId>();
    let known = match &agent {
        Ok(agent) => config::read(home)?.agent(agent).is_some(),
        Err(_) => false,
    };
    let channel = match text.parse::<ChannelId>() {
        Ok(channel) => database::read(home, async |reader| reader.channels().find(&channel).await)?.flatten(),
        Err(_) => None,
    };
    match (agent, known, channel) {
        (Ok(_), true, Some(_)) => {
            let text = format!("there are an agent and a channel {text}: write the channel as '#{text}'");
            Err(Failure::new(Kind::Usage, text).hint("flock fork --help"))
        }
        (Ok(agent), true, None) => Ok(Source::Agent(agent)),
        (_, false, Some(channel)) => Ok(Source::Channel(channel.id)),
        (Ok(agent), false, None) => Err(ConfigError::Unknown(agent).into()),
        (Err(error), ..) => Err(error.into()),
    }
}

fn fork_agent(home: &Home, agent: &AgentId, args: &Args, context: &Context) -> Result<Exit, Failure> {
    let name: AgentId = args.name.parse()?;
    let body = json!({"name": name, "checkpoint": args.checkpoint, "by": person::name()});
    let call = Call::post(&format!("/api/agents/{agent}/fork")).json(&body)?;
    let done = context.block_on(Reconnector::new(home, context).send(call, Repeat::Unsent, TIMEOUT))?;
    let made = &done.answer["fork"];
    let line = StyledLine::new().with(TextStyle::Good, "made").plain(" ").accent(name.as_str());
    let line = line.plain(format!(" from {agent}, with {} conversations", made["sessions"]));
    context.printer.result(&done.answer, line);
    warn(&made["warnings"], context);
    Ok(Exit::Done)
}

fn fork_channel(home: &Home, channel: &ChannelId, args: &Args, context: &Context) -> Result<Exit, Failure> {
    if args.checkpoint.is_some() {
        let text = "a channel is forked as it is now: --checkpoint is for an agent";
        return Err(Failure::new(Kind::Usage, text).hint("flock fork --help"));
    }
    let name: ChannelId = args.name.strip_prefix('#').unwrap_or(&args.name).parse()?;
    let body = json!({"name": name, "by": person::name()});
    let call = Call::post(&format!("/api/channels/{channel}/fork")).json(&body)?;
    let done = context.block_on(Reconnector::new(home, context).send(call, Repeat::Unsent, TIMEOUT))?;
    let made = &done.answer["fork"];
    let agents = made["agents"].as_array().into_iter().flatten();
    let agents: Vec<&str> = agents.filter_map(|agent| agent["agent"].as_str()).collect();
    let line = StyledLine::new().with(TextStyle::Good, "made").plain(" ").accent(format!("#{name}"));
    let line =
        line.plain(format!(" from #{channel} at message {}, with {}", made["messages"], agents.join(", ")));
    context.printer.result(&done.answer, line);
    warn(&made["warnings"], context);
    Ok(Exit::Done)
}

fn warn(warnings: &Value, context: &Context) {
    for warning in warnings.as_array().into_iter().flatten().filter_map(Value::as_str) {
        context.printer.warn(warning);
    }
}
