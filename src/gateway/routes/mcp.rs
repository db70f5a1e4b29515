//! `POST /mcp`: gives flock's tools to a program that runs an agent's turn, by the Model Context Protocol over HTTP.
//!
//! The token belongs to one turn. It determines the caller, the conversation, and what the agent's role and policy
//! allow. Each message has its own response. flock sends no messages by itself, so there is no stream and no session.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::{Value, json};

use super::plugin;
use crate::agent::delegated::{IncomingCall, ToolCallResponse};
use crate::gateway::body::RawBody;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::provider::Block;
use crate::runtime::program::PROGRAMS;
use crate::runtime::program::environment::CALL;
use crate::tool::{policy, safe_text};

/// Most bytes in a message.
pub(crate) const MAX_BODY: usize = 2 << 20;

/// Supported versions of the protocol, oldest first. 2025-03-26 is missing because it requires batches, which no
/// version before or after it does.
const VERSIONS: [&str; 3] = ["2024-11-05", "2025-06-18", "2025-11-25"];

/// Header in which a client repeats the negotiated version.
const VERSION_HEADER: &str = "mcp-protocol-version";

/// Most bytes of a call's id and of a tool's name.
const MAX_NAME: usize = 128;

/// Error codes of JSON-RPC.
const PARSE_ERROR: i32 = -32_700;
const INVALID_REQUEST: i32 = -32_600;
const METHOD_NOT_FOUND: i32 = -32_601;
const INVALID_PARAMS: i32 = -32_602;

/// Answers one message over HTTP.
pub(crate) async fn post(
    State(gateway): State<Arc<Gateway>>,
    Extension(ticket): Extension<Arc<Ticket>>,
    headers: HeaderMap,
    RawBody(body): RawBody,
) -> Response<Body> {
    let (status, answer) = match check_version(&headers) {
        Ok(()) => exchange(&gateway, &ticket, &body).await,
        Err(wrong) => wrong,
    };
    let body = answer.map_or_else(Body::empty, |answer| Body::from(answer.to_string()));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    if status != StatusCode::ACCEPTED {
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
    }
    response
}

/// Refuses a version of the protocol that is not supported.
fn check_version(headers: &HeaderMap) -> Result<(), (StatusCode, Option<Value>)> {
    let Some(version) = headers.get(VERSION_HEADER) else { return Ok(()) };
    let version = version.to_str().unwrap_or("?").trim();
    if VERSIONS.contains(&version) {
        return Ok(());
    }
    let text = format!(
        "version {:?} of the protocol is not spoken here; these are: {}",
        safe_text::start(version, MAX_NAME),
        VERSIONS.join(", ")
    );
    Err(wrong(INVALID_REQUEST, &text))
}

/// Answers one message, independent of its transport. Returns the status, and the response if there is one. Dropping
/// the future cancels the call that it waits for.
pub(crate) async fn exchange(gateway: &Gateway, ticket: &Ticket, body: &[u8]) -> (StatusCode, Option<Value>) {
    let Ok(message) = serde_json::from_slice::<Value>(body) else {
        return wrong(PARSE_ERROR, "the body is not JSON");
    };
    if message.is_array() {
        return wrong(INVALID_REQUEST, "several messages at once are not taken");
    }
    if !message.is_object() || message["jsonrpc"] != "2.0" {
        return wrong(INVALID_REQUEST, "this is no message of JSON-RPC 2.0");
    }
    let id = match &message["id"] {
        id @ (Value::String(_) | Value::Number(_)) => Some(id.clone()),
        _ if message.get("id").is_none() => None,
        _ => return wrong(INVALID_REQUEST, "the id is neither text nor a number"),
    };
    let Some(method) = message["method"].as_str() else {
        // flock sends no requests, so a response to one has no meaning.
        let is_answer = id.is_some() && (message.get("result").is_some() || message.get("error").is_some());
        return if is_answer {
            (StatusCode::ACCEPTED, None)
        } else {
            wrong(INVALID_REQUEST, "there is no method")
        };
    };
    let Some(id) = id else {
        // A message without an id is a notification and gets no response.
        if method == "notifications/cancelled" {
            ticket.cancel(&message["params"]["requestId"]);
        }
        return (StatusCode::ACCEPTED, None);
    };
    let answer = match answer(gateway, ticket, method, &message["params"], &id).await {
        // The client that cancelled the call does not wait for a response.
        Ok(None) => return (StatusCode::ACCEPTED, None),
        Ok(Some(result)) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err((code, text)) => error_response(&id, code, &text),
    };
    (StatusCode::OK, Some(answer))
}

