//! Shows how a program would be started for a turn, without starting it: its command line, environment, files and
//! input. Pure, except that it reads files of the home.

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::conversation_record;
use super::folders;
use super::interface::{ConversationStart, Invocation, Program, RunLocation, TurnSpec};
use super::locate;
use super::model_access::{self, ModelAccess, ModelAccessError};
use super::probe_cache::{Asked, CachedAnswer};
use super::state::StateFolder;
use super::user_folder::User;
use crate::config::{Agent, Config};
use crate::home::Home;
use crate::id::{ModelRef, SessionKey, TurnId};
use crate::provider::Catalog;
use crate::runtime::{RuntimeRequest, prompt};
use crate::sandbox::egress;
use crate::sandbox::program_mounts::{STATE_TARGET, TURN_TARGET};
use crate::sandbox::spec::WORKSPACE_TARGET;
use crate::store::ProgramConversation;
use crate::tool::policy::DisabledTools;

/// Placeholder for the tokens, which are made for each turn.
const TOKEN_PLACEHOLDER: &str = "<token of the turn>";

/// Placeholder for an answer that the program gives before its turns and has not given yet.
const PROBE_PLACEHOLDER: &str = "<its own system prompt, which it is asked for before its first turn>";

/// A turn that is not run.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    pub home: &'a Home,
    pub config: &'a Config,
    pub agent: &'a Agent,
    pub model: &'a ModelRef,
    /// The text about the agent that flock gives to the program.
    pub system: &'a str,
    pub session: &'a SessionKey,
    /// The name under which the program would know the conversation.
    pub conversation: &'a str,
    /// The program's present conversation of the session.
    pub known: Option<&'a ProgramConversation>,
    /// The earlier messages, for a conversation that begins anew.
    pub recent: &'a str,
    /// The messages since the last turn that the program has. `None` if it has none.
    pub missed: Option<&'a str>,
}

/// Returns the run of a program as a JSON document without secrets.
///
/// # Errors
///
/// Returns the reason why there would be no run.
pub fn of(program: &dyn Program, wanted: &Wanted<'_>) -> Result<Value, String> {
    let Wanted { home, config, agent, model, system, session, .. } = *wanted;
    let on_host = agent.runs_on_host();
    let described = Catalog::new(home.clone()).describe(model, config);
    let wire = match model_access::way(program, model, config, described, on_host) {
        Ok(ModelAccess::Relay(wire)) => Some(wire),
        Ok(ModelAccess::OwnLogin) => None,
        // Only the key is missing, and keys are not shown.
        Err(ModelAccessError::NoKey(_)) => crate::provider::catalog::wire(model, config).ok(),
        Err(unable) => return Err(unable.reason(program, model)),
    };
    let state = StateFolder::of(home, program, session);
    let login = program.login();
    let user = login.filter(|_| wire.is_none()).and_then(|login| User::of(&login));
    let (origin, state, files, workspace) = if on_host {
        let kept = (wire.is_some() || login.is_some()).then(|| state.path().display().to_string());
        let files = folders::turns(home, &agent.id).join(folders::name_of(session));
        let origin = format!("http://127.0.0.1:{}", config.port);
        (origin, kept, files.display().to_string(), agent.workspace.display().to_string())
    } else {
        let origin = format!("http://127.0.0.1:{}", egress::PROXY_PORT);
        let files = format!("{TURN_TARGET}/{}", folders::name_of(session));
        (origin, Some(format!("{STATE_TARGET}/{}", state.name())), files, WORKSPACE_TARGET.to_owned())
    };
    let begun = conversation_record::begun(&runtime_request(wanted), agent, wire.is_some());
    let renews = program.habits().renews_prompt;
    let known = wanted.known.filter(|known| conversation_record::goes_on(&known.begun, &begun, renews));
    let (conversation, before) = match (known, wanted.missed) {
        (Some(known), Some(missed)) => (ConversationStart::Resumed(&known.name), missed),
        // A new conversation gets a name only when the turn runs, so the nil id takes its place.
        _ => (ConversationStart::New(Uuid::nil()), wanted.recent),
    };
    let text = prompt::compose(before, "");
    let mut turn = TurnSpec {
        provider: model.provider(),
        place: if on_host { RunLocation::Host } else { RunLocation::Sandbox },
        model: model.model(),
        api: wire.as_ref().map(|wire| wire.api),
        context_window: wire.as_ref().map_or(0, |wire| wire.context_window),
        max_tokens: wire.as_ref().map_or(0, |wire| u64::from(wire.max_tokens)),
        effort: agent.effort,
        system,
        withheld: DisabledTools::of(agent),
        prompt: &text,
        conversation,
        origin: &origin,
        relay_token: wire.as_ref().map(|_| TOKEN_PLACEHOLDER),
        mcp_token: TOKEN_PLACEHOLDER,
        state: state.as_deref(),
        user_settings: user.as_ref().and_then(User::settings),
        files: &files,
        workspace: &workspace,
        learned: None,
    };
    // A preview never asks the program. It shows an answer that an earlier turn stored.
    let answered = program.learned(&turn).and_then(|asked| {
        let parts = locate::find(program).ok()?.parts;
        let asked = Asked { wanted: &asked, state: turn.state, workspace: turn.workspace };
        CachedAnswer::of(home, &agent.id, program, &parts, asked).read()
    });
    turn.learned = answered.as_deref();
    // A program that needs the missing answer gets the placeholder instead.
    let run = program.invocation(&turn).or_else(|error| match turn.learned {
        None => program.invocation(&TurnSpec { learned: Some(PROBE_PLACEHOLDER), ..turn.clone() }),
        Some(_) => Err(error),
    })?;
    Ok(to_json(program, known.map(|known| known.name.as_str()), &run))
}

/// Returns the order of the turn, without new messages.
fn runtime_request(wanted: &Wanted<'_>) -> RuntimeRequest {
    RuntimeRequest {
        agent: wanted.agent.id.clone(),
        session: wanted.session.clone(),
        turn: TurnId::new(),
        model: wanted.model.clone(),
        effort: wanted.agent.effort,
        conversation: wanted.conversation.to_owned(),
        system: wanted.system.to_owned(),
        messages: Vec::new(),
        recent: wanted.recent.to_owned(),
        missed: wanted.missed.map(str::to_owned),
    }
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
