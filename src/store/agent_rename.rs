//! Renaming of an agent: replaces its id everywhere in the database in one transaction. The audit keeps the old id.

use super::audit::{self, AuditEntry};
use super::sql::{self, Transaction};
use super::subjects::Agents;
use super::{Database, Store, StoreError, lease, person};
use crate::id::{AgentId, Party};

/// Columns that contain an agent id, or a party, which can be an agent id.
const ID_COLUMNS: [(&str, &str); 30] = [
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
    ("link", "created_by"),
    ("submission", "agent"),
    ("submission", "reviewer"),
    ("finding", "reviewer"),
    ("claim", "agent"),
    ("receipt", "author"),
    ("race", "created_by"),
    ("race_agent", "agent"),
    ("race_agent", "original"),
    ("mcp_grant", "agent"),
    ("mcp_capability", "agent"),
    ("schedule", "agent"),
    ("schedule", "created_by"),
    ("placement", "agent"),
];

/// Columns that contain a session key: of the agent itself, or of another agent's direct messages with it.
const KEY_COLUMNS: [(&str, &str); 13] = [
    ("session", "key"),
    ("turn", "session"),
    ("inbox", "session"),
    ("inbox", "sender"),
    ("task", "origin"),
    ("task", "session"),
    ("request", "session"),
    ("usage", "session"),
    ("charge", "id"),
    ("person_charge", "id"),
    ("idempotency_key", "session"),
    ("submission", "session"),
    ("response", "session"),
];

/// Statements for everything else; `?1` is the old id and `?2` the new one.
const OTHER_STATEMENTS: [&str; 8] = [
    "UPDATE exchange
     SET pair = CASE WHEN sender < receiver THEN sender || ' ' || receiver ELSE receiver || ' ' || sender END
     WHERE ?2 IN (sender, receiver) AND ?1 <> ?2",
    "UPDATE client_token SET agents = trim(replace(',' || agents || ',', ',' || ?1 || ',', ',' || ?2 || ','), ',')
     WHERE instr(',' || agents || ',', ',' || ?1 || ',') > 0 AND ?1 <> ?2",
    "UPDATE person SET agents = trim(replace(',' || agents || ',', ',' || ?1 || ',', ',' || ?2 || ','), ',')
     WHERE instr(',' || agents || ',', ',' || ?1 || ',') > 0 AND ?1 <> ?2",
    "UPDATE message SET mentions = replace(mentions, ' ' || ?1 || ' ', ' ' || ?2 || ' ')
     WHERE instr(mentions, ' ' || ?1 || ' ') > 0",
    "UPDATE submission SET branch = 'flock/' || ?2 || substr(branch, length('flock/' || ?1) + 1)
     WHERE branch >= 'flock/' || ?1 || '/' AND branch < 'flock/' || ?1 || '0'",
    // An earlier agent may have used the new id on the same day, so the sums of both are added up.
    "INSERT INTO usage_sum (day, agent, channel, model, calls, unpriced, input, output, cache_read, cache_write, cost)
     SELECT day, ?2, channel, model, calls, unpriced, input, output, cache_read, cache_write, cost
     FROM usage_sum WHERE agent = ?1
     ON CONFLICT (day, agent, channel, model) DO UPDATE SET calls = usage_sum.calls + excluded.calls,
        unpriced = usage_sum.unpriced + excluded.unpriced, input = usage_sum.input + excluded.input,
        output = usage_sum.output + excluded.output, cache_read = usage_sum.cache_read + excluded.cache_read,
        cache_write = usage_sum.cache_write + excluded.cache_write, cost = usage_sum.cost + excluded.cost",
    "DELETE FROM usage_sum WHERE agent = ?1 AND ?2 <> ''",
    // The row of an earlier agent with the new id stays, so that its token never repeats. That of the old id is given up by
    // its owner then.
    "UPDATE lease SET subject = ?2 WHERE kind = 'agent' AND subject = ?1
     AND NOT EXISTS (SELECT 1 FROM lease other WHERE other.kind = 'agent' AND other.subject = ?2)",
];

fn rename(transaction: &Transaction<'_>, old: &AgentId, new: &AgentId) -> sql::Result<()> {
    let ids = (old.as_str(), new.as_str());
    // A turn refers to its session by key. Both get the new key, one after the other, so the check has to wait until
    // the end of the transaction.
    transaction.defer_references()?;
    // A program began its conversation in the old agent's place and under its name. The program has to begin a new one,
    // and is then told what was said last.
    transaction.execute(
        "DELETE FROM program_conversation WHERE session >= 'agent:' || ?1 || ':' AND session < 'agent:' || ?1 || ';'
         OR session LIKE 'agent:%' AND substr(session, length(session) - length(?1) - 9) = ':flock:dm:' || ?1",
        [old.as_str()],
    )?;
    // First the agent's own keys, then those of other agents' direct messages with it, which end with its id.
    for (table, column) in KEY_COLUMNS {
        transaction.execute(
            &format!(
                "UPDATE {table} SET {column} = 'agent:' || ?2 || substr({column}, length('agent:' || ?1) + 1)
                 WHERE {column} >= 'agent:' || ?1 || ':' AND {column} < 'agent:' || ?1 || ';'"
            ),
            ids,
        )?;
        transaction.execute(
            &format!(
                "UPDATE {table} SET {column} = substr({column}, 1, length({column}) - length(?1)) || ?2
                 WHERE {column} LIKE 'agent:%'
                    AND substr({column}, length({column}) - length(?1) - 9) = ':flock:dm:' || ?1"
            ),
            ids,
        )?;
    }
    for (table, column) in ID_COLUMNS {
        transaction.execute(&format!("UPDATE {table} SET {column} = ?2 WHERE {column} = ?1"), ids)?;
    }
    for statement in OTHER_STATEMENTS {
        transaction.execute(statement, ids)?;
    }
    lease::note_change(transaction)
}

