//! `flock skill list` and `flock skill show`.

use serde_json::{Value, json};

use super::report;
use crate::clean;
use crate::cli::{Context, Exit, Failure};
use crate::config;
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, FolderName};
use crate::skill::inspection::{Inspection, inspect};
use crate::skill::record::RECORD_FILE;
use crate::skill::view::SkillView;
use crate::skill::{InstalledSkill, SkillState, installed};
use crate::tool::{policy, team};
use crate::ui::{StyledLine, Table, TextStyle};

/// Show a skill: what it contains, where it comes from, who can read it
///
/// With --file, prints one of its files with every character that nobody sees written as an escape.
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    /// Name of the skill
    skill: FolderName,
    /// File of the skill to print, as in SKILL.md
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
}

/// Lists all skills.
///
/// # Errors
///
/// Returns an error if there is no home.
pub(super) fn list(context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let skills = installed::all(&home);
    let agents = readers(&home);
    let mut table = Table::new(&["SKILL", "STATE", "SOURCE", "COMMIT", "DESCRIPTION"]);
    let mut rows = Vec::new();
    for skill in &skills {
        let found = contents(skill).unwrap_or_default();
        let source = skill.record.as_ref().map(|record| record.source.summary()).unwrap_or_default();
        let commit = skill.record.as_ref().and_then(|record| record.source.commit());
        table.styled_row(vec![
            (TextStyle::Accent, skill.name.to_string()),
            (style(&skill.state), skill.state.as_str().to_owned()),
            (TextStyle::Plain, source),
            (TextStyle::Dim, commit.map(|commit| commit.chars().take(12).collect()).unwrap_or_default()),
            (TextStyle::Plain, clean::summary(&found.description, 80)),
        ]);
        let mut row = view(skill, &agents);
        row["description"] = json!(found.description);
        rows.push(row);
    }
    context.printer.list(&json!({"skills": rows}), &table, "there are no skills");
    Ok(Exit::Done)
}

/// Shows one skill, or one file of it.
///
/// # Errors
///
/// Returns an error if there is no such skill or file, or if the file is no text.
pub(super) fn show(args: &ShowArgs, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    let skill = installed::find(&home, &args.skill)?;
    if let Some(path) = &args.file {
        return print_file(&skill, path, context);
    }
    let found = contents(&skill);
    let agents = readers(&home);
    if context.printer.is_json() {
        let mut value = view(&skill, &agents);
        value["contents"] = json!(found);
        context.printer.json(&value);
        return Ok(Exit::Done);
    }
    report::contents(&skill.name, &found.unwrap_or_default(), context);
    let state = StyledLine::new().with(TextStyle::Dim, "  state     ");
    let state = state.with(style(&skill.state), skill.state.as_str());
    let reason = skill.state.reason().map(|reason| format!(": {}", clean::inline(reason)));
    context.printer.line(state.plain(reason.unwrap_or_default()));
    if let Some(record) = &skill.record {
        report::origin(record, context);
        report::history(record, context);
    }
    let readers = agents.iter().map(AgentId::as_str).collect::<Vec<_>>().join(", ");
    let readers = if readers.is_empty() { "no agent".to_owned() } else { readers };
    let line = StyledLine::new().with(TextStyle::Dim, "  readers   ");
    context.printer.line(line.plain(readers));
    Ok(Exit::Done)
}

fn print_file(skill: &InstalledSkill, path: &str, context: &Context) -> Result<Exit, Failure> {
    let name = &skill.name;
    let hint = format!("flock skill show {name}");
    let missing = || Failure::new(Kind::Failed, format!("{name} has no file {path:?}")).hint(hint.clone());
    let content = skill.content.as_ref().ok_or_else(|| {
        let reason = skill.state.reason().unwrap_or("they can't be read");
        Failure::new(Kind::Failed, format!("the files of {name} can't be read: {reason}")).hint(hint.clone())
    })?;
    let file = content.files().get(path).ok_or_else(missing)?;
    let text = file.text().ok_or_else(|| {
        let bytes = file.bytes.len();
        Failure::new(Kind::Failed, format!("{path:?} of {name} is no text; it has {bytes} bytes"))
            .hint(hint.clone())
    })?;
    context.printer.if_json(&json!({"name": name, "file": path, "text": text}));
    if !context.printer.is_json() {
        // Carriage returns at the ends of lines are usual, and would be shown as escapes.
        let text = text.replace("\r\n", "\n");
        context.printer.line(text.trim_end_matches('\n'));
    }
    Ok(Exit::Done)
}

/// Returns what a skill contains, if its files can be read.
fn contents(skill: &InstalledSkill) -> Option<Inspection> {
    let mut found = inspect(skill.content.as_ref()?);
    // The record is flock's own.
    found.left_out.retain(|path| path != RECORD_FILE);
    Some(found)
}

/// Returns the agents that may read skills.
fn readers(home: &Home) -> Vec<AgentId> {
    config::read(home).map(|config| policy::agents_with(&config, team::READ_SKILL.name)).unwrap_or_default()
}

fn style(state: &SkillState) -> TextStyle {
    match state {
        SkillState::Own => TextStyle::Plain,
        SkillState::Intact => TextStyle::Good,
        SkillState::Changed { .. } | SkillState::Unknown { .. } => TextStyle::Warn,
    }
}

fn view(skill: &InstalledSkill, agents: &[AgentId]) -> Value {
    json!(SkillView::new(skill, agents))
}
