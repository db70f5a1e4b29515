//! Output of `flock update --self`.

use serde_json::{Value, json};

use super::super::super::{Context, Failure};
use super::super::report::{changed_state, is_moved};
use super::ProgramSearch;
use super::change::named;
use crate::home::Home;
use crate::install::self_update::pending_change::{ChangeDirection, PendingProgramChange};
use crate::install::self_update::{ProgramRecord, choice::UpdateSource};
use crate::install::update::UpdateDecision;
use crate::install::versions::short;
use crate::ui::{StyledLine, TextStyle};

/// Prints the result of `--check`.
pub(crate) fn found(home: &Home, look: &ProgramSearch, is_interrupted: bool, context: &Context) {
    if context.printer.is_json() {
        context.printer.json(&check_json(home, look, is_interrupted));
        return;
    }
    let printer = &context.printer;
    printer.line(StyledLine::new().plain("installed  ").accent(look.current.version.clone()));
    printer.line(format!("followed   {}", source_text(&look.source)));
    let (tone, text) = match &look.decision {
        UpdateDecision::New(commit) => {
            // The full commit is unknown if a shortened one was named. Then the reference is shown.
            let commit = commit.as_deref().map_or(look.source.reference.as_str(), short);
            (TextStyle::Good, format!("new        {commit}; flock update --self takes it"))
        }
        other => (TextStyle::Plain, format!("new        nothing: {}", unchanged_reason(other, look))),
    };
    printer.line(StyledLine::new().with(tone, text));
    if is_interrupted {
        printer.warn("an earlier update of flock was interrupted; flock update --self ends it");
    }
}

/// Prints that there was nothing to do.
pub(crate) fn nothing_done(home: &Home, look: &ProgramSearch, context: &Context) {
    context.printer.say(unchanged_reason(&look.decision, look));
    context.printer.result(&check_json(home, look, false), look.current.version.as_str());
}

/// Prints that another program is in use.
pub(crate) fn changed(home: &Home, change: &PendingProgramChange, serves: bool, context: &Context) {
    let value = json!({
        "state": changed_state(change.way),
        "installed": described(&change.to),
        "previous": ProgramRecord::previous(home).as_ref().map(described),
        "path": change.path,
        "serves": serves,
    });
    let text = match change.way {
        // A rollback goes to the program that was in use before this change.
        ChangeDirection::Update => format!(
            "{} is in use; flock update --self --rollback goes back to {}",
            named(&change.to),
            change.from.version
        ),
        ChangeDirection::Rollback => format!(
            "{} is in use again; updates pass over {} until flock update --self --retry",
            named(&change.to),
            change.from.version
        ),
    };
    context.printer.say(StyledLine::new().with(TextStyle::Good, text));
    // Nothing ran before the change either, so nothing was started.
    if !serves {
        context.printer.say("the gateway does not run now; its next start uses this version");
    }
    context.printer.result(&value, change.to.version.as_str());
}

/// Adds to an error that the program in use has not changed.
pub(crate) fn stays(current: &ProgramRecord, mut failure: Failure) -> Failure {
    failure.message = format!("{}; {} is in use as before", failure.message, named(current));
    failure
}

fn source_text(source: &UpdateSource) -> String {
    format!("{} of {}", source.reference, source.from)
}

fn unchanged_reason(decision: &UpdateDecision, look: &ProgramSearch) -> String {
    match decision {
        UpdateDecision::Fixed => format!(
            "{} was asked for and is a tag or a commit, so it is not followed; to choose another: flock update \
             --self --ref REF",
            look.source.reference
        ),
        UpdateDecision::Current | UpdateDecision::New(_) => {
            format!("{} is in use", source_text(&look.source))
        }
        UpdateDecision::Moved(moved) => is_moved(moved, "flock update --self"),
        UpdateDecision::Failed(commit, failed) => format!(
            "{} did not work here ({}); flock update --self --retry tries it again",
            short(commit),
            failed.reason
        ),
    }
}

fn described(program: &ProgramRecord) -> Value {
    json!({
        "version": program.version,
        "commit": program.commit,
        "ref": program.reference,
        "follows": program.follows,
        "repo": program.origin,
        "built_at": program.built_at,
    })
}

fn check_json(home: &Home, look: &ProgramSearch, is_interrupted: bool) -> Value {
    let decision = &look.decision;
    json!({
        "state": decision.state(),
        "installed": described(&look.current),
        "previous": ProgramRecord::previous(home).as_ref().map(described),
        "wanted": {
            "repo": look.source.from,
            "ref": look.source.reference,
            "follows": look.tip.as_ref().map_or(look.current.follows, |tip| tip.is_branch),
            "commit": decision.commit(look.current.commit.as_deref()),
            "was": decision.was(),
        },
        "failed": decision.failed().map(|failed| json!({"reason": failed.reason, "at": failed.at})),
        "path": look.path,
        "uncommitted": look.uncommitted,
        "interrupted": is_interrupted,
    })
}
