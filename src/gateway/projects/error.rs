//! Errors of requests about projects.

use crate::config::ConfigError;
use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::id::{AgentId, ProjectName};
use crate::project::ProjectError;
use crate::receipt::ReceiptError;
use crate::store::{StoreError, SubmissionState};
use crate::swarm::SwarmError;
use crate::tool::ToolError;

/// The reasons why a request about a project fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProjectsError {
    #[error("there is no project {0}")]
    Unknown(ProjectName),
    #[error("there is a project {0} already")]
    Exists(ProjectName),
    #[error("{agent} does not work on {project}")]
    NotAssigned { project: ProjectName, agent: AgentId },
    /// An agent without a sandbox can't have a clone.
    #[error("{0} has no sandbox, and a clone is made in one")]
    NoSandbox(AgentId),
    /// The agent has not pushed the branch.
    #[error("there is no branch {branch} in {project}")]
    NotPushed { project: ProjectName, branch: String },
    /// Everything of the branch is in the tip already.
    #[error("{branch} has nothing that the tip of {project} lacks")]
    NothingNew { project: ProjectName, branch: String },
    /// A blocking finding has no answer yet.
    #[error("answer these findings of the review first: {0}")]
    Unanswered(String),
    #[error("there is no submission {number} in {project}")]
    NoSubmission { project: ProjectName, number: i64 },
    /// The submission is in a state that does not allow the request.
    #[error("submission {number} is {}", state.as_str())]
    State { project: ProjectName, number: i64, state: SubmissionState },
    /// The caller may not decide about the submission.
    #[error("{0}")]
    Forbidden(String),
    /// A parameter is wrong. The text says which.
    #[error("{0}")]
    Invalid(String),
    /// Another gateway that shares the repository is changing the project.
    #[error("another gateway is changing {0}; try again in a minute")]
    Busy(ProjectName),
    /// The owner's repository can't take the result.
    #[error("the tip of {project} can't be landed: {reason}")]
    NotLanded { project: ProjectName, reason: String, hint: String },
    #[error(transparent)]
    Swarm(#[from] SwarmError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The file that keeps out other gateways can't be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Repository(#[from] ProjectError),
    /// The checks of a tree could not be run.
    #[error(transparent)]
    Receipt(#[from] ReceiptError),
    /// A task of flock's own ended before its work was done.
    #[error("the work on the repository was given up")]
    GivenUp(#[from] tokio::task::JoinError),
}

impl Explain for ProjectsError {
    fn kind(&self) -> Kind {
        match self {
            Self::Exists(_) | Self::State { .. } | Self::Busy(_) => Kind::Conflict,
            Self::Invalid(_) => Kind::Usage,
            Self::Forbidden(_) => Kind::NeedsApproval,
            Self::Swarm(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Home(error) => error.kind(),
            Self::Repository(error) => error.kind(),
            Self::Receipt(error) => error.kind(),
            Self::GivenUp(_) => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) => Some("flock project list".to_owned()),
            Self::Exists(name) => Some(format!("flock project show {name}")),
            Self::NotAssigned { project, agent } => Some(format!("flock project assign {project} {agent}")),
            Self::NoSandbox(_) => Some("flock list".to_owned()),
            Self::NotPushed { project, .. } | Self::NothingNew { project, .. } => {
                Some(format!("flock project show {project}"))
            }
            Self::NoSubmission { project, .. } => Some(format!("flock project submissions {project}")),
            Self::State { project, number, .. } => {
                Some(format!("flock project submissions {project} --show {number}"))
            }
            Self::Busy(_) => Some("flock status".to_owned()),
            Self::NotLanded { hint, .. } => Some(hint.clone()),
            Self::Swarm(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Repository(error) => error.hint(),
            Self::Receipt(error) => error.hint(),
            Self::Unanswered(_) | Self::Forbidden(_) | Self::Invalid(_) | Self::GivenUp(_) => None,
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}

impl From<ProjectsError> for ToolError {
    /// Returns the text for a model. It never contains internal details.
    fn from(error: ProjectsError) -> Self {
        match error {
            ProjectsError::Swarm(error) => error.into(),
            ProjectsError::Store(error) => SwarmError::from(error).into(),
            ProjectsError::Config(_)
            | ProjectsError::Home(_)
            | ProjectsError::Repository(_)
            | ProjectsError::Receipt(_)
            | ProjectsError::GivenUp(_) => {
                tracing::error!(error = crate::error::chain(&error), "a tool could not use a project");
                Self::model("the project can't be used now; a person has to look at it (flock doctor)")
            }
            ProjectsError::NotPushed { branch, .. } => {
                Self::model(format!("push the branch first: git push origin HEAD:{branch}"))
            }
            other => Self::model(other.to_string()),
        }
    }
}
