//! Tests of the copy between two files, and of whole moves to a real server and back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

use tempfile::TempDir;

use super::super::Reader;
use super::super::channel_tests::{entry, id, make, says, seq};
use super::super::postgres::tests::proxy::Proxy;
use super::super::postgres::tests::{new_gateway, schemas};
use super::super::snapshot;
use super::super::sql::{self, Cause, Connection};
use super::catalog::Catalog;
use super::*;
use crate::error::Explain as _;

/// Counts the calls, and stops the move in a step.
#[derive(Default)]
struct Watcher {
    /// The step, the number of its batches after which the move is stopped.
    stops: Option<(&'static str, u32)>,
    /// Is called in the step `copying`, once.
    in_copying: Option<Box<dyn Fn() + Sync>>,
    state: Mutex<(String, u32)>,
}

impl Watcher {
    fn stopping(step: &'static str, batches: u32) -> Self {
        Self { stops: Some((step, batches)), ..Self::default() }
    }
}

impl MoveWatcher for Watcher {
    fn step(&self, text: &str) {
        *self.state.lock().unwrap() = (text.to_owned(), 0);
    }

    fn at(&self, _: u64, _: u64) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        let is_first = state.0 == "copying" && state.1 == 2;
        drop(state);
        if is_first && let Some(call) = &self.in_copying {
            call();
        }
    }

    fn is_stopped(&self) -> bool {
        let state = self.state.lock().unwrap();
        self.stops.is_some_and(|(step, batches)| state.0 == step && state.1 > batches)
    }
}

fn home() -> (TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    home.make_folders().unwrap();
    (folder, home)
}

async fn execute(store: &Store, text: &'static str) {
    store.write("fill", move |transaction| transaction.execute(text, ()).map(drop)).await.unwrap();
}

/// Makes a database with rows of every kind: references, blobs, NULLs, names that differ in case, equal rows in a table
/// without a key, and tables that never give a number twice.
async fn fill(home: &Home) {
    let store = Store::open(home).unwrap();
    make(&store, "Ops", &["coder", "human:ann"]).await;
    make(&store, "dev-1", &["coder"]).await;
    for number in 0..700 {
        let channel = if number % 3 == 0 { "dev-1" } else { "ops" };
        seq(&store, says(channel, "human:ann", &format!("message {number} Caf\u{e9} \u{1f426}"))).await;
    }
    for text in [
        "INSERT INTO message_edit (channel, seq, at, content) VALUES ('Ops', 1, 5, 'x'), ('ops', 1, 5, 'x'),
             ('ops', 1, 5, 'x'), ('ops', 2, 5, 'a longer text')",
        "INSERT INTO receipt (id, project, task, branch, author, tree, checks, document, signature, repository, audit_row,
             created_at) VALUES ('r1', 'p', 't', 'b', 'a', 'e', 'c', '{}', 's', 'r', 1, 7),
             ('r0', 'p', 't', 'b', 'a', 'e', 'c', '{}', 's', 'r', 1, 7)",
        "INSERT INTO receipt_output (receipt, position, head, tail, total) VALUES ('r1', 0, x'00ff', x'', 2)",
        "INSERT INTO link (id, channel, bridge, external, title, created_by, created_at)
             VALUES ('l', 'OPS', 'Matrix', 'e', 't', 'human:ann', 1)",
        "INSERT INTO outbox (link, channel, seq, created_at) VALUES ('l', 'ops', 1, 1), ('l', 'ops', 2, 1), ('l', 'ops', 3, 1)",
        // The number 3 was given, and must not be given again.
        "DELETE FROM outbox WHERE seq = 3",
    ] {
        execute(&store, text).await;
    }
    store.audit().append(entry("test.filled"), 3).await.unwrap();
    store.settle().await.unwrap();
}

fn request(home: &Home, to: Destination) -> MoveRequest {
    MoveRequest { home: home.clone(), to, replace_nul: false, owner: None }
}

/// A request of a copy between two files, with the rules of one to a server.
fn between_files(home: &Home, replace_nul: bool) -> MoveRequest {
    let to = Destination::Server { address: String::new(), schema: None, secret: None };
    MoveRequest { home: home.clone(), to, replace_nul, owner: None }
}

/// Copies the home's file into its draft.
fn copy_file(request: &MoveRequest, watcher: &Watcher) -> Result<(FileEnd, Facts), MoveError> {
    let source = FileEnd::hold(&request.home.database())?;
    let copier = Copier { request, source: End::File(&source), watcher };
    let (mut target, copied) = open_draft(&request.home)?;
    let prepared = copier.prepare(End::File(&target), copied)?;
    if !prepared.fits {
        if prepared.has_begun {
            drop(target);
            file_end::remove_draft(&location::draft(&request.home))?;
            target = new_draft(&request.home)?;
        }
        prepared.begin(End::File(&target))?;
    }
    let facts = copier.fill(End::File(&target), &prepared)?;
    Ok((target, facts))
}

