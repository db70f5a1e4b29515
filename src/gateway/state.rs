//! The state that all routes share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use axum::http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::agent_changes::AgentChanges;
use super::agent_services::GatewayServices;
use super::auth::{self, BrowserCaller, Caller, PersonCaller, TurnService};
use super::doctor::DoctorRuns;
use super::driver::{TurnDriver, TurnRunner};
use super::error::ApiError;
use super::events::EventBuffer;
use super::idempotency::RunningKeys;
use super::limits::ServerLimits;
use super::package_moves::PackageMoves;
use super::peers::PeerKey;
use super::person_access;
use super::projects::Projects;
use super::push::VapidKeyCell;
use super::races::Races;
use super::relay::{Relay, Ticket};
use super::sign_in::{self, cookie::CookieNames, oidc::OidcSignIns};
use super::skill_summary::SkillSummaryCell;
use super::storage_status::CopyReports;
use super::token_uses::TokenUses;
use crate::agent::Engine;
use crate::bridge::Bridges;
use crate::checkpoint::{Checkpoints, TurnCheckpoints};
use crate::config::{Agent, Config, Live, secret};
use crate::home::Home;
use crate::id::AgentId;
use crate::mcp::Servers;
use crate::openclaw::plugin;
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::store::{ClientToken, Level, Person, SignIn, token_hash};
use crate::swarm::triage::Triage;
use crate::swarm::{Actor, Swarm};
use crate::sync::lock;

/// The parts that a gateway is built from.
pub struct GatewayParts {
    pub live: Arc<Live>,
    /// The backend that runs turns.
    pub runner: Arc<dyn TurnRunner>,
    /// The backend in which the commands of agents run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The source of what is known about sessions, containers and stores.
    pub records: Arc<dyn StatusSource>,
    pub swarm: Arc<Swarm>,
    /// The stream of events for watchers.
    pub events: Arc<EventBuffer>,
    pub limits: ServerLimits,
    /// The port that the gateway listens on.
    pub port: u16,
    /// The mark of the group of gateways that this one belongs to. `None` for a gateway without others.
    pub group: Option<String>,
    /// The instance id of the home.
    pub instance: String,
    /// Carries out agents' requests.
    pub triage: Arc<Triage>,
    /// Knows the conversations of the sessions.
    pub engine: Arc<Engine>,
    /// Passes requests of agent programs on to their models.
    pub relay: Arc<Relay>,
    /// The connections to other platforms.
    pub bridges: Arc<Bridges>,
    /// The repositories that agents work on.
    pub projects: Arc<Projects>,
    /// The MCP servers whose tools agents are granted.
    pub servers: Arc<Servers>,
}

/// A source of information about state that other parts of flock hold.
pub trait StatusSource: Send + Sync + 'static {
    /// Returns the sessions, newest first, each as one JSON object.
    fn sessions(&self, agent: Option<&AgentId>) -> BoxFuture<'_, Result<Vec<Value>, ApiError>>;

    /// Returns what is known about containers, images and the store, without a slow query.
    fn status(&self) -> BoxFuture<'_, Value>;

    /// Measures what the sandboxes use now. That takes seconds.
    fn usage(&self) -> BoxFuture<'_, Value>;

    /// Probes an agent's sandbox now. The sandbox is created first if it does not exist.
    fn probe<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<Value, ApiError>>;
}

