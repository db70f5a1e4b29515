//! `/mcp`: gives flock's tools, resources and prompts to a program that runs an agent's turn, by the Model Context
//! Protocol over HTTP.
//!
//! What is read as a resource or a prompt is read by a tool of the agent, so the same policy, audit and limits apply.
//!
//! The token belongs to one turn. It determines the caller, the conversation, and what the agent's role and policy
//! allow. Each message has its own response: JSON, or a stream if there is something to say about a call before its end.
//! A session, which a program may begin and need not, has a level of log messages, subscriptions, and a stream of its own
//! for what flock sends by itself.

mod annotations;
mod batch;
mod completion;
mod content;
mod error;
mod listen;
mod listing;
mod paging;
mod prompts;
mod reply;
mod resources;
mod session;
mod stream;
mod subscription;
mod uri;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response};
use serde_json::{Value, json};

use self::error::McpError;
pub(crate) use self::listen::listen;
use self::reply::Reply;
use self::session::Asker;
pub(crate) use self::session::end;
use super::plugin;
use crate::agent::delegated::{IncomingCall, ToolCallResponse};
use crate::config::Agent;
use crate::gateway::body::RawBody;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::runtime::program::PROGRAMS;
use crate::runtime::program::environment::CALL;
use crate::tool::{ProgressSink, policy, safe_text};

/// Most bytes in a message.
pub(crate) const MAX_BODY: usize = 2 << 20;

/// Supported versions of the protocol, oldest first.
const VERSIONS: [&str; 4] = ["2024-11-05", BATCH_VERSION, "2025-06-18", "2025-11-25"];

/// The only version with batches.
const BATCH_VERSION: &str = "2025-03-26";

/// The version of a request that neither names one nor belongs to a session, as the later versions have it.
const ASSUMED_VERSION: &str = BATCH_VERSION;

/// Header in which a client repeats the negotiated version.
const VERSION_HEADER: &str = "mcp-protocol-version";

/// Most bytes of a call's id and of a tool's name.
const MAX_NAME: usize = 128;

