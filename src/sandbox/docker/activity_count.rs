//! Counts activities in a sandbox that others wait for: commands that run, and programs that were told to end and may not
//! have ended yet.

use tokio::sync::watch;

/// The shared counter.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActivityCount(watch::Sender<usize>);

/// A guard for one activity. Dropping it decreases the counter.
#[derive(Debug)]
pub(crate) struct ActivityGuard(watch::Sender<usize>);

impl ActivityCount {
    /// Counts an activity until the guard is dropped.
    pub fn begin(&self) -> ActivityGuard {
        self.0.send_modify(|count| *count += 1);
        ActivityGuard(self.0.clone())
    }

    pub fn is_zero(&self) -> bool {
        *self.0.borrow() == 0
    }

    /// Waits until the counter is zero. Activities that begin in the meantime are waited for, too.
    pub async fn wait(&self) {
        // The channel cannot be closed, because `self` holds a sender.
        drop(self.0.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl Drop for ActivityGuard {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn wait_includes_an_activity_that_begins_meanwhile() {
        let endings = ActivityCount::default();
        assert!(endings.wait().now_or_never().is_some(), "there is none");
        let first = endings.begin();
        let mut waits = Box::pin(endings.wait());
        assert!((&mut waits).now_or_never().is_none());
        let second = endings.begin();
        drop(first);
        assert!((&mut waits).now_or_never().is_none(), "the second goes on");
        let more: Vec<_> = (0..5000).map(|_| endings.clone().begin()).collect();
        drop(second);
        assert!((&mut waits).now_or_never().is_none(), "so do all the others");
        drop(more);
        assert!(waits.now_or_never().is_some());
    }
}
