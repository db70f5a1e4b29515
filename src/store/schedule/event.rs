//! The event that a schedule has to run after.

use super::slot::cover;
use crate::store::subjects::Schedules;
use crate::store::{Store, StoreError};

impl Schedules<&Store> {
    /// Notes that a schedule has to run after an event. An event that it ran after, or that waits already, changes nothing.
    pub(crate) async fn note_event(self, id: i64, event: String, now: i64) -> Result<bool, StoreError> {
        self.write("note an event", move |transaction| {
            let changed = transaction.execute(
                "UPDATE schedule SET event = ?2, event_at = ?3 WHERE id = ?1 AND state = 'active' AND event IS NULL
                 AND NOT EXISTS (SELECT 1 FROM schedule_slot WHERE schedule = ?1 AND schedule_slot.event = ?2)",
                (id, event, now),
            )?;
            Ok(changed > 0)
        })
        .await
    }

    /// Records that a schedule does not run after the event that it waits with.
    pub(crate) async fn skip_event(
        self,
        id: i64,
        event: String,
        why: String,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("leave an event out", move |transaction| {
            transaction.execute(
                "INSERT INTO schedule_slot (schedule, cause, slot, last, outcome, why, event, handled_at)
                 VALUES (?1, 'event', ?2, ?2, 'skipped', ?3, ?4, ?2) ON CONFLICT DO NOTHING",
                (id, now, why, event),
            )?;
            transaction.execute("UPDATE schedule SET event = NULL, event_at = NULL WHERE id = ?1", [id])?;
            cover(transaction, id, now)
        })
        .await
    }
}
