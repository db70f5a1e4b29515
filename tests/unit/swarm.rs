//! Test support for the team: a home, a real database, and a notifier that records events.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::sync::mpsc;

use super::lease::Ownership;
use super::scheduler::SchedulerEvent;
use super::{Actor, Notifier, Swarm, SwarmParts};
use crate::config::{Live, Role, agents, starter};
use crate::home::{Home, atomic, instance};
use crate::id::{Party, SessionKey, TurnId};
use crate::store::{InboxItem, Store};
use crate::tool::{CallContext, Tool, fake};

/// A team of `orchestrator`, `sysadmin`, and the workers `coder` and `tester`.
pub(crate) struct Team {
    pub swarm: Arc<Swarm>,
    pub store: Arc<Store>,
    events: Mutex<mpsc::UnboundedReceiver<SchedulerEvent>>,
    news: Arc<Mutex<Vec<String>>>,
    _dir: tempfile::TempDir,
}

impl Team {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// Creates a team of which other gateways may have agents, too.
    pub(crate) fn in_group(ownership: Arc<Ownership>) -> Self {
        Self::new().owned_by(ownership)
    }

    /// Lets other gateways have agents of the team, too.
    pub(crate) fn owned_by(mut self, ownership: Arc<Ownership>) -> Self {
        Arc::get_mut(&mut self.swarm).unwrap().ownership = ownership;
        self
    }

    /// Creates a team with a change to flock's own settings.
    pub(crate) fn with(change: impl FnOnce(&mut Value)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::new(dir.path().join("home"), None);
        home.make_folders().unwrap();
        instance::settle(&home).unwrap();
        let mut document = starter::document(&home, Some(&"script/demo".parse().unwrap()), "token", 1);
        for (id, role) in [
            ("orchestrator", Role::Orchestrator),
            ("sysadmin", Role::Sysadmin),
            ("coder", Role::Worker),
            ("tester", Role::Worker),
        ] {
            let new = agents::NewAgent {
                archetype: (id == "coder").then(|| "code-first-developer".to_owned()),
                ..agents::NewAgent::new(id.parse().unwrap(), role)
            };
            agents::add(&mut document, &home, &new).unwrap();
        }
        change(&mut document["plugins"]["entries"]["flock"]["config"]);
        atomic::write(&home.config(), document.to_string().as_bytes(), 0o600).unwrap();
        let store = Arc::new(Store::open(&home).unwrap());
        let (sender, events) = mpsc::unbounded_channel();
        let news: Arc<Mutex<Vec<String>>> = Arc::default();
        let published = Arc::clone(&news);
        let publish = move |name: &str, _: &Value| published.lock().unwrap().push(name.to_owned());
        let notifier = Notifier::new(sender, Arc::new(publish));
        let live = Arc::new(Live::open(home).unwrap());
        let swarm = Arc::new(Swarm::new(SwarmParts { live, store: Arc::clone(&store), notifier }));
        Self { swarm, store, events: Mutex::new(events), news, _dir: dir }
    }

    /// Returns an agent that acts from one of its sessions.
    pub(crate) fn by(&self, agent: &str, session: &str) -> Actor {
        Actor {
            party: Party::Agent(agent.parse().unwrap()),
            session: Some(session.parse().unwrap()),
            turn: Some(TurnId::new()),
        }
    }

    /// Calls the tool with this name as an agent in its `main` session, and returns the answer or the error.
    pub(crate) async fn call(
        tools: &[Arc<dyn Tool>],
        agent: &str,
        name: &str,
        arguments: Value,
    ) -> Result<String, String> {
        let context = CallContext {
            agent: agent.parse().unwrap(),
            session: format!("agent:{agent}:flock:main:me").parse().unwrap(),
            ..fake::context()
        };
        let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
        fake::call_in(&context, &**tool, arguments).await
    }

    /// Returns the scheduler events since the last call.
    pub(crate) fn events(&self) -> Vec<SchedulerEvent> {
        let mut events = self.events.lock().unwrap();
        std::iter::from_fn(|| events.try_recv().ok()).collect()
    }

    /// Returns the names of what watchers were told since the last call.
    pub(crate) fn published(&self) -> Vec<String> {
        std::mem::take(&mut self.news.lock().unwrap())
    }

    /// Waits for the next scheduler event.
    pub(crate) async fn next_event(&self) -> SchedulerEvent {
        std::future::poll_fn(|context| self.events.lock().unwrap().poll_recv(context)).await.unwrap()
    }

    /// Returns the sessions with unread messages that were reported since the last call.
    pub(crate) fn notified_sessions(&self) -> Vec<String> {
        let session = |event| match event {
            SchedulerEvent::Unseen { session, .. } => Some(session.to_string()),
            _ => None,
        };
        self.events().into_iter().filter_map(session).collect()
    }

    /// Takes the next inbox item of this session for a turn.
    pub(crate) async fn take(&self, session: &SessionKey, turn: TurnId) -> Option<InboxItem> {
        self.store.inbox().take(session.clone(), turn).await.unwrap()
    }

    /// Returns the actions in the audit.
    pub(crate) async fn audited(&self) -> Vec<String> {
        self.store.audit().actions().await
    }
}
