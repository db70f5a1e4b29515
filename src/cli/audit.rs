//! `flock audit`: shows who did what, and checks that the record is complete.

use serde_json::json;

use super::{Context, Exit, Failure};
use crate::cli::database;
use crate::clock;
use crate::error::Kind;
use crate::home::Home;
use crate::skill::{InstalledSkill, SkillState, installed};
use crate::store::{AuditFilter, AuditRow, AuditVerification, Level, MAX_AUDIT_ROWS};
use crate::ui::{StyledLine, Table, TextStyle};

/// Show the audit, or verify that it is intact
///
/// The audit records every decision and tool call. Each row has the hash of the row before it. --verify checks all
/// rows. If a row was changed, removed or inserted, it names the first such row and exits with code 1. It also names
/// imported skills that were changed since a person agreed to them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock audit --agent coder --limit 50
  flock audit --action channel.post
  flock audit --verify")]
pub(crate) struct Args {
    /// Verify the whole audit instead of showing rows
    #[arg(long, conflicts_with_all = ["agent", "level", "action", "limit"])]
    verify: bool,
    /// Show only actions of this actor: an agent's id, human:NAME or system
    #[arg(long, value_name = "WHO")]
    agent: Option<String>,
    /// Show only actions of this level: GREEN, YELLOW or RED
    #[arg(long)]
    level: Option<Level>,
    /// Show only this action, as in channel.post, or all actions of a kind, as in channel
    #[arg(long)]
    action: Option<String>,
    /// Number of rows to show, newest first, at most 100
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    limit: u32,
}

/// Prints the newest rows, or the result of checking the whole hash chain.
///
/// # Errors
///
/// Returns an error if there is no home, or if the database can't be read.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    if args.verify {
        return verify(&home, context);
    }
    let filter = AuditFilter {
        actor: args.agent.clone(),
        level: args.level,
        action: args.action.clone(),
        ..AuditFilter::default()
    };
    // A limit of zero would show nothing at all.
    let limit = args.limit.clamp(1, MAX_AUDIT_ROWS);
    let rows = database::read(&home, async |reader| reader.audit().rows(&filter, limit).await)?;
    let rows = rows.unwrap_or_default();
    context.printer.list(&json!({"rows": rows}), &table(&rows), "the audit has no matching rows");
    Ok(Exit::Done)
}

fn table(rows: &[AuditRow]) -> Table {
    let mut table = Table::new(&["ROW", "TIME", "WHO", "LEVEL", "ACTION", "SUBJECT", "DETAIL"]);
    for row in rows {
        // The level is a text from the database. A newer flock may have written one that is unknown here.
        let tone = match row.level.parse() {
            Ok(Level::Red) => TextStyle::Bad,
            Ok(Level::Yellow) => TextStyle::Warn,
            _ => TextStyle::Plain,
        };
        table.styled_row(vec![
            (TextStyle::Dim, row.id.to_string()),
            (TextStyle::Plain, clock::local(row.at)),
            (TextStyle::Accent, row.actor.clone()),
            (tone, row.level.clone()),
            (TextStyle::Plain, row.action.clone()),
            (TextStyle::Plain, row.subject.clone()),
            (TextStyle::Plain, row.detail.clone()),
        ]);
    }
    table
}

fn verify(home: &Home, context: &Context) -> Result<Exit, Failure> {
    let found = database::read(home, async |reader| reader.audit().verify().await)?;
    // A home without a database has an empty audit log, which is valid.
    let found = found.unwrap_or(AuditVerification { rows: 0, last: 0, broken: None });
    let is_whole = found.broken.is_none();
    let skills = installed::all(home);
    let is_changed = |skill: &&InstalledSkill| {
        matches!(skill.state, SkillState::Changed { .. } | SkillState::Unknown { .. })
    };
    let changed: Vec<&InstalledSkill> = skills.iter().filter(is_changed).collect();
    if context.printer.is_json() {
        context.printer.json(&json!({
            "valid": is_whole, "rows": found.rows, "last": found.last, "broken": found.broken,
            "changedSkills": changed.iter().map(|skill| &skill.name).collect::<Vec<_>>(),
        }));
    } else if let Some(broken) = &found.broken {
        let text = format!("the audit of {} is not whole: {broken}", home.root().display());
        context.printer.fail(&Failure::new(Kind::Failed, text).hint("flock audit --json"));
    } else {
        let line = StyledLine::new().with(TextStyle::Good, "whole").plain(format!(": {} rows", found.rows));
        context.printer.line(line);
    }
    if !context.printer.is_json() {
        for skill in changed {
            let name = &skill.name;
            context.printer.warn(&format!(
                "the skill {name} is not what was imported; `flock skill update {name}` shows the difference"
            ));
        }
    }
    Ok(if is_whole { Exit::Done } else { Exit::Failed(Kind::Failed) })
}
