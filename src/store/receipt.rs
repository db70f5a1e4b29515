//! Receipts: the documents, their signatures and the kept outputs of their checks.
//!
//! A receipt is stored together with the row of the audit that names it.

use super::audit::{self, AuditEntry};
use super::sql::{self, Connection, OptionalExtension as _, Row};
use super::subjects::Receipts;
use super::{Database, Store, StoreError, audit_chain};

/// A receipt as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredReceipt {
    /// The SHA-256 of the document, in hex.
    pub id: String,
    pub project: String,
    pub task: String,
    pub branch: String,
    /// The agent that delivered the tree.
    pub author: String,
    pub tree: String,
    /// The hash of the checks.
    pub checks: String,
    /// The document in its canonical form.
    pub document: String,
    pub signature: String,
    /// The repository that has the delivered commit, relative to the home if it is in the home.
    pub repository: String,
    /// The row of the audit that names the receipt.
    pub audit_row: i64,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A receipt to store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewReceipt {
    pub id: String,
    pub project: String,
    pub task: String,
    pub branch: String,
    pub author: String,
    pub tree: String,
    pub checks: String,
    pub document: String,
    pub signature: String,
    pub repository: String,
    /// The kept output of each command, in order.
    pub outputs: Vec<StoredOutput>,
}

/// The kept output of one command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredOutput {
    pub head: Vec<u8>,
    /// Empty if the whole output is in `head`.
    pub tail: Vec<u8>,
    /// Number of all bytes.
    pub total: u64,
}

/// The selection of receipts that a query returns, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiptFilter {
    pub project: Option<String>,
    pub task: Option<String>,
    pub author: Option<String>,
    pub tree: Option<String>,
}

const COLUMNS: &str =
    "id, project, task, branch, author, tree, checks, document, signature, repository, audit_row, created_at";

fn row(row: &Row<'_>) -> sql::Result<StoredReceipt> {
    Ok(StoredReceipt {
        id: row.get(0)?,
        project: row.get(1)?,
        task: row.get(2)?,
        branch: row.get(3)?,
        author: row.get(4)?,
        tree: row.get(5)?,
        checks: row.get(6)?,
        document: row.get(7)?,
        signature: row.get(8)?,
        repository: row.get(9)?,
        audit_row: row.get(10)?,
        created_at: row.get(11)?,
    })
}

fn outputs(connection: &Connection<'_>, id: &str) -> sql::Result<Vec<StoredOutput>> {
    let output = |row: &Row<'_>| {
        Ok(StoredOutput { head: row.get(0)?, tail: row.get(1)?, total: row.get::<i64>(2)?.unsigned_abs() })
    };
    connection
        .prepare_cached("SELECT head, tail, total FROM receipt_output WHERE receipt = ?1 ORDER BY position")?
        .query_map([id], output)?
        .collect()
}

impl<A> Receipts<&Database<A>> {
    /// Returns the receipts whose id begins with this text, at most two.
    pub async fn find(self, id: &str) -> Result<Vec<StoredReceipt>, StoreError> {
        // A text of hex digits has no character with a meaning in a pattern.
        let wanted: String = id.chars().filter(char::is_ascii_hexdigit).collect();
        if wanted.is_empty() || wanted.len() != id.len() {
            return Ok(Vec::new());
        }
        self.read("look a receipt up", |connection| {
            connection
                .prepare_cached(&format!(
                    // Ids are hex digits, so all that begin like this are in the range, which SQLite finds by the index.
                    "SELECT {COLUMNS} FROM receipt WHERE id >= ?1 AND id < ?1 || '~' LIMIT 2"
                ))?
                .query_map([&wanted], row)?
                .collect()
        })
        .await
    }

