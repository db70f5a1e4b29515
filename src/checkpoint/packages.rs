//! The packages of an agent at a checkpoint: the generation of its package profile.
//!
//! A checkpoint has the number that the newest generation of the home records. Asking the package store itself would cost
//! each turn a command in a container.

use super::Checkpoints;
use super::error::CheckpointError;
use super::record::CheckpointRecord;
use super::rewind::{self, RewindParts, RewindRequest};
use crate::config::Agent;
use crate::error::chain;
use crate::generation::{Generation, log};
use crate::home::Home;
use crate::id::AgentId;
use crate::nix_store::ProfileDifference;

/// A decided change of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PackagePlan {
    /// The checkpoint whose packages they are.
    pub(super) checkpoint: u64,
    /// The generation of the profile in use. 0 stands for no profile.
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) difference: ProfileDifference,
}

/// Returns the generation of an agent's profile in use, if one is recorded. 0 stands for no profile.
pub(super) fn present(home: &Home, agent: &AgentId) -> Option<u32> {
    let newest = log::newest(home).unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "the packages of a checkpoint are not known");
        None
    });
    newest?.state.packages.get(agent).copied()
}

/// Returns the generation of an agent's profile at a checkpoint, if it is known.
pub(super) fn at(home: &Home, agent: &AgentId, record: &CheckpointRecord) -> Option<u32> {
    record.packages.or_else(|| {
        let all = log::all(home).ok()?.into_iter().collect::<Result<Vec<_>, _>>().ok()?;
        before_first_change(&all, agent, record.at)
    })
}

/// Returns the number of the profile at a moment before its first recorded change. That change recorded which one was in
/// use until then.
fn before_first_change(all: &[Generation], agent: &AgentId, at: i64) -> Option<u32> {
    let then = all.iter().rposition(|generation| generation.at <= at)?;
    let known = all.iter().skip(then).find(|generation| generation.state.packages.contains_key(agent))?;
    let change = format!("packages of {agent}:");
    // One that records only the number after the change says nothing about the one before.
    let is_change =
        known.number != all[then].number && known.what.iter().any(|what| what.starts_with(&change));
    known.state.packages.get(agent).copied().filter(|_| !is_change)
}

impl Checkpoints {
    /// Decides how a rewind changes the packages. Returns `None` if it does not.
    ///
    /// # Errors
    ///
    /// Returns [`CheckpointError::PackagesGone`] if the profile's generation was removed from the store,
    /// [`CheckpointError::Packages`] if the store can't be asked, and another error if there is no such checkpoint.
    pub(super) async fn package_plan(
        &self,
        agent: &Agent,
        request: &RewindRequest,
    ) -> Result<Option<PackagePlan>, CheckpointError> {
        if request.without_packages || request.parts == Some(RewindParts::Conversation) {
            return Ok(None);
        }
        let (home, id, request) = (self.home().clone(), agent.id.clone(), request.clone());
        let (checkpoint, numbers) = self
            .blocking(agent, move |store| {
                let mut records = store.log.read()?;
                let target = records.swap_remove(rewind::target(&store, &records, &request)?);
                let has_files = rewind::parts(&target, &request).has_files();
                let numbers = present(&home, &id).zip(at(&home, &id, &target));
                Ok((target.number, numbers.filter(|_| has_files)))
            })
            .await?;
        let Some((from, to)) = numbers.filter(|(from, to)| from != to) else { return Ok(None) };
        let difference = self.services()?.packages_difference(&agent.id, to).await;
        let difference = difference
            .map_err(|reason| CheckpointError::Packages { agent: agent.id.clone(), reason })?
            .ok_or_else(|| CheckpointError::PackagesGone {
                agent: agent.id.clone(),
                checkpoint,
                profile: to,
            })?;
        Ok(Some(PackagePlan { checkpoint, from, to, difference }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::HomeState;

    fn generation(number: u64, packages: Option<u32>, what: &[&str]) -> Generation {
        let agent: AgentId = "ada".parse().unwrap();
        Generation {
            format: 1,
            number,
            at: i64::try_from(number).unwrap() * 10,
            by: "human:ann".into(),
            why: "flock nix install".into(),
            home: "/home".into(),
            what: what.iter().map(|&what| what.to_owned()).collect(),
            operation: None,
            renamed: None,
            back_to: None,
            state: HomeState {
                packages: packages.map(|number| (agent, number)).into_iter().collect(),
                ..HomeState::default()
            },
        }
    }

    #[test]
    fn the_first_change_says_what_was_there_before() {
        let agent = "ada".parse().unwrap();
        let changed = "packages of ada: profile 0 -> 1";
        let all = [generation(3, None, &[]), generation(4, Some(0), &[]), generation(5, Some(1), &[changed])];
        let at = |at: i64| before_first_change(&all, &agent, at);
        assert_eq!(
            [at(30), at(39), at(40), at(49), at(50), at(99)],
            [Some(0), Some(0), Some(0), Some(0), Some(1), Some(1)]
        );
        // Generations of that time are gone.
        assert_eq!(at(29), None);
        // Only the state after the change is known.
        let all = [generation(3, None, &[]), generation(5, Some(1), &[changed])];
        assert_eq!(before_first_change(&all, &agent, 35), None);
        assert_eq!(before_first_change(&all, &agent, 55), Some(1));
        assert_eq!(before_first_change(&all, &"eve".parse().unwrap(), 55), None);
    }
}
