//! The bridges that run: one task for each bridge of the configuration.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::connection::{BridgeStatus, Connection, SharedState};
use super::turns::Turns;
use crate::config::Bridge;
use crate::config::bridges::TokenStamp;
use crate::store::{LeaseKind, LeaseSubject};
use crate::swarm::Swarm;
use crate::swarm::lease::LeaseUse;
use crate::swarm::triage::Triage;

/// Time between two looks at the configuration. A look costs one `stat`.
const CONFIG_INTERVAL: Duration = Duration::from_secs(2);

/// The wait before a bridge begins again that ended by an internal error.
const PANIC_WAIT: Duration = Duration::from_secs(30);

/// Runs the bridges of the configuration.
#[derive(Default)]
pub struct Bridges {
    running: Mutex<BTreeMap<String, RunningBridge>>,
    parts: OnceLock<(Arc<Triage>, Turns)>,
}

struct RunningBridge {
    bridge: Bridge,
    /// The tokens that it signed in with.
    tokens: TokenStamp,
    shared: Arc<SharedState>,
    // The task ends before the lease of the bridge may go: fields are dropped in this order.
    _task: AbortOnDropHandle<()>,
    _lease: LeaseUse,
}

fn subject(bridge: &str) -> LeaseSubject {
    LeaseSubject::new(LeaseKind::Bridge, bridge)
}

impl Bridges {
    /// Wakes the bridges if an event of this name may mean that there is something to send. Everything that a bridge sends is
    /// published: posts, what happens to a channel, answers of tasks, and what happens to a request.
    pub(crate) fn wake_for(&self, event: &str) {
        if event.starts_with("channel.") || event.starts_with("approval.") || event == "task.changed" {
            self.wake();
        }
    }

    /// Wakes the bridges: there may be something to send.
    pub(crate) fn wake(&self) {
        for running in self.running().values() {
            running.shared.wake.notify_one();
            running.shared.wake_answers.notify_one();
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
        let mut known = swarm.config();
        let mut owners = swarm.ownership().changes();
        loop {
            self.apply(&swarm);
            let config = swarm.config();
            if !Arc::ptr_eq(&known, &config) {
                // What may be sent, and where requests are shown, may have changed too.
                self.wake();
                known = config;
            }
            tokio::select! {
                () = stop.cancelled() => return self.running().clear(),
                () = tokio::time::sleep(CONFIG_INTERVAL) => {}
                // The sender lives as long as the swarm.
                _ = owners.changed() => {}
            }
        }
    }

    /// Starts and ends bridges so that those run that the configuration has now, and that no other gateway runs.
    pub(crate) fn apply(&self, swarm: &Arc<Swarm>) {
        let Some((triage, turns)) = self.parts.get() else { return };
        let config = swarm.config();
        let wanted = || config.bridges.iter().filter(|bridge| !bridge.is_paused);
        let mut running = self.running();
        // A bridge whose settings or tokens changed ends before it begins anew: two of one account would answer twice.
        running.retain(|name, running| {
            wanted().any(|bridge| *bridge == running.bridge)
                && TokenStamp::now(swarm.home(), name) == running.tokens
                && swarm.ownership().holds(&subject(name))
        });
        for bridge in wanted() {
            if let Entry::Vacant(place) = running.entry(bridge.name.clone())
                && let Some(lease) = swarm.ownership().enter(subject(&bridge.name))
            {
                place.insert(start(triage, bridge, turns, lease));
            }
        }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, RunningBridge>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the connection of a bridge until it can't be used any more.
async fn run(triage: Arc<Triage>, bridge: &Bridge, state: Arc<SharedState>, turns: Turns) {
    match super::open(triage.swarm().home(), bridge) {
        Ok(platform) => Connection::new(triage, bridge.clone(), platform, state, turns).run().await,
        Err(error) => {
            tracing::error!(bridge = bridge.name, %error, "a bridge can't be used");
            state.note(|status| status.last_error = Some(error.to_string()));
        }
    }
}

fn start(triage: &Arc<Triage>, bridge: &Bridge, turns: &Turns, lease: LeaseUse) -> RunningBridge {
    let shared = Arc::new(SharedState::default());
    // Taken before they are read. If one changes in between, the bridge begins once more.
    let tokens = TokenStamp::now(triage.swarm().home(), &bridge.name);
    let (triage, own, state, turns) = (triage.clone(), bridge.clone(), shared.clone(), turns.clone());
    let task = tokio::spawn(async move {
        let connect = || run(triage.clone(), &own, state.clone(), turns.clone());
        again_after_panics(PANIC_WAIT, connect, || {
            tracing::error!(bridge = own.name, "a bridge ended by an internal error; it begins again");
            state.note(|status| {
                status.connected_since = None;
                status.last_error = Some("an internal error; see flock logs gateway".to_owned());
            });
        })
        .await;
    });
    let task = AbortOnDropHandle::new(task);
    RunningBridge { bridge: bridge.clone(), tokens, shared, _task: task, _lease: lease }
}

/// Runs a connection until it ends by itself. A library that panics at what a platform sent ends neither the bridge for
/// good nor another one. It begins again after `wait`.
async fn again_after_panics<F: Future<Output = ()>>(
    wait: Duration,
    connect: impl Fn() -> F,
    report: impl Fn(),
) {
    while AssertUnwindSafe(connect()).catch_unwind().await.is_err() {
        report();
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_connection_that_panics_begins_again_and_one_that_ends_does_not() {
        let (begun, reported) = (Cell::new(0), Cell::new(0));
        let connect = || async {
            begun.set(begun.get() + 1);
            assert!(begun.get() > 2, "a platform sent what its library does not expect");
        };
        again_after_panics(Duration::ZERO, connect, || reported.set(reported.get() + 1)).await;
        assert_eq!((begun.get(), reported.get()), (3, 2));
    }
}
