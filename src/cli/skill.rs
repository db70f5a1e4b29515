//! `flock skill`: skills that are imported from folders and git repositories.

mod add;
mod look;
mod report;
mod update;

use clap::Subcommand;
use serde_json::json;

use super::{Context, Exit, Failure, person};
use crate::error::Kind;
use crate::id::FolderName;
use crate::skill::{ImportError, SkillChanges, installed};
use crate::store::Level;

/// Import skills, and see what they contain
///
/// A skill is a folder with a SKILL.md, which agents read when they need it. An imported one is pinned by the hash of its
/// content and, if it comes from git, by a commit. Nothing of it runs on this machine: agents read it, and what they run,
/// they run in their sandboxes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(add::AddArgs),
    /// List the skills: where they come from, and whether they are what was imported
    #[command(visible_alias = "ls")]
    List,
    Show(look::ShowArgs),
    Update(update::UpdateArgs),
    /// Make an imported skill your own: keep its files as they are, and forget where it came from
    Adopt {
        /// Name of the skill
        skill: FolderName,
    },
    /// Remove a skill with all its files
    #[command(visible_alias = "rm")]
    Remove {
        /// Name of the skill
        skill: FolderName,
    },
}

/// Runs the verb below `skill`.
///
/// # Errors
///
/// Returns an error if a skill or its source can't be read, if the person does not agree, or if the files can't be written.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    match &args.verb {
        Verb::Add(wanted) => add::run(wanted, context),
        Verb::List => look::list(context),
        Verb::Show(wanted) => look::show(wanted, context),
        Verb::Update(wanted) => update::run(wanted, context),
        Verb::Adopt { skill } => adopt(skill, context),
        Verb::Remove { skill } => remove(skill, context),
    }
}

fn adopt(name: &FolderName, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let changes = SkillChanges::begin(&home)?;
    let found = installed::find(&home, name)?;
    // A damaged record is forgotten too.
    if let Err(error @ ImportError::NotImported { .. }) = found.require_record() {
        return Err(error.into());
    }
    changes.forget(name)?;
    let source = found.record.map(|record| record.source.summary()).unwrap_or_default();
    let text = format!("its source {source} is forgotten");
    context.block_on(person::record(&home, "skill.adopt", name.as_str(), Level::Green, text))?;
    context.printer.if_json(&json!({"adopted": name}));
    context.printer.say(format!("{name} is your own skill now; flock no longer looks where it came from"));
    Ok(Exit::Done)
}

fn remove(name: &FolderName, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let changes = SkillChanges::begin(&home)?;
    let found = installed::find(&home, name)?;
    if !context.yes() {
        let unasked = Failure::new(Kind::Usage, format!("removing the skill {name} must be confirmed"))
            .hint(format!("flock skill remove {name} --yes"));
        let lost =
            if found.record.is_some() { "" } else { ", which was written here and can't be imported again" };
        let question = format!("Remove the skill {name}{lost}?");
        context.confirm(&question, unasked, &format!("{name} was not removed"))?;
    }
    changes.remove(name)?;
    let hash = found.content.map(|content| content.hash()).unwrap_or_default();
    context.block_on(person::record(&home, "skill.remove", name.as_str(), Level::Green, hash))?;
    context.printer.if_json(&json!({"removed": name}));
    context.printer.say(format!("the skill {name} is removed"));
    Ok(Exit::Done)
}
