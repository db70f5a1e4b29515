//! The tools `flock_project_status`, `flock_project_submit`, `flock_project_claim` and `flock_project_review`.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::review::asked_to_review;
use super::train::conflict_lines;
use super::{Answers, Projects, ReviewVerdict, Work, rule};
use crate::agent::prompt::without_marks;
use crate::clock::{local, unix_ms};
use crate::config::Project;
use crate::id::{AgentId, ProjectName};
use crate::store::{Claim, NewFinding};
use crate::swarm::{Actor, notice};
use crate::tool::arguments::{Argument, Arguments};
use crate::tool::function::FunctionTool;
use crate::tool::{CallContext, Tool, ToolError, ToolResult, team};

/// Returns the tools.
#[must_use]
pub fn all(projects: &Arc<Projects>) -> Vec<Arc<dyn Tool>> {
    vec![
        FunctionTool::shared(&team::PROJECT_STATUS, projects, |p, c, a| {
            Box::pin(async move { status(p, c, &a).await })
        }),
        FunctionTool::shared(&team::PROJECT_SUBMIT, projects, |p, c, a| Box::pin(submit(p, c, a))),
        FunctionTool::shared(&team::PROJECT_CLAIM, projects, |p, c, a| Box::pin(claim(p, c, a))),
        FunctionTool::shared(&team::PROJECT_REVIEW, projects, |p, c, a| Box::pin(review(p, c, a))),
    ]
}

/// Returns the project that a call names, or the only one of the agent.
fn project(projects: &Projects, agent: &AgentId, arguments: &Arguments) -> Result<Project, ToolError> {
    let name = arguments.optional::<String>("project")?.filter(|name| !name.trim().is_empty());
    let Some(name) = name else {
        return match <[Project; 1]>::try_from(projects.of(agent)) {
            Ok([only]) => Ok(only),
            Err(all) if all.is_empty() => Err(ToolError::model("you work on no project")),
            Err(all) => {
                let names: Vec<&str> = all.iter().map(|project| project.name.as_str()).collect();
                Err(ToolError::model(format!("`project` must be one of {}", names.join(", "))))
            }
        };
    };
    let name: ProjectName = name.trim().parse()?;
    Ok(projects.of_agent(&name, agent)?)
}

async fn status(projects: &Arc<Projects>, context: &CallContext, arguments: &Arguments) -> ToolResult {
    let project = project(projects, &context.agent, arguments)?;
    let shown = projects.shown(&project).await?;
    let mut text = format!(
        "{}: your clone is /workspace/{}, your branches are flock/{}/NAME, work is joined on {}.",
        project.name, project.name, context.agent, project.branch
    );
    let _ = write!(text, "\ntip {}", commit(&shown["tip"]));
    for check in &project.checks {
        let _ = write!(text, "\ncheck: {check}");
    }
    for file in &project.files {
        let _ = write!(text, "\nneeded file: {file}");
    }
    let _ = write!(text, "\nreview: {}", project.review.as_str());
    for branch in shown["branches"].as_array().into_iter().flatten() {
        let (name, ahead, behind) = (plain(&branch["name"]), &branch["ahead"], &branch["behind"]);
        let _ = write!(text, "\nbranch {name}: {ahead} ahead, {behind} behind, {}", commit(branch));
    }
    for submission in projects.submissions(&project.name, false, 15).await? {
        let waits = match rule::shown_wait(project.review, &submission) {
            Some(rule::WaitsFor::Reviewer) => ", waits for its reviewer",
            Some(rule::WaitsFor::Person) => ", waits for a person",
            None => "",
        };
        let (id, agent, state) = (submission.id, &submission.agent, submission.state.as_str());
        let title = notice::one_line(&without_marks(&submission.title));
        let _ = write!(text, "\nsubmission {id} by {agent} [{state}{waits}]: {title}");
    }
    let claims = shown["claims"].as_array().map(Vec::as_slice).unwrap_or_default();
    for claim in claims {
        let until = local(claim["expiresAt"].as_i64().unwrap_or_default());
        let path = Some(plain(&claim["path"])).filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| "everything".to_owned());
        let _ = write!(text, "\nclaimed by {} until {until}: {path}", plain(&claim["agent"]));
    }
    if let Some(error) = shown["error"].as_str() {
        tracing::warn!(project = %project.name, error, "an agent was told that a project has a problem");
        text.push_str("\nThe project has a problem; a person has to look at it.");
    }
    Ok(text)
}

