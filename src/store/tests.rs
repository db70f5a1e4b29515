use rusqlite::Connection;

use super::sqlite::connection::wal_of;
use super::sqlite::schema;
use super::subjects::Sessions;
use super::*;
use crate::home::Home;
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};

impl Sessions<&Store> {
    /// Opens or closes a session. Returns `false` if there is none with this key.
    async fn set_state(self, key: SessionKey, state: SessionState) -> Result<bool, StoreError> {
        self.write("change a session's state", move |transaction| {
            let changed =
                transaction.execute("UPDATE session SET state = ?2 WHERE key = ?1", (key.as_str(), state))?;
            Ok(changed > 0)
        })
        .await
    }
}

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    (folder, home)
}

fn key(peer: &str, kind: SessionKind) -> SessionKey {
    SessionKey::new(&"coder".parse::<AgentId>().unwrap(), kind, peer)
}

fn begin(key: &SessionKey, now: i64) -> NewTurn {
    NewTurn {
        session: NewSession { key: key.clone(), file: uuid::Uuid::now_v7().to_string() },
        turn: TurnId::new(),
        model: "script/x".to_owned(),
        prompt: StoredPrompt { inputs: "hash".to_owned(), text: "be good".into() },
        now,
    }
}

fn ended(state: TurnState, at: i64) -> TurnCompletion {
    let tokens = TokenCounts { input: 3, output: 4, cache_read: 5, cache_write: 6 };
    TurnCompletion { state, steps: 2, tokens, error: None, at, pending: None, settlement: None }
}

#[tokio::test]
async fn a_message_has_its_turn_and_an_agent_its_last_session() {
    use super::channel_tests::{agent, id, make, says, seq};
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    make(&store, "dev", &["coder"]).await;
    let (first, last) = (key("ann", SessionKind::Main), key("dev", SessionKind::Channel));
    store.turns().begin(begin(&first, 100)).await.unwrap();
    let turn = begin(&last, 200);
    let of_turn = turn.turn;
    store.turns().begin(turn).await.unwrap();
    let by_turn = seq(&store, NewPost { turn: Some(of_turn), ..says("dev", "coder", "done") }).await;
    let by_person = seq(&store, says("dev", "human:ann", "thanks")).await;
    let forgotten = seq(&store, NewPost { turn: Some(TurnId::new()), ..says("dev", "coder", "again") }).await;
    let turns = store.posts().turns(&id("dev"), vec![by_turn, by_person, forgotten, 99]).await.unwrap();
    assert_eq!(turns.keys().copied().collect::<Vec<_>>(), [by_turn]);
    assert_eq!((&turns[&by_turn].id, &turns[&by_turn].session), (&of_turn.to_string(), &last));
    let found = store.sessions().last_of(vec![agent("coder"), agent("tester")]).await.unwrap();
    assert_eq!(found.into_iter().collect::<Vec<_>>(), [(agent("coder"), last)]);
}

#[tokio::test]
async fn a_turn_is_begun_ended_and_listed() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let key = key("ann", SessionKind::Main);
    let first = begin(&key, 100);
    let turn = first.turn;
    let session = store.turns().begin(first).await.unwrap();
    assert_eq!(store.turns().running().await.unwrap().len(), 1);
    assert!(store.sessions().find(&key).await.unwrap().unwrap().running);

    store.turns().end(turn, ended(TurnState::Done, 200)).await.unwrap();
    store.turns().end(turn, ended(TurnState::Interrupted, 300)).await.unwrap();
    let turns = store.turns().list(&key, 10).await.unwrap();
    assert_eq!((turns.len(), turns[0].state, turns[0].ended_at), (1, TurnState::Done, Some(200)));
    assert_eq!(store.sessions().find(&key).await.unwrap().unwrap().tokens.output, 4);
    assert_eq!(&*store.sessions().prompt(&key).await.unwrap().unwrap().text, "be good");

    let again = store.turns().begin(begin(&key, 400)).await.unwrap();
    assert_eq!(again.file, session.file, "a session keeps its transcript");
    let listed = store.sessions().list(None, 10).await.unwrap();
    assert_eq!((listed.len(), listed[0].turns, listed[0].updated_at), (1, 2, 400));
    assert!(store.sessions().list(Some(&"other".parse().unwrap()), 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_closed_session_takes_no_turn() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let key = key("ann", SessionKind::Dm);
    let first = begin(&key, 1);
    let turn = first.turn;
    store.turns().begin(first).await.unwrap();
    store.turns().end(turn, ended(TurnState::Done, 2)).await.unwrap();
    assert!(store.sessions().set_state(key.clone(), SessionState::Closed).await.unwrap());
    assert_eq!(store.turns().begin(begin(&key, 3)).await.unwrap().state, SessionState::Closed);
    assert_eq!(store.turns().list(&key, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_request_sessions_are_deleted_and_others_stay() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    for (peer, kind, now) in [
        ("old", SessionKind::Request, 10),
        ("running", SessionKind::Request, 10),
        ("new", SessionKind::Request, 90),
        ("main", SessionKind::Main, 10),
    ] {
        let begin = begin(&key(peer, kind), now);
        let turn = begin.turn;
        store.turns().begin(begin).await.unwrap();
        if peer != "running" {
            store.turns().end(turn, ended(TurnState::Done, now)).await.unwrap();
        }
    }
    let old = store.sessions().old_requests(50, 10).await.unwrap();
    assert_eq!(old.iter().map(|session| session.key.peer()).collect::<Vec<_>>(), ["old"]);
    store.sessions().delete(old.into_iter().map(|session| session.key).collect()).await.unwrap();
    assert_eq!(store.sessions().list(None, 10).await.unwrap().len(), 3);
    assert!(store.sessions().prompt(&key("new", SessionKind::Request)).await.unwrap().is_some());
}

#[tokio::test]
async fn committed_rows_are_visible_to_readers_during_and_after() {
    let (_folder, home) = home();
    assert!(Reader::open(&home).unwrap().is_none(), "no database yet");
    let store = Store::open(&home).unwrap();
    store.turns().begin(begin(&key("ann", SessionKind::Main), 1)).await.unwrap();
    let beside = Reader::open(&home).unwrap().unwrap();
    assert_eq!(beside.sessions().list(None, 10).await.unwrap().len(), 1);
    drop(beside);
    drop(store);
    assert_eq!(Reader::open(&home).unwrap().unwrap().sessions().list(None, 10).await.unwrap().len(), 1);
    assert_eq!(Store::open(&home).unwrap().turns().running().await.unwrap().len(), 1);
}

#[test]
fn the_database_file_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, home) = home();
    let _store = Store::open(&home).unwrap();
    for path in [home.database(), wal_of(&home.database())] {
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600,
            "{}",
            path.display()
        );
    }
}

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let (_folder, home) = home();
    drop(Store::open(&home).unwrap());
    let connection = Connection::open(home.database()).unwrap();
    connection.execute("INSERT INTO schema_version VALUES (999, 0)", ()).unwrap();
    drop(connection);
    let before = fs_err::read(home.database()).unwrap();
    let Err(error) = Store::open(&home) else { panic!("opened a newer database") };
    assert!(matches!(error, StoreError::Newer { found: 999, .. }), "{error}");
    assert_eq!(crate::error::Explain::kind(&error), crate::error::Kind::NewerHome);
    assert!(Reader::open(&home).is_err());
    assert_eq!(fs_err::read(home.database()).unwrap(), before);
}

