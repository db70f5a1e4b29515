//! `flock update`: updates the installed OpenClaw to the present commit of its branch, or rolls it back. `--self` does
//! it for flock's own program.
//!
//! A version is built and tried beside the one in use. Only then is the link swapped, and a running OpenClaw restarted.
//! If it does not become healthy, everything is taken back. The change is recorded (`install::pending_change`), so that the
//! next update completes one that was killed.

mod change;
mod openclaw_restart;
mod report;
mod search;
mod self_update;

use std::path::PathBuf;

use super::install_progress::InstallProgress;
use super::{Context, Exit, Failure};
use crate::error::Kind;
use crate::home::Home;
use crate::install::pending_change::{self, ChangeDirection, PendingVersionChange, VersionChangeState};
use crate::install::update::{Asked, Decision, own_fault};
use crate::install::versions::Failed;
use crate::install::{self, InstallError, InstallLock, InstalledVersion, Wanted, prune, versions};
use crate::{clock, config};
use change::{Done, VersionChange};
use search::{VersionQuery, VersionSearch};

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
pub struct Args {
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
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if args.own {
        return self_update::run(args, context);
    }
    let home = if args.check { context.home()? } else { context.writable_home()? };
    let Some(current) = versions::current(&home) else {
        report::print_not_installed(context);
        return Ok(Exit::Done);
    };
    if args.check {
        let look = VersionSearch::at(&home, &current, search(args, &home, &current)?, context)?;
        report::found(&home, &current, &look, context);
        return Ok(Exit::Done);
    }
    let installer = InstallLock::begin(&home)?;
    end_interrupted(&installer, &home, context)?;
    // Completing the interrupted change may have put the earlier version back in use.
    let Some(current) = versions::current(&home) else {
        report::print_not_installed(context);
        return Ok(Exit::Done);
    };
    if args.rollback {
        back(&installer, &home, &current, context)
    } else {
        forward(&installer, &home, &current, args, context)
    }
}

/// Completes a change that was interrupted between the swap and the proof of the new version.
fn end_interrupted(installer: &InstallLock, home: &Home, context: &Context) -> Result<(), Failure> {
    match pending_change::interrupted(home) {
        None => Ok(()),
        // It was interrupted before the swap, so the version in use never changed.
        Some(VersionChangeState::Nothing) => Ok(PendingVersionChange::end(installer, home)?),
        Some(VersionChangeState::Back { from }) => {
            context.printer.say(format!("going back to {}, which was interrupted", report::name(&from)));
            // Going back needs only the version that it leads to, so both ends of the change are that one.
            VersionChange { installer, home, context, way: ChangeDirection::Rollback, from: &from, to: &from }
                .go_back()
        }
        Some(VersionChangeState::Swapped { way, from, to }) => {
            context.printer.say(format!("going on with the interrupted change to {}", report::name(&to)));
            let done = VersionChange { installer, home, context, way, from: &from, to: &to }.go_on()?;
            // A version that proved itself must not be passed over any longer.
            if way == ChangeDirection::Update {
                versions::forget_failure(home, &to.commit)?;
            }
            if done.serves {
                context.printer.say(format!("{} is healthy", report::name(&to)));
            }
            Ok(())
        }
    }
}

fn search(args: &Args, home: &Home, current: &InstalledVersion) -> Result<VersionQuery, Failure> {
    let settings = config::read(home)?.openclaw;
    let named = args.reference.as_deref();
    Ok(VersionQuery {
        wanted: Wanted::choose(None, named, &settings, Some(current)),
        asked: if named.is_some() { Asked::Named } else { Asked::Followed },
        retry: args.retry,
        words: report::to_update_failure,
    })
}

