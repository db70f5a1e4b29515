//! Creates an agent in a running gateway: its entry in the configuration and its identity files.

use serde_json::Value;

use super::{Actor, person};
use crate::agent::identity::{self, AgentIdentity, IdentityError};
use crate::config::agents::{self, NewAgent};
use crate::config::{self, ConfigError};
use crate::error::{Explain, Kind};
use crate::generation::Origin;
use crate::home::{Home, HomeError, pending};
use crate::store::{AuditEntry, Level, Reader, StoreError};

/// The reason why an agent was not created.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NewAgentError {
    /// An operation on an earlier agent with this id was interrupted.
    #[error("{0} was interrupted and is being finished; ask again later")]
    Unfinished(String),
    /// The limit of the team's size is reached.
    #[error("there are {0} agents already")]
    TooMany(usize),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The id looks like the name of a person.
    #[error("{0}")]
    Imitation(String),
    /// The database can't be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The task that wrote the files ended without a result.
    #[error("a defect stopped it")]
    Lost,
}

impl Explain for NewAgentError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unfinished(_) | Self::TooMany(_) => Kind::Conflict,
            Self::Config(error) => error.kind(),
            Self::Home(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Imitation(_) => Kind::Conflict,
            Self::Identity(_) | Self::Lost => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unfinished(_) | Self::Identity(_) | Self::Lost => Some("flock doctor".to_owned()),
            Self::TooMany(_) => Some("flock list".to_owned()),
            Self::Config(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Imitation(_) => Some("flock person list".to_owned()),
        }
    }
}

/// Returns the row of the audit for an agent that a person creates.
pub(crate) fn entry(by: &Actor, new: &NewAgent) -> AuditEntry {
    by.entry("agent.add", new.id.as_str(), Level::Yellow, new.role.as_str().to_owned())
}

/// Creates an agent. With `most`, the team has at most so many agents afterwards.
///
/// # Errors
///
/// Returns an error if the agent exists, if the team is too large, or if a file can't be written.
pub(crate) async fn create(home: Home, most: Option<usize>, new: NewAgent) -> Result<(), NewAgentError> {
    if let Some(unfinished) = pending::read(&home, &new.id)? {
        return Err(NewAgentError::Unfinished(unfinished.title()));
    }
    if let Some(reader) = Reader::open(&home)? {
        let people = reader.people().list().await?;
        if let Some(why) = person::why_not_agent(&people, &new.id) {
            return Err(NewAgentError::Imitation(why));
        }
    }
    // The editor waits for other writers and holds a lock meanwhile, which blocks the thread.
    let origin = Origin::current();
    let written = tokio::task::spawn_blocking(move || {
        let edit = |document: &mut Value| {
            // Checked inside the edit: two requests that are carried out at the same time must not exceed the limit
            // together.
            let agents = config::parse::config(document, &home).map_or(0, |config| config.agents.len());
            if let Some(most) = most.filter(|most| agents >= *most) {
                return Err(NewAgentError::TooMany(most));
            }
            agents::add(document, &home, &new)?;
            let who = AgentIdentity {
                id: &new.id,
                role: new.role,
                archetype: new.archetype.as_deref(),
                archetypes: &home.archetypes(),
            };
            // Written before anybody can learn of the agent, and only if it was not refused. Otherwise the next agent
            // with this id would get the personality that was meant for this one.
            identity::rewrite_soul(&home.identity(&new.id), &who)?;
            Ok(identity::write(&home.identity(&new.id), &home.workspace(&new.id), &who)?)
        };
        origin.run(|| config::edit(&home, edit))
    });
    written.await.map_err(|_| NewAgentError::Lost)?
}
