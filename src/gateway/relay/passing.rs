//! An answer on its way to the program: each piece goes on at once, as it came. What it took is settled before the
//! program can know that it has ended.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures_util::stream::unfold;
use tokio::sync::OwnedSemaphorePermit;

use super::toll::Toll;
use super::{Ticket, headers};
use crate::provider::passing::Answer;

/// The answer, as the program is to have it. Whoever stops reading it ends the request.
pub(super) fn response(
    mut answer: Answer,
    toll: Option<Toll>,
    ticket: Arc<Ticket>,
    place: OwnedSemaphorePermit,
) -> Response<Body> {
    let (status, headers): (_, HeaderMap) =
        (answer.status, headers::answered(&std::mem::take(&mut answer.headers)));
    let passing = Passing { answer, toll, ticket, _place: place };
    let pieces = unfold(Some(passing), |passing| async move {
        let mut passing = passing?;
        let piece = passing.next().await?;
        let rest = piece.is_ok().then_some(passing);
        Some((piece, rest))
    });
    // Without a length: a program that knows it might be gone before the count is made.
    let mut response = Response::new(Body::from_stream(pieces));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

struct Passing {
    answer: Answer,
    /// `None` once it is settled, and for what costs nothing.
    toll: Option<Toll>,
    ticket: Arc<Ticket>,
    _place: OwnedSemaphorePermit,
}

impl Passing {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let piece = tokio::select! {
            biased;
            () = self.ticket.over.cancelled() => return Some(Err(io::Error::other("the turn is over"))),
            piece = self.answer.chunk() => piece,
        };
        match piece {
            Ok(Some(piece)) => {
                if self.answer.is_over() || self.answer.failure().is_some() {
                    self.settle(true);
                }
                Some(Ok(piece))
            }
            Ok(None) => {
                self.settle(true);
                None
            }
            Err(error) => {
                let (agent, turn) = (&self.ticket.agent, self.ticket.turn);
                tracing::info!(%agent, %turn, %error, "an answer broke off on its way");
                if let Some(mut toll) = self.toll.take() {
                    toll.failed(Some(&error));
                    self.ticket.calls.note(|count| count.refused = Some((0, error.to_string())));
                }
                Some(Err(io::Error::other("the provider broke off")))
            }
        }
    }

    /// `is_end` where the answer has come to its end, and it was not the program that went.
    fn settle(&mut self, is_end: bool) {
        let Some(mut toll) = self.toll.take() else { return };
        let usage = self.answer.usage();
        if let Some(usage) = usage {
            toll.told(usage);
        }
        // The count of what it took first: whoever sees the answer counted sees that, too.
        drop(toll);
        let is_good = self.answer.is_complete() || self.answer.is_unread();
        let failure = self.answer.failure().map(ToString::to_string);
        self.ticket.calls.note(|count| {
            if is_good && (is_end || usage.is_some()) {
                count.answered += 1;
                count.refused = None;
            } else if is_end {
                let broken = || "the answer broke off in the middle".to_owned();
                count.refused = Some((0, failure.unwrap_or_else(broken)));
            }
        });
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.settle(false);
    }
}
