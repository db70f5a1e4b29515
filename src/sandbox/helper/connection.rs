//! A single connection to a helper. It sends requests and delivers each reply to the task that waits for it. It does
//! not interpret the replies.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::error::HelperError;
use super::frame::{self, Decoder, Nonce};
use super::line::{HelperStreams, Line, Resumption};
use super::message::{Reply, Request, VERSION, WELCOME};
use super::streams::{OutgoingFrame, StreamHandler, StreamTable};

/// Limit on requests that wait for an answer: the commands that a helper runs at most, and some other requests.
const MAX_PENDING: usize = 96;
/// Limit on frames with a wrong checksum, after which the connection is given up.
pub(super) const MAX_BROKEN_FRAMES: u64 = 32;
pub(super) const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// An open connection. Dropping it closes the connection.
pub(super) struct Connection {
    shared: Arc<Shared>,
    outgoing: mpsc::UnboundedSender<OutgoingFrame>,
    room: Semaphore,
    last: AtomicU32,
    can_resume: bool,
    _end: DropGuard,
}

pub(super) struct Shared {
    pub(super) nonce: Nonce,
    state: Mutex<State>,
    pub(super) lost: CancellationToken,
    /// Told when the streams seem to be dead.
    pub(super) suspect: Notify,
    pub(super) streams: Arc<StreamTable>,
}

/// A port on the sandbox's loopback for the helper to listen on, and the function that takes its connections.
pub struct PortForward {
    pub port: u16,
    /// Called with each connection, inside an async runtime.
    pub accept: StreamHandler,
}

/// Both ends of the queue of frames.
struct Outgoing {
    outgoing: mpsc::UnboundedSender<OutgoingFrame>,
    queue: mpsc::UnboundedReceiver<OutgoingFrame>,
}

#[derive(Default)]
struct State {
    waiting: HashMap<u32, oneshot::Sender<Reply>>,
    lost: Option<String>,
}

/// A request that has been sent. Dropping it before its answer arrives discards the answer.
pub(super) struct PendingReply<'a> {
    pub(super) request: u32,
    answer: oneshot::Receiver<Reply>,
    shared: &'a Shared,
    _room: SemaphorePermit<'a>,
}