fn wrong(code: i32, text: &str) -> (StatusCode, Option<Value>) {
    (StatusCode::BAD_REQUEST, Some(error_response(&Value::Null, code, text)))
}

fn error_response(id: &Value, code: i32, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}})
}

async fn answer(
    gateway: &Gateway,
    ticket: &Ticket,
    method: &str,
    params: &Value,
    id: &Value,
) -> Result<Option<Value>, (i32, String)> {
    match method {
        "initialize" => Ok(Some(initialize_result(params))),
        "ping" => Ok(Some(json!({}))),
        "tools/list" => {
            let tools = tools(gateway, ticket);
            ticket.calls.note(|count| count.listed_tools = true);
            Ok(Some(json!({"tools": tools})))
        }
        "tools/call" => call(gateway, ticket, params, id).await,
        _ => Err((METHOD_NOT_FOUND, format!("there is no method {:?}", safe_text::start(method, MAX_NAME)))),
    }
}

/// Returns the response to `initialize`: the client's version if it is supported, otherwise the newest one.
fn initialize_result(params: &Value) -> Value {
    let [.., newest] = VERSIONS;
    let asked = params["protocolVersion"].as_str();
    let version = VERSIONS.into_iter().find(|version| asked == Some(version)).unwrap_or(newest);
    json!({
        "protocolVersion": version,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "flock", "version": env!("CARGO_PKG_VERSION")},
    })
}

/// Returns flock's own tools that the agent may use under the current configuration.
fn tools(gateway: &Gateway, ticket: &Ticket) -> Vec<Value> {
    let config = gateway.config();
    let Some(agent) = config.agent(&ticket.agent) else { return Vec::new() };
    let described = |tool: crate::provider::ToolSpec| json!({"name": tool.name, "description": tool.description, "inputSchema": tool.parameters});
    gateway.engine.own_tools(agent).into_iter().map(described).collect()
}

/// Calls a tool. A failure that the model should read is a result, but an error in the request itself is not. A
/// cancelled call has no result.
async fn call(
    gateway: &Gateway,
    ticket: &Ticket,
    params: &Value,
    id: &Value,
) -> Result<Option<Value>, (i32, String)> {
    let bad = |text: String| (INVALID_PARAMS, text);
    let tool = params["name"].as_str().ok_or_else(|| bad("a call needs the name of a tool".to_owned()))?;
    // Other tools are the program's own. Only flock's are offered here.
    if !policy::is_flocks_own(tool) {
        return Err(bad(format!("there is no tool {:?}", safe_text::start(tool, MAX_NAME))));
    }
    let arguments = match &params["arguments"] {
        Value::Null => json!({}),
        Value::Object(arguments) => Value::Object(arguments.clone()),
        _ => return Err(bad("arguments are an object".to_owned())),
    };
    // The call ends with this future too, because a client may close the connection to stop its call.
    let called = ticket.call(id);
    let cancel = called.cancel.clone();
    let asked = IncomingCall { id: call_id(&params["_meta"], id), tool: tool.to_owned(), arguments, cancel };
    let answered = tokio::select! {
        // The cancellation is polled first. The running tool sees it too and would report it as its result.
        biased;
        () = called.cancel.cancelled() => return Ok(None),
        answered = run(gateway, ticket, asked) => answered,
    };
    Ok(Some(plugin::call_result(&answered)))
}

async fn run(gateway: &Gateway, ticket: &Ticket, asked: IncomingCall) -> ToolCallResponse {
    tokio::select! {
        answered = plugin::run_call(gateway, &ticket.source, asked, CALL) => answered,
        () = ticket.over.cancelled() => ToolCallResponse {
            content: vec![Block::text("not completed: the turn was ended; the effect of the call is unknown")],
            is_error: true,
        },
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

    #[test]
    fn a_known_version_is_answered_with_itself_and_another_with_the_newest() {
        for version in VERSIONS {
            assert_eq!(initialize_result(&json!({"protocolVersion": version}))["protocolVersion"], version);
        }
        for params in [
            json!({"protocolVersion": "1999-01-01"}),
            json!({"protocolVersion": 5}),
            json!({"protocolVersion": "2025-03-26"}),
            Value::Null,
        ] {
            assert_eq!(initialize_result(&params)["protocolVersion"], "2025-11-25");
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
