//! `flock config`: reading, changing and checking the configuration.

pub(super) mod path;
mod value;

use std::collections::BTreeMap;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Context, Exit, Failure, models, openclaw, settings, team};
use crate::config::{self, Config, agents, unused};
use crate::error::Kind;
use crate::home::Home;
use crate::nix::{Flake, Pin};
use crate::provider::{effort, price};
use crate::sandbox::policy;
use crate::ui::{Line, Tone};
use path::Path;

/// Read, change or check the configuration
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the configuration, or one value of it
    ///
    /// Keys and tokens are shown only where their own path is asked for.
    Get {
        /// As in gateway.auth.token or agents.list[coder].model.primary
        path: Option<Path>,
    },
    /// Change one value
    ///
    /// What is missing on the way is made. A literal apiKey goes to the home's secrets/, and the
    /// configuration gets its name.
    Set {
        /// As in gateway.auth.token or agents.list[coder].model.primary
        path: Path,
        /// JSON, or a text; "-" reads it from stdin, which is the way for keys and tokens
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Take one value out
    Unset {
        /// As in agents.list[coder].sandbox.docker.memory
        path: Path,
    },
    /// Check that the configuration is usable
    Validate,
}

/// Runs the verb below `config`.
///
/// # Errors
///
/// If the configuration is not usable, or a change would make it so.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Get { path } => get(path.as_ref(), context),
        Verb::Set { path, value } => set(path, value, context),
        Verb::Unset { path } => unset(path, context),
        Verb::Validate => validate(context),
    }
}

fn get(path: Option<&Path>, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let (_, mut document) = config::file::read_document(&home)?;
    let Some(path) = path else {
        value::hide_secrets(&mut document);
        context.printer.json(&document);
        return Ok(Exit::Done);
    };
    let Some(found) = path.get(&document) else {
        return Err(
            Failure::new(Kind::Failed, format!("the configuration has no {path}")).hint("flock config get")
        );
    };
    match found {
        Value::String(text) if !context.printer.json_wanted() => context.printer.line(text.as_str()),
        Value::Object(_) | Value::Array(_) => {
            let mut shown = found.clone();
            value::hide_secrets(&mut shown);
            context.printer.json(&shown);
        }
        found => context.printer.json(found),
    }
    Ok(Exit::Done)
}

fn set(path: &Path, text: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.home_to_change()?;
    let mut value = value::read(path, text)?;
    // The secret is stored first: a configuration that names a secret that is not there is of no use.
    let stored = value::store_keys(&home, path, &mut value)?;
    let keeps_host = path.keys().last() != Some(&"runtime");
    let taken = config::edit(&home, |document| {
        let before = document.clone();
        path.set(document, value)?;
        settings::check_change(&before, document, &home)?;
        Ok::<_, Failure>(if keeps_host { Vec::new() } else { agents::keep_off_host(&before, document) })
    })?;
    for id in taken {
        context.printer.warn(&format!(
            "agent {id} no longer runs on this machine itself: that was chosen for another program; to choose it \
             again: flock config set plugins.entries.flock.config.gatewayAgents[{id}].onHost true"
        ));
    }
    for name in stored {
        let line =
            Line::new().plain("the key is in ").accent(home.secrets().join(&name).display().to_string());
        context.printer.say(line.plain(format!("; the configuration says \"secret:{name}\"")));
    }
    done(&format!("{path} is set"), context);
    if path.to_string().ends_with("config.nix.flake") {
        pin(&home, context)?;
    }
    settings::warn_of_refused(&home, &config::read(&home)?, context);
    if path.to_string().ends_with("config.gateway.port") {
        let configured = config::read(&home)?.port;
        let served = context.block_on(async { Ok(team::served_port(&home).await) })?;
        if let Some(served) = served.filter(|served| *served != configured) {
            context.printer.warn(&team::port_note(served, configured));
        }
    }
    Ok(Exit::Done)
}

/// Pins a folder that packages are to come from to what is in it now, and says of another flake how it is pinned.
fn pin(home: &Home, context: &Context) -> Result<(), Failure> {
    let configured = config::read(home)?.nix_flake;
    let pinned = match Flake::configured(configured.as_deref())? {
        Flake::Folder(folder) => Pin::folder(home, &folder).map(Some),
        Flake::Remote(_) => Pin::read(home, configured.as_deref()),
    };
    match pinned {
        Ok(Some(pin)) => {
            context
                .printer
                .say(format!("packages come from {} with the content {}", pin.locked, pin.nar_hash));
        }
        Ok(None) => {
            context.printer.warn("agents get packages of it when it is pinned: flock nix pin --update");
        }
        Err(error) => {
            context.printer.warn(&format!("{}; then: flock nix pin --update", crate::error::chain(&error)));
        }
    }
    Ok(())
}

fn unset(path: &Path, context: &Context) -> Result<Exit, Failure> {
    let home = context.home_to_change()?;
    let there = config::edit(&home, |document| Ok::<_, Failure>(path.remove(document)))?;
    if !there {
        return Err(
            Failure::new(Kind::Failed, format!("the configuration has no {path}")).hint("flock config get")
        );
    }
    done(&format!("{path} is taken out"), context);
    Ok(Exit::Done)
}

fn validate(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let config = config::read(&home)?;
    models::warn_of_unusable(&home, &config, context);
    let (_, document) = config::file::read_document(&home)?;
    for path in unused::settings(&document) {
        context.printer.warn(&unused::warning(&path));
    }
    for model in price::unbound(&config) {
        context.printer.warn(&price::unbound_warning(&model));
    }
    for warning in effort::warnings(&config) {
        context.printer.warn(&warning);
    }
    for trouble in context.block_on(async { Ok(Box::pin(openclaw::troubles(&home, &config)).await) })? {
        context.printer.warn(&format!("{}; {}", trouble.text, trouble.mend));
    }
    check_tool_patterns(&config)?;
    settings::check(&home, &config)?;
    if context.printer.json_wanted() {
        context.printer.json(&json!({"valid": true, "path": home.config(), "agents": config.agents.len()}));
    } else {
        let line = Line::new().with(Tone::Good, "valid").plain(": ");
        context.printer.line(line.accent(home.config().display().to_string()));
    }
    Ok(Exit::Done)
}

/// A pattern that can't be read makes no configuration unusable, but its agent: it fails closed.
fn check_tool_patterns(config: &Config) -> Result<(), Failure> {
    let mut wrong = BTreeMap::<String, Vec<&str>>::new();
    for agent in &config.agents {
        for error in policy::check_patterns(agent) {
            let agents = wrong.entry(error.to_string()).or_default();
            if !agents.contains(&agent.id.as_str()) {
                agents.push(agent.id.as_str());
            }
        }
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> =
        wrong.iter().map(|(error, agents)| format!("{error} (tools of {})", agents.join(", "))).collect();
    Err(Failure::new(Kind::Failed, lines.join("\n")).hint("flock config get tools"))
}

fn done(text: &str, context: &Context) {
    if context.printer.json_wanted() {
        context.printer.json(&json!({"changed": true}));
    } else {
        context.printer.say(text);
    }
}
