//! Schemas of tests on a real server.

use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::home::Home;
use crate::store::location::Location;
use crate::store::postgres::server::{Purpose, Server};
use crate::store::postgres::session::Session;
use crate::store::postgres::settings::Settings;
use crate::store::postgres::text::quoted;
use crate::store::sql::Connection;

/// The beginning of the name of each schema. The number of the process follows.
const PREFIX: &str = "flock_test_";

/// Returns the address of the server for tests, which has to let the tests in without a password.
pub(in crate::store) fn server() -> Option<String> {
    std::env::var("FLOCK_TEST_POSTGRES").ok().filter(|address| !address.is_empty())
}

/// Returns the address of the server, or `None` after saying why a test does not run. Under
/// `FLOCK_TEST_REQUIRE_POSTGRES=1` a missing server is a failure.
pub(in crate::store) fn required() -> Option<String> {
    let server = server();
    if server.is_none() {
        let must = std::env::var("FLOCK_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
        assert!(!must, "FLOCK_TEST_REQUIRE_POSTGRES=1 and FLOCK_TEST_POSTGRES names no server");
        eprintln!("not run: FLOCK_TEST_POSTGRES names no server");
    }
    server
}

/// Returns the place of a schema.
pub(in crate::store) fn location(server: &str, schema: &str) -> Location {
    let settings = Settings::parse(server, schema).unwrap();
    Location::Postgres { settings: Box::new(settings), secret: "postgres".to_owned() }
}

/// Returns the name of a schema that no test has used, and drops the given ones and those of processes that are gone.
pub(in crate::store) fn fresh(server: &str, mut old: Vec<String>) -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    static SWEEP: Once = Once::new();
    SWEEP.call_once(|| old.extend(abandoned(server)));
    if !old.is_empty() {
        let session = admin(server);
        for schema in old {
            session.batch(&format!("DROP SCHEMA IF EXISTS {} CASCADE", quoted(&schema))).unwrap();
        }
    }
    format!("{PREFIX}{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Returns the schemas of processes that are gone.
fn abandoned(server: &str) -> Vec<String> {
    let session = admin(server);
    let connection = Connection::postgres(&session);
    let mut statement =
        connection.prepare("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, ?1)").unwrap();
    let names: Vec<String> =
        statement.query_map([PREFIX], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let is_gone = |name: &String| {
        let process = name[PREFIX.len()..].split('_').next().unwrap_or_default();
        !Path::new("/proc").join(process).exists()
    };
    names.into_iter().filter(is_gone).collect()
}

/// Returns a connection of no test's own.
pub(super) fn admin(server: &str) -> Session {
    connect(server, "public", Purpose::Migrate)
}

/// Returns a connection to a schema.
pub(super) fn connect(server: &str, schema: &str, purpose: Purpose) -> Session {
    open(Settings::parse(server, schema).unwrap(), purpose)
}

/// Returns a connection for changes to the schema of a test, which belongs to no store.
pub(in crate::store) fn session(settings: Settings) -> Session {
    open(settings, Purpose::Migrate)
}

fn open(settings: Settings, purpose: Purpose) -> Session {
    // A home without a secret: the server lets the tests in.
    let home = Home::new("/nonexistent".into(), None);
    let server = Server::new(&home, settings, "postgres".to_owned()).unwrap();
    server.connect(purpose).unwrap()
}
