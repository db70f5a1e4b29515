//! `flock service`: the gateway kept running by the machine's own service manager, from boot on.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::env;
use crate::error::Kind;
use crate::home::{Home, atomic};
use crate::supervise::control::Connection;
use crate::supervise::halt::halt;
use crate::supervise::launch;
use crate::supervise::restart::Limits;
use crate::supervise::service::{Manager, Scope, Service};
use crate::ui::{Line, Tone};

/// Have the machine's service manager keep the gateway running
///
/// Writes a systemd unit, for the user (with linger, so that it runs from boot on) or, as root, for the
/// system; on macOS a launchd job. It runs `flock start --foreground`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write the service and start it
    Install(Options),
    /// Stop the service and remove it
    Remove(Options),
}

#[derive(Debug, clap::Args)]
struct Options {
    /// For the system, also when not root
    #[arg(long, conflicts_with = "user")]
    system: bool,
    /// For the user, also when root
    #[arg(long)]
    user: bool,
    /// Only write or remove the file, below this folder, and start or stop nothing
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Installs or removes the service.
///
/// # Errors
///
/// If the file can't be written or removed, or the service manager refuses.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::Install(options) => install(&context.home_to_change()?, options, context),
        Action::Remove(options) => remove(&context.place()?, options, context),
    }
}

fn install(home: &Home, options: &Options, context: &Context) -> Result<Exit, Failure> {
    let service = describe(home, options)?;
    let path = place(&service, options)?;
    let text = service.text();
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)
            .map_err(|error| Failure::caused("failed to make the service's folder", &error))?;
    }
    atomic::write(&path, text.as_bytes(), 0o644)?;
    let commands = service.enable(&path);
    let active = options.root.is_none() && manager_runs(service.manager);
    if !context.printer.json_wanted() {
        context.printer.say(Line::new().plain("wrote ").accent(path.display().to_string()));
        for line in text.lines() {
            context.printer.say(Line::new().with(Tone::Dim, format!("  {line}")));
        }
    }
    if active {
        // A supervisor in the background would hold the home, and the service would end at once.
        context.block_on(async {
            if Connection::open(home).await.is_ok() {
                context.printer.say("stopping the one that runs in the background");
                halt(home, &Limits::default()).await?;
            }
            Ok(())
        })?;
        commands.iter().try_for_each(|command| call(command))?;
    }
    tell(&path, &commands, active, context);
    Ok(Exit::Done)
}

fn remove(home: &Home, options: &Options, context: &Context) -> Result<Exit, Failure> {
    let service = describe(home, options)?;
    let path = place(&service, options)?;
    if !path.exists() {
        if context.printer.json_wanted() {
            context.printer.json(&json!({"path": path, "removed": false}));
        }
        context.printer.say(format!("there is no service at {}", path.display()));
        return Ok(Exit::Done);
    }
    let (before, after) = service.disable(&path);
    let active = options.root.is_none() && manager_runs(service.manager);
    if active {
        before.iter().try_for_each(|command| call(command))?;
    }
    fs_err::remove_file(&path).map_err(|error| Failure::caused("failed to remove the service", &error))?;
    if active {
        after.iter().try_for_each(|command| call(command))?;
    }
    if context.printer.json_wanted() {
        context.printer.json(&json!({"path": path, "removed": true}));
    }
    context.printer.say(format!("removed {}", path.display()));
    Ok(Exit::Done)
}

fn tell(path: &Path, commands: &[Vec<String>], active: bool, context: &Context) {
    let commands: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    if context.printer.json_wanted() {
        context.printer.json(&json!({"path": path, "active": active, "commands": commands}));
        return;
    }
    context.printer.line(path.display().to_string().as_str());
    if active {
        context.printer.say(Line::new().with(Tone::Good, "the service runs"));
    } else {
        context.printer.say("no service manager was asked; to start it, run");
        for command in commands {
            context.printer.say(Line::new().plain("  ").accent(command));
        }
    }
}

fn describe(home: &Home, options: &Options) -> Result<Service, Failure> {
    let program = launch::program()
        .map_err(|error| Failure::caused("failed to find the program's own file", &error))?;
    let root = nix::unistd::Uid::effective().is_root();
    let scope = if options.system || (root && !options.user) { Scope::System } else { Scope::User };
    let manager = if cfg!(target_os = "macos") { Manager::Launchd } else { Manager::Systemd };
    // A service manager gives a service its own short PATH, and none of what says where Docker is.
    let env = [env::PATH, env::DOCKER_HOST]
        .iter()
        .filter_map(|variable| Some((variable.name.to_owned(), variable.get()?)))
        .collect();
    let user = env::USER.get().unwrap_or_else(|| nix::unistd::Uid::current().to_string());
    let (home, suffix) = (home.root().to_owned(), home.suffix().to_owned());
    Ok(Service { scope, manager, program, home, suffix, env, user })
}

fn place(service: &Service, options: &Options) -> Result<PathBuf, Failure> {
    let nowhere = || Failure::new(Kind::Failed, "this user has no home folder to put a service in");
    let config = dirs::config_dir().ok_or_else(nowhere)?;
    let path = service.path(&config, &dirs::home_dir().ok_or_else(nowhere)?);
    Ok(match &options.root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)),
        None => path,
    })
}

fn manager_runs(manager: Manager) -> bool {
    match manager {
        Manager::Systemd => Path::new("/run/systemd/system").is_dir(),
        Manager::Launchd => true,
    }
}

fn call(command: &[String]) -> Result<(), Failure> {
    let text = command.join(" ");
    let [program, arguments @ ..] = command else { return Ok(()) };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::caused(format!("failed to run {text}"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(Kind::Failed, format!("{text} failed: {}", said.trim())).hint(text))
}
