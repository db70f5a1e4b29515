//! Why the database did not do its work.

use std::path::PathBuf;

use crate::error::{Explain, Kind};

/// Why the database did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be made.
    #[error("failed to create the database {}", path.display())]
    Create {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file could not be opened, or is no database.
    #[error("failed to open the database {}", path.display())]
    Open {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A newer flock made it.
    #[error("the database {} has version {found}, and this flock knows versions up to {known}", path.display())]
    Newer {
        /// Which file.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest one known here.
        known: u32,
    },
    /// It could not be saved before a migration.
    #[error("failed to save the database to {} before changing it", path.display())]
    Backup {
        /// Where to.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A migration failed; the database is as it was before it.
    #[error("failed to bring the database to version {version}")]
    Migration {
        /// Which version.
        version: u32,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// A thread could not be started.
    #[error("failed to start a thread of the database")]
    Thread(#[source] std::io::Error),
    /// A statement failed.
    #[error("failed to {what} in the database")]
    Query {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// The writing thread has ended.
    #[error("the database is closed")]
    Stopped,
}

impl Explain for StoreError {
    fn kind(&self) -> Kind {
        match self {
            Self::Newer { .. } => Kind::NewerHome,
            Self::Stopped => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Newer { .. } => Some("flock update".to_owned()),
            Self::Stopped => None,
            _ => Some("flock doctor".to_owned()),
        }
    }
}
