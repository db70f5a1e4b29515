//! `GET /api/events`: what happens, as server-sent events. A reader that comes back with `Last-Event-ID`
//! goes on where it was; one that was away too long gets `reset` and goes on from now.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue, Response, header};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::watch;

use crate::gateway::auth::Caller;
use crate::gateway::events::{Event, Next};
use crate::gateway::scope;
use crate::gateway::state::Gateway;
use crate::gateway::stream::SILENCE;

/// How many events go out in one piece.
const BATCH: usize = 256;

/// Streams until the reader goes away, falls out of the ring, or the gateway stops.
pub async fn watch(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Response<Body> {
    let changes = gateway.events.watch();
    let last = headers.get("last-event-id").map(|value| value.to_str().unwrap_or_default());
    let known = last.map(|id| gateway.events.position(id));
    let position = known.flatten().unwrap_or_else(|| gateway.events.now());
    let greeting = match known {
        // A comment at once, so that a reader knows that it is listening.
        None | Some(Some(_)) => ": listening\n\n".to_owned(),
        Some(None) => format!("id: {}\nevent: reset\ndata: {{}}\n\n", gateway.events.id(position)),
    };
    let reader = Reader { gateway, caller, changes, position, greeting: Some(greeting) };
    let body = stream::unfold(reader, async |mut reader| {
        let piece = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), reader))
    });
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

struct Reader {
    gateway: Arc<Gateway>,
    caller: Caller,
    changes: watch::Receiver<u64>,
    position: u64,
    greeting: Option<String>,
}

impl Reader {
    /// Whether the caller may see an event. A client of some agents sees those that name nothing else.
    fn is_shown(&self, event: &Event) -> bool {
        let Some(token) = self.caller.client() else { return true };
        scope::shows(token, &event.data(), |channel| {
            let channel = channel.parse().ok().and_then(|id| self.gateway.swarm.channel(&id).ok());
            channel.is_some_and(|channel| scope::covers_channel(token, &channel))
        })
    }

    /// The next piece; `None` at the end. The server asks for one only when the connection has room for it,
    /// so a slow reader holds up nothing but itself.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting.into());
        }
        loop {
            self.changes.mark_unchanged();
            match self.gateway.events.after(self.position, BATCH) {
                // It reads more slowly than things happen: let it come back and be told to start again.
                Next::Lost => return None,
                Next::Events(events) => {
                    if let Some(last) = events.last() {
                        self.position = last.position();
                        let shown = events.iter().filter(|event| self.is_shown(event));
                        let text: String = shown.map(|event| event.text.as_str()).collect();
                        if !text.is_empty() {
                            return Some(text.into());
                        }
                        continue;
                    }
                }
            }
            if self.gateway.stop.is_cancelled() {
                return None;
            }
            tokio::select! {
                changed = self.changes.changed() => changed.ok()?,
                () = self.gateway.stop.cancelled() => {}
                () = tokio::time::sleep(SILENCE) => return Some(Bytes::from_static(b": still here\n\n")),
            }
        }
    }
}