/// A running gateway.
pub struct Gateway {
    pub driver: Arc<TurnDriver>,
    /// The stream of events for watchers.
    pub events: Arc<EventBuffer>,
    /// The backend in which the commands of agents run.
    pub sandbox: Arc<dyn Sandbox>,
    /// The source of what is known about sessions, containers and stores.
    pub records: Arc<dyn StatusSource>,
    pub swarm: Arc<Swarm>,
    /// Carries out agents' requests.
    pub triage: Arc<Triage>,
    /// Knows the conversations of the sessions.
    pub engine: Arc<Engine>,
    /// Passes requests of agent programs on to their models.
    pub relay: Arc<Relay>,
    /// The connections to other platforms.
    pub bridges: Arc<Bridges>,
    /// The repositories that agents work on.
    pub projects: Arc<Projects>,
    /// The MCP servers whose tools agents are granted.
    pub servers: Arc<Servers>,
    /// The races between copies of teams.
    pub(crate) races: Arc<Races>,
    /// The checkpoints of the agents.
    pub(crate) checkpoints: Arc<Checkpoints>,
    /// Brings the packages of agents along.
    pub(crate) package_moves: PackageMoves,
    /// The idempotency keys whose requests are running.
    pub(crate) keys: RunningKeys,
    /// The names of the cookies with which browsers are signed in.
    pub(crate) cookies: CookieNames,
    /// The sign-ins at the provider of OpenID Connect.
    pub(crate) oidc: OidcSignIns,
    /// The runs of `flock doctor`.
    pub(crate) doctor: DoctorRuns,
    /// The last look at the skills.
    pub(crate) skills: SkillSummaryCell,
    /// Held by the look at the database for a status.
    pub(crate) status_look: Arc<tokio::sync::Mutex<()>>,
    /// The progress of the copies in the second place.
    pub(crate) copies: CopyReports,
    /// The uses of tokens that are being noted.
    pub(super) token_uses: Arc<TokenUses>,
    /// The key for push services.
    pub(crate) vapid: VapidKeyCell,
    /// The key by which the other gateways of a group know this one. Unset in a gateway without others.
    pub(crate) peer_key: OnceLock<PeerKey>,
    /// Held while the configuration is changed for a person, or shared with the other gateways of a group.
    pub(super) sharing: tokio::sync::Mutex<()>,
    /// The reason why the configuration of the other gateways of a group is not used here.
    pub(super) sharing_problem: Mutex<Option<String>>,
    pub limits: ServerLimits,
    /// The port that the gateway listens on.
    pub port: u16,
    /// The instance id of the home.
    pub instance: String,
    /// Unix milliseconds at which the gateway started.
    pub started_ms: i64,
    /// Cancelled when the gateway begins to stop.
    pub stop: CancellationToken,
    live: Arc<Live>,
    /// The version of the configuration whose changes have been applied.
    applied: Mutex<Arc<Config>>,
    requests: AtomicU64,
}

impl Gateway {
    /// Builds a gateway from the parts that `build` returns.
    ///
    /// The session tools use the gateway, which uses the engine, which owns the tools. So `build` gets a reference to
    /// the gateway that becomes usable when this function returns.
    #[must_use]
    pub fn new(build: impl FnOnce(&Weak<Self>) -> GatewayParts) -> Arc<Self> {
        Arc::new_cyclic(|gateway| {
            let parts = build(gateway);
            let (store, ownership) = (parts.swarm.store().clone(), parts.swarm.ownership().clone());
            let checkpoints = Arc::new(Checkpoints::new(parts.live.clone(), store, ownership));
            checkpoints.reach_workspaces(parts.swarm.workspaces().clone());
            checkpoints.serve(Arc::new(GatewayServices(gateway.clone())));
            parts.engine.watch_turns(Arc::new(TurnCheckpoints(checkpoints.clone())));
            let telemetry = parts.swarm.telemetry().clone();
            let (events, ownership) = (parts.events.clone(), parts.swarm.ownership().clone());
            let driver = TurnDriver::new(parts.runner, events, &parts.limits, telemetry, ownership);
            let driver = Arc::new(driver);
            let races = Races::new(parts.swarm.clone(), parts.projects.clone(), checkpoints.clone());
            let ended = driver.clone();
            // Nobody waits for the ends of these turns.
            races.end_turns_by(move |agent| drop(ended.cancel_agent(agent)));
            let stop = CancellationToken::new();
            Self {
                races: Arc::new(races),
                package_moves: PackageMoves::new(&parts.swarm, stop.clone()),
                checkpoints,
                driver,
                events: parts.events,
                sandbox: parts.sandbox,
                records: parts.records,
                swarm: parts.swarm,
                triage: parts.triage,
                engine: parts.engine,
                relay: parts.relay,
                bridges: parts.bridges,
                projects: parts.projects,
                servers: parts.servers,
                keys: RunningKeys::default(),
                cookies: CookieNames::new(parts.port, parts.group.as_deref()),
                oidc: OidcSignIns::default(),
                doctor: DoctorRuns::default(),
                skills: SkillSummaryCell::default(),
                status_look: Arc::default(),
                copies: CopyReports::default(),
                token_uses: Arc::default(),
                vapid: VapidKeyCell::default(),
                peer_key: OnceLock::new(),
                sharing: tokio::sync::Mutex::default(),
                sharing_problem: Mutex::default(),
                limits: parts.limits,
                port: parts.port,
                instance: parts.instance,
                started_ms: crate::clock::unix_ms(),
                stop,
                applied: Mutex::new(parts.live.current()),
                live: parts.live,
                requests: AtomicU64::new(0),
            }
        })
    }