fn forward(
    installer: &InstallLock,
    home: &Home,
    current: &InstalledVersion,
    args: &Args,
    context: &Context,
) -> Result<Exit, Failure> {
    let taken = take(installer, home, current, search(args, home, current)?, context)?;
    let (made, done) = match taken {
        UpdateResult::Nothing(version, look) => {
            report::nothing_done(home, &version, &look, context);
            warn_of_stale_process(home, &version, context);
            return Ok(Exit::Done);
        }
        UpdateResult::Changed(made, done) => (made, done),
    };
    let change =
        VersionChange { installer, home, context, way: ChangeDirection::Update, from: current, to: &made };
    report::changed(home, &change, done, context);
    // A version asked for with `--ref` is not written to the configuration, so the next update would leave it again.
    let named = config::read(home)?.openclaw.reference.filter(|named| *named != made.reference);
    if let Some(named) = named {
        context.printer.warn(&format!(
            "the configuration names {named}, which the next update takes; to stay with {0} run flock config set plugins.entries.flock.config.openclaw.ref {0}",
            made.reference
        ));
    }
    Ok(Exit::Done)
}

/// Installs over a version that is in use: the wanted version is tried and put in use as by an update.
///
/// An interrupted change is completed first. Returns `None` if there is no intact version in use.
///
/// # Errors
///
/// Returns the error of the step that failed. The earlier version is then still in use, unless the text says otherwise.
pub fn install(
    installer: &InstallLock,
    home: &Home,
    (repository, reference): (Option<&str>, Option<&str>),
    context: &Context,
) -> Result<Option<InstalledVersion>, Failure> {
    end_interrupted(installer, home, context)?;
    // A version whose program is missing or whose files were changed is built again.
    let is_whole = |current: &InstalledVersion| current.entry().is_file() && current.check().is_ok();
    let Some(current) = versions::current(home).filter(is_whole) else {
        return Ok(None);
    };
    let settings = config::read(home)?.openclaw;
    let wanted = Wanted::choose(repository, reference, &settings, Some(&current));
    let is_named = repository.or(reference).is_some();
    let asked = if is_named { Asked::Named } else { Asked::Followed };
    let search = VersionQuery { wanted, asked, retry: false, words: Failure::from };
    Ok(Some(match take(installer, home, &current, search, context)? {
        UpdateResult::Nothing(version, look) => {
            report::warn_passed_over(&look, context);
            warn_of_stale_process(home, &version, context);
            version
        }
        UpdateResult::Changed(made, done) => {
            let change = VersionChange {
                installer,
                home,
                context,
                way: ChangeDirection::Update,
                from: &current,
                to: &made,
            };
            report::print_in_use(&change, done, context);
            made
        }
    }))
}

/// The result of looking for another version.
enum UpdateResult {
    /// This version stays in use. The look tells the reason.
    Nothing(InstalledVersion, Box<VersionSearch>),
    /// This version is in use now.
    Changed(InstalledVersion, Done),
}

/// Looks for another version, and builds it, tries it and puts it in use if there is one.
fn take(
    installer: &InstallLock,
    home: &Home,
    current: &InstalledVersion,
    search: VersionQuery,
    context: &Context,
) -> Result<UpdateResult, Failure> {
    let look = VersionSearch::at(home, current, search, context)?;
    let wanted = &look.wanted;
    // A tag that was moved upstream would give another program under the same name, so a person has to name the commit.
    if let Decision::Moved(moved) = &look.decision {
        let moved = InstallError::Moved { repository: wanted.repository.clone(), moved: moved.clone() };
        return Err(report::not_made(current, moved, false, look.words));
    }
    // The same commit under another branch or from another repository only needs a new record.
    let renamed = look.decision == Decision::Current
        && (wanted.reference != current.reference || wanted.repository != current.origin);
    if !renamed && !matches!(look.decision, Decision::New(_)) {
        return Ok(UpdateResult::Nothing(current.clone(), Box::new(look)));
    }
    let shown = InstallProgress::new(context);
    let made = install::prepare(installer, home, wanted, &|event| shown.event(&event));
    let made = made.map_err(|error| not_made(home, current, &look, error))?;
    shown.end();
    if made.commit == current.commit {
        // It is the same commit under another name, or one that was given in a shortened form.
        return Ok(UpdateResult::Nothing(
            made,
            Box::new(VersionSearch { decision: Decision::Current, ..look }),
        ));
    }
    // The full commit is known only now, if a shortened one was asked for. It may have failed here before.
    let known = versions::failed(home).remove(&made.commit);
    if let Some(failed) = known.filter(|_| !look.retry) {
        let decision = Decision::Failed(made.commit, failed);
        return Ok(UpdateResult::Nothing(current.clone(), Box::new(VersionSearch { decision, ..look })));
    }
    let done =
        VersionChange { installer, home, context, way: ChangeDirection::Update, from: current, to: &made }
            .run()?;
    versions::forget_failure(home, &made.commit)?;
    tidy(installer, home, context, None);
    Ok(UpdateResult::Changed(made, done))
}

