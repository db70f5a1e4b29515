//! `flock mcp`: flock's tools over standard input and output, for a program that runs an agent's turn and does not speak
//! MCP over HTTP. It only carries messages: who may call what is decided by the gateway, from the turn's token.

use std::io::{BufRead as _, Read as _};
use std::time::Duration;

use hyper::Uri;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Context, Exit, Failure};
use crate::env;
use crate::error::{Kind, chain};
use crate::gateway::routes::mcp::MOST;
use crate::runtime::cli::handed;
use crate::supervise::loopback::{Call, Client, LoopbackError};

/// How long a message may take: a little longer than the gateway gives a call.
const LIMIT: Duration = handed::CARRY;

/// The most bytes of an answer.
const MOST_BACK: usize = 32 << 20;

/// Messages that are carried at once; further ones are not read. How many of the calls run is the gateway's matter.
const AT_ONCE: usize = 64;

/// The code for what is no answer of the gateway's tools.
const FAILED: i32 = -32_000;

/// Carry MCP messages between a program and the gateway
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Carries each line of stdin to the gateway and each answer to stdout. The end of stdin ends the calls that run: whoever
/// made them has gone.
///
/// # Errors
///
/// If the environment does not say where the gateway is and whose turn this is.
pub fn run(_: &Args, context: &Context) -> Result<Exit, Failure> {
    let (gateway, path) = gateway()?;
    context.block_on(async {
        let mut lines = read();
        let mut under_way = JoinSet::new();
        let mut calls = Calls::default();
        loop {
            tokio::select! {
                line = lines.recv(), if under_way.len() < AT_ONCE => {
                    let Some(line) = line else { break };
                    match Said::of(&line) {
                        // Here and not by way of the gateway: there it might come before the call itself.
                        Said::Cancel(id) => calls.cancel(&id),
                        Said::Call(id) => {
                            let ends = calls.begin(&id);
                            let carried = carry(gateway.clone(), path.clone(), line);
                            under_way.spawn(called(id, carried, ends, calls.over.clone()));
                        }
                        Said::Other => {
                            under_way.spawn(carry(gateway.clone(), path.clone(), line));
                        }
                    }
                }
                Some(done) = under_way.join_next() => tell(done, context),
            }
            if context.printer.closed() {
                return Ok(Exit::Done);
            }
        }
        calls.over.cancel();
        while let Some(done) = under_way.join_next().await {
            tell(done, context);
        }
        Ok(Exit::Done)
    })
}

/// What a message is, as far as it matters here.
enum Said {
    /// The call of a tool, with its id.
    Call(Value),
    /// The end of the request with this id.
    Cancel(Value),
    Other,
}

impl Said {
    fn of(line: &[u8]) -> Self {
        let message: Value = serde_json::from_slice(line).unwrap_or_default();
        match (message["method"].as_str(), message.get("id")) {
            (Some("tools/call"), Some(id)) => Self::Call(id.clone()),
            (Some("notifications/cancelled"), None) => Self::Cancel(message["params"]["requestId"].clone()),
            _ => Self::Other,
        }
    }
}

/// What ends the calls that run.
#[derive(Default)]
struct Calls {
    /// Of each its request, and what ends it alone.
    running: Vec<(Value, CancellationToken)>,
    /// Ends all of them.
    over: CancellationToken,
}

impl Calls {
    /// A call begins; what is given ends it without an answer.
    fn begin(&mut self, id: &Value) -> CancellationToken {
        self.running.retain(|(_, ends)| !ends.is_cancelled());
        let ends = self.over.child_token();
        self.running.push((id.clone(), ends.clone()));
        ends
    }

    fn cancel(&self, request: &Value) {
        self.running.iter().filter(|(id, _)| id == request).for_each(|(_, ends)| ends.cancel());
    }
}

/// Waits for a call's answer or its end. Where it is ended, its connection is closed, and the gateway ends it there.
async fn called(
    id: Value,
    carried: impl Future<Output = Option<Value>>,
    ends: CancellationToken,
    over: CancellationToken,
) -> Option<Value> {
    let answer = ends.run_until_cancelled(carried).await;
    ends.cancel();
    // Who cancelled it waits for no answer.
    let cut_off = || over.is_cancelled().then(|| failed(&id, "the call was ended: standard input has ended"));
    answer.unwrap_or_else(cut_off)
}

fn tell(done: Result<Option<Value>, tokio::task::JoinError>, context: &Context) {
    if let Ok(Some(answer)) = done {
        context.printer.json_line(&answer);
    }
}

/// Where the gateway is, with the turn's token.
fn gateway() -> Result<(Client, String), Failure> {
    let missing = |var: env::Var| {
        Failure::new(Kind::Usage, format!("{} is not set: flock sets it for the programs it runs", var.name))
    };
    let url = env::MCP_URL.get().ok_or_else(|| missing(env::MCP_URL))?;
    let token = env::MCP_TOKEN.get().ok_or_else(|| missing(env::MCP_TOKEN))?;
    let uri: Option<Uri> = url.parse().ok();
    let here = uri.filter(|uri| {
        uri.scheme_str() == Some("http") && matches!(uri.host(), Some("127.0.0.1" | "localhost"))
    });
    let Some((uri, port)) = here.and_then(|uri| uri.port_u16().map(|port| (uri, port))) else {
        let text = format!("{} is not http://127.0.0.1:PORT/mcp", env::MCP_URL.name);
        return Err(Failure::new(Kind::Usage, text));
    };
    Ok((Client::new(port).with_token(&token), uri.path().to_owned()))
}

/// Stdin by lines. The thread is left alone at the end: it hangs in a read that only the other program can end.
fn read() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            // One byte more than the gateway takes, so that it refuses it; the rest of the line is passed over.
            let mut bounded = (&mut input).take(MOST as u64 + 1);
            match bounded.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            if line.len() > MOST && !line.ends_with(b"\n") && input.skip_until(b'\n').is_err() {
                return;
            }
            if !line.trim_ascii().is_empty() && sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Has a message answered; none where it is a notification.
async fn carry(gateway: Client, path: String, line: Vec<u8>) -> Option<Value> {
    let answer = async {
        let call = Call::post(&path).header("content-type", "application/json").bytes(line.trim_ascii());
        let answer = gateway.send(call, LIMIT).await?;
        let bytes = answer.bytes(MOST_BACK, LIMIT).await?;
        Ok::<_, LoopbackError>(serde_json::from_slice::<Value>(&bytes).ok())
    };
    let text = match answer.await {
        Ok(Some(answer)) if answer["jsonrpc"] == "2.0" => return Some(answer),
        // Refused before it was looked at as a message: flock's own form of an error.
        Ok(Some(refusal)) => {
            refusal["error"]["message"].as_str().unwrap_or("the gateway refused it").to_owned()
        }
        Ok(None) => return None,
        Err(error) => chain(&error),
    };
    let message: Value = serde_json::from_slice(&line).unwrap_or_default();
    // Nobody waits for the answer to a notification.
    let id = message.get("id").cloned().or_else(|| message.is_null().then_some(Value::Null))?;
    Some(failed(&id, &text))
}

fn failed(id: &Value, text: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": FAILED, "message": text}})
}
