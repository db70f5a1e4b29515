//! The state of a project's branches, and the log of a branch.

use git2::{Commit, Oid, Sort};
use serde::Serialize;

use super::reference::{AGENT_BRANCHES, BRANCHES};
use super::{AgentBranch, ObjectId, ProjectError, ProjectRepository};
use crate::clean;

/// Limit on the characters of a subject or a name that is shown.
const MAX_TEXT: usize = 200;

/// All branches of a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The name of the branch that work is joined on.
    pub branch: String,
    /// Its last commit. `None` before the first fetch of the owner's branch.
    pub tip: Option<CommitSummary>,
    /// The owner's branch when it was last fetched.
    pub owner: Option<BranchSummary>,
    /// The agents' branches, sorted by name.
    pub agents: Vec<(AgentBranch, BranchSummary)>,
}

/// A branch compared with the tip.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchSummary {
    pub head: CommitSummary,
    /// Number of commits that the tip does not have.
    pub ahead: usize,
    /// Number of the tip's commits that the branch does not have.
    pub behind: usize,
}

/// A commit as it is shown. The texts are one line each and have no invisible characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommitSummary {
    /// The id of the commit, 40 hex digits.
    pub commit: String,
    pub subject: String,
    /// The name of the author, which anybody can choose.
    pub author: String,
    /// Time of the change in Unix seconds, which anybody can choose.
    pub authored_at: i64,
}

impl CommitSummary {
    pub(crate) fn of(commit: &Commit<'_>) -> Self {
        let subject = commit.summary_bytes().unwrap_or_default();
        let author = commit.author();
        Self {
            commit: commit.id().to_string(),
            subject: clean::summary(&String::from_utf8_lossy(subject), MAX_TEXT),
            author: clean::summary(&String::from_utf8_lossy(author.name_bytes()), MAX_TEXT),
            authored_at: author.when().seconds(),
        }
    }
}

/// Returns the state of all branches. `branch` is the one that work is joined on.
///
/// # Errors
///
/// Returns an error if the repository can't be read.
pub fn overview(repository: &ProjectRepository, branch: &str) -> Result<Overview, ProjectError> {
    let tip = repository.branch(branch)?;
    let summary = |head: Oid| branch_summary(repository, head, tip);
    let mut agents = Vec::new();
    for (name, head) in repository.references(AGENT_BRANCHES)? {
        if let Some(branch) = AgentBranch::from_reference(&name) {
            agents.push((branch, summary(head)?));
        }
    }
    Ok(Overview {
        branch: branch.to_owned(),
        tip: tip.map(|id| repository.commit(id).map(|commit| CommitSummary::of(&commit))).transpose()?,
        owner: repository.owner()?.map(summary).transpose()?,
        agents,
    })
}

/// Returns the state of one agent's branch, or `None` if there is no such branch.
///
/// # Errors
///
/// Returns an error if the repository can't be read.
pub fn agent_branch(
    repository: &ProjectRepository,
    branch: &AgentBranch,
    tip: Option<ObjectId>,
) -> Result<Option<BranchSummary>, ProjectError> {
    let head = repository.target(&branch.reference())?;
    head.map(|head| branch_summary(repository, head, tip)).transpose()
}

fn branch_summary(
    repository: &ProjectRepository,
    head: Oid,
    tip: Option<Oid>,
) -> Result<BranchSummary, ProjectError> {
    let failed = ProjectError::git("read the history of", repository.folder());
    let (ahead, behind) = match tip {
        Some(tip) => repository.git().graph_ahead_behind(head, tip).map_err(failed)?,
        None => (0, 0),
    };
    Ok(BranchSummary { head: CommitSummary::of(&repository.commit(head)?), ahead, behind })
}