fn number(connection: &Connection<'_>, text: &str) -> i64 {
    connection.query_row(text, (), |row| row.get(0)).unwrap()
}

/// Returns the digest of each table.
fn digests(connection: &Connection<'_>, catalog: &Catalog) -> BTreeMap<String, (u64, String)> {
    let survey = copy::survey(connection, &catalog.all(), NulRule::Keep, &Watcher::default()).unwrap();
    let tables = catalog.all();
    let named = tables.iter().zip(&survey.digests);
    named.map(|(table, digest)| (table.name.clone(), (digest.rows, digest.to_string()))).collect()
}

#[tokio::test]
async fn all_rows_of_a_file_are_copied_and_compared() {
    let (_folder, home) = home();
    fill(&home).await;
    let (target, facts) = copy_file(&between_files(&home, false), &Watcher::default()).unwrap();
    assert_eq!((facts.copied_before, facts.began_anew, facts.audit.broken), (0, false, None));
    let source = FileEnd::look(&home.database()).unwrap().unwrap();
    let (from, to) = (source.connection(), target.connection());
    let (wanted, found) = (
        digests(&from, &End::File(&source).catalog().unwrap()),
        digests(&to, &End::File(&target).catalog().unwrap()),
    );
    assert_eq!(wanted, found);
    assert_eq!(found["message"].0, 700);
    assert_eq!(found["message_edit"].0, 4);
    assert_eq!(facts.rows, wanted.values().map(|(rows, _)| rows).sum::<u64>());
    // The words are found, and the deleted number is not given again.
    assert_eq!(number(&to, "SELECT count(*) FROM message_text WHERE content MATCH 'cafe'"), 700);
    assert_eq!(number(&to, "SELECT seq FROM sqlite_sequence WHERE name = 'outbox'"), 3);
    assert_eq!(number(&to, "SELECT count(*) FROM search_mark"), 0, "no trigger took a copy for a change");
}

#[tokio::test]
async fn a_stopped_copy_goes_on_where_it_was() {
    let (_folder, home) = home();
    fill(&home).await;
    let request = between_files(&home, false);
    for step in ["reading the database", "copying", "copying", "comparing the copy"] {
        let stopped = copy_file(&request, &Watcher::stopping(step, 4)).err().unwrap();
        assert!(matches!(stopped, MoveError::Stopped), "{step}: {stopped:?}");
    }
    let (target, facts) = copy_file(&request, &Watcher::default()).unwrap();
    assert!(!facts.began_anew && facts.copied_before == facts.rows, "{}", facts.copied_before);
    assert_eq!(number(&target.connection(), "SELECT count(*) FROM message"), 700);
    // The state is dropped before the file gets its name.
    target.connection().in_transaction(state::end).unwrap();
    let path = target.finish().unwrap();
    assert!(!super::super::sqlite::connection::beside(&path, "-wal").exists());
}

#[tokio::test]
async fn a_copy_of_rows_that_have_changed_since_begins_anew() {
    let (_folder, home) = home();
    fill(&home).await;
    let request = between_files(&home, false);
    copy_file(&request, &Watcher::stopping("copying", 6)).err().unwrap();
    let store = Store::open(&home).unwrap();
    execute(&store, "UPDATE message SET content = 'changed' WHERE id = 1").await;
    execute(&store, "DELETE FROM message_edit").await;
    drop(store);
    let (target, facts) = copy_file(&request, &Watcher::default()).unwrap();
    assert!(facts.began_anew && facts.copied_before == 0);
    let to = target.connection();
    assert_eq!(number(&to, "SELECT count(*) FROM message WHERE content = 'changed'"), 1);
    assert_eq!(number(&to, "SELECT count(*) FROM message_edit"), 0);
}

#[tokio::test]
async fn a_copy_that_differs_is_not_taken_and_begins_anew() {
    let (_folder, home) = home();
    fill(&home).await;
    let request = between_files(&home, false);
    let draft = location::draft(&home);
    for (text, said) in [
        ("UPDATE message SET created_at = 0 WHERE id = 5", "700 rows instead of 700"),
        ("DELETE FROM message_edit", "0 rows instead of 4"),
        ("INSERT INTO charge (id, channel) VALUES ('x', 'y')", "1 rows instead of 0"),
    ] {
        copy_file(&request, &Watcher::stopping("comparing the copy", 0)).err().unwrap();
        let file = FileEnd::draft(&draft).unwrap();
        file.connection().execute(text, ()).unwrap();
        drop(file);
        let refused = copy_file(&request, &Watcher::default()).err().unwrap();
        assert!(refused.to_string().contains(said) && refused.may_go_on(), "{refused}");
        let (_, facts) = copy_file(&request, &Watcher::default()).unwrap();
        assert!(facts.began_anew, "{text}");
    }
    // An index that lacks words is noticed as well.
    copy_file(&request, &Watcher::stopping("comparing the copy", 0)).err().unwrap();
    let file = FileEnd::draft(&draft).unwrap();
    file.connection().execute("INSERT INTO message_text (message_text) VALUES ('delete-all')", ()).unwrap();
    drop(file);
    assert!(copy_file(&request, &Watcher::default()).is_err());
}

