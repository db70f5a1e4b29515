//! Where the home's database is: in a file of the home, or on a server of PostgreSQL.
//!
//! The file `store.json` names the server. A home without it has its database in a file.
//!
//! A move of the database replaces that file as a whole, and files get their new names after that. So the file says which
//! names they get: whoever reads it after a kill completes the move.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::StoreError;
use super::postgres::{DEFAULT_SCHEMA, DEFAULT_SECRET, Settings};
use super::sqlite::connection::{BESIDE, beside};
use crate::config::secret;
use crate::home::{Home, HomeError, atomic};

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

/// The place of a home's database, as the status shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub(crate) enum DatabasePlace {
    /// A file of the home.
    Sqlite,
    /// A server, whose address has no password.
    Postgres { address: String },
}

impl DatabasePlace {
    /// Returns the place of a home's database.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`server_address`].
    pub(crate) fn of(home: &Home) -> Result<Self, StoreError> {
        Ok(server_address(home)?.map_or(Self::Sqlite, |address| Self::Postgres { address }))
    }
}

/// Returns the settings of a server's database and the name of its secret, by the names that somebody gave.
///
/// # Errors
///
/// Returns the reason if one of them is not as it should be. It does not quote what may be a password.
pub(super) fn server(
    address: &str,
    schema: Option<&str>,
    secret: Option<&str>,
) -> Result<(Settings, String), String> {
    let settings = Settings::parse(address, schema.unwrap_or(DEFAULT_SCHEMA))?;
    let secret = secret.unwrap_or(DEFAULT_SECRET);
    if !secret::is_name(secret) {
        return Err("the name of the secret is not one".to_owned());
    }
    Ok((settings, secret.to_owned()))
}

/// The content of the file.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Document {
    /// The address, as in `postgres://flock@db.example/flock`.
    #[serde(skip_serializing_if = "Option::is_none")]
    postgres: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_secret: Option<String>,
    /// The name that the old database file has since a move to the server, or gets now.
    #[serde(skip_serializing_if = "Option::is_none")]
    file_moved_to: Option<String>,
    /// The name that the database file had before the end of a move from a server. It is written instead of `postgres`.
    #[serde(skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
}

/// The beginning of the names of old and of new database files, in the folder of the database.
const FILE_PREFIX: &str = "flock.db.";

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
        let names = [&document.file_moved_to, &document.moved_from];
        if names.into_iter().flatten().any(|name| !is_file_name(name)) {
            return Err(refused("it names a file that is no database".to_owned()));
        }
        let address = match (document.postgres, document.moved_from) {
            (Some(address), None) => address,
            (None, Some(name)) => {
                take_name(&home.data().join(name), &home.database())?;
                return Ok(Self::File(home.database()));
            }
            _ => return Err(refused("it has to name one place".to_owned())),
        };
        if let Some(name) = document.file_moved_to {
            take_name(&home.database(), &home.data().join(name))?;
        }
        let secret = document.password_secret.unwrap_or_else(|| DEFAULT_SECRET.to_owned());
        if !secret::is_name(&secret) {
            return Err(refused("passwordSecret is not the name of a secret".to_owned()));
        }
        let schema = document.schema.as_deref().unwrap_or(DEFAULT_SCHEMA);
        let settings = Settings::parse(&address, schema).map_err(refused)?;
        Ok(Self::Postgres { settings: Box::new(settings), secret })
    }
}

/// Returns `true` for the name of a file that a move may rename.
fn is_file_name(name: &str) -> bool {
    let rest = name.strip_prefix(FILE_PREFIX).unwrap_or_default();
    !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Gives a database file its new name, unless it has it already.
fn take_name(old: &Path, new: &Path) -> Result<(), HomeError> {
    if !is_there(old)? || is_there(new)? {
        return Ok(());
    }
    // The files beside it go first: a database without the rest of its log would have lost changes.
    let mut pairs: Vec<(PathBuf, PathBuf)> =
        BESIDE.iter().map(|suffix| (beside(old, suffix), beside(new, suffix))).collect();
    pairs.push((old.to_owned(), new.to_owned()));
    for (old, new) in pairs {
        match fs_err::rename(&old, &new) {
            // There is mostly no log, and another process may do the same at this moment.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => renamed.map_err(HomeError::io("rename", &old))?,
        }
    }
    let folder = new.parent().unwrap_or(Path::new("/"));
    let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(HomeError::io("sync", folder))
}

fn is_there(path: &Path) -> Result<bool, HomeError> {
    path.try_exists().map_err(HomeError::io("look at", path))
}

/// Returns the path of the file into which a move from a server copies.
pub(super) fn draft(home: &Home) -> PathBuf {
    home.data().join(format!("{FILE_PREFIX}moving"))
}

/// Has the home use a database on a server from now on, and its old file get another name. Returns its path then.
pub(super) fn switch_to_server(
    home: &Home,
    settings: &Settings,
    secret: &str,
    at: i64,
) -> Result<PathBuf, StoreError> {
    let name = format!("{FILE_PREFIX}moved-{at}");
    let kept = home.data().join(&name);
    let other = |value: &str, default: &str| (value != default).then(|| value.to_owned());
    write(
        home,
        &Document {
            postgres: Some(settings.address().to_owned()),
            schema: other(settings.schema(), DEFAULT_SCHEMA),
            password_secret: other(secret, DEFAULT_SECRET),
            file_moved_to: Some(name),
            moved_from: None,
        },
    )?;
    take_name(&home.database(), &kept)?;
    Ok(kept)
}

/// Has the home use the file at [`draft`] as its database from now on.
pub(super) fn switch_to_file(home: &Home) -> Result<(), StoreError> {
    let draft = draft(home);
    let name = draft.file_name().map(|name| name.to_string_lossy().into_owned());
    write(home, &Document { moved_from: name, ..Document::default() })?;
    take_name(&draft, &home.database())?;
    // Without the file the home has its database at the usual place, which is there now.
    let path = home.store_location();
    match fs_err::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(HomeError::io("remove", &path)(error).into())
        }
        _ => Ok(()),
    }
}

