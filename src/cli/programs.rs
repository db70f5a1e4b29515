//! The agent programs on this machine, for the verbs that show or check them.

use futures_util::future;

use super::{Context, Failure};
use crate::config::{Agent, Config, Role};
use crate::error::{Explain as _, Kind};
use crate::id::ModelRef;
use crate::openclaw::RUNTIME;
use crate::provider::{Catalog, catalog};
use crate::runtime::NATIVE;
pub(crate) use crate::runtime::model_problem::has_own_login;
use crate::runtime::program::model_access::{self, ModelAccess, ModelAccessError};
pub(crate) use crate::runtime::program::version_check::InstalledProgram;
use crate::runtime::program::version_check::{install_hint, renewal_hint};
use crate::runtime::program::{self, Program, ProgramHandle, host, locate};

/// Returns the installed programs.
pub(crate) async fn installed() -> Vec<InstalledProgram> {
    let found = program::PROGRAMS.iter().filter_map(|program| Some((*program, locate::find(*program).ok()?)));
    // Each program is run to ask for its version, so all of them are asked at the same time.
    let asked = found.map(|(program, found)| async move {
        InstalledProgram::ask(ProgramHandle::Listed(program), &found).await
    });
    future::join_all(asked).await
}

/// Checks, before an agent is added or changed, that its program can run its turns.
///
/// `config` is the configuration with the agent in it, and `verb` is the command that asks.
///
/// # Errors
///
/// Returns an error if the program is missing, lacks something that flock needs, may not run on the host, or can't ask
/// the agent's model.
pub(crate) fn check(
    handle: &ProgramHandle,
    agent: &Agent,
    config: &Config,
    verb: &str,
    context: &Context,
) -> Result<(), Failure> {
    let program = &**handle;
    // The choice to run without a sandbox has to be made explicitly.
    if agent.role == Role::Sysadmin && !agent.on_host {
        let text =
            format!("a sysadmin has no sandbox, so {} would run on this machine itself", program.title());
        return Err(Failure::new(Kind::Usage, text).hint("add --on-host to choose that"));
    }
    let found = locate::find(program).map_err(|why| {
        let text = format!("{} is not installed: {why}", program.title());
        Failure::new(Kind::Failed, text).hint(install_hint(program))
    })?;
    // Some programs refuse to run as root without a sandbox.
    if let Some(why) = program.refuses_host(host::is_root()).filter(|_| agent.on_host) {
        let text = format!("{} can't run on this machine itself: {why}", program.title());
        return Err(Failure::new(Kind::Usage, text).hint("leave --on-host out, or run flock as another user"));
    }
    let installed = context.block_on(async { Ok(InstalledProgram::ask(handle.clone(), &found).await) })?;
    if let Some(why) = installed.unfit_reason() {
        return Err(Failure::new(Kind::Failed, why).hint(renewal_hint(program)));
    }
    if installed.is_old() {
        context.printer.warn(&format!(
            "{} is older than {}, the oldest version that flock knows; {}",
            installed.label(),
            program.facts().oldest,
            renewal_hint(program)
        ));
    }
    if let Some(model) = &agent.model {
        check_model_access(program, agent, model, config, verb, context)?;
    }
    let least = program.facts().least_memory;
    // Only a limit on a container can be too low. On the host the program has the machine's memory.
    if !agent.on_host && agent.docker.memory.is_some_and(|memory| memory < least) {
        context.printer.warn(&format!(
            "{} may be killed when it runs a command: it needs {} MiB of memory",
            program.title(),
            least >> 20
        ));
    }
    Ok(())
}

