//! `flock rollback`: goes back to an earlier generation of the home.
//!
//! [`Kept`] says what is kept, [`plan`] decides what changes, [`switch`] carries it out with a record, and [`recover`]
//! completes a rollback that was killed.

pub(crate) mod plan;
pub(crate) mod recover;
mod switch;

use std::path::{Path, PathBuf};

use serde_json::json;

use super::generations::find;
use super::{Context, Exit, Failure, person, team, update};
use crate::clock::unix_ms;
use crate::config::{self, Config};
use crate::error::Kind;
use crate::generation::pending_rollback::{self, PendingRollback};
use crate::generation::{self, Generation};
use crate::home::{Home, HomeError};
use crate::install::kept::Kept;
use crate::install::versions;
use crate::sandbox::engine::Engine;
use crate::sandbox::image;
use crate::store::row_counts;
use crate::ui::StyledLine;
use plan::{Part, Request, RollbackPlan};
use switch::Switch;

/// Go back to an earlier generation of this home
///
/// Changes the configuration, the packages of agents, images, OpenClaw and flock's own program to what they were in that
/// generation. Shows what would change first, and asks. If the gateway is not healthy afterwards, everything is put
/// back. A rollback is a new generation, so it can be undone by going back to the one before. Keys and tokens, messages,
/// workspaces and transcripts stay as they are.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock rollback --dry-run
  flock rollback 12
  flock rollback 12 --only config")]
