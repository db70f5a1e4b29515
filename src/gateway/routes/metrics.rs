//! `GET /metrics`: figures for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::Value;

use super::{bridges, status};
use crate::clock::unix_ms;
use crate::error::chain;
use crate::gateway::engines::{self, EngineView};
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Query, flag};
use crate::gateway::metrics::{CONTENT_TYPE, Labels, Page};
use crate::gateway::state::Gateway;
use crate::id::EngineName;
use crate::store::{GATEWAY_LIFETIME_MS, LeaseKind, StoreError, UsageBy, UsageFilter};
use crate::swarm::budget;

/// The query parameters.
#[derive(Debug, Deserialize)]
pub(crate) struct MetricsQuery {
    /// `1` adds the use of each channel, with its name.
    #[serde(default)]
    channels: String,
}

/// Returns the figures of the gateway. The names of channels are in them only if the query asks for them: who may see
/// the figures of a machine need not know what its agents work on.
pub(crate) async fn show(
    State(gateway): State<Arc<Gateway>>,
    Query(query): Query<MetricsQuery>,
) -> Result<Response, ApiError> {
    let with_channels = flag("channels", &query.channels)?;
    // All figures are of one day, also at midnight.
    let today = budget::usage_filter(None, None, jiff::Zoned::now().date(), None);
    let mut page = Page::default();
    add_process(&mut page, &gateway);
    add_agents(&mut page, &gateway);
    add_turns(&mut page, &gateway);
    add_telemetry(&mut page, &gateway);
    add_team(&mut page, &gateway).await.map_err(ApiError::explained)?;
    add_search(&mut page, &gateway).await.map_err(ApiError::explained)?;
    add_schedules(&mut page, &gateway).await?;
    add_hooks(&mut page, &gateway).await?;
    add_bridges(&mut page, &gateway, &today).await.map_err(ApiError::explained)?;
    add_gateways(&mut page, &gateway).await.map_err(ApiError::explained)?;
    let known = gateway.records.status().await;
    add_engines(&mut page, &gateway, &known).await;
    add_sandboxes(&mut page, &known);
    let mut kinds = vec![(UsageBy::Agent, "agent"), (UsageBy::Model, "model")];
    if with_channels {
        kinds.push((UsageBy::Channel, "channel"));
    }
    for (by, label) in kinds {
        add_usage(&mut page, &gateway, &today, by, label).await.map_err(ApiError::explained)?;
    }
    let text = page.text().map_err(ApiError::internal)?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}

fn add_process(page: &mut Page, gateway: &Gateway) {
    let version = [("version", env!("CARGO_PKG_VERSION").to_owned())];
    page.gauges("build", "The version of flock", [(version, 1)]);
    let uptime = unix_ms().saturating_sub(gateway.started_ms) / 1000;
    page.gauge("uptime_seconds", "Time since the start of the gateway", uptime);
    if let Some(bytes) = status::resident_bytes() {
        page.gauge("memory_bytes", "Resident memory of the gateway", figure(bytes));
    }
}

fn add_agents(page: &mut Page, gateway: &Gateway) {
    let (frozen, paused) = (gateway.swarm.watch_frozen().borrow().clone(), gateway.swarm.paused());
    let agents: Vec<_> = gateway.config().agents.iter().map(|agent| agent.id.clone()).collect();
    let each = |is: &dyn Fn(&crate::id::AgentId) -> bool| {
        let rows = agents.iter().map(|agent| ([("agent", agent.to_string())], i64::from(is(agent))));
        rows.collect::<Vec<_>>()
    };
    page.gauges("agent_frozen", "1 if the agent is frozen", each(&|agent| frozen.of(agent).is_some()));
    page.gauges("agent_paused", "1 if a budget pauses the agent", each(&|agent| paused.contains_key(agent)));
}

fn add_turns(page: &mut Page, gateway: &Gateway) {
    let (running, waiting) = gateway.driver.counts();
    page.gauge("turns_running", "Turns that run now", figure(running));
    page.gauge("turns_waiting", "Turns that wait for their session or for a free slot", figure(waiting));
    gateway.driver.metrics().show(page);
}

/// Adds what became of the spans for a collector, if telemetry is on.
fn add_telemetry(page: &mut Page, gateway: &Gateway) {
    let telemetry = gateway.swarm.telemetry();
    if telemetry.settings().is_none() {
        return;
    }
    let found = telemetry.statistics();
    page.gauge(
        "telemetry_spans_waiting",
        "Spans that wait to be sent to the collector",
        figure(found.waiting),
    );
    let ends = [
        ("sent", found.sent),
        ("full", found.lost.full),
        ("undelivered", found.lost.undelivered),
        ("rejected", found.lost.rejected),
    ];
    let ends = ends.map(|(end, count)| ([("end", end.to_owned())], count));
    page.counters("telemetry_spans", "Spans by what became of them", ends);
}

