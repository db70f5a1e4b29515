//! The OpenClaw that a supervisor runs, while its version changes.

use std::time::{Duration, Instant};

use super::super::Failure;
use crate::home::Home;
use crate::install::Version;
use crate::supervise::control::{Connection, Request, UnitName, UnitStatus};
use crate::supervise::state::Standing;
use crate::supervise::unit::OPENCLAW;

/// How OpenClaw stands in the supervisor; `None` where no supervisor runs, or it runs none.
pub async fn look(home: &Home) -> Option<UnitStatus> {
    let mut connection = Connection::open(home).await.ok()?;
    let reply = connection.ask(Request::Status, QUICK).await.ok()?;
    reply.status?.unit(OPENCLAW).cloned()
}

/// How long a restart may take.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Until the version before has ended and this one is started.
    pub turn: Duration,
    /// From then to its first answer.
    pub start: Duration,
}

/// Has the supervisor start OpenClaw anew and waits until this version is healthy.
///
/// # Errors
///
/// Why it is not.
pub async fn restart(
    home: &Home,
    version: &Version,
    before: &UnitStatus,
    patience: Patience,
) -> Result<(), String> {
    let name = version.name();
    let mut end = Instant::now() + patience.turn;
    let mut watch = Watch { before, name: &name, taken: false, crashes: None };
    let mut connection = Connection::open(home).await.map_err(|error| Failure::from(error).text())?;
    let limit = patience.turn + patience.start;
    let request = connection.ask(Request::RestartUnit { unit: UnitName::Openclaw }, limit);
    tokio::pin!(request);
    let mut answered = false;
    loop {
        tokio::select! {
            // It waits for everything that the supervisor runs; here only OpenClaw counts.
            _ = &mut request, if !answered => {
                answered = true;
                watch.taken = true;
            }
            () = tokio::time::sleep(PAUSE) => {}
        }
        let now = look(home).await;
        let was_started = watch.crashes.is_some();
        if let Some(proved) = watch.judge(now.as_ref()) {
            return proved;
        }
        if !was_started && watch.crashes.is_some() {
            end = Instant::now() + patience.start;
        }
        if Instant::now() >= end {
            let limit = if was_started { patience.start } else { patience.turn };
            let said = now.and_then(|unit| unit.check.or(unit.reason)).map(|said| format!(": {said}"));
            let said = said.unwrap_or_default();
            return Err(format!("it was not ready within {} seconds{said}", limit.as_secs()));
        }
    }
}

/// What has been seen since the restart was asked for.
struct Watch<'a> {
    before: &'a UnitStatus,
    name: &'a str,
    /// Whether the supervisor has begun with it: until then it tells of what was before.
    taken: bool,
    /// How often it had crashed when the version was seen to be started.
    crashes: Option<usize>,
}

impl Watch<'_> {
    /// What is known now: healthy, or why it never will be. One crash is enough: what crashes once where it was tried a
    /// minute ago is not what should go on.
    fn judge(&mut self, now: Option<&UnitStatus>) -> Option<Result<(), String>> {
        let Some(now) = now else {
            return self.taken.then(|| Err("the supervisor does not run it any more".to_owned()));
        };
        self.taken |=
            now.state != self.before.state || now.pid != self.before.pid || now.build != self.before.build;
        let is_it = now.build.as_deref() == Some(self.name);
        if is_it && now.state == Standing::Healthy && self.taken {
            return Some(Ok(()));
        }
        let reason = || {
            now.reason.clone().or_else(|| now.check.clone()).unwrap_or_else(|| "it gave no reason".to_owned())
        };
        let crashed = is_it && self.taken && now.crashes > *self.crashes.get_or_insert(now.crashes);
        let over = matches!(now.state, Standing::Failed | Standing::BreakerOpen | Standing::Stopped);
        (self.taken && (crashed || over || now.state == Standing::BackingOff)).then(|| Err(reason()))
    }
}

/// For one look.
const QUICK: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    fn unit(state: Standing, build: Option<&str>, crashes: usize) -> UnitStatus {
        serde_json::from_value(serde_json::json!({
            "name": OPENCLAW, "state": state, "pid": 7, "port": 3790, "build": build, "restarts": 0, "crashes": crashes,
            "reason": (crashes > 0).then_some("it ended with exit code 3"),
        }))
        .unwrap()
    }

    #[test]
    fn only_the_new_version_counts_and_one_crash_is_enough() {
        let before = unit(Standing::Healthy, Some("old"), 0);
        let mut watch = Watch { before: &before, name: "new", taken: false, crashes: None };
        assert_eq!(watch.judge(Some(&before)), None, "the old one still runs");
        assert_eq!(watch.judge(Some(&unit(Standing::Stopping, Some("old"), 0))), None);
        assert_eq!(watch.judge(Some(&unit(Standing::Starting, None, 0))), None);
        assert_eq!(watch.judge(Some(&unit(Standing::Starting, Some("new"), 0))), None);
        assert_eq!(watch.judge(Some(&unit(Standing::Healthy, Some("new"), 0))), Some(Ok(())));
        let said = Some(Err("it ended with exit code 3".to_owned()));
        assert_eq!(watch.judge(Some(&unit(Standing::BackingOff, Some("new"), 1))), said);
        assert_eq!(watch.judge(Some(&unit(Standing::Starting, Some("new"), 1))), said);
        assert_eq!(watch.judge(Some(&unit(Standing::Failed, None, 1))), said, "before it was even started");
        assert!(watch.judge(None).is_some_and(|judged| judged.is_err()));
    }

    #[test]
    fn what_had_failed_before_says_nothing_of_the_new_version() {
        let before = unit(Standing::Failed, Some("old"), 5);
        let mut watch = Watch { before: &before, name: "new", taken: false, crashes: None };
        assert_eq!(watch.judge(Some(&before)), None);
        assert_eq!(watch.judge(None), None);
        assert_eq!(watch.judge(Some(&unit(Standing::Starting, Some("new"), 5))), None);
        assert_eq!(watch.judge(Some(&unit(Standing::Healthy, Some("new"), 5))), Some(Ok(())));
        let same = unit(Standing::Healthy, Some("new"), 0);
        let mut watch = Watch { before: &same, name: "new", taken: false, crashes: None };
        assert_eq!(watch.judge(Some(&same)), None, "it has not been started anew yet");
        watch.taken = true;
        assert_eq!(watch.judge(Some(&same)), Some(Ok(())));
    }
}
