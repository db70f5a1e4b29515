//! `flock tasks`: lists the tasks that agents and clients gave to agents, with their results, and stops one.

use std::time::Duration;

use serde_json::{Value, json};

use super::reconnect::{Reconnector, Repeat};
use super::{Context, Exit, Failure, team};
use crate::cli::database;
use crate::error::Kind;
use crate::gateway::routes::tasks::describe;
use crate::id::AgentId;
use crate::store::{Task, TaskFilter, TaskState};
use crate::supervise::gateway_client::{Call, Client};
use crate::ui::{Table, TextStyle};

/// List the tasks that agents were given, with their states
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show only tasks that this agent gave or was given
    #[arg(long, value_name = "ID")]
    agent: Option<AgentId>,
    /// Show only tasks in this state
    #[arg(long, value_name = "STATE", value_parser = states())]
    state: Option<TaskState>,
    /// Number of tasks to show, newest first
    #[arg(long, value_name = "NUMBER", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Cancel this task, and stop the turn that works on it
    #[arg(long, value_name = "TASK", conflicts_with_all = ["agent", "state", "limit"])]
    cancel: Option<String>,
}

fn states() -> impl clap::builder::TypedValueParser<Value = TaskState> {
    use clap::builder::TypedValueParser as _;
    let words = TaskState::ALL.map(TaskState::as_str);
    clap::builder::PossibleValuesParser::new(words)
        .try_map(|word| TaskState::named(&word).ok_or("no state of a task"))
}

/// Time that stopping a task may take.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(20);

/// Largest answer of the gateway in bytes.
const MAX_ANSWER: usize = 64 * 1024;

/// Prints the tasks, or stops one.
///
/// # Errors
///
/// Returns an error if there is no home or its database can't be read, and for stopping a task if the gateway does not
/// run or refuses.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit, Failure> {
    if let Some(id) = &args.cancel {
        return cancel(id, context);
    }
    let home = context.home()?;
    let filter = TaskFilter { party: args.agent.clone(), state: args.state, ..TaskFilter::default() };
    let found = database::read(&home, async |reader| {
        let mut shown = Vec::new();
        for task in reader.tasks().list(&filter, args.limit).await? {
            let described = describe(&reader, &task).await?;
            shown.push((task, described));
        }
        Ok(shown)
    })?;
    // A home without a database has no tasks.
    let found = found.unwrap_or_default();
    let tasks: Vec<&Value> = found.iter().map(|(_, described)| described).collect();
    let mut table = Table::new(&["TASK", "STATE", "FROM", "TO", "WORK", "WHAT"]);
    found.iter().for_each(|(task, described)| table.styled_row(row(task, described)));
    context.printer.list(&json!({"tasks": tasks}), &table, "There are no such tasks.");
    Ok(Exit::Done)
}

fn row(task: &Task, described: &Value) -> Vec<(TextStyle, String)> {
    let tone = match task.state {
        TaskState::Completed => TextStyle::Good,
        TaskState::Submitted | TaskState::Working | TaskState::Canceled => TextStyle::Plain,
        TaskState::InputRequired | TaskState::Failed | TaskState::Rejected => TextStyle::Warn,
    };
    // The summary is cut for the table. `--json` has all of it.
    let what: String = task.summary.chars().take(60).collect();
    let work = &described["work"];
    let work = match (work["branch"].as_str(), work["state"].as_str(), &task.project) {
        (Some(branch), Some(state), _) => format!("{branch} {state}"),
        (_, _, Some(project)) => format!("for {project}"),
        _ => String::new(),
    };
    vec![
        (TextStyle::Plain, task.id.clone()),
        (tone, task.state.as_str().to_owned()),
        (TextStyle::Plain, task.requester.clone()),
        (TextStyle::Accent, task.assignee().to_string()),
        (TextStyle::Plain, work),
        (TextStyle::Plain, what),
    ]
}

fn cancel(id: &str, context: &Context) -> Result<Exit, Failure> {
    let home = context.home()?;
    // The id becomes part of a URL path, so only the characters of an id are let through.
    if id.is_empty() || !id.chars().all(|c| c.is_ascii_hexdigit() || c == '-') {
        return Err(Failure::new(Kind::Usage, format!("{id:?} is not a task id")).hint("flock tasks"));
    }
    let stopped = context.block_on(async {
        let reconnector = Reconnector::new(&home, context);
        // Only the gateway can stop the turn that works on the task.
        let gateway = reconnector.gateway().await?.ok_or_else(team::not_running)?;
        let path = format!("/api/tasks/{id}/cancel");
        let ask = async |to: &Client| {
            to.ask(Call::post(&path), CANCEL_TIMEOUT).await?.bytes(MAX_ANSWER, CANCEL_TIMEOUT).await
        };
        // A repeated request would fail, because the task is then already stopped.
        reconnector.ask(&gateway, Repeat::Unsent, ask).await
    })?;
    let task: Value = serde_json::from_slice(&stopped).unwrap_or_default();
    context.printer.if_json(&json!({"task": task}));
    context.printer.say(format!("Stopped task {id}."));
    Ok(Exit::Done)
}