impl<A> Agents<&Database<A>> {
    /// Returns `true` if the database contains something that a new agent with this id would inherit: sessions,
    /// memberships, grants, or something that waits for it. The name of a person of the home counts too.
    pub(crate) async fn has_data(self, agent: &AgentId) -> Result<bool, StoreError> {
        self.read("look for an agent", |connection| {
            if person::has_like(connection, &Party::human(agent.as_str()))? {
                return Ok(true);
            }
            connection.query_row(
                "SELECT EXISTS (SELECT 1 FROM session WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM member WHERE member = ?1)
                 OR EXISTS (SELECT 1 FROM delivery WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM agent_state WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM card WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM mcp_grant WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM mcp_capability WHERE agent = ?1)
                 OR EXISTS (SELECT 1 FROM schedule WHERE agent = ?1 OR created_by = ?1)
                 OR EXISTS (SELECT 1 FROM session WHERE key LIKE 'agent:%'
                     AND substr(key, length(key) - length(?1) - 9) = ':flock:dm:' || ?1)
                 OR EXISTS (SELECT 1 FROM request WHERE agent = ?1 AND revoked_at IS NULL
                     AND (state IN ('triage', 'waiting', 'approved', 'running')
                         OR (state = 'done' AND scope = 'agent')))",
                [agent.as_str()],
                |row| row.get(0),
            )
        })
        .await
    }

    /// Returns the length in bytes of the longest key among the sessions that name an agent; 0 without any.
    pub(crate) async fn longest_session_key(self, agent: &AgentId) -> Result<usize, StoreError> {
        self.read("look for an agent's sessions", |connection| {
            let longest: i64 = connection.query_row(
                "SELECT coalesce(max(length(key)), 0) FROM session
                 WHERE agent = ?1
                     OR key LIKE 'agent:%' AND substr(key, length(key) - length(?1) - 9) = ':flock:dm:' || ?1",
                [agent.as_str()],
                |row| row.get(0),
            )?;
            Ok(usize::try_from(longest).unwrap_or(0))
        })
        .await
    }
}

impl Agents<&Store> {
    /// Gives an agent a new id everywhere except in the audit, which gets a row about it. Repeating the call changes
    /// nothing.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Query`] if rows of the new id exist already, and any other [`StoreError`] of a write.
    pub async fn rename(
        self,
        old: AgentId,
        new: AgentId,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("give an agent another id", move |transaction| {
            // An interrupted rename is run again. Its audit row must not appear twice.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;

    /// Columns of such names that hold no agent of the team, or that a rename leaves on purpose.
    const EXCEPTIONS: [(&str, &str); 4] = [
        // The statements of `rename` and `OTHER_STATEMENTS` are for these.
        ("program_conversation", "session"),
        ("usage_sum", "agent"),
        // The name of a blob, which stays.
        ("transcript_segment", "key"),
        // The audit keeps the old id.
        ("audit", "session"),
    ];

    #[test]
    fn every_column_named_like_one_of_an_agent_follows_a_rename() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        drop(Store::open(&home).unwrap());
        let connection = rusqlite::Connection::open(home.database()).unwrap();
        let columns: Vec<(String, String)> = connection
            .prepare(
                "SELECT t.name, c.name FROM sqlite_schema t JOIN pragma_table_info(t.name) c
                 WHERE t.type = 'table' AND c.type = 'TEXT'",
            )
            .unwrap()
            .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap();
        let followed: Vec<(&str, &str)> = [&ID_COLUMNS[..], &KEY_COLUMNS, &EXCEPTIONS].concat();
        let names = |column: &str| column != "id" && followed.iter().any(|(_, name)| *name == column);
        let forgotten: Vec<_> = columns
            .iter()
            .filter(|(table, column)| names(column) && !followed.contains(&(table, column)))
            .collect();
        assert_eq!(forgotten, Vec::<&(String, String)>::new(), "a new agent would inherit these");
        let is_there =
            |(table, column): &&(&str, &str)| columns.contains(&((*table).to_owned(), (*column).to_owned()));
        assert_eq!(followed.iter().find(|column| !is_there(column)), None);
    }
}