async fn submit(projects: &Arc<Projects>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let project = project(projects, &context.agent, &arguments)?;
    let words = |name| -> Result<Option<String>, ToolError> {
        Ok(arguments
            .optional::<String>(name)?
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty()))
    };
    let branch = words("branch")?.map(|branch| {
        let own = format!("flock/{}/", context.agent);
        branch.strip_prefix(&own).map(str::to_owned).unwrap_or(branch)
    });
    let task = match words("taskId")? {
        Some(task) => Some(task),
        None => projects.task_of(&project.name, &context.session).await?,
    };
    let work = Work {
        agent: context.agent.clone(),
        branch,
        title: words("title")?,
        session: Some(context.session.clone()),
        task,
        answers: arguments.optional("answers")?.unwrap_or_default(),
    };
    let done = projects.submit(&Actor::call(context), &project.name, work).await?;
    let submission = done.submission;
    let mut text = format!(
        "submission {} is queued: {} at {}. The outcome comes to this session by itself: don't wait, don't ask again",
        submission.id,
        submission.branch,
        submission.commit.get(..12).unwrap_or_default()
    );
    for (branch, conflicts) in &done.conflicts {
        let lines = conflict_lines(conflicts, branch.agent.as_str());
        let lines = lines.lines().map(|line| notice::one_line(&without_marks(line))).collect::<Vec<_>>();
        let _ =
            write!(text, "\nIt conflicts with {branch}; agree with {}:\n{}", branch.agent, lines.join("\n"));
    }
    for claim in &done.claimed {
        let _ = write!(text, "\n{} is claimed by {}", claim.path, claim.agent);
    }
    Ok(text)
}

impl Argument for Answers {
    const WHAT: &'static str =
        "an object with the number of each finding and a text, or a text if one is open";

    fn take(value: &Value) -> Option<Self> {
        if let Value::String(text) = value {
            return Some(Self::ToTheOnlyOne(text.clone()));
        }
        let answer = |(number, text): (&String, &Value)| {
            Some((number.trim().parse().ok()?, text.as_str()?.to_owned()))
        };
        value.as_object()?.iter().map(answer).collect::<Option<_>>().map(Self::ByNumber)
    }
}

async fn claim(projects: &Arc<Projects>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let project = project(projects, &context.agent, &arguments)?;
    let paths: Vec<String> = arguments.optional("paths")?.unwrap_or_default();
    if arguments.optional::<bool>("release")?.unwrap_or_default() {
        projects.release(&context.agent, &project.name, &paths).await?;
        return Ok("released".to_owned());
    }
    let minutes =
        arguments.optional::<u64>("minutes")?.map(|minutes| u32::try_from(minutes).unwrap_or(u32::MAX));
    let others = projects.claim(&context.agent, &project.name, &paths, minutes).await?;
    if others.is_empty() {
        return Ok("claimed; nobody else works there".to_owned());
    }
    let line = |claim: &Claim| {
        let minutes = (claim.expires_at - unix_ms()).max(0) / 60_000;
        format!("{} works on {} (for {minutes} minutes more)", claim.agent, claim.path)
    };
    let lines: Vec<String> = others.iter().map(line).collect();
    Ok(format!("claimed, but others are there too; agree with them:\n{}", lines.join("\n")))
}

async fn review(projects: &Arc<Projects>, context: &CallContext, arguments: Arguments) -> ToolResult {
    let number = match arguments.optional::<u64>("submission")? {
        Some(number) => i64::try_from(number).unwrap_or(i64::MAX),
        None => asked_to_review(&context.session)
            .ok_or_else(|| ToolError::model("`submission` is missing: the number of what you review"))?,
    };
    let verdict = ReviewVerdict { approve: arguments.required("approve")?, findings: findings(&arguments)? };
    let is_approved = verdict.approve;
    let after = projects.review(&Actor::call(context), &context.agent, number, verdict).await?;
    Ok(match is_approved {
        true => format!("submission {number} is approved"),
        false => format!("submission {number} went back to {}", after.agent),
    })
}

fn findings(arguments: &Arguments) -> Result<Vec<NewFinding>, ToolError> {
    let Some(given) = arguments.optional::<Vec<Value>>("findings")? else { return Ok(Vec::new()) };
    let finding = |value: Value| {
        serde_json::from_value::<NewFinding>(value).map_err(|error| {
            ToolError::model(format!("`findings` holds objects {{text, path?, line?, blocking?}}: {error}"))
        })
    };
    given.into_iter().map(finding).collect()
}

fn commit(shown: &Value) -> String {
    let id = shown["commit"].as_str().unwrap_or_default();
    let subject = shown["subject"].as_str().unwrap_or_default();
    format!("{} {}", id.get(..12).unwrap_or(id), notice::one_line(&without_marks(subject)))
}

fn plain(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
