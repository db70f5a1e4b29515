//! Projects are added, given to agents, synchronised and removed.

use serde_json::{Value, json};

use super::{Projects, ProjectsError};
use crate::clock::unix_ms;
use crate::config::{Agent, Project, SandboxMode, projects};
use crate::generation::Origin;
use crate::id::{AgentId, ProjectName};
use crate::install::source::RepositoryAddress;
use crate::project::{
    ObjectId, ProjectError, ProjectRepository, RewrittenHistory, SyncOutcome, mirror, repository,
};
use crate::swarm::{Actor, SwarmError};

/// Returns whom the generation names: the command that is this process, or in a gateway the person who asked it.
fn origin(by: &Actor, why: &str) -> Origin {
    let current = Origin::current();
    if current.by == "system" { Origin::new(by.party.to_string(), why) } else { current }
}

impl Projects {
    /// Adds a project: its repository is made from the owner's before it stands in the configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if there is one of this name, an agent can't work on it, or the owner's repository can't be read.
    pub(crate) async fn add(&self, by: &Actor, project: Project) -> Result<(), ProjectsError> {
        let _held = self.hold(&project.name).await?;
        if self.find(&project.name).is_ok() {
            return Err(ProjectsError::Exists(project.name));
        }
        let config = self.swarm.config();
        for agent in &project.agents {
            can_work(config.agent(agent), agent)?;
        }
        let (folder, repo, branch) =
            (self.folder(&project.name), project.repo.clone(), project.branch.clone());
        let made = tokio::task::spawn_blocking(move || -> Result<(), ProjectError> {
            // What an interrupted addition or removal left belongs to no project.
            repository::remove_folder(&folder)?;
            let source = RepositoryAddress::parse(&repo)?;
            let made = ProjectRepository::create(&folder, &branch)?;
            let synced = mirror::sync(&made, &source, &branch, RewrittenHistory::Stop, unix_ms() / 1000);
            if synced.is_err() {
                repository::remove_folder(&folder)?;
            }
            synced.map(drop)
        });
        made.await??;
        let (home, name) = (self.home().clone(), project.name.clone());
        let detail = format!("{} branch {}", project.repo, project.branch);
        let origin = origin(by, "project.add, by the API");
        let add = move || origin.run(|| projects::add(&home, &project));
        let added = tokio::task::spawn_blocking(add).await??;
        if !added {
            return Err(ProjectsError::Exists(name));
        }
        self.record(by, "project.add", &name, detail).await?;
        self.publish(&name, None);
        Ok(())
    }

    /// Gives agents a clone of a project, and takes it away from others. Returns those for which that changed anything.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such project or agent, or an agent has no sandbox.
    pub(crate) async fn set_assigned(
        &self,
        by: &Actor,
        name: &ProjectName,
        add: Vec<AgentId>,
        remove: Vec<AgentId>,
    ) -> Result<Vec<AgentId>, ProjectsError> {
        let project = self.find(name)?;
        let config = self.swarm.config();
        for agent in &add {
            can_work(config.agent(agent), agent)?;
        }
        for agent in &remove {
            if !project.has_agent(agent) {
                return Err(ProjectsError::NotAssigned { project: name.clone(), agent: agent.clone() });
            }
        }
        // However many agents it names, it is one generation.
        let origin = origin(by, "project.assign, by the API");
        let mut changed = Vec::new();
        for (agents, is_assigned) in [(add, true), (remove, false)] {
            for agent in agents {
                let (home, project, id) = (self.home().clone(), name.clone(), agent.clone());
                let origin = origin.clone();
                let set = move || origin.run(|| projects::set_assigned(&home, &project, &id, is_assigned));
                if !tokio::task::spawn_blocking(set).await?? {
                    continue;
                }
                let action = if is_assigned { "project.assign" } else { "project.unassign" };
                self.record(by, action, name, agent.to_string()).await?;
                if !is_assigned {
                    self.swarm.store().claims().release(name.clone(), agent.clone(), None).await?;
                }
                changed.push(agent);
            }
        }
        self.publish(name, None);
        Ok(changed)
    }

