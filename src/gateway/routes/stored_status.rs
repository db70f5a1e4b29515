//! The part of the status that the database knows, as far as it answers in time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{bridges, mcp_servers};
use crate::error::{Explain, chain};
use crate::gateway::auth::Caller;
use crate::gateway::engines;
use crate::gateway::peers;
use crate::gateway::person_access;
use crate::gateway::state::Gateway;
use crate::gateway::unread::Unread;
use crate::store::{ChannelState, Lease, LeaseKind, LivingGateway, StoreError};
use crate::swarm::budget;

/// The longest time to wait for the database. `flock status` waits for longer.
const LIMIT: Duration = Duration::from_secs(3);

/// The advice for a database that does not answer in time.
const LATE_HINT: &str = "see that the server of the database runs and can be reached, then: flock doctor";

/// The parts that are null if they can't be read.
const PARTS: [&str; 8] =
    ["team", "bridges", "projects", "races", "schedules", "hooks", "dashboard", "sessions"];

/// The part that is left out if it can't be read, and if nobody was added.
const PEOPLE: &str = "people";

/// The parts that are null if they can't be read, and for people who do not see the machine.
const OVERSEEN: [&str; 2] = ["mcpServers", "gateways"];

/// What was read.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredStatus {
    pub known: Map<String, Value>,
    /// The parts that could not be read. In `known` they are null or absent.
    pub unread: Vec<Unread>,
    /// The parts that were looked at, whatever came of it.
    looked_at: BTreeSet<&'static str>,
}

impl StoredStatus {
    /// Adds a part, or nothing if there is nothing to say of it.
    fn add<E: Explain>(&mut self, part: &'static str, read: Result<Option<Value>, E>) {
        self.looked_at.insert(part);
        match read {
            Ok(Some(value)) => {
                self.known.insert(part.to_owned(), value);
            }
            Ok(None) => {}
            Err(error) => {
                tracing::error!(part, error = chain(&error), "failed to read a part of the status");
                self.unread.push(Unread::because(part, &error));
            }
        }
    }

    /// Names the parts that the database has not answered about within the limit, and makes them null.
    fn end(mut self, oversees: bool) -> Self {
        let overseen = OVERSEEN.into_iter().filter(|_| oversees);
        let wanted = PARTS.into_iter().chain([PEOPLE]).chain(overseen);
        for part in wanted.filter(|part| !self.looked_at.contains(part)) {
            let problem = format!("the database gave no answer within {} s", LIMIT.as_secs());
            self.unread.push(Unread { part: part.to_owned(), problem, hint: Some(LATE_HINT.to_owned()) });
        }
        for part in PARTS.into_iter().chain(OVERSEEN) {
            self.known.entry(part).or_insert(Value::Null);
        }
        if !oversees {
            // An error may have the address of the database, which is not for everybody.
            for unread in &mut self.unread {
                "it could not be read".clone_into(&mut unread.problem);
                unread.hint = None;
            }
        }
        self
    }
}

/// The parts that were read so far.
#[derive(Clone, Default)]
struct Reading(Arc<Mutex<StoredStatus>>);

impl Reading {
    fn add<E: Explain>(&self, part: &'static str, read: Result<Option<Value>, E>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).add(part, read);
    }

