//! The sandboxes of a home, wherever they are: in Docker engines or in Kubernetes clusters. Callers need not know which.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::docker::{ConfigSource, DockerSandbox};
use super::engines::{AgentPlace, PlannedMove};
use super::kubernetes::KubernetesSandbox;
use super::probe::ProbeResult;
use super::workspace_files::RemoteFiles;
use super::{
    BackgroundJob, Command, CommandOutcome, FreezeCheck, JobReply, JobRequest, OutputChunk, ProgramCommand,
    Relocation, Sandbox, SandboxError,
};
use crate::id::AgentId;
use crate::provider::BoxFuture;

/// Passes each call to the kind of engine that the agent is on.
pub struct PlacedSandbox {
    docker: Arc<DockerSandbox>,
    clusters: Arc<KubernetesSandbox>,
    config: ConfigSource,
}

impl PlacedSandbox {
    #[must_use]
    pub fn new(docker: Arc<DockerSandbox>, clusters: Arc<KubernetesSandbox>, config: ConfigSource) -> Self {
        Self { docker, clusters, config }
    }

    /// Returns the sandboxes in Docker engines.
    #[must_use]
    pub const fn docker(&self) -> &Arc<DockerSandbox> {
        &self.docker
    }

    /// Returns the sandboxes in clusters.
    #[must_use]
    pub(crate) const fn clusters(&self) -> &Arc<KubernetesSandbox> {
        &self.clusters
    }

    /// Probes an agent's sandbox now, after creating it if necessary.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NotConfined`] if the probe finds something open, and fails if the sandbox can't be made ready.
    pub async fn probe(&self, agent: &AgentId) -> Result<ProbeResult, SandboxError> {
        match self.is_in_cluster(agent, true).await? {
            true => self.clusters.probe(agent).await,
            false => self.docker.probe(agent).await,
        }
    }

    /// Returns the result of the last probe of each agent's sandbox.
    #[must_use]
    pub fn probes(&self) -> Vec<(AgentId, ProbeResult)> {
        let mut all = self.docker.probes();
        all.extend(self.clusters.probes());
        all
    }

    /// Stops all sandboxes of the home. What is in workspaces stays.
    ///
    /// # Errors
    ///
    /// Returns the first failure. The other sandboxes are stopped all the same.
    pub async fn stop_all(&self) -> Result<(), SandboxError> {
        let (docker, clusters) = tokio::join!(self.docker.stop_all(), self.clusters.stop_all());
        docker.and(clusters)
    }

    /// Leaves the engines that were removed from the configuration, by whichever process.
    pub(crate) fn leave_removed(&self) {
        self.docker.leave_removed();
        self.clusters.leave_removed();
    }

    /// Removes the sandbox that an agent has left on an engine that did not answer, unless it is placed there again.
    ///
    /// # Errors
    ///
    /// Returns an error if the engine does not remove it, or if the database fails.
    pub(crate) async fn end_leftover(&self, agent: &AgentId, on: &AgentPlace) -> Result<(), SandboxError> {
        match on {
            AgentPlace::Engine(on) => self.docker.end_leftover(agent, on).await,
            AgentPlace::Cluster(on) => self.clusters.end_leftover(agent, on).await,
        }
    }

    /// Brings all sandboxes in line with `standing`, now and when they are created later. The wish counts from the call on,
    /// also before the future is polled.
    ///
    /// # Errors
    ///
    /// The future returns the first failure. The other sandboxes are frozen or thawed all the same.
    pub fn follow(&self, standing: FreezeCheck) -> impl Future<Output = Result<(), SandboxError>> + '_ {
        let docker = self.docker.follow(Arc::clone(&standing));
        let clusters = self.clusters.follow(standing);
        async move {
            let (docker, clusters) = tokio::join!(docker, clusters);
            docker.and(clusters)
        }
    }

    /// Returns `true` if the agent's sandbox is in a cluster. With `places`, an agent that is on no engine is placed.
    async fn is_in_cluster(&self, agent: &AgentId, places: bool) -> Result<bool, SandboxError> {
        let config = (self.config)();
        if config.engines.iter().all(|engine| engine.cluster.is_none()) {
            return Ok(false);
        }
        let engines = self.docker.engines();
        let place = match config.agent(agent).filter(|_| places) {
            Some(found) => engines.place_of(found).await?,
            None => engines.place_of_id(agent).await?,
        };
        Ok(matches!(place, AgentPlace::Cluster(_)))
    }

    async fn of(&self, agent: &AgentId, places: bool) -> Result<&dyn Sandbox, SandboxError> {
        match self.is_in_cluster(agent, places).await? {
            true => Ok(&*self.clusters),
            false => Ok(&*self.docker),
        }
    }
}

impl Sandbox for PlacedSandbox {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move { self.of(agent, true).await?.ensure(agent).await })
    }

    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        command: Command,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        Box::pin(async move { self.of(agent, true).await?.run(agent, command, cancel).await })
    }

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        command: Command,
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        Box::pin(async move { self.of(agent, true).await?.spawn(agent, command).await })
    }

    fn jobs<'a>(
        &'a self,
        agent: &'a AgentId,
        request: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>> {
        Box::pin(async move { self.of(agent, true).await?.jobs(agent, request).await })
    }

    fn attend<'a>(
        &'a self,
        agent: &'a AgentId,
        run: &'a ProgramCommand,
        heard: &'a mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> BoxFuture<'a, Result<i32, SandboxError>> {
        Box::pin(async move { self.of(agent, true).await?.attend(agent, run, heard).await })
    }

    fn remote_files<'a>(
        &'a self,
        agent: &'a AgentId,
        starts: bool,
    ) -> BoxFuture<'a, Result<Option<RemoteFiles>, SandboxError>> {
        Box::pin(async move { self.of(agent, starts).await?.remote_files(agent, starts).await })
    }

    fn remove<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move { self.of(agent, false).await?.remove(agent).await })
    }

    fn relocate<'a>(&'a self, planned: &'a PlannedMove) -> BoxFuture<'a, Result<Relocation, SandboxError>> {
        // The engine that it leaves knows how.
        match self.docker.engines().cluster(&planned.from) {
            Some(_) => self.clusters.relocate(planned),
            None => self.docker.relocate(planned),
        }
    }

    fn pause<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move { self.of(agent, false).await?.pause(agent).await })
    }

    fn resume<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async move { self.of(agent, false).await?.resume(agent).await })
    }
}
