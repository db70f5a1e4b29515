//! Opening a database on a server, and its writing side.

use std::os::unix::fs::DirBuilderExt as _;
use std::panic::resume_unwind;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::listener::Listener;
use super::server::{Driving, Purpose, Server};
use super::settings::Settings;
use super::writer::WritingSession;
use super::{gateway_lock, schema, server};
use crate::error::chain;
use crate::home::{Home, HomeError};
use crate::store::audit_chain::ChainHead;
use crate::store::database::{self, Opener, Pool, ReadOnly, ReadWrite};
use crate::store::gateway::Epoch;
use crate::store::health::DatabaseAccess;
use crate::store::notice::{NoticeBoard, Notices};
use crate::store::read_pool::ReadPool;
use crate::store::sql::Connection;
use crate::store::sync::Syncer;
use crate::store::writer::{Writer, WriterJob};
use crate::store::{Reader, Store, StoreError, audit_chain};

/// The writing side of an open database.
pub(in crate::store) struct Engine {
    /// Hears of the changes of others. Only a gateway needs to. It is dropped before the connections, which wait for its own.
    listener: Option<(Listener, NoticeBoard)>,
    pub(in crate::store) writer: Writer<WritingSession>,
    identity: i64,
    /// The number of this gateway's run, if it is a gateway.
    pub(in crate::store) epoch: Option<Epoch>,
    /// Set for a gateway that shares the database with others.
    pub(in crate::store) is_in_group: bool,
}

/// Opens the database of this server for reading. Returns `None` if it has no tables yet.
pub(in crate::store) fn open_reader(server: Arc<Server>, home: &Home) -> Result<Option<Reader>, StoreError> {
    let session = server.connect(Purpose::Read)?;
    if schema::check(&session)? == 0 {
        return Ok(None);
    }
    let pool = Pool::Postgres(Arc::new(ReadPool::new(server, vec![session])));
    Ok(Some(Reader::new(home, pool, ReadOnly)))
}

/// Opens the database, and migrates it to this version.
///
/// Returns [`StoreError::InUse`] for a gateway if another one uses the database.
pub(in crate::store) fn open(
    home: &Home,
    (settings, secret): (Settings, String),
    opener: Opener<'_>,
) -> Result<Store, StoreError> {
    let place = settings.to_string();
    // The end of the audit is in a file of the home, whatever keeps the database.
    let folder = home.data();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(HomeError::io("make the folder", &folder))?;
    let server = Server::new(home, settings, secret)?;
    schema::migrate(&server)?;
    let (writing, identity, head) = begin_writing(home, &server, &place, opener)?;
    let (epoch, is_in_group) = (writing.epoch(), writing.is_in_group());
    // It has a connection of its own: a sync must not wait for a change, and a change not for a sync.
    let flushing = Mutex::new(WritingSession::new(server.connect(Purpose::Write)?));
    let sync = Box::new(move || flushing.lock().unwrap_or_else(PoisonError::into_inner).flush());
    let syncer = Syncer::start(sync, home.audit_head()).map_err(StoreError::Thread)?;
    let grants = Arc::new(AtomicU64::new(0));
    let listener = epoch.map(|_| {
        let board = NoticeBoard::counting(Arc::clone(&grants));
        (Listener::start(&server, board.clone()), board)
    });
    let pool = Arc::new(ReadPool::new(server, Vec::new()));
    let writer = Writer::start(writing, syncer.handle(), head, pool.condition.clone());
    let writer = writer.map_err(StoreError::Thread)?;
    let engine = Engine { listener, writer, identity, epoch, is_in_group };
    let engine = database::Engine::Postgres(engine);
    let access = ReadWrite { engine, syncer, grants };
    Ok(Store::new(home, Pool::Postgres(pool), access))
}

/// Makes the connection of the writing thread. Returns it with the identity of the database and the end of its audit.
fn begin_writing(
    home: &Home,
    server: &Arc<Server>,
    place: &str,
    opener: Opener<'_>,
) -> Result<(WritingSession, i64, ChainHead), StoreError> {
    let is_start = matches!(opener, Opener::Gateway(_));
    let begin = || {
        let session = server.connect_driven(Purpose::Write, Driving::Here)?;
        let failed = |source| StoreError::query("limit the time of statements", source);
        if is_start {
            server::limit_statements(&session, true).map_err(failed)?;
        }
        let mut writing = WritingSession::new(session);
        if let Opener::Gateway(new) = opener {
            let begun = writing.become_gateway(new);
            begun.map_err(|source| gateway_lock::refused(place.to_owned(), source))?;
        }
        let session = writing.session();
        let identity = schema::identity(session);
        let identity =
            identity.map_err(|source| StoreError::query("tell this database from others", source))?;
        let head = audit_chain::open(&Connection::postgres(session), &home.audit_head())?;
        if is_start {
            server::limit_statements(session, false).map_err(failed)?;
        }
        Ok((writing, identity, head))
    };
    // On a thread of its own: the caller's may belong to a runtime, on which the connection can't be waited for.
    let begun = thread::scope(|scope| scope.spawn(begin).join());
    let begun: Result<_, StoreError> = begun.unwrap_or_else(|panic| resume_unwind(panic));
    begun.map_err(|error| if is_start { error.of_start(place) } else { error })
}

impl Engine {
    pub(in crate::store) const fn identity(&self) -> i64 {
        self.identity
    }

    /// Returns the notices from now on.
    pub(in crate::store) fn notices(&self) -> Notices {
        self.listener.as_ref().map_or_else(Notices::none, |(_, board)| board.subscribe())
    }

    /// Makes a change that means nothing, reads if that failed before, and records the result.
    pub(in crate::store) async fn try_out(&self, pool: &Pool) -> Result<(), StoreError> {
        let condition = pool.condition();
        let (tell, told) = tokio::sync::oneshot::channel();
        self.writer.submit(WriterJob::Alone(Box::new(move |writing| {
            // The caller may no longer be waiting.
            let _ = tell.send(writing.flush());
        })))?;
        let flushed = told.await.map_err(|_| StoreError::Stopped)?;
        if let Err(source) = flushed {
            if source.cause().is_fault() {
                condition.write_failed(&source);
            } else {
                condition.mark_unusable(DatabaseAccess::Write, chain(&source), false);
            }
            return Err(StoreError::query("write a test value", source));
        }
        if condition.trouble().is_some_and(|trouble| trouble.access != DatabaseAccess::Write) {
            let (pool, what) = (pool.clone(), "read a test value");
            let read = move || pool.read(what, |found| found.query_row("SELECT 1", (), |_| Ok(())));
            tokio::task::spawn_blocking(read).await.map_err(|_| StoreError::Stopped)??;
        }
        condition.well();
        Ok(())
    }
}
