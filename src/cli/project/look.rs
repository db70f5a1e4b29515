//! `flock project list|show|diff|log`: what there is.

use serde_json::{Value, json};

use super::{diff_text, fetch, queue, text};
use crate::cli::channel::backend;
use crate::cli::{Context, Exit, Failure};
use crate::clock;
use crate::id::{AgentId, ProjectName};
use crate::project::short;
use crate::ui::{Table, TextStyle};

/// Show what an agent changed, in colour and by file
#[derive(Debug, clap::Args)]
pub(super) struct DiffArgs {
    /// Name of the project
    project: ProjectName,
    /// Agent whose branch it is [default: the tip, against your branch]
    agent: Option<AgentId>,
    /// The branch's name after "flock/AGENT/"
    #[arg(long, default_value = "work")]
    branch: String,
    /// Show only the names and sizes of the changes
    #[arg(long)]
    stat: bool,
}

/// Show the commits of the tip, newest first
#[derive(Debug, clap::Args)]
pub(super) struct LogArgs {
    /// Name of the project
    project: ProjectName,
    /// Number of commits to show
    #[arg(long, value_name = "NUMBER", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=500))]
    limit: u32,
}

pub(super) fn list(context: &Context) -> Result<Exit, Failure> {
    let answer = fetch(context, "/api/projects")?;
    let mut table = Table::new(&["PROJECT", "TIP", "AGENTS", "ON ITS WAY", "REPOSITORY"]);
    for project in items(&answer["projects"]) {
        let agents: Vec<&str> = items(&project["agents"]).map(text).collect();
        let open = items(&project["submissions"]).count();
        let tip = match project["error"].as_str() {
            Some(error) => (TextStyle::Bad, error.to_owned()),
            None => (TextStyle::Plain, short(text(&project["tip"]["commit"])).to_owned()),
        };
        table.styled_row(vec![
            (TextStyle::Accent, text(&project["name"]).to_owned()),
            tip,
            (TextStyle::Plain, agents.join(" ")),
            (TextStyle::Plain, if open == 0 { String::new() } else { open.to_string() }),
            (TextStyle::Dim, text(&project["repo"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, "There are no projects; see flock project add --help.");
    Ok(Exit::Done)
}

pub(super) fn show(project: &ProjectName, context: &Context) -> Result<Exit, Failure> {
    let answer = fetch(context, &format!("/api/projects/{project}"))?;
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(Exit::Done);
    }
    context.printer.table(&facts(&answer));
    section(context, &branches(&answer));
    section(context, &submissions(&answer));
    section(context, &claims(&answer));
    if let Some(error) = answer["error"].as_str() {
        context.printer.warn(error);
    }
    Ok(Exit::Done)
}

fn section(context: &Context, table: &Table) {
    if !table.is_empty() {
        context.printer.line(String::new());
        context.printer.table(table);
    }
}

fn facts(project: &Value) -> Table {
    let mut table = Table::new(&["PROJECT", ""]);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            table.row([name.to_owned(), value]);
        }
    };
    row("name", text(&project["name"]).to_owned());
    row("repository", format!("{}, branch {}", text(&project["repo"]), text(&project["branch"])));
    row("tip", commit_line(&project["tip"]));
    row("yours", commit_line(&project["owner"]));
    row("setup", text(&project["setup"]).to_owned());
    for check in items(&project["checks"]) {
        row("check", text(check).to_owned());
    }
    for file in items(&project["files"]) {
        row("needs", text(file).to_owned());
    }
    row("review", text(&project["review"]).to_owned());
    let agents: Vec<&str> = items(&project["agents"]).map(text).collect();
    row("agents", agents.join(" "));
    table
}

fn branches(project: &Value) -> Table {
    let mut table = Table::new(&["BRANCH", "COMMIT", "AHEAD", "BEHIND", "WHEN", "SUBJECT"]);
    for branch in items(&project["branches"]) {
        table.styled_row(vec![
            (TextStyle::Accent, text(&branch["name"]).to_owned()),
            (TextStyle::Plain, short(text(&branch["commit"])).to_owned()),
            (TextStyle::Plain, branch["ahead"].to_string()),
            (TextStyle::Plain, branch["behind"].to_string()),
            (TextStyle::Dim, clock::local(branch["time"].as_i64().unwrap_or_default())),
            (TextStyle::Plain, text(&branch["subject"]).to_owned()),
        ]);
    }
    table
}

fn submissions(project: &Value) -> Table {
    let mut table = Table::new(&["SUBMISSION", "STATE", "AGENT", "WHAT"]);
    for submission in items(&project["submissions"]) {
        table.styled_row(vec![
            (TextStyle::Plain, submission["id"].to_string()),
            (queue::state_style(text(&submission["state"])), queue::state(submission)),
            (TextStyle::Accent, text(&submission["agent"]).to_owned()),
            (TextStyle::Plain, text(&submission["title"]).to_owned()),
        ]);
    }
    table
}

fn claims(project: &Value) -> Table {
    let mut table = Table::new(&["CLAIMED", "BY", "UNTIL"]);
    for claim in items(&project["claims"]) {
        table.styled_row(vec![
            (TextStyle::Plain, text(&claim["path"]).to_owned()),
            (TextStyle::Accent, text(&claim["agent"]).to_owned()),
            (TextStyle::Dim, clock::local(claim["expiresAt"].as_i64().unwrap_or_default())),
        ]);
    }
    table
}

fn commit_line(commit: &Value) -> String {
    match commit["commit"].as_str() {
        Some(id) => format!("{} {}", short(id), text(&commit["subject"])),
        None => String::new(),
    }
}

pub(super) fn diff(wanted: &DiffArgs, context: &Context) -> Result<Exit, Failure> {
    let branch = wanted.agent.as_ref().map(|_| &wanted.branch);
    let query = json!({"agent": wanted.agent, "branch": branch});
    let answer = fetch(context, &backend::path(&format!("/api/projects/{}/diff", wanted.project), &query))?;
    if context.printer.is_json() {
        context.printer.json(&answer);
    } else {
        diff_text::print(&answer, wanted.stat, context);
    }
    Ok(Exit::Done)
}

pub(super) fn log(wanted: &LogArgs, context: &Context) -> Result<Exit, Failure> {
    let path = format!("/api/projects/{}/log?limit={}", wanted.project, wanted.limit);
    let answer = fetch(context, &path)?;
    let mut table = Table::new(&["COMMIT", "WHEN", "AUTHOR", "SUBJECT"]);
    for commit in items(&answer["commits"]) {
        table.styled_row(vec![
            (TextStyle::Accent, short(text(&commit["commit"])).to_owned()),
            (TextStyle::Dim, clock::local(commit["time"].as_i64().unwrap_or_default())),
            (TextStyle::Plain, text(&commit["author"]).to_owned()),
            (TextStyle::Plain, text(&commit["subject"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, "There are no commits.");
    Ok(Exit::Done)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
