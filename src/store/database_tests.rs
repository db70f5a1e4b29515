use super::*;
use crate::store::testing::begin_turn;

fn home() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    (folder, home)
}

#[tokio::test]
async fn committed_rows_are_visible_to_readers_during_and_after() {
    let (_folder, home) = home();
    assert!(Reader::open(&home).unwrap().is_none(), "no database yet");
    let store = Store::open(&home).unwrap();
    begin_turn(&store, "coder").await;
    let beside = Reader::open(&home).unwrap().unwrap();
    assert_eq!(beside.sessions().list(None, 10).await.unwrap().len(), 1);
    drop(beside);
    drop(store);
    assert_eq!(Reader::open(&home).unwrap().unwrap().sessions().list(None, 10).await.unwrap().len(), 1);
    assert_eq!(Store::open(&home).unwrap().turns().running().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_panic_in_a_change_does_not_stop_the_writer() {
    let (_folder, home) = home();
    let store = Store::open(&home).unwrap();
    let broken: Result<(), _> = store.write("break", |_| panic!("a defect")).await;
    assert!(matches!(broken, Err(StoreError::Stopped)));
    begin_turn(&store, "coder").await;
    assert_eq!(store.turns().running().await.unwrap().len(), 1);
}
