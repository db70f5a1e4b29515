//! Errors of requests about races.

use crate::checkpoint::CheckpointError;
use crate::config::ConfigError;
use crate::error::{Explain, Kind};
use crate::gateway::projects::ProjectsError;
use crate::home::HomeError;
use crate::store::{RaceState, StoreError};
use crate::swarm::SwarmError;

/// The reasons why a request about a race fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RacesError {
    #[error("there is no race {0}")]
    Unknown(i64),
    /// A parameter is wrong. The text says which.
    #[error("{0}")]
    Invalid(String),
    /// The race is in a state that does not allow the request.
    #[error("race {race} is {}{rest}", state.as_str())]
    State {
        race: i64,
        state: RaceState,
        /// A second fault, as in `, and its losers are dropped`.
        rest: &'static str,
    },
    /// The copy has nothing that can be merged.
    #[error("copy {number} of race {race} has no submission that passed its checks")]
    NothingDelivered { race: i64, number: u32 },
    /// The winner's work is in the tip already.
    #[error("the submission that won race {0} is merged already")]
    Merged(i64),
    #[error(transparent)]
    Projects(#[from] ProjectsError),
    #[error(transparent)]
    Swarm(#[from] SwarmError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The copies could not be made.
    #[error(transparent)]
    Fork(#[from] CheckpointError),
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A task of flock's own ended before its work was done.
    #[error("the work on a race was given up")]
    GivenUp(#[from] tokio::task::JoinError),
}

impl Explain for RacesError {
    fn kind(&self) -> Kind {
        match self {
            Self::Unknown(_) => Kind::Failed,
            Self::Invalid(_) => Kind::Usage,
            Self::State { .. } | Self::NothingDelivered { .. } | Self::Merged(_) => Kind::Conflict,
            Self::Projects(error) => error.kind(),
            Self::Swarm(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Fork(error) => error.kind(),
            Self::Home(error) => error.kind(),
            Self::Config(error) => error.kind(),
            Self::GivenUp(_) => Kind::Internal,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown(_) => Some("flock race list".to_owned()),
            Self::Invalid(_) => Some("flock race --help".to_owned()),
            Self::State { race, .. } | Self::NothingDelivered { race, .. } | Self::Merged(race) => {
                Some(format!("flock race show {race}"))
            }
            Self::Projects(error) => error.hint(),
            Self::Swarm(error) => error.hint(),
            Self::Store(error) => error.hint(),
            Self::Fork(error) => error.hint(),
            Self::Home(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::GivenUp(_) => None,
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::Store(error) if error.may_pass())
    }
}
