//! `PUT /api/settings`: changes the runtime of an agent's turns, its model, and how much the model thinks.

use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::JsonResult;
use super::messages::chosen_for;
use crate::config::setting::{self, Setting};
use crate::config::{Agent, Config, Effort, Network, Role};
use crate::error::Explain as _;
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::config_change;
use crate::gateway::error::ApiError;
use crate::gateway::state::Gateway;
use crate::generation::Origin;
use crate::home::Home;
use crate::id::{ModelRef, Party};
use crate::openclaw::plugin;
use crate::provider::Catalog;
use crate::runtime::NATIVE;
use crate::runtime::program::model_access::{self, ModelAccessError};
use crate::runtime::program::version_check::{self, InstalledProgram};
use crate::runtime::program::{self, Program, ProgramHandle, host, locate};
use crate::store::Level;
use crate::swarm::Actor;

/// The requested change.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsRequest {
    agent: Option<String>,
    cli: String,
    model: Option<ModelRef>,
    #[serde(default)]
    effort: EffortChange,
}

/// The change of the thinking effort.
#[derive(Clone, Copy, Debug, Default)]
enum EffortChange {
    /// The effort stays as it is, because the request does not mention it.
    #[default]
    Kept,
    /// The setting is removed, because the request says `null`.
    Left,
    /// The effort is set to this value.
    Set(Effort),
}

impl<'de> Deserialize<'de> for EffortChange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde calls this only if the field is present, so absent and `null` stay different.
        Ok(Option::<Effort>::deserialize(deserializer)?.map_or(Self::Left, Self::Set))
    }
}

/// Applies the change. It takes effect with the agent's next turn.
pub async fn change(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    JsonBody(SettingsRequest { agent, cli: wanted, model, effort }): JsonBody<SettingsRequest>,
) -> JsonResult {
    let agent = chosen_for(&gateway, &caller, agent.as_deref(), None)?;
    check_runtime(&gateway.engine.runtime_names(), &agent, &wanted)?;
    if let Some(program) = program::named(&wanted) {
        let installed = find_program(program, &agent).await?;
        let (gateway, agent, model) = (gateway.clone(), agent.clone(), model.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let model = model.as_ref().or(agent.model.as_ref());
            check_program(&installed, &agent, model, &gateway.config(), gateway.home())
        });
        looked.await.map_err(ApiError::internal)??;
    }
    // The owner's token has no name of its own here, and neither has a browser of the owner.
    let party = match caller.home_person() {
        Some(_) => caller.party()?,
        None => Party::human("owner"),
    };
    let id = agent.id.clone();
    let change = move |document: &mut Value| {
        let mut changes = vec![(Setting::Runtime, json!(wanted))];
        changes.extend(model.as_ref().map(|model| (Setting::Model, json!(model))));
        match effort {
            EffortChange::Set(effort) => changes.push((Setting::Effort, json!(effort))),
            EffortChange::Left => changes.push((Setting::Effort, Value::Null)),
            EffortChange::Kept => {}
        }
        setting::set(document, &id, &changes)
    };
    let (by, id) = (Actor::party(party), agent.id.clone());
    let origin = Origin::new(by.party.to_string(), "agent.settings, by the API");
    let record = move |_: &(), config: &Config| {
        let detail = config.agent(&id).map(|agent| describe(agent).to_string()).unwrap_or_default();
        Some(by.entry("agent.settings", id.as_str(), Level::Yellow, detail))
    };
    let changing = config_change::change(&gateway, origin, change, record);
    Box::pin(changing).await.map_err(ApiError::explained)?;
    Ok(Answer(describe(&gateway.agent(agent.id.as_str())?)))
}

/// Returns the settings of an agent as a client sees them.
fn describe(agent: &Agent) -> Value {
    json!({"agent": agent.id, "cli": agent.runtime, "model": agent.model,
        "effort": agent.effort.map(Effort::as_str), "onHost": agent.runs_on_host()})
}

