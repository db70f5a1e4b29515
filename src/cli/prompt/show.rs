//! `flock prompt show`: shows the system prompt as the agent's next turn would send it.

use std::sync::Arc;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::request;
use crate::agent::estimate::{text_cost, tools_cost};
use crate::agent::prompt::{
    Knowledge, PromptContext, SectionText, SystemPromptBuilder, ToolCallStyle, locale,
};
use crate::cli::{Context, Exit, Failure, database};
use crate::clock;
use crate::config::Live;
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, ModelRef, SessionKey};
use crate::provider::ToolSpec;
use crate::provider::catalog::{known_models, label};
use crate::runtime::{NATIVE, program};
use crate::store::Session;
use crate::tool::{catalog, policy};
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

/// A prompt, and the tools that are sent to the provider beside it.
struct PromptReport {
    parts: Vec<SectionText>,
    tools: Vec<ToolSpec>,
    model: Option<String>,
    inputs: String,
    /// The runtime of the agent's turns.
    runtime: String,
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
    for part in &shown.parts {
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
    let is_native = agent.runtime == NATIVE;
    // The same policy decides here as in a turn, so the list is what the model would be offered.
    let mut tools = policy::offered(agent, &catalog::specs());
    if is_native {
        locale::describe(home, agent.language.as_deref(), &mut tools);
    } else {
        // The program has its own tools besides flock's.
        tools.retain(|tool| policy::is_flocks_own(&tool.name));
    }
    // A model that can't call tools gets their descriptions in the prompt instead.
    let native =
        !is_native || agent.model.as_ref().is_none_or(|model| known_models::supports_tools(&config, model));
    let name = |model: &ModelRef| if is_native { label(model) } else { model.to_string() };
    let model = agent.model.as_ref().map(name);
    let knowledge = Knowledge::read(home, agent);
    let context = PromptContext {
        agent,
        model: model.as_deref().unwrap_or("none"),
        tools: &tools,
        calls: if native { ToolCallStyle::Native } else { ToolCallStyle::Text },
        knowledge: &knowledge,
        began,
        zone: &TimeZone::system(),
    };
    let (builder, inputs) = if is_native {
        // A native agent gets the whole prompt. Another program has its own and gets only what flock adds.
        (SystemPromptBuilder::for_team(), context.inputs())
    } else {
        (SystemPromptBuilder::for_runtime(), format!("{} {}", agent.runtime, context.inputs()))
    };
    let parts = builder
        .parts(&context)
        .map_err(|error| Failure::with_cause(format!("failed to make the prompt of {}", agent.id), &error))?;
    if !native {
        // The prompt already contains the tools.
        tools.clear();
    }
    let runtime = agent.runtime.clone();
    Ok(PromptReport { parts, tools, model, inputs, runtime })
}

/// Returns the title of a runtime for people.
fn title(runtime: &str) -> &str {
    program::named(runtime).map_or(runtime, |program| program.title())
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
    for part in &shown.parts {
        // The estimate is the one that decides about compaction, so the numbers can be compared.
        add(TextStyle::Accent, &part.name, text_cost(&part.text), part.text.len().to_string());
    }
    add(TextStyle::Strong, "system prompt", prompt_tokens(shown), prompt_bytes(shown).to_string());
    let calls = format!("{} tools, beside the prompt", shown.tools.len());
    add(TextStyle::Dim, &calls, tools_cost(&shown.tools), String::new());
    table
}

fn to_json(args: &Args, shown: &PromptReport) -> Value {
    let sections: Vec<Value> = shown
        .parts
        .iter()
        .map(|part| {
            json!({
                "name": part.name,
                "tokens": text_cost(&part.text),
                "bytes": part.text.len(),
                "text": part.text,
            })
        })
        .collect();
    let names: Vec<&str> = shown.tools.iter().map(|tool| tool.name.as_str()).collect();
    json!({
        "agent": args.agent,
        "session": args.session,
        "model": shown.model,
        "runtime": shown.runtime,
        "inputs": shown.inputs,
        "tokens": prompt_tokens(shown),
        "bytes": prompt_bytes(shown),
        "sections": sections,
        "tools": {"names": names, "tokens": tools_cost(&shown.tools)},
    })
}

/// Returns the size of the prompt in bytes. One blank line stands between two sections.
fn prompt_bytes(shown: &PromptReport) -> usize {
    let texts: usize = shown.parts.iter().map(|part| part.text.len()).sum();
    texts + 2 * shown.parts.len().saturating_sub(1)
}

fn prompt_tokens(shown: &PromptReport) -> u64 {
    (prompt_bytes(shown) as u64).div_ceil(4)
}
