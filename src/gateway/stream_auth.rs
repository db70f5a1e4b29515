//! Ends a streamed response when its credential ends: a token that was changed or revoked shows nothing more, even on a
//! connection that stays open.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, Response, header};
use bytes::Bytes;
use hyper::body::Frame;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::auth::Caller;
use super::state::Gateway;
use crate::provider::BoxFuture;

/// Interval between two checks of a stream's credential.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The body of a streamed response that checks its credential regularly.
struct RevocableBody {
    body: Body,
    gateway: Arc<Gateway>,
    headers: HeaderMap,
    caller: Caller,
    looks: Interval,
    /// The check in progress. It yields `false` if the credential has ended.
    check: Option<BoxFuture<'static, bool>>,
    is_over: bool,
}

/// Wraps the body of a response so that a stream ends when the credential in these headers is no longer good. A
/// response that is not a stream is returned unchanged.
pub(crate) fn guard_stream(
    response: Response<Body>,
    gateway: &Arc<Gateway>,
    headers: HeaderMap,
    caller: Caller,
) -> Response<Body> {
    let kind = response.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    if !kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        return response;
    }
    let mut looks = interval(CHECK_INTERVAL);
    // After a pause one check is enough; the missed ones are not made up for.
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let gateway = Arc::clone(gateway);
    response.map(|body| {
        Body::new(RevocableBody { body, gateway, headers, caller, looks, check: None, is_over: false })
    })
}

impl HttpBody for RevocableBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        while !this.is_over && (this.check.is_some() || this.looks.poll_tick(context).is_ready()) {
            let check = this.check.get_or_insert_with(|| {
                let (gateway, headers) = (Arc::clone(&this.gateway), this.headers.clone());
                let caller = this.caller.clone();
                // The caller is compared too: a token that now belongs to somebody else ends the stream.
                Box::pin(async move { gateway.caller(&headers).await.is_ok_and(|now| now == caller) })
            });
            // Until the check has its result, the credential counts as it did before.
            let Poll::Ready(is_good) = check.as_mut().poll(context) else { break };
            this.check = None;
            this.is_over = !is_good;
        }
        if this.is_over {
            // The turn behind the stream either continues without it or ends with it, as when a client closes the
            // connection.
            this.body = Body::empty();
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }
}
