//! Checks the trees of the merge train in throw-away sandboxes, and writes a receipt for each.

use std::fmt::Write as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::ProjectsError;
use super::train::{CheckVerdict, CheckWork, TreeChecks};
use crate::clean;
use crate::config::{Live, Project};
use crate::nix_store::PackageStore;
use crate::provider::BoxFuture;
use crate::receipt::document::Run;
use crate::receipt::{self, Acceptance, Checks, Delivery, Proof, Prover, ReceiptError, Setup};
use crate::sandbox::check::DockerChecks;
use crate::sandbox::engine::Engine;
use crate::store::{Store, StoredOutput};
use crate::swarm::SwarmError;

/// Longest part of one command's output in a log, in bytes, half from its start and half from its end.
const MAX_OUTPUT: usize = 8 * 1024;
/// The factor by which all commands of a project together may take longer than one of them.
const ALL_FACTOR: u64 = 4;

/// The checks of projects in sandboxes.
pub(crate) struct SandboxChecks {
    live: Arc<Live>,
    store: Arc<Store>,
    runner: DockerChecks,
    packages: PackageStore,
    stop: CancellationToken,
}

impl SandboxChecks {
    /// Creates the value without calling the engine. `stop` ends what is running.
    pub(crate) fn new(live: Arc<Live>, store: Arc<Store>, stop: CancellationToken) -> Self {
        let (home, newest) = (live.home().clone(), live.clone());
        let config: crate::sandbox::docker::ConfigSource = Arc::new(move || newest.current());
        let runner = DockerChecks::new(home.clone(), config.clone(), Arc::new(Engine::from_env()));
        let packages = PackageStore::new(home, config, Arc::new(Engine::from_env()));
        Self { live, store, runner, packages, stop }
    }

    async fn prove(&self, work: &CheckWork) -> Result<CheckVerdict, ProjectsError> {
        let checks = checks_of(&work.project);
        if checks.is_empty() {
            return Ok(CheckVerdict::Passed { receipt: None, reasons: Vec::new() });
        }
        let config = self.live.current();
        let author = &work.submission.agent;
        let agent = config.agent(author).ok_or_else(|| SwarmError::NoAgent(author.clone()))?;
        let home = self.live.home();
        let delivery = Delivery {
            project: work.project.name.as_str(),
            task: &work.submission.id.to_string(),
            branch: &work.submission.branch,
            agent,
            repository: &home.project_repository(&work.project.name),
            base: &work.base.to_string(),
            commit: &work.candidate.to_string(),
            checks: &checks,
        };
        let prover = Prover { home, store: &self.store, runner: &self.runner, packages: &self.packages };
        match Box::pin(receipt::prove(&delivery, &prover, &self.stop)).await {
            Ok(proof) => Ok(verdict(proof)),
            // The branch is what is wrong. To try it again would keep all others waiting.
            Err(error @ ReceiptError::Tree { .. }) => {
                Ok(CheckVerdict::Failed { receipt: None, log: error.to_string() })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl TreeChecks for SandboxChecks {
    fn check(&self, work: CheckWork) -> BoxFuture<'_, Result<CheckVerdict, ProjectsError>> {
        Box::pin(async move { self.prove(&work).await })
    }
}

/// Returns the checks that the owner asks of a project.
fn checks_of(project: &Project) -> Checks {
    let seconds = project.check_time.as_secs();
    Checks {
        commands: project.checks.clone(),
        required: project.files.clone(),
        each_seconds: seconds,
        all_seconds: seconds.saturating_mul(ALL_FACTOR).min(24 * 3600),
        setup: project.setup.as_ref().map(|command| Setup {
            command: command.clone(),
            egress: project.setup_egress.clone(),
            inputs: Vec::new(),
            seconds,
        }),
        ..Checks::default()
    }
}

fn verdict(proof: Proof) -> CheckVerdict {
    let receipt = Some(proof.id.clone());
    match proof.acceptance {
        Acceptance::Accepted => CheckVerdict::Passed { receipt, reasons: Vec::new() },
        Acceptance::NeedsPerson(reasons) => CheckVerdict::Passed { receipt, reasons },
        Acceptance::Refused(ref reasons) => {
            let log = log(reasons, &proof.receipt.runs, &proof.outputs);
            CheckVerdict::Failed { receipt, log }
        }
        // The receipt is for the tree that it was just made for.
        Acceptance::Stale => {
            CheckVerdict::Failed { receipt, log: "the receipt is for another tree".to_owned() }
        }
    }
}

/// Returns what the author reads: why, and the output of the first command that failed.
fn log(reasons: &[String], runs: &[Run], outputs: &[StoredOutput]) -> String {
    let mut text = reasons.join("\n");
    let failed = runs.iter().zip(outputs).find(|(run, _)| !run.is_success());
    if let Some((run, output)) = failed {
        // Writing to a `String` can't fail.
        let _ = write!(text, "\n$ {}\n{}", clean::inline(&run.command), output_text(output));
    }
    text
}

fn output_text(output: &StoredOutput) -> String {
    let shown = |bytes: &[u8]| clean::block(&String::from_utf8_lossy(bytes)).into_owned();
    let (head, tail) = (&output.head, &output.tail);
    let head_end = head.len().min(MAX_OUTPUT / 2);
    let tail_start = tail.len().saturating_sub(MAX_OUTPUT / 2);
    let kept = head_end + tail.len() - tail_start;
    let left_out = usize::try_from(output.total).unwrap_or(usize::MAX).saturating_sub(kept);
    let middle = if left_out > 0 { format!("\n… {left_out} bytes left out …\n") } else { String::new() };
    format!("{}{middle}{}", shown(&head[..head_end]), shown(&tail[tail_start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_output_keeps_its_start_and_its_end() {
        let output = StoredOutput { head: vec![b'a'; 9_000], tail: vec![b'z'; 9_000], total: 50_000 };
        let text = output_text(&output);
        assert!(text.starts_with("aaaa") && text.ends_with("zzzz"), "{text}");
        assert!(text.contains("… 41808 bytes left out …"), "{}", &text[4_000..4_100]);
        let short = StoredOutput { head: b"1 failed\x1b[2J".to_vec(), tail: Vec::new(), total: 12 };
        assert_eq!(output_text(&short), "1 failed\\u{1b}[2J");
    }

    #[test]
    fn the_checks_of_a_project_are_those_of_its_configuration() {
        let project = Project {
            checks: vec!["true".into()],
            files: vec!["README.md".into()],
            setup: Some("pip install x".into()),
            setup_egress: vec!["pypi.org".into()],
            ..Project::new("lib".parse().unwrap(), "/srv/lib".into(), "main".into())
        };
        let checks = checks_of(&project);
        checks.validate().unwrap();
        assert_eq!((checks.each_seconds, checks.all_seconds), (600, 2400));
        assert_eq!(checks.setup.unwrap().egress, ["pypi.org"]);
        assert_eq!((checks.commands, checks.required), (project.checks, project.files));
    }
}
