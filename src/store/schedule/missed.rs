//! The slots that pass without a run, and a clock that was set back.

use super::row::{ScheduleState, Timing, by_id, finish};
use super::slot::{SlotOutcome, cover};
use crate::store::sql::{self, Transaction, params};
use crate::store::subjects::Schedules;
use crate::store::{Store, StoreError};

/// Slots that pass without a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissedSlots {
    pub first: i64,
    pub last: i64,
    pub count: u64,
    pub outcome: SlotOutcome,
    pub why: String,
}

/// The extent of a row of missed slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissedRange {
    pub first: i64,
    pub last: i64,
    pub count: u64,
}

/// Records slots that pass without a run.
fn record_missed(
    transaction: &Transaction<'_>,
    id: i64,
    missed: &[MissedSlots],
    now: i64,
) -> sql::Result<bool> {
    let found = by_id(transaction, id)?.filter(|found| found.state == ScheduleState::Active);
    let Some(found) = found else { return Ok(false) };
    for slots in missed {
        let count = i64::try_from(slots.count).unwrap_or(i64::MAX);
        // A slot that ran stays what it is.
        transaction
            .prepare_cached(
                "INSERT INTO schedule_slot (schedule, cause, slot, last, count, outcome, why, handled_at)
                 VALUES (?1, 'time', ?2, ?3, ?4, ?5, ?6, ?7)
                 ON CONFLICT (schedule, slot) WHERE cause = 'time' DO NOTHING",
            )?
            .execute(params![id, slots.first, slots.last, count, slots.outcome, slots.why, now])?;
        cover(transaction, id, slots.last)?;
    }
    if matches!(found.timing, Timing::At(_)) && !missed.is_empty() {
        finish(transaction, id)?;
    }
    Ok(true)
}

/// Lets a schedule go on from `now` after the clock was set back. Slots after `now` count as not yet passed, except those
/// that ran. `cut` has the rows of missed slots on both sides of `now`, as they are without the later ones.
fn set_back(transaction: &Transaction<'_>, id: i64, cut: &[MissedRange], now: i64) -> sql::Result<()> {
    transaction.execute(
        "DELETE FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome <> 'ran' AND slot > ?2",
        (id, now),
    )?;
    for range in cut {
        transaction.execute(
            "UPDATE schedule_slot SET last = ?3, count = ?4, why = why || '; the clock was set back since'
             WHERE schedule = ?1 AND slot = ?2 AND cause = 'time' AND outcome <> 'ran'",
            params![id, range.first, range.last, i64::try_from(range.count).unwrap_or(i64::MAX)],
        )?;
    }
    transaction
        .execute("UPDATE schedule SET covered_at = max(pruned_until, ?2) WHERE id = ?1", (id, now))
        .map(drop)
}

/// Lets a schedule with a single time wait for it again, unless it ran. Returns `false` if it ran.
fn reopen(transaction: &Transaction<'_>, id: i64, now: i64) -> sql::Result<bool> {
    let changed = transaction.execute(
        "UPDATE schedule SET state = 'active' WHERE id = ?1 AND state = 'done' AND NOT EXISTS
         (SELECT 1 FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome = 'ran')",
        [id],
    )?;
    if changed > 0 {
        set_back(transaction, id, &[], now)?;
    }
    Ok(changed > 0)
}

impl Schedules<&Store> {
    /// Records slots that pass without a run. Returns `false` if the schedule is no longer active.
    pub(crate) async fn record_missed(
        self,
        id: i64,
        missed: Vec<MissedSlots>,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("record missed times", move |transaction| record_missed(transaction, id, &missed, now))
            .await
    }

    /// Returns the first slots of the rows of missed slots that lie on both sides of a time.
    pub(crate) async fn missed_across(self, id: i64, at: i64) -> Result<Vec<i64>, StoreError> {
        self.read("look at the missed times of a schedule", |connection| {
            connection
                .prepare_cached(
                    "SELECT slot FROM schedule_slot WHERE schedule = ?1 AND cause = 'time' AND outcome <> 'ran'
                     AND slot <= ?2 AND last > ?2",
                )?
                .query_map((id, at), |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Lets a schedule go on from `now` after the clock was set back. `cut` has the rows of
    /// [`Self::missed_across`], as they are without the slots after `now`.
    pub(crate) async fn set_back(self, id: i64, cut: Vec<MissedRange>, now: i64) -> Result<(), StoreError> {
        self.write("follow the clock", move |transaction| set_back(transaction, id, &cut, now)).await
    }

    /// Lets a schedule wait again for its single time, which is ahead because the clock was set back. Returns `false` if
    /// it ran at that time.
    pub(crate) async fn reopen(self, id: i64, now: i64) -> Result<bool, StoreError> {
        self.write("follow the clock", move |transaction| reopen(transaction, id, now)).await
    }
}
