//! The streams of a connection as flock sees them. Each stream that the helper opens is read and written like a socket.
//! The helper is not trusted, so the number of streams and the buffer of each are bounded here as well.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::frame::{self, Nonce};
use super::message::{MAX_DATA, MAX_STREAMS, Request, Step, WINDOW};

/// A function that takes the streams opened by a helper.
pub(crate) type StreamHandler = Arc<dyn Fn(HelperStream) + Send + Sync>;

/// Limit on open streams on this side. It is higher than the helper's, because a stream that the helper has closed may
/// still be busy here.
const MAX_OPEN: usize = 2 * MAX_STREAMS;
/// Limit on the bytes of streams that wait to be written. All windows together are half of it. If there is more, the
/// helper sends frames that need answers and does not read.
const MAX_BACKLOG: usize = 4 * MAX_STREAMS * WINDOW;

/// A frame that waits to be written to a helper.
pub(super) struct OutgoingFrame {
    /// A complete frame.
    pub(super) bytes: Vec<u8>,
    of_a_stream: bool,
}

impl OutgoingFrame {
    pub(super) const fn request(bytes: Vec<u8>) -> Self {
        Self { bytes, of_a_stream: false }
    }
}

/// All streams of a connection.
pub(super) struct StreamTable {
    nonce: Nonce,
    accept: Option<StreamHandler>,
    outgoing: mpsc::UnboundedSender<OutgoingFrame>,
    backlog: AtomicUsize,
    open: Mutex<HashMap<u32, Arc<StreamEntry>>>,
}

struct StreamEntry {
    id: u32,
    state: Mutex<State>,
    gone: CancellationToken,
}

#[derive(Default)]
struct State {
    incoming: VecDeque<u8>,
    /// Bytes that were read here and for which the helper has no credit yet.
    taken: usize,
    /// Bytes that the helper still accepts.
    credit: usize,
    read_ended: bool,
    write_ended: bool,
    reset: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// A connection of a program in a sandbox. Dropping it breaks the connection off.
pub struct HelperStream {
    one: Arc<StreamEntry>,
    streams: Arc<StreamTable>,
}

impl StreamTable {
    pub(super) fn new(
        nonce: Nonce,
        accept: Option<StreamHandler>,
        outgoing: mpsc::UnboundedSender<OutgoingFrame>,
    ) -> Arc<Self> {
        Arc::new(Self { nonce, accept, outgoing, backlog: AtomicUsize::new(0), open: Mutex::default() })
    }

    /// Handles a step sent by the helper. A step of an unknown stream is ignored.
    pub(super) fn take(self: &Arc<Self>, id: u32, step: Step) {
        if step == Step::Open {
            return self.open(id);
        }
        let Some(one) = self.table().get(&id).cloned() else { return };
        let mut state = one.state();
        let kept = match step {
            Step::Data(data) => {
                // Bytes that were read but not credited still count, so the helper cannot exceed the window.
                let fits = !state.read_ended && state.incoming.len() + state.taken + data.len() <= WINDOW;
                if fits {
                    state.incoming.extend(data);
                }
                fits
            }
            Step::Credit(more) => {
                state.credit = state.credit.saturating_add(more as usize).min(WINDOW);
                true
            }
            Step::End => {
                state.read_ended = true;
                true
            }
            Step::Reset | Step::Open => {
                state.reset();
                drop(state);
                one.gone.cancel();
                return drop(self.table().remove(&id));
            }
        };
        state.wake();
        drop(state);
        if !kept {
            self.reset_stream(&one);
        }
    }

