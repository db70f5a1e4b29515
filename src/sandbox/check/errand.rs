//! An errand: one command of flock's own in a throw-away sandbox, with files that flock writes and results that it reads. The
//! sandbox has no network. What the command may ask for, flock answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::container::{CheckCommand, host_error};
use super::run::{blocking, drop_blocking, owner, user};
use super::{CheckError, CheckSandbox, CommandReport, DockerChecks, ExtraFile, files};
use crate::home::beneath::{BeneathError, Root};
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::egress::{ConnectionRecord, EgressPolicy, EgressRule, Proxy, SandboxApi};
use crate::sandbox::spec::MountSpec;
use crate::sandbox::workspace;

/// Bytes of output to keep.
const KEPT_OUTPUT: usize = 16 << 10;

/// One command and what it needs.
pub(crate) struct Errand {
    pub sandbox: CheckSandbox,
    /// The files of its workspace.
    pub files: Vec<ExtraFile>,
    /// Folders of this machine that it may read, each with its path in the sandbox.
    pub mounts: Vec<(PathBuf, String)>,
    /// Variables as `NAME=value`.
    pub environment: Vec<String>,
    /// The text that `sh -c` runs. It is flock's own.
    pub command: String,
    pub limit: Duration,
    /// Files of the workspace to read afterwards, and the most bytes of each.
    pub results: Vec<(PathBuf, u64)>,
    /// The part of flock that answers the command's requests.
    pub inside: Arc<dyn SandboxApi>,
}

/// The end of an errand.
pub(crate) struct ErrandReport {
    pub run: CommandReport,
    /// The results in the order in which they were asked for. `None` stands for one that is not there.
    pub results: Vec<Option<Vec<u8>>>,
}

impl DockerChecks {
    /// Runs an errand.
    ///
    /// # Errors
    ///
    /// Fails if the sandbox can't be made, is not confined or is lost. A command that fails is no error.
    pub(crate) async fn errand(
        &self,
        errand: &Errand,
        cancel: &CancellationToken,
    ) -> Result<ErrandReport, CheckError> {
        self.sweep().await?;
        let image = self.image(&errand.sandbox).await?;
        let work = self.work_folder().await?;
        let (folder, written) = (work.workspace(), errand.files.clone());
        blocking(move || {
            let user = user();
            files::write_extra(&folder, &written, owner(user))?;
            let home = folder.join(super::HOME_FOLDER);
            fs_err::create_dir(&home).map_err(host_error(&home))?;
            workspace::own(&folder, user).map_err(|(path, source)| CheckError::Host { path, source })
        })
        .await?;
        let mounts: Vec<MountSpec> = errand
            .mounts
            .iter()
            .map(|(source, target)| MountSpec::path(target.clone(), source, false))
            .collect();
        let mut environment = errand.sandbox.environment();
        environment.extend(errand.environment.iter().cloned());
        let command = CheckCommand {
            text: &errand.command,
            environment,
            limit: errand.limit,
            keep: KEPT_OUTPUT,
            proxy: Some(self.entrance(Arc::clone(&errand.inside))?),
        };
        let (run, _) = Box::pin(self.one((&errand.sandbox, &mounts), &image, &work, command, cancel)).await?;
        let (folder, wanted) = (work.workspace(), errand.results.clone());
        let results = blocking(move || {
            let failed = |path: &PathBuf, error: BeneathError| CheckError::Tree {
                path: path.clone(),
                source: std::io::Error::other(error),
            };
            let root = Root::open(&folder).map_err(|error| failed(&folder, error))?;
            let read = |(path, cap): &(PathBuf, u64)| match root.read(path, *cap) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(BeneathError::NotFound { .. }) => Ok(None),
                Err(error) => Err(failed(path, error)),
            };
            wanted.iter().map(read).collect::<Result<Vec<_>, _>>()
        })
        .await;
        drop_blocking(work).await;
        Ok(ErrandReport { run, results: results? })
    }

    /// Returns the way out of an errand's sandbox, which leads to a part of flock and nowhere else.
    fn entrance(&self, inside: Arc<dyn SandboxApi>) -> Result<Arc<Proxy>, CheckError> {
        // The name is only for the log.
        let agent: AgentId = "errand".parse().map_err(|_| CheckError::Lost { reason: "no id".to_owned() })?;
        let (policy, dial) = (Arc::new(Nowhere), Arc::clone(&self.dial));
        Ok(Arc::new(Proxy { agent, policy, dial, has_network: false, inside: Some(inside) }))
    }
}

/// The rules of a sandbox that reaches no host.
struct Nowhere;

impl EgressPolicy for Nowhere {
    fn rules<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Vec<EgressRule>> {
        Box::pin(async { Vec::new() })
    }

    fn note(&self, _: &AgentId, _: &ConnectionRecord) {}
}
