//! The state of one editor's connection: the agent or channel it talks to, the way to the gateway, and its open sessions.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::open_session::OpenSession;
use super::outlet::OutletGauge;
use crate::cli::reconnect::Reconnector;
use crate::cli::{Context, Failure, team};
use crate::error::Kind;
use crate::id::{AgentId, ChannelId};
use crate::supervise::gateway_client::{Call, Client};
use crate::sync::lock;

/// Time that the gateway may take for one request.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Number of requests of the editor that are carried out at once. Further ones are not read.
const MAX_CONCURRENT: usize = 256;
/// Number of sessions that may be open at once.
const MAX_OPEN: usize = 64;
/// Time that requests may take to end after the editor has closed stdin.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// The partner of the editor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Agent(AgentId),
    /// The agent that divides work, whatever its id is.
    Orchestrator,
    Channel(ChannelId),
}

/// The state of one connection.
pub(super) struct Host {
    pub(super) context: Context,
    pub(super) target: Target,
    pub(super) gauge: OutletGauge,
    /// Cancelled when the editor has closed stdin.
    pub(super) over: CancellationToken,
    tasks: TaskTracker,
    running: AtomicUsize,
    task_ended: Notify,
    sessions: Mutex<HashMap<String, Arc<OpenSession>>>,
}

/// An agent as the gateway describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AgentView {
    pub(super) id: AgentId,
    /// The absolute path of its workspace on the host.
    pub(super) workspace: String,
}

impl Host {
    /// Creates the state of a new connection.
    pub(super) fn new(context: Context, target: Target) -> Self {
        Self {
            context,
            target,
            gauge: OutletGauge::default(),
            over: CancellationToken::new(),
            tasks: TaskTracker::new(),
            running: AtomicUsize::new(0),
            task_ended: Notify::new(),
            sessions: Mutex::default(),
        }
    }

    /// Carries out work of a request beside the reading of further ones.
    pub(super) fn spawn(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let host = Arc::clone(self);
        self.running.fetch_add(1, Ordering::SeqCst);
        self.tasks.spawn(async move {
            work.await;
            host.running.fetch_sub(1, Ordering::SeqCst);
            host.task_ended.notify_waiters();
        });
    }

    /// Waits until a further request may be read.
    pub(super) async fn has_room(&self) {
        loop {
            // Registered before the check, so that an end in between is not missed.
            let ended = self.task_ended.notified();
            if self.running.load(Ordering::SeqCst) < MAX_CONCURRENT {
                return;
            }
            ended.await;
        }
    }

    /// Ends the running prompts, because the editor is gone, and waits for the answers to what it had asked.
    pub(super) async fn end(&self) {
        self.over.cancel();
        self.tasks.close();
        drop(tokio::time::timeout(END_TIMEOUT, self.tasks.wait()).await);
    }

    /// Returns the gateway. It waits for one that is being restarted.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no home, if the configuration is not valid, or if no gateway runs.
    pub(super) async fn gateway(&self) -> Result<Client, Failure> {
        let home = self.context.home()?;
        Reconnector::new(&home, &self.context).gateway().await?.ok_or_else(team::not_running)
    }

    /// Returns the agent that the editor talks to.
    ///
    /// # Errors
    ///
    /// Returns an error if the gateway can't be asked or does not know the agent.
    pub(super) async fn agent(&self, gateway: &Client) -> Result<AgentView, Failure> {
        let listed: Value = gateway.get_json("/api/agents", TIMEOUT).await?;
        let is_it = |agent: &&Value| match &self.target {
            Target::Agent(id) => agent["id"] == id.as_str(),
            _ => agent["role"] == "orchestrator",
        };
        let missing = || {
            let text = match &self.target {
                Target::Agent(id) => format!("there is no agent {id}"),
                _ => "there is no orchestrator".to_owned(),
            };
            Failure::new(Kind::Failed, text).hint("flock list")
        };
        let found = listed["agents"].as_array().into_iter().flatten().find(is_it).ok_or_else(missing)?;
        let id = found["id"].as_str().and_then(|id| id.parse().ok()).ok_or_else(missing)?;
        Ok(AgentView { id, workspace: found["workspace"].as_str().unwrap_or_default().to_owned() })
    }

    /// Returns a channel as the gateway describes it.
    ///
    /// # Errors
    ///
    /// Returns an error if the gateway can't be asked or does not know the channel.
    pub(super) async fn channel(&self, gateway: &Client, id: &ChannelId) -> Result<Value, Failure> {
        let found = gateway.ask(Call::get(&format!("/api/channels/{id}")), TIMEOUT).await;
        let found = found.map_err(|error| Failure::from(error).or_hint("flock channel list"))?;
        Ok(found.json(TIMEOUT).await?)
    }

    /// Keeps a session that the editor opens. A session that is open already stays as it is.
    ///
    /// # Errors
    ///
    /// Returns an error if too many are open.
    pub(super) fn open(&self, session: OpenSession) -> Result<Arc<OpenSession>, Failure> {
        let mut sessions = lock(&self.sessions);
        if let Some(known) = sessions.get(&session.id) {
            return Ok(Arc::clone(known));
        }
        if sessions.len() >= MAX_OPEN {
            let text = format!("{MAX_OPEN} sessions are open; close one first");
            return Err(Failure::new(Kind::Failed, text));
        }
        let session = Arc::new(session);
        sessions.insert(session.id.clone(), Arc::clone(&session));
        Ok(session)
    }

    /// Returns an open session.
    ///
    /// # Errors
    ///
    /// Returns an error if the editor has not opened it.
    pub(super) fn session(&self, id: &str) -> Result<Arc<OpenSession>, Failure> {
        let found = lock(&self.sessions).get(id).cloned();
        found.ok_or_else(|| {
            let id = crate::clean::summary(id, 200);
            Failure::new(
                Kind::Usage,
                format!("session {id} is not open; `session/new` or `session/load` opens one"),
            )
        })
    }

    /// Forgets a session and ends its prompt. Its conversation stays in flock.
    pub(super) fn close(&self, id: &str) {
        if let Some(session) = lock(&self.sessions).remove(id) {
            session.cancel();
        }
    }
}