async fn add_team(page: &mut Page, gateway: &Gateway) -> Result<(), StoreError> {
    let store = gateway.swarm.store();
    let channels = store.channels().counts().await?;
    let channels =
        channels.into_iter().map(|(state, count)| ([("state", state.as_str().to_owned())], figure(count)));
    page.gauges("channels", "Channels", channels);
    let unseen = store.deliveries().count_unseen().await?;
    page.gauge(
        "unseen_sessions",
        "Sessions of channels with messages that their agent has not seen",
        figure(unseen),
    );
    let requests = store.requests().count_waiting().await?;
    page.gauge("requests_waiting", "Requests that wait for a person", figure(requests));
    let down = gateway.swarm.provider_outages();
    let down = down.iter().map(|down| ([("provider", down.provider.to_string())], 1));
    page.gauges("provider_down", "Providers that do not answer", down);
    // One row for each credential, also if several of its models are parked.
    let mut parked = BTreeMap::<String, BTreeSet<crate::id::AgentId>>::new();
    for park in gateway.swarm.parked_quotas() {
        parked.entry(park.credential).or_default().extend(park.agents);
    }
    let rows = parked.iter().map(|(name, agents)| ([("credential", name.clone())], figure(agents.len())));
    page.gauges("quota_parked_agents", "Agents that wait for a credential whose quota is used up", rows);
    Ok(())
}

/// Adds how far the index of the search is, once that is known.
async fn add_search(page: &mut Page, gateway: &Gateway) -> Result<(), StoreError> {
    if let Some(behind) = gateway.swarm.messages_to_index().await? {
        page.gauge(
            "search_index_messages_behind",
            "Messages that the search index of this gateway lacks, at most",
            behind,
        );
    }
    Ok(())
}

async fn add_schedules(page: &mut Page, gateway: &Gateway) -> Result<(), ApiError> {
    let summary = gateway.swarm.schedule_summary(unix_ms()).await?;
    let states = ["active", "paused"]
        .map(|state| ([("state", state.to_owned())], summary[state].as_i64().unwrap_or(0)));
    page.gauges("schedules", "Schedules", states);
    let failing = summary["failing"].as_array().map_or(0, Vec::len);
    page.gauge(
        "schedules_failing",
        "Schedules that flock has paused, or whose last time did not run or led to a task that failed",
        figure(failing),
    );
    Ok(())
}

async fn add_hooks(page: &mut Page, gateway: &Gateway) -> Result<(), ApiError> {
    let summary = gateway.swarm.hook_summary().await.map_err(ApiError::explained)?;
    let states = ["active", "paused"]
        .map(|state| ([("state", state.to_owned())], summary[state].as_i64().unwrap_or(0)));
    page.gauges("webhooks", "Webhooks", states);
    let refused = summary["refused"].as_i64().unwrap_or(0);
    page.gauge("webhook_refusals", "Deliveries that were refused since the gateway started", refused);
    Ok(())
}

async fn add_bridges(page: &mut Page, gateway: &Gateway, today: &UsageFilter) -> Result<(), StoreError> {
    let bridges = bridges::summaries(gateway).await?;
    let name = |bridge: &bridges::BridgeSummary| [("bridge", bridge.name.clone())];
    let connected = bridges.iter().map(|bridge| (name(bridge), i64::from(bridge.state == "connected")));
    page.gauges("bridge_connected", "1 if the bridge is connected", connected);
    let waiting = bridges.iter().map(|bridge| (name(bridge), figure(bridge.waiting)));
    page.gauges("bridge_messages_waiting", "Messages that wait to be sent to the platform", waiting);
    let traffic = gateway.swarm.store().usage().bridges(today).await?;
    let traffic = traffic.into_iter().flat_map(|bridge| {
        let labels = |direction: &str| [("bridge", bridge.name.clone()), ("direction", direction.to_owned())];
        [(labels("received"), bridge.received), (labels("sent"), bridge.sent)]
    });
    page.counters("bridge_messages", "Messages of today, by this machine's clock", traffic);
    Ok(())
}

