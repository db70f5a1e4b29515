//! Changes the configuration for a person, and records the change in the audit.
//!
//! In a group of gateways a change goes to the database first, together with its row of the audit, and into the file of the home
//! after that. The database takes it only if no other gateway was faster. So a change that was acknowledged is neither lost nor
//! mixed with another one, and one that was refused is nowhere.

use serde_json::Value;

use super::shared_config::{self, SharedConfigError};
use super::state::Gateway;
use crate::clock::unix_ms;
use crate::config::shared::shared_part;
use crate::config::{self, Config, ConfigError};
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
    change: impl FnOnce(&mut Value) -> Result<T, ConfigError> + Send + 'static,
    record: impl FnOnce(&T, &Config) -> Option<AuditEntry> + Send,
) -> Result<T, SharedConfigError> {
    let (home, store) = (gateway.home().clone(), gateway.swarm.store());
    let _alone = gateway.sharing.lock().await;
    let known = shared_config::known_revision(&home, store, &gateway.instance).await?;
    let (value, entry) = match known {
        None => {
            let value = blocking(move || origin.run(|| config::edit(&home, change))).await??;
            // The look applies the change at once and announces it.
            let entry = record(&value, &gateway.config());
            (value, entry)
        }
        Some(known) => {
            let place = home.clone();
            let (value, mut entry, before, after) = {
                let tried = blocking(move || config::preview(&place, change)).await??;
                let entry = record(&tried.value, &tried.config);
                (tried.value, entry, tried.before, tried.after)
            };
            let shared = shared_part(&after);
            let mut revision = None;
            if shared != shared_part(&before) {
                let own = shared_config::shared(&home, &gateway.instance, &shared);
                let recorded = entry.take().map(|entry| (entry, unix_ms()));
                let replaced = store.gateway_group().replace_config(known, own, recorded).await?;
                revision = Some(replaced.ok_or(SharedConfigError::Outrun)?);
            }
            let taking = move || origin.run(|| shared_config::take(&home, &before, after, revision));
            // If the file was changed meanwhile, what the database has is adopted later. It does not have the gateway's own settings.
            if !blocking(taking).await?? && revision.is_none() {
                return Err(SharedConfigError::Outrun);
            }
            drop(gateway.config());
            (value, entry)
        }
    };
    if let Some(entry) = entry {
        store.audit().append(entry, unix_ms()).await?;
    }
    Ok(value)
}

/// Runs work on files, which blocks, on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| StoreError::Stopped)
}
