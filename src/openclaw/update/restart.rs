//! The OpenClaw that a supervisor runs, while its version changes.

use std::time::{Duration, Instant};

use crate::error::chain;
use crate::home::Home;
use crate::home::lock::Lock;
use crate::install::InstalledVersion;
use crate::supervise::control::{ControlConnection, ControlError, ControlRequest, UnitName, UnitStatus};
use crate::supervise::state::UnitState;
use crate::supervise::unit::OPENCLAW;

/// The reason for which a version is not known to be healthy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RestartError {
    /// The version is not healthy.
    #[error("{0}")]
    Fault(String),
    /// OpenClaw was stopped before its health was known.
    #[error("OpenClaw was stopped meanwhile")]
    Stopped,
    /// A supervisor runs but does not answer.
    #[error("{0}")]
    Unasked(String),
}

/// Returns OpenClaw's state in the supervisor, or `None` if no supervisor runs or it does not run OpenClaw.
///
/// # Errors
///
/// Returns [`RestartError::Unasked`] if a supervisor runs but can't be asked.
pub(crate) async fn look(home: &Home) -> Result<Option<UnitStatus>, RestartError> {
    match ask(home).await {
        Ok(found) => Ok(found),
        // A supervisor answers during its whole life, and its lock shows if there is one.
        Err(_) if matches!(Lock::is_held(&home.supervisor_lock()), Ok(false)) => Ok(None),
        Err(error) => Err(RestartError::Unasked(chain(&error))),
    }
}

async fn ask(home: &Home) -> Result<Option<UnitStatus>, ControlError> {
    let mut connection = ControlConnection::open(home).await?;
    let reply = connection.ask(ControlRequest::Status, STATUS_TIMEOUT).await?;
    Ok(reply.status.and_then(|status| status.unit(OPENCLAW).cloned()))
}

/// The time limits of a restart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestartLimits {
    /// Time until the old version has ended and the new one is started.
    pub turn: Duration,
    /// Time from then to its first answer.
    pub start: Duration,
}

/// Lets the supervisor restart OpenClaw and waits until this version is healthy.
///
/// # Errors
///
/// Returns the reason for which it is not known to be healthy.
pub(crate) async fn restart(
    home: &Home,
    version: &InstalledVersion,
    before: &UnitStatus,
    patience: RestartLimits,
) -> Result<(), RestartError> {
    let name = version.name();
    let mut end = Instant::now() + patience.turn;
    let mut watch = Watch { before, name: &name, taken: false, crashes: None };
    let mut connection =
        ControlConnection::open(home).await.map_err(|error| RestartError::Unasked(chain(&error)))?;
    let limit = patience.turn + patience.start;
    let request = connection.ask(ControlRequest::RestartUnit { unit: UnitName::Openclaw }, limit);
    tokio::pin!(request);
    let mut answered = false;
    loop {
        tokio::select! {
            // The answer comes when everything that the supervisor runs is ready. Here only OpenClaw counts, so the
            // state is polled too.
            _ = &mut request, if !answered => {
                answered = true;
                watch.taken = true;
            }
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        let looked = look(home).await;
        let was_started = watch.crashes.is_some();
        if let Ok(now) = &looked
            && let Some(proved) = watch.judge(now.as_ref())
        {
            return proved;
        }
        // The second time limit begins when the new version is seen to start.
        if !was_started && watch.crashes.is_some() {
            end = Instant::now() + patience.start;
        }
        if Instant::now() >= end {
            // A supervisor that ends, or is busy, may not answer for a while. Only its last silence is an error.
            let now = looked?;
            let limit = if was_started { patience.start } else { patience.turn };
            let said = now.and_then(|unit| unit.check.or(unit.reason)).map(|said| format!(": {said}"));
            let said = said.unwrap_or_default();
            return Err(RestartError::Fault(format!(
                "it was not ready within {} seconds{said}",
                limit.as_secs()
            )));
        }
    }
}

/// The observations since the restart was requested.
struct Watch<'a> {
    before: &'a UnitStatus,
    name: &'a str,
    /// `true` if the supervisor has begun with the restart. Until then it reports the old process.
    taken: bool,
    /// Number of crashes when the version was first seen to run.
    crashes: Option<usize>,
}

