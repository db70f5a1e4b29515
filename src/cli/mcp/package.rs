//! The package of a server: fetched for `flock mcp add` and `flock mcp import`, and replaced by `flock mcp update`.

use serde_json::json;

use super::unknown;
use crate::cli::{Context, Exit, Failure, images, person, team};
use crate::config::{self, Config, McpPackage, McpServer, PackageSource, mcp_servers};
use crate::error::Kind;
use crate::home::Home;
use crate::id::McpServerName;
use crate::mcp::package::{
    self, Difference, Installer, Lock, PackageError, Request, Staged, differences, installed_problem,
};
use crate::sandbox::check::DockerChecks;
use crate::store::Level;
use crate::ui::Table;

/// The most packages with install scripts that are named.
const NAMED: usize = 12;

/// Replace the package of a server by another version, or fetch it again
///
/// Without an option, the version is looked for that was asked for when the server was added: if that was an exact version,
/// only the packages that it needs can change. The differences are shown package by package, and nothing changes before you
/// agree.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock mcp update clock --to latest
  flock mcp update clock --locked")]
pub(super) struct UpdateArgs {
    /// Name of the server
    server: McpServerName,
    /// Version to change to: an exact one, a range, or latest
    #[arg(long, value_name = "VERSION", conflicts_with = "locked")]
    to: Option<String>,
    /// Fetch exactly the packages of the lock again, if files are missing or were changed
    #[arg(long)]
    locked: bool,
}

/// Reads the command line of a server from another program's file as a package, if the person wants that. The server keeps
/// the arguments of its program.
///
/// # Errors
///
/// Returns an error if the answer of the person can't be read.
pub(super) fn of_run_line(
    server: &mut McpServer,
    fetch: bool,
    context: &Context,
) -> Result<Option<Request>, Failure> {
    let Some((request, arguments)) = package::of_run_line(&server.command) else { return Ok(None) };
    let (name, runner) = (&server.name, &server.command[0]);
    let wanted = fetch
        || context.may_ask() && {
            let question = format!(
                "{name} runs {} with {}. Fetch the package from {} instead, and pin it?",
                request.name,
                crate::clean::label(runner, 40),
                request.source.title()
            );
            crate::ui::ask::confirm(&question, true)?
        };
    if !wanted {
        let command = add_command(name, request.source, &request.text());
        context.printer.warn(&format!(
            "{name} runs {}, which its sandbox does not have: {command}, or give --fetch",
            crate::clean::label(runner, 40)
        ));
        return Ok(None);
    }
    server.command = arguments;
    Ok(Some(request))
}

/// Fetches the package of a new server, shows it, and asks. The server gets the command line of its program.
///
/// # Errors
///
/// Returns an error if it can't be fetched, or if the person does not want it.
pub(super) fn fetch(
    home: &Home,
    config: &Config,
    server: &mut McpServer,
    request: &Request,
    context: &Context,
) -> Result<Staged, Failure> {
    let staged = stage(home, config, server, Wanted::New(request), context)?;
    let name = &server.name;
    show(&staged, context);
    let command = add_command(name, request.source, &staged_exact(&staged));
    agree(&format!("Add {name}?"), &format!("adding {name}"), &command, context)?;
    server.command.clone_from(&staged.command);
    server.package = Some(staged.lock.pin());
    Ok(staged)
}

/// Returns the command that adds a package.
fn add_command(name: &McpServerName, source: PackageSource, package: &str) -> String {
    match source {
        PackageSource::Npm => format!("flock mcp add {name} --npm {package}"),
        PackageSource::Pypi => format!("flock mcp add {name} --pypi {package}"),
    }
}

fn staged_exact(staged: &Staged) -> String {
    staged.lock.request.source.exact(&staged.lock.request.name, &staged.lock.version)
}

