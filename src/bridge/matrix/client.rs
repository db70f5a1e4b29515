//! Sends requests of the client-server API.

use std::borrow::Cow;
use std::time::Duration;

use ruma::api::auth_scheme::{AuthScheme, SendAccessToken};
use ruma::api::error::Error;
use ruma::api::path_builder::VersionHistory;
use ruma::api::{
    EndpointError as _, IncomingResponseExt as _, MatrixVersion, OutgoingRequest, OutgoingRequestExt as _,
    SupportedVersions,
};
use serde_json::Value;

use super::failure::Failure;
use crate::bridge::platform::PlatformError;
use crate::error::chain;

/// The longest that a request takes, less the time that the homeserver may hold it.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Largest answer that is read.
const MAX_ANSWER: usize = 64 << 20;

/// A client for one account.
pub(super) struct Client {
    http: reqwest::Client,
    homeserver: String,
    token: String,
}

/// The version of the API in which a request is sent.
#[derive(Clone, Copy)]
pub(super) enum Version {
    /// 1.1, which every homeserver since 2021 has.
    Old,
    /// 1.11 of 2024, which has paths of its own for files.
    Recent,
}

impl Version {
    fn known(self) -> SupportedVersions {
        let versions = match self {
            Self::Old => [MatrixVersion::V1_1].into(),
            Self::Recent => [MatrixVersion::V1_1, MatrixVersion::V1_11].into(),
        };
        SupportedVersions { versions, features: [].into() }
    }
}

impl Client {
    pub(super) fn new(homeserver: &str, token: String) -> Result<Self, PlatformError> {
        // An error only means that a provider is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("flock/", env!("CARGO_PKG_VERSION")))
            // A request carries the token, so it must not be redirected to another address.
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .read_timeout(TIMEOUT)
            .timeout(2 * TIMEOUT)
            .tcp_keepalive(Duration::from_secs(30))
            .build()
            .map_err(|error| PlatformError::Unavailable(chain(&error)))?;
        Ok(Self { http, homeserver: homeserver.to_owned(), token })
    }

    /// Sends a request and reads its answer.
    pub(super) async fn send<R>(&self, request: R) -> Result<R::IncomingResponse, Failure>
    where
        R: OutgoingRequest<EndpointError = Error, PathBuilder = VersionHistory>,
        for<'a> R::Authentication: AuthScheme<Input<'a> = SendAccessToken<'a>>,
    {
        let body = self.bytes(request, Version::Old, MAX_ANSWER).await?;
        R::IncomingResponse::try_from_http_response(axum::http::Response::new(body.as_slice()))
            .map_err(|error| Failure::unreadable(&error))
    }

    /// Sends a request, and reads its answer as JSON of any form. An answer with the events of strangers is read like
    /// this: one of them that has an unexpected form must not make the others unreadable.
    pub(super) async fn json<R>(&self, request: R, version: Version) -> Result<Value, Failure>
    where
        R: OutgoingRequest<EndpointError = Error, PathBuilder = VersionHistory>,
        for<'a> R::Authentication: AuthScheme<Input<'a> = SendAccessToken<'a>>,
    {
        let body = self.bytes(request, version, MAX_ANSWER).await?;
        serde_json::from_slice(&body).map_err(|error| Failure::unreadable(&error))
    }

    /// Sends a request, and reads an answer of at most `most` bytes.
    pub(super) async fn bytes<R>(&self, request: R, version: Version, most: usize) -> Result<Vec<u8>, Failure>
    where
        R: OutgoingRequest<EndpointError = Error, PathBuilder = VersionHistory>,
        for<'a> R::Authentication: AuthScheme<Input<'a> = SendAccessToken<'a>>,
    {
        let request = request
            .try_into_http_request::<Vec<u8>>(
                &self.homeserver,
                SendAccessToken::IfRequired(&self.token),
                Cow::Owned(version.known()),
            )
            .map_err(|error| PlatformError::Refused(chain(&error)))?;
        let (parts, body) = request.into_parts();
        let sent = self.http.request(parts.method, parts.uri.to_string()).headers(parts.headers).body(body);
        let mut answer = sent.send().await.map_err(Failure::unavailable)?;
        let status = answer.status();
        // The text of an error is needed whatever the limit is.
        let most = if status.is_success() { most } else { MAX_ANSWER };
        let mut read = Vec::new();
        while let Some(piece) = answer.chunk().await.map_err(Failure::unavailable)? {
            // The announced size is not asked: it may be missing or wrong.
            if read.len() + piece.len() > most {
                return Err(Failure::too_large(most));
            }
            read.extend_from_slice(&piece);
        }
        if status.is_success() {
            return Ok(read);
        }
        let mut response = axum::http::Response::new(read.as_slice());
        *response.status_mut() = status;
        *response.headers_mut() = answer.headers().clone();
        Err(Failure::refused(&Error::from_http_response(response)))
    }
}
