//! One project: its tip, its branches, what was submitted and what is claimed.

pub(crate) mod diff;

use askama::Template;
use serde::Deserialize;

use super::receipts;
use crate::dashboard::format::Moment;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::texts::Texts;
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch, query};
use crate::project::short;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Project {
    name: String,
    repo: String,
    branch: String,
    setup: Option<String>,
    checks: Vec<String>,
    files: Vec<String>,
    tip: Option<Commit>,
    branches: Vec<Branch>,
    claims: Vec<Claim>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Commit {
    commit: String,
    subject: String,
}

#[derive(Deserialize)]
struct Branch {
    name: String,
    agent: String,
    task: String,
    subject: String,
    time: i64,
    ahead: usize,
    behind: usize,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Claim {
    agent: String,
    path: String,
    expires_at: i64,
}

#[derive(Deserialize)]
struct SubmissionList {
    submissions: Vec<Submission>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Submission {
    id: i64,
    agent: String,
    branch: String,
    title: String,
    state: String,
    waits_for: Option<String>,
    detail: String,
    reasons: Vec<String>,
    receipt: Option<String>,
    updated_at: i64,
}

#[derive(Template)]
#[template(path = "project.html")]
struct ProjectPage {
    layout: Layout,
    name: String,
    repo: String,
    branch: String,
    tip: String,
    setup: Option<String>,
    checks: Vec<String>,
    files: Vec<String>,
    tip_diff: String,
    branches: Vec<BranchView>,
    /// The address of the project's receipts.
    receipts: String,
    submissions: Vec<SubmissionView>,
    claims: Vec<ClaimView>,
    error: Option<String>,
}

struct BranchView {
    name: String,
    diff: String,
    subject: String,
    ahead: usize,
    behind: usize,
    at: Moment,
}

struct SubmissionView {
    number: i64,
    agent: String,
    branch: String,
    title: String,
    state: String,
    state_text: &'static str,
    detail: String,
    reasons: Vec<String>,
    /// The address of its receipt, and the part of the id that is shown.
    receipt: Option<(String, String)>,
    at: Moment,
    is_open: bool,
    waits_for_person: bool,
}

struct ClaimView {
    agent: String,
    path: String,
    until: Moment,
}

/// Returns the page of a project.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api, name: &str) -> Result<Page, ApiFailure> {
    let route = format!("/api/projects/{}", query::encoded(name));
    let project: Project = fetch(api, &route).await?;
    let listed: SubmissionList = fetch(api, &format!("{route}/submissions?limit=50")).await?;
    let texts = viewer.texts();
    let own = address(&project.name);
    let branches = project.branches.into_iter().map(|branch| BranchView {
        diff: format!(
            "{own}/diff?agent={}&branch={}",
            query::encoded(&branch.agent),
            query::encoded(&branch.task)
        ),
        name: branch.name,
        subject: branch.subject,
        ahead: branch.ahead,
        behind: branch.behind,
        at: Moment::new(branch.time),
    });
    let claims = project.claims.into_iter().map(|claim| ClaimView {
        path: if claim.path.is_empty() { texts.whole_project.to_owned() } else { claim.path },
        agent: claim.agent,
        until: Moment::new(claim.expires_at),
    });
    Page::of(&ProjectPage {
        layout: Layout::new(viewer, Some(NavItem::Projects), project.name.clone()),
        tip: project.tip.map(|tip| format!("{} {}", short(&tip.commit), tip.subject)).unwrap_or_default(),
        tip_diff: format!("{own}/diff"),
        receipts: format!("/dashboard/receipts?project={}", query::encoded(&project.name)),
        name: project.name,
        repo: project.repo,
        branch: project.branch,
        setup: project.setup,
        checks: project.checks,
        files: project.files,
        branches: branches.collect(),
        submissions: listed.submissions.into_iter().map(|found| view(texts, found)).collect(),
        claims: claims.collect(),
        error: project.error,
    })
}

fn view(texts: &'static Texts, found: Submission) -> SubmissionView {
    SubmissionView {
        number: found.id,
        agent: found.agent,
        branch: found.branch,
        title: found.title,
        state_text: state_text(texts, &found.state),
        is_open: matches!(found.state.as_str(), "queued" | "checking" | "review"),
        state: found.state,
        detail: found.detail,
        reasons: found.reasons,
        receipt: found.receipt.map(|id| (receipts::address(&id), short(&id).to_owned())),
        at: Moment::new(found.updated_at),
        waits_for_person: found.waits_for.is_some(),
    }
}

fn state_text(texts: &'static Texts, state: &str) -> &'static str {
    match state {
        "queued" => texts.work_queued,
        "checking" => texts.work_checking,
        "review" => texts.work_review,
        "proven" => texts.work_proven,
        "merged" => texts.work_merged,
        "refused" => texts.work_refused,
        "conflict" => texts.work_conflict,
        _ => texts.work_withdrawn,
    }
}

/// Returns the address of a project's page.
pub(super) fn address(name: &str) -> String {
    format!("/dashboard/projects/{}", query::encoded(name))
}
