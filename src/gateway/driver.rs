//! Runs turns. A session runs one turn at a time. Each turn has a task of its own, so it ends in order even if its
//! client has disconnected.

use std::collections::HashMap;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Instant;

use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::events::EventBuffer;
use super::limits::ServerLimits;
use super::metrics::{TurnMetrics, TurnStatus};
use super::queue::{QueueFull, QueueSlot, SessionQueues};
use super::turn_trace::TurnTrace;
use crate::agent::{Provenance, TurnError, TurnEvent, TurnOutcome, TurnRequest};
use crate::clock::unix_ms;
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::provider::{BoxFuture, Message};
use crate::swarm::lease::{LeaseUse, Ownership};
use crate::sync::lock;
use crate::telemetry::{self, Telemetry, TraceContext};

/// A callback that receives a turn's events. It is called in order, from one task, and must not block.
pub type EventCallback<'a> = &'a mut (dyn FnMut(TurnEvent) + Send);

/// A backend that runs one turn to its end.
pub trait TurnRunner: Send + Sync + 'static {
    /// Runs the turn. Cancelling `cancel` ends it in order; dropping the future does not.
    fn run<'a>(
        &'a self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: EventCallback<'a>,
    ) -> BoxFuture<'a, Result<TurnOutcome, TurnError>>;
}

/// The reason why a turn was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TurnRefused {
    /// Too many turns wait already.
    #[error(transparent)]
    Full(#[from] QueueFull),
    /// The gateway is stopping and accepts no turn any more.
    #[error("the gateway is stopping")]
    Stopping,
    /// The turns of the agent do not run on this gateway now.
    #[error("the agent's turns do not run on this gateway; another one has taken it, or is about to")]
    Elsewhere,
}

/// The reason why an accepted turn produced no outcome.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TurnFailure {
    /// The turn itself failed.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// The answer does not have the format that the client asked for, not even after the agent was asked once more.
    #[error("the agent's answer does not have the requested format: {0}")]
    Form(String),
    /// The turn's task ended without a result, for example because it panicked.
    #[error("the turn broke off")]
    Lost,
}

/// A turn that was accepted. Dropping this handle cancels the turn.
#[derive(Debug)]
pub(crate) struct TurnHandle {
    pub id: TurnId,
    pub session: SessionKey,
    result: oneshot::Receiver<Result<TurnOutcome, TurnFailure>>,
    cancel: DropGuard,
    work: Arc<AtomicBool>,
}

impl TurnHandle {
    /// Returns `true` if the turn has done work that a second attempt would repeat.
    #[must_use]
    pub(crate) fn did_something(&self) -> bool {
        self.work.load(Ordering::Acquire)
    }

    /// Waits for the end of the turn.
    ///
    /// # Errors
    ///
    /// Returns [`TurnFailure::Turn`] if the turn failed or was cancelled, [`TurnFailure::Form`] if its answer does not
    /// have the requested format, and [`TurnFailure::Lost`] if its task ended without a result.
    pub(crate) async fn end(&mut self) -> Result<TurnOutcome, TurnFailure> {
        std::future::poll_fn(|context| self.poll_end(context)).await
    }

    /// Polls for the end of the turn, as [`Self::end`] does. It must not be called again after it returned `Ready`.
    pub(crate) fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<TurnOutcome, TurnFailure>> {
        Pin::new(&mut self.result).poll(context).map(|result| match result {
            // The sender is dropped without a value only if the task of the turn broke.
            Ok(result) => result,
            Err(_) => Err(TurnFailure::Lost),
        })
    }

