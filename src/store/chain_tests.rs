use rusqlite::Connection;

use super::*;
use crate::home::Home;
use crate::store::audit::{AuditEntry, AuditFilter, Level};
use crate::store::audit_chain::{ChainFault, ChainHead, PruneMarker};

fn entry(actor: &str, action: &'static str, level: Level) -> AuditEntry {
    AuditEntry {
        actor: actor.to_owned(),
        action,
        subject: "dev#1".to_owned(),
        level,
        detail: "some words".to_owned(),
        session: None,
        turn: None,
    }
}

/// Makes a home whose audit has ten rows, all of them synced to disk.
async fn ten_rows() -> (tempfile::TempDir, Home) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned(), None);
    let store = Store::open(&home).unwrap();
    for at in 1..=10 {
        store.audit().append(entry("coder", "channel.post", Level::Green), at * 100).await.unwrap();
    }
    store.sync().await.unwrap();
    (folder, home)
}

/// Runs SQL on the database without flock, then verifies the audit.
async fn verify_after(home: &Home, sql: &str) -> AuditVerification {
    let connection = Connection::open(home.database()).unwrap();
    connection.execute_batch(sql).unwrap();
    Reader::open(home).unwrap().unwrap().audit().verify().await.unwrap()
}

#[tokio::test]
async fn an_unchanged_audit_verifies() {
    let (_folder, home) = ten_rows().await;
    assert_eq!(verify_after(&home, "").await, AuditVerification { rows: 10, last: 10, broken: None });
    let store = Store::open(&home).unwrap();
    store.audit().append(entry("coder", "channel.post", Level::Green), 2000).await.unwrap();
    assert_eq!(store.audit().verify().await.unwrap(), AuditVerification { rows: 11, last: 11, broken: None });
}

#[tokio::test]
async fn a_changed_row_breaks_verification() {
    for change in ["actor = 'ann'", "detail = ''", "at = at + 1", "session = 'x'", "hash = zeroblob(32)"] {
        let (_folder, home) = ten_rows().await;
        let found =
            verify_after(&home, &format!("UPDATE audit SET {change} WHERE id = 4")).await.broken.unwrap();
        assert_eq!((found.id, found.reason), (4, "was changed"), "{change}");
    }
}

#[tokio::test]
async fn a_removed_or_inserted_row_breaks_verification() {
    let (_folder, home) = ten_rows().await;
    assert_eq!(verify_after(&home, "DELETE FROM audit WHERE id = 5").await.broken.unwrap().id, 6);
    // Renumbering the rows to close the gap does not hide it.
    let found = verify_after(&home, "UPDATE audit SET id = id - 1 WHERE id > 5").await.broken.unwrap();
    assert_eq!((found.id, found.reason), (5, "does not follow the row before it"));

    let (_folder, home) = ten_rows().await;
    let found = verify_after(
        &home,
        "UPDATE audit SET id = id + 100 WHERE id > 5; UPDATE audit SET id = id - 99 WHERE id > 100;
         INSERT INTO audit SELECT 6, at, 'ann', action, subject, level, detail, session, turn, previous, hash
         FROM audit WHERE id = 5",
    )
    .await;
    assert_eq!(found.broken.unwrap().id, 6);

    let (_folder, home) = ten_rows().await;
    let found = verify_after(
        &home,
        "INSERT INTO audit SELECT 11, at, actor, action, subject, level, detail, session, turn, hash, hash
         FROM audit WHERE id = 10",
    )
    .await;
    assert_eq!(found.broken.unwrap(), ChainFault { id: 11, reason: "was changed" });
}