#[tokio::test]
async fn a_cut_audit_is_not_taken_for_a_whole_one() {
    let (_folder, home) = home();
    fill(&home).await;
    let request = between_files(&home, false);
    let source = FileEnd::hold(&home.database()).unwrap();
    let copier = Copier { request: &request, source: End::File(&source), watcher: &Watcher::default() };
    let (target, _) = open_draft(&home).unwrap();
    assert!(matches!(copier.verify_audit(End::File(&target)), Err(MoveError::Audit(_))), "it has no rows");
}

#[tokio::test]
async fn a_nul_character_is_named_before_anything_is_copied() {
    let (_folder, home) = home();
    fill(&home).await;
    let store = Store::open(&home).unwrap();
    let posted = seq(&store, says("ops", "human:ann", "a\0b")).await;
    drop(store);
    let refused = copy_file(&between_files(&home, false), &Watcher::default()).err().unwrap();
    let text = refused.to_string();
    assert!(text.contains("1 text has it") && text.contains("content of message"), "{posted}: {text}");
    assert!(refused.hint().unwrap().contains("--replace-nul"));
    let draft = FileEnd::draft(&location::draft(&home)).unwrap();
    assert_eq!(number(&draft.connection(), "SELECT count(*) FROM message"), 0);
    drop(draft);
    let (target, _) = copy_file(&between_files(&home, true), &Watcher::default()).unwrap();
    let found = "SELECT count(*) FROM message WHERE content = 'a\u{fffd}b'";
    assert_eq!(number(&target.connection(), found), 1);
    drop(target);
    // Not in the audit, whose rows have hashes. An older version of flock wrote such a row.
    let other = rusqlite::Connection::open(home.database()).unwrap();
    let last = "(SELECT max(id) FROM audit)";
    let sealed = format!("UPDATE audit SET detail = 'a' || char(0) || 'b' WHERE id = {last}");
    assert_eq!(other.execute(&sealed, ()).unwrap(), 1);
    drop(other);
    let refused = copy_file(&between_files(&home, true), &Watcher::default()).err().unwrap();
    assert!(matches!(&refused, MoveError::Nul { is_sealed: true, count: 1, .. }), "{refused:?}");
    assert!(refused.hint().unwrap().contains("audit"), "{refused:?}");
}

#[tokio::test]
async fn a_file_that_somebody_has_open_is_not_moved_and_nobody_writes_to_one_that_is() {
    let (_folder, home) = home();
    fill(&home).await;
    let reader = Reader::open(&home).unwrap().unwrap();
    let refused = FileEnd::hold(&home.database()).err().unwrap();
    assert!(matches!(refused, StoreError::Locked { .. }), "{refused:?}");
    drop(reader);
    let held = FileEnd::hold(&home.database()).unwrap();
    let other = rusqlite::Connection::open(home.database()).unwrap();
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let refused = other.execute("DELETE FROM message", ()).unwrap_err();
    assert_eq!(sql::Error::from(refused).cause(), Cause::Locked);
    // To read is possible.
    assert_eq!(other.query_row("SELECT count(*) FROM message", (), |row| row.get::<_, i64>(0)).unwrap(), 700);
    drop((held, other));
    let store = Store::open(&home).unwrap();
    execute(&store, "DELETE FROM message_edit").await;
}

/// A home with a full file, and a schema on the server for tests in which nothing is yet.
struct Stage {
    home: Home,
    server: String,
    schema: String,
    _folder: TempDir,
}

impl Stage {
    /// `None` if there is no server.
    async fn new() -> Option<Self> {
        let server = schemas::required()?;
        let schema = schemas::fresh(&server, Vec::new());
        let (folder, home) = home();
        fill(&home).await;
        Some(Self { home, server, schema, _folder: folder })
    }

    fn to_server(&self) -> MoveRequest {
        self.to(&self.server)
    }

    fn to(&self, address: &str) -> MoveRequest {
        let (address, schema) = (address.to_owned(), Some(self.schema.clone()));
        request(&self.home, Destination::Server { address, schema, secret: None })
    }

    fn to_file(&self) -> MoveRequest {
        request(&self.home, Destination::File)
    }

    fn settings(&self) -> Settings {
        Settings::parse(&self.server, &self.schema).unwrap()
    }

    /// Looks at the schema, without locks.
    fn look(&self) -> SchemaEnd {
        SchemaEnd::look(&self.home, self.settings(), "postgres".to_owned()).unwrap()
    }

