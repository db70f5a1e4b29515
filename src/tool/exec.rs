//! The tool `exec`. It runs a command in the agent's sandbox, to its end or as a background job.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::arguments::{Arguments, check_size};
use super::definition::ToolGroup;
use super::function::FunctionTool;
use super::policy::LimitedInput;
use super::sandbox_failure::for_model;
use super::{CallContext, Tool, ToolDefinition, ToolError, ToolResult, safe_text};
use crate::sandbox::{Command, CommandExit, CommandOutcome, Sandbox, SandboxError};
use crate::telemetry::{self, OpenSpan, SpanKind, bounded, gen_ai};

/// Time limit of a command if the call names none.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// Longest time limit that a call can ask for.
pub(crate) const MAX_TIMEOUT: Duration = Duration::from_secs(3600);

/// Maximum bytes of a command's output that a model receives.
pub(crate) const OUTPUT_LIMIT: usize = 30 * 1024;

/// Maximum bytes of a command. The kernel accepts no longer single argument of a program.
const MAX_COMMAND: usize = 128 * 1024 - 1;

/// Maximum bytes of all environment names and values together.
const MAX_ENV: usize = 64 * 1024;

pub(crate) static EXEC: ToolDefinition = ToolDefinition {
    name: "exec",
    description: "Run a shell command (sh -c) in your sandbox. Returns exit code, stdout and stderr; long output keeps \
                  head and tail. No terminal. For long or endless work use background, then process.",
    properties: || {
        json!({
            "command": {"type": "string"},
            "workdir": {"type": "string", "description": "below /workspace (default)"},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "timeout": {"type": "integer", "description": "seconds, default 120, at most 3600"},
            "background": {"type": "boolean", "description": "return at once with a sessionId"}
        })
    },
    required: &["command"],
    group: ToolGroup::Commands,
    changes: true,
    limited: Some(LimitedInput::Command),
    reaches_out: true,
    ..ToolDefinition::BUILT_IN
};

/// Returns the tool for a sandbox.
#[must_use]
pub fn tool(sandbox: &Arc<dyn Sandbox>) -> Arc<dyn Tool> {
    FunctionTool::shared(&EXEC, sandbox, |sandbox, context, arguments| {
        Box::pin(run(&**sandbox, context, arguments))
    })
}

async fn run(sandbox: &dyn Sandbox, context: &CallContext, arguments: Arguments) -> ToolResult {
    let background = arguments.optional("background")?.unwrap_or(false);
    let command = command(&arguments, background)?;
    if background {
        ready(sandbox, context).await?;
        let mut span = begin(&command, context);
        // Not cancelled half-way: the job would run, and nobody would know its id.
        let job = sandbox.spawn(&context.agent, command).await;
        if let Some(span) = &mut span {
            span.set("flock.command.background", true);
            if job.is_err() {
                span.fail("sandbox_failed", String::new);
            }
        }
        span.into_iter().for_each(OpenSpan::end);
        let id = job.map_err(for_model)?.id;
        return Ok(format!(
            "running in the background, sessionId {id}; read its output with process \
             {{\"action\":\"poll\",\"sessionId\":\"{id}\"}}"
        ));
    }
    let span = begin(&command, context);
    // `run` ends the command itself when the turn is stopped.
    let outcome = sandbox.run(&context.agent, command, &context.cancel).await;
    end(span, &outcome);
    Ok(outcome_text(&outcome.map_err(for_model)?))
}

/// Begins the span of a command in a sandbox, if telemetry is on.
fn begin(command: &Command, context: &CallContext) -> Option<OpenSpan> {
    let mut span = telemetry::begin(SpanKind::Internal, || "sandbox exec".to_owned())?;
    span.set(gen_ai::AGENT_NAME, context.agent.to_string());
    span.content("process.command_line", || bounded(&command.command));
    Some(span)
}

/// Ends the span of a command with its outcome.
fn end(span: Option<OpenSpan>, outcome: &Result<CommandOutcome, SandboxError>) {
    let Some(mut span) = span else { return };
    match outcome.as_ref().map(|outcome| outcome.end) {
        Ok(CommandExit::Exited(code)) => {
            span.set("process.exit.code", i64::from(code));
            if code != 0 {
                span.fail("exit_code", || format!("exit code {code}"));
            }
        }
        Ok(CommandExit::Signalled(signal)) => {
            span.set("flock.command.signal", i64::from(signal));
            span.fail("signal", || format!("ended by signal {signal}"));
        }
        Ok(CommandExit::TimedOut) => span.fail("timeout", String::new),
        Ok(CommandExit::Cancelled) => span.fail("cancelled", String::new),
        Err(error) => span.fail("sandbox_failed", || error.to_string()),
    }
    span.end();
}