#[test]
fn a_migration_saves_the_database_first() {
    let (_folder, home) = home();
    drop(Store::open(&home).unwrap());
    let mut connection = Connection::open(home.database()).unwrap();
    let next = schema::newest() + 1;
    schema::step_for_test(&mut connection, "CREATE TABLE extra (x INTEGER)", next, &home.backups());
    let saved: Vec<_> =
        std::fs::read_dir(home.backups()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(saved.len(), 1);
    let saved = Connection::open(&saved[0]).unwrap();
    assert_eq!(
        saved.query_row("SELECT max(version) FROM schema_version", (), |row| row.get(0)),
        Ok(next - 1)
    );
    assert!(saved.prepare("SELECT * FROM extra").is_err());
    assert!(connection.prepare("SELECT * FROM extra").is_ok());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_alone() {
    let (_folder, home) = home();
    fs_err::create_dir_all(home.data()).unwrap();
    fs_err::write(home.database(), "this is not a database, whatever its name says".repeat(100)).unwrap();
    let before = fs_err::read(home.database()).unwrap();
    assert!(matches!(Store::open(&home), Err(StoreError::Open { .. })));
    assert_eq!(fs_err::read(home.database()).unwrap(), before);
}

#[test]
fn a_fifo_or_folder_in_place_of_the_database_is_refused_at_once() {
    use crate::error::{Explain as _, Kind};
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let (_folder, home) = home();
        drop(Store::open(&home).unwrap());
        let path = beside(&home.database(), suffix);
        drop(fs_err::remove_file(&path));
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let errors = [
            Store::open(&home).err(),
            Reader::open(&home).err(),
            schema_version(&home).err(),
            integrity::check(&home.database(), integrity::CheckDepth::Deep).err(),
            row_counts::census(&home.database()).err(),
            restore(&home, None).err(),
        ];
        for error in errors.map(Option::unwrap) {
            assert!(matches!(&error, StoreError::NoFile { path: found } if *found == path), "{error}");
            assert!(error.to_string().ends_with("it is no regular file"), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.starts_with("ls -ld /")), "{error}");
            assert_eq!((error.kind(), error.may_pass()), (Kind::Failed, false));
        }
        assert!(snapshot(&home, &home.data().join("copy")).is_err());
        assert!(!is_newer(&home));
    }
}

#[tokio::test]
async fn a_panic_in_a_change_does_not_stop_the_writer() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let broken: Result<(), _> = store.write("break", |_| panic!("a defect")).await;
    assert!(matches!(broken, Err(StoreError::Stopped)));
    store.turns().begin(begin(&key("ann", SessionKind::Main), 1)).await.unwrap();
    assert_eq!(store.turns().running().await.unwrap().len(), 1);
}

#[tokio::test]
async fn session_keys_differing_only_in_case_name_one_session() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let known = key("Ann", SessionKind::Main);
    store.turns().begin(begin(&known, 1)).await.unwrap();
    for peer in ["Ann", "ann", "ANN"] {
        let asked = key(peer, SessionKind::Main);
        assert_eq!(store.sessions().canonical_key(&asked).await.unwrap(), known, "{peer}");
        assert_eq!(store.sessions().find(&asked).await.unwrap().unwrap().key, known, "{peer}");
    }
    let other = key("bob", SessionKind::Main);
    assert_eq!(store.sessions().canonical_key(&other).await.unwrap(), other, "nobody has it yet");
    let other = key("ann", SessionKind::Dm);
    assert_eq!(store.sessions().canonical_key(&other).await.unwrap(), other, "of another kind");
}
