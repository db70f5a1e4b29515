//! `GET /api/events`: streams what happens, as server-sent events. A reader that reconnects with `Last-Event-ID`
//! continues where it was. A reader that was away for too long gets `reset` and continues from now.
//!
//! A person sees only some events, and must not learn from the stream that there were others. So their ids say nothing, and the
//! pieces without an event come at times that do not depend on events.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::error::chain;
use crate::gateway::auth::Caller;
use crate::gateway::events::{EventRead, GatewayEvent, LOST, WantedEvents};
use crate::gateway::extract::Query;
use crate::gateway::state::Gateway;
use crate::gateway::stream::{SILENCE, event_stream};

/// The header with the last event that a reader knows.
pub(in crate::gateway) const LAST_EVENT_ID: &str = "last-event-id";

/// Most events in one piece of the stream.
const BATCH: usize = 256;
/// The time in which events are gathered for one piece. What belongs to one turn comes within it as a rule, so fifty
/// readers wake once and not for each event, and not while the turn still works.
const GATHERING: Duration = Duration::from_millis(10);

/// Number of events that are left out after which the reader is told how far it is. It has to be far less than the ring
/// holds, so that a reader that wants few events does not lose its place.
const MOST_UNTOLD: usize = 256;

/// The query parameters of the stream.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EventQuery {
    /// The last event that the reader knows, in place of the header `Last-Event-ID`.
    last_event_id: Option<String>,
    /// The events that the reader wants. Without it the reader gets all.
    types: Option<WantedEvents>,
}

/// Streams events until the reader disconnects, falls out of the ring, or the gateway stops.
pub(crate) async fn watch(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
    Query(place): Query<EventQuery>,
    headers: HeaderMap,
) -> Response<Body> {
    // A browser sends the header only when it reconnects by itself. A new stream of it names the event in its address.
    let header = headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default());
    let last = header.or(place.last_event_id.as_deref());
    stream_from(gateway, caller, last, (place.types, false))
}

/// Streams the events of this gateway to another one of its group, which shows them to its watchers. With `from_start` it
/// begins with the first event of the run, unless the reader has been here before.
pub(in crate::gateway) fn of_gateway(
    gateway: &Arc<Gateway>,
    headers: &HeaderMap,
    from_start: bool,
) -> Response<Body> {
    let start = || gateway.events.id(gateway.events.start());
    let known = headers.get(LAST_EVENT_ID).and_then(|value| value.to_str().ok().map(str::to_owned));
    let last = known.or_else(|| from_start.then(start));
    stream_from(Arc::clone(gateway), Caller::Owner, last.as_deref(), (None, true))
}

/// Streams the events after the one with the id `last`.
fn stream_from(
    gateway: Arc<Gateway>,
    caller: Caller,
    last: Option<&str>,
    (wanted, only_own): (Option<WantedEvents>, bool),
) -> Response<Body> {
    let changes = gateway.events.watch();
    let person = caller.home_person().map(|person| person.name.clone());
    let known = last.map(|id| gateway.events.position(person.as_deref(), id));
    let position = known.flatten().unwrap_or_else(|| gateway.events.now());
    let greeting = match known {
        // A gateway is told where it begins, so that it can go on there before there was an event.
        None if only_own => format!("id: {}\nevent: passed\ndata: {{}}\n\n", gateway.events.id(position)),
        // A comment is sent at once, so that a reader knows that it is connected.
        None | Some(Some(_)) => ": listening\n\n".to_owned(),
        Some(None) => format!(
            "id: {}\nevent: {LOST}\ndata: {{}}\n\n",
            gateway.events.id_for(person.as_deref(), position)
        ),
    };
    let reader = Reader {
        gateway,
        caller,
        person,
        quiet_until: Instant::now() + SILENCE,
        wanted,
        only_own,
        changes,
        position,
        untold: 0,
        greeting: Some(greeting),
    };
    let body = stream::unfold(reader, async |mut reader| {
        let piece = reader.next().await?;
        Some((Ok::<_, std::convert::Infallible>(piece), reader))
    });
    event_stream(Body::from_stream(body))
}

struct Reader {
    gateway: Arc<Gateway>,
    caller: Caller,
    /// The name of the person who reads; `None` for the owner and for clients.
    person: Option<String>,
    /// The time of the next piece without an event.
    quiet_until: Instant,
    wanted: Option<WantedEvents>,
    /// `true` for another gateway, which gets the events of others from them.
    only_own: bool,
    changes: watch::Receiver<u64>,
    position: u64,
    /// Number of events since the last one that the reader got.
    untold: usize,
    greeting: Option<String>,
}

