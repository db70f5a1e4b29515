//! What a probe inside a sandbox found, and whether that is confined.

use crate::clock;
use crate::id::AgentId;
use crate::sandbox::SandboxError;

/// A probe's result with its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// What it found open that must be closed. Empty: the sandbox is confined.
    pub findings: Vec<String>,
}

impl Probed {
    /// The result of a probe that has just ended.
    #[must_use]
    pub fn now(findings: Vec<String>) -> Self {
        Self { at: clock::unix_ms(), findings }
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
    /// [`SandboxError::NotConfined`] with the first finding.
    pub fn verdict(&self, agent: &AgentId) -> Result<(), SandboxError> {
        match self.findings.first() {
            None => Ok(()),
            Some(finding) => {
                Err(SandboxError::NotConfined { agent: agent.clone(), finding: finding.clone() })
            }
        }
    }
}

/// Judges what [`SCRIPT`] printed: `name value` lines. What is missing counts as open.
#[must_use]
pub fn findings(report: &str) -> Vec<String> {
    let value = |name: &str| {
        report
            .lines()
            .find_map(|line| line.split_once(' ').filter(|(key, _)| *key == name))
            .map(|(_, value)| value)
    };
    EXPECTED
        .iter()
        .filter_map(|(name, expected, finding)| match value(name) {
            Some(found) if found == *expected => None,
            found => Some(format!("{finding} ({name}: {})", found.unwrap_or("no answer"))),
        })
        .collect()
}

/// What is looked at, what it must be, and what it means if it is not.
const EXPECTED: [(&str, &str, &str); 8] = [
    ("capabilities", "0000000000000000", "it has capabilities"),
    ("no-new-privileges", "1", "programs in it can gain privileges"),
    ("root", "closed", "its root can be written"),
    ("store", "closed", "the store can be written"),
    ("interfaces", "lo", "it has a network"),
    ("docker", "closed", "the Docker engine's socket is in it"),
    ("pid-1", "closed", "the helper's descriptors can be read"),
    ("workspace", "open", "its workspace can't be written"),
];

/// The probe, for a shell inside.
pub const SCRIPT: &str = r#"
say() { printf '%s %s\n' "$1" "$2"; }
try() { if eval "$2" 2>/dev/null; then say "$1" open; else say "$1" closed; fi; }
while read -r key value rest; do
  case $key in CapEff:) say capabilities "$value";; NoNewPrivs:) say no-new-privileges "$value";; esac
done < /proc/self/status
try root '( echo > /.flock-probe )'
try store '( echo > /nix/.flock-probe )'
try docker '[ -e /var/run/docker.sock ] || [ -e /run/docker.sock ]'
try pid-1 'ls /proc/1/fd > /dev/null'
try workspace '( echo > /workspace/.flock-probe ) && rm -f /workspace/.flock-probe'
names=
for name in /sys/class/net/*; do names="$names ${name##*/}"; done
say interfaces "${names# }"
"#;