/// Adds the gateways that use the database, if it is on a server.
async fn add_gateways(page: &mut Page, gateway: &Gateway) -> Result<(), StoreError> {
    let store = gateway.swarm.store();
    if store.epoch().is_none() {
        return Ok(());
    }
    let (now, all) = store.gateways().living().await?;
    let silent = all.iter().filter(|found| found.silent_ms(now) >= GATEWAY_LIFETIME_MS).count();
    let states = [("alive", all.len() - silent), ("silent", silent)]
        .map(|(state, count)| ([("state", state.to_owned())], figure(count)));
    page.gauges("gateways", "Gateways that use the database and have not ended", states);
    let silences = all.iter().map(|found| {
        // Gateways of one machine have its name.
        let labels = [("gateway", found.name.clone()), ("run", found.epoch.0.to_string())];
        (labels, found.silent_ms(now) / 1000)
    });
    page.gauges(
        "gateway_silent_seconds",
        "Time since the last sign of life of a gateway, by the clock of the database",
        silences,
    );
    if let Some(held) = gateway.swarm.ownership().counts() {
        let kinds = LeaseKind::ALL.map(|kind| {
            ([("kind", kind.as_str().to_owned())], figure(held.get(&kind).copied().unwrap_or_default()))
        });
        page.gauges("leases_held", "Leases that this gateway holds", kinds);
    }
    Ok(())
}

/// Adds the container engines: that of the machine, as the state says, and those of the configuration.
async fn add_engines(page: &mut Page, gateway: &Gateway, known: &Value) {
    let is_reachable = known["docker"]["reachable"].as_bool().unwrap_or(false);
    let engines = engines::for_status(&gateway.swarm).await.unwrap_or_else(|error| {
        tracing::error!(error = chain(&error), "failed to look at the engines");
        None
    });
    let label = |engine: &EngineView| [("engine", engine.name.to_string())];
    let reachable: Vec<(Labels<1>, i64)> = match &engines {
        Some(engines) => engines.iter().map(|engine| (label(engine), i64::from(engine.reachable))).collect(),
        None => vec![([("engine", EngineName::local().to_string())], i64::from(is_reachable))],
    };
    page.gauges("engine_reachable", "1 if the container engine answers", reachable);
    let Some(engines) = engines else { return };
    let agents = engines.iter().map(|engine| (label(engine), figure(engine.agents.len())));
    page.gauges("engine_agents", "Agents that are placed on the container engine", agents);
    let capacities = engines.iter().filter_map(|engine| Some((label(engine), figure(engine.memory?))));
    page.gauges(
        "engine_memory_capacity_bytes",
        "Memory that the limits of the agents on the container engine may add up to",
        capacities,
    );
    let placed = engines.iter().map(|engine| (label(engine), figure(engine.memory_used)));
    page.gauges(
        "engine_memory_placed_bytes",
        "Memory limits of the agents on the container engine, added up",
        placed,
    );
}

/// Adds the sandboxes, from the state that [`crate::gateway::state::StatusSource::status`] describes.
fn add_sandboxes(page: &mut Page, known: &Value) {
    let mut states = BTreeMap::<String, i64>::new();
    for container in known["containers"].as_array().into_iter().flatten() {
        if let (true, Some(state)) = (container["agent"].is_string(), container["state"].as_str()) {
            *states.entry(state.to_owned()).or_default() += 1;
        }
    }
    let states = states.into_iter().map(|(state, count)| ([("state", state)], count));
    page.gauges("sandboxes", "Sandboxes of agents", states);
}

/// Adds the use of models on the days of a filter, summed by what `label` names.
async fn add_usage(
    page: &mut Page,
    gateway: &Gateway,
    filter: &UsageFilter,
    by: UsageBy,
    label: &'static str,
) -> Result<(), StoreError> {
    let sums = gateway.swarm.store().usage().sums(filter, by).await?;
    let of = |name: &str| (label, name.to_owned());
    let calls = sums.iter().map(|sum| ([of(&sum.name)], sum.calls));
    page.counters(&format!("{label}_calls"), "Model calls of today", calls);
    let tokens = sums.iter().flat_map(|sum| {
        let kinds = [
            ("input", sum.input),
            ("output", sum.output),
            ("cache_read", sum.cache_read),
            ("cache_write", sum.cache_write),
        ];
        kinds.map(|(kind, tokens)| ([of(&sum.name), ("kind", kind.to_owned())], tokens))
    });
    page.counters(&format!("{label}_tokens"), "Tokens of today", tokens);
    let costs = sums.iter().map(|sum| ([of(&sum.name)], dollars(sum.cost_micros)));
    page.amounts(&format!("{label}_cost_dollars"), "Cost of today's calls whose price is known", costs);
    Ok(())
}

/// Returns dollars from their millionths.
#[expect(clippy::cast_precision_loss, reason = "so much money is not spent in a day")]
fn dollars(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Returns a count as a figure.
fn figure(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}
