//! Copies what has changed in vaults to the second place in the background.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::storage_status::{CopyReport, CopyReporter};
use crate::blob::{BlobStore, owner};
use crate::checkpoint::remote::progress::CopyKind;
use crate::config::Live;
use crate::error::chain;
use crate::home::Home;
use crate::home::write_fence::WriteFence;
use crate::id::FolderName;
use crate::swarm::vault::Vaults;
use crate::swarm::vault_copies::{VaultCopies, VaultCopyError, sweep};

/// Time between two looks, and so about the most that a lost disk costs.
const INTERVAL: Duration = Duration::from_secs(10);
/// Time until the first sweep of a vault's contents. Some gateways never run for a day.
const FIRST_SWEEP: Duration = Duration::from_secs(3600);
/// Time between two sweeps.
const SWEEP: Duration = Duration::from_secs(24 * 3600);

/// Copies vaults until `stop` is cancelled, and shows in `report` how far it is. The place gets no copy behind a closed `fence`, and
/// nothing is deleted there. Without a store of blobs it only looks at the settings.
pub(crate) async fn watch(
    live: Arc<Live>,
    fence: WriteFence,
    report: Arc<CopyReport>,
    stop: CancellationToken,
) {
    let home = live.home().clone();
    let reporter = CopyReporter::begin(&home, CopyKind::Vault, report);
    let vaults = Arc::new(Vaults::new(&home));
    let mut copies = Copies { home, vaults, fence, known: HashMap::new(), is_taken_again: false, reporter };
    // What is on its way may be given up at any point: the next start copies it again.
    while stop.run_until_cancelled(tokio::time::sleep(INTERVAL)).await.is_some() {
        if stop.run_until_cancelled(copies.look(&live)).await.is_none() {
            break;
        }
    }
}

/// The state of the copies.
struct Copies {
    home: Home,
    vaults: Arc<Vaults>,
    fence: WriteFence,
    /// The knowledge of the copies of each vault, and the time of its next sweep.
    known: HashMap<FolderName, (VaultCopies, Instant)>,
    /// `true` if the place was taken again, so that what is known of it counts no more after this look.
    is_taken_again: bool,
    reporter: CopyReporter,
}

impl Copies {
    async fn look(&mut self, live: &Live) {
        let config = live.current();
        let Some(store) = self.reporter.store(config.blobs.as_ref(), &mut self.known) else { return };
        let vaults = Arc::clone(&self.vaults);
        let names = tokio::task::spawn_blocking(move || vaults.names()).await.unwrap_or_default();
        // The copies of a vault that is gone stay: its disk may not be mounted.
        self.known.retain(|name, _| names.contains(name));
        self.reporter.retain(|name| names.iter().any(|vault| vault.as_str() == name));
        let mut is_claimed = false;
        for name in &names {
            match self.vault(name, &store, &mut is_claimed).await {
                Ok(()) => self.reporter.note_done(name.as_str()),
                Err(error) => self.reporter.note_failure(name.as_str(), &error),
            }
        }
        if std::mem::take(&mut self.is_taken_again) {
            self.known.clear();
        }
        self.reporter.tell();
    }

    /// Copies a vault if it has changed, and deletes what no copy of it needs from time to time.
    async fn vault(
        &mut self,
        name: &FolderName,
        store: &Arc<dyn BlobStore>,
        is_claimed: &mut bool,
    ) -> Result<(), VaultCopyError> {
        let first = || (VaultCopies::default(), Instant::now() + FIRST_SWEEP);
        let (copies, next_sweep) = self.known.entry(name.clone()).or_insert_with(first);
        let look = copies.look(&self.vaults, name).await?;
        // Nothing is written or deleted for a vault that never had a file.
        let is_sweep_due = copies.has_files() && *next_sweep <= Instant::now();
        if (look.is_some() || is_sweep_due) && !*is_claimed {
            let since = owner::claim(&self.home, &**store).await?;
            *is_claimed = true;
            self.is_taken_again |= self.reporter.is_taken_again(since);
        }
        let mut problem = None;
        if let Some(look) = look {
            self.reporter.note_waiting(name.as_str());
            let copied = copies.copy(look, &self.vaults, name, store, &self.fence).await?;
            let (contents, bytes, is_new) = (copied.contents, copied.bytes, copied.is_new);
            if is_new {
                tracing::debug!(vault = %name, contents, bytes, "copied a vault to the second place");
                self.reporter.note_copy();
            }
            problem = copied.problem;
        }
        if is_sweep_due {
            *next_sweep = Instant::now() + SWEEP;
            copies.forget_store();
            match sweep(&**store, name, &self.fence).await {
                Ok(contents) => tracing::debug!(vault = %name, contents, "deleted old contents of a vault"),
                // Nothing that a copy needs is lost, and the next sweep does this again.
                Err(error) => {
                    tracing::warn!(vault = %name, error = chain(&error), "failed to delete old contents of a vault");
                }
            }
        }
        problem.map_or(Ok(()), Err)
    }
}
