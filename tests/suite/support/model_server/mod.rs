//! A model API over real HTTP, for tests and for measurements: Anthropic's Messages, OpenAI's chat
//! completions and Responses, and Google's generateContent on one port. It answers `ok` at once unless it was told what to answer, keeps what it was
//! asked, and refuses with 400 what the real ones refuse.
//!
//! It runs on a thread of its own, so that tests with and without a runtime can use it.

pub mod check;
pub mod google;
mod minimax;
mod render;
pub mod responses;
mod strict;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A running server; it ends when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

/// What the server was asked.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HeaderMap,
    pub body: Value,
    /// The body as it was sent.
    pub bytes: Vec<u8>,
}

impl Received {
    /// A header's value, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

#[derive(Default)]
struct Shared {
    replies: Mutex<VecDeque<Reply>>,
    always: Mutex<Option<Reply>>,
    requests: Mutex<Vec<Received>>,
    rejections: Mutex<Vec<String>>,
    forgetful: AtomicBool,
    connections: AtomicUsize,
}

/// One answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A model's answer, written in the format of the request.
    Answer(Answer),
    /// Anything else, byte by byte.
    Raw { status: u16, headers: Vec<(String, String)>, chunks: Vec<Chunk> },
}

/// A model's answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Sent before all else, in one piece.
    pub thinking: String,
    /// The text, a piece for each delta.
    pub pieces: Vec<String>,
    /// Tool calls: id, name, arguments as they are written.
    pub calls: Vec<(String, String, String)>,
    /// Input and output tokens.
    pub usage: (u64, u64),
    /// How many of the input's come from the provider's cache.
    pub cached: u64,
    /// In OpenAI's words: `stop`, `length`, `tool_calls`.
    pub finish: Option<String>,
}

/// A part of a raw answer.
#[derive(Clone, Debug)]
pub enum Chunk {
    Bytes(Vec<u8>),
    Pause(Duration),
    /// Waits until it is let go on.
    Until(Arc<Notify>),
    /// Sends nothing more and keeps the connection.
    Hang,
    /// Breaks the connection off.
    Reset,
    /// Sends nothing more and tells when the connection is gone.
    UntilGone(Arc<Mutex<Option<tokio::sync::oneshot::Sender<()>>>>),
}

impl Reply {
    pub fn text(text: &str) -> Self {
        Self::pieces(&[text])
    }

    pub fn pieces(pieces: &[&str]) -> Self {
        let pieces = pieces.iter().map(|piece| (*piece).to_owned()).collect();
        Self::Answer(Answer { pieces, usage: (10, 5), ..Answer::default() })
    }

    /// A call of one tool.
    pub fn call(id: &str, name: &str, arguments: &Value) -> Self {
        Self::calls(&[(id, name, &arguments.to_string())])
    }

    /// Calls of tools: id, name, arguments as they are written, broken ones too.
    pub fn calls(calls: &[(&str, &str, &str)]) -> Self {
        let owned = |(id, name, arguments): &(&str, &str, &str)| {
            ((*id).to_owned(), (*name).to_owned(), (*arguments).to_owned())
        };
        Self::Answer(Answer { calls: calls.iter().map(owned).collect(), usage: (10, 5), ..Answer::default() })
    }

    /// A failure with OpenAI's and Anthropic's common shape.
    pub fn status(status: u16, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": "test_error", "message": message}});
        Self::Raw {
            status,
            headers: vec![("content-type".into(), "application/json".into())],
            chunks: vec![Chunk::Bytes(body.to_string().into_bytes())],
        }
    }

    /// A body of this type.
    pub fn body(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::Raw {
            status,
            headers: vec![("content-type".into(), content_type.into())],
            chunks: vec![Chunk::Bytes(body.into())],
        }
    }

    /// A stream of events of one's own.
    pub fn stream(chunks: Vec<Chunk>) -> Self {
        Self::Raw { status: 200, headers: vec![("content-type".into(), "text/event-stream".into())], chunks }
    }

    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Self::Raw { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }
}

impl From<&str> for Chunk {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl ModelServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (send, receive) = std::sync::mpsc::channel();
        let state = shared.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                send.send(listener.local_addr().unwrap()).unwrap();
                let counter = state.clone();
                let listener = listener.tap_io(move |stream| {
                    counter.connections.fetch_add(1, Relaxed);
                    let _ = stream.set_nodelay(true);
                });
                let server = axum::serve(listener, router(state)).into_future();
                tokio::select! {
                    _ = server => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address: receive.recv().unwrap(), shared, stop: Some(stop) }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The base URL of the Anthropic format.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The base URL of the OpenAI format.
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Answers one request with this; replies are used up in order, then it is `ok` again.
    pub fn reply(&self, reply: Reply) -> &Self {
        self.shared.replies.lock().unwrap().push_back(reply);
        self
    }

    /// Answers one request with `beginning` and nothing more; the receiver hears when the client has gone.
    pub fn reply_until_gone(&self, beginning: Chunk) -> tokio::sync::oneshot::Receiver<()> {
        let (send, receive) = tokio::sync::oneshot::channel();
        let gone = Chunk::UntilGone(Arc::new(Mutex::new(Some(send))));
        self.reply(Reply::stream(vec![beginning, gone]));
        receive
    }

