//! The body of a streamed response: a turn writes its events at one end, and the connection reads the bytes at the
//! other. The server drops the body when its client disconnects, and that cancels the turn.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::task::AtomicWaker;
use hyper::body::Frame;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use super::driver::{TurnFailure, TurnHandle};
use super::error::ApiError;
use super::openai::AnswerWriter;
use super::turn_error::failed;
use crate::agent::{TurnEvent, TurnOutcome};
use crate::sync::lock;

/// The end into which the turn writes.
#[derive(Clone)]
pub(crate) struct StreamWriter {
    shared: Arc<Shared>,
    overflow: CancellationToken,
    limit: usize,
}

struct Shared {
    state: Mutex<State>,
    reader: AtomicWaker,
}

struct State {
    writer: Box<dyn AnswerWriter>,
    unread: Vec<u8>,
    /// Set once nobody reads any more.
    is_closed: bool,
}

impl StreamWriter {
    /// Creates a writing end that cancels `overflow` when more than `limit` bytes are unread. The reader is then gone,
    /// or too slow for the response to be useful.
    #[must_use]
    pub(crate) fn new(
        writer: impl AnswerWriter + 'static,
        limit: usize,
        overflow: CancellationToken,
    ) -> Self {
        let state = State { writer: Box::new(writer), unread: Vec::new(), is_closed: false };
        let shared = Shared { state: Mutex::new(state), reader: AtomicWaker::new() };
        Self { shared: Arc::new(shared), overflow, limit }
    }

    /// Writes an event of the turn.
    pub(crate) fn put(&self, event: &TurnEvent) {
        let mut state = lock(&self.shared.state);
        let State { writer, unread, is_closed } = &mut *state;
        if *is_closed {
            return;
        }
        if unread.len() > self.limit {
            self.overflow.cancel();
            return;
        }
        // Some events produce no bytes. Then the reader need not wake up.
        let before = unread.len();
        writer.event(unread, event);
        let has_grown = unread.len() > before;
        drop(state);
        if has_grown {
            self.shared.reader.wake();
        }
    }
}

/// The end from which the connection reads.
pub(crate) struct StreamBody {
    shared: Arc<Shared>,
    turn: TurnHandle,
    result: Option<Result<TurnOutcome, TurnFailure>>,
    begun: bool,
    ended: bool,
    /// Fires after a silence. A comment is sent then, so that no proxy takes the connection for dead.
    silence: Pin<Box<Sleep>>,
}

impl StreamBody {
    /// Creates the body of this turn's response.
    #[must_use]
    pub(crate) fn new(inlet: &StreamWriter, turn: TurnHandle) -> Self {
        Self {
            shared: inlet.shared.clone(),
            turn,
            result: None,
            begun: false,
            ended: false,
            silence: Box::pin(tokio::time::sleep(SILENCE)),
        }
    }

    /// Waits until there is something to send, for at most `limit`. A turn that fails before that can still be answered
    /// with an HTTP status.
    ///
    /// # Errors
    ///
    /// Returns the failure of the turn in the form for its client.
    pub(crate) async fn first(&mut self, limit: Duration) -> Result<(), ApiError> {
        let first = std::future::poll_fn(|context| {
            // The waker is registered before the check, so a write in between is not missed.
            self.shared.reader.register(context.waker());
            if !lock(&self.shared.state).unread.is_empty() {
                return Poll::Ready(());
            }
            self.poll_result(context)
        });
        // The end of the wait is not a failure. The response then begins without its first word.
        drop(tokio::time::timeout(limit, first).await);
        match self.result.take() {
            Some(Err(failure)) if lock(&self.shared.state).unread.is_empty() => Err(self.failed(failure)),
            result => {
                self.result = result;
                Ok(())
            }
        }
    }

    fn failed(&self, failure: TurnFailure) -> ApiError {
        failed(failure, self.turn.did_something(), &self.turn.session, self.turn.id)
    }

    fn poll_result(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.result.is_none() {
            match self.turn.poll_end(context) {
                Poll::Ready(result) => self.result = Some(result),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(())
    }
}

impl HttpBody for StreamBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        self.shared.reader.register(context.waker());
        // The result comes after the last event, so everything that is unread now belongs before it.
        let is_over = self.poll_result(context).is_ready();
        let mut out = Vec::new();
        {
            let this = &mut *self;
            let mut state = lock(&this.shared.state);
            // The head is written only when the stream is read, so a failure in `first` leaves no trace of it.
            if !this.begun {
                state.writer.begin(&mut out);
                this.begun = true;
            }
            if out.is_empty() {
                out = std::mem::take(&mut state.unread);
            } else {
                out.append(&mut state.unread);
            }
            if is_over {
                this.ended = true;
                match this.result.take() {
                    Some(Ok(outcome)) => state.writer.end(&mut out, &outcome),
                    Some(Err(error)) => {
                        // The status line has been sent, so the failure is reported as the last event of the stream.
                        let error = failed(error, true, &this.turn.session, this.turn.id);
                        state.writer.fail(&mut out, &error);
                    }
                    None => {}
                }
            }
        }
        if out.is_empty() && self.silence.as_mut().poll(context).is_ready() {
            out.extend_from_slice(b": still working\n\n");
        }
        if out.is_empty() {
            return Poll::Pending;
        }
        self.silence.as_mut().reset(Instant::now() + SILENCE);
        Poll::Ready(Some(Ok(Frame::data(out.into()))))
    }
}

impl Drop for StreamBody {
    fn drop(&mut self) {
        let mut state = lock(&self.shared.state);
        state.is_closed = true;
        state.unread = Vec::new();
    }
}

/// Longest silence of a stream before a comment is sent.
pub(crate) const SILENCE: Duration = Duration::from_secs(15);

/// Returns the response for a stream of server-sent events.
pub(crate) fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
