//! The tools of clients in chat completions and responses: which session a request's results belong to, the checks
//! before a turn, and the audit.

use crate::agent::client_tools::{check_results, turn_of_call};
use crate::clock::unix_ms;
use crate::gateway::auth::Caller;
use crate::gateway::error::ApiError;
use crate::gateway::openai::ChatInput;
use crate::gateway::openai::client_tools::shadows;
use crate::gateway::openai::continuation::refused;
use crate::gateway::state::Gateway;
use crate::id::{AgentId, SessionKey, TurnId};
use crate::runtime::NATIVE;
use crate::store::{Level, text_digest};
use crate::swarm::Actor;

/// Returns the session whose pending calls the end of the conversation is about, for a client that keeps its
/// conversation itself and names no session. `None` if the caller has no such session.
pub(super) async fn waiting_session(
    gateway: &Gateway,
    caller: &Caller,
    agent: &AgentId,
    input: &ChatInput,
) -> Result<Option<SessionKey>, ApiError> {
    for id in input.waited_calls() {
        let Some(turn) = turn_of_call(id) else { continue };
        let found = gateway.swarm.store().turns().find(turn).await.map_err(ApiError::explained)?;
        let Some(session) = found.map(|turn| turn.session) else { continue };
        if session.agent() != agent || caller.check_session(&session).is_err() {
            continue;
        }
        let known = gateway.engine.session(&session).await.map_err(ApiError::explained)?;
        if known.is_some_and(|known| known.pending.iter().any(|call| call.id == id)) {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

/// Checks what a request brings of tools and results before its turn begins. A request without a session becomes a
/// conversation of its own. `param` is the parameter with the conversation.
pub(super) async fn check(
    gateway: &Gateway,
    agent: &AgentId,
    key: Option<&SessionKey>,
    input: &mut ChatInput,
    param: &'static str,
) -> Result<(), ApiError> {
    if key.is_none() {
        input.begin_session(param)?;
    }
    if !input.uses_client_tools() {
        return Ok(());
    }
    let runtime = gateway.agent(agent.as_str())?.runtime;
    if runtime != NATIVE {
        let message = format!(
            "agent {agent} runs on {runtime}, a program with a loop of its own that can't wait for a client's call: tools \
             of clients are for agents that run on native"
        );
        return Err(ApiError::invalid("tools_not_supported", message)
            .with_param("tools")
            .with_hint(format!("flock edit {agent} --runtime native")));
    }
    for tool in &input.client.tools {
        if let Some(own) = gateway.engine.shadowed_tool(&tool.spec.name) {
            return Err(shadows(&tool.spec.name, &own));
        }
    }
    let Some(key) = key.filter(|_| !input.client.results.is_empty()) else { return Ok(()) };
    let known = gateway.engine.session(key).await.map_err(ApiError::explained)?;
    let pending = known.map(|known| known.pending).unwrap_or_default();
    let results: Vec<&str> = input.client.results.iter().map(|result| result.call.as_str()).collect();
    check_results(&results, pending.iter().map(|call| call.id.as_str()))
        .map_err(|fault| refused(&fault, param))
}

/// Writes to the audit that a client sends results. They are its own words about what it did: flock has seen none of it.
pub(super) async fn record(
    gateway: &Gateway,
    caller: &Caller,
    (session, turn): (&SessionKey, TurnId),
    input: &ChatInput,
) -> Result<(), ApiError> {
    for (call, text) in input.new_results() {
        let detail =
            format!("from the client, untrusted, {} bytes, sha256 {}", text.len(), text_digest(&text));
        let by = Actor { session: Some(session.clone()), turn: Some(turn), ..Actor::party(caller.party()?) };
        let call = crate::clean::label(call, 80);
        let entry = by.entry("tool.result", &call, Level::Green, detail);
        gateway.swarm.store().audit().append(entry, unix_ms()).await.map_err(ApiError::internal)?;
    }
    Ok(())
}