    /// Returns another home that uses the same schema.
    fn sharing(&self) -> (TempDir, Home) {
        let (folder, home) = home();
        let document = serde_json::json!({"postgres": self.server, "schema": self.schema});
        std::fs::write(home.store_location(), document.to_string()).unwrap();
        (folder, home)
    }

    /// Returns a way to the server that can be broken, and its address.
    fn through_proxy(&self) -> (Proxy, String) {
        let Some((before, after)) = self.server.split_once('@') else { panic!("the address names a user") };
        let (address, database) = after.split_once('/').unwrap();
        let proxy = Proxy::start(address);
        let database = database.split('?').next().unwrap();
        let through = format!("{before}@127.0.0.1:{}/{database}?sslmode=disable", proxy.port);
        (proxy, through)
    }

    fn is_on_server(&self) -> bool {
        matches!(Location::of(&self.home).unwrap(), Location::Postgres { .. })
    }
}

#[tokio::test]
async fn both_databases_have_the_same_tables_columns_and_keys() {
    let Some(stage) = Stage::new().await else { return };
    let (_folder, other) = stage.sharing();
    drop(Store::open(&other).unwrap());
    let (file, schema) = (FileEnd::look(&stage.home.database()).unwrap().unwrap(), stage.look());
    let (one, two) = (End::File(&file).catalog().unwrap(), End::Schema(&schema).catalog().unwrap());
    let tables = catalog::moved_tables(&one, &two).unwrap();
    assert_eq!(catalog::moved_tables(&two, &one).unwrap().len(), tables.len());
    assert!(tables.len() > 50, "{}", tables.len());
    let keyless: Vec<&str> =
        tables.iter().filter(|table| !table.has_primary_key).map(|table| table.name.as_str()).collect();
    assert_eq!(
        keyless,
        ["audit_base", "message_edit"],
        "their rows are compared as wholes, so none may be NULL"
    );
}

#[tokio::test]
async fn a_home_moves_to_a_server_and_back_with_every_row() {
    let Some(stage) = Stage::new().await else { return };
    let home = &stage.home;
    let planned = plan(&stage.to_server(), &Watcher::default()).unwrap();
    assert_eq!(planned.target, "nothing is there yet");
    let moved = run(&stage.to_server(), &Watcher::default()).unwrap();
    assert_eq!((moved.rows, moved.tables.len()), (planned.rows, planned.tables.len()));
    assert!(stage.is_on_server() && !home.database().exists());
    assert!(PathBuf::from(&moved.kept.place).exists(), "{:?}", moved.kept);
    assert_eq!(stage.look().relations().unwrap().iter().filter(|name| name.starts_with("move_")).count(), 0);
    let store = Store::open(home).unwrap();
    assert_eq!(store.posts().search(Some(&id("OPS")), "cafe 69", 500).await.unwrap().len(), 6);
    assert_eq!(seq(&store, says("dev-1", "human:ann", "on the server")).await, 235);
    execute(&store, "INSERT INTO outbox (link, channel, seq, created_at) VALUES ('l', 'ops', 9, 1)").await;
    store.audit().append(entry("test.moved"), 11).await.unwrap();
    assert_eq!(store.audit().verify().await.unwrap().broken, None);
    let newest = store.read("look", |found| Ok(number(found, "SELECT max(id) FROM outbox"))).await.unwrap();
    assert_eq!(newest, 4, "3 was given before");
    let receipts = "SELECT CASE WHEN (SELECT rowid FROM receipt WHERE id = 'r1')
        < (SELECT rowid FROM receipt WHERE id = 'r0') THEN 1 ELSE 0 END";
    assert_eq!(store.read("look", |found| Ok(number(found, receipts))).await.unwrap(), 1);
    drop(store);
    let there = run(&stage.to_server(), &Watcher::default()).unwrap_err();
    assert!(matches!(there, MoveError::There { .. }), "{there:?}");

    // A process of another home has the schema open since before the move back.
    let (_folder, other) = stage.sharing();
    let open = Store::open(&other).unwrap();
    let back = run(&stage.to_file(), &Watcher::default()).unwrap();
    assert_eq!(back.rows, moved.rows + 4, "a message, what is to be sent, and two rows of the audit");
    assert!(!stage.is_on_server() && !home.store_location().exists() && home.database().exists());
    let late =
        open.write("write late", |transaction| transaction.execute("DELETE FROM outbox", ()).map(drop)).await;
    assert!(late.unwrap_err().to_string().contains("write late"));
    drop(open);
    let refused = Store::open(&other).err().unwrap();
    assert!(matches!(refused, StoreError::MovedAway { .. }), "{refused:?}");
    assert!(Reader::open(&other).is_err());
    let store = Store::open(home).unwrap();
    assert_eq!(seq(&store, says("dev-1", "human:ann", "in the file")).await, 236);
    assert_eq!(store.posts().search(None, "on the server", 5).await.unwrap().len(), 1);
    assert_eq!(store.audit().verify().await.unwrap().broken, None);
    execute(&store, "INSERT INTO outbox (link, channel, seq, created_at) VALUES ('l', 'ops', 10, 1)").await;
    let newest = store.read("look", |found| Ok(number(found, "SELECT max(id) FROM outbox"))).await.unwrap();
    assert_eq!(newest, 5);
    drop(store);
    // The old schema is named if it is to be used again.
    let occupied = run(&stage.to_server(), &Watcher::default()).unwrap_err();
    assert!(occupied.to_string().contains("moved away"), "{occupied}");
    assert!(occupied.hint().unwrap().contains(&format!("DROP SCHEMA \"{}\" CASCADE", stage.schema)));
}

