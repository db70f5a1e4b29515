//! The merge train: takes the submissions of each project one after the other, joins each with the tip, has exactly the
//! joined tree checked, and moves the tip to it. A submission that fails goes back to its author; the others go on.
//!
//! The train alone moves the tip to an agent's work. A kill at any moment leaves the tip at a commit that passed its
//! checks: what the database says afterwards is corrected from the repository.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::rule::{self, WaitsFor};
use super::submission::{state_error, wait_text};
use super::{Projects, ProjectsError, along, news};
use crate::clean;
use crate::clock::unix_ms;
use crate::config::Project;
use crate::error::chain;
use crate::id::ProjectName;
use crate::project::diff::{self, DiffLimits};
use crate::project::merge::{self, MergeMessage};
use crate::project::{Conflict, MergeOutcome, ObjectId, ProjectError, ProjectRepository, RefChange};
use crate::provider::BoxFuture;
use crate::store::{
    LeaseKind, LeaseSubject, NewInboxItem, RacePlace, Submission, SubmissionChange, SubmissionState,
};
use crate::swarm::Actor;
use crate::swarm::lease::while_held;
use crate::tool::safe_text;

/// The pause after checks could not be run, for example because the container engine is down.
const PAUSE: Duration = Duration::from_secs(60);
/// The pause between two looks of a gateway with others beside it.
const SHARED_LOOK: Duration = Duration::from_secs(5);
/// The states of a submission that the train has before it.
pub(super) const UNMERGED: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
/// Longest part of a log that is kept with a submission, in bytes. The end of it is what says why.
const MAX_LOG: usize = 16 * 1024;

/// A tree that is to be checked.
#[derive(Clone, Debug)]
pub(crate) struct CheckWork {
    pub(crate) project: Project,
    pub(crate) submission: Submission,
    /// The tip that the submission was joined with.
    pub(crate) base: ObjectId,
    /// The commit that joins both.
    pub(crate) candidate: ObjectId,
}

/// The result of the checks of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckVerdict {
    /// It passed.
    Passed {
        /// The id of the receipt.
        receipt: Option<String>,
        /// Why a person has to accept it all the same, in words.
        reasons: Vec<String>,
    },
    /// It did not pass. The log says why.
    Failed { receipt: Option<String>, log: String },
}

/// Checks trees, outside of any agent's reach.
pub(crate) trait TreeChecks: Send + Sync + 'static {
    /// Checks exactly the tree of the candidate.
    ///
    /// # Errors
    ///
    /// Returns an error if the checks could not be run. That says nothing about the tree.
    fn check(&self, work: CheckWork) -> BoxFuture<'_, Result<CheckVerdict, ProjectsError>>;
}

/// The merge train of all projects.
pub(crate) struct Train {
    projects: Arc<Projects>,
    checks: Arc<dyn TreeChecks>,
}

/// The result of joining a submission with the tip.
enum Joined {
    /// The tip has everything of it.
    Contained,
    Conflicts(ObjectId, Vec<Conflict>),
    Candidate {
        base: ObjectId,
        commit: ObjectId,
        /// A short account of the change.
        stat: String,
    },
}

impl Train {
    pub(crate) fn new(projects: Arc<Projects>, checks: Arc<dyn TreeChecks>) -> Self {
        Self { projects, checks }
    }

