//! `flock config`: reads, changes and checks the configuration.

mod value;

use std::collections::BTreeMap;

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Context, Exit, Failure, models, openclaw, settings, team};
use crate::config::assign::{Assigned, assign};
use crate::config::path::ConfigPath;
use crate::config::unassign::unassign;
use crate::config::{self, Config, hidden, ineffective};
use crate::error::Kind;
use crate::home::Home;
use crate::nix_store::{Flake, Pin};
use crate::provider::{effort, price};
use crate::tool::policy;
use crate::ui::{StyledLine, TextStyle};

/// Show, change or check the configuration
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the configuration, or one value of it
    ///
    /// Keys and tokens are hidden, unless PATH names exactly that value.
    #[command(after_long_help = "\
Examples:
  flock config get
  flock config get 'agents.list[coder].model.primary'
  flock config get gateway.auth.token")]
    Get {
        /// Path of the value, as in gateway.auth.token [default: the whole configuration]
        path: Option<ConfigPath>,
    },
    /// Change one value
    ///
    /// Creates missing parts of the path. Moves a literal apiKey, or the token of a bridge, to the home's secrets/, and writes
    /// its name to the configuration.
    #[command(after_long_help = "\
Examples:
  flock config set 'agents.list[coder].model.primary' openai/gpt-5
  flock config set models.providers.anthropic.apiKey -")]
    Set {
        #[expect(
            rustdoc::broken_intra_doc_links,
            reason = "help shows the brackets of the path as they are"
        )]
        /// Path of the value, as in gateway.auth.token or agents.list[coder].model.primary
        path: ConfigPath,
        /// JSON or text, or "-" for stdin, which is the way for keys and tokens
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Remove one value
    Unset {
        #[expect(
            rustdoc::broken_intra_doc_links,
            reason = "help shows the brackets of the path as they are"
        )]
        /// Path of the value, as in agents.list[coder].sandbox.docker.memory
        path: ConfigPath,
    },
    /// Check that the configuration can be used
    Validate,
}

/// Runs the verb below `config`.
///
/// # Errors
///
/// Returns an error if the configuration is not valid, or if a change would make it invalid.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Get { path } => get(path.as_ref(), context),
        Verb::Set { path, value } => set(path, value, context),
        Verb::Unset { path } => unset(path, context),
        Verb::Validate => validate(context),
    }
}

fn get(path: Option<&ConfigPath>, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    // The document is read without checking it, so that a value of a broken configuration can be looked at too.
    let (_, mut document) = config::file::read_document(&home)?;
    let Some(path) = path else {
        hidden::hide_secrets(&mut document);
        context.printer.json(&document);
        return Ok(Exit::Done);
    };
    let Some(found) = path.get(&document) else {
        return Err(
            Failure::new(Kind::Failed, format!("the configuration has no {path}")).hint("flock config get")
        );
    };
    match found {
        Value::String(text) if !context.printer.is_json() => context.printer.line(text.as_str()),
        // A single secret value is printed if its own path was asked for; inside an object it stays hidden.
        Value::Object(_) | Value::Array(_) => {
            let mut shown = found.clone();
            hidden::hide_secrets(&mut shown);
            context.printer.json(&shown);
        }
        found => context.printer.json(found),
    }
    Ok(Exit::Done)
}

fn set(path: &ConfigPath, text: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let Assigned { stored, off_host } = assign(&home, path, value::read(path, text)?)?;
    for id in off_host {
        context.printer.warn(&format!(
            "agent {id} no longer runs on this machine itself, because this was chosen for another program; to \
             choose it again: flock config set plugins.entries.flock.config.gatewayAgents[{id}].onHost true"
        ));
    }
    for name in stored {
        let line = StyledLine::new()
            .plain("the key is in ")
            .accent(home.secrets().join(&name).display().to_string());
        context.printer.say(line.plain(format!("; the configuration says \"secret:{name}\"")));
    }
    print_done(&format!("{path} is set"), context);
    if path.to_string().ends_with("config.nix.flake") {
        pin(&home, context)?;
    }
    settings::warn_of_invalid_sandboxes(&home, &config::read(&home)?, context);
    // A running gateway keeps its port until the next start, which a person has to know.
    if path.to_string().ends_with("config.gateway.port") {
        let configured = config::read(&home)?.port;
        let served = context.block_on(async { Ok(team::served_port(&home).await) })?;
        if let Some(served) = served.filter(|served| *served != configured) {
            context.printer.warn(&team::port_message(served, configured));
        }
    }
    Ok(Exit::Done)
}

/// Pins a flake folder to its present content. For a remote flake it only reports how it is pinned.
fn pin(home: &Home, context: &Context) -> Result<(), Failure> {
    let configured = config::read(home)?.nix_flake;
    let pinned = match Flake::configured(configured.as_deref())? {
        Flake::Folder(folder) => Pin::folder(home, &folder).map(Some),
        // Pinning a remote flake needs the network, so that is left to `flock nix pin`.
        Flake::Remote(_) => Pin::read(home, configured.as_deref()),
    };
    match pinned {
        Ok(Some(pin)) => {
            context.printer.say(format!("packages come from {} (content hash {})", pin.locked, pin.nar_hash));
        }
        Ok(None) => {
            context
                .printer
                .warn("agents get packages from this flake only after it is pinned: flock nix pin --update");
        }
        Err(error) => {
            context.printer.warn(&format!("{}; then: flock nix pin --update", crate::error::chain(&error)));
        }
    }
    Ok(())
}

fn unset(path: &ConfigPath, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    if !unassign(&home, path)? {
        return Err(
            Failure::new(Kind::Failed, format!("the configuration has no {path}")).hint("flock config get")
        );
    }
    print_done(&format!("{path} is removed"), context);
    Ok(Exit::Done)
}

fn validate(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let config = config::read(&home)?;
    models::warn_of_unusable(&home, &config, context);
    let (_, document) = config::file::read_document(&home)?;
    // Warnings come before the checks that end the command, so that a person sees all of them.
    for path in ineffective::settings(&document) {
        context.printer.warn(&ineffective::warning(&path));
    }
    for model in price::unpriced_models(&config) {
        context.printer.warn(&price::unpriced_warning(&model));
    }
    for warning in effort::warnings(&config) {
        context.printer.warn(&warning);
    }
    for trouble in context.block_on(async { Ok(Box::pin(openclaw::troubles(&home, &config)).await) })? {
        context.printer.warn(&format!("{}; {}", trouble.text, trouble.mend));
    }
    check_tool_patterns(&config)?;
    settings::check(&home, &config)?;
    let value = json!({"valid": true, "path": home.config(), "agents": config.agents.len()});
    let line = StyledLine::new().with(TextStyle::Good, "valid").plain(": ");
    context.printer.result(&value, line.accent(home.config().display().to_string()));
    Ok(Exit::Done)
}

/// Checks the tool patterns of all agents.
///
/// A pattern that can't be parsed does not make the configuration invalid. It makes the policy of its agent deny (fail
/// closed), so it is reported here.
fn check_tool_patterns(config: &Config) -> Result<(), Failure> {
    let mut wrong = BTreeMap::<String, Vec<&str>>::new();
    for agent in &config.agents {
        for error in policy::pattern_errors(agent) {
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

fn print_done(text: &str, context: &Context) {
    context.printer.if_json(&json!({"changed": true}));
    context.printer.say(text);
}