pub(crate) struct Args {
    /// Number of the generation [default: the one before the newest]
    #[arg(value_name = "GENERATION")]
    generation: Option<u64>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Parts to change [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Replace the database by its backup if the earlier program can't read it
    ///
    /// Messages and sessions that are newer than the backup are then no longer there. Their number is shown first.
    #[arg(long)]
    restore_backup: bool,
    /// File of flock's own program [default: the running program]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Goes back to a generation.
///
/// # Errors
///
/// Returns an error if there is no such generation, if something of it is not kept any more, if the person did not
/// agree, or if a step failed. The home is then as before, unless the text says otherwise.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.writable_home()?;
    let now = present(&home)?;
    let number = args.generation.unwrap_or(now.number.saturating_sub(1));
    let mut then = find(&home, number)?;
    let mut has_other_packages = false;
    // A home that was copied or moved since must not get the paths of the other place back. In its package stores, the numbers of
    // profiles stand for other packages.
    if then.home != home.root() {
        config::relocate::relocate(&mut then.state.config, &then.home, &home);
        let packages = std::mem::take(&mut then.state.packages);
        has_other_packages = packages.into_values().any(|profile| profile > 0);
    }
    let asked = Request { only: args.only.clone(), restore_backup: args.restore_backup };
    let kept = Kept::of(&home)?;
    let renames = plan::renames(&between(&home, &now, &then)?);
    let mut plan = RollbackPlan::new(&now, &then, &renames, &kept, &asked);
    let config = config::read(&home)?;
    add_notes(&home, &mut plan, &then, &config);
    if has_other_packages {
        let place = then.home.display();
        plan.notes.push(format!("the packages stay: generation {number} has those of the home at {place}"));
    }
    context.block_on(check_engine(&home, &config, &mut plan, number))?;
    if plan.program.is_some() && plan.refusal.is_none() {
        // Otherwise this would be found only after everything else was changed.
        update::check_program(args.program.as_deref())?;
    }
    if plan.is_empty() && plan.refusal.is_none() {
        let text = format!("everything is as in generation {number}");
        context.printer.result(&json!({"changed": false, "to": number, "dryRun": args.dry_run}), text);
        return Ok(Exit::Done);
    }
    show(&plan, &now, number, args.dry_run, context);
    if args.dry_run {
        return Ok(Exit::Done);
    }
    if let Some((text, hint)) = plan.refusal {
        return Err(Failure::new(Kind::Conflict, text).hint(hint));
    }
    if !context.yes() {
        let unasked = Failure::new(Kind::Usage, "going back must be confirmed");
        let unasked = unasked.hint(format!("flock rollback {number} --yes"));
        context.confirm(&format!("Go back to generation {number}?"), unasked, "nothing was changed")?;
    }
    let _lock = match pending_rollback::try_lock(&home) {
        Err(HomeError::Held { .. }) => {
            let text = "another rollback of this home is in progress";
            return Err(Failure::new(Kind::Conflict, text).hint("flock generations"));
        }
        lock => lock?,
    };
    // Somebody may have changed something while the person read.
    if present(&home)?.number != now.number {
        let text = "the home was changed meanwhile; nothing was done";
        return Err(Failure::new(Kind::Conflict, text).hint(format!("flock rollback {number}")));
    }
    let pending = PendingRollback {
        from: now.number,
        to: number,
        by: person::party().to_string(),
        begun_at: unix_ms(),
        back: false,
        config: None,
        packages: plan.packages.clone(),
        images: plan.images.clone(),
        openclaw: plan.openclaw.clone(),
        program: plan.program.clone(),
    };
    let program = args.program.as_deref();
    let made = Switch { home: &home, context, pending, plan: &plan, then: &then, program }.run()?;
    context.printer.if_json(&json!({
        "changed": true,
        "to": number,
        "generation": made,
        "changes": plan.changes(),
    }));
    context.printer.say(format!(
        "the home is as in generation {number} again; this is generation {made}, and to undo it: flock rollback {}",
        now.number
    ));
    Ok(Exit::Done)
}

/// Returns the newest generation, after everything that was changed by hand has become one.
fn present(home: &Home) -> Result<Generation, Failure> {
    // A broken configuration is reported with the way to mend it.
    config::read(home)?;
    let openclaw = versions::current(home).map(|version| version.name());
    Ok(generation::look(home, |state| state.openclaw = openclaw)?)
}

/// Returns the generations after the older one of two, the oldest first. Those that can't be read are left out.
fn between(home: &Home, now: &Generation, then: &Generation) -> Result<Vec<Generation>, Failure> {
    let newer = generation::log::all(home)?.into_iter().filter_map(Result::ok);
    Ok(newer
        .filter(|generation| generation.number > then.number && generation.number <= now.number)
        .collect())
}

/// Adds what a person has to know about agents and the database.
fn add_notes(home: &Home, plan: &mut RollbackPlan, then: &Generation, config: &Config) {
    for agent in &plan.returning {
        let workspace = workspace(then, agent).unwrap_or_else(|| home.workspace(agent));
        plan.notes.push(if workspace.exists() {
            format!("agent {agent} comes back with its workspace; its channels and grants do not come back")
        } else {
            format!("agent {agent} comes back, but its workspace {} is deleted", workspace.display())
        });
    }
    for id in &plan.leaving {
        let kept = config.agent(id).map_or_else(|| home.workspace(id), |agent| agent.workspace.clone());
        plan.notes.push(format!("agent {id} leaves the configuration; {} stays", kept.display()));
    }
    if let Some(backup) = &plan.backup {
        plan.notes.push(match lost_rows(home, backup) {
            Some(lost) => format!("the backup has less than the present database: {lost}"),
            None => "it can't be counted what the present database has and the backup has not".to_owned(),
        });
        plan.notes.push(format!("the present database is kept in {}", home.backups().display()));
    }
}

fn workspace(then: &Generation, agent: &crate::id::AgentId) -> Option<PathBuf> {
    let list = then.state.config.pointer("/agents/list")?.as_array()?;
    let entry =
        list.iter().find(|entry| entry.get("id").and_then(|id| id.as_str()) == Some(agent.as_str()))?;
    Some(PathBuf::from(entry.get("workspace")?.as_str()?))
}

/// Returns the rows that the present database has more than a backup, in words.
fn lost_rows(home: &Home, backup: &Path) -> Option<String> {
    let (now, then) = (row_counts::census(&home.database()).ok()?, row_counts::census(backup).ok()?);
    let count = |counts: &row_counts::RowCounts, table: &str| {
        counts.tables.iter().find(|found| found.name == table).and_then(|found| found.rows)
    };
    let lost = |(table, name): (&str, &str)| {
        let fewer = count(&now, table)?.saturating_sub(count(&then, table).unwrap_or(0));
        Some(format!("{fewer} {name}"))
    };
    let tables = [
        ("message", "messages"),
        ("session", "sessions"),
        ("turn", "turns"),
        ("task", "tasks"),
        ("audit", "rows of the audit"),
    ];
    Some(tables.into_iter().filter_map(lost).collect::<Vec<_>>().join(", "))
}

/// Checks what only the engine knows: the generations of profiles, and the images.
async fn check_engine(
    home: &Home,
    config: &Config,
    plan: &mut RollbackPlan,
    number: u64,
) -> Result<(), Failure> {
    if plan.packages.is_empty() && plan.images.is_empty() {
        return Ok(());
    }
    team::engine().await.map_err(|failure| {
        failure.or_hint(format!("start Docker, or: flock rollback {number} --only config,openclaw,program"))
    })?;
    let stores = team::stores(home, config);
    for switch in &plan.packages {
        let found = stores.engines().of_id(&switch.agent).await?;
        let (numbers, _) = stores.on(&found).numbers(&switch.agent).await?;
        if switch.to > 0 && !numbers.contains(&switch.to) {
            let text = format!("the packages that {} had then are removed from the store", switch.agent);
            let hint = format!("flock rollback {number} --only config,openclaw,program,images");
            plan.refusal.get_or_insert((text, hint));
        }
    }
    let engine = Engine::from_env();
    for switch in &plan.images {
        if image::id(&engine, &switch.to).await?.is_none() {
            let text = format!("the image that {} named then is removed from the engine", switch.name);
            let hint = format!("flock rollback {number} --only config,packages,openclaw,program");
            plan.refusal.get_or_insert((text, hint));
        }
    }
    Ok(())
}

fn show(plan: &RollbackPlan, now: &Generation, number: u64, dry_run: bool, context: &Context) {
    let printer = &context.printer;
    if printer.is_json() {
        if dry_run {
            printer.json(&json!({
                "dryRun": true,
                "from": now.number,
                "to": number,
                "changes": plan.changes(),
                "notes": plan.notes,
                "refusal": plan.refusal.as_ref().map(|(text, hint)| json!({"message": text, "hint": hint})),
            }));
        }
        return;
    }
    let line = |text: String| if dry_run { printer.line(text) } else { printer.say(text) };
    line(format!("from generation {} to generation {number}:", now.number));
    plan.changes().into_iter().for_each(|change| line(format!("  {change}")));
    plan.notes.iter().for_each(|note| line(format!("  note: {note}")));
    if let Some((text, hint)) = plan.refusal.as_ref().filter(|_| dry_run) {
        printer.line(StyledLine::new().plain(format!("  refused: {text}; ")).accent(hint.clone()));
    }
}
