//! One connection of Socket Mode, through which Slack sends events.
//!
//! reqwest opens it, with the proxy and the certificates of all other requests. tokio-websockets takes it over.

use std::time::Duration;

use base64::Engine as _;
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::header::{
    CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{StatusCode, Upgraded, Url};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

use super::event::text;
use crate::bridge::platform::PlatformError;
use crate::error::chain;

/// Longest time until a connection is open and greeted.
const OPENING: Duration = Duration::from_secs(30);
/// Time between two pings of flock's.
const PING: Duration = Duration::from_secs(10);
/// A connection without a sign for this long is dead.
const SILENCE: Duration = Duration::from_secs(30);
/// Largest message that is read.
const MAX_MESSAGE: usize = 8 << 20;

/// The reports of a connection.
pub(super) enum Told {
    /// Slack greets: events come from now on. It says how many connections the app has.
    Hello(u64),
    /// An event, with what acknowledges it.
    Event(Value, Acknowledgement),
    /// Somebody pressed a button. It was acknowledged already.
    Interaction(Value),
    /// Slack closes the connection soon, and says why.
    Dismissed(String),
    /// The connection is gone.
    Ended(String),
}

/// Acknowledges one event.
pub(super) struct Acknowledgement {
    envelope: String,
    to: mpsc::UnboundedSender<String>,
}

impl Acknowledgement {
    pub(super) fn send(self) {
        // Slack sends an event again whose connection is gone.
        let _ = self.to.send(self.envelope);
    }
}

/// A connection. It ends when this is dropped.
pub(super) struct Socket {
    _task: AbortOnDropHandle<()>,
}

impl Socket {
    /// Opens a connection whose events go to `to` with the connection's number.
    pub(super) async fn open(
        url: Url,
        number: u64,
        to: mpsc::Sender<(u64, Told)>,
    ) -> Result<Self, PlatformError> {
        let stream = tokio::time::timeout(OPENING, connect(url)).await.map_err(|_| {
            PlatformError::Unavailable("Slack does not open a connection for events".to_owned())
        })??;
        let task = tokio::spawn(async move {
            let why = follow(stream, number, &to).await;
            let _ = to.send((number, Told::Ended(why))).await;
        });
        Ok(Self { _task: AbortOnDropHandle::new(task) })
    }
}

async fn connect(mut url: Url) -> Result<WebSocketStream<Upgraded>, PlatformError> {
    let failed = |error: reqwest::Error| PlatformError::Unavailable(chain(&error.without_url()));
    let http = reqwest::Client::builder()
        .http1_only()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(10))
        .build()
        .map_err(failed)?;
    let scheme = if url.scheme() == "wss" { "https" } else { "http" };
    url.set_scheme(scheme)
        .map_err(|()| PlatformError::Unavailable("Slack's address can't be used".to_owned()))?;
    let key = base64::engine::general_purpose::STANDARD.encode(rand::random::<[u8; 16]>());
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    if let Ok(key) = HeaderValue::from_str(&key) {
        headers.insert(SEC_WEBSOCKET_KEY, key);
    }
    let answer = http.get(url).headers(headers).send().await.map_err(failed)?;
    // The answer to the key is not looked at: it shows that no cache answered, and TLS shows who did.
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = answer.status().as_u16();
        return Err(PlatformError::Unavailable(format!(
            "Slack does not open a connection for events: HTTP {status}"
        )));
    }
    let stream = answer.upgrade().await.map_err(failed)?;
    Ok(ClientBuilder::new().limits(Limits::default().max_payload_len(Some(MAX_MESSAGE))).take_over(stream))
}

