//! Runs `flock doctor` for people who ask in a browser.
//!
//! The checks belong to the command line, because most of them look at a home from outside, also when no gateway runs.
//! So the gateway starts its own program. The answer then is exactly that of the command, and a check that hangs or
//! crashes does not harm the gateway.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::sync::Mutex;

use crate::clock::unix_ms;
use crate::error::{Explain, Kind};
use crate::home::Home;
use crate::supervise::launch;

/// Longest time for all checks. One of them builds a package, which takes seconds.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The results of one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorReport {
    /// The end of the run in Unix milliseconds.
    pub at: i64,
    pub took_ms: i64,
    /// `false` if something is broken.
    pub ok: bool,
    pub checks: Vec<Finding>,
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Finding {
    /// The part that was checked, such as `engine`.
    pub name: String,
    /// `ok`, `warn` or `bad`.
    pub state: String,
    pub message: String,
    /// The command that repairs it, or advice.
    pub mend: Option<String>,
}

/// The output of `flock doctor --json`.
#[derive(Deserialize)]
struct Output {
    ok: bool,
    checks: Vec<Finding>,
}

/// The reasons why the checks have no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    #[error("failed to start `flock doctor`")]
    Start(#[source] std::io::Error),
    #[error("`flock doctor` did not end within {} seconds", TIMEOUT.as_secs())]
    TooSlow,
    #[error("`flock doctor` ended without results ({status})")]
    NoResults {
        status: std::process::ExitStatus,
        #[source]
        source: serde_json::Error,
    },
}

impl Explain for DoctorError {
    fn kind(&self) -> Kind {
        Kind::Failed
    }

    fn hint(&self) -> Option<String> {
        // In a terminal, the command shows where it stops.
        Some("flock doctor".to_owned())
    }
}

/// The runs of a gateway, one at a time. Everybody who asks before a run ends shares its results.
#[derive(Debug, Default)]
pub(crate) struct DoctorRuns {
    /// The end of the last run with results, and the results.
    last: Mutex<Option<(Instant, DoctorReport)>>,
}

impl DoctorRuns {
    /// Returns the results of a run that ends after this call. It is started unless one is under way.
    ///
    /// # Errors
    ///
    /// Returns an error if the program can't be started, does not end in time or prints no results.
    pub(crate) async fn report(&self, home: &Home) -> Result<DoctorReport, DoctorError> {
        self.report_of(run(home)).await
    }

    async fn report_of(
        &self,
        run: impl Future<Output = Result<DoctorReport, DoctorError>>,
    ) -> Result<DoctorReport, DoctorError> {
        let asked = Instant::now();
        // The lock is held for the whole run, so that the others wait here for its results.
        let mut last = self.last.lock().await;
        if let Some((ended, report)) = &*last
            && *ended >= asked
        {
            return Ok(report.clone());
        }
        let report = run.await?;
        *last = Some((Instant::now(), report.clone()));
        Ok(report)
    }
}

async fn run(home: &Home) -> Result<DoctorReport, DoctorError> {
    let began = Instant::now();
    let program = launch::program().map_err(DoctorError::Start)?;
    let mut command = Command::new(program);
    command.arg("--home").arg(home.root()).args(["doctor", "--json"]);
    // The environment is the gateway's own: it has the PATH and the keys that the gateway works with.
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(TIMEOUT, command.output()).await.map_err(|_| DoctorError::TooSlow)?;
    let output = ended.map_err(DoctorError::Start)?;
    // The exit code says only if something is broken, which the results say too.
    let found: Output = serde_json::from_slice(&output.stdout)
        .map_err(|source| DoctorError::NoResults { status: output.status, source })?;
    let took_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
    Ok(DoctorReport { at: unix_ms(), took_ms, ok: found.ok, checks: found.checks })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[tokio::test]
    async fn those_who_ask_during_a_run_share_its_results() {
        let (runs, began) = (DoctorRuns::default(), AtomicI64::new(0));
        let run = || async {
            let number = began.fetch_add(1, Ordering::Relaxed) + 1;
            // The others get to ask meanwhile.
            tokio::task::yield_now().await;
            Ok(DoctorReport { at: number, took_ms: 0, ok: true, checks: Vec::new() })
        };
        let all = tokio::join!(runs.report_of(run()), runs.report_of(run()), runs.report_of(run()));
        let numbers = [all.0, all.1, all.2].map(|report| report.unwrap().at);
        assert_eq!(numbers, [1, 1, 1]);
        assert_eq!(runs.report_of(run()).await.unwrap().at, 2, "a later one is a new run");
        let failed = runs.report_of(async { Err(DoctorError::TooSlow) }).await.unwrap_err();
        assert_eq!(failed.to_string(), "`flock doctor` did not end within 120 seconds");
        assert_eq!(runs.report_of(run()).await.unwrap().at, 3, "a failure is kept for nobody");
    }
}
