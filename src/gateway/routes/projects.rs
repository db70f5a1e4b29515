//! `/api/projects`: git repositories that agents work on, and what is submitted to them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{JsonResult, TeamState};
use crate::config::{Project, Review, projects};
use crate::gateway::auth::Caller;
use crate::gateway::body::JsonBody;
use crate::gateway::error::ApiError;
use crate::gateway::extract::{Path, Query, flag};
use crate::gateway::projects::{
    Answers, DiffTarget, Landing, Projects, ProjectsError, Work, shown_submission, sync_result,
};
use crate::id::{AgentId, ProjectName};
use crate::project::AgentBranch;
use crate::project::reference::FIRST_TASK;
use crate::swarm::Actor;

/// A project to be added.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewProject {
    pub(crate) name: ProjectName,
    /// An absolute path or a URL.
    pub(crate) repo: String,
    #[serde(default = "main_branch")]
    pub(crate) branch: String,
    #[serde(default)]
    pub(crate) agents: Vec<AgentId>,
    #[serde(default)]
    pub(crate) setup: Option<String>,
    #[serde(default)]
    pub(crate) setup_egress: Vec<String>,
    #[serde(default)]
    pub(crate) checks: Vec<String>,
    #[serde(default)]
    pub(crate) files: Vec<String>,
    #[serde(default)]
    pub(crate) check_minutes: Option<u64>,
    #[serde(default)]
    pub(crate) review: Review,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

fn main_branch() -> String {
    "main".to_owned()
}

/// A change of the agents that work on a project.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AgentsChange {
    #[serde(default)]
    pub(crate) add: Vec<AgentId>,
    #[serde(default)]
    pub(crate) remove: Vec<AgentId>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A branch that a person submits for an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct NewWork {
    pub(crate) agent: AgentId,
    #[serde(default = "first_task")]
    pub(crate) branch: String,
    #[serde(default)]
    pub(crate) title: Option<String>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

fn first_task() -> String {
    FIRST_TASK.to_owned()
}

/// A person's decision about a submission.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Verdict {
    /// The changes that are asked for.
    #[serde(default)]
    pub(crate) reason: Option<String>,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// A request to hand the tip to the owner.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct LandRequest {
    /// The branch of the owner's repository.
    #[serde(default)]
    pub(crate) branch: Option<String>,
    /// Set to get a patch instead.
    #[serde(default, rename = "patch")]
    pub(crate) as_patch: bool,
    /// Set to open a pull request for the branch.
    #[serde(default)]
    pub(crate) pull_request: bool,
    /// Name of the person, for the audit.
    #[serde(default)]
    pub(crate) by: Option<String>,
}

/// The query parameter that names the person.
#[derive(Debug, Deserialize)]
pub(crate) struct ByQuery {
    by: Option<String>,
}

/// The query parameters of a diff.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiffQuery {
    agent: Option<AgentId>,
    branch: Option<String>,
}

/// The query parameters of a log.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogQuery {
    limit: Option<usize>,
}

/// The query parameters of a list of submissions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SubmissionQuery {
    #[serde(default)]
    open: String,
    limit: Option<u32>,
}

/// The most commits of one answer, and the number without a limit.
const MAX_LOG: usize = 500;
const DEFAULT_LOG: usize = 30;
/// The most submissions of one answer, and the number without a limit.
const MAX_SUBMISSIONS: u32 = 500;
const DEFAULT_SUBMISSIONS: u32 = 50;

/// Returns the projects with what is known of them.
pub(crate) async fn list(State(team): State<TeamState>) -> JsonResult {
    Ok(axum::Json(json!({"projects": team.projects.list().await?})))
}

/// Adds a project.
pub(crate) async fn add(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    JsonBody(new): JsonBody<NewProject>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(new.by.as_deref())?;
    let project = checked(new)?;
    let name = project.name.clone();
    team.projects.add(&by, project).await?;
    Ok((StatusCode::CREATED, axum::Json(shown(&team.projects, &name).await?)))
}

