//! What all routes share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use axum::http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::auth::{self, Caller, Turns};
use super::driver::{Driver, Runner};
use super::error::ApiError;
use super::events::Events;
use super::idempotency::Keys;
use super::limits::Limits;
use super::relay::{Relay, Ticket};
use super::roster::{Change, Roster};
use crate::agent::Engine;
use crate::config::{Agent, Config, Live, secret};
use crate::home::Home;
use crate::id::AgentId;
use crate::openclaw::plugin;
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::store::{Level, token_hash};
use crate::swarm::triage::Triage;
use crate::swarm::{By, Swarm};

/// What a gateway is made of.
pub struct Parts {
    /// The configuration.
    pub live: Arc<Live>,
    /// What runs turns.
    pub runner: Arc<dyn Runner>,
    /// Where agents' commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What is known of sessions, containers and stores.
    pub records: Arc<dyn Records>,
    /// The team.
    pub swarm: Arc<Swarm>,
    /// What happens, for who watches.
    pub events: Arc<Events>,
    /// All limits.
    pub limits: Limits,
    /// The port it listens on.
    pub port: u16,
    /// The home's instance id.
    pub instance: String,
}

/// What a gateway can tell of things that others keep.
pub trait Records: Send + Sync + 'static {
    /// The sessions, newest first: one JSON object each.
    fn sessions(&self, agent: Option<&AgentId>) -> BoxFuture<'_, Result<Vec<Value>, ApiError>>;

    /// What is known, without asking anybody for long, of containers, images and the store.
    fn status(&self) -> BoxFuture<'_, Value>;

    /// Probes an agent's sandbox now, made if need be.
    fn probe<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<Value, ApiError>>;
}

/// A running gateway.
pub struct Gateway {
    /// Runs turns.
    pub driver: Arc<Driver>,
    /// What happens.
    pub events: Arc<Events>,
    /// Where agents' commands run.
    pub sandbox: Arc<dyn Sandbox>,
    /// What others keep.
    pub records: Arc<dyn Records>,
    /// The team.
    pub swarm: Arc<Swarm>,
    /// Carries out what agents ask for; set once, where this gateway does that.
    pub triage: OnceLock<Arc<Triage>>,
    /// Knows the sessions' conversations; set once, where this gateway has them.
    pub engine: OnceLock<Arc<Engine>>,
    /// Lets agent programs through to their models; set once, where this gateway runs turns by such programs.
    pub relay: OnceLock<Arc<Relay>>,
    /// The idempotency keys whose requests run.
    pub keys: Keys,
    /// All limits.
    pub limits: Limits,
    /// The port it listens on.
    pub port: u16,
    /// The home's instance id.
    pub instance: String,
    /// When it began, in milliseconds since the epoch.
    pub started_ms: i64,
    /// Cancelled when the gateway begins to stop.
    pub stop: CancellationToken,
    roster: Roster,
    requests: AtomicU64,
}

impl Gateway {
    /// A gateway of these parts.
    #[must_use]
    pub fn new(parts: Parts) -> Arc<Self> {
        let started_ms = crate::clock::unix_ms();
        let events = parts.events;
        Arc::new(Self {
            driver: Arc::new(Driver::new(parts.runner, events.clone(), &parts.limits)),
            events,
            sandbox: parts.sandbox,
            records: parts.records,
            swarm: parts.swarm,
            triage: OnceLock::new(),
            engine: OnceLock::new(),
            relay: OnceLock::new(),
            keys: Keys::default(),
            limits: parts.limits,
            port: parts.port,
            instance: parts.instance,
            started_ms,
            stop: CancellationToken::new(),
            roster: Roster::new(parts.live),
            requests: AtomicU64::new(0),
        })
    }

    /// The newest usable configuration. Whoever sees a change first does what follows from it.
    pub fn config(&self) -> Arc<Config> {
        let (config, changes) = self.roster.look();
        for change in changes {
            match change {
                Change::Added(agent) => {
                    self.record("agent.added", &agent);
                    self.events.publish("agent.added", &json!({"agent": agent}));
                }
                Change::Removed(agent) => {
                    self.driver.cancel_agent(&agent);
                    self.record("agent.removed", &agent);
                    self.events.publish("agent.removed", &json!({"agent": agent}));
                }
                Change::Other => self.events.publish("config.changed", &json!({})),
            }
        }
        config
    }

