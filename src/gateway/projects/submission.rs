//! Work is submitted, withdrawn, accepted and refused.

use super::rule::{self, WaitsFor};
use super::{Projects, ProjectsError, along, news};
use crate::clean;
use crate::clock::unix_ms;
use crate::config::Project;
use crate::id::{AgentId, ProjectName, SessionKey};
use crate::project::diff::{self, DiffLimits};
use crate::project::reference::FIRST_TASK;
use crate::project::{AgentBranch, Conflict, ProjectError, ProjectRepository, merge};
use crate::store::{
    Finding, NewSubmission, Submission, SubmissionChange, SubmissionFilter, SubmissionState, TaskFilter,
};
use crate::swarm::Actor;

/// Longest title of a submission, in characters.
const MAX_TITLE: usize = 200;
/// Number of an agent's newest tasks among which that of a session is looked for.
const TASKS_LOOKED_AT: u32 = 100;
/// Longest reason of a person, in bytes.
const MAX_REASON: usize = 16 * 1024;

/// A branch to be submitted.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) agent: AgentId,
    /// The branch's name after `flock/<agent>/`. `None` is the one that is checked out in a new clone.
    pub(crate) branch: Option<String>,
    /// One line about the change. `None` takes the subject of its last commit.
    pub(crate) title: Option<String>,
    /// The session that is told the outcome.
    pub(crate) session: Option<SessionKey>,
    /// The task that it is for.
    pub(crate) task: Option<String>,
    /// The author's answers to findings.
    pub(crate) answers: Answers,
}

/// An author's answers to the findings of a review.
#[derive(Clone, Debug)]
pub(crate) enum Answers {
    /// By the numbers of the findings.
    ByNumber(Vec<(i64, String)>),
    /// To the only finding that blocks. It is no answer if there are several.
    ToTheOnlyOne(String),
}

impl Default for Answers {
    fn default() -> Self {
        Self::ByNumber(Vec::new())
    }
}

impl Answers {
    /// Returns the answers to those of the open findings that they are for.
    fn to(self, open: &[Finding]) -> Vec<(i64, String)> {
        let given = match self {
            Self::ByNumber(given) => given,
            Self::ToTheOnlyOne(text) => match rule::unanswered(open, &[])[..] {
                [only] => vec![(only.id, text)],
                _ => Vec::new(),
            },
        };
        given
            .into_iter()
            .filter(|(id, text)| !text.trim().is_empty() && open.iter().any(|finding| finding.id == *id))
            .collect()
    }
}

/// A submission that was accepted into the queue, and what its author should know at once.
#[derive(Clone, Debug)]
pub(crate) struct Submitted {
    pub(crate) submission: Submission,
    /// Other branches that it can't be joined with.
    pub(crate) conflicts: Vec<(AgentBranch, Vec<Conflict>)>,
    /// Claims of others on what it changes.
    pub(crate) claimed: Vec<crate::store::Claim>,
}

/// The facts that a submission takes from the repository.
struct Found {
    commit: String,
    subject: String,
    is_new: bool,
    paths: Vec<String>,
    conflicts: Vec<(AgentBranch, Vec<Conflict>)>,
}

impl Projects {
    /// Puts an agent's branch into the queue of the merge train.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent does not work on the project or has not pushed the branch, if the branch has nothing
    /// new, or if a blocking finding has no answer.
    pub(crate) async fn submit(
        &self,
        by: &Actor,
        name: &ProjectName,
        work: Work,
    ) -> Result<Submitted, ProjectsError> {
        let project = self.of_agent(name, &work.agent)?;
        self.check_race(name, &work.agent).await?;
        let branch = AgentBranch::new(work.agent.clone(), work.branch.as_deref().unwrap_or(FIRST_TASK))
            .map_err(|error| ProjectsError::Invalid(error.to_string()))?;
        let session = match &work.task {
            // What becomes of it is told where the task is worked on.
            Some(task) => Some(self.task_session(task, &work.agent).await?),
            None => work.session,
        };
        let found = self.read_branch(&project, &branch).await?;
        if !found.is_new {
            return Err(ProjectsError::NothingNew { project: name.clone(), branch: branch.to_string() });
        }
        self.answer_findings(name, &branch, work.answers).await?;
        let title = work.title.filter(|title| !title.trim().is_empty()).unwrap_or(found.subject);
        let title = clean::summary(&title, MAX_TITLE);
        let new = NewSubmission {
            project: name.clone(),
            agent: work.agent.clone(),
            branch: branch.to_string(),
            commit: found.commit.clone(),
            title: title.clone(),
            session,
            task: work.task,
            now: unix_ms(),
        };
        let (by, project_name, commit) = (by.clone(), name.clone(), found.commit);
        let rows = move |id: i64| {
            let subject = format!("{project_name}#{id}");
            let detail = format!("{branch} at {commit}: {title}");
            crate::store::Along::audit(by.entry(
                "project.submit",
                &subject,
                crate::store::Level::Green,
                detail,
            ))
        };
        let held = self.hold(name).await?;
        let filter = SubmissionFilter {
            project: Some(name.clone()),
            agent: Some(work.agent.clone()),
            is_open: true,
            ..Default::default()
        };
        let earlier = self.swarm.store().submissions().list(&filter, 10).await?;
        for earlier in earlier.into_iter().filter(|earlier| earlier.branch == new.branch) {
            self.settled(&project, earlier).await?;
        }
        let submission = self.swarm.store().submissions().add(new, rows).await?;
        drop(held);
        self.publish(name, Some(&submission));
        self.wake_train();
        let claims = self.swarm.store().claims().list(name, unix_ms()).await?;
        let touches = |claim: &crate::store::Claim| {
            claim.agent != submission.agent
                && found.paths.iter().any(|path| rule::overlaps(path, &claim.path))
        };
        let claimed = claims.into_iter().filter(touches).collect();
        Ok(Submitted { submission, conflicts: found.conflicts, claimed })
    }

