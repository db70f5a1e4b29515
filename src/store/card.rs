//! Agent cards: how agents describe themselves.

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::sql::{self, Connection, Row};
use super::subjects::Cards;
use super::{Database, Store, StoreError};
use crate::id::AgentId;

/// An agent's description of itself. A field that is `None` falls back to the agent's role and archetype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCard {
    pub agent: AgentId,
    pub name: Option<String>,
    pub description: Option<String>,
    /// Encoded as a JSON list.
    pub skills: Option<String>,
    /// Unix milliseconds of the last update.
    pub updated_at: i64,
}

/// A change of a card. Fields that are `None` stay as they are.
#[derive(Clone, Debug, Default)]
pub struct CardUpdate {
    pub name: Option<String>,
    pub description: Option<String>,
    /// Encoded as a JSON list.
    pub skills: Option<String>,
}

fn row(row: &Row<'_>) -> sql::Result<StoredCard> {
    Ok(StoredCard {
        agent: parsed(row, 0)?,
        name: row.get(1)?,
        description: row.get(2)?,
        skills: row.get(3)?,
        updated_at: row.get(4)?,
    })
}

fn list(connection: &Connection<'_>) -> sql::Result<Vec<StoredCard>> {
    connection
        .prepare_cached("SELECT agent, name, description, skills, updated_at FROM card ORDER BY agent")?
        .query_map((), row)?
        .collect()
}

impl<A> Cards<&Database<A>> {
    /// Returns the cards of all agents that have described themselves.
    pub async fn list(self) -> Result<Vec<StoredCard>, StoreError> {
        self.read("list the cards", list).await
    }
}

impl Cards<&Store> {
    /// Updates an agent's card and records it in the audit.
    pub(crate) async fn update(
        self,
        agent: AgentId,
        update: CardUpdate,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep a card", move |transaction| {
            // Fields that the agent left out keep their stored value.
            transaction
                .prepare_cached(
                    "INSERT INTO card (agent, name, description, skills, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT (agent) DO UPDATE SET name = coalesce(excluded.name, card.name),
                         description = coalesce(excluded.description, card.description),
                         skills = coalesce(excluded.skills, card.skills), updated_at = excluded.updated_at",
                )?
                .execute((agent.as_str(), update.name, update.description, update.skills, now))?;
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// Deletes an agent's card, so that a later agent with the same id does not inherit it.
    pub(crate) async fn delete(self, agent: AgentId) -> Result<(), StoreError> {
        self.write("forget a card", move |transaction| {
            transaction.execute("DELETE FROM card WHERE agent = ?1", [agent.as_str()]).map(drop)
        })
        .await
    }
}
