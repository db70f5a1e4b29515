//! An outline of what agents sent each other directly since a person last gave input to one of them.
//!
//! The brakes on agents that talk only among themselves read it before the next message is sent.

use super::post::{PostMentions, WakeUrgency};
use super::post_outline::{OUTLINE_CHARS, PostOutline};
use super::session::parsed;
use super::sql::{self, Transaction};
use super::subjects::Exchanges;
use super::{Database, StoreError};
use crate::id::{AgentId, Party};

/// The number of rows kept for a pair, more than any limit of the brakes.
const MAX_PER_PAIR: i64 = 2100;

/// Returns the key of a pair. The ids are sorted, so the direction does not matter.
fn pair(a: &AgentId, b: &AgentId) -> String {
    let (first, second) = if a.as_str() < b.as_str() { (a, b) } else { (b, a) };
    format!("{first} {second}")
}

/// A direct message from one agent to another, to be counted.
///
/// It is stored in the transaction of the message itself, so that both exist or neither does.
#[derive(Clone, Debug)]
pub struct NewExchange {
    sender: AgentId,
    receiver: AgentId,
    start: String,
    length: i64,
    now: i64,
}

impl NewExchange {
    /// Records the start of `text`, sent at `now` in Unix milliseconds.
    #[must_use]
    pub fn new(sender: AgentId, receiver: AgentId, text: &str, now: i64) -> Self {
        let start = text.chars().take(OUTLINE_CHARS).collect();
        Self { sender, receiver, start, length: i64::try_from(text.len()).unwrap_or(i64::MAX), now }
    }
}

/// Stores an exchange and deletes the oldest of the pair beyond [`MAX_PER_PAIR`].
pub(super) fn add(transaction: &Transaction<'_>, new: &NewExchange) -> sql::Result<()> {
    let pair = pair(&new.sender, &new.receiver);
    transaction
        .prepare_cached(
            "INSERT INTO exchange (pair, sender, receiver, start, length, created_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((&pair, new.sender.as_str(), new.receiver.as_str(), &new.start, new.length, new.now))?;
    transaction
        .prepare_cached(
            "DELETE FROM exchange WHERE pair = ?1 AND id <=
             (SELECT id FROM exchange WHERE pair = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
        )?
        .execute((&pair, MAX_PER_PAIR))
        .map(drop)
}

impl<A> Exchanges<&Database<A>> {
    /// Returns what two agents sent each other after a person's last input to either of them, newest first, at most
    /// `limit`.
    ///
    /// A person's input is a message in a channel of theirs, a turn of a chat, a decision about a request of theirs, or a run
    /// of a schedule that a person made.
    pub(crate) async fn since_human(
        self,
        a: &AgentId,
        b: &AgentId,
        limit: usize,
    ) -> Result<Vec<PostOutline>, StoreError> {
        self.read("look at direct messages", |connection| {
            // All people are between `human:` and `human;`. The condition has to be that of the partial index on
            // messages, or SQLite would not use the index.
            let heard: Option<i64> = connection
                .prepare_cached(
                    "SELECT max(at) FROM (
                         SELECT (SELECT max(created_at) FROM message WHERE message.channel = member.channel
                                 AND author >= 'human:' AND author < 'human;') AS at
                             FROM member WHERE member IN (?1, ?2)
                         UNION ALL SELECT max(s.handled_at) FROM schedule JOIN schedule_slot s ON s.schedule = schedule.id
                             WHERE s.outcome = 'ran' AND schedule.created_by LIKE 'human:%' AND (schedule.agent IN (?1, ?2)
                                 OR schedule.channel IN (SELECT channel FROM member WHERE member IN (?1, ?2)))
                         UNION ALL SELECT max(decided_at) FROM request
                             WHERE agent IN (?1, ?2) AND decided_by >= 'human:' AND decided_by < 'human;'
                         UNION ALL SELECT max(at) FROM audit
                             WHERE subject IN (?1, ?2) AND action = 'chat.turn') AS heard",
                )?
                .query_row((a.as_str(), b.as_str()), |row| row.get(0))?;
            // If no person has given any input yet, all exchanges count.
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            connection
                .prepare_cached(
                    "SELECT sender, receiver, start, length, created_at FROM exchange
                     WHERE pair = ?1 AND created_at > ?2 ORDER BY id DESC LIMIT ?3",
                )?
                .query_map((pair(a, b), heard.unwrap_or(-1), limit), |row| {
                    let receiver: AgentId = parsed(row, 1)?;
                    Ok(PostOutline {
                        author: Party::Agent(parsed(row, 0)?),
                        start: row.get(2)?,
                        length: usize::try_from(row.get::<i64>(3)?).unwrap_or(0),
                        mentions: PostMentions { agents: vec![receiver], all: false },
                        wake: WakeUrgency::AtOnce,
                        at: row.get(4)?,
                    })
                })?
                .collect()
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::channel_tests::{agent, entry, open};
    use crate::store::{InboxItemKind, NewInboxItem, NewTask, Task, TaskChange, TaskKind, TaskState};

    fn exchange(text: &str) -> Option<NewExchange> {
        Some(NewExchange::new(agent("a"), agent("b"), text, 7))
    }

    #[tokio::test]
    async fn only_messages_that_were_sent_are_counted() {
        let (_folder, store) = open();
        let texts = async || -> Vec<String> {
            let sent = store.exchanges().since_human(&agent("b"), &agent("a"), 10).await.unwrap();
            sent.into_iter().map(|post| post.start).collect()
        };
        let session: crate::id::SessionKey = "agent:b:flock:dm:a".parse().unwrap();
        let new = NewTask {
            context: "c".into(),
            kind: TaskKind::Message,
            requester: "a".into(),
            charged: None,
            person: None,
            origin: None,
            session: session.clone(),
            summary: "s".into(),
            request: "r".into(),
            project: None,
            exchange: exchange("sent"),
            key: None,
            now: 7,
        };
        let item = NewInboxItem {
            session,
            kind: InboxItemKind::Dm,
            sender: "a".into(),
            text: "r".into(),
            task: None,
            now: 7,
        };
        let added = store.tasks().add(new, item, entry("task.send")).await.unwrap();
        let crate::store::TaskAdded::New(task) = added else { panic!("{added:?}") };
        assert_eq!(texts().await, ["sent"]);
        let change = |state, text: &str| {
            let exchange = exchange(text);
            move |task: &Task| {
                let task = Task { state, ..task.clone() };
                Some(TaskChange { task, item: None, recall: false, entry: None, exchange, key: None })
            }
        };
        let back =
            store.tasks().change(task.id.clone(), change(TaskState::Submitted, "refused")).await.unwrap();
        assert!(back.unwrap().after.is_none(), "no such step");
        assert_eq!(texts().await, ["sent"]);
        store.tasks().change(task.id, change(TaskState::InputRequired, "asked")).await.unwrap();
        assert_eq!(texts().await, ["asked", "sent"]);
    }
}
