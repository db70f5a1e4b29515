//! `GET /api/status`: what the gateway knows of itself and of what it keeps, without asking anybody for
//! long.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

use crate::gateway::state::Gateway;
use crate::process::ProcessId;
use crate::store::ChannelState;

/// The state of everything.
pub async fn show(State(gateway): State<Arc<Gateway>>) -> Json<Value> {
    let config = gateway.config();
    let turns = gateway.driver.list();
    let waiting = turns.iter().filter(|(_, turn)| turn.waits).count();
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": ProcessId::current().pid,
        "startedAt": gateway.started_ms / 1000,
        "uptimeMs": crate::clock::unix_ms() - gateway.started_ms,
        "memoryBytes": resident(),
        "config": {"problem": gateway.config_problem()},
        "agents": config.agents.iter().map(|agent| &agent.id).collect::<Vec<_>>(),
        "paused": gateway.swarm.paused(),
        "turns": {"running": turns.len() - waiting, "waiting": waiting},
        "team": team(&gateway),
    });
    if let (Some(status), Value::Object(known)) = (status.as_object_mut(), gateway.records.status().await) {
        status.extend(known);
    }
    Json(status)
}

/// The channels by their states, how many of the agents' sessions have something new to read, and which
/// providers are down.
fn team(gateway: &Gateway) -> Value {
    let store = gateway.swarm.store();
    let counted = store.channel_counts().and_then(|counts| Ok((counts, store.all_unseen()?.len())));
    let (counts, unseen) = match counted {
        Ok(counted) => counted,
        Err(error) => {
            tracing::error!(error = crate::error::chain(&error), "failed to count the channels");
            return Value::Null;
        }
    };
    let count =
        |state: ChannelState| counts.iter().find(|(found, _)| *found == state).map_or(0, |(_, count)| *count);
    let down = gateway.swarm.providers_down();
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

/// Memory of this process that is in RAM.
fn resident() -> Option<u64> {
    // Field 2 of statm counts pages; the kernel's own page size is the one it counts in.
    let statm = fs_err::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
}
