//! The turns that a schedule causes, which its budget pays.

use crate::store::sql::{self, Transaction};
use crate::store::subjects::Schedules;
use crate::store::usage::read_count;
use crate::store::{Database, StoreError, UsageAmount};

/// The turns that a schedule caused on a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScheduleTurns {
    pub(crate) turns: u64,
    pub(crate) used: UsageAmount,
    /// The calls whose cost is unknown. They are in no sum of costs.
    pub(crate) unpriced: u64,
}

/// Notes that a turn was caused by the schedules whose messages it is given, or by what their turns have posted.
pub(in crate::store) fn charge_batch(
    transaction: &Transaction<'_>,
    channel: &str,
    (after, up_to): (i64, i64),
    turn: &str,
) -> sql::Result<()> {
    let is_empty: bool = transaction
        .prepare_cached("SELECT NOT EXISTS (SELECT 1 FROM schedule)")?
        .query_row((), |row| row.get(0))?;
    if is_empty {
        return Ok(());
    }
    transaction
        .prepare_cached(
            "INSERT INTO schedule_turn (turn, schedule)
             SELECT ?4, schedule FROM schedule_slot WHERE channel = ?1 AND seq > ?2 AND seq <= ?3
             ON CONFLICT DO NOTHING",
        )?
        .execute((channel, after, up_to, turn))?;
    // With a person's message among them, the turn is the person's.
    transaction
        .prepare_cached(
            "INSERT INTO schedule_turn (turn, schedule)
             SELECT ?4, t.schedule FROM message m JOIN schedule_turn t ON t.turn = m.turn
             WHERE m.channel = ?1 AND m.seq > ?2 AND m.seq <= ?3 AND NOT EXISTS (SELECT 1 FROM message h
                WHERE h.channel = ?1 AND h.seq > ?2 AND h.seq <= ?3 AND h.author LIKE 'human:%')
             ON CONFLICT DO NOTHING",
        )?
        .execute((channel, after, up_to, turn))
        .map(drop)
}

/// Notes that a turn was caused by the schedule whose task it is given.
pub(in crate::store) fn charge_task(
    transaction: &Transaction<'_>,
    task: &str,
    turn: &str,
) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO schedule_turn (turn, schedule)
             SELECT ?2, schedule FROM schedule_slot WHERE task = ?1 ON CONFLICT DO NOTHING",
        )?
        .execute((task, turn))
        .map(drop)
}

impl<A> Schedules<&Database<A>> {
    /// Returns the use of models by the turns that a schedule caused, on a day.
    pub(crate) async fn used(self, id: i64, day: &str) -> Result<ScheduleTurns, StoreError> {
        let day = day.to_owned();
        self.read_long("look at the budget of a schedule", move |connection| {
            connection
                .prepare_cached(
                    "SELECT count(DISTINCT u.turn),
                        coalesce(CAST(sum(u.input + u.output + u.cache_read + u.cache_write) AS BIGINT), 0),
                        coalesce(CAST(sum(u.cost) AS BIGINT), 0),
                        count(*) FILTER (WHERE u.cost IS NULL)
                     FROM usage u WHERE u.day = ?2
                        AND u.turn IN (SELECT turn FROM schedule_turn WHERE schedule = ?1)",
                )?
                .query_row((id, day), |row| {
                    let used = UsageAmount { tokens: read_count(row, 1)?, cost: read_count(row, 2)? };
                    Ok(ScheduleTurns { turns: read_count(row, 0)?, used, unpriced: read_count(row, 3)? })
                })
        })
        .await
    }
}
