//! The errors of a move.

use std::path::PathBuf;

use crate::error::{Explain, Kind};
use crate::home::HomeError;
use crate::store::StoreError;

/// The reason why the database was not moved. Unless it says otherwise, the home goes on with the one that it has.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MoveError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The address or an option can't be used. The text does not quote the address, which may have a password.
    #[error("the target can't be used: {0}")]
    Target(String),
    /// The database is where it should go to.
    #[error("the database is {place} already")]
    There {
        /// As in `a file of the home`.
        place: String,
    },
    /// The home has no database yet.
    #[error("the home has no database yet")]
    NoDatabase,
    /// A file is in the place of the new database.
    #[error("{} is there already, and would be replaced", path.display())]
    FileThere { path: PathBuf },
    /// The schema has something that is not of this move.
    #[error("the schema at {place} is not empty: it has {what}")]
    Occupied {
        place: String,
        what: String,
        /// The command that drops it.
        drop: String,
    },
    /// The server or the rights of the user are not enough.
    #[error("the database at {place} can't be used: {reason}")]
    Server {
        place: String,
        reason: String,
        /// The command that helps.
        command: String,
    },
    /// Texts have a character that PostgreSQL can't store.
    #[error(
        "PostgreSQL can't store the NUL character, and {count} {} it: first the column {column} of {table}, in the row with \
         the key {key}",
        if *count == 1 { "text has" } else { "texts have" }
    )]
    Nul {
        /// The number of texts with it.
        count: u64,
        table: String,
        column: String,
        key: String,
        /// Set if one of the texts is protected by a hash, and so can't be changed.
        is_sealed: bool,
    },
    /// The two databases have not the same tables.
    #[error("the two databases have other tables: {0}")]
    Tables(String),
    /// The rows of a table could not be read or written.
    #[error("failed to copy the table {table}")]
    Table {
        table: String,
        #[source]
        source: Box<StoreError>,
    },
    /// A copied table has other rows than the source.
    #[error(
        "the copy of the table {table} is not what was copied: {found} rows instead of {wanted}, or other values"
    )]
    Differs { table: String, wanted: u64, found: u64 },
    /// The audit in the copy is not whole, and in the source it is.
    #[error("the audit in the copy is not whole: {0}")]
    Audit(String),
    /// A person stopped the move.
    #[error("the move was stopped")]
    Stopped,
}

impl MoveError {
    /// Returns `true` if the same command goes on with what was copied, once the reason of the error is gone.
    #[must_use]
    pub(crate) fn may_go_on(&self) -> bool {
        match self {
            Self::Table { .. } | Self::Differs { .. } | Self::Audit(_) | Self::Stopped => true,
            Self::Store(error) => error.is_fault() || matches!(error, StoreError::Connect { .. }),
            Self::Home(_)
            | Self::Target(_)
            | Self::There { .. }
            | Self::NoDatabase
            | Self::FileThere { .. }
            | Self::Occupied { .. }
            | Self::Server { .. }
            | Self::Nul { .. }
            | Self::Tables(_) => false,
        }
    }
}

impl Explain for MoveError {
    fn kind(&self) -> Kind {
        match self {
            Self::Store(error) => error.kind(),
            Self::Table { source, .. } => source.kind(),
            Self::Home(error) => error.kind(),
            Self::Target(_) => Kind::Usage,
            Self::There { .. } | Self::FileThere { .. } | Self::Occupied { .. } => Kind::Conflict,
            Self::Differs { .. } | Self::Audit(_) => Kind::Damaged,
            Self::NoDatabase | Self::Server { .. } | Self::Nul { .. } | Self::Tables(_) | Self::Stopped => {
                Kind::Failed
            }
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Table { source, .. } => source.hint(),
            Self::Home(error) => error.hint(),
            Self::Target(_) => Some("flock home move --help".to_owned()),
            Self::There { .. } => Some("flock doctor".to_owned()),
            Self::NoDatabase => Some("flock start".to_owned()),
            Self::FileThere { path } => {
                Some(format!("move it away first: mv '{0}' '{0}.old'", path.display()))
            }
            Self::Occupied { drop, .. } => Some(format!(
                "name another schema with --schema, or drop this one if nothing of it is needed: {drop}"
            )),
            Self::Server { command, .. } => Some(command.clone()),
            Self::Nul { is_sealed: true, .. } => Some(
                "this home can't be moved: the text is in the audit, whose rows can't be changed".to_owned(),
            ),
            Self::Nul { .. } => Some(
                "--replace-nul writes U+FFFD in its place in the copy, and leaves the source as it is"
                    .to_owned(),
            ),
            Self::Tables(_) => Some("flock update".to_owned()),
            Self::Differs { .. } | Self::Audit(_) => Some(
                "the next attempt begins anew; flock doctor --deep looks for damage of the source".to_owned(),
            ),
            Self::Stopped => None,
        }
    }

    fn may_pass(&self) -> bool {
        match self {
            Self::Store(error) => error.may_pass(),
            Self::Table { source, .. } => source.may_pass(),
            error => error.kind() == Kind::Unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_what_helps_and_if_the_move_goes_on() {
        let nul = |is_sealed| MoveError::Nul {
            count: 2,
            table: "message".to_owned(),
            column: "content".to_owned(),
            key: "7".to_owned(),
            is_sealed,
        };
        let text = nul(false).to_string();
        assert!(text.contains("2 texts have it: first the column content of message"), "{text}");
        assert!(nul(false).hint().unwrap().contains("--replace-nul"));
        assert!(!nul(true).hint().unwrap().contains("--replace-nul"));
        assert!(!nul(false).may_go_on());
        let occupied = MoveError::Occupied { place: "p".into(), what: "w".into(), drop: "psql x".into() };
        assert_eq!(occupied.kind(), Kind::Conflict);
        assert!(occupied.hint().unwrap().ends_with(": psql x"));
        let full = StoreError::Full { what: "copy", source: crate::store::sql::Error::NoRow };
        let full = MoveError::Table { table: "message".into(), source: Box::new(full) };
        assert!(full.may_go_on() && full.hint().unwrap().contains("make room"), "{full:?}");
        assert!(MoveError::Stopped.may_go_on());
    }
}
