//! The submissions of the copies of a race: they are checked as all others, and wait for the decision instead of being
//! merged.

use super::train::UNMERGED;
use super::{Projects, ProjectsError, along, news};
use crate::clock::unix_ms;
use crate::config::Project;
use crate::id::{AgentId, ProjectName};
use crate::project::BranchDiff;
use crate::project::diff::{self, DiffLimits};
use crate::store::{RacePlace, Submission, SubmissionChange, SubmissionFilter, SubmissionState};
use crate::swarm::Actor;

/// The states of a submission that the merge train works on.
const UNDER_WAY: &[SubmissionState] =
    &[SubmissionState::Queued, SubmissionState::Checking, SubmissionState::Review];

impl Projects {
    /// Returns the place of an agent in a race for this project that is not decided.
    pub(super) async fn racing(
        &self,
        name: &ProjectName,
        agent: &AgentId,
    ) -> Result<Option<RacePlace>, ProjectsError> {
        let place = self.swarm.store().races().place(agent).await?;
        Ok(place.filter(|place| place.is_running() && place.project == *name))
    }

    /// Refuses a submission of a copy that has delivered already, or that is about another project than its race.
    pub(super) async fn check_race(&self, name: &ProjectName, agent: &AgentId) -> Result<(), ProjectsError> {
        let place = self.swarm.store().races().place(agent).await?;
        let Some(place) = place.filter(RacePlace::is_running) else { return Ok(()) };
        let RacePlace { race, project, number, .. } = place;
        if project != *name {
            let text = format!("race {race} is about {project}, and nothing else is submitted meanwhile");
            return Err(ProjectsError::Forbidden(text));
        }
        let found = self.swarm.store().races().find(race).await?;
        let copy = found.as_ref().and_then(|race| race.copy(number));
        for (agent, _) in copy.into_iter().flat_map(|copy| &copy.agents) {
            if let Some(proven) = self.proven_of(name, agent).await? {
                let text = format!("submission {} is the result of this copy already", proven.id);
                return Err(ProjectsError::Forbidden(text));
            }
        }
        Ok(())
    }

    /// Returns the submission of an agent that waits for the decision of a race.
    pub(crate) async fn proven_of(
        &self,
        name: &ProjectName,
        agent: &AgentId,
    ) -> Result<Option<Submission>, ProjectsError> {
        let all = self.of_racer(name, agent).await?;
        Ok(all.into_iter().find(|found| found.state == SubmissionState::Proven))
    }

    /// Returns the newest submissions of an agent to a project.
    pub(crate) async fn of_racer(
        &self,
        name: &ProjectName,
        agent: &AgentId,
    ) -> Result<Vec<Submission>, ProjectsError> {
        let filter = SubmissionFilter {
            project: Some(name.clone()),
            agent: Some(agent.clone()),
            ..SubmissionFilter::default()
        };
        Ok(self.swarm.store().submissions().list(&filter, 100).await?)
    }

    /// Writes down that a submission of a race passed its checks.
    pub(super) async fn proven(
        &self,
        checked: &Submission,
        receipt: Option<String>,
        reasons: Vec<String>,
        place: &RacePlace,
    ) -> Result<(), ProjectsError> {
        let text = format!("its checks passed; it waits for the decision of race {}", place.race);
        let to = SubmissionChange {
            detail: Some(text.clone()),
            receipt,
            reasons: Some(reasons),
            checked: checked.candidate.clone(),
            ..SubmissionChange::to(SubmissionState::Proven)
        };
        let items = news(checked, &text, unix_ms()).into_iter().collect();
        let rows = along(&Actor::system(), "race.prove", checked, format!("race {}", place.race), items);
        const FROM: &[SubmissionState] = &[SubmissionState::Queued, SubmissionState::Checking];
        self.step(checked, FROM, to, Some(rows)).await.map(drop)
    }

    /// Returns the tip of a project, with which everything of a race is joined.
    ///
    /// # Errors
    ///
    /// Returns an error if the repository can't be read.
    pub(crate) async fn tip(&self, project: &Project) -> Result<String, ProjectsError> {
        let branch = project.branch.clone();
        self.with(&project.name, move |repository| repository.find(&branch).map(|tip| tip.to_string())).await
    }

