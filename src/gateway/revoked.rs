//! A streamed answer ends with the credential that it was asked with: a token that was changed or taken back shows
//! nothing more, also on a connection that stays open.

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

/// How often the credential of a stream is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// The body of a streamed answer, as long as its credential is good.
struct Guarded {
    body: Body,
    gateway: Arc<Gateway>,
    headers: HeaderMap,
    caller: Caller,
    looks: Interval,
    is_over: bool,
}

/// The answer, which ends with the credential of these headers if it is a stream.
pub fn guarded(
    response: Response<Body>,
    gateway: &Arc<Gateway>,
    headers: HeaderMap,
    caller: Caller,
) -> Response<Body> {
    let kind = response.headers().get(header::CONTENT_TYPE).map(|value| value.as_bytes());
    if !kind.is_some_and(|kind| kind.starts_with(b"text/event-stream")) {
        return response;
    }
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let gateway = Arc::clone(gateway);
    response.map(|body| Body::new(Guarded { body, gateway, headers, caller, looks, is_over: false }))
}

impl HttpBody for Guarded {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        while !this.is_over && this.looks.poll_tick(context).is_ready() {
            let now = this.gateway.caller(&this.headers);
            this.is_over = !now.is_ok_and(|now| now == this.caller);
        }
        if this.is_over {
            // What the stream shows goes on without it, or ends with it, as when a client closes the connection.
            this.body = Body::empty();
            return Poll::Ready(None);
        }
        Pin::new(&mut this.body).poll_frame(context)
    }
}
