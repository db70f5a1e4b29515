//! `flock update`: the bundled OpenClaw as its branch is now, or as it was before; with `--self`, flock's own program.
//!
//! A version is made and tried beside the one in use; only then is the link swapped, and OpenClaw started anew where it
//! runs. If that does not get healthy, all of it is taken back. What is under way is noted (`install::underway`), so
//! that an update that was killed is ended by the next one.

mod change;
mod look;
mod own;
mod report;
mod serving;

use std::path::PathBuf;

use super::installing::Shown;
use super::{Context, Exit, Failure};
use crate::error::Kind;
use crate::home::Home;
use crate::install::underway::{self, Reached, Underway, Way};
use crate::install::update::{Asked, Decision, own_fault};
use crate::install::versions::Failed;
use crate::install::{self, InstallError, Installer, Version, Wanted, prune, versions};
use crate::{clock, config};
use change::{Change, Done};
use look::{Look, Search};

/// Update the OpenClaw gateway or flock itself, or go back to the version before
///
/// Asks the repository for a commit that is newer on the branch that is followed, builds it beside the version in use, tries it on
/// another port, and puts it in use. Whatever fails, the version in use stays, and the commit is passed over from then
/// on. A tag or a commit is not followed. Without OpenClaw there is nothing to update.
///
/// With `--self` the same is done for flock's own program, with cargo: it is built from a repository or a folder, tried on a
/// copy of this home's configuration and database, and put in place of the file in use. What runs is started anew with it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only say whether there is something new
    #[arg(long, conflicts_with_all = ["rollback", "retry"])]
    pub check: bool,
    /// Take this branch, tag or commit instead; an update follows a branch
    #[arg(long = "ref", value_name = "REF", conflicts_with = "rollback")]
    pub reference: Option<String>,
    /// Try a commit again that did not work here, or that was rolled back
    #[arg(long, conflicts_with = "rollback")]
    pub retry: bool,
    /// Go back to the version before
    #[arg(long)]
    pub rollback: bool,
    /// Update flock's own program instead
    #[arg(long = "self")]
    pub own: bool,
    /// Repository or folder to take flock's source from; it is remembered
    #[arg(long, value_name = "URL|PATH", requires = "own", conflicts_with = "rollback")]
    pub from: Option<String>,
    /// File to put the new program at, where it is not the one that runs
    #[arg(long, value_name = "FILE", requires = "own")]
    pub program: Option<PathBuf>,
    /// Take that address although it is not encrypted
    #[arg(long, requires = "own", conflicts_with = "rollback")]
    pub unencrypted: bool,
}

/// Updates.
///
/// # Errors
///
/// What failed. The version that was in use is in use, or the text says which one is.
pub fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if args.own {
        return own::run(args, context);
    }
    let home = if args.check { context.home()? } else { context.home_to_change()? };
    let Some(current) = versions::current(&home) else {
        report::nothing_installed(context);
        return Ok(Exit::Done);
    };
    if args.check {
        let look = Look::at(&home, &current, search(args, &home, &current)?, context)?;
        report::found(&home, &current, &look, context);
        return Ok(Exit::Done);
    }
    let installer = Installer::begin(&home)?;
    end_interrupted(&installer, &home, context)?;
    // What was interrupted may have ended with the version before.
    let Some(current) = versions::current(&home) else {
        report::nothing_installed(context);
        return Ok(Exit::Done);
    };
    if args.rollback {
        back(&installer, &home, &current, context)
    } else {
        forward(&installer, &home, &current, args, context)
    }
}

/// Brings a change to its end that was interrupted between the swap and the proof of the new version.
fn end_interrupted(installer: &Installer, home: &Home, context: &Context) -> Result<(), Failure> {
    match underway::interrupted(home) {
        None => Ok(()),
        Some(Reached::Nothing) => Ok(Underway::end(installer, home)?),
        Some(Reached::Back { from }) => {
            context.printer.say(format!("going back to {}, which was interrupted", report::name(&from)));
            Change { installer, home, context, way: Way::Rollback, from: &from, to: &from }.go_back()
        }
        Some(Reached::Swapped { way, from, to }) => {
            context.printer.say(format!("going on with the interrupted change to {}", report::name(&to)));
            let done = Change { installer, home, context, way, from: &from, to: &to }.go_on()?;
            if way == Way::Update {
                versions::forget_failure(home, &to.commit)?;
            }
            if done.serves {
                context.printer.say(format!("{} is healthy", report::name(&to)));
            }
            Ok(())
        }
    }
}

