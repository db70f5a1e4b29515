//! The memory and processors that containers use now, and their limits, as the engine measures them.

use std::time::Duration;

use bollard::models::{ContainerInspectResponse, ContainerStatsResponse};
use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::{StreamExt as _, stream};
use serde::Serialize;

use crate::error::chain;
use crate::sandbox::SandboxError;
use crate::sandbox::containers::{self, Container};
use crate::sandbox::engine::{self, Engine};

/// Number of containers that are measured at the same time.
const AT_ONCE: usize = 16;

/// The deadlines of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadDeadlines {
    /// Time for one container.
    pub one: Duration,
    /// Time for all of them.
    pub all: Duration,
}

impl Default for LoadDeadlines {
    fn default() -> Self {
        // The engine looks twice at the processors, with a second between.
        Self { one: Duration::from_secs(4), all: Duration::from_secs(12) }
    }
}

/// The use of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ContainerLoad {
    pub agent: Option<String>,
    pub container: String,
    pub state: String,
    /// Memory of its processes. Files that the kernel only keeps in memory do not count.
    pub memory_bytes: Option<u64>,
    /// `None` if nothing limits it.
    pub memory_limit_bytes: Option<u64>,
    /// Processors in thousandths of one.
    pub cpu_millis: Option<u64>,
    pub cpu_limit_millis: Option<u64>,
    /// The reason why it could not be measured.
    pub problem: Option<String>,
}

/// Measures the running containers of agents, several at a time. One that can't be measured in time has a problem
/// instead.
pub(crate) async fn measure(
    engine: &Engine,
    containers: Vec<Container>,
    deadlines: LoadDeadlines,
) -> Vec<ContainerLoad> {
    let end = tokio::time::Instant::now() + deadlines.all;
    let running = containers.into_iter().filter(|one| one.agent.is_some() && one.is_running());
    let measured = stream::iter(running).map(|container| async move {
        let result = tokio::time::timeout_at(end, one(engine, &container, deadlines.one)).await;
        let result = result.unwrap_or_else(|_| Err(engine.silent("measure the containers", deadlines.all)));
        let mut load = result.unwrap_or_else(|error| ContainerLoad {
            problem: Some(chain(&error)),
            ..ContainerLoad::default()
        });
        (load.agent, load.container, load.state) = (container.agent, container.name, container.state);
        load
    });
    measured.buffered(AT_ONCE).collect().await
}

async fn one(engine: &Engine, container: &Container, limit: Duration) -> Result<ContainerLoad, SandboxError> {
    let client = engine.client()?;
    let what = format!("measure {}", container.name);
    // No stream, but two looks, from which the use of processors follows. A single look knows only its sum.
    let options = StatsOptionsBuilder::default().stream(false).one_shot(false).build();
    let mut stats = client.stats(&container.id, Some(options));
    let first = async { stats.next().await.transpose() };
    let (stats, described) = tokio::join!(
        engine.call(&what, limit, first),
        tokio::time::timeout(limit, containers::inspect(engine, &container.id)),
    );
    let described = described.unwrap_or_else(|_| Err(engine.silent(&what, limit)))?;
    Ok(load(&stats?.unwrap_or_default(), &described.unwrap_or_default()))
}

/// Returns the bytes of memory that a container's processes use, or `None` if it does not run.
pub(crate) async fn memory_of(engine: &Engine, container: &str) -> Result<Option<u64>, SandboxError> {
    let client = engine.client()?;
    let what = format!("measure {container}");
    let described = containers::inspect(engine, container).await?;
    if described.and_then(|found| found.state?.running) != Some(true) {
        return Ok(None);
    }
    let options = StatsOptionsBuilder::default().stream(false).one_shot(true).build();
    let mut stats = client.stats(container, Some(options));
    let first = async { stats.next().await.transpose() };
    let stats = engine.call(&what, engine::QUICK, first).await?;
    // The engine answers with nothing if the container has ended meanwhile.
    Ok(Some(stats.and_then(|stats| memory(&stats)).unwrap_or_default()))
}

/// Returns the use that the engine has measured, with the limits of the container.
fn load(stats: &ContainerStatsResponse, described: &ContainerInspectResponse) -> ContainerLoad {
    let limits = described.host_config.as_ref();
    let positive = |number: Option<i64>| number.and_then(|n| u64::try_from(n).ok()).filter(|n| *n > 0);
    ContainerLoad {
        memory_bytes: memory(stats),
        memory_limit_bytes: positive(limits.and_then(|limits| limits.memory)),
        cpu_millis: cpu_millis(stats),
        // The engine counts in billionths.
        cpu_limit_millis: positive(limits.and_then(|limits| limits.nano_cpus)).map(|nanos| nanos / 1_000_000),
        ..ContainerLoad::default()
    }
}

