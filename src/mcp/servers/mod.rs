//! All servers of a home: started at the first call, stopped when idle, restarted after a failure with a growing pause, and
//! called only by agents that were granted a tool with the definition that a person has seen.

mod calls;
mod definitions;
mod grants;
mod lifecycle;
mod place;
mod requests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

pub(crate) use self::grants::{GrantError, Grants};
use self::lifecycle::Slot;
pub(crate) use self::place::{Hold, ServerCall, ServerPlace};
use super::asks::Offers;
use super::definition;
use super::elicitation::{PersonAnswer, Question};
use super::error::McpError;
use super::launch::Launcher;
use super::oauth::{self, SignInState};
use super::tool::GrantedTool;
use crate::agent::sampling::{SampleAnswer, SampleError, SampleQuestion, SampledCall};
use crate::config::{Agent, Autonomy, Live, McpServer};
use crate::id::{AgentId, McpServerName, TurnId};
use crate::provider::BoxFuture;
use crate::store::{McpCapability, McpCapabilityGrant, McpGrant, Store};
use crate::sync::lock;
use crate::tool::{CallContext, Tool, ToolSource};

/// Tells people about a definition that has changed.
pub(crate) trait DefinitionReview: Send + Sync + 'static {
    /// Asks a person to look at the changed definition of a tool. Returns the text for the agent.
    fn changed<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        tool: &'a str,
        sha256: &'a str,
    ) -> BoxFuture<'a, String>;
}

/// Asks an agent's model for a server.
pub(crate) trait AgentModel: Send + Sync + 'static {
    /// Asks the model, and charges the agent. Dropping the future ends the call.
    fn sample<'a>(
        &'a self,
        asked: SampledCall<'a>,
        question: &'a SampleQuestion,
    ) -> BoxFuture<'a, Result<SampleAnswer, SampleError>>;
}

/// Asks a person for a server.
pub(crate) trait Person: Send + Sync + 'static {
    /// Asks a person, and waits for the answer, at most for this time. Dropping the future takes the question back.
    fn ask<'a>(
        &'a self,
        context: &'a CallContext,
        server: &'a McpServerName,
        question: Question,
        limit: Duration,
    ) -> BoxFuture<'a, Result<PersonAnswer, String>>;
}

/// The MCP servers of one home. Only one process of a home uses them at a time: the gateway while it runs, otherwise the
/// command line.
pub struct Servers {
    live: Arc<Live>,
    store: Arc<Store>,
    launcher: Arc<dyn Launcher>,
    slots: Mutex<HashMap<McpServerName, Arc<Slot>>>,
    /// The tools that are offered, as the database had them last. Each call looks there again.
    offered: Mutex<Arc<Offered>>,
    /// The number of calls of each turn.
    turns: Mutex<HashMap<(TurnId, McpServerName), u32>>,
    review: OnceLock<Arc<dyn DefinitionReview>>,
    model: OnceLock<Arc<dyn AgentModel>>,
    person: OnceLock<Arc<dyn Person>>,
    place: OnceLock<Arc<dyn ServerPlace>>,
    this: Weak<Self>,
}

#[derive(Default)]
struct Offered {
    tools: Vec<OfferedTool>,
    capabilities: Vec<McpCapabilityGrant>,
}

struct OfferedTool {
    tool: Arc<dyn Tool>,
    server: McpServerName,
    grants: Vec<McpGrant>,
}

/// The state of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ServerState {
    pub is_running: bool,
    /// The version of the protocol that it speaks.
    pub version: Option<String>,
    /// Its own name and version.
    pub title: Option<String>,
    /// The reason of the last failure, while it is not started again.
    pub failure: Option<String>,
    /// The state of the sign-in to a server at a URL.
    pub sign_in: Option<SignInState>,
}

