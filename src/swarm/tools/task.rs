//! The tools `flock_message`, `flock_tasks`, `flock_task_respond` and `flock_history`.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::clean::summary;
use crate::id::AgentId;
use crate::store::{Task, TaskFilter, TaskState};
use crate::swarm::{Actor, Swarm, SwarmError};
use crate::tool::arguments::Arguments;
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns the tools of this module in the order in which they are offered.
#[must_use]
pub(crate) fn all(swarm: &Arc<Swarm>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::MESSAGE, swarm, |s, c, a| Box::pin(message(s, c, a))),
        FunctionTool::shared(&team::TASKS, swarm, |s, c, a| Box::pin(async move { tasks(s, c, &a).await })),
        FunctionTool::shared(&team::TASK_RESPOND, swarm, |s, c, a| Box::pin(respond(s, c, a))),
        FunctionTool::shared(&team::HISTORY, swarm, |s, c, a| {
            Box::pin(async move { history(s, c, &a).await })
        }),
    ]
}

/// Number of listed tasks by default, and the maximum.
const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;
/// Maximum number of characters of a summary in a list, and of an answer.
const MAX_SUMMARY: usize = 80;
const MAX_ANSWER: usize = 400;

async fn message(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let to = agent(&arguments.required::<String>("to")?)?;
    let text: String = arguments.required("message")?;
    // An object and nothing else, as the schema says. The recipient gets it as JSON text.
    let data = arguments.optional::<Map<String, Value>>("contextData")?.map(Value::Object);
    let project = arguments.optional::<String>("project")?.filter(|name| !name.trim().is_empty());
    let project = project.map(|name| name.trim().parse()).transpose()?;
    let by = Actor::call(context);
    let task = swarm.send_work(&by, &to, text.trim(), data.as_ref(), project).await?;
    Ok(format!(
        "task {} was sent to {to}. The answer will come to this session by itself: don't wait, don't ask again",
        task.id
    ))
}

async fn respond(swarm: &Arc<Swarm>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let id: String = arguments.required("taskId")?;
    let text: String = arguments.required("response")?;
    // Models sometimes copy the rest of a list's line together with the id.
    let id = id.split_whitespace().next().unwrap_or_default();
    let task = swarm.respond_task(&Actor::call(context), id, text.trim()).await?;
    Ok(if task.state == TaskState::InputRequired {
        format!(
            "{} was asked. End this turn: task {} continues in a new one when the reply comes",
            task.requester, task.id
        )
    } else {
        format!("task {} continues at {}", task.id, task.assignee())
    })
}

async fn tasks(swarm: &Arc<Swarm>, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let own = context.agent.clone();
    let mut filter = TaskFilter { state: state(arguments)?, ..TaskFilter::default() };
    match arguments.optional::<String>("direction")?.as_deref() {
        // The caller comes from the context, so an agent lists only its own tasks here.
        Some("sent") => filter.requester = Some(own.to_string()),
        Some("received") => filter.assignee = Some(own.clone()),
        // Models often send an empty string for a parameter that they do not use.
        None | Some("all" | "") => filter.party = Some(own.clone()),
        Some(_) => return Err(ToolError::model("`direction` must be sent, received or all")),
    }
    let found = swarm
        .store()
        .tasks()
        .list(&filter, arguments.limit(DEFAULT_LIMIT, MAX_LIMIT)?)
        .await
        .map_err(SwarmError::from)?;
    if found.is_empty() {
        return Ok("there are no such tasks".to_owned());
    }
    let mut lines = Vec::new();
    for task in &found {
        let is_sent = task.requester == own.as_str();
        let other =
            if is_sent { format!("to {}", task.assignee()) } else { format!("from {}", task.requester) };
        let mut line =
            format!("{} [{}] {other}: {}", task.id, task.state.as_str(), summary(&task.summary, MAX_SUMMARY));
        if task.state == TaskState::InputRequired {
            // The id comes first and the question follows, so that the model can reply without another call.
            let question = summary(task.question.as_deref().unwrap_or_default(), MAX_ANSWER);
            let _ = write!(line, "\n  asked: {question}");
        }
        if let Some(response) = &task.response {
            let _ = write!(line, "\n  answer: {}", summary(response, MAX_ANSWER));
        }
        lines.push(line);
    }
    Ok(lines.join("\n"))
}

async fn history(swarm: &Arc<Swarm>, _: &CallContext, arguments: &Arguments) -> ToolResult {
    // Without an id, the history of the whole team is listed.
    let party = arguments.optional::<String>("agentId")?.filter(|id| !id.trim().is_empty());
    let since = arguments.optional::<u64>("since")?;
    let filter = TaskFilter {
        party: party.as_deref().map(agent).transpose()?,
        state: state(arguments)?,
        since: since.map(|since| i64::try_from(since).unwrap_or(i64::MAX)),
        ..TaskFilter::default()
    };
    let found = swarm
        .store()
        .tasks()
        .list(&filter, arguments.limit(DEFAULT_LIMIT, MAX_LIMIT)?)
        .await
        .map_err(SwarmError::from)?;
    if found.is_empty() {
        return Ok("there are no such tasks".to_owned());
    }
    Ok(found.iter().map(past).collect::<Vec<_>>().join("\n"))
}

fn past(task: &Task) -> String {
    let took = match task.completed_at {
        // A clock that was set back could give a negative duration.
        Some(end) => format!("{} s", (end - task.created_at).max(0) / 1000),
        None => "open".to_owned(),
    };
    format!(
        "{} [{}] {} -> {} ({took}): {}",
        format_time(task.created_at),
        task.state.as_str(),
        task.requester,
        task.assignee(),
        summary(&task.summary, MAX_SUMMARY)
    )
}

fn format_time(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at)
        .map_or_else(|_| at.to_string(), |at| at.strftime("%F %H:%MZ").to_string())
}

fn state(arguments: &Arguments) -> Result<Option<TaskState>, ToolError> {
    let Some(word) = arguments.optional::<String>("state")?.filter(|word| !word.is_empty()) else {
        return Ok(None);
    };
    TaskState::named(&word).map(Some).ok_or_else(|| {
        let words: Vec<&str> = TaskState::ALL.iter().map(|state| state.as_str()).collect();
        ToolError::model(format!("`state` must be one of {}", words.join(", ")))
    })
}

fn agent(text: &str) -> Result<AgentId, ToolError> {
    let text = text.trim();
    // Models often include the `@` of a mention.
    Ok(text.strip_prefix('@').unwrap_or(text).parse()?)
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
