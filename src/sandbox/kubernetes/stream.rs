//! The standard streams of a container in a cluster, over a websocket with the protocol `v5.channel.k8s.io`. Each message
//! begins with a byte that names the stream.
//!
//! reqwest opens the connection, with the certificates of all other calls. tokio-websockets takes it over.

use std::time::Duration;

use base64::Engine as _;
use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use reqwest::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::{RequestBuilder, Response, Upgraded};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use tokio_websockets::{ClientBuilder, Limits, Message, WebSocketStream};

use super::client::ClusterError;
use crate::clean;

/// The protocol. Earlier ones can't say that the input has ended.
const PROTOCOL: &str = "v5.channel.k8s.io";
const STDIN: u8 = 0;
const STDOUT: u8 = 1;
/// The stream that has the outcome, at the end.
const STATUS: u8 = 3;
/// A message that says that a stream has ended.
const CLOSE: u8 = 255;
/// Largest message that is read.
const MAX_MESSAGE: usize = 1 << 20;
/// Bytes of each direction that wait to be read.
const BUFFER: usize = 256 << 10;
/// Most bytes in one message.
const PIECE: usize = 32 << 10;
/// Time between two pings, so that nothing between here and the cluster closes an idle connection.
const PING: Duration = Duration::from_secs(10);
/// A connection without a sign for this long is dead.
const SILENCE: Duration = Duration::from_secs(45);

/// The open streams of a container.
pub struct PodStreams {
    /// The output of the program.
    pub output: ReadHalf<DuplexStream>,
    /// The input of the program.
    pub input: WriteHalf<DuplexStream>,
    pub outcome: Outcome,
}

/// The end of the streams. The connection is closed when this is dropped.
pub struct Outcome {
    end: watch::Receiver<Option<StreamEnd>>,
    _task: AbortOnDropHandle<()>,
}

/// The way in which the streams have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamEnd {
    /// The program has ended with this code.
    Exited(i32),
    /// The cluster could not run it.
    Failed(String),
    /// The connection was cut.
    Cut(String),
}

impl Outcome {
    /// Waits for the end of the streams.
    pub async fn wait(&mut self) -> StreamEnd {
        match self.end.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or_else(|| StreamEnd::Cut("it ended".to_owned())),
            Err(_) => StreamEnd::Cut("it ended".to_owned()),
        }
    }
}

/// Adds what asks for a websocket to a request.
pub(super) fn upgrade(request: RequestBuilder) -> RequestBuilder {
    let key = base64::engine::general_purpose::STANDARD.encode(rand::random::<[u8; 16]>());
    request
        .header(CONNECTION, HeaderValue::from_static("Upgrade"))
        .header(UPGRADE, HeaderValue::from_static("websocket"))
        .header(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"))
        .header(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(PROTOCOL))
        .header(SEC_WEBSOCKET_KEY, key)
}

/// Takes over an upgraded connection.
pub(super) async fn take_over(answer: Response) -> Result<PodStreams, ClusterError> {
    let chosen = answer.headers().get(SEC_WEBSOCKET_PROTOCOL).and_then(|value| value.to_str().ok());
    if chosen != Some(PROTOCOL) {
        return Err(ClusterError::Broken(format!(
            "it does not know {PROTOCOL}: Kubernetes 1.31 and later do"
        )));
    }
    let upgraded = answer
        .upgrade()
        .await
        .map_err(|error| ClusterError::Unreachable(crate::error::chain(&error.without_url())))?;
    let limits = Limits::default().max_payload_len(Some(MAX_MESSAGE));
    let socket = ClientBuilder::new().limits(limits).take_over(upgraded);
    let (mine, theirs) = tokio::io::duplex(BUFFER);
    let (end, ended) = watch::channel(None);
    let task = tokio::spawn(async move {
        let found = carry(socket, theirs).await;
        end.send_replace(Some(found));
    });
    let (output, input) = tokio::io::split(mine);
    Ok(PodStreams { output, input, outcome: Outcome { end: ended, _task: AbortOnDropHandle::new(task) } })
}

/// Carries both directions until the connection ends.
async fn carry(socket: WebSocketStream<Upgraded>, streams: DuplexStream) -> StreamEnd {
    let (to_cluster, from_cluster) = socket.split();
    let (input, output) = tokio::io::split(streams);
    let heard = watch::Sender::new(Instant::now());
    // Each direction goes on while the other waits.
    tokio::select! {
        end = receive(from_cluster, output, &heard) => end,
        end = send(to_cluster, input, heard.subscribe()) => end,
    }
}

async fn receive(
    mut from: SplitStream<WebSocketStream<Upgraded>>,
    mut output: WriteHalf<DuplexStream>,
    heard: &watch::Sender<Instant>,
) -> StreamEnd {
    loop {
        let message = match from.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => return StreamEnd::Cut(clean::summary(&error.to_string(), 200)),
            None => return StreamEnd::Cut("the cluster closed the connection".to_owned()),
        };
        heard.send_replace(Instant::now());
        if !message.is_binary() {
            continue;
        }
        let payload = message.into_payload();
        match payload.split_first() {
            // Nobody reads any more, which the other direction notices.
            Some((&STDOUT, bytes)) => drop(output.write_all(bytes).await),
            Some((&STATUS, status)) if !status.is_empty() => return outcome(status),
            _ => {}
        }
    }
}