fn memory(stats: &ContainerStatsResponse) -> Option<u64> {
    let memory = stats.memory_stats.as_ref()?;
    let parts = memory.stats.as_ref();
    // The names of the second and the first version of cgroups.
    let cached = ["inactive_file", "total_inactive_file"].iter().find_map(|name| parts?.get(*name));
    Some(memory.usage?.saturating_sub(cached.copied().unwrap_or_default()))
}

fn cpu_millis(stats: &ContainerStatsResponse) -> Option<u64> {
    let (now, before) = (stats.cpu_stats.as_ref()?, stats.precpu_stats.as_ref()?);
    let own = |cpu: &bollard::models::ContainerCpuStats| cpu.cpu_usage.as_ref()?.total_usage;
    let used = own(now)?.saturating_sub(own(before)?);
    let passed = now.system_cpu_usage?.checked_sub(before.system_cpu_usage?).filter(|passed| *passed > 0)?;
    let cores = u64::from(now.online_cpus.filter(|cores| *cores > 0)?);
    let millis = u128::from(used) * u128::from(cores) * 1000 / u128::from(passed);
    u64::try_from(millis).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stats(value: serde_json::Value) -> ContainerStatsResponse {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_use_is_what_was_measured_between_two_looks() {
        let measured = stats(json!({
            "memory_stats": {"usage": 120 << 20, "stats": {"inactive_file": 20 << 20}},
            "cpu_stats": {"cpu_usage": {"total_usage": 3_000_000_000_u64}, "system_cpu_usage": 90_000_000_000_u64,
                "online_cpus": 4},
            "precpu_stats": {"cpu_usage": {"total_usage": 2_500_000_000_u64}, "system_cpu_usage": 86_000_000_000_u64},
        }));
        let described: ContainerInspectResponse = serde_json::from_value(
            json!({"HostConfig": {"Memory": 2_147_483_648_i64, "NanoCpus": 1_500_000_000}}),
        )
        .unwrap();
        let found = load(&measured, &described);
        assert_eq!(found.memory_bytes, Some(100 << 20));
        assert_eq!(found.memory_limit_bytes, Some(2 << 30));
        // Half a second of processors in the four seconds that four processors had.
        assert_eq!(found.cpu_millis, Some(500));
        assert_eq!(found.cpu_limit_millis, Some(1500));
    }

    #[test]
    fn what_was_not_measured_is_unknown() {
        let found = load(&stats(json!({})), &ContainerInspectResponse::default());
        assert_eq!(found, ContainerLoad::default());
        let once = stats(json!({
            "cpu_stats": {"cpu_usage": {"total_usage": 1}, "system_cpu_usage": 5, "online_cpus": 2},
            "precpu_stats": {"cpu_usage": {"total_usage": 0}},
        }));
        assert_eq!(load(&once, &ContainerInspectResponse::default()).cpu_millis, None);
    }

    #[tokio::test]
    async fn an_engine_that_hangs_delays_nothing_beyond_the_deadline() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("engine.sock");
        let _listener = tokio::net::UnixListener::bind(&socket).unwrap();
        let engine = Engine::at(format!("unix://{}", socket.display()));
        let container = |number: usize| Container {
            id: format!("id{number}"),
            name: format!("flock-sbx-a{number}"),
            agent: (number != 3).then(|| format!("a{number}")),
            build: None,
            check: None,
            state: if number == 4 { "exited" } else { "running" }.to_owned(),
            status: String::new(),
            created_at: 0,
            spec: String::new(),
            runtime: None,
        };
        // Without the deadline for all, the rounds of those that are asked at once would add up.
        let deadlines = LoadDeadlines { one: Duration::from_secs(600), all: Duration::from_millis(200) };
        let measured = measure(&engine, (0..60).map(container).collect(), deadlines).await;
        assert_eq!(measured.len(), 58, "only running ones of agents");
        assert!(
            measured.iter().all(|load| load.problem.as_ref().is_some_and(|why| why.contains("no answer")))
        );
        assert_eq!(measured[0].agent.as_deref(), Some("a0"));
        let deadlines = LoadDeadlines { one: Duration::from_millis(50), all: Duration::from_secs(600) };
        let measured = measure(&engine, vec![container(0)], deadlines).await;
        assert!(measured[0].problem.is_some());
    }
}
