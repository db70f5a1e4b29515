//! Changes of the database that only tests make, and the databases of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use super::gateway::{self, Epoch, LivingGateway, NewGateway};
use super::location::Location;
use super::postgres::tests::schemas;
use super::{
    AuditEntry, Level, NewPerson, NewSession, NewTurn, PersonRole, SharedConfig, Store, StoredPrompt,
    TokenCounts, TurnCompletion, TurnState,
};
use crate::home::Home;
use crate::id::{Party, TurnId};

/// Makes a person with an account, which with `bound_by` the owner bound to the account.
pub(crate) async fn add_account(
    store: &Store,
    platform: &str,
    id: &str,
    person: &Party,
    bound_by: Option<&str>,
) {
    let row = (platform.to_owned(), id.to_owned(), person.to_string(), bound_by.map(str::to_owned));
    let sql = "INSERT INTO account (platform, id, person, username, created_at, bound_by) VALUES (?1, ?2, ?3, 'x', 1, ?4)";
    store.write("add an account", move |transaction| transaction.execute(sql, row).map(drop)).await.unwrap();
}

/// Returns a person with no limits.
pub(crate) fn person(name: &str, role: PersonRole) -> NewPerson {
    NewPerson { name: name.to_owned(), role, agents: None, channels: None, day_tokens: None, day_cost: None }
}

/// Adds a person, as the owner does.
pub(crate) async fn add_person(store: &Store, new: NewPerson, now: i64) {
    let subject = format!("human:{}", new.name);
    let entry = AuditEntry::new("human:owner", "person.add", &subject, Level::Yellow, String::new());
    assert!(store.people().add(new, entry, now).await.unwrap());
}

/// Changes the body of a request behind flock's back.
pub(crate) async fn change_body(store: &Store, request: &str, from: &'static str, to: &'static str) {
    let (id, sql) = (request.to_owned(), "UPDATE request SET body = replace(body, ?2, ?3) WHERE id = ?1");
    store
        .write("change a request", move |transaction| transaction.execute(sql, (id, from, to)).map(drop))
        .await
        .unwrap();
}

/// Sets the time at which a request expires.
pub(crate) async fn set_expiry(store: &Store, request: &str, at: i64) {
    let (id, sql) = (request.to_owned(), "UPDATE request SET expires_at = ?2 WHERE id = ?1");
    store
        .write("change a request", move |transaction| transaction.execute(sql, (id, at)).map(drop))
        .await
        .unwrap();
}

/// Makes a group of gateways for a database that has one, as a person does.
pub(crate) async fn make_group(store: &Store) {
    let config = SharedConfig { text: "{}".to_owned(), root: String::new(), by: String::new() };
    let entry = AuditEntry::new("human:ann", "gateway.invite", "gateways", Level::Yellow, String::new());
    assert!(store.gateway_group().make("mark".to_owned(), config, entry, 1).await.unwrap());
}

/// Changes the times of a request to those of a gateway whose clock was behind by this number of milliseconds.
pub(crate) async fn age_request(store: &Store, request: &str, by: i64) {
    let sql = "UPDATE request SET created_at = created_at - ?2, expires_at = expires_at - ?2 WHERE id = ?1";
    let id = request.to_owned();
    store
        .write("change a request", move |transaction| transaction.execute(sql, (id, by)).map(drop))
        .await
        .unwrap();
}

/// Tests of what only SQLite has, or that look into its file, by the beginnings of their names. They use SQLite whatever
/// [`location`] says of others. `standalone/postgres.sh` does not run those of the store that never use a server.
const OF_SQLITE: &[&str] = &[
    "backup::tests::",
    "gateway::team::storage_probe::",
    "store::agent_rename::",
    "store::location::",
    "store::sqlite::",
    "store::tests::",
    "store::transfer::",
    "store::writer::",
];