    /// Returns what a submission changes, without the lines.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such project, or the repository can't be read.
    pub(crate) async fn change_of(&self, found: &Submission) -> Result<BranchDiff, ProjectsError> {
        let project = self.find(&found.project)?;
        let (branch, base, commit) = (project.branch, found.base.clone(), found.commit.clone());
        self.with(&found.project, move |repository| {
            let base = repository.find(base.as_ref().unwrap_or(&branch))?;
            let limits = DiffLimits { bytes: 0, ..DiffLimits::default() };
            diff::branch_diff(repository, base, repository.find(&commit)?, limits)
        })
        .await
    }

    /// Puts the submission that won into the queue of the merge train. Does nothing if it is there already.
    pub(crate) async fn release_winner(&self, race: i64, found: &Submission) -> Result<(), ProjectsError> {
        let text = format!("it has won race {race}, and goes on to be merged");
        let to = SubmissionChange { detail: Some(text), ..SubmissionChange::to(SubmissionState::Queued) };
        let rows = along(&Actor::system(), "race.merge", found, format!("race {race}"), Vec::new());
        unless_changed(self.step(found, &[SubmissionState::Proven], to, Some(rows)).await)
    }

    /// Takes the submission that had won out of the queue, because a person has chosen another one.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::State`] if it is merged.
    pub(crate) async fn hold_back(&self, by: &Actor, number: i64) -> Result<(), ProjectsError> {
        let Some(found) = self.swarm.store().submissions().find(number).await? else { return Ok(()) };
        let project = self.find(&found.project)?;
        let _held = self.hold(&found.project).await?;
        let found = self.settled(&project, found).await?;
        if found.state == SubmissionState::Merged {
            return Err(super::submission::state_error(&found));
        }
        let text = "it waits, because a person has chosen another copy of its race".to_owned();
        let to = SubmissionChange { detail: Some(text), ..SubmissionChange::to(SubmissionState::Proven) };
        let rows = along(by, "race.hold", &found, String::new(), Vec::new());
        unless_changed(self.step(&found, UNDER_WAY, to, Some(rows)).await)
    }

    /// Withdraws what an agent that lost a race has submitted. With `all`, also what has passed its checks, which a person
    /// could still choose.
    pub(crate) async fn withdraw_racer(
        &self,
        name: &ProjectName,
        agent: &AgentId,
        (all, why): (bool, &str),
    ) -> Result<(), ProjectsError> {
        let project = self.find(name)?;
        for found in self.of_racer(name, agent).await? {
            if stays(&found, all) {
                continue;
            }
            let _held = self.hold(name).await?;
            let mut found = self.submission(name, found.id).await?;
            // The tip may have got it before the right was here.
            if UNMERGED.contains(&found.state) {
                found = self.settled(&project, found).await?;
            }
            if stays(&found, all) {
                continue;
            }
            let to = SubmissionChange {
                detail: Some(why.to_owned()),
                ..SubmissionChange::to(SubmissionState::Withdrawn)
            };
            let rows = along(&Actor::system(), "project.withdraw", &found, why.to_owned(), Vec::new());
            unless_changed(self.step(&found, &SubmissionState::OPEN, to, Some(rows)).await)?;
            self.forget(&found).await?;
        }
        Ok(())
    }

    /// Removes the branches of an agent that is dropped.
    pub(crate) async fn remove_branches(
        &self,
        name: &ProjectName,
        agent: &AgentId,
    ) -> Result<(), ProjectsError> {
        let prefix = format!("refs/heads/flock/{agent}/");
        self.with(name, move |repository| {
            for (name, old) in repository.references(&prefix)? {
                repository.update(&[crate::project::RefChange { name, old: Some(old), new: None }])?;
            }
            Ok(())
        })
        .await
    }
}

/// Returns `true` if a submission of a copy that lost stays what it is.
fn stays(found: &Submission, all: bool) -> bool {
    !found.state.is_open() || (found.state == SubmissionState::Proven && !all)
}

/// Passes over a submission that somebody else has changed meanwhile.
fn unless_changed(done: Result<Submission, ProjectsError>) -> Result<(), ProjectsError> {
    match done {
        Ok(_) | Err(ProjectsError::State { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
