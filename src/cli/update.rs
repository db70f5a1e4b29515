//! `flock update`: updates the installed OpenClaw to the present commit of its branch, or rolls it back
//! ([`crate::openclaw::update`]). `--self` does it for flock's own program.

pub(crate) mod report;
mod self_update;

use std::path::{Path, PathBuf};

use super::install_progress::InstallProgress;
use super::{Context, Exit, Failure, openclaw};
use crate::config;
use crate::home::Home;
use crate::install::self_update::pending_change::{PendingProgramChange, ProgramChangeState};
use crate::install::self_update::{ProgramRecord, place};
use crate::install::update::{VersionQuery, VersionRequest, VersionSearch};
use crate::install::{InstallEvent, InstallLock, InstallTarget, InstalledVersion, versions};
use crate::openclaw::update::{UPDATE, Update, UpdateError, UpdateOutcome};

/// Update OpenClaw or flock itself, or go back to the previous version
///
/// Asks the repository for a newer commit of the branch that is followed, builds it beside the version in use, tries it
/// on another port, and puts it in use. If a step fails, the version in use stays. Later updates skip a commit that
/// does not build, fails its trial or does not become healthy. A tag or a commit is not followed. Without OpenClaw
/// there is nothing to update.
///
/// With `--self`, does the same for flock's own program: builds it with cargo from a repository or a folder, tries it
/// on a copy of this home's configuration and database, and replaces the program file in use. Everything that runs is
/// restarted with the new program.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock update --check
  flock update --ref main
  flock update --self --from https://example.org/flock.git")]
pub(crate) struct Args {
    /// Look for a newer version, and change nothing
    #[arg(long, conflicts_with_all = ["rollback", "retry"])]
    pub check: bool,
    /// Branch, tag or commit to update to; updates follow only a branch
    #[arg(long = "ref", value_name = "REF", conflicts_with = "rollback")]
    pub reference: Option<String>,
    /// Also try a commit that failed here or that was rolled back
    #[arg(long, conflicts_with = "rollback")]
    pub retry: bool,
    /// Go back to the previous version
    #[arg(long)]
    pub rollback: bool,
    /// Update flock's own program instead of OpenClaw
    #[arg(long = "self")]
    pub own: bool,
    /// Repository or folder with flock's source [default: the last one given]
    #[arg(long, value_name = "URL|PATH", requires = "own", conflicts_with = "rollback")]
    pub from: Option<String>,
    /// File to write the new program to [default: the running program]
    #[arg(long, value_name = "FILE", requires = "own")]
    pub program: Option<PathBuf>,
    /// Accept an http or git address, although it is not encrypted
    #[arg(long, requires = "own", conflicts_with = "rollback")]
    pub unencrypted: bool,
}

/// Updates or rolls back.
///
/// # Errors
///
/// Returns the error of the step that failed. The earlier version is then still in use, unless the text says otherwise.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if args.own {
        return self_update::run(args, context);
    }
    let home = if args.check { context.home()? } else { context.writable_home()? };
    let Some(current) = versions::current(&home) else {
        report::print_not_installed(context);
        return Ok(Exit::Done);
    };
    let shown = InstallProgress::new(context, "OpenClaw");
    let events = |event: InstallEvent<'_>| shown.event(&event);
    if args.check {
        let search = VersionSearch::at(&home, &current, query(args, &home, &current)?, &events)
            .map_err(|error| UpdateError::not_asked(error, UPDATE))?;
        report::found(&home, &current, &search, context);
        return Ok(Exit::Done);
    }
    let update = begin(&home, context, &events, UPDATE)?;
    // Completing an interrupted change may have put the earlier version back in use.
    let Some(current) = update.current()? else {
        report::print_not_installed(context);
        return Ok(Exit::Done);
    };
    if args.rollback {
        report::outcome(&home, update.rollback(&current)?, context);
        return Ok(Exit::Done);
    }
    let outcome = update.update(&current, query(args, &home, &current)?)?;
    let taken = match &outcome {
        UpdateOutcome::Changed(change) => Some(change.to.reference.clone()),
        UpdateOutcome::Kept { .. } | UpdateOutcome::Installed(_) => None,
    };
    report::outcome(&home, outcome, context);
    // A version asked for with `--ref` is not written to the configuration, so the next update would leave it again.
    if let Some(taken) = taken
        && let Some(named) = config::read(&home)?.openclaw.reference.filter(|named| *named != taken)
    {
        context.printer.warn(&format!(
            "the configuration names {named}, which the next update takes; to stay with {taken} run flock config set plugins.entries.flock.config.openclaw.ref {taken}"
        ));
    }
    Ok(Exit::Done)
}

/// Puts flock's previous program in use again, with the trial, the restart and the health check of `update --self`. With
/// `backup` the database is replaced by it.
///
/// # Errors
///
/// Returns the error of the step that failed. The present program is then still in use, unless the text says otherwise.
pub(crate) fn go_back(
    home: &Home,
    program: Option<&Path>,
    backup: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    self_update::go_back(home, program, backup, context)
}

/// Checks that flock's own program may be replaced.
///
/// # Errors
///
/// Returns an error if a package manager owns the file, or if this user may not write to its folder.
pub(crate) fn check_program(program: Option<&Path>) -> Result<(), Failure> {
    Ok(place::check(&place::find(program)?)?)
}

/// Completes an interrupted change of flock's own program, if there is one.
///
/// # Errors
///
/// Returns an error if the program did not become healthy, or if nothing is known about it.
pub(crate) fn complete(home: &Home, context: &Context) -> Result<(), Failure> {
    self_update::complete(home, context)
}

/// Returns `true` if a version of flock's program is in use. A change that is in progress counts once the program is
/// replaced.
pub(crate) fn is_program(home: &Home, version: &str) -> bool {
    match PendingProgramChange::interrupted(home) {
        Some(change) => !change.back && matches!(change.reached(), Ok(ProgramChangeState::New)),
        None => ProgramRecord::recorded(home).is_some_and(|program| program.version == version),
    }
}

/// Begins a change of the version in use. `command` is the one that continues after an error.
///
/// # Errors
///
/// Returns an error if another process changes it now.
pub(crate) fn begin<'a>(
    home: &'a Home,
    context: &Context,
    events: &'a dyn Fn(InstallEvent<'_>),
    command: &'static str,
) -> Result<Update<'a>, Failure> {
    let lock = InstallLock::begin(home)?;
    Ok(Update { lock, home, runtime: context.runtime()?, approved: openclaw::approved, events, command })
}

fn query(args: &Args, home: &Home, current: &InstalledVersion) -> Result<VersionQuery, Failure> {
    let settings = config::read(home)?.openclaw;
    let named = args.reference.as_deref();
    Ok(VersionQuery {
        wanted: InstallTarget::choose(None, named, &settings, Some(current)),
        asked: if named.is_some() { VersionRequest::Named } else { VersionRequest::Followed },
        retry: args.retry,
    })
}
