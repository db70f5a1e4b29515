//! `flock project submit|submissions|accept|refuse|withdraw|land`: work on its way to the tip and to the owner.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::{change, done, fetch, text};
use crate::clean;
use crate::cli::channel::backend;
use crate::cli::{Context, Exit, Failure, person};
use crate::clock;
use crate::error::Kind;
use crate::gateway::routes::projects::{LandRequest, NewWork, Verdict};
use crate::id::{AgentId, ProjectName};
use crate::ui::{Table, TextStyle};

/// Longest line about a finding, in characters.
const MAX_FINDING: usize = 4_096;

/// Submit an agent's branch: it is joined with the tip once its checks passed
#[derive(Debug, clap::Args)]
pub(super) struct SubmitArgs {
    /// Name of the project
    project: ProjectName,
    /// Agent whose branch it is
    agent: AgentId,
    /// The branch's name after "flock/AGENT/"
    #[arg(long, default_value = "work")]
    branch: String,
    /// One line about the change [default: the subject of its last commit]
    #[arg(long)]
    title: Option<String>,
}

/// List what was submitted, newest first
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Name of the project
    project: ProjectName,
    /// Show only what is on its way
    #[arg(long)]
    open: bool,
    /// Show one submission whole, with the log of its checks
    #[arg(long, value_name = "NUMBER")]
    show: Option<i64>,
}

/// Accept a submission that waits for a person
#[derive(Debug, clap::Args)]
pub(super) struct AcceptArgs {
    /// Name of the project
    project: ProjectName,
    /// Number of the submission
    number: i64,
}

/// Send a submission back to its author
#[derive(Debug, clap::Args)]
pub(super) struct RefuseArgs {
    /// Name of the project
    project: ProjectName,
    /// Number of the submission
    number: i64,
    /// Changes that are needed
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

/// Take a submission out of the queue
#[derive(Debug, clap::Args)]
pub(super) struct WithdrawArgs {
    /// Name of the project
    project: ProjectName,
    /// Number of the submission
    number: i64,
}

/// Hand the project's tip to your repository, as a branch, a patch or a pull request
///
/// Your own branch is never moved. The branch is a new one, or one that was landed before and has not been changed since.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  flock project land lib
  flock project land lib --branch flock-result
  flock project land lib --patch lib.patch
  flock project land lib --pull-request")]
pub(super) struct LandArgs {
    /// Name of the project
    project: ProjectName,
    /// Branch to make in your repository [default: flock/PROJECT]
    #[arg(long)]
    branch: Option<String>,
    /// Write a patch for "git am" instead
    #[arg(long, value_name = "FILE", conflicts_with = "branch")]
    patch: Option<PathBuf>,
    /// Push the branch to the repository that the project was added with, and open a pull request with gh
    #[arg(long, conflicts_with = "patch")]
    pull_request: bool,
}

pub(super) fn submit(wanted: &SubmitArgs, context: &Context) -> Result<Exit, Failure> {
    let new = NewWork {
        agent: wanted.agent.clone(),
        branch: wanted.branch.clone(),
        title: wanted.title.clone(),
        by: Some(person::name()),
    };
    let call = super::Call::post(&format!("/api/projects/{}/submissions", wanted.project)).json(&new)?;
    let answer = change(context, call)?;
    let (number, title) = (&answer["id"], text(&answer["title"]));
    done(context, &answer, &format!("submission {number} is queued: {title}"))
}

pub(super) fn list(wanted: &ListArgs, context: &Context) -> Result<Exit, Failure> {
    if let Some(number) = wanted.show {
        return show(&wanted.project, number, context);
    }
    let query = json!({"open": wanted.open.then_some("1")});
    let answer =
        fetch(context, &backend::path(&format!("/api/projects/{}/submissions", wanted.project), &query))?;
    let mut table = Table::new(&["NUMBER", "STATE", "AGENT", "SINCE", "WHAT"]);
    for submission in answer["submissions"].as_array().into_iter().flatten() {
        table.styled_row(vec![
            (TextStyle::Plain, submission["id"].to_string()),
            (state_style(text(&submission["state"])), state(submission)),
            (TextStyle::Accent, text(&submission["agent"]).to_owned()),
            (TextStyle::Dim, clock::local(submission["updatedAt"].as_i64().unwrap_or_default())),
            (TextStyle::Plain, text(&submission["title"]).to_owned()),
        ]);
    }
    context.printer.list(&answer, &table, "Nothing was submitted.");
    Ok(Exit::Done)
}

fn show(project: &ProjectName, number: i64, context: &Context) -> Result<Exit, Failure> {
    let answer = fetch(context, &format!("/api/projects/{project}/submissions/{number}"))?;
    if context.printer.is_json() {
        context.printer.json(&answer);
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&["SUBMISSION", ""]);
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            table.row([name.to_owned(), value]);
        }
    };
    row("number", answer["id"].to_string());
    row("title", text(&answer["title"]).to_owned());
    row("agent", text(&answer["agent"]).to_owned());
    row("branch", text(&answer["branch"]).to_owned());
    row("commit", text(&answer["commit"]).to_owned());
    row("task", text(&answer["task"]).to_owned());
    row("state", state(&answer));
    row("joined with", text(&answer["base"]).to_owned());
    row("receipt", text(&answer["receipt"]).to_owned());
    row("reviewer", text(&answer["reviewer"]).to_owned());
    row("accepted by", text(&answer["acceptedBy"]).to_owned());
    for reason in answer["reasons"].as_array().into_iter().flatten() {
        row("needs a person", text(reason).to_owned());
    }
    for finding in answer["findings"].as_array().into_iter().flatten() {
        row(if finding["blocking"] == true { "blocking" } else { "advice" }, finding_line(finding));
    }
    context.printer.table(&table);
    let detail = text(&answer["detail"]);
    if !detail.is_empty() {
        context.printer.line(String::new());
        for line in detail.lines() {
            context.printer.line(line.to_owned());
        }
    }
    Ok(Exit::Done)
}

