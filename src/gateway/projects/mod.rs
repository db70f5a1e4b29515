//! The projects of a home: their repositories, what agents submit to them, and the merge train that joins it with the
//! tip. The HTTP API, the tools of agents and the command line work through [`Projects`].
//!
//! | file | subject |
//! |---|---|
//! | [`change`] | projects are added, assigned, synchronised and removed |
//! | [`look`] | what is shown of a project |
//! | [`submission`] | work is submitted, withdrawn, accepted and refused |
//! | [`claim`] | agents announce what they work on |
//! | [`review`] | an agent reviews the work of another |
//! | [`train`] | submissions are joined with the tip, one after the other |
//! | [`checks`] | trees are checked in throw-away sandboxes |
//! | [`race`] | the submissions of the copies of a race |
//! | [`land`] | the tip is handed to the owner |
//! | [`right`] | one at a time changes a project, of all gateways |
//! | [`rule`] | the decisions about submissions, without effects |
//! | [`tools`] | the tools of agents |

mod change;
mod checks;
mod claim;
mod error;
mod land;
mod look;
mod race;
mod review;
mod right;
pub(crate) mod rule;
mod submission;
pub mod tools;
pub(crate) mod train;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::watch;

pub(crate) use change::sync_result;
pub(crate) use checks::SandboxChecks;
pub(crate) use error::ProjectsError;
pub(crate) use land::Landing;
pub(crate) use look::{DiffTarget, shown_submission};
pub(crate) use review::ReviewVerdict;
pub(crate) use submission::{Answers, Work};

use crate::clock::unix_ms;
use crate::config::Project;
use crate::home::Home;
use crate::id::{AgentId, ProjectName, SessionKey};
use crate::project::{ProjectError, ProjectRepository};
use crate::store::{Along, InboxItemKind, Level, NewInboxItem, Submission};
use crate::swarm::scheduler::Priority;
use crate::swarm::{Actor, Swarm};
use crate::sync::lock;

/// The projects of a home.
pub struct Projects {
    swarm: Arc<Swarm>,
    /// One lock for each project: its tip and its queue are changed by one at a time. Other gateways are kept out by a file.
    held: Mutex<HashMap<ProjectName, Arc<tokio::sync::Mutex<()>>>>,
    /// Counts up when something may be next in a queue.
    queued: watch::Sender<u64>,
    /// Why the merge train of a project waits.
    troubles: Mutex<HashMap<ProjectName, String>>,
}

impl Projects {
    /// Creates the service of a team. It reads and writes nothing yet.
    #[must_use]
    pub fn new(swarm: Arc<Swarm>) -> Self {
        Self { swarm, held: Mutex::default(), queued: watch::Sender::default(), troubles: Mutex::default() }
    }

    /// Returns the project of this name.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::Unknown`] if there is none.
    pub(crate) fn find(&self, name: &ProjectName) -> Result<Project, ProjectsError> {
        let config = self.swarm.config();
        let found = config.projects.iter().find(|project| project.name == *name).cloned();
        found.ok_or_else(|| ProjectsError::Unknown(name.clone()))
    }

    /// Returns the project of this name, which this agent works on.
    ///
    /// # Errors
    ///
    /// Returns [`ProjectsError::NotAssigned`] if it does not, also if there is no such project: an agent does not learn
    /// which ones there are.
    pub(crate) fn of_agent(&self, name: &ProjectName, agent: &AgentId) -> Result<Project, ProjectsError> {
        let missing = || ProjectsError::NotAssigned { project: name.clone(), agent: agent.clone() };
        let found = self.find(name).map_err(|_| missing())?;
        if found.has_agent(agent) { Ok(found) } else { Err(missing()) }
    }

    fn home(&self) -> &Home {
        self.swarm.home()
    }

    fn folder(&self, name: &ProjectName) -> PathBuf {
        self.home().project_repository(name)
    }

    /// Works on the project's repository, on a thread that may block.
    async fn with<T: Send + 'static>(
        &self,
        name: &ProjectName,
        work: impl FnOnce(&ProjectRepository) -> Result<T, ProjectError> + Send + 'static,
    ) -> Result<T, ProjectsError> {
        let folder = self.folder(name);
        let done = tokio::task::spawn_blocking(move || work(&ProjectRepository::open(&folder)?));
        Ok(done.await??)
    }

    /// Returns a receiver that is told when something may be next in a queue.
    fn queued(&self) -> watch::Receiver<u64> {
        self.queued.subscribe()
    }

    /// Says that something may be next in a queue.
    fn wake_train(&self) {
        self.queued.send_modify(|count| *count += 1);
    }

    /// Remembers why the merge train of a project waits, for whoever looks.
    fn note_trouble(&self, name: &ProjectName, trouble: Option<String>) {
        let mut troubles = lock(&self.troubles);
        match trouble {
            Some(trouble) => troubles.insert(name.clone(), trouble),
            None => troubles.remove(name),
        };
    }

    /// Returns why the merge train of a project waits, if it does.
    fn trouble(&self, name: &ProjectName) -> Option<String> {
        lock(&self.troubles).get(name).cloned()
    }

    /// Tells watchers that something about a project changed.
    fn publish(&self, project: &ProjectName, submission: Option<&Submission>) {
        let mut event = json!({"project": project});
        if let Some(submission) = submission {
            event["submission"] = json!(submission.id);
            event["state"] = json!(submission.state);
            event["agent"] = json!(submission.agent);
        }
        self.swarm.notifier().publish("project.changed", &event);
    }

    /// Wakes the sessions for which these rows are.
    fn ring(&self, items: &[NewInboxItem]) {
        for item in items {
            self.swarm.notifier().ring(item.session.clone(), Priority::Message);
        }
    }

    /// Writes an action about a project to the audit.
    async fn record(
        &self,
        by: &Actor,
        action: &'static str,
        project: &ProjectName,
        detail: String,
    ) -> Result<(), ProjectsError> {
        let entry = by.entry(action, project.as_str(), Level::Yellow, detail);
        Ok(self.swarm.store().audit().append(entry, unix_ms()).await?)
    }
}

/// Returns what flock tells the author of a submission. Nobody is told if no session submitted it.
fn news(submission: &Submission, text: &str, now: i64) -> Option<NewInboxItem> {
    let told =
        format!("Submission {} to {} ({}): {text}", submission.id, submission.project, submission.title);
    let session = submission.session.as_ref()?;
    // The turn that gets it is one of the task, which may be done with it.
    Some(NewInboxItem { task: submission.task.clone(), ..notice(session, told, now) })
}

fn notice(session: &SessionKey, text: String, now: i64) -> NewInboxItem {
    NewInboxItem {
        session: session.clone(),
        kind: InboxItemKind::Notice,
        sender: crate::id::Party::System.to_string(),
        text,
        task: None,
        now,
    }
}

/// Returns the rows for a change of a submission: the audit and the news for its author.
fn along(
    by: &Actor,
    action: &'static str,
    submission: &Submission,
    detail: String,
    items: Vec<NewInboxItem>,
) -> Along {
    let subject = format!("{}#{}", submission.project, submission.id);
    Along { items, ..Along::audit(by.entry(action, &subject, Level::Yellow, detail)) }
}
