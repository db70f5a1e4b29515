//! `flock update --self`: updates flock's own program to the present commit of its branch, or rolls it back.
//!
//! The new program is built and tried beside the one in use. Only then is the file replaced, and everything that runs
//! is restarted with it. If it does not become healthy, everything is taken back. The change is recorded, so that the
//! next update completes one that was killed.

mod change;
mod report;

use std::path::{Path, PathBuf};

use super::super::install_progress::InstallProgress;
use super::super::{Context, Exit, Failure};
use super::Args;
use crate::clock;
use crate::error::{Explain as _, Kind, chain};
use crate::home::Home;
use crate::install::InstallError;
use crate::install::self_update::choice::{self, SourceArgs, UpdateSource};
use crate::install::self_update::pending_change::{
    ChangeDirection, PendingProgramChange, ProgramChangeState,
};
use crate::install::self_update::{ProgramRecord, SelfUpdateError, UpdateLock, build, place, swap, trial};
use crate::install::source::{RepositoryAddress, ResolvedReference};
use crate::install::update::UpdateDecision;
use crate::install::versions::{self, Failed};
use change::ProgramChange;

/// The version of this process.
const VERSION: &str = env!("FLOCK_VERSION");

/// Updates flock's own program, or rolls it back.
///
/// # Errors
///
/// Returns the error of the step that failed. The earlier program is then still in use, unless the text says otherwise.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = if args.check { context.home()? } else { context.writable_home()? };
    let interrupted = PendingProgramChange::interrupted(&home);
    // An interrupted change is completed at its own path, whatever program is named now.
    let path = match &interrupted {
        Some(change) => change.path.clone(),
        None => place::find(args.program.as_deref())?,
    };
    if args.check {
        let look = ProgramSearch::at(&home, path, args)?;
        report::found(&home, &look, interrupted.is_some(), context);
        return Ok(Exit::Done);
    }
    let updater = UpdateLock::begin(&home, &path)?;
    let report =
        |change: &PendingProgramChange, serves: bool| report::changed(&home, change, serves, context);
    if let Some(underway) = interrupted
        && complete_interrupted(&updater, &home, underway, context, &report)?
    {
        return Ok(Exit::Done);
    }
    // The path is checked before anything is built, which takes minutes.
    place::check(&path)?;
    if args.rollback {
        let (change, serves) = back(&updater, &home, path, None, context)?;
        report::changed(&home, &change, serves, context);
        Ok(Exit::Done)
    } else {
        forward(&updater, &home, path, args, context)
    }
}

/// Completes an interrupted change, if there is one.
///
/// # Errors
///
/// Returns an error if another process is at it, or if the program does not become healthy.
pub(crate) fn complete(home: &Home, context: &Context) -> Result<(), Failure> {
    let Some(underway) = PendingProgramChange::interrupted(home) else { return Ok(()) };
    let updater = UpdateLock::begin(home, &underway.path)?;
    // The command that finds the change reports only its own result.
    complete_interrupted(&updater, home, underway, context, &|_, _| {}).map(drop)
}

/// Completes an interrupted change. `report` is called if the new program proved itself. Returns `true` if it decided which program is in use, so that nothing more is to be
/// done.
fn complete_interrupted(
    updater: &UpdateLock,
    home: &Home,
    underway: PendingProgramChange,
    context: &Context,
    report: &dyn Fn(&PendingProgramChange, bool),
) -> Result<bool, Failure> {
    let change = ProgramChange { updater, home, context, underway };
    match change.underway.reached()? {
        ProgramChangeState::New if !change.underway.back => {
            context.printer.say(format!("going on with the interrupted change to {}", change.to()));
            let serves = change.go_on()?;
            report(&change.underway, serves);
            Ok(true)
        }
        ProgramChangeState::New | ProgramChangeState::Old if change.underway.back => {
            context.printer.say(format!("going back to {}, which was interrupted", change.from()));
            change.go_back()?;
            Ok(true)
        }
        ProgramChangeState::New | ProgramChangeState::Old => {
            // The program was not replaced yet, so the update starts again from the beginning.
            change.give_up()?;
            Ok(false)
        }
        ProgramChangeState::Other => {
            context.printer.warn(&format!(
                "an update to {} was interrupted, and {} has been replaced by another program since; flock leaves \
                 it as it is",
                change.to(),
                change.underway.path.display()
            ));
            // A person or a package manager has replaced the file, so neither program may be put over it.
            PendingProgramChange::end(updater, home)?;
            swap::tidy(updater, home);
            Ok(false)
        }
    }
}

