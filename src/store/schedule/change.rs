//! The changes that a person or an agent makes to a schedule.

use super::amount;
use super::row::ScheduleBudget;
use crate::store::audit::{self, AuditEntry};
use crate::store::subjects::Schedules;
use crate::store::{Store, StoreError};

impl Schedules<&Store> {
    /// Pauses a schedule or lets it go on from `now`. Returns `false` if nothing changed.
    pub(crate) async fn set_paused(
        self,
        id: i64,
        why: Option<String>,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("pause a schedule", move |transaction| {
            let changed = match why {
                Some(why) => transaction.execute(
                    "UPDATE schedule SET state = 'paused', why = ?2 WHERE id = ?1 AND state = 'active'",
                    (id, why),
                )?,
                // Times that passed during a pause are no slots.
                None => transaction.execute(
                    "UPDATE schedule SET state = 'active', why = '', covered_at = max(pruned_until, ?2), event = NULL,
                        event_at = NULL WHERE id = ?1 AND state = 'paused'",
                    (id, now),
                )?,
            };
            audit::append_if_any(transaction, changed, &entry, now)
        })
        .await
    }

    /// Makes a schedule one that this party added now.
    pub(crate) async fn take_over(
        self,
        id: i64,
        party: String,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("take a schedule over", move |transaction| {
            let changed = transaction.execute(
                "UPDATE schedule SET created_by = ?2, created_at = ?3 WHERE id = ?1",
                (id, &party, now),
            )?;
            audit::append_if_any(transaction, changed, &entry, now).map(drop)
        })
        .await
    }

    /// Changes the budget of a schedule. Returns `false` if it is as it was, or the schedule is gone.
    pub(crate) async fn set_budget(
        self,
        id: i64,
        budget: ScheduleBudget,
        entry: AuditEntry,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("change the budget of a schedule", move |transaction| {
            let changed = transaction.execute(
                "UPDATE schedule SET tokens = ?2, cost = ?3
                 WHERE id = ?1 AND (tokens IS DISTINCT FROM ?2 OR cost IS DISTINCT FROM ?3)",
                (id, amount(budget.tokens), amount(budget.cost)),
            )?;
            audit::append_if_any(transaction, changed, &entry, now)
        })
        .await
    }

    /// Removes a schedule with its history. Returns `false` if there was none.
    pub(crate) async fn remove(self, id: i64, entry: AuditEntry, now: i64) -> Result<bool, StoreError> {
        self.write("remove a schedule", move |transaction| {
            let removed = transaction.execute("DELETE FROM schedule WHERE id = ?1", [id])?;
            audit::append_if_any(transaction, removed, &entry, now)
        })
        .await
    }
}
