//! The events that a prompt follows besides its answer: requests that need a person, turns that others begin, and tasks.

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use agent_client_protocol::v1::schema::{Plan, PlanEntry, SessionUpdate};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::{Events, GatewayEvent};
use super::host::TIMEOUT;
use super::outlet::Outlet;
use super::permission::{self, Decision};
use super::plan;
use super::turn_view::{Part, TurnView};
use crate::cli::Failure;
use crate::clock::unix_ms;
use crate::id::{ChannelId, SessionKey};
use crate::supervise::gateway_client::Client;

/// Time for which a turn is waited for that is told the result of a request.
const RESULT_TIMEOUT: Duration = Duration::from_secs(15);
/// Time for which the event of a turn's end is waited for after its answer has ended.
const OWN_END_TIMEOUT: Duration = Duration::from_secs(5);
/// Turns of a session that are read at once.
const LISTED: usize = 5;

/// The sessions of flock that a session of the editor shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Session(SessionKey),
    Channel(ChannelId),
}

impl Scope {
    /// Returns `true` if the session with this key belongs to it.
    pub(super) fn has(&self, key: &str) -> bool {
        match self {
            Self::Session(own) => own.as_str() == key,
            Self::Channel(own) => key
                .parse::<SessionKey>()
                .ok()
                .and_then(|key| key.channel())
                .is_some_and(|channel| channel.as_str().eq_ignore_ascii_case(own.as_str())),
        }
    }
}

/// News to be handled.
pub(super) enum News {
    Event(GatewayEvent),
    Decision(String, Decision),
    Listing(String, Result<Value, Failure>),
    Tasks(Result<Value, Failure>),
}

type Asking<'a> = Pin<Box<dyn Future<Output = (String, Decision)> + Send + 'a>>;
type Reading = Pin<Box<dyn Future<Output = News> + Send>>;

/// Waits until this moment, or for ever if there is none.
pub(super) async fn moment(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// The events that one prompt follows, and what of them is still open.
pub(super) struct Follow<'a> {
    outlet: &'a Outlet,
    gateway: Client,
    pub(super) scope: Scope,
    events: Events<'a>,
    pub(super) view: TurnView<'a>,
    /// The turn whose answer is streamed another way.
    own_turn: Option<String>,
    /// Until when its end is waited for. Everything that it led to is known then.
    own_end_until: Option<Instant>,
    /// `true` if the channel has new messages.
    has_messages: bool,
    /// `true` once a turn of somebody else has begun.
    pub(super) has_begun: bool,
    /// Turns up to this one were shown before.
    pub(super) seen: Option<String>,
    since: i64,
    asking: FuturesUnordered<Asking<'a>>,
    /// The open questions, and what takes them back.
    questions: HashMap<String, CancellationToken>,
    /// Requests that are carried out.
    executing: HashSet<String>,
    /// Until when a turn with the result of a request is waited for.
    result_until: Option<Instant>,
    /// Turns in the scope that run, with their sessions.
    running: HashMap<String, String>,
    /// Sessions that have something new to be read.
    unread: Vec<String>,
    reading: Option<Reading>,
    tasks_changed: bool,
    plan: Vec<PlanEntry>,
    /// The moment of the last event in the scope.
    pub(super) active_at: Instant,
}

impl<'a> Follow<'a> {
    /// Begins to follow. Nothing that happens from now on is missed.
    pub(super) async fn begin(outlet: &'a Outlet, gateway: Client, scope: Scope, view: TurnView<'a>) -> Self {
        Self {
            outlet,
            gateway,
            scope,
            events: Events::open(&outlet.host).await,
            view,
            own_turn: None,
            own_end_until: None,
            has_messages: false,
            has_begun: false,
            seen: None,
            since: unix_ms(),
            asking: FuturesUnordered::new(),
            questions: HashMap::new(),
            executing: HashSet::new(),
            result_until: None,
            running: HashMap::new(),
            unread: Vec::new(),
            reading: None,
            tasks_changed: true,
            plan: Vec::new(),
            active_at: Instant::now(),
        }
    }

