//! An answer on its way to the program: each piece goes on at once, as it came. What it took is settled before the
//! program can know that it has ended.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, unfold};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::toll::Toll;
use super::{Ticket, headers};
use crate::provider::ProviderError;
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
    let mut passing = Passing { answer, toll, ticket, _place: place };
    // It goes out in one write with the head, before any other task has to be woken for it.
    let first = passing.first();
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(passing.on(sender));
    let rest = unfold(Some(receiver), |receiver| async move {
        let mut receiver = receiver?;
        match receiver.recv().await {
            Some(Some(piece)) => Some((Ok(piece), Some(receiver))),
            Some(None) => None,
            // It did not come to its end, and the program is not to take it for one that did.
            None => Some((Err(io::Error::other("the answer broke off")), None)),
        }
    });
    let pieces = stream::iter(first.map(Ok)).chain(rest);
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
    /// Hands the answer on, and at its end nothing. In a task of its own: a program that does not read, as one in a frozen
    /// sandbox, has nobody look whether its turn is over.
    async fn on(mut self, sender: mpsc::Sender<Option<Bytes>>) {
        let over = self.ticket.over.clone();
        tokio::select! {
            biased;
            () = over.cancelled() => {}
            // Whoever asked has gone.
            () = sender.closed() => {}
            () = self.hand(&sender) => {}
        }
        // The request ends and is settled before the program can see that its answer has.
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

    /// The next piece; `None` at the end.
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
                if let Some(mut toll) = self.toll.take() {
                    toll.failed(Some(&error));
                    self.ticket.calls.note(|count| count.refused = Some((0, error.to_string())));
                }
                Err(error)
            }
        }
    }

    /// What came with the answer's head.
    fn first(&mut self) -> Option<Bytes> {
        let piece = self.answer.first()?;
        self.look();
        Some(piece)
    }

    /// Settles it where what has come is all there is, before that is passed on.
    fn look(&mut self) {
        if self.answer.is_over() || self.answer.failure().is_some() {
            self.settle(true);
        }
    }

    /// `is_end` where the answer has come to its end, and it was not the program that went.
    fn settle(&mut self, is_end: bool) {
        let Some(mut toll) = self.toll.take() else { return };
        let usage = self.answer.usage();
        if let Some(usage) = usage {
            toll.told(usage, self.answer.written());
        }
        // The count of what it took first: whoever sees the answer counted sees that, too.
        drop(toll);
        let is_good = self.answer.is_complete() || self.answer.is_unread();
        let failure = self.answer.failure();
        let status = if failure.is_none_or(ProviderError::is_passing) { 0 } else { 400 };
        let failure = failure.map(ToString::to_string);
        self.ticket.calls.note(|count| {
            if is_good && (is_end || usage.is_some()) {
                count.answered += 1;
                count.refused = None;
            } else if is_end {
                let broken = || "the answer broke off in the middle".to_owned();
                count.refused = Some((status, failure.unwrap_or_else(broken)));
            }
        });
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.settle(false);
    }
}
