//! The runs that a delivered tree is compared with: the same checks on the base, both with tests that have to fail, and the delivered
//! tree without its new tests.

use tokio_util::sync::CancellationToken;

use super::{Prover, record};
use crate::clock;
use crate::receipt::canary::{Canary, CanaryRun};
use crate::receipt::document::Run;
use crate::receipt::{ReceiptError, canonical, check_files};
use crate::sandbox::check::CheckPlan;

/// Returns the results of the checks on the base: those of an earlier run, or those of a run now.
pub(super) async fn base_runs(
    prover: &Prover<'_>,
    key: String,
    plan: &CheckPlan,
    cancel: &CancellationToken,
) -> Result<Vec<Run>, ReceiptError> {
    if let Some(known) = prover.store.receipts().base_run(&key).await?
        && let Ok(runs) = serde_json::from_str(&known)
    {
        return Ok(runs);
    }
    let report = prover.runner.run(plan, cancel).await?;
    let runs: Vec<Run> = report.runs.iter().map(record).collect();
    // A run that ended by itself would end in the same way again. One that was cut off might not.
    if runs.iter().all(|run| run.end == "exited") {
        let text = serde_json::to_string(&runs).unwrap_or_default();
        prover.store.receipts().keep_base_run(key, text, clock::unix_ms()).await?;
    }
    Ok(runs)
}

/// Runs the checks with failing tests: on the base, unless it is known which commands notice them there, and those commands
/// on the delivered tree.
pub(super) async fn canaries(
    prover: &Prover<'_>,
    key: String,
    [mut base, mut delivered]: [CheckPlan; 2],
    (base_runs, canary): (&[Run], Canary),
    cancel: &CancellationToken,
) -> Result<Vec<CanaryRun>, ReceiptError> {
    let mut commands = commands_with_tests(base_runs);
    let mut found = Vec::new();
    for files in canary.groups() {
        if commands.is_empty() {
            break;
        }
        let paths: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
        // The name of an added test is another one each time, and says nothing about the result.
        let name = if canary.turned.first() == files.first() { paths.join("\n") } else { "added".to_owned() };
        let key = canonical::hash(format!("canary {key} {} {name}", commands.join("\n")).as_bytes());
        base.commands.clone_from(&commands);
        base.extra.clone_from(&files);
        let noticed = runs_that_fail(prover, key, &base, cancel).await?;
        if noticed.is_empty() {
            continue;
        }
        delivered.commands = noticed.iter().map(|run| run.command.clone()).collect();
        delivered.extra = files;
        commands.retain(|command| !delivered.commands.contains(command));
        let report = prover.runner.run(&delivered, cancel).await?;
        found.extend(noticed.iter().zip(&report.runs).map(|(on_base, report)| {
            let run = record(report);
            CanaryRun {
                failed: failed(&run),
                failed_on_base: failed(on_base),
                fails: !run.is_success(),
                command: run.command,
                paths: paths.clone(),
            }
        }));
    }
    Ok(found)
}

/// Returns the commands that run tests and succeed on the base. Another one would notice nothing, and one that fails anyway
/// neither.
fn commands_with_tests(base_runs: &[Run]) -> Vec<String> {
    let runs_tests =
        |run: &&Run| run.is_success() && (!run.counts.is_empty() || check_files::names_tests(&run.command));
    base_runs.iter().filter(runs_tests).map(|run| run.command.clone()).collect()
}

/// Runs the commands that run tests without the tests that only the delivered tree has.
pub(super) async fn old_tests(
    prover: &Prover<'_>,
    mut plan: CheckPlan,
    base_runs: &[Run],
    cancel: &CancellationToken,
) -> Result<Vec<Run>, ReceiptError> {
    plan.commands = commands_with_tests(base_runs);
    if plan.extra.is_empty() || plan.commands.is_empty() {
        return Ok(Vec::new());
    }
    let report = prover.runner.run(&plan, cancel).await?;
    Ok(report.runs.iter().map(record).collect())
}

/// Returns the number of tests of a run that failed.
fn failed(run: &Run) -> u64 {
    run.counts.iter().map(|counts| counts.failed).sum()
}

/// Returns the runs on the base that fail.
async fn runs_that_fail(
    prover: &Prover<'_>,
    key: String,
    plan: &CheckPlan,
    cancel: &CancellationToken,
) -> Result<Vec<Run>, ReceiptError> {
    let runs = base_runs(prover, key, plan, cancel).await?;
    Ok(runs.into_iter().filter(|run| !run.is_success()).collect())
}
