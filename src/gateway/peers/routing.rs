//! Decides which agent or which MCP server a request is about, so that it is answered where that is. The answer to a question of
//! a server goes where the call waits.
//!
//! A request that is not listed is answered where it arrives, from the database and the files that all gateways share.

use axum::http::{HeaderMap, Method, Uri};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::statement::About;
use crate::gateway::routes::{chat, messages};
use crate::gateway::state::Gateway;
use crate::id::{AgentId, SessionKey};
use crate::swarm::triage::question;

/// The part of a request that tells its subject.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Clue {
    /// The path names the agent.
    Agent(String),
    /// The path names a session.
    Session(String),
    /// The path names a task, whose assignee is the agent.
    Task(String),
    /// The body names a model, which stands for an agent.
    Model,
    /// The body names an agent or a session, or neither.
    Message,
    /// So does the query.
    Query,
    /// The query names an agent, or the request is about none.
    QueriedAgent,
    /// The path names an MCP server.
    Server(String),
    /// The path names a request, for whose answer an MCP server waits.
    Question(String),
}

/// The fields of a body or a query that tell the agent.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Named {
    model: Option<String>,
    agent: Option<String>,
    session_key: Option<String>,
}

/// Returns what tells the subject of a request. `None` for one that every gateway answers.
pub(super) fn clue(method: &Method, path: &str) -> Option<Clue> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned());
    let parts: Vec<&str> = path.strip_prefix('/')?.split('/').collect();
    let is_post = *method == Method::POST;
    match parts.as_slice() {
        ["v1", "chat", "completions"] | ["v1", "responses"] if is_post => Some(Clue::Model),
        ["api", "message"] if is_post => Some(Clue::Message),
        ["api", "messages"] if *method == Method::GET => Some(Clue::Query),
        ["api", "quota", "resume"] if is_post => Some(Clue::QueriedAgent),
        ["api", "sessions", key, ..] => decoded(key).map(Clue::Session),
        ["api", "agents", id, "checkpoints" | "fork" | "prepare" | "probe" | "rewind"] if is_post => {
            decoded(id).map(Clue::Agent)
        }
        ["api", "approvals", id, "answer"] if is_post => decoded(id).map(Clue::Question),
        ["api", "mcp", "servers", name, "test" | "grant"] if is_post => decoded(name).map(Clue::Server),
        ["api", "tasks", id, "cancel"] if is_post => decoded(id).map(Clue::Task),
        ["flock", "a2a", id] | ["flock", "a2a", id, ""] if is_post => decoded(id).map(Clue::Agent),
        _ => None,
    }
}

impl Clue {
    /// Returns the subject. `None` if there is none of this name, every gateway may use it, or the request is malformed; then
    /// its route answers here.
    pub(super) async fn about(
        self,
        gateway: &Gateway,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<About> {
        match self {
            Self::Server(name) => {
                let config = gateway.config();
                let server = config.mcp_server(&name.parse().ok()?)?;
                server.remote.is_none().then(|| About::Server(server.name.clone()))
            }
            Self::Question(id) => {
                let row = gateway.swarm.store().requests().find(&id).await.ok()??;
                // Nobody waits for the answer to one that has ended.
                let row = row.state.is_open().then_some(row)?;
                match question::local_server(&gateway.config(), &row) {
                    Some(server) => Some(About::Server(server)),
                    None => gateway.agent(row.agent.as_str()).ok().map(|agent| About::Agent(agent.id)),
                }
            }
            clue => clue.agent(gateway, uri, headers, body).await.map(About::Agent),
        }
    }

    async fn agent(self, gateway: &Gateway, uri: &Uri, headers: &HeaderMap, body: &[u8]) -> Option<AgentId> {
        let named = || serde_json::from_slice::<Named>(body).ok();
        let message = |named: Named| {
            let (agent, key) = (named.agent.as_deref(), named.session_key.as_deref());
            messages::chosen(gateway, agent, key).ok().map(|agent| agent.id)
        };
        match self {
            Self::Agent(id) => gateway.agent(&id).ok().map(|agent| agent.id),
            Self::Session(key) => {
                let key = key.parse::<SessionKey>().ok()?;
                gateway.agent(key.agent().as_str()).ok().map(|agent| agent.id)
            }
            Self::Task(id) => {
                let task = gateway.swarm.store().tasks().find(&id).await.ok()??;
                gateway.agent(task.assignee().as_str()).ok().map(|agent| agent.id)
            }
            Self::Model => chat::chosen_agent(gateway, headers, &named()?.model?).ok(),
            Self::Message => message(named()?),
            Self::Server(_) | Self::Question(_) => None,
            Self::QueriedAgent => {
                let named = axum::extract::Query::<Named>::try_from_uri(uri).ok()?.0.agent?;
                gateway.agent(&named).ok().map(|agent| agent.id)
            }
            Self::Query => axum::extract::Query::try_from_uri(uri).ok().and_then(|named| message(named.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_an_agent_name_it() {
        let agent = |id: &str| Some(Clue::Agent(id.to_owned()));
        let session = |key: &str| Some(Clue::Session(key.to_owned()));
        for (method, path, expected) in [
            (Method::POST, "/v1/chat/completions", Some(Clue::Model)),
            (Method::POST, "/v1/responses", Some(Clue::Model)),
            (Method::POST, "/api/message", Some(Clue::Message)),
            (Method::GET, "/api/messages", Some(Clue::Query)),
            (Method::POST, "/api/quota/resume", Some(Clue::QueriedAgent)),
            (Method::GET, "/api/sessions/agent:coder:flock:main:ann", session("agent:coder:flock:main:ann")),
            (
                Method::POST,
                "/api/sessions/agent%3Acoder%3Aflock%3Amain%3Aann/stop",
                session("agent:coder:flock:main:ann"),
            ),
            (Method::POST, "/api/agents/coder/probe", agent("coder")),
            (Method::POST, "/api/tasks/t-1/cancel", Some(Clue::Task("t-1".to_owned()))),
            (Method::POST, "/api/mcp/servers/notes/test", Some(Clue::Server("notes".to_owned()))),
            (Method::POST, "/api/mcp/servers/notes/grant", Some(Clue::Server("notes".to_owned()))),
            (Method::POST, "/api/approvals/r-7k3m9qwx/answer", Some(Clue::Question("r-7k3m9qwx".to_owned()))),
            (Method::POST, "/flock/a2a/coder", agent("coder")),
            (Method::POST, "/flock/a2a/coder/", agent("coder")),
            // What every gateway answers.
            (Method::GET, "/v1/responses/resp_1", None),
            (Method::GET, "/api/mcp/servers/notes", None),
            (Method::POST, "/api/mcp/servers/notes/revoke", None),
            (Method::GET, "/api/approvals", None),
            (Method::POST, "/api/approvals/r-7k3m9qwx/deny", None),
            (Method::GET, "/api/sessions", None),
            (Method::GET, "/api/tasks/t-1", None),
            (Method::POST, "/api/sessions", None),
            (Method::DELETE, "/api/agents/coder", None),
            (Method::POST, "/api/agents/coder/freeze", None),
            (Method::POST, "/api/channels/work/messages", None),
            (Method::GET, "/flock/a2a/coder/.well-known/agent-card.json", None),
            (Method::POST, "//api/message", None),
            (Method::GET, "/api/sessions/%ff", None),
        ] {
            assert_eq!(clue(&method, path), expected, "{method} {path}");
        }
    }
}
