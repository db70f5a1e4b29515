//! A Matrix homeserver with one private room over real HTTP. It has what flock asks when it adds a bridge and links a
//! channel, and keeps what was sent to it.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::{Json, Router};
use serde_json::{Value, json};

/// The token that the homeserver accepts.
pub const TOKEN: &str = "syt_flock_of_the_test";
/// The alias and the id of the room, whose members are `@flock:h` and `@ann:h`.
pub const ALIAS: &str = "#room:h";
pub const ROOM: &str = "!room:h";

/// A running homeserver; it ends when this is dropped.
pub struct MatrixServer {
    url: String,
    shared: Arc<Shared>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

#[derive(Default)]
struct Shared {
    sent: Mutex<Vec<Value>>,
}

impl MatrixServer {
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
                let router = Router::new().fallback(answer).with_state(state);
                tokio::select! {
                    _ = axum::serve(listener, router).into_future() => {}
                    _ = stopped => {}
                }
            });
        });
        Self { url: format!("http://{}", receive.recv().unwrap()), shared, stop: Some(stop) }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The content of the messages that were sent to the room.
    pub fn sent(&self) -> Vec<Value> {
        self.shared.sent.lock().unwrap().clone()
    }
}

impl Drop for MatrixServer {
    fn drop(&mut self) {
        drop(self.stop.take());
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
    let in_room = path.strip_prefix("rooms/").and_then(|rest| rest.split_once('/'));
    let found = match (path, in_room) {
        ("account/whoami", _) => json!({"user_id": "@flock:h"}),
        ("sync", _) => json!({"next_batch": "1"}),
        (_, Some((ROOM, "join"))) => json!({"room_id": ROOM}),
        (_, Some((ROOM, "joined_members"))) => json!({"joined": {"@flock:h": {}, "@ann:h": {}}}),
        (_, Some((ROOM, state))) if state.starts_with("state/m.room.join_rules") => {
            json!({"join_rule": "invite"})
        }
        (_, Some((ROOM, send))) if send.starts_with("send/") && method == Method::PUT => {
            let mut sent = shared.sent.lock().unwrap();
            sent.push(serde_json::from_slice(&body).unwrap_or_default());
            json!({"event_id": format!("$event-{}", sent.len())})
        }
        (_, Some((ROOM, event))) if event.starts_with("event/$event-") => json!({
            "event_id": event.strip_prefix("event/"), "room_id": ROOM, "sender": "@flock:h", "type": "m.room.message",
            "origin_server_ts": 1, "content": {"msgtype": "m.text", "body": "x"},
        }),
        _ => return fault(StatusCode::NOT_FOUND, "M_NOT_FOUND"),
    };
    (StatusCode::OK, Json(found))
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
