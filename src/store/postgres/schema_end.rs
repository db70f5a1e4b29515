//! A schema at one end of a move, which nobody else changes meanwhile.

use std::time::Duration;

use super::gateway_lock::{self, GatewayLock, Sharing};
use super::schema;
use super::server::{Purpose, Server};
use super::session::Session;
use super::settings::Settings;
use super::text::quoted;
use super::transaction::{LockedTransaction, lock_deadline};
use crate::home::Home;
use crate::store::StoreError;
use crate::store::sql::{self, Connection, Result, Row};
use crate::store::transfer::state::MovedNote;

/// The time for which a move waits for a change that another process is making.
const LOCK_LIMIT: Duration = Duration::from_secs(10);

/// The name of the function that refuses changes of a store that was moved away.
const REFUSAL: &str = "refuse_moved_store";

/// A connection to a schema. With the locks of the gateway and of all changes, which end with it, no other process changes
/// anything in the schema.
pub(in crate::store) struct SchemaEnd {
    session: Session,
}

/// What a server and a user have to offer to a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::store) struct ServerFacts {
    pub(in crate::store) encoding: String,
    /// Set if the user may make tables in the schema, or the schema itself.
    pub(in crate::store) may_create: bool,
    pub(in crate::store) database: String,
    pub(in crate::store) user: String,
}

impl SchemaEnd {
    /// Connects to the schema, which need not exist, to look at it.
    pub(in crate::store) fn look(
        home: &Home,
        settings: Settings,
        secret: String,
    ) -> std::result::Result<Self, StoreError> {
        let server = Server::new(home, settings, secret)?;
        // A move takes long, and has no statement of whose time anything else depends.
        Ok(Self { session: server.connect(Purpose::Migrate)? })
    }

    /// Connects to the schema and takes both locks.
    ///
    /// Returns [`StoreError::InUse`] if a gateway uses the schema, and [`StoreError::Locked`] if another process does not
    /// end its change.
    pub(in crate::store) fn hold(
        home: &Home,
        settings: Settings,
        secret: String,
    ) -> std::result::Result<Self, StoreError> {
        let place = settings.to_string();
        let held = Self::look(home, settings, secret)?;
        GatewayLock::take(&held.session, Sharing::Alone, None)
            .map_err(|source| gateway_lock::refused(place, source))?;
        // Changes take this lock for each transaction. A session has it until it ends, and takes it again for its own.
        let locked = held.session.batch(&format!(
            "SET lock_timeout = {}; SELECT pg_advisory_lock({}); SET lock_timeout = 0",
            LOCK_LIMIT.as_millis(),
            held.session.server.settings.lock_key()
        ));
        locked.map_err(|source| StoreError::query("have the database for the move alone", source))?;
        Ok(held)
    }

