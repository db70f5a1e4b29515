//! `flock prompt show`: shows the system prompt as the agent's next turn would send it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::request;
use crate::agent::prompt_report::PromptReport;
use crate::cli::{Context, Exit, Failure, database};
use crate::clock;
use crate::config::Live;
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, ModelRef, SessionKey};
use crate::runtime::{NATIVE, program};
use crate::store::Session;
use crate::ui::{StyledLine, Table, TextStyle};

/// Show the system prompt that an agent's model would be sent
///
/// Shows the size of each section in tokens, estimated at four bytes each. With --request, shows the whole request in
/// the format of the model's provider. Sends nothing, and works without a gateway.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock prompt show coder
  flock prompt show coder --session agent:coder:flock:main:ann --request")]
pub(crate) struct Args {
    /// Id of the agent
    agent: AgentId,
    /// Key of the session to show the prompt of [default: a new session]
    #[arg(long, value_name = "KEY")]
    session: Option<SessionKey>,
    /// Show the exact body of the request, with prompt, tools and conversation
    ///
    /// Changes that were made to the conversation are listed on stderr.
    #[arg(long)]
    request: bool,
    /// Model that would be sent the request [default: the agent's model]
    #[arg(long, value_name = "PROVIDER/MODEL", requires = "request")]
    model: Option<ModelRef>,
}

/// Prints the prompt.
///
/// # Errors
///
/// Returns an error if there is no such agent or session, or if a section can't be written.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    if args.request {
        return request::run(&home, &args.agent, args.session.as_ref(), args.model.as_ref(), context);
    }
    let shown = assemble(&home, &args.agent, args.session.as_ref())?;
    if context.printer.is_json() {
        context.printer.json(&to_json(args, &shown));
        return Ok(Exit::Done);
    }
    if shown.runtime != NATIVE {
        context.printer.say(format!(
            "{} has a prompt and tools of its own; this is what flock adds to them.",
            title(&shown.runtime)
        ));
    }
    context.printer.table(&table(&shown));
    for part in &shown.sections {
        context.printer.line(StyledLine::new());
        context.printer.line(StyledLine::new().with(TextStyle::Dim, format!("--- {} ---", part.name)));
        context.printer.stream(&part.text);
        context.printer.line(StyledLine::new());
    }
    Ok(Exit::Done)
}

fn assemble(home: &Home, agent: &AgentId, session: Option<&SessionKey>) -> Result<PromptReport, Failure> {
    let live = Arc::new(Live::open(home.clone())?);
    let config = live.current();
    let agent = config.require_agent(agent)?;
    // The time at which a session began is part of its prompt, so that the prompt stays the same for all its turns.
    let began = match session {
        Some(key) => find(home, &agent.id, key)?.began_at,
        None => clock::unix_ms(),
    };
    PromptReport::of(home, &config, agent, began)
        .map_err(|error| Failure::with_cause(format!("failed to make the prompt of {}", agent.id), &error))
}

/// Returns the title of a runtime for people.
fn title(runtime: &str) -> String {
    program::named(runtime).map_or_else(|| runtime.to_owned(), |program| program.title().to_owned())
}

/// Returns a session of this agent, or an error if there is none.
pub(super) fn find(home: &Home, agent: &AgentId, key: &SessionKey) -> Result<Session, Failure> {
    if key.agent() != agent {
        let text = format!("session {key} does not belong to agent {agent}");
        return Err(Failure::new(Kind::Usage, text).hint(format!("flock prompt show {}", key.agent())));
    }
    let known = database::read(home, async |reader| reader.sessions().find(key).await)?.flatten();
    known.ok_or_else(|| {
        Failure::new(Kind::Failed, format!("there is no session {key}"))
            .hint(format!("flock prompt show {agent}"))
    })
}

fn table(shown: &PromptReport) -> Table {
    let mut table = Table::new(&["SECTION", "TOKENS", "BYTES"]);
    let mut add = |tone, name: &str, tokens: u64, bytes: String| {
        table.styled_row(vec![
            (tone, name.to_owned()),
            (TextStyle::Plain, tokens.to_string()),
            (TextStyle::Plain, bytes),
        ]);
    };
    for part in &shown.sections {
        add(TextStyle::Accent, &part.name, part.tokens, part.bytes.to_string());
    }
    add(TextStyle::Strong, "system prompt", shown.tokens, shown.bytes.to_string());
    let calls = format!("{} tools, beside the prompt", shown.tools.names.len());
    add(TextStyle::Dim, &calls, shown.tools.tokens, String::new());
    table
}

fn to_json(args: &Args, shown: &PromptReport) -> Value {
    let mut document = json!(shown);
    document["agent"] = json!(args.agent);
    document["session"] = json!(args.session);
    document
}