    /// Answers one request of chat completions with this text, once the result is notified.
    pub fn reply_held(&self, text: &str) -> Arc<Notify> {
        let answer = Answer { pieces: vec![text.to_owned()], usage: (10, 5), ..Answer::default() };
        let (_, events) = render::openai(&json!({"stream": true}), &answer);
        let release = Arc::new(Notify::new());
        let chunks = vec![Chunk::Until(Arc::clone(&release)), Chunk::Bytes(events.into_bytes())];
        self.reply(Reply::stream(chunks));
        release
    }

    /// Answers every request with this for which there is no [`ModelServer::reply`].
    pub fn always(&self, reply: Reply) -> &Self {
        *self.shared.always.lock().unwrap() = Some(reply);
        self
    }

    /// Keeps no requests, for measurements over many.
    pub fn forget_requests(&self) -> &Self {
        self.shared.forgetful.store(true, Relaxed);
        self
    }

    /// What it was asked, oldest first.
    pub fn requests(&self) -> Vec<Received> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// How many connections it has taken.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Relaxed)
    }

    /// Why it refused requests that a real API would refuse.
    pub fn rejections(&self) -> Vec<String> {
        self.shared.rejections.lock().unwrap().clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

struct TellsWhenDropped(Arc<Mutex<Option<tokio::sync::oneshot::Sender<()>>>>);

impl Drop for TellsWhenDropped {
    fn drop(&mut self) {
        if let Some(send) = self.0.lock().unwrap().take() {
            let _ = send.send(());
        }
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count))
        .route("/anthropic/v1/messages", post(minimax))
        .route("/openai/v1/responses", post(azure))
        .route("/v1/chat/completions", post(completions))
        .route("/v1/responses", post(responses))
        .route("/backend-api/codex/responses", post(codex))
        .route("/v1beta/models/{method}", post(generate))
        .route(
            "/v1/models",
            get(|| async { Json(json!({"object": "list", "data": [{"id": "test-model"}]})) }),
        )
        .layer(DefaultBodyLimit::max(64 * 1024 * 1024))
        .with_state(shared)
}

async fn messages(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, &uri, headers, &body, check::anthropic, render::anthropic)
}

async fn count(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let counted = |_: &Value, _: &Answer| ("application/json", r#"{"input_tokens": 12}"#.to_owned());
    answer(&shared, &uri, headers, &body, |_, _| Ok(()), counted)
}

async fn minimax(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, &uri, headers, &body, minimax::check, render::anthropic)
}

async fn azure(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, &uri, headers, &body, responses::azure, responses::render)
}

async fn completions(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    answer(&shared, &uri, headers, &body, |_, body| check::openai(body), render::openai)
}

async fn responses(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, &uri, headers, &body, responses::public, responses::render)
}

async fn codex(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    answer(&shared, &uri, headers, &body, responses::codex, responses::render)
}

async fn generate(State(shared): State<Arc<Shared>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let check = |headers: &HeaderMap, body: &Value| google::check(&uri, headers, body);
    answer(&shared, &uri, headers, &body, check, google::render)
}

fn answer(
    shared: &Shared,
    uri: &Uri,
    headers: HeaderMap,
    bytes: &[u8],
    check: impl Fn(&HeaderMap, &Value) -> Result<(), String>,
    render: fn(&Value, &Answer) -> (&'static str, String),
) -> Response {
    let Ok(body) = serde_json::from_slice::<Value>(bytes) else {
        shared.rejections.lock().unwrap().push("not JSON".to_owned());
        return respond(Reply::status(400, "not JSON"));
    };
    let reply = match check(&headers, &body) {
        Err(reason) => {
            shared.rejections.lock().unwrap().push(reason.clone());
            Reply::status(400, &reason)
        }
        Ok(()) => {
            let next = shared.replies.lock().unwrap().pop_front();
            next.or_else(|| shared.always.lock().unwrap().clone()).unwrap_or_else(|| Reply::text("ok"))
        }
    };
    let response = match reply {
        Reply::Answer(answer) => {
            let (content_type, text) = render(&body, &answer);
            Response::builder().header("content-type", content_type).body(Body::from(text)).unwrap()
        }
        raw @ Reply::Raw { .. } => respond(raw),
    };
    if !shared.forgetful.load(Relaxed) {
        let path = uri.path().to_owned();
        shared.requests.lock().unwrap().push(Received { path, headers, body, bytes: bytes.to_vec() });
    }
    response
}

fn respond(reply: Reply) -> Response {
    let Reply::Raw { status, headers, chunks } = reply else { unreachable!("rendered before") };
    let mut response = Response::builder().status(StatusCode::from_u16(status).unwrap());
    for (name, value) in headers {
        response = response.header(name, value);
    }
    let stream = futures_util::stream::unfold(chunks.into_iter(), |mut chunks| async move {
        loop {
            match chunks.next()? {
                Chunk::Bytes(bytes) => return Some((Ok(Bytes::from(bytes)), chunks)),
                Chunk::Pause(time) => tokio::time::sleep(time).await,
                Chunk::Until(release) => release.notified().await,
                Chunk::Hang => std::future::pending::<()>().await,
                Chunk::UntilGone(gone) => {
                    let _tells = TellsWhenDropped(gone);
                    std::future::pending::<()>().await;
                }
                Chunk::Reset => {
                    // What was sent before goes out while this waits.
                    tokio::task::yield_now().await;
                    return Some((Err(io::Error::other("reset")), chunks));
                }
            }
        }
    });
    response.body(Body::from_stream(stream)).unwrap()
}
