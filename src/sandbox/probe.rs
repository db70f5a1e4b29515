//! The result of a probe inside a sandbox. `flock status` shows it, and a sandbox with findings is refused.

use std::time::Duration;

use crate::clock;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::sandbox::helper::{ProbeExpectations, ProbeReport};

/// The result of a probe and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeResult {
    /// Time of the probe in Unix milliseconds.
    pub at: i64,
    /// Ways out that the probe found open. Empty if the sandbox is confined.
    pub findings: Vec<String>,
    /// The duration of the probe.
    pub took: Duration,
}

impl ProbeResult {
    /// Builds the result of a probe that has just ended.
    #[must_use]
    pub fn now(report: &ProbeReport, expected: &ProbeExpectations<'_>) -> Self {
        Self {
            at: clock::unix_ms(),
            findings: report.findings(expected),
            took: report.took().unwrap_or_default(),
        }
    }

    /// Returns `true` if the probe found the sandbox confined.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns an error unless the sandbox is confined.
    ///
    /// # Errors
    ///
    /// Returns [`SandboxError::NotConfined`] with the first finding and the number of the others.
    pub fn verdict(&self, agent: &AgentId) -> Result<(), SandboxError> {
        let Some(first) = self.findings.first() else { return Ok(()) };
        let finding = match self.findings.len() - 1 {
            0 => first.clone(),
            more => format!("{first}, and {more} more"),
        };
        Err(SandboxError::NotConfined { agent: agent.clone(), finding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_probe_report_is_not_confined() {
        let probed = ProbeResult::now(&ProbeReport::parse(b""), &ProbeExpectations::default());
        assert!(!probed.is_confined());
        let error = probed.verdict(&"coder".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("more"), "{error}");
    }
}
