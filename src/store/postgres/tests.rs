//! Tests of the driver on a real server.

mod migrations;
pub(in crate::store) mod proxy;
pub(in crate::store) mod schemas;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use futures_util::future::{LocalBoxFuture, join_all};
use proxy::Proxy;
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::server::Purpose;
use super::session::Session;
use super::transaction::{LockedTransaction, lock_deadline};
use crate::error::Explain as _;
use crate::home::Home;
use crate::store::audit::{AuditEntry, Level};
use crate::store::batch_tests::post_at_once;
use crate::store::change::{ChangeBody, PendingChange, Work};
use crate::store::channel_tests::{make, says};
use crate::store::database::Engine;
use crate::store::gateway::NewGateway;
use crate::store::location::Location;
use crate::store::request::tests::{BODY, add_request, approve};
use crate::store::sql::{self, Cause, Connection, FromSql, OptionalExtension as _, Value};
use crate::store::writer::{LOCK_LIMIT, WriterJob};
use crate::store::{
    Along, NewPost, Notice, NoticeKind, Notices, PostOutcome, Reader, RequestState, RequestStep,
    RequestTransition, SharedConfig, Store, StoreError, WakeUrgency, body_digest,
};

/// A home whose database is a fresh schema.
struct Place {
    home: Home,
    schema: String,
    server: String,
    _folder: TempDir,
}

impl Place {
    /// Makes it. `None` if there is no server.
    fn new() -> Option<Self> {
        let server = schemas::required()?;
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let Location::Postgres { settings, .. } = Location::of(&home).unwrap() else { panic!() };
        Some(Self { home, schema: settings.schema, server, _folder: folder })
    }

    /// Opens it with a table for the test.
    fn open(&self) -> Store {
        let store = Store::open(&self.home).unwrap();
        self.session().batch("CREATE TABLE probe (id bigint PRIMARY KEY, note text COLLATE \"C\")").unwrap();
        store
    }

    /// Returns a connection of its own, on which a change may take as long as the test needs.
    fn session(&self) -> Session {
        schemas::connect(&self.server, &self.schema, Purpose::Migrate)
    }

    /// Returns another home that uses the same schema, through another address if one is given.
    fn sharing(&self, server: &str) -> (TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        let document = serde_json::json!({"postgres": server, "schema": self.schema});
        std::fs::write(home.store_location(), document.to_string()).unwrap();
        (folder, home)
    }
}

fn column<T: FromSql>(session: &Session, query: &str) -> Vec<T> {
    let connection = Connection::postgres(session);
    let mut statement = connection.prepare(query).unwrap();
    statement.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn number(session: &Session, query: &str) -> i64 {
    Connection::postgres(session).query_row(query, (), |row| row.get(0)).unwrap()
}

fn rows(session: &Session) -> Vec<i64> {
    column(session, "SELECT id FROM probe ORDER BY id")
}

fn add(transaction: &sql::Transaction<'_>, id: i64) -> sql::Result<()> {
    transaction.prepare_cached("INSERT INTO probe (id, note) VALUES (?1, 'x')")?.execute([id]).map(drop)
}

/// The same without waiting for the answer.
fn send(transaction: &sql::Transaction<'_>, id: i64) -> sql::Result<()> {
    transaction.prepare_cached("INSERT INTO probe (id, note) VALUES (?1, 'x')")?.send([id])
}

/// The same with the next statement.
fn hold(transaction: &sql::Transaction<'_>, id: i64) -> sql::Result<()> {
    transaction.add_row("INSERT INTO probe (id, note) VALUES (?1, ?2)", (id, "x"))
}

async fn write(store: &Store, id: i64) -> Result<(), StoreError> {
    store.write("add a row", move |transaction| add(transaction, id)).await
}

fn wait_until(mut is_done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !is_done() {
        assert!(Instant::now() < deadline, "it did not come to pass");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn commits_wait_for_the_disk_if_the_address_says_so() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let admin = schemas::admin(&place.server);
    let separator = if place.server.contains('?') { '&' } else { '?' };
    for (id, setting) in [(1, "off"), (2, "on"), (3, "remote_apply")] {
        let address = format!("{}{separator}options=-c%20synchronous_commit%3D{setting}", place.server);
        let (_folder, home) = place.sharing(&address);
        let store = Store::open(&home).unwrap();
        let (ordinary, decision, written) = store
            .write("look at the commits", move |transaction| {
                add(transaction, id)?;
                let value = "SELECT current_setting('synchronous_commit')";
                let ordinary: String = transaction.query_row(value, (), |row| row.get(0))?;
                let end = "SELECT CAST(pg_current_wal_insert_lsn() AS text)";
                let written: String = transaction.query_row(end, (), |row| row.get(0))?;
                if ordinary != "off" {
                    return Ok((ordinary.clone(), ordinary, written));
                }
                transaction.wait_for_disk()?;
                Ok((ordinary, transaction.query_row(value, (), |row| row.get(0))?, written))
            })
            .await
            .unwrap();
        let on_disk = format!("SELECT CAST(pg_current_wal_flush_lsn() >= '{written}'::pg_lsn AS text)");
        assert_eq!(admin.texts(&on_disk).unwrap(), [Some("true".to_owned())], "{setting}");
        assert_eq!(ordinary, setting);
        assert_eq!(decision, if setting == "off" { "on" } else { setting });
    }
    assert_eq!(rows(&place.session()), [1, 2, 3]);
}

#[tokio::test]
async fn a_sync_brings_the_changes_before_it_to_the_disk() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let admin = schemas::admin(&place.server);
    for id in [1, 2] {
        let change = move |transaction: &sql::Transaction<'_>| {
            add(transaction, id)?;
            // Asked here, because others write to the same log, and nobody syncs what comes after the change.
            let end = "SELECT CAST(pg_current_wal_insert_lsn() AS text)";
            transaction.query_row(end, (), |row| row.get::<String>(0))
        };
        let written = store.write("add a row", change).await.unwrap();
        store.sync().await.unwrap();
        let on_disk = format!("SELECT CAST(pg_current_wal_flush_lsn() >= '{written}'::pg_lsn AS text)");
        assert_eq!(admin.texts(&on_disk).unwrap(), [Some("true".to_owned())]);
    }
}