/// The program in use, and the one that is available.
struct ProgramSearch {
    current: ProgramRecord,
    path: PathBuf,
    source: UpdateSource,
    origin: RepositoryAddress,
    tip: Option<ResolvedReference>,
    decision: UpdateDecision,
    uncommitted: usize,
}

impl ProgramSearch {
    fn at(home: &Home, path: PathBuf, args: &Args) -> Result<Self, Failure> {
        let current = ProgramRecord::current(home, &path, &place::version(&path, VERSION)?)?;
        let said = SourceArgs {
            from: args.from.as_deref(),
            reference: args.reference.as_deref(),
            unencrypted: args.unencrypted,
        };
        let (source, origin) = UpdateSource::choose(home, said)?;
        let is_named = said.from.or(said.reference).is_some();
        // A tag or a commit in use stays what it is, whatever upstream makes of it, so nothing has to be asked.
        let tip = if choice::has_to_ask(&current, &source, is_named) {
            Some(choice::ask(&origin, &source)?)
        } else {
            None
        };
        let commit = tip.as_ref().and_then(|tip| tip.commit.as_deref());
        let known = commit.and_then(|commit| versions::failed(&home.program_failures_file()).remove(commit));
        let moved = match &tip {
            Some(tip) => choice::moved(home, &source, tip, &current)?,
            None => None,
        };
        let decision = choice::decide(&current, tip.as_ref(), moved, known, args.retry);
        let uncommitted = choice::uncommitted(&source);
        Ok(Self { current, path, source, origin, tip, decision, uncommitted })
    }
}

fn forward(
    updater: &UpdateLock,
    home: &Home,
    path: PathBuf,
    args: &Args,
    context: &Context,
) -> Result<Exit, Failure> {
    let mut look = ProgramSearch::at(home, path, args)?;
    if look.uncommitted > 0 {
        context.printer.warn(&format!(
            "{} has {} changes that are not committed; the build does not contain them",
            look.source.from, look.uncommitted
        ));
    }
    // A tag that was moved upstream would give another program under the same name, so a person has to name the commit.
    if let UpdateDecision::Moved(moved) = &look.decision {
        let moved = InstallError::Moved { repository: look.source.from.clone(), moved: moved.clone() };
        return Err(report::stays(&look.current, SelfUpdateError::from(moved).into()));
    }
    let (UpdateDecision::New(_), Some(tip)) = (&look.decision, look.tip.clone()) else {
        report::nothing_done(home, &look, context);
        return Ok(Exit::Done);
    };
    // The source is stored before the build, so that an interrupted build continues without naming it again.
    look.source.remember(home)?;
    choice::note(home, &look.source, &tip)?;
    let shown = InstallProgress::new(context, "flock");
    let events = |event: crate::install::InstallEvent<'_>| shown.event(&event);
    let made = build::build(updater, home, &look.source, &look.origin, &tip, &events);
    let built = made.map_err(|error| build_failure(updater, home, &look, error, context))?;
    // The full commit is known only after the fetch, if a shortened one was asked for.
    let known = versions::failed(&home.program_failures_file()).remove(&built.commit).filter(|_| !args.retry);
    if look.current.is_of(&built.commit) || known.is_some() {
        shown.end();
        look.decision = known
            .map_or(UpdateDecision::Current, |known| UpdateDecision::Failed(built.commit.clone(), known));
        build::clear(updater, home)?;
        report::nothing_done(home, &look, context);
        return Ok(Exit::Done);
    }
    let tried = trial::run(updater, home, (&built.file, &built.name()), None, &events);
    let tried = tried.map_err(|error| build_failure(updater, home, &look, error, context))?;
    shown.end();
    let to = ProgramRecord {
        version: built.name(),
        commit: Some(built.commit.clone()),
        reference: Some(look.source.reference.clone()),
        follows: tip.is_branch,
        origin: Some(look.source.from.clone()),
        built_at: Some(clock::unix_ms() / 1000),
        // The program is copied next to the others before its build folder is removed.
        sha256: swap::take_up(updater, home, &built.file)?,
    };
    build::clear(updater, home)?;
    let (migrates, way) = (tried.migrates, ChangeDirection::Update);
    let underway = PendingProgramChange {
        way,
        path: look.path,
        from: look.current,
        to,
        ran: false,
        migrates,
        back: false,
        backup: None,
    };
    let mut change = ProgramChange { updater, home, context, underway };
    let serves = change.run()?;
    // A commit that works now is no longer passed over.
    versions::forget_failure(&home.program_failures_file(), &built.commit).map_err(SelfUpdateError::from)?;
    report::changed(home, &change.underway, serves, context);
    Ok(Exit::Done)
}