#[tokio::test]
async fn a_truncated_end_is_reported_even_after_later_rows() {
    let (_folder, home) = ten_rows().await;
    let found = verify_after(&home, "DELETE FROM audit WHERE id > 7").await.broken.unwrap();
    assert_eq!((found.id, found.reason), (10, "was the last and is missing"));
    let store = Store::open(&home).unwrap();
    for at in 0..5 {
        store.audit().append(entry("coder", "channel.post", Level::Green), 3000 + at).await.unwrap();
    }
    store.sync().await.unwrap();
    let found = store.audit().verify().await.unwrap().broken.unwrap();
    assert_eq!((found.id, found.reason), (8, "says that rows before it had been cut off"));
    let rows = store
        .audit()
        .rows(&AuditFilter { level: Some(Level::Red), ..AuditFilter::default() }, 100)
        .await
        .unwrap();
    assert_eq!((rows.len(), rows[0].action.as_str()), (1, "audit.cut"));

    let (_folder, home) = ten_rows().await;
    assert_eq!(verify_after(&home, "DELETE FROM audit").await.broken.unwrap().id, 10);
    let (_folder, home) = ten_rows().await;
    std::fs::remove_file(home.audit_head()).unwrap();
    assert!(verify_after(&home, "").await.broken.is_some(), "without the file nobody knows");
}

