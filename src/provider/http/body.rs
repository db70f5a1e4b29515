//! The body of an answer as a stream of chunks, with limits on time and size.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;

use super::super::ProviderError;
use super::{Endpoint, HttpLimits};

/// Allowed bytes on the wire for each byte of an answer. A token of four characters comes in an event of 250 bytes.
const WIRE_OVERHEAD: usize = 64;
/// Bytes that are read after the end of an answer, so that its connection can be reused.
const MAX_TAIL_BYTES: usize = 16 * 1024;
/// Time limit for reading those bytes.
const TAIL_TIMEOUT: Duration = Duration::from_secs(2);

/// The body of an answer that is being received. Dropping it cancels the request.
pub struct Body<'a> {
    endpoint: Cow<'a, Endpoint>,
    response: reqwest::Response,
    limits: HttpLimits,
    received: usize,
    settling: bool,
}

impl<'a> Body<'a> {
    pub(super) fn new(endpoint: Cow<'a, Endpoint>, response: reqwest::Response, limits: HttpLimits) -> Self {
        Self { endpoint, response, limits, received: 0, settling: false }
    }

    /// Returns the next bytes, or `None` at the end.
    ///
    /// # Errors
    ///
    /// Returns [`ProviderError::TimedOut`] if the provider is silent past the limit, [`ProviderError::Failed`] if the
    /// connection breaks, and [`ProviderError::Garbled`] if the answer exceeds its size limit on the wire.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, ProviderError> {
        // A complete answer is not held back by a server that keeps its connection open.
        let limit = if self.settling { self.limits.settle } else { self.limits.idle };
        let chunk = tokio::time::timeout(limit, self.response.chunk())
            .await
            .map_err(|_| self.endpoint.timed_out(limit))?
            .map_err(|error| self.endpoint.broken(&error))?;
        if let Some(chunk) = &chunk {
            self.received += chunk.len();
            // Counted on the wire, because a server may send without end even if no decoder keeps any of it.
            if self.received > self.limits.answer.saturating_mul(WIRE_OVERHEAD) {
                return Err(self.endpoint.garbled("it does not end"));
            }
        }
        Ok(chunk)
    }

    /// Returns the whole document that begins with `first`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Body::chunk`], and [`ProviderError::Garbled`] if the document is too long.
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

    /// Shortens the timeout: the answer is complete, and only token counts may follow.
    pub const fn settle(&mut self) {
        self.settling = true;
    }

    /// Ends the use of this body. The connection can be reused only after its end was read, so a background task reads
    /// it and the caller does not wait.
    pub fn finish(self) {
        let mut response = self.response;
        // If the end has arrived already, no task is needed.
        match response.chunk().now_or_never() {
            Some(Ok(Some(_))) | None => {}
            Some(Ok(None) | Err(_)) => return,
        }
        let tail = async move {
            let mut received = 0;
            while let Ok(Some(chunk)) = response.chunk().await {
                received += chunk.len();
                if received > MAX_TAIL_BYTES {
                    return;
                }
            }
        };
        tokio::spawn(tokio::time::timeout(TAIL_TIMEOUT, tail));
    }
}
