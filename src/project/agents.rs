//! The branches of agents that are renamed or removed, in all projects of a home.
//!
//! A repository that can't be read or written is named in the log and left as it is: it must not keep a rename or a removal
//! from its end, without which no gateway starts.

use super::reference::{AGENT_BRANCHES, AgentBranch};
use super::{ObjectId, ProjectError, ProjectRepository, RefChange};
use crate::error::chain;
use crate::home::Home;
use crate::id::AgentId;

/// Gives all branches of an agent its new id, in each project all at once. Does nothing where that was done before. A branch
/// whose new name is taken, by an earlier agent with that id, stays as it is.
pub(crate) fn rename_branches(home: &Home, old: &AgentId, new: &AgentId) {
    in_each_project(home, old, |repository, branches| {
        let mut changes = Vec::new();
        for (branch, commit) in branches {
            let Ok(target) = AgentBranch::new(new.clone(), branch.task()) else { continue };
            if repository.target(&target.reference())?.is_none() {
                changes.push(RefChange { name: target.reference(), old: None, new: Some(commit) });
                changes.push(RefChange { name: branch.reference(), old: Some(commit), new: None });
            }
        }
        repository.update(&changes)
    });
}

/// Deletes all branches of an agent. What the tips have of them stays.
pub(crate) fn delete_branches(home: &Home, agent: &AgentId) {
    let gone = |(branch, commit): (AgentBranch, ObjectId)| RefChange {
        name: branch.reference(),
        old: Some(commit),
        new: None,
    };
    in_each_project(home, agent, |repository, branches| {
        let changes: Vec<RefChange> = branches.into_iter().map(gone).collect();
        repository.update(&changes)
    });
}

/// Does something with the branches that an agent has in each project, also in one that the configuration no longer has.
fn in_each_project(
    home: &Home,
    agent: &AgentId,
    work: impl Fn(&ProjectRepository, Vec<(AgentBranch, ObjectId)>) -> Result<(), ProjectError>,
) {
    let folders =
        std::fs::read_dir(home.projects()).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in folders.filter(|path| path.extension().is_some_and(|ending| ending == "git")) {
        let done = ProjectRepository::open(&path)
            .and_then(|repository| work(&repository, branches(&repository, agent)?));
        if let Err(error) = done {
            let (path, error) = (path.display(), chain(&error));
            tracing::warn!(%path, %agent, error, "the branches of an agent stay as they are");
        }
    }
}

fn branches(
    repository: &ProjectRepository,
    agent: &AgentId,
) -> Result<Vec<(AgentBranch, ObjectId)>, ProjectError> {
    let all = repository.references(AGENT_BRANCHES)?;
    let named =
        all.into_iter().filter_map(|(name, commit)| Some((AgentBranch::from_reference(&name)?, commit)));
    Ok(named.filter(|(branch, _)| branch.agent == *agent).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::testing::Sample;

    /// A home with the project `lib` of ann and bob.
    fn scene() -> (Sample, Home) {
        let sample = Sample::new();
        let home = Home::new(sample.folder.path().join("home"), None);
        std::fs::create_dir_all(home.projects()).unwrap();
        let moved = home.projects().join("lib.git");
        std::fs::rename(sample.repository.folder(), &moved).unwrap();
        let repository = ProjectRepository::open(&moved).unwrap();
        let sample = Sample { repository, folder: sample.folder };
        let base = sample.commit(&[], &[("a", "1\n")]);
        for branch in ["main", "flock/ann/work", "flock/ann/fix", "flock/bob/work"] {
            sample.set(branch, base);
        }
        (sample, home)
    }

    fn names(sample: &Sample) -> Vec<String> {
        let all = sample.repository.references(AGENT_BRANCHES).unwrap();
        all.into_iter().map(|(name, _)| name[AGENT_BRANCHES.len()..].to_owned()).collect()
    }

    #[test]
    fn branches_follow_their_agents_name() {
        let (sample, home) = scene();
        let [ann, eve, bob] = ["ann", "eve", "bob"].map(|id| id.parse::<AgentId>().unwrap());
        for _ in 0..2 {
            rename_branches(&home, &ann, &eve);
            assert_eq!(
                names(&sample),
                ["bob/work", "eve/fix", "eve/work"],
                "the second time changes nothing"
            );
        }
        rename_branches(&home, &eve, &bob);
        assert_eq!(names(&sample), ["bob/fix", "bob/work", "eve/work"], "nobody's branch is overwritten");
    }

    #[test]
    fn a_later_agent_of_the_same_id_inherits_no_branch() {
        let (sample, home) = scene();
        delete_branches(&home, &"ann".parse().unwrap());
        assert_eq!(names(&sample), ["bob/work"]);
        assert!(sample.repository.branch("main").unwrap().is_some());
        // A folder that is no repository keeps nobody from anything.
        std::fs::create_dir(home.projects().join("broken.git")).unwrap();
        delete_branches(&home, &"bob".parse().unwrap());
        assert_eq!(names(&sample), [""; 0]);
    }
}
