//! `flock mcp` without a verb: flock's tools over stdin and stdout, for a program that runs an agent's turn and can't use
//! MCP over HTTP.
//!
//! It only passes messages on. The gateway decides from the turn's token who may call what.

use std::io::{BufRead as _, Read as _};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::Uri;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cli::{Context, Exit, Failure};
use crate::env;
use crate::error::{Kind, chain};
use crate::gateway::routes::mcp::MAX_BODY;
use crate::runtime::program::environment;
use crate::supervise::gateway_client::{Call, Client, GatewayClientError, ServerSentEvents};

/// Time limit for one message, slightly longer than the gateway's limit for a call.
const TIMEOUT: Duration = environment::FORWARD_TIMEOUT;

/// Largest answer in bytes.
const MAX_RESPONSE: usize = 32 << 20;

/// Number of messages that are in progress at once. Further ones are not read. The gateway limits how many calls run.
const MAX_CONCURRENT: usize = 64;

/// JSON-RPC error code for errors that are not an answer of the gateway's tools.
const ERROR_CODE: i32 = -32_000;

/// Passes each line of stdin to the gateway and each answer to stdout.
///
/// The end of stdin ends the running calls, because their caller is gone.
///
/// # Errors
///
/// Returns an error if the environment does not hold the gateway's URL and the turn's token.
pub(super) fn run(context: &Context) -> Result<Exit, Failure> {
    let gateway = gateway()?;
    context.block_on(async {
        let mut lines = read();
        let mut under_way = JoinSet::new();
        let mut calls = RunningCalls::default();
        let (news, mut heard) = mpsc::channel(MAX_CONCURRENT);
        loop {
            tokio::select! {
                // The progress of a call is printed before its answer.
                biased;
                Some(message) = heard.recv() => context.printer.json_line(&message),
                line = lines.recv(), if under_way.len() < MAX_CONCURRENT => {
                    let Some(line) = line else { break };
                    match McpMessage::of(&line) {
                        // The cancellation is handled here. By way of the gateway it could arrive before the call that
                        // it ends.
                        McpMessage::Cancel(id) => calls.cancel(&id),
                        McpMessage::Call(id) => {
                            let ends = calls.begin(&id);
                            let carried = forward(gateway.clone(), line, news.clone());
                            under_way.spawn(await_call(id, carried, ends, calls.over.clone()));
                        }
                        McpMessage::Other => {
                            under_way.spawn(forward(gateway.clone(), line, news.clone()));
                        }
                    }
                }
                Some(done) = under_way.join_next() => print_answer(done, context),
            }
            if context.printer.closed() {
                return Ok(Exit::Done);
            }
        }
        // The answers of the ended calls are still written: the caller may only have closed its side for writing.
        calls.over.cancel();
        while let Some(done) = under_way.join_next().await {
            print_answer(done, context);
        }
        Ok(Exit::Done)
    })
}

/// A message, as far as this program has to understand it.
enum McpMessage {
    /// A request that a tool answers, with its id.
    Call(Value),
    /// The cancellation of the request with this id.
    Cancel(Value),
    Other,
}

impl McpMessage {
    fn of(line: &[u8]) -> Self {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        match (message["method"].as_str(), message.get("id")) {
            (Some("tools/call" | "resources/read" | "prompts/get"), Some(id)) => Self::Call(id.clone()),
            (Some("notifications/cancelled"), None) => Self::Cancel(message["params"]["requestId"].clone()),
            _ => Self::Other,
        }
    }
}

/// The running calls and the tokens that end them.
#[derive(Default)]
struct RunningCalls {
    /// The request id of each call, and the token that ends only this call.
    running: Vec<(Value, CancellationToken)>,
    /// The token that ends all calls.
    over: CancellationToken,
}

impl RunningCalls {
    /// Registers a call. The returned token ends it without an answer.
    fn begin(&mut self, id: &Value) -> CancellationToken {
        // Finished calls cancel their own token, so the list is cleaned up here.
        self.running.retain(|(_, ends)| !ends.is_cancelled());
        let ends = self.over.child_token();
        self.running.push((id.clone(), ends.clone()));
        ends
    }

    fn cancel(&self, request: &Value) {
        self.running.iter().filter(|(id, _)| id == request).for_each(|(_, ends)| ends.cancel());
    }
}

/// Waits for the answer of a call or for its end. Ending it closes its connection, and the gateway then cancels the
/// call.
async fn await_call(
    id: Value,
    carried: impl Future<Output = Option<Value>>,
    ends: CancellationToken,
    over: CancellationToken,
) -> Option<Value> {
    let answer = ends.run_until_cancelled(carried).await;
    ends.cancel();
    // A caller that cancelled its call does not expect an answer. Only the end of stdin gives one.
    let cut_off =
        || over.is_cancelled().then(|| error_response(&id, "the call was ended: standard input has ended"));
    answer.unwrap_or_else(cut_off)
}

