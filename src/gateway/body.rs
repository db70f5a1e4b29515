//! Reading a request's body: at most so many bytes, within a time, as JSON.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
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
        serde_json::from_slice(&bytes).map(Self).map_err(|error| {
            ApiError::invalid("invalid_body", format!("the body is not what this path takes: {error}"))
        })
    }
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
                tokio::spawn(drain(body));
                return Err(too_large(limit));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes)
}

/// Takes in and throws away what a refused client still sends. Closing at once would make the kernel reset
/// the connection, and the client would never read why it was refused.
pub async fn drain(mut body: Body) {
    const MOST: usize = 256 << 20;
    let take = async {
        let mut taken = 0;
        while let Some(Ok(frame)) = body.frame().await {
            taken += frame.data_ref().map_or(0, bytes::Bytes::len);
            if taken > MOST {
                break;
            }
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(2), take).await);
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        "body_too_large",
        format!("the body is larger than {} MiB", limit >> 20),
    )
}
