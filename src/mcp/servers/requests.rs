//! The requests of servers for an agent's model or for a person, which only a grant allows.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::super::asks::{AskError, AskedCall, RunningCalls};
use super::super::elicitation::{self, PersonAnswer};
use super::super::sampling;
use super::Servers;
use crate::agent::sampling::{SampleError, SampledCall};
use crate::clock::{local_day, unix_ms};
use crate::error::chain;
use crate::id::{AgentId, McpServerName};
use crate::store::{AuditEntry, Level, McpCapability, StoreError};
use crate::telemetry;
use crate::tool::CallContext;

/// The most questions to a person in one call, and the longest time for an answer.
const MAX_QUESTIONS: u32 = 3;
const QUESTION_TIME: Duration = Duration::from_secs(300);

impl Servers {
    /// Answers a server that asks the model of the agent whose call is running.
    pub(in crate::mcp) async fn sample(
        &self,
        name: &McpServerName,
        (calls, asked): (&Arc<RunningCalls>, &AskedCall),
        params: &Value,
    ) -> Result<Value, AskError> {
        let agent = &asked.context.agent;
        if !self.may_ask(name, agent, McpCapability::Sampling).await? {
            return Err(AskError::refused("not granted: the agent that calls lends you no model"));
        }
        let (Some(model), Ok(server)) = (self.model.get(), self.server(name)) else {
            return Err(AskError::unknown());
        };
        let call = calls.count(asked, server.samples_per_call)?;
        let sample = sampling::read(name, params, server.sample_tokens)?;
        let today =
            self.store.usage().of_servers(&local_day(unix_ms())).await.map_err(|error| not_looked(&error))?;
        let used = today.iter().find(|used| used.server == *name && used.agent == *agent);
        if used.is_some_and(|used| used.calls >= u64::from(server.samples_per_day)) {
            let most = server.samples_per_day;
            let text = format!("not done: the agent's model can be asked {most} times a day");
            self.note_sample(name, &asked.context, Level::Yellow, "refused: no more today").await;
            return Err(AskError::refused(text));
        }
        let source = SampledCall { context: &asked.context, server: name };
        let work = telemetry::scoped(asked.trace.clone(), model.sample(source, &sample.question));
        // The answer is of no use when the call has ended.
        let Some(answered) = asked.over.run_until_cancelled(work).await else {
            self.note_sample(name, &asked.context, Level::Yellow, "stopped: the call has ended").await;
            return Err(AskError::refused("not done: the call has ended"));
        };
        match answered {
            Ok(answer) => {
                let tokens = answer.usage.tokens();
                calls.answered(call, tokens);
                let detail = format!("answered by {}, {tokens} tokens", answer.model);
                self.note_sample(name, &asked.context, Level::Green, &detail).await;
                Ok(sampling::result(&sample, &answer))
            }
            Err(error) => {
                self.note_sample(name, &asked.context, Level::Yellow, &format!("refused: {error}")).await;
                Err(match error {
                    SampleError::Failed | SampleError::Silent => {
                        AskError::failed(format!("not done: {error}"))
                    }
                    _ => AskError::refused(format!("not done: {error}")),
                })
            }
        }
    }

    /// Answers a server that asks a person during the call of an agent.
    pub(in crate::mcp) async fn elicit(
        &self,
        name: &McpServerName,
        (calls, asked): (&Arc<RunningCalls>, &AskedCall),
        params: &Value,
    ) -> Result<Value, AskError> {
        if !self.may_ask(name, &asked.context.agent, McpCapability::Elicitation).await? {
            return Err(AskError::refused("not granted: nobody answers for the agent that calls"));
        }
        let person = self.person.get().ok_or_else(AskError::unknown)?;
        let question = elicitation::read(params)?;
        calls.count_question(asked, MAX_QUESTIONS)?;
        let _stands_still = calls.pause(asked);
        let answered = person.ask(&asked.context, name, question, QUESTION_TIME);
        let answered = asked.over.run_until_cancelled(answered).await;
        let answered = answered.unwrap_or(Ok(PersonAnswer::Cancelled));
        let how = answered.as_ref().map_or("not asked", PersonAnswer::action);
        self.note_ask("mcp.elicit", name, &asked.context, (Level::Yellow, how)).await;
        match answered {
            Ok(answer) => Ok(answer.result()),
            Err(why) => Err(AskError::refused(format!("not done: {why}"))),
        }
    }

    /// Returns `true` if the server may ask for this while the agent calls it. The database decides, as for calls.
    async fn may_ask(
        &self,
        name: &McpServerName,
        agent: &AgentId,
        wanted: McpCapability,
    ) -> Result<bool, AskError> {
        self.store.mcp_tools().may_ask(name, agent, wanted).await.map_err(|error| not_looked(&error))
    }

    /// Writes into the audit that a server asked an agent's model. No text of either is in it.
    async fn note_sample(&self, server: &McpServerName, context: &CallContext, level: Level, detail: &str) {
        self.note_ask("mcp.sample", server, context, (level, detail)).await;
    }

    async fn note_ask(
        &self,
        action: &'static str,
        server: &McpServerName,
        context: &CallContext,
        (level, detail): (Level, &str),
    ) {
        let actor = context.agent.as_str();
        let entry = AuditEntry::new(actor, action, server.as_str(), level, detail.to_owned());
        let entry = AuditEntry { session: Some(context.session.clone()), turn: Some(context.turn), ..entry };
        if let Err(error) = self.store.audit().append(entry, unix_ms()).await {
            tracing::error!(
                error = chain(&error),
                "failed to write a request of an MCP server into the audit"
            );
        }
    }
}

/// Returns the answer to a server if the database can't be read.
fn not_looked(error: &StoreError) -> AskError {
    tracing::error!(error = chain(error), "failed to look what an MCP server may ask for");
    AskError::failed("not done: flock could not look whether this is granted")
}
