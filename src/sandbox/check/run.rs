//! Runs the checks of a tree in Docker.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use nix::unistd::Uid;
use tokio_util::sync::CancellationToken;

use super::container::{CheckCommand, CheckContainer, host_error};
use super::files::{self, TreePaths};
use super::leftovers::{self, WorkFolder};
use super::specification::{CheckHost, CheckSandbox};
use super::{
    CheckError, CheckPlan, CheckReport, CheckRunner, CommandReport, ExtraFile, SetupReport, SetupStep,
    TreeSource, setup,
};
use crate::home::Home;
use crate::home::beneath::Owner;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::docker::{ConfigSource, install_helper};
use crate::sandbox::egress::{self, ConnectionRecord, Dialer, EgressPolicy, EgressRule, Proxy, SystemDialer};
use crate::sandbox::engine::Engine;
use crate::sandbox::image::{self, Recipe};
use crate::sandbox::spec::{MountSpec, SandboxUser};
use crate::sandbox::{SandboxError, workspace};

/// The users of checks if flock runs as root. They are no agent's and not that of package builds.
const UID_RANGE: std::ops::Range<u32> = 31_000..32_000;

/// Runs checks in a Docker engine.
pub struct DockerChecks {
    pub(super) home: Home,
    config: ConfigSource,
    engine: Arc<Engine>,
    pub(super) dial: Arc<dyn Dialer>,
}