#[tokio::test]
async fn an_interrupted_move_goes_on_in_both_directions() {
    let Some(stage) = Stage::new().await else { return };
    for step in ["copying", "comparing the copy"] {
        let stopped = run(&stage.to_server(), &Watcher::stopping(step, 3)).unwrap_err();
        assert!(matches!(stopped, MoveError::Stopped), "{stopped:?}");
        assert!(!stage.is_on_server());
        // Nobody takes the half for a database.
        let (_folder, other) = stage.sharing();
        assert!(matches!(Store::open(&other).err().unwrap(), StoreError::HalfMoved { .. }));
        // The home goes on with the one that it has.
        drop(Store::open(&stage.home).unwrap());
    }
    let planned = plan(&stage.to_server(), &Watcher::default()).unwrap();
    assert!(planned.target.contains("an interrupted move has copied"), "{planned:?}");
    let moved = run(&stage.to_server(), &Watcher::default()).unwrap();
    assert_eq!((moved.copied_before, moved.began_anew), (moved.rows, false));
    let stopped = run(&stage.to_file(), &Watcher::stopping("copying", 3)).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped) && stage.is_on_server());
    let store = Store::open(&stage.home).unwrap();
    seq(&store, says("ops", "human:ann", "meanwhile")).await;
    drop(store);
    let back = run(&stage.to_file(), &Watcher::default()).unwrap();
    assert!(back.began_anew && !stage.is_on_server(), "{back:?}");
}

#[tokio::test]
async fn a_move_that_ended_between_its_last_steps_is_finished() {
    let Some(stage) = Stage::new().await else { return };
    let home = &stage.home;
    run(&stage.to_server(), &Watcher::default()).unwrap();
    // The server refuses changes, and the home still names it: as after a kill before the switch.
    let note =
        MovedNote { home: home_id(home).unwrap(), place: home.database().display().to_string(), at: 5 };
    stage.look().retire(&note).unwrap();
    let refused = Store::open(home).err().unwrap();
    assert!(refused.hint().unwrap().contains("flock home move --to sqlite"), "{refused:?}");
    // Another home is not given what is not its own.
    let (_folder, other) = stage.sharing();
    let stranger = run(&request(&other, Destination::File), &Watcher::default()).unwrap_err();
    assert!(matches!(stranger, MoveError::Store(StoreError::MovedAway { .. })), "{stranger:?}");
    run(&stage.to_file(), &Watcher::default()).unwrap();
    drop(Store::open(home).unwrap());
    assert!(home.database().exists() && !stage.is_on_server());
}

#[tokio::test]
async fn a_schema_with_anything_else_is_refused_by_name() {
    let Some(stage) = Stage::new().await else { return };
    let look = stage.look();
    look.create().unwrap();
    look.connection().execute("CREATE TABLE invoices (id bigint)", ()).unwrap();
    let refused = run(&stage.to_server(), &Watcher::default()).unwrap_err();
    assert!(refused.to_string().contains("it has the tables invoices"), "{refused}");
    assert_eq!(plan(&stage.to_server(), &Watcher::default()).unwrap_err().to_string(), refused.to_string());
    look.connection().execute("DROP TABLE invoices", ()).unwrap();
    let (_folder, other) = stage.sharing();
    drop(Store::open(&other).unwrap());
    let refused = run(&stage.to_server(), &Watcher::default()).unwrap_err();
    assert!(refused.to_string().ends_with("it has a database of flock"), "{refused}");
    assert!(stage.home.database().exists() && !stage.is_on_server());
    // A file in the place of the new one is refused as well.
    std::fs::write(other.database(), "mine").unwrap();
    let refused = run(&request(&other, Destination::File), &Watcher::default()).unwrap_err();
    assert!(matches!(refused, MoveError::FileThere { .. }), "{refused:?}");
    assert_eq!(std::fs::read_to_string(other.database()).unwrap(), "mine");
}

