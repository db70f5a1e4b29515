//! `flock skill add`: shows what a skill contains, and imports exactly that.

use serde_json::json;

use super::report;
use crate::cli::{Context, Exit, Failure, person};
use crate::clock::unix_ms;
use crate::error::Kind;
use crate::id::FolderName;
use crate::skill::inspection::inspect;
use crate::skill::{ImportError, SkillChanges, SkillOrigin, SkillRecord, installed};
use crate::store::Level;

/// Import a skill from a folder or a git repository
///
/// Shows what the skill contains before it asks: its files, scripts, hosts, tools, commands, and characters that nobody
/// sees. Nothing of it is run. Hidden files are left out; links, devices and too large files are refused.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock skill add ~/skills/release-notes
  flock skill add 'https://github.com/anthropics/skills#skills/pdf'
  flock skill add 'git@example.org:team/skills.git#deploy@v1.2'")]
pub(super) struct AddArgs {
    /// Folder, or REPOSITORY#PATH, with @COMMIT, @TAG or @BRANCH after it
    #[arg(value_name = "SOURCE", value_hint = clap::ValueHint::AnyPath)]
    source: String,
    /// Name of the skill here, if not the one that it gives itself
    #[arg(long = "name", value_name = "NAME")]
    as_name: Option<FolderName>,
    /// Show what it contains, and import nothing
    #[arg(long)]
    check: bool,
}

/// Reads the source, shows it and imports it.
///
/// # Errors
///
/// Returns an error if the source can't be read or has something that can't be imported, if the name is taken, or if the
/// person does not agree.
pub(super) fn run(args: &AddArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let changes = SkillChanges::begin(&home)?;
    let origin = SkillOrigin::parse(&args.source)?;
    let is_free = |name: &FolderName| match installed::find(&home, name) {
        Err(ImportError::Unknown { .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(found) => Err(ImportError::Exists { name: name.clone(), is_imported: found.record.is_some() }),
    };
    // A name that is taken is told before anything is fetched.
    args.as_name.as_ref().map_or(Ok(()), is_free)?;
    let (content, source) = report::fetch(&origin, &home, context)?;
    let found = inspect(&content);
    let name = match &args.as_name {
        Some(name) => name.clone(),
        None => origin.name(found.name.as_deref())?,
    };
    is_free(&name)?;
    let by = person::name();
    let hash = content.hash();
    let record = SkillRecord {
        source,
        hash,
        imported_at: unix_ms(),
        imported_by: by,
        updated_at: None,
        updated_by: None,
    };
    if !context.printer.is_json() {
        report::contents(&name, &found, context);
        report::origin(&record, context);
    }
    if args.check {
        context.printer.if_json(&json!({"name": name, "added": false, "record": record, "contents": found}));
        return Ok(Exit::Done);
    }
    if !context.yes() {
        let given = args.as_name.as_ref().map(|name| format!(" --name {name}")).unwrap_or_default();
        let unasked = Failure::new(Kind::Usage, format!("importing the skill {name} must be confirmed"))
            .hint(format!("flock skill add {}{given} --yes", report::quoted(&args.source)));
        let question = format!("Import the skill {name}? All agents that may read skills can read it then.");
        context.confirm(&question, unasked, &format!("{name} was not imported"))?;
    }
    changes.add(&name, &content, &record)?;
    let detail = format!("{} from {}", record.hash, report::pinned(&record.source));
    context.block_on(person::record(&home, "skill.add", name.as_str(), Level::Yellow, detail))?;
    context.printer.if_json(&json!({"name": name, "added": true, "record": record, "contents": found}));
    context.printer.say(format!("the skill {name} is imported"));
    Ok(Exit::Done)
}