async fn send(
    mut to: SplitSink<WebSocketStream<Upgraded>, Message>,
    mut input: ReadHalf<DuplexStream>,
    heard: watch::Receiver<Instant>,
) -> StreamEnd {
    let mut ping = tokio::time::interval(PING);
    let mut buffer = vec![0; PIECE];
    let mut is_open = true;
    loop {
        let message = tokio::select! {
            count = input.read(&mut buffer), if is_open => match count {
                Ok(0) | Err(_) => {
                    is_open = false;
                    Message::binary(Bytes::from_static(&[CLOSE, STDIN]))
                }
                Ok(count) => {
                    let mut piece = BytesMut::with_capacity(count + 1);
                    piece.put_u8(STDIN);
                    piece.put_slice(&buffer[..count]);
                    Message::binary(piece.freeze())
                }
            },
            _ = ping.tick() => {
                if heard.borrow().elapsed() > SILENCE {
                    return StreamEnd::Cut("the connection is silent".to_owned());
                }
                Message::ping("flock")
            }
        };
        if let Err(error) = to.send(message).await {
            return StreamEnd::Cut(clean::summary(&error.to_string(), 200));
        }
    }
}

/// Reads the outcome, an object of the kind Status.
fn outcome(status: &[u8]) -> StreamEnd {
    let Ok(status) = serde_json::from_slice::<Value>(status) else {
        return StreamEnd::Failed("its outcome can't be read".to_owned());
    };
    if status["status"] == "Success" {
        return StreamEnd::Exited(0);
    }
    let causes = status["details"]["causes"].as_array();
    let code = causes.into_iter().flatten().find(|cause| cause["reason"] == "ExitCode");
    match code.and_then(|cause| cause["message"].as_str()?.parse().ok()) {
        Some(code) => StreamEnd::Exited(code),
        None => {
            StreamEnd::Failed(clean::summary(status["message"].as_str().unwrap_or("it gives no reason"), 300))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_read() {
        assert_eq!(outcome(br#"{"status":"Success"}"#), StreamEnd::Exited(0));
        let failed = br#"{"status":"Failure","reason":"NonZeroExitCode","message":"command terminated with exit code 2",
            "details":{"causes":[{"reason":"ExitCode","message":"2"}]}}"#;
        assert_eq!(outcome(failed), StreamEnd::Exited(2));
        let other = br#"{"status":"Failure","message":"container not found"}"#;
        assert_eq!(outcome(other), StreamEnd::Failed("container not found".to_owned()));
        assert!(matches!(outcome(b"x"), StreamEnd::Failed(_)));
    }
}
