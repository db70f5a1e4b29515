//! `flock skill update`: shows what would change, and replaces the skill by exactly that.

use serde_json::json;

use super::report;
use crate::cli::{Context, Exit, Failure, person};
use crate::clock::unix_ms;
use crate::error::Kind;
use crate::id::FolderName;
use crate::skill::difference::{DifferenceLimits, between};
use crate::skill::inspection::inspect;
use crate::skill::{
    ImportError, PinKind, RecordedOrigin, SkillChanges, SkillOrigin, SkillRecord, SkillState, installed,
};
use crate::store::Level;

/// Show what changed at the source of a skill, and take it over
///
/// A skill from a branch follows the branch. One from a tag or a commit stays there until you name another one with --ref.
/// If the skill was changed here, the update shows that as well and puts it back.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock skill update pdf
  flock skill update pdf --check
  flock skill update pdf --ref v2.0")]
pub(super) struct UpdateArgs {
    /// Name of the skill
    skill: FolderName,
    /// Branch, tag or commit to move to
    #[arg(long = "ref", value_name = "REF")]
    reference: Option<String>,
    /// Show the difference, and change nothing
    #[arg(long)]
    check: bool,
    /// Show all lines of the difference, however many there are
    #[arg(long)]
    full: bool,
}

/// Reads the source again, shows the difference and replaces the skill.
///
/// # Errors
///
/// Returns an error if the skill was not imported, if its source can't be read or has something that can't be imported, if a
/// tag has moved, or if the person does not agree.
pub(super) fn run(args: &UpdateArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let changes = SkillChanges::begin(&home)?;
    let name = &args.skill;
    let installed = installed::find(&home, name)?;
    let old = installed.require_record()?;
    let origin = SkillOrigin::of_record(name, old, args.reference.as_deref())?;
    let (content, source) = report::fetch(&origin, &home, context)?;
    refuse_moved_tag(name, &old.source, &source)?;

    let limits = if args.full { DifferenceLimits::FULL } else { DifferenceLimits::SHORT };
    // Files that can't be read, such as a link that somebody put there, show as missing.
    let present = installed.content.clone().unwrap_or_default();
    let difference = between(&present, &content, limits);
    let is_same = difference.files.is_empty() && installed.state == SkillState::Intact;
    let is_pin_same = old.source == source;
    let by = person::name();
    let record = SkillRecord {
        source,
        hash: content.hash(),
        imported_at: old.imported_at,
        imported_by: old.imported_by.clone(),
        updated_at: Some(unix_ms()),
        updated_by: Some(by),
    };
    let found = inspect(&content);
    let result = |updated: bool| {
        json!({
            "name": name, "updated": updated, "isSame": is_same && is_pin_same, "state": installed.state.as_str(),
            "before": old, "after": record, "difference": difference, "contents": found,
        })
    };
    if is_same && is_pin_same {
        context.printer.if_json(&result(false));
        context.printer.say(format!("{name} is up to date: {}", report::pinned(&old.source)));
        return Ok(Exit::Done);
    }
    let mut is_seen = true;
    if !context.printer.is_json() {
        report::contents(name, &found, context);
        if let Some(reason) = installed.state.reason() {
            context.printer.warn(&format!("{name} was changed here since it was imported: {reason}"));
        }
        is_seen = report::difference(&difference, context)?;
        report::moved(old, &record, context);
    }
    if args.check {
        context.printer.if_json(&result(false));
        return Ok(Exit::Done);
    }
    if !is_seen {
        let text = format!("{name} was not updated: the end of the difference was not read");
        return Err(Failure::new(Kind::Failed, text));
    }
    if !context.yes() {
        let flag = args.reference.as_ref().map(|reference| format!(" --ref {}", report::quoted(reference)));
        let unasked = Failure::new(Kind::Usage, format!("updating the skill {name} must be confirmed"))
            .hint(format!("flock skill update {name}{} --yes", flag.unwrap_or_default()));
        let question = match difference.left_out {
            0 => format!("Update the skill {name}?"),
            lines => format!(
                "Update the skill {name}, although {lines} lines of the difference were not shown in full?"
            ),
        };
        context.confirm(&question, unasked, &format!("{name} was not updated"))?;
    }
    changes.replace(name, &content, &record)?;
    let detail = format!("{} to {} from {}", old.hash, record.hash, report::pinned(&record.source));
    context.block_on(person::record(&home, "skill.update", name.as_str(), Level::Yellow, detail))?;
    context.printer.if_json(&result(true));
    context.printer.say(format!("the skill {name} is updated"));
    Ok(Exit::Done)
}

/// Refuses a tag that is at another commit than before. A person who trusts it names the commit.
fn refuse_moved_tag(
    name: &FolderName,
    before: &RecordedOrigin,
    after: &RecordedOrigin,
) -> Result<(), ImportError> {
    let RecordedOrigin::Git { reference: old, pin: PinKind::Tag, commit: was, repository, .. } = before
    else {
        return Ok(());
    };
    let RecordedOrigin::Git { reference, commit: now, .. } = after else { return Ok(()) };
    if old != reference || was == now {
        return Ok(());
    }
    Err(ImportError::MovedTag {
        name: name.clone(),
        reference: reference.clone(),
        repository: repository.clone(),
        was: was.clone(),
        now: now.clone(),
    })
}
