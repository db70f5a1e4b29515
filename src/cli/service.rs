//! `flock service`: lets the machine's service manager keep the gateway running, from boot on.

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
use crate::supervise::control::ControlConnection;
use crate::supervise::halt::halt;
use crate::supervise::launch;
use crate::supervise::restart::SupervisionLimits;
use crate::supervise::service::{Service, ServiceScope};
use crate::ui::{StyledLine, TextStyle};

/// Let the machine's service manager keep the gateway running
///
/// Writes a systemd unit that runs `flock start --foreground`. The unit of a user starts at boot, because flock enables
/// lingering for the user. As root, the unit is one of the system and runs as the owner of the home.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Write the unit file of the service, and start the service
    Install(ServiceOptions),
    /// Stop the service, and remove its unit file
    Remove(ServiceOptions),
}

#[derive(Debug, clap::Args)]
struct ServiceOptions {
    /// Use a service of the system, even if you are not root
    #[arg(long, conflicts_with = "user")]
    system: bool,
    /// Use a service of the user, even if you are root
    #[arg(long)]
    user: bool,
    /// Only write or remove the unit file, below this folder, and start or stop nothing
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
}

/// Installs or removes the service.
///
/// # Errors
///
/// Returns an error if the file can't be written or removed, or if the service manager refuses.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.action {
        Action::Install(options) => install(&context.writable_home()?, options, context),
        Action::Remove(options) => remove(&context.place()?, options, context),
    }
}

fn install(home: &Home, options: &ServiceOptions, context: &Context) -> Result<Exit, Failure> {
    let service = build_service(home, options)?;
    let owner = owner(home)?;
    // A gateway of another user could not read the home, or would leave files that the owner can't change.
    if service.scope == ServiceScope::User && owner != Uid::effective() {
        let text = format!(
            "the home belongs to {}, and a service of this user would run as another user",
            service.user
        );
        let mend = format!("sudo flock --home {} service install --system", home.root().display());
        return Err(Failure::new(Kind::Usage, text).hint(mend));
    }
    let path = place(&service, options)?;
    let text = service.text();
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)
            .map_err(|error| Failure::with_cause("failed to make the service's folder", &error))?;
    }
    // Everybody may read the unit, so no secret goes into it.
    atomic::write(&path, text.as_bytes(), 0o644)?;
    let commands = service.enable_commands();
    let active = options.root.is_none() && systemd_runs();
    context.printer.say(StyledLine::new().plain("wrote ").accent(path.display().to_string()));
    for line in text.lines() {
        context.printer.say(StyledLine::new().with(TextStyle::Dim, format!("  {line}")));
    }
    if active {
        // A supervisor in the background would hold the home's lock, and the service would end at once.
        context.block_on(async {
            if ControlConnection::open(home).await.is_ok() {
                context.printer.say("stopping the flock that runs in the background");
                halt(home, &SupervisionLimits::default()).await?;
            }
            Ok(())
        })?;
        commands.iter().try_for_each(|command| call(command))?;
    }
    // The service does not inherit the environment of this terminal, so what it will lack is reported now.
    let lacking = lacking(home)?;
    let names: Vec<&str> = lacking.iter().map(|lack| lack.variable.as_str()).collect();
    print_installed(&path, &commands, active, &names, context);
    for MissingVariable { variable, mend } in &lacking {
        let mend = match mend {
            Some(command) => format!("run `{command}`"),
            None => format!("set it in the service with `{}`", service.command_for_person("edit")),
        };
        context.printer.warn(&format!(
            "{variable} is set only in this environment, so the service does not get it; {mend}"
        ));
    }
    Ok(Exit::Done)
}

/// A variable that flock uses here and that the service manager does not give to the service.
struct MissingVariable {
    variable: String,
    /// The command that makes the variable unnecessary. `None` if it has to be given to the service.
    mend: Option<String>,
}

/// Returns the variables with provider keys and with proxies that the service lacks.
///
/// Keys are not written into the unit, because everybody can read it. A proxy's URL may hold a password too.
fn lacking(home: &Home) -> Result<Vec<MissingVariable>, Failure> {
    let config = config::read(home)?;
    let catalog = Catalog::new(home.clone());
    let mut lacking: Vec<MissingVariable> = Vec::new();
    for model in config.agents.iter().flat_map(Agent::models) {
        let Some(variable) = catalog.key_variable(model, &config) else { continue };
        let mend = Some(format!("flock config set models.providers.{}.apiKey -", model.provider()));
        // Several models of one provider need the same key.
        if !lacking.iter().any(|lack| lack.mend == mend) {
            lacking.push(MissingVariable { variable, mend });
        }
    }
    let proxies = ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"];
    let names = proxies.iter().flat_map(|name| [(*name).to_owned(), name.to_ascii_lowercase()]);
    lacking.extend(
        names
            .filter(|name| env::named(name).is_some())
            .map(|variable| MissingVariable { variable, mend: None }),
    );
    Ok(lacking)
}

fn remove(home: &Home, options: &ServiceOptions, context: &Context) -> Result<Exit, Failure> {
    let service = build_service(home, options)?;
    let path = place(&service, options)?;
    if !path.exists() {
        context.printer.if_json(&json!({"path": path, "removed": false}));
        context.printer.say(format!("there is no service at {}", path.display()));
        return Ok(Exit::Done);
    }
    uninstall_service(&service, &path, options.root.is_none())?;
    context.printer.if_json(&json!({"path": path, "removed": true}));
    context.printer.say(format!("removed {}", path.display()));
    Ok(Exit::Done)
}

