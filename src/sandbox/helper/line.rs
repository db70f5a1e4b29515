//! The streams of a connection that is resumed after a break. What was not confirmed is sent again over the new streams, and the
//! helper carries out each request once.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::connection::{GREETING_TIMEOUT, MAX_BROKEN_FRAMES, Shared, encode};
use super::delivery::{Arrival, Received, Sent};
use super::error::HelperError;
use super::frame::{Decoder, Number};
use super::message::{Reply, Request, VERSION, WELCOME};
use super::pausable_clock::PausableClock;
use super::streams::OutgoingFrame;

/// A reader for a helper's output and a writer for its input.
pub(crate) type HelperStreams = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

/// A function that attaches to the same helper again. It returns `None` once the helper has ended, and an error if nobody can
/// tell.
pub(crate) type Redial = Arc<dyn Fn() -> BoxFuture<'static, io::Result<Option<HelperStreams>>> + Send + Sync>;

/// The way back to a helper whose streams broke.
pub(crate) struct Resumption {
    redial: Redial,
    /// Stands still while the sandbox is frozen.
    pub(super) patience: PausableClock,
    limit: Duration,
}

impl Resumption {
    pub(crate) fn new(redial: Redial, patience: PausableClock) -> Self {
        Self { redial, patience, limit: RESUME_LIMIT }
    }
}

/// Time for which a broken connection is resumed, from the moment when the break is known. Time in which the sandbox is frozen
/// does not count.
pub(super) const RESUME_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);
/// The same while the sandbox is frozen, which may be for days. Its end is still to be noticed.
const FROZEN_PAUSE: Duration = Duration::from_secs(1);
/// Limit on the bytes that wait to be written, above which no further requests are taken.
const MAX_UNSENT: usize = 256 << 10;
/// Limit on them with what a helper asks for again, which may be all that is kept for each of its frames.
const MAX_ASKED: usize = 16 << 20;

/// The end of a pair of streams.
enum End {
    /// The connection was closed on this side.
    Closed,
    /// The streams broke, for this reason. Others may work.
    Broken(String),
    /// The helper breaks the protocol.
    Refused(String),
}

/// The state of a line, which outlives its streams.
pub(super) struct Line {
    pub shared: Arc<Shared>,
    pub queue: mpsc::UnboundedReceiver<OutgoingFrame>,
    resumption: Resumption,
    sent: Sent,
    received: Received,
    unsent: BytesMut,
}

