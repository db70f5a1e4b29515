//! Extracts a request's path parameters and query. These types replace axum's own extractors, whose errors are plain
//! text and not in the documented format.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path as AxumPath, Query as AxumQuery};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::error::ApiError;

/// The parameters in a request's path.
pub(crate) struct Path<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match AxumPath::from_request_parts(parts, state).await {
            Ok(AxumPath(value)) => Ok(Self(value)),
            // This is a mistake in the route table and not of the client.
            Err(error @ PathRejection::MissingPathParams(_)) => Err(ApiError::internal(error)),
            Err(error) => Err(ApiError::invalid("invalid_path", error.body_text())),
        }
    }
}

/// The parameters in a request's query string.
pub(crate) struct Query<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query: Result<AxumQuery<T>, QueryRejection> = AxumQuery::from_request_parts(parts, state).await;
        match query {
            Ok(AxumQuery(value)) => Ok(Self(value)),
            Err(error) => Err(ApiError::invalid("invalid_query", error.body_text())),
        }
    }
}

/// Returns the value of a query parameter that is 1 or 0, and 0 if it is left out. `name` is for the error.
pub(crate) fn flag(name: &str, value: &str) -> Result<bool, ApiError> {
    match value {
        "" | "0" | "false" => Ok(false),
        "1" | "true" => Ok(true),
        _ => Err(ApiError::invalid("invalid_query", format!("{name} is 1 or 0"))),
    }
}
