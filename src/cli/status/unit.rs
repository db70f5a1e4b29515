//! The state of a supervised process as the supervisor knows it. Without a supervisor it is what the last one wrote
//! down.

use serde::Serialize;
use serde_json::json;

use crate::home::Home;
use crate::supervise::control::UnitStatus;
use crate::supervise::resource_usage::ResourceUsage;
use crate::supervise::state::UnitState;
use crate::supervise::supervised_process::{remembered, word};

/// The gateway or OpenClaw as a supervised process.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UnitReport {
    /// The supervisor's word. Without a supervisor it is `stopped`, or `breaker-open` if the last one gave up
    /// restarting.
    pub state: String,
    /// The reason for which it does not run, or for its last restart.
    pub reason: Option<String>,
    pub pid: Option<i32>,
    pub port: Option<u16>,
    pub restarts: Option<u32>,
    /// Number of crashes that count towards the circuit breaker.
    pub crashes: usize,
    /// Number of its ends because another gateway had taken over, which are no crashes.
    pub replacements: Option<u32>,
    /// Unix milliseconds.
    pub retry_at: Option<i64>,
    /// Unix milliseconds.
    pub breaker_opened_at: Option<i64>,
    #[serde(flatten)]
    pub figures: Option<ResourceUsage>,
}

impl UnitReport {
    /// Returns the unit of this name from the supervisor's report. `port` is used if the supervisor names none.
    pub(crate) fn of(home: &Home, name: &str, said: Option<&UnitStatus>, port: Option<u16>) -> Self {
        // The supervisor knows the present state, which is better than anything on disk.
        if let Some(unit) = said {
            return Self {
                state: state_word(unit.state),
                reason: unit.reason.clone(),
                pid: unit.pid,
                port: unit.port.or(port),
                restarts: Some(unit.restarts),
                crashes: unit.crashes,
                replacements: Some(unit.replacements),
                retry_at: unit.retry_at,
                breaker_opened_at: unit.breaker_opened_at,
                figures: None,
            };
        }
        // The crashes are stored in a file, so that the breaker stays open over restarts of the supervisor.
        let memory = remembered(home, name);
        Self {
            state: if memory.is_open() { "breaker-open" } else { "stopped" }.to_owned(),
            crashes: memory.crashes.len(),
            breaker_opened_at: memory.opened_at,
            reason: memory.reason,
            port,
            ..Self::default()
        }
    }
}

/// Returns the state's word for programs.
fn state_word(standing: UnitState) -> String {
    // serde's name of the state is used, so that this word and the JSON of the control socket are the same.
    json!(standing).as_str().unwrap_or_else(|| word(standing)).to_owned()
}
