//! What is shown of a project.

use serde_json::{Value, json};

use super::{Projects, ProjectsError, rule};
use crate::clock::unix_ms;
use crate::config::Project;
use crate::error::chain;
use crate::id::{AgentId, ProjectName};
use crate::project::diff::{self, DiffLimits};
use crate::project::{AgentBranch, BranchDiff, BranchSummary, CommitSummary, Overview, overview};
use crate::store::Submission;

/// The most submissions that are shown with a project.
const MAX_OPEN: u32 = 100;

/// The two sides of a diff.
#[derive(Clone, Debug)]
pub(crate) enum DiffTarget {
    /// The changes that an agent's branch brings to the tip.
    Branch(AgentBranch),
    /// The changes of the tip that the owner's branch lacks.
    Tip,
}

impl Projects {
    /// Returns all projects with what is known of them. One whose repository can't be read is shown with the error.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn list(&self) -> Result<Vec<Value>, ProjectsError> {
        let mut shown = Vec::new();
        for project in &self.swarm.config().projects {
            shown.push(self.shown(project).await?);
        }
        Ok(shown)
    }

    /// Returns a short account of each project, without a look into its repository.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn summaries(&self) -> Result<Vec<Value>, ProjectsError> {
        let mut found = Vec::new();
        for project in &self.swarm.config().projects {
            let open = self.submissions(&project.name, true, MAX_OPEN).await?;
            let waits = |submission: &&Submission| {
                rule::shown_wait(project.review, submission) == Some(rule::WaitsFor::Person)
            };
            found.push(json!({
                "name": project.name,
                "agents": project.agents.len(),
                "open": open.len(),
                "waitForPerson": open.iter().filter(waits).count(),
                "problem": self.trouble(&project.name),
            }));
        }
        Ok(found)
    }

    /// Returns a project with its tip, its branches, what is submitted and what is claimed.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub(crate) async fn shown(&self, project: &Project) -> Result<Value, ProjectsError> {
        let open = self.submissions(&project.name, true, MAX_OPEN).await?;
        let claims = self.swarm.store().claims().list(&project.name, unix_ms()).await?;
        let overview = self.overview(project).await;
        let mut error = overview.as_ref().err().map(|error| chain(error));
        let overview = overview.ok();
        if let Some(trouble) = self.trouble(&project.name) {
            error = Some(format!("the merge train waits: {trouble}"));
        }
        let branches = overview.iter().flat_map(|overview| &overview.agents);
        let branches: Vec<Value> = branches.map(|(branch, found)| shown_branch(branch, found)).collect();
        let submissions: Vec<Value> =
            open.iter().map(|submission| shown_submission(project, submission)).collect();
        Ok(json!({
            "name": project.name,
            "repo": project.repo,
            "branch": project.branch,
            "agents": project.agents,
            "setup": project.setup,
            "setupEgress": project.setup_egress,
            "checks": project.checks,
            "files": project.files,
            "checkMinutes": project.check_time.as_secs() / 60,
            "review": project.review,
            "tip": overview.as_ref().and_then(|overview| overview.tip.as_ref()).map(shown_commit),
            "owner": overview.as_ref().and_then(|overview| overview.owner.as_ref()).map(|owner| {
                let mut shown = shown_commit(&owner.head);
                shown["ahead"] = json!(owner.ahead);
                shown["behind"] = json!(owner.behind);
                shown
            }),
            "branches": branches,
            "submissions": submissions,
            "claims": claims,
            "error": error,
        }))
    }

    async fn overview(&self, project: &Project) -> Result<Overview, ProjectsError> {
        let branch = project.branch.clone();
        self.with(&project.name, move |repository| overview::overview(repository, &branch)).await
    }

    /// Returns the changes between two sides of a project, with the names of both.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such project or branch, or the repository can't be read.
    pub(crate) async fn diff(
        &self,
        name: &ProjectName,
        target: DiffTarget,
    ) -> Result<(String, BranchDiff), ProjectsError> {
        let project = self.find(name)?;
        let branch = project.branch.clone();
        let missing = match &target {
            DiffTarget::Branch(branch) => {
                ProjectsError::NotPushed { project: name.clone(), branch: branch.to_string() }
            }
            DiffTarget::Tip => ProjectsError::NotPushed { project: name.clone(), branch: branch.clone() },
        };
        let found = self
            .with(name, move |repository| {
                let tip = repository.find(&branch)?;
                let (base, head, shown) = match &target {
                    DiffTarget::Branch(own) => {
                        (Some(tip), repository.branch(&own.to_string())?, own.to_string())
                    }
                    DiffTarget::Tip => (repository.owner()?, Some(tip), branch.clone()),
                };
                let (Some(base), Some(head)) = (base, head) else { return Ok(None) };
                diff::branch_diff(repository, base, head, DiffLimits::default())
                    .map(|diff| Some((shown, diff)))
            })
            .await?;
        found.ok_or(missing)
    }

    /// Returns the newest commits of the tip.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such project, or the repository can't be read.
    pub(crate) async fn log(&self, name: &ProjectName, limit: usize) -> Result<Vec<Value>, ProjectsError> {
        let branch = self.find(name)?.branch;
        let commits = self
            .with(name, move |repository| overview::log(repository, repository.find(&branch)?, None, limit))
            .await?;
        Ok(commits.iter().map(shown_commit).collect())
    }

    /// Returns the projects of an agent.
    pub(crate) fn of(&self, agent: &AgentId) -> Vec<Project> {
        let config = self.swarm.config();
        config.projects.iter().filter(|project| project.has_agent(agent)).cloned().collect()
    }
}

/// Returns a submission as programs see it.
#[must_use]
pub(crate) fn shown_submission(project: &Project, submission: &Submission) -> Value {
    let mut shown = json!(submission);
    shown["waitsFor"] = json!(rule::shown_wait(project.review, submission));
    shown
}

fn shown_commit(commit: &CommitSummary) -> Value {
    json!({
        "commit": commit.commit,
        "subject": commit.subject,
        "author": commit.author,
        // Everything else in the API is in milliseconds.
        "time": commit.authored_at.saturating_mul(1000),
    })
}

fn shown_branch(branch: &AgentBranch, found: &BranchSummary) -> Value {
    let mut shown = shown_commit(&found.head);
    shown["name"] = json!(branch.to_string());
    shown["agent"] = json!(branch.agent);
    shown["task"] = json!(branch.task());
    shown["ahead"] = json!(found.ahead);
    shown["behind"] = json!(found.behind);
    shown
}
