//! What a probe inside a sandbox found, and when: what `status` shows, and what is refused.

use std::time::Duration;

use crate::clock;
use crate::id::AgentId;
use crate::sandbox::SandboxError;
use crate::sandbox::helper::{Expected, ProbeReport};

/// A probe's result with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// What it found open that must be closed. Empty: the sandbox is confined.
    pub findings: Vec<String>,
    /// How long it looked.
    pub took: Duration,
}

impl Probed {
    /// The result of a probe that has just ended.
    #[must_use]
    pub fn now(report: &ProbeReport, expected: &Expected<'_>) -> Self {
        Self {
            at: clock::unix_ms(),
            findings: report.findings(expected),
            took: report.took().unwrap_or_default(),
        }
    }

    /// Whether it found the sandbox confined.
    #[must_use]
    pub fn is_confined(&self) -> bool {
        self.findings.is_empty()
    }

    /// An error unless it is confined.
    ///
    /// # Errors
    ///
    /// [`SandboxError::NotConfined`] with the first finding, and how many more there are.
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
    fn a_probe_that_says_nothing_is_not_confined() {
        let probed = Probed::now(&ProbeReport::parse(b""), &Expected::default());
        assert!(!probed.is_confined());
        let error = probed.verdict(&"coder".parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains("more"), "{error}");
    }
}
