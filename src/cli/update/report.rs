//! Output of `flock update`.

use serde_json::{Value, json};

use super::super::install_progress::{described, named};
use super::super::{Context, Failure};
use super::change::{Done, VersionChange};
use super::openclaw_restart::RestartError;
use super::search::VersionSearch;
use crate::error::Kind;
use crate::home::Home;
use crate::install::pending_change::{self, ChangeDirection, VersionChangeState};
use crate::install::tags::MovedTag;
use crate::install::update::Decision;
use crate::install::versions::{Failed, short};
use crate::install::{InstallError, InstalledVersion, versions};
use crate::openclaw::OpenClawError;
use crate::ui::{StyledLine, TextStyle, time};

/// Formats a version, such as `OpenClaw 2026.9.6 (0123456789ab, main)`.
pub fn name(version: &InstalledVersion) -> String {
    format!("OpenClaw {}", named(version))
}

/// Prints that the home has no OpenClaw.
pub fn print_not_installed(context: &Context) {
    if context.printer.is_json() {
        // No OpenClaw is no failure: the command succeeds and has nothing to do.
        context.printer.json(&json!({"state": "none", "installed": null}));
        return;
    }
    context.printer.say("there is no OpenClaw in this home; flock's own gateway is part of flock itself");
}

/// Prints the result of `--check`.
pub fn found(home: &Home, current: &InstalledVersion, look: &VersionSearch, context: &Context) {
    if context.printer.is_json() {
        context.printer.json(&check_json(home, current, look));
        return;
    }
    let printer = &context.printer;
    printer.line(
        StyledLine::new()
            .plain("installed  ")
            .accent(named(current))
            .plain(format!(", committed {}", commit_date(current))),
    );
    printer.line(
        StyledLine::new()
            .plain("followed   ")
            .plain(format!("{} of {}", look.wanted.reference, look.wanted.repository)),
    );
    let (tone, text) = match &look.decision {
        Decision::New(commit) => {
            // The full commit is unknown if a shortened one was named. Then the reference is shown.
            let commit = commit.as_deref().map_or(look.wanted.reference.as_str(), short);
            (TextStyle::Good, format!("new        {commit}; flock update takes it"))
        }
        other => (TextStyle::Plain, format!("new        nothing: {}", why(other, look))),
    };
    printer.line(StyledLine::new().with(tone, text));
    // A change before its swap needs no mention: the version in use never changed.
    if matches!(
        pending_change::interrupted(home),
        Some(VersionChangeState::Swapped { .. } | VersionChangeState::Back { .. })
    ) {
        printer.warn("an earlier change of versions was interrupted; flock update ends it");
    }
}

/// Prints that there was nothing to do.
pub fn nothing_done(home: &Home, current: &InstalledVersion, look: &VersionSearch, context: &Context) {
    if context.printer.is_json() {
        context.printer.json(&check_json(home, current, look));
        return;
    }
    context.printer.say(why(&look.decision, look));
    context.printer.line(named(current));
}

/// Prints that another version is in use.
pub fn changed(home: &Home, change: &VersionChange<'_>, done: Done, context: &Context) {
    let state = match change.way {
        ChangeDirection::Update => "updated",
        ChangeDirection::Rollback => "rolled-back",
    };
    if context.printer.is_json() {
        context.printer.json(&json!({
            "state": state,
            "installed": described(change.to),
            "previous": versions::previous(home).as_ref().map(described),
            "serves": done.serves,
            "state_put_back": done.put_back,
        }));
        return;
    }
    print_in_use(change, done, context);
    context.printer.line(named(change.to));
}

/// Prints for people that another version is in use.
pub fn print_in_use(change: &VersionChange<'_>, done: Done, context: &Context) {
    let text = match change.way {
        ChangeDirection::Update => format!(
            "{} is in use; flock update --rollback goes back to {}",
            name(change.to),
            named(change.from)
        ),
        ChangeDirection::Rollback => format!(
            "{} is in use again; updates pass over {} until flock update --retry",
            name(change.to),
            short(&change.from.commit)
        ),
    };
    context.printer.say(StyledLine::new().with(TextStyle::Good, text));
    // The conversations since the newer version's start are invisible to the older one, which a person must know.
    if done.put_back {
        context.printer.warn(
            "it can't read the conversations that the newer version changed: OpenClaw's agents know only what was \
             said before that version was put in use",
        );
    }
    if !done.serves {
        context.printer.say("OpenClaw does not run now; its next start uses this version");
    }
}

