//! Reads a request body within a size limit and a deadline, and parses it as JSON.

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
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

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {} MiB", limit >> 20),
    )
}
