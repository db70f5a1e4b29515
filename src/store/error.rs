//! The errors of the store.

use std::path::{Path, PathBuf};

use super::sql::{self, Cause};
use crate::error::{Explain, KERNEL_LOG_HINT, Kind};
use crate::home::HomeError;

/// An error of the database.
///
/// A read or a write of the store that documents no errors of its own returns one of these:
///
/// - [`Query`](Self::Query), if a statement fails for a reason not listed below;
/// - [`Locked`](Self::Locked), if another process holds the database for longer than the store waits;
/// - [`Full`](Self::Full), if the disk is full or the file may not grow;
/// - [`Disk`](Self::Disk), if the disk fails to read or write;
/// - [`Doubtful`](Self::Doubtful), if the content that was read is invalid;
/// - [`Unreachable`](Self::Unreachable), if the server of the database can't be reached;
/// - [`Unknown`](Self::Unknown), if the answer to a commit was lost;
/// - [`Fenced`](Self::Fenced), if another gateway has taken over from this one;
/// - [`Stopped`](Self::Stopped), if the store was closed before a write was done;
/// - [`Open`](Self::Open), [`Unreadable`](Self::Unreadable), [`NoFile`](Self::NoFile) or [`Connect`](Self::Connect), if
///   a read needs a new connection and that can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file could not be created.
    #[error("failed to create the database {}", path.display())]
    Create {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The file could not be opened, or is not an SQLite database.
    #[error("failed to open the database {}", path.display())]
    Open {
        path: PathBuf,
        #[source]
        source: sql::Error,
    },
    /// The content of the file is invalid, and a check confirmed it.
    #[error("the database {} is damaged: {what}", path.display())]
    Damaged {
        path: PathBuf,
        /// SQLite's description of the fault.
        what: String,
    },
    /// The database existed before, and the file is missing now.
    #[error("the database {} is gone, though the home had one", path.display())]
    Gone {
        /// The path at which it is missing.
        path: PathBuf,
    },
    /// Something that is not a regular file is in place of the database or of a file beside it.
    #[error("{} can't be opened: it is no regular file", path.display())]
    NoFile {
        /// The path of that thing.
        path: PathBuf,
    },
    /// The path no longer names the file that was opened.
    #[error("the database {} can't be used: {reason}", path.display())]
    Replaced {
        path: PathBuf,
        /// A phrase that says what is there instead.
        reason: String,
    },
    /// A newer version of flock created the database.
    #[error("the database {} has version {found}, and this flock knows versions up to {known}", path.display())]
    Newer {
        path: PathBuf,
        /// The schema version of the file.
        found: u32,
        /// The newest schema version that this flock knows.
        known: u32,
    },
    /// A newer version of flock migrated the schema on the server.
    #[error("the database at {place} has version {found}, and this flock knows versions up to {known}")]
    NewerSchema {
        /// The address of the database.
        place: String,
        /// The version of the schema.
        found: u32,
        /// The newest version that this flock knows.
        known: u32,
    },
    /// The store was moved into a file.
    #[error(
        "the database at {place} was moved to {to} on {}, and is not written any more",
        crate::clock::local(*at)
    )]
    MovedAway {
        /// The address of the old database.
        place: String,
        /// The place of the database now.
        to: String,
        /// The time of the move, in Unix milliseconds.
        at: i64,
    },
    /// A move into this database has begun and is not complete.
    #[error("the database at {place} is not complete: a move into it was interrupted")]
    HalfMoved {
        /// The address of the database.
        place: String,
    },
    /// The file that says where the database is can't be used.
    #[error("{} can't be used: {reason}", path.display())]
    Location {
        path: PathBuf,
        /// A phrase that says what is wrong.
        reason: String,
    },
    /// No connection to the server could be made.
    #[error("failed to connect to the database at {place}")]
    Connect {
        /// The address of the database.
        place: String,
        /// The file of the password.
        secret: PathBuf,
        #[source]
        source: sql::Error,
    },
    /// The gateway of another home uses the database.
    #[error("another gateway uses the database at {place}: one {by}")]
    InUse {
        /// The address of the database.
        place: String,
        /// Where the other gateway is, and since when.
        by: String,
    },
    /// The server of the database holds up the start of the gateway.
    #[error("failed to {what}: the database at {place} holds it up")]
    HeldUp {
        /// The operation, as in `become the gateway of the database`.
        what: &'static str,
        /// The address of the database.
        place: String,
        #[source]
        source: sql::Error,
    },
    /// The work is for a database that is a file of the home.
    #[error(
        "failed to {what}: the server at {place} keeps the database, and it has backups and checks of its own"
    )]
    OnServer {
        /// The work, as in `make a backup`.
        what: &'static str,
        /// The address of the database.
        place: String,
    },
    /// A backup, or the copy that precedes a migration, could not be made.
    #[error("failed to save the database to {} before changing it", path.display())]
    Backup {
        /// The path of the backup.
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The database could not be copied for a backup of the home.
    #[error("failed to copy the database {}", path.display())]
    Copy {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A migration failed. The database is unchanged.
    #[error("failed to bring the database to version {version}")]
    Migration {
        /// The schema version that the migration leads to.
        version: u32,
        #[source]
        source: sql::Error,
    },
    /// A file beside the database could not be read or written. Nothing was changed.
    #[error(transparent)]
    Beside(#[from] HomeError),
    /// A thread of the store could not be started.
    #[error("failed to start a thread of the database")]
    Thread(#[source] std::io::Error),
    /// A statement failed for a reason that has no variant of its own.
    #[error("failed to {what} in the database")]
    Query {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// Another process held the lock for longer than the store waits. Nothing was changed.
    #[error("failed to {what}: another process has locked the database")]
    Locked {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// There was no space for the write. Nothing was changed.
    #[error(
        "failed to {what}: there is no room for the database, its disk is full or fails, or its file may not grow"
    )]
    Full {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// The disk failed to read or write. Nothing was changed.
    #[error("failed to {what}: the disk of the database fails")]
    Disk {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// The server can't be reached. Nothing was changed.
    #[error("failed to {what}: the server of the database can't be reached")]
    Unreachable {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// The answer to the commit was lost. The change may have been made.
    #[error("it is not known if flock could {what}: the connection to the database broke during the commit")]
    Unknown {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// Another gateway has taken over from this one, which changes nothing any more. Nothing was changed.
    #[error("failed to {what}: another gateway has taken over from this one")]
    Fenced {
        /// The operation, as in `begin a turn`.
        what: &'static str,
    },
    /// The content that was read is invalid: either the file is damaged or the disk failed to read it. Nothing was
    /// changed.
    ///
    /// SQLite reports both with the same code. [`integrity::judge`](super::integrity::judge) tells them apart.
    #[error("failed to {what}: what was read of the database is not whole")]
    Doubtful {
        /// The operation, as in `begin a turn`.
        what: &'static str,
        #[source]
        source: sql::Error,
    },
    /// The disk fails to read the file.
    #[error("the database {} can't be read: its disk fails", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The writing thread has ended.
    #[error("the database is closed")]
    Stopped,
}

impl StoreError {
    /// Returns the variant that matches the reason why a file could not be opened.
    pub(super) fn open(path: &Path, source: impl Into<sql::Error>) -> Self {
        let (path, source) = (path.to_owned(), source.into());
        match source.cause() {
            Cause::Unread => Self::Unreadable { path, source: source.into() },
            _ => Self::Open { path, source },
        }
    }

    /// Returns the variant that matches the reason why a statement failed.
    pub(super) fn query(what: &'static str, source: impl Into<sql::Error>) -> Self {
        let source = source.into();
        match source.cause() {
            Cause::Locked => Self::Locked { what, source },
            Cause::Full => Self::Full { what, source },
            Cause::Unread | Cause::Read | Cause::Disk => Self::Disk { what, source },
            Cause::Corrupt => Self::Doubtful { what, source },
            Cause::Unreachable => Self::Unreachable { what, source },
            Cause::Unknown => Self::Unknown { what, source },
            Cause::Fenced => Self::Fenced { what },
            Cause::Statement | Cause::NotDatabase | Cause::Refused => Self::Query { what, source },
        }
    }
}

/// Returns `true` if the server wants a password and there is none. The driver has no code for it.
fn lacks_password(source: &sql::Error) -> bool {
    source.to_string().contains("password missing")
}

/// Returns what helps against the reason why a server can't be connected to.
fn connect_hint(secret: &Path, source: &sql::Error) -> String {
    match source.sqlstate() {
        // A server says the same of a wrong password and of an unknown user.
        Some("28P01" | "28000") => format!(
            "write the password of the database's user to {}, with the mode 600, and see that the server lets the user in",
            secret.display()
        ),
        Some("3D000") => "createdb makes the database on its server".to_owned(),
        _ if lacks_password(source) => {
            format!("write the password of the database's user to {}, with the mode 600", secret.display())
        }
        _ if source.to_string().contains("takes no changes") => {
            "have store.json name the server that takes changes, or all of them, as in postgres://USER@ONE,TWO/DATABASE; a \
             standby takes changes once it is promoted"
                .to_owned()
        }
        _ => "see that the server runs and can be reached, and that store.json has its address".to_owned(),
    }
}

/// The hint for a fault whose cause is unclear: the command checks which one it is.
const DOCTOR_HINT: &str = "flock doctor";

impl StoreError {
    /// Returns `true` if the storage failed, as a full disk does, so that the same operation may succeed later.
    #[must_use]
    pub(crate) fn is_fault(&self) -> bool {
        match self {
            Self::Full { .. }
            | Self::Locked { .. }
            | Self::Disk { .. }
            | Self::Doubtful { .. }
            | Self::Unreachable { .. }
            | Self::HeldUp { .. }
            | Self::Unknown { .. }
            // The same home has another gateway in a moment.
            | Self::Fenced { .. }
            | Self::Unreadable { .. } => true,
            // Of the errors of files beside the database, only those of a failing disk may pass.
            Self::Beside(error) => error.kind() == Kind::Unreadable,
            Self::Query { source, .. } | Self::Open { source, .. } | Self::Connect { source, .. } => {
                source.cause().is_fault()
            }
            _ => false,
        }
    }

    /// Returns the error for a start of the gateway that waited in vain at this place, where other errors stay as they are.
    pub(super) fn of_start(self, place: &str) -> Self {
        match self {
            Self::Locked { what, source } => Self::HeldUp { what, place: place.to_owned(), source },
            other => other,
        }
    }

    /// Returns `true` if only a check of the file can tell damage from a failing disk.
    #[must_use]
    pub(crate) fn is_doubtful(&self) -> bool {
        match self {
            Self::Doubtful { .. } => true,
            Self::Open { source, .. } | Self::Migration { source, .. } => source.cause() == Cause::Corrupt,
            _ => false,
        }
    }
}

impl Explain for StoreError {
    fn kind(&self) -> Kind {
        match self {
            Self::Newer { .. } | Self::NewerSchema { .. } => Kind::NewerHome,
            Self::Damaged { .. } | Self::Gone { .. } => Kind::Damaged,
            Self::Disk { .. } | Self::Doubtful { .. } | Self::Unreadable { .. } => Kind::Unreadable,
            // The file was read and contains something else, so the disk is not at fault.
            Self::Query { source, .. } | Self::Open { source, .. }
                if source.cause() == Cause::NotDatabase =>
            {
                Kind::Damaged
            }
            Self::Open { source, .. } | Self::Migration { source, .. }
                if matches!(source.cause(), Cause::Corrupt | Cause::Unread) =>
            {
                Kind::Unreadable
            }
            Self::Unreachable { .. } | Self::HeldUp { .. } => Kind::Unreachable,
            // A server that refuses the sign-in was reached.
            Self::Connect { source, .. }
                if source.cause() == Cause::Unreachable && !lacks_password(source) =>
            {
                Kind::Unreachable
            }
            // A file may be locked too, and then no server is to blame.
            Self::Migration { source: source @ sql::Error::Postgres(_), .. }
                if matches!(source.cause(), Cause::Locked | Cause::Unreachable) =>
            {
                Kind::Unreachable
            }
            Self::Beside(error) => error.kind(),
            Self::InUse { .. } | Self::MovedAway { .. } | Self::HalfMoved { .. } => Kind::Conflict,
            Self::Fenced { .. } => Kind::Replaced,
            Self::Stopped => Kind::Internal,
            _ => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            // These are commands to run, or a sentence where no command helps.
            Self::Newer { .. } | Self::NewerSchema { .. } => Some("flock update".to_owned()),
            Self::Connect { secret, source, .. } => Some(connect_hint(secret, source)),
            Self::Location { path, .. } => {
                Some(format!("mend {}; docs/home.md says what it holds", path.display()))
            }
            Self::InUse { .. } => Some(
                "stop that gateway first, give this home a schema of its own in store.json, or have several gateways use \
                 the database: flock gateway invite"
                    .to_owned(),
            ),
            // A kill between the last two steps of a move leaves this, too.
            Self::MovedAway { .. } => Some(
                "flock home move --to sqlite finishes a move of this home; store.json of any other home has to name \
                 another schema"
                    .to_owned(),
            ),
            Self::HalfMoved { .. } => Some(
                "flock home move finishes it from the home whose database it is; this home needs another schema in \
                 store.json"
                    .to_owned(),
            ),
            Self::OnServer { .. } => {
                Some(
                    "the home with such a database is saved by: flock backup; the database alone by pg_dump"
                        .to_owned(),
                )
            }
            Self::Unreachable { .. } => {
                Some("see that the server runs and can be reached, then try again".to_owned())
            }
            Self::HeldUp { .. } => Some(
                "end what holds the lock of flock's changes there (pg_locks shows it), or what slows the server down, then try \
                 again"
                    .to_owned(),
            ),
            Self::Unknown { .. } => Some("look if the change is there before you make it again".to_owned()),
            Self::Replaced { .. } => Some("flock restart".to_owned()),
            Self::Fenced { .. } => Some("flock status".to_owned()),
            Self::NoFile { path } => {
                Some(format!("ls -ld {} shows what it is; move it away, then flock doctor", path.display()))
            }
            Self::Beside(error) => error.hint(),
            Self::Stopped => None,
            Self::Locked { .. } => Some("end what holds it, or try again in a moment".to_owned()),
            Self::Migration { source, .. } if source.cause() == Cause::Locked => {
                Some("end what uses its tables, such as a backup, or try again when that has ended".to_owned())
            }
            Self::Full { .. } => Some("make room on its disk, then try again".to_owned()),
            // A restore would lose data if only the disk fails for a moment, so the first advice is a check.
            error if error.is_doubtful() => Some(DOCTOR_HINT.to_owned()),
            error => Some(match error.kind() {
                Kind::Damaged => "flock restore".to_owned(),
                Kind::Unreadable => KERNEL_LOG_HINT.to_owned(),
                _ => DOCTOR_HINT.to_owned(),
            }),
        }
    }

    fn may_pass(&self) -> bool {
        // `is_fault` includes a file that is not a database, which does not pass by itself, and a change that may have
        // been made, which a client must not take for one that was not.
        self.is_fault() && self.kind() != Kind::Damaged && !matches!(self, Self::Unknown { .. })
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn failure(code: i32) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_disk_that_fails_is_not_damage() {
        let open = |code| StoreError::open(Path::new("/x"), failure(code));
        let query = |code| StoreError::query("look", failure(code));
        for (code, kind, hint) in [
            (ffi::SQLITE_IOERR_CORRUPTFS, Kind::Unreadable, KERNEL_LOG_HINT),
            // SQLite uses this code for a failed read as well.
            (ffi::SQLITE_CORRUPT, Kind::Unreadable, DOCTOR_HINT),
            (ffi::SQLITE_NOTADB, Kind::Damaged, "flock restore"),
        ] {
            for error in [open(code), query(code)] {
                assert_eq!((error.kind(), error.hint().as_deref()), (kind, Some(hint)), "{error:?}");
                assert_eq!(error.may_pass(), kind == Kind::Unreadable, "{error:?}");
                assert_eq!(error.is_doubtful(), code == ffi::SQLITE_CORRUPT, "{error:?}");
            }
        }
        assert_eq!(query(ffi::SQLITE_IOERR_READ).kind(), Kind::Unreadable);
        assert_eq!(open(ffi::SQLITE_IOERR_READ).kind(), Kind::Failed, "it may be no file at all");
        assert!(query(ffi::SQLITE_IOERR_WRITE).to_string().contains("no room"));
    }

    #[test]
    fn a_migration_whose_tables_are_in_use_says_what_to_wait_for() {
        let hint = |code| StoreError::Migration { version: 2, source: failure(code).into() }.hint().unwrap();
        assert!(hint(ffi::SQLITE_BUSY).contains("such as a backup"));
        assert_eq!(hint(ffi::SQLITE_ERROR), DOCTOR_HINT);
    }
}