    /// Returns the same turn with its result replaced by the one that `then` makes of it.
    ///
    /// `then` gets the result, and `true` if the turn has done work that a second attempt would repeat.
    #[must_use]
    pub(crate) fn then<N, F>(self, then: N) -> Self
    where
        N: FnOnce(Result<TurnOutcome, TurnFailure>, bool) -> F + Send + 'static,
        F: Future<Output = Result<TurnOutcome, TurnFailure>> + Send,
    {
        let Self { id, session, result, cancel, work } = self;
        let (sender, made) = oneshot::channel();
        let done = Arc::clone(&work);
        tokio::spawn(async move {
            let ended = result.await.unwrap_or(Err(TurnFailure::Lost));
            let did_something = done.load(Ordering::Acquire);
            drop(sender.send(then(ended, did_something).await));
        });
        Self { id, session, result: made, cancel, work }
    }

    /// Returns the same turn, which now continues even if the handle is dropped.
    #[must_use]
    pub(crate) fn detached(self) -> Self {
        let Self { id, session, result, cancel, work } = self;
        cancel.disarm();
        // A fresh token takes the place of the real one, so dropping the handle cancels nothing.
        Self { id, session, result, cancel: CancellationToken::new().drop_guard(), work }
    }
}

/// The source of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnOrigin {
    /// A request of a client.
    Request,
    /// A message of another session. The sender does not wait for the turn.
    Message,
    /// The team: messages of a channel, a direct message, or the outcome of a request.
    Team,
    /// A task of another turn. That turn waits for it and keeps its own slot meanwhile.
    Task,
}

impl TurnOrigin {
    /// Returns its word in traces.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Message => "message",
            Self::Team => "team",
            Self::Task => "task",
        }
    }
}

/// The message of a turn that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingMessage {
    /// The beginning of its text.
    pub text: String,
    /// The sender, if known: `human:NAME`, an agent's id, or the key of a session.
    pub by: Option<String>,
}

impl WaitingMessage {
    /// Number of characters of the text that are kept.
    const MAX_TEXT: usize = 500;

    fn of(request: &TurnRequest) -> Self {
        let mut text = request.input.last().map(Message::joined_text).unwrap_or_default();
        if let Some((end, _)) = text.char_indices().nth(Self::MAX_TEXT) {
            text.truncate(end);
            text.push('…');
        }
        let session = &request.session;
        let by = match &request.provenance {
            Some(Provenance::Dm { peer, .. }) => Some(peer.clone()),
            Some(Provenance::InterSession { session, .. }) => Some(session.to_string()),
            Some(_) => None,
            // Such a session belongs to a person or to a client, and its key says which.
            None => (session.kind() == SessionKind::Main).then(|| format!("human:{}", session.peer())),
        };
        Self { text, by }
    }
}

/// The result of taking back a turn.
#[derive(Clone, Debug)]
pub(crate) enum Withdrawal {
    /// It waited and is cancelled. The token is cancelled once it has ended.
    Cancelled(CancellationToken),
    /// It has begun already.
    TooLate,
    /// No such turn is in this session.
    Unknown,
}

/// A turn that runs or waits.
#[derive(Clone, Debug)]
pub struct ActiveTurn {
    pub agent: AgentId,
    pub session: SessionKey,
    /// Its message while it waits for another turn of its session or for a free slot.
    pub waiting: Option<WaitingMessage>,
    /// Unix milliseconds at which it began, or began to wait.
    pub since: i64,
    /// The tool that runs now. Of several, it is the one that was called last.
    pub tool: Option<String>,
    pub origin: TurnOrigin,
    cancel: CancellationToken,
    ended: CancellationToken,
}

impl ActiveTurn {
    /// Returns `true` while it waits.
    #[must_use]
    pub const fn waits(&self) -> bool {
        self.waiting.is_some()
    }
}

#[cfg(test)]
impl ActiveTurn {
    /// Returns a turn of this session.
    pub(crate) fn for_test(session: &str, since: i64, waits: bool) -> Self {
        let session: SessionKey = session.parse().unwrap();
        Self {
            agent: session.agent().clone(),
            session,
            waiting: waits.then(|| WaitingMessage { text: "later".to_owned(), by: None }),
            since,
            tool: None,
            origin: TurnOrigin::Request,
            cancel: CancellationToken::new(),
            ended: CancellationToken::new(),
        }
    }
}

