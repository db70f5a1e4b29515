//! `flock doctor`: checks everything that flock needs and names for each fault the command that repairs it.
//!
//! It changes nothing unless an option asks for it.

mod approvers;
mod bridges;
mod bundle;
mod check;
mod data;
mod egress;
mod engine;
mod fix;
mod gateways;
mod hooks;
mod machine;
mod mcp;
mod mounts;
mod notifications;
mod oidc;
mod projects;
mod quota;
mod records;
mod schedules;
mod setup;
mod skills;
mod storage;
mod telemetry;

use std::path::PathBuf;

use serde_json::json;

use super::{Context, Exit, Failure, team};
use crate::clock::unix_ms;
use crate::config::{self, Config};
use crate::error::Kind;
use crate::gateway::clock_check;
use crate::home::Home;
use crate::sandbox::engine::Engine;
use crate::ui::{StyledLine, TextStyle};
use check::{Check, CheckState};

/// Find problems, and show how to fix them
///
/// Checks the home, its configuration, granted folders, MCP servers, imported skills, the engine, images, the package store, the gateway, ports,
/// PATH, provider keys, and the other program named flock. Also checks the database, its audit and the transcripts, and
/// reports lost data. Exits with code 1 if something is broken.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Read the database, the audit and the transcripts in full
    #[arg(long)]
    deep: bool,
    /// Fix what can be fixed without losing data, and report each fix
    #[arg(long)]
    fix: bool,
    /// Confirm that this machine's clock is right, so that flock deletes expired data again
    #[arg(long)]
    confirm_clock: bool,
    /// Write a bundle for a bug report to FILE, a .tar.gz without keys, messages and transcripts, and list its contents
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "bundle")]
    force: bool,
}

/// Runs every check and prints the results.
///
/// # Errors
///
/// Returns an error if the home's location is unknown or if an option can't be carried out. The findings are no errors:
/// they decide the exit code.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.place()?;
    if let Some(file) = &args.bundle {
        // An existing file is refused at once, not after the checks, which can take long.
        bundle::check(file, args.force)?;
    }
    // The clock is confirmed before the checks run, so that they no longer report it.
    if args.confirm_clock {
        clock_check::confirm(&context.writable_home()?, unix_ms())?;
    }
    let mut checks = run_checks(args, &home, context)?;
    if args.fix {
        checks.iter_mut().for_each(|check| check.apply_fix(&home, context));
    }
    if let Some(file) = &args.bundle {
        return bundle::write(file, args.force, &checks, &home, context);
    }
    let broken = checks.iter().any(|check| check.state == CheckState::Bad);
    if context.printer.is_json() {
        context.printer.json(&json!({"ok": !broken, "checks": checks}));
    } else {
        checks.iter().for_each(|check| print_check(check, context));
    }
    Ok(if broken { Exit::Failed(Kind::Failed) } else { Exit::Done })
}

fn run_checks(args: &Args, home: &Home, context: &Context) -> Result<Vec<Check>, Failure> {
    let silent = data::silent_server(home);
    let mut checks = setup::home(home);
    let config: Option<Config> =
        home.config().exists().then(|| config::read(home)).and_then(|read| match read {
            Ok(config) => {
                checks.push(setup::config(home, &config));
                Some(config)
            }
            Err(error) => {
                checks.push(Check::failed("config", error.into()));
                None
            }
        });
    // These checks need a valid configuration. The ones after the block also work without it.
    if let Some(config) = &config {
        checks.extend(records::unfinished(home));
        checks.extend(records::rewinds(home, config));
        checks.extend(records::team_fork(home));
        if silent.is_none() {
            checks.extend(in_database(home, config));
        }
        checks.extend(records::clock(home));
        checks.extend(records::update(home));
        checks.extend(records::generations(home));
        checks.extend(records::drafts(home));
        checks.extend(records::processes(home));
        checks.extend(setup::unused(home));
        checks.extend(setup::unread(home));
        checks.extend(setup::refused(home, config));
        checks.extend(setup::identity(config));
        checks.extend(setup::unbound(config));
        checks.extend(setup::unsupported_effort(config));
        checks.extend(setup::models(home, config));
        checks.extend(projects::all(home, config));
        checks.extend(mcp::all(home, config));
        checks.extend(skills::all(home, config));
    }
    checks.extend(context.block_on(async {
        let mut found = engine::all(home, config.as_ref()).await;
        if let Some(config) = &config {
            found.extend(Box::pin(engine::others(home, config)).await);
            let gateway = team::gateway(home, config).await;
            let troubled = match &gateway {
                Ok(Some(gateway)) => {
                    let mut troubled = Box::pin(bridges::disconnected(gateway)).await;
                    troubled.extend(Box::pin(projects::waiting(gateway)).await);
                    troubled.extend(Box::pin(mcp::failed(gateway)).await);
                    troubled.extend(Box::pin(telemetry::losses(gateway)).await);
                    troubled
                }
                _ => Vec::new(),
            };
            let served = matches!(gateway, Ok(Some(_))).then_some(config.port);
            found.push(machine::gateway(home, config.port, gateway).await);
            found.extend(troubled);
            found.extend(Box::pin(telemetry::collector(home, config)).await);
            found.extend(Box::pin(storage::all(home, config)).await);
            found.extend(Box::pin(oidc::all(home, config, served)).await);
            // The future is large, and boxing it keeps this one small.
            found.extend(Box::pin(setup::openclaw(home, config)).await);
        }
        found.extend(setup::programs(config.as_ref()).await);
        Ok(found)
    })?);
    if home.config().exists() {
        checks.extend(setup::instance(home));
        checks.extend(data::all(home, args.deep, silent));
    }
    checks.extend(machine::writable(home));
    checks.extend([machine::path(), machine::other_flock(), machine::space(home)]);
    Ok(checks)
}

/// Runs the checks of what the database has about the settings and the work of the team.
fn in_database(home: &Home, config: &Config) -> Vec<Check> {
    let mut checks = Vec::new();
    checks.extend(records::races(home, config));
    checks.extend(schedules::all(home, config));
    checks.extend(hooks::all(home));
    checks.extend(records::tokens(home));
    checks.extend(egress::all(home, config));
    checks.extend(bridges::all(home, config));
    checks.extend(approvers::unbound(home, config));
    checks.extend(notifications::failing(home));
    checks.extend(quota::parked(home));
    checks.extend(gateways::all(home, config));
    checks.extend(mounts::all(home, config, Engine::from_env().socket()));
    checks
}

fn print_check(check: &Check, context: &Context) {
    let (tone, word) = match check.state {
        CheckState::Ok => (TextStyle::Good, "ok  "),
        CheckState::Warn => (TextStyle::Warn, "warn"),
        CheckState::Bad => (TextStyle::Bad, "bad "),
    };
    let line = StyledLine::new().with(tone, word).plain(format!("  {:<8}  ", check.name));
    context.printer.line(line.plain(check.message.clone()));
    if let Some(fixed) = &check.fixed {
        context.printer.line(
            StyledLine::new().plain("                ").with(TextStyle::Good, format!("mended: {fixed}")),
        );
    }
    if let Some(mend) = &check.mend {
        context.printer.line(StyledLine::new().plain("                ").accent(mend.clone()));
    }
}
