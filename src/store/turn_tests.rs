use super::*;
use crate::home::Home;
use crate::id::{AgentId, SessionKind};
use crate::store::NewPost;
use crate::store::channel_tests::{agent, id, make, says, seq};

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
    (folder, store)
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
    let (_folder, store) = open();
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
    let (_folder, store) = open();
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
    let (_folder, store) = open();
    let key = key("ann", SessionKind::Dm);
    let first = begin(&key, 1);
    let turn = first.turn;
    store.turns().begin(first).await.unwrap();
    store.turns().end(turn, ended(TurnState::Done, 2)).await.unwrap();
    let (closed, sql) = (key.clone(), "UPDATE session SET state = ?2 WHERE key = ?1");
    let close = move |transaction: &Transaction<'_>| {
        transaction.execute(sql, (closed.as_str(), SessionState::Closed))
    };
    assert_eq!(store.write("close a session", close).await.unwrap(), 1);
    assert_eq!(store.turns().begin(begin(&key, 3)).await.unwrap().state, SessionState::Closed);
    assert_eq!(store.turns().list(&key, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_request_sessions_are_deleted_and_others_stay() {
    let (_folder, store) = open();
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
async fn session_keys_differing_only_in_case_name_one_session() {
    let (_folder, store) = open();
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
