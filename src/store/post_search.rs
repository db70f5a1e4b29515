//! Channel messages for the search index: the new ones, those that were changed or deleted, and those that were found.

use std::collections::HashMap;

use super::post::{self, COLUMNS};
use super::sql::{self, Row};
use super::subjects::Posts;
use super::{Database, Post, Store, StoreError};

/// The number of the newest marks that are kept. Each gateway of a group has an index of its own and takes them in its own
/// time. An index that is further behind makes its messages anew.
pub(crate) const KEPT_MARKS: i64 = 100_000;

/// A message with the id of its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexedPost {
    pub id: i64,
    pub post: Post,
}

/// A note that a message was changed or deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SearchMark {
    pub id: i64,
    /// The id of the message's row.
    pub message: i64,
}

fn indexed(row: &Row<'_>) -> sql::Result<IndexedPost> {
    Ok(IndexedPost { id: row.get(0)?, post: post::row_from(row, 1)? })
}

impl<A> Posts<&Database<A>> {
    /// Returns the messages whose rows come after this id, in order, at most `limit`.
    pub(crate) async fn after_row(self, id: i64, limit: u32) -> Result<Vec<IndexedPost>, StoreError> {
        self.read_long("read messages for the search index", move |connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT id, {COLUMNS} FROM message WHERE id > ?1 ORDER BY id LIMIT ?2"
                ))?
                .query_map((id, limit), indexed)?
                .collect()
        })
        .await
    }

    /// Returns the messages with these row ids that still exist.
    pub(crate) async fn by_rows(self, ids: &[i64]) -> Result<HashMap<i64, Post>, StoreError> {
        self.read("read found messages", |connection| {
            let mut select =
                connection.prepare_cached(&format!("SELECT id, {COLUMNS} FROM message WHERE id = ?1"))?;
            let mut found = HashMap::new();
            select.query_each(ids.iter().map(|id| [*id]), |row| {
                let IndexedPost { id, post } = indexed(row)?;
                found.insert(id, post);
                Ok(())
            })?;
            Ok(found)
        })
        .await
    }

    /// Returns the id of the newest message's row; 0 without messages.
    pub(crate) async fn last_row(self) -> Result<i64, StoreError> {
        self.read("look for the newest message", |connection| {
            connection.query_row("SELECT coalesce(max(id), 0) FROM message", (), |row| row.get(0))
        })
        .await
    }

    /// Returns the id of the newest mark; 0 without marks.
    pub(crate) async fn last_search_mark(self) -> Result<i64, StoreError> {
        self.read("look for the newest mark", |connection| {
            connection.query_row("SELECT coalesce(max(id), 0) FROM search_mark", (), |row| row.get(0))
        })
        .await
    }

    /// Returns the marks after this id, in order, at most `limit`.
    pub(crate) async fn search_marks(self, after: i64, limit: u32) -> Result<Vec<SearchMark>, StoreError> {
        self.read("read marks for the search index", |connection| {
            connection
                .prepare_cached("SELECT id, message FROM search_mark WHERE id > ?1 ORDER BY id LIMIT ?2")?
                .query_map((after, limit), |row| Ok(SearchMark { id: row.get(0)?, message: row.get(1)? }))?
                .collect()
        })
        .await
    }
}

impl Posts<&Store> {
    /// Deletes the marks that are further back from this one than [`KEPT_MARKS`].
    pub(crate) async fn delete_old_search_marks(self, newest: i64) -> Result<(), StoreError> {
        let up_to = newest - KEPT_MARKS;
        if up_to <= 0 {
            return Ok(());
        }
        self.write("delete marks for the search index", move |transaction| {
            transaction.execute("DELETE FROM search_mark WHERE id <= ?1", [up_to]).map(drop)
        })
        .await
    }
}
