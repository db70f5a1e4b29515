//! `flock service`: the gateway kept running by the machine's own service manager, from boot on.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User};
use serde_json::json;

use super::{Context, Exit, Failure};
use crate::config::{self, Agent};
use crate::env;
use crate::error::Kind;
use crate::home::{Home, atomic};
use crate::provider::Catalog;
use crate::supervise::control::Connection;
use crate::supervise::halt::halt;
use crate::supervise::launch;
use crate::supervise::restart::Limits;
use crate::supervise::service::{Scope, Service};
use crate::ui::{Line, Tone};

/// Have the machine's service manager keep the gateway running
///
/// Writes a systemd unit, for the user (with linger, so that it runs from boot on) or, as root, for the
/// system, where it runs as the home's owner. It runs `flock start --foreground`.
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
    let owner = owner(home)?;
    if service.scope == Scope::User && owner != Uid::effective() {
        let text =
            format!("the home belongs to {}, and a service of this user would run as another", service.user);
        let mend = format!("sudo flock --home {} service install --system", home.root().display());
        return Err(Failure::new(Kind::Usage, text).hint(mend));
    }
    let path = place(&service, options)?;
    let text = service.text();
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)
            .map_err(|error| Failure::caused("failed to make the service's folder", &error))?;
    }
    atomic::write(&path, text.as_bytes(), 0o644)?;
    let commands = service.enable();
    let active = options.root.is_none() && systemd_runs();
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
    let lacking = lacking(home)?;
    let names: Vec<&str> = lacking.iter().map(|lack| lack.variable.as_str()).collect();
    tell(&path, &commands, active, &names, context);
    for Lack { variable, mend } in &lacking {
        let mend = match mend {
            Some(command) => format!("run `{command}`"),
            None => format!("give it there with `{}`", service.edit()),
        };
        context.printer.warn(&format!("{variable} is set here only and the service won't have it; {mend}"));
    }
    Ok(Exit::Done)
}

/// A variable that flock uses here and a service manager does not give it.
struct Lack {
    variable: String,
    /// What makes it needless; `None` where nothing but giving it to the service does.
    mend: Option<String>,
}

/// The variables with keys of the agents' providers, which go into no unit because everybody can read that;
/// and those of a proxy, whose address may hold a password.
fn lacking(home: &Home) -> Result<Vec<Lack>, Failure> {
    let config = config::read(home)?;
    let catalog = Catalog::new(home.clone());
    let mut lacking: Vec<Lack> = Vec::new();
    for model in config.agents.iter().flat_map(Agent::models) {
        let Some(variable) = catalog.key_variable(model, &config) else { continue };
        let mend = Some(format!("flock config set models.providers.{}.apiKey -", model.provider()));
        if !lacking.iter().any(|lack| lack.mend == mend) {
            lacking.push(Lack { variable, mend });
        }
    }
    let proxies = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];
    let names = proxies.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]);
    lacking.extend(
        names.filter(|name| env::named(name).is_some()).map(|variable| Lack { variable, mend: None }),
    );
    Ok(lacking)
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
    take_away(&service, &path, options.root.is_none())?;
    if context.printer.json_wanted() {
        context.printer.json(&json!({"path": path, "removed": true}));
    }
    context.printer.say(format!("removed {}", path.display()));
    Ok(Exit::Done)
}

/// Stops a service, if its manager runs and `active` says so, and removes its file.
fn take_away(service: &Service, path: &Path, active: bool) -> Result<(), Failure> {
    let (before, after) = service.disable();
    let active = active && systemd_runs();
    if active {
        before.iter().try_for_each(|command| call(command))?;
    }
    fs_err::remove_file(path).map_err(|error| Failure::caused("failed to remove the service", &error))?;
    if active {
        after.iter().try_for_each(|command| call(command))?;
    }
    Ok(())
}

/// A service of this home that is installed.
#[derive(Clone, Debug)]
pub struct Installed {
    service: Service,
    /// Its file.
    pub path: PathBuf,
}

impl Installed {
    /// Stops it and removes it.
    ///
    /// # Errors
    ///
    /// If its manager refuses, or its file can't be removed.
    pub fn remove(&self) -> Result<(), Failure> {
        let mend = match self.service.scope {
            Scope::User => format!("flock --home {} service remove --user", self.service.home.display()),
            Scope::System => {
                format!("sudo flock --home {} service remove --system", self.service.home.display())
            }
        };
        take_away(&self.service, &self.path, true).map_err(|failure| failure.hint(mend))
    }
}

/// The services of this home, the user's and the system's.
///
/// # Errors
///
/// If it can't be found out where they would be.
pub fn installed(home: &Home) -> Result<Vec<Installed>, Failure> {
    let mut found = Vec::new();
    for system in [false, true] {
        let options = Options { system, user: !system, root: None };
        let service = describe(home, &options)?;
        // Where this user has no home folder there is no place for a service either.
        let Ok(path) = place(&service, &options) else { continue };
        let text = atomic::read(&path, MOST_UNIT).ok().flatten().unwrap_or_default();
        if service.is_told_by(&String::from_utf8_lossy(&text)) {
            found.push(Installed { service, path });
        }
    }
    Ok(found)
}

/// The command that starts this home's service anew; `None` where none is installed.
#[must_use]
pub fn restart_command(home: &Home) -> Option<String> {
    let found = installed(home).ok()?.into_iter().next()?;
    Some(found.service.restart())
}

const MOST_UNIT: u64 = 1 << 20;

fn tell(path: &Path, commands: &[Vec<String>], active: bool, lacking: &[&str], context: &Context) {
    let commands: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    if context.printer.json_wanted() {
        context.printer.json(
            &json!({"path": path, "active": active, "commands": commands, "missingVariables": lacking}),
        );
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
    let root = Uid::effective().is_root();
    let scope = if options.system || (root && !options.user) { Scope::System } else { Scope::User };
    // A service manager gives a service its own short PATH, and none of what says where Docker is.
    let env = [env::PATH, env::DOCKER_HOST, env::SSL_CERT_FILE]
        .iter()
        .filter_map(|variable| Some((variable.name.to_owned(), variable.get()?)))
        .collect();
    let user = login(owner(home)?);
    let (home, suffix) = (home.root().to_owned(), home.suffix().to_owned());
    Ok(Service { scope, program, home, suffix, env, user })
}

/// Whose the home is; whoever asks where it is not there.
fn owner(home: &Home) -> Result<Uid, Failure> {
    match fs_err::metadata(home.root()) {
        Ok(found) => Ok(Uid::from_raw(found.uid())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Uid::effective()),
        Err(error) => Err(Failure::caused("failed to see whose the home is", &error)),
    }
}

/// A user's login as service managers take it, or the number.
fn login(uid: Uid) -> String {
    let is_plain = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !name.starts_with('-') && !name.is_empty() && name.chars().all(allowed)
    };
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    name.filter(|name| is_plain(name)).unwrap_or_else(|| uid.to_string())
}

fn place(service: &Service, options: &Options) -> Result<PathBuf, Failure> {
    let nowhere = || Failure::new(Kind::Failed, "this user has no home folder to put a service in");
    let config = dirs::config_dir().ok_or_else(nowhere)?;
    let path = service.path(&config);
    Ok(match &options.root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)),
        None => path,
    })
}

fn systemd_runs() -> bool {
    Path::new("/run/systemd/system").is_dir()
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
