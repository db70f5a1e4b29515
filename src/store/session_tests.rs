use super::*;
use crate::home::Home;
use crate::store::testing::begin_turn;

fn open() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&Home::new(folder.path().to_owned(), None)).unwrap();
    (folder, store)
}

fn coder() -> AgentId {
    "coder".parse().unwrap()
}

fn key(peer: &str) -> SessionKey {
    SessionKey::new(&coder(), SessionKind::Main, peer)
}

async fn make(store: &Store, peer: &str, now: i64) {
    let new = NewSession { key: key(peer), file: format!("file-{peer}") };
    let make = move |transaction: &Transaction<'_>| find_or_create(transaction, &new, now).map(drop);
    store.write("make a session", make).await.unwrap();
}

#[tokio::test]
async fn a_session_with_exactly_this_key_comes_before_those_that_differ_in_case() {
    let (_folder, store) = open();
    for (peer, now) in [("ann", 10), ("Ann", 30), ("aNN", 20)] {
        make(&store, peer, now).await;
    }
    for (asked, found) in [("ann", "ann"), ("Ann", "Ann"), ("aNN", "aNN"), ("ANN", "Ann")] {
        let session = store.sessions().find(&key(asked)).await.unwrap().unwrap();
        assert_eq!(session.key, key(found), "{asked}");
    }
    assert!(store.sessions().find(&key("bob")).await.unwrap().is_none());
}

#[tokio::test]
async fn a_conversation_begins_with_its_session_and_when_it_is_renewed() {
    let (_folder, store) = open();
    make(&store, "Ann", 10).await;
    let began = async |peer: &str| store.sessions().began_at(&key(peer)).await.unwrap();
    assert_eq!(began("Ann").await, Some(10));
    assert_eq!(began("ann").await, None, "a turn would make another session");
    store.sessions().renew(key("Ann"), None, 25).await.unwrap();
    assert_eq!(began("Ann").await, Some(25));
}

#[tokio::test]
async fn the_transcripts_of_an_agent_are_listed_from_the_last_used_on() {
    let (_folder, store) = open();
    for (peer, now) in [("a", 10), ("b", 30), ("c", 20)] {
        make(&store, peer, now).await;
    }
    begin_turn(&store, "tester").await;
    assert_eq!(store.sessions().recent_files(&coder(), 2).await.unwrap(), ["file-b", "file-c"]);
    assert_eq!(store.sessions().recent_files(&"tester".parse().unwrap(), 9).await.unwrap(), ["tester"]);
}