impl DockerChecks {
    /// Creates the value without calling the engine.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engine: Arc<Engine>) -> Self {
        Self { home, config, engine, dial: Arc::new(SystemDialer::default()) }
    }

    /// Replaces the way to the internet for setup steps, which is this machine's own network by default.
    #[must_use]
    pub fn with_dial(self, dial: Arc<dyn Dialer>) -> Self {
        Self { dial, ..self }
    }

    /// Removes the containers and folders of checks whose process is dead.
    ///
    /// # Errors
    ///
    /// Fails if the engine does not answer, or if a container can't be removed.
    pub async fn sweep(&self) -> Result<(), CheckError> {
        leftovers::sweep(&self.engine, &self.home).await
    }

    async fn all(&self, plan: &CheckPlan, cancel: &CancellationToken) -> Result<CheckReport, CheckError> {
        self.sweep().await?;
        let image = self.image(&plan.sandbox).await?;
        let setup = match &plan.setup {
            Some(step) => Some(Box::pin(self.setup(plan, step, &image, cancel)).await?),
            None => None,
        };
        let mut report =
            CheckReport { image: image.clone(), probed_at: crate::clock::unix_ms(), setup, runs: Vec::new() };
        let is_ready = report.setup.as_ref().is_none_or(|setup| setup.run.end.is_success());
        let end = Instant::now() + plan.limits.all;
        for text in &plan.commands {
            let left = end.saturating_duration_since(Instant::now());
            if !is_ready || left.is_zero() || cancel.is_cancelled() {
                report.runs.push(CommandReport::not_run(text));
                continue;
            }
            let command = CheckCommand {
                text,
                environment: plan.sandbox.environment(),
                limit: plan.limits.each.min(left),
                keep: plan.limits.output,
                proxy: None,
            };
            let work = self.work_folder().await?;
            let contents = Contents { setup: report.setup.as_ref(), only: None, extra: &plan.extra };
            self.fill(&work, plan, contents).await?;
            let (mut run, at) =
                Box::pin(self.one((&plan.sandbox, &[]), &image, &work, command, cancel)).await?;
            run.changed = changed(plan, &work).await?;
            report.probed_at = at;
            report.runs.push(run);
            drop_blocking(work).await;
        }
        Ok(report)
    }

    async fn setup(
        &self,
        plan: &CheckPlan,
        step: &SetupStep,
        image: &str,
        cancel: &CancellationToken,
    ) -> Result<SetupReport, CheckError> {
        let key = setup::key(step, plan.tree.files(), &plan.sandbox, image);
        let (home, known, wanted) = (self.home.clone(), step.clone(), key.clone());
        if let Some(found) = blocking(move || setup::find(&home, &known, &wanted)).await? {
            return Ok(found);
        }
        let proxy = self.proxy(step)?;
        let mut environment = plan.sandbox.environment();
        environment.extend(egress::environment().into_iter().map(|(name, value)| format!("{name}={value}")));
        let command = CheckCommand {
            text: &step.command,
            environment,
            limit: plan.limits.setup,
            keep: plan.limits.output,
            proxy: Some(proxy),
        };
        let work = self.work_folder().await?;
        let only = setup::inputs(step, plan.tree.files());
        self.fill(&work, plan, Contents { setup: None, only, extra: &[] }).await?;
        let (run, _) = Box::pin(self.one((&plan.sandbox, &[]), image, &work, command, cancel)).await?;
        let mut report = SetupReport { key, result: String::new(), cached: false, run };
        if report.run.end.is_success() {
            report.result = self.keep(&work, plan, &report).await?;
        }
        drop_blocking(work).await;
        Ok(report)
    }

    /// Packs the result of a setup step and keeps it. Returns its hash.
    async fn keep(
        &self,
        work: &WorkFolder,
        plan: &CheckPlan,
        report: &SetupReport,
    ) -> Result<String, CheckError> {
        let (home, tree) = (self.home.clone(), Arc::clone(&plan.tree));
        let (workspace, key, run) = (work.workspace(), report.key.clone(), report.run.clone());
        blocking(move || {
            let path = setup::archive(&home, &key);
            fs_err::create_dir_all(home.check_setups()).map_err(host_error(home.check_setups()))?;
            // Removed again unless it is renamed to its place. The name is that of a draft, so that the next start
            // removes one that a killed process left.
            let prefix = format!(".new-{}-", std::process::id());
            let made = tempfile::Builder::new().prefix(&prefix).tempfile_in(home.check_setups());
            let draft = made.map_err(host_error(home.check_setups()))?;
            files::pack(&workspace, &TreePaths::of(tree.files()), std::io::BufWriter::new(draft.as_file()))?;
            draft.persist(&path).map_err(|error| host_error(&path)(error.error))?;
            setup::keep(&home, &key, &run)
        })
        .await
    }

    fn proxy(&self, step: &SetupStep) -> Result<Arc<Proxy>, CheckError> {
        let rules = step.egress.iter().map(|rule| rule.parse()).collect::<Result<Vec<EgressRule>, _>>()?;
        // The proxy names its client only in the log.
        let agent: AgentId =
            "setup-step".parse().map_err(|_| CheckError::Lost { reason: "no id".to_owned() })?;
        Ok(Arc::new(Proxy {
            agent,
            policy: Arc::new(StepEgress(rules)),
            dial: Arc::clone(&self.dial),
            has_network: true,
            inside: None,
        }))
    }

    /// Returns the id of the image.
    pub(super) async fn image(&self, sandbox: &CheckSandbox) -> Result<String, CheckError> {
        let own = || image::reference(&self.home, &(self.config)(), Recipe::Sandbox);
        let reference = sandbox.image.clone().unwrap_or_else(own);
        let found = image::id(&self.engine, &reference).await?;
        Ok(found.ok_or(SandboxError::NoImage { image: reference })?)
    }

    pub(super) async fn work_folder(&self) -> Result<WorkFolder, CheckError> {
        let home = self.home.clone();
        blocking(move || WorkFolder::make(&home)).await
    }

    /// Writes the tree and the result of the setup step into the workspace.
    async fn fill(
        &self,
        work: &WorkFolder,
        plan: &CheckPlan,
        contents: Contents<'_>,
    ) -> Result<(), CheckError> {
        let (workspace, tree) = (work.workspace(), Arc::clone(&plan.tree));
        let user = user();
        let Contents { setup, only, extra } = contents;
        let extra = extra.to_vec();
        let archive = setup.map(|setup| setup::archive(&self.home, &setup.key));
        blocking(move || {
            let owner = owner(user);
            let tree: &dyn TreeSource = &*tree;
            files::write_tree(&workspace, tree, only.as_ref(), owner)?;
            if let Some(archive) = archive {
                let file = std::fs::File::open(&archive).map_err(host_error(&archive))?;
                files::unpack(&workspace, &TreePaths::of(tree.files()), file, owner)?;
            }
            files::write_extra(&workspace, &extra, owner)?;
            let home = workspace.join(super::HOME_FOLDER);
            // The delivered tree may have a file or a link of that name, which stays as it is.
            if fs_err::symlink_metadata(&home).is_err() {
                fs_err::create_dir(&home).map_err(host_error(&home))?;
            }
            workspace::own(&workspace, user).map_err(|(path, source)| CheckError::Host { path, source })
        })
        .await
    }

    /// Runs one command in a container of its own, with these mounts besides its workspace. Returns its report and the
    /// time of the probe.
    pub(super) async fn one(
        &self,
        (sandbox, mounts): (&CheckSandbox, &[MountSpec]),
        image: &str,
        work: &WorkFolder,
        command: CheckCommand<'_>,
        cancel: &CancellationToken,
    ) -> Result<(CommandReport, i64), CheckError> {
        let home = self.home.clone();
        let helper = blocking(move || Ok(install_helper(&home.helpers())?)).await?;
        let workspace = work.workspace();
        let workspace = fs_err::canonicalize(&workspace).map_err(host_error(&workspace))?;
        let owner = fs_err::metadata(&workspace).map_err(host_error(&workspace))?;
        let user = {
            use std::os::unix::fs::MetadataExt as _;
            SandboxUser { uid: owner.uid(), gid: owner.gid() }
        };
        let host =
            CheckHost { home: &self.home, id: &work.id, image: image.to_owned(), user, helper, workspace };
        let mut spec = sandbox.container(host);
        spec.mounts.extend_from_slice(mounts);
        spec.mounts.sort();
        let container = CheckContainer::start(&self.engine, &spec, command.proxy.clone()).await?;
        let at = container.probe.at;
        let run = container.run(command, cancel).await;
        container.remove().await?;
        Ok((run?, at))
    }
}