fn search(args: &Args, home: &Home, current: &Version) -> Result<Search, Failure> {
    let settings = config::read(home)?.openclaw;
    let named = args.reference.as_deref();
    Ok(Search {
        wanted: Wanted::choose(None, named, &settings, Some(current)),
        asked: if named.is_some() { Asked::Named } else { Asked::Followed },
        retry: args.retry,
        words: report::in_own_words,
    })
}

fn forward(
    installer: &Installer,
    home: &Home,
    current: &Version,
    args: &Args,
    context: &Context,
) -> Result<Exit, Failure> {
    let taken = take(installer, home, current, search(args, home, current)?, context)?;
    let (made, done) = match taken {
        Taken::Nothing(version, look) => {
            report::nothing_done(home, &version, &look, context);
            warn_of_another(home, &version, context);
            return Ok(Exit::Done);
        }
        Taken::Changed(made, done) => (made, done),
    };
    let change = Change { installer, home, context, way: Way::Update, from: current, to: &made };
    report::changed(home, &change, done, context);
    let named = config::read(home)?.openclaw.reference.filter(|named| *named != made.reference);
    if let Some(named) = named {
        context.printer.warn(&format!(
            "the configuration names {named}, which the next update takes; to stay with {0} run flock config set plugins.entries.flock.config.openclaw.ref {0}",
            made.reference
        ));
    }
    Ok(Exit::Done)
}

/// What an install does where a version is in use: what is wanted is tried and put in use as by an update, and what was
/// interrupted is brought to its end first. `None` where no version is in use that could go on.
///
/// # Errors
///
/// What failed. The version that was in use is in use, or the text says which one is.
pub fn install(
    installer: &Installer,
    home: &Home,
    (repository, reference): (Option<&str>, Option<&str>),
    context: &Context,
) -> Result<Option<Version>, Failure> {
    end_interrupted(installer, home, context)?;
    // One that lacks its program, or whose files were changed, is made again.
    let is_whole = |current: &Version| current.entry().is_file() && current.check().is_ok();
    let Some(current) = versions::current(home).filter(is_whole) else {
        return Ok(None);
    };
    let settings = config::read(home)?.openclaw;
    let wanted = Wanted::choose(repository, reference, &settings, Some(&current));
    let is_named = repository.or(reference).is_some();
    let asked = if is_named { Asked::Named } else { Asked::Followed };
    let search = Search { wanted, asked, retry: false, words: Failure::from };
    Ok(Some(match take(installer, home, &current, search, context)? {
        Taken::Nothing(version, look) => {
            report::passed_over(&look, context);
            warn_of_another(home, &version, context);
            version
        }
        Taken::Changed(made, done) => {
            let change = Change { installer, home, context, way: Way::Update, from: &current, to: &made };
            report::in_use(&change, done, context);
            made
        }
    }))
}

/// What came of looking for another version.
enum Taken {
    /// This one stays in use, and why.
    Nothing(Version, Box<Look>),
    /// This one is in use now.
    Changed(Version, Done),
}

