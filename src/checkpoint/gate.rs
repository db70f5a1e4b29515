//! Keeps the turns of an agent and the rewinds of its files apart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::{Mutex, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

/// The gate of one agent: several turns may be inside, or one rewind alone.
#[derive(Debug, Default)]
pub(super) struct Gate {
    turns: Arc<RwLock<()>>,
    running: AtomicUsize,
    /// `true` while a look at the end of a turn waits for its beginning.
    pub(super) end_waits: AtomicBool,
    /// Held by the job that works on the checkpoints. Others wait in the order in which they came.
    pub(super) jobs: Arc<Mutex<()>>,
}

/// A turn that is inside.
#[derive(Debug)]
pub(super) struct TurnPass {
    gate: Arc<Gate>,
    _turns: OwnedRwLockReadGuard<()>,
}

impl Gate {
    /// Lets a turn in. Waits while the agent is set back.
    pub(super) async fn enter(self: &Arc<Self>) -> TurnPass {
        let turns = Arc::clone(&self.turns).read_owned().await;
        self.running.fetch_add(1, Ordering::AcqRel);
        TurnPass { gate: Arc::clone(self), _turns: turns }
    }

    /// Returns the right to set the agent back, unless a turn is inside.
    pub(super) fn try_alone(&self) -> Option<OwnedRwLockWriteGuard<()>> {
        Arc::clone(&self.turns).try_write_owned().ok()
    }

    /// Returns `true` while a turn is inside.
    pub(super) fn is_open(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }
}

impl Drop for TurnPass {
    fn drop(&mut self) {
        self.gate.running.fetch_sub(1, Ordering::AcqRel);
    }
}
