//! The backend of the session commands: the gateway if it runs, otherwise this process.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::agent::preview::RequestPreviewer;
use crate::agent::session::CompactionReport;
use crate::agent::{Engine, EngineParts, NoOversight, TurnError, TurnLimits};
use crate::cli::reconnect::{Reconnector, Repeat};
use crate::cli::{Context, Failure, database, person, team};
use crate::config::Live;
use crate::error::Kind;
use crate::home::Home;
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::provider::Catalog;
use crate::store::{Level, NewSession, Session, Store};
use crate::supervise::gateway_client::Client;
use crate::swarm::Actor;
use crate::tool::catalog;

/// Time that the gateway may take. A turn of the session may be running, and a model may be asked for a summary.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The place where sessions are read and changed.
pub(crate) struct SessionBackend<'a> {
    home: &'a Home,
    live: Arc<Live>,
    gateway: Option<Client>,
    reconnector: Reconnector<'a>,
}

impl<'a> SessionBackend<'a> {
    /// Opens the backend for this home. It waits for a gateway that is starting.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration is not valid, or if a gateway runs but can't be used.
    pub(crate) async fn open(home: &'a Home, context: &'a Context) -> Result<Self, Failure> {
        let live = Arc::new(Live::open(home.clone())?);
        let reconnector = Reconnector::new(home, context);
        let gateway = reconnector.gateway().await?;
        Ok(Self { home, live, gateway, reconnector })
    }

    /// Returns a description of the session's next request.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no such session, or if the gateway refuses the request.
    pub(crate) async fn report(&self, key: &SessionKey) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            let path = format!("/api/sessions/{key}");
            // A report changes nothing, so it may be asked again.
            let call = async |to: &Client| to.get_json(&path, TIMEOUT).await;
            return self.reconnector.ask(gateway, Repeat::Safe, call).await;
        }
        // Nothing is opened for writing, so the home of a newer flock can be looked at, too.
        let session = find(self.home, key)?;
        let config = self.live.current();
        let agent = config.agent(key.agent()).ok_or_else(|| TurnError::UnknownAgent(key.agent().clone()))?;
        let tools = catalog::specs();
        let preview =
            RequestPreviewer { home: self.home, config: &config, tools: &tools, zone: TimeZone::system() };
        Ok(json!(preview.report(agent, &session)?))
    }

    /// Compacts the conversation and returns the compaction, or `null` if there is nothing to remove. Without a gateway
    /// no model is asked.
    pub(crate) async fn compact(&self, key: &SessionKey) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            // The gateway records the action in the audit log itself.
            let done = self.post(gateway, &format!("/api/sessions/{key}/compact"), &json!({})).await?;
            return Ok(done["compacted"].clone());
        }
        let engine = self.engine()?;
        let done: Option<CompactionReport> = engine.compact(key, false).await?;
        record(engine.store(), key, "session.compact").await?;
        // The log of the database is folded back before the process ends.
        engine.settle().await?;
        Ok(json!(done))
    }

    /// Starts the conversation anew.
    pub(crate) async fn reset(&self, key: &SessionKey) -> Result<(), Failure> {
        if let Some(gateway) = &self.gateway {
            return self.post(gateway, &format!("/api/sessions/{key}/reset"), &json!({})).await.map(drop);
        }
        let engine = self.engine()?;
        engine.reset(key, false).await?;
        record(engine.store(), key, "session.reset").await?;
        Ok(engine.settle().await?)
    }

    /// Creates the session for a transcript that is already in its folder.
    pub(crate) async fn adopt(&self, key: &SessionKey, file: &str) -> Result<(), Failure> {
        if let Some(gateway) = &self.gateway {
            let asked = json!({"key": key, "file": file});
            return self.post(gateway, "/api/sessions", &asked).await.map(drop);
        }
        team::require_no_gateway(self.home)?;
        let store = Store::open(self.home)?;
        let new = NewSession { key: key.clone(), file: file.to_owned() };
        if !store.sessions().create(new, crate::clock::unix_ms()).await? {
            return Err(exists(key));
        }
        record(&store, key, "session.import").await?;
        Ok(store.sync().await?)
    }

    /// Returns the home's configuration.
    pub(crate) fn live(&self) -> &Live {
        &self.live
    }

    /// Sends a request that must not be carried out twice to the gateway, or to the one that replaces it.
    async fn post(&self, gateway: &Client, path: &str, body: &Value) -> Result<Value, Failure> {
        let call = async |to: &Client| to.post_json(path, body, TIMEOUT).await;
        self.reconnector.ask(gateway, Repeat::Unsent, call).await
    }

    /// Returns an engine for compacting and resetting. It runs no turns, and its tools can't be called.
    fn engine(&self) -> Result<Engine, Failure> {
        team::require_no_gateway(self.home)?;
        Ok(Engine::new(EngineParts {
            config: self.live.clone(),
            store: Arc::new(Store::open(self.home)?),
            registry: catalog::described(),
            catalog: Catalog::new(self.home.clone()),
            limits: TurnLimits::default(),
            oversight: Arc::new(NoOversight),
        }))
    }
}

/// Records in the audit log who changed a session, as a running gateway would.
async fn record(store: &Store, key: &SessionKey, action: &'static str) -> Result<(), Failure> {
    let by = Actor { session: Some(key.clone()), ..Actor::human(&person::login()) };
    let entry = by.entry(action, key.as_str(), Level::Green, String::new());
    Ok(store.audit().append(entry, crate::clock::unix_ms()).await?)
}

/// Returns the session that a person names, either by its key or as their own session with an agent.
///
/// # Errors
///
/// Returns an error if the name is neither a valid key nor an agent.
pub(crate) fn key(named: &str, home: &Home) -> Result<SessionKey, Failure> {
    // Only keys contain a colon.
    if named.contains(':') {
        let parsed: SessionKey = named.parse().map_err(|error| {
            Failure::new(Kind::Usage, format!("{named:?} is not a session key: {error}"))
                .hint("flock session list")
        })?;
        // Keys are compared without regard to case. The stored spelling is the right one.
        let known = database::read(home, async |reader| reader.sessions().canonical_key(&parsed).await)?;
        return Ok(known.unwrap_or(parsed));
    }
    let agent: AgentId = named.parse().map_err(|error| {
        Failure::new(Kind::Usage, format!("{named:?} is not the id of an agent: {error}"))
            .hint("flock session list")
    })?;
    crate::config::read(home)?.require_agent(&agent)?;
    Ok(SessionKey::new(&agent, SessionKind::Main, &person::login()))
}

/// Returns the session from the database.
///
/// # Errors
///
/// Returns an error if there is none, or if the database can't be read.
pub(crate) fn find(home: &Home, key: &SessionKey) -> Result<Session, Failure> {
    let found = database::read(home, async |reader| reader.sessions().find(key).await)?.flatten();
    found.ok_or_else(|| TurnError::NoSession(key.clone()).into())
}

/// Returns the error that a session already exists.
pub(crate) fn exists(key: &SessionKey) -> Failure {
    Failure::new(Kind::Conflict, format!("session {key} exists already"))
        .hint("flock session import FILE --session KEY")
}