    /// Works off the queues of all projects until `stop` is cancelled. Each project has a task of its own. Of several gateways,
    /// the one that has the project's lease does it.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut queued = self.projects.queued();
        let mut running: JoinSet<()> = JoinSet::new();
        let mut tasks: HashMap<ProjectName, AbortHandle> = HashMap::new();
        loop {
            for project in &self.projects.swarm.config().projects {
                if tasks.get(&project.name).is_none_or(AbortHandle::is_finished) {
                    let name = project.name.clone();
                    let subject = LeaseSubject::new(LeaseKind::Train, name.as_str());
                    let train = Arc::clone(&self);
                    let work = move |end: CancellationToken| {
                        let work = Arc::clone(&train).work(name.clone());
                        async move {
                            // What is running is given up, as on a stop. `None` means that.
                            let _ = end.run_until_cancelled(Box::pin(work)).await;
                        }
                    };
                    let ownership = self.projects.swarm.ownership().clone();
                    let task = running.spawn(while_held(ownership, subject, stop.clone(), work));
                    tasks.insert(project.name.clone(), task);
                }
            }
            tokio::select! {
                // What is running is given up. It goes on from what was committed.
                () = stop.cancelled() => return running.shutdown().await,
                _ = queued.changed() => {}
            }
        }
    }

    /// Works off the queue of one project for as long as there is such a project.
    async fn work(self: Arc<Self>, name: ProjectName) {
        let mut queued = self.projects.queued();
        while self.projects.find(&name).is_ok() {
            queued.borrow_and_update();
            if let Err(error) = self.drain(&name).await {
                tracing::error!(project = %name, error = chain(&error), "the merge train waits for a minute");
                self.projects.note_trouble(&name, Some(chain(&error)));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            self.projects.note_trouble(&name, None);
            tokio::select! {
                changed = queued.changed() => if changed.is_err() { return },
                // Other gateways take submissions too.
                () = tokio::time::sleep(SHARED_LOOK), if self.projects.swarm.ownership().is_shared() => {}
            }
        }
    }

    async fn drain(&self, name: &ProjectName) -> Result<(), ProjectsError> {
        while self.advance(name).await? {}
        Ok(())
    }

    /// Takes the next submission of a project one step on. Returns `false` if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository or the database can't be used, or the checks can't be run.
    pub(crate) async fn advance(&self, name: &ProjectName) -> Result<bool, ProjectsError> {
        let Some(next) = self.projects.swarm.store().submissions().next(name).await? else {
            return Ok(false);
        };
        let project = self.projects.find(name)?;
        match Box::pin(self.take(&project, &next)).await {
            // Somebody withdrew or replaced it meanwhile.
            Err(ProjectsError::State { .. }) => Ok(true),
            done => done.map(|()| true),
        }
    }

    async fn take(&self, project: &Project, next: &Submission) -> Result<(), ProjectsError> {
        let place = self.projects.racing(&project.name, &next.agent).await?;
        if next.checked.is_some() && next.checked == next.candidate {
            // It passed its checks before somebody looked at it. That still counts if the tip has not moved since.
            return self.decided(project, next, place.as_ref()).await;
        }
        match self.join(project, next, place.as_ref()).await? {
            Joined::Contained => self.projects.merged(project, next, None).await,
            Joined::Conflicts(tip, conflicts) => self.conflict(next, tip, &conflicts).await,
            Joined::Candidate { base, commit, stat } => {
                let to = SubmissionChange {
                    base: Some(base.to_string()),
                    candidate: Some(commit.to_string()),
                    ..SubmissionChange::to(SubmissionState::Checking)
                };
                const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
                let checking = self.projects.step(next, FROM, to, None).await?;
                let work = CheckWork {
                    project: project.clone(),
                    submission: checking.clone(),
                    base,
                    candidate: commit,
                };
                match self.checks.check(work).await? {
                    CheckVerdict::Failed { receipt, log } => self.failed(&checking, receipt, &log).await,
                    CheckVerdict::Passed { receipt, reasons } => {
                        match self.projects.racing(&project.name, &next.agent).await? {
                            Some(place) => self.projects.proven(&checking, receipt, reasons, &place).await,
                            None => self.passed(project, &checking, receipt, reasons, &stat).await,
                        }
                    }
                }
            }
        }
    }

    /// Joins a submission's commit with the tip, and keeps the result by a reference of flock's own. What the copies of a
    /// race submit is joined with one tip, so that the same is compared.
    async fn join(
        &self,
        project: &Project,
        next: &Submission,
        place: Option<&RacePlace>,
    ) -> Result<Joined, ProjectsError> {
        let base = place.map(|place| place.base.clone());
        let (tip_name, commit, reference) = (project.branch.clone(), next.commit.clone(), kept(next));
        let text = format!(
            "Merge {} ({})\n\n{}\n\nSubmission {} of {}.\n",
            next.branch, next.project, next.title, next.id, next.agent
        );
        let at = next.created_at / 1000;
        self.projects
            .with(&project.name, move |repository| {
                let tip = repository.find(base.as_ref().unwrap_or(&tip_name))?;
                let commit = repository.find(&commit)?;
                let joined = merge::merge(repository, tip, commit, MergeMessage { text: &text, at })?;
                Ok(match joined {
                    MergeOutcome::Contained => Joined::Contained,
                    MergeOutcome::Conflicts(conflicts) => Joined::Conflicts(tip, conflicts),
                    MergeOutcome::Merged(merged) => {
                        keep(repository, &reference, merged)?;
                        let changes = diff::diff(repository, Some(tip), merged, DiffLimits::default())?;
                        Joined::Candidate { base: tip, commit: merged, stat: diff::stat(&changes) }
                    }
                })
            })
            .await
    }

    async fn passed(
        &self,
        project: &Project,
        checking: &Submission,
        receipt: Option<String>,
        reasons: Vec<String>,
        stat: &str,
    ) -> Result<(), ProjectsError> {
        // Whoever accepted it before saw other reasons.
        let is_new = reasons.iter().any(|reason| !checking.reasons.contains(reason));
        let mut to = SubmissionChange {
            receipt,
            reasons: Some(reasons.clone()),
            checked: checking.candidate.clone(),
            ends_acceptance: is_new && checking.accepted_by.is_some(),
            ..SubmissionChange::to(SubmissionState::Checking)
        };
        let mut items = Vec::new();
        if checking.reviewer.is_none() {
            let seen = Submission { receipt: to.receipt.clone(), ..checking.clone() };
            match self.projects.ask_reviewer(project, &seen, stat).await? {
                Some((reviewer, item)) => {
                    to.reviewer = Some(reviewer);
                    items.push(item);
                }
                None if project.review == crate::config::Review::Agent => {
                    let reasons = to.reasons.get_or_insert_default();
                    reasons.push("no other agent of the project can review it".to_owned());
                }
                None => {}
            }
        }
        let mut after = checking.clone();
        after.reasons = to.reasons.clone().unwrap_or_default();
        after.reviewer = to.reviewer.clone().or(after.reviewer);
        if to.ends_acceptance {
            after.accepted_by = None;
        }
        let wait = rule::waits_for(project.review, &after);
        to.state = if wait.is_some() { SubmissionState::Review } else { SubmissionState::Checking };
        to.detail = Some(wait_text(wait, &after).unwrap_or_default());
        if wait == Some(WaitsFor::Person)
            && let Some(text) = &to.detail
        {
            items.extend(news(checking, text, unix_ms()));
        }
        let rows = along(&Actor::system(), "project.check", checking, format!("passed; {stat}"), items);
        // A submission that won a race was checked before anybody was asked to review it.
        const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
        let after = self.projects.step(checking, FROM, to, Some(rows)).await?;
        if wait.is_some() { Ok(()) } else { self.finish(project, &after).await }
    }

    /// Goes on with a submission that passed its checks, after a decision about it.
    async fn decided(
        &self,
        project: &Project,
        checked: &Submission,
        place: Option<&RacePlace>,
    ) -> Result<(), ProjectsError> {
        if let Some(place) = place {
            let (receipt, reasons) = (checked.receipt.clone(), checked.reasons.clone());
            return self.projects.proven(checked, receipt, reasons, place).await;
        }
        let is_unasked = checked.reviewer.is_none() && checked.reviewed_at.is_none();
        if project.review == crate::config::Review::Agent && is_unasked && checked.reasons.is_empty() {
            let stat = self.stat(project, checked).await?;
            return self.passed(project, checked, checked.receipt.clone(), Vec::new(), &stat).await;
        }
        let Some(wait) = rule::waits_for(project.review, checked) else {
            return self.finish(project, checked).await;
        };
        let text = wait_text(Some(wait), checked);
        let items = text.iter().filter_map(|text| news(checked, text, unix_ms())).collect();
        let to = SubmissionChange { detail: text, ..SubmissionChange::to(SubmissionState::Review) };
        let rows = along(&Actor::system(), "project.wait", checked, String::new(), items);
        const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
        self.projects.step(checked, FROM, to, Some(rows)).await.map(drop)
    }

    /// Returns a short account of a candidate's change.
    async fn stat(&self, project: &Project, checked: &Submission) -> Result<String, ProjectsError> {
        let (Some(base), Some(candidate)) = (checked.base.clone(), checked.candidate.clone()) else {
            return Ok(String::new());
        };
        self.projects
            .with(&project.name, move |repository| {
                let (base, candidate) = (repository.find(&base)?, repository.find(&candidate)?);
                diff::diff(repository, Some(base), candidate, DiffLimits::default())
                    .map(|changes| diff::stat(&changes))
            })
            .await
    }

    /// Moves the tip to a candidate that passed. If the tip has moved meanwhile, the submission is joined again.
    async fn finish(&self, project: &Project, checked: &Submission) -> Result<(), ProjectsError> {
        let (Some(base), Some(candidate)) = (checked.base.clone(), checked.candidate.clone()) else {
            return self.again(checked).await;
        };
        // Held until the row says so too: whoever replaces the submission meanwhile would call it withdrawn.
        let held = self.projects.hold(&project.name).await?;
        let (branch, name) = (project.branch.clone(), project.name.clone());
        // Somebody may have taken it back, at any gateway, before the right was here.
        let now = self.projects.submission(&name, checked.id).await?;
        if !UNMERGED.contains(&now.state) || now.candidate != checked.candidate {
            return Err(state_error(&now));
        }
        // The work takes the right with it: if it is given up here, it still ends there before anybody else looks.
        let (moved, _held) = self
            .projects
            .with(&name, move |repository| Ok((move_tip(repository, &branch, &base, &candidate)?, held)))
            .await?;
        if moved {
            self.projects.merged(project, checked, checked.candidate.clone()).await
        } else {
            self.again(checked).await
        }
    }

    /// Puts a submission back into the queue: what was checked is no longer what the tip would become.
    async fn again(&self, checked: &Submission) -> Result<(), ProjectsError> {
        let to = SubmissionChange {
            detail: Some("the tip has moved; it is joined and checked again".to_owned()),
            // A candidate that is not the checked one is joined again.
            candidate: Some(String::new()),
            ..SubmissionChange::to(SubmissionState::Queued)
        };
        const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
        self.projects.step(checked, FROM, to, None).await.map(drop)
    }

    async fn conflict(
        &self,
        found: &Submission,
        tip: ObjectId,
        conflicts: &[Conflict],
    ) -> Result<(), ProjectsError> {
        let text = format!(
            "it conflicts with the tip ({}). Join them in your clone (git fetch origin && git merge {tip}), push and \
             submit again.\n{}",
            &tip.to_string()[..12],
            conflict_lines(conflicts, "the tip")
        );
        let items = news(found, &text, unix_ms()).into_iter().collect();
        let to = SubmissionChange { detail: Some(text), ..SubmissionChange::to(SubmissionState::Conflict) };
        let detail = format!("{} files", conflicts.len());
        let rows = along(&Actor::system(), "project.conflict", found, detail, items);
        const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
        self.projects.step(found, FROM, to, Some(rows)).await?;
        self.projects.forget(found).await
    }

    async fn failed(
        &self,
        found: &Submission,
        receipt: Option<String>,
        log: &str,
    ) -> Result<(), ProjectsError> {
        let log = safe_text::end(log, MAX_LOG);
        let text = format!("a check failed on the tree that joins it with the tip:\n{log}");
        let items = news(found, &text, unix_ms()).into_iter().collect();
        let to = SubmissionChange {
            detail: Some(text),
            receipt,
            ..SubmissionChange::to(SubmissionState::Refused)
        };
        let detail = clean::summary(log.lines().last().unwrap_or_default(), 200);
        let rows = along(&Actor::system(), "project.refuse", found, detail, items);
        self.projects.step(found, &[SubmissionState::Checking], to, Some(rows)).await?;
        self.projects.forget(found).await
    }
}