    /// Returns receipts, newest first.
    pub async fn list(self, filter: &ReceiptFilter, limit: u32) -> Result<Vec<StoredReceipt>, StoreError> {
        let filter = filter.clone();
        self.read_long("list receipts", move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {COLUMNS} FROM receipt
                     WHERE (CAST(?1 AS TEXT) IS NULL OR project = ?1) AND (CAST(?2 AS TEXT) IS NULL OR task = ?2)
                       AND (CAST(?3 AS TEXT) IS NULL OR author = ?3) AND (CAST(?4 AS TEXT) IS NULL OR tree = ?4)
                     ORDER BY created_at DESC, rowid DESC LIMIT ?5"
                ))?
                .query_map((&filter.project, &filter.task, &filter.author, &filter.tree, limit), row)?
                .collect()
        })
        .await
    }

    /// Returns the kept outputs of a receipt's commands, in order.
    pub async fn outputs(self, id: &str) -> Result<Vec<StoredOutput>, StoreError> {
        let id = id.to_owned();
        self.read_long("read the outputs of a receipt", move |connection| outputs(connection, &id)).await
    }

    /// Returns the kept result of checks on a base tree.
    pub(crate) async fn base_run(self, key: &str) -> Result<Option<String>, StoreError> {
        self.read("look up the checks of a base", |connection| {
            connection
                .prepare_cached("SELECT runs FROM check_run WHERE inputs = ?1")?
                .query_row([key], |row| row.get(0))
                .optional()
        })
        .await
    }
}

impl Receipts<&Store> {
    /// Stores a receipt and appends the row of the audit that names it. Returns the number of that row.
    pub(crate) async fn add(
        self,
        receipt: NewReceipt,
        entry: AuditEntry,
        now: i64,
    ) -> Result<i64, StoreError> {
        self.write("keep a receipt", move |transaction| {
            audit::append(transaction, &entry, now)?;
            let audit_row = audit_chain::head(transaction)?.id;
            transaction
                .prepare_cached(&format!(
                    "INSERT INTO receipt ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)"
                ))?
                .execute((
                    &receipt.id,
                    &receipt.project,
                    &receipt.task,
                    &receipt.branch,
                    &receipt.author,
                    &receipt.tree,
                    &receipt.checks,
                    &receipt.document,
                    &receipt.signature,
                    &receipt.repository,
                    audit_row,
                    now,
                ))?;
            for (position, output) in receipt.outputs.iter().enumerate() {
                let total = i64::try_from(output.total).unwrap_or(i64::MAX);
                let position = i64::try_from(position).unwrap_or(i64::MAX);
                transaction
                    .prepare_cached(
                        "INSERT INTO receipt_output (receipt, position, head, tail, total)
                         VALUES (?1, ?2, ?3, ?4, ?5)",
                    )?
                    .execute((&receipt.id, position, &output.head, &output.tail, total))?;
            }
            Ok(audit_row)
        })
        .await
    }

