//! `flock resume`: has used-up quotas tried now.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::channel::backend;
use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, person};
use crate::config;
use crate::id::AgentId;
use crate::supervise::gateway_client::Call;
use crate::ui::StyledLine;

/// Try a used-up quota now, before its time
///
/// When a provider says that a quota is used up, the turns that need it wait until the time that the provider named
/// (`flock status` shows it). This command has it tried at once, for instance after you bought credit: one call is made,
/// and if it is answered, all turns that wait go on. If it is refused, they wait again. Without an agent and a credential,
/// all used-up quotas are tried.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Id of an agent, for the credentials that it uses
    agent: Option<AgentId>,
    /// Name of a credential or provider, as `flock status` shows it
    #[arg(long, value_name = "NAME")]
    credential: Option<String>,
}

const TIMEOUT: Duration = Duration::from_secs(30);

/// The query of the route.
#[derive(Debug, Serialize)]
struct ResumeQuery<'a> {
    by: String,
    credential: Option<&'a str>,
    agent: Option<&'a AgentId>,
}

#[derive(Debug, Deserialize)]
struct ResumeAnswer {
    resumed: Vec<ResumedQuota>,
}

#[derive(Debug, Deserialize, Serialize)]
struct ResumedQuota {
    credential: String,
    model: String,
    agents: Vec<AgentId>,
}

/// Has used-up quotas tried.
///
/// # Errors
///
/// Returns an error if there is no such agent, or if the gateway or the database fails.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    args.agent.as_ref().map(|agent| config.require_agent(agent)).transpose()?;
    let (credential, agent) = (args.credential.as_deref(), args.agent.as_ref());
    let query = ResumeQuery { by: person::name(), credential, agent };
    let call = Call::post(&backend::path("/api/quota/resume", &query));
    // Trying twice has the same result, so the request may be repeated.
    let done = context.block_on(Reconnector::new(&home, context).send(call, Repeat::Safe, TIMEOUT))?;
    let ResumeAnswer { resumed } = serde_json::from_value(done.answer)
        .map_err(|error| Failure::with_cause("the gateway answered with something else", &error))?;
    let printer = &context.printer;
    if printer.is_json() {
        printer.json(&json!({"resumed": resumed}));
        return Ok(Exit::Done);
    }
    if resumed.is_empty() {
        printer.say("no such quota is used up");
    }
    for one in &resumed {
        let agents: Vec<&str> = one.agents.iter().map(AgentId::as_str).collect();
        let who = if agents.is_empty() { String::new() } else { format!(" for {}", agents.join(", ")) };
        let line = StyledLine::new().accent(one.credential.clone());
        printer.line(line.plain(format!(" is tried with {}{who}", one.model)));
    }
    Ok(Exit::Done)
}
