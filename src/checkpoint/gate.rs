//! Keeps the turns of an agent, the looks at its workspace, and the rewinds of its files apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The longest time to wait for looks at the workspace that were begun before.
const ALONE_TIMEOUT: Duration = Duration::from_secs(30);

/// The gate of one agent: several turns and looks may be inside, or one rewind alone.
///
/// A look that is recorded in the middle of a rewind would make the rewind's own changes look like somebody else's.
#[derive(Debug, Default)]
pub(super) struct Gate {
    inside: Arc<RwLock<()>>,
    running: AtomicUsize,
    /// `true` while a look at the end of a turn waits for its beginning.
    pub(super) end_waits: AtomicBool,
    /// Held by the job that works on the checkpoints. Others wait in the order in which they came.
    pub(super) jobs: Arc<Mutex<()>>,
}

/// The right to be inside. Several can share it, and it ends with the last of them.
pub(super) type Inside = Arc<OwnedRwLockReadGuard<()>>;

/// A turn that is inside.
#[derive(Debug)]
pub(super) struct TurnPass {
    gate: Arc<Gate>,
    inside: Inside,
}

impl TurnPass {
    /// Returns a share of the turn's right, for a look that may outlast the turn.
    pub(super) fn share(&self) -> Inside {
        Arc::clone(&self.inside)
    }
}

impl Gate {
    /// Lets a turn in. Waits while the agent is set back.
    pub(super) async fn enter(self: &Arc<Self>) -> TurnPass {
        let inside = self.look().await;
        self.running.fetch_add(1, Ordering::AcqRel);
        TurnPass { gate: Arc::clone(self), inside }
    }

    /// Lets a look in that belongs to no turn. Waits while the agent is set back.
    pub(super) async fn look(&self) -> Inside {
        Arc::new(Arc::clone(&self.inside).read_owned().await)
    }

    /// Returns the right to set the agent back, unless a turn runs. Waits for looks that were begun before.
    pub(super) async fn alone(&self) -> Option<OwnedRwLockWriteGuard<()>> {
        if self.is_open() {
            return None;
        }
        tokio::time::timeout(ALONE_TIMEOUT, Arc::clone(&self.inside).write_owned()).await.ok()
    }

    /// Returns `true` while a turn runs.
    pub(super) fn is_open(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }
}

impl Drop for TurnPass {
    fn drop(&mut self) {
        self.gate.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_rewind_waits_for_a_look_and_not_for_a_turn() {
        let gate = Arc::new(Gate::default());
        let pass = gate.enter().await;
        assert!(gate.alone().await.is_none(), "a turn runs");
        let look = pass.share();
        drop(pass);
        assert!(!gate.is_open());
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.alone().await.is_some() }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the look of the turn's end is still to be recorded");
        drop(look);
        assert!(waiting.await.unwrap());
    }
}