/// Waits for the sandbox. It may have to be created first, which takes longer than a stop of the turn may wait, so this
/// can be cancelled: nothing has been done yet that the model would have to know.
pub(super) async fn ready(sandbox: &dyn Sandbox, context: &CallContext) -> Result<(), ToolError> {
    // The stop is checked first, so that a stopped turn starts nothing even if the sandbox is ready.
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(ToolError::model("stopped")),
        made = sandbox.ensure(&context.agent) => made.map_err(for_model),
    }
}

fn command(arguments: &Arguments, background: bool) -> Result<Command, ToolError> {
    let command: String = arguments.required_with_alias("command", "cmd")?;
    if command.trim().is_empty() {
        return Err(ToolError::model("`command` is empty"));
    }
    if command.contains('\0') {
        return Err(ToolError::model("`command` contains a NUL character"));
    }
    check_size("command", command.len(), MAX_COMMAND, ": write a file and run that")?;
    let limit = MAX_TIMEOUT.as_secs();
    let timeout = match arguments.optional::<u64>("timeout")? {
        Some(seconds) if seconds == 0 || seconds > limit => {
            return Err(ToolError::model(format!(
                "`timeout` must be 1 to {limit} seconds; run longer commands in the background"
            )));
        }
        // A background job has no time limit unless the call names one.
        Some(seconds) => Some(Duration::from_secs(seconds)),
        None if background => None,
        None => Some(DEFAULT_TIMEOUT),
    };
    Ok(Command {
        command,
        workdir: arguments.optional::<String>("workdir")?.map(|dir| workdir(&dir)).transpose()?,
        env: parse_env(arguments.optional("env")?.unwrap_or_default())?,
        timeout,
        keep: OUTPUT_LIMIT,
    })
}

/// Returns the folder as an absolute path below `/workspace`. Only the text is checked: inside the sandbox, a link out
/// of the workspace leads only to places that the command can reach anyway.
fn workdir(text: &str) -> Result<String, ToolError> {
    let refused = || ToolError::model("`workdir` must be a folder below /workspace");
    // 4096 bytes are the kernel's limit for a path.
    if text.contains('\0') || text.len() > 4096 {
        return Err(refused());
    }
    let below = match text.strip_prefix('/') {
        None => text,
        Some(absolute) => match absolute.strip_prefix("workspace") {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
            _ => return Err(refused()),
        },
    };
    let parts: Vec<&str> = below.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.contains(&"..") {
        return Err(refused());
    }
    Ok(parts.iter().fold("/workspace".to_owned(), |path, part| path + "/" + part))
}

fn parse_env(env: BTreeMap<String, String>) -> Result<Vec<(String, String)>, ToolError> {
    let mut size = 0;
    for (name, value) in &env {
        let first = |c: char| c.is_ascii_alphabetic() || c == '_';
        if !name.starts_with(first) || !name.chars().all(|c| first(c) || c.is_ascii_digit()) {
            return Err(ToolError::model(
                "`env`: a name has letters, digits and _, and does not begin with a digit",
            ));
        }
        if value.contains('\0') {
            return Err(ToolError::model(format!(
                "`env`: the value of {} contains a NUL character",
                safe_text::start(name, 80)
            )));
        }
        // Each variable also needs a `=` and a NUL byte.
        size += name.len() + value.len() + 2;
    }
    check_size("env", size, MAX_ENV, "")?;
    Ok(env.into_iter().collect())
}

fn outcome_text(outcome: &CommandOutcome) -> String {
    let text = safe_text::output(&outcome.output, OUTPUT_LIMIT);
    let ended = ended(outcome.end, outcome.took);
    if text.is_empty() {
        return format!("{ended}, no output");
    }
    format!("{ended}\n{text}")
}

/// Describes the end of a command for the model.
pub(super) fn ended(end: CommandExit, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match end {
        CommandExit::Exited(code) => format!("exit code {code}, {seconds:.1} s"),
        CommandExit::Signalled(signal) => {
            format!("ended by signal {signal}{}, {seconds:.1} s", signal_name(signal))
        }
        CommandExit::TimedOut => {
            format!("timed out after {seconds:.0} s and was killed with all its processes")
        }
        CommandExit::Cancelled => "stopped, and killed with all its processes".to_owned(),
    }
}

fn signal_name(signal: i32) -> String {
    nix::sys::signal::Signal::try_from(signal).map_or_else(|_| String::new(), |name| format!(" ({name})"))
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
