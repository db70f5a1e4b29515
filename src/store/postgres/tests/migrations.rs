//! Tests of the next migration, of a schema that has rows and is in use by flocks of two versions.

use std::sync::Arc;

use super::{Place, cut_off, new_gateway, number, rows, schemas, wait_until, write};
use crate::error::{Explain as _, Kind};
use crate::store::channel_tests::{id, make, says, seq};
use crate::store::postgres::schema::{self, MIGRATIONS, Migration, newest};
use crate::store::postgres::server::Server;
use crate::store::postgres::settings::Settings;
use crate::store::postgres::transaction::{LockedTransaction, lock_deadline};
use crate::store::{Page, Reader, Store, StoreError};

/// A migration that only adds something. The suite applies it under running gateways.
const ADDITION: &str = include_str!("../../../../tests/fixtures/postgres/addition.sql");

/// The same with a last statement that fails.
const BROKEN: &str =
    concat!(include_str!("../../../../tests/fixtures/postgres/addition.sql"), "SELECT 1 / 0;");

/// Returns a migration after which this flock may go on.
fn step(text: &'static str) -> Migration {
    Migration { text, oldest: newest() }
}

/// Returns the migrations of a newer flock: those of this one, and these.
fn followed_by(more: &[Migration]) -> Vec<Migration> {
    [MIGRATIONS, more].concat()
}

fn server(place: &Place) -> Arc<Server> {
    let settings = Settings::parse(&place.server, &place.schema).unwrap();
    Server::new(&place.home, settings, "postgres".to_owned()).unwrap()
}

/// Migrates the schema as a newer flock does at its start.
fn migrate(place: &Place, more: &[Migration]) -> Result<(), StoreError> {
    schema::migrate_by(&server(place), &followed_by(more))
}

/// Returns the texts of the channel `dev`.
async fn texts(store: &Store) -> Vec<String> {
    let posts = store.posts().page(&id("dev"), Page::Last, 10).await.unwrap();
    posts.into_iter().map(|post| post.content).collect()
}

#[tokio::test]
async fn a_flock_goes_on_under_the_schema_of_a_newer_one() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let gateway = Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap();
    make(&gateway, "dev", &["a"]).await;
    assert_eq!(seq(&gateway, says("dev", "human:ann", "one")).await, 1);
    assert_eq!(texts(&gateway).await, ["one"]);
    migrate(&place, &[step(ADDITION)]).unwrap();
    // The connections that it has know prepared statements about the tables that were changed.
    assert_eq!(seq(&gateway, says("dev", "human:ann", "two")).await, 2);
    assert_eq!(texts(&gateway).await, ["one", "two"]);
    // New ones look at the version first.
    cut_off(&gateway, &place).await;
    assert_eq!(seq(&gateway, says("dev", "human:ann", "three")).await, 3);
    let (_folder, home) = place.sharing(&place.server);
    let command = Store::open(&home).unwrap();
    assert_eq!(seq(&command, says("dev", "human:ann", "four")).await, 4);
    assert!(Reader::open(&home).unwrap().is_some());
    drop((gateway, command));
    let gateway = Store::open_for_gateway(&place.home, &new_gateway("first")).unwrap();
    assert_eq!(seq(&gateway, says("dev", "human:ann", "five")).await, 5);
    // The newer one uses it beside that, and finds nothing to migrate.
    migrate(&place, &[step(ADDITION)]).unwrap();
    let newer = place.session();
    assert_eq!(schema::check_for(&newer, newest() + 1).unwrap(), newest() + 1);
    let all = "SELECT count(*) FROM message WHERE tone = 'plain'";
    assert_eq!(number(&newer, all), 5, "those before the migration and those of the older flock after it");
    let change = LockedTransaction::begin(&newer, lock_deadline()).unwrap();
    newer
        .batch(
            "UPDATE message SET tone = 'loud' WHERE seq = 1;
             INSERT INTO message_note (message, note) SELECT id, 'x' FROM message WHERE seq = 1",
        )
        .unwrap();
    change.commit().unwrap();
    assert_eq!(texts(&gateway).await, ["one", "two", "three", "four", "five"]);
    assert_eq!(seq(&gateway, says("dev", "human:ann", "six")).await, 6);
    assert_eq!(number(&newer, all), 5);
}

