//! The HTTP client of a connection, with the token of the sign-in in each request.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, InsufficientScopeError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use sse_stream::Sse;

use super::access::{Access, NoAccess};
use crate::secret_text::HIDDEN;

/// A client that signs its requests.
///
/// Its errors are the SDK's. [`AuthRequiredError`] and [`InsufficientScopeError`] have flock's own reason in the place of the
/// server's header, because the SDK passes nothing else through and the header is the server's text.
#[derive(Clone)]
pub(in crate::mcp) struct SigningClient {
    http: Client,
    access: Arc<Access>,
}

type Headers = HashMap<HeaderName, HeaderValue>;
type Failure = StreamableHttpError<reqwest::Error>;

impl SigningClient {
    pub(super) fn with(http: Client, access: Arc<Access>) -> Self {
        Self { http, access }
    }

    /// Makes a request, again with another token if the server refuses the first one.
    async fn call<T, F>(&self, call: impl Fn(Option<String>) -> F) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let token = self.access.token().await.map_err(failure)?;
        let error = match call(token.clone()).await {
            Ok(answer) => return Ok(answer),
            Err(error) => without(error, token.as_deref()),
        };
        let Some(header) = refusal(&error) else { return Err(self.other(error).await) };
        let Some(refused) = token else { return Err(required(self.access.refused(&header, false))) };
        let renewed = self.access.renewed(&refused).await.map_err(failure)?;
        match call(Some(renewed.clone())).await {
            Ok(answer) => Ok(answer),
            Err(error) => match refusal(&error) {
                Some(header) => Err(required(self.access.refused(&header, true))),
                None => Err(self.other(without(error, Some(&renewed))).await),
            },
        }
    }

    async fn other(&self, error: Failure) -> Failure {
        match error {
            StreamableHttpError::InsufficientScope(error) => {
                let reason = self.access.forbidden(&error.www_authenticate_header).await;
                StreamableHttpError::InsufficientScope(InsufficientScopeError::new(reason, None))
            }
            error => error,
        }
    }
}

fn required(reason: String) -> Failure {
    StreamableHttpError::AuthRequired(AuthRequiredError::new(reason))
}

fn failure(reason: NoAccess) -> Failure {
    match reason {
        NoAccess::Person(text) => required(text),
        NoAccess::Unreached(text) => StreamableHttpError::UnexpectedServerResponse(text.into()),
    }
}

/// Returns the header of a refusal for want of a good token. It is empty if the server sent none.
fn refusal(error: &Failure) -> Option<String> {
    match error {
        StreamableHttpError::AuthRequired(error) => Some(error.www_authenticate_header.clone()),
        // The SDK says nothing else of a refusal without the header.
        StreamableHttpError::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => {
            Some(String::new())
        }
        StreamableHttpError::Client(error) if error.status().is_some_and(|status| status == 401) => {
            Some(String::new())
        }
        _ => None,
    }
}

/// Returns an error without the token, which a server can repeat in its answer.
fn without(error: Failure, token: Option<&str>) -> Failure {
    match (error, token) {
        (StreamableHttpError::UnexpectedServerResponse(text), Some(token)) if text.contains(token) => {
            StreamableHttpError::UnexpectedServerResponse(text.replace(token, HIDDEN).into())
        }
        (error, _) => error,
    }
}

impl StreamableHttpClient for SigningClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session_id, auth_header, custom_headers, limits)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.call(|token| {
            self.http.post_message_with_response_limits(
                Arc::clone(&uri),
                message.clone(),
                session_id.clone(),
                token,
                custom_headers.clone(),
                limits,
            )
        })
        .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), Failure> {
        self.call(|token| {
            self.http.delete_session(Arc::clone(&uri), Arc::clone(&session_id), token, custom_headers.clone())
        })
        .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.call(|token| {
            self.http.get_stream(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
            )
        })
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: Headers,
        max_sse_event_size: usize,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        self.call(|token| {
            self.http.get_stream_with_max_sse_event_size(
                Arc::clone(&uri),
                session_id.clone(),
                last_event_id.clone(),
                token,
                custom_headers.clone(),
                max_sse_event_size,
            )
        })
        .await
    }
}
