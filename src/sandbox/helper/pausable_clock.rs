//! A clock that stops while a sandbox is frozen. A frozen helper does not answer and must not be taken for a dead one.

use std::time::{Duration, Instant};

use tokio::sync::watch;

/// A clock that follows the freeze state of a sandbox.
#[derive(Clone, Debug)]
pub(crate) struct PausableClock {
    frozen: watch::Receiver<bool>,
}

impl PausableClock {
    /// Creates a clock that stops while `frozen` is `true`.
    #[must_use]
    pub const fn new(frozen: watch::Receiver<bool>) -> Self {
        Self { frozen }
    }

    /// Returns a clock that never stops, for a helper that nobody freezes.
    #[must_use]
    pub fn plain() -> Self {
        Self::new(watch::channel(false).1)
    }

    /// Waits until `limit` has passed, without counting the time while frozen.
    pub(super) async fn sleep(&self, limit: Duration) {
        let mut left = limit;
        loop {
            // The time limit counts only while the sandbox is not frozen.
            self.until(false).await;
            let began = Instant::now();
            tokio::select! {
                () = tokio::time::sleep(left) => return,
                () = self.until(true) => left = left.saturating_sub(began.elapsed()),
            }
        }
    }

    /// Waits until the sandbox is frozen. Returns at once if it is already.
    pub(super) async fn frozen(&self) {
        self.until(true).await;
    }

    async fn until(&self, wanted: bool) {
        let mut frozen = self.frozen.clone();
        let gone = frozen.wait_for(|now| *now == wanted).await.is_err();
        // The sender is gone, so nobody can freeze it any more.
        if gone && wanted {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn no_time_passes_while_frozen() {
        let (sender, receiver) = watch::channel(true);
        let patience = PausableClock::new(receiver);
        let mut wait = Box::pin(patience.sleep(Duration::ZERO));
        assert!(tokio::time::timeout(Duration::from_millis(20), &mut wait).await.is_err());
        sender.send_replace(false);
        wait.await;
    }

    #[tokio::test]
    async fn a_clock_that_is_never_paused_runs_normally() {
        PausableClock::plain().sleep(Duration::from_millis(1)).await;
        let never = PausableClock::plain();
        assert!(tokio::time::timeout(Duration::from_millis(1), never.frozen()).await.is_err());
    }
}