/// Refuses a runtime that this gateway does not have or that the agent's settings rule out. `others` are the gateway's
/// runtimes besides its own one.
fn check_runtime(others: &[&str], agent: &Agent, runtime: &str) -> Result<(), ApiError> {
    if runtime != NATIVE && !others.contains(&runtime) && program::named(runtime).is_none() {
        let known = [&[NATIVE][..], others, &["acp:COMMAND"]].concat().join(", ");
        let text = format!("{} is not a runtime; this flock has {known}", crate::clean::summary(runtime, 40));
        return Err(ApiError::invalid("unknown_runtime", text));
    }
    let has_network = agent.network == Network::Proxy;
    if runtime == plugin::RUNTIME && has_network {
        return Err(ApiError::invalid(
            "no_network_there",
            format!("agents on OpenClaw have no network, but agent {} is configured to have one", agent.id),
        )
        .with_hint(format!(
            "flock config unset plugins.entries.flock.config.gatewayAgents[{}].network",
            agent.id
        )));
    }
    Ok(())
}

/// Returns the installed program that a request names.
async fn find_program(program: ProgramHandle, agent: &Agent) -> Result<InstalledProgram, ApiError> {
    check_sandbox(&*program, agent)?;
    // The search looks at the file system, so it runs on a thread for blocking work.
    let wanted = program.clone();
    let looked = tokio::task::spawn_blocking(move || locate::find(&*wanted));
    let files = looked.await.map_err(ApiError::internal)?.map_err(|why| {
        let text = format!("{} is not installed: {why}", program.title());
        ApiError::new(StatusCode::FAILED_DEPENDENCY, "runtime_not_installed", text)
            .with_hint(version_check::install_hint(&*program))
    })?;
    Ok(InstalledProgram::ask(program, &files).await)
}

/// Returns `true` if this program may run the agent's turns on this machine itself.
fn is_on_host(agent: &Agent, program: &str) -> bool {
    // The setting was made for the program that runs there now. It says nothing about another one.
    agent.on_host && agent.runtime == program
}

/// Refuses a program for an agent that has neither a sandbox nor the permission for this machine itself.
fn check_sandbox(program: &dyn Program, agent: &Agent) -> Result<(), ApiError> {
    let (name, title) = (program.name(), program.title());
    if agent.role == Role::Sysadmin && !is_on_host(agent, name) {
        let text = format!("a sysadmin has no sandbox, so {title} would run on this machine itself");
        let at = format!("plugins.entries.flock.config.gatewayAgents[{}]", agent.id);
        return Err(ApiError::invalid("no_sandbox", text).with_hint(format!(
            "flock config set {at}.runtime {name} && flock config set {at}.onHost true"
        )));
    }
    Ok(())
}

