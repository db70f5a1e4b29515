//! A pack that an agent pushed. It is hostile: it is written into a folder that no git reads, measured, indexed and
//! checked object by object. Only then are its files moved to the repository's objects, and only after that do references
//! lead to them. A process that is killed at any moment leaves a folder that the next start removes.

pub(crate) mod names;
mod object_check;
mod pack_scan;
mod quarantine;

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use git2::{ObjectType, Oid};

use super::reference::{self, AGENT_BRANCHES};
use super::{ProjectError, ProjectRepository, RefChange};
use crate::id::AgentId;

use quarantine::Quarantine;
pub(super) use quarantine::remove_abandoned;

/// A push of an agent.
#[derive(Clone, Debug)]
pub struct Push {
    pub agent: AgentId,
    /// The references that it changes.
    pub changes: Vec<RefChange>,
    /// `true` if all changes have to be made or none.
    pub is_atomic: bool,
}

/// The limits of a push.
#[derive(Clone, Copy, Debug)]
pub struct PushLimits {
    /// Most bytes of the pack.
    pub pack: u64,
    /// Most objects in the pack.
    pub objects: u32,
    /// Most bytes of one object, unpacked.
    pub object: u64,
    /// Most bytes of all objects, unpacked.
    pub unpacked: u64,
    /// Most deltas that build on each other.
    pub depth: u32,
    /// Most files, folders and links in the tree of a commit.
    pub files: u64,
    /// Most bytes of all packs of the repository.
    pub repository: u64,
    /// Most branches of one agent.
    pub branches: usize,
    /// Most references that one push changes.
    pub changes: usize,
    /// Longest time for checking the pack after it was received.
    pub time: Duration,
    /// The moment at which the time is over.
    deadline: Option<Instant>,
}

impl Default for PushLimits {
    fn default() -> Self {
        Self {
            pack: 256 << 20,
            objects: 200_000,
            object: 100 << 20,
            unpacked: 2 << 30,
            depth: 250,
            files: 500_000,
            repository: 16 << 30,
            branches: 200,
            changes: 100,
            time: Duration::from_secs(120),
            deadline: None,
        }
    }
}

impl PushLimits {
    /// Returns the limits with their time running.
    fn started(self) -> Self {
        Self { deadline: Some(Instant::now() + self.time), ..self }
    }

    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    fn check_time(&self) -> Result<(), Rejected> {
        if self.is_over() {
            return Err(Rejected::new(format!("checking it took more than {} s", self.time.as_secs())));
        }
        Ok(())
    }
}

/// The result of a push, which git shows to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushReport {
    /// The reason why the pack was not accepted, if it was not.
    pub pack: Result<(), String>,
    /// The references in the order of the push, each with the reason why it was not changed, if it was not.
    pub references: Vec<(String, Result<(), String>)>,
}

/// The reason why something that was pushed is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Rejected(String);