    pub(in crate::store) const fn connection(&self) -> Connection<'_> {
        Connection::postgres(&self.session)
    }

    /// Returns the number of the lock of all changes.
    #[cfg(test)]
    pub(in crate::store) fn lock_key(&self) -> i64 {
        self.session.server.settings.lock_key()
    }

    /// Returns where it is, without a password.
    pub(in crate::store) fn place(&self) -> String {
        self.session.server.settings.to_string()
    }

    /// Returns the command that drops the schema with everything in it.
    pub(in crate::store) fn drop_command(&self) -> String {
        self.session.server.settings.drop_command()
    }

    /// Returns what the server has to offer.
    pub(in crate::store) fn facts(&self) -> Result<ServerFacts> {
        let facts = |row: &Row<'_>| {
            Ok(ServerFacts {
                encoding: row.get(0)?,
                may_create: row.get(1)?,
                database: row.get(2)?,
                user: row.get(3)?,
            })
        };
        self.connection().query_row(
            "SELECT current_setting('server_encoding'),
                 coalesce((SELECT has_schema_privilege(oid, 'CREATE') FROM pg_namespace WHERE nspname = ?1),
                     has_database_privilege(current_database(), 'CREATE')),
                 CAST(current_database() AS TEXT), CAST(current_user AS TEXT)",
            [&self.session.server.settings.schema],
            facts,
        )
    }

    /// Returns the names of the tables and views in the schema. Without any, it has nothing that could be lost.
    pub(in crate::store) fn relations(&self) -> Result<Vec<String>> {
        self.connection()
            .prepare(
                "SELECT CAST(relation.relname AS TEXT)
                 FROM pg_class relation JOIN pg_namespace own ON own.oid = relation.relnamespace
                 WHERE own.nspname = ?1 AND relation.relkind IN ('r', 'p', 'v', 'm', 'f')
                 ORDER BY relation.relname",
            )?
            .query_map([&self.session.server.settings.schema], |row| row.get(0))?
            .collect()
    }

    /// Returns the note that a store was moved away from here, if it was.
    pub(in crate::store) fn note(&self) -> Result<Option<MovedNote>> {
        schema::moved_note(&self.session)
    }

    /// Returns the version of the tables; 0 without any.
    pub(in crate::store) fn version(&self) -> std::result::Result<u32, StoreError> {
        schema::known_version(&self.session)
    }

    /// Returns the version of the tables as [`Self::version`] does, for somebody who reads the store.
    ///
    /// Returns [`StoreError::MovedAway`] or [`StoreError::HalfMoved`] if no home uses it as its store.
    pub(in crate::store) fn store_version(&self) -> std::result::Result<u32, StoreError> {
        schema::check(&self.session)
    }

    /// Returns the number of bytes that the tables and their indexes take on the server.
    pub(in crate::store) fn bytes(&self) -> Result<u64> {
        let bytes: i64 = self.connection().query_row(
            "SELECT CAST(coalesce(sum(pg_total_relation_size(relation.oid)), 0) AS BIGINT)
             FROM pg_class relation JOIN pg_namespace own ON own.oid = relation.relnamespace
             WHERE own.nspname = ?1 AND relation.relkind = 'r'",
            [&self.session.server.settings.schema],
            |row| row.get(0),
        )?;
        Ok(u64::try_from(bytes).unwrap_or_default())
    }

    /// Creates the schema if it is missing.
    pub(in crate::store) fn create(&self) -> Result<()> {
        schema::create(&self.session)
    }

    /// Creates the tables, or brings them to this version.
    pub(in crate::store) fn migrate(&self) -> std::result::Result<(), StoreError> {
        let first = schema::known_version(&self.session)?;
        schema::apply_all(&self.session, schema::MIGRATIONS, first)
    }

    /// Deletes all rows of these tables. No trigger runs, and references are not looked at one by one.
    pub(in crate::store) fn empty(&self, tables: &[&str]) -> Result<()> {
        if tables.is_empty() {
            return Ok(());
        }
        let names: Vec<String> = tables.iter().map(|name| quoted(name)).collect();
        self.session.batch(&format!("TRUNCATE {}", names.join(", ")))
    }

    /// Has the server look at the rows of these tables, so that it plans queries for them and not for empty tables.
    pub(in crate::store) fn analyze(&self, tables: &[&str]) -> Result<()> {
        let names: Vec<String> = tables.iter().map(|name| quoted(name)).collect();
        self.session.batch(&format!("ANALYZE {}", names.join(", ")))
    }

    /// Runs `work` in a transaction, and returns once it and everything before it are on the server's disk.
    pub(in crate::store) fn commit_to_disk(
        &self,
        work: impl FnOnce(&sql::Transaction<'_>) -> Result<()>,
    ) -> Result<()> {
        let transaction = LockedTransaction::begin(&self.session, lock_deadline())?;
        self.session.commit_on_disk()?;
        work(&sql::Transaction::postgres(&self.session))?;
        transaction.commit()
    }

    /// Writes down that the store was moved away, and has the server refuse every change of it from now on, also over
    /// connections that are open. To read it stays possible.
    pub(in crate::store) fn retire(&self, note: &MovedNote) -> Result<()> {
        let tables = self.relations()?;
        self.commit_to_disk(|transaction| {
            transaction.execute(
                "CREATE TABLE store_moved (home TEXT NOT NULL, place TEXT NOT NULL, moved_at BIGINT NOT NULL)",
                (),
            )?;
            let insert = "INSERT INTO store_moved (home, place, moved_at) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, (&note.home, &note.place, note.at))?;
            self.session.batch(&format!(
                "CREATE FUNCTION {REFUSAL}() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN
                     RAISE EXCEPTION 'this store was moved away; the table store_moved says where it is'
                         USING ERRCODE = 'read_only_sql_transaction';
                 END
                 $$"
            ))?;
            for table in &tables {
                self.session.batch(&format!(
                    "CREATE TRIGGER {REFUSAL} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {}
                     FOR EACH STATEMENT EXECUTE FUNCTION {REFUSAL}()",
                    quoted(table)
                ))?;
            }
            Ok(())
        })
    }
}
