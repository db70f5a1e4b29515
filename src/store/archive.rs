//! The steps of a channel's archive. Each holds only in the state that it begins from, and says so in the
//! channel within the same change.

use rusqlite::Transaction;

use super::audit::{self, AuditEntry};
use super::post::{self, NewPost, Posted};
use super::{Store, StoreError};
use crate::id::{AgentId, ChannelId, Party};

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveStep {
    /// Active to archiving.
    Begin {
        /// Who asked for it.
        by: Party,
        /// When it ends whoever is ready, in Unix milliseconds.
        due_at: i64,
    },
    /// An agent is ready.
    Ready(AgentId),
    /// To archived: the members' sessions of the channel are closed, its bridges told and stopped. Unless it is
    /// forced, only while the channel is archiving, and its time is over or every agent that is a member at
    /// the moment of the change is ready.
    Finish {
        /// Whether it ends whoever is ready, also where nobody was asked.
        forced: bool,
    },
    /// Archiving to active.
    Cancel,
    /// Archived to active.
    Reopen,
}

/// Whether the channel was in the state that the step begins from.
fn change(transaction: &Transaction<'_>, id: &str, step: &ArchiveStep, now: i64) -> rusqlite::Result<bool> {
    let changed = match step {
        ArchiveStep::Begin { by, due_at } => transaction.execute(
            "UPDATE channel SET state = 'archiving', archiving_at = ?2, archiving_by = ?3, archive_due_at = ?4
             WHERE id = ?1 AND state = 'active'",
            (id, now, by.to_string(), due_at),
        )?,
        ArchiveStep::Ready(agent) => transaction.execute(
            "UPDATE member SET ready_at = ?3 WHERE channel = ?1 AND member = ?2 AND ready_at IS NULL
             AND EXISTS (SELECT 1 FROM channel WHERE id = ?1 AND state = 'archiving')",
            (id, agent.as_str(), now),
        )?,
        ArchiveStep::Finish { forced } => transaction.execute(
            "UPDATE channel SET state = 'archived', archived_at = ?2, archiving_at = NULL, archiving_by = NULL,
             archive_due_at = NULL WHERE id = ?1 AND state <> 'archived' AND (?3 OR state = 'archiving' AND (
                archive_due_at <= ?2 OR NOT EXISTS (SELECT 1 FROM member
                    WHERE channel = ?1 AND member NOT LIKE 'human:%' AND ready_at IS NULL)))",
            (id, now, forced),
        )?,
        ArchiveStep::Cancel => transaction.execute(
            "UPDATE channel SET state = 'active', archiving_at = NULL, archiving_by = NULL, archive_due_at = NULL
             WHERE id = ?1 AND state = 'archiving'",
            [id],
        )?,
        ArchiveStep::Reopen => transaction.execute(
            "UPDATE channel SET state = 'active', archived_at = NULL WHERE id = ?1 AND state = 'archived'",
            [id],
        )?,
    };
    if changed == 0 {
        return Ok(false);
    }
    if matches!(step, ArchiveStep::Begin { .. } | ArchiveStep::Cancel | ArchiveStep::Reopen) {
        transaction.execute("UPDATE member SET ready_at = NULL WHERE channel = ?1", [id])?;
    }
    Ok(true)
}

/// Closes or opens the sessions that agents have in a channel.
fn sessions(transaction: &Transaction<'_>, id: &str, state: &str) -> rusqlite::Result<()> {
    // A key's last part is the id, and agents' ids hold no colon.
    transaction
        .execute(
            "UPDATE session SET state = ?2 WHERE kind = 'channel'
             AND key = 'agent:' || agent || ':flock:channel:' || ?1 COLLATE NOCASE",
            (id, state),
        )
        .map(drop)
}

/// Tells the bridges' other sides, and stops them or lets them go on. Those that a person paused are left
/// as they are.
fn bridges(transaction: &Transaction<'_>, id: &str, is_end: bool, now: i64) -> rusqlite::Result<()> {
    let (notice, from, to) =
        if is_end { ("archived", "active", "archived") } else { ("reopened", "archived", "active") };
    transaction.execute(
        "INSERT INTO outbox (bridge, channel, notice, created_at)
         SELECT id, channel, ?2, ?3 FROM bridge WHERE channel = ?1 AND state = ?4",
        (id, notice, now, from),
    )?;
    transaction
        .execute("UPDATE bridge SET state = ?3 WHERE channel = ?1 AND state = ?2", (id, from, to))
        .map(drop)
}

impl Store {
    /// Does a step and says so; `None` where the channel was not in the state it begins from.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn archive_step(
        &self,
        id: ChannelId,
        step: ArchiveStep,
        notice: NewPost,
        entry: AuditEntry,
    ) -> Result<Option<Posted>, StoreError> {
        self.write("archive a channel", move |transaction| {
            let id = id.as_str();
            if !change(transaction, id, &step, notice.now)? {
                return Ok(None);
            }
            audit::append(transaction, &entry, notice.now)?;
            // The last word is given to the bridges before they are stopped.
            let posted = post::post(transaction, &notice)?.posted();
            match step {
                ArchiveStep::Finish { .. } => {
                    sessions(transaction, id, "closed")?;
                    bridges(transaction, id, true, notice.now)?;
                }
                ArchiveStep::Reopen => {
                    sessions(transaction, id, "open")?;
                    bridges(transaction, id, false, notice.now)?;
                }
                ArchiveStep::Begin { .. } | ArchiveStep::Ready(_) | ArchiveStep::Cancel => {}
            }
            Ok(posted)
        })
        .await
    }
}
