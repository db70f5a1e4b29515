//! Cards: what an agent says of itself, where it has said something.

use rusqlite::{Connection, Row};

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::{Store, StoreError};
use crate::id::AgentId;

/// What an agent says of itself. What is `None` is as its role and archetype have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCard {
    /// Who.
    pub agent: AgentId,
    /// What it is called.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it can do: a JSON list.
    pub skills: Option<String>,
    /// When it last said something, in Unix milliseconds.
    pub updated_at: i64,
}

/// What an agent says anew; the rest stays.
#[derive(Clone, Debug, Default)]
pub struct CardUpdate {
    /// What it is called.
    pub name: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// What it can do: a JSON list.
    pub skills: Option<String>,
}

fn row(row: &Row<'_>) -> rusqlite::Result<StoredCard> {
    Ok(StoredCard {
        agent: parsed(row, 0)?,
        name: row.get(1)?,
        description: row.get(2)?,
        skills: row.get(3)?,
        updated_at: row.get(4)?,
    })
}

fn list(connection: &Connection) -> rusqlite::Result<Vec<StoredCard>> {
    connection
        .prepare_cached("SELECT agent, name, description, skills, updated_at FROM card ORDER BY agent")?
        .query_map((), row)?
        .collect()
}

impl Store {
    /// What agents said of themselves.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn cards(&self) -> Result<Vec<StoredCard>, StoreError> {
        self.read("list the cards", list)
    }

    /// Keeps what an agent says of itself.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn update_card(
        &self,
        agent: AgentId,
        update: CardUpdate,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("keep a card", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO card (agent, name, description, skills, updated_at) VALUES (?1, ?2, ?3, ?4, ?5)
                     ON CONFLICT DO UPDATE SET name = coalesce(excluded.name, name),
                         description = coalesce(excluded.description, description),
                         skills = coalesce(excluded.skills, skills), updated_at = excluded.updated_at",
                )?
                .execute((agent.as_str(), update.name, update.description, update.skills, now))?;
            audit::append(transaction, &entry, now)
        })
        .await
    }

    /// Forgets what an agent said of itself: another one with its id is not bound by it.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn forget_card(&self, agent: AgentId) -> Result<(), StoreError> {
        self.write("forget a card", move |transaction| {
            transaction.execute("DELETE FROM card WHERE agent = ?1", [agent.as_str()]).map(drop)
        })
        .await
    }
}