    /// Returns the only task of a project on which a session works. `None` if there is none, or if there are several.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn task_of(
        &self,
        project: &ProjectName,
        session: &SessionKey,
    ) -> Result<Option<String>, ProjectsError> {
        let filter = TaskFilter { assignee: Some(session.agent().clone()), ..TaskFilter::default() };
        let tasks = self.swarm.store().tasks().list(&filter, TASKS_LOOKED_AT).await?;
        let mut open = tasks.into_iter().filter(|task| {
            !task.state.is_final() && task.session == *session && task.project.as_ref() == Some(project)
        });
        let first = open.next();
        Ok(first.filter(|_| open.next().is_none()).map(|task| task.id))
    }

    /// Returns the session of a task, which must be this agent's.
    async fn task_session(&self, task: &str, agent: &AgentId) -> Result<SessionKey, ProjectsError> {
        let found = self.swarm.store().tasks().find(task).await?;
        let own = found.filter(|found| found.assignee() == agent);
        let missing =
            || ProjectsError::Invalid(format!("{agent} was given no task {}", clean::summary(task, 80)));
        own.map(|found| found.session).ok_or_else(missing)
    }

    async fn read_branch(&self, project: &Project, branch: &AgentBranch) -> Result<Found, ProjectsError> {
        let (tip_name, wanted) = (project.branch.clone(), branch.clone());
        let found = self.with(&project.name, move |repository| read(repository, &tip_name, &wanted)).await?;
        let missing =
            || ProjectsError::NotPushed { project: project.name.clone(), branch: branch.to_string() };
        found.ok_or_else(missing)
    }

    /// Stores the author's answers, and refuses if a blocking finding of the branch has none.
    async fn answer_findings(
        &self,
        name: &ProjectName,
        branch: &AgentBranch,
        answers: Answers,
    ) -> Result<(), ProjectsError> {
        let submissions = self.swarm.store().submissions();
        let open = submissions.unanswered(name.as_str(), &branch.to_string()).await?;
        let answers = answers.to(&open);
        let answered: Vec<i64> = answers.iter().map(|(id, _)| *id).collect();
        let left = rule::unanswered(&open, &answered);
        if !left.is_empty() {
            let lines: Vec<String> =
                left.iter().map(|finding| format!("{} ({})", finding.id, finding.content.text)).collect();
            return Err(ProjectsError::Unanswered(lines.join("; ")));
        }
        Ok(submissions.answer(answers).await?)
    }

    /// Returns a submission of a project.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::NoSubmission`] if there is none of this number.
    pub(crate) async fn submission(
        &self,
        name: &ProjectName,
        number: i64,
    ) -> Result<Submission, ProjectsError> {
        let found = self.swarm.store().submissions().find(number).await?;
        found
            .filter(|found| found.project == *name)
            .ok_or_else(|| ProjectsError::NoSubmission { project: name.clone(), number })
    }

    /// Returns the newest submissions of a project.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn submissions(
        &self,
        name: &ProjectName,
        is_open: bool,
        limit: u32,
    ) -> Result<Vec<Submission>, ProjectsError> {
        let filter = SubmissionFilter { project: Some(name.clone()), is_open, ..Default::default() };
        Ok(self.swarm.store().submissions().list(&filter, limit).await?)
    }

    /// Accepts a submission that waits for a person.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::State`] if it waits for no person.
    pub(crate) async fn accept(
        &self,
        by: &Actor,
        name: &ProjectName,
        number: i64,
    ) -> Result<Submission, ProjectsError> {
        let project = self.find(name)?;
        let found = self.submission(name, number).await?;
        if rule::shown_wait(project.review, &found).is_none() {
            return Err(state_error(&found));
        }
        let to = SubmissionChange {
            accepted_by: Some(by.party.to_string()),
            // A person may also decide in place of the agent that was asked.
            reviewed_at: Some(unix_ms()),
            ..SubmissionChange::to(SubmissionState::Queued)
        };
        let detail = match found.reasons.as_slice() {
            [] => String::new(),
            reasons => format!("although {}", reasons.join("; ")),
        };
        let rows = along(by, "project.accept", &found, detail, Vec::new());
        self.step(&found, &[SubmissionState::Review], to, Some(rows)).await
    }

    /// Sends a submission back to its author.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::State`] if it is not on its way.
    pub(crate) async fn refuse(
        &self,
        by: &Actor,
        name: &ProjectName,
        number: i64,
        reason: &str,
    ) -> Result<Submission, ProjectsError> {
        if reason.trim().is_empty() || reason.len() > MAX_REASON {
            return Err(ProjectsError::Invalid("the reason is empty or too long".to_owned()));
        }
        let _held = self.hold(name).await?;
        let found = self.settled(&self.find(name)?, self.submission(name, number).await?).await?;
        let text = format!("{} sent it back: {reason}", by.party);
        let items: Vec<_> = news(&found, &text, unix_ms()).into_iter().collect();
        let to =
            SubmissionChange { detail: Some(text.clone()), ..SubmissionChange::to(SubmissionState::Refused) };
        let rows = along(by, "project.refuse", &found, clean::summary(reason, MAX_TITLE), items);
        self.step(&found, &SubmissionState::OPEN, to, Some(rows)).await
    }

    /// Takes a submission out of the queue.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::State`] if it is not on its way.
    pub(crate) async fn withdraw(
        &self,
        by: &Actor,
        name: &ProjectName,
        number: i64,
    ) -> Result<Submission, ProjectsError> {
        let _held = self.hold(name).await?;
        let found = self.settled(&self.find(name)?, self.submission(name, number).await?).await?;
        let text = format!("it was withdrawn by {}", by.party);
        let items = news(&found, &text, unix_ms()).into_iter().collect();
        let to = SubmissionChange { detail: Some(text), ..SubmissionChange::to(SubmissionState::Withdrawn) };
        let rows = along(by, "project.withdraw", &found, String::new(), items);
        self.step(&found, &SubmissionState::OPEN, to, Some(rows)).await
    }

    /// Changes a submission that is in one of these states, and tells everybody who has to know.
    pub(super) async fn step(
        &self,
        found: &Submission,
        from: &'static [SubmissionState],
        to: SubmissionChange,
        rows: Option<crate::store::Along>,
    ) -> Result<Submission, ProjectsError> {
        let items = rows.as_ref().map(|rows| rows.items.clone()).unwrap_or_default();
        let submissions = self.swarm.store().submissions();
        let Some(after) = submissions.step(found.id, from, to, rows, unix_ms()).await? else {
            // Somebody else was faster.
            let now = self.submission(&found.project, found.id).await?;
            return Err(state_error(&now));
        };
        self.ring(&items);
        self.publish(&after.project, Some(&after));
        if after.state == SubmissionState::Queued {
            self.wake_train();
        }
        Ok(after)
    }
}

