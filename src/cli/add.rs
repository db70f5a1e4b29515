//! `flock add`: creates an agent, from its configuration to its confined container.
//!
//! Everything is checked before anything is written. Then it writes the workspace and the identity files, the
//! configuration, and last the container. The agent exists as soon as the configuration is written. If a later step
//! fails, the error says that the agent exists and that the missing part is made at its next command.

use serde_json::{Value, json};

use super::{
    Context, Exit, Failure, database, images, list, models, openclaw, pending_operations, person, programs,
    runtime_name, settings, team,
};
use crate::agent::identity;
use crate::agent::prompt::archetype;
use crate::config::agents::{self, NewAgent};
use crate::config::{self, Config, ConfigError, Effort, Network, Role, docker, engines};
use crate::error::{Kind, chain};
use crate::home::Home;
use crate::id::{AgentId, ModelRef};
use crate::nix_store::Attribute;
use crate::openclaw::{RUNTIME, port};
use crate::runtime::NATIVE;
use crate::runtime::program;
use crate::sandbox::egress::EgressRule;
use crate::store::{FreezeState, Level};
use crate::supervise::gateway_client::Client;
use crate::swarm::person::why_not_agent;
use crate::ui::{StyledLine, TextStyle};

/// Add an agent
///
/// Creates the agent's configuration, workspace and container. Returns when a probe inside the container has found it
/// confined. A running gateway uses the new agent at once.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock add coder --archetype code-first-developer --packages python3,ripgrep
  flock add critic --archetype code-reviewer --effort high
  flock add reader --egress pypi.org --egress '*.debian.org'")]
pub(crate) struct Args {
    /// Id of the agent: a-z, 0-9, '-' and '_', at most 63 characters
    pub id: String,
    /// Role in the team
    #[arg(long, value_enum, default_value = "worker")]
    pub role: Role,
    /// Model of the agent [default: the home's default model]
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<ModelRef>,
    /// Archetype, which says what the agent is good at
    ///
    /// Built in: code-first-developer, code-reviewer, deep-researcher, ideation, product-developer,
    /// production-first-developer, project-manager, qa, security-adviser. Your own: NAME of a file archetypes/NAME.md
    /// in the home.
    #[arg(long, value_name = "NAME")]
    pub archetype: Option<String>,
    /// Program that runs the agent's turns: flock itself (native), OpenClaw if it is installed, or an installed agent
    /// program
    #[arg(long, default_value = NATIVE, value_name = "NAME", value_parser = runtime_name::parser())]
    pub runtime: String,
    /// Thinking effort of the agent's model [default: left to the provider]
    #[arg(long, value_enum)]
    pub effort: Option<Effort>,
    /// Packages to install for the agent, by their names in nixpkgs, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub packages: Vec<Attribute>,
    /// Network of the agent's sandbox [default: none, or proxy with --egress]
    #[arg(long, value_enum)]
    pub network: Option<Network>,
    /// Host that the sandbox may reach, or "*.HOST" for all hosts below it
    ///
    /// Allows ports 80 and 443, unless PORT is given. Can be given more than once.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub egress: Vec<EgressRule>,
    /// Labels that the engine of the sandbox must have, separated by commas
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    pub labels: Vec<String>,
    /// Memory limit of the container, as in 2g [default: the home's default, else 2g]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Core limit of the container, as in 1.5 [default: the home's default, else 2]
    #[arg(long, value_name = "NUMBER")]
    pub cpus: Option<f64>,
    /// Run the agent program on this machine itself, with your rights, instead of in the container
    ///
    /// If this home has no provider for the model, the program uses its own login.
    #[arg(long)]
    pub on_host: bool,
    /// Do not make the container now; the agent's first command makes it
    #[arg(long)]
    pub no_container: bool,
}

/// Checks the options, adds the agent and prints the result.
///
/// # Errors
///
/// Returns an error if an option has an unusable value, if the id is taken, if the archetype or the runtime can't be
/// used, or if one of the parts can't be made.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let agent = check(args)?;
    let home = context.writable_home()?;
    // An unfinished removal of an agent with this id is completed first. Otherwise the new agent would start with the
    // old one's files, and lose them when the removal is completed.
    context.block_on(pending_operations::finish(&home, &agent.id, context))?;
    let config = config::read(&home)?;
    if config.agent(&agent.id).is_some() {
        return Err(ConfigError::Exists(agent.id).into());
    }
    let people = match database::read_view(&home, async |reader| reader.people().list().await) {
        // Nobody could say that a person has this id.
        Err(error) if error.is_fault() => return Err(error.into()),
        // A database that an older flock wrote has no people, nor a table for them.
        read => read.ok().flatten().unwrap_or_default(),
    };
    if let Some(why) = why_not_agent(&people, &agent.id) {
        return Err(Failure::new(Kind::Conflict, why).hint("flock person list"));
    }
    if let Some(name) = &agent.archetype {
        archetype::find(&home.archetypes(), name)?;
    }
    check_runtime(&agent, &home, context)?;
    context.block_on(add(args, &agent, &home, &config, context))
}

