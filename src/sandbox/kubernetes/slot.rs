//! The state of one agent's sandbox in a cluster: the pod in use, and the wish to have it frozen.

use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::client::ClusterClient;
use crate::sandbox::docker::activity_count::ActivityCount;
use crate::sandbox::helper::{HelperClient, HelperError, PausableClock};
use crate::sandbox::probe::ProbeResult;
use crate::sandbox::work_left;
use crate::sync::lock;

/// An agent's sandbox, whether its pod exists or not.
#[derive(Default)]
pub(super) struct Slot {
    /// Held while the pod is made or removed.
    pub making: Arc<tokio::sync::Mutex<()>>,
    /// Held while the pod is frozen or thawed.
    pub freezing: tokio::sync::Mutex<()>,
    frozen: watch::Sender<bool>,
    live: Mutex<Option<Arc<LivePod>>>,
    probed: Mutex<Option<ProbeResult>>,
}

/// A pod in use.
pub(super) struct LivePod {
    pub client: Arc<HelperClient>,
    pub cluster: Arc<ClusterClient>,
    /// The digest of everything that it was made from.
    pub digest: String,
    /// The commands and files for which a caller waits.
    pub active: ActivityCount,
}

impl Slot {
    pub fn live(&self) -> Option<Arc<LivePod>> {
        lock(&self.live).clone().filter(|live| live.client.is_alive())
    }

    pub fn set(&self, live: Arc<LivePod>) {
        *lock(&self.live) = Some(live);
    }

    /// Drops the connection. The pod itself goes on.
    pub fn forget(&self) {
        *lock(&self.live) = None;
    }

    /// Drops the connection if the condition is met, and returns it.
    pub fn forget_if(&self, is_it: impl FnOnce(&LivePod) -> bool) -> Option<Arc<LivePod>> {
        lock(&self.live).take_if(|live| is_it(live))
    }

    pub fn is_frozen(&self) -> bool {
        *self.frozen.borrow()
    }

    pub fn set_frozen(&self, frozen: bool) {
        self.frozen.send_replace(frozen);
    }

    pub fn patience(&self) -> PausableClock {
        PausableClock::new(self.frozen.subscribe())
    }

    pub fn probed(&self) -> Option<ProbeResult> {
        lock(&self.probed).clone()
    }

    pub fn record_probe(&self, probed: Option<ProbeResult>) {
        *lock(&self.probed) = probed;
    }
}

impl LivePod {
    /// Returns what runs in the pod, in words, or `None` if nothing does.
    ///
    /// # Errors
    ///
    /// Fails if the helper does not tell its background jobs.
    pub async fn work(&self) -> Result<Option<String>, HelperError> {
        let command = || (!self.active.is_zero()).then(|| work_left::COMMAND.to_owned());
        if let Some(command) = command() {
            return Ok(Some(command));
        }
        let jobs = self.client.running_jobs().await?;
        // One may have begun while the helper was asked for its jobs.
        Ok(work_left::of_jobs(&jobs).or_else(command))
    }
}