/// Looks for another version, and where there is one makes it, tries it and puts it in use.
fn take(
    installer: &Installer,
    home: &Home,
    current: &Version,
    search: Search,
    context: &Context,
) -> Result<Taken, Failure> {
    let look = Look::at(home, current, search, context)?;
    let wanted = &look.wanted;
    if let Decision::Moved(moved) = &look.decision {
        let moved = InstallError::Moved { repository: wanted.repository.clone(), moved: moved.clone() };
        return Err(report::not_made(current, moved, false, look.words));
    }
    let renamed = look.decision == Decision::Current
        && (wanted.reference != current.reference || wanted.repository != current.origin);
    if !renamed && !matches!(look.decision, Decision::New(_)) {
        return Ok(Taken::Nothing(current.clone(), Box::new(look)));
    }
    let shown = Shown::new(context);
    let made = install::prepare(installer, home, wanted, &|event| shown.event(&event));
    let made = made.map_err(|error| not_made(home, current, &look, error))?;
    shown.end();
    if made.commit == current.commit {
        // The same under another name, or what was a shortened commit.
        return Ok(Taken::Nothing(made, Box::new(Look { decision: Decision::Current, ..look })));
    }
    let known = versions::failed(home).remove(&made.commit);
    if let Some(failed) = known.filter(|_| !look.retry) {
        let decision = Decision::Failed(made.commit, failed);
        return Ok(Taken::Nothing(current.clone(), Box::new(Look { decision, ..look })));
    }
    let done = Change { installer, home, context, way: Way::Update, from: current, to: &made }.run()?;
    versions::forget_failure(home, &made.commit)?;
    tidy(installer, home, context, None);
    Ok(Taken::Changed(made, done))
}

/// Says so where another version runs than is in use, as after a link that was made by hand.
fn warn_of_another(home: &Home, version: &Version, context: &Context) {
    let runs = serving_build(home, context).ok().flatten();
    if let Some(other) = runs.filter(|build| *build != version.name()) {
        context
            .printer
            .warn(&format!("OpenClaw still runs as {other}; flock restart has it run as what is installed"));
    }
}

/// The folder's name of the version that runs, if one does.
fn serving_build(home: &Home, context: &Context) -> Result<Option<String>, Failure> {
    let found = context.block_on(async { Ok(serving::look(home).await) })?;
    let found = found.map_err(|unproved| Failure::new(Kind::Failed, unproved.to_string()))?;
    Ok(found.and_then(|unit| unit.build))
}

/// Removes versions that are no longer needed. What can't be removed now, the next update does: the change itself has
/// come to its end.
pub fn tidy(installer: &Installer, home: &Home, context: &Context, again: Option<&Version>) {
    let removed = serving_build(home, context).and_then(|runs| {
        let kept: Vec<String> = runs.into_iter().chain(again.map(Version::name)).collect();
        Ok(prune(installer, home, &kept)?)
    });
    if let Err(failure) = removed {
        context.printer.warn(&format!("versions that are no longer needed stay for now: {}", failure.text()));
    }
}

/// Goes back to the version before. The one that is left is passed over by updates from then on.
fn back(installer: &Installer, home: &Home, current: &Version, context: &Context) -> Result<Exit, Failure> {
    let before = versions::previous(home);
    let Some(before) = before.filter(|before| before.entry().is_file()) else {
        return Err(report::no_way_back(current, None));
    };
    if let Some(failed) = versions::failed(home).get(&before.commit) {
        return Err(report::no_way_back(current, Some((&before, failed))));
    }
    before.check().map_err(|error| report::altered(&before, error))?;
    let change = Change { installer, home, context, way: Way::Rollback, from: current, to: &before };
    let done = change.run()?;
    report::changed(home, &change, done, context);
    Ok(Exit::Done)
}

/// Remembers a commit that can't be made, where it is its own fault.
fn not_made(home: &Home, current: &Version, look: &Look, error: InstallError) -> Failure {
    let reason = own_fault(&error).filter(|_| look.is_staged(home));
    let commit = look.tip.as_ref().and_then(|tip| tip.commit.as_deref());
    let remembered = match (reason, commit) {
        (Some(reason), Some(commit)) => note_failure(home, commit, None, reason, false),
        _ => false,
    };
    report::not_made(current, error, remembered, look.words)
}

/// Remembers a version that does not work here, or shall not be used; says whether it is passed over from now on. What
/// is doubtful is so the second time.
fn remember(home: &Home, version: &Version, reason: String, doubtful: bool) -> bool {
    note_failure(home, &version.commit, Some(version.version.clone()), reason, doubtful)
}

/// That it could not be remembered changes nothing about what failed.
fn note_failure(home: &Home, commit: &str, version: Option<String>, reason: String, doubtful: bool) -> bool {
    let failed = Failed { version, reason, at: clock::unix_ms() / 1000, doubtful };
    versions::remember_failure(home, commit, failed).unwrap_or(false)
}
