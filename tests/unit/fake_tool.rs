//! Fakes for the tests of the tools.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{CallContext, Tool, ToolError};
use crate::id::{AgentId, TurnId};
use crate::provider::{BoxFuture, message};
use crate::sandbox::{
    BackgroundJob, Command, CommandExit, CommandOutcome, JobReply, JobRequest, Output, Sandbox, SandboxError,
};

/// Returns the context of a call by the agent `coder` from its session `agent:coder:flock:main:me`.
pub fn context() -> CallContext {
    CallContext {
        agent: "coder".parse().unwrap(),
        session: "agent:coder:flock:main:me".parse().unwrap(),
        turn: TurnId::new(),
        cancel: CancellationToken::new(),
        progress: None,
    }
}

/// Calls a tool and returns its text, or its error for the model.
pub async fn call(tool: &dyn Tool, arguments: Value) -> Result<String, String> {
    call_in(&context(), tool, arguments).await
}

/// Calls a tool in this context. See [`call`].
pub(crate) async fn call_in(
    context: &CallContext,
    tool: &dyn Tool,
    arguments: Value,
) -> Result<String, String> {
    match tool.call(context, &arguments).await {
        Ok(output) => Ok(message::joined_text(&output.content)),
        Err(ToolError::ForModel(reason)) => Err(reason),
        Err(ToolError::Fatal(error)) => panic!("fatal: {error}"),
    }
}

/// A sandbox that returns prepared answers and records its requests.
#[derive(Default)]
pub(crate) struct FakeSandbox {
    pub ran: Mutex<Vec<Command>>,
    pub asked: Mutex<Vec<JobRequest>>,
    pub outcome: Mutex<Option<Result<CommandOutcome, SandboxError>>>,
    pub reply: Mutex<Option<Result<JobReply, SandboxError>>>,
    /// Cancelled in the middle of the next start of a job or the next request about jobs.
    pub stop: CancellationToken,
}

impl FakeSandbox {
    pub fn ending(end: CommandExit, head: &[u8], tail: &[u8], total: u64) -> Self {
        let output = Output { head: head.to_vec(), tail: tail.to_vec(), total };
        let outcome = CommandOutcome { end, output, took: Duration::from_millis(1500) };
        Self { outcome: Mutex::new(Some(Ok(outcome))), ..Self::default() }
    }

    pub(crate) fn failing(error: SandboxError) -> Self {
        Self { outcome: Mutex::new(Some(Err(error))), ..Self::default() }
    }

    pub(crate) fn with_reply(jobs: Vec<BackgroundJob>, output: &[u8]) -> Self {
        let output = Output { head: output.to_vec(), tail: Vec::new(), total: output.len() as u64 };
        Self { reply: Mutex::new(Some(Ok(JobReply { jobs, output }))), ..Self::default() }
    }
}

pub fn job(id: u32, end: Option<CommandExit>) -> BackgroundJob {
    BackgroundJob { id, command: format!("sleep {id}\nmore"), end, total: 10, took: Duration::from_secs(3) }
}

impl Sandbox for FakeSandbox {
    fn ensure<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }

    fn run<'a>(
        &'a self,
        _agent: &'a AgentId,
        command: Command,
        _cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        self.ran.lock().unwrap().push(command);
        let outcome = self.outcome.lock().unwrap().take().unwrap();
        Box::pin(async move { outcome })
    }

    fn spawn<'a>(
        &'a self,
        _agent: &'a AgentId,
        command: Command,
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        self.ran.lock().unwrap().push(command);
        Box::pin(async {
            self.stop.cancel();
            tokio::task::yield_now().await;
            Ok(job(7, None))
        })
    }

    fn jobs<'a>(
        &'a self,
        _agent: &'a AgentId,
        request: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>> {
        self.asked.lock().unwrap().push(request);
        let reply = self.reply.lock().unwrap().take().unwrap();
        Box::pin(async move {
            self.stop.cancel();
            tokio::task::yield_now().await;
            reply
        })
    }

    fn remove<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }

    fn pause<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }

    fn resume<'a>(&'a self, _agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }
}
