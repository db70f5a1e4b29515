use super::*;
use crate::home::Home;
use crate::store::audit::{AuditEntry, AuditFilter, Level};
use crate::store::audit_chain::{ChainFault, ChainHead, PruneMarker};
use crate::store::location::Location;
use crate::store::postgres::tests::schemas;
use crate::store::sql::{self, Connection, Transaction};

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

/// Changes the database without a store, as anybody can who has its file or signs in to its server.
fn tamper(home: &Home, change: impl FnOnce(&Transaction<'_>) -> sql::Result<()>) {
    match Location::of(home).unwrap() {
        Location::File(path) => {
            let file = rusqlite::Connection::open(path).unwrap();
            Connection::sqlite(&file).in_transaction(change).unwrap();
        }
        Location::Postgres { settings, .. } => {
            let session = schemas::session(*settings);
            Connection::postgres(&session).in_transaction(change).unwrap();
        }
    }
}

/// Runs these statements on the database without a store, then verifies the audit.
async fn verify_after(home: &Home, statements: &str) -> AuditVerification {
    tamper(home, |transaction| {
        let mut each = statements.split(';').filter(|statement| !statement.trim().is_empty());
        each.try_for_each(|statement| transaction.execute(statement, ()).map(drop))
    });
    Reader::open(home).unwrap().unwrap().audit().verify().await.unwrap()
}

/// Returns `true` if other homes, which have files of their own about the audit, can use the database too.
fn is_shared(home: &Home) -> bool {
    matches!(Location::of(home).unwrap(), Location::Postgres { .. })
}

/// Returns a row as the files about the audit name it.
async fn named(home: &Home, id: i64) -> ChainHead {
    let (reader, ask) = (Reader::open(home).unwrap().unwrap(), "SELECT hash FROM audit WHERE id = ?1");
    let read = |connection: &Connection<'_>| connection.query_row(ask, [id], |row| row.get::<Vec<u8>>(0));
    let hash = reader.read("read a row of the audit", read).await.unwrap();
    ChainHead::new(id, &hash)
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
    for change in ["actor = 'ann'", "detail = ''", "at = at + 1", "session = 'x'", "hash = previous"] {
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
    let closed = "UPDATE audit SET id = id + 100 WHERE id > 5; UPDATE audit SET id = id - 101 WHERE id > 100";
    let found = verify_after(&home, closed).await.broken.unwrap();
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
    // A home that has just joined others has no such file yet.
    assert_eq!(verify_after(&home, "").await.broken.is_none(), is_shared(&home), "nobody else knows the end");
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
    let other = "UPDATE audit_base SET hash = (SELECT hash FROM audit WHERE id = 12)";
    assert!(verify_after(&home, other).await.broken.is_some());
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
    let found = verify_after(&home, CUT).await.broken;
    if is_shared(&home) {
        assert_eq!(found, None, "another home may have deleted them, and has the file that says so");
        return;
    }
    let found = found.unwrap();
    assert_eq!(found.id, 4);
    assert!(found.reason.contains("flock did not give them up"), "{found}");

    // All rows, with a base that no row follows.
    let (_folder, home) = ten_rows().await;
    let all = "INSERT INTO audit_base SELECT 1000, hash FROM audit WHERE id = 1; DELETE FROM audit";
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
    let given_up = PruneMarker { rows: vec![named(&home, 2).await, named(&home, 4).await] };
    given_up.write(&home.audit_head()).unwrap();
    assert_eq!(verify_after(&home, "").await.broken, None, "before the rows went");
    let gone =
        "INSERT INTO audit_base SELECT id, hash FROM audit WHERE id = 4; DELETE FROM audit WHERE id <= 4";
    assert_eq!(verify_after(&home, gone).await.broken, None, "after they went");
}

#[tokio::test]
async fn rows_of_earlier_versions_verify_and_new_ones_follow_them() {
    let (_folder, home) = ten_rows().await;
    let mut previous = vec![0_u8; 32];
    tamper(&home, |transaction| {
        for id in 1..=10_i64 {
            let fields =
                [&(id * 100).to_string(), "coder", "channel.post", "dev#1", "GREEN", "some words", "", ""];
            let hash = crate::store::audit::old_link(&previous, &fields).to_vec();
            let link = "UPDATE audit SET previous = ?2, hash = ?3 WHERE id = ?1";
            transaction.execute(link, (id, &previous, &hash))?;
            previous = hash;
        }
        Ok(())
    });
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
