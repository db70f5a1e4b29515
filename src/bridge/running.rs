//! The bridges that run: one task for each bridge of the configuration.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{BridgeStatus, Connection, SharedState};
use super::turns::Turns;
use crate::config::Bridge;
use crate::swarm::Swarm;
use crate::swarm::triage::Triage;

/// Time between two looks at the configuration. A look costs one `stat`.
const CONFIG_INTERVAL: Duration = Duration::from_secs(2);

/// Runs the bridges of the configuration.
#[derive(Default)]
pub struct Bridges {
    running: Mutex<BTreeMap<String, RunningBridge>>,
    parts: OnceLock<(Arc<Triage>, Turns)>,
}

struct RunningBridge {
    bridge: Bridge,
    shared: Arc<SharedState>,
    _task: AbortOnDropHandle<()>,
}

impl Bridges {
    /// Wakes the bridges: there may be something to send.
    pub(crate) fn wake(&self) {
        for running in self.running().values() {
            running.shared.wake.notify_one();
            running.shared.wake_decisions.notify_one();
        }
    }

    /// Returns what is known of a bridge. `None` if it does not run.
    pub(crate) fn status(&self, bridge: &str) -> Option<BridgeStatus> {
        self.running().get(bridge).map(|running| running.shared.status())
    }

    /// Starts and ends bridges as the configuration changes, until `stop` is cancelled.
    pub(crate) async fn run(&self, triage: Arc<Triage>, turns: Turns, stop: CancellationToken) {
        let swarm = triage.swarm().clone();
        // It is set once, because a gateway runs its bridges once.
        let _ = self.parts.set((triage, turns));
        loop {
            self.apply(&swarm);
            if stop.run_until_cancelled(tokio::time::sleep(CONFIG_INTERVAL)).await.is_none() {
                self.running().clear();
                return;
            }
        }
    }

    /// Starts and ends bridges so that those run that the configuration has now.
    pub(crate) fn apply(&self, swarm: &Arc<Swarm>) {
        let Some((triage, turns)) = self.parts.get() else { return };
        let config = swarm.config();
        let wanted = || config.bridges.iter().filter(|bridge| !bridge.is_paused);
        let mut running = self.running();
        // A bridge whose settings changed ends before it begins anew: two of one account would answer twice.
        running.retain(|_, running| wanted().any(|bridge| *bridge == running.bridge));
        for bridge in wanted() {
            running.entry(bridge.name.clone()).or_insert_with(|| start(triage, bridge, turns));
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, RunningBridge>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn start(triage: &Arc<Triage>, bridge: &Bridge, turns: &Turns) -> RunningBridge {
    let shared = Arc::new(SharedState::default());
    let (triage, own, state, turns) = (triage.clone(), bridge.clone(), shared.clone(), turns.clone());
    let task = tokio::spawn(async move {
        match super::open(triage.swarm().home(), &own) {
            Ok(platform) => Connection::new(triage, own, platform, state, turns).run().await,
            Err(error) => {
                tracing::error!(bridge = own.name, %error, "a bridge can't be used");
                state.note(|status| status.last_error = Some(error.to_string()));
            }
        }
    });
    RunningBridge { bridge: bridge.clone(), shared, _task: AbortOnDropHandle::new(task) }
}
