//! Where the home's database is: in a file of the home, or on a server of PostgreSQL.
//!
//! The file `store.json` names the server. A home without it has its database in a file.

use std::path::PathBuf;

use serde::Deserialize;

use super::StoreError;
use super::postgres::{DEFAULT_SCHEMA, DEFAULT_SECRET, Settings};
use crate::config::secret;
use crate::home::{Home, atomic};

/// The largest size of the file, in bytes.
const MAX_BYTES: u64 = 16 << 10;

/// The place of a database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// SQLite's file at this path.
    File(PathBuf),
    Postgres {
        settings: Box<Settings>,
        /// The name of the secret with the password.
        secret: String,
    },
}

/// The content of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    /// The address, as in `postgres://flock@db.example/flock`.
    postgres: String,
    schema: Option<String>,
    password_secret: Option<String>,
}

impl Location {
    /// Returns the place of the home's database.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Location`] if the file is not as it should be, and another error if it can't be read.
    pub(super) fn of(home: &Home) -> Result<Self, StoreError> {
        let path = home.store_location();
        let Some(bytes) = atomic::read(&path, MAX_BYTES)? else {
            #[cfg(test)]
            if let Some(location) = super::testing::location(home) {
                return Ok(location);
            }
            return Ok(Self::File(home.database()));
        };
        let refused = |reason| StoreError::Location { path: path.clone(), reason };
        // The message of a parser quotes what it read, and somebody may have written a password there.
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|error| refused(format!("line {} is not as it should be", error.line())))?;
        let secret = document.password_secret.unwrap_or_else(|| DEFAULT_SECRET.to_owned());
        if !secret::is_name(&secret) {
            return Err(refused("passwordSecret is not the name of a secret".to_owned()));
        }
        let schema = document.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        let settings = Settings::parse(&document.postgres, schema).map_err(refused)?;
        Ok(Self::Postgres { settings: Box::new(settings), secret })
    }
}

/// Returns the path of the home's database, for work on its file.
///
/// # Errors
///
/// Returns [`StoreError::OnServer`] if a server keeps the database, with this work in its message, and other errors if
/// the place can't be read.
pub(crate) fn database_file(home: &Home, what: &'static str) -> Result<PathBuf, StoreError> {
    match Location::of(home)? {
        Location::File(path) => Ok(path),
        Location::Postgres { settings, .. } => {
            Err(StoreError::OnServer { what, place: settings.to_string() })
        }
    }
}

/// Returns `true` if the home has a database. One on a server counts as made, even if nothing has been written yet.
///
/// # Errors
///
/// Returns an error if the place of the database can't be read.
pub(crate) fn is_made(home: &Home) -> Result<bool, StoreError> {
    Ok(match Location::of(home)? {
        Location::File(path) => path.exists(),
        Location::Postgres { .. } => true,
    })
}

/// Returns the address of the server that keeps the home's database; `None` if that is a file of the home.
///
/// # Errors
///
/// Returns [`StoreError::Location`] if the file is not as it should be, and another error if it can't be read.
pub(crate) fn server_address(home: &Home) -> Result<Option<String>, StoreError> {
    match Location::of(home)? {
        Location::File(_) => Ok(None),
        Location::Postgres { settings, .. } => Ok(Some(settings.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        (folder, home)
    }

    #[test]
    fn the_file_names_the_server() {
        let (_folder, home) = home();
        std::fs::write(home.store_location(), r#"{"postgres": "postgres://flock@db.example/team"}"#).unwrap();
        let Location::Postgres { settings, secret } = Location::of(&home).unwrap() else { panic!() };
        assert_eq!(
            (settings.to_string().as_str(), &*secret),
            ("db.example:5432/team, schema flock", "postgres")
        );
        let text = r#"{"postgres": "postgres://a@db/b", "schema": "s", "passwordSecret": "db-password"}"#;
        std::fs::write(home.store_location(), text).unwrap();
        assert_eq!(server_address(&home).unwrap().unwrap(), "db:5432/b, schema s");
        let refused = database_file(&home, "make a backup").unwrap_err();
        assert!(refused.to_string().contains("make a backup"), "{refused}");
    }

    #[test]
    fn a_file_with_anything_else_is_refused_and_never_quoted() {
        let (_folder, home) = home();
        for text in [
            "",
            "{}",
            "[]",
            r#"{"postgres": "postgres://a:hunter2@db/b"}"#,
            r#"{"postgres": "postgres://a@db/b", "password": "hunter2"}"#,
            r#"{"postgres": "postgres://a@db/b", "passwordSecret": "../hunter2"}"#,
            r#"{"postgres": "postgres://a@db/b", "schema": ""}"#,
        ] {
            std::fs::write(home.store_location(), text).unwrap();
            let refused = Location::of(&home).unwrap_err();
            assert!(matches!(refused, StoreError::Location { .. }), "{text}: {refused:?}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }
}
