//! The stop of a turn from outside: by its caller, or at its deadline.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::oversight::Oversight;
use super::turn::TurnError;
use crate::id::AgentId;
use crate::sync::lock;

/// The stop conditions of a turn.
pub(super) struct Deadline {
    pub(super) cancel: CancellationToken,
    /// Moved forward while the turn has to wait for others.
    deadline: Mutex<Instant>,
    wall: Duration,
    oversight: Arc<dyn Oversight>,
    agent: AgentId,
}

impl Deadline {
    /// Creates the stop conditions of an agent's turn, which may take `wall` from now. Time in which the agent is
    /// frozen does not count.
    pub(super) fn new(
        cancel: CancellationToken,
        wall: Duration,
        oversight: Arc<dyn Oversight>,
        agent: AgentId,
    ) -> Self {
        Self { cancel, deadline: Mutex::new(Instant::now() + wall), wall, oversight, agent }
    }

    /// Waits for the stop and returns its error.
    pub(super) async fn wait(&self) -> TurnError {
        loop {
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return TurnError::Cancelled,
                () = sleep_until(self.deadline()) => {}
            }
            // Polled only once: a future that is not ready at once means that the agent is frozen.
            let mut thawed = self.oversight.thawed(&self.agent);
            if thawed.as_mut().now_or_never().is_some() {
                return TurnError::TimedOut(self.wall);
            }
            // The agent was frozen while a tool ran. It is not known for how much of the time, so the turn gets its
            // whole time again.
            if self.uncounted(thawed).await.is_err() {
                return TurnError::Cancelled;
            }
            self.extend(self.wall);
        }
    }

    /// Returns an error if the turn has to stop.
    pub(super) fn now(&self) -> Result<(), TurnError> {
        // A cancellation is reported even if the deadline has passed as well.
        if self.cancel.is_cancelled() {
            Err(TurnError::Cancelled)
        } else if Instant::now() >= self.deadline() {
            Err(TurnError::TimedOut(self.wall))
        } else {
            Ok(())
        }
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.oversight.thawed(&self.agent).now_or_never().is_none()
    }

    /// Waits while the agent is frozen.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Cancelled`] if the turn is cancelled meanwhile.
    pub(super) async fn thawed(&self) -> Result<(), TurnError> {
        self.uncounted(self.oversight.thawed(&self.agent)).await
    }

    /// Waits for work that is not the turn's own, so that its time does not count against the deadline.
    ///
    /// # Errors
    ///
    /// Returns [`TurnError::Cancelled`] if the turn is cancelled meanwhile.
    pub(super) async fn uncounted<T>(&self, work: impl Future<Output = T>) -> Result<T, TurnError> {
        let from = Instant::now();
        // The deadline is not watched here, because it is moved by the time that this takes.
        let done = tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(TurnError::Cancelled),
            done = work => Ok(done),
        };
        self.extend(from.elapsed());
        done
    }

    fn deadline(&self) -> Instant {
        *lock(&self.deadline)
    }

    fn extend(&self, by: Duration) {
        *lock(&self.deadline) += by;
    }
}

#[cfg(test)]
#[path = "deadline_tests.rs"]
mod tests;
