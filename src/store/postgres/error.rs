//! The errors of PostgreSQL, and their causes.

use std::error::Error as _;
use std::time::Duration;

use super::value::ValueError;
use crate::error::chain;
use crate::store::sql::Cause;

/// An error of PostgreSQL, or of the way to it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostgresError {
    /// The server refused a statement.
    #[error("PostgreSQL: {message} (SQLSTATE {code})")]
    Server {
        /// The SQLSTATE, five characters.
        code: String,
        /// The server's message, with its detail if it has one.
        message: String,
    },
    /// The connection could not be made, or broke.
    #[error("there is no connection to PostgreSQL: {0}")]
    Connection(String),
    /// The server is a standby, or its database is set to be read-only.
    #[error("the server of PostgreSQL takes no changes: it is a standby, or is set to be read-only")]
    ReadOnly,
    /// The server did not answer.
    #[error("PostgreSQL gave no answer within {} s", .0.as_millis().div_ceil(1000))]
    NoAnswer(Duration),
    /// All connections for reading were in use for a long time.
    #[error("no connection to PostgreSQL became free within {} s", .0.as_secs())]
    Busy(Duration),
    /// The connection broke during a commit, and the server could not be asked for the outcome.
    #[error("the answer to the commit was lost, so the change may have been made: {0}")]
    LostCommit(String),
    /// A statement of this transaction has failed, so no part of it can be committed.
    #[error("an earlier statement of the change failed")]
    Spoiled,
    /// Another gateway uses the database. The text says where it is.
    #[error("another gateway uses this database: one {0}")]
    Taken(String),
    /// A value that PostgreSQL can't store, or that flock does not know.
    #[error(transparent)]
    Value(#[from] ValueError),
    /// A wrong number of parameters.
    #[error("the statement has {wanted} parameters, and {given} were given")]
    ParameterCount { given: usize, wanted: usize },
    /// The address or the settings can't be used.
    #[error("{0}")]
    Settings(String),
}

impl PostgresError {
    /// Returns the SQLSTATE, if the server gave one.
    pub(in crate::store) fn code(&self) -> Option<&str> {
        match self {
            Self::Server { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Returns the cause, as far as it is known.
    pub(in crate::store) fn cause(&self) -> Cause {
        match self {
            Self::Server { code, .. } => cause_of(code),
            // A standby takes changes once it is promoted.
            Self::Connection(_) | Self::ReadOnly | Self::NoAnswer(_) | Self::Busy(_) => Cause::Unreachable,
            Self::LostCommit(_) => Cause::Unknown,
            Self::Settings(_) | Self::Taken(_) => Cause::Refused,
            Self::Spoiled | Self::Value(_) | Self::ParameterCount { .. } => Cause::Statement,
        }
    }

    /// Returns `true` if the connection can't be used any more.
    pub(super) fn ends_connection(&self) -> bool {
        match self {
            Self::Connection(_) | Self::NoAnswer(_) => true,
            // The server says so, and then closes the connection.
            Self::Server { code, .. } => code.starts_with("08") || code.starts_with("57P") || code == "25P03",
            _ => false,
        }
    }
}

impl From<tokio_postgres::Error> for PostgresError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(found) = error.as_db_error() {
            let detail = found.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
            let message = format!("{}{detail}", found.message());
            return Self::Server { code: found.code().code().to_owned(), message };
        }
        if let Some(value) = error.source().and_then(|source| source.downcast_ref::<ValueError>()) {
            return Self::Value(value.clone());
        }
        let said = chain(&error);
        // The driver's own text for a server that is not writable: it has no type for it.
        if said.contains("database does not allow writes") {
            return Self::ReadOnly;
        }
        // What is left are a closed connection, a failure to read or to write it, and messages that make no sense. After
        // any of them the connection is of no use.
        Self::Connection(said)
    }
}

/// Returns the cause that an SQLSTATE names.
fn cause_of(code: &str) -> Cause {
    match code {
        "53100" => Cause::Full,
        // Lock timeout, statement timeout, deadlock, serialization failure.
        "55P03" | "57014" | "40P01" | "40001" => Cause::Locked,
        "58030" | "58P01" => Cause::Disk,
        "XX001" | "XX002" => Cause::Corrupt,
        // No right, read-only, no such database.
        "42501" | "25006" | "3D000" => Cause::Refused,
        // The transaction was idle for too long, and the server ended the connection.
        "25P03" => Cause::Unreachable,
        code => match &code.get(..2).unwrap_or_default() {
            // Connections, too little memory or too many connections, a shutdown.
            &"08" | &"53" | &"57" => Cause::Unreachable,
            // The sign-in.
            &"28" => Cause::Refused,
            _ => Cause::Statement,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_follow_from_the_state() {
        for (code, cause) in [
            ("53100", Cause::Full),
            ("53300", Cause::Unreachable),
            ("55P03", Cause::Locked),
            ("57014", Cause::Locked),
            ("57P01", Cause::Unreachable),
            ("57P03", Cause::Unreachable),
            ("08006", Cause::Unreachable),
            ("25P03", Cause::Unreachable),
            ("25P02", Cause::Statement),
            ("25006", Cause::Refused),
            ("28P01", Cause::Refused),
            ("42501", Cause::Refused),
            ("42601", Cause::Statement),
            ("23505", Cause::Statement),
            ("58030", Cause::Disk),
            ("XX001", Cause::Corrupt),
            ("é", Cause::Statement),
        ] {
            let error = PostgresError::Server { code: code.to_owned(), message: "x".to_owned() };
            assert_eq!(error.cause(), cause, "{code}");
        }
        assert_eq!(PostgresError::NoAnswer(Duration::from_secs(1)).cause(), Cause::Unreachable);
        assert_eq!(PostgresError::LostCommit(String::new()).cause(), Cause::Unknown);
    }

    #[test]
    fn an_ended_connection_is_recognised() {
        let server = |code: &str| PostgresError::Server { code: code.to_owned(), message: "x".to_owned() };
        assert!(server("57P01").ends_connection() && server("25P03").ends_connection());
        assert!(!server("57014").ends_connection() && !server("23505").ends_connection());
    }
}
