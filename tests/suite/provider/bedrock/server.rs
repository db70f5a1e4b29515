//! A Bedrock over real HTTP: it checks each signature, refuses what Converse refuses, and answers in binary frames.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use serde_json::{Value, json};

use super::frames::event;
use super::{check, signature};

pub struct BedrockServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
    /// The body as it was sent.
    pub bytes: Vec<u8>,
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<(u16, Vec<u8>)>>,
    requests: Mutex<Vec<Received>>,
    rejections: Mutex<Vec<String>>,
}

/// An answer of these events, and its end.
pub fn answer(events: &[(&str, Value)], stop: &str, usage: &Value) -> Vec<u8> {
    let mut bytes = event("messageStart", &json!({"role": "assistant", "p": "abc"}));
    for (name, payload) in events {
        bytes.extend(event(name, payload));
    }
    bytes.extend(event("messageStop", &json!({"stopReason": stop})));
    bytes.extend(event("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 1}})));
    bytes
}

impl BedrockServer {
    pub async fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().fallback(converse).with_state(shared.clone());
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, shared, task }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn reply(&self, status: u16, body: Vec<u8>) -> &Self {
        self.shared.replies.lock().unwrap().push_back((status, body));
        self
    }

    pub fn last(&self) -> Received {
        self.shared.requests.lock().unwrap().pop().unwrap()
    }

    /// The bytes of the last request, which stays; `None` where there was none.
    pub fn last_bytes(&self) -> Option<Vec<u8>> {
        self.shared.requests.lock().unwrap().last().map(|last| last.bytes.clone())
    }

    pub fn rejections(&self) -> Vec<String> {
        self.shared.rejections.lock().unwrap().clone()
    }
}

impl Drop for BedrockServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn converse(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let path = uri.path().to_owned();
    let refused = look(&path, &headers, &body);
    let (status, bytes) = if let Err((status, reason)) = refused {
        shared.rejections.lock().unwrap().push(reason.clone());
        (status, json!({"message": reason}).to_string().into_bytes())
    } else {
        let usage = json!({"inputTokens": 1, "outputTokens": 1});
        let delta = json!({"contentBlockIndex": 0, "delta": {"text": "ok"}});
        let next = shared.replies.lock().unwrap().pop_front();
        next.unwrap_or_else(|| (200, answer(&[("contentBlockDelta", delta)], "end_turn", &usage)))
    };
    let sent = body;
    let body = serde_json::from_slice(&sent).unwrap_or_default();
    shared.requests.lock().unwrap().push(Received { path, headers, body, bytes: sent.to_vec() });
    let kind = if status == 200 { "application/vnd.amazon.eventstream" } else { "application/json" };
    Response::builder().status(status).header("content-type", kind).body(Body::from(bytes)).unwrap()
}

fn look(path: &str, headers: &HeaderMap, body: &[u8]) -> Result<(), (u16, String)> {
    let model = path.strip_prefix("/model/").and_then(|rest| rest.strip_suffix("/converse-stream"));
    let model = model.filter(|model| !model.contains('/')).ok_or((404, "no such operation".to_owned()))?;
    let bearer =
        headers.get("authorization").is_some_and(|value| value == "Bearer ABSKplanted-key-0123456789");
    if !bearer {
        signature::check(path, headers, body, super::SECRET).map_err(|reason| (403, reason))?;
    }
    let body = serde_json::from_slice(body).map_err(|error| (400, error.to_string()))?;
    check::converse(model, &body).map_err(|reason| (400, reason))
}
