//! The thread on which the connections to PostgreSQL run, but for that of the writing thread.
//!
//! A connection is a task that reads and writes its socket. The threads that use it send it requests and wait for the
//! answers, so they need no runtime of their own, and none of theirs waits for the network. The writing thread makes most of
//! the ways to the server, one after the other, and runs its connection itself.

use std::thread::JoinHandle;
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::PostgresError;

/// The thread. Dropping it waits until the connections are closed.
pub(super) struct Runtime {
    handle: Handle,
    connections: TaskTracker,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the thread. At its end, connections have `goodbye` to tell the server that they close.
    pub(super) fn start(goodbye: Duration) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let connections = TaskTracker::new();
        let (stop, stopped) = oneshot::channel::<()>();
        let open = connections.clone();
        let thread = std::thread::Builder::new().name("store-postgres".to_owned()).spawn(move || {
            runtime.block_on(async {
                // An error means that the sender is gone, which is a stop as well.
                let _ = stopped.await;
                open.close();
                drop(tokio::time::timeout(goodbye, open.wait()).await);
            });
            // A plain drop would wait for the name of a server that is still being resolved.
            runtime.shutdown_background();
        })?;
        Ok(Self { handle, connections, stop: Some(stop), thread: Some(thread) })
    }

    /// Runs a connection, or the attempt to make one.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.connections.spawn_on(task, &self.handle);
    }
}

/// The runtime of one connection whose task runs on the thread that waits for its answers.
pub(super) struct OwnRuntime(Option<tokio::runtime::Runtime>);

impl OwnRuntime {
    pub(super) fn new() -> Result<Self, PostgresError> {
        let made = Builder::new_current_thread().enable_all().build();
        made.map(|runtime| Self(Some(runtime))).map_err(|error| PostgresError::Connection(error.to_string()))
    }

    /// Runs a task whenever [`Self::within`] waits.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            drop(runtime.spawn(task));
        }
    }

    /// Gives the tasks a chance to run, without waiting for anything.
    pub(super) fn kick(&self) {
        if let Some(runtime) = &self.0 {
            runtime.block_on(tokio::task::yield_now());
        }
    }

    /// Runs a future to its end on this thread. Returns `None` if it is not done after `limit`.
    pub(super) fn within<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let runtime = self.0.as_ref()?;
        runtime.block_on(async { tokio::time::timeout(limit, future).await.ok() })
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // It has no threads. A plain drop is refused on a thread on which another runtime runs its tasks.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