/// Warns that the wanted version stays out of use, because it did not work here.
pub fn warn_passed_over(look: &VersionSearch, context: &Context) {
    if matches!(look.decision, Decision::Failed(..)) {
        context.printer.warn(&why(&look.decision, look));
    }
}

/// Returns the error for a commit that could not be built.
pub fn not_made(
    current: &InstalledVersion,
    error: InstallError,
    remembered: bool,
    words: fn(InstallError) -> Failure,
) -> Failure {
    // The hint is taken first, because the conversion consumes the error with the path of its log.
    let step = match &error {
        InstallError::Step { log, .. } => Some(format!("less {}", log.display())),
        _ => None,
    };
    let mut failure = words(error);
    failure.message = format!("{}; {} is in use as before", failure.message, name(current));
    if remembered {
        // The build log explains the failure better than any text here.
        let look = step.map(|step| format!("{step}; ")).unwrap_or_default();
        failure.hint = Some(format!("{look}{RETRIED_ON_REQUEST}"));
    }
    failure
}

/// Converts an error of asking or building for an update.
///
/// An update has no repository on its command line, and it is continued by another command than an installation.
pub fn to_update_failure(error: InstallError) -> Failure {
    let is_repository = matches!(error, InstallError::Repository { .. });
    let mut failure = Failure::from(error);
    if is_repository {
        failure.kind = Kind::Failed;
        failure.hint =
            Some("to take another repository: flock init --gateway openclaw --repo URL --ref REF".to_owned());
    } else {
        // The general error names the command of an installation, which would be the wrong one here.
        failure.hint = failure.hint.map(|hint| hint.replace("flock init --gateway openclaw", "flock update"));
    }
    failure
}

const RETRIED_AUTOMATICALLY: &str =
    "the machine may be the cause, so the next flock update tries this commit again";
const RETRIED_ON_REQUEST: &str = "updates pass over this commit; to try it again: flock update --retry";

/// Returns the error for a version that was not put in use.
pub fn not_tried(change: &VersionChange<'_>, error: OpenClawError, remembered: bool) -> Failure {
    let is_tried = matches!(error, OpenClawError::Untried { .. });
    let mut failure = Failure::from(error);
    failure.message = format!(
        "{} is not put in use: {}; {} is in use as before",
        name(change.to),
        failure.message,
        name(change.from)
    );
    // A version that is not remembered is tried again by the next update, which the hint has to say.
    if remembered || (is_tried && change.way == ChangeDirection::Update) {
        // A log that the error names is more useful than any other hint, so it stays in front.
        let look = failure.hint.filter(|hint| hint.starts_with("less ")).map(|hint| format!("{hint}; "));
        let more = if remembered { RETRIED_ON_REQUEST } else { RETRIED_AUTOMATICALLY };
        failure.hint = Some(format!("{}{more}", look.unwrap_or_default()));
    }
    failure
}

/// Returns the error for a version that was put in use and taken back.
pub fn rolled_back_failure(
    change: &VersionChange<'_>,
    reason: &str,
    serves: &Result<bool, RestartError>,
) -> Failure {
    let now = match serves {
        Ok(true) => format!("{} serves again", name(change.from)),
        Ok(false) | Err(RestartError::Stopped) => format!("{} is in use again", name(change.from)),
        Err(RestartError::Unasked(why)) => {
            format!(
                "{} is in use again, but the supervisor does not report its health: {why}",
                name(change.from)
            )
        }
        Err(RestartError::Fault(reason)) => {
            format!("{} is in use again, and does not get healthy either: {reason}", name(change.from))
        }
    };
    let text = format!("{} did not get healthy: {reason}; {now}", name(change.to));
    let hint = match change.way {
        ChangeDirection::Update => format!("see `flock logs openclaw`; {RETRIED_ON_REQUEST}"),
        ChangeDirection::Rollback => "flock logs openclaw".to_owned(),
    };
    Failure::new(Kind::Failed, text).hint(hint)
}

