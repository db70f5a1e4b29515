//! The packages of an agent at a checkpoint: the generation of its package profile.
//!
//! A checkpoint has the number that the newest generation of the home records. Asking the package store itself would cost
//! each turn a command in a container.
//!
//! Each home has package stores of its own, and the same number stands for other packages there. So a checkpoint also says whose
//! number it has: the homes of a group share checkpoints, and others come from the second place or with the folder of a home.

use sha2::{Digest as _, Sha256};

use super::Checkpoints;
use super::error::CheckpointError;
use super::record::CheckpointRecord;
use super::rewind::{self, RewindParts, RewindRequest};
use crate::config::Agent;
use crate::error::chain;
use crate::generation::{Generation, log};
use crate::home::{Home, instance};
use crate::id::{AgentId, hex};
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

/// The packages of an agent at a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackagesThen {
    /// The generation of its profile in this home. 0 stands for no profile.
    Here(u32),
    /// Nothing is known of them.
    Unknown,
    /// They are those of another home, or nothing says that they are those of this one.
    Elsewhere,
}

impl PackagesThen {
    /// Returns the generation of the profile in this home, if it is known.
    pub(super) const fn here(self) -> Option<u32> {
        match self {
            Self::Here(number) => Some(number),
            Self::Unknown | Self::Elsewhere => None,
        }
    }
}

/// Returns the name of the package stores of a home: a digest of its id, which itself stays in the home, with what its path adds
/// to the names of their volumes. `None` if it has no id yet.
pub(super) fn stores_of(home: &Home) -> Option<String> {
    let digest = Sha256::digest(format!("package stores\0{}", instance::read(home).ok()?));
    Some(format!("{}{}", hex(&digest[..16]), home.suffix()))
}

/// Returns the reason why the packages of a checkpoint can't be set back, as a continuation of a sentence for people.
pub(super) fn elsewhere_text(checkpoint: u64) -> String {
    format!("checkpoint {checkpoint} has those of another home, or does not say of which one")
}

/// Returns the generation of an agent's profile in use, if one is recorded. 0 stands for no profile.
pub(super) fn present(home: &Home, agent: &AgentId) -> Option<u32> {
    let newest = log::newest(home).unwrap_or_else(|error| {
        tracing::warn!(error = chain(&error), "the packages of a checkpoint are not known");
        None
    });
    // After the home was moved or copied, nothing is known of its new stores.
    newest.filter(|newest| newest.home == home.root())?.state.packages.get(agent).copied()
}

/// Returns the number of a checkpoint's profile, unless it is that of other stores than these.
pub(super) fn number_in(stores: Option<&str>, record: &CheckpointRecord) -> Option<u32> {
    record.packages.filter(|_| record.packages_of.as_deref().is_none_or(|of| Some(of) == stores))
}

/// Returns the packages of an agent at a checkpoint.
pub(super) fn at(home: &Home, agent: &AgentId, record: &CheckpointRecord) -> PackagesThen {
    let is_of_here = record.packages_of.as_ref().map(|of| Some(of) == stores_of(home).as_ref());
    match (is_of_here, record.packages) {
        (Some(true), Some(number)) => PackagesThen::Here(number),
        (Some(true) | None, None) => {
            let found = before_first_change(&generations(home), agent, record.at);
            found.map_or(PackagesThen::Unknown, PackagesThen::Here)
        }
        // An older flock did not say whose number it is. The generations of the home that made it have the same one.
        (None, Some(number)) if recorded(&generations(home), agent, record.at) == Some(number) => {
            PackagesThen::Here(number)
        }
        // Where no agent has packages, nobody has to read of them.
        (_, number) if number.max(present(home, agent)).is_none_or(|number| number == 0) => {
            PackagesThen::Unknown
        }
        _ => PackagesThen::Elsewhere,
    }
}

/// Returns the generations of a home at the path where it is, oldest first, unless one of them can't be read.
fn generations(home: &Home) -> Vec<Generation> {
    let all = log::all(home).ok().and_then(|all| all.into_iter().collect::<Result<Vec<_>, _>>().ok());
    let mut all = all.unwrap_or_default();
    all.retain(|generation| generation.home == home.root());
    all
}

/// Returns the number of an agent's profile that the generation of a moment has.
fn recorded(all: &[Generation], agent: &AgentId, at: i64) -> Option<u32> {
    let then = all.iter().rposition(|generation| generation.at <= at)?;
    let mut id = agent;
    for (old, new) in all[then + 1..].iter().rev().filter_map(|later| later.renamed.as_ref()) {
        if new == id {
            id = old;
        }
    }
    all[then].state.packages.get(id).copied()
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
                let numbers = present(&home, &id).zip(at(&home, &id, &target).here());
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

    #[test]
    fn a_number_is_found_under_the_id_that_the_agent_had() {
        let (ada, eve): (AgentId, AgentId) = ("ada".parse().unwrap(), "eve".parse().unwrap());
        let renamed = Generation { renamed: Some((ada.clone(), eve.clone())), ..generation(5, None, &[]) };
        let all = [generation(3, Some(1), &[]), generation(4, Some(2), &[]), renamed];
        assert_eq!([29, 39, 45].map(|at| recorded(&all, &eve, at)), [None, Some(1), Some(2)]);
        assert_eq!(recorded(&all, &eve, 50), None);
        assert_eq!(recorded(&all[..2], &eve, 45), None);
        assert_eq!(recorded(&all[..2], &ada, 45), Some(2));
    }
}
