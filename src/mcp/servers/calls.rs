//! The calls of agents: only of tools that were granted, and within the limits of arguments, number and time.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::asks::{CallGuard, Sampled};
use super::super::definition;
use super::super::error::McpError;
use super::super::output;
use super::super::rounds::{self, CallError, ToolCall};
use super::super::running::Running;
use super::{Servers, may};
use crate::config::McpServer;
use crate::error::chain;
use crate::id::{McpServerName, TurnId};
use crate::provider::{Block, BoxFuture};
use crate::sync::lock;
use crate::tool::{CallContext, ToolError, ToolOutput, safe_text};

/// The most bytes of the arguments of a call.
const MAX_ARGUMENTS: usize = 1 << 20;
/// The number of turns whose calls are counted.
const MAX_TURNS: usize = 1_000;

impl Servers {
    /// Calls a tool for an agent, if it was granted, at the gateway that runs the server.
    pub(in crate::mcp) async fn call(
        &self,
        context: &CallContext,
        name: &McpServerName,
        tool: &str,
        arguments: &Value,
    ) -> Result<ToolOutput, ToolError> {
        let server = self.server(name).map_err(|error| for_model(&error))?;
        match self.call_elsewhere(context, (&server, tool), arguments).await {
            Some(answered) => answered,
            None => self.call_here(context, name, tool, arguments).await,
        }
    }

    /// Calls a tool for an agent, if it was granted. The server runs here, and is started if it does not run.
    pub(crate) async fn call_here(
        &self,
        context: &CallContext,
        name: &McpServerName,
        tool: &str,
        arguments: &Value,
    ) -> Result<ToolOutput, ToolError> {
        let Value::Object(arguments) = arguments else {
            return Err(ToolError::model("the arguments must be an object"));
        };
        if serde_json::to_vec(arguments).map_or(usize::MAX, |bytes| bytes.len()) > MAX_ARGUMENTS {
            return Err(ToolError::model(format!(
                "the arguments have more than {} MiB",
                MAX_ARGUMENTS >> 20
            )));
        }
        let server = self.server(name).map_err(|error| for_model(&error))?;
        self.check_grant(context, name, tool).await?;
        self.count_call(&server, context.turn)?;
        let ready = async {
            let running = self.running(name).await?;
            let used = running.begin();
            let tools = self.tools_of(&running).await?;
            Ok((running, used, tools))
        };
        let cancelled = || ToolError::model("the call was cancelled before it began");
        let ready = context.cancel.run_until_cancelled(ready).await.ok_or_else(cancelled)?;
        let (running, _used, tools) = ready.map_err(|error: McpError| for_model(&error))?;
        let pin = self.check_listed(context, (name, tool), &tools).await?;
        let (result, sampled) = self.ask(&running, tool, arguments, context).await;
        let output = result.and_then(|result| {
            output::read(name, tool, &result, definition::output_schema(&pin.definition).as_ref())
        });
        with_note(output, name, sampled)
    }

    /// Counts a call of a turn.
    fn count_call(&self, server: &McpServer, turn: TurnId) -> Result<(), ToolError> {
        let mut turns = lock(&self.turns);
        // Old turns are forgotten all at once. A turn then starts to count again, which is no harm.
        if turns.len() >= MAX_TURNS {
            turns.clear();
        }
        let count = turns.entry((turn, server.name.clone())).or_default();
        if *count >= server.calls_per_turn {
            return Err(ToolError::model(format!(
                "not run: one turn can make {} calls of the tools of {} (callsPerTurn)",
                server.calls_per_turn, server.name
            )));
        }
        *count += 1;
        Ok(())
    }

    async fn ask(
        &self,
        running: &Running,
        tool: &str,
        arguments: &serde_json::Map<String, Value>,
        context: &CallContext,
    ) -> (Result<Value, ToolError>, Sampled) {
        let mut guard = None;
        let result = self.ask_within(running, tool, arguments, (context, &mut guard)).await;
        let result = result.map_err(|error| match error {
            CallError::Server(error) => for_model(&error),
            CallError::TakenBack(error) => error,
        });
        (result, guard.map(CallGuard::end).unwrap_or_default())
    }

