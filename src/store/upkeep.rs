//! What the gateway does for its database beside reads and changes, whatever the database.

use std::time::Duration;

use super::database::{Engine, Pool};
use super::health::{FaultSubscription, StorageProblem};
use super::{Store, StoreError};

impl Store {
    /// Returns a number for the database that is open. Another one has another number, such as a restored backup.
    #[must_use]
    pub(crate) fn identity(&self) -> i64 {
        match &self.access.engine {
            Engine::Sqlite(engine) => engine.identity(),
            Engine::Postgres(engine) => engine.identity(),
        }
    }

    /// Returns the current trouble with the database, or `None` if nothing is known to be wrong.
    #[must_use]
    pub fn trouble(&self) -> Option<StorageProblem> {
        self.pool.condition().trouble()
    }

    /// Subscribes to the faults of the storage from now on.
    #[must_use]
    pub fn faults(&self) -> FaultSubscription {
        self.pool.condition().faults()
    }

    /// Waits until the database can be used, as far as is known.
    pub(crate) async fn until_usable(&self) {
        self.pool.condition().until_usable().await;
    }

    /// Waits until another gateway has taken over from this one, as far as is known.
    pub(crate) async fn until_fenced(&self) {
        self.pool.condition().until_fenced().await;
    }

    /// Writes a meaningless value, reads again what could not be read before, and records the result.
    ///
    /// A connection that can no longer write is replaced by a new one. If only part of the database can't be read, this
    /// succeeds, and [`Self::trouble`] still reports that part.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Replaced`] if the path no longer names the file that was opened, and another error if the
    /// test write or read fails.
    pub(crate) async fn try_out(&self) -> Result<(), StoreError> {
        match &self.access.engine {
            Engine::Sqlite(engine) => engine.try_out(self.pool.condition()).await,
            Engine::Postgres(engine) => engine.try_out(&self.pool).await,
        }
    }

    /// Syncs everything that was committed, and leaves a database in a file ready to be copied: its log is moved into
    /// it, as far as no reader of another process uses the log.
    pub async fn settle(&self) -> Result<(), StoreError> {
        if let Engine::Sqlite(engine) = &self.access.engine {
            engine.fold_log().await?;
        }
        // What was reported to the syncer, and the end of the audit chain, still have to reach the disk.
        self.sync().await
    }

    /// Checks whether the database is really damaged after an error said so. Blocks the calling thread.
    ///
    /// Returns `false` if the disk fails to read the file or if the file is intact. The trouble then counts as a fault
    /// of the storage, which may pass. So does one that a server reports: it looks after its own files.
    #[must_use]
    pub(crate) fn confirm_damage(&self, limit: Duration) -> bool {
        let doubt = match &self.access.engine {
            Engine::Sqlite(engine) => engine.doubt(limit),
            Engine::Postgres(_) => Some("the server reports that its data is damaged".to_owned()),
        };
        match doubt {
            None => true,
            Some(reason) => {
                self.pool.condition().clear_damage(reason);
                false
            }
        }
    }

    /// Searches the whole database for damage, until `is_over` returns `true`. Blocks the calling thread. A server does
    /// this for itself.
    ///
    /// Damage that is found becomes the trouble of this store, as if a read had met it: only
    /// [`confirm_damage`](Self::confirm_damage) tells it from a failing disk.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be opened or checked.
    pub(crate) fn search_for_damage(
        &self,
        is_over: impl Fn() -> bool + Send + 'static,
    ) -> Result<(), StoreError> {
        match &self.access.engine {
            Engine::Sqlite(engine) => engine.search_for_damage(self.pool.condition(), is_over),
            Engine::Postgres(_) => Ok(()),
        }
    }

    /// Returns `true` if a server keeps the database, which makes its own backups and checks.
    #[must_use]
    pub(crate) const fn is_on_server(&self) -> bool {
        matches!(self.pool, Pool::Postgres(_))
    }
}
