//! Another id for an agent, everywhere in the database but in the audit, in one change.

use rusqlite::Transaction;

use super::audit::{self, AuditEntry};
use super::{Store, StoreError};
use crate::id::AgentId;

/// Columns that hold an agent's id, or a party, which an agent's id is as well.
const IDS: [(&str, &str); 17] = [
    ("session", "agent"),
    ("member", "member"),
    ("channel", "created_by"),
    ("channel", "archiving_by"),
    ("message", "author"),
    ("delivery", "agent"),
    ("agent_state", "agent"),
    ("card", "agent"),
    ("inbox", "sender"),
    ("task", "requester"),
    ("task", "assignee"),
    ("exchange", "sender"),
    ("exchange", "receiver"),
    ("request", "agent"),
    ("request", "decided_by"),
    ("usage", "agent"),
    ("bridge", "created_by"),
];

/// Columns that hold the key of a session: of the agent's own, or another agent's with it.
const KEYS: [(&str, &str); 9] = [
    ("session", "key"),
    ("turn", "session"),
    ("inbox", "session"),
    ("inbox", "sender"),
    ("task", "origin"),
    ("task", "session"),
    ("request", "session"),
    ("usage", "session"),
    ("charge", "id"),
];

/// What is neither; `?1` is the old id and `?2` the new one.
const OTHERS: [&str; 5] = [
    "UPDATE exchange SET pair = min(sender, receiver) || ' ' || max(sender, receiver)
     WHERE ?2 IN (sender, receiver) AND ?1 <> ?2",
    "UPDATE client_token SET agents = trim(replace(',' || agents || ',', ',' || ?1 || ',', ',' || ?2 || ','), ',')
     WHERE instr(',' || agents || ',', ',' || ?1 || ',') > 0 AND ?1 <> ?2",
    "UPDATE message SET mentions = replace(mentions, ' ' || ?1 || ' ', ' ' || ?2 || ' ')
     WHERE instr(mentions, ' ' || ?1 || ' ') > 0",
    // An agent that had the new id before may have used something on the same day.
    "INSERT INTO usage_sum (day, agent, channel, model, calls, unpriced, input, output, cache_read, cache_write, cost)
     SELECT day, ?2, channel, model, calls, unpriced, input, output, cache_read, cache_write, cost
     FROM usage_sum WHERE agent = ?1
     ON CONFLICT DO UPDATE SET calls = calls + excluded.calls, unpriced = unpriced + excluded.unpriced,
        input = input + excluded.input, output = output + excluded.output,
        cache_read = cache_read + excluded.cache_read, cache_write = cache_write + excluded.cache_write,
        cost = cost + excluded.cost",
    "DELETE FROM usage_sum WHERE agent = ?1 AND ?2 <> ''",
];

fn rename(transaction: &Transaction<'_>, old: &AgentId, new: &AgentId) -> rusqlite::Result<()> {
    let ids = (old.as_str(), new.as_str());
    // A turn is of its session all the time: both get the new key before the change is over.
    transaction.execute_batch("PRAGMA defer_foreign_keys = ON")?;
    // A program's conversation was begun in the old one's place, and by its name. It is begun anew, and told what was
    // said last.
    transaction.execute(
        "DELETE FROM program_conversation WHERE session GLOB 'agent:' || ?1 || ':*'
         OR session GLOB 'agent:*:flock:dm:' || ?1",
        [old.as_str()],
    )?;
    for (table, column) in KEYS {
        transaction.execute(
            &format!(
                "UPDATE {table} SET {column} = 'agent:' || ?2 || substr({column}, length('agent:' || ?1) + 1)
                 WHERE {column} GLOB 'agent:' || ?1 || ':*'"
            ),
            ids,
        )?;
        transaction.execute(
            &format!(
                "UPDATE {table} SET {column} = substr({column}, 1, length({column}) - length(?1)) || ?2
                 WHERE {column} GLOB 'agent:*:flock:dm:' || ?1"
            ),
            ids,
        )?;
    }
    for (table, column) in IDS {
        transaction.execute(&format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1"), ids)?;
    }
    for statement in OTHERS {
        transaction.execute(statement, ids)?;
    }
    Ok(())
}

impl Store {
    /// Gives an agent another id in everything but the audit, which gets a row of it. To do it again changes nothing.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says; also where there is something of the new id already.
    pub async fn rename_agent(
        &self,
        old: AgentId,
        new: AgentId,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("give an agent another id", move |transaction| {
            let is_there: bool = transaction.query_row(
                "SELECT EXISTS (SELECT 1 FROM audit WHERE action = ?1 AND subject = ?2 AND detail = ?3)",
                (entry.action, &entry.subject, &entry.detail),
                |row| row.get(0),
            )?;
            rename(transaction, &old, &new)?;
            if is_there { Ok(()) } else { audit::append(transaction, &entry, now) }
        })
        .await
    }

    /// Whether the database holds anything of an agent that another one of its id would have: sessions, memberships,
    /// grants, or something that waits for it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn knows_agent(&self, agent: &AgentId) -> Result<bool, StoreError> {
        self.read("look for an agent", |connection| {
            connection.query_row(
                "SELECT EXISTS (SELECT 1 FROM session WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM member WHERE member = ?1)
                 OR EXISTS (SELECT 1 FROM delivery WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM agent_state WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM card WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM session WHERE key GLOB 'agent:*:flock:dm:' || ?1)
                 OR EXISTS (SELECT 1 FROM request WHERE agent = ?1 AND revoked_at IS NULL
                     AND (state IN ('triage', 'waiting', 'approved', 'running')
                         OR (state = 'done' AND scope = 'agent')))",
                [agent.as_str()],
                |row| row.get(0),
            )
        })
    }

    /// The length of the longest key of an agent's sessions, in bytes; 0 without any.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn longest_key(&self, agent: &AgentId) -> Result<usize, StoreError> {
        self.read("look for an agent's sessions", |connection| {
            let longest: i64 = connection.query_row(
                "SELECT coalesce(max(length(key)), 0) FROM session
                 WHERE agent = ?1 OR key GLOB 'agent:*:flock:dm:' || ?1",
                [agent.as_str()],
                |row| row.get(0),
            )?;
            Ok(usize::try_from(longest).unwrap_or(0))
        })
    }
}
