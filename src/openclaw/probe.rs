//! Whether OpenClaw is ready: an answer that only this home's gateway can give.
//!
//! Not every version has a path that tells its health, and some answer every GET with a page. So what is looked at is
//! who listens on the port, and whether it knows the token: the chat endpoint refuses a request without it, and says of
//! an empty request with it that the message is missing, before any model is asked.

use std::time::Duration;

use crate::error::chain;
use crate::process::ProcessId;
use crate::supervise::loopback::{Answer, Call, Client, LoopbackError};
use crate::supervise::port;

/// What does not prove itself.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It can't be asked, or does not answer.
    #[error(transparent)]
    Loopback(#[from] LoopbackError),
    /// It says of itself that it is not ready.
    #[error("it says that it is not ready (HTTP {status})")]
    Starting {
        /// What it answered.
        status: u16,
    },
    /// Another process listens on its port.
    #[error("another process listens on its port {port}: {holder}")]
    Foreign {
        /// The port.
        port: u16,
        /// As in `node (pid 7)`.
        holder: String,
    },
    /// It answers without the token, or not with it.
    #[error(
        "what answers on port {port} is not this home's OpenClaw: it answers {answered} where {wanted} is due"
    )]
    Impostor {
        /// The port.
        port: u16,
        /// As in `HTTP 200 without the token`.
        answered: String,
        /// The status that is due.
        wanted: u16,
    },
}

/// How thoroughly it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Also whether it refuses who has no token: once, after it was started.
    Proof,
    /// Whether it still answers.
    Sign,
}

/// Asks what listens on `port`, which has to be this process or one that it started.
///
/// # Errors
///
/// What is wrong with it. It is sent the token only after it was found to be the right process, where the system tells who
/// listens.
pub async fn ask(
    port: u16,
    token: &str,
    process: ProcessId,
    depth: Depth,
    limit: Duration,
) -> Result<(), ProbeError> {
    let stranger = Client::new(port);
    // Connecting comes first: a look at who listens reads what all processes have open.
    let ready = stranger.send(Call::get("/readyz"), limit).await?;
    if ready.status() == 503 {
        return Err(ProbeError::Starting { status: ready.status() });
    }
    drop(ready);
    if depth == Depth::Proof {
        port::is_held_by(port, process).map_err(|holder| ProbeError::Foreign { port, holder })?;
        expect(port, &empty(&stranger, limit).await?, 401, "without the token")?;
    }
    let friend = stranger.with_token(token);
    expect(port, &empty(&friend, limit).await?, 400, "with the token")
}

/// A request for a chat without any message.
async fn empty(client: &Client, limit: Duration) -> Result<Answer, LoopbackError> {
    client.send(Call::post("/v1/chat/completions").json(&serde_json::json!({}))?, limit).await
}

fn expect(port: u16, answer: &Answer, wanted: u16, how: &str) -> Result<(), ProbeError> {
    match answer.status() {
        status if status == wanted => Ok(()),
        503 => Err(ProbeError::Starting { status: 503 }),
        status => Err(ProbeError::Impostor { port, answered: format!("HTTP {status} {how}"), wanted }),
    }
}

impl ProbeError {
    /// In words, with all causes.
    #[must_use]
    pub fn text(&self) -> String {
        chain(self)
    }
}