/// Accepts turns, queues them by session and runs them.
pub struct TurnDriver {
    runner: Arc<dyn TurnRunner>,
    queues: Arc<SessionQueues>,
    events: Arc<EventBuffer>,
    metrics: TurnMetrics,
    telemetry: Arc<Telemetry>,
    active: Mutex<HashMap<TurnId, ActiveTurn>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    ready: CancellationToken,
    ownership: Arc<Ownership>,
}

impl TurnDriver {
    /// Creates a driver for this runner. Turns wait until [`Self::recovered`] has been called.
    #[must_use]
    pub(crate) fn new(
        runner: Arc<dyn TurnRunner>,
        events: Arc<EventBuffer>,
        limits: &ServerLimits,
        telemetry: Arc<Telemetry>,
        ownership: Arc<Ownership>,
    ) -> Self {
        Self {
            runner,
            queues: Arc::new(SessionQueues::new(limits.turns, limits.waiting_per_session, limits.waiting)),
            events,
            metrics: TurnMetrics::default(),
            telemetry,
            active: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            ready: CancellationToken::new(),
            ownership,
        }
    }

    /// Lets turns begin. Called once the turns that an earlier run left unfinished have been marked.
    pub fn recovered(&self) {
        self.ready.cancel();
    }

    /// Accepts a turn. Cancelling `cancel` ends it.
    ///
    /// # Errors
    ///
    /// Returns [`TurnRefused::Full`] if too many turns wait already, in this session or in total, [`TurnRefused::Stopping`]
    /// if the gateway is stopping, and [`TurnRefused::Elsewhere`] if another gateway takes care of the agent.
    pub(crate) fn start(
        self: &Arc<Self>,
        request: TurnRequest,
        origin: TurnOrigin,
        cancel: CancellationToken,
        mut on_event: impl FnMut(TurnEvent) + Send + 'static,
    ) -> Result<TurnHandle, TurnRefused> {
        let lease = self.ownership.enter_agent(&request.agent).ok_or(TurnRefused::Elsewhere)?;
        // The place is taken before anything else, so the order of requests is the order in the queue.
        let place = self.queues.enter(&request.session, origin == TurnOrigin::Task)?;
        let (sender, result) = oneshot::channel();
        let work = Arc::new(AtomicBool::new(false));
        let turn = TurnHandle {
            id: request.turn,
            session: request.session.clone(),
            result,
            cancel: cancel.clone().drop_guard(),
            work: Arc::clone(&work),
        };
        let mut on_event = move |event: TurnEvent| {
            if event.is_work() {
                work.store(true, Ordering::Release);
            }
            on_event(event);
        };
        lock(&self.active).insert(
            request.turn,
            ActiveTurn {
                agent: request.agent.clone(),
                session: request.session.clone(),
                waiting: Some(WaitingMessage::of(&request)),
                since: unix_ms(),
                tool: None,
                origin,
                cancel: cancel.clone(),
                ended: CancellationToken::new(),
            },
        );
        // This must come after the insertion above. `Self::stop` sets the flag first and then cancels every turn in the
        // list, so a turn is either in that list or sees the flag here.
        let is_stopping = self.stop.is_cancelled();
        // The turn has a task of its own, so what it belongs to is handed over.
        let above = telemetry::current().and_then(|current| current.context().cloned());
        let (turn_id, session) = (request.turn, request.session.clone());
        let entry = Entry { driver: self.clone(), turn: turn_id, session, origin, above, _lease: lease };
        if is_stopping {
            return Err(TurnRefused::Stopping);
        }
        self.tasks.spawn(async move {
            let result = entry.run(request, place, cancel, &mut on_event).await;
            // The entry leaves the list before the result is sent: a client that reads the result must not find its
            // turn still active.
            drop(entry);
            // Sending fails if nobody waits for the result any more.
            drop(sender.send(result.map_err(TurnFailure::Turn)));
        });
        Ok(turn)
    }

