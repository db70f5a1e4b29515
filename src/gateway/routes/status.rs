//! `GET /api/status`: what the gateway knows about itself and its records, without a slow query. `GET
//! /api/sandboxes/usage`: what the engine measures now, which takes seconds.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use serde_json::{Value, json};

use super::{bridges, mcp_servers};
use crate::backup::record::BackupRecord;
use crate::checkpoint::Checkpoints;
use crate::gateway::auth::Caller;
use crate::gateway::engines;
use crate::gateway::peers;
use crate::gateway::person_access;
use crate::gateway::state::Gateway;
use crate::process::ProcessId;
use crate::store::{ChannelState, DatabasePlace, Lease, LeaseKind, LivingGateway, StoreError};
use crate::swarm::budget;

/// Returns the state of the gateway.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> Json<Value> {
    let config = gateway.config();
    let (running, waiting) = gateway.driver.counts();
    let team = team(&gateway).await;
    let bridges = bridges::summaries(&gateway).await;
    if let Err(error) = &bridges {
        tracing::error!(error = crate::error::chain(error), "failed to count what waits for a bridge");
    }
    let projects = gateway.projects.summaries().await;
    if let Err(error) = &projects {
        tracing::error!(error = crate::error::chain(error), "failed to count what was submitted");
    }
    let races = gateway.races.summaries().await;
    if let Err(error) = &races {
        tracing::error!(error = crate::error::chain(error), "failed to look at the races");
    }
    let schedules = gateway.swarm.schedule_summary(crate::clock::unix_ms()).await;
    if let Err(error) = &schedules {
        tracing::error!(error = crate::error::chain(error), "failed to look at the schedules");
    }
    let hooks = gateway.swarm.hook_summary().await;
    if let Err(error) = &hooks {
        tracing::error!(error = crate::error::chain(error), "failed to look at the webhooks");
    }
    let skills = gateway.skills.get(gateway.home()).await;
    if let Err(error) = &skills {
        tracing::error!(error = crate::error::chain(error), "failed to look at the skills");
    }
    // Engines, gateways and MCP servers have addresses and the names of machines and programs, which are part of the
    // machine's state.
    let oversees = caller
        .home_person()
        .is_none_or(|person| person_access::allows(person.role, person_access::Action::Oversee));
    let servers = if oversees { mcp_servers::summaries(&gateway).await.map(Some) } else { Ok(None) };
    if let Err(error) = &servers {
        tracing::error!(error = crate::error::chain(error), "failed to look at the MCP servers");
    }
    let gateways = if oversees { gateways(&gateway).await } else { Ok(None) };
    if let Err(error) = &gateways {
        tracing::error!(error = crate::error::chain(error), "failed to look which gateways there are");
    }
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": ProcessId::current().pid,
        "startedAt": gateway.started_ms / 1000,
        "uptimeMs": crate::clock::unix_ms() - gateway.started_ms,
        "memoryBytes": resident_bytes(),
        "config": {"problem": gateway.config_problem()},
        "agents": config.agents.iter().map(|agent| &agent.id).collect::<Vec<_>>(),
        "paused": gateway.swarm.paused(),
        "parked": gateway.swarm.parked_quotas(),
        "turns": {"running": running, "waiting": waiting},
        "team": team,
        "bridges": bridges.ok(),
        "projects": projects.ok(),
        "races": races.ok(),
        "mcpServers": servers.ok().flatten(),
        "schedules": schedules.ok(),
        "hooks": hooks.ok(),
        "skills": skills.ok(),
        "dashboard": dashboard(&gateway).await,
        "telemetry": telemetry(&gateway),
        "gateways": gateways.ok().flatten(),
    });
    // Left out if only the machine's own is there.
    if oversees && let Some(engines) = engines::for_status(&gateway.swarm).await {
        status["engines"] = json!(engines);
    }
    // Left out if no agent waits for any.
    if oversees && let Some(missing) = missing_files(&gateway).await {
        status["missingFiles"] = missing;
    }
    // Left out while none are installed.
    if oversees && let Some(installing) = gateway.package_moves.installing() {
        status["installingPackages"] = json!(installing);
    }
    // Left out before the first look at the index.
    if oversees && let Some(index) = search_index(&gateway).await {
        status["searchIndex"] = index;
    }
    // Left out without a second place.
    if oversees && let Some(storage) = gateway.copies.status(&config) {
        status["storage"] = json!(storage);
    }
    if oversees {
        add_kept(&mut status, &gateway).await;
    }
    if let Some(people) = people(&gateway, &caller).await {
        status["people"] = people;
    }
    if let (Some(status), Value::Object(known)) = (status.as_object_mut(), gateway.records.status().await) {
        status.extend(known);
    }
    Json(status)
}