fn write(home: &Home, document: &Document) -> Result<(), HomeError> {
    let mut bytes = serde_json::to_vec_pretty(document).unwrap_or_default();
    bytes.push(b'\n');
    atomic::write(&home.store_location(), &bytes, 0o600)
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
        let place = serde_json::json!(DatabasePlace::of(&home).unwrap());
        assert_eq!(place, serde_json::json!({"kind": "postgres", "address": "db:5432/b, schema s"}));
        let refused = database_file(&home, "make a backup").unwrap_err();
        assert!(refused.to_string().contains("make a backup"), "{refused}");
        std::fs::remove_file(home.store_location()).unwrap();
        let place = serde_json::json!(DatabasePlace::of(&home).unwrap());
        assert_eq!(place, serde_json::json!({"kind": "sqlite"}));
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
            r#"{"postgres": "postgres://a@db/b", "fileMovedTo": "../hunter2"}"#,
            r#"{"postgres": "postgres://a@db/b", "movedFrom": "flock.db.moving"}"#,
            r#"{"movedFrom": "flock.db"}"#,
            r#"{"movedFrom": "flock.db./../x"}"#,
        ] {
            std::fs::write(home.store_location(), text).unwrap();
            let refused = Location::of(&home).unwrap_err();
            assert!(matches!(refused, StoreError::Location { .. }), "{text}: {refused:?}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }
    fn content(path: &Path) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    #[test]
    fn a_switch_to_a_server_that_was_killed_is_completed_by_whoever_looks_next() {
        let (_folder, home) = home();
        std::fs::create_dir_all(home.data()).unwrap();
        let settings = Settings::parse("postgres://flock@db.example/team", "other").unwrap();
        let rename_later = |text: &str| {
            std::fs::write(home.database(), text).unwrap();
            std::fs::write(beside(&home.database(), "-wal"), "log").unwrap();
        };
        rename_later("old");
        let kept = switch_to_server(&home, &settings, "team-db", 17).unwrap();
        assert_eq!(content(&kept).as_deref(), Some("old"));
        assert_eq!(content(&beside(&kept, "-wal")).as_deref(), Some("log"));
        assert!(!home.database().exists() && !beside(&home.database(), "-wal").exists());
        let found = Location::of(&home).unwrap();
        assert_eq!(found, Location::Postgres { settings: Box::new(settings), secret: "team-db".to_owned() });
        // Killed before the rename: the file is still at its place.
        std::fs::rename(&kept, home.database()).unwrap();
        Location::of(&home).unwrap();
        assert_eq!(content(&kept).as_deref(), Some("old"));
        assert!(!home.database().exists());
        // A file that appears later is somebody else's, and is left alone.
        rename_later("new");
        Location::of(&home).unwrap();
        assert_eq!(content(&kept).as_deref(), Some("old"));
        assert_eq!(content(&home.database()).as_deref(), Some("new"));
    }

    #[test]
    fn a_switch_to_a_file_that_was_killed_is_completed_by_whoever_looks_next() {
        let (_folder, home) = home();
        std::fs::create_dir_all(home.data()).unwrap();
        std::fs::write(home.store_location(), r#"{"postgres": "postgres://flock@db.example/team"}"#).unwrap();
        std::fs::write(draft(&home), "new").unwrap();
        switch_to_file(&home).unwrap();
        assert_eq!(content(&home.database()).as_deref(), Some("new"));
        assert!(!draft(&home).exists() && !home.store_location().exists());
        // Killed before the rename.
        std::fs::rename(home.database(), draft(&home)).unwrap();
        std::fs::write(home.store_location(), r#"{"movedFrom": "flock.db.moving"}"#).unwrap();
        assert_eq!(Location::of(&home).unwrap(), Location::File(home.database()));
        assert_eq!(content(&home.database()).as_deref(), Some("new"));
        // Killed before the file was removed.
        assert_eq!(Location::of(&home).unwrap(), Location::File(home.database()));
        assert_eq!(content(&home.database()).as_deref(), Some("new"));
    }
}
