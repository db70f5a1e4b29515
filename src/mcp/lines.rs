//! The messages between flock and a server: one line of JSON each, over the standard streams of its program. What a
//! server sends is bounded before it is read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmcp::RoleClient;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::sync::lock;
use crate::tool::safe_text;

/// The most bytes of one message of a server.
pub(super) const MAX_LINE: usize = 8 << 20;
/// The most bytes of messages that were received and not read yet.
const MAX_QUEUED: usize = 32 << 20;
/// The number of lines that are no messages after which a server is given up. Some programs print a greeting.
const MAX_ODD_LINES: usize = 64;
/// The most messages in [`RATE_TIME`].
const MAX_RATE: usize = 20_000;
const RATE_TIME: Duration = Duration::from_secs(10);
/// The number of bytes that are kept of the end of standard error.
const KEPT_ERRORS: usize = 4 << 10;

/// The state that both sides know of the streams of one program.
#[derive(Default)]
pub(super) struct Flow {
    /// Cancelled when the program has ended, or has to.
    pub over: CancellationToken,
    /// The reason for its end. The first one counts.
    reason: Mutex<Option<String>>,
    queued: AtomicUsize,
    errors: Mutex<VecDeque<u8>>,
}

impl Flow {
    /// Ends the program for this reason.
    pub fn end(&self, reason: impl Into<String>) {
        lock(&self.reason).get_or_insert_with(|| reason.into());
        self.over.cancel();
    }

    /// Returns the reason for the end, if it has ended.
    pub fn reason(&self) -> Option<String> {
        lock(&self.reason).clone()
    }

    /// Returns the end of standard error on one line, without anything that a terminal would interpret.
    pub fn last_errors(&self) -> String {
        let mut errors = lock(&self.errors);
        let text = String::from_utf8_lossy(errors.make_contiguous()).into_owned();
        crate::clean::summary(&safe_text::harmless(&text), 400)
    }

    /// Keeps the end of what the program writes to standard error.
    pub fn heard_error(&self, piece: &[u8]) {
        let mut errors = lock(&self.errors);
        errors.extend(&piece[piece.len().saturating_sub(KEPT_ERRORS)..]);
        let over = errors.len().saturating_sub(KEPT_ERRORS);
        errors.drain(..over);
    }
}

/// Cuts standard output into lines.
pub(super) struct LineReader {
    flow: Arc<Flow>,
    lines: mpsc::UnboundedSender<Vec<u8>>,
    partial: Vec<u8>,
}

impl LineReader {
    /// Returns a reader, and the receiver of its lines.
    pub fn new(flow: Arc<Flow>) -> (Self, mpsc::UnboundedReceiver<Vec<u8>>) {
        let (lines, receiver) = mpsc::unbounded_channel();
        (Self { flow, lines, partial: Vec::new() }, receiver)
    }

    /// Takes a piece of the output. A server that exceeds a limit is ended.
    pub fn heard(&mut self, mut piece: &[u8]) {
        if self.flow.over.is_cancelled() {
            return;
        }
        while let Some(end) = memchr::memchr(b'\n', piece) {
            let (head, rest) = piece.split_at(end);
            piece = &rest[1..];
            if !self.keep(head) {
                return;
            }
            self.send();
        }
        self.keep(piece);
    }

    fn keep(&mut self, piece: &[u8]) -> bool {
        if self.partial.len() + piece.len() > MAX_LINE {
            self.flow.end(format!("it sent a message of more than {} MiB", MAX_LINE >> 20));
            self.partial = Vec::new();
            return false;
        }
        self.partial.extend_from_slice(piece);
        true
    }

    fn send(&mut self) {
        let line = std::mem::take(&mut self.partial);
        if line.trim_ascii().is_empty() {
            return;
        }
        let queued = self.flow.queued.fetch_add(line.len(), Ordering::Relaxed) + line.len();
        if queued > MAX_QUEUED {
            self.flow.end("it sends more than flock reads");
            return;
        }
        // The receiver is gone when the connection has ended.
        drop(self.lines.send(line));
    }
}

/// Counts the messages of a server.
pub(super) struct Rate {
    since: Instant,
    count: usize,
}

impl Rate {
    pub fn new() -> Self {
        Self { since: Instant::now(), count: 0 }
    }

    /// Counts a message. Ends the server and returns `false` if there are too many.
    pub fn allows(&mut self, flow: &Flow) -> bool {
        if self.since.elapsed() > RATE_TIME {
            *self = Self::new();
        }
        self.count += 1;
        if self.count > MAX_RATE {
            flow.end(format!("it sent more than {MAX_RATE} messages in {} s", RATE_TIME.as_secs()));
        }
        self.count <= MAX_RATE
    }
}

/// The client's side of the messages.
pub(super) struct LineTransport {
    flow: Arc<Flow>,
    input: mpsc::Sender<Bytes>,
    lines: mpsc::UnboundedReceiver<Vec<u8>>,
    odd: usize,
    rate: Rate,
}

/// A message that could not be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("the message could not be written")]
    Encoding(#[from] serde_json::Error),
    #[error("the program has ended")]
    Ended,
}

impl LineTransport {
    pub fn new(flow: Arc<Flow>, input: mpsc::Sender<Bytes>, lines: mpsc::UnboundedReceiver<Vec<u8>>) -> Self {
        Self { flow, input, lines, odd: 0, rate: Rate::new() }
    }
}

impl Transport<RoleClient> for LineTransport {
    type Error = SendError;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let line = serde_json::to_vec(&item).map(|mut line| {
            line.push(b'\n');
            Bytes::from(line)
        });
        let (input, over) = (self.input.clone(), self.flow.over.clone());
        async move {
            let line = line?;
            // A program that does not read its input must not hold up its own end.
            match over.run_until_cancelled(input.send(line)).await {
                Some(Ok(())) => Ok(()),
                Some(Err(_)) | None => Err(SendError::Ended),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let over = self.flow.over.clone();
            let line = over.run_until_cancelled(self.lines.recv()).await??;
            self.flow.queued.fetch_sub(line.len(), Ordering::Relaxed);
            if !self.rate.allows(&self.flow) {
                return None;
            }
            match serde_json::from_slice(&line) {
                Ok(message) => return Some(message),
                Err(error) => {
                    tracing::debug!(%error, bytes = line.len(), "an MCP server sent a line that is no message");
                    self.odd += 1;
                    if self.odd > MAX_ODD_LINES {
                        self.flow
                            .end(format!("it sent more than {MAX_ODD_LINES} lines that are no messages"));
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.flow.end("it was stopped");
        Ok(())
    }
}