    /// Returns the newest usable configuration. The first caller that sees a change also applies its consequences.
    pub(crate) fn config(&self) -> Arc<Config> {
        // The lock comes before the look. Otherwise a slow caller could put an older version back.
        let mut applied = lock(&self.applied);
        let config = self.live.current();
        // `Live` hands out the same `Arc` until the file changes, so comparing pointers is enough.
        if Arc::ptr_eq(&config, &applied) {
            return config;
        }
        let before = std::mem::replace(&mut *applied, Arc::clone(&config));
        drop(applied);
        let AgentChanges { added, removed } = AgentChanges::between(&before, &config);
        for agent in &removed {
            // A removed agent's turns must not go on with a configuration that no longer has it.
            self.driver.cancel_agent(agent);
            self.announce("agent.removed", agent);
        }
        for agent in &added {
            self.announce("agent.added", agent);
        }
        self.refresh_servers();
        if added.is_empty() && removed.is_empty() {
            self.events.publish("config.changed", &json!({}));
        }
        config
    }

    /// Reads the grants of MCP servers' tools again, and stops servers that are gone. A removed agent's grants are gone too.
    fn refresh_servers(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let servers = Arc::clone(&self.servers);
        runtime.spawn(async move {
            if let Err(error) = servers.refresh().await {
                tracing::error!(
                    error = crate::error::chain(&error),
                    "failed to read the grants of MCP servers"
                );
            }
        });
    }

    /// Publishes that an agent was added or removed, and writes it to the audit, regardless of who changed the
    /// configuration.
    fn announce(&self, action: &'static str, agent: &AgentId) {
        self.events.publish(action, &json!({"agent": agent}));
        // The row is written by a task, which needs a runtime.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let entry =
            Actor::system().entry(action, agent.as_str(), Level::Yellow, "in the configuration".to_owned());
        let store = Arc::clone(self.swarm.store());
        runtime.spawn(async move {
            if let Err(error) = store.audit().append(entry, crate::clock::unix_ms()).await {
                tracing::error!(error = crate::error::chain(&error), "failed to write into the audit");
            }
        });
    }

    /// Returns the live configuration.
    #[must_use]
    pub(crate) const fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// Returns the home that this gateway serves.
    #[must_use]
    pub(crate) fn home(&self) -> &Home {
        self.live.home()
    }

    /// Returns the credential that flock's plugin in OpenClaw shows, if there is one. It is read at each use, so a new
    /// one takes effect at once.
    #[must_use]
    pub(crate) fn plugin_token(&self) -> Option<String> {
        match secret::get(self.home(), plugin::SECRET) {
            Ok(token) => token,
            Err(error) => {
                tracing::error!(error = crate::error::chain(&error), "failed to read the plugin's token");
                None
            }
        }
    }

