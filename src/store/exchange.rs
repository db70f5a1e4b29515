//! What agents sent directly to one another since a person last had a word with either, in outline: for who
//! has to look at it before the next one is sent.

use super::post::{Mentioned, Wake};
use super::recent::{OUTLINE, RecentPost};
use super::session::parsed;
use super::{Store, StoreError};
use crate::id::{AgentId, Party};

/// So many of a pair are kept; more than any limit of the brakes.
const KEPT: i64 = 2100;

/// Both, sorted: it is the same pair whoever sends.
fn pair(a: &AgentId, b: &AgentId) -> String {
    let (first, second) = if a.as_str() < b.as_str() { (a, b) } else { (b, a) };
    format!("{first} {second}")
}

impl Store {
    /// Notes that an agent sends another one a text.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn note_exchange(
        &self,
        sender: AgentId,
        receiver: AgentId,
        text: &str,
        now: i64,
    ) -> Result<(), StoreError> {
        let start: String = text.chars().take(OUTLINE).collect();
        let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
        self.write("note a direct message", move |transaction| {
            let pair = pair(&sender, &receiver);
            transaction
                .prepare_cached(
                    "INSERT INTO exchange (pair, sender, receiver, start, length, created_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute((&pair, sender.as_str(), receiver.as_str(), &start, length, now))?;
            transaction
                .prepare_cached(
                    "DELETE FROM exchange WHERE pair = ?1 AND id <=
                     (SELECT id FROM exchange WHERE pair = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
                )?
                .execute((&pair, KEPT))
                .map(drop)
        })
        .await
    }

    /// What two agents sent one another after a person's last input to either: a message in a channel of
    /// theirs, a turn of a chat, a decision about what they asked for. At most `limit`, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn exchanges(&self, a: &AgentId, b: &AgentId, limit: usize) -> Result<Vec<RecentPost>, StoreError> {
        self.read("look at direct messages", |connection| {
            let heard: Option<i64> = connection
                .prepare_cached(
                    "SELECT max(at) FROM (
                         SELECT (SELECT max(created_at) FROM message WHERE message.channel = member.channel
                                 AND author >= 'human:' AND author < 'human;') AS at
                             FROM member WHERE member IN (?1, ?2)
                         UNION ALL SELECT max(decided_at) FROM request
                             WHERE agent IN (?1, ?2) AND decided_by >= 'human:' AND decided_by < 'human;'
                         UNION ALL SELECT max(at) FROM audit WHERE subject IN (?1, ?2) AND action = 'chat.turn')",
                )?
                .query_row((a.as_str(), b.as_str()), |row| row.get(0))?;
            connection
                .prepare_cached(
                    "SELECT sender, receiver, start, length, created_at FROM exchange
                     WHERE pair = ?1 AND created_at > ?2 ORDER BY id DESC LIMIT ?3",
                )?
                .query_map((pair(a, b), heard.unwrap_or(-1), i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
                    let receiver: AgentId = parsed(row, 1)?;
                    Ok(RecentPost {
                        author: Party::Agent(parsed(row, 0)?),
                        start: row.get(2)?,
                        length: usize::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                        mentions: Mentioned { agents: vec![receiver], all: false },
                        wake: Wake::AtOnce,
                        at: row.get(4)?,
                    })
                })?
                .collect()
        })
    }
}
