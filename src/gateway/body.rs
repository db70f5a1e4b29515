//! Reading a request's body: at most so many bytes, within a time, as JSON.

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
use super::limits::Limits;

/// Refuses a body whose own announcement is too large, before anything of it is read.
///
/// # Errors
///
/// 413.
pub fn check_announced(headers: &HeaderMap, limit: usize) -> Result<(), ApiError> {
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    match announced.and_then(|text| text.parse::<u64>().ok()) {
        Some(length) if length > limit as u64 => Err(too_large(limit)),
        _ => Ok(()),
    }
}

/// A request's body, parsed.
pub struct Json<T>(pub T);

impl<S: Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let limits = request.extensions().get::<Limits>().copied().unwrap_or_default();
        let bytes = whole(request.into_body(), &limits).await?;
        parsed(&bytes).map(Self)
    }
}

/// A body as what its path takes.
///
/// # Errors
///
/// 400 where it is not that.
pub fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| {
        ApiError::invalid("invalid_body", format!("the body is not what this path takes: {error}"))
    })
}

/// A request's body as it came.
pub struct Raw(pub Vec<u8>);

impl<S: Sync> FromRequest<S> for Raw {
    type Rejection = ApiError;

    async fn from_request(request: Request, _state: &S) -> Result<Self, ApiError> {
        let limits = request.extensions().get::<Limits>().copied().unwrap_or_default();
        whole(request.into_body(), &limits).await.map(Self)
    }
}

/// All of a body.
///
/// # Errors
///
/// 413 and 408 where it is too large or too slow, 400 where it breaks off.
pub async fn whole(body: Body, limits: &Limits) -> Result<Vec<u8>, ApiError> {
    tokio::time::timeout(limits.body_timeout, read(body, limits.body))
        .await
        .map_err(|_| ApiError::new(StatusCode::REQUEST_TIMEOUT, "body_too_slow", "the body took too long"))?
}

async fn read(mut body: Body, limit: usize) -> Result<Vec<u8>, ApiError> {
    let announced = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
    let mut bytes = Vec::with_capacity(announced.unwrap_or(0).min(limit));
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| ApiError::invalid("broken_body", "the body broke off").because(error))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > limit {
                return Err(too_large(limit));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// A request's body as the connection has it. What nobody has read of it when it is dropped is taken in and thrown
/// away, within limits: closing the connection at once would make the kernel reset it, and the client, which still
/// sends, would never read why it was refused.
pub struct Unread {
    body: Option<Incoming>,
    /// A client that asked before it sends must not be invited to send what nobody reads.
    waits: bool,
    ended: Arc<AtomicBool>,
}

/// Tells whether a body has been read to its end.
#[derive(Clone, Debug)]
pub struct Ended(Arc<AtomicBool>);

impl Ended {
    /// Whether nothing of the body is left to be read.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Unread {
    /// The body of a request with these headers.
    #[must_use]
    pub fn new(body: Incoming, headers: &HeaderMap) -> Self {
        let ended = Arc::new(AtomicBool::new(body.is_end_stream()));
        Self { body: Some(body), waits: headers.contains_key(header::EXPECT), ended }
    }

    /// Tells later whether it was read to its end.
    #[must_use]
    pub fn ended(&self) -> Ended {
        Ended(Arc::clone(&self.ended))
    }
}

impl HttpBody for Unread {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.waits = false;
        let Some(body) = self.body.as_mut() else { return Poll::Ready(None) };
        let frame = ready!(Pin::new(body).poll_frame(context));
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

impl Drop for Unread {
    fn drop(&mut self) {
        let Some(body) = self.body.take() else { return };
        if self.waits || self.ended.load(Ordering::Acquire) {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(drain(body, Arc::clone(&self.ended)));
        }
    }
}

/// The most bytes of a refused request that are taken in.
const MOST_DRAINED: usize = 256 << 20;
/// How long a refused request is taken in.
const DRAINING: Duration = Duration::from_secs(2);

async fn drain(mut body: Incoming, ended: Arc<AtomicBool>) {
    let take = async {
        let mut taken = 0;
        while let Some(Ok(frame)) = body.frame().await {
            taken += frame.data_ref().map_or(0, Bytes::len);
            if taken > MOST_DRAINED {
                return;
            }
        }
        ended.store(true, Ordering::Release);
    };
    drop(tokio::time::timeout(DRAINING, take).await);
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {} MiB", limit >> 20),
    )
}
