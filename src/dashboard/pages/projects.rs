//! The list of projects.

use askama::Template;
use serde::Deserialize;

use super::project::address;
use crate::dashboard::layout::{Layout, NavItem};
use crate::dashboard::{Api, ApiFailure, Page, Viewer, fetch};
use crate::project::short;

#[derive(Deserialize)]
struct ProjectList {
    projects: Vec<Project>,
}

#[derive(Deserialize)]
struct Project {
    name: String,
    repo: String,
    branch: String,
    agents: Vec<String>,
    tip: Option<Commit>,
    submissions: Vec<serde_json::Value>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Commit {
    commit: String,
    subject: String,
}

#[derive(Template)]
#[template(path = "projects.html")]
struct ProjectsPage {
    layout: Layout,
    projects: Vec<ProjectView>,
}

struct ProjectView {
    name: String,
    address: String,
    repo: String,
    branch: String,
    agents: String,
    tip: String,
    open: usize,
    error: Option<String>,
}

/// Returns the page.
pub(crate) async fn page(viewer: &Viewer, api: &dyn Api) -> Result<Page, ApiFailure> {
    let listed: ProjectList = fetch(api, "/api/projects").await?;
    let projects = listed.projects.into_iter().map(|project| ProjectView {
        address: address(&project.name),
        name: project.name,
        repo: project.repo,
        branch: project.branch,
        agents: project.agents.join(", "),
        tip: project.tip.map(|tip| format!("{} {}", short(&tip.commit), tip.subject)).unwrap_or_default(),
        open: project.submissions.len(),
        error: project.error,
    });
    let layout = Layout::new(viewer, Some(NavItem::Projects), viewer.texts().projects);
    Page::of(&ProjectsPage { layout, projects: projects.collect() })
}