/// Returns an error if the program that is to run the agent's turns can't do so.
fn check_runtime(agent: &NewAgent, home: &Home, context: &Context) -> Result<(), Failure> {
    let program = program::named(&agent.runtime);
    // Native turns need no other program.
    if agent.runtime != RUNTIME && program.is_none() {
        return Ok(());
    }
    // The check needs the configuration with the new agent in it, which is not written yet.
    let (document, config) = settings::planned(home, |document| agents::add(document, home, agent))?;
    if agent.runtime == RUNTIME {
        context.block_on(openclaw::check(home, document, &config))?;
    }
    match (program, config.agent(&agent.id)) {
        (Some(program), Some(agent)) => programs::check(&program, agent, &config, "add", context),
        _ => Ok(()),
    }
}

async fn add(
    args: &Args,
    agent: &NewAgent,
    home: &Home,
    config: &Config,
    context: &Context,
) -> Result<Exit, Failure> {
    let id = &agent.id;
    let sandboxed = agent.role != Role::Sysadmin && !args.no_container && !args.on_host;
    let gateway = team::gateway(home, config).await?;
    // The steps that take minutes, or that fail without a container engine, come before the agent exists.
    let needs_engine = sandboxed || !args.packages.is_empty();
    if needs_engine {
        let engine = team::engine().await?;
        images::make(&engine, home, config, context).await?;
    }
    let who = identity::AgentIdentity {
        id,
        role: agent.role,
        archetype: agent.archetype.as_deref(),
        archetypes: &home.archetypes(),
    };
    // The identity folder may still exist from an earlier agent with the same id. SOUL.md is replaced only if nobody
    // edited it.
    let kept = identity::rewrite_soul(&home.identity(id), &who)?;
    identity::write(&home.identity(id), &home.workspace(id), &who)?;
    if let (Some(kept), Some(archetype)) = (kept, &agent.archetype) {
        context.printer.warn(&format!(
            "{} is from an earlier agent {id} and was edited, so it stays; to get the text of {archetype}: rm {}",
            kept.display(),
            kept.display()
        ));
    }
    // OpenClaw listens on a port of its own. It is chosen when the first agent needs it and kept in the configuration.
    let port = (agent.runtime == RUNTIME).then(|| port::choose(config)).flatten();
    config::edit(home, |document| {
        // Both changes are one edit of the file, so that no crash can separate them.
        if let Some(port) = port {
            port::set(document, port);
        }
        agents::add(document, home, agent)
    })?;
    let config = config::read(home)?;
    person::record(home, "agent.add", id.as_str(), Level::Yellow, agent.role.as_str().to_owned()).await?;
    if agent.runtime == RUNTIME {
        // The future is large. Boxing it keeps the future of every caller small.
        Box::pin(openclaw::put(home, context)).await.map_err(|failure| partial_failure(id, failure))?;
    }
    if needs_engine {
        let made = create_container(args, id, home, &config, gateway.as_ref(), context).await;
        made.map_err(|failure| partial_failure(id, failure))?;
    }
    print_added(home, &config, id, gateway.is_some(), context)
}

/// Makes the container and installs the packages of an agent that is in the configuration.
async fn create_container(
    args: &Args,
    id: &AgentId,
    home: &Home,
    config: &Config,
    gateway: Option<&Client>,
    context: &Context,
) -> Result<(), Failure> {
    // Packages are in the store of one engine. With several, the container comes first, because it places the agent.
    let has_several = !config.engines.is_empty();
    if !has_several {
        install_packages(args, id, home, config, context).await?;
    }
    // A frozen agent starts no container; it is made at the first command after the thaw. OpenClaw makes the containers
    // of its agents itself.
    let is_ours = args.role != Role::Sysadmin && args.runtime != RUNTIME && !args.on_host;
    if is_ours && !args.no_container && may_run(home, id, context) {
        let progress = context.printer.progress(&format!("making the sandbox of {id}"));
        // A running gateway owns the containers, so it has to make this one.
        match gateway {
            Some(gateway) => team::prepare(gateway, id).await?,
            None => team::make(home, config, id).await?,
        }
        progress.done(&format!("sandbox of {id} made and found confined"));
    }
    if has_several {
        install_packages(args, id, home, config, context).await?;
    }
    Ok(())
}

/// Returns `true` if the agent is known not to be frozen.
fn may_run(home: &Home, id: &AgentId, context: &Context) -> bool {
    match team::frozen(home) {
        Ok(frozen) => !frozen.holds(id),
        Err(error) => {
            context.printer.warn(&format!(
                "the sandbox of {id} is made at its first command, because it is not known if it is frozen: {}",
                chain(&error)
            ));
            false
        }
    }
}

async fn install_packages(
    args: &Args,
    id: &AgentId,
    home: &Home,
    config: &Config,
    context: &Context,
) -> Result<(), Failure> {
    if !args.packages.is_empty() {
        let store = team::store_of(home, config, id).await?;
        super::nix::install(&store, id, &args.packages, context).await?;
    }
    Ok(())
}