    /// Returns the counts of turns since the gateway was started.
    #[must_use]
    pub(crate) const fn metrics(&self) -> &TurnMetrics {
        &self.metrics
    }

    /// Returns the turns that run or wait now.
    #[must_use]
    pub fn list(&self) -> Vec<(TurnId, ActiveTurn)> {
        lock(&self.active).iter().map(|(turn, active)| (*turn, active.clone())).collect()
    }

    /// Returns how many turns run and how many wait.
    #[must_use]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let active = lock(&self.active);
        let waiting = active.values().filter(|turn| turn.waits()).count();
        (active.len() - waiting, waiting)
    }

    /// Cancels all turns of an agent. Each of the returned tokens is cancelled once its turn has ended.
    pub fn cancel_agent(&self, agent: &AgentId) -> Vec<CancellationToken> {
        let active = lock(&self.active);
        let turns = active.values().filter(|turn| turn.agent == *agent);
        let ends = turns.map(|turn| {
            turn.cancel.cancel();
            turn.ended.clone()
        });
        ends.collect()
    }

    /// Cancels a turn. The returned token is cancelled once the turn has ended. Returns `None` if the turn neither runs
    /// nor waits.
    pub(crate) fn cancel_turn(&self, turn: TurnId) -> Option<CancellationToken> {
        let active = lock(&self.active);
        let turn = active.get(&turn)?;
        turn.cancel.cancel();
        Some(turn.ended.clone())
    }

    /// Cancels a turn of this session if it still waits.
    pub(crate) fn withdraw(&self, session: &SessionKey, turn: TurnId) -> Withdrawal {
        let active = lock(&self.active);
        match active.get(&turn).filter(|turn| turn.session == *session) {
            None => Withdrawal::Unknown,
            Some(turn) if !turn.waits() => Withdrawal::TooLate,
            Some(turn) => {
                turn.cancel.cancel();
                Withdrawal::Cancelled(turn.ended.clone())
            }
        }
    }

    /// Refuses new turns from now on and cancels every running or waiting one.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
        // A turn that is being accepted at this moment is either in the list or sees the stop flag.
        for turn in lock(&self.active).values() {
            turn.cancel.cancel();
        }
        self.tasks.close();
    }

    /// Waits for the last turn to end. It returns only after [`Self::stop`] was called.
    pub async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// Returns the source of the turn that runs in a session now, if one runs.
    #[must_use]
    pub(crate) fn origin(&self, session: &SessionKey) -> Option<TurnOrigin> {
        let active = lock(&self.active);
        active.values().find(|turn| !turn.waits() && turn.session == *session).map(|turn| turn.origin)
    }
}

/// A turn's entry in the list of active turns. Dropping it removes the entry, also during a panic.
struct Entry {
    driver: Arc<TurnDriver>,
    turn: TurnId,
    session: SessionKey,
    origin: TurnOrigin,
    /// The span of flock or of a client that asked for the turn.
    above: Option<TraceContext>,
    /// Keeps the agent on this gateway.
    _lease: LeaseUse,
}