fn checked(new: NewProject) -> Result<Project, ApiError> {
    let wrong =
        |param: &'static str, text: String| ApiError::invalid("invalid_project", text).with_param(param);
    if !projects::is_location(&new.repo) {
        return Err(wrong("repo", format!("{:?} is neither an absolute path nor a URL", new.repo)));
    }
    if !projects::is_branch(&new.branch) {
        return Err(wrong("branch", format!("{:?} can't be the branch that work is joined on", new.branch)));
    }
    let project = Project::new(new.name, new.repo, new.branch);
    Ok(Project {
        agents: new.agents,
        setup: new.setup,
        setup_egress: new.setup_egress,
        checks: new.checks,
        files: new.files,
        review: new.review,
        check_time: new.check_minutes.map_or(project.check_time, |minutes| Duration::from_secs(minutes * 60)),
        ..project
    })
}

async fn shown(projects: &Projects, name: &ProjectName) -> Result<Value, ProjectsError> {
    projects.shown(&projects.find(name)?).await
}

/// Returns one project.
pub(crate) async fn show(State(team): State<TeamState>, Path(name): Path<ProjectName>) -> JsonResult {
    Ok(axum::Json(shown(&team.projects, &name).await?))
}

/// Removes a project.
pub(crate) async fn remove(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ProjectName>,
    Query(ByQuery { by }): Query<ByQuery>,
) -> JsonResult {
    team.projects.remove(&caller.speaks(by.as_deref())?, &name).await?;
    Ok(axum::Json(json!({"name": name, "removed": true})))
}

/// Gives agents a clone, or takes it away.
pub(crate) async fn change_agents(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ProjectName>,
    JsonBody(wanted): JsonBody<AgentsChange>,
) -> JsonResult {
    let by = caller.speaks(wanted.by.as_deref())?;
    let changed = team.projects.set_assigned(&by, &name, wanted.add, wanted.remove).await?;
    let agents = team.projects.find(&name)?.agents;
    Ok(axum::Json(json!({"name": name, "agents": agents, "changed": changed})))
}

/// Fetches what is new in the owner's repository.
pub(crate) async fn sync(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ProjectName>,
    Query(ByQuery { by }): Query<ByQuery>,
) -> JsonResult {
    let outcome = team.projects.sync(&caller.speaks(by.as_deref())?, &name).await?;
    Ok(axum::Json(sync_result(&name, &outcome)))
}

/// Returns what an agent's branch changes, or what the tip has that the owner's branch lacks.
pub(crate) async fn diff(
    State(team): State<TeamState>,
    Path(name): Path<ProjectName>,
    Query(query): Query<DiffQuery>,
) -> JsonResult {
    let target = match query.agent {
        None => DiffTarget::Tip,
        Some(agent) => {
            let branch = AgentBranch::new(agent, query.branch.as_deref().unwrap_or(FIRST_TASK));
            DiffTarget::Branch(branch.map_err(|error| ProjectsError::Invalid(error.to_string()))?)
        }
    };
    let (branch, diff) = team.projects.diff(&name, target).await?;
    let mut shown = json!(diff);
    shown["project"] = json!(name);
    shown["branch"] = json!(branch);
    Ok(axum::Json(shown))
}

/// Returns the newest commits of the tip.
pub(crate) async fn log(
    State(team): State<TeamState>,
    Path(name): Path<ProjectName>,
    Query(LogQuery { limit }): Query<LogQuery>,
) -> JsonResult {
    let commits = team.projects.log(&name, limit.unwrap_or(DEFAULT_LOG).min(MAX_LOG)).await?;
    Ok(axum::Json(json!({"project": name, "commits": commits})))
}

