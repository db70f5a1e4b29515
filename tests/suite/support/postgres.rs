//! The server of PostgreSQL that tests may use, if there is one.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Once, mpsc};
use std::thread::JoinHandle;

use flock::error::chain;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// The beginning of the name of each schema that tests make, here and in the unit tests. The number of the process
/// follows.
const PREFIX: &str = "flock_test_";

/// The address of the server, which lets the tests in without a password, as a superuser.
pub fn address() -> Option<String> {
    std::env::var("FLOCK_TEST_POSTGRES").ok().filter(|address| !address.is_empty())
}

/// Returns the address of the server; `None` after saying why a test does not run. Under
/// `FLOCK_TEST_REQUIRE_POSTGRES=1` a missing server is a failure.
pub fn server() -> Option<String> {
    let server = address();
    if server.is_none() {
        let must = std::env::var("FLOCK_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
        assert!(!must, "FLOCK_TEST_REQUIRE_POSTGRES=1 and FLOCK_TEST_POSTGRES names no server");
        eprintln!("not run: FLOCK_TEST_POSTGRES names no server");
    }
    server
}

/// Returns the address and the password with which homes of tests sign in: those of the role that
/// `FLOCK_TEST_POSTGRES_ROLE` names as `NAME:PASSWORD`, or the tests' own address and a password that nobody asks for.
pub fn sign_in(server: &str) -> (String, String) {
    let role = std::env::var("FLOCK_TEST_POSTGRES_ROLE").ok().filter(|role| !role.is_empty());
    let Some(role) = role else { return (server.to_owned(), "nobody-asks-for-it".to_owned()) };
    let (name, password) = role.split_once(':').expect("FLOCK_TEST_POSTGRES_ROLE is NAME:PASSWORD");
    let (_, place) = server.split_once('@').expect("FLOCK_TEST_POSTGRES names a user");
    (format!("postgres://{name}@{place}"), password.to_owned())
}

/// Returns the name of a schema that nobody has used, after dropping those of processes that are gone.
pub fn schema() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    static SWEEP: Once = Once::new();
    SWEEP.call_once(|| {
        let listed = format!("SELECT nspname FROM pg_namespace WHERE starts_with(nspname, '{PREFIX}')");
        let all = run(&listed).unwrap().rows.into_iter().filter_map(|row| row.into_iter().next().flatten());
        let is_gone = |name: &String| {
            let process = name[PREFIX.len()..].split('_').next().unwrap_or_default();
            !Path::new("/proc").join(process).exists()
        };
        all.filter(is_gone).for_each(|name| discard(&name));
    });
    format!("{PREFIX}{}_suite{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// Drops a schema. What still uses it may hold a lock on a table; then it stays, and the next run of the tests drops it.
pub fn discard(schema: &str) {
    let drop = format!(
        "SET lock_timeout = '10s'; SET client_min_messages = error; DROP SCHEMA IF EXISTS \"{schema}\" CASCADE"
    );
    // Who writes at this moment may have locked the tables in another order, and is done soon.
    let mut failed = String::new();
    for _ in 0..3 {
        match run(&drop) {
            Ok(_) => return,
            Err(error) => failed = error,
        }
    }
    eprintln!("the schema {schema} is left: {failed}");
}

/// What statements gave.
#[derive(Debug, Default)]
pub struct Answer {
    /// All rows, each value as text.
    pub rows: Vec<Vec<Option<String>>>,
    /// How many rows the last statement read or changed.
    pub count: u64,
}

impl Answer {
    /// The first value of the last row, which is a number.
    pub fn number(&self) -> i64 {
        let value = self.rows.last().and_then(|row| row.first()?.as_deref());
        value.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no number: {self:?}"))
    }
}

/// Runs statements on the server, one after the other, and all or none of them.
pub fn run(statements: &str) -> Result<Answer, String> {
    let statements = statements.to_owned();
    // A test may be in a runtime already, and wait there for this one.
    std::thread::spawn(move || {
        in_runtime(async {
            let client = connect().await?;
            query(&client, &statements).await
        })
    })
    .join()
    .unwrap()
}

fn in_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

async fn connect() -> Result<Client, String> {
    let server = address().expect("there is a server");
    let (client, connection) =
        tokio_postgres::connect(&server, NoTls).await.map_err(|error| chain(&error))?;
    tokio::spawn(connection);
    Ok(client)
}

async fn query(client: &Client, statements: &str) -> Result<Answer, String> {
    let messages = client.simple_query(statements).await.map_err(|error| chain(&error))?;
    let mut answer = Answer::default();
    for message in messages {
        match message {
            SimpleQueryMessage::Row(row) => {
                answer.rows.push((0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect());
            }
            SimpleQueryMessage::CommandComplete(count) => answer.count = count,
            _ => {}
        }
    }
    Ok(answer)
}

/// A lock of the server, which is given up with the value.
pub struct HeldLock {
    release: Option<mpsc::Sender<()>>,
    holder: Option<JoinHandle<()>>,
}

impl HeldLock {
    /// Takes the lock with this key.
    pub fn take(key: i64) -> Self {
        let (release, released) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let holder = std::thread::spawn(move || {
            in_runtime(async {
                let client = connect().await.unwrap();
                query(&client, &format!("SELECT pg_advisory_lock({key})")).await.unwrap();
                tell.send(()).unwrap();
                // It ends when the sender is dropped.
                let _ = released.recv();
                query(&client, "SELECT pg_advisory_unlock_all()").await.unwrap();
            });
        });
        told.recv().expect("the lock is held");
        Self { release: Some(release), holder: Some(holder) }
    }
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        drop(self.release.take());
        drop(self.holder.take().map(JoinHandle::join));
    }
}
