//! Reports what the gateway knows about sessions and about the container engine behind the sandboxes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::error::ApiError;
use super::state::StatusSource;
use crate::agent::Engine;
use crate::clock::unix_ms;
use crate::config::Live;
use crate::error::{Explain as _, chain};
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::containers::Container;
use crate::sandbox::engines::PlacedEngine;
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::load::{self, LoadDeadlines};
use crate::sandbox::placed_sandbox::PlacedSandbox;
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::{SandboxError, containers, names};
use crate::tool::sessions::SessionInfo;

/// Most sessions that are listed.
const MAX_LISTED: u32 = 500;

/// Longest time to wait for the engine. After that a status is returned without it.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for which a measurement of the sandboxes is returned again.
const MEASURED_FOR: Duration = Duration::from_secs(2);

/// The records of a gateway that uses Docker for its sandboxes.
pub(crate) struct DockerStatusSource {
    /// Knows the sessions.
    pub engine: Arc<Engine>,
    /// Knows the containers.
    pub sandboxes: Arc<PlacedSandbox>,
    /// The configuration, which says which images are needed.
    pub live: Arc<Live>,
    /// The last measurement of the sandboxes, with its end.
    pub measured: tokio::sync::Mutex<Option<(Instant, Value)>>,
}

impl StatusSource for DockerStatusSource {
    fn sessions(&self, agent: Option<&AgentId>) -> BoxFuture<'_, Result<Vec<Value>, ApiError>> {
        let engine = self.engine.clone();
        let agent = agent.cloned();
        Box::pin(async move {
            let sessions = engine.sessions(agent.as_ref(), MAX_LISTED).await.map_err(ApiError::internal)?;
            Ok(sessions.iter().map(session).collect())
        })
    }

    fn status(&self) -> BoxFuture<'_, Value> {
        Box::pin(async move {
            // Both queries run at the same time, so a silent engine costs the limit only once.
            let pods = self.sandboxes.clusters().containers(ENGINE_TIMEOUT);
            let (mut listed, images, pods) = tokio::join!(self.containers(), self.images(), pods);
            let probes = self.sandboxes.probes();
            // The machine's own engine is the first one.
            let own = listed.remove(0).1;
            let others = listed.into_iter().filter_map(|(_, found)| found.ok()).flatten().chain(pods);
            match own {
                Ok(containers) => {
                    let store = names::store(self.live.home());
                    let state = containers.iter().find(|container| container.name == store);
                    json!({
                        "docker": {"reachable": true, "problem": null, "hint": null},
                        "containers": containers
                            .iter()
                            .cloned()
                            .chain(others)
                            .map(|found| container(&found, &probes))
                            .collect::<Vec<_>>(),
                        "images": images,
                        "store": {
                            "container": store,
                            "state": state.map_or("absent", |container| container.state.as_str()),
                            "volume": names::store_volume(self.live.home()),
                            "builds": crate::nix_store::confinement(),
                        },
                    })
                }
                Err(error) => json!({
                    "docker": {"reachable": false, "problem": chain(&error), "hint": error.hint()},
                    "containers": null,
                    "images": null,
                    "store": null,
                }),
            }
        })
    }

    fn usage(&self) -> BoxFuture<'_, Value> {
        Box::pin(async move {
            // The lock is held meanwhile, so that many who ask at once cause one measurement.
            let mut measured = self.measured.lock().await;
            if let Some((at, known)) = &*measured
                && at.elapsed() < MEASURED_FOR
            {
                return known.clone();
            }
            let now = self.measure().await;
            *measured = Some((Instant::now(), now.clone()));
            now
        })
    }

    fn probe<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<Value, ApiError>> {
        Box::pin(async move {
            let probed = self.sandboxes.probe(agent).await.map_err(ApiError::explained)?;
            Ok(json!({"id": agent, "probe": probe(&probed)}))
        })
    }
}

impl DockerStatusSource {
    async fn measure(&self) -> Value {
        let (mut sandboxes, mut problem) = (Vec::new(), None);
        let measured = self.containers().await.into_iter().map(|(found, listed)| async move {
            Ok::<_, SandboxError>(load::measure(&found.engine, listed?, LoadDeadlines::default()).await)
        });
        let pods = self.sandboxes.clusters().measure(LoadDeadlines::default().one);
        let (measured, pods) = tokio::join!(futures_util::future::join_all(measured), pods);
        for measured in measured.into_iter().chain(pods) {
            match measured {
                Ok(found) => sandboxes.extend(found),
                Err(error) => {
                    problem.get_or_insert(error);
                }
            }
        }
        let hint = problem.as_ref().and_then(|error: &SandboxError| error.hint());
        let problem = problem.as_ref().map(|error| chain(error));
        json!({"at": unix_ms(), "sandboxes": sandboxes, "problem": problem, "hint": hint})
    }

    /// Returns the containers of each engine, the machine's own first. All are asked at the same time, and none for longer
    /// than [`ENGINE_TIMEOUT`].
    async fn containers(&self) -> Vec<(PlacedEngine, Result<Vec<Container>, SandboxError>)> {
        let asked = self.sandboxes.docker().engines().all().into_iter().map(|found| async move {
            let listed = containers::list(&found.engine, self.live.home());
            let listed = match tokio::time::timeout(ENGINE_TIMEOUT, listed).await {
                Ok(listed) => listed,
                Err(_) => Err(found.engine.silent("list containers", ENGINE_TIMEOUT)),
            };
            (found, listed)
        });
        futures_util::future::join_all(asked).await
    }

    async fn images(&self) -> Vec<Value> {
        let config = self.live.current();
        let looks = Recipe::ALL.map(|recipe| {
            let reference = image::reference(self.live.home(), &config, recipe);
            async move {
                // An image that can't be checked is reported as unknown, not as missing.
                let id =
                    Box::pin(self.patient(image::id(self.sandboxes.docker().engine(), &reference))).await;
                json!({"image": reference, "present": id.ok().map(|id| id.is_some())})
            }
        });
        futures_util::future::join_all(looks).await
    }

    async fn patient<T>(
        &self,
        look: impl Future<Output = Result<T, SandboxError>>,
    ) -> Result<T, SandboxError> {
        match tokio::time::timeout(ENGINE_TIMEOUT, look).await {
            Ok(found) => found,
            Err(_) => Err(self.sandboxes.docker().engine().silent("list containers", ENGINE_TIMEOUT)),
        }
    }
}

fn container(container: &Container, probes: &[(AgentId, ProbeResult)]) -> Value {
    let probed = probes
        .iter()
        .find(|(agent, _)| Some(agent.as_str()) == container.agent.as_deref())
        .map(|(_, probed)| probe(probed));
    json!({
        "name": container.name,
        "agent": container.agent,
        "state": container.state,
        "status": container.status,
        "createdAt": container.created_at,
        "runtime": container.runtime,
        "probe": probed,
    })
}

fn probe(probed: &ProbeResult) -> Value {
    json!({
        "at": probed.at,
        // A clock that was set back gives no negative age.
        "ageMs": unix_ms().saturating_sub(probed.at).max(0),
        "confined": probed.is_confined(),
        "findings": probed.findings,
    })
}

/// Returns a session in the JSON form of the API.
#[must_use]
pub(crate) fn session(session: &SessionInfo) -> Value {
    json!({
        "key": session.key,
        "agent": session.key.agent(),
        "kind": session.key.kind().as_str(),
        "busy": session.busy,
        "turns": session.turns,
        "createdAt": session.created_at,
        "updatedAt": session.updated_at,
        "model": session.model,
        "usage": session.usage,
        "pendingCalls": session.pending,
    })
}