/// Puts the previous program in use again, for `flock rollback`.
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
    let path = place::find(program)?;
    let updater = UpdateLock::begin(home, &path)?;
    if PendingProgramChange::interrupted(home).is_some() {
        let text = "an update of flock's program was interrupted and has to be completed first";
        return Err(Failure::new(Kind::Conflict, text).hint("flock update --self"));
    }
    place::check(&path)?;
    back(&updater, home, path, backup, context).map(drop)
}

fn back(
    updater: &UpdateLock,
    home: &Home,
    path: PathBuf,
    backup: Option<&Path>,
    context: &Context,
) -> Result<(PendingProgramChange, bool), Failure> {
    let current = ProgramRecord::current(home, &path, &place::version(&path, VERSION)?)?;
    let previous = ProgramRecord::previous(home).ok_or(SelfUpdateError::NoPrevious)?;
    let file = swap::previous_file(home);
    let shown = InstallProgress::new(context, "flock");
    // The earlier program is tried too: the database may have been migrated since it ran last.
    let tried = trial::run(updater, home, (&file, &previous.version), backup, &|event| shown.event(&event));
    let tried = tried.map_err(|error| report::stays(&current, error.into()))?;
    shown.end();
    let sha256 = swap::take_up(updater, home, &file)?;
    let to = ProgramRecord { sha256, ..previous };
    let (migrates, way) = (tried.migrates, ChangeDirection::Rollback);
    let backup = backup.map(Path::to_owned);
    let underway =
        PendingProgramChange { way, path, from: current, to, ran: false, migrates, back: false, backup };
    let mut change = ProgramChange { updater, home, context, underway };
    let serves = change.run()?;
    Ok((change.underway, serves))
}

/// Reports a commit that can't be built or failed its trial, and remembers it if that is the commit's own fault.
fn build_failure(
    updater: &UpdateLock,
    home: &Home,
    look: &ProgramSearch,
    error: SelfUpdateError,
    context: &Context,
) -> Failure {
    let reason = match &error {
        SelfUpdateError::Install(InstallError::Step { command, how, own: true, .. }) => {
            Some(format!("{command} {how}"))
        }
        SelfUpdateError::Untried { .. } | SelfUpdateError::NotFlock { .. } => Some(chain(&error)),
        _ => None,
    };
    let commit = look.tip.as_ref().and_then(|tip| tip.commit.clone());
    if let (Some(reason), Some(commit)) = (reason, commit) {
        remember(home, &commit, reason, context);
        // The build is not continued. Files that can't be removed now are removed by the next build.
        drop(build::clear(updater, home));
    }
    report::stays(&look.current, error.into())
}

/// Records a failed commit. An error of recording is only a warning, because it changes nothing about what failed.
fn remember(home: &Home, commit: &str, reason: String, context: &Context) {
    let failure = Failed { version: None, reason, at: clock::unix_ms() / 1000, doubtful: false };
    let recorded = versions::record_failure(&home.program_failures_file(), commit, failure);
    if let Err(error) = recorded.map_err(SelfUpdateError::from) {
        let hint = error.hint().unwrap_or_default();
        context.printer.warn(&format!("failed to record that this commit did not work: {error}; {hint}"));
    }
}