/// A package that is to be fetched.
enum Wanted<'a> {
    New(&'a Request),
    Locked(Box<Lock>, &'a McpPackage),
}

fn stage(
    home: &Home,
    config: &Config,
    server: &McpServer,
    wanted: Wanted<'_>,
    context: &Context,
) -> Result<Staged, Failure> {
    context.block_on(async {
        let engine = match &wanted {
            Wanted::New(_) => {
                let engine = team::engine().await?;
                images::make(&engine, home, config, context).await?;
                engine
            }
            // Nothing is resolved, so nothing runs.
            Wanted::Locked(..) => std::sync::Arc::new(crate::sandbox::engine::Engine::from_env()),
        };
        let progress = context.printer.progress(&format!("fetching the package of {}", server.name));
        let checks = DockerChecks::new(home.clone(), team::fixed_config(config), engine);
        let say = |text: &str| progress.step(text);
        let installer = Installer::new(home.clone(), checks, &say)?;
        let staged = match wanted {
            Wanted::New(request) => Box::pin(installer.fetch(server, request, &server.command)).await,
            Wanted::Locked(lock, pinned) => {
                let arguments = own_arguments(server)?;
                installer.fetch_locked(&server.name, (*lock, pinned.lock.clone()), &arguments).await
            }
        }?;
        progress.done(&format!("fetched {}", staged_exact(&staged)));
        Ok(staged)
    })
}

/// Returns the arguments of a server's program.
fn own_arguments(server: &McpServer) -> Result<Vec<String>, Failure> {
    let source = server.package.as_ref().map_or(PackageSource::Npm, |package| package.source);
    package::arguments(source, &server.command).ok_or_else(|| {
        let text = format!("the command of {} is not that of its package any more", server.name);
        Failure::new(Kind::Failed, text).hint(format!("flock mcp show {}", server.name))
    })
}

/// Shows what comes in.
fn show(staged: &Staged, context: &Context) {
    let (lock, installed) = (&staged.lock, &staged.installed);
    let request = &lock.request;
    let printer = &context.printer;
    let others = lock.packages.len().saturating_sub(1);
    printer.say(format!(
        "{} {} from {}, with {others} other packages",
        request.name,
        lock.version,
        request.source.title()
    ));
    if request.source.exact(&request.name, &lock.version) != request.text() {
        printer.say(format!("asked for:  {}", request.text()));
    }
    printer.say(format!("size:       {} in {} files", size(installed.bytes), installed.files));
    if let Some(main) = lock.main() {
        printer.say(format!("integrity:  {}", main.integrity));
    }
    printer.say(format!("lock:       {}", installed.lock));
    printer.say(format!("runs:       {}", crate::clean::summary(&staged.command.join(" "), 200)));
    let scripts: Vec<&str> =
        lock.packages.iter().filter(|one| one.install_script).map(|one| one.name.as_str()).collect();
    if !scripts.is_empty() {
        let more = if scripts.len() > NAMED {
            format!(" and {} more", scripts.len() - NAMED)
        } else {
            String::new()
        };
        let names = scripts.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
        printer.warn(&format!("these have install scripts, which do not run here: {names}{more}"));
    }
}

/// Asks, unless `--yes` was given.
fn agree(question: &str, what: &str, command: &str, context: &Context) -> Result<(), Failure> {
    if context.yes() {
        return Ok(());
    }
    let unasked =
        Failure::new(Kind::Usage, format!("{what} must be confirmed")).hint(format!("{command} --yes"));
    context.confirm(question, unasked, &format!("{what} was cancelled; nothing was changed"))
}

/// Writes a number of bytes for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_240 => format!("{bytes} bytes"),
        10_240..10_485_760 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// Returns what the audit says about a package.
pub(super) fn detail(package: &McpPackage) -> String {
    format!("{} {} lock {}", package.source.title(), package.exact(), package.lock)
}

/// Replaces the package of a server.
///
/// # Errors
///
/// Returns an error if the server has no package, if the new one can't be fetched, or if the person does not want it.
pub(super) fn update(args: &UpdateArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let config = config::read(&home)?;
    let mut server = config.mcp_server(&args.server).ok_or_else(|| unknown(&args.server))?.clone();
    let pinned = server.package.clone().ok_or_else(|| PackageError::NoPackage(server.name.clone()))?;
    if args.locked {
        return reinstall(&home, &config, &server, &pinned, context);
    }
    let arguments = own_arguments(&server)?;
    // Without its lock the differences can't be shown, but the server can get a new one.
    let old = match Lock::load(&home, &server.name, &pinned) {
        Ok(old) => Some(old),
        Err(error @ PackageError::BadLock { .. }) => {
            context.printer.warn(&error.to_string());
            None
        }
        Err(error) => return Err(error.into()),
    };
    let usage = |text: String| Failure::new(Kind::Usage, text).hint("flock mcp update --help");
    let request = match &old {
        Some(old) => old.request.clone(),
        None => Request::parse(pinned.source, &pinned.exact()).map_err(usage)?,
    };
    let request = match &args.to {
        Some(version) => request.to(version).map_err(usage)?,
        None => request,
    };
    server.command = arguments;
    let staged = stage(&home, &config, &server, Wanted::New(&request), context)?;
    let changes = old.as_ref().map(|old| differences(old, &staged.lock)).unwrap_or_default();
    let pin = staged.lock.pin();
    if pin == pinned
        && installed_problem(&home, config.mcp_server(&args.server).unwrap_or(&server), true).is_none()
    {
        context.printer.if_json(&answer(&server.name, &pin, &changes, false));
        context.printer.say(format!(
            "{} has {} already, and nothing that it needs has changed",
            server.name,
            pin.exact()
        ));
        return Ok(Exit::Done);
    }
    show(&staged, context);
    show_changes(&changes, context);
    let name = &server.name;
    let command = format!("flock mcp update {name} --to {}", pin.version);
    agree(&format!("Replace the package of {name}?"), &format!("updating {name}"), &command, context)?;
    staged.place(&home, name)?;
    mcp_servers::repin(&home, name, &staged.command, &pin)?;
    context.block_on(person::record(&home, "mcp.update", name.as_str(), Level::Yellow, detail(&pin)))?;
    context.printer.if_json(&answer(name, &pin, &changes, true));
    context.printer.say(format!("{name} has {} from its next call on", pin.exact()));
    Ok(Exit::Done)
}

/// Fetches the packages of the lock again.
fn reinstall(
    home: &Home,
    config: &Config,
    server: &McpServer,
    pinned: &McpPackage,
    context: &Context,
) -> Result<Exit, Failure> {
    let lock = Lock::load(home, &server.name, pinned)?;
    let Some(problem) = installed_problem(home, server, true) else {
        context.printer.if_json(&answer(&server.name, pinned, &[], false));
        context.printer.say(format!("{} has {}, as its lock says", server.name, pinned.exact()));
        return Ok(Exit::Done);
    };
    context.printer.say(format!("{}: {problem}", server.name));
    let staged = stage(home, config, server, Wanted::Locked(Box::new(lock), pinned), context)?;
    staged.place(home, &server.name)?;
    let detail = detail(pinned);
    context.block_on(person::record(home, "mcp.update", server.name.as_str(), Level::Yellow, detail))?;
    context.printer.if_json(&answer(&server.name, pinned, &[], true));
    context.printer.say(format!("{} has {} again from its next call on", server.name, pinned.exact()));
    Ok(Exit::Done)
}

fn show_changes(changes: &[Difference], context: &Context) {
    if changes.is_empty() || context.printer.is_json() {
        return;
    }
    let mut table = Table::new(&["PACKAGE", "BEFORE", "AFTER"]);
    for change in changes {
        table.row([change.name.clone(), change.before.join(" "), change.after.join(" ")]);
    }
    context.printer.table(&table);
}

fn answer(
    server: &McpServerName,
    pin: &McpPackage,
    changes: &[Difference],
    replaced: bool,
) -> serde_json::Value {
    json!({
        "server": server,
        "package": {"source": pin.source, "name": pin.name, "version": pin.version, "lock": pin.lock},
        "differences": changes,
        "replaced": replaced,
    })
}
