//! The steps of archiving a channel.
//!
//! Each step applies only in the state that it starts from. The state change, its audit row and its notice in the
//! channel are one transaction.

use super::audit::{self, AuditEntry};
use super::link;
use super::post::{self, CommittedPost, NewPost};
use super::sql::{self, Transaction};
use super::subjects::Channels;
use super::{Store, StoreError};
use crate::id::{AgentId, ChannelId, Party};

/// A step of archiving a channel, or of undoing it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArchiveStep {
    /// Moves the channel from active to archiving.
    Begin {
        by: Party,
        /// Unix milliseconds at which the archive ends even if some agents are not ready.
        due_at: i64,
    },
    /// Records that an agent is ready for the end.
    Ready(AgentId),
    /// Moves the channel to archived, closes the members' sessions of the channel, and notifies and stops its bridges.
    ///
    /// Unless forced, this needs a channel that is archiving and either past its due time, or with every agent ready
    /// that is a member at the moment of the change.
    Finish {
        /// Archives without waiting for agents, even if the archive was never begun.
        forced: bool,
    },
    /// Moves the channel from archiving back to active.
    Cancel,
    /// Moves the channel from archived back to active.
    Reopen,
}

/// Changes the channel's state. Returns `false` if the channel was not in the state that the step starts from.
fn apply_step(transaction: &Transaction<'_>, id: &str, step: &ArchiveStep, now: i64) -> sql::Result<bool> {
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
        // Readiness is checked in the same statement as the change, because an agent may have joined since the caller
        // read the channel. People are not asked, so they never delay the end.
        ArchiveStep::Finish { forced } => transaction.execute(
            "UPDATE channel SET state = 'archived', archived_at = ?2, archiving_at = NULL, archiving_by = NULL,
             archive_due_at = NULL WHERE id = ?1 AND state <> 'archived'
             AND (CAST(?3 AS BIGINT) <> 0 OR state = 'archiving' AND (
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
    // Answers from an earlier attempt must not count for the next one.
    if matches!(step, ArchiveStep::Begin { .. } | ArchiveStep::Cancel | ArchiveStep::Reopen) {
        transaction.execute("UPDATE member SET ready_at = NULL WHERE channel = ?1", [id])?;
    }
    Ok(true)
}

/// Sets the state of the sessions that agents have in a channel.
fn set_session_states(transaction: &Transaction<'_>, id: &str, state: &str) -> sql::Result<()> {
    // The channel id is the last part of a session key, and agent ids contain no colon, so the key is unambiguous.
    transaction
        .execute(
            "UPDATE session SET state = ?2 WHERE kind = 'channel'
             AND key = 'agent:' || agent || ':flock:channel:' || ?1 COLLATE NOCASE",
            (id, state),
        )
        .map(drop)
}

impl Channels<&Store> {
    /// Applies a step, with its notice and its audit row. Returns `None` if the channel was not in the state that the
    /// step starts from.
    pub(crate) async fn archive_step(
        self,
        id: ChannelId,
        step: ArchiveStep,
        notice: NewPost,
        entry: AuditEntry,
    ) -> Result<Option<CommittedPost>, StoreError> {
        self.write("archive a channel", move |transaction| {
            let id = id.as_str();
            if !apply_step(transaction, id, &step, notice.now)? {
                return Ok(None);
            }
            audit::append(transaction, &entry, notice.now)?;
            // Post first: stopped links would not receive the notice.
            let posted = post::post(transaction, &notice)?.posted();
            match step {
                ArchiveStep::Finish { .. } => {
                    set_session_states(transaction, id, "closed")?;
                    link::follow_archive(transaction, id, true, notice.now)?;
                }
                ArchiveStep::Reopen => {
                    set_session_states(transaction, id, "open")?;
                    link::follow_archive(transaction, id, false, notice.now)?;
                }
                ArchiveStep::Begin { .. } | ArchiveStep::Ready(_) | ArchiveStep::Cancel => {}
            }
            Ok(posted)
        })
        .await
    }
}
