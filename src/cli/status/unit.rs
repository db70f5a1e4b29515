//! What the supervisor knows of what it runs, whichever that is; without a supervisor, what one remembered last.

use serde::Serialize;

use crate::home::Home;
use crate::supervise::control::UnitStatus;
use crate::supervise::figures::Figures;
use crate::supervise::state::Standing;
use crate::supervise::ward::{remembered, word};

/// The gateway or OpenClaw, as a supervised process.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Unit {
    /// As the supervisor sees it; `stopped` where none runs, or `breaker-open` where it was given up.
    pub state: String,
    /// Why it does not run, or why it was started again last.
    pub reason: Option<String>,
    pub pid: Option<i32>,
    pub port: Option<u16>,
    pub restarts: Option<u32>,
    /// Crashes that count towards the breaker.
    pub crashes: usize,
    /// Milliseconds since the epoch.
    pub retry_at: Option<i64>,
    /// Milliseconds since the epoch.
    pub breaker_opened_at: Option<i64>,
    #[serde(flatten)]
    pub figures: Option<Figures>,
}

impl Unit {
    /// The unit of this name, from what the supervisor says of it; `port` is where it would be, if nobody knows better.
    pub fn of(home: &Home, name: &str, said: Option<&UnitStatus>, port: Option<u16>) -> Self {
        if let Some(unit) = said {
            return Self {
                state: state_word(unit.state),
                reason: unit.reason.clone(),
                pid: unit.pid,
                port: unit.port.or(port),
                restarts: Some(unit.restarts),
                crashes: unit.crashes,
                retry_at: unit.retry_at,
                breaker_opened_at: unit.breaker_opened_at,
                figures: None,
            };
        }
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

/// The word for programs.
fn state_word(standing: Standing) -> String {
    let word = || word(standing).to_owned();
    serde_json::to_value(standing).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_else(word)
}
