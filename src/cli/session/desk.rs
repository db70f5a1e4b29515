//! Who looks after sessions: the gateway where it runs, this process where it does not.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::agent::session::Compacted;
use crate::agent::{Engine, Limits, Parts, TurnError, Unwatched};
use crate::cli::reconnect::{Repeat, Waiting};
use crate::cli::{Context, Failure, person, team};
use crate::config::{ConfigError, Live};
use crate::error::Kind;
use crate::gateway::tools;
use crate::home::Home;
use crate::id::{AgentId, SessionKey, SessionKind};
use crate::provider::Catalog;
use crate::store::{Level, NewSession, Reader, Session, Store};
use crate::supervise::loopback::{Client, LoopbackError};
use crate::swarm::By;

/// How long the gateway may take: a turn of the session may run, and a model may be asked for a summary.
const LIMIT: Duration = Duration::from_secs(300);

/// Where sessions are looked after.
pub struct Desk<'a> {
    home: Home,
    live: Arc<Live>,
    gateway: Option<Client>,
    waiting: Waiting,
    context: &'a Context,
}

impl<'a> Desk<'a> {
    /// A desk of this home. A gateway that is about to run is waited for.
    ///
    /// # Errors
    ///
    /// If the home's configuration is not usable, or its gateway runs and can't be used.
    pub async fn open(home: Home, context: &'a Context) -> Result<Self, Failure> {
        let live = Arc::new(Live::open(home.clone())?);
        let waiting = Waiting::default();
        let gateway = waiting.gateway(&home, context).await?;
        Ok(Self { home, live, gateway, waiting, context })
    }

    /// What the session's next request would hold.
    ///
    /// # Errors
    ///
    /// If there is no such session, or in the words of whoever does it; so with all that follow.
    pub async fn report(&self, key: &SessionKey) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            let path = format!("/api/sessions/{key}");
            return self.ask(gateway, Repeat::Safe, async |to| to.get_json(&path, LIMIT).await).await;
        }
        let report = self.engine()?.report(key)?.ok_or_else(|| TurnError::NoSession(key.clone()))?;
        Ok(json!(report))
    }

    /// Compacts it; `null` where there is nothing to take out. Without a gateway no model is asked.
    pub async fn compact(&self, key: &SessionKey) -> Result<Value, Failure> {
        if let Some(gateway) = &self.gateway {
            let done = self.post(gateway, &format!("/api/sessions/{key}/compact"), &json!({})).await?;
            return Ok(done["compacted"].clone());
        }
        let engine = self.engine()?;
        let done: Option<Compacted> = engine.compact(key, false).await?;
        record(engine.store(), key, "session.compact").await?;
        engine.settle().await?;
        Ok(json!(done))
    }

    /// Begins it anew.
    pub async fn reset(&self, key: &SessionKey) -> Result<(), Failure> {
        if let Some(gateway) = &self.gateway {
            return self.post(gateway, &format!("/api/sessions/{key}/reset"), &json!({})).await.map(drop);
        }
        let engine = self.engine()?;
        engine.reset(key, false).await?;
        record(engine.store(), key, "session.reset").await?;
        Ok(engine.settle().await?)
    }

    /// Makes the session of a transcript that is in its place already.
    pub async fn adopt(&self, key: &SessionKey, file: &str) -> Result<(), Failure> {
        if let Some(gateway) = &self.gateway {
            let asked = json!({"key": key, "file": file});
            return self.post(gateway, "/api/sessions", &asked).await.map(drop);
        }
        team::require_none(&self.home)?;
        let store = Store::open(&self.home)?;
        let new = NewSession { key: key.clone(), file: file.to_owned() };
        if !store.make_session(new, crate::clock::unix_ms()).await? {
            return Err(exists(key));
        }
        record(&store, key, "session.import").await?;
        Ok(store.sync().await?)
    }

    /// The home's configuration.
    pub fn live(&self) -> &Live {
        &self.live
    }

    /// Has the gateway do what must not be done twice, or the one that takes its place.
    async fn post(&self, gateway: &Client, path: &str, body: &Value) -> Result<Value, Failure> {
        self.ask(gateway, Repeat::Unsent, async |to| to.post_json(path, body, LIMIT).await).await
    }

    async fn ask(
        &self,
        gateway: &Client,
        repeat: Repeat,
        call: impl AsyncFn(&Client) -> Result<Value, LoopbackError>,
    ) -> Result<Value, Failure> {
        self.waiting.ask(&self.home, self.context, gateway, repeat, call).await
    }

    /// An engine that runs no turns: its tools can't be called.
    fn engine(&self) -> Result<Engine, Failure> {
        team::require_none(&self.home)?;
        Ok(Engine::new(Parts {
            config: self.live.clone(),
            store: Arc::new(Store::open(&self.home)?),
            registry: tools::described(&self.live)?,
            catalog: Catalog::new(self.home.clone()),
            limits: Limits::default(),
            oversight: Arc::new(Unwatched),
        }))
    }
}

/// Writes into the audit who changed a session, as the gateway does where it runs.
async fn record(store: &Store, key: &SessionKey, action: &'static str) -> Result<(), Failure> {
    let by = By { session: Some(key.clone()), ..By::human(&person::login()) };
    let entry = by.entry(action, key.as_str(), Level::Green, String::new());
    Ok(store.audit(entry, crate::clock::unix_ms()).await?)
}

/// The session that a person names: by its key, or their own with an agent.
///
/// # Errors
///
/// If it is neither a key nor an agent.
pub fn key(named: &str, home: &Home) -> Result<SessionKey, Failure> {
    if named.contains(':') {
        let parsed: SessionKey = named.parse().map_err(|error| {
            Failure::new(Kind::Usage, format!("{named:?} is no session's key: {error}"))
                .hint("flock session list")
        })?;
        let known = Reader::open(home)?.map(|reader| reader.spelled(&parsed)).transpose()?;
        return Ok(known.unwrap_or(parsed));
    }
    let agent: AgentId = named.parse().map_err(|error| {
        Failure::new(Kind::Usage, format!("{named:?} is no agent: {error}")).hint("flock session list")
    })?;
    if crate::config::read(home)?.agent(&agent).is_none() {
        return Err(ConfigError::Unknown(agent).into());
    }
    Ok(SessionKey::new(&agent, SessionKind::Main, &person::login()))
}

/// The session as the database has it.
///
/// # Errors
///
/// If there is none, or the database can't be read.
pub fn find(home: &Home, key: &SessionKey) -> Result<Session, Failure> {
    let found = Reader::open(home)?.map(|reader| reader.session(key)).transpose()?.flatten();
    found.ok_or_else(|| TurnError::NoSession(key.clone()).into())
}

/// That a session is there already.
pub fn exists(key: &SessionKey) -> Failure {
    Failure::new(Kind::Conflict, format!("session {key} exists already"))
        .hint("flock session import FILE --session KEY")
}
