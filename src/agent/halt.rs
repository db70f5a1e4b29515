//! What ends a turn from outside: its caller, or the clock.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::turn::TurnError;

/// What ends a turn from outside.
pub(super) struct Halt {
    pub(super) cancel: CancellationToken,
    deadline: Instant,
    wall: Duration,
}

impl Halt {
    /// The turn may take `wall` from now on.
    pub(super) fn new(cancel: CancellationToken, wall: Duration) -> Self {
        Self { cancel, deadline: Instant::now() + wall, wall }
    }

    /// Waits for the end and says which it was.
    pub(super) async fn wait(&self) -> TurnError {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => TurnError::Cancelled,
            () = sleep_until(self.deadline) => TurnError::TimedOut(self.wall),
        }
    }

    /// Whether it has come.
    pub(super) fn now(&self) -> Result<(), TurnError> {
        if self.cancel.is_cancelled() {
            Err(TurnError::Cancelled)
        } else if Instant::now() >= self.deadline {
            Err(TurnError::TimedOut(self.wall))
        } else {
            Ok(())
        }
    }
}
