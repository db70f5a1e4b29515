//! Follows the events of the other gateways, so that whoever watches one sees those of all.
//!
//! Each gateway sends the others what happened at itself, in order, and takes nothing from them that they have from others. So an
//! event comes to each gateway once, and those of one gateway stay in their order. If some may be lost, for example because a
//! gateway died, the watchers are told to look anew, as after a time away.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use serde_json::json;
use serde_json::value::RawValue;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{self, PeerError};
use crate::error::chain;
use crate::gateway::events::{LOST, is_event_of_each};
use crate::gateway::routes::events::{LAST_EVENT_ID, of_gateway};
use crate::gateway::state::Gateway;
use crate::provider::http::sse::EventStreamParser;
use crate::store::{Epoch, LivingGateway};

/// The path of the stream at the port for gateways.
pub(super) const PATH: &str = "/events";
/// The path of the stream from the first event of the run on.
const PATH_FROM_START: &str = "/events?start=1";

/// The pause before the next try after a stream has ended.
const RETRY: Duration = Duration::from_millis(300);
/// The time after which the bridges look for posts of others that no event told of, for example because their stream was not
/// open yet.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Longest silence of a stream. The other end says every 15 seconds that it is still there.
const MOST_SILENCE: Duration = Duration::from_secs(45);
/// Most bytes of an event.
const MAX_EVENT: usize = 16 << 20;

/// Follows the events of all other gateways until this one stops. A gateway without others returns at once.
pub(in crate::gateway) async fn run(gateway: Arc<Gateway>) {
    if gateway.peer_key.get().is_none() {
        return;
    }
    let ownership = gateway.swarm.ownership();
    let mut changes = ownership.changes();
    let (mut known, mut followed) = (BTreeSet::new(), BTreeMap::new());
    let mut poll = tokio::time::interval(POLL_INTERVAL);
    loop {
        changes.mark_unchanged();
        let others = ownership.others();
        let before = followed.len();
        followed.retain(|epoch, _| others.iter().any(|other| other.epoch == *epoch));
        if followed.len() < before {
            // Its last events may not have come.
            lose(&gateway);
        }
        let living: BTreeSet<Epoch> = others.iter().map(|other| other.epoch).collect();
        if known != living {
            gateway.events.publish("gateway.changed", &json!({}));
            known = living;
        }
        for other in others.into_iter().filter(|other| other.peer.is_some()) {
            followed
                .entry(other.epoch)
                .or_insert_with(|| AbortOnDropHandle::new(tokio::spawn(follow(Arc::clone(&gateway), other))));
        }
        tokio::select! {
            () = gateway.stop.cancelled() => return,
            // The sender lives as long as the swarm.
            _ = changes.changed() => {}
            _ = poll.tick() => gateway.bridges.wake(),
        }
    }
}

/// Answers another gateway with the events of this one. Returns `None` if it asks for something else.
pub(super) fn answer(
    gateway: &Arc<Gateway>,
    path: &str,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Option<Response<Body>> {
    (path == PATH).then(|| of_gateway(gateway, headers, query == Some("start=1")))
}

/// Follows one gateway. The task is ended when that gateway does not live any more.
async fn follow(gateway: Arc<Gateway>, other: LivingGateway) {
    let mut last = None;
    loop {
        let ended = read(&gateway, &other, &mut last).await;
        if let Err(error) = ended {
            tracing::debug!(
                gateway = other.name,
                error = chain(&*error),
                "the events of a gateway broke off"
            );
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Reads a stream to its end. `last` is the id of the last event that was taken.
async fn read(
    gateway: &Gateway,
    other: &LivingGateway,
    last: &mut Option<String>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let Some(key) = gateway.peer_key.get() else { return Ok(()) };
    // All of what happened at one that started later is news. Of an earlier one, this gateway knows as little as its watchers.
    let is_younger = gateway.swarm.store().epoch().is_some_and(|own| own < other.epoch);
    let path = if last.is_none() && is_younger { PATH_FROM_START } else { PATH };
    let mut request = Request::get(path).header("host", "flock").body(Full::new(Bytes::new()))?;
    if let Some(last) = last.as_deref() {
        request.headers_mut().insert(LAST_EVENT_ID, last.parse()?);
    }
    let answer = connection::send(key, other, gateway.swarm.ownership(), request);
    let late = |_| PeerError::Lost { address: other.address.clone() };
    let answer = tokio::time::timeout(MOST_SILENCE, answer).await.map_err(late)??;
    // Watchers may have missed what happened at an earlier gateway before this stream was open.
    let mut may_have_missed = last.is_none() && !is_younger;
    let mut body = answer.into_body();
    let mut parser = EventStreamParser::default();
    while let Some(frame) = tokio::time::timeout(MOST_SILENCE, body.frame()).await? {
        let Ok(piece) = frame?.into_data() else { continue };
        let Ok(()) = parser.feed(&piece, |event| {
            if std::mem::take(&mut may_have_missed) {
                lose(gateway);
            }
            let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
            take(gateway, &text(&event.name), &event.data);
            *last = Some(text(&event.id));
            Ok::<(), Infallible>(())
        });
        if parser.pending() > MAX_EVENT {
            return Err("an event is too long".into());
        }
    }
    Ok(())
}

/// Tells watchers and bridges that events of another gateway may be lost.
fn lose(gateway: &Gateway) {
    gateway.events.lose();
    gateway.bridges.wake();
}

/// Takes an event of another gateway.
fn take(gateway: &Gateway, name: &str, data: &[u8]) {
    if name == LOST {
        lose(gateway);
        return;
    }
    // Where a stream stands that has left events out is told by an event as well.
    if is_event_of_each(name) || !name.contains('.') {
        return;
    }
    // It is passed on as it came. Line breaks are between the values of JSON only, where it has none of them.
    let Ok(data) = serde_json::from_slice::<&RawValue>(data) else { return };
    if data.get().contains(['\r', '\n']) {
        return;
    }
    gateway.events.publish_of_other(name, data);
    gateway.bridges.wake_for(name);
}