/// Checks if an installed program can run this agent's turns.
fn check_program(
    installed: &InstalledProgram,
    agent: &Agent,
    model: Option<&ModelRef>,
    config: &Config,
    home: &Home,
) -> Result<(), ApiError> {
    let program = &*installed.program;
    let title = program.title();
    let on_host = is_on_host(agent, program.name());
    if let Some(why) = program.refuses_host(host::is_root()).filter(|_| on_host) {
        let text = format!("{title} can't run on this machine itself: {why}");
        return Err(ApiError::invalid("no_host", text).with_hint(host::off(&agent.id)));
    }
    if let Some(why) = installed.unfit_reason() {
        return Err(ApiError::new(StatusCode::FAILED_DEPENDENCY, "runtime_too_old", why)
            .with_hint(version_check::renewal_hint(program)));
    }
    let Some(model) = model else { return Ok(()) };
    let described = Catalog::new(home.clone()).describe(model, config);
    match model_access::way(program, model, config, described, on_host) {
        // A missing key can be set later, so it does not stop the change.
        Ok(_) | Err(ModelAccessError::NoKey(_)) => Ok(()),
        Err(ModelAccessError::NoProvider(error)) => {
            let hint = error.hint().unwrap_or_else(|| "flock config validate".to_owned());
            let text = error.to_string();
            Err(ApiError::new(StatusCode::FAILED_DEPENDENCY, "provider_not_configured", text).with_hint(hint))
        }
        Err(unable @ (ModelAccessError::Signed(_) | ModelAccessError::Unspoken(_))) => {
            let text = format!("{title} can't ask {model}: {}", unable.reason(program, model));
            Err(ApiError::invalid("model_not_spoken", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config::agents;
    use crate::config::{parse, starter};

    /// A configuration with a worker, a sysadmin, and a worker whose program runs on the host.
    fn team(home: &Home) -> Config {
        let mut document =
            starter::document(home, Some(&"anthropic/claude-opus-4-5".parse().unwrap()), "token", 4_000);
        for (id, role) in [("coder", Role::Worker), ("admin", Role::Sysadmin)] {
            agents::add(&mut document, home, &agents::NewAgent::new(id.parse().unwrap(), role)).unwrap();
        }
        let free = agents::NewAgent {
            runtime: "claude".to_owned(),
            on_host: true,
            ..agents::NewAgent::new("free".parse().unwrap(), Role::Worker)
        };
        agents::add(&mut document, home, &free).unwrap();
        parse::config(&document, home).unwrap()
    }

    /// The program with what it lacks.
    fn lacking(program: &'static dyn Program, missing: &[&'static str]) -> InstalledProgram {
        let program = ProgramHandle::Listed(program);
        InstalledProgram { program, version: Some("1.0.0".to_owned()), missing: missing.to_vec() }
    }

    /// The status and the code of an error, and if it has a hint.
    fn parts(error: ApiError) -> (u16, String, bool) {
        (error.status.as_u16(), error.code.into_owned(), error.hint.is_some())
    }

    #[test]
    fn a_program_must_support_the_model_and_have_a_place_to_run() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let config = team(&home);
        let claude = program::listed("claude").unwrap();
        let whole = || lacking(claude, &[]);
        let checked = |agent: &Agent, model: &str, found: &InstalledProgram| {
            check_sandbox(&*found.program, agent)
                .and_then(|()| check_program(found, agent, Some(&model.parse().unwrap()), &config, &home))
        };
        let asked = |id: &str, model: &str, found: InstalledProgram| {
            let agent = config.agent(&id.parse().unwrap()).unwrap();
            checked(agent, model, &found).err().map(parts)
        };
        let told = |status, code: &str, hint| Some((status, code.to_owned(), hint));
        assert_eq!(asked("coder", "anthropic/claude-opus-4-5", whole()), None);
        assert_eq!(asked("coder", "openai/gpt-5.5", whole()), told(400, "model_not_spoken", false));
        assert_eq!(asked("coder", "script/demo", whole()), told(424, "provider_not_configured", true));
        let model = "anthropic/claude-opus-4-5";
        assert_eq!(asked("coder", model, lacking(claude, &["--tools"])), told(424, "runtime_too_old", true));
        assert_eq!(asked("admin", model, whole()), told(400, "no_sandbox", true));
        // Claude Code refuses to run there as root.
        let on_host = if host::is_root() { told(400, "no_host", true) } else { None };
        assert_eq!(asked("free", model, whole()), on_host);
        // The setting for the host counts only for the program that it was made for.
        let codex = program::listed("codex").unwrap();
        let mut admin = config.agent(&"admin".parse().unwrap()).unwrap().clone();
        admin.on_host = true;
        for (runtime, is_taken) in [("codex", true), ("claude", false), ("native", false)] {
            runtime.clone_into(&mut admin.runtime);
            let checked = checked(&admin, "openai/gpt-5.5", &lacking(codex, &[]));
            assert_eq!(checked.is_ok(), is_taken, "{runtime}");
        }
    }

    #[tokio::test]
    async fn a_program_must_be_installed_and_have_a_sandbox() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        let config = team(&home);
        let coder = config.agent(&"coder".parse().unwrap()).unwrap();
        let admin = config.agent(&"admin".parse().unwrap()).unwrap();
        let missing = "acp:flock-knows-no-such-program --acp";
        check_runtime(&[], coder, missing).unwrap();
        let asked = async |agent: &Agent, runtime: &str| {
            find_program(program::named(runtime).unwrap(), agent).await.map(drop)
        };
        let error = asked(coder, missing).await.unwrap_err();
        assert!(
            error.message.starts_with("flock-knows-no-such-program (by ACP) is not installed: no command"),
            "{error:?}"
        );
        assert_eq!(parts(error), (424, "runtime_not_installed".to_owned(), true));
        // A file that can't be run in a sandbox is no program either.
        let text = folder.path().join("text");
        fs_err::write(&text, "no script").unwrap();
        fs_err::set_permissions(&text, std::fs::Permissions::from_mode(0o755)).unwrap();
        let unusable = format!("acp:{}", text.display());
        assert_eq!(parts(asked(coder, &unusable).await.unwrap_err()).0, 424);
        // The sandbox is the first thing that is asked for.
        assert_eq!(parts(asked(admin, "acp:/bin/sh -x").await.unwrap_err()).1, "no_sandbox");
        asked(coder, "acp:/bin/sh -x").await.unwrap();
        assert_eq!(check_runtime(&[], coder, "acp:./x").unwrap_err().code, "unknown_runtime");
    }
}