    /// Deletes receipts from before `time` (Unix milliseconds) with their outputs, at most `limit` of them. Returns their
    /// number. Those of submissions on their way stay, and so does the newest one of each project.
    pub(crate) async fn delete_before(self, time: i64, limit: u32) -> Result<usize, StoreError> {
        self.write("forget old receipts", move |transaction| {
            transaction
                .prepare_cached(
                    "DELETE FROM receipt WHERE id IN (
                        SELECT id FROM receipt WHERE created_at < ?1
                        AND id NOT IN (SELECT receipt FROM submission WHERE receipt IS NOT NULL
                            AND state IN ('queued', 'checking', 'review'))
                        AND EXISTS (SELECT 1 FROM receipt AS newer WHERE newer.project = receipt.project
                            AND (newer.created_at, newer.rowid) > (receipt.created_at, receipt.rowid))
                        ORDER BY created_at LIMIT ?2
                     )",
                )?
                .execute((time, limit))
        })
        .await
    }

    /// Keeps the result of checks on a base tree. Only the newest ones are kept.
    pub(crate) async fn keep_base_run(self, key: String, runs: String, now: i64) -> Result<(), StoreError> {
        self.write("keep the checks of a base", move |transaction| {
            transaction.execute(
                "INSERT INTO check_run (inputs, runs, created_at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (inputs) DO UPDATE SET runs = excluded.runs, created_at = excluded.created_at",
                (key, runs, now),
            )?;
            transaction
                .execute(
                    "DELETE FROM check_run WHERE inputs NOT IN
                     (SELECT inputs FROM check_run ORDER BY created_at DESC LIMIT 500)",
                    (),
                )
                .map(drop)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::{Along, Level, NewSubmission, SubmissionChange, SubmissionState};

    fn store() -> (tempfile::TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::locate(Some(&dir.path().join("home"))).unwrap();
        home.make_folders().unwrap();
        let store = Store::open(&home).unwrap();
        (dir, store)
    }

    fn receipt(id: &str, project: &str) -> NewReceipt {
        NewReceipt {
            id: id.to_owned(),
            project: project.to_owned(),
            task: "t1".to_owned(),
            branch: "flock/coder/t1".to_owned(),
            author: "coder".to_owned(),
            tree: "0".repeat(40),
            checks: "1".repeat(64),
            document: "{}".to_owned(),
            signature: "sig".to_owned(),
            repository: "projects/web.git".to_owned(),
            outputs: vec![StoredOutput { head: b"a".to_vec(), tail: b"z".to_vec(), total: 26 }],
        }
    }

    fn entry() -> AuditEntry {
        AuditEntry::new("system", "receipt.issue", "t1", Level::Green, String::new())
    }

    #[tokio::test]
    async fn old_receipts_go_except_the_last_of_a_project_and_those_of_open_work() {
        let (_dir, store) = store();
        let ids = ["a1", "b2", "c3", "d4"].map(|start| start.repeat(32));
        for (id, project, at) in
            [(&ids[0], "web", 1), (&ids[1], "web", 2), (&ids[2], "web", 3), (&ids[3], "lib", 1)]
        {
            store.receipts().add(receipt(id, project), entry(), at).await.unwrap();
        }
        let new = NewSubmission {
            project: "web".parse().unwrap(),
            agent: "coder".parse().unwrap(),
            branch: "flock/coder/t1".to_owned(),
            commit: "c".to_owned(),
            title: "x".to_owned(),
            session: None,
            task: None,
            now: 5,
        };
        let submitted = store.submissions().add(new, |_| Along::audit(entry())).await.unwrap();
        let to = |state| SubmissionChange { receipt: Some(ids[0].clone()), ..SubmissionChange::to(state) };
        let review = to(SubmissionState::Review);
        store.submissions().step(submitted.id, &[SubmissionState::Queued], review, None, 6).await.unwrap();
        let left = async || {
            let found = store.receipts().list(&ReceiptFilter::default(), 10).await.unwrap();
            found.into_iter().map(|found| found.id[..2].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(store.receipts().delete_before(2, 10).await.unwrap(), 0, "nothing else is old enough");
        assert_eq!(store.receipts().delete_before(9, 10).await.unwrap(), 1);
        assert_eq!(left().await, ["c3", "d4", "a1"]);
        assert_eq!(store.receipts().outputs(&ids[1]).await.unwrap(), [], "its outputs are gone, too");
        let merged = to(SubmissionState::Merged);
        store.submissions().step(submitted.id, &[SubmissionState::Review], merged, None, 7).await.unwrap();
        assert_eq!(store.receipts().delete_before(9, 10).await.unwrap(), 1);
        assert_eq!(left().await, ["c3", "d4"]);
    }

    #[tokio::test]
    async fn a_receipt_is_kept_with_the_row_of_the_audit_that_names_it() {
        let (_dir, store) = store();
        let id = "ab".repeat(32);
        let receipt = receipt(&id, "web");
        let (before, _) = store.audit().end().await.unwrap();
        let row = store.receipts().add(receipt.clone(), entry(), 7).await.unwrap();
        assert_eq!(row, before + 1);
        // The id is a hash, so the same receipt is never stored twice, and its row is not appended either.
        assert!(store.receipts().add(receipt.clone(), entry(), 8).await.is_err());
        assert_eq!(store.audit().end().await.unwrap().0, row);
        let found = store.receipts().find(&id[..8]).await.unwrap();
        assert_eq!((found.len(), found[0].audit_row, found[0].created_at), (1, row, 7));
        assert_eq!(store.receipts().outputs(&id).await.unwrap(), receipt.outputs);
        for other in ["", "*", "ac", "%"] {
            assert_eq!(store.receipts().find(other).await.unwrap(), [], "{other}");
        }
        let filter = ReceiptFilter { project: Some("web".to_owned()), ..ReceiptFilter::default() };
        assert_eq!(store.receipts().list(&filter, 10).await.unwrap(), found);
        let filter = ReceiptFilter { author: Some("other".to_owned()), ..filter };
        assert_eq!(store.receipts().list(&filter, 10).await.unwrap(), []);
    }
}
