//! `flock generations`: lists the generations of the home, and shows one of them.

use clap::Subcommand;
use serde_json::{Value, json};

use super::{Context, Exit, Failure};
use crate::clock;
use crate::error::{Kind, chain};
use crate::gateway::routes::generations::{shown, summary};
use crate::generation::{self, Generation, difference};
use crate::home::Home;
use crate::install::kept::Kept;
use crate::ui::{StyledLine, Table, TextStyle};

/// List the generations of this home, or show one
///
/// Each change of the configuration, an agent, its packages, OpenClaw or flock's own program is a numbered generation
/// with who made it, when and why. A change that was made by hand becomes one, too. `flock rollback` goes back to one.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock generations
  flock generations show 12")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show a generation, and how it differs from the one before
    Show {
        /// Number of the generation
        #[arg(value_name = "GENERATION")]
        generation: u64,
    },
}

/// Lists the generations or shows one.
///
/// # Errors
///
/// Returns an error if the generations can't be read, or if there is none with the number.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    // A change by hand becomes a generation now. A broken configuration is no state to go back to.
    if crate::config::file::read_document(&home).is_ok()
        && let Err(error) = generation::look(&home, |_| {})
    {
        // The ones that are there can be shown all the same, for example on a full disk.
        context.printer.warn(&chain(&error));
    }
    match &args.verb {
        None => list(&home, context),
        Some(Verb::Show { generation }) => show(&home, *generation, context),
    }
}

fn list(home: &Home, context: &Context) -> Result<Exit, Failure> {
    let kept = Kept::of(home)?;
    let mut table = Table::new(&["GENERATION", "WHEN", "WHO", "WHY", "WHAT"]);
    let mut listed = Vec::new();
    let mut unreadable = Vec::new();
    let all = generation::log::all(home)?;
    for found in all.iter().rev() {
        match found {
            Ok(generation) => {
                let lost = kept.lost(&generation.state);
                let mut what = first_difference(generation);
                if !lost.is_empty() {
                    what = format!("{what} (can't be gone back to: {})", lost.join("; "));
                }
                table.row([
                    generation.number.to_string().as_str(),
                    &clock::local(generation.at),
                    &generation.by,
                    &generation.why,
                    &what,
                ]);
                listed.push(summary(generation, &lost));
            }
            Err((number, error)) => unreadable.push((*number, chain(error))),
        }
    }
    let broken: Vec<Value> =
        unreadable.iter().map(|(number, why)| json!({"number": number, "problem": why})).collect();
    context.printer.list(
        &json!({"generations": listed, "unreadable": broken}),
        &table,
        format!("{} has no generations yet", home.root().display()),
    );
    for (number, why) in unreadable {
        context.printer.warn(&format!("generation {number} can't be read: {why}"));
    }
    Ok(Exit::Done)
}

/// Returns the first difference of a generation, with the number of the others.
fn first_difference(generation: &Generation) -> String {
    match generation.what.as_slice() {
        [] if generation.number == 1 => "the first state".to_owned(),
        [] => String::new(),
        [only] => only.clone(),
        [first, others @ ..] => format!("{first} and {} more", others.len()),
    }
}

fn show(home: &Home, number: u64, context: &Context) -> Result<Exit, Failure> {
    let found = find(home, number)?;
    let kept = Kept::of(home)?;
    let lost = kept.lost(&found.state);
    let before = generation::log::read(home, number.saturating_sub(1)).ok().flatten();
    let differences = before.as_ref().map(|before| difference::between(&before.state, &found.state));
    if context.printer.is_json() {
        context.printer.json(&shown(home, &found, &kept));
        return Ok(Exit::Done);
    }
    let printer = &context.printer;
    let line = |name: &str, text: &str| {
        printer.line(StyledLine::new().with(TextStyle::Dim, format!("{name:<11}")).plain(text.to_owned()));
    };
    line("generation", &number.to_string());
    line("when", &clock::local(found.at));
    line("who", &found.by);
    line("why", &found.why);
    line("flock", &found.state.program);
    if let Some(openclaw) = &found.state.openclaw {
        line("OpenClaw", openclaw);
    }
    for (agent, number) in &found.state.packages {
        line("packages", &format!("{agent}: profile {number}"));
    }
    for (image, id) in &found.state.images {
        line("image", &format!("{image} {id}"));
    }
    if let Some(schema) = found.state.schema {
        line("database", &format!("version {schema}"));
    }
    if let Some(backup) = kept.backup(&found.state) {
        line("backup", &backup.display().to_string());
    }
    for lost in &lost {
        line("lost", lost);
    }
    printer.line(StyledLine::new());
    match differences {
        None => printer.line("the generation before is not there any more"),
        Some(differences) => differences.iter().for_each(|difference| printer.line(difference.as_str())),
    }
    Ok(Exit::Done)
}

/// Returns a generation.
///
/// # Errors
///
/// Returns an error if there is none with this number, or if it can't be read.
pub(crate) fn find(home: &Home, number: u64) -> Result<Generation, Failure> {
    generation::log::read(home, number)?.ok_or_else(|| {
        Failure::new(Kind::Failed, format!("there is no generation {number}")).hint("flock generations")
    })
}
