//! The messages of the control socket. A request and a reply are one line of JSON each.

use serde::{Deserialize, Serialize};

use crate::supervise::health::Health;
use crate::supervise::state::UnitState;
use crate::supervise::unit::{GATEWAY, OPENCLAW};

/// A request to a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Returns the status at once.
    Status,
    /// Returns once everything is healthy, or can't become healthy without help.
    WaitReady,
    /// Starts what is not running and closes circuit breakers; then behaves like `wait-ready`.
    Start,
    /// Restarts everything and closes circuit breakers; then behaves like `wait-ready`.
    Restart,
    /// Starts or restarts one process and closes its circuit breaker; then behaves like `wait-ready`.
    RestartUnit {
        /// The process to restart.
        unit: UnitName,
    },
    /// Checks now which optional processes are wanted and up to date, instead of in a few seconds. Answered at once.
    Look,
    /// Stops everything and ends the supervisor. Answered when everything has stopped.
    Stop,
}

/// The name of a supervised process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitName {
    /// flock's own gateway.
    Gateway,
    /// The OpenClaw gateway.
    Openclaw,
}

impl UnitName {
    /// Returns the name as used in files, logs and output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gateway => GATEWAY,
            Self::Openclaw => OPENCLAW,
        }
    }
}

/// The longest request that is read, in bytes.
pub(crate) const MAX_REQUEST: u64 = 4 << 10;
/// The longest reply that is read, in bytes.
pub(crate) const MAX_REPLY: u64 = 1 << 20;

/// A supervisor's answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlReply {
    /// `None` if the request was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SupervisorStatus>,
    /// The reason for a refusal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<ControlRefusal>,
}

/// The reason for which a supervisor refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRefusal {
    /// The supervisor is about to end.
    Stopping,
    /// The line was not a valid request.
    NotUnderstood,
}

/// The status of a supervisor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SupervisorStatus {
    /// The version of the supervisor's program.
    pub version: String,
    pub pid: i32,
    /// Unix seconds.
    pub started_at: i64,
    /// Set if another program, such as a service manager, keeps the supervisor running.
    pub foreground: bool,
    /// The processes that it runs or should run.
    pub units: Vec<UnitStatus>,
}

/// The status of a supervised process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnitStatus {
    pub name: String,
    pub state: UnitState,
    /// `None` while it does not run.
    pub pid: Option<i32>,
    /// The port that it was started on.
    pub port: Option<u16>,
    /// The build that was started last, if the program can have several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Unix milliseconds of its start.
    pub spawned_at: Option<i64>,
    /// The number of restarts by the supervisor itself, as after crashes.
    pub restarts: u32,
    /// The crashes that currently count towards the circuit breaker.
    pub crashes: usize,
    /// The number of its ends because another process had taken over its work, which are no crashes.
    #[serde(default)]
    pub replacements: u32,
    /// The reason why it does not run, or why it was last restarted.
    pub reason: Option<String>,
    /// The code of the error kind that it ended with, if a restart can't fix that now.
    pub failure: Option<String>,
    /// Unix milliseconds of the next start.
    pub retry_at: Option<i64>,
    /// Unix milliseconds at which its circuit breaker opened.
    pub breaker_opened_at: Option<i64>,
    /// Its last answer to a health check.
    pub health: Option<Health>,
    /// Unix milliseconds of that answer.
    pub checked_at: Option<i64>,
    /// The problem that the last health check found, if any.
    pub check: Option<String>,
    /// The reason why it keeps running with an outdated configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
}

impl SupervisorStatus {
    /// Returns the process with this name.
    #[must_use]
    pub fn unit(&self, name: &str) -> Option<&UnitStatus> {
        self.units.iter().find(|unit| unit.name == name)
    }

    /// Returns `true` if all processes are healthy.
    #[must_use]
    pub(crate) fn is_healthy(&self) -> bool {
        self.units.iter().all(|unit| unit.state == UnitState::Healthy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_serialize_as_documented() {
        let line = serde_json::to_string(&ControlRequest::WaitReady).unwrap();
        assert_eq!(line, r#"{"op":"wait-ready"}"#);
        let ahead: ControlRequest = serde_json::from_str(r#"{"op":"stop","later":true}"#).unwrap();
        assert_eq!(ahead, ControlRequest::Stop);
        let one = ControlRequest::RestartUnit { unit: UnitName::Openclaw };
        let line = serde_json::to_string(&one).unwrap();
        assert_eq!(line, r#"{"op":"restart-unit","unit":"openclaw"}"#);
        assert_eq!(serde_json::from_str::<ControlRequest>(&line).unwrap(), one);
    }
}