impl Projects {
    /// Returns a submission as it is, after correcting what a process that was killed did not write down: the tip may
    /// have it already. To be called while the project is held.
    pub(super) async fn settled(
        &self,
        project: &Project,
        found: Submission,
    ) -> Result<Submission, ProjectsError> {
        let Some(candidate) = found.candidate.clone().filter(|_| found.state.is_open()) else {
            return Ok(found);
        };
        if candidate.is_empty() {
            return Ok(found);
        }
        let (branch, commit) = (project.branch.clone(), candidate.clone());
        let is_in = self
            .with(&project.name, move |repository| {
                repository.contains(repository.find(&branch)?, repository.find(&commit)?)
            })
            .await?;
        if !is_in {
            return Ok(found);
        }
        self.merged(project, &found, Some(candidate)).await?;
        self.submission(&project.name, found.id).await
    }

    /// Writes down that the tip has everything of a submission.
    async fn merged(
        &self,
        project: &Project,
        found: &Submission,
        candidate: Option<String>,
    ) -> Result<(), ProjectsError> {
        let tip = candidate
            .as_deref()
            .map_or("it has everything of it already", |commit| commit.get(..12).unwrap_or(commit));
        let text = format!("it is merged; the tip of {} is {tip}", project.branch);
        let items: Vec<NewInboxItem> = news(found, &text, unix_ms()).into_iter().collect();
        let to =
            SubmissionChange { detail: Some(text.clone()), ..SubmissionChange::to(SubmissionState::Merged) };
        let rows = along(&Actor::system(), "project.merge", found, format!("{} {tip}", found.title), items);
        const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
        // Before the row, so that a kill between the two loses no answer: the next start writes the row. And after it, for
        // a turn that said meanwhile that the task is done.
        self.prove(found).await?;
        let merged = self.step(found, FROM, to, Some(rows)).await?;
        self.prove(found).await?;
        self.announce(&merged).await;
        self.forget(&merged).await
    }

