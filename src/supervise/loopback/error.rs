//! What can go wrong between a verb and the gateway.

use std::net::SocketAddr;
use std::time::Duration;

use hyper::StatusCode;
use serde::Deserialize;

use crate::error::{Explain, Kind};

/// Why a request over loopback brought no usable answer.
#[derive(Debug, thiserror::Error)]
pub enum LoopbackError {
    /// Nothing listens there.
    #[error("nothing answers at {address}")]
    Unreachable {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It listens and says nothing.
    #[error("{address} did not answer within {limit:?}")]
    Timeout {
        /// Where.
        address: SocketAddr,
        /// How long was waited.
        limit: Duration,
    },
    /// The connection broke, or what came is no HTTP.
    #[error("the connection to {address} broke")]
    Broken {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: hyper::Error,
    },
    /// The gateway refused, in its own words.
    #[error("{message}")]
    Status {
        /// Where.
        address: SocketAddr,
        /// The HTTP status.
        status: u16,
        /// The gateway's word for programs, where it gave one.
        code: Option<String>,
        /// What it said.
        message: String,
        /// What it advised.
        hint: Option<String>,
    },
    /// The answer is not what was expected.
    #[error("{address} answered with something else than the expected JSON")]
    Decode {
        /// Where.
        address: SocketAddr,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The answer, or one event of it, is longer than is reasonable.
    #[error("{address} sent more than {cap} bytes")]
    TooLong {
        /// Where.
        address: SocketAddr,
        /// The limit.
        cap: usize,
    },
    /// A request body has no JSON form.
    #[error("failed to write the request as JSON")]
    Encode(#[source] serde_json::Error),
    /// A path is no path.
    #[error("{path:?} is no path of a request")]
    Path {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: hyper::http::uri::InvalidUri,
    },
    /// The token holds bytes that no header can carry.
    #[error("the token can't be sent in a header")]
    Token,
}

#[derive(Deserialize)]
struct ErrorBody {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    #[serde(default)]
    code: Option<String>,
    message: String,
    #[serde(default)]
    hint: Option<String>,
}

impl LoopbackError {
    /// The error of an answer outside 2xx, with what its body says.
    pub(super) fn status(address: SocketAddr, status: StatusCode, body: &[u8]) -> Self {
        let said = serde_json::from_slice::<ErrorBody>(body).ok().map(|body| body.error);
        let (code, message, hint) = match said {
            Some(said) => (said.code, said.message, said.hint),
            None => (None, format!("{address} answered {status}"), None),
        };
        Self::Status { address, status: status.as_u16(), code, message, hint }
    }

    /// Whether nothing at all listens on that port.
    #[must_use]
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. }
            if source.kind() == std::io::ErrorKind::ConnectionRefused)
    }
}

impl Explain for LoopbackError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unreachable { .. } => Kind::NotRunning,
            Self::Status { code: Some(code), .. } => {
                Kind::ALL.into_iter().find(|kind| kind.code() == code).unwrap_or(Kind::Failed)
            }
            Self::Encode(_) | Self::Path { .. } => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some("flock start".to_owned()),
            Self::Timeout { .. } | Self::Broken { .. } => Some("flock logs gateway".to_owned()),
            Self::Status { status: 401, hint: None, .. } => {
                Some("another program or another home may hold the port: run `flock status`".to_owned())
            }
            Self::Status { hint, .. } => hint.clone(),
            Self::Decode { .. } | Self::TooLong { .. } => Some("flock status".to_owned()),
            Self::Encode(_) | Self::Path { .. } | Self::Token => None,
        }
    }
}