impl Line {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: mpsc::UnboundedReceiver<OutgoingFrame>,
        resumption: Resumption,
    ) -> Self {
        let mut line = Self {
            shared,
            queue,
            resumption,
            sent: Sent::default(),
            received: Received::default(),
            unsent: BytesMut::new(),
        };
        line.say(&Request::Keep);
        line
    }

    /// Carries frames until the connection is closed or can't be resumed.
    pub(super) async fn run(mut self, mut streams: HelperStreams, mut decoder: Decoder) {
        let reason = loop {
            match self.carry(&mut streams, &mut decoder).await {
                End::Closed => return self.shared.streams.lose(),
                End::Refused(reason) => break reason,
                End::Broken(reason) => {
                    tracing::info!(reason, "the connection to a sandbox broke and is resumed");
                    match self.resume(&reason).await {
                        Ok(Some(found)) => (streams, decoder) = found,
                        Ok(None) => return self.shared.streams.lose(),
                        Err(reason) => break reason,
                    }
                }
            }
        };
        self.shared.lose(reason);
        self.shared.streams.lose();
    }

    async fn carry(&mut self, (reader, writer): &mut HelperStreams, decoder: &mut Decoder) -> End {
        let shared = Arc::clone(&self.shared);
        let mut buffer = vec![0; 64 * 1024];
        let mut is_flushed = true;
        loop {
            if let Err(end) = self.take(decoder) {
                return end;
            }
            if decoder.broken() > MAX_BROKEN_FRAMES {
                return End::Refused("its output is damaged".to_owned());
            }
            if shared.streams.is_backlog_full() {
                return End::Refused("it sends output but reads no input".to_owned());
            }
            tokio::select! {
                () = shared.lost.cancelled() => return End::Closed,
                () = shared.suspect.notified() => return End::Broken("it did not answer in time".to_owned()),
                count = reader.read(&mut buffer) => match count {
                    Ok(0) => return End::Broken("its output ended".to_owned()),
                    Ok(count) => decoder.push(&buffer[..count]),
                    Err(error) => return End::Broken(format!("its output can't be read: {error}")),
                },
                written = write_or_flush(writer, &self.unsent), if !is_flushed || !self.unsent.is_empty() => match written {
                    Ok(0) if !self.unsent.is_empty() => return End::Broken("it takes no input".to_owned()),
                    Ok(count) => {
                        self.unsent.advance(count);
                        is_flushed = count == 0;
                    }
                    Err(error) => return End::Broken(format!("it takes no input: {error}")),
                },
                next = self.queue.recv(), if self.unsent.len() < MAX_UNSENT => {
                    let Some(mut next) = next else { return End::Closed };
                    shared.streams.written(&next);
                    self.sent.add(&mut next.bytes);
                    self.unsent.extend_from_slice(&next.bytes);
                }
            }
        }
    }

    /// Takes the frames that have arrived.
    ///
    /// # Errors
    ///
    /// Returns the end of the streams if the helper asks for too much again.
    fn take(&mut self, decoder: &mut Decoder) -> Result<(), End> {
        while let Some(frame) = decoder.next_frame() {
            if self.unsent.len() > MAX_ASKED {
                return Err(End::Refused("it asks for the same again and again".to_owned()));
            }
            if frame.nonce != self.shared.nonce {
                continue;
            }
            match self.received.note(&frame) {
                Arrival::Take => {}
                Arrival::Drop => continue,
                Arrival::AskAgain => {
                    let received = self.received.told();
                    self.say(&Request::Confirm { received, again: true });
                    continue;
                }
            }
            match Reply::decode(frame.kind, &frame.payload) {
                Some(Reply::Confirm { received, again }) => {
                    self.sent.confirm(received);
                    if again {
                        self.send_again();
                    }
                }
                Some(reply) => self.shared.take(reply),
                // A frame that cannot be decoded is skipped. The helper shares its user with the agent, so its output
                // is not trusted.
                None => {}
            }
        }
        if let Some(received) = self.received.due() {
            self.say(&Request::Confirm { received, again: false });
        }
        Ok(())
    }

    fn say(&mut self, request: &Request) {
        let (kind, payload) = request.encode();
        if let Ok(bytes) = encode(kind, &self.shared.nonce, &payload) {
            self.unsent.extend_from_slice(&bytes);
        }
    }

    fn send_again(&mut self) {
        self.sent.kept().for_each(|bytes| self.unsent.extend_from_slice(bytes));
    }

    /// Attaches again and goes on where the streams broke. Returns `None` if the connection was closed meanwhile.
    async fn resume(&mut self, reason: &str) -> Result<Option<(HelperStreams, Decoder)>, String> {
        let (shared, patience) = (Arc::clone(&self.shared), self.resumption.patience.clone());
        let mut limit = pin!(patience.sleep(self.resumption.limit));
        let mut is_over = false;
        loop {
            let tried = {
                let mut attempt = pin!(tokio::time::timeout(GREETING_TIMEOUT * 3, self.attempt()));
                loop {
                    tokio::select! {
                        () = shared.lost.cancelled() => return Ok(None),
                        // The attempt may still succeed.
                        () = &mut limit, if !is_over => is_over = true,
                        tried = &mut attempt => {
                            break tried.unwrap_or(Err(HelperError::Silent(GREETING_TIMEOUT * 3)));
                        }
                    }
                }
            };
            match tried {
                Ok(Some((streams, decoder, Some(received)))) if self.sent.has_after(received) => {
                    self.sent.confirm(received);
                    self.unsent.clear();
                    self.send_again();
                    return Ok(Some((streams, decoder)));
                }
                Ok(Some(_)) => return Err(format!("{reason}, and the connection is not known any more")),
                Ok(None) => return Err(format!("{reason}, and the sandbox has ended")),
                Err(error) if is_over => {
                    return Err(format!("{reason}, and it can't be reached again: {error}"));
                }
                Err(error) => tracing::debug!(error = %error, "a sandbox can't be reached yet"),
            }
            tokio::select! {
                () = shared.lost.cancelled() => return Ok(None),
                () = &mut limit, if !is_over => is_over = true,
                () = patience.sleep(PAUSE) => {}
                () = tokio::time::sleep(FROZEN_PAUSE) => {}
            }
        }
    }

    /// Attaches and asks the helper to go on. Returns the last frame that it has, if it knows the connection, or `None` if it
    /// has ended.
    async fn attempt(&mut self) -> Result<Option<(HelperStreams, Decoder, Option<Number>)>, HelperError> {
        let lost = |error: io::Error| HelperError::Lost(error.to_string());
        let redialled = (self.resumption.redial)().await.map_err(lost)?;
        let Some((mut reader, mut writer)) = redialled else { return Ok(None) };
        let received = self.received.resumed();
        let (kind, payload) = Request::Resume { version: VERSION, received }.encode();
        let bytes = encode(kind, &self.shared.nonce, &payload)?;
        writer.write_all(&bytes).await.map_err(lost)?;
        writer.flush().await.map_err(lost)?;
        let mut decoder = Decoder::new(WELCOME);
        let mut buffer = vec![0; 16 * 1024];
        loop {
            while let Some(frame) = decoder.next_frame() {
                if frame.nonce != self.shared.nonce {
                    continue;
                }
                // What comes before the answer is sent again after it.
                if let Some(Reply::Resumed { version, received }) = Reply::decode(frame.kind, &frame.payload)
                {
                    let received = received.filter(|_| version == VERSION);
                    return Ok(Some(((reader, writer), decoder, received)));
                }
            }
            match reader.read(&mut buffer).await.map_err(lost)? {
                0 => return Err(HelperError::Lost("its output ended".to_owned())),
                count => decoder.push(&buffer[..count]),
            }
            if decoder.broken() > MAX_BROKEN_FRAMES {
                return Err(HelperError::Lost("its output is damaged".to_owned()));
            }
        }
    }
}

/// Writes some of the bytes and returns their number. Without any it flushes, which an encrypted stream may have to wait for
/// as for a write, and returns 0.
async fn write_or_flush(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<usize> {
    if bytes.is_empty() { writer.flush().await.map(|()| 0) } else { writer.write(bytes).await }
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