impl Watch<'_> {
    /// Returns the result, if it is known: healthy, or the reason for which it never will be.
    ///
    /// One crash is enough. A version that crashes where it was tried a minute ago should not stay in use.
    fn judge(&mut self, now: Option<&UnitStatus>) -> Option<Result<(), RestartError>> {
        // OpenClaw was there before, so somebody has stopped it, alone or together with the supervisor.
        let Some(now) = now else { return Some(Err(RestartError::Stopped)) };
        self.taken |=
            now.state != self.before.state || now.pid != self.before.pid || now.build != self.before.build;
        // The build tells the new process from the old one, which may still be reported as healthy.
        let is_it = now.build.as_deref() == Some(self.name);
        if is_it && now.state == UnitState::Healthy && self.taken {
            return Some(Ok(()));
        }
        let reason = || {
            now.reason.clone().or_else(|| now.check.clone()).unwrap_or_else(|| "it gave no reason".to_owned())
        };
        // The count of crashes continues over versions, so only an increase means anything.
        let crashed = is_it && self.taken && now.crashes > *self.crashes.get_or_insert(now.crashes);
        let over = matches!(now.state, UnitState::Failed | UnitState::BreakerOpen | UnitState::BackingOff);
        if self.taken && (crashed || over) {
            return Some(Err(RestartError::Fault(reason())));
        }
        (self.taken && now.state == UnitState::Stopped).then_some(Err(RestartError::Stopped))
    }
}

/// Time limit for one look.
const STATUS_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(state: UnitState, build: Option<&str>, crashes: usize) -> UnitStatus {
        serde_json::from_value(serde_json::json!({
            "name": OPENCLAW, "state": state, "pid": 7, "port": 3790, "build": build, "restarts": 0, "crashes": crashes,
            "reason": (crashes > 0).then_some("it ended with exit code 3"),
        }))
        .unwrap()
    }

    #[test]
    fn one_crash_of_the_new_version_is_a_failure() {
        let before = unit(UnitState::Healthy, Some("old"), 0);
        let mut watch = Watch { before: &before, name: "new", taken: false, crashes: None };
        assert_eq!(watch.judge(Some(&before)), None, "the old one still runs");
        assert_eq!(watch.judge(Some(&unit(UnitState::Stopping, Some("old"), 0))), None);
        assert_eq!(watch.judge(Some(&unit(UnitState::Starting, None, 0))), None);
        assert_eq!(watch.judge(Some(&unit(UnitState::Starting, Some("new"), 0))), None);
        assert_eq!(watch.judge(Some(&unit(UnitState::Healthy, Some("new"), 0))), Some(Ok(())));
        let said = Some(Err(RestartError::Fault("it ended with exit code 3".to_owned())));
        assert_eq!(watch.judge(Some(&unit(UnitState::BackingOff, Some("new"), 1))), said);
        assert_eq!(watch.judge(Some(&unit(UnitState::Starting, Some("new"), 1))), said);
        assert_eq!(watch.judge(Some(&unit(UnitState::Failed, None, 1))), said, "before it was even started");
    }

    #[test]
    fn a_stop_during_the_restart_is_not_unhealthy() {
        let before = unit(UnitState::Healthy, Some("old"), 0);
        let watch = || Watch { before: &before, name: "new", taken: false, crashes: None };
        let stopped = Some(Err(RestartError::Stopped));
        assert_eq!(
            watch().judge(None),
            stopped,
            "with the supervisor, or because no agent is on it any more"
        );
        assert_eq!(watch().judge(Some(&unit(UnitState::Stopped, Some("new"), 0))), stopped);
        assert_eq!(watch().judge(Some(&unit(UnitState::Stopping, Some("new"), 0))), None);
    }

    #[tokio::test]
    async fn an_unreachable_supervisor_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().canonicalize().unwrap().join("home"), None);
        home.make_folders().unwrap();
        assert!(matches!(look(&home).await, Ok(None)));
        let held = Lock::try_acquire(&home.supervisor_lock()).unwrap();
        assert!(matches!(look(&home).await, Err(RestartError::Unasked(_))));
        drop(held);
        assert!(matches!(look(&home).await, Ok(None)));
    }

    #[test]
    fn an_earlier_failure_does_not_count_for_the_new_version() {
        let before = unit(UnitState::Failed, Some("old"), 5);
        let mut watch = Watch { before: &before, name: "new", taken: false, crashes: None };
        assert_eq!(watch.judge(Some(&before)), None);
        assert_eq!(watch.judge(Some(&unit(UnitState::Starting, Some("new"), 5))), None);
        assert_eq!(watch.judge(Some(&unit(UnitState::Healthy, Some("new"), 5))), Some(Ok(())));
        let same = unit(UnitState::Healthy, Some("new"), 0);
        let mut watch = Watch { before: &same, name: "new", taken: false, crashes: None };
        assert_eq!(watch.judge(Some(&same)), None, "it has not been started anew yet");
        watch.taken = true;
        assert_eq!(watch.judge(Some(&same)), Some(Ok(())));
    }
}
