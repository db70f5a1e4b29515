//! `flock prompt show --request`: the whole request to a model for a session, and the changes that were made to the
//! conversation so that this model accepts it.

use std::collections::HashSet;
use std::sync::Arc;

use clap::ValueEnum as _;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use super::show::find;
use crate::agent::TurnError;
use crate::agent::preview::{PreviewedRequest, RequestPreviewer};
use crate::agent::transcript::hygiene::{AppliedRule, Rule};
use crate::cli::{Context, Exit, Failure, database};
use crate::config::Live;
use crate::home::Home;
use crate::id::{AgentId, ModelRef, SessionKey};
use crate::openclaw;
use crate::runtime::program;
use crate::tool::catalog;

/// Prints the request.
///
/// # Errors
///
/// Returns an error if there is no such agent or session, if the model's provider is not known, or if the request can't
/// be made.
pub(super) fn run(
    home: &Home,
    agent: &AgentId,
    session: Option<&SessionKey>,
    model: Option<&ModelRef>,
    context: &Context,
) -> Result<Exit, Failure> {
    let live = Arc::new(Live::open(home.clone())?);
    let config = live.current();
    let agent = config.require_agent(agent)?;
    let session = session.map(|key| find(home, &agent.id, key)).transpose()?;
    let key = session.as_ref().map(|session| &session.key);
    let own = || agent.model.as_ref().ok_or_else(|| TurnError::NoModel(agent.id.clone()));
    let model = model.map_or_else(own, Ok)?;
    let tools = catalog::specs();
    let preview = RequestPreviewer { home, config: &config, tools: &tools, zone: TimeZone::system() };
    // A program writes its own request to the model. Only what flock gives to the program can be shown.
    if let Some(program) = program::named(&agent.runtime) {
        let known = match &session {
            Some(session) => database::read(home, async |reader| {
                reader.program_conversations().find(&session.key, program.name()).await
            })?,
            None => None,
        };
        let known = known.flatten();
        let mut made = preview.of_program(&*program, agent, model, session.as_ref(), known.as_ref())?;
        made["agent"] = json!(agent.id);
        made["session"] = json!(key);
        made["model"] = json!(model);
        context.printer.say(format!(
            "flock starts {} with this, and the program writes the request to {model} itself; a turn adds the new \
             messages to the input.",
            program.title()
        ));
        context.printer.json(&made);
        return Ok(Exit::Done);
    }
    if agent.runtime == openclaw::RUNTIME {
        let mut made = preview.openclaw_request(agent, model, session.as_ref())?;
        made["agent"] = json!(agent.id);
        made["session"] = json!(key);
        context.printer.say(
            "flock sends this to OpenClaw, which writes the request to its model itself; a turn adds the new \
             messages.",
        );
        context.printer.json(&made);
        return Ok(Exit::Done);
    }
    let made = preview.of(agent, model, session.as_ref())?;
    // Programs get one document. People get the facts on stderr and the exact body on stdout.
    if context.printer.is_json() {
        context.printer.json(&to_json(&agent.id, key, &made)?);
        return Ok(Exit::Done);
    }
    print_repairs(&made, context);
    context.printer.document(&made.body);
    Ok(Exit::Done)
}

/// Prints for people what was done to the conversation.
fn print_repairs(made: &PreviewedRequest, context: &Context) {
    let say = |text: String| context.printer.say(text);
    let (model, api) = (&made.route.model, json!(made.route.api));
    let (api, messages) = (api.as_str().unwrap_or_default(), count_text(made.messages, "message"));
    say(format!("{model}, {api}: {messages}, about {} tokens", made.tokens));
    if let Some(compaction) = &made.compaction {
        let (before, after) = (compaction.before, compaction.after);
        say(format!("The conversation would be compacted first, from about {before} to {after} tokens."));
        if made.wants_summary {
            say("A model would be asked for a summary of the removed part; that summary is missing here."
                .to_owned());
        }
    }
    let rules = rules(&made.applied);
    if rules.is_empty() {
        say("Hygiene changed nothing.".to_owned());
    }
    for (rule, records) in rules {
        say(format!("Hygiene: {} in {}", rule.name(), count_text(records, "record")));
    }
}

fn count_text(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Returns the rules that were applied, in their fixed order, each with the number of records it changed.
fn rules(applied: &[AppliedRule]) -> Vec<(Rule, usize)> {
    let records = |rule: Rule| {
        let of_rule = applied.iter().filter(|one| one.rule == rule);
        // One rule may change several parts of the same record, which counts once.
        of_rule.map(|one| one.message.as_str()).collect::<HashSet<_>>().len()
    };
    Rule::value_variants()
        .iter()
        .map(|rule| (*rule, records(*rule)))
        .filter(|(_, records)| *records > 0)
        .collect()
}

fn to_json(agent: &AgentId, session: Option<&SessionKey>, made: &PreviewedRequest) -> Result<Value, Failure> {
    let body: Value = serde_json::from_slice(&made.body).map_err(|error| {
        Failure::with_cause(format!("the request to {} is no JSON", made.route.model), &error)
    })?;
    let rules = rules(&made.applied);
    let hygiene: Vec<Value> =
        rules.iter().map(|(rule, records)| json!({"rule": rule.name(), "records": records})).collect();
    Ok(json!({
        "agent": agent,
        "session": session,
        "model": made.route.model,
        "api": made.route.api,
        "messages": made.messages,
        "tokens": made.tokens,
        "hygiene": hygiene,
        "compaction": made.compaction,
        "summary": made.wants_summary,
        "body": body,
    }))
}