#[test]
fn values_of_each_kind_survive() {
    let Some(place) = Place::new() else { return };
    let session = schemas::admin(&place.server);
    session
        .batch("CREATE TEMPORARY TABLE v (n bigint, i bigint, r double precision, t text, b bytea)")
        .unwrap();
    let connection = Connection::postgres(&session);
    let insert = "INSERT INTO v (n, i, r, t, b) VALUES (?1, ?2, ?3, ?4, ?5)";
    let blob = vec![0_u8, 1, 255];
    for (number, integer) in [(1, i64::MIN), (2, i64::MAX), (3, 0)] {
        let values = (number, integer, -0.25, "Gr\u{fc}\u{df}e ? $1 \u{1f426}", &blob);
        assert_eq!(connection.execute(insert, values).unwrap(), 1);
        let found: (i64, f64, String, Vec<u8>) = connection
            .query_row("SELECT i, r, t, b FROM v WHERE n = ?1", [number], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .unwrap();
        let wanted = (integer, -0.25, "Gr\u{fc}\u{df}e ? $1 \u{1f426}".to_owned(), blob.clone());
        assert_eq!(found, wanted);
    }
    let nothing: (Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>) = (None, None, None, None);
    connection.execute(insert, (4, nothing.0, nothing.1, nothing.2.clone(), nothing.3.clone())).unwrap();
    let found: (Option<i64>, Option<f64>, Option<String>, Option<Vec<u8>>) = connection
        .query_row("SELECT i, r, t, b FROM v WHERE n = 4", (), |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        })
        .unwrap();
    assert_eq!(nothing, found);
    let kinds: Vec<Value> = connection
        .query_row(
            "SELECT 1 = 1, CAST(7 AS integer), count(*), sum(n), CAST(NULL AS text), CAST(1.5 AS real) FROM v",
            (),
            |row| (0..6).map(|column| row.get(column)).collect(),
        )
        .unwrap();
    let integer = Value::Integer;
    assert_eq!(kinds, [integer(1), integer(7), integer(4), integer(10), Value::Null, Value::Real(1.5)]);
    let refused = connection.execute(insert, (5, 5, 0.5, "a", "no blob")).unwrap_err();
    assert!(refused.to_string().contains("a text can't be given as bytea"), "{refused}");
    assert_eq!(refused.cause(), Cause::Statement);
    assert!(session.is_usable(), "a value that can't be sent harms no connection");
    let unread = connection.query_row("SELECT now()", (), |row| row.get::<String>(0)).unwrap_err();
    assert!(unread.to_string().contains("timestamptz"), "{unread}");
}

#[test]
fn statements_behave_as_those_of_sqlite() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let session = place.session();
    let connection = Connection::postgres(&session);
    assert_eq!(connection.execute("INSERT INTO probe VALUES (1, 'a'), (2, 'b')", ()).unwrap(), 2);
    let mut statement =
        connection.prepare_cached("SELECT id, note FROM probe WHERE id >= ?1 ORDER BY id").unwrap();
    let mut found = statement.query([1]).unwrap();
    let mut seen = Vec::new();
    while let Some(row) = found.next().unwrap() {
        // Another statement on the same connection, while the first still has rows.
        let id: i64 = row.get(0).unwrap();
        let note: String =
            connection.query_row("SELECT note FROM probe WHERE id = ?1", [id], |row| row.get(0)).unwrap();
        assert_eq!(row.get_ref(1).unwrap().as_str().unwrap(), note);
        seen.push(id);
    }
    drop(found);
    assert_eq!(seen, [1, 2]);
    let missing =
        connection.query_row("SELECT note FROM probe WHERE id = ?1", [9], |row| row.get::<String>(0));
    assert!(matches!(missing, Err(sql::Error::NoRow)));
    assert_eq!(missing.optional().unwrap(), None);
    for parameters in [vec![], vec![1, 2]] {
        let wrong = statement.query(sql::params_from_iter(parameters)).err().unwrap();
        assert!(wrong.to_string().contains("parameters"), "{wrong}");
    }
    let twice: String =
        connection.query_row("SELECT CAST(?1 AS text) || ?2 || ?1", ("a", "'?1'"), |row| row.get(0)).unwrap();
    assert_eq!(twice, "a'?1'a");
    let refused = connection.execute("INSERT INTO probe VALUES (1, 'again')", ()).unwrap_err();
    assert_eq!((refused.sqlstate(), refused.cause()), (Some("23505"), Cause::Statement));
    assert_eq!(rows(&session), [1, 2], "the connection goes on");
    let column = connection.query_row("SELECT note FROM probe LIMIT 1", (), |row| row.get::<i64>(0));
    assert!(matches!(column, Err(sql::Error::Column { column: 0, .. })));
    assert!(connection.query_row("SELECT 1", (), |row| row.get::<i64>(1)).is_err());
    drop(store);
}

#[test]
fn a_connection_for_reading_refuses_changes_and_a_snapshot_sees_one_state() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let (reading, writing) = (schemas::connect(&place.server, &place.schema, Purpose::Read), place.session());
    let connection = Connection::postgres(&reading);
    let refused = connection.execute("INSERT INTO probe VALUES (1, 'a')", ()).unwrap_err();
    assert_eq!(refused.cause(), Cause::Refused);
    let count = |connection: &Connection<'_>| -> i64 {
        connection.query_row("SELECT count(*) FROM probe", (), |row| row.get(0)).unwrap()
    };
    let snapshot = connection.snapshot().unwrap();
    assert_eq!(count(&snapshot), 0);
    Connection::postgres(&writing).execute("INSERT INTO probe VALUES (1, 'a')", ()).unwrap();
    assert_eq!(count(&snapshot), 0);
    drop(snapshot);
    assert_eq!(count(&connection), 1);
    drop(store);
}

/// Submits a change that waits since this moment. The answer is what became of it.
fn submit(store: &Store, since: Instant, work: ChangeBody) -> oneshot::Receiver<sql::Result<()>> {
    let Engine::Postgres(engine) = &store.access.engine else { panic!() };
    let (tell, told) = oneshot::channel();
    let answer = Box::new(move |result| drop(tell.send(result)));
    let change = PendingChange { since, work: Work::Any(work), answer };
    engine.writer.submit(WriterJob::Change(change)).unwrap();
    told
}

/// Has the writing thread take these changes as one batch. Returns what became of each.
async fn batch(store: &Store, works: Vec<ChangeBody>) -> Vec<Option<sql::Result<()>>> {
    let Engine::Postgres(engine) = &store.access.engine else { panic!() };
    let (open, gate) = mpsc::channel::<()>();
    engine
        .writer
        .submit(WriterJob::Alone(Box::new(move |_| {
            let _ = gate.recv();
        })))
        .unwrap();
    let answers: Vec<_> = works.into_iter().map(|work| submit(store, Instant::now(), work)).collect();
    open.send(()).unwrap();
    let mut results = Vec::new();
    for answer in answers {
        results.push(answer.await.ok());
    }
    results
}

#[tokio::test]
async fn a_change_that_fails_undoes_no_other() {
    let Some(place) = Place::new() else { return };
    failed_changes(&place, add).await;
}

#[tokio::test]
async fn a_change_whose_sent_statement_fails_undoes_no_other() {
    let Some(place) = Place::new() else { return };
    failed_changes(&place, send).await;
}

#[tokio::test]
async fn a_change_whose_held_row_fails_undoes_no_other() {
    let Some(place) = Place::new() else { return };
    failed_changes(&place, hold).await;
}

