//! The body of a request that may be refused before it was read.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::HttpBody;
use axum::http::{HeaderMap, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};

/// A request body as the connection delivers it.
///
/// When this is dropped, the rest of the body is read and discarded, within limits. Closing the connection at once
/// would make the kernel reset it, and a client that still sends would never read why it was refused.
pub(crate) struct DrainingBody {
    body: Option<Incoming>,
    /// `true` while a client that sent `Expect` has not been asked for its body. Such a client must not be invited to
    /// send a body that nobody reads.
    waits: bool,
    ended: Arc<AtomicBool>,
}

/// A handle that tells if a body has been read to its end.
#[derive(Clone, Debug)]
pub(crate) struct BodyEnd(Arc<AtomicBool>);

impl BodyEnd {
    /// Returns `true` if nothing of the body is left to read.
    #[must_use]
    pub(crate) fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl DrainingBody {
    /// Wraps the body of a request that has these headers.
    #[must_use]
    pub(crate) fn new(body: Incoming, headers: &HeaderMap) -> Self {
        let ended = Arc::new(AtomicBool::new(body.is_end_stream()));
        Self { body: Some(body), waits: headers.contains_key(header::EXPECT), ended }
    }

    /// Returns a handle that tells later if the body was read to its end.
    #[must_use]
    pub(crate) fn ended(&self) -> BodyEnd {
        BodyEnd(Arc::clone(&self.ended))
    }
}

impl HttpBody for DrainingBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        // Reading sends `100 Continue`, so the client sends its body from here on.
        self.waits = false;
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
        // An error ends the body as well.
        if !matches!(frame, Some(Ok(_))) || self.is_end_stream() {
            self.ended.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for DrainingBody {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        if self.waits || self.ended.load(Ordering::Acquire) {
            return;
        }
        // `drop` can't wait, so a task reads the rest. Without a runtime the body is only dropped.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(drain(body, Arc::clone(&self.ended)));
        }
    }
}

/// Most bytes of a refused request that are read and discarded.
const MAX_DRAINED: usize = 256 << 20;
/// Longest time for which a refused request is read and discarded.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

async fn drain(mut body: Incoming, ended: Arc<AtomicBool>) {
    let take = async {
        let mut taken = 0;
        while let Some(Ok(frame)) = body.frame().await {
            taken += frame.data_ref().map_or(0, Bytes::len);
            if taken > MAX_DRAINED {
                return;
            }
        }
        ended.store(true, Ordering::Release);
    };
    drop(tokio::time::timeout(DRAIN_TIMEOUT, take).await);
}
