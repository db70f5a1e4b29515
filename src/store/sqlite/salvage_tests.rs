use super::super::integrity::tests::{filled, flip};
use super::*;
use crate::id::Party;
use crate::store::{AuditEntry, AuditFilter, Level, NewChannel, Store};

fn home_with_database() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    home.make_folders().unwrap();
    filled(&home);
    (folder, home)
}

fn entry(subject: &str) -> AuditEntry {
    AuditEntry {
        actor: "human:ann".to_owned(),
        action: "test",
        subject: subject.to_owned(),
        level: Level::Green,
        detail: String::new(),
        session: None,
        turn: None,
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn channel(home: &Home, id: &str) {
    let store = Store::open(home).unwrap();
    let new = NewChannel {
        id: id.parse().unwrap(),
        topic: "x".into(),
        created_by: Party::human("ann"),
        members: vec!["coder".parse().unwrap()],
        now: 1,
    };
    block_on(async {
        store.channels().create(new, None, entry(id)).await.unwrap().unwrap();
        store.settle().await.unwrap();
    });
}

fn back_up(home: &Home, at: i64) {
    Store::open(home).unwrap().back_up(home, at).unwrap();
}

fn channels(home: &Home) -> Vec<String> {
    let store = Store::open(home).unwrap();
    let found = block_on(store.channels().list(None, None)).unwrap();
    found.into_iter().map(|channel| channel.id.to_string()).collect()
}

#[test]
fn readable_rows_of_the_damaged_file_replace_those_of_the_backup() {
    let (_folder, home) = home_with_database();
    channel(&home, "early");
    back_up(&home, 1_000);
    channel(&home, "late");
    flip(&home.database());
    assert!(!integrity::check(&home.database(), CheckDepth::Deep).unwrap().is_whole());
    let before = std::fs::read(home.database()).unwrap();

    let restored = restore(&home, None).unwrap();
    assert_eq!(restored.backup_at, Some(1_000));
    assert!(integrity::check(&home.database(), CheckDepth::Deep).unwrap().is_whole());
    assert_eq!(channels(&home), ["early", "late"]);
    let aside = restored.set_aside.unwrap().join("flock.db");
    assert!(std::fs::read(aside).unwrap() == before, "nothing of it was changed");
    let store = Store::open(&home).unwrap();
    let kept: i64 = store
        .pool
        .read("count", |connection| {
            connection.query_row("SELECT count(*) FROM audit WHERE detail LIKE 'xxx%'", (), |row| row.get(0))
        })
        .unwrap();
    assert_eq!(kept, 200, "the backup holds what the damaged page held");
}

#[test]
fn without_a_backup_the_readable_rows_are_kept() {
    let (_folder, home) = home_with_database();
    channel(&home, "early");
    flip(&home.database());
    let restored = restore(&home, None).unwrap();
    assert_eq!(restored.backup, None);
    assert!(!restored.is_complete);
    assert!(integrity::check(&home.database(), CheckDepth::Deep).unwrap().is_whole());
    assert_eq!(channels(&home), ["early"]);
}

#[test]
fn a_missing_or_headerless_database_is_restored_from_the_backup() {
    use std::os::unix::fs::FileExt as _;
    let (_folder, home) = home_with_database();
    channel(&home, "early");
    back_up(&home, 1_000);
    std::fs::remove_file(home.database()).unwrap();
    let restored = restore(&home, None).unwrap();
    assert_eq!((restored.set_aside, channels(&home)), (None, vec!["early".to_owned()]));

    channel(&home, "late");
    let file = std::fs::OpenOptions::new().write(true).open(home.database()).unwrap();
    file.write_all_at(&[0xA5; 64], 0).unwrap();
    restore(&home, None).unwrap();
    assert_eq!(channels(&home), ["early", "late"], "its pages were whole");
}

#[test]
fn rows_deleted_after_the_backup_stay_deleted() {
    let (_folder, home) = home_with_database();
    let item = crate::store::NewInboxItem {
        session: "agent:coder:flock:main:ann".parse().unwrap(),
        kind: crate::store::InboxItemKind::Notice,
        sender: "system".to_owned(),
        text: "x".to_owned(),
        task: None,
        now: 1,
    };
    {
        let store = Store::open(&home).unwrap();
        block_on(store.inbox().add(item)).unwrap();
    }
    back_up(&home, 1_000);
    {
        let store = Store::open(&home).unwrap();
        let turn = crate::id::TurnId::new();
        block_on(async {
            let session: crate::id::SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
            store.inbox().take(session, turn).await.unwrap().unwrap();
            store.inbox().delete(turn).await.unwrap();
            store.settle().await.unwrap();
        });
    }
    flip(&home.database());
    restore(&home, None).unwrap();
    assert!(block_on(Store::open(&home).unwrap().inbox().sessions()).unwrap().is_empty());
}

#[test]
fn audit_rows_are_recovered_up_to_the_first_broken_link() {
    let (_folder, home) = home_with_database();
    back_up(&home, 1_000);
    channel(&home, "late");
    // The database is not damaged: the audit is a complete chain, and all rows are taken.
    restore(&home, None).unwrap();
    let store = Store::open(&home).unwrap();
    assert_eq!(block_on(store.audit().verify()).unwrap().broken, None);
    let rows = block_on(store.audit().rows(&AuditFilter::default(), 1_000)).unwrap();
    assert!(rows.iter().any(|row| row.subject == "late"));
}