/// Returns the watched files that a command changed.
async fn changed(plan: &CheckPlan, work: &WorkFolder) -> Result<Vec<PathBuf>, CheckError> {
    if plan.watched.is_empty() {
        return Ok(Vec::new());
    }
    let (workspace, tree) = (work.workspace(), Arc::clone(&plan.tree));
    let (watched, extra) = (plan.watched.clone(), plan.extra.clone());
    blocking(move || files::changed(&workspace, &*tree, &watched, &extra)).await
}

/// The files that a workspace gets besides the tree.
struct Contents<'a> {
    setup: Option<&'a SetupReport>,
    /// The files of the tree to write. `None` writes all.
    only: Option<BTreeSet<PathBuf>>,
    extra: &'a [ExtraFile],
}

impl CheckRunner for DockerChecks {
    fn run<'a>(
        &'a self,
        plan: &'a CheckPlan,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<CheckReport, CheckError>> {
        Box::pin(self.all(plan, cancel))
    }
}

/// The hosts that a setup step may reach.
struct StepEgress(Vec<EgressRule>);

impl EgressPolicy for StepEgress {
    fn rules<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        Box::pin(async { self.0.clone() })
    }

    fn note(&self, _: &AgentId, connection: &ConnectionRecord) {
        let ConnectionRecord { host, port, fate, .. } = connection;
        tracing::info!(%host, port, fate = fate.as_str(), "a connection of a setup step");
    }
}

/// Returns the owner that files for a check's user get.
pub(super) fn owner(user: SandboxUser) -> Option<Owner> {
    Uid::effective().is_root().then_some((user.uid, user.gid))
}

/// Returns the user of the next check. If flock runs as root, checks that run at the same time have different ones.
pub(super) fn user() -> SandboxUser {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if !Uid::effective().is_root() {
        return workspace::process_user();
    }
    let count = UID_RANGE.end - UID_RANGE.start;
    let uid = UID_RANGE.start + NEXT.fetch_add(1, Ordering::Relaxed) % count;
    SandboxUser { uid, gid: uid }
}

/// Removes a work folder on a thread that may block, because it can hold many files.
pub(super) async fn drop_blocking(work: WorkFolder) {
    drop(tokio::task::spawn_blocking(move || drop(work)).await);
}

/// Runs blocking work on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CheckError> + Send + 'static,
) -> Result<T, CheckError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| CheckError::Lost { reason: error.to_string() })?
}
