//! The parts of the status about the container engines that several pages show.

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

/// An engine of several, with the agents that are placed on it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlacedEngine {
    pub name: String,
    pub address: String,
    pub runtime: Option<String>,
    pub labels: Vec<String>,
    /// Memory in bytes that the limits of its agents may add up to.
    pub memory: Option<u64>,
    /// These limits, added up.
    pub memory_used: u64,
    pub draining: bool,
    /// Minutes of silence after which its agents are placed on other engines.
    pub lost_after_minutes: Option<u64>,
    pub reachable: bool,
    pub problem: Option<String>,
    /// What helps.
    pub hint: Option<String>,
    pub agents: Vec<PlacedAgent>,
}

/// An agent on an engine.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlacedAgent {
    pub id: String,
    /// The engine that it moves to.
    pub moves_to: Option<String>,
    /// The reason why it has not moved yet.
    pub waits: Option<String>,
}

impl PlacedEngine {
    /// Returns `true` for the machine's own engine, which the status also describes by itself.
    pub(super) fn is_local(&self) -> bool {
        self.name == "local"
    }
}

impl PlacedAgent {
    /// Returns the agent with what becomes of it, as in `coder → local: a turn runs`.
    pub(super) fn text(&self) -> String {
        let to = self.moves_to.as_ref().map(|to| format!(" → {to}")).unwrap_or_default();
        let waits = self.waits.as_ref().map(|waits| format!(": {waits}")).unwrap_or_default();
        format!("{}{to}{waits}", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_that_has_to_move_is_shown_with_its_way_and_its_reason() {
        let text = |moves_to: Option<&str>, waits: Option<&str>| {
            let (moves_to, waits) = (moves_to.map(str::to_owned), waits.map(str::to_owned));
            PlacedAgent { id: "coder".to_owned(), moves_to, waits }.text()
        };
        assert_eq!(text(None, None), "coder");
        assert_eq!(text(Some("local"), None), "coder → local");
        assert_eq!(text(Some("local"), Some("a turn runs")), "coder → local: a turn runs");
        assert_eq!(text(None, Some("no engine fits")), "coder: no engine fits");
    }
}
