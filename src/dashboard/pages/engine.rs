//! The parts of the status about the container engine that several pages show.

use serde::Deserialize;

/// The container engine.
#[derive(Deserialize)]
pub(super) struct Engine {
    pub reachable: bool,
    pub problem: Option<String>,
    /// The command that helps.
    pub hint: Option<String>,
}

/// The result of the last probe inside a sandbox.
#[derive(Deserialize)]
pub(super) struct Probe {
    /// Unix milliseconds.
    pub at: i64,
    pub confined: bool,
    pub findings: Vec<String>,
}
