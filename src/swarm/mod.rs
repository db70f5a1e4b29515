//! The team: channels, their members, the scheduler, tasks, requests and everything else that agents share.

mod actor;
pub(crate) mod agent_state;
pub(crate) mod archive;
pub(crate) mod attachment;
pub(crate) mod budget;
pub(crate) mod card;
pub mod channel;
mod delivery_warnings;
mod direct;
mod error;
pub(crate) mod freeze;
pub(crate) mod hook;
pub mod lease;
mod linked_post;
mod loop_detector;
mod loop_guard;
pub(crate) mod mention;
pub(crate) mod message_file;
pub(crate) mod new_agent;
pub(crate) mod notice;
mod notifier;
pub(crate) mod operation;
pub mod oversight;
pub(crate) mod pause;
pub(crate) mod person;
mod post_trace;
pub(crate) mod quota;
pub(crate) mod schedule;
pub mod scheduler;
pub(crate) mod search;
pub(crate) mod skill;
pub mod task;
pub(crate) mod title;
pub(crate) mod token;
pub mod tools;
pub mod triage;
pub mod vault;
pub(crate) mod vault_copies;
mod waiting_work;
pub(crate) mod write_retry;

#[cfg(test)]
#[path = "../../tests/unit/swarm.rs"]
pub(crate) mod testing;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use tokio::sync::watch;

pub use actor::Actor;
pub(crate) use error::SwarmError;
pub use notifier::Notifier;
pub(crate) use quota::ParkedQuota;
pub(crate) use task::TaskEnd;

use crate::config::{Config, Live};
use crate::home::Home;
use crate::id::{AgentId, TurnId};
use crate::sandbox::engine::Engine;
use crate::sandbox::engines::{Engines, PlacementRecords};
use crate::sandbox::workspace_files::Workspaces;
use crate::store::{FreezeState, SearchIndex, Store};
use crate::sync::lock;
use crate::telemetry::Telemetry;

/// The dependencies of a [`Swarm`].
pub struct SwarmParts {
    /// The live configuration, which includes the home.
    pub live: Arc<Live>,
    pub store: Arc<Store>,
    /// The receiver of notifications about committed changes.
    pub notifier: Notifier,
}

/// The team of one home. A change is committed when its future resolves. The scheduler and watchers are notified after
/// that.
pub struct Swarm {
    live: Arc<Live>,
    store: Arc<Store>,
    notifier: Notifier,
    /// The sleeping agents, each with the turn in which it went to sleep if that is known. With this, a post need not
    /// ask the database whom it wakes.
    asleep: Mutex<HashMap<AgentId, Option<TurnId>>>,
    /// The frozen agents, for tasks that wait for a thaw.
    frozen: watch::Sender<FreezeState>,
    written: freeze::FrozenOnDisk,
    /// Held while the agents that are ready for an archive are counted.
    counting: tokio::sync::Mutex<()>,
    /// The agents without a budget.
    pauses: pause::Pauses,
    /// Notified when a schedule was added or changed.
    schedule_changes: tokio::sync::Notify,
    /// The activity of the webhooks since the gateway started.
    hook_activity: hook::receive::HookActivity,
    /// The providers that are down, as last reported by the scheduler.
    down: Mutex<Vec<scheduler::ProviderOutage>>,
    /// The credentials whose quota is used up.
    quotas: quota::QuotaBoard,
    /// The index of memory files, transcripts, vaults and messages.
    search: SearchIndex,
    telemetry: Arc<Telemetry>,
    /// The container engines, and where agents are placed.
    engines: Arc<Engines>,
    /// The division of the work between several gateways.
    ownership: Arc<lease::Ownership>,
    /// The ways to workspaces on other machines, if there can be some.
    workspaces: OnceLock<Workspaces>,
}

impl Swarm {
    #[must_use]
    pub fn new(parts: SwarmParts) -> Self {
        let SwarmParts { live, store, notifier } = parts;
        let search = SearchIndex::new(live.home());
        let telemetry = Telemetry::new(live.clone());
        let ownership = lease::Ownership::new(&store);
        let quotas = quota::QuotaBoard::new(live.home(), ownership.clock_difference());
        let newest = live.clone();
        let engines = Engines::new(
            live.home().clone(),
            Arc::new(move || newest.current()),
            Arc::new(Engine::from_env()),
            PlacementRecords::Store(store.clone()),
        );
        Self {
            live,
            store,
            notifier,
            asleep: Mutex::default(),
            frozen: watch::Sender::default(),
            written: freeze::FrozenOnDisk::default(),
            counting: tokio::sync::Mutex::default(),
            pauses: pause::Pauses::default(),
            schedule_changes: tokio::sync::Notify::new(),
            hook_activity: hook::receive::HookActivity::default(),
            down: Mutex::default(),
            quotas,
            search,
            telemetry,
            engines: Arc::new(engines),
            ownership,
            workspaces: OnceLock::new(),
        }
    }

    /// Returns the recorder of spans and metrics.
    #[must_use]
    pub(crate) const fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    /// Returns what is known of the gateways that share the database.
    #[must_use]
    pub(crate) const fn ownership(&self) -> &Arc<lease::Ownership> {
        &self.ownership
    }

    /// Returns the live configuration.
    #[must_use]
    pub(crate) const fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Returns the container engines.
    #[must_use]
    pub const fn engines(&self) -> &Arc<Engines> {
        &self.engines
    }

    /// Sets the ways to workspaces. Until then, and without it, they are folders of this machine.
    pub(crate) fn reach_workspaces(&self, workspaces: Workspaces) {
        drop(self.workspaces.set(workspaces));
    }

    /// Returns the ways to workspaces.
    #[must_use]
    pub(crate) fn workspaces(&self) -> &Workspaces {
        self.workspaces.get_or_init(Workspaces::of_this_machine)
    }

    #[must_use]
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Returns the handle for notifications about committed changes.
    #[must_use]
    pub(crate) const fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    #[must_use]
    pub fn home(&self) -> &Home {
        self.live.home()
    }

    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        self.live.current()
    }

    /// Stores the providers that are down, for status queries.
    pub(crate) fn set_provider_outages(&self, down: Vec<scheduler::ProviderOutage>) {
        *lock(&self.down) = down;
    }

    /// Returns the providers that are down. Of their agents, the scheduler runs only one from time to time.
    #[must_use]
    pub(crate) fn provider_outages(&self) -> Vec<scheduler::ProviderOutage> {
        lock(&self.down).clone()
    }

    /// Checks that an agent exists in the current configuration.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::NoAgent`] if it does not.
    pub(crate) fn require_agent(&self, agent: &AgentId) -> Result<(), SwarmError> {
        match self.config().agent(agent) {
            Some(_) => Ok(()),
            None => Err(SwarmError::NoAgent(agent.clone())),
        }
    }
}
