//! The copy itself: the rows of the source are read and measured, copied, and read again from the target.

use std::collections::BTreeMap;

use super::MoveWatcher;
use super::catalog::MovedTable;
use super::digest::TableDigest;
use super::end::End;
use super::error::MoveError;
use super::page::{self, Page};
use super::state::{self, TableState};
use crate::fault_point::{FaultPoint, reach};
use crate::store::StoreError;
use crate::store::sql::{self, Connection, Value};

/// The table whose rows are protected by hashes, so that no character of them can be replaced.
const SEALED: &str = "audit";

/// What becomes of NUL characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NulRule {
    /// The target can store them.
    Keep,
    /// They are reported, and nothing is copied.
    Refuse,
    /// They are replaced by U+FFFD.
    Replace,
}

/// The texts that the target can't store: their number, and the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NulFinding {
    count: u64,
    table: String,
    column: String,
    key: String,
    is_sealed: bool,
}

impl From<NulFinding> for MoveError {
    fn from(found: NulFinding) -> Self {
        let NulFinding { count, table, column, key, is_sealed } = found;
        Self::Nul { count, table, column, key, is_sealed }
    }
}

/// What was read of the source.
pub(super) struct Survey {
    pub(super) digests: Vec<TableDigest>,
    nul: Option<NulFinding>,
}

impl Survey {
    /// Returns an error if there are texts that the target can't store.
    pub(super) fn require_storable(&self) -> Result<(), MoveError> {
        self.nul.clone().map_or(Ok(()), |found| Err(found.into()))
    }

    pub(super) fn rows(&self) -> u64 {
        self.digests.iter().map(|digest| digest.rows).sum()
    }
}

fn failed(what: &'static str, table: &MovedTable) -> impl Fn(sql::Error) -> MoveError {
    move |source| MoveError::Table {
        table: table.name.clone(),
        source: Box::new(StoreError::query(what, source)),
    }
}

fn go_on(watcher: &dyn MoveWatcher) -> Result<(), MoveError> {
    if watcher.is_stopped() { Err(MoveError::Stopped) } else { Ok(()) }
}

/// Reads all rows of the source, as they are to be copied.
pub(super) fn survey(
    connection: &Connection<'_>,
    tables: &[MovedTable],
    rule: NulRule,
    watcher: &dyn MoveWatcher,
) -> Result<Survey, MoveError> {
    watcher.step("reading the database");
    let mut all = 0;
    for table in tables {
        all += page::count(connection, table).map_err(failed("count its rows", table))?;
    }
    let (mut done, mut nul, mut digests) = (0, None, Vec::new());
    for table in tables {
        let mut digest = TableDigest::default();
        page::for_each(connection, table, None, failed("read its rows", table), |mut page| {
            go_on(watcher)?;
            for row in &mut page.rows {
                look_for_nul(table, row, rule, &mut nul);
                replace_nul(row, rule);
                digest.add(row);
            }
            done += page.rows.len() as u64;
            watcher.at(done, all);
            Ok(())
        })?;
        digests.push(digest);
    }
    Ok(Survey { digests, nul })
}

/// Adds what a row has of texts that the target can't store, and that are not replaced.
fn look_for_nul(table: &MovedTable, row: &[Value], rule: NulRule, found: &mut Option<NulFinding>) {
    let is_sealed = table.name == SEALED;
    if rule == NulRule::Keep || (rule == NulRule::Replace && !is_sealed) {
        return;
    }
    for (value, (column, _)) in row.iter().zip(&table.columns) {
        if !has_nul(value) {
            continue;
        }
        let found = found.get_or_insert_with(|| NulFinding {
            count: 0,
            table: table.name.clone(),
            column: column.clone(),
            key: key_text(table, row),
            is_sealed: false,
        });
        found.count += 1;
        found.is_sealed |= is_sealed;
    }
}

fn has_nul(value: &Value) -> bool {
    matches!(value, Value::Text(text) if memchr::memchr(0, text.as_bytes()).is_some())
}