#[tokio::test]
async fn held_rows_are_there_for_the_next_statement() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let count = |transaction: &sql::Transaction<'_>| {
        transaction.query_row("SELECT count(*) FROM probe", (), |row| row.get::<i64>(0))
    };
    let counted = store.write("add rows", move |transaction| {
        (1..=100).try_for_each(|id| hold(transaction, id))?;
        let first = count(transaction)?;
        hold(transaction, 101)?;
        Ok((first, count(transaction)?))
    });
    assert_eq!(counted.await.unwrap(), (100, 101));
    // Of a change that is undone, none is left for the next one.
    let undone = store.write("add a row", |transaction| -> sql::Result<()> {
        hold(transaction, 102)?;
        Err(sql::Error::Malformed)
    });
    undone.await.unwrap_err();
    write(&store, 103).await.unwrap();
    assert_eq!(rows(&place.session()), (1..=101).chain([103]).collect::<Vec<_>>());
}

async fn failed_changes(place: &Place, add: fn(&sql::Transaction<'_>, i64) -> sql::Result<()>) {
    let store = place.open();
    let results = batch(
        &store,
        vec![
            Box::new(move |transaction| add(transaction, 1)),
            Box::new(move |transaction| add(transaction, 2).and_then(|()| add(transaction, 1))),
            Box::new(move |transaction| {
                add(transaction, 3)?;
                panic!("a fault of the change")
            }),
            // It takes no notice of what failed, so all of it is undone.
            Box::new(move |transaction| {
                drop(add(transaction, 1));
                Ok(())
            }),
            Box::new(move |transaction| add(transaction, 4)),
        ],
    )
    .await;
    let kinds: Vec<_> = results.iter().map(|result| result.as_ref().map(Result::is_ok)).collect();
    assert_eq!(kinds, [Some(true), Some(false), None, Some(false), Some(true)], "{results:?}");
    assert_eq!(rows(&place.session()), [1, 4]);
    // The same for changes that are alone.
    let twice = store.write("add a row", move |transaction| add(transaction, 1)).await;
    assert!(matches!(twice, Err(StoreError::Query { .. })), "{twice:?}");
    let heedless = store.write("add a row", move |transaction| {
        add(transaction, 5)?;
        drop(add(transaction, 5));
        Ok(())
    });
    assert!(heedless.await.is_err());
    let panicking = store.write("add a row", move |transaction| -> sql::Result<()> {
        add(transaction, 5)?;
        panic!("a fault of the change")
    });
    assert!(matches!(panicking.await, Err(StoreError::Stopped)));
    write(&store, 6).await.unwrap();
    assert_eq!(rows(&place.session()), [1, 4, 6]);
    assert_eq!(store.trouble(), None, "no storage has failed");
}

#[test]
fn the_next_statement_reports_what_a_sent_one_failed_of() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let session = place.session();
    let add = |id: i64| {
        let connection = Connection::postgres(&session);
        connection.prepare_cached("INSERT INTO probe (id, note) VALUES (?1, 'x')").unwrap().send([id])
    };
    let change = LockedTransaction::begin(&session, lock_deadline()).unwrap();
    let count = || {
        Connection::postgres(&session).query_row("SELECT count(*) FROM probe", (), |row| row.get::<i64>(0))
    };
    // A server that is quick has answered before the next one is sent, which then reports it.
    let refused = [1, 2, 2, 3].into_iter().try_for_each(add).and_then(|()| count().map(drop)).unwrap_err();
    assert_eq!((refused.sqlstate(), refused.cause()), (Some("23505"), Cause::Statement), "{refused}");
    drop(change);
    assert_eq!(count().unwrap(), 0, "all of it is undone, and the connection goes on");
    // The server would take the commit of such a transaction, and roll it back.
    let change = LockedTransaction::begin(&session, lock_deadline()).unwrap();
    let refused = add(1).and_then(|()| add(1)).and_then(|()| change.commit()).unwrap_err();
    assert_eq!(refused.sqlstate(), Some("23505"));
    assert!(rows(&session).is_empty());
    // The statement of the held row is not prepared yet, so it finds the failure before the commit is sent.
    let change = LockedTransaction::begin(&session, lock_deadline()).unwrap();
    let hold = || {
        let sql = "INSERT INTO probe (note, id) VALUES (?1, ?2)";
        sql::Transaction::postgres(&session).add_row(sql, ("x", 7))
    };
    let refused =
        add(1).and_then(|()| add(1)).and_then(|()| hold()).and_then(|()| change.commit()).unwrap_err();
    assert_eq!(refused.sqlstate(), Some("23505"));
    assert!(rows(&session).is_empty(), "no transaction is left open");
    let change = LockedTransaction::begin(&session, lock_deadline()).unwrap();
    add(1).unwrap();
    add(2).unwrap();
    change.commit().unwrap();
    assert_eq!(rows(&session), [1, 2]);
    let unfit =
        Connection::postgres(&session).prepare("INSERT INTO probe (id) VALUES (?1)").unwrap().send(["a"]);
    assert!(unfit.is_err(), "what can't be sent is told at once");
    drop(store);
}

#[tokio::test]
async fn a_change_waits_for_other_gateways_and_is_refused_when_it_is_overdue() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let other = place.session();
    let held = LockedTransaction::begin(&other, lock_deadline()).unwrap();
    let add = |id: i64, since| submit(&store, since, Box::new(move |transaction| add(transaction, id)));
    let long_ago = Instant::now().checked_sub(LOCK_LIMIT * 2).unwrap();
    let overdue = add(1, long_ago).await.unwrap().unwrap_err();
    assert_eq!(overdue.cause(), Cause::Locked);
    assert!(store.trouble().is_some());
    let waiting = add(2, Instant::now());
    drop(held);
    waiting.await.unwrap().unwrap();
    assert_eq!(rows(&place.session()), [2]);
}

#[tokio::test]
async fn a_process_that_stands_still_in_a_change_holds_up_no_other() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let paused = schemas::connect(&place.server, &place.schema, Purpose::Write);
    let held = LockedTransaction::begin(&paused, lock_deadline()).unwrap();
    Connection::postgres(&paused).execute("INSERT INTO probe (id) VALUES (1)", ()).unwrap();
    // The server ends the change long before this one stops to wait for the lock.
    write(&store, 2).await.unwrap();
    let error = held.commit().unwrap_err();
    assert_eq!(error.cause(), Cause::Unreachable, "{error:?}");
    assert_eq!(rows(&place.session()), [2]);
}

