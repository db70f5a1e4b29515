//! Removal of an agent: deletes its rows in one transaction and keeps the history of what it did.

use super::audit::{self, AuditEntry};
use super::sql::{self, Transaction};
use super::subjects::Agents;
use super::subjects::AuditLog;
use super::{Store, StoreError};
use crate::id::AgentId;

/// The statements that delete an agent's rows; `?1` is its id.
///
/// Turns and the conversations of agent programs are deleted with their session. Messages, tasks, requests, usage and
/// the audit stay, because they tell what happened.
const DELETE_STATEMENTS: [&str; 17] = [
    "DELETE FROM session WHERE agent = ?1",
    "DELETE FROM inbox WHERE session >= 'agent:' || ?1 || ':' AND session < 'agent:' || ?1 || ';'",
    "DELETE FROM charge WHERE id >= 'agent:' || ?1 || ':' AND id < 'agent:' || ?1 || ';'",
    "DELETE FROM person_charge WHERE id >= 'agent:' || ?1 || ':' AND id < 'agent:' || ?1 || ';'",
    "DELETE FROM delivery WHERE agent = ?1",
    "DELETE FROM member WHERE member = ?1",
    "DELETE FROM agent_state WHERE agent = ?1",
    "DELETE FROM card WHERE agent = ?1",
    "DELETE FROM exchange WHERE sender = ?1 OR receiver = ?1",
    "DELETE FROM claim WHERE agent = ?1",
    "UPDATE submission SET state = 'withdrawn', detail = 'its agent was removed'
     WHERE agent = ?1 AND state IN ('queued', 'checking', 'review', 'proven')",
    "DELETE FROM race_agent WHERE agent = ?1",
    "DELETE FROM mcp_grant WHERE agent = ?1",
    "DELETE FROM mcp_capability WHERE agent = ?1",
    // What nobody may call is shown again by a later grant. The id is not needed here, but all statements have it.
    "DELETE FROM mcp_tool WHERE ?1 <> '' AND NOT EXISTS (
        SELECT 1 FROM mcp_grant WHERE mcp_grant.server = mcp_tool.server AND mcp_grant.tool = mcp_tool.tool)",
    // Those that it asked for go, too, or a later agent of its id could use them.
    "DELETE FROM schedule WHERE agent = ?1 OR created_by = ?1",
    "DELETE FROM placement WHERE agent = ?1",
];

fn delete_rows(transaction: &Transaction<'_>, agent: &AgentId) -> sql::Result<()> {
    for statement in DELETE_STATEMENTS {
        transaction.execute(statement, [agent.as_str()])?;
    }
    // Sessions share a stored prompt, so a prompt goes only with the last session that uses it.
    transaction
        .execute(
            "DELETE FROM prompt WHERE inputs NOT IN (SELECT prompt FROM session WHERE prompt IS NOT NULL)",
            (),
        )
        .map(drop)
}

impl Agents<&Store> {
    /// Deletes an agent's sessions, memberships, delivery positions, card and state in one transaction.
    ///
    /// A later agent with the same id therefore inherits nothing.
    pub(crate) async fn delete(self, agent: AgentId) -> Result<(), StoreError> {
        self.write("forget an agent", move |transaction| delete_rows(transaction, &agent)).await
    }
}

impl AuditLog<&Store> {
    /// Appends an audit row unless one with the same actor, action and subject exists since `since` (Unix
    /// milliseconds).
    ///
    /// An operation that is resumed after an interruption uses this so that it is not recorded twice. Returns `true` if
    /// a row was written.
    pub(crate) async fn append_once(
        self,
        entry: AuditEntry,
        since: i64,
        now: i64,
    ) -> Result<bool, StoreError> {
        self.write("write the audit", move |transaction| {
            let is_there: bool = transaction.query_row(
                "SELECT EXISTS (SELECT 1 FROM audit WHERE actor = ?1 AND action = ?2 AND subject = ?3 AND at >= ?4)",
                (&entry.actor, entry.action, &entry.subject, since),
                |row| row.get(0),
            )?;
            if !is_there {
                audit::append(transaction, &entry, now)?;
            }
            Ok(!is_there)
        })
        .await
    }
}
