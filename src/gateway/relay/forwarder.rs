//! Forwards an answer to the program. Each piece goes on at once and unchanged. The cost is settled before the program
//! can know that the answer has ended.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, unfold};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::{Ticket, headers};
use crate::agent::CallReservation;
use crate::provider::ProviderError;
use crate::provider::passthrough::ForwardedAnswer;

/// Returns the response for the program. If its reader goes away, the request ends.
pub(super) fn response(
    mut answer: ForwardedAnswer,
    reservation: Option<CallReservation>,
    ticket: Arc<Ticket>,
    place: OwnedSemaphorePermit,
) -> Response<Body> {
    let (status, headers): (_, HeaderMap) =
        (answer.status, headers::answered(&std::mem::take(&mut answer.headers)));
    let mut passing = AnswerForwarder { answer, reservation, ticket, _place: place };
    // The first piece goes out in one write with the head, before any other task has to wake up for it.
    let first = passing.first();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(passing.on(sender));
    let rest = unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Some(piece)) => Some((Ok(piece), Some(receiver))),
            Some(None) => None,
            // The answer did not reach its end, and the program must not take it for complete.
            None => Some((Err(io::Error::other("the answer broke off")), None)),
        }
    });
    let pieces = stream::iter(first.map(Ok)).chain(rest);
    // The response has no length. A program that knows the length might be gone before the cost is settled.
    let mut response = Response::new(Body::from_stream(pieces));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

struct AnswerForwarder {
    answer: ForwardedAnswer,
    /// `None` once the cost is settled, and for requests that cost nothing.
    reservation: Option<CallReservation>,
    ticket: Arc<Ticket>,
    _place: OwnedSemaphorePermit,
}

impl AnswerForwarder {
    /// Forwards the answer, and `None` at its end.
    ///
    /// This runs in a task of its own. If a program does not read, for example in a frozen sandbox, nobody polls the
    /// body, and the end of the turn would go unnoticed.
    async fn on(mut self, sender: mpsc::Sender<Option<Bytes>>) {
        let over = self.ticket.over.clone();
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            // The program has disconnected.
            () = sender.closed() => {}
            () = self.hand(&sender) => {}
        }
        // The request ends and is settled before the program can see the end of its answer.
        drop(self);
    }

    async fn hand(&mut self, sender: &mpsc::Sender<Option<Bytes>>) {
        while let Ok(piece) = self.next().await {
            let is_end = piece.is_none();
            if sender.send(piece).await.is_err() || is_end {
                return;
            }
        }
    }

    /// Returns the next piece, or `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, ProviderError> {
        let piece = self.answer.chunk().await;
        match piece {
            Ok(Some(piece)) => {
                self.look();
                Ok(Some(piece))
            }
            Ok(None) => {
                self.settle(true);
                Ok(None)
            }
            Err(error) => {
                let (agent, turn) = (&self.ticket.agent, self.ticket.turn);
                tracing::info!(%agent, %turn, %error, "an answer broke off on its way");
                if let Some(reservation) = self.reservation.take() {
                    reservation.fail_attempt(Some(&error));
                    self.ticket.calls.note(|count| count.refused = Some((0, error.to_string())));
                }
                Err(error)
            }
        }
    }

    /// Returns the piece that came with the head of the answer.
    fn first(&mut self) -> Option<Bytes> {
        let piece = self.answer.first()?;
        self.look();
        Some(piece)
    }

    /// Settles the cost if the answer has come completely. This happens before the last piece is passed on.
    fn look(&mut self) {
        if self.answer.is_over() || self.answer.failure().is_some() {
            self.settle(true);
        }
    }

    /// Settles the cost. `is_end` is `true` if the answer has ended, and `false` if the program has disconnected.
    fn settle(&mut self, is_end: bool) {
        let Some(reservation) = self.reservation.take() else { return };
        let usage = self.answer.usage();
        if let Some(usage) = usage {
            reservation.estimate(|seen| seen.output = self.answer.written());
            reservation.complete(usage);
        }
        // The cost is settled first: whoever sees the answer counted sees the cost as well.
        drop(reservation);
        let is_good = self.answer.is_complete() || self.answer.is_unread();
        let failure = self.answer.failure();
        let status = if failure.is_none_or(ProviderError::is_passing) { 0 } else { 400 };
        let failure = failure.map(ToString::to_string);
        self.ticket.calls.note(|count| {
            if is_good && (is_end || usage.is_some()) {
                // An error of an earlier attempt no longer matters once a later call was answered.
                count.answered += 1;
                count.refused = None;
            } else if is_end {
                let broken = || "the answer broke off in the middle".to_owned();
                count.refused = Some((status, failure.unwrap_or_else(broken)));
            }
        });
    }
}

impl Drop for AnswerForwarder {
    fn drop(&mut self) {
        self.settle(false);
    }
}