pub(super) fn state_error(found: &Submission) -> ProjectsError {
    ProjectsError::State { project: found.project.clone(), number: found.id, state: found.state }
}

/// Returns the sentence about what a submission waits for.
#[must_use]
pub(crate) fn wait_text(wait: Option<WaitsFor>, submission: &Submission) -> Option<String> {
    Some(match wait? {
        WaitsFor::Reviewer => format!(
            "its checks passed; {} reviews it",
            submission.reviewer.as_ref().map_or("an agent", AgentId::as_str)
        ),
        WaitsFor::Person if submission.reasons.is_empty() => {
            "its checks passed; a person reviews it".to_owned()
        }
        WaitsFor::Person => {
            format!("its checks passed, but a person has to accept it: {}", submission.reasons.join("; "))
        }
    })
}

fn read(
    repository: &ProjectRepository,
    tip_name: &str,
    branch: &AgentBranch,
) -> Result<Option<Found>, ProjectError> {
    let Some(commit) = repository.branch(&branch.to_string())? else { return Ok(None) };
    let tip = repository.find(tip_name)?;
    let subject = repository.commit(commit)?.summary().ok().flatten().unwrap_or_default().to_owned();
    let is_new = !repository.contains(tip, commit)?;
    // Only the names are wanted, so no line is read.
    let limits = DiffLimits { lines: 0, bytes: 0, ..DiffLimits::default() };
    let changes = diff::branch_diff(repository, tip, commit, limits)?;
    let mut found = Found {
        commit: commit.to_string(),
        subject,
        is_new,
        paths: changes.files.into_iter().map(|file| file.path).collect(),
        conflicts: Vec::new(),
    };
    // The other branches are tried, so that both authors learn early of what they will have to solve.
    for (name, other) in repository.references(crate::project::reference::AGENT_BRANCHES)? {
        let Some(theirs) = AgentBranch::from_reference(&name) else { continue };
        if theirs.agent == branch.agent || repository.contains(tip, other)? {
            continue;
        }
        let conflicts = merge::try_merge(repository, commit, other)?;
        if !conflicts.is_empty() {
            found.conflicts.push((theirs, conflicts));
        }
    }
    Ok(Some(found))
}