#[tokio::test]
async fn a_database_in_use_is_not_moved_and_one_that_is_moved_is_not_used() {
    let Some(stage) = Stage::new().await else { return };
    run(&stage.to_server(), &Watcher::default()).unwrap();
    let gateway = Store::open_for_gateway(&stage.home, &new_gateway("first")).unwrap();
    let refused = run(&stage.to_file(), &Watcher::default()).unwrap_err();
    assert!(matches!(refused, MoveError::Store(StoreError::InUse { .. })), "{refused:?}");
    drop(gateway);
    let (_folder, other) = stage.sharing();
    let watcher = Watcher {
        in_copying: Some(Box::new(move || {
            let refused = Store::open_for_gateway(&other, &new_gateway("other")).err().unwrap();
            assert!(matches!(refused, StoreError::InUse { .. }), "{refused:?}");
        })),
        ..Watcher::default()
    };
    run(&stage.to_file(), &watcher).unwrap();
}

#[tokio::test]
async fn a_lost_connection_leaves_a_move_that_goes_on() {
    let Some(stage) = Stage::new().await else { return };
    let (proxy, through) = stage.through_proxy();
    let watcher = Watcher { in_copying: Some(Box::new(move || proxy.break_all())), ..Watcher::default() };
    let lost = run(&stage.to(&through), &watcher).unwrap_err();
    assert!(
        matches!(&lost, MoveError::Table { source, .. } if matches!(**source, StoreError::Unreachable { .. }))
            && lost.may_go_on(),
        "{lost:?}"
    );
    assert!(!stage.is_on_server());
    let moved = run(&stage.to_server(), &Watcher::default()).unwrap();
    assert!(moved.copied_before > 0 && !moved.began_anew, "{moved:?}");
}

#[tokio::test]
async fn a_complete_copy_that_nobody_has_used_is_made_anew_and_one_in_use_is_refused() {
    let Some(stage) = Stage::new().await else { return };
    // As after a kill between the proof and the switch: all rows are there, and the home has its file.
    let complete = || {
        run(&stage.to_server(), &Watcher::stopping("comparing the copy", 0)).unwrap_err();
        stage.look().connection().in_transaction(state::prove).unwrap();
    };
    complete();
    let store = Store::open(&stage.home).unwrap();
    seq(&store, says("ops", "human:ann", "meanwhile")).await;
    drop(store);
    // Stopped again, it is no database any more.
    let stopped = run(&stage.to_server(), &Watcher::stopping("copying", 1)).unwrap_err();
    assert!(matches!(stopped, MoveError::Stopped), "{stopped:?}");
    let (_folder, other) = stage.sharing();
    assert!(matches!(Store::open(&other).err().unwrap(), StoreError::HalfMoved { .. }));
    complete();
    let store = Store::open(&stage.home).unwrap();
    seq(&store, says("ops", "human:ann", "and more")).await;
    drop(store);
    let used = Store::open(&other).unwrap();
    execute(&used, "DELETE FROM message_edit").await;
    drop(used);
    let occupied = run(&stage.to_server(), &Watcher::default()).unwrap_err();
    assert!(matches!(occupied, MoveError::Occupied { .. }) && !stage.is_on_server(), "{occupied:?}");
}

#[tokio::test]
async fn a_home_that_can_not_be_moved_leaves_nothing_on_the_server() {
    let Some(stage) = Stage::new().await else { return };
    let store = Store::open(&stage.home).unwrap();
    seq(&store, says("ops", "human:ann", "a\0b")).await;
    drop(store);
    let refused = run(&stage.to_server(), &Watcher::default()).unwrap_err();
    assert!(matches!(refused, MoveError::Nul { .. }), "{refused:?}");
    assert!(stage.look().relations().unwrap().is_empty());
    run(&MoveRequest { replace_nul: true, ..stage.to_server() }, &Watcher::default()).unwrap();
    assert!(stage.is_on_server());
}

#[tokio::test]
async fn who_waited_for_a_move_does_not_write_to_the_old_file() {
    let (_folder, home) = home();
    fill(&home).await;
    let held = FileEnd::hold(&home.database()).unwrap();
    // Nobody listens there, so to open the new database is an error. The switch was killed before it renamed the file.
    let document = serde_json::json!({"postgres": "postgres://flock@127.0.0.1:1/flock"}).to_string();
    let (waiting, place) = (home.clone(), home.store_location());
    let opened = std::thread::spawn(move || Store::open(&waiting).err());
    crate::home::atomic::write(&place, document.as_bytes(), 0o600).unwrap();
    drop(held);
    let refused = opened.join().unwrap().unwrap();
    // SQLite does not wait with everything that it does to open a file.
    let is_locked = crate::error::chain(&refused).contains("database is locked");
    assert!(is_locked || matches!(refused, StoreError::Connect { .. }), "{refused:?}");
}

