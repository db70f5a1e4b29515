//! `GET /api/status`: what the gateway knows about itself and its records, without a slow query; `stored_status` has what
//! the database knows. `GET /api/sandboxes/usage`: what the engine measures now, which takes seconds.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Extension, State};
use serde_json::{Value, json};

use super::stored_status;
use crate::backup::record::BackupRecord;
use crate::checkpoint::Checkpoints;
use crate::gateway::auth::Caller;
use crate::gateway::person_access;
use crate::gateway::state::Gateway;
use crate::process::ProcessId;
use crate::store::DatabasePlace;

/// Returns the state of the gateway.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Extension(caller): Extension<Caller>,
) -> Json<Value> {
    let config = gateway.config();
    let (running, waiting) = gateway.driver.counts();
    // Engines, gateways and MCP servers have addresses and the names of machines and programs, which are part of the
    // machine's state.
    let oversees = caller
        .home_person()
        .is_none_or(|person| person_access::allows(person.role, person_access::Action::Oversee));
    // At the same time, so that a silent engine and a silent database cost their limits only once.
    let (stored, records) =
        tokio::join!(Box::pin(stored_status::read(&gateway, &caller, oversees)), gateway.records.status());
    let skills = gateway.skills.get(gateway.home()).await;
    if let Err(error) = &skills {
        tracing::error!(error = crate::error::chain(error), "failed to look at the skills");
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
        "skills": skills.ok(),
        "telemetry": telemetry(&gateway),
        "unread": stored.unread,
    });
    // Left out if no agent waits for any.
    if oversees && let Some(missing) = missing_files(&gateway).await {
        status["missingFiles"] = missing;
    }
    // Left out while none are installed.
    if oversees && let Some(installing) = gateway.package_moves.installing() {
        status["installingPackages"] = json!(installing);
    }
    // Left out without a second place.
    if oversees && let Some(storage) = gateway.copies.status(&config) {
        status["storage"] = json!(storage);
    }
    if oversees {
        add_kept(&mut status, &gateway).await;
    }
    if let Value::Object(status) = &mut status {
        status.extend(stored.known);
        if let Value::Object(records) = records {
            status.extend(records);
        }
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

/// Returns the memory and processors that each running sandbox uses now, with its limits.
pub(crate) async fn sandboxes(State(gateway): State<Arc<Gateway>>) -> Json<Value> {
    Json(gateway.records.usage().await)
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

/// Returns the number of bytes of this process that are in RAM.
pub(super) fn resident_bytes() -> Option<u64> {
    // Field 2 of statm is a number of pages, in the page size of the kernel.
    let statm = fs_err::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(page).ok()?)
}
