//! Names of branches, and the rule on which ones an agent may change.

use std::fmt;
use std::str::FromStr;

use crate::id::AgentId;

/// The prefix of all branches.
pub(crate) const BRANCHES: &str = "refs/heads/";
/// The prefix of all agents' branches.
pub(crate) const AGENT_BRANCHES: &str = "refs/heads/flock/";
/// The name of the task whose branch a new clone has checked out.
pub const FIRST_TASK: &str = "work";
/// Limit on the length of a task's name.
pub const MAX_TASK: usize = 64;

/// The full name of the reference that follows the owner's branch. It is not a branch, so nobody can push to it, and
/// its name can't collide with one.
pub(crate) const OWNER: &str = "refs/flock/owner";
/// The full name of the reference into which the owner's branch is fetched.
pub(crate) const FETCHED: &str = "refs/flock/fetched";

/// An agent's branch: `flock/<agent>/<task>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentBranch {
    pub agent: AgentId,
    task: String,
}

/// A text that is not the name of an agent's branch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an agent's branch is named flock/AGENT/TASK, with a task of letters, digits, '.', '-' and '_'")]
pub struct NotAgentBranch;

impl AgentBranch {
    /// Creates the name of an agent's branch for a task.
    ///
    /// # Errors
    ///
    /// Returns [`NotAgentBranch`] if the task's name can't be a part of a branch's name.
    pub fn new(agent: AgentId, task: &str) -> Result<Self, NotAgentBranch> {
        is_task(task).then(|| Self { agent, task: task.to_owned() }).ok_or(NotAgentBranch)
    }

    /// Returns the branch that is checked out in an agent's new clone.
    #[must_use]
    pub fn first(agent: AgentId) -> Self {
        Self { agent, task: FIRST_TASK.to_owned() }
    }

    /// Returns the name of the task.
    #[must_use]
    pub fn task(&self) -> &str {
        &self.task
    }

    /// Returns the full name of the reference, as in `refs/heads/flock/ann/work`.
    #[must_use]
    pub fn reference(&self) -> String {
        format!("{BRANCHES}{self}")
    }

    /// Reads the full name of a reference.
    #[must_use]
    pub fn from_reference(name: &str) -> Option<Self> {
        name.strip_prefix(BRANCHES)?.parse().ok()
    }
}

impl fmt::Display for AgentBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "flock/{}/{}", self.agent, self.task)
    }
}

impl FromStr for AgentBranch {
    type Err = NotAgentBranch;

    fn from_str(text: &str) -> Result<Self, NotAgentBranch> {
        let (agent, task) =
            text.strip_prefix("flock/").and_then(|rest| rest.split_once('/')).ok_or(NotAgentBranch)?;
        Self::new(agent.parse().map_err(|_| NotAgentBranch)?, task)
    }
}

/// Returns `true` if the text can be the task in a branch's name. There is no slash in it, so no branch's name is the
/// folder of another one's, and every name that passes is also valid for git.
#[must_use]
pub fn is_task(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    text.len() <= MAX_TASK
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(plain)
        && !text.contains("..")
        && !text.ends_with('.')
        && !text.ends_with(".lock")
}

/// The reason why a pushed change of a reference is refused. The agent reads it in its terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The reference is not a branch.
    #[error("only branches can be pushed; yours are named flock/{agent}/TASK")]
    NotABranch { agent: AgentId },
    /// The branch belongs to another agent.
    #[error("this is {owner}'s branch; yours are named flock/{agent}/TASK")]
    AnotherAgents { agent: AgentId, owner: String },
    /// The branch belongs to the project.
    #[error("only flock moves this branch; push to flock/{agent}/TASK and submit that")]
    Projects { agent: AgentId },
    /// The task's name is not usable.
    #[error(
        "the name after flock/{agent}/ must be 1 to 64 letters, digits, '.', '-' and '_', without a slash"
    )]
    Task { agent: AgentId },
}

/// Decides if a push of `agent` may create, update, force or delete the reference `name`. An agent may do all of these
/// with its own branches, and nothing with any other reference.
///
/// # Errors
///
/// Returns the reason for the refusal.
pub fn may_update(agent: &AgentId, name: &str) -> Result<AgentBranch, Refusal> {
    let agent = agent.clone();
    let Some(branch) = name.strip_prefix(BRANCHES) else { return Err(Refusal::NotABranch { agent }) };
    let Some(rest) = branch.strip_prefix("flock/") else { return Err(Refusal::Projects { agent }) };
    let Some((owner, task)) = rest.split_once('/') else { return Err(Refusal::Projects { agent }) };
    if owner == agent.as_str() {
        return AgentBranch::new(agent.clone(), task).map_err(|NotAgentBranch| Refusal::Task { agent });
    }
    Err(match owner.parse::<AgentId>() {
        Ok(owner) => Refusal::AnotherAgents { agent, owner: owner.to_string() },
        Err(_) => Refusal::Projects { agent },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_changes_only_its_own_branches() {
        let ann: AgentId = "ann".parse().unwrap();
        for good in ["work", "fix-12", "A.b_c", "1", &"x".repeat(64)] {
            let name = format!("refs/heads/flock/ann/{good}");
            let branch = may_update(&ann, &name).unwrap();
            assert_eq!((branch.task(), branch.reference()), (good, name.clone()));
            assert_eq!(AgentBranch::from_reference(&name), Some(branch));
            assert!(git2::Reference::is_valid_name(&name), "{name}");
        }
        for (bad, why) in [
            ("refs/heads/main", "only flock moves"),
            ("refs/heads/flock", "only flock moves"),
            ("refs/heads/flock/ann", "only flock moves"),
            ("refs/heads/flock/bob/work", "bob's branch"),
            ("refs/heads/flock/annx/work", "annx's branch"),
            ("refs/heads/flock//work", "only flock moves"),
            ("refs/heads/flock/ann/", "must be 1 to 64"),
            ("refs/heads/flock/ann/a/b", "must be 1 to 64"),
            ("refs/heads/flock/ann/../bob/work", "must be 1 to 64"),
            ("refs/heads/flock/ann/.a", "must be 1 to 64"),
            ("refs/heads/flock/ann/-a", "must be 1 to 64"),
            ("refs/heads/flock/ann/a..b", "must be 1 to 64"),
            ("refs/heads/flock/ann/a.lock", "must be 1 to 64"),
            ("refs/heads/flock/ann/a.", "must be 1 to 64"),
            ("refs/heads/flock/ann/a b", "must be 1 to 64"),
            ("refs/heads/flock/ann/ü", "must be 1 to 64"),
            ("refs/tags/v1", "only branches"),
            ("refs/flock/owner", "only branches"),
            ("HEAD", "only branches"),
            ("", "only branches"),
        ] {
            let told = may_update(&ann, bad).unwrap_err().to_string();
            assert!(told.contains(why), "{bad}: {told}");
        }
        let long = format!("refs/heads/flock/ann/{}", "x".repeat(65));
        assert!(may_update(&ann, &long).is_err());
        assert!("flock/unknown/x".parse::<AgentBranch>().is_err(), "a reserved id is no agent's");
    }
}