impl Connection {
    /// Opens a connection over two streams. Bytes of an earlier client in them are skipped.
    pub(super) async fn open<R, W>(
        mut reader: R,
        mut writer: W,
        entrance: Option<PortForward>,
    ) -> Result<Self, HelperError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (shared, parts, decoder) = Self::begin(&mut reader, &mut writer, entrance).await?;
        // Both tasks end when `lost` fires, which dropping the connection does.
        tokio::spawn(write(writer, parts.queue, shared.clone()));
        tokio::spawn(read(reader, decoder, shared.clone()));
        Ok(Self::of(shared, parts.outgoing, false))
    }

    /// Opens a connection that goes on over other streams if these break.
    pub(super) async fn open_resumable(
        (mut reader, mut writer): HelperStreams,
        entrance: Option<PortForward>,
        resumption: Resumption,
    ) -> Result<Self, HelperError> {
        let (shared, parts, decoder) = Self::begin(&mut reader, &mut writer, entrance).await?;
        let line = Line::new(shared.clone(), parts.queue, resumption);
        tokio::spawn(line.run((reader, writer), decoder));
        Ok(Self::of(shared, parts.outgoing, true))
    }

    fn of(shared: Arc<Shared>, outgoing: mpsc::UnboundedSender<OutgoingFrame>, can_resume: bool) -> Self {
        let end = shared.lost.clone().drop_guard();
        Self {
            shared,
            outgoing,
            room: Semaphore::new(MAX_PENDING),
            last: AtomicU32::new(0),
            can_resume,
            _end: end,
        }
    }

    /// Greets the helper.
    async fn begin(
        reader: &mut (impl AsyncRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
        entrance: Option<PortForward>,
    ) -> Result<(Arc<Shared>, Outgoing, Decoder), HelperError> {
        let nonce: Nonce = rand::random();
        let (port, accept) = match entrance {
            Some(PortForward { port, accept }) => (port, Some(accept)),
            None => (0, None),
        };
        let (kind, payload) = Request::Hello { version: VERSION, port }.encode();
        let hello = encode(kind, &nonce, &payload)?;
        // The decoder searches for the welcome frame, because output of an earlier connection may come before it.
        let mut decoder = Decoder::new(WELCOME);
        let greeting = async {
            writer.write_all(&hello).await.and(writer.flush().await).map_err(|error| lost(&error))?;
            greet(reader, &mut decoder, &nonce).await
        };
        match tokio::time::timeout(GREETING_TIMEOUT, greeting).await {
            Err(_) => return Err(HelperError::Silent(GREETING_TIMEOUT)),
            Ok(welcome) => match welcome? {
                (VERSION, listens) => {
                    if !listens && accept.is_some() {
                        tracing::warn!(
                            port,
                            "a program in the sandbox uses the proxy's port, so no connection gets out"
                        );
                    }
                }
                (found, _) => return Err(HelperError::Version(found)),
            },
        }

        let lost = CancellationToken::new();
        let (outgoing, queue) = mpsc::unbounded_channel();
        let streams = StreamTable::new(nonce, accept, outgoing.clone());
        let suspect = Notify::new();
        let shared = Arc::new(Shared { nonce, state: Mutex::default(), lost, suspect, streams });
        Ok((shared, Outgoing { outgoing, queue }, decoder))
    }

    /// Has the connection go on over other streams, because an answer did not come in time. Returns `false` if it can't.
    pub(super) fn suspect(&self) -> bool {
        if self.can_resume {
            self.shared.suspect.notify_one();
        }
        self.can_resume
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.shared.lost.is_cancelled()
    }

    /// Sends the request that `make` builds for a new request number. Waits while [`MAX_PENDING`] requests are
    /// unanswered.
    pub(super) async fn send(
        &self,
        make: impl FnOnce(u32) -> Request,
    ) -> Result<PendingReply<'_>, HelperError> {
        let room = self.room.acquire().await.map_err(|_| self.shared.why())?;
        let request = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (kind, payload) = make(request).encode();
        let bytes = encode(kind, &self.shared.nonce, &payload)?;
        let (sender, answer) = oneshot::channel();
        // Registered before it is sent, so that the answer cannot arrive first. If the connection is lost already, the
        // sender is dropped here and `answer` fails.
        {
            let mut state = self.shared.state();
            if state.lost.is_none() {
                state.waiting.insert(request, sender);
            }
        }
        let pending = PendingReply { request, answer, shared: &self.shared, _room: room };
        if !self.is_alive() || self.outgoing.send(OutgoingFrame::request(bytes)).is_err() {
            return Err(self.shared.why());
        }
        Ok(pending)
    }

    /// Sends a request that has no answer of its own.
    pub(super) fn tell(&self, request: &Request) {
        let (kind, payload) = request.encode();
        if let Ok(bytes) = encode(kind, &self.shared.nonce, &payload) {
            let _ = self.outgoing.send(OutgoingFrame::request(bytes));
        }
    }

    /// Closes the connection for this reason, as after an answer that did not come in time, and returns the error.
    pub(super) fn give_up(&self, reason: &str) -> HelperError {
        self.shared.lose(reason.to_owned());
        self.shared.why()
    }
}

impl PendingReply<'_> {
    /// Waits for the answer. The future is cancel safe.
    pub(super) async fn answer(&mut self) -> Result<Reply, HelperError> {
        (&mut self.answer).await.map_err(|_| self.shared.why())
    }
}