/// Returns the place of a test's database on the server that `FLOCK_TEST_POSTGRES` names; `None` if that is not set or
/// the test is of SQLite.
///
/// Each home gets a fresh schema, which stays the same for the life of the home. Schemas of homes and of processes that
/// are gone are dropped when another home gets its own.
pub(super) fn location(home: &Home) -> Option<Location> {
    static PLACES: Mutex<BTreeMap<PathBuf, Option<String>>> = Mutex::new(BTreeMap::new());
    let server = schemas::server()?;
    let mut places = PLACES.lock().unwrap_or_else(PoisonError::into_inner);
    if !places.contains_key(home.root()) {
        let gone: Vec<PathBuf> = places.keys().filter(|root| !root.exists()).cloned().collect();
        let old = gone.iter().filter_map(|root| places.remove(root).flatten()).collect();
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        assert_ne!(
            test, "main",
            "with FLOCK_TEST_POSTGRES, the names of the threads say which tests are of SQLite"
        );
        let is_of_sqlite = OF_SQLITE.iter().any(|name| test.starts_with(name));
        places.insert(home.root().to_owned(), (!is_of_sqlite).then(|| schemas::fresh(&server, old)));
    }
    let schema = places.get(home.root())?.as_ref()?;
    Some(schemas::location(&server, schema))
}

/// Deletes all sessions, as when people delete them one by one.
pub(crate) async fn forget_sessions(store: &Store) {
    let delete =
        |transaction: &super::sql::Transaction<'_>| transaction.execute("DELETE FROM session", ()).map(drop);
    store.write("delete sessions", delete).await.unwrap();
}

/// Adds a gateway, as its start does.
pub(crate) async fn register_gateway(store: &Store, new: NewGateway) -> Epoch {
    let run = crate::id::hex(&rand::random::<[u8; 16]>());
    store.write("add a gateway", move |transaction| gateway::register(transaction, &new, &run)).await.unwrap()
}

/// Adds a gateway that is the only one, as its start does.
pub(crate) async fn register_gateway_alone(store: &Store, new: NewGateway) -> Epoch {
    let run = crate::id::hex(&rand::random::<[u8; 16]>());
    store
        .write("add a gateway", move |transaction| gateway::register_alone(transaction, &new, &run))
        .await
        .unwrap()
}

/// Returns the row of the audit for a gateway that was ended.
pub(crate) fn replaced(ended: Epoch) -> AuditEntry {
    AuditEntry::new("system", "gateway.replaced", "gateways", Level::Yellow, ended.0.to_string())
}

/// Returns a gateway of which only its number is known.
pub(crate) fn living_gateway(epoch: Epoch) -> LivingGateway {
    LivingGateway {
        epoch,
        home: String::new(),
        name: String::new(),
        address: String::new(),
        version: String::new(),
        started_at: 0,
        beat_until: 0,
        peer: None,
        engines: BTreeSet::new(),
    }
}

/// Makes the time until which a gateway lives come this much earlier, as if it had been silent for as long.
pub(crate) async fn silence_gateway(store: &Store, epoch: Epoch, by: i64) {
    let sql = "UPDATE gateway SET beat_until = beat_until - ?2 WHERE epoch = ?1";
    store
        .write("silence a gateway", move |transaction| transaction.execute(sql, (epoch.0, by)).map(drop))
        .await
        .unwrap();
}

/// Makes all gateways this much older.
pub(crate) async fn age_gateways(store: &Store, by: i64) {
    let sql = "UPDATE gateway SET started_at = started_at - ?1, ended_at = ended_at - ?1";
    store
        .write("age the gateways", move |transaction| transaction.execute(sql, [by]).map(drop))
        .await
        .unwrap();
}

/// Begins a turn of an agent in its session with `ann`.
pub(crate) async fn begin_turn(store: &Store, agent: &str) -> TurnId {
    let turn = TurnId::new();
    let key = format!("agent:{agent}:flock:main:ann").parse().unwrap();
    let begin = NewTurn {
        session: NewSession { key, file: agent.to_owned() },
        turn,
        model: "script/demo".to_owned(),
        prompt: StoredPrompt { inputs: "hash".to_owned(), text: "be good".into() },
        now: 1,
    };
    store.turns().begin(begin).await.unwrap();
    turn
}

/// Returns the end of a turn that is done, after one model call.
pub(crate) fn turn_done() -> TurnCompletion {
    TurnCompletion {
        state: TurnState::Done,
        steps: 1,
        tokens: TokenCounts::default(),
        error: None,
        at: 2,
        pending: None,
        settlement: None,
    }
}

/// Returns the number of rows of a table.
pub(crate) async fn count(store: &Store, table: &'static str) -> i64 {
    store
        .read("count rows", |connection| {
            connection.query_row(&format!("SELECT count(*) FROM {table}"), (), |row| row.get(0))
        })
        .await
        .unwrap()
}
