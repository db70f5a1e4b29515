//! Output of `flock update`.

use serde_json::{Value, json};

use super::super::Context;
use super::super::install_progress::described;
use crate::clock;
use crate::home::Home;
use crate::install::pending_change::{self, ChangeDirection, VersionChangeState};
use crate::install::tags::MovedTag;
use crate::install::update::{UpdateDecision, VersionSearch};
use crate::install::versions::short;
use crate::install::{InstalledVersion, versions};
use crate::openclaw::update::{CompletedChange, UpdateOutcome};
use crate::ui::{StyledLine, TextStyle};

/// Prints that the home has no OpenClaw.
pub(crate) fn print_not_installed(context: &Context) {
    // No OpenClaw is no failure: the command succeeds and has nothing to do.
    context.printer.if_json(&json!({"state": "none", "installed": null}));
    context.printer.say("there is no OpenClaw in this home; flock's own gateway is part of flock itself");
}

/// Prints the result of `--check`.
pub(crate) fn found(home: &Home, current: &InstalledVersion, look: &VersionSearch, context: &Context) {
    if context.printer.is_json() {
        context.printer.json(&check_json(home, current, look));
        return;
    }
    let printer = &context.printer;
    let installed = StyledLine::new().plain("installed  ").accent(current.to_string());
    let committed = clock::local(current.committed_at * 1000);
    printer.line(installed.plain(format!(", committed {committed}")));
    let wanted = &look.query.wanted;
    printer.line(format!("followed   {} of {}", wanted.reference, wanted.repository));
    let (tone, text) = match &look.decision {
        UpdateDecision::New(commit) => {
            // The full commit is unknown if a shortened one was named. Then the reference is shown.
            let commit = commit.as_deref().map_or(wanted.reference.as_str(), short);
            (TextStyle::Good, format!("new        {commit}; flock update takes it"))
        }
        _ => (TextStyle::Plain, format!("new        nothing: {}", why(look))),
    };
    printer.line(StyledLine::new().with(tone, text));
    if is_interrupted(home) {
        printer.warn("an earlier change of versions was interrupted; flock update ends it");
    }
}

/// Prints the result of an update or a rollback.
pub(crate) fn outcome(home: &Home, outcome: UpdateOutcome, context: &Context) {
    let printer = &context.printer;
    match outcome {
        UpdateOutcome::Kept { version, search, stale } => {
            printer.say(why(&search));
            printer.result(&check_json(home, &version, &search), version.to_string());
            warn_of_stale_process(stale, context);
        }
        UpdateOutcome::Changed(change) if printer.is_json() => {
            printer.json(&json!({
                "state": changed_state(change.way),
                "installed": described(&change.to),
                "previous": versions::previous(home).as_ref().map(described),
                "serves": change.serves,
                "state_put_back": change.put_back,
            }));
        }
        UpdateOutcome::Changed(change) => {
            print_in_use(&change, context);
            printer.line(change.to.to_string());
        }
        // Only an installation has this result.
        UpdateOutcome::Installed(_) => {}
    }
}

/// Prints for people the result of an installation, and returns the version in use.
pub(crate) fn installed(outcome: UpdateOutcome, context: &Context) -> InstalledVersion {
    match outcome {
        UpdateOutcome::Kept { version, search, stale } => {
            // The wanted version stays out of use, because it did not work here.
            if matches!(search.decision, UpdateDecision::Failed(..)) {
                context.printer.warn(&why(&search));
            }
            warn_of_stale_process(stale, context);
            version
        }
        UpdateOutcome::Changed(change) => {
            print_in_use(&change, context);
            change.to
        }
        UpdateOutcome::Installed(version) => version,
    }
}

/// Returns the word for programs that a version was changed.
pub(super) const fn changed_state(way: ChangeDirection) -> &'static str {
    match way {
        ChangeDirection::Update => "updated",
        ChangeDirection::Rollback => "rolled-back",
    }
}

/// Warns if another version runs than the one in use.
fn warn_of_stale_process(stale: Option<String>, context: &Context) {
    if let Some(other) = stale {
        let text = format!("OpenClaw still runs as {other}; to run the installed version: flock restart");
        context.printer.warn(&text);
    }
}

/// Prints for people that another version is in use.
fn print_in_use(change: &CompletedChange, context: &Context) {
    let text = match change.way {
        ChangeDirection::Update => format!(
            "{} is in use; flock update --rollback goes back to {}",
            change.to.full_name(),
            change.from
        ),
        ChangeDirection::Rollback => format!(
            "{} is in use again; updates pass over {} until flock update --retry",
            change.to.full_name(),
            short(&change.from.commit)
        ),
    };
    context.printer.say(StyledLine::new().with(TextStyle::Good, text));
    // The conversations since the newer version's start are invisible to the older one, which a person must know.
    if change.put_back {
        context.printer.warn(
            "it can't read the conversations that the newer version changed: OpenClaw's agents know only what was \
             said before that version was put in use",
        );
    }
    if !change.serves {
        context.printer.say("OpenClaw does not run now; its next start uses this version");
    }
}

/// Returns the reason for which there is nothing to do.
fn why(look: &VersionSearch) -> String {
    let reference = &look.query.wanted.reference;
    match &look.decision {
        UpdateDecision::Fixed => {
            format!(
                "{reference} is a tag or a commit, so it does not move; to follow a branch: flock update --ref \
                 BRANCH"
            )
        }
        UpdateDecision::Current | UpdateDecision::New(_) => format!("{reference} is installed"),
        UpdateDecision::Moved(moved) => is_moved(moved, "flock update"),
        UpdateDecision::Failed(commit, failed) => format!(
            "{} of {reference} is passed over: {} on {}; flock update --retry tries it again",
            short(commit),
            failed.reason,
            clock::local(failed.at * 1000)
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
            "repo": look.query.wanted.repository,
            "ref": look.query.wanted.reference,
            "follows": look.tip.as_ref().map_or(current.follows, |tip| tip.is_branch),
            "commit": decision.commit(Some(&current.commit)),
            "was": decision.was(),
        },
        "failed": decision.failed().map(|failed| json!({"version": failed.version, "reason": failed.reason, "at": failed.at})),
        "interrupted": is_interrupted(home),
    })
}

/// Returns `true` if a change was interrupted after its swap. Before it, the version in use never changed.
fn is_interrupted(home: &Home) -> bool {
    matches!(
        pending_change::interrupted(home),
        Some(VersionChangeState::Swapped { .. } | VersionChangeState::Back { .. })
    )
}
