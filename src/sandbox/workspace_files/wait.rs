//! Blocking code that waits for work of the async runtime.
//!
//! A thread that waits does nothing else. On a worker thread, another thread of the runtime goes on with its tasks, and that one
//! comes from those for blocking work. Without a free one nothing of the runtime goes on any more, neither the work nor a limit
//! on its time, so only a part of them may wait.

use std::fmt::{self, Display};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use tokio::runtime::{Handle, RuntimeFlavor};

/// The most threads of a process that wait at the same time.
const MAX_WAITING: usize = 256;

/// The number of threads for blocking work that a runtime has where workspaces are used. They are started only when they are
/// needed. Half of them are left for the work that is waited for, which may block, too.
pub(crate) const BLOCKING_THREADS: usize = 2 * MAX_WAITING;

static WAITING: Waiting = Waiting(AtomicUsize::new(0));

/// The reason why work of the runtime was not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotDone {
    /// The runtime ended before the work was done.
    Ending,
    /// Too many threads wait already. The work was not begun.
    Crowded,
}

impl Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ending => f.write_str("flock is ending"),
            Self::Crowded => {
                write!(f, "{MAX_WAITING} others wait for files on other machines: try again later")
            }
        }
    }
}

impl std::error::Error for NotDone {}

/// Waits for work of the async runtime.
///
/// # Errors
///
/// Returns why it was not done.
pub(super) fn wait<T: Send + 'static>(
    runtime: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Result<T, NotDone> {
    let _place = WAITING.enter(MAX_WAITING).ok_or(NotDone::Crowded)?;
    let (sender, receiver) = sync_channel(1);
    runtime.spawn(async move {
        // Nobody waits any more.
        let _ = sender.send(work.await);
    });
    let done = match Handle::try_current().map(|current| current.runtime_flavor()) {
        // Others go on with what this thread would have done. The work itself could be among it.
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(|| receiver.recv()),
        _ => receiver.recv(),
    };
    done.map_err(|_| NotDone::Ending)
}

/// The number of threads that wait.
struct Waiting(AtomicUsize);

impl Waiting {
    /// Takes a place among those that wait. Returns `None` if there are `most` of them.
    fn enter(&self, most: usize) -> Option<Place<'_>> {
        let place = |count: usize| (count < most).then_some(count + 1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, place).is_ok().then(|| Place(self))
    }
}

/// A place among the threads that wait, until it is dropped.
struct Place<'w>(&'w Waiting);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::sync::Barrier;

    use super::*;

    #[test]
    fn only_so_many_wait_at_the_same_time() {
        let waiting = Waiting(AtomicUsize::new(0));
        let (first, second) = (waiting.enter(2), waiting.enter(2));
        assert!(first.is_some() && second.is_some() && waiting.enter(2).is_none());
        drop(first);
        assert!(waiting.enter(2).is_some(), "one has left");
        drop(second);
        assert_eq!(waiting.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_runtime_goes_on_while_many_of_its_tasks_wait() {
        const TASKS: usize = 40;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .max_blocking_threads(BLOCKING_THREADS)
            .enable_all()
            .build()
            .unwrap();
        // Work that ends only once all of it has begun, as if it were of one engine that answers late.
        let together = Arc::new(Barrier::new(TASKS));
        let (sender, ended) = sync_channel(TASKS);
        for number in 0..TASKS {
            let (together, sender, handle) =
                (Arc::clone(&together), sender.clone(), runtime.handle().clone());
            let waits = move || {
                let work = async move {
                    // Making a sandbox needs a thread for blocking work, too.
                    tokio::task::spawn_blocking(|| ()).await.unwrap();
                    together.wait().await;
                };
                sender.send(wait(&handle, work)).unwrap();
            };
            // Turns wait on worker threads, and checkpoints on those for blocking work.
            if number % 2 == 0 {
                runtime.spawn(async move { waits() });
            } else {
                runtime.spawn_blocking(waits);
            }
        }
        let mut done = 0;
        while done < TASKS && ended.recv_timeout(Duration::from_secs(60)) == Ok(Ok(())) {
            done += 1;
        }
        // Without waiting for those that hang.
        runtime.shutdown_background();
        assert_eq!(done, TASKS);
    }
}