    fn so_far(&self) -> StoredStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the parts of the status that the database has, for [`LIMIT`] at most.
pub(super) async fn read(gateway: &Arc<Gateway>, caller: &Caller, oversees: bool) -> StoredStatus {
    let reading = Reading::default();
    let look = {
        let (gateway, caller, reading) = (Arc::clone(gateway), caller.clone(), reading.clone());
        async move { Box::pin(read_parts(&gateway, &caller, oversees, &reading)).await }
    };
    if !has_ended(&gateway.status_look, LIMIT, look).await {
        tracing::warn!("the database does not answer in time for the status");
    }
    reading.so_far().end(oversees)
}

/// Begins a look once no other one runs. Returns `true` if it ends within the limit; otherwise it goes on, or never begins.
///
/// A look that hangs takes a thread and a connection until it ends, so there is only one.
async fn has_ended(
    one: &Arc<tokio::sync::Mutex<()>>,
    limit: Duration,
    look: impl Future<Output = ()> + Send + 'static,
) -> bool {
    let waiting = async {
        let one = Arc::clone(one).lock_owned().await;
        // In a task of its own, because a read that hangs also holds up what waits for it in the same task.
        let task = tokio::spawn(async move {
            let _one = one;
            look.await;
        });
        if let Err(error) = task.await {
            tracing::error!(error = chain(&error), "a look at the database for the status broke off");
        }
    };
    tokio::time::timeout(limit, waiting).await.is_ok()
}

async fn read_parts(gateway: &Gateway, caller: &Caller, oversees: bool, reading: &Reading) {
    let store = gateway.swarm.store();
    reading.add("team", team(gateway).await.map(Some));
    reading.add("bridges", shown(bridges::summaries(gateway).await));
    reading.add("projects", shown(gateway.projects.summaries().await));
    reading.add("races", shown(gateway.races.summaries().await));
    reading.add("schedules", gateway.swarm.schedule_summary(crate::clock::unix_ms()).await.map(Some));
    reading.add("hooks", gateway.swarm.hook_summary().await.map(Some));
    reading.add("dashboard", dashboard(gateway).await.map(Some));
    reading.add("sessions", shown(store.sessions().count().await));
    reading.add(PEOPLE, people(gateway, caller).await);
    if oversees {
        reading.add("mcpServers", shown(mcp_servers::summaries(gateway).await));
        reading.add("searchIndex", search_index(gateway).await);
        // The other gateways and engines are asked too, so these come last.
        let (gateways, engines) = tokio::join!(gateways(gateway), engines::for_status(&gateway.swarm));
        reading.add("gateways", gateways);
        reading.add("engines", engines.map(|found| found.map(|found| json!(found))));
    }
}

fn shown<T: Serialize, E>(read: Result<T, E>) -> Result<Option<Value>, E> {
    read.map(|found| Some(json!(found)))
}

/// Returns how far the index of the search is behind, or nothing if that is not known yet.
async fn search_index(gateway: &Gateway) -> Result<Option<Value>, StoreError> {
    let behind = gateway.swarm.messages_to_index().await?;
    Ok(behind.map(|count| json!({"messagesBehind": count})))
}

/// Returns the gateways that share a database on a server, or `None` if the database is a file.
async fn gateways(gateway: &Gateway) -> Result<Option<Value>, StoreError> {
    let store = gateway.swarm.store();
    let Some(own) = store.epoch() else { return Ok(None) };
    let (now, living) = store.gateways().living().await?;
    let leases = store.leases().list().await?;
    let mut turns = peers::counts(gateway).await;
    turns.insert(own, gateway.driver.counts());
    let shown = living.iter().map(|found| {
        let mut shown = shown_gateway(found, found.epoch == own, &leases, now);
        // One that does not answer has no turns that anybody knows of.
        shown["turns"] = json!(
            turns
                .get(&found.epoch)
                .map(|(running, waiting)| { json!({"running": running, "waiting": waiting}) })
        );
        shown
    });
    Ok(Some(shown.collect()))
}

/// Returns a gateway with the number of its leases of each kind. `now` is the time of the database's clock.
fn shown_gateway(found: &LivingGateway, is_own: bool, leases: &[Lease], now: i64) -> Value {
    let mut owned: BTreeMap<&str, usize> = BTreeMap::new();
    let mut agents: Vec<&str> = Vec::new();
    for lease in leases.iter().filter(|lease| lease.owner == Some(found.epoch)) {
        *owned.entry(lease.subject.kind.as_str()).or_default() += 1;
        if lease.subject.kind == LeaseKind::Agent {
            agents.push(&lease.subject.name);
        }
    }
    agents.sort_unstable();
    json!({
        "epoch": found.epoch,
        "name": found.name,
        "address": found.address,
        "version": found.version,
        "startedAt": found.started_at / 1000,
        "silentMs": found.silent_ms(now),
        "own": is_own,
        "leases": owned,
        "agents": agents,
    })
}

/// Returns the number of channels in each state, the number of sessions with unread messages, and the providers that
/// are down.
async fn team(gateway: &Gateway) -> Result<Value, StoreError> {
    let store = gateway.swarm.store();
    let (counts, unseen) = (store.channels().counts().await?, store.deliveries().count_unseen().await?);
    let count =
        |state: ChannelState| counts.iter().find(|(found, _)| *found == state).map_or(0, |(_, count)| *count);
    let down = gateway.swarm.provider_outages();
    let breakers = down.iter().map(|down| {
        json!({
            "provider": down.provider,
            "since": down.since,
            "retryAt": down.probe_at,
            "failures": down.failures,
            "trying": down.is_probing,
        })
    });
    Ok(json!({
        "breakers": breakers.collect::<Vec<_>>(),
        "channels": {
            "active": count(ChannelState::Active),
            "archiving": count(ChannelState::Archiving),
            "archived": count(ChannelState::Archived),
        },
        "unseen": unseen,
    }))
}

/// Returns the number of people and today's use of those budgets that the caller may see, or nothing if nobody was added.
async fn people(gateway: &Gateway, caller: &Caller) -> Result<Option<Value>, StoreError> {
    // Days are those of this machine's time zone.
    let now = jiff::Zoned::now();
    let day = budget::day(now.timestamp().as_millisecond(), now.time_zone());
    let (count, mut budgets) = gateway.swarm.budgets_of_people(&day).await?;
    if let Some(person) = caller.home_person() {
        budgets.retain(|found| person_access::sees_budget(person, &found.limit.scope));
    }
    let budgets = budget::use_of_limits(&day, &budgets)["budgets"].take();
    Ok((count > 0).then(|| json!({"count": count, "budgets": budgets})))
}

/// Returns the number of browsers that are signed in.
async fn dashboard(gateway: &Gateway) -> Result<Value, StoreError> {
    let found = gateway.swarm.store().sign_ins().list().await?;
    let now = crate::clock::unix_ms();
    let mut shown = json!({"browsers": found.iter().filter(|sign_in| sign_in.is_good(now)).count()});
    if let Some(settings) = &gateway.config().oidc {
        shown["oidc"] = json!({"issuer": settings.issuer, "name": settings.name});
    }
    Ok(shown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::testing::living_gateway;
    use crate::store::{Epoch, GATEWAY_LIFETIME_MS, LeaseSubject};

    #[test]
    fn a_gateway_is_shown_with_what_it_takes_care_of() {
        let lease = |kind, name: &str, owner| Lease {
            subject: LeaseSubject { kind, name: name.to_owned() },
            owner: Some(Epoch(owner)),
            token: 1,
        };
        let leases = [
            lease(LeaseKind::Agent, "coder", 2),
            lease(LeaseKind::Agent, "writer", 2),
            lease(LeaseKind::Agent, "tester", 1),
            lease(LeaseKind::Clock, "", 2),
        ];
        let found = LivingGateway {
            name: "box".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            version: "1".to_owned(),
            started_at: 9_000,
            beat_until: 20_000 + GATEWAY_LIFETIME_MS,
            ..living_gateway(Epoch(2))
        };
        let wanted = json!({
            "epoch": 2, "name": "box", "address": "127.0.0.1:1", "version": "1", "startedAt": 9,
            "silentMs": 1_500, "own": true, "leases": {"agent": 2, "clock": 1},
            "agents": ["coder", "writer"],
        });
        assert_eq!(shown_gateway(&found, true, &leases, 21_500), wanted);
        // The database's clock was set back.
        assert_eq!(shown_gateway(&found, true, &[], 1)["silentMs"], 0);
    }

    #[test]
    fn parts_that_nobody_has_read_are_named_and_null() {
        let mut status = StoredStatus::default();
        status.add::<StoreError>("team", Ok(Some(json!({"unseen": 0}))));
        status.add::<StoreError>("people", Ok(None));
        status.add("races", Err(StoreError::Stopped));
        let unread = |status: &StoredStatus| -> Vec<String> {
            status.unread.iter().map(|unread| unread.part.clone()).collect()
        };
        let ended = status.clone().end(false);
        let all = ["races", "bridges", "projects", "schedules", "hooks", "dashboard", "sessions"];
        assert_eq!(unread(&ended), all);
        assert!(ended.unread.iter().all(|unread| unread.problem == "it could not be read"));
        assert_eq!((&ended.known["team"]["unseen"], &ended.known["races"]), (&json!(0), &Value::Null));
        assert!(!ended.known.contains_key("people"));
        let ended = status.end(true);
        assert_eq!(unread(&ended)[7..], ["mcpServers", "gateways"]);
        assert_eq!(ended.unread[0].problem, "the database is closed");
        assert!(ended.known["gateways"].is_null());
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_waited_for_once_and_no_other_begins() {
        let (one, limit) = (Arc::default(), Duration::from_millis(5));
        let reading = Reading::default();
        let look = |reading: &Reading| {
            let reading = reading.clone();
            async move { reading.add::<StoreError>("team", Ok(None)) }
        };
        assert!(!has_ended(&one, limit, std::future::pending()).await);
        assert!(!has_ended(&one, limit, look(&reading)).await);
        assert!(!reading.so_far().looked_at.contains("team"));
        assert!(has_ended(&Arc::default(), Duration::from_secs(60), look(&reading)).await);
        assert!(reading.so_far().looked_at.contains("team"));
    }
}