/// Passes on what arrives, until the connection ends. Returns the reason.
async fn follow(
    mut stream: WebSocketStream<Upgraded>,
    number: u64,
    to: &mpsc::Sender<(u64, Told)>,
) -> String {
    let (acknowledge, mut acknowledged) = mpsc::unbounded_channel::<String>();
    let mut ping = tokio::time::interval(PING);
    let mut heard = Instant::now();
    loop {
        tokio::select! {
            message = stream.next() => {
                heard = Instant::now();
                let message = match message {
                    Some(Ok(message)) => message,
                    Some(Err(error)) => return format!("the connection for events failed: {error}"),
                    None => return "the connection for events was closed".to_owned(),
                };
                let Some(read) = message.as_text().and_then(|text| serde_json::from_str(text).ok()) else { continue };
                let (told, answer) = envelope(read, &acknowledge);
                if let Some(answer) = answer && stream.send(acknowledgement(&answer)).await.is_err() {
                    return "the connection for events failed".to_owned();
                }
                // With a queue that is full, flock would read neither pings nor the end. What was not acknowledged comes
                // again, and the next connection reads the history first.
                if let Some(told) = told && to.try_send((number, told)).is_err() {
                    return "more events came than flock could take".to_owned();
                }
            }
            Some(envelope) = acknowledged.recv() => {
                if stream.send(acknowledgement(&envelope)).await.is_err() {
                    return "the connection for events failed".to_owned();
                }
            }
            _ = ping.tick() => {
                if heard.elapsed() > SILENCE {
                    return "the connection for events is silent".to_owned();
                }
                if stream.send(Message::ping("flock")).await.is_err() {
                    return "the connection for events failed".to_owned();
                }
            }
        }
    }
}

fn acknowledgement(envelope: &str) -> Message {
    Message::text(json!({"envelope_id": envelope}).to_string())
}

/// Reads one message of Slack's. Returns what it tells, and the envelope that is acknowledged at once.
fn envelope(mut read: Value, to: &mpsc::UnboundedSender<String>) -> (Option<Told>, Option<String>) {
    let id = text(&read, "envelope_id").to_owned();
    match text(&read, "type") {
        "hello" => (Some(Told::Hello(read["num_connections"].as_u64().unwrap_or(1))), None),
        "disconnect" => (Some(Told::Dismissed(crate::clean::summary(text(&read, "reason"), 40))), None),
        _ if id.is_empty() => (None, None),
        "events_api" => {
            let acknowledgement = Acknowledgement { envelope: id, to: to.clone() };
            (Some(Told::Event(read["payload"].take(), acknowledgement)), None)
        }
        // A person waits for the answer, and Slack sends these once.
        "interactive" => (Some(Told::Interaction(read["payload"].take())), Some(id)),
        _ => (None, Some(id)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: Value) -> (Option<Told>, Option<String>) {
        envelope(message, &mpsc::unbounded_channel().0)
    }

    #[test]
    fn events_are_acknowledged_later_and_presses_at_once() {
        let event =
            json!({"type": "events_api", "envelope_id": "e1", "payload": {"event": {}}, "retry_attempt": 2});
        let (to, mut acknowledged) = mpsc::unbounded_channel();
        let (Some(Told::Event(payload, acknowledgement)), None) = envelope(event, &to) else { panic!() };
        assert_eq!(payload, json!({"event": {}}));
        acknowledgement.send();
        assert_eq!(acknowledged.try_recv().unwrap(), "e1");
        let press = read(json!({"type": "interactive", "envelope_id": "e2", "payload": {}}));
        assert!(matches!(press, (Some(Told::Interaction(_)), Some(id)) if id == "e2"));
        let command = read(json!({"type": "slash_commands", "envelope_id": "e3"}));
        assert!(matches!(command, (None, Some(id)) if id == "e3"));
    }

    #[test]
    fn greetings_and_dismissals_are_read_and_the_unknown_is_not() {
        let greeting = read(json!({"type": "hello", "num_connections": 2}));
        assert!(matches!(greeting, (Some(Told::Hello(2)), None)));
        let dismissed = read(json!({"type": "disconnect", "reason": "warning"}));
        assert!(matches!(dismissed, (Some(Told::Dismissed(why)), None) if why == "warning"));
        for unknown in
            [json!({}), json!([]), json!({"type": "events_api"}), json!({"type": 5, "envelope_id": 5})]
        {
            assert!(matches!(read(unknown), (None, None)));
        }
    }
}
