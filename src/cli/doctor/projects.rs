//! Checks of projects: flock's repositories, the owner's, and the merge train.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use crate::config::{Config, Project};
use crate::error::{Explain as _, chain};
use crate::home::Home;
use crate::project::ProjectRepository;
use crate::receipt::key::SigningKey;
use crate::supervise::gateway_client::Client;

const NAME: &str = "project";
/// The longest wait for the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the repositories of each project, and the key that signs receipts.
pub(super) fn all(home: &Home, config: &Config) -> Vec<Check> {
    config.projects.iter().map(|project| check(home, project)).chain(key(home)).collect()
}

/// Names a key for receipts that can't be used: no work could be proven with it.
fn key(home: &Home) -> Option<Check> {
    let error = SigningKey::read(home).err()?;
    let mend = error.hint().unwrap_or_else(|| "flock receipt key".to_owned());
    Some(Check::bad("receipt", chain(&error), mend))
}

fn check(home: &Home, project: &Project) -> Check {
    let name = &project.name;
    let again = format!("flock project remove {name}");
    let found = ProjectRepository::open(&home.project_repository(name))
        .and_then(|repository| repository.find(&project.branch));
    if let Err(error) = found {
        return Check::bad(NAME, format!("{name}: {}; remove it and add it again", chain(&error)), again);
    }
    let is_path = Path::new(&project.repo).is_absolute();
    if is_path && !Path::new(&project.repo).exists() {
        let text =
            format!("{name}: your repository {} is gone, so nothing can be synchronised", project.repo);
        return Check::warn(NAME, text, "flock config get plugins.entries.flock.config.projects".to_owned());
    }
    let agents = match project.agents.len() {
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    };
    Check::ok(NAME, format!("{name}: {agents}"))
}

/// Names the projects whose merge train waits, by what a running gateway says.
pub(super) async fn waiting(gateway: &Client) -> Vec<Check> {
    // A gateway that does not answer is reported by its own check.
    let Ok(found) = gateway.get_json::<Value>("/api/projects", TIMEOUT).await else { return Vec::new() };
    let projects = found["projects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let problem = |project: &Value| {
        let (name, error) = (project["name"].as_str()?, project["error"].as_str()?);
        Some(Check::warn(NAME, format!("{name}: {error}"), format!("flock project show {name}")))
    };
    projects.iter().filter_map(problem).collect()
}
