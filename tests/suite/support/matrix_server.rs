//! A Matrix homeserver with one private room over real HTTP. It has what flock asks when it adds a bridge, links a
//! channel and follows the room, and keeps what was sent to it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::served_router::ServedRouter;

/// The token that the homeserver accepts.
pub const TOKEN: &str = "syt_flock_of_the_test";
/// The alias and the id of the room, whose members are `@flock:h` and `@ann:h`.
pub const ALIAS: &str = "#room:h";
pub const ROOM: &str = "!room:h";

/// A running homeserver; it ends when this is dropped.
pub struct MatrixServer {
    url: String,
    shared: Arc<Shared>,
    _served: ServedRouter,
}

#[derive(Default)]
struct Shared {
    /// The requests to show a message: its key and its content. A repeated request has the same key.
    attempts: Mutex<Vec<(String, Value)>>,
    is_silent: AtomicBool,
    /// The messages of `@ann:h`, as events.
    said: watch::Sender<Vec<Value>>,
    followers: AtomicUsize,
    most_followers: AtomicUsize,
}

impl Shared {
    /// Takes a message. Returns the number of its event, which is the same for the same key.
    fn take(&self, key: &str, content: Value) -> usize {
        let mut attempts = self.attempts.lock().unwrap();
        attempts.push((key.to_owned(), content));
        shown(&attempts).iter().position(|(known, _)| known == key).unwrap() + 1
    }
}

/// Returns the first attempt at each message.
fn shown(attempts: &[(String, Value)]) -> Vec<&(String, Value)> {
    let mut shown: Vec<&(String, Value)> = Vec::new();
    for attempt in attempts {
        if shown.iter().all(|(known, _)| *known != attempt.0) {
            shown.push(attempt);
        }
    }
    shown
}

/// A request for events that is open.
struct Following<'s>(&'s Shared);

impl<'s> Following<'s> {
    fn new(shared: &'s Shared) -> Self {
        let now = shared.followers.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_followers.fetch_max(now, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Following<'_> {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl MatrixServer {
    pub fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let served = ServedRouter::start(Router::new().fallback(answer).with_state(shared.clone()));
        Self { url: format!("http://{}", served.address), shared, _served: served }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The content of the messages that the room shows, each once however often it was sent.
    pub fn sent(&self) -> Vec<Value> {
        let attempts = self.shared.attempts.lock().unwrap();
        shown(&attempts).into_iter().map(|(_, content)| content.clone()).collect()
    }

    /// Returns how often a message with this text was sent.
    pub fn attempts(&self, text: &str) -> usize {
        let attempts = self.shared.attempts.lock().unwrap();
        let has_text = |content: &Value| content["body"].as_str().is_some_and(|body| body.contains(text));
        attempts.iter().filter(|(_, content)| has_text(content)).count()
    }

    /// Shows what is sent from now on and gives no answer, or answers again.
    pub fn be_silent(&self, is_silent: bool) {
        self.shared.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// Says something in the room as `@ann:h`.
    pub fn say(&self, text: &str) {
        let now = jiff::Timestamp::now().as_millisecond();
        self.shared.said.send_modify(|said| {
            let id = format!("$said-{}", said.len() + 1);
            said.push(json!({
                "type": "m.room.message", "event_id": id, "sender": "@ann:h", "origin_server_ts": now,
                "content": {"msgtype": "m.text", "body": text},
            }));
        });
    }

    /// The most requests for events that were open at the same time.
    pub fn most_followers(&self) -> usize {
        self.shared.most_followers.load(Ordering::SeqCst)
    }
}

async fn answer(
    State(shared): State<Arc<Shared>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Json<Value>) {
    let fault = |status, code: &str| (status, Json(json!({"errcode": code, "error": code})));
    let path = decoded(uri.path());
    let path = path.strip_prefix("/_matrix/client/v3/").unwrap_or_default();
    // Anybody may look an alias up.
    if path == format!("directory/room/{ALIAS}") {
        return (StatusCode::OK, Json(json!({"room_id": ROOM, "servers": ["h"]})));
    }
    if headers.get("authorization").is_none_or(|value| value != &format!("Bearer {TOKEN}")) {
        return fault(StatusCode::UNAUTHORIZED, "M_UNKNOWN_TOKEN");
    }
    if path == "sync" {
        return (StatusCode::OK, Json(follow(&shared, uri.query().unwrap_or_default()).await));
    }
    let in_room = path.strip_prefix("rooms/").and_then(|rest| rest.split_once('/'));
    let found = match (path, in_room) {
        ("account/whoami", _) => json!({"user_id": "@flock:h"}),
        (_, Some((ROOM, "join"))) => json!({"room_id": ROOM}),
        (_, Some((ROOM, "joined_members"))) => json!({"joined": {"@flock:h": {}, "@ann:h": {}}}),
        (_, Some((ROOM, state))) if state.starts_with("state/m.room.join_rules") => {
            json!({"join_rule": "invite"})
        }
        (_, Some((ROOM, send))) if send.starts_with("send/") && method == Method::PUT => {
            let number = shared.take(send, serde_json::from_slice(&body).unwrap_or_default());
            if shared.is_silent.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            json!({"event_id": format!("$event-{number}")})
        }
        (_, Some((ROOM, event))) if event.starts_with("event/$event-") => json!({
            "event_id": event.strip_prefix("event/"), "room_id": ROOM, "sender": "@flock:h", "type": "m.room.message",
            "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": "x"},
        }),
        _ => return fault(StatusCode::NOT_FOUND, "M_NOT_FOUND"),
    };
    (StatusCode::OK, Json(found))
}

/// Answers with what was said since a position, and waits for it as long as the request asks.
async fn follow(shared: &Shared, query: &str) -> Value {
    let number = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs
            .find(|(key, _)| *key == name)
            .and_then(|(_, value)| value.parse::<u64>().ok())
            .unwrap_or_default()
    };
    let since = usize::try_from(number("since")).unwrap();
    let wait = Duration::from_millis(number("timeout"));
    let _following = Following::new(shared);
    let mut changes = shared.said.subscribe();
    drop(tokio::time::timeout(wait, changes.wait_for(|said| said.len() > since)).await);
    let said = shared.said.borrow();
    let mut answer = json!({"next_batch": said.len().to_string()});
    let events = said.get(since..).unwrap_or_default();
    if !events.is_empty() {
        answer["rooms"]["join"][ROOM]["timeline"]["events"] = json!(events);
    }
    answer
}

/// Replaces the encoded characters of a path.
fn decoded(path: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = (*first == b'%').then(|| std::str::from_utf8(tail.get(..2)?).ok()).flatten();
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => (bytes, rest) = ([bytes, vec![byte]].concat(), &tail[2..]),
            None => (bytes, rest) = ([bytes, vec![*first]].concat(), tail),
        }
    }
    String::from_utf8(bytes).unwrap_or_default()
}
