//! The bytes of an answer, as they come: limited in time and in amount.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;

use super::super::ProviderError;
use super::{Endpoint, Limits};

/// Bytes on the wire for each byte of an answer: a token of four letters comes in an event of 250.
const WIRE_OVERHEAD: usize = 64;
/// What is read past the end of an answer so that its connection can be used again.
const LONGEST_TAIL: usize = 16 * 1024;
const TAIL_TIME: Duration = Duration::from_secs(2);

/// An answer being received. Dropping it ends the request.
pub struct Body<'a> {
    endpoint: Cow<'a, Endpoint>,
    response: reqwest::Response,
    limits: Limits,
    received: usize,
    settling: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(endpoint: Cow<'a, Endpoint>, response: reqwest::Response, limits: Limits) -> Self {
        Self { endpoint, response, limits, received: 0, settling: false }
    }

    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    ///
    /// The provider is silent for too long, breaks off, or sends more than any answer has.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderError> {
        let limit = if self.settling { self.limits.settle } else { self.limits.idle };
        let chunk = tokio::time::timeout(limit, self.response.chunk())
            .await
            .map_err(|_| ProviderError::TimedOut {
                provider: self.endpoint.provider().to_owned(),
                after: limit,
            })?
            .map_err(|error| self.endpoint.broken(&error))?;
        if let Some(chunk) = &chunk {
            self.received += chunk.len();
            if self.received > self.limits.answer.saturating_mul(WIRE_OVERHEAD) {
                return Err(self.endpoint.garbled("it does not end"));
            }
        }
        Ok(chunk)
    }

    /// All the rest after `first`, where the answer is one document.
    ///
    /// # Errors
    ///
    /// As [`Body::chunk`], and for a document that is too long.
    pub async fn whole(mut self, first: Bytes) -> Result<Vec<u8>, ProviderError> {
        let mut whole = first.to_vec();
        while let Some(chunk) = self.chunk().await? {
            whole.extend_from_slice(&chunk);
            if whole.len() > self.limits.answer.saturating_mul(2) {
                return Err(self.endpoint.garbled("it is too long"));
            }
        }
        Ok(whole)
    }

    /// The answer is complete; only what may follow it is still waited for, and not for long.
    pub const fn settle(&mut self) {
        self.settling = true;
    }

    /// Nothing more is of interest. The connection can be used again only when its end has been read,
    /// which the caller must not wait for.
    pub fn finish(self) {
        let mut response = self.response;
        match response.chunk().now_or_never() {
            Some(Ok(Some(_))) | None => {}
            Some(Ok(None) | Err(_)) => return,
        }
        let tail = async move {
            let mut received = 0;
            while let Ok(Some(chunk)) = response.chunk().await {
                received += chunk.len();
                if received > LONGEST_TAIL {
                    return;
                }
            }
        };
        tokio::spawn(tokio::time::timeout(TAIL_TIME, tail));
    }
}