    /// Writes into the audit that an agent came or went, whoever changed the configuration.
    fn record(&self, action: &'static str, agent: &AgentId) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let entry =
            By::system().entry(action, agent.as_str(), Level::Yellow, "in the configuration".to_owned());
        let store = Arc::clone(self.swarm.store());
        runtime.spawn(async move {
            if let Err(error) = store.audit(entry, crate::clock::unix_ms()).await {
                tracing::error!(error = crate::error::chain(&error), "failed to write into the audit");
            }
        });
    }

    /// The home that it serves.
    #[must_use]
    pub fn home(&self) -> &Home {
        self.roster.home()
    }

    /// What flock's plugin in OpenClaw shows for a credential, where there is one. Read when it is needed: a new one
    /// counts at once.
    #[must_use]
    pub fn plugin_token(&self) -> Option<String> {
        match secret::get(self.home(), plugin::SECRET) {
            Ok(token) => token,
            Err(error) => {
                tracing::error!(error = crate::error::chain(&error), "failed to read the plugin's token");
                None
            }
        }
    }

    /// Who the credential of a request with these headers belongs to.
    ///
    /// # Errors
    ///
    /// 401 without a token or with a wrong one; those of the database.
    pub fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let client = |token: &[u8]| {
            let known = self.swarm.store().token(&token_hash(token)).map_err(ApiError::explained)?;
            Ok(known.filter(|known| known.is_good(crate::clock::unix_ms())))
        };
        auth::authenticate(headers, &self.config().token, || self.plugin_token(), client)
    }

    /// Whose turn the token of a request is for. `inside` is the agent from whose sandbox it comes.
    ///
    /// # Errors
    ///
    /// 401 where the token is that of no turn that runs, 403 for that of another agent's.
    pub fn ticket(
        &self,
        turns: Turns,
        headers: &HeaderMap,
        inside: Option<&AgentId>,
    ) -> Result<Arc<Ticket>, ApiError> {
        let token = turns.token(headers)?;
        let tickets = self.relay.get().map(|relay| relay.tickets());
        let ticket = tickets.and_then(|tickets| match turns {
            Turns::Relay => tickets.relay(token),
            Turns::Mcp => tickets.mcp(token),
        });
        let ticket = ticket.ok_or_else(|| {
            ApiError::new(StatusCode::UNAUTHORIZED, "wrong_token", "the token is that of no turn that runs")
        })?;
        if let Some(agent) = inside.filter(|agent| **agent != ticket.agent) {
            let (of, turn) = (&ticket.agent, ticket.turn);
            tracing::warn!(%agent, %of, %turn, "a token was shown from another agent's sandbox, and refused");
            let message = "the token is that of another agent's turn";
            return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_token", message));
        }
        Ok(ticket)
    }

    /// Why the configuration as it is on disk is not used, if it is not.
    #[must_use]
    pub fn config_problem(&self) -> Option<String> {
        self.roster.problem()
    }

    /// An agent of the newest configuration.
    ///
    /// # Errors
    ///
    /// 404 where there is none with this id.
    pub fn agent(&self, id: &str) -> Result<Agent, ApiError> {
        let unknown = || {
            // The id is the client's and may be anything.
            let id: String = id.chars().filter(|c| !c.is_control()).take(80).collect();
            ApiError::not_found("agent_not_found", format!("there is no agent {id:?}"))
                .with_hint("flock list")
        };
        let id: AgentId = id.parse().map_err(|_| unknown())?;
        self.config().agent(&id).cloned().ok_or_else(unknown)
    }

    /// A name for the next request in answers and in the log.
    pub fn request_id(&self) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        format!("{:x}-{number:x}", self.started_ms)
    }

    /// Refuses new turns, cancels the running ones and lets streams end.
    pub fn stop(&self) {
        self.events.publish("gateway.stopping", &json!({}));
        self.stop.cancel();
        self.driver.stop();
    }
}