    /// Returns the caller that the credential in these headers belongs to.
    ///
    /// # Errors
    ///
    /// Returns 401 if there is no token or a wrong one, and the store's error if the database can't be read.
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let client = async |token: &[u8]| {
            let known =
                self.swarm.store().tokens().find(&token_hash(token)).await.map_err(ApiError::explained)?;
            let now = crate::clock::unix_ms();
            // A revoked or expired token counts as unknown.
            let Some(known) = known.filter(|known| known.is_good(now)) else { return Ok(None) };
            // Who has a good token is let in at once, also if that can't be noted.
            self.token_uses.note(self.swarm.store(), &known, now);
            // A stream ends when its caller is no longer the same, and a further use changes nothing of who that is.
            Ok(Some(ClientToken { used_at: None, ..known }))
        };
        let has_token = headers.contains_key(header::AUTHORIZATION);
        if !has_token && self.cookies.value(headers).is_some() {
            return self.browser(headers).await?.ok_or_else(sign_in::signed_out);
        }
        let caller =
            auth::authenticate(headers, &self.config().token, || self.plugin_token(), client).await?;
        match caller {
            Caller::Client(token) => self.caller_of_token(token).await,
            caller => Ok(caller),
        }
    }

    /// Returns the caller who has a token that is good. A token of a person stands for that person, whatever it says itself.
    ///
    /// # Errors
    ///
    /// Returns 401 if its person is not there (any more), and the store's error if the database can't be read.
    pub(crate) async fn caller_of_token(&self, token: Arc<ClientToken>) -> Result<Caller, ApiError> {
        match &token.person {
            Some(name) => {
                let person = self.person(name).await?.ok_or_else(auth::unknown_token)?;
                Ok(Caller::Person(Arc::new(PersonCaller::with_token(person, token.name.clone()))))
            }
            None => Ok(Caller::Client(token)),
        }
    }

    /// Returns a person of the home, or `None` if there is no such person (any more).
    async fn person(&self, name: &str) -> Result<Option<Person>, ApiError> {
        let found = self.swarm.store().people().find(name).await.map_err(ApiError::explained)?;
        Ok(found.filter(Person::is_active))
    }

    /// Returns the browser that the cookie of a request belongs to, or `None` if it has none or is signed out.
    ///
    /// # Errors
    ///
    /// Returns the store's error if the database can't be read.
    pub(crate) async fn browser(&self, headers: &HeaderMap) -> Result<Option<Caller>, ApiError> {
        let Some(found) = sign_in::find(self, headers).await.map_err(ApiError::explained)? else {
            return Ok(None);
        };
        self.caller_of_sign_in(found).await
    }

    /// Returns the caller who has a sign-in that is good, or `None` if its person is not there (any more).
    ///
    /// # Errors
    ///
    /// Returns the store's error if the database can't be read.
    pub(crate) async fn caller_of_sign_in(&self, found: SignIn) -> Result<Option<Caller>, ApiError> {
        let people = self.swarm.store().people();
        // A browser of a person of the home has that person's rights, whoever made the code for it.
        let is_bound = found.token.is_some() || found.account.is_some();
        if is_bound || people.find(&found.person).await.map_err(ApiError::explained)?.is_some() {
            let person = self.person(&found.person).await?;
            let caller = person.map(|person| PersonCaller::with_browser(person, found));
            return Ok(caller.map(|caller| Caller::Person(Arc::new(caller))));
        }
        Ok(Some(Caller::Browser(Arc::new(BrowserCaller { sign_in: found.id, person: found.person }))))
    }

    /// Returns the turn that a request's token belongs to. `inside` is the agent from whose sandbox the request comes.
    ///
    /// # Errors
    ///
    /// Returns 401 if the token belongs to no running turn, and 403 if it belongs to a turn of another agent.
    pub(crate) fn ticket(
        &self,
        turns: TurnService,
        headers: &HeaderMap,
        inside: Option<&AgentId>,
    ) -> Result<Arc<Ticket>, ApiError> {
        let token = turns.token(headers)?;
        let ticket = match turns {
            TurnService::Relay => self.relay.tickets().relay(token),
            TurnService::Mcp => self.relay.tickets().mcp(token),
        };
        let ticket = ticket.ok_or_else(|| {
            ApiError::new(
                StatusCode::UNAUTHORIZED,
                "wrong_token",
                "the token does not belong to a running turn",
            )
        })?;
        // A token that leaked into another agent's sandbox is worth nothing there.
        if let Some(agent) = inside.filter(|agent| **agent != ticket.agent) {
            let (of, turn) = (&ticket.agent, ticket.turn);
            tracing::warn!(%agent, %of, %turn, "a token that came from another agent's sandbox was refused");
            let message = "the token belongs to another agent's turn";
            return Err(ApiError::forbidden("foreign_token", message));
        }
        Ok(ticket)
    }

    /// Returns the reason why the configuration on disk, or that of the group, is not used, or `None` if both are.
    #[must_use]
    pub(crate) fn config_problem(&self) -> Option<String> {
        self.live.problem().or_else(|| lock(&self.sharing_problem).clone())
    }

    /// Returns an agent of the newest configuration.
    ///
    /// # Errors
    ///
    /// Returns 404 if there is no agent with this id.
    pub(crate) fn agent(&self, id: &str) -> Result<Agent, ApiError> {
        find_agent(&self.config(), id)
    }

    /// Returns an id for the next request, for responses and the log.
    pub(crate) fn request_id(&self) -> String {
        // The start time makes the id unique across restarts of the gateway.
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

/// Returns an agent of a configuration.
///
/// # Errors
///
/// Returns 404 if there is no agent with this id.
pub(crate) fn find_agent(config: &Config, id: &str) -> Result<Agent, ApiError> {
    let unknown = || person_access::unknown_agent(id);
    let id: AgentId = id.parse().map_err(|_| unknown())?;
    config.agent(&id).cloned().ok_or_else(unknown)
}