/// Returns what was submitted, newest first.
pub(crate) async fn submissions(
    State(team): State<TeamState>,
    Path(name): Path<ProjectName>,
    Query(query): Query<SubmissionQuery>,
) -> JsonResult {
    let project = team.projects.find(&name)?;
    let limit = query.limit.unwrap_or(DEFAULT_SUBMISSIONS).min(MAX_SUBMISSIONS);
    let found = team.projects.submissions(&name, flag("open", &query.open)?, limit).await?;
    let shown: Vec<Value> = found.iter().map(|submission| shown_submission(&project, submission)).collect();
    Ok(axum::Json(json!({"submissions": shown})))
}

/// Submits an agent's branch.
pub(crate) async fn submit(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ProjectName>,
    JsonBody(new): JsonBody<NewWork>,
) -> Result<(StatusCode, axum::Json<Value>), ApiError> {
    let by = caller.speaks(new.by.as_deref())?;
    let project = team.projects.find(&name)?;
    let work = Work {
        agent: new.agent,
        branch: Some(new.branch),
        title: new.title,
        session: None,
        task: None,
        answers: Answers::default(),
    };
    let done = team.projects.submit(&by, &name, work).await?;
    Ok((StatusCode::CREATED, axum::Json(shown_submission(&project, &done.submission))))
}

/// Returns one submission with its findings.
pub(crate) async fn submission(
    State(team): State<TeamState>,
    Path((name, number)): Path<(ProjectName, i64)>,
) -> JsonResult {
    let project = team.projects.find(&name)?;
    let found = team.projects.submission(&name, number).await?;
    let mut shown = shown_submission(&project, &found);
    shown["findings"] = json!(team.projects.findings(number).await?);
    Ok(axum::Json(shown))
}

/// Accepts a submission that waits for a person.
pub(crate) async fn accept(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path((name, number)): Path<(ProjectName, i64)>,
    JsonBody(verdict): JsonBody<Verdict>,
) -> JsonResult {
    let by = caller.speaks(verdict.by.as_deref())?;
    let done = team.projects.accept(&by, &name, number).await?;
    decided(&team.projects, &name, &done)
}

/// Sends a submission back to its author.
pub(crate) async fn refuse(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path((name, number)): Path<(ProjectName, i64)>,
    JsonBody(verdict): JsonBody<Verdict>,
) -> JsonResult {
    let by = caller.speaks(verdict.by.as_deref())?;
    let reason = verdict.reason.unwrap_or_default();
    let done = team.projects.refuse(&by, &name, number, &reason).await?;
    decided(&team.projects, &name, &done)
}

/// Takes a submission out of the queue.
pub(crate) async fn withdraw(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path((name, number)): Path<(ProjectName, i64)>,
    JsonBody(verdict): JsonBody<Verdict>,
) -> JsonResult {
    let by: Actor = caller.speaks(verdict.by.as_deref())?;
    let done = team.projects.withdraw(&by, &name, number).await?;
    decided(&team.projects, &name, &done)
}

fn decided(
    projects: &Arc<Projects>,
    name: &ProjectName,
    submission: &crate::store::Submission,
) -> JsonResult {
    Ok(axum::Json(shown_submission(&projects.find(name)?, submission)))
}

/// Hands the tip to the owner.
pub(crate) async fn land(
    State(team): State<TeamState>,
    Extension(caller): Extension<Caller>,
    Path(name): Path<ProjectName>,
    JsonBody(wanted): JsonBody<LandRequest>,
) -> JsonResult {
    let by = caller.speaks(wanted.by.as_deref())?;
    let landing = match (wanted.as_patch, wanted.pull_request) {
        (true, true) => {
            let text = "a patch and a pull request exclude each other";
            return Err(ApiError::invalid("invalid_landing", text));
        }
        (true, false) => Landing::Patch,
        (false, true) => Landing::PullRequest(wanted.branch),
        (false, false) => Landing::Branch(wanted.branch),
    };
    Ok(axum::Json(team.projects.land(&by, &name, landing).await?))
}
