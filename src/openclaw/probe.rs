//! Checks that OpenClaw is ready, by an answer that only this home's gateway can give.
//!
//! Not every version has a health path, and some answer every GET with a page. So the probe checks which process
//! listens on the port, and whether that process knows the token. The chat endpoint must refuse a request without the
//! token. With the token, it must say that an empty request has no message, which it does before it asks any model.

use std::time::Duration;

use crate::process::ProcessId;
use crate::supervise::gateway_client::{Answer, Call, Client, GatewayClientError};
use crate::supervise::port;

/// A failed probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The connection failed, or no answer came in time.
    #[error(transparent)]
    Loopback(#[from] GatewayClientError),
    /// OpenClaw says itself that it is not ready.
    #[error("it says that it is not ready (HTTP {status})")]
    Starting {
        /// HTTP status of the answer.
        status: u16,
    },
    /// Another process listens on the port.
    #[error("another process listens on its port {port}: {holder}")]
    Foreign {
        port: u16,
        /// For example `node (pid 7)`.
        holder: String,
    },
    /// It answers without the token, or not correctly with it.
    #[error(
        "what answers on port {port} is not this home's OpenClaw: it answers {answered} where {wanted} is due"
    )]
    Impostor {
        port: u16,
        /// For example `HTTP 200 without the token`.
        answered: String,
        /// The expected HTTP status.
        wanted: u16,
    },
}

/// The depth of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// A full probe, which also checks that a request without the token is refused. Made once after each start.
    Proof,
    /// A probe that only checks for an answer.
    Sign,
}

/// Probes the process that listens on `port`. It must be `process` or one that `process` started.
///
/// # Errors
///
/// Returns [`ProbeError`] with the first check that failed. In a full probe the token is sent only after the listener
/// was found to be the right process, on systems that tell who listens.
pub async fn ask(
    port: u16,
    token: &str,
    process: ProcessId,
    depth: Depth,
    limit: Duration,
) -> Result<(), ProbeError> {
    let stranger = Client::new(port);
    // Connect first: finding the listener reads the open files of all processes, which is expensive.
    let ready = stranger.send(Call::get("/readyz"), limit).await?;
    // Not every version has this path, so any other answer says nothing.
    if ready.status() == 503 {
        return Err(ProbeError::Starting { status: ready.status() });
    }
    drop(ready);
    if depth == Depth::Proof {
        port::check_held_by(port, process).map_err(|holder| ProbeError::Foreign { port, holder })?;
        expect(port, &send_empty_chat(&stranger, limit).await?, 401, "without the token")?;
    }
    let friend = stranger.with_token(token);
    expect(port, &send_empty_chat(&friend, limit).await?, 400, "with the token")
}

/// Sends a chat request without any message.
async fn send_empty_chat(client: &Client, limit: Duration) -> Result<Answer, GatewayClientError> {
    client.send(Call::post("/v1/chat/completions").json(&serde_json::json!({}))?, limit).await
}

fn expect(port: u16, answer: &Answer, wanted: u16, how: &str) -> Result<(), ProbeError> {
    match answer.status() {
        status if status == wanted => Ok(()),
        503 => Err(ProbeError::Starting { status: 503 }),
        status => Err(ProbeError::Impostor { port, answered: format!("HTTP {status} {how}"), wanted }),
    }
}
