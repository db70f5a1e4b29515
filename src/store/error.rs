//! Why the database did not do its work.

use std::path::PathBuf;

use rusqlite::{ErrorCode, ffi};

use super::condition;
use crate::error::{Explain, Kind};
use crate::home::HomeError;

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
    /// The file holds what no database holds.
    #[error("the database {} is damaged: {what}", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There was a database, and it is gone.
    #[error("the database {} is gone, though the home had one", path.display())]
    Gone {
        /// Which file.
        path: PathBuf,
    },
    /// The file is no longer the one that was opened.
    #[error("the database {} can't be used: {reason}", path.display())]
    Replaced {
        /// Which file.
        path: PathBuf,
        /// What is there instead.
        reason: String,
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
    /// A file beside the database could not be written. Nothing was changed.
    #[error(transparent)]
    Beside(#[from] HomeError),
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
    /// Another process held the database for longer than is waited. Nothing was changed.
    #[error("failed to {what}: another process has locked the database")]
    Locked {
        /// As in `begin a turn`.
        what: &'static str,
        /// Why.
        #[source]
        source: rusqlite::Error,
    },
    /// There was no room for it. Nothing was changed.
    #[error("failed to {what}: there is no room for the database, its disk is full or its file may not grow")]
    Full {
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

impl StoreError {
    /// What a statement failed with, by its reason.
    pub(super) fn query(what: &'static str, source: rusqlite::Error) -> Self {
        let code = source.sqlite_error().map(|error| (error.code, error.extended_code));
        match code {
            Some((ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked, _)) => Self::Locked { what, source },
            Some((ErrorCode::DiskFull, _) | (_, ffi::SQLITE_IOERR_WRITE)) => Self::Full { what, source },
            _ => Self::Query { what, source },
        }
    }
}

impl StoreError {
    /// Whether the storage failed, as a full disk does, and not what was asked of it: the same may be done later.
    #[must_use]
    pub fn is_fault(&self) -> bool {
        match self {
            Self::Full { .. } | Self::Locked { .. } => true,
            Self::Query { source, .. } | Self::Open { source, .. } => condition::is_fault(source),
            _ => false,
        }
    }
}

impl Explain for StoreError {
    fn kind(&self) -> Kind {
        match self {
            Self::Newer { .. } => Kind::NewerHome,
            Self::Damaged { .. } | Self::Gone { .. } => Kind::Damaged,
            Self::Query { source, .. } | Self::Open { source, .. } if condition::is_damage(source) => {
                Kind::Damaged
            }
            Self::Stopped => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Newer { .. } => Some("flock update".to_owned()),
            Self::Damaged { .. } | Self::Gone { .. } => Some("flock restore".to_owned()),
            Self::Query { source, .. } | Self::Open { source, .. } if condition::is_damage(source) => {
                Some("flock restore".to_owned())
            }
            Self::Replaced { .. } => Some("flock restart".to_owned()),
            Self::Stopped => None,
            Self::Locked { .. } => Some("end what holds it, or try again in a moment".to_owned()),
            Self::Full { .. } => Some("make room on its disk, then try again".to_owned()),
            _ => Some("flock doctor".to_owned()),
        }
    }
}
