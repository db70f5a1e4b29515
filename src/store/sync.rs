//! The syncing thread: makes written data survive a power cut.
//!
//! A commit or a `write(2)` already survives the death of the process. This thread calls `fdatasync` for the written
//! files, once for everything written within [`GROUP_WINDOW`], so that a turn never waits for a disk.

use std::collections::BTreeSet;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::audit_chain::ChainHead;
use super::sql;
use crate::home::write_fence::WriteFence;

/// The time for which writes are gathered before they are synced together.
pub const GROUP_WINDOW: Duration = Duration::from_millis(15);

/// The syncing thread. Dropping it syncs what is left and waits for that.
pub struct Syncer {
    handle: SyncHandle,
    thread: Option<JoinHandle<()>>,
}

/// A handle with which writers report their writes to the syncing thread.
#[derive(Clone)]
pub struct SyncHandle(Arc<Shared>);

/// Brings everything that was committed to the disk of the database.
pub(super) type DatabaseSync = Box<dyn Fn() -> sql::Result<()> + Send + Sync>;

struct Shared {
    database: DatabaseSync,
    /// The file that names the end of the audit chain.
    head: PathBuf,
    state: Mutex<State>,
    wake: Condvar,
    /// Held during a sync, so that a caller of `sync_now` also waits for a sync in progress.
    syncing: Mutex<()>,
    /// The fence of the files that other gateways write too.
    fence: WriteFence,
}

#[derive(Default)]
struct State {
    // Paths instead of open files: a slow disk then can't make this set use up the process's file descriptors.
    paths: BTreeSet<PathBuf>,
    /// Set if something was committed to the database.
    database: bool,
    head: Option<ChainHead>,
    stop: bool,
}

impl State {
    fn is_clean(&self) -> bool {
        self.paths.is_empty() && !self.database
    }
}

impl Syncer {
    /// Starts the syncing thread.
    ///
    /// # Errors
    ///
    /// Returns an error if the system can't start another thread.
    pub(super) fn start(database: DatabaseSync, head: PathBuf) -> std::io::Result<Self> {
        let shared = Shared {
            database,
            head,
            state: Mutex::default(),
            wake: Condvar::new(),
            syncing: Mutex::default(),
            fence: WriteFence::new(),
        };
        let handle = SyncHandle(Arc::new(shared));
        let shared = Arc::clone(&handle.0);
        let thread =
            std::thread::Builder::new().name("store-syncer".to_owned()).spawn(move || run(&shared))?;
        Ok(Self { handle, thread: Some(thread) })
    }

    /// Starts the syncing thread for files alone.
    #[cfg(test)]
    pub(crate) fn of_files(head: PathBuf) -> std::io::Result<Self> {
        Self::start(Box::new(|| Ok(())), head)
    }

    /// Returns a handle for writers.
    #[must_use]
    pub(crate) fn handle(&self) -> SyncHandle {
        self.handle.clone()
    }

    /// Returns the fence of the files that other gateways write too.
    #[must_use]
    pub(crate) fn fence(&self) -> &WriteFence {
        self.handle.fence()
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.handle.state().stop = true;
        self.handle.0.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl SyncHandle {
    /// Returns the fence of the files that other gateways write too.
    #[must_use]
    pub(crate) fn fence(&self) -> &WriteFence {
        &self.0.fence
    }

    /// Reports that a file was written, or that a folder got a new file.
    pub fn written(&self, path: &Path) {
        let mut state = self.state();
        let was_clean = state.is_clean();
        if !state.paths.contains(path) {
            state.paths.insert(path.to_owned());
        }
        drop(state);
        // The thread is awake if there was something to sync before.
        if was_clean {
            self.0.wake.notify_one();
        }
    }

    /// Reports a commit of the database. `head` is the new end of the audit chain, if it changed.
    pub(super) fn committed(&self, head: Option<ChainHead>) {
        let mut state = self.state();
        let was_clean = state.is_clean();
        state.database = true;
        state.head = head.or_else(|| state.head.take());
        drop(state);
        if was_clean {
            self.0.wake.notify_one();
        }
    }

    /// Syncs everything reported so far, and returns when that is done.
    ///
    /// # Errors
    ///
    /// Returns an error if the database could not be synced.
    pub(super) fn sync_now(&self) -> sql::Result<()> {
        self.0.sync()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn run(shared: &Shared) {
    let lock = || shared.state.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let state = lock();
        let waited = shared.wake.wait_while(state, |state| state.is_clean() && !state.stop);
        let state = waited.unwrap_or_else(PoisonError::into_inner);
        // Wait for more writes to join the group. Only a stop ends the wait early.
        let gathered = shared.wake.wait_timeout_while(state, GROUP_WINDOW, |state| !state.stop);
        let stop = gathered.unwrap_or_else(PoisonError::into_inner).0.stop;
        if let Err(error) = shared.sync() {
            tracing::error!(error = crate::error::chain(&error), "failed to sync the database to disk");
        }
        // A write may have been reported during the last sync, so stop only when nothing is left.
        if stop && lock().is_clean() {
            return;
        }
    }
}

impl Shared {
    /// Syncs everything reported so far.
    fn sync(&self) -> sql::Result<()> {
        let _syncing = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let paths = std::mem::take(&mut state.paths);
        let has_commits = std::mem::take(&mut state.database);
        let head = state.head.take();
        // The lock is released before the slow part, so that writers never wait for the disk.
        drop(state);
        for path in &paths {
            sync(path);
        }
        if has_commits && let Err(error) = (self.database)() {
            // The end of the audit waits for the next sync, unless there is a newer one by now.
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.head = state.head.take().or(head);
            return Err(error);
        }
        // The rows are synced first: the file must never name a row that a power cut could remove.
        if let Some(head) = head
            && let Err(error) = head.write(&self.head)
        {
            tracing::error!(path = %self.head.display(), %error, "failed to write where the audit ends");
        }
        Ok(())
    }
}

/// Syncs a file or a folder. A failure is logged.
pub(super) fn sync(path: &Path) {
    // O_NONBLOCK, because a FIFO in place of the file or folder would block this thread.
    let flags = nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC;
    let opened = std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    match opened.and_then(|file| file.sync_data()) {
        Ok(()) => {}
        // The file was removed in the meantime.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::error!(path = %path.display(), %error, "failed to sync a file to disk"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_syncer_syncs_everything_and_ends_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a");
        fs_err::write(&file, "x").unwrap();
        let syncer = Syncer::of_files(folder.path().join("head")).unwrap();
        let handle = syncer.handle();
        handle.written(&file);
        handle.written(&file);
        handle.written(folder.path());
        handle.written(&folder.path().join("gone"));
        handle.committed(None);
        drop(syncer);
        assert!(handle.state().is_clean());
    }

    #[test]
    fn the_end_of_the_audit_is_written_only_after_its_rows_are_synced() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("head");
        let is_down = Arc::new(AtomicBool::new(true));
        let down = Arc::clone(&is_down);
        let database: DatabaseSync =
            Box::new(move || if down.load(Ordering::SeqCst) { Err(sql::Error::NoRow) } else { Ok(()) });
        let syncer = Syncer::start(database, path.clone()).unwrap();
        let handle = syncer.handle();
        handle.committed(Some(ChainHead::new(1, &[1; 32])));
        // Whichever thread syncs, it fails.
        drop(handle.sync_now());
        assert!(!path.exists());
        is_down.store(false, Ordering::SeqCst);
        handle.committed(None);
        drop(syncer);
        assert!(std::fs::read_to_string(&path).unwrap().contains("\"id\":1"));
    }
}
