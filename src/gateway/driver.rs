//! Runs turns: one of a session at a time, each in a task of its own, so that a turn ends in order even
//! where its client has gone.

use std::collections::HashMap;
use std::future::Future as _;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::events::Events;
use super::limits::Limits;
use super::queue::{Full, Place, Queues};
use crate::agent::{TurnError, TurnEvent, TurnOutcome, TurnRequest};
use crate::id::{AgentId, SessionKey, TurnId};
use crate::provider::BoxFuture;

/// Receives a turn's events; called in order, from one task, and must not block.
pub type OnEvent<'a> = &'a mut (dyn FnMut(TurnEvent) + Send);

/// What runs one turn to its end.
pub trait Runner: Send + Sync + 'static {
    /// Runs it. Cancelling ends it in order; dropping the future does not.
    fn run<'a>(
        &'a self,
        request: TurnRequest,
        cancel: CancellationToken,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<TurnOutcome, TurnError>>;
}

/// Why a turn was not taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many wait already.
    #[error(transparent)]
    Full(#[from] Full),
    /// The gateway is stopping.
    #[error("the gateway is stopping")]
    Stopping,
}

/// Why a turn that was taken on gave no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// As it says.
    #[error(transparent)]
    Turn(#[from] TurnError),
    /// Its answer does not have the form that its client asked for, and did not when it was asked once more.
    #[error("the agent's answer does not have the form that was asked for: {0}")]
    Form(String),
    /// Its task broke.
    #[error("the turn broke off")]
    Lost,
}

/// A turn that was taken on. Dropping it cancels the turn.
#[derive(Debug)]
pub struct Turn {
    /// Its id.
    pub id: TurnId,
    /// Its session.
    pub session: SessionKey,
    result: oneshot::Receiver<Result<TurnOutcome, Failure>>,
    cancel: DropGuard,
    work: Arc<AtomicBool>,
}

impl Turn {
    /// Whether it has done something that it would do again if it were asked again.
    #[must_use]
    pub fn did_something(&self) -> bool {
        self.work.load(Ordering::Acquire)
    }

    /// Waits for its end.
    ///
    /// # Errors
    ///
    /// As [`Failure`] says.
    pub async fn end(&mut self) -> Result<TurnOutcome, Failure> {
        std::future::poll_fn(|context| self.poll_end(context)).await
    }

    /// As [`Self::end`]; not to be called again once it was ready.
    pub fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<Result<TurnOutcome, Failure>> {
        Pin::new(&mut self.result).poll(context).map(|result| match result {
            Ok(result) => result,
            Err(_) => Err(Failure::Lost),
        })
    }

    /// The same turn with what `then` makes of its end.
    #[must_use]
    pub fn then<N, F>(self, then: N) -> Self
    where
        N: FnOnce(Result<TurnOutcome, Failure>, bool) -> F + Send + 'static,
        F: Future<Output = Result<TurnOutcome, Failure>> + Send,
    {
        let Self { id, session, result, cancel, work } = self;
        let (sender, made) = oneshot::channel();
        let done = Arc::clone(&work);
        tokio::spawn(async move {
            let ended = result.await.unwrap_or(Err(Failure::Lost));
            let did_something = done.load(Ordering::Acquire);
            drop(sender.send(then(ended, did_something).await));
        });
        Self { id, session, result: made, cancel, work }
    }

    /// The same turn, which goes on without whoever waits for it.
    #[must_use]
    pub fn kept(self) -> Self {
        let Self { id, session, result, cancel, work } = self;
        cancel.disarm();
        Self { id, session, result, cancel: CancellationToken::new().drop_guard(), work }
    }

    /// Lets the turn go on without anybody who waits for it.
    pub fn detach(self) {
        self.cancel.disarm();
    }
}

/// What a turn came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client's request.
    Request,
    /// A message of another session, which does not wait for it.
    Message,
    /// The team: a channel's messages, a direct message, the outcome of a request.
    Team,
    /// A task of another turn, which waits for it and keeps its own place meanwhile.
    Task,
}

/// A turn that runs or waits.
#[derive(Clone, Debug)]
pub struct Active {
    /// Whose.
    pub agent: AgentId,
    /// In which session.
    pub session: SessionKey,
    /// Whether it waits for another one of its session, or for a free place.
    pub waits: bool,
    /// What it came from.
    pub origin: Origin,
    cancel: CancellationToken,
    ended: CancellationToken,
}

/// Runs turns.
pub struct Driver {
    runner: Arc<dyn Runner>,
    queues: Arc<Queues>,
    events: Arc<Events>,
    active: Mutex<HashMap<TurnId, Active>>,
    tasks: TaskTracker,
    stop: CancellationToken,
    ready: CancellationToken,
}

impl Driver {
    /// A driver of this runner. Turns wait until [`Self::recovered`] has been called.
    #[must_use]
    pub fn new(runner: Arc<dyn Runner>, events: Arc<Events>, limits: &Limits) -> Self {
        Self {
            runner,
            queues: Arc::new(Queues::new(limits.turns, limits.waiting_per_session, limits.waiting)),
            events,
            active: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            ready: CancellationToken::new(),
        }
    }

    /// What an earlier run left half done has been marked: turns may begin.
    pub fn recovered(&self) {
        self.ready.cancel();
    }