/// Warns if another version runs than the one in use, for example after a person changed the link by hand.
fn warn_of_stale_process(home: &Home, version: &InstalledVersion, context: &Context) {
    let runs = running_build(home, context).ok().flatten();
    if let Some(other) = runs.filter(|build| *build != version.name()) {
        context
            .printer
            .warn(&format!("OpenClaw still runs as {other}; to run the installed version: flock restart"));
    }
}

/// Returns the folder name of the version that runs, if one does.
fn running_build(home: &Home, context: &Context) -> Result<Option<String>, Failure> {
    let found = context.block_on(async { Ok(openclaw_restart::look(home).await) })?;
    let found = found.map_err(|unproved| Failure::new(Kind::Failed, unproved.to_string()))?;
    Ok(found.and_then(|unit| unit.build))
}

/// Removes versions that are no longer needed.
///
/// An error is only a warning: the change itself is complete, and the next update tries the removal again.
pub fn tidy(installer: &InstallLock, home: &Home, context: &Context, again: Option<&InstalledVersion>) {
    let removed = running_build(home, context).and_then(|runs| {
        // A version that still runs must keep its files, even if it is not in use any more.
        let kept: Vec<String> = runs.into_iter().chain(again.map(InstalledVersion::name)).collect();
        Ok(prune(installer, home, &kept)?)
    });
    if let Err(failure) = removed {
        context
            .printer
            .warn(&format!("failed to remove the versions that are no longer needed: {}", failure.text()));
    }
}

/// Rolls back to the earlier version. Later updates pass over the one that is left.
fn back(
    installer: &InstallLock,
    home: &Home,
    current: &InstalledVersion,
    context: &Context,
) -> Result<Exit, Failure> {
    let before = versions::previous(home);
    let Some(before) = before.filter(|before| before.entry().is_file()) else {
        return Err(report::no_rollback_failure(current, None));
    };
    if let Some(failed) = versions::failed(home).get(&before.commit) {
        return Err(report::no_rollback_failure(current, Some((&before, failed))));
    }
    // The files may have been changed since the build. A rollback must not put such a version in use.
    before.check().map_err(|error| report::altered(&before, error))?;
    let change = VersionChange {
        installer,
        home,
        context,
        way: ChangeDirection::Rollback,
        from: current,
        to: &before,
    };
    let done = change.run()?;
    report::changed(home, &change, done, context);
    Ok(Exit::Done)
}

/// Reports a commit that can't be built, and remembers it if that is the commit's own fault.
fn not_made(home: &Home, current: &InstalledVersion, look: &VersionSearch, error: InstallError) -> Failure {
    let reason = own_fault(&error).filter(|_| look.is_staged(home));
    let commit = look.tip.as_ref().and_then(|tip| tip.commit.as_deref());
    let remembered = match (reason, commit) {
        (Some(reason), Some(commit)) => store_failure(home, commit, None, reason, false),
        _ => false,
    };
    report::not_made(current, error, remembered, look.words)
}

/// Remembers a version that does not work here or shall not be used. Returns `true` if updates pass over it from now
/// on.
///
/// A doubtful failure, which may be the machine's fault, counts only the second time.
fn remember(home: &Home, version: &InstalledVersion, reason: String, doubtful: bool) -> bool {
    store_failure(home, &version.commit, Some(version.version.clone()), reason, doubtful)
}

/// Records a failure. An error of recording changes nothing about what failed, so it is dropped.
fn store_failure(home: &Home, commit: &str, version: Option<String>, reason: String, doubtful: bool) -> bool {
    let failed = Failed { version, reason, at: clock::unix_ms() / 1000, doubtful };
    versions::record_failure(home, commit, failed).unwrap_or(false)
}