    fn open(self: &Arc<Self>, id: u32) {
        // Each side may send a full window before the first credit.
        let state = State { credit: WINDOW, ..State::default() };
        let one = Arc::new(StreamEntry { id, state: Mutex::new(state), gone: CancellationToken::new() });
        let accept = {
            let mut open = self.table();
            let known = open.contains_key(&id);
            match &self.accept {
                Some(accept) if open.len() < MAX_OPEN && !known => {
                    open.insert(id, Arc::clone(&one));
                    accept
                }
                // A stream of this number is open already. Ignore the step, because a reset would break the existing
                // stream off.
                _ if known => return,
                _ => {
                    drop(open);
                    // Nobody accepts this stream, or there are too many.
                    return self.tell(id, Step::Reset);
                }
            }
        };
        accept(HelperStream { one, streams: Arc::clone(self) });
    }

    /// Breaks off all streams after the connection was lost.
    pub(super) fn lose(&self) {
        for (_, one) in self.table().drain() {
            one.state().reset();
            one.gone.cancel();
        }
    }

    /// Returns `true` if more bytes wait to be written than the helper can ever have asked for.
    pub(super) fn is_backlog_full(&self) -> bool {
        self.backlog.load(Ordering::Relaxed) > MAX_BACKLOG
    }

    /// Removes a written frame from the backlog.
    pub(super) fn written(&self, sent: &OutgoingFrame) {
        if sent.of_a_stream {
            self.backlog.fetch_sub(sent.bytes.len(), Ordering::Relaxed);
        }
    }

    fn reset_stream(&self, one: &StreamEntry) {
        let known = self.table().remove(&one.id).is_some();
        one.state().reset();
        one.gone.cancel();
        // A stream that is no longer in the table was ended by the helper and needs no reset.
        if known {
            self.tell(one.id, Step::Reset);
        }
    }

    fn tell(&self, id: u32, step: Step) {
        let (kind, payload) = Request::Stream { stream: id, step }.encode();
        let mut bytes = Vec::new();
        if frame::encode(kind, &self.nonce, &payload, &mut bytes).is_ok() {
            self.backlog.fetch_add(bytes.len(), Ordering::Relaxed);
            let _ = self.outgoing.send(OutgoingFrame { bytes, of_a_stream: true });
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<u32, Arc<StreamEntry>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamEntry {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn reset(&mut self) {
        self.reset = true;
        self.incoming = VecDeque::new();
        self.wake();
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

impl HelperStream {
    /// Returns a token that fires when the program, the helper or the connection has broken the stream off.
    #[must_use]
    pub fn gone(&self) -> CancellationToken {
        self.one.gone.clone()
    }
}

impl AsyncRead for HelperStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut state = self.one.state();
        if state.reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.incoming.is_empty() {
            if state.read_ended {
                return Poll::Ready(Ok(()));
            }
            state.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let (first, _) = state.incoming.as_slices();
        let count = first.len().min(buffer.remaining());
        buffer.put_slice(&first[..count]);
        state.incoming.drain(..count);
        state.taken += count;
        // Credit is sent for half a window at a time, to save frames.
        if state.taken >= WINDOW / 2 && !state.read_ended {
            let more = u32::try_from(std::mem::take(&mut state.taken)).unwrap_or(0);
            drop(state);
            self.streams.tell(self.one.id, Step::Credit(more));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for HelperStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.one.state();
        if state.reset || state.write_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = data.len().min(state.credit).min(MAX_DATA);
        if count == 0 && !data.is_empty() {
            state.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        state.credit -= count;
        // Sent while the lock is held, so that two writes of one stream keep their order.
        self.streams.tell(self.one.id, Step::Data(data[..count].to_vec()));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.one.state();
        if !state.write_ended && !state.reset {
            state.write_ended = true;
            self.streams.tell(self.one.id, Step::End);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for HelperStream {
    fn drop(&mut self) {
        let state = self.one.state();
        // A stream that both sides have ended needs no reset.
        let over = state.read_ended && state.write_ended && state.incoming.is_empty();
        drop(state);
        if over {
            self.streams.table().remove(&self.one.id);
        } else {
            self.streams.reset_stream(&self.one);
        }
    }
}
