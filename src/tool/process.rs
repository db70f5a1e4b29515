//! The tool `process`. It controls the background jobs that `exec` started.

use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::{Argument, Arguments, check_size};
use super::definition::ToolGroup;
use super::exec::{OUTPUT_LIMIT, ended, ready};
use super::function::FunctionTool;
use super::policy::LimitedInput;
use super::sandbox_failure::for_model;
use super::{CallContext, Tool, ToolDefinition, ToolError, ToolResult, safe_text};
use crate::sandbox::{BackgroundJob, JobReply, JobRequest, Sandbox};

/// Maximum bytes that a call can write to a job, because they are sent in one frame.
const MAX_DATA: usize = 256 * 1024;

/// Maximum bytes of a job's command in a listing.
const MAX_COMMAND_SHOWN: usize = 120;

/// Maximum number of jobs in a listing.
const MAX_LISTED: usize = 50;

pub(crate) static PROCESS: ToolDefinition = ToolDefinition {
    name: "process",
    description: "Control background commands of exec: list; poll (output since the last poll), log \
                  (kept output), write (data to stdin) or kill one.",
    properties: || {
        json!({
            "action": {"type": "string", "enum": ["list", "poll", "log", "write", "kill"]},
            "sessionId": {"type": "string", "description": "from exec"},
            "data": {"type": "string", "description": "for write"}
        })
    },
    required: &["action"],
    group: ToolGroup::Commands,
    changes: true,
    limited: Some(LimitedInput::Job),
    ..ToolDefinition::BUILT_IN
};

/// Returns the tool for a sandbox.
#[must_use]
pub fn tool(sandbox: &Arc<dyn Sandbox>) -> Arc<dyn Tool> {
    FunctionTool::shared(&PROCESS, sandbox, |sandbox, context, arguments| {
        Box::pin(run(&**sandbox, context, arguments))
    })
}

async fn run(sandbox: &dyn Sandbox, context: &CallContext, arguments: Arguments) -> ToolResult {
    let request = request(&arguments)?;
    ready(sandbox, context).await?;
    // Not cancelled half-way: data that was written to or read from a job, and a kill, cannot be undone and must be
    // reported.
    let reply = sandbox.jobs(&context.agent, request.clone()).await.map_err(for_model)?;
    Ok(reply_text(&request, &reply))
}

/// The id of a job. A model may write it as a number or as text.
struct JobId(u32);

impl Argument for JobId {
    const WHAT: &'static str = "the number that exec returned";

    fn take(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => text.trim().parse().ok().map(Self),
            // Also accepts a whole number with a decimal point, like other arguments.
            number => u64::take(number)?.try_into().ok().map(Self),
        }
    }
}

fn request(arguments: &Arguments) -> Result<JobRequest, ToolError> {
    let action: String = arguments.required("action")?;
    let job = || arguments.required::<JobId>("sessionId").map(|id| id.0);
    Ok(match action.as_str() {
        "list" => JobRequest::List,
        "poll" => JobRequest::Poll(job()?),
        "log" => JobRequest::Log(job()?),
        "kill" => JobRequest::Kill(job()?),
        "write" => {
            let data: String = arguments.required("data")?;
            check_size("data", data.len(), MAX_DATA, "")?;
            JobRequest::Write(job()?, data.into_bytes())
        }
        _ => return Err(ToolError::model("`action` must be list, poll, log, write or kill")),
    })
}

fn reply_text(request: &JobRequest, reply: &JobReply) -> String {
    match request {
        JobRequest::List => jobs_text(&reply.jobs),
        JobRequest::Poll(id) | JobRequest::Log(id) => {
            let state = reply.jobs.first().map_or_else(|| format!("session {id}"), state);
            match safe_text::output(&reply.output, OUTPUT_LIMIT) {
                text if text.is_empty() && matches!(request, JobRequest::Poll(_)) => {
                    format!("{state}\nno new output")
                }
                text if text.is_empty() => format!("{state}\nno output"),
                text => format!("{state}\n{text}"),
            }
        }
        JobRequest::Write(id, data) => format!("{} bytes written to session {id}", data.len()),
        JobRequest::Kill(id) => reply.jobs.first().map_or_else(|| format!("session {id} was killed"), state),
    }
}

fn jobs_text(jobs: &[BackgroundJob]) -> String {
    if jobs.is_empty() {
        return "there are no background sessions".to_owned();
    }
    // The newest jobs are the interesting ones.
    let hidden = jobs.len().saturating_sub(MAX_LISTED);
    let mut lines = Vec::new();
    if hidden > 0 {
        lines.push(format!("{hidden} older ones are not shown"));
    }
    for job in &jobs[hidden..] {
        lines.push(format!("{}: {}", state(job), shown(&job.command)));
    }
    lines.join("\n")
}

/// Returns the beginning of a command's first line. An ellipsis shows that this is not the whole command.
fn shown(command: &str) -> String {
    let line = safe_text::harmless(command.lines().next().unwrap_or_default());
    // A carriage return has become a line feed. What follows could look like the line of another job.
    let line = line.lines().next().unwrap_or_default();
    let short = safe_text::start(line, MAX_COMMAND_SHOWN);
    // The texts are compared and not their lengths: some characters become longer when they are made visible.
    let more = if short == command { "" } else { "…" };
    format!("{short}{more}")
}

fn state(job: &BackgroundJob) -> String {
    let how = job
        .end
        .map_or_else(|| format!("running for {:.0} s", job.took.as_secs_f64()), |end| ended(end, job.took));
    format!("session {}: {how}, {} bytes of output", job.id, job.total)
}

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