    /// Takes a turn on. Ending `cancel` ends it.
    ///
    /// # Errors
    ///
    /// As [`Refused`] says.
    pub fn start(
        self: &Arc<Self>,
        request: TurnRequest,
        origin: Origin,
        cancel: CancellationToken,
        mut on_event: impl FnMut(TurnEvent) + Send + 'static,
    ) -> Result<Turn, Refused> {
        let place = self.queues.enter(&request.session, origin == Origin::Task)?;
        let (sender, result) = oneshot::channel();
        let work = Arc::new(AtomicBool::new(false));
        let turn = Turn {
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
        self.active().insert(
            request.turn,
            Active {
                agent: request.agent.clone(),
                session: request.session.clone(),
                waits: true,
                origin,
                cancel: cancel.clone(),
                ended: CancellationToken::new(),
            },
        );
        let is_stopping = self.stop.is_cancelled();
        let entry = Entry { driver: self.clone(), turn: request.turn, session: request.session.clone() };
        if is_stopping {
            return Err(Refused::Stopping);
        }
        self.tasks.spawn(async move {
            let result = entry.run(request, place, cancel, &mut on_event).await;
            drop(entry);
            // Nobody waits any more where this fails.
            drop(sender.send(result.map_err(Failure::Turn)));
        });
        Ok(turn)
    }

    /// What runs or waits now.
    #[must_use]
    pub fn list(&self) -> Vec<(TurnId, Active)> {
        self.active().iter().map(|(turn, active)| (*turn, active.clone())).collect()
    }

    /// Cancels all turns of an agent; gives what is cancelled once each of them has ended.
    pub fn cancel_agent(&self, agent: &AgentId) -> Vec<CancellationToken> {
        let active = self.active();
        let turns = active.values().filter(|turn| turn.agent == *agent);
        let ends = turns.map(|turn| {
            turn.cancel.cancel();
            turn.ended.clone()
        });
        ends.collect()
    }

    /// Cancels a turn; gives what is cancelled once it has ended. `None` where it neither runs nor waits.
    pub fn cancel_turn(&self, turn: TurnId) -> Option<CancellationToken> {
        let active = self.active();
        let turn = active.get(&turn)?;
        turn.cancel.cancel();
        Some(turn.ended.clone())
    }

    /// Takes nothing on any more and cancels every turn.
    pub fn stop(&self) {
        self.stop.cancel();
        // A turn that is taken on at this moment is either in the list or sees the stop.
        for turn in self.active().values() {
            turn.cancel.cancel();
        }
        self.tasks.close();
    }

    /// Waits for the last turn to end; only after [`Self::stop`].
    pub async fn ended(&self) {
        self.tasks.wait().await;
    }

    /// What the running turn of a session came from.
    #[must_use]
    pub fn origin(&self, session: &SessionKey) -> Option<Origin> {
        let active = self.active();
        active.values().find(|turn| !turn.waits && turn.session == *session).map(|turn| turn.origin)
    }

    fn active(&self) -> MutexGuard<'_, HashMap<TurnId, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A turn's entry in the list of active ones; gone when dropped, also by a panic.
struct Entry {
    driver: Arc<Driver>,
    turn: TurnId,
    session: SessionKey,
}

impl Entry {
    async fn run(
        &self,
        request: TurnRequest,
        place: Place,
        cancel: CancellationToken,
        on_event: OnEvent<'_>,
    ) -> Result<TurnOutcome, TurnError> {
        let driver = &self.driver;
        let turn = async {
            driver.ready.cancelled().await;
            place.wait().await
        };
        let _permit = tokio::select! {
            // A turn whose client has gone while it waited must not begin, even if it could.
            biased;
            () = cancel.cancelled() => return Err(TurnError::Cancelled),
            permit = turn => permit,
        };
        if let Some(active) = driver.active().get_mut(&self.turn) {
            active.waits = false;
        }
        let what = json!({"turn": self.turn, "agent": request.agent, "session": request.session});
        driver.events.publish("turn.started", &what);
        let result = {
            let mut tell = |event: TurnEvent| {
                driver.note(self.turn, &self.session, &event);
                on_event(event);
            };
            driver.runner.run(request, cancel, &mut tell).await
        };
        let mut what = what;
        match &result {
            Ok(outcome) => {
                what["status"] = "done".into();
                what["model"] = outcome.model.as_str().into();
                what["steps"] = outcome.steps.into();
                what["usage"] = serde_json::to_value(outcome.usage).unwrap_or_default();
            }
            Err(TurnError::Cancelled) => what["status"] = "cancelled".into(),
            Err(error) => {
                what["status"] = "failed".into();
                what["error"] = error.to_string().into();
            }
        }
        driver.events.publish("turn.ended", &what);
        result
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(active) = self.driver.active().remove(&self.turn) {
            active.ended.cancel();
        }
    }
}

impl Driver {
    /// Tells watchers of what is short and rare; text is for who asked.
    pub(super) fn note(&self, turn: TurnId, session: &SessionKey, event: &TurnEvent) {
        let (name, data) = match event {
            TurnEvent::Began | TurnEvent::TextDelta(_) | TurnEvent::ThinkingDelta(_) => return,
            TurnEvent::ToolStarted { call_id, name, .. } => {
                ("tool.started", json!({"turn": turn, "session": session, "call": call_id, "tool": name}))
            }
            TurnEvent::ToolEnded { call_id, name, is_error, took } => (
                "tool.ended",
                json!({"turn": turn, "session": session, "call": call_id, "tool": name,
                    "isError": is_error, "tookMs": millis(*took)}),
            ),
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
}

fn millis(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
