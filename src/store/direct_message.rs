//! Tasks that people gave by a direct message on another platform, until their answers are sent back there.

use super::bridge_traffic::{self, Direction};
use super::sql::{self, OptionalExtension as _, Row};
use super::subjects::DirectMessages;
use super::task::TaskState;
use super::{Database, Store, StoreError};

/// A direct message that became a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectMessage {
    /// The id of the task.
    pub(crate) task: String,
    /// The name of the bridge.
    pub(crate) bridge: String,
    /// The platform's id of the conversation.
    pub(crate) external: String,
    /// The platform's id of the message.
    pub(crate) message: String,
}

/// An answer, or a question of the agent, that is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectAnswer {
    pub(crate) direct: DirectMessage,
    /// The agent that answers.
    pub(crate) agent: String,
    pub(crate) text: String,
    /// Set for an answer; unset for a question, after which the task goes on.
    pub(crate) is_final: bool,
    /// Unix milliseconds of the task's last change.
    pub(crate) updated_at: i64,
    /// The number of its parts that were sent.
    pub(crate) sent: usize,
    /// Set if an attempt at the next part began whose result is not known.
    pub(crate) is_begun: bool,
    /// The number of attempts that failed.
    pub(crate) attempts: u32,
    /// Unix milliseconds before which it is not tried again.
    pub(crate) next_at: i64,
}

fn answer(row: &Row<'_>) -> sql::Result<DirectAnswer> {
    let state: TaskState = row.get(4)?;
    let is_final = state.is_final();
    let (response, question): (Option<String>, Option<String>) = (row.get(5)?, row.get(6)?);
    let text = if is_final { response } else { question }.unwrap_or_default();
    Ok(DirectAnswer {
        direct: DirectMessage {
            task: row.get(0)?,
            bridge: row.get(1)?,
            external: row.get(2)?,
            message: row.get(3)?,
        },
        agent: super::session::parsed::<crate::id::SessionKey>(row, 7)?.agent().to_string(),
        text,
        is_final,
        updated_at: row.get(8)?,
        sent: usize::try_from(row.get::<i64>(9)?).unwrap_or_default(),
        is_begun: row.get(10)?,
        attempts: row.get(11)?,
        next_at: row.get(12)?,
    })
}

impl DirectMessages<&Store> {
    /// Records the place to which the answer of a task goes.
    pub(crate) async fn add(self, new: DirectMessage, now: i64) -> Result<(), StoreError> {
        self.write("record a direct message", move |transaction| {
            let added = transaction
                .prepare_cached(
                    "INSERT INTO direct_message (task, bridge, external, message)
                     VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
                )?
                .execute((&new.task, &new.bridge, &new.external, &new.message))?;
            if added == 0 {
                return Ok(());
            }
            bridge_traffic::count(transaction, &new.bridge, Direction::Received, now)
        })
        .await
    }

    /// Records that an attempt at the next part of an answer begins.
    pub(crate) async fn begin(self, task: String) -> Result<(), StoreError> {
        self.write("record what is being sent", move |transaction| {
            transaction
                .prepare_cached("UPDATE direct_message SET begun = 1 WHERE task = ?1")?
                .execute([task])
                .map(drop)
        })
        .await
    }

    /// Records that the next part of an answer was sent.
    pub(crate) async fn part_sent(self, task: String, now: i64) -> Result<(), StoreError> {
        self.write("record what was sent", move |transaction| {
            let sent: Option<(i64, String)> = transaction
                .prepare_cached(
                    "UPDATE direct_message SET sent = sent + 1, begun = 0, attempts = 0, next_at = 0 WHERE task = ?1
                     RETURNING sent, bridge",
                )?
                .query_row([task], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            match sent {
                // An answer of several parts is one message.
                Some((1, bridge)) => bridge_traffic::count(transaction, &bridge, Direction::Sent, now),
                _ => Ok(()),
            }
        })
        .await
    }

    /// Records that all of an answer was sent, or can't be. After a question the task waits for the next answer.
    pub(crate) async fn finish(self, answer: DirectAnswer) -> Result<(), StoreError> {
        self.write("record what was sent", move |transaction| {
            let task = &answer.direct.task;
            if answer.is_final {
                return transaction
                    .prepare_cached("DELETE FROM direct_message WHERE task = ?1")?
                    .execute([task])
                    .map(drop);
            }
            transaction
                .prepare_cached(
                    "UPDATE direct_message SET asked_at = ?2, sent = 0, begun = 0, attempts = 0, next_at = 0
                     WHERE task = ?1",
                )?
                .execute((task, answer.updated_at))
                .map(drop)
        })
        .await
    }

    /// Postpones an answer after a failed attempt. With `is_known`, the platform answered that nothing was sent.
    pub(crate) async fn postpone(self, task: String, until: i64, is_known: bool) -> Result<(), StoreError> {
        self.write("postpone what is to be sent", move |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE direct_message SET attempts = attempts + 1, next_at = ?2,
                        begun = CASE WHEN CAST(?3 AS BIGINT) <> 0 THEN 0 ELSE begun END
                     WHERE task = ?1",
                )?
                .execute((task, until, is_known))
                .map(drop)
        })
        .await
    }
}

impl<A> DirectMessages<&Database<A>> {
    /// Returns the answers and questions of a bridge that are to be sent, oldest first.
    pub(crate) async fn answers(self, bridge: &str) -> Result<Vec<DirectAnswer>, StoreError> {
        self.read("look what is to be answered", |connection| {
            connection
                .prepare_cached(
                    "SELECT d.task, d.bridge, d.external, d.message, t.state, t.response, t.question, t.session,
                        t.updated_at, d.sent, d.begun, d.attempts, d.next_at
                     FROM direct_message d JOIN task t ON t.id = d.task
                     WHERE d.bridge = ?1 AND (t.completed_at IS NOT NULL
                        OR (t.state = 'input-required' AND t.updated_at <> d.asked_at))
                     ORDER BY t.updated_at",
                )?
                .query_map([bridge], answer)?
                .collect()
        })
        .await
    }

    /// Returns the task of a conversation that waits for a reply of the person.
    pub(crate) async fn asked(self, bridge: &str, external: &str) -> Result<Option<String>, StoreError> {
        self.read("look what was asked", |connection| {
            connection
                .prepare_cached(
                    "SELECT d.task FROM direct_message d JOIN task t ON t.id = d.task
                     WHERE d.bridge = ?1 AND d.external = ?2 AND t.state = 'input-required'
                     ORDER BY t.updated_at DESC LIMIT 1",
                )?
                .query_row((bridge, external), |row| row.get(0))
                .optional()
        })
        .await
    }
}
