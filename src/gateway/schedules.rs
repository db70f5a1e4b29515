//! The timer of the schedules: one wait for the next time of all of them. Without a schedule it waits for one to be added.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::events::{EventBuffer, EventRead};
use super::state::Gateway;
use super::wall_clock::WallClock;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::swarm::Swarm;
use crate::swarm::schedule::event;

/// Time after which the schedules are looked at again if they could not be read.
const RETRY_MS: i64 = 5_000;
/// The most events that are read at once.
const MOST_EVENTS: usize = 256;

/// The events after which a recipient that could not be given anything may be ready again.
const RECIPIENT_EVENTS: [&str; 6] =
    ["agent.thawed", "agent.added", "agent.removed", "channel.changed", "channel.created", "config.changed"];

/// Longest time between two looks of a gateway with others beside it, which may change schedules too.
const SHARED_LOOK_MS: i64 = 10_000;

/// Runs the schedules of a gateway until `stop` is cancelled.
pub(crate) async fn run(gateway: Arc<Gateway>, stop: CancellationToken) {
    let (swarm, events) = (&gateway.swarm, &gateway.events);
    let clock = WallClock::new();
    let mut news = events.watch();
    let mut position = events.now();
    let mut wake_at = None;
    let mut is_due = true;
    while !stop.is_cancelled() {
        if is_due {
            wake_at = look(swarm).await;
            if swarm.ownership().is_shared() {
                let latest = unix_ms() + SHARED_LOOK_MS;
                wake_at = Some(wake_at.map_or(latest, |at| at.min(latest)));
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = swarm.schedule_changed() => is_due = true,
            () = clock.reached(wake_at) => is_due = true,
            changed = news.changed() => {
                if changed.is_err() {
                    return;
                }
                is_due = read_events(swarm, events, &mut position).await;
            }
        }
    }
}

async fn look(swarm: &Swarm) -> Option<i64> {
    let now = unix_ms();
    match swarm.look_at_schedules(now).await {
        Ok(wake_at) => wake_at,
        Err(error) => {
            tracing::error!(error = chain(&error), "failed to look at the schedules");
            Some(now + RETRY_MS)
        }
    }
}

/// Reads the events since `position`. Returns `true` if one of them concerns a schedule.
async fn read_events(swarm: &Swarm, events: &EventBuffer, position: &mut u64) -> bool {
    let mut concerns = false;
    loop {
        let list = match events.after(*position, MOST_EVENTS) {
            EventRead::Events(list) => list,
            EventRead::Lost => {
                tracing::warn!("events came faster than the schedules read them");
                *position = events.now();
                return true;
            }
        };
        if list.is_empty() {
            return concerns;
        }
        for one in list {
            *position = one.position();
            concerns |= RECIPIENT_EVENTS.contains(&one.name());
            let data = one.data();
            let Some(name) = event::name(one.name(), &data).filter(|_| !event::is_of_schedule(&data)) else {
                continue;
            };
            match swarm.note_schedule_event(&events.id(one.position()), name, unix_ms()).await {
                Ok(noted) => concerns |= noted,
                Err(error) => {
                    tracing::error!(error = chain(&error), "failed to note an event for a schedule");
                }
            }
        }
    }
}