/// Stops a service, if its manager runs and `active` is set, and removes its file.
fn uninstall_service(service: &Service, path: &Path, active: bool) -> Result<(), Failure> {
    let (before, after) = service.disable_commands();
    let active = active && systemd_runs();
    if active {
        before.iter().try_for_each(|command| call(command))?;
    }
    fs_err::remove_file(path).map_err(|error| Failure::with_cause("failed to remove the service", &error))?;
    // systemd has to read its units again after the file is gone.
    if active {
        after.iter().try_for_each(|command| call(command))?;
    }
    Ok(())
}

/// An installed service of this home.
#[derive(Clone, Debug)]
pub(crate) struct InstalledService {
    service: Service,
    /// Path of its unit file.
    pub path: PathBuf,
}

impl InstalledService {
    /// Stops the service and removes its file.
    ///
    /// # Errors
    ///
    /// Returns an error if the service manager refuses, or if the file can't be removed.
    pub(crate) fn remove(&self) -> Result<(), Failure> {
        let (sudo, scope) = match self.service.scope {
            ServiceScope::User => ("", "user"),
            ServiceScope::System => ("sudo ", "system"),
        };
        let mend = format!("{sudo}flock --home {} service remove --{scope}", self.service.home.display());
        uninstall_service(&self.service, &self.path, true).map_err(|failure| failure.hint(mend))
    }
}

/// Returns the services of this home, the user's and the system's.
///
/// # Errors
///
/// Returns an error if the program's own path or the home's owner can't be found.
pub(crate) fn installed(home: &Home) -> Result<Vec<InstalledService>, Failure> {
    let mut found = Vec::new();
    for system in [false, true] {
        let options = ServiceOptions { system, user: !system, root: None };
        let service = build_service(home, &options)?;
        // A user without a home folder has no place for a user service.
        let Ok(path) = place(&service, &options) else { continue };
        let text = atomic::read(&path, MAX_UNIT_BYTES).ok().flatten().unwrap_or_default();
        // Homes of two users can have services of the same name. The text of the unit names its home.
        if service.is_described_by(&String::from_utf8_lossy(&text)) {
            found.push(InstalledService { service, path });
        }
    }
    Ok(found)
}

/// Returns the command that restarts this home's service, or `None` if none is installed.
#[must_use]
pub(crate) fn restart_command(home: &Home) -> Option<String> {
    let found = installed(home).ok()?.into_iter().next()?;
    Some(found.service.command_for_person("restart"))
}

const MAX_UNIT_BYTES: u64 = 1 << 20;

fn print_installed(path: &Path, commands: &[Vec<String>], active: bool, lacking: &[&str], context: &Context) {
    let commands: Vec<String> = commands.iter().map(|command| command.join(" ")).collect();
    let value = json!({"path": path, "active": active, "commands": commands, "missingVariables": lacking});
    context.printer.result(&value, path.display().to_string());
    if active {
        context.printer.say(StyledLine::new().with(TextStyle::Good, "the service runs"));
    } else {
        context.printer.say("no service manager was asked; to start it, run");
        for command in commands {
            context.printer.say(StyledLine::new().plain("  ").accent(command));
        }
    }
}

fn build_service(home: &Home, options: &ServiceOptions) -> Result<Service, Failure> {
    let program = launch::program()
        .map_err(|error| Failure::with_cause("failed to find the program's own file", &error))?;
    let root = Uid::effective().is_root();
    let scope =
        if options.system || (root && !options.user) { ServiceScope::System } else { ServiceScope::User };
    // A service manager gives a service its own short PATH, and not the variables that name Docker's socket or
    // certificates.
    let env = [env::PATH, env::DOCKER_HOST, env::SSL_CERT_FILE]
        .iter()
        .filter_map(|variable| Some((variable.name.to_owned(), variable.get()?)))
        .collect();
    let user = login_name(owner(home)?);
    let (home, suffix) = (home.root().to_owned(), home.suffix().to_owned());
    Ok(Service { scope, program, home, suffix, env, user })
}

/// Returns the owner of the home, or the calling user if the home does not exist.
fn owner(home: &Home) -> Result<Uid, Failure> {
    match fs_err::metadata(home.root()) {
        Ok(found) => Ok(Uid::from_raw(found.uid())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Uid::effective()),
        Err(error) => Err(Failure::with_cause("failed to find the owner of the home", &error)),
    }
}

/// Returns a user's login name if service managers accept it, otherwise the number.
fn login_name(uid: Uid) -> String {
    let is_plain = |name: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        !name.starts_with('-') && !name.is_empty() && name.chars().all(allowed)
    };
    let name = User::from_uid(uid).ok().flatten().map(|user| user.name);
    name.filter(|name| is_plain(name)).unwrap_or_else(|| uid.to_string())
}

fn place(service: &Service, options: &ServiceOptions) -> Result<PathBuf, Failure> {
    let nowhere = || Failure::new(Kind::Failed, "this user has no home folder to put a service in");
    let config = dirs::config_dir().ok_or_else(nowhere)?;
    let path = service.path(&config);
    Ok(match &options.root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(&path)),
        None => path,
    })
}

fn systemd_runs() -> bool {
    // This is the check of `sd_booted(3)`.
    Path::new("/run/systemd/system").is_dir()
}

fn call(command: &[String]) -> Result<(), Failure> {
    let text = command.join(" ");
    let [program, arguments @ ..] = command else { return Ok(()) };
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Failure::with_cause(format!("failed to run {text}"), &error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::new(Kind::Failed, format!("{text} failed: {}", said.trim())).hint(text))
}