    async fn ask_within(
        &self,
        running: &Running,
        tool: &str,
        arguments: &serde_json::Map<String, Value>,
        (context, guard): (&CallContext, &mut Option<CallGuard>),
    ) -> Result<Value, CallError> {
        let cancel = &context.cancel;
        let limit = running.server.call_time;
        let began = Instant::now();
        let silent = |reported| McpError::Silent {
            server: running.server.name.clone(),
            seconds: limit.as_secs(),
            reported,
        };
        // The wait for a place counts: a server that answers nobody must not hold up its callers longer.
        let place = tokio::time::timeout(limit, running.calls.acquire());
        let place = cancel.run_until_cancelled(place).await.ok_or(McpError::Cancelled)?;
        let Ok(Ok(_place)) = place else { return Err(silent(String::new()).into()) };
        let left = limit.saturating_sub(began.elapsed()).max(Duration::from_millis(1));
        let guard = &*guard.insert(running.connection.asks.calls.begin(context));
        let offers = self.offers(&running.server.name, Some(&context.agent));
        let call = ToolCall { tool, arguments, context, guard, offers, limit: left };
        let may_go_on =
            || -> BoxFuture<'_, Result<(), ToolError>> { Box::pin(self.check_again(running, context, tool)) };
        let called = Box::pin(rounds::call(&running.connection, &call, &may_go_on)).await;
        called.map_err(|error| match error {
            CallError::Server(McpError::Silent { reported, .. }) => silent(reported).into(),
            error => error,
        })
    }

    /// Checks before the next round of a call that it is still allowed. Much can happen while a person is asked.
    async fn check_again(
        &self,
        running: &Running,
        context: &CallContext,
        tool: &str,
    ) -> Result<(), ToolError> {
        let name = &running.server.name;
        self.check_grant(context, name, tool).await?;
        let tools = self.tools_of(running).await.map_err(|error| for_model(&error))?;
        self.check_listed(context, (name, tool), &tools).await.map(drop)
    }

    async fn check_grant(
        &self,
        context: &CallContext,
        server: &McpServerName,
        tool: &str,
    ) -> Result<(), ToolError> {
        // The database decides, not the list that the agent was offered.
        let grant = self.store.mcp_tools().grant_of(&context.agent, server, tool).await;
        let grant = grant.map_err(|error| ToolError::Fatal(Box::new(error)))?;
        let grant =
            grant.ok_or_else(|| ToolError::model(format!("{tool} of {server} is not granted to you")))?;
        let config = self.live.current();
        match config.agent(&context.agent) {
            Some(agent) if may(agent, &grant) => Ok(()),
            _ => Err(ToolError::model(format!(
                "{tool} of {server} is not possible: your autonomy is readonly, and the owner did not grant it for that"
            ))),
        }
    }
}

/// Adds what the server asked the agent's model during the call, so that the transcript and the agent have it.
fn with_note(
    output: Result<ToolOutput, ToolError>,
    server: &McpServerName,
    sampled: Sampled,
) -> Result<ToolOutput, ToolError> {
    if sampled.asked == 0 {
        return output;
    }
    let Sampled { asked, answered, tokens } = sampled;
    let note = format!(
        "[flock: during this call, {server} asked your model {asked} times (sampling) and got {answered} answers, {tokens} \
         tokens, which are charged to you]"
    );
    match output {
        Ok(mut output) => {
            output.content.push(Block::text(note));
            Ok(output)
        }
        Err(ToolError::ForModel(text)) => Err(ToolError::model(format!("{text}\n{note}"))),
        Err(error) => Err(error),
    }
}

/// Returns an error for the model, with the texts of the server cleaned and cut.
pub(super) fn for_model(error: &McpError) -> ToolError {
    let text = definition::cleaned_text(&chain(error));
    ToolError::model(safe_text::start(&text, 2_000).to_owned())
}