fn print_answer(done: Result<Option<Value>, tokio::task::JoinError>, context: &Context) {
    if let Ok(Some(answer)) = done {
        context.printer.json_line(&answer);
    }
}

/// The gateway's MCP endpoint.
#[derive(Clone)]
struct Endpoint {
    /// A client with the turn's token.
    client: Client,
    path: String,
    /// The version that was agreed on. A client over HTTP repeats it with each message.
    version: Arc<OnceLock<String>>,
}

/// Returns the MCP endpoint that the environment names.
fn gateway() -> Result<Endpoint, Failure> {
    let missing = |var: env::Var| {
        Failure::new(Kind::Usage, format!("{} is not set: flock sets it for the programs it runs", var.name))
    };
    let url = env::MCP_URL.get().ok_or_else(|| missing(env::MCP_URL))?;
    let token = env::MCP_TOKEN.get().ok_or_else(|| missing(env::MCP_TOKEN))?;
    let uri: Option<Uri> = url.parse().ok();
    // The token must never go to another host, so only a URL on loopback is accepted.
    let here = uri.filter(|uri| {
        uri.scheme_str() == Some("http") && matches!(uri.host(), Some("127.0.0.1" | "localhost"))
    });
    let Some((uri, port)) = here.and_then(|uri| uri.port_u16().map(|port| (uri, port))) else {
        let text = format!("{} is not http://127.0.0.1:PORT/mcp", env::MCP_URL.name);
        return Err(Failure::new(Kind::Usage, text));
    };
    let client = Client::new(port).with_token(&token);
    Ok(Endpoint { client, path: uri.path().to_owned(), version: Arc::default() })
}

/// Reads stdin line by line.
///
/// The thread is not joined at the end: it blocks in a read that only the other program can end.
fn read() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            // One byte more than the gateway accepts, so that the gateway refuses the message. The rest of the line is
            // skipped.
            let mut bounded = (&mut input).take(MAX_BODY as u64 + 1);
            match bounded.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.len() > MAX_BODY && !line.ends_with(b"\n") && input.skip_until(b'\n').is_err() {
                return;
            }
            if !line.trim_ascii().is_empty() && sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Sends a message and returns its answer. A notification has none. `news` gets what comes before the answer.
async fn forward(gateway: Endpoint, line: Vec<u8>, news: mpsc::Sender<Value>) -> Option<Value> {
    let answer = async {
        let mut call = Call::post(&gateway.path)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .bytes(line.trim_ascii());
        if let Some(version) = gateway.version.get() {
            call = call.header("mcp-protocol-version", version);
        }
        let answer = gateway.client.send(call, TIMEOUT).await?;
        if answer.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return last_of_stream(answer.events(), &news).await;
        }
        let bytes = answer.bytes(MAX_RESPONSE, TIMEOUT).await?;
        Ok::<_, GatewayClientError>(serde_json::from_slice::<Value>(&bytes).ok())
    };
    let text = match answer.await {
        Ok(Some(answer)) if answer["jsonrpc"] == "2.0" => {
            // Only the answer to `initialize` has it.
            if let Some(version) = answer["result"]["protocolVersion"].as_str() {
                gateway.version.get_or_init(|| version.to_owned());
            }
            return Some(answer);
        }
        // The gateway refused the request before it read the message, so the error has flock's own format.
        Ok(Some(refusal)) => {
            refusal["error"]["message"].as_str().unwrap_or("the gateway refused it").to_owned()
        }
        Ok(None) => return None,
        Err(error) => chain(&error),
    };
    let message: Value = serde_json::from_slice(&line).unwrap_or_default();
    // A notification has no id and expects no answer. Invalid JSON is answered with a null id, as JSON-RPC requires.
    let id = message.get("id").cloned().or_else(|| message.is_null().then_some(Value::Null))?;
    Some(error_response(&id, &text))
}

/// Reads a stream up to the answer in it.
async fn last_of_stream(
    mut events: ServerSentEvents,
    news: &mpsc::Sender<Value>,
) -> Result<Option<Value>, GatewayClientError> {
    while let Some(event) = events.next(TIMEOUT).await? {
        let Ok(message) = serde_json::from_str::<Value>(&event.data) else { continue };
        if message.get("id").is_some() {
            return Ok(Some(message));
        }
        // Standard output that nobody reads holds up the call alone.
        drop(news.send(message).await);
    }
    Ok(None)
}

fn error_response(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": ERROR_CODE, "message": text}})
}
