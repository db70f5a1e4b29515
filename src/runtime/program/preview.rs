//! Shows how a program would be started for a turn, without starting it: its command line, environment, files and
//! input. Pure, except that it reads files of the home.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::conversation_record;
use super::gate::{RelayAccess, TurnAccess};
use super::interface::{ConversationStart, Invocation, Program, TurnSpec};
use super::locate;
use super::model_access::{self, ModelAccess, ModelAccessError};
use super::probe_cache::{CachedAnswer, ProbeRequest};
use super::run_paths::RunPaths;
use crate::config::{Agent, Config};
use crate::home::Home;
use crate::provider::Catalog;
use crate::runtime::{RuntimeRequest, prompt};
use crate::store::ProgramConversation;

/// Placeholder for the tokens, which are made for each turn.
const TOKEN_PLACEHOLDER: &str = "<token of the turn>";

/// Placeholder for an answer that the program gives before its turns and has not given yet.
const PROBE_PLACEHOLDER: &str = "<its own system prompt, which it is asked for before its first turn>";

/// A turn that is not run.
#[derive(Clone, Copy, Debug)]
pub struct PreviewedTurn<'a> {
    pub home: &'a Home,
    pub config: &'a Config,
    pub agent: &'a Agent,
    /// The order, without new messages.
    pub order: &'a RuntimeRequest,
    /// The program's present conversation of the session.
    pub known: Option<&'a ProgramConversation>,
}

/// Returns the run of a program as a JSON document without secrets.
///
/// # Errors
///
/// Returns the reason why there would be no run.
pub fn of(program: &dyn Program, previewed: &PreviewedTurn<'_>) -> Result<Value, String> {
    let PreviewedTurn { home, config, agent, order, known } = *previewed;
    let model = &order.model;
    let described = Catalog::new(home.clone()).describe(model, config);
    let wire = match model_access::way(program, model, config, described, agent.runs_on_host()) {
        Ok(ModelAccess::Relay(wire)) => Some(wire),
        Ok(ModelAccess::OwnLogin) => None,
        // Only the key is missing, and keys are not shown.
        Err(ModelAccessError::NoKey(_)) => crate::provider::catalog::wire(model, config).ok(),
        Err(unable) => return Err(unable.reason(program, model)),
    };
    let access = TurnAccess {
        relay: wire.map(|wire| RelayAccess {
            token: TOKEN_PLACEHOLDER.to_owned(),
            api: wire.api,
            context_window: wire.context_window,
            max_tokens: u64::from(wire.max_tokens),
        }),
        mcp_token: TOKEN_PLACEHOLDER.to_owned(),
        host_origin: format!("http://127.0.0.1:{}", config.port),
        calls: Arc::default(),
        close: Box::new(()),
    };
    let paths = RunPaths::of(home, program, agent, &order.session, &access);
    let begun = conversation_record::origin(order, agent, access.relay.is_some());
    let renews = program.facts().renews_prompt;
    let known = known.filter(|known| conversation_record::can_resume(&known.begun, &begun, renews));
    let (conversation, before) = match (known, &order.missed) {
        (Some(known), Some(missed)) => (ConversationStart::Resumed(&known.name), missed),
        // A new conversation gets a name only when the turn runs, so the nil id takes its place.
        _ => (ConversationStart::New(Uuid::nil()), &order.recent),
    };
    let text = prompt::compose(before, "");
    let mut turn = paths.spec(order, agent, &access, conversation, &text);
    // A preview never asks the program. It shows an answer that an earlier turn stored.
    let answered = program.probe(&turn).and_then(|asked| {
        let parts = locate::find(program).ok()?;
        let asked = ProbeRequest { wanted: &asked, state: turn.state, workspace: turn.workspace };
        CachedAnswer::of(home, &agent.id, program, &parts, asked).read()
    });
    turn.probe_answer = answered.as_deref();
    // A program that needs the missing answer gets the placeholder instead.
    let run = program.invocation(&turn).or_else(|error| match turn.probe_answer {
        None => program.invocation(&TurnSpec { probe_answer: Some(PROBE_PLACEHOLDER), ..turn.clone() }),
        Some(_) => Err(error),
    })?;
    Ok(to_json(program, known.map(|known| known.name.as_str()), &run))
}

fn to_json(program: &dyn Program, conversation: Option<&str>, run: &Invocation) -> Value {
    let environment: Map<String, Value> =
        run.environment.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
    let files: Map<String, Value> =
        run.files.iter().map(|file| (file.name.clone(), file.content.as_str().into())).collect();
    let state: Map<String, Value> =
        run.state.iter().map(|file| (file.path.clone(), json!(file.content))).collect();
    json!({
        "program": program.name(),
        "resumes": conversation,
        "arguments": run.arguments,
        "environment": environment,
        "input": run.input,
        "files": files,
        "state": state,
    })
}