#[tokio::test]
async fn changes_of_two_processes_are_serial() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let (_folder, home) = place.sharing(&place.server);
    let second = Store::open(&home).unwrap();
    let next = |store: Arc<Store>| async move {
        for _ in 0..50 {
            // It reads what it writes next, as the subjects do.
            let work = |transaction: &sql::Transaction<'_>| {
                let last = "SELECT coalesce(max(id), 0) FROM probe";
                let last: i64 = transaction.query_row(last, (), |row| row.get(0))?;
                add(transaction, last + 1)
            };
            store.write("add a row", work).await.unwrap();
        }
    };
    tokio::join!(next(Arc::new(store)), next(Arc::new(second)));
    assert_eq!(rows(&place.session()), (1..=100).collect::<Vec<i64>>());
}

fn entry(number: i64) -> AuditEntry {
    AuditEntry {
        actor: "coder".to_owned(),
        action: "channel.post",
        subject: format!("dev#{number}"),
        level: Level::Green,
        detail: "some words".to_owned(),
        session: None,
        turn: None,
    }
}

#[tokio::test]
async fn each_home_keeps_a_witness_of_the_chain() {
    let Some(place) = Place::new() else { return };
    let first = Store::open(&place.home).unwrap();
    first.audit().append(entry(1), 100).await.unwrap();
    // A home that joins has no file about the rows before it.
    let (_folder, home) = place.sharing(&place.server);
    let second = Store::open(&home).unwrap();
    assert!(home.audit_head().exists());
    second.audit().append(entry(2), 200).await.unwrap();
    second.sync().await.unwrap();
    first.audit().append(entry(3), 300).await.unwrap();
    first.sync().await.unwrap();
    // The second home's file is behind by a row, which is in the chain.
    for store in [&first, &second] {
        let verified = store.audit().verify().await.unwrap();
        assert_eq!((verified.rows, verified.broken), (3, None));
    }
    // One home deletes the rows at the start, and the other has no file about that.
    first.audit().prune(150, entry(4), 400).await.unwrap();
    first.sync().await.unwrap();
    assert_eq!(second.audit().verify().await.unwrap().broken, None);
    drop((first, second));
    let second = Store::open(&home).unwrap();
    assert_eq!(second.audit().verify().await.unwrap().broken, None);
    drop(second);
    // Rows that are cut off at the end are missed by each home that has seen them.
    place.session().batch("DELETE FROM audit WHERE id > 2").unwrap();
    let first = Store::open(&place.home).unwrap();
    let broken = first.audit().verify().await.unwrap().broken;
    assert!(broken.is_some_and(|broken| broken.reason.contains("cut off")));
}

/// Returns the number of the connection that changes are made through.
async fn writing_process(store: &Store) -> i64 {
    let ask = |transaction: &sql::Transaction<'_>| {
        transaction.query_row("SELECT pg_backend_pid()", (), |row| row.get(0))
    };
    store.write("ask", ask).await.unwrap()
}

async fn reading_process(store: &Store) -> Result<i64, StoreError> {
    store.read("ask", |found| found.query_row("SELECT pg_backend_pid()", (), |row| row.get(0))).await
}

#[tokio::test]
async fn broken_connections_are_replaced() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let (writing, reading) = (writing_process(&store).await, reading_process(&store).await.unwrap());
    for process in [writing, reading] {
        end_connection(&place, process);
    }
    // Nothing of a change has been done before the transaction begins, so this one is made after all.
    write(&store, 1).await.unwrap();
    assert_ne!(writing_process(&store).await, writing);
    // A read may be the first to notice, and says so.
    match reading_process(&store).await {
        Ok(process) => assert_ne!(process, reading),
        Err(error) => {
            assert!(matches!(error, StoreError::Unreachable { .. }), "{error:?}");
            assert!(error.may_pass());
            assert_ne!(reading_process(&store).await.unwrap(), reading);
        }
    }
    store.try_out().await.unwrap();
    assert_eq!(store.trouble(), None);
    assert_eq!(rows(&place.session()), [1]);
}

/// Ends the connection through which a store writes.
async fn cut_off(store: &Store, place: &Place) {
    end_connection(place, writing_process(store).await);
}

/// Ends the connection with this number. It is over when this returns: a change that began before would be lost with it.
fn end_connection(place: &Place, process: i64) {
    let admin = schemas::admin(&place.server);
    let ended: bool = Connection::postgres(&admin)
        .query_row("SELECT pg_terminate_backend(CAST(?1 AS integer), 30000)", [process], |row| row.get(0))
        .unwrap();
    assert!(ended);
}

/// Describes a gateway of a home of this name.
pub(crate) fn new_gateway(home: &str) -> NewGateway {
    NewGateway {
        home: home.to_owned(),
        name: home.to_owned(),
        address: "127.0.0.1:1".to_owned(),
        version: "1".to_owned(),
    }
}

#[tokio::test]
async fn a_second_gateway_is_refused_and_one_that_was_replaced_never_writes_again() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let first = Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap();
    let (_folder, home) = place.sharing(&place.server);
    let refused = Store::open_for_gateway(&home, &new_gateway("second")).map(drop).unwrap_err();
    assert!(
        matches!(&refused, StoreError::InUse { by, .. } if by.contains("connected since")),
        "{refused:?}"
    );
    // A command may write beside it.
    write(&Store::open(&home).unwrap(), 1).await.unwrap();

    // Its own new connection has the lock again, and it is the same gateway.
    cut_off(&first, &place).await;
    write(&first, 2).await.unwrap();
    assert!(Store::open_for_gateway(&home, &new_gateway("second")).is_err());
    assert!(first.epoch().is_some());

    cut_off(&first, &place).await;
    let second = Store::open_for_gateway(&home, &new_gateway("second")).unwrap();
    assert!(first.epoch() < second.epoch());
    let late = write(&first, 3).await.unwrap_err();
    assert!(matches!(late, StoreError::Fenced { .. }), "{late:?}");
    first.until_fenced().await;
    write(&second, 4).await.unwrap();
    drop(second);
    // The lock is free, but what the first one remembers is of the time before the second.
    let later = write(&first, 5).await.unwrap_err();
    assert!(matches!(later, StoreError::Fenced { .. }), "{later:?}");
    // It does not recover by itself, whatever else works.
    drop(first.try_out().await);
    assert!(first.trouble().unwrap().sentence().contains("another gateway"));
    drop(first);
    let again = Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap();
    write(&again, 6).await.unwrap();
    assert_eq!(rows(&place.session()), [1, 2, 4, 6]);
}

/// Opens the store of a gateway of a group.
async fn open_in_group(place: &Place) -> Store {
    let store = place.open();
    let config = SharedConfig { text: "{}".to_owned(), root: "/x".to_owned(), by: "first".to_owned() };
    assert!(store.gateway_group().make("mark".to_owned(), config, entry(1), 1).await.unwrap());
    drop(store);
    Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap()
}

