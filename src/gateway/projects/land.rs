//! The tip is handed to the owner: as a branch of the owner's repository, as a patch, or as a pull request. The branch
//! that work is joined on is never moved there.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Projects, ProjectsError};
use crate::clean;
use crate::config::Project;
use crate::id::ProjectName;
use crate::install::source::RepositoryAddress;
use crate::project::{ProjectError, landing, short};
use crate::swarm::Actor;

/// The longest time that git or gh may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Longest part of a program's output in an error, in characters.
const MAX_OUTPUT: usize = 500;

/// The form in which the tip is handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Landing {
    /// A branch of the owner's repository, by its name. `None` is `flock/<project>`.
    Branch(Option<String>),
    /// A patch for `git am`.
    Patch,
    /// The same branch, with a pull request.
    PullRequest(Option<String>),
}

impl Projects {
    /// Hands the tip to the owner. Returns what was done, as the API shows it.
    ///
    /// # Errors
    ///
    /// Returns an error if there is nothing to land, or the owner's repository does not take the branch.
    pub(crate) async fn land(
        &self,
        by: &Actor,
        name: &ProjectName,
        landing: Landing,
    ) -> Result<Value, ProjectsError> {
        let project = self.find(name)?;
        let branch = project.branch.clone();
        let found = self.with(name, move |repository| landing::prepare(repository, &branch)).await?;
        let Some(found) = found else {
            let hint = format!("flock project log {}", project.name);
            return Err(not_landed(&project, "your branch has everything of it", &hint));
        };
        let answer = match landing {
            Landing::Patch => json!({"patch": found.patch, "commit": found.tip, "message": found.stat}),
            Landing::Branch(wanted) => {
                let branch = self.push(&project, wanted, &found.tip).await?;
                let message =
                    format!("{branch} of {} is at {}: {}", project.repo, short(&found.tip), found.stat);
                json!({"branch": branch, "commit": found.tip, "message": message})
            }
            Landing::PullRequest(wanted) => {
                let branch = self.push(&project, wanted, &found.tip).await?;
                let url = open_pull_request(&project, &branch, &found).await?;
                json!({"branch": branch, "commit": found.tip, "url": url, "message": format!("opened {url}")})
            }
        };
        let detail = clean::summary(answer["message"].as_str().unwrap_or_default(), MAX_OUTPUT);
        self.record(by, "project.land", name, detail).await?;
        self.publish(name, None);
        Ok(answer)
    }

    /// Pushes the tip to a branch of the owner's repository. Returns the branch's name.
    async fn push(
        &self,
        project: &Project,
        wanted: Option<String>,
        tip: &str,
    ) -> Result<String, ProjectsError> {
        let branch = wanted.unwrap_or_else(|| format!("flock/{}", project.name));
        let is_valid = git2::Reference::is_valid_name(&format!("refs/heads/{branch}"));
        if !is_valid || branch.starts_with('-') {
            return Err(ProjectsError::Invalid(format!("{branch:?} can't be the name of a branch")));
        }
        if branch == project.branch {
            let reason = format!("{branch} is your own branch, which flock never moves");
            return Err(not_landed(project, &reason, "flock project land --help"));
        }
        let address = RepositoryAddress::parse(&project.repo).map_err(ProjectError::from)?;
        let folder = self.folder(&project.name);
        let refspec = format!("{tip}:refs/heads/{branch}");
        // Not forced: commits that somebody else added to the branch are never lost.
        let arguments = ["push", "--porcelain", address.as_str(), &refspec];
        let git = program("git", project)?;
        match run(&git, &folder, &arguments).await {
            Ok(_) => Ok(branch),
            Err(output) => {
                let hint = format!("git push {} {refspec}", address.as_str());
                Err(ProjectsError::NotLanded { project: project.name.clone(), reason: output, hint })
            }
        }
    }
}

/// Opens a pull request with GitHub's program, which has the owner's own login. Returns its URL.
async fn open_pull_request(
    project: &Project,
    branch: &str,
    found: &landing::Prepared,
) -> Result<String, ProjectsError> {
    let gh = program("gh", project)?;
    let title = found.title.as_str();
    let body = format!("{}\n\n{}", found.log, found.stat);
    let arguments = [
        "pr",
        "create",
        "--repo",
        &project.repo,
        "--head",
        branch,
        "--base",
        &project.branch,
        "--title",
        title,
        "--body",
        &body,
    ];
    let text = run(&gh, Path::new("/"), &arguments).await.map_err(|output| ProjectsError::NotLanded {
        project: project.name.clone(),
        reason: format!("the branch {branch} is there, but no pull request: {output}"),
        hint: "gh auth status".to_owned(),
    })?;
    // The last line is the URL; what comes before are notes.
    Ok(text.lines().rev().find(|line| line.starts_with("https://")).unwrap_or(text.trim()).to_owned())
}

fn program(name: &str, project: &Project) -> Result<PathBuf, ProjectsError> {
    let missing = |_| {
        let reason = format!("the program {name} is not installed");
        not_landed(project, &reason, &format!("install {name}, or use --patch"))
    };
    which::which(name).map_err(missing)
}

/// Runs a program of the owner with the owner's own settings and logins, and without questions. Returns its output, or as
/// an error what it said.
async fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = tokio::process::Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GH_PROMPT_DISABLED", "1")
        .env("GIT_DIR", folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if program.file_stem().is_some_and(|name| name == "gh") {
        command.env_remove("GIT_DIR");
    }
    let ended = tokio::time::timeout(TIMEOUT, command.output()).await;
    let output = ended.map_err(|_| "it took longer than 5 minutes".to_owned())?;
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let said = format!("{text} {}", String::from_utf8_lossy(&output.stderr));
    Err(clean::summary(&said, MAX_OUTPUT))
}

fn not_landed(project: &Project, reason: &str, hint: &str) -> ProjectsError {
    ProjectsError::NotLanded {
        project: project.name.clone(),
        reason: reason.to_owned(),
        hint: hint.to_owned(),
    }
}
