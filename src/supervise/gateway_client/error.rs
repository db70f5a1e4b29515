//! Errors of requests from commands to the gateway.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::Value;

use crate::error::{Explain, Kind};

/// An error of an HTTP request over loopback.
#[derive(Debug, thiserror::Error)]
pub enum GatewayClientError {
    /// Nothing listens at the address.
    #[error("nothing answers at {address}")]
    Unreachable {
        address: SocketAddr,
        #[source]
        source: std::io::Error,
    },
    /// No answer came in time.
    #[error("{address} did not answer within {limit:?}")]
    Timeout {
        address: SocketAddr,
        /// The time that was waited.
        limit: Duration,
    },
    /// The connection broke, or the answer is not HTTP.
    #[error("the connection to {address} broke")]
    Broken {
        address: SocketAddr,
        #[source]
        source: hyper::Error,
    },
    /// The gateway answered with an error status.
    #[error("{message}")]
    Status {
        address: SocketAddr,
        status: u16,
        /// The gateway's error code, if it sent one.
        code: Option<String>,
        message: String,
        /// The gateway's hint, if it sent one.
        hint: Option<String>,
    },
    /// The answer is not the expected JSON.
    #[error("{address} answered with something else than the expected JSON")]
    Decode {
        address: SocketAddr,
        #[source]
        source: serde_json::Error,
    },
    /// The answer, or one event of it, is too long.
    #[error("{address} sent more than {cap} bytes")]
    TooLong {
        address: SocketAddr,
        /// The limit in bytes.
        cap: usize,
    },
    /// The request body can't be written as JSON.
    #[error("failed to write the request as JSON")]
    Encode(#[source] serde_json::Error),
    /// The path is not valid in a URI.
    #[error("{path:?} is no path of a request")]
    Path {
        path: String,
        #[source]
        source: hyper::http::uri::InvalidUri,
    },
    /// The token contains bytes that a header can't carry.
    #[error("the token can't be sent in a header")]
    Token,
}

impl GatewayClientError {
    /// Returns the error for an answer outside 2xx, with the details from its body.
    pub(super) fn status(address: SocketAddr, status: StatusCode, body: &[u8]) -> Self {
        // Another program on the port may answer with any body.
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = body.get("error").filter(|error| error["message"].is_string());
        let text = |key: &str| Some(error?[key].as_str()?.to_owned());
        let message = text("message").unwrap_or_else(|| format!("{address} answered {status}"));
        Self::Status { address, status: status.as_u16(), code: text("code"), message, hint: text("hint") }
    }

    /// Returns `true` if nothing listens on the port.
    #[must_use]
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. }
            if source.kind() == std::io::ErrorKind::ConnectionRefused)
    }
}

impl Explain for GatewayClientError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unreachable { .. } => Kind::NotRunning,
            // The gateway sends the code of an error kind, so both sides exit with the same code.
            Self::Status { code: Some(code), .. } => Kind::of_code(code),
            Self::Encode(_) | Self::Path { .. } => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some("flock start".to_owned()),
            Self::Timeout { .. } | Self::Broken { .. } => Some("flock logs gateway".to_owned()),
            // This home's gateway would accept the owner's token, so something else seems to have answered.
            Self::Status { status: 401, hint: None, .. } => {
                Some("another program or another home may hold the port: run `flock status`".to_owned())
            }
            Self::Status { hint, .. } => hint.clone(),
            Self::Decode { .. } | Self::TooLong { .. } => Some("flock status".to_owned()),
            Self::Encode(_) | Self::Path { .. } | Self::Token => None,
        }
    }
}