#[tokio::test]
async fn gateways_of_a_group_write_beside_each_other_and_each_has_its_own_fence() {
    let Some(place) = Place::new() else { return };
    let first = open_in_group(&place).await;
    let (_folder, home) = place.sharing(&place.server);
    let second = Store::open_for_gateway(&home, &new_gateway("second")).unwrap();
    assert!(first.is_in_group() && second.is_in_group() && first.epoch() < second.epoch());
    write(&first, 1).await.unwrap();
    write(&second, 2).await.unwrap();
    // A new connection of one of them takes nothing from the other.
    cut_off(&first, &place).await;
    write(&first, 3).await.unwrap();
    write(&second, 4).await.unwrap();
    // As after six seconds of silence.
    place.session().batch("UPDATE gateway SET ended_at = 1, ended_by = 2 WHERE home = 'first'").unwrap();
    let late = write(&first, 5).await.unwrap_err();
    assert!(matches!(late, StoreError::Fenced { .. }), "{late:?}");
    // Nor does one that waits for no answer before its commit.
    let late = first.write("add a row", |transaction| send(transaction, 7)).await.unwrap_err();
    assert!(matches!(late, StoreError::Fenced { .. }), "{late:?}");
    write(&second, 6).await.unwrap();
    // The group ends: as long as one of its gateways lives, no other one is alone.
    let ended = second.gateway_group().end("second".to_owned(), entry(2), 2).await.unwrap();
    assert_eq!(ended, crate::store::GroupEnd::Ended);
    drop(first);
    let refused = Store::open_for_gateway(&place.home, &new_gateway("first")).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::InUse { .. }), "{refused:?}");
    drop(second);
    let alone = Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap();
    assert!(!alone.is_in_group());
    assert_eq!(rows(&place.session()), [1, 2, 3, 4, 6]);
}

/// Waits until this query finds a process of the server, and returns its number.
async fn wait_for_process(session: &Session, query: &str) -> i64 {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let connection = Connection::postgres(session);
        let found: Option<i64> = connection.query_row(query, (), |row| row.get(0)).optional().unwrap();
        if let Some(process) = found {
            return process;
        }
        assert!(Instant::now() < deadline, "no process: {query}");
        tokio::task::yield_now().await;
    }
}

/// Waits until a change waits for the lock of all changes, and has done so for longer than `LONG_WAIT`.
async fn wait_until_held_up(admin: &Session, key: i64) {
    let waiting = format!(
        "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
             WHERE locktype = 'advisory' AND NOT granted AND clock_timestamp() - query_start > interval '5 ms'
             AND (CAST(CAST(classid AS BIGINT) << 32 AS BIGINT) | CAST(objid AS BIGINT)) = {key}"
    );
    wait_for_process(admin, &waiting).await;
}

#[tokio::test]
async fn a_gateway_that_is_ended_while_it_waits_for_the_lock_makes_no_change() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let store = Arc::new(Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap());
    let other = place.session();
    let held = LockedTransaction::begin(&other, lock_deadline()).unwrap();
    let late = tokio::spawn({
        let store = Arc::clone(&store);
        async move { write(&store, 1).await }
    });
    let admin = schemas::admin(&place.server);
    wait_until_held_up(&admin, other.server.settings.lock_key()).await;
    // Its statement has begun already, and would see the row as it was then.
    Connection::postgres(&other).execute("UPDATE gateway SET ended_at = 1, ended_by = 2", ()).unwrap();
    held.commit().unwrap();
    let refused = late.await.unwrap().unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused:?}");
    assert!(rows(&place.session()).is_empty());
    store.until_fenced().await;
}

#[test]
fn a_wait_in_vain_for_the_lock_counts_as_a_long_one() {
    let Some(place) = Place::new() else { return };
    let (other, session) = (place.session(), place.session());
    let held = LockedTransaction::begin(&other, lock_deadline()).unwrap();
    let refused = LockedTransaction::begin(&session, Instant::now()).map(drop).unwrap_err();
    assert_eq!((refused.cause(), session.lock_wait()), (Cause::Locked, LOCK_LIMIT));
    held.commit().unwrap();
    LockedTransaction::begin(&session, lock_deadline()).unwrap().commit().unwrap();
    assert_eq!(session.lock_wait(), Duration::ZERO);
}

/// Messages that were submitted, each with what becomes of it.
type Posting<'s> = Vec<LocalBoxFuture<'s, Result<PostOutcome, StoreError>>>;

/// Opens the store of a gateway of a group, with a channel for messages.
async fn grouped(place: &Place) -> Store {
    let store = open_in_group(place).await;
    make(&store, "ops", &["a"]).await;
    store
}

/// Posts "1" and "2" as one change that `other` holds up. By that the gateway learns that others have changes, too.
async fn post_two_held_up(store: &Store, other: &Session, admin: &Session) {
    let held = LockedTransaction::begin(other, lock_deadline()).unwrap();
    let posts = ["1", "2"].map(|text| says("ops", "human:ann", text)).to_vec();
    let mut posting = Box::pin(post_at_once(store, posts));
    // The first look submits them.
    assert!(futures_util::poll!(&mut posting).is_pending());
    wait_until_held_up(admin, other.server.settings.lock_key()).await;
    held.commit().unwrap();
    assert!(posting.await.iter().all(Result::is_ok));
}

/// Posts "1" and "2", and then submits messages while `other` has the lock of all changes. The first one waits for it before the
/// others come.
async fn submit_held_up<'s, 'o>(
    store: &'s Store,
    other: &'o Session,
    admin: &Session,
    texts: &[&str],
) -> (Posting<'s>, LockedTransaction<'o>) {
    post_two_held_up(store, other, admin).await;
    let held = LockedTransaction::begin(other, lock_deadline()).unwrap();
    let key = other.server.settings.lock_key();
    let mut posting = Posting::new();
    for text in texts {
        let mut post: LocalBoxFuture<'s, _> = Box::pin(store.posts().add(says("ops", "human:ann", text)));
        // The first look submits it.
        assert!(futures_util::poll!(&mut post).is_pending());
        posting.push(post);
        wait_until_held_up(admin, key).await;
    }
    (posting, held)
}

/// Returns the numbers of the messages that were posted.
async fn seqs(posting: Posting<'_>) -> Vec<Option<u64>> {
    let outcomes = join_all(posting).await.into_iter();
    outcomes.map(|outcome| outcome.ok().and_then(PostOutcome::posted).map(|posted| posted.seq)).collect()
}

/// Returns the texts of all messages, in their order.
fn said(session: &Session) -> Vec<String> {
    column(session, "SELECT content FROM message ORDER BY seq")
}

#[tokio::test]
async fn messages_that_come_while_another_gateway_has_the_lock_are_posted_together() {
    let Some(place) = Place::new() else { return };
    let store = grouped(&place).await;
    let (other, admin) = (place.session(), schemas::admin(&place.server));
    let (posting, held) = submit_held_up(&store, &other, &admin, &["3", "4", "5"]).await;
    held.commit().unwrap();
    assert_eq!(seqs(posting).await, [Some(3), Some(4), Some(5)]);
    let changes = "SELECT CAST(count(DISTINCT CAST(xmin AS text)) AS text) FROM message WHERE seq > 2";
    assert_eq!(other.texts(changes).unwrap(), [Some("1".to_owned())]);
    assert!(store.audit().verify().await.unwrap().broken.is_none());
}