/// Returns the files of lost engines for which agents wait, or `None` if there are none.
async fn missing_files(gateway: &Gateway) -> Option<Value> {
    let (home, config) = (gateway.home().clone(), gateway.config());
    match tokio::task::spawn_blocking(move || Checkpoints::all_missing_files(&home, &config)).await {
        Ok(missing) => (!missing.is_empty()).then(|| json!(missing)),
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to look for files of lost engines");
            None
        }
    }
}

/// Adds the place of the database, and the newest backup of the home if there is one. What can't be read is left out.
async fn add_kept(status: &mut Value, gateway: &Gateway) {
    let home = gateway.home().clone();
    let read = tokio::task::spawn_blocking(move || (DatabasePlace::of(&home), BackupRecord::read(&home)));
    let (database, backup) = match read.await {
        Ok(read) => read,
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to look where the database is");
            return;
        }
    };
    match database {
        Ok(place) => status["database"] = json!(place),
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to look where the database is");
        }
    }
    match backup {
        Ok(Some(record)) => status["backup"] = record.shown(),
        Ok(None) => {}
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to look for the newest backup");
        }
    }
}

/// Returns how far the index of the search is behind, or `None` if that is not known.
async fn search_index(gateway: &Gateway) -> Option<Value> {
    match gateway.swarm.messages_to_index().await {
        Ok(behind) => behind.map(|count| json!({"messagesBehind": count})),
        Err(error) => {
            tracing::error!(
                error = crate::error::chain(&error),
                "failed to look how far the search index is"
            );
            None
        }
    }
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

/// Returns the memory and processors that each running sandbox uses now, with its limits.
pub(crate) async fn sandboxes(State(gateway): State<Arc<Gateway>>) -> Json<Value> {
    Json(gateway.records.usage().await)
}

/// Returns the number of channels in each state, the number of sessions with unread messages, and the providers that
/// are down.
async fn team(gateway: &Gateway) -> Value {
    let store = gateway.swarm.store();
    let count = async || Ok((store.channels().counts().await?, store.deliveries().count_unseen().await?));
    let counted: Result<_, StoreError> = count().await;
    let (counts, unseen) = match counted {
        Ok(counted) => counted,
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to count the channels");
            return Value::Null;
        }
    };
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
    json!({
        "breakers": breakers.collect::<Vec<_>>(),
        "channels": {
            "active": count(ChannelState::Active),
            "archiving": count(ChannelState::Archiving),
            "archived": count(ChannelState::Archived),
        },
        "unseen": unseen,
    })
}

/// Returns the number of people and today's use of those budgets that the caller may see, or nothing if nobody was added.
async fn people(gateway: &Gateway, caller: &Caller) -> Option<Value> {
    // Days are those of this machine's time zone.
    let now = jiff::Zoned::now();
    let day = budget::day(now.timestamp().as_millisecond(), now.time_zone());
    let (count, mut budgets) = match gateway.swarm.budgets_of_people(&day).await {
        Ok(found) => found,
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to look at the budgets of people");
            return Some(Value::Null);
        }
    };
    if let Some(person) = caller.home_person() {
        budgets.retain(|found| person_access::sees_budget(person, &found.limit.scope));
    }
    let budgets = budget::use_of_limits(&day, &budgets)["budgets"].take();
    (count > 0).then(|| json!({"count": count, "budgets": budgets}))
}

/// Returns where spans are sent and what became of them, or nothing if telemetry is off.
fn telemetry(gateway: &Gateway) -> Value {
    let telemetry = gateway.swarm.telemetry();
    let Some(settings) = telemetry.settings() else { return Value::Null };
    let mut report = serde_json::to_value(telemetry.statistics()).unwrap_or_default();
    report["endpoint"] = settings.endpoint.clone().into();
    report["contents"] = settings.contents.into();
    report
}

/// Returns the number of browsers that are signed in.
async fn dashboard(gateway: &Gateway) -> Value {
    match gateway.swarm.store().sign_ins().list().await {
        Ok(found) => {
            let now = crate::clock::unix_ms();
            let mut shown = json!({"browsers": found.iter().filter(|sign_in| sign_in.is_good(now)).count()});
            if let Some(settings) = &gateway.config().oidc {
                shown["oidc"] = json!({"issuer": settings.issuer, "name": settings.name});
            }
            shown
        }
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to count the signed-in browsers");
            Value::Null
        }
    }
}

/// Returns the number of bytes of this process that are in RAM.
pub(super) fn resident_bytes() -> Option<u64> {
    // Field 2 of statm is a number of pages, in the page size of the kernel.
    let statm = fs_err::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
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
}