impl Servers {
    /// Creates the value. Nothing is started or read.
    #[must_use]
    pub fn new(live: Arc<Live>, store: Arc<Store>, launcher: Arc<dyn Launcher>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            live,
            store,
            launcher,
            slots: Mutex::default(),
            offered: Mutex::default(),
            turns: Mutex::default(),
            review: OnceLock::new(),
            model: OnceLock::new(),
            person: OnceLock::new(),
            place: OnceLock::new(),
            this: this.clone(),
        })
    }

    /// Sets who is told about changed definitions. Only the first call has an effect.
    pub(crate) fn reviewed_by(&self, review: Arc<dyn DefinitionReview>) {
        drop(self.review.set(review));
    }

    /// Sets who asks the agents' models. Only the first call has an effect. Before it, servers are refused.
    pub(crate) fn sampled_by(&self, model: Arc<dyn AgentModel>) {
        drop(self.model.set(model));
    }

    /// Sets who asks people. Only the first call has an effect. Before it, servers are refused.
    pub(crate) fn people_asked_by(&self, person: Arc<dyn Person>) {
        drop(self.person.set(person));
    }

    /// Returns what a server may ask of an agent, or of any.
    fn offers(&self, server: &McpServerName, agent: Option<&AgentId>) -> Offers {
        let is_possible = |capability: McpCapability| match capability {
            McpCapability::Sampling => self.model.get().is_some(),
            McpCapability::Elicitation => self.person.get().is_some(),
        };
        let (offered, config) = (Arc::clone(&lock(&self.offered)), self.live.current());
        let is_meant = |grant: &&McpCapabilityGrant| {
            let is_there = grant.server == *server && config.agent(&grant.agent).is_some();
            let is_asked = agent.is_none_or(|agent| grant.agent == *agent);
            is_there && is_asked && is_possible(grant.capability)
        };
        let granted = offered.capabilities.iter().filter(is_meant);
        granted.fold(Offers::default(), |offers, grant| offers.with(grant.capability))
    }

    fn server(&self, name: &McpServerName) -> Result<McpServer, McpError> {
        let config = self.live.current();
        config.mcp_server(name).cloned().ok_or_else(|| McpError::Unknown(name.clone()))
    }

    fn slot(&self, name: &McpServerName) -> Arc<Slot> {
        Arc::clone(lock(&self.slots).entry(name.clone()).or_default())
    }

    /// Reads the grants again, and stops the servers that are not configured any more.
    ///
    /// # Errors
    ///
    /// Returns an error if the database can't be read.
    pub async fn refresh(&self) -> Result<(), McpError> {
        let (pins, grants) = self.store.mcp_tools().all().await?;
        let capabilities = self.store.mcp_tools().capabilities().await?;
        let Some(this) = self.this.upgrade() else { return Ok(()) };
        let tools = pins.iter().filter_map(|pin| {
            let spec = definition::spec(&pin.server, &pin.tool, &pin.definition)?;
            let of_tool = |grant: &&McpGrant| grant.server == pin.server && grant.tool == pin.tool;
            let grants = grants.iter().filter(of_tool).cloned().collect();
            let (server, tool) = (pin.server.clone(), pin.tool.clone());
            let granted = GrantedTool { spec, server: server.clone(), tool, servers: Arc::clone(&this) };
            Some(OfferedTool { tool: Arc::new(granted), server, grants })
        });
        *lock(&self.offered) = Arc::new(Offered { tools: tools.collect(), capabilities });
        let config = self.live.current();
        let gone: Vec<McpServerName> =
            lock(&self.slots).keys().filter(|name| config.mcp_server(name).is_none()).cloned().collect();
        for name in gone {
            self.stop(&name, "it was removed").await;
        }
        Ok(())
    }

    /// Returns what is known of a server.
    pub(crate) fn state(&self, name: &McpServerName) -> ServerState {
        let server = self.server(name).ok();
        let stored = server.and_then(|server| oauth::state(self.live.home(), &server));
        let Some(slot) = lock(&self.slots).get(name).cloned() else {
            return ServerState { sign_in: stored, ..ServerState::default() };
        };
        let state = lock(&slot.state);
        let is_mended = state.wants_sign_in && stored == Some(SignInState::SignedIn);
        let sign_in = stored.or(state.wants_sign_in.then_some(SignInState::Needed));
        let running = state.running.as_ref().filter(|running| running.is_alive());
        let failure = || {
            let ended = state.running.as_ref().and_then(|running| running.connection.flow.reason());
            state.paused.as_ref().map(|(_, reason)| reason.clone()).or(ended)
        };
        ServerState {
            is_running: running.is_some(),
            version: running.map(|running| running.connection.version.clone()),
            title: running.map(|running| running.connection.title.clone()).filter(|title| !title.is_empty()),
            // Somebody has signed in since the last start failed for want of that.
            failure: if running.is_some() || is_mended { None } else { failure() },
            sign_in,
        }
    }
}

impl ToolSource for Servers {
    fn tools(&self, agent: &Agent) -> Vec<Arc<dyn Tool>> {
        let offered = Arc::clone(&lock(&self.offered));
        let config = self.live.current();
        let granted = |offered: &&OfferedTool| {
            let mut grants = offered.grants.iter();
            config.mcp_server(&offered.server).is_some()
                && grants.any(|grant| grant.agent == agent.id && may(agent, grant))
        };
        offered.tools.iter().filter(granted).map(|offered| Arc::clone(&offered.tool)).collect()
    }
}

/// Returns `true` if the agent's autonomy allows what was granted. What the server says about its tool does not count.
fn may(agent: &Agent, grant: &McpGrant) -> bool {
    agent.autonomy != Autonomy::Readonly || grant.readonly_ok
}