#[tokio::test]
async fn messages_that_gather_at_a_gateway_that_is_ended_are_not_posted() {
    let Some(place) = Place::new() else { return };
    let store = grouped(&place).await;
    let (other, admin) = (place.session(), schemas::admin(&place.server));
    let (posting, held) = submit_held_up(&store, &other, &admin, &["3", "4"]).await;
    Connection::postgres(&other).execute("UPDATE gateway SET ended_at = 1, ended_by = 2", ()).unwrap();
    held.commit().unwrap();
    for outcome in join_all(posting).await {
        assert!(matches!(outcome, Err(StoreError::Fenced { .. })), "{outcome:?}");
    }
    assert_eq!(said(&other), ["1", "2"]);
    store.until_fenced().await;
}

#[tokio::test]
async fn a_message_that_came_during_the_wait_and_fails_takes_no_other_with_it() {
    let Some(place) = Place::new() else { return };
    let store = grouped(&place).await;
    let (other, admin) = (place.session(), schemas::admin(&place.server));
    other.batch("CREATE UNIQUE INDEX each_once ON message (content)").unwrap();
    let (posting, held) = submit_held_up(&store, &other, &admin, &["3", "1", "4"]).await;
    held.commit().unwrap();
    assert_eq!(seqs(posting).await, [Some(3), None, Some(4)]);
    assert_eq!(said(&other), ["1", "2", "3", "4"]);
    assert!(store.audit().verify().await.unwrap().broken.is_none());
}

#[tokio::test]
async fn messages_that_gathered_on_a_connection_that_breaks_are_posted_once() {
    let Some(place) = Place::new() else { return };
    let store = grouped(&place).await;
    let (other, admin) = (place.session(), schemas::admin(&place.server));
    let blocking = place.session();
    let (posting, held) = submit_held_up(&store, &other, &admin, &["3", "4", "5"]).await;
    // Once they have the lock of all changes, they have gathered, and their first statement waits for this table.
    blocking.batch("BEGIN; LOCK TABLE channel IN ACCESS EXCLUSIVE MODE").unwrap();
    held.commit().unwrap();
    let waiting = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = CAST('channel' AS regclass)
                       AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
    end_connection(&place, wait_for_process(&blocking, waiting).await);
    blocking.batch("ROLLBACK").unwrap();
    assert_eq!(seqs(posting).await, [Some(3), Some(4), Some(5)]);
    assert_eq!(said(&other), ["1", "2", "3", "4", "5"]);
    assert!(store.audit().verify().await.unwrap().broken.is_none());
}

#[tokio::test]
async fn a_number_that_was_given_twice_belongs_to_one_run() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let store = Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap();
    write(&store, 1).await.unwrap();
    // As after a fail-over to a replica that had not got the row: another gateway has the number now.
    place.session().batch("UPDATE gateway SET run = 'another'").unwrap();
    let refused = write(&store, 2).await.unwrap_err();
    assert!(matches!(refused, StoreError::Fenced { .. }), "{refused:?}");
    assert_eq!(rows(&place.session()), [1]);
}

fn about(kind: NoticeKind, name: &str) -> Notice {
    Notice::Change { kind, name: name.to_owned() }
}

/// Waits for the next notice of this kind. One that does not come is a failure.
async fn heard(notices: &mut Notices, kind: NoticeKind) -> Notice {
    let kinds = [kind];
    let next = tokio::time::timeout(Duration::from_secs(30), notices.next_of(&kinds));
    next.await.expect("a notice comes")
}

async fn tell(store: &Store, kind: NoticeKind, name: &str) {
    let name = name.to_owned();
    let change = move |transaction: &sql::Transaction<'_>| {
        transaction.tell(kind, &name);
        Ok(())
    };
    store.write("tell", change).await.unwrap();
}

/// Makes changes until the store hears of one, and passes over all notices before it.
async fn wait_until_heard(store: &Store, notices: &mut Notices) {
    let deadline = Instant::now() + Duration::from_secs(30);
    for number in 0.. {
        let name = format!("probe {number}");
        tell(store, NoticeKind::Lease, &name).await;
        let found = async { while notices.next().await != about(NoticeKind::Lease, &name) {} };
        if tokio::time::timeout(Duration::from_millis(200), found).await.is_ok() {
            return;
        }
        assert!(Instant::now() < deadline, "no notice comes");
    }
}

/// Opens the store of a gateway, and waits until it hears of changes.
async fn listening(home: &Home) -> (Store, Notices) {
    let store = Store::open_for_gateway(home, &new_gateway("first")).unwrap();
    let mut notices = store.notices();
    wait_until_heard(&store, &mut notices).await;
    (store, notices)
}

#[tokio::test]
async fn a_gateway_hears_of_the_changes_of_others_once_they_are_committed() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let (_store, mut notices) = listening(&place.home).await;
    let (_folder, home) = place.sharing(&place.server);
    let other = Store::open(&home).unwrap();
    batch(
        &other,
        vec![
            Box::new(|transaction| {
                transaction.tell(NoticeKind::Freeze, "it's one");
                add(transaction, 1)
            }),
            // Nobody hears of what is undone.
            Box::new(|transaction| {
                transaction.tell(NoticeKind::Freeze, "undone");
                add(transaction, 1)
            }),
            Box::new(|transaction| {
                transaction.tell(NoticeKind::Freeze, "two");
                transaction.tell(NoticeKind::Freeze, "two");
                add(transaction, 2)
            }),
        ],
    )
    .await;
    let alone = other.write("fail", |transaction| -> sql::Result<()> {
        transaction.tell(NoticeKind::Freeze, "undone alone");
        Err(sql::Error::Malformed)
    });
    assert!(alone.await.is_err());
    tell(&other, NoticeKind::Freeze, "three").await;
    for name in ["it's one", "two", "three"] {
        assert_eq!(heard(&mut notices, NoticeKind::Freeze).await, about(NoticeKind::Freeze, name));
    }
    assert_eq!(rows(&place.session()), [1, 2]);
}

#[tokio::test]
async fn a_commit_with_notices_that_fails_is_undone_and_the_next_one_goes_on() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    place
        .session()
        .batch(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN RAISE EXCEPTION 'no'; END $$;
             CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON probe DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW WHEN (NEW.id = 1) EXECUTE FUNCTION fail()",
        )
        .unwrap();
    let add_and_tell = |id: i64| {
        store.write("add a row", move |transaction| {
            transaction.tell(NoticeKind::Freeze, "coder");
            add(transaction, id)
        })
    };
    let failed = add_and_tell(1).await.unwrap_err();
    assert!(matches!(failed, StoreError::Query { .. }), "{failed:?}");
    add_and_tell(2).await.unwrap();
    assert_eq!(rows(&place.session()), [2]);
}