fn replace_nul(row: &mut [Value], rule: NulRule) {
    if rule != NulRule::Replace {
        return;
    }
    for value in row.iter_mut().filter(|value| has_nul(value)) {
        if let Value::Text(text) = value {
            *text = text.replace('\0', sql::NUL_REPLACEMENT);
        }
    }
}

/// Returns the key of a row, for people.
fn key_text(table: &MovedTable, row: &[Value]) -> String {
    /// The length at which a part of a key is cut.
    const MAX_CHARS: usize = 80;
    let part = |value: &Value| match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => text.escape_debug().take(MAX_CHARS).collect(),
        Value::Null | Value::Real(_) | Value::Blob(_) => "...".to_owned(),
    };
    let parts: Vec<String> = table.key.iter().filter_map(|place| row.get(*place)).map(part).collect();
    parts.join(", ")
}

/// Returns `true` if what was copied before is the beginning of a copy of exactly these rows.
pub(super) fn fits(
    known: &BTreeMap<String, TableState>,
    tables: &[MovedTable],
    digests: &[TableDigest],
) -> bool {
    known.len() == tables.len()
        && tables.iter().zip(digests).all(|(table, digest)| {
            known
                .get(&table.name)
                .is_some_and(|state| state.rows == digest.rows && state.digest == digest.to_string())
        })
}

/// Copies the rows that the target does not have yet. Each batch is committed together with the place that it leads to.
pub(super) fn copy(
    (source, target): (&Connection<'_>, &Connection<'_>),
    tables: &[MovedTable],
    (rule, all): (NulRule, u64),
    watcher: &dyn MoveWatcher,
) -> Result<(), MoveError> {
    watcher.step("copying");
    let known =
        state::tables(target).map_err(|source| StoreError::query("read how far the move is", source))?;
    let mut done: u64 = known.values().map(|state| state.copied).sum();
    watcher.at(done, all);
    for table in tables {
        let state = known.get(&table.name);
        if state.is_some_and(|state| state.is_done) {
            continue;
        }
        let after = state.and_then(|state| state.last_key.clone());
        page::for_each(source, table, after, failed("read its rows", table), |page| {
            go_on(watcher)?;
            let rows = page.rows.len() as u64;
            add(target, table, page, rule).map_err(failed("write its rows", table))?;
            reach(FaultPoint::MoveCopying);
            done += rows;
            watcher.at(done, all);
            Ok(())
        })?;
        let finished = target.in_transaction(|transaction| state::finish(transaction, table));
        finished.map_err(failed("write its rows", table))?;
    }
    Ok(())
}

fn add(target: &Connection<'_>, table: &MovedTable, mut page: Page, rule: NulRule) -> sql::Result<()> {
    // The key as it is in the source, where the next page is looked for.
    let last_key = page.last_key.unwrap_or_default();
    page.rows.iter_mut().for_each(|row| replace_nul(row, rule));
    target.in_transaction(|transaction| {
        page::insert(transaction, table, &page.rows)?;
        state::advance(transaction, table, page.rows.len(), &last_key)
    })
}

/// Reads the copied rows and compares them with those of the source.
pub(super) fn compare(
    target: End<'_>,
    tables: &[MovedTable],
    survey: &Survey,
    watcher: &dyn MoveWatcher,
) -> Result<(), MoveError> {
    watcher.step("comparing the copy");
    let connection = target.connection();
    let (mut done, all) = (0, survey.rows());
    for (table, wanted) in tables.iter().zip(&survey.digests) {
        let mut found = TableDigest::default();
        page::for_each(&connection, table, None, failed("read its copied rows", table), |page| {
            go_on(watcher)?;
            page.rows.iter().for_each(|row| found.add(row));
            done += page.rows.len() as u64;
            watcher.at(done, all);
            Ok(())
        })?;
        if found != *wanted {
            // Where it went wrong is not known, so the next attempt begins anew.
            let spoiled = connection.in_transaction(state::spoil);
            spoiled.map_err(failed("write down that the copy is wrong", table))?;
            return Err(MoveError::Differs {
                table: table.name.clone(),
                wanted: wanted.rows,
                found: found.rows,
            });
        }
    }
    Ok(())
}