/// Answers one message over HTTP, or several in the version that has batches.
pub(crate) async fn post(
    State(gateway): State<Arc<Gateway>>,
    Extension(ticket): Extension<Arc<Ticket>>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Response<Body> {
    let asker = match Asker::read(gateway, ticket, &headers) {
        Ok(asker) => asker,
        Err(refusal) => return refusal.into_response(),
    };
    let message = match serde_json::from_slice::<Value>(&body).ok() {
        Some(Value::Array(messages)) => return batch::answer(&asker, messages).await.into_response(),
        message => message,
    };
    match message.as_ref().and_then(|message| stream::wanted(&headers, message)) {
        Some(wanted) => {
            let (sink, news) = stream::channel(&asker.session);
            let answer = async move { exchange(&asker, message, Some(&sink)).await };
            stream::response(answer, news, wanted).await
        }
        None => exchange(&asker, message, None).await.into_response(),
    }
}

/// Answers one message, which is `None` if it is not JSON. Dropping the future cancels the call that it waits for.
async fn exchange(asker: &Asker, message: Option<Value>, progress: Option<&ProgressSink>) -> Reply {
    let Some(message) = message else {
        return Reply::wrong(error::PARSE_ERROR, "the body is not JSON");
    };
    if !message.is_object() || message["jsonrpc"] != "2.0" {
        return Reply::wrong(error::INVALID_REQUEST, "this is no message of JSON-RPC 2.0");
    }
    let id = match &message["id"] {
        id @ (Value::String(_) | Value::Number(_)) => Some(id.clone()),
        _ if message.get("id").is_none() => None,
        _ => return Reply::wrong(error::INVALID_REQUEST, "the id is neither text nor a number"),
    };
    let Some(method) = message["method"].as_str() else {
        // flock sends no requests, so a response to one has no meaning.
        let is_answer = id.is_some() && (message.get("result").is_some() || message.get("error").is_some());
        return if is_answer {
            Reply::accepted()
        } else {
            Reply::wrong(error::INVALID_REQUEST, "there is no method")
        };
    };
    let Some(id) = id else {
        // A message without an id is a notification and gets no response.
        if method == "notifications/cancelled" {
            asker.ticket.cancel(&message["params"]["requestId"]);
        }
        return Reply::accepted();
    };
    let result = |result: Value| Reply::message(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    if method == "initialize" {
        let version = agreed_version(&message["params"]);
        let session = asker.ticket.mcp_sessions.begin(version);
        return result(greeting(version)).beginning(session.id.clone());
    }
    let request = Request { params: &message["params"], id: &id, progress };
    match answer(asker, method, request).await {
        // The client that cancelled the call does not wait for a response.
        Ok(None) => Reply::accepted(),
        Ok(Some(answer)) => result(answer),
        Err(error) => Reply::message(error.response(&id)),
    }
}

async fn answer(asker: &Asker, method: &str, request: Request<'_>) -> Result<Option<Value>, McpError> {
    let Request { params, id, .. } = request;
    let (gateway, ticket) = (&*asker.gateway, &*asker.ticket);
    let answer = match method {
        "ping" => json!({}),
        "tools/list" => {
            let tools = tools(gateway, ticket);
            ticket.calls.note(|count| count.listed_tools = true);
            json!({"tools": tools})
        }
        "tools/call" => return call(asker, request).await,
        "resources/list" => resources::list(gateway, ticket, params).await?,
        "resources/templates/list" => resources::templates(gateway, ticket, params)?,
        "resources/read" => return resources::read(gateway, ticket, params, id).await,
        "resources/subscribe" => subscription::subscribe(asker, params).await?,
        "resources/unsubscribe" => subscription::unsubscribe(asker, params)?,
        "prompts/list" => prompts::list(gateway, ticket, params).await?,
        "prompts/get" => return prompts::get(gateway, ticket, params, id).await,
        "completion/complete" => completion::complete(gateway, ticket, params).await?,
        "logging/setLevel" => session::set_level(&asker.session, params)?,
        _ => {
            let text = format!("there is no method {:?}", safe_text::start(method, MAX_NAME));
            return Err(McpError::new(error::METHOD_NOT_FOUND, text));
        }
    };
    Ok(Some(answer))
}

/// Returns the version that `initialize` agrees on: the client's if it is supported, otherwise the newest one.
fn agreed_version(params: &Value) -> &'static str {
    let [.., newest] = VERSIONS;
    let asked = params["protocolVersion"].as_str();
    VERSIONS.into_iter().find(|version| asked == Some(version)).unwrap_or(newest)
}

/// Returns the response to `initialize`.
fn greeting(version: &str) -> Value {
    // Changes of lists are not declared, because flock does not tell of them.
    json!({
        "protocolVersion": version,
        "capabilities": {
            "tools": {}, "resources": {"subscribe": true}, "prompts": {}, "completions": {}, "logging": {},
        },
        "serverInfo": {"name": "flock", "title": "flock", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Returns flock's own tools that the agent may use under the current configuration.
fn tools(gateway: &Gateway, ticket: &Ticket) -> Vec<Value> {
    let config = gateway.config();
    let Some(agent) = config.agent(&ticket.agent) else { return Vec::new() };
    gateway.engine.own_tools(agent).iter().map(annotations::described).collect()
}

/// Returns the agent under the current configuration, for a list of names that it may read.
///
/// # Errors
///
/// Returns an error if it is frozen or was removed.
fn agent(gateway: &Gateway, ticket: &Ticket) -> Result<Agent, McpError> {
    if let Some(frozen) = gateway.swarm.frozen_text(&ticket.agent) {
        return Err(McpError::internal(frozen));
    }
    let agent = gateway.config().agent(&ticket.agent).cloned();
    agent.ok_or_else(|| McpError::internal(format!("there is no agent {}", ticket.agent)))
}

/// Returns a text among the parameters of a request.
fn text<'p>(params: &'p Value, name: &str) -> Result<&'p str, McpError> {
    params[name].as_str().ok_or_else(|| McpError::invalid(format!("{name} has to be a text")))
}

/// Calls a tool. A failure that the model should read is a result, but an error in the request itself is not. A
/// cancelled call has no result.
async fn call(asker: &Asker, request: Request<'_>) -> Result<Option<Value>, McpError> {
    let params = request.params;
    let tool = params["name"].as_str().ok_or_else(|| McpError::invalid("a call needs the name of a tool"))?;
    // Other tools are the program's own. Only flock's are offered here.
    if !policy::is_flocks_own(tool) {
        return Err(McpError::invalid(format!("there is no tool {:?}", safe_text::start(tool, MAX_NAME))));
    }
    let arguments = match &params["arguments"] {
        Value::Null => json!({}),
        Value::Object(arguments) => Value::Object(arguments.clone()),
        _ => return Err(McpError::invalid("arguments are an object")),
    };
    let answered = run(&asker.gateway, &asker.ticket, request, (tool, arguments)).await;
    Ok(answered.map(|answered| content::call_result(answered, asker.version)))
}

/// A request that a tool answers.
#[derive(Clone, Copy)]
struct Request<'r> {
    params: &'r Value,
    id: &'r Value,
    /// The recipient of the progress and the log messages.
    progress: Option<&'r ProgressSink>,
}

/// Runs a call in the turn. Returns `None` if the client cancels it.
async fn run(
    gateway: &Gateway,
    ticket: &Ticket,
    request: Request<'_>,
    (tool, arguments): (&str, Value),
) -> Option<ToolCallResponse> {
    // The call ends with this future too, because a client may close the connection to stop its call.
    let called = ticket.call(request.id);
    let cancel = called.cancel.clone();
    let id = call_id(&request.params["_meta"], request.id);
    let progress = request.progress.cloned();
    let asked = IncomingCall { id, tool: tool.to_owned(), arguments, cancel, progress };
    tokio::select! {
        // The cancellation is polled first. The running tool sees it too and would report it as its result.
        biased;
        () = called.cancel.cancelled() => None,
        answered = plugin::run_call(gateway, &ticket.source, asked, CALL) => Some(answered),
        () = ticket.over.cancelled() => Some(ToolCallResponse::lost(
            "not completed: the turn was ended; the effect of the call is unknown",
        )),
    }
}

/// Returns the call's own id if the program sends one, otherwise one that is made from the message's id.
fn call_id(meta: &Value, id: &Value) -> String {
    let told =
        PROGRAMS.iter().filter_map(|program| program.facts().call_id).find_map(|name| meta[name].as_str());
    let shown =
        |text: &str| -> String { text.chars().filter(char::is_ascii_graphic).take(MAX_NAME).collect() };
    // An id without any usable character would become the id of many calls.
    let told = told.map(shown).filter(|told| !told.is_empty());
    told.unwrap_or_else(|| {
        shown(&format!("mcp.{}", id.as_str().map_or_else(|| id.to_string(), str::to_owned)))
    })
}

#[cfg(test)]
mod tests {
    use super::plugin::shown;
    use super::*;
    use crate::provider::Block;

    #[test]
    fn a_known_version_is_answered_with_itself_and_another_with_the_newest() {
        for version in VERSIONS {
            assert_eq!(agreed_version(&json!({"protocolVersion": version})), version);
        }
        for params in [json!({"protocolVersion": "1999-01-01"}), json!({"protocolVersion": 5}), Value::Null] {
            assert_eq!(agreed_version(&params), "2025-11-25");
        }
    }

    #[test]
    fn text_and_pictures_come_back_in_the_protocols_form() {
        let picture = Block::Image { media_type: "image/png".into(), data: "AAAA".into() };
        let blocks = [Block::text("a"), picture, Block::Other(json!({"type": "hologram"}))];
        let shown: Vec<Value> = blocks.iter().filter_map(shown).collect();
        let picture = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        assert_eq!(shown, [json!({"type": "text", "text": "a"}), picture]);
    }

    #[test]
    fn a_call_has_an_id_that_can_stand_in_a_record() {
        assert_eq!(call_id(&Value::Null, &json!(7)), "mcp.7");
        assert_eq!(call_id(&Value::Null, &json!("a b\n")), "mcp.ab");
        assert_eq!(call_id(&json!({"claudecode/toolUseId": "toolu_1"}), &json!(7)), "toolu_1");
        assert_eq!(call_id(&json!({"callId": "c"}), &json!(7)), "c");
        assert_eq!(call_id(&json!({"callId": ""}), &json!(7)), "mcp.7");
        assert_eq!(call_id(&json!({"callId": "\u{e9}\n"}), &json!(7)), "mcp.7");
        assert_eq!(call_id(&Value::Null, &json!("x".repeat(500))).len(), MAX_NAME);
    }
}