#[tokio::test]
async fn the_head_file_is_private_to_its_owner() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_folder, home) = ten_rows().await;
    let mode = std::fs::metadata(home.audit_head()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn pruned_rows_do_not_break_the_chain() {
    let (_folder, home) = ten_rows().await;
    let store = Store::open(&home).unwrap();
    let pruned = || store.audit().prune(500, entry("system", "audit.prune", Level::Yellow), 5000);
    assert_eq!(pruned().await.unwrap(), 4);
    assert_eq!(store.audit().verify().await.unwrap(), AuditVerification { rows: 7, last: 11, broken: None });
    assert_eq!(pruned().await.unwrap(), 0);
    let all =
        store.audit().prune(i64::MAX, entry("system", "audit.prune", Level::Yellow), 6000).await.unwrap();
    assert_eq!(all, 6, "the last row stays");
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(verify_after(&home, "").await, AuditVerification { rows: 2, last: 12, broken: None });
    assert!(verify_after(&home, "UPDATE audit_base SET hash = zeroblob(32)").await.broken.is_some());
}

#[tokio::test]
async fn rows_are_found_newest_first_and_at_most_a_hundred_of_them() {
    let (_folder, home) = ten_rows().await;
    let store = Store::open(&home).unwrap();
    store.audit().append(entry("ann", "channel.create", Level::Yellow), 1100).await.unwrap();
    store.audit().append(entry("ann", "channels", Level::Yellow), 1200).await.unwrap();
    for at in 0..150 {
        store.audit().append(entry("system", "tick", Level::Green), 5000 + at).await.unwrap();
    }
    let ids = async |filter: AuditFilter, limit| -> Vec<i64> {
        store.audit().rows(&filter, limit).await.unwrap().into_iter().map(|row| row.id).collect()
    };
    let all = AuditFilter::default();
    assert_eq!(ids(all.clone(), 1000).await.len(), 100);
    assert_eq!(ids(all.clone(), 0).await, [162]);
    assert_eq!(ids(AuditFilter { actor: Some("ann".into()), ..all.clone() }, 9).await, [12, 11]);
    assert_eq!(
        ids(AuditFilter { action: Some("channel".into()), before: Some(3), ..all.clone() }, 9).await,
        [2, 1]
    );
    assert_eq!(ids(AuditFilter { action: Some("channel.create".into()), ..all.clone() }, 9).await, [11]);
    assert_eq!(ids(AuditFilter { level: Some(Level::Yellow), since: Some(1200), ..all }, 9).await, [12]);
}

#[tokio::test]
async fn rows_missing_at_the_start_without_a_prune_marker_are_reported() {
    const CUT: &str =
        "DELETE FROM audit_base; INSERT INTO audit_base SELECT id, hash FROM audit WHERE id = 4;
        DELETE FROM audit WHERE id <= 4";
    let (_folder, home) = ten_rows().await;
    let found = verify_after(&home, CUT).await.broken.unwrap();
    assert_eq!(found.id, 4);
    assert!(found.reason.contains("flock did not give them up"), "{found}");

    // All rows, with a base that no row follows.
    let (_folder, home) = ten_rows().await;
    let all = "INSERT INTO audit_base VALUES (1000, zeroblob(32)); DELETE FROM audit";
    assert_eq!(verify_after(&home, all).await.broken.unwrap().id, 1000);

    // More rows than flock deleted, with flock's own record of the deletion left in place.
    let (_folder, home) = ten_rows().await;
    let store = Store::open(&home).unwrap();
    store.audit().prune(300, entry("system", "audit.prune", Level::Yellow), 5000).await.unwrap();
    store.sync().await.unwrap();
    drop(store);
    assert_eq!(verify_after(&home, "").await.broken, None);
    assert_eq!(verify_after(&home, CUT).await.broken.unwrap().id, 4);
    // Appending another row does not hide it.
    let store = Store::open(&home).unwrap();
    store.audit().append(entry("coder", "channel.post", Level::Green), 6000).await.unwrap();
    store.sync().await.unwrap();
    assert!(store.audit().verify().await.unwrap().broken.is_some());
}

#[tokio::test]
async fn a_crash_during_pruning_leaves_an_audit_that_verifies() {
    let (_folder, home) = ten_rows().await;
    let row = |id: i64| -> ChainHead {
        let connection = Connection::open(home.database()).unwrap();
        let hash: Vec<u8> =
            connection.query_row("SELECT hash FROM audit WHERE id = ?1", [id], |row| row.get(0)).unwrap();
        ChainHead::new(id, &hash)
    };
    let given_up = PruneMarker { rows: vec![row(2), row(4)] };
    given_up.write(&home.audit_head()).unwrap();
    assert_eq!(verify_after(&home, "").await.broken, None, "before the rows went");
    let gone =
        "INSERT INTO audit_base SELECT id, hash FROM audit WHERE id = 4; DELETE FROM audit WHERE id <= 4";
    assert_eq!(verify_after(&home, gone).await.broken, None, "after they went");
}

#[tokio::test]
async fn rows_of_earlier_versions_verify_and_new_ones_follow_them() {
    let (_folder, home) = ten_rows().await;
    let connection = Connection::open(home.database()).unwrap();
    let mut previous = vec![0; 32];
    for id in 1..=10_i64 {
        let fields =
            [&(id * 100).to_string(), "coder", "channel.post", "dev#1", "GREEN", "some words", "", ""];
        let hash = crate::store::audit::old_link(&previous, &fields).to_vec();
        connection
            .execute("UPDATE audit SET previous = ?2, hash = ?3 WHERE id = ?1", (id, &previous, &hash))
            .unwrap();
        previous = hash;
    }
    drop(connection);
    std::fs::remove_file(home.audit_head()).unwrap();
    let head = ChainHead::new(10, &previous);
    head.write(&home.audit_head()).unwrap();
    let store = Store::open(&home).unwrap();
    store.audit().append(entry("coder", "channel.post", Level::Green), 2000).await.unwrap();
    assert_eq!(store.audit().verify().await.unwrap(), AuditVerification { rows: 11, last: 11, broken: None });
    store.sync().await.unwrap();
    drop(store);
    let changed = verify_after(&home, "UPDATE audit SET detail = 'others' WHERE id = 4").await;
    assert_eq!(changed.broken, Some(ChainFault { id: 4, reason: "was changed" }));
}

#[tokio::test]
async fn a_slice_shows_one_row_and_is_followed_without_the_others() {
    let (_folder, home) = ten_rows().await;
    let store = Store::open(&home).unwrap();
    let slice = store.audit().slice(3, 5, 2).await.unwrap().unwrap();
    assert_eq!((slice.start.0, slice.end.0, slice.rows.len()), (3, 7, 4));
    let shown: Vec<bool> = slice.rows.iter().map(|row| row.fields.is_some()).collect();
    assert_eq!(shown, [false, true, false, false]);
    assert_eq!(follow_chain(&slice.start.1, &slice.rows), Some(slice.end.1.clone()));
    let mut forged = slice.rows.clone();
    forged[1].fields.as_mut().unwrap()[5] = "other words".to_owned();
    assert_eq!(follow_chain(&slice.start.1, &forged), None);
    assert_eq!(store.audit().slice(3, 50, 2).await.unwrap(), None, "there is no such row");
    assert_eq!(store.audit().slice(0, 1, 0).await.unwrap().unwrap().rows.len(), 1);
    for start in ["", "zz", &"A".repeat(64)] {
        assert_eq!(follow_chain(start, &slice.rows), None);
    }
}
