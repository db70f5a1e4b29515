//! The turns of the gateway, as far as bridges need them.

use std::sync::Arc;

use tokio::sync::watch;

use crate::id::{AgentId, ChannelId};

/// A turn that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunningTurn {
    pub(crate) agent: AgentId,
    /// The channel that it works for, if it is of one.
    pub(crate) channel: Option<ChannelId>,
}

impl Turns {
    /// Returns access for a process that runs no turns.
    pub(super) fn none() -> Self {
        let (_, changes) = watch::channel(0);
        Self { changes, list: Arc::new(Vec::new), stop: Arc::new(|_, _| 0) }
    }
}

/// Stops the turns of an agent for a channel, and returns their number.
type StopTurns = dyn Fn(&AgentId, &ChannelId) -> usize + Send + Sync;

/// Access to the turns of the gateway.
#[derive(Clone)]
pub(crate) struct Turns {
    /// Changes whenever something happens in the gateway.
    pub(crate) changes: watch::Receiver<u64>,
    /// Returns the turns that run.
    pub(crate) list: Arc<dyn Fn() -> Vec<RunningTurn> + Send + Sync>,
    /// Stops the turns of an agent for a channel, and returns their number.
    pub(crate) stop: Arc<StopTurns>,
}