/// Returns a home for the copy of a backup.
fn copy_home(folder: &TempDir, name: &str) -> Home {
    let to = Home::new(folder.path().join(name), None);
    to.make_folders().unwrap();
    to
}

#[tokio::test]
async fn a_backup_has_every_row_of_a_server_and_changes_nothing_there() {
    let Some(stage) = Stage::new().await else { return };
    run(&stage.to_server(), &Watcher::default()).unwrap();
    // A gateway that runs has the lock of the gateways, and a person a transaction that holds the lock of changes.
    let gateway = Store::open_for_gateway(&stage.home, &new_gateway("first")).unwrap();
    let changing = stage.look();
    let lock = format!("SELECT 1 FROM pg_advisory_lock({})", changing.lock_key());
    changing.connection().query_row(&lock, (), |_| Ok(())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let to = copy_home(&folder, "copy");
    let facts = snapshot::take(&stage.home, &to).unwrap().unwrap();
    drop(changing);
    assert_eq!(facts.server, Some(stage.settings().to_string()));
    assert_eq!(facts.audit.broken, None);
    assert_eq!(
        snapshot::DatabaseFacts { server: facts.server.clone(), ..snapshot::examine(&to).unwrap() },
        facts
    );
    let look = stage.look();
    let (tables, is_same) = compared(&to, &look);
    assert!(is_same && tables > 30, "{tables}");
    assert!(!facts.tables.iter().any(|table| table.name.starts_with("move_")), "{:?}", facts.tables);
    assert!(snapshot::size(&stage.home).unwrap() > 0);
    assert_eq!(
        snapshot::transcripts(&stage.home).unwrap().into_iter().collect::<std::collections::BTreeSet<_>>(),
        facts.transcripts.into_iter().collect()
    );
    drop(gateway);
    // The copy is a database that goes on with the numbers of the server's.
    let store = Store::open(&to).unwrap();
    assert_eq!(store.audit().verify().await.unwrap().broken, None);
    execute(&store, "INSERT INTO outbox (link, channel, seq, created_at) VALUES ('l', 'ops', 9, 1)").await;
    let newest = store.read("look", |found| Ok(number(found, "SELECT max(id) FROM outbox"))).await.unwrap();
    assert_eq!(newest, 4, "3 was given before");
    assert_eq!(store.posts().search(Some(&id("OPS")), "cafe 69", 500).await.unwrap().len(), 6);
}

#[tokio::test]
async fn a_group_of_gateways_stays_with_its_database() {
    let Some(stage) = Stage::new().await else { return };
    run(&stage.to_server(), &Watcher::default()).unwrap();
    let count = |connection: &Connection<'_>| number(connection, "SELECT count(*) FROM gateway_group");
    let store = Store::open(&stage.home).unwrap();
    let invites = "INSERT INTO gateway_group (id, files, revision, config, root, changed_at, changed_by)
        VALUES (1, 'mark', 1, '{}', '/', 1, 'home')";
    execute(&store, invites).await;
    let folder = tempfile::tempdir().unwrap();
    let to = copy_home(&folder, "copy");
    snapshot::take(&stage.home, &to).unwrap();
    assert_eq!(count(&stage.look().connection()), 1);
    assert_eq!(count(&FileEnd::look(&to.database()).unwrap().unwrap().connection()), 0);
}

/// Returns the number of tables, and `true` if a copy has the same rows as the server.
fn compared(to: &Home, server: &SchemaEnd) -> (usize, bool) {
    let file = FileEnd::look(&to.database()).unwrap().unwrap();
    let (one, two) = (End::File(&file).catalog().unwrap(), End::Schema(server).catalog().unwrap());
    let tables = catalog::moved_tables(&two, &one).unwrap();
    let of = |connection: &Connection<'_>| {
        copy::survey(connection, &tables, NulRule::Keep, &Watcher::default()).unwrap().digests
    };
    (tables.len(), of(&file.connection()) == of(&server.connection()))
}