#[tokio::test]
async fn a_broken_connection_for_notices_is_replaced_and_says_that_some_may_be_lost() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let (proxy, through) = proxied(&place);
    let (_folder, home) = place.sharing(&through);
    let (store, mut notices) = listening(&home).await;
    proxy.break_all();
    assert_eq!(heard(&mut notices, NoticeKind::Freeze).await, Notice::Lost);
    wait_until_heard(&store, &mut notices).await;
}

#[tokio::test]
async fn a_grant_that_another_process_changes_is_looked_up_again() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let (store, mut notices) = listening(&place.home).await;
    let before = store.grants().version();
    let (_folder, home) = place.sharing(&place.server);
    tell(&Store::open(&home).unwrap(), NoticeKind::Grant, "coder").await;
    assert_eq!(heard(&mut notices, NoticeKind::Grant).await, about(NoticeKind::Grant, "coder"));
    assert!(store.grants().version() > before);
}

#[tokio::test]
async fn a_gateway_hears_of_each_decision_about_a_request_and_of_its_end_without_one() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let (_store, mut notices) = listening(&place.home).await;
    let (_folder, home) = place.sharing(&place.server);
    let other = Store::open(&home).unwrap();
    add_request(&other, "r-1", Level::Red, RequestState::Waiting).await;
    add_request(&other, "r-2", Level::Red, RequestState::Waiting).await;
    add_request(&other, "r-3", Level::Yellow, RequestState::Triage).await;
    add_request(&other, "r-4", Level::Red, RequestState::Waiting).await;
    place.session().batch("UPDATE request SET asks_sysadmin = 1 WHERE id = 'r-3'").unwrap();
    let along = |number| Along::audit(entry(number));
    let requests = other.requests();
    let decided = [
        approve(&other, "r-1", &body_digest(BODY), 10).await,
        requests.step("r-2".to_owned(), RequestStep::Deny, None, along(2), 10).await.unwrap(),
        requests.release("r-3".to_owned(), "fine".to_owned(), along(3), 10).await.unwrap(),
        requests.step("r-4".to_owned(), RequestStep::Expire, None, along(4), 10).await.unwrap(),
    ];
    assert!(decided.iter().all(|moved| matches!(moved, RequestTransition::Done(_))), "{decided:?}");
    for id in ["r-1", "r-2", "r-3", "r-4"] {
        assert_eq!(heard(&mut notices, NoticeKind::Request).await, about(NoticeKind::Request, id));
    }
}

#[tokio::test]
async fn the_clock_is_that_of_the_server() {
    let Some(place) = Place::new() else { return };
    let session = place.session();
    let ask = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT) / 1000";
    let server = || number(&session, ask);
    let before = server();
    let now = Connection::postgres(&session).clock().unwrap();
    assert!((before - 1..=server()).contains(&now));
}

#[tokio::test]
async fn a_connection_that_breaks_during_a_change_loses_that_change_alone() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let results = batch(
        &store,
        vec![
            Box::new(|transaction| add(transaction, 1)),
            Box::new(|transaction| {
                transaction.query_row("SELECT pg_terminate_backend(pg_backend_pid())", (), |_| Ok(()))
            }),
            Box::new(|transaction| add(transaction, 2)),
        ],
    )
    .await;
    for result in results {
        // All of them share the transaction, and none was committed.
        assert_eq!(result.unwrap().unwrap_err().cause(), Cause::Unreachable);
    }
    assert!(store.trouble().is_some());
    write(&store, 3).await.unwrap();
    // The gateway does this as long as there is trouble.
    store.try_out().await.unwrap();
    assert_eq!(store.trouble(), None);
    assert_eq!(rows(&place.session()), [3]);
}

/// Returns a proxy in front of the server, and the address that leads through it.
fn proxied(place: &Place) -> (Proxy, String) {
    let Some((before, after)) = place.server.split_once('@') else { panic!("the address names a user") };
    let (address, database) = after.split_once('/').unwrap();
    let proxy = Proxy::start(address);
    let database = database.split('?').next().unwrap();
    let through = format!("{before}@127.0.0.1:{}/{database}?sslmode=disable", proxy.port);
    (proxy, through)
}

#[tokio::test]
async fn a_lost_answer_to_a_commit_is_found_out() {
    let Some(place) = Place::new() else { return };
    let (proxy, through) = proxied(&place);
    drop(place.open());
    let (_folder, home) = place.sharing(&through);
    let store = Store::open(&home).unwrap();
    write(&store, 1).await.unwrap();
    // The server is still there and says that it was committed.
    proxy.lose_next_commit(false);
    write(&store, 2).await.unwrap();
    assert!(proxy.has_lost());
    assert_eq!(rows(&place.session()), [1, 2]);
    // The server can't be asked any more.
    proxy.lose_next_commit(true);
    let lost = write(&store, 3).await.unwrap_err();
    assert!(matches!(lost, StoreError::Unknown { .. }), "{lost:?}");
    assert!(lost.to_string().contains("not known") && !lost.may_pass(), "{lost}");
    assert!(store.trouble().is_some());
    let refused = write(&store, 4).await.unwrap_err();
    assert!(matches!(refused, StoreError::Unreachable { .. }) && refused.may_pass(), "{refused:?}");
    proxy.open_again();
    write(&store, 5).await.unwrap();
    assert_eq!(rows(&place.session()), [1, 2, 3, 5], "the third was made indeed");
    proxy.break_all();
    write(&store, 6).await.unwrap();
}

#[tokio::test]
async fn messages_whose_commit_got_no_answer_are_not_posted_again() {
    let Some(place) = Place::new() else { return };
    let (proxy, through) = proxied(&place);
    drop(place.open());
    let (_folder, home) = place.sharing(&through);
    let store = Store::open(&home).unwrap();
    make(&store, "dev", &["a"]).await;
    // The proxy knows the commit of a change that tells gateways nothing.
    let said = |text: &str| NewPost { wake: WakeUrgency::Nobody, ..says("dev", "human:ann", text) };
    let posts = || ["1", "2"].map(said).to_vec();
    let count = || number(&place.session(), "SELECT count(*) FROM message");
    proxy.lose_next_commit(false);
    assert!(post_at_once(&store, posts()).await.iter().all(Result::is_ok));
    assert!(proxy.has_lost());
    assert_eq!(count(), 2);
    proxy.lose_next_commit(true);
    for outcome in post_at_once(&store, posts()).await {
        assert!(matches!(outcome, Err(StoreError::Unknown { .. })), "{outcome:?}");
    }
    proxy.open_again();
    assert_eq!(count(), 4);
}

