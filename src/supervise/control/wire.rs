//! What goes over the control socket: a request and a reply are one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::supervise::health::Health;
use crate::supervise::state::Standing;
use crate::supervise::unit::{GATEWAY, OPENCLAW};

/// What a supervisor can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum Request {
    /// How things stand, at once.
    Status,
    /// Answered when everything is healthy, or can't become so without somebody doing something.
    WaitReady,
    /// Start what does not run, closing breakers; then like `wait-ready`.
    Start,
    /// Start everything anew, closing breakers; then like `wait-ready`.
    Restart,
    /// Start one process anew, or start it, closing its breaker; then like `wait-ready`.
    RestartUnit {
        /// Which.
        unit: UnitName,
    },
    /// Look now whether what is optional is wanted and up to date, instead of in a few seconds; answered at once.
    Look,
    /// Stop everything and end; answered when all of it has stopped.
    Stop,
}

/// A process that a supervisor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitName {
    /// The native gateway.
    Gateway,
    /// OpenClaw.
    Openclaw,
}

impl UnitName {
    /// The name as everywhere else.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => GATEWAY,
            Self::Openclaw => OPENCLAW,
        }
    }
}

/// The longest request that is read.
pub const MAX_REQUEST: u64 = 4 << 10;
/// The longest reply that is read.
pub const MAX_REPLY: u64 = 1 << 20;

/// A supervisor's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// How things stand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Why the request was not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
}

/// Why a supervisor does not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refusal {
    /// It is about to end.
    Stopping,
    /// The line was no request.
    NotUnderstood,
}

/// How things stand in a supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Its version.
    pub version: String,
    /// Its pid.
    pub pid: i32,
    /// When it began, in seconds since the epoch.
    pub started_at: i64,
    /// Whether somebody else keeps it running, as a service manager does.
    pub foreground: bool,
    /// What it runs, or should.
    pub units: Vec<UnitStatus>,
}

/// How one supervised process stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitStatus {
    /// Its name.
    pub name: String,
    /// Where it stands.
    pub state: Standing,
    /// Its pid, while it runs.
    pub pid: Option<i32>,
    /// The port it was started on.
    pub port: Option<u16>,
    /// Which build of it was started last, where there can be several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Since when it runs, in milliseconds since the epoch.
    pub spawned_at: Option<i64>,
    /// How often it was started again after a crash.
    pub restarts: u32,
    /// Crashes that still count towards the breaker.
    pub crashes: usize,
    /// Why it does not run, or why it was started again last.
    pub reason: Option<String>,
    /// The code of the error kind it ended with, where starting again can't mend it, or not before something has passed.
    pub failure: Option<String>,
    /// When it is started again, in milliseconds since the epoch.
    pub retry_at: Option<i64>,
    /// When its breaker opened, in milliseconds since the epoch.
    pub breaker_opened_at: Option<i64>,
    /// What it last said of itself.
    pub health: Option<Health>,
    /// When it said so, in milliseconds since the epoch.
    pub checked_at: Option<i64>,
    /// What was wrong with the last check, if something was.
    pub check: Option<String>,
    /// Why it goes on as it was started although the home says other things now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

impl Status {
    /// The process with this name.
    #[must_use]
    pub fn unit(&self, name: &str) -> Option<&UnitStatus> {
        self.units.iter().find(|unit| unit.name == name)
    }

    /// Whether all of it is healthy.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.units.iter().all(|unit| unit.state == Standing::Healthy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_read_as_the_words_of_the_documentation() {
        let line = serde_json::to_string(&Request::WaitReady).unwrap();
        assert_eq!(line, r#"{"op":"wait-ready"}"#);
        let ahead: Request = serde_json::from_str(r#"{"op":"stop","later":true}"#).unwrap();
        assert_eq!(ahead, Request::Stop);
        let one = Request::RestartUnit { unit: UnitName::Openclaw };
        let line = serde_json::to_string(&one).unwrap();
        assert_eq!(line, r#"{"op":"restart-unit","unit":"openclaw"}"#);
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), one);
    }
}