#[tokio::test]
async fn a_backup_of_a_server_is_of_one_moment_while_others_write() {
    let Some(stage) = Stage::new().await else { return };
    run(&stage.to_server(), &Watcher::default()).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let (stage, stop) = (&stage, &stop);
        scope.spawn(move || {
            let store = Store::open(&stage.home).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut at = 1_000;
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    at += 1;
                    // One change of two tables: a copy has both rows or none.
                    store
                        .write("write a pair", move |transaction| {
                            for text in [
                                "INSERT INTO outbox (link, channel, seq, created_at) VALUES ('l', 'ops', ?1, ?1)",
                                "INSERT INTO message_edit (channel, seq, at, content) VALUES ('ops', ?1, ?1, 'pair')",
                            ] {
                                transaction.execute(text, [at])?;
                            }
                            Ok(())
                        })
                        .await
                        .unwrap();
                    store.audit().append(entry("more"), at).await.unwrap();
                    tell.send(()).ok();
                }
            });
        });
        for copy in 0..4 {
            // Writes go on between the copies.
            told.recv().unwrap();
            let to = copy_home(&folder, &format!("copy-{copy}"));
            let facts = snapshot::take(&stage.home, &to).unwrap().unwrap();
            assert_eq!(facts.audit.broken, None, "{copy}");
            assert_eq!(facts.head.id, facts.audit.last);
            let file = FileEnd::look(&to.database()).unwrap().unwrap();
            let unpaired = "SELECT (SELECT count(*) FROM outbox WHERE seq > 1000)
                - (SELECT count(*) FROM message_edit WHERE content = 'pair')";
            assert_eq!(number(&file.connection(), unpaired), 0, "{copy}");
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[tokio::test]
async fn a_server_that_ends_during_a_backup_fails_it() {
    let Some(stage) = Stage::new().await else { return };
    run(&stage.to_server(), &Watcher::default()).unwrap();
    let (proxy, through) = stage.through_proxy();
    let settings = Settings::parse(&through, &stage.schema).unwrap();
    let watcher = Watcher { in_copying: Some(Box::new(move || proxy.break_all())), ..Watcher::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = copy_home(&folder, "copy").database();
    let lost = moment::copy(&stage.home, (settings, "postgres".to_owned()), &path, &watcher).unwrap_err();
    assert!(
        matches!(&lost, MoveError::Table { source, .. } if matches!(**source, StoreError::Unreachable { .. })),
        "{lost:?}"
    );
    // The server has forgotten it, and the next one is whole.
    let facts = snapshot::take(&stage.home, &copy_home(&folder, "next")).unwrap().unwrap();
    assert_eq!(facts.audit.broken, None);
}

#[tokio::test]
async fn a_backup_of_a_server_that_is_no_store_in_use_is_refused() {
    let Some(stage) = Stage::new().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let to = copy_home(&folder, "copy");
    let (_folder, other) = stage.sharing();
    // Nothing is there yet.
    assert_eq!(snapshot::take(&other, &to).unwrap(), None);
    // A home that had a database does not take a server without one for a new one.
    std::fs::copy(stage.home.audit_head(), other.audit_head()).unwrap();
    let gone = snapshot::take(&other, &to).unwrap_err();
    assert!(matches!(gone, MoveError::Store(StoreError::Gone { .. })), "{gone:?}");
    std::fs::remove_file(other.audit_head()).unwrap();
    run(&stage.to_server(), &Watcher::stopping("copying", 3)).unwrap_err();
    let half = snapshot::take(&other, &to).unwrap_err();
    assert!(matches!(half, MoveError::Store(StoreError::HalfMoved { .. })), "{half:?}");
    run(&stage.to_server(), &Watcher::default()).unwrap();
    // A home that has just joined, without a file about the audit, gets the ends of the copy.
    let facts = snapshot::take(&other, &to).unwrap().unwrap();
    assert_eq!((facts.audit.broken, to.audit_head().exists()), (None, true));
    run(&stage.to_file(), &Watcher::default()).unwrap();
    let moved = snapshot::take(&other, &copy_home(&folder, "other")).unwrap_err();
    assert!(matches!(moved, MoveError::Store(StoreError::MovedAway { .. })), "{moved:?}");
}

#[tokio::test]
async fn a_server_without_rights_or_characters_is_refused() {
    let Some(stage) = Stage::new().await else { return };
    let gone = stage.server.rsplit_once('/').unwrap().0.to_owned() + "/no-such-database";
    let refused = run(&stage.to(&gone), &Watcher::default()).unwrap_err();
    assert!(refused.hint().unwrap().contains("createdb") && refused.may_go_on(), "{refused:?}");
    let refused = run(&stage.to("postgres://a:hunter2@db/b"), &Watcher::default()).unwrap_err();
    assert!(matches!(refused, MoveError::Target(_)) && !refused.to_string().contains("hunter2"), "{refused}");
    // A schema in which the user may create nothing.
    let look = stage.look();
    look.create().unwrap();
    let admin = look.connection();
    let user = format!("{}_reader", stage.schema);
    admin.execute(&format!("CREATE ROLE \"{user}\" LOGIN"), ()).unwrap();
    let as_user =
        stage.server.replacen(stage.server.split_once('@').unwrap().0, &format!("postgres://{user}"), 1);
    let refused = run(&stage.to(&as_user), &Watcher::default()).unwrap_err();
    admin.execute(&format!("DROP ROLE \"{user}\""), ()).unwrap();
    assert!(matches!(&refused, MoveError::Server { .. }), "{refused:?}");
    assert!(refused.hint().unwrap().contains("GRANT CREATE"), "{refused:?}");
    assert!(stage.home.database().exists() && !stage.is_on_server());
}