#[tokio::test]
async fn a_flock_that_is_too_old_for_the_schema_is_refused_and_told_to_update() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    let (own, next) = (newest(), newest() + 1);
    // The second step drops what the first one has left in use, so it needs a flock that knows the first one.
    let second = Migration { text: "DROP TABLE probe", oldest: next };
    migrate(&place, &[step(ADDITION), second]).unwrap();
    let refused = Store::open(&place.home).map(drop).unwrap_err();
    let StoreError::NewerSchema { found, known, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!((*found, *known), (next + 1, own));
    assert_eq!((refused.kind(), refused.hint().as_deref()), (Kind::NewerHome, Some("flock update")));
    let refused = Reader::open(&place.home).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::NewerSchema { .. }), "{refused:?}");
    // The version between them goes on.
    migrate(&place, &[step(ADDITION)]).unwrap();
    assert_eq!(schema::check_for(&place.session(), next).unwrap(), next + 1);
}

#[tokio::test]
async fn flocks_that_migrate_a_schema_together_apply_a_migration_once() {
    let Some(place) = Place::new() else { return };
    drop(place.open());
    // As the first schemas were.
    place.session().batch("ALTER TABLE schema_version DROP COLUMN oldest").unwrap();
    let begin = |is_newer: bool| {
        let (home, server) = (place.home.clone(), server(&place));
        std::thread::spawn(move || {
            if is_newer {
                schema::migrate_by(&server, &followed_by(&[step(ADDITION)]))
            } else {
                Store::open(&home).map(drop)
            }
        })
    };
    let begun: Vec<_> = [true, false, true, false, true, false].into_iter().map(begin).collect();
    for one in begun {
        one.join().unwrap().unwrap();
    }
    let session = place.session();
    assert_eq!(number(&session, "SELECT count(*) FROM schema_version"), i64::from(newest()) + 1);
    assert_eq!(number(&session, "SELECT max(oldest) FROM schema_version"), i64::from(newest()));
    assert!(schema::has_table(&session, "message_note").unwrap());
}

#[tokio::test]
async fn a_migration_that_fails_in_the_middle_changes_nothing() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    write(&store, 1).await.unwrap();
    let next = newest() + 1;
    let failed = migrate(&place, &[step(BROKEN)]).unwrap_err();
    assert!(matches!(failed, StoreError::Migration { version, .. } if version == next), "{failed:?}");
    let session = place.session();
    assert_eq!(schema::check_for(&session, next).unwrap(), newest());
    assert!(!schema::has_table(&session, "message_note").unwrap());
    write(&store, 2).await.unwrap();
    // Its first statements can be carried out, so they were undone. Of two migrations, only the one that fails is.
    let failed = migrate(&place, &[step(ADDITION), step("SELECT 1 / 0")]).unwrap_err();
    assert!(matches!(failed, StoreError::Migration { version, .. } if version == next + 1), "{failed:?}");
    assert_eq!(schema::check_for(&session, next).unwrap(), next);
    assert!(schema::has_table(&session, "message_note").unwrap());
    write(&Store::open(&place.home).unwrap(), 3).await.unwrap();
    assert_eq!(rows(&session), [1, 2, 3]);
}

#[tokio::test]
async fn a_migration_that_waits_for_a_reader_holds_up_no_change() {
    let Some(place) = Place::new() else { return };
    let store = place.open();
    let reading = place.session();
    // As a backup does, which reads one table after the other in one transaction.
    reading.batch("BEGIN; SELECT count(*) FROM schema_version").unwrap();
    let table = step("CREATE TABLE other (id bigint PRIMARY KEY)");
    migrate(&place, &[table]).unwrap();
    reading.batch("SELECT count(*) FROM message").unwrap();
    let server = server(&place);
    let migrating =
        std::thread::spawn(move || schema::migrate_by(&server, &followed_by(&[table, step(ADDITION)])));
    let admin = schemas::admin(&place.server);
    let waiting = format!(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted
             AND relation = CAST(to_regclass('{}.message') AS oid)",
        place.schema
    );
    wait_until(|| number(&admin, &waiting) > 0);
    // A change gives up long before the reader ends.
    for id in 1..=3 {
        write(&store, id).await.unwrap();
    }
    assert!(!migrating.is_finished());
    reading.batch("COMMIT").unwrap();
    migrating.join().unwrap().unwrap();
    write(&store, 4).await.unwrap();
    let session = place.session();
    assert_eq!(rows(&session), [1, 2, 3, 4]);
    assert!(schema::has_table(&session, "message_note").unwrap());
}
