//! Changes the configuration for a person, and records the change in the audit.
//!
//! In a group of gateways a change goes to the database first, together with its row of the audit, and into the file of the home
//! after that. The database takes it only if no other gateway was faster. So a change that was acknowledged is neither lost nor
//! mixed with another one, and one that was refused is nowhere. A command may change the file in between: both changes are then
//! in it, and that of the command is published next.

use serde_json::Value;

use super::shared_config::{self, SharedConfigError};
use super::state::Gateway;
use crate::clock::unix_ms;
use crate::config::shared::shared_part;
use crate::config::{self, Config, ConfigError};
use crate::error::chain;
use crate::generation::Origin;
use crate::store::{AuditEntry, StoreError};

/// Changes the configuration and returns the result of `change`. `record` returns the row of the audit, from that result and the
/// new configuration, or `None` if nothing is to be recorded.
///
/// # Errors
///
/// Returns the error of `change`, [`SharedConfigError::Outrun`] if the configuration was changed elsewhere at the same moment, or
/// an error if a file or the database can't be used.
pub(super) async fn change<T: Send + 'static>(
    gateway: &Gateway,
    origin: Origin,
    change: impl FnOnce(&mut Value) -> Result<T, ConfigError> + Clone + Send + 'static,
    record: impl FnOnce(&T, &Config) -> Option<AuditEntry> + Send,
) -> Result<T, SharedConfigError> {
    let (home, store) = (gateway.home().clone(), gateway.swarm.store());
    let _alone = gateway.sharing.lock().await;
    if let Some(known) = shared_config::known_revision(&home, store, &gateway.instance).await? {
        let (place, trial) = (home.clone(), change.clone());
        let tried = blocking(move || config::preview(&place, trial)).await??;
        let shared = shared_part(&tried.after);
        // What each gateway has for itself is not in the database.
        if shared != shared_part(&tried.before) {
            let recorded = record(&tried.value, &tried.config).map(|entry| (entry, unix_ms()));
            let own = shared_config::shared(&home, &gateway.instance, &shared);
            let replaced = store.gateway_group().replace_config(known, own, recorded).await?;
            let revision = replaced.ok_or(SharedConfigError::Outrun)?;
            let taking = move || origin.run(|| shared_config::take(&home, change, shared, revision));
            // The change counts from here on, so it is not refused any more. What the database has is adopted later.
            if let Err(error) = blocking(taking).await.map_err(SharedConfigError::from).flatten() {
                tracing::error!(
                    error = chain(&error),
                    revision,
                    "a change of the configuration is in the database and not in the file yet"
                );
            }
            drop(gateway.config());
            return Ok(tried.value);
        }
    }
    let value = blocking(move || origin.run(|| config::edit(&home, change))).await??;
    // The look applies the change at once and announces it.
    if let Some(entry) = record(&value, &gateway.config()) {
        store.audit().append(entry, unix_ms()).await?;
    }
    Ok(value)
}

/// Runs work on files, which blocks, on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Stopped)
}