    /// Fetches what is new in the owner's repository and joins it with the tip.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such project, or the owner's repository can't be read.
    pub(crate) async fn sync(&self, by: &Actor, name: &ProjectName) -> Result<SyncOutcome, ProjectsError> {
        let project = self.find(name)?;
        let _held = self.hold(name).await?;
        let outcome = self
            .with(name, move |repository| {
                let source = RepositoryAddress::parse(&project.repo)?;
                mirror::sync(repository, &source, &project.branch, RewrittenHistory::Stop, unix_ms() / 1000)
            })
            .await?;
        let (_, detail) = described(&outcome);
        self.record(by, "project.sync", name, detail).await?;
        self.publish(name, None);
        Ok(outcome)
    }

    /// Removes a project with its repository. The owner's own repository and the agents' files stay.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such project, or something can't be removed. The same call continues.
    pub(crate) async fn remove(&self, by: &Actor, name: &ProjectName) -> Result<(), ProjectsError> {
        let _held = self.hold(name).await?;
        self.find(name)?;
        let (home, project) = (self.home().clone(), name.clone());
        // The configuration goes first: a sandbox is given no more of it, and no push arrives any more.
        let origin = origin(by, "project.remove, by the API");
        tokio::task::spawn_blocking(move || origin.run(|| projects::remove(&home, &project))).await??;
        let count = self.swarm.store().submissions().remove_project(name.clone()).await?;
        let folder = self.folder(name);
        tokio::task::spawn_blocking(move || repository::remove_folder(&folder)).await??;
        self.record(by, "project.remove", name, format!("{count} submissions")).await?;
        self.publish(name, None);
        Ok(())
    }
}

/// Refuses an agent that can't have a clone.
fn can_work(agent: Option<&Agent>, id: &AgentId) -> Result<(), ProjectsError> {
    let agent = agent.ok_or_else(|| SwarmError::NoAgent(id.clone()))?;
    if agent.sandbox == SandboxMode::Off || agent.runs_on_host() {
        return Err(ProjectsError::NoSandbox(id.clone()));
    }
    Ok(())
}

/// Returns the result of a synchronisation as the API shows it.
#[must_use]
pub(crate) fn sync_result(name: &ProjectName, outcome: &SyncOutcome) -> Value {
    let (word, message) = described(outcome);
    let mut shown = json!({"name": name, "outcome": word, "message": message});
    if let SyncOutcome::Conflicts { conflicts, .. } = outcome {
        shown["conflicts"] = json!(conflicts);
    }
    shown
}

/// Describes the result of a synchronisation: a word for programs and a text for people.
fn described(outcome: &SyncOutcome) -> (&'static str, String) {
    let short = |commit: &ObjectId| commit.to_string()[..12].to_owned();
    match outcome {
        SyncOutcome::UpToDate { .. } => ("upToDate", "the tip has everything of your branch".to_owned()),
        SyncOutcome::Began { owner } => ("began", format!("the tip begins at {}", short(owner))),
        SyncOutcome::Forwarded { owner, .. } => {
            ("forwarded", format!("the tip moved to your {}", short(owner)))
        }
        SyncOutcome::Merged { owner, tip, .. } => {
            ("merged", format!("your {} was merged into the tip, which is now {}", short(owner), short(tip)))
        }
        SyncOutcome::Conflicts { owner, conflicts } => {
            let paths: Vec<&str> = conflicts.iter().map(|conflict| conflict.path.as_str()).collect();
            let text = format!(
                "your {} conflicts with the tip in {}; land the tip and merge it there, then sync again",
                short(owner),
                paths.join(", ")
            );
            ("conflict", text)
        }
        SyncOutcome::Rewritten { before, now } => {
            let text = format!(
                "your branch was rewritten: it had {} and is now at {}; nothing was changed. Remove the project and \
                 add it again, or put the old commits back",
                short(before),
                short(now)
            );
            ("rewritten", text)
        }
    }
}