impl Rejected {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// A pack is not accepted, or flock itself failed.
enum Failure {
    Rejected(Rejected),
    Own(ProjectError),
}

impl From<Rejected> for Failure {
    fn from(error: Rejected) -> Self {
        Self::Rejected(error)
    }
}

impl From<ProjectError> for Failure {
    fn from(error: ProjectError) -> Self {
        Self::Own(error)
    }
}

/// Takes a push: checks who may change what, reads and checks the pack, stores it, and moves the references. When this
/// returns, everything that the report calls accepted is on disk.
///
/// # Errors
///
/// Returns an error if the repository can't be read or written. What is wrong with the push itself is in the report.
pub fn receive(
    folder: &Path,
    push: &Push,
    pack: Option<&mut dyn Read>,
    limits: &PushLimits,
) -> Result<PushReport, ProjectError> {
    let repository = ProjectRepository::open(folder)?;
    let mut results = decide(&repository, push, limits)?;
    let report = |pack: Result<(), String>, results: Vec<Result<(), String>>| PushReport {
        pack,
        references: push.changes.iter().map(|change| change.name.clone()).zip(results).collect(),
    };
    if results.iter().all(Result::is_err) {
        return Ok(report(Ok(()), results));
    }
    if let Some(pack) = pack {
        match store(&repository, pack, limits) {
            Ok(()) => {}
            Err(Failure::Own(error)) => return Err(error),
            Err(Failure::Rejected(Rejected(why))) => {
                let results =
                    results.into_iter().map(|result| result.and(Err("the pack was refused".to_owned())));
                let results = results.collect();
                return Ok(report(Err(why), results));
            }
        }
    }
    // Opened again: this one was opened before the pack was there.
    let repository = ProjectRepository::open(folder)?;
    for (change, result) in push.changes.iter().zip(&mut results).filter(|(_, result)| result.is_ok()) {
        if let Some(new) = change.new
            && !repository.git().find_object(new, None).is_ok_and(|it| it.kind() == Some(ObjectType::Commit))
        {
            *result = Err("its commit is missing".to_owned());
        }
    }
    move_references(&repository, push, &mut results)?;
    Ok(report(Ok(()), results))
}

/// Decides about each change by its name alone.
fn decide(
    repository: &ProjectRepository,
    push: &Push,
    limits: &PushLimits,
) -> Result<Vec<Result<(), String>>, ProjectError> {
    let mut own = repository.references(&format!("{AGENT_BRANCHES}{}/", push.agent))?.len();
    let mut seen = std::collections::HashSet::new();
    let mut decide = |number: usize, change| {
        let RefChange { name, old, new }: &RefChange = change;
        reference::may_update(&push.agent, name).map_err(|refusal| refusal.to_string())?;
        if number >= limits.changes {
            return Err(format!("one push changes at most {} branches", limits.changes));
        }
        if !seen.insert(name.clone()) {
            return Err("it is named twice".to_owned());
        }
        if old.is_none() && new.is_some() {
            own += 1;
            if own > limits.branches {
                return Err(format!("you have {} branches already; delete some", limits.branches));
            }
        }
        Ok(())
    };
    let changes = push.changes.iter().enumerate();
    let mut results: Vec<_> = changes.map(|(number, change)| decide(number, change)).collect();
    fail_together(push, &mut results);
    Ok(results)
}

/// With an atomic push, one refused change refuses all.
fn fail_together(push: &Push, results: &mut [Result<(), String>]) {
    if push.is_atomic && results.iter().any(Result::is_err) {
        for result in results.iter_mut().filter(|result| result.is_ok()) {
            *result = Err("another branch of this atomic push was refused".to_owned());
        }
    }
}

fn move_references(
    repository: &ProjectRepository,
    push: &Push,
    results: &mut [Result<(), String>],
) -> Result<(), ProjectError> {
    fail_together(push, results);
    if push.is_atomic {
        let result = update(repository, &push.changes)?;
        results.iter_mut().filter(|known| known.is_ok()).for_each(|known| known.clone_from(&result));
        return Ok(());
    }
    for (change, result) in push.changes.iter().zip(results).filter(|(_, result)| result.is_ok()) {
        *result = update(repository, std::slice::from_ref(change))?;
    }
    Ok(())
}

fn update(repository: &ProjectRepository, changes: &[RefChange]) -> Result<Result<(), String>, ProjectError> {
    match repository.update(changes) {
        Ok(()) => Ok(Ok(())),
        Err(ProjectError::Moved { .. }) => Ok(Err("it has moved meanwhile; fetch and push again".to_owned())),
        Err(error) => Err(error),
    }
}

/// Reads a pack, checks it, and moves it to the repository's objects.
fn store(repository: &ProjectRepository, pack: &mut dyn Read, limits: &PushLimits) -> Result<(), Failure> {
    let quarantine = Quarantine::new(repository.folder())?;
    quarantine.receive(pack, limits)?;
    // The time for the transfer is limited by the transport. This is the time for the work.
    let limits = limits.started();
    if quarantine.count(repository, &limits)? == 0 {
        return Ok(());
    }
    quarantine.index(repository, &limits)?;
    let checking = ProjectRepository::open(repository.folder())?;
    let new: Vec<Oid> = quarantine.objects(&checking)?;
    object_check::check(checking.git(), &new, &limits)?;
    drop(checking);
    quarantine.publish(repository)?;
    Ok(())
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