impl Entry {
    async fn run(
        &self,
        request: TurnRequest,
        place: QueueSlot,
        cancel: CancellationToken,
        on_event: EventCallback<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let driver = &self.driver;
        let accepted = Instant::now();
        // Turns wait for recovery before they wait for a slot, so that none begins while unfinished turns are being
        // marked.
        let turn = async {
            driver.ready.cancelled().await;
            if !driver.ownership.until_settled(&request.agent).await {
                return None;
            }
            Some(place.wait().await)
        };
        let _permit = tokio::select! {
            // `biased` polls the cancellation first. A turn whose client disconnected while it waited must not begin,
            // even if its slot is free now.
            biased;
            () = cancel.cancelled() => return Err(TurnError::Cancelled),
            permit = turn => match permit {
                Some(permit) => permit,
                // The agent's lease went away before its turns were taken up.
                None => return Err(TurnError::Cancelled),
            },
        };
        if let Some(active) = lock(&driver.active).get_mut(&self.turn) {
            // `withdraw` cancels under the same lock, so a turn that was taken back never begins.
            if cancel.is_cancelled() {
                return Err(TurnError::Cancelled);
            }
            active.waiting = None;
            active.since = unix_ms();
        }
        let waited = accepted.elapsed();
        driver.metrics.began(&request.agent, waited);
        let above = driver.telemetry.enter(self.above.clone());
        let trace = above.map(|above| TurnTrace::begin(&above, &request, self.origin, waited));
        let (agent, began) = (request.agent.clone(), Instant::now());
        let what = json!({"turn": self.turn, "agent": request.agent, "session": request.session});
        let mut is_announced = false;
        let result = {
            let mut tell = |event: TurnEvent| {
                // Not earlier: a turn's first event says that its input is committed, so a watcher that reads the
                // transcript because of this finds the turn there.
                if !is_announced {
                    driver.events.publish("turn.started", &what);
                    is_announced = true;
                }
                driver.note(self.turn, &self.session, &event);
                on_event(event);
            };
            let run = driver.runner.run(request, cancel, &mut tell);
            telemetry::scoped(trace.as_ref().map(TurnTrace::current), run).await
        };
        if let Some(trace) = trace {
            trace.end(&result);
        }
        if !is_announced {
            driver.events.publish("turn.started", &what);
        }
        let status = match &result {
            Ok(_) => TurnStatus::Done,
            Err(TurnError::Cancelled) => TurnStatus::Cancelled,
            Err(_) => TurnStatus::Failed,
        };
        driver.metrics.ended(&agent, status, began.elapsed());
        let mut what = what;
        what["status"] = status.as_str().into();
        match &result {
            Ok(outcome) => {
                what["model"] = outcome.model.as_str().into();
                what["steps"] = outcome.steps.into();
                what["usage"] = serde_json::to_value(outcome.usage).unwrap_or_default();
            }
            Err(TurnError::Cancelled) => {}
            Err(error) => what["error"] = error.to_string().into(),
        }
        driver.events.publish("turn.ended", &what);
        result
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(active) = lock(&self.driver.active).remove(&self.turn) {
            active.ended.cancel();
        }
    }
}

impl TurnDriver {
    /// Publishes the short and infrequent events of a turn to watchers. Text goes only to the client that asked.
    pub(super) fn note(&self, turn: TurnId, session: &SessionKey, event: &TurnEvent) {
        match event {
            TurnEvent::ToolStarted { name, .. } => self.set_tool(turn, Some(name.clone())),
            TurnEvent::ToolEnded { .. } => self.set_tool(turn, None),
            _ => {}
        }
        let (name, data) = match event {
            TurnEvent::Began | TurnEvent::TextDelta(_) | TurnEvent::ThinkingDelta(_) => return,
            TurnEvent::ToolStarted { call_id, name, .. } => {
                ("tool.started", json!({"turn": turn, "session": session, "call": call_id, "tool": name}))
            }
            TurnEvent::ToolEnded { call_id, name, is_error, took } => {
                self.metrics.tool_ended(session.agent(), *is_error, *took);
                let what = json!({"turn": turn, "session": session, "call": call_id, "tool": name,
                    "isError": is_error, "tookMs": millis(*took)});
                ("tool.ended", what)
            }
            TurnEvent::Retrying { attempt, after, reason } => (
                "turn.retrying",
                json!({"turn": turn, "session": session, "attempt": attempt, "afterMs": millis(*after),
                    "reason": reason}),
            ),
            TurnEvent::TextReplaced => return,
            TurnEvent::Notice(text) => {
                ("turn.notice", json!({"turn": turn, "session": session, "text": text}))
            }
        };
        self.events.publish(name, &data);
    }

    fn set_tool(&self, turn: TurnId, tool: Option<String>) {
        if let Some(active) = lock(&self.active).get_mut(&turn) {
            active.tool = tool;
        }
    }
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
