//! Connections for reading, which are reused.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::health::StorageHealth;
use super::{StoreError, sql};

/// A read as the pool sees it: there are hundreds of kinds, and the pool is not to be compiled for each.
pub(super) type Reading<'r> = &'r mut dyn FnMut(&sql::Connection<'_>) -> sql::Result<()>;

/// A limit on the connections that are open at the same time.
pub(super) struct ConnectionLimit {
    pub(super) most: usize,
    /// The longest time that a read waits for another one to end.
    pub(super) wait: Duration,
    /// Returns the error of a read that has waited for so long.
    pub(super) refusal: fn() -> sql::Error,
}

/// The part of a database's driver that reads use.
pub(super) trait ReadingDriver {
    type Connection;

    /// The number of idle connections that are kept for reuse.
    const MAX_IDLE: usize;
    /// `None` if any number can be open.
    const LIMIT: Option<ConnectionLimit>;

    /// Makes a connection for reading.
    fn connect(&self) -> Result<Self::Connection, StoreError>;

    /// Returns `true` unless a connection is known to be broken.
    fn is_usable(connection: &Self::Connection) -> bool;

    /// Returns a connection as the subjects see it.
    fn view(connection: &Self::Connection) -> sql::Connection<'_>;

    /// Runs a read where it may wait for its answer.
    fn wait(read: &mut dyn FnMut());
}

/// The connections of a process that read one database.
pub(super) struct ReadPool<D: ReadingDriver> {
    pub(super) driver: D,
    connections: Mutex<Connections<D::Connection>>,
    /// Notified when a read has ended.
    ended: Condvar,
    pub(super) condition: StorageHealth,
}

struct Connections<C> {
    idle: Vec<C>,
    /// The number of reads that have a connection or make one.
    reads: usize,
}

/// The place of a read among those that the driver allows. Dropping it makes room for another one.
struct ReadPlace<'p, D: ReadingDriver> {
    pool: &'p ReadPool<D>,
    /// The connection to be kept for the next read. A read that panics leaves none.
    kept: Option<D::Connection>,
}

impl<D: ReadingDriver> Drop for ReadPlace<'_, D> {
    fn drop(&mut self) {
        let mut connections = self.pool.lock();
        connections.reads -= 1;
        if let Some(connection) = self.kept.take()
            && connections.idle.len() < D::MAX_IDLE
        {
            connections.idle.push(connection);
        }
        drop(connections);
        if D::LIMIT.is_some() {
            self.pool.ended.notify_one();
        }
    }
}

impl<D: ReadingDriver> ReadPool<D> {
    /// Returns a pool that begins with these connections. It opens more when they are needed.
    pub(super) fn new(driver: D, idle: Vec<D::Connection>) -> Self {
        let connections = Mutex::new(Connections { idle, reads: 0 });
        Self { driver, connections, ended: Condvar::new(), condition: StorageHealth::default() }
    }

    /// Runs `work` once on a connection. It sees everything that was committed before.
    pub(super) fn run(&self, what: &'static str, work: Reading<'_>) -> Result<(), StoreError> {
        let mut done = Err(StoreError::Stopped);
        D::wait(&mut || done = self.run_here(what, &mut *work));
        done
    }

    fn run_here(&self, what: &'static str, work: Reading<'_>) -> Result<(), StoreError> {
        let (mut place, idle) = self.begin().map_err(|source| {
            self.condition.record_read_failure(&source);
            StoreError::query(what, source)
        })?;
        let connection = match idle {
            Some(connection) => connection,
            None => self.driver.connect().inspect_err(|error| self.condition.record_open_failure(error))?,
        };
        let result = work(&D::view(&connection));
        match &result {
            // Drop the connection: after a fault of the storage, a new one may be able to read where this one can't.
            Err(error) if error.cause().is_fault() => self.condition.record_read_failure(error),
            _ if !D::is_usable(&connection) => {}
            _ => place.kept = Some(connection),
        }
        drop(place);
        result.map_err(|source| StoreError::query(what, source))
    }