    /// Waits for news. It can be dropped at any time without losing any.
    pub(super) async fn news(&mut self) -> News {
        self.read_next();
        let reading = async {
            match &mut self.reading {
                Some(reading) => reading.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            news = reading => news,
            Some((id, decision)) = self.asking.next(), if !self.asking.is_empty() => News::Decision(id, decision),
            event = self.events.next() => News::Event(event),
        }
    }

    /// Handles news. It must not be dropped.
    pub(super) async fn handle(&mut self, news: News) {
        match news {
            News::Event(GatewayEvent::Named(name, data)) => self.event(&name, &data).await,
            News::Event(GatewayEvent::Missed) => self.look_again().await,
            News::Decision(id, decision) => self.decided(id, decision),
            News::Listing(key, listing) => {
                self.reading = None;
                if let Ok(listing) = listing {
                    self.list(&key, &listing).await;
                }
            }
            News::Tasks(tasks) => {
                self.reading = None;
                let Ok(tasks) = tasks else { return };
                let entries = plan::entries(&tasks, &self.scope, self.since);
                if entries != self.plan {
                    self.plan.clone_from(&entries);
                    self.outlet.update(SessionUpdate::Plan(Plan::new(entries))).await;
                }
            }
        }
    }

    /// Returns the moment from which on nothing is waited for any more, or `None` while something is.
    pub(super) fn settled_at(&self) -> Option<Instant> {
        let is_busy = !self.asking.is_empty()
            || !self.executing.is_empty()
            || !self.running.is_empty()
            || !self.unread.is_empty()
            || self.reading.is_some()
            || self.tasks_changed;
        (!is_busy).then(|| self.result_until.max(self.own_end_until).unwrap_or_else(Instant::now))
    }

    /// Notes the turn whose answer is streamed another way.
    pub(super) fn own(&mut self, turn: &str) {
        self.running.remove(turn);
        self.own_turn = Some(turn.to_owned());
        // It never ends by this: `own_ended` shortens it.
        self.own_end_until = Some(Instant::now() + Duration::from_secs(86_400));
    }

    /// Notes that the answer of that turn has ended. The event of its end follows at once, if it is not here already.
    pub(super) fn own_ended(&mut self) {
        self.own_end_until = self.own_end_until.map(|until| until.min(Instant::now() + OWN_END_TIMEOUT));
    }

    /// Returns `true` if the channel has messages that were not read since the last call.
    pub(super) const fn take_messages(&mut self) -> bool {
        std::mem::replace(&mut self.has_messages, false)
    }

    /// Asks about a request that waits for a person, unless that is asked already.
    pub(super) fn ask(&mut self, id: &str) {
        if self.questions.contains_key(id) {
            return;
        }
        let withdrawn = CancellationToken::new();
        self.questions.insert(id.to_owned(), withdrawn.clone());
        let (outlet, gateway, scope) = (self.outlet, self.gateway.clone(), self.scope.clone());
        let id = id.to_owned();
        self.asking.push(Box::pin(async move {
            let decision = permission::ask(outlet, &gateway, &scope, &id, &withdrawn).await;
            (id, decision)
        }));
    }

    /// Has the newest turns of a session read.
    pub(super) fn read(&mut self, key: &str) {
        if !self.unread.iter().any(|unread| unread == key) {
            self.unread.push(key.to_owned());
        }
    }

    fn read_next(&mut self) {
        if self.reading.is_some() {
            return;
        }
        let gateway = self.gateway.clone();
        if let Some(key) = self.unread.pop() {
            self.reading = Some(Box::pin(async move {
                let path = format!("/api/sessions/{key}/transcript?limit={LISTED}");
                let listing = gateway.get_json(&path, TIMEOUT).await.map_err(Failure::from);
                News::Listing(key, listing)
            }));
        } else if std::mem::take(&mut self.tasks_changed) {
            self.reading = Some(Box::pin(async move {
                News::Tasks(gateway.get_json("/api/tasks?limit=200", TIMEOUT).await.map_err(Failure::from))
            }));
        }
    }

    async fn event(&mut self, name: &str, data: &Value) {
        let text = |key: &str| data[key].as_str().unwrap_or_default();
        let (id, turn, session) = (text("id"), text("turn"), text("session"));
        match name {
            "approval.waiting" => self.ask(id),
            "approval.decided" | "approval.ended" => {
                if let Some(withdrawn) = self.questions.get(id) {
                    withdrawn.cancel();
                }
                if name == "approval.ended" && self.executing.remove(id) {
                    self.result_until = Some(Instant::now() + RESULT_TIMEOUT);
                }
            }
            "task.changed" => self.tasks_changed = true,
            "channel.message" if self.is_channel(text("channel")) => self.has_messages = true,
            _ if !self.scope.has(session) => return,
            "turn.started" if self.own_turn.as_deref() != Some(turn) => {
                self.running.insert(turn.to_owned(), session.to_owned());
                self.has_begun = true;
                self.result_until = None;
            }
            "turn.ended" => {
                self.running.remove(turn);
                if self.own_turn.as_deref() == Some(turn) {
                    self.own_end_until = None;
                }
                self.read(session);
            }
            "tool.started" => {
                // The streamed answer tells of its calls with their arguments, which this event lacks.
                if self.own_turn.as_deref() != Some(turn) {
                    let agent = agent_of(session);
                    self.view.begin(&agent, turn, (text("call"), text("tool")), "").await;
                }
                self.read(session);
            }
            "tool.ended" => {
                self.view.end(turn, text("call"), data["isError"] == true).await;
                self.read(session);
            }
            _ => return,
        }
        self.active_at = Instant::now();
    }

    fn is_channel(&self, id: &str) -> bool {
        matches!(&self.scope, Scope::Channel(own) if own.as_str().eq_ignore_ascii_case(id))
    }

    fn decided(&mut self, id: String, decision: Decision) {
        self.questions.remove(&id);
        match decision {
            Decision::NotAsked | Decision::Open => {}
            Decision::Decided => drop(self.executing.insert(id)),
            Decision::Ended => self.result_until = Some(Instant::now() + RESULT_TIMEOUT),
        }
    }

    /// Finds out what happened while events were missed.
    async fn look_again(&mut self) {
        self.tasks_changed = true;
        self.has_messages = true;
        self.own_end_until = None;
        let sessions: Result<Value, _> = self.gateway.get_json("/api/sessions", TIMEOUT).await;
        if let Ok(listed) = sessions {
            let text = |turn: &Value, key: &str| turn[key].as_str().unwrap_or_default().to_owned();
            let turns = listed["turns"].as_array().into_iter().flatten();
            let now: HashMap<_, _> = turns
                .map(|turn| (text(turn, "turn"), text(turn, "session")))
                .filter(|(turn, session)| self.scope.has(session) && self.own_turn.as_ref() != Some(turn))
                .collect();
            let before = std::mem::replace(&mut self.running, now);
            before.values().for_each(|session| self.read(session));
        }
        for id in self.executing.clone() {
            let row = permission::read(&self.gateway, &id).await;
            if row.is_ok_and(|row| permission::after(&row) != Decision::Decided) {
                self.executing.remove(&id);
                self.result_until = Some(Instant::now() + RESULT_TIMEOUT);
            }
        }
    }

    async fn list(&mut self, key: &str, listing: &Value) {
        let agent = agent_of(key);
        for turn in listing["turns"].as_array().into_iter().flatten() {
            let id = turn["turn"].as_str();
            // Ids of turns sort by time.
            if id <= self.seen.as_deref() {
                continue;
            }
            let has_text = matches!(self.scope, Scope::Session(_)) && id != self.own_turn.as_deref();
            // What a turn says is shown when it is complete, so that no text is shown in two pieces.
            let is_over = turn["state"] != "started";
            let part = if has_text && is_over { Part::All } else { Part::Calls };
            self.view.list(&agent, turn, part).await;
        }
    }
}

/// Returns the agent of a session.
fn agent_of(key: &str) -> String {
    key.parse::<SessionKey>().map(|key| key.agent().to_string()).unwrap_or_default()
}
