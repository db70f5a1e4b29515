//! `GET /mcp`: the stream of a session for what flock sends by itself, which is that watched resources have changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::error;
use super::reply::Reply;
use super::session::Asker;
use super::stream::{event, takes_stream};
use super::subscription::{self, Due};
use crate::gateway::events::EventRead;
use crate::gateway::relay::Ticket;
use crate::gateway::state::Gateway;
use crate::gateway::stream::{SILENCE, event_stream};

/// The time in which messages of channels are gathered for one piece of the stream.
const GATHERING: Duration = Duration::from_millis(100);

/// The interval at which watched files are looked at. No event says that a file has changed, because the agent's program
/// and people write without asking flock.
const FILE_INTERVAL: Duration = Duration::from_secs(1);

/// Most events that are read at once.
const BATCH: usize = 256;

/// The methods of the path for a request without a session.
const WITHOUT_SESSION: &str = "POST";

/// Streams what flock sends by itself until the session or the turn ends, or the session opens another stream.
pub(crate) async fn listen(
    State(gateway): State<Arc<Gateway>>,
    Extension(ticket): Extension<Arc<Ticket>>,
    headers: HeaderMap,
) -> Response<Body> {
    let asker = match Asker::read(gateway, ticket, &headers) {
        Ok(asker) => asker,
        Err(refusal) => return refusal.into_response(),
    };
    if !takes_stream(&headers) {
        let text = "a GET is answered as text/event-stream, which Accept has to name";
        return Reply::refusal(StatusCode::NOT_ACCEPTABLE, error::INVALID_REQUEST, text).into_response();
    }
    if asker.session.id.is_none() {
        let text = "only a session has a stream: send the Mcp-Session-Id that initialize was answered with";
        return Reply::not_allowed(WITHOUT_SESSION, text).into_response();
    }
    let listener = Listener {
        end: asker.session.open_stream(),
        // What has happened since a subscription is found by its state.
        position: asker.gateway.events.now(),
        events: asker.gateway.events.watch(),
        due: Due::ALL,
        heartbeat: Instant::now(),
        next_files: Instant::now(),
        asker,
    };
    let pieces = stream::unfold(listener, async |mut listener| {
        let piece = listener.next().await?;
        Some((Ok::<_, Infallible>(piece), listener))
    });
    event_stream(Body::from_stream(pieces))
}

/// An open stream.
struct Listener {
    asker: Asker,
    /// Cancelled when the stream has to end.
    end: CancellationToken,
    /// Changes with each event of the gateway.
    events: watch::Receiver<u64>,
    /// The last event that was read.
    position: u64,
    due: Due,
    /// The time at which a comment is sent if there is nothing else.
    heartbeat: Instant,
    /// The time of the next look at files.
    next_files: Instant,
}

impl Listener {
    /// Returns the next piece, or `None` at the end. The server asks for a piece only if the connection has room for
    /// it, so several changes of a resource become one for a slow reader.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            // This comes before the look, so a message that is posted after the look wakes the reader.
            self.events.mark_unchanged();
            self.due.channels |= self.has_posts();
            let Asker { gateway, ticket, session, .. } = &self.asker;
            if self.end.is_cancelled() || gateway.stop.is_cancelled() {
                return None;
            }
            let changed =
                subscription::changed(gateway, ticket, session, std::mem::take(&mut self.due)).await;
            let now = Instant::now();
            if !changed.is_empty() {
                self.heartbeat = now + SILENCE;
                let events = changed.iter().map(|uri| event(&subscription::notification(uri)));
                return Some(events.collect::<String>().into());
            }
            if now >= self.heartbeat {
                // The first one is sent at once, so that the client knows that it is connected.
                self.heartbeat = now + SILENCE;
                return Some(Bytes::from_static(b": listening\n\n"));
            }
            let has_files = subscription::has_files(session);
            tokio::select! {
                () = self.end.cancelled() => {}
                () = gateway.stop.cancelled() => {}
                changed = self.events.changed() => {
                    changed.ok()?;
                    sleep(GATHERING).await;
                }
                // Something may have changed between the look of a subscription and its beginning.
                () = session.rewatched.notified() => self.due = Due::ALL,
                () = sleep_until(self.next_files), if has_files => {
                    self.due.files = true;
                    self.next_files = Instant::now() + FILE_INTERVAL;
                }
                () = sleep_until(self.heartbeat) => {}
            }
        }
    }

    /// Returns `true` if something was posted since the last call.
    fn has_posts(&mut self) -> bool {
        let events = &self.asker.gateway.events;
        let mut found = false;
        loop {
            match events.after(self.position, BATCH) {
                // There were too many to know what they were.
                EventRead::Lost => {
                    self.position = events.now();
                    return true;
                }
                EventRead::Events(list) => {
                    let Some(last) = list.last() else { return found };
                    self.position = last.position();
                    found |= list.iter().any(|event| event.name() == "channel.message");
                }
            }
        }
    }
}
