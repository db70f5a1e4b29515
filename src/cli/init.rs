//! `flock init`: creates a home, or completes one.
//!
//! After every step the next `init` can continue: folders, instance id, configuration, workspaces, format number,
//! images. Existing parts are not made again.

mod choice;
mod home;
mod model_detection;
mod openclaw;

use clap::ValueEnum;
use serde_json::{Value, json};

use super::programs::{self, InstalledProgram};
use super::{Context, Exit, Failure, images, install_progress, models, team, token_file};
use crate::config;
use crate::home::{Home, version};
use crate::id::ModelRef;
use crate::ui::{StyledLine, TextStyle};

/// Set up a home, or complete an unfinished one
///
/// Creates the folders, the configuration, the agents orchestrator and sysadmin, the sandbox images and the shared
/// package store. Safe to run again: existing agents, unknown keys and files stay.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Default model of the agents, as in anthropic/claude-opus-4-5
    #[arg(long, value_name = "PROVIDER/MODEL")]
    pub model: Option<ModelRef>,
    /// File with the owner's token for the HTTP API, or "-" for stdin
    ///
    /// Without this option, a home that has no token gets a random one.
    #[arg(long, value_name = "FILE|-")]
    pub token_file: Option<String>,
    /// Port of the gateway on 127.0.0.1 [default: 3779, or the next free port]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Do not make the images and the package store; the first `flock add` or another `flock init` makes them
    #[arg(long)]
    pub no_images: bool,
    /// Gateway to set up
    ///
    /// Without this option, flock asks in a new home on a terminal. Otherwise it does not add OpenClaw.
    #[arg(long, value_enum)]
    pub gateway: Option<GatewayChoice>,
    /// Repository to clone OpenClaw from: an https, ssh or file URL, user@host:path, or a path
    #[arg(long, value_name = "URL")]
    pub repo: Option<String>,
    /// Branch, tag or commit of OpenClaw; updates follow only a branch
    #[arg(long = "ref", value_name = "REF")]
    pub reference: Option<String>,
}

/// A gateway that can be set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GatewayChoice {
    /// Only flock's own gateway, which is part of this program
    Native,
    /// OpenClaw as well, which is cloned and built here
    Openclaw,
}

/// Creates or completes the home.
///
/// # Errors
///
/// Returns the error of the step that failed. The completed steps stay and the next call uses them.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    // Everything that can be refused is refused before the first file is written.
    openclaw::check(args)?;
    let home = context.place()?;
    version::check_writable(&home)?;
    let fresh = !home.config().exists();
    let token = args.token_file.as_deref().map(token_file::read).transpose();
    let token = token.map_err(|failure| failure.or_hint("leave --token-file out to get a random one"))?;
    let programs = context.block_on(async { Ok(programs::installed().await) })?;
    print_programs(&programs, context);
    let choice = choice::choose(args.model.as_ref(), &home, fresh, args.gateway.is_none(), context)?;

    let wanted =
        home::InitSettings { model: choice.model, base_url: choice.base_url, token, port: args.port };
    let notes = home::complete(&home, &wanted)?;
    // The key is stored only after the home is complete, because its folder is one of the things made above.
    if let Some(key) = choice.key {
        config::secret::set(&home, key.provider, &key.value)?;
    }
    notes.into_iter().for_each(|note| context.printer.say(note));
    let config = config::read(&home)?;
    models::warn_of_unusable(&home, &config, context);
    // A running gateway keeps its old port until it is restarted.
    let served = context.block_on(async { Ok(team::served_port(&home).await) })?;
    let moved = served.filter(|served| *served != config.port);
    if let Some(served) = moved {
        context.printer.warn(&team::port_message(served, config.port));
    }
    let mut said = json!({
        "home": home.root(),
        "config": home.config(),
        "created": fresh,
        "url": format!("http://127.0.0.1:{}", config.port),
        "restart": moved.is_some(),
        "agents": config.agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>(),
        "images": if args.no_images { "left out" } else { "ready" },
        "programs": programs.iter().map(described).collect::<Vec<_>>(),
    });
    // The images come last: they take minutes and need an engine, and the home works without them.
    if !args.no_images {
        context.block_on(async {
            // The engine is asked here for the first time. Before this point `init` works on a machine without Docker.
            let engine = team::engine().await?;
            images::make(&engine, &home, &config, context).await?;
            let progress = context.printer.progress("making the package store");
            team::store(&home, &config, engine).ensure().await?;
            progress.done("package store ready");
            Ok(())
        })?;
    }
    let openclaw = openclaw::install(args, choice.openclaw, &home, context)?;
    said["openclaw"] = json!(openclaw.as_ref().map(install_progress::described));
    if context.printer.is_json() {
        context.printer.json(&said);
    } else {
        // The address works at once, after a restart, or after a start, and the text says which.
        let when = match served {
            Some(port) if port == config.port => " runs",
            Some(_) => " once restarted",
            None => " once started",
        };
        report(&home, config.port, when, fresh, args.no_images, context);
        if let Some(version) = &openclaw {
            openclaw::report(version, context);
        }
        print_next_steps(context);
    }
    Ok(Exit::Done)
}

/// Prints which agent programs are installed. A person who chose the model on the command line wants to know them too.
fn print_programs(programs: &[InstalledProgram], context: &Context) {
    let Some(first) = programs.first() else { return };
    let labels: Vec<String> = programs.iter().map(InstalledProgram::label).collect();
    let (labels, runtime) = (labels.join(", "), first.program.name());
    context.printer.say(format!("found {labels}; to run an agent on one: flock add ID --runtime {runtime}"));
}

fn described(installed: &InstalledProgram) -> Value {
    json!({"runtime": installed.program.name(), "version": installed.version})
}

fn report(home: &Home, port: u16, when: &str, fresh: bool, no_images: bool, context: &Context) {
    let printer = &context.printer;
    let title = if fresh { "flock is set up" } else { "flock was set up already and is complete" };
    printer.line(StyledLine::new().with(TextStyle::Good, title));
    printer.line(StyledLine::new().plain("  home     ").accent(home.root().display().to_string()));
    printer.line(StyledLine::new().plain("  config   ").accent(home.config().display().to_string()));
    printer
        .line(StyledLine::new().plain("  gateway  ").accent(format!("http://127.0.0.1:{port}")).plain(when));
    printer.line(if no_images {
        "  images   left out; the first flock add makes them"
    } else {
        "  images   ready, and the package store, too"
    });
}

fn print_next_steps(context: &Context) {
    let printer = &context.printer;
    printer.say("");
    printer.say("next:");
    for (command, what) in [
        ("flock add coder", "an agent with a workspace and a sandbox of its own"),
        ("flock start", "the gateway"),
        ("flock chat coder", "talk to it"),
    ] {
        let gap = " ".repeat(18 - command.len());
        printer.say(StyledLine::new().plain("  ").accent(command).plain(format!("{gap}{what}")));
    }
}