/// Returns the error for a version in use of which nobody knows if it becomes healthy.
pub fn unproved(change: &VersionChange<'_>, why: &RestartError) -> Failure {
    let text = match why {
        RestartError::Stopped | RestartError::Fault(_) => why.to_string(),
        RestartError::Unasked(why) => format!("failed to ask the supervisor for OpenClaw's health: {why}"),
    };
    let text = format!("{text}; {} is in use, but it is not known to be healthy", name(change.to));
    Failure::new(Kind::Failed, text).hint("flock update")
}

/// Returns the error for a version that served after an interrupted change and is no longer healthy.
pub fn no_longer_healthy_failure(change: &VersionChange<'_>, why: &RestartError) -> Failure {
    // Taking it back would lose the conversations since then.
    let text = format!(
        "{} does not get healthy: {why}; it has served since it was put in use, so it is not taken back",
        name(change.to)
    );
    Failure::new(Kind::Failed, text).hint(match change.way {
        ChangeDirection::Update => "flock update --rollback",
        ChangeDirection::Rollback => "flock logs openclaw",
    })
}

/// Returns the error that there is no version to roll back to.
pub fn no_rollback_failure(
    current: &InstalledVersion,
    left: Option<(&InstalledVersion, &Failed)>,
) -> Failure {
    let Some((version, failed)) = left else {
        let text = format!("there is no version before {}", name(current));
        return Failure::new(Kind::Failed, text).hint("flock update --ref REF");
    };
    let text = format!(
        "the version before {} is {}, which did not work: {}",
        name(current),
        name(version),
        failed.reason
    );
    Failure::new(Kind::Failed, text).hint("flock update --retry")
}

/// Returns the error for an earlier version whose files have changed since its build.
pub fn altered(before: &InstalledVersion, error: InstallError) -> Failure {
    Failure::from(error).hint(format!("to build it anew: flock update --ref {}", before.commit))
}

/// Returns the reason for which there is nothing to do.
fn why(decision: &Decision, look: &VersionSearch) -> String {
    let reference = &look.wanted.reference;
    match decision {
        Decision::Fixed => {
            format!(
                "{reference} is a tag or a commit, so it does not move; to follow a branch: flock update --ref \
                 BRANCH"
            )
        }
        Decision::Current | Decision::New(_) => format!("{reference} is installed"),
        Decision::Moved(moved) => is_moved(moved, "flock update"),
        Decision::Failed(commit, failed) => format!(
            "{} of {reference} is passed over: {} on {}; flock update --retry tries it again",
            short(commit),
            failed.reason,
            time::local(failed.at * 1000)
        ),
    }
}

/// Returns a text about a tag that was moved in the repository. `command` takes the commit that it points to now.
pub(super) fn is_moved(moved: &MovedTag, command: &str) -> String {
    format!(
        // The hint names the full commit, which can't be moved.
        "{} was at {} when it was first seen here and is at {} now; to take the new commit: {command} --ref {}",
        moved.tag,
        short(&moved.was),
        short(&moved.now),
        moved.now
    )
}

fn check_json(home: &Home, current: &InstalledVersion, look: &VersionSearch) -> Value {
    let decision = &look.decision;
    json!({
        "state": decision.state(),
        "installed": described(current),
        "previous": versions::previous(home).as_ref().map(described),
        "wanted": {
            "repo": look.wanted.repository,
            "ref": look.wanted.reference,
            "follows": look.tip.as_ref().map_or(current.follows, |tip| tip.is_branch),
            "commit": decision.commit(Some(&current.commit)),
            "was": decision.was(),
        },
        "failed": decision.failed().map(|failed| json!({"version": failed.version, "reason": failed.reason, "at": failed.at})),
        "interrupted": matches!(pending_change::interrupted(home), Some(VersionChangeState::Swapped { .. } | VersionChangeState::Back { .. })),
    })
}

fn commit_date(version: &InstalledVersion) -> String {
    time::local(version.committed_at * 1000)
}
