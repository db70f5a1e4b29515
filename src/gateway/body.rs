//! Reads a request body within a size limit and a deadline, and parses it as JSON.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, Incoming, SizeHint};
use serde::de::DeserializeOwned;

use super::error::ApiError;
use super::limits::ServerLimits;

/// Refuses a body whose `Content-Length` is too large, before any of it is read.
///
/// # Errors
///
/// Returns 413 if the announced length is over `limit`.
pub(crate) fn check_announced(headers: &HeaderMap, limit: usize) -> Result<(), ApiError> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match announced.and_then(|text| text.parse::<u64>().ok()) {
        Some(length) if length > limit as u64 => Err(too_large(limit)),
        _ => Ok(()),
    }
}

/// An extractor for a request body that is parsed from JSON.
pub(crate) struct JsonBody<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        // The middleware puts the limits of the path into the request.
        let limits = request.extensions().get::<ServerLimits>().copied().unwrap_or_default();
        let bytes = whole(request.into_body(), &limits).await?;
        parsed(&bytes).map(Self)
    }
}

/// Parses a body from JSON.
///
/// # Errors
///
/// Returns 400 if the body is not valid JSON or does not have the expected shape.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::invalid("invalid_body", format!("the body does not fit this path: {error}"))
    })
}

/// An extractor for the unparsed bytes of a request body.
pub(crate) struct RawBody(pub Vec<u8>);

impl<S: Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let limits = request.extensions().get::<ServerLimits>().copied().unwrap_or_default();
        whole(request.into_body(), &limits).await.map(Self)
    }
}

/// Reads a whole body.
///
/// # Errors
///
/// Returns 413 if the body is too large, 408 if it takes too long, and 400 if it breaks off.
pub(crate) async fn whole(body: Body, limits: &ServerLimits) -> Result<Vec<u8>, ApiError> {
    tokio::time::timeout(limits.body_timeout, read(body, limits.body))
        .await
        .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body took too long"))?
}

async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let announced = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
    // The announced size is the client's claim, so the limit also bounds the first allocation.
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(limit));
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| ApiError::invalid("broken_body", "the body broke off").with_cause(error))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > limit {
                return Err(too_large(limit));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

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

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {} MiB", limit >> 20),
    )
}