fn finding_line(finding: &Value) -> String {
    let place = match (finding["path"].as_str(), finding["line"].as_u64()) {
        (Some(path), Some(line)) => format!("{path}:{line}: "),
        (Some(path), None) => format!("{path}: "),
        (None, _) => String::new(),
    };
    let answer = finding["answer"].as_str().map(|answer| format!(" (answer: {answer})"));
    let said = format!("{}{}", text(&finding["text"]), answer.unwrap_or_default());
    format!("{}: {place}{}", finding["id"], clean::summary(&said, MAX_FINDING))
}

pub(super) fn accept(wanted: &AcceptArgs, context: &Context) -> Result<Exit, Failure> {
    let verdict = Verdict { reason: None, by: Some(person::name()) };
    let answer = decide(&wanted.project, wanted.number, "accept", &verdict, context)?;
    done(context, &answer, &format!("submission {} is accepted", wanted.number))
}

pub(super) fn refuse(wanted: &RefuseArgs, context: &Context) -> Result<Exit, Failure> {
    let verdict = Verdict { reason: Some(wanted.reason.clone()), by: Some(person::name()) };
    let answer = decide(&wanted.project, wanted.number, "refuse", &verdict, context)?;
    done(context, &answer, &format!("submission {} went back to its author", wanted.number))
}

pub(super) fn withdraw(wanted: &WithdrawArgs, context: &Context) -> Result<Exit, Failure> {
    let verdict = Verdict { reason: None, by: Some(person::name()) };
    let answer = decide(&wanted.project, wanted.number, "withdraw", &verdict, context)?;
    done(context, &answer, &format!("submission {} is withdrawn", wanted.number))
}

fn decide(
    project: &ProjectName,
    number: i64,
    action: &str,
    verdict: &Verdict,
    context: &Context,
) -> Result<Value, Failure> {
    let path = format!("/api/projects/{project}/submissions/{number}/{action}");
    change(context, super::Call::post(&path).json(verdict)?)
}

pub(super) fn land(wanted: &LandArgs, context: &Context) -> Result<Exit, Failure> {
    let request = LandRequest {
        branch: wanted.branch.clone(),
        as_patch: wanted.patch.is_some(),
        pull_request: wanted.pull_request,
        by: Some(person::name()),
    };
    let call = super::Call::post(&format!("/api/projects/{}/land", wanted.project)).json(&request)?;
    let mut answer = change(context, call)?;
    let Some(file) = &wanted.patch else {
        let text = text(&answer["message"]).to_owned();
        return done(context, &answer, &text);
    };
    let patch = text(&answer["patch"]).to_owned();
    if patch.is_empty() {
        let text = format!("{} has nothing that your branch lacks", wanted.project);
        return Err(Failure::new(Kind::Failed, text).hint(format!("flock project log {}", wanted.project)));
    }
    fs_err::write(file, patch).map_err(|error| Failure::with_cause("the patch can't be written", &error))?;
    answer["patch"] = json!(file);
    done(context, &answer, &format!("the patch is in {}: git am {0}", file.display()))
}

/// Returns the state of a submission, with what it waits for.
pub(super) fn state(submission: &Value) -> String {
    let state = text(&submission["state"]);
    match submission["waitsFor"].as_str() {
        Some(who) => format!("{state} (waits for {who})"),
        None => state.to_owned(),
    }
}

/// Returns the style in which the state of a submission is shown.
pub(super) fn state_style(state: &str) -> TextStyle {
    match state {
        "merged" => TextStyle::Good,
        "refused" | "conflict" => TextStyle::Bad,
        "review" => TextStyle::Warn,
        "withdrawn" => TextStyle::Dim,
        _ => TextStyle::Plain,
    }
}
