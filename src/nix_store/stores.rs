//! The package stores of a home: one in each engine, because the sandboxes of an engine can only read a volume of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::{NixError, PackageStore};
use crate::home::Home;
use crate::id::{AgentId, EngineName};
use crate::sandbox::SandboxError;
use crate::sandbox::docker::ConfigSource;
use crate::sandbox::engine::Engine;
use crate::sandbox::engines::{Engines, PlacedEngine};
use crate::sync::lock;

/// A store with the engine that it is in.
type MadeStore = (Arc<Engine>, Arc<PackageStore>);

/// The package stores of one home.
pub struct PackageStores {
    home: Home,
    config: ConfigSource,
    engines: Arc<Engines>,
    /// A store is kept, because its locks guard its volume.
    made: Mutex<HashMap<EngineName, MadeStore>>,
}

impl PackageStores {
    /// Creates the value without calling an engine.
    #[must_use]
    pub fn new(home: Home, config: ConfigSource, engines: Arc<Engines>) -> Self {
        Self { home, config, engines, made: Mutex::default() }
    }

    /// Returns the engines of the stores.
    #[must_use]
    pub(crate) const fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    /// Returns the store in an engine.
    #[must_use]
    pub(crate) fn on(&self, found: &PlacedEngine) -> Arc<PackageStore> {
        let mut made = lock(&self.made);
        match made.get(&found.name) {
            Some((engine, store)) if Arc::ptr_eq(engine, &found.engine) => Arc::clone(store),
            // The configuration has another address now, or the engine was removed and added again: the way to it that was
            // used before is closed.
            _ => {
                let (home, config) = (self.home.clone(), Arc::clone(&self.config));
                let store = Arc::new(PackageStore::new(home, config, Arc::clone(&found.engine)));
                made.insert(found.name.clone(), (Arc::clone(&found.engine), Arc::clone(&store)));
                store
            }
        }
    }

    /// Returns the store that an agent's sandbox reads. An agent that is on no engine is placed.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent can't be placed, or if the database fails.
    pub(crate) async fn of(&self, agent: &AgentId) -> Result<Arc<PackageStore>, NixError> {
        let config = (self.config)();
        let found = match config.agent(agent) {
            Some(agent) => self.engines.of(agent).await?,
            None => self.engines.of_id(agent).await?,
        };
        Ok(self.on(&found))
    }

    /// Returns the store of two agents, of which the second one is placed beside the first if it is on no engine. `None` if
    /// they are on different engines.
    ///
    /// # Errors
    ///
    /// Returns an error if the database fails.
    pub(crate) async fn of_both(
        &self,
        one: &AgentId,
        other: &AgentId,
    ) -> Result<Option<Arc<PackageStore>>, SandboxError> {
        let beside = self.engines.place_beside(other, one).await?;
        let same = self.engines.of_id(one).await?;
        Ok((same == beside).then(|| self.on(&same)))
    }

    /// Returns the stores of all engines, each with the name of its engine.
    #[must_use]
    pub(crate) fn all(&self) -> Vec<(EngineName, Arc<PackageStore>)> {
        self.engines.all().into_iter().map(|found| (found.name.clone(), self.on(&found))).collect()
    }
}