#[tokio::test]
async fn a_commit_that_the_server_did_not_make_is_a_failure() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    // It ends the connection while the commit is being made.
    place
        .session()
        .batch(
            "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
                 BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(30); RETURN NULL; END $$;
             CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON probe DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW WHEN (NEW.id = 1) EXECUTE FUNCTION fail()",
        )
        .unwrap();
    let failed = write(&store, 1).await.unwrap_err();
    assert!(matches!(failed, StoreError::Unreachable { .. }), "{failed:?}");
    write(&store, 2).await.unwrap();
    assert_eq!(rows(&place.session()), [2]);
}

#[tokio::test]
async fn a_newer_schema_is_refused() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    place.session().batch("INSERT INTO schema_version VALUES (99, 1)").unwrap();
    let refused = Store::open(&place.home).err().unwrap();
    assert!(matches!(refused, StoreError::NewerSchema { found: 99, .. }), "{refused:?}");
    assert_eq!(refused.hint().as_deref(), Some("flock update"));
    assert!(matches!(Reader::open(&place.home).err().unwrap(), StoreError::NewerSchema { .. }));
    // One that only adds something is used beside the newer flock, also by connections that are made anew.
    place.session().batch("UPDATE schema_version SET oldest = 1 WHERE version = 99").unwrap();
    let store = Store::open(&place.home).unwrap();
    write(&store, 1).await.unwrap();
    cut_off(&store, &place).await;
    write(&store, 2).await.unwrap();
    assert!(Reader::open(&place.home).unwrap().is_some());
    place.session().batch("INSERT INTO schema_version VALUES (100, 1, 2)").unwrap();
    cut_off(&store, &place).await;
    assert!(write(&store, 3).await.is_err(), "the second step needs the newer flock");
}

#[tokio::test]
async fn homes_that_open_a_new_schema_together_migrate_it_once() {
    let Some(place) = Place::new() else { return };
    assert!(Reader::open(&place.home).unwrap().is_none());
    let open = || {
        std::thread::spawn({
            let home = place.home.clone();
            move || Store::open(&home).map(drop)
        })
    };
    let opened: Vec<_> = (0..4).map(|_| open()).collect();
    for opened in opened {
        opened.join().unwrap().unwrap();
    }
    let versions = number(&place.session(), "SELECT count(*) FROM schema_version");
    assert_eq!(versions, i64::from(super::schema::newest()));
    assert!(Reader::open(&place.home).unwrap().is_some());
}

#[test]
fn a_wrong_password_says_where_the_right_one_belongs() {
    let (port, given) = proxy::refusing();
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let address = format!("postgres://flock@127.0.0.1:{port}/flock?sslmode=disable");
    std::fs::write(home.store_location(), serde_json::json!({"postgres": address}).to_string()).unwrap();
    let refused = |home: &Home| Store::open(home).err().unwrap();
    let missing = refused(&home);
    let path = home.secrets().join("postgres").display().to_string();
    assert!(missing.hint().unwrap().contains(&path), "{missing:?}");
    assert_eq!(missing.kind(), crate::error::Kind::Failed, "the server was reached");
    std::fs::create_dir(home.secrets()).unwrap();
    crate::config::secret::set(&home, "postgres", "hunter2").unwrap();
    let wrong = refused(&home);
    assert_eq!(*given.lock().unwrap(), "hunter2");
    assert!(matches!(wrong, StoreError::Connect { .. }), "{wrong:?}");
    assert!(wrong.hint().unwrap().contains(&path));
    assert_eq!(wrong.kind(), crate::error::Kind::Failed);
    let said = format!("{} {wrong:?} {:?}", crate::error::chain(&wrong), wrong.hint());
    assert!(
        said.contains("28P01") && said.contains(&port.to_string()) && !said.contains("hunter2"),
        "{said}"
    );
}

#[test]
fn a_server_that_stands_still_before_another_one_holds_nothing_up() {
    let Some(place) = Place::new() else { return };
    // The kernel takes the connection, and nobody ever answers.
    let still = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = still.local_addr().unwrap().port();
    let (_folder, home) = place.sharing(&place.server.replacen('@', &format!("@127.0.0.1:{port},"), 1));
    drop(Store::open(&home).unwrap());
}

#[test]
fn a_server_that_takes_no_changes_is_refused_with_what_to_do() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    // A standby says the same of its transactions.
    let separator = if place.server.contains('?') { '&' } else { '?' };
    let options = "options=-c%20default_transaction_read_only%3Don";
    let (_folder, home) = place.sharing(&format!("{}{separator}{options}", place.server));
    let refused = Store::open(&home).map(drop).unwrap_err();
    assert!(crate::error::chain(&refused).contains("takes no changes") && refused.may_pass(), "{refused:?}");
    assert!(refused.hint().unwrap().contains("promoted"), "{:?}", refused.hint());
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let address = format!("postgres://flock@127.0.0.1:{port}/flock");
    std::fs::write(home.store_location(), serde_json::json!({"postgres": address}).to_string()).unwrap();
    let refused = Store::open(&home).err().unwrap();
    assert!(
        refused.to_string().contains(&format!("127.0.0.1:{port}/flock")) && refused.may_pass(),
        "{refused:?}"
    );
    assert!(refused.hint().unwrap().contains("store.json"));
    assert_eq!(refused.kind(), crate::error::Kind::Unreachable);
}

#[test]
fn a_gateway_whose_start_waits_in_vain_for_the_lock_says_so() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let other = place.session();
    other.batch(&format!("SELECT pg_advisory_lock({})", other.server.settings.lock_key())).unwrap();
    let held_up = Store::open_for_gateway(&place.home, &new_gateway("first")).map(drop).unwrap_err();
    assert!(matches!(&held_up, StoreError::HeldUp { .. }), "{held_up:?}");
    assert_eq!(held_up.kind(), crate::error::Kind::Unreachable);
    assert!(
        held_up.to_string().contains("become the gateway") && held_up.hint().unwrap().contains("pg_locks")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_read_leaves_its_thread_to_the_other_tasks() {
    let Some(place) = Place::new() else { return };
    let store = Arc::new(place.open());
    let is_over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_over);
    // The read ends only when the other task has run, and there is one thread.
    let reading = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            let work = |found: &Connection<'_>| {
                wait_until(|| seen.load(Ordering::SeqCst));
                found.query_row("SELECT 1", (), |row| row.get::<i64>(0))
            };
            store.read("wait", work).await
        }
    });
    let other = tokio::spawn(async move { is_over.store(true, Ordering::SeqCst) });
    other.await.unwrap();
    assert_eq!(reading.await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn another_database_has_another_identity() {
    let (Some(one), Some(two)) = (Place::new(), Place::new()) else { return };
    let (first, second) = (Store::open(&one.home).unwrap(), Store::open(&two.home).unwrap());
    assert_ne!(first.identity(), second.identity());
    let same = first.identity();
    drop(first);
    assert_eq!(Store::open(&one.home).unwrap().identity(), same);
}