    /// Completes the task for which something was submitted, if its assignee has said that it is done.
    async fn prove(&self, found: &Submission) -> Result<(), ProjectsError> {
        match &found.task {
            Some(task) => Ok(self.swarm.prove_task(task).await?),
            None => Ok(()),
        }
    }

    /// Says in the channel from which it was submitted that it is merged. It informs: it wakes nobody.
    async fn announce(&self, merged: &Submission) {
        let Some(channel) = merged.session.as_ref().and_then(crate::id::SessionKey::channel) else { return };
        let text = format!(
            "{} merged submission {} of {}: {}",
            merged.project, merged.id, merged.agent, merged.title
        );
        if let Err(error) = self.swarm.post_as_system(&channel, text, false).await {
            tracing::warn!(error = chain(&error), "failed to say in a channel that work was merged");
        }
    }

    /// Removes the reference that kept the candidate.
    pub(super) async fn forget(&self, found: &Submission) -> Result<(), ProjectsError> {
        let name = kept(found);
        self.with(&found.project, move |repository| match repository.target(&name)? {
            None => Ok(()),
            old => repository.update(&[RefChange { name, old, new: None }]),
        })
        .await
    }
}

/// Returns the reference that keeps the candidate of a submission.
fn kept(submission: &Submission) -> String {
    format!("refs/flock/train/{}", submission.id)
}

