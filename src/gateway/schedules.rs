//! The timer of the schedules: one wait for the next time of all of them. Without a schedule it waits for one to be added.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::events::{EventBuffer, EventRead, GatewayEvent, is_event_of_each};
use super::state::Gateway;
use super::wall_clock::WallClock;
use crate::clock::unix_ms;
use crate::error::chain;
use crate::store::LeaseSubject;
use crate::swarm::Swarm;
use crate::swarm::schedule::event;

/// Time after which the schedules are looked at again if they could not be read.
const RETRY_MS: i64 = 5_000;
/// The pause after an event could not be noted.
const NOTE_RETRY: Duration = Duration::from_secs(5);
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
                is_due = read_events(events, &mut position);
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
fn read_events(events: &EventBuffer, position: &mut u64) -> bool {
    let mut concerns = false;
    loop {
        let list = match events.after(*position, MOST_EVENTS) {
            EventRead::Events(list) => list,
            EventRead::Lost => {
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
        }
    }
}

/// Notes what happens at this gateway for the schedules that run after it, until `stop` is cancelled. Each gateway of a group
/// notes its own events, so none is lost while the right to run the schedules goes to another one.
pub(crate) async fn note_events(gateway: Arc<Gateway>, stop: CancellationToken) {
    let (swarm, events) = (&gateway.swarm, &gateway.events);
    let mut news = events.watch();
    let mut position = events.start();
    loop {
        let has_all = note_new(swarm, events, &mut position).await;
        tokio::select! {
            () = stop.cancelled() => return,
            changed = news.changed(), if has_all => {
                if changed.is_err() {
                    return;
                }
            }
            () = tokio::time::sleep(NOTE_RETRY), if !has_all => {}
        }
    }
}

/// Notes the events of this gateway since `position`. Returns `false` if one could not be noted: it is after `position` then.
async fn note_new(swarm: &Swarm, events: &EventBuffer, position: &mut u64) -> bool {
    loop {
        let list = match events.after(*position, MOST_EVENTS) {
            EventRead::Events(list) => list,
            EventRead::Lost => {
                tracing::warn!("events came faster than they were noted for the schedules");
                *position = events.start();
                continue;
            }
        };
        if list.is_empty() {
            return true;
        }
        for one in list {
            if let Some(name) = followed(swarm, &one)
                && let Err(error) =
                    swarm.note_schedule_event(&events.id(one.position()), name, unix_ms()).await
            {
                tracing::error!(error = chain(&error), "failed to note an event for a schedule");
                return false;
            }
            *position = one.position();
        }
    }
}

/// Returns the name under which schedules know an event that this gateway has to note.
fn followed(swarm: &Swarm, one: &GatewayEvent) -> Option<&'static str> {
    let is_noted_here = if is_event_of_each(one.name()) {
        // All of them would note it, each under another id.
        swarm.ownership().holds(&LeaseSubject::clock())
    } else {
        one.is_own
    };
    if !is_noted_here {
        return None;
    }
    let data = one.data();
    event::name(one.name(), &data).filter(|_| !event::is_of_schedule(&data))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;
    use crate::swarm::Actor;
    use crate::swarm::lease::Ownership;
    use crate::swarm::schedule::ScheduleWish;
    use crate::swarm::testing::Team;

    #[tokio::test]
    async fn a_gateway_notes_its_own_events_whoever_runs_the_schedules() {
        let team = Team::in_group(Ownership::for_test(&["coder"], &["tester"]));
        assert!(!team.swarm.ownership().holds(&LeaseSubject::clock()));
        let after = |name: &str| ScheduleWish {
            to: "@coder".to_owned(),
            text: "look around".to_owned(),
            name: Some(name.replace('.', "-")),
            after: Some(name.to_owned()),
            ..ScheduleWish::default()
        };
        for name in ["task.completed", "race.decided", "agent.added"] {
            team.swarm.add_schedule(&Actor::human("ann"), &after(name)).await.unwrap();
        }
        let events = EventBuffer::new("a".to_owned(), 100);
        let mut position = events.start();
        let of_other = RawValue::from_string(r#"{"state":"decided"}"#.to_owned()).unwrap();
        events.publish_of_other("race.changed", &of_other);
        events.publish("agent.added", &serde_json::json!({"id": "new"}));
        events.publish("task.changed", &serde_json::json!({"state": "completed"}));
        assert!(note_new(&team.swarm, &events, &mut position).await);
        assert_eq!(position, events.now());
        let schedules = team.store.schedules().list().await.unwrap();
        let noted: Vec<&str> =
            schedules.iter().filter(|one| one.event.is_some()).map(|one| one.name.as_str()).collect();
        assert_eq!(noted, ["task-completed"]);
    }
}
