//! The engines that agents are placed on.

use std::collections::{BTreeMap, BTreeSet};

use super::audit::{self, AuditEntry};
use super::session::parsed;
use super::sql::OptionalExtension as _;
use super::subjects::Placements;
use super::{Database, Store, StoreError};
use crate::id::{AgentId, EngineName};

impl<A> Placements<&Database<A>> {
    /// Returns the engine of each agent that is placed.
    pub async fn list(self) -> Result<BTreeMap<AgentId, EngineName>, StoreError> {
        self.read("look where agents are placed", |connection| {
            connection
                .prepare_cached("SELECT agent, engine FROM placement")?
                .query_map((), |row| Ok((parsed(row, 0)?, parsed(row, 1)?)))?
                .collect()
        })
        .await
    }

    /// Returns the engine of an agent, if it is placed.
    pub async fn find(self, agent: &AgentId) -> Result<Option<EngineName>, StoreError> {
        self.read("look where an agent is placed", |connection| {
            connection
                .prepare_cached("SELECT engine FROM placement WHERE agent = ?1")?
                .query_row([agent.as_str()], |row| parsed(row, 0))
                .optional()
        })
        .await
    }
}

impl Placements<&Store> {
    /// Places an agent on an engine, in place of the one that it was on.
    pub async fn put(self, agent: AgentId, engine: EngineName, now: i64) -> Result<(), StoreError> {
        self.write("place an agent", move |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO placement (agent, engine, placed_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (agent) DO UPDATE SET engine = ?2, placed_at = ?3",
                )?
                .execute((agent.as_str(), engine.as_str(), now))
                .map(drop)
        })
        .await
    }

    /// Places an agent on an engine as [`Self::put`] does, if the agent and the others on that engine are still where they were
    /// `seen`. Returns `false` if they are not, because another gateway has placed one meanwhile: the memory may be given away.
    pub(crate) async fn put_as_seen(
        self,
        agent: AgentId,
        engine: EngineName,
        seen: &BTreeMap<AgentId, EngineName>,
        now: i64,
    ) -> Result<bool, StoreError> {
        let before = seen.get(&agent).cloned();
        let beside: BTreeSet<AgentId> =
            seen.iter().filter(|(_, on)| **on == engine).map(|(other, _)| other.clone()).collect();
        self.write("place an agent", move |transaction| {
            let own: Option<EngineName> = transaction
                .prepare_cached("SELECT engine FROM placement WHERE agent = ?1")?
                .query_row([agent.as_str()], |row| parsed(row, 0))
                .optional()?;
            let others: BTreeSet<AgentId> = transaction
                .prepare_cached("SELECT agent FROM placement WHERE engine = ?1")?
                .query_map([engine.as_str()], |row| parsed(row, 0))?
                .collect::<Result<_, _>>()?;
            if own != before || others != beside {
                return Ok(false);
            }
            transaction
                .prepare_cached(
                    "INSERT INTO placement (agent, engine, placed_at) VALUES (?1, ?2, ?3)
                     ON CONFLICT (agent) DO UPDATE SET engine = ?2, placed_at = ?3",
                )?
                .execute((agent.as_str(), engine.as_str(), now))?;
            Ok(true)
        })
        .await
    }

    /// Places the agents that are not placed yet. The audit row is written with it, if there is one.
    pub(crate) async fn put_unplaced(
        self,
        agents: Vec<AgentId>,
        engine: EngineName,
        entry: Option<AuditEntry>,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("place agents", move |transaction| {
            for agent in &agents {
                transaction
                    .prepare_cached(
                        "INSERT INTO placement (agent, engine, placed_at) VALUES (?1, ?2, ?3)
                         ON CONFLICT (agent) DO NOTHING",
                    )?
                    .execute((agent.as_str(), engine.as_str(), now))?;
            }
            entry.map_or(Ok(()), |entry| audit::append(transaction, &entry, now))
        })
        .await
    }

    /// Forgets the placements on an engine. Its agents are placed anew when they need a sandbox. The audit row is written
    /// with it.
    pub(crate) async fn forget_engine(
        self,
        engine: EngineName,
        entry: AuditEntry,
        now: i64,
    ) -> Result<(), StoreError> {
        self.write("forget an engine", move |transaction| {
            transaction.execute("DELETE FROM placement WHERE engine = ?1", [engine.as_str()])?;
            audit::append(transaction, &entry, now)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::home::Home;
    use crate::store::Level;

    #[tokio::test]
    async fn a_placement_outlives_a_restart_and_follows_its_agent() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().to_owned(), None);
        home.make_folders().unwrap();
        let id = |text: &str| text.parse::<AgentId>().unwrap();
        let engine = |text: &str| text.parse::<EngineName>().unwrap();
        let entry = |action, subject: &str| {
            AuditEntry::new("human:ann", action, subject, Level::Yellow, String::new())
        };
        let store = Store::open(&home).unwrap();
        store.placements().put(id("ada"), engine("second"), 1).await.unwrap();
        let both = vec![id("ada"), id("bob")];
        store.placements().put_unplaced(both, EngineName::local(), None, 2).await.unwrap();
        drop(store);
        let store = Store::open(&home).unwrap();
        let placed = store.placements().list().await.unwrap();
        assert_eq!(placed, [(id("ada"), engine("second")), (id("bob"), EngineName::local())].into());
        store.agents().rename(id("ada"), id("eve"), entry("agent.rename", "ada"), 3).await.unwrap();
        store.agents().delete(id("bob")).await.unwrap();
        assert_eq!(store.placements().find(&id("eve")).await.unwrap(), Some(engine("second")));
        assert_eq!(store.placements().find(&id("bob")).await.unwrap(), None);
        assert_eq!(store.placements().list().await.unwrap(), [(id("eve"), engine("second"))].into());
        // Another gateway has placed one on the same engine since it was looked at, then nobody has.
        let seen = BTreeMap::new();
        let place = |seen| store.placements().put_as_seen(id("bob"), engine("second"), seen, 4);
        assert!(!place(&seen).await.unwrap());
        assert_eq!(store.placements().find(&id("bob")).await.unwrap(), None);
        let seen = store.placements().list().await.unwrap();
        assert!(place(&seen).await.unwrap());
        assert!(!place(&seen).await.unwrap(), "it is placed by now");
        let gone = entry("engine.remove", "second");
        store.placements().forget_engine(engine("second"), gone, 4).await.unwrap();
        assert_eq!(store.placements().list().await.unwrap(), BTreeMap::new());
    }
}
