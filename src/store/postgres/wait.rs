//! Waiting for a future on a thread that runs no future.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Wakes the thread that waits.
struct Waiting(Thread);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

thread_local! {
    /// A read makes several waits, and each would allocate a waker of its own.
    static WAKER: Waker = Waker::from(Arc::new(Waiting(std::thread::current())));
}

/// Runs a future to its end on this thread. Returns `None` if it is not done after `limit`.
///
/// A runtime's own `block_on` refuses to run within a runtime, and it has no limit. The futures here only wait for
/// answers of the driver's thread, so they need no runtime.
pub(super) fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let deadline = Instant::now().checked_add(limit);
    let mut future = pin!(future);
    WAKER.with(|waker| {
        let mut context = Context::from_waker(waker);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            let Some(deadline) = deadline else {
                std::thread::park();
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            std::thread::park_timeout(left);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_thread_ends_the_wait() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let teller = std::thread::spawn(move || tell.send(7));
        assert_eq!(within(Duration::from_secs(20), told).unwrap().unwrap(), 7);
        teller.join().unwrap().unwrap();
    }

    #[test]
    fn the_wait_ends_at_its_limit() {
        assert_eq!(within(Duration::ZERO, std::future::pending::<()>()), None);
        assert_eq!(within(Duration::from_millis(5), std::future::pending::<()>()), None);
        assert_eq!(within(Duration::ZERO, async { 1 }), Some(1), "what is done is not late");
    }

    #[tokio::test]
    async fn a_task_of_a_runtime_may_wait() {
        let (tell, told) = tokio::sync::oneshot::channel();
        let teller = std::thread::spawn(move || tell.send(7));
        assert_eq!(within(Duration::from_secs(20), told).unwrap().unwrap(), 7);
        teller.join().unwrap().unwrap();
    }
}