/// Returns the newest commits of a history, at most `limit` of them. With `without`, the commits of that history are
/// left out.
///
/// # Errors
///
/// Returns [`ProjectError::NoCommit`] if a commit is missing, and an error if the history can't be read.
pub fn log(
    repository: &ProjectRepository,
    head: ObjectId,
    without: Option<ObjectId>,
    limit: usize,
) -> Result<Vec<CommitSummary>, ProjectError> {
    let failed = ProjectError::git("read the history of", repository.folder());
    let mut walk = repository.git().revwalk().map_err(&failed)?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::TIME).map_err(&failed)?;
    repository.commit(head)?;
    walk.push(head).map_err(&failed)?;
    if let Some(without) = without {
        walk.hide(without).map_err(&failed)?;
    }
    let mut found = Vec::new();
    for id in walk.take(limit) {
        found.push(CommitSummary::of(&repository.commit(id.map_err(&failed)?)?));
    }
    Ok(found)
}

/// Returns the names of all branches with their commits, as they are offered to the agents' git.
///
/// # Errors
///
/// Returns an error if the repository can't be read.
pub fn branches(repository: &ProjectRepository) -> Result<Vec<(String, ObjectId)>, ProjectError> {
    repository.references(BRANCHES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::RefChange;
    use crate::project::reference::OWNER;
    use crate::project::testing::Sample;

    #[test]
    fn branches_are_compared_with_the_tip() {
        let sample = Sample::new();
        let empty = overview(&sample.repository, "main").unwrap();
        assert!(empty.tip.is_none() && empty.owner.is_none() && empty.agents.is_empty());
        let base = sample.commit(&[], &[("a", "1")]);
        let tip = sample.commit_as("tip\n\nmore", &[base], &[("a", "2")]);
        let one = sample.commit(&[base], &[("a", "1"), ("b", "1")]);
        let two = sample.commit_as("\u{1b}[2J evil\r\u{202e}", &[one], &[("a", "1"), ("b", "2")]);
        sample.set("main", tip);
        sample.set("flock/ann/work", two);
        sample.set("flock/bob/fix", tip);
        sample.set("other", tip);
        let name = OWNER.to_owned();
        sample.repository.update(&[RefChange { name, old: None, new: Some(base) }]).unwrap();
        let found = overview(&sample.repository, "main").unwrap();
        assert_eq!(found.tip.as_ref().unwrap().subject, "tip");
        assert_eq!(found.tip.unwrap().commit, tip.to_string());
        let owner = found.owner.unwrap();
        assert_eq!((owner.ahead, owner.behind), (0, 1));
        let [(ann, work), (bob, fix)] = &found.agents[..] else { panic!("{:?}", found.agents) };
        assert_eq!((ann.to_string(), bob.to_string()), ("flock/ann/work".into(), "flock/bob/fix".into()));
        assert_eq!((work.ahead, work.behind, fix.ahead, fix.behind), (2, 1, 0, 0));
        assert!(!work.head.subject.contains(['\u{1b}', '\u{202e}', '\r']), "{:?}", work.head.subject);
        assert_eq!(agent_branch(&sample.repository, ann, Some(tip)).unwrap().as_ref(), Some(work));
    }

    #[test]
    fn a_log_is_bounded_and_leaves_out_what_the_tip_has() {
        let sample = Sample::new();
        let mut head = sample.commit(&[], &[("a", "0")]);
        let base = head;
        for n in 1..=5 {
            head = sample.commit_as(&format!("change {n}"), &[head], &[("a", &n.to_string())]);
        }
        let subjects = |limit, without| -> Vec<String> {
            log(&sample.repository, head, without, limit).unwrap().into_iter().map(|c| c.subject).collect()
        };
        assert_eq!(subjects(2, None), ["change 5", "change 4"]);
        assert_eq!(subjects(9, Some(base)).len(), 5);
        assert!(matches!(
            log(&sample.repository, Oid::from_bytes(&[1; 20]).unwrap(), None, 1),
            Err(ProjectError::NoCommit(_))
        ));
    }
}