    /// Takes a place for a read, and an idle connection that is not known to be broken. Waits for the end of another read
    /// if there are too many.
    fn begin(&self) -> sql::Result<(ReadPlace<'_, D>, Option<D::Connection>)> {
        let mut connections = self.lock();
        if let Some(limit) = D::LIMIT {
            let began = Instant::now();
            while connections.reads >= limit.most {
                let left = limit.wait.saturating_sub(began.elapsed());
                if left.is_zero() {
                    return Err((limit.refusal)());
                }
                let waited = self.ended.wait_timeout(connections, left);
                connections = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        connections.reads += 1;
        let mut found = None;
        while let Some(connection) = connections.idle.pop() {
            if D::is_usable(&connection) {
                found = Some(connection);
                break;
            }
        }
        drop(connections);
        Ok((ReadPlace { pool: self, kept: None }, found))
    }

    fn lock(&self) -> MutexGuard<'_, Connections<D::Connection>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier, mpsc};

    use super::*;
    use crate::store::postgres::PostgresError;

    /// Opens databases in memory, and counts those that are open.
    struct Counting {
        opened: AtomicUsize,
        open: Arc<AtomicUsize>,
        most: Arc<AtomicUsize>,
    }

    struct Counted {
        connection: rusqlite::Connection,
        open: Arc<AtomicUsize>,
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.open.fetch_sub(1, Ordering::SeqCst);
        }
    }

    const MOST: usize = 3;

    impl ReadingDriver for Counting {
        type Connection = Counted;

        const MAX_IDLE: usize = MOST;
        const LIMIT: Option<ConnectionLimit> = Some(ConnectionLimit {
            most: MOST,
            wait: Duration::from_secs(20),
            refusal: || PostgresError::Busy(Duration::from_secs(20)).into(),
        });

        fn connect(&self) -> Result<Counted, StoreError> {
            self.opened.fetch_add(1, Ordering::SeqCst);
            let now = self.open.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            let connection = rusqlite::Connection::open_in_memory().unwrap();
            Ok(Counted { connection, open: Arc::clone(&self.open) })
        }

        fn is_usable(_: &Counted) -> bool {
            true
        }

        fn view(connection: &Counted) -> sql::Connection<'_> {
            sql::Connection::sqlite(&connection.connection)
        }

        fn wait(read: &mut dyn FnMut()) {
            read();
        }
    }

    fn pool() -> Arc<ReadPool<Counting>> {
        let driver = Counting { opened: AtomicUsize::new(0), open: Arc::default(), most: Arc::default() };
        Arc::new(ReadPool::new(driver, Vec::new()))
    }

    #[test]
    fn many_reads_at_once_share_a_few_connections() {
        let pool = pool();
        let all_run = Arc::new(Barrier::new(MOST));
        let threads: Vec<_> = (0..MOST * 8)
            .map(|_| {
                let (pool, all_run) = (Arc::clone(&pool), Arc::clone(&all_run));
                // Each read ends only with two others that run beside it, so the limit is reached.
                let read = move || {
                    pool.run("read", &mut |_| {
                        all_run.wait();
                        Ok(())
                    })
                };
                std::thread::spawn(read)
            })
            .collect();
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        assert_eq!(pool.driver.most.load(Ordering::SeqCst), MOST);
        assert_eq!(pool.driver.opened.load(Ordering::SeqCst), MOST, "each connection is used again");
    }

    #[test]
    fn a_read_that_fails_or_panics_leaves_its_place() {
        let pool = pool();
        for _ in 0..MOST * 2 {
            pool.run("read", &mut |_| Err(sql::Error::Malformed)).unwrap_err();
            let panics = || pool.run("read", &mut |_| panic!("a read panics"));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).unwrap_err();
        }
        assert_eq!(pool.lock().reads, 0);
        assert!(pool.driver.open.load(Ordering::SeqCst) <= 1, "a panic drops its connection");
    }

    #[test]
    fn a_read_waits_for_the_end_of_another() {
        let pool = pool();
        let (go, ends): (Vec<_>, Vec<_>) = (0..MOST).map(|_| mpsc::channel::<()>()).unzip();
        let (tell, told) = mpsc::channel();
        let held: Vec<_> = ends
            .into_iter()
            .map(|end| {
                let (pool, tell) = (Arc::clone(&pool), tell.clone());
                std::thread::spawn(move || {
                    pool.run("read", &mut |_| {
                        tell.send("held").unwrap();
                        end.recv().unwrap();
                        Ok(())
                    })
                })
            })
            .collect();
        for _ in 0..MOST {
            assert_eq!(told.recv().unwrap(), "held");
        }
        let waiting = {
            let pool = Arc::clone(&pool);
            std::thread::spawn(move || {
                pool.run("read", &mut |_| {
                    tell.send("waited").unwrap();
                    Ok(())
                })
            })
        };
        assert_eq!(pool.lock().reads, MOST);
        assert!(told.try_recv().is_err(), "all connections are in use");
        go[0].send(()).unwrap();
        assert_eq!(told.recv().unwrap(), "waited");
        go[1..].iter().for_each(|go| go.send(()).unwrap());
        for thread in held.into_iter().chain([waiting]) {
            thread.join().unwrap().unwrap();
        }
        assert_eq!(pool.driver.opened.load(Ordering::SeqCst), MOST);
    }
}