/// Lets a reference lead to a candidate. Without it, a clean-up could remove the candidate before the tip leads to it.
fn keep(repository: &ProjectRepository, reference: &str, candidate: ObjectId) -> Result<(), ProjectError> {
    let set = || {
        let old = repository.target(reference)?;
        repository.update(&[RefChange { name: reference.to_owned(), old, new: Some(candidate) }])
    };
    match set() {
        // An attempt that was given up may still be at it.
        Err(ProjectError::Moved { .. }) => set(),
        done => done,
    }
}

/// Moves the tip from `base` to `candidate`. Returns `false` if it is elsewhere, and `true` also if it has the candidate
/// already, because an earlier process was killed before it wrote that down.
fn move_tip(
    repository: &ProjectRepository,
    branch: &str,
    base: &str,
    candidate: &str,
) -> Result<bool, ProjectError> {
    let (base, candidate) = (repository.find(base)?, repository.find(candidate)?);
    let tip = repository.find(branch)?;
    if repository.contains(tip, candidate)? {
        return Ok(true);
    }
    let name = format!("refs/heads/{branch}");
    match repository.update(&[RefChange { name, old: Some(base), new: Some(candidate) }]) {
        Ok(()) => Ok(true),
        Err(ProjectError::Moved { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns a line for each file that conflicts, with the newest commits of both sides.
#[must_use]
pub(super) fn conflict_lines(conflicts: &[Conflict], other: &str) -> String {
    let side = |commits: &[crate::project::CommitSummary]| {
        let one = |commit: &crate::project::CommitSummary| {
            format!(
                "{} {:?} by {}",
                commit.commit.get(..12).unwrap_or_default(),
                commit.subject,
                commit.author
            )
        };
        commits.iter().take(2).map(one).collect::<Vec<_>>().join(", ")
    };
    let line = |conflict: &Conflict| {
        format!("{}: yours {}; {other}: {}", conflict.path, side(&conflict.branch), side(&conflict.tip))
    };
    conflicts.iter().take(20).map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
#[path = "train_tests.rs"]
mod tests;
