//! The container of one check: made, inspected, probed, used for one command and removed.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use super::{CheckEnd, CheckError, CommandReport};
use crate::id::hex;
use crate::sandbox::docker::attach;
use crate::sandbox::egress::{self, Proxy};
use crate::sandbox::engine::Engine;
use crate::sandbox::exec::{self, EngineExec};
use crate::sandbox::helper::{HelperClient, HelperError, ProbeExpectations};
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::spec::{ContainerSpec, WORKSPACE_TARGET};
use crate::sandbox::{Output, SandboxError, containers, inspect};

/// A running check container. Dropping it removes it.
pub(super) struct CheckContainer {
    engine: Arc<Engine>,
    name: String,
    helper: HelperClient,
    /// Taken when the container has been removed.
    removal: Option<containers::RemoveOnDrop>,
    pub probe: ProbeResult,
}

/// A command to run, and its bounds.
pub(super) struct CheckCommand<'a> {
    pub text: &'a str,
    /// Variables as `NAME=value`.
    pub environment: Vec<String>,
    pub limit: Duration,
    /// Bytes of output to keep.
    pub keep: usize,
    /// The way to public hosts, or `None` if the command has none.
    pub proxy: Option<Arc<Proxy>>,
}

impl CheckContainer {
    /// Creates and starts the container, compares the engine's description of it with the specification, and probes it
    /// from inside. Nothing of the tree runs before that.
    ///
    /// # Errors
    ///
    /// Returns [`CheckError::NotConfined`] if the description differs or the probe finds something open, and
    /// [`CheckError::Lost`] if the helper inside does not answer. After a failure the container is removed.
    pub async fn start(
        engine: &Arc<Engine>,
        spec: &ContainerSpec,
        proxy: Option<Arc<Proxy>>,
    ) -> Result<Self, CheckError> {
        let name = spec.name.clone();
        let removal = containers::RemoveOnDrop { engine: Arc::clone(engine), name: Some(name.clone()) };
        containers::create(engine, &name, spec.body()).await?;
        let client = engine.client()?;
        let (streams, started) = tokio::join!(attach(&client, &name), containers::start(engine, &name));
        started?;
        let (reader, writer) = streams.map_err(|error| engine.error("attach", error))?;
        let (helper, found) = tokio::join!(
            HelperClient::attach(reader, writer, proxy.map(egress::entrance)),
            containers::described(engine, &name)
        );
        let (helper, found) = (helper?, found?);
        let swap = found.host_config.as_ref().and_then(|host| host.memory_swap);
        let limits_swap = swap == Some(spec.memory) || engine.limits_swap().await?;
        let mut findings = inspect::findings(spec, &found, limits_swap);
        let report = helper.probe(&[]).await?;
        let kernel = engine.kernel().await?;
        let probe = ProbeResult::now(
            &report,
            &ProbeExpectations { kernel: Some(&kernel), ..ProbeExpectations::default() },
        );
        findings.extend(probe.findings.iter().cloned());
        if let Some(finding) = findings.into_iter().next() {
            return Err(CheckError::NotConfined { finding });
        }
        Ok(Self { engine: Arc::clone(engine), name, helper, removal: Some(removal), probe })
    }

    /// Runs one command and waits for its end.
    ///
    /// The engine starts it, so that its whole output arrives here and can be hashed. The helper knows it as a guest and
    /// ends every process that it left.
    ///
    /// # Errors
    ///
    /// Fails if the engine or the helper does not answer. A command that fails is no error.
    pub async fn run(
        &self,
        command: CheckCommand<'_>,
        cancel: &CancellationToken,
    ) -> Result<CommandReport, CheckError> {
        let mark = self.helper.admit().await?;
        // One stream for both, in the order in which the command wrote.
        let shell = ["sh".to_owned(), "-c".to_owned(), format!("exec 2>&1\n{}", command.text)];
        let run = EngineExec {
            container: self.name.clone(),
            command: HelperClient::guest(mark, &shell),
            workdir: Some(WORKSPACE_TARGET.to_owned()),
            env: command.environment,
            timeout: command.limit,
            keep: command.keep,
            ..EngineExec::default()
        };
        let hash = Mutex::new(Sha256::new());
        let watch = |bytes: &[u8]| hash.lock().unwrap_or_else(PoisonError::into_inner).update(bytes);
        let outcome = exec::run_with(&self.engine, &run, cancel, &watch).await?;
        match self.helper.end(mark).await {
            Ok(()) => {}
            // Whatever it left is gone with the container, which is removed next.
            Err(error @ HelperError::Lost(_)) => tracing::debug!(%error, "a check's sandbox has ended"),
            Err(error) => return Err(error.into()),
        }
        let digest = hex(&hash.into_inner().unwrap_or_else(PoisonError::into_inner).finalize());
        Ok(CommandReport {
            command: command.text.to_owned(),
            end: CheckEnd::from(outcome.end),
            took: outcome.took,
            digest,
            output: outcome.output,
            changed: Vec::new(),
        })
    }

    /// Removes the container with every process in it. The files of the workspace remain.
    pub async fn remove(mut self) -> Result<(), SandboxError> {
        if let Some(name) = self.removal.take().and_then(|mut removal| removal.name.take()) {
            containers::remove(&self.engine, &name).await?;
        }
        Ok(())
    }
}

impl CommandReport {
    /// Returns the report of a command that was not started.
    pub(super) fn not_run(command: &str) -> Self {
        Self {
            command: command.to_owned(),
            end: CheckEnd::NotRun,
            took: Duration::ZERO,
            digest: hex(&Sha256::digest(b"")),
            output: Output::default(),
            changed: Vec::new(),
        }
    }
}

/// Returns the error for a path of this machine.
pub(super) fn host_error(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> CheckError {
    let path = path.into();
    move |source| CheckError::Host { path, source }
}