/// Checks that a program can ask a model of this home. A problem that can be repaired later is only a warning.
fn check_model_access(
    program: &dyn Program,
    agent: &Agent,
    model: &ModelRef,
    config: &Config,
    verb: &str,
    context: &Context,
) -> Result<(), Failure> {
    let (title, provider) = (program.title(), model.provider());
    let described = Catalog::new(context.place()?).describe(model, config);
    match model_access::way(program, model, config, described, agent.on_host) {
        Ok(ModelAccess::Relay(_)) => Ok(()),
        Ok(ModelAccess::OwnLogin) => {
            let say = &context.printer;
            say.say(format!("{title} asks {model} with its own login: this home has no key of {provider}"));
            // The program may know the model by other means than flock does, so this is only a warning.
            if let Ok(wire) = catalog::wire(model, config)
                && !program.speaks(wire.api)
            {
                let api = wire.api.as_str();
                say.warn(&format!(
                    "{title} may not support {model}, whose API is {api}; choose another model with --model"
                ));
            }
            Ok(())
        }
        // For an agent in a sandbox the missing key is reported together with the other models.
        Err(ModelAccessError::NoKey(error)) => {
            if agent.on_host {
                let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
                context.printer.warn(&format!(
                    "{error}; {title} uses its own login only if {provider} is not configured{hint}"
                ));
            }
            Ok(())
        }
        Err(ModelAccessError::NoProvider(error)) => Err(error.into()),
        Err(unable @ (ModelAccessError::Signed(_) | ModelAccessError::Unspoken(_))) => {
            let text = format!("{title} can't ask {model}: {}", unable.reason(program, model));
            let name = program.name();
            let hint = format!("flock {verb} {} --runtime {name} --model PROVIDER/MODEL", agent.id);
            Err(Failure::new(Kind::Usage, text).hint(hint))
        }
    }
}

/// Returns the programs in use that are in no list, because the name of their runtime describes them.
fn described(config: &Config) -> Vec<ProgramHandle> {
    let mut found: Vec<ProgramHandle> = Vec::new();
    for program in config.agents.iter().filter_map(|agent| program::named(&agent.runtime)) {
        if program.facts().converses && !found.iter().any(|known| known.name() == program.name()) {
            found.push(program);
        }
    }
    found
}

/// Returns the problems of agents that programs run, as (stops the agent, text, command). Each program in use has at
/// most one.
pub(crate) async fn troubles(config: &Config) -> Vec<(bool, String, String)> {
    let installed = installed().await;
    let mut found = Vec::new();
    for program in program::PROGRAMS {
        let agents: Vec<&Agent> =
            config.agents.iter().filter(|agent| agent.runtime == program.name()).collect();
        if agents.is_empty() {
            continue;
        }
        let there = installed.iter().find(|installed| installed.program.name() == program.name());
        match there {
            None => {
                let why = locate::find(program).err().unwrap_or_default();
                let who = match agents.len() {
                    1 => "1 agent needs".to_owned(),
                    many => format!("{many} agents need"),
                };
                let text = format!("{} is not installed, and {who} it: {why}", program.title());
                found.push((true, text, install_hint(program)));
            }
            Some(InstalledProgram { missing, .. }) if !missing.is_empty() => {
                let text = there.and_then(InstalledProgram::unfit_reason).unwrap_or_default();
                found.push((true, text, renewal_hint(program)));
            }
            Some(installed) if installed.is_old() => {
                let text = format!("{} is older than {}", installed.label(), program.facts().oldest);
                found.push((false, text, renewal_hint(program)));
            }
            Some(_) => {}
        }
    }
    for program in described(config) {
        if let Err(why) = locate::find(&*program) {
            let text = format!("{} can't run its agents: {why}", program.title());
            found.push((true, text, install_hint(&*program)));
        }
    }
    for agent in &config.agents {
        // A configuration edited by hand can name a runtime that this flock does not have.
        if program::named(&agent.runtime).is_none() && ![NATIVE, RUNTIME].contains(&agent.runtime.as_str()) {
            let text =
                format!("agent {} has the runtime {:?}, which flock does not have", agent.id, agent.runtime);
            let at = format!("plugins.entries.flock.config.gatewayAgents[{}].runtime", agent.id);
            found.push((true, text, format!("flock config set {at} native")));
        }
        // A person chose this, but should be reminded of it.
        if program::named(&agent.runtime).is_some() && agent.runs_on_host() {
            let text = format!("agent {} runs on this machine itself, in no sandbox, as you chose", agent.id);
            found.push((false, text, host::off(&agent.id)));
        }
        let refuses =
            program::named(&agent.runtime).and_then(|program| program.refuses_host(host::is_root()));
        if let Some(why) = refuses.filter(|_| agent.runs_on_host()) {
            let text = format!("agent {} can't run on this machine itself: {why}", agent.id);
            found.push((true, text, host::off(&agent.id)));
        }
    }
    found
}