impl Drop for PendingReply<'_> {
    fn drop(&mut self) {
        self.shared.state().waiting.remove(&self.request);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Marks the connection as lost and wakes all waiting requests. The first reason is kept.
    pub(super) fn lose(&self, reason: String) {
        let mut state = self.state();
        state.lost.get_or_insert(reason);
        state.waiting.clear();
        drop(state);
        self.lost.cancel();
    }

    fn why(&self) -> HelperError {
        let reason = self.state().lost.clone();
        HelperError::Lost(reason.unwrap_or_else(|| "the connection was closed".to_owned()))
    }

    /// Takes a reply that has arrived.
    pub(super) fn take(&self, reply: Reply) {
        match reply {
            Reply::Stream { stream, step } => self.streams.take(stream, step),
            reply => self.deliver(reply),
        }
    }

    fn deliver(&self, reply: Reply) {
        let request = match &reply {
            Reply::Welcome { .. } | Reply::Resumed { .. } | Reply::Confirm { .. } | Reply::Stream { .. } => {
                return;
            }
            Reply::Refused { request, .. }
            | Reply::Started { request, .. }
            | Reply::Ended { request, .. }
            | Reply::Jobs { request, .. }
            | Reply::Admitted { request, .. }
            | Reply::Dismissed { request, .. }
            | Reply::File { request, .. } => *request,
        };
        // An answer that nobody waits for is late or forged. Ignore it.
        if let Some(sender) = self.state().waiting.remove(&request) {
            let _ = sender.send(reply);
        }
    }
}

/// Waits for the answer to the greeting. Returns the helper's version, and `true` if it listens on the port.
async fn greet(
    reader: &mut (impl AsyncRead + Unpin),
    decoder: &mut Decoder,
    nonce: &Nonce,
) -> Result<(u32, bool), HelperError> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        while let Some(frame) = decoder.next_frame() {
            // A frame of an earlier connection carries another nonce.
            if frame.nonce != *nonce {
                continue;
            }
            if let Some(Reply::Welcome { version, listens }) = Reply::decode(frame.kind, &frame.payload) {
                return Ok((version, listens));
            }
        }
        match reader.read(&mut buffer).await {
            Ok(0) => return Err(HelperError::Lost("its output ended".to_owned())),
            Ok(count) => decoder.push(&buffer[..count]),
            Err(error) => return Err(lost(&error)),
        }
        if decoder.broken() > MAX_BROKEN_FRAMES {
            return Err(HelperError::Lost("its output is damaged".to_owned()));
        }
    }
}

async fn read(mut reader: impl AsyncRead + Unpin, mut decoder: Decoder, shared: Arc<Shared>) {
    let mut buffer = vec![0; 64 * 1024];
    let reason = loop {
        while let Some(frame) = decoder.next_frame() {
            if frame.nonce != shared.nonce {
                continue;
            }
            // A frame that cannot be decoded is skipped. The helper shares its user with the agent, so its output is not
            // trusted.
            if let Some(reply) = Reply::decode(frame.kind, &frame.payload) {
                shared.take(reply);
            }
        }
        if decoder.broken() > MAX_BROKEN_FRAMES {
            break "its output is damaged".to_owned();
        }
        if shared.streams.is_backlog_full() {
            break "it sends output but reads no input".to_owned();
        }
        tokio::select! {
            () = shared.lost.cancelled() => return shared.streams.lose(),
            count = reader.read(&mut buffer) => match count {
                Ok(0) => break "its output ended".to_owned(),
                Ok(count) => decoder.push(&buffer[..count]),
                Err(error) => break format!("its output can't be read: {error}"),
            },
        }
    };
    shared.lose(reason);
    shared.streams.lose();
}

async fn write(
    mut writer: impl AsyncWrite + Unpin,
    mut queue: mpsc::UnboundedReceiver<OutgoingFrame>,
    shared: Arc<Shared>,
) {
    loop {
        let next = tokio::select! {
            () = shared.lost.cancelled() => return,
            next = queue.recv() => match next {
                Some(next) => next,
                None => return,
            },
        };
        // A frame must be written completely while the connection lives, so only its loss may interrupt the write.
        let written = tokio::select! {
            () = shared.lost.cancelled() => return,
            written = async { writer.write_all(&next.bytes).await.and(writer.flush().await) } => written,
        };
        shared.streams.written(&next);
        if let Err(error) = written {
            return shared.lose(format!("it takes no input: {error}"));
        }
    }
}

pub(super) fn encode(kind: u8, nonce: &Nonce, payload: &[u8]) -> Result<Vec<u8>, HelperError> {
    let mut bytes = Vec::new();
    frame::encode(kind, nonce, payload, &mut bytes).map_err(|_| HelperError::TooLarge("the request"))?;
    Ok(bytes)
}

fn lost(error: &std::io::Error) -> HelperError {
    HelperError::Lost(error.to_string())
}