fn print_added(
    home: &Home,
    config: &Config,
    id: &AgentId,
    running: bool,
    context: &Context,
) -> Result<Exit, Failure> {
    let agent = config.require_agent(id)?;
    if agent.on_host {
        context.printer.warn(&on_host_text(id));
    } else {
        models::warn_of_unusable(
            home,
            &Config { agents: vec![agent.clone()].into(), ..config.clone() },
            context,
        );
    }
    let frozen = team::frozen(home).unwrap_or_else(|error| {
        context.printer.warn(&format!("it is not known if {id} is frozen: {}", chain(&error)));
        FreezeState::default()
    });
    if context.printer.is_json() {
        let mut agent: Value = list::describe(agent);
        agent["frozen"] = json!(frozen.of(id));
        context.printer.json(&json!({"agent": agent}));
        return Ok(Exit::Done);
    }
    let line = StyledLine::new().with(TextStyle::Good, "added").plain(" ").accent(id.as_str());
    context.printer.line(line.plain(format!(", {} in {}", agent.role.as_str(), agent.workspace.display())));
    if let Some(freeze) = frozen.home() {
        context.printer.warn(&team::home_frozen_text(freeze));
    }
    let next = if running { format!("flock chat {id}") } else { "flock start".to_owned() };
    context.printer.say(StyledLine::new().plain("next: ").accent(next));
    Ok(Exit::Done)
}

/// Returns the warning for an agent that runs on this machine itself.
pub(super) fn on_host_text(id: &AgentId) -> String {
    format!("agent {id} runs on this machine itself, with your rights; flock status keeps showing this")
}

/// Checks everything that can be checked without the home, and returns the agent to add.
fn check(args: &Args) -> Result<NewAgent, Failure> {
    let id: AgentId = args.id.parse()?;
    let usage = |text: String| Err(Failure::new(Kind::Usage, text).hint("flock add --help"));
    let [first, ..] = program::PROGRAMS;
    let has_egress = !args.egress.is_empty();
    let has_network = args.network.is_some() || has_egress;
    // The first combination that applies is reported.
    let unusable = [
        (
            args.runtime == RUNTIME && (args.network == Some(Network::Proxy) || has_egress),
            "agents on OpenClaw have no network, so --network proxy and --egress do not work with --runtime openclaw",
        ),
        (
            args.runtime == RUNTIME && !args.labels.is_empty(),
            "OpenClaw makes the containers of its agents in the machine's own engine, so --labels does not work with \
             --runtime openclaw",
        ),
        (args.network == Some(Network::None) && has_egress, "--egress needs --network proxy"),
        (
            args.role == Role::Sysadmin && has_network,
            "a sysadmin has no sandbox, so --network and --egress have no effect",
        ),
        (
            args.on_host && program::named(&args.runtime).is_none(),
            &format!("--on-host is for agent programs, as in --runtime {}", first.name()),
        ),
        (
            args.on_host
                && (has_network || args.memory.is_some() || args.cpus.is_some() || !args.labels.is_empty()),
            "--network, --egress, --memory, --cpus and --labels are for a container, and an agent with --on-host has none",
        ),
    ];
    if let Some((_, text)) = unusable.iter().find(|(applies, _)| *applies) {
        return usage((*text).to_owned());
    }
    if let Some(label) = args.labels.iter().find(|label| !engines::is_label(label)) {
        return usage(format!("{label:?} is not a label: {}", engines::LABEL_FORM));
    }
    if let Err(text) = args.memory.as_deref().map_or(Ok(()), check_size) {
        return usage(text);
    }
    if let Err(text) = args.cpus.map_or(Ok(()), check_cores) {
        return usage(text);
    }
    Ok(NewAgent {
        id,
        role: args.role,
        archetype: args.archetype.clone(),
        runtime: args.runtime.clone(),
        on_host: args.on_host,
        model: args.model.clone(),
        effort: args.effort,
        autonomy: None,
        memory: args.memory.clone(),
        cpus: args.cpus,
        network: args.network.or((!args.egress.is_empty()).then_some(Network::Proxy)),
        egress: args.egress.iter().map(ToString::to_string).collect(),
        labels: args.labels.clone(),
    })
}

/// Returns an error if a text is not a valid size for a memory limit.
pub(super) fn check_size(text: &str) -> Result<(), String> {
    match docker::bytes(&json!(text)) {
        Some(_) => Ok(()),
        None => Err(format!("{text:?} is not a size; write it as in 512m or 2g, at least 32m")),
    }
}

/// Returns an error if a number is not a valid limit of processor cores.
pub(super) fn check_cores(cpus: f64) -> Result<(), String> {
    if (0.1..=1024.0).contains(&cpus) {
        return Ok(());
    }
    Err(format!("{cpus} is not a number of cores from 0.1 to 1024"))
}

// Rewords an error that came after the configuration was written: the agent exists, so adding it again would fail.
fn partial_failure(id: &AgentId, failure: Failure) -> Failure {
    let text = format!("agent {id} was added, but its setup could not be completed");
    failure.within(text).or_hint("flock doctor")
}