impl Reader {
    /// Returns `true` if the reader wants an event and may see it. A client with a token for some agents sees only events
    /// that name nothing but these agents, and a person only those that name nothing which is not theirs to see.
    async fn is_shown(&self, event: &GatewayEvent) -> bool {
        if self.only_own {
            return event.is_own;
        }
        if event.name() == LOST {
            return true;
        }
        if self.wanted.as_ref().is_some_and(|wanted| !wanted.has(event.name())) {
            return false;
        }
        if self.caller.client().is_none() && self.caller.home_person().is_none() {
            return true;
        }
        let data = event.data();
        let is_covered = match data["channel"].as_str().map(str::parse) {
            Some(Ok(id)) if self.caller.client().is_some() => {
                let channel = self.gateway.swarm.channel(&id).await;
                channel.is_ok_and(|channel| self.caller.covers_channel(&channel))
            }
            _ => false,
        };
        self.caller.sees_event(&data, is_covered) && self.sees_row(event.name(), &data).await
    }

    /// Returns `false` for an event about a request or a task that the person who reads may not see. The event does not say
    /// for whom the agent works, so the row is read. All gateways of a group have it, and the routes decide by it, too.
    async fn sees_row(&self, name: &str, data: &Value) -> bool {
        if self.person.is_none() {
            return true;
        }
        let store = self.gateway.swarm.store();
        let id = |key: &str| data[key].as_str().unwrap_or_default();
        let found = match name {
            "task.changed" => {
                let task = store.tasks().find(id("task")).await;
                task.map(|task| task.is_some_and(|task| self.caller.covers_task(&task)))
            }
            _ if name.starts_with("approval.") => {
                let row = store.requests().find(id("id")).await;
                row.map(|row| row.is_some_and(|row| self.caller.covers_request(&row)))
            }
            _ => return true,
        };
        found.unwrap_or_else(|error| {
            tracing::error!(error = chain(&error), event = name, "failed to look whom an event concerns");
            false
        })
    }

    /// Returns the next piece, or `None` at the end. The server asks for a piece only if the connection has room for
    /// it, so a slow reader delays only itself.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting.into());
        }
        loop {
            // This comes before the read, so an event that is added after the read wakes the reader.
            self.changes.mark_unchanged();
            match self.gateway.events.after(self.position, BATCH) {
                // The reader is slower than the events. It has to reconnect, and is then told to start again.
                EventRead::Lost => return None,
                EventRead::Events(events) => {
                    if let Some(last) = events.last() {
                        let mut text = String::new();
                        for event in &events {
                            if !self.is_shown(event).await {
                                continue;
                            }
                            match &self.person {
                                Some(_) => text.push_str(&event.text_with(&self.id(event.position()))),
                                None => text.push_str(&event.text),
                            }
                        }
                        // Events that are not shown count as read too.
                        self.position = last.position();
                        self.untold += events.len();
                        let is_due = match &self.person {
                            // Many events that are not theirs must not delay it.
                            Some(_) => Instant::now() >= self.quiet_until,
                            None => self.untold >= MOST_UNTOLD,
                        };
                        if text.is_empty() && is_due {
                            text = self.passed();
                        }
                        if !text.is_empty() {
                            self.untold = 0;
                            self.quiet_until = Instant::now() + SILENCE;
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
                changed = self.changes.changed() => {
                    changed.ok()?;
                    tokio::time::sleep(GATHERING).await;
                }
                () = self.gateway.stop.cancelled() => {}
                () = sleep_until(self.quiet_until) => {
                    self.quiet_until = Instant::now() + SILENCE;
                    // A person gets it whether or not there was an event that is not theirs.
                    let text = match &self.person {
                        Some(_) => self.passed(),
                        None => ": still here\n\n".to_owned(),
                    };
                    return Some(text.into());
                }
            }
        }
    }

    /// Returns the event that tells the reader how far it is.
    fn passed(&self) -> String {
        format!("id: {}\nevent: passed\ndata: {{}}\n\n", self.id(self.position))
    }

    fn id(&self, position: u64) -> String {
        self.gateway.events.id_for(self.person.as_deref(), position)
    }
}
