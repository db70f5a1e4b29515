//! Runs one turn of the team: collects what is new, runs the turn, and hands its outcome back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use super::inbox::{self, ChannelInbox};
use super::{Team, compose, watchdog};
use crate::agent::{Command, Inbox, Provenance, TurnEvent, TurnRequest};
use crate::error::chain;
use crate::fault_point::{self, FaultPoint};
use crate::gateway::driver::{TurnFailure, TurnOrigin};
use crate::gateway::turn_trace;
use crate::id::{AgentId, Party, SessionKey, TurnId};
use crate::provider::{Message, Role};
use crate::store::{Batch, InboxItem, InboxItemKind, StoreError};
use crate::swarm::scheduler::{SchedulerEvent, TurnEnd};
use crate::sync::lock;
use crate::telemetry::{self, Cause};

/// A turn that is to be run.
pub(super) struct TeamTurn {
    pub(super) session: SessionKey,
    pub(super) turn: TurnId,
    /// The item that waited for the session, if any.
    pub(super) item: Option<InboxItem>,
    /// The inbox of the channel, if the session belongs to a channel.
    pub(super) inbox: Option<Arc<ChannelInbox>>,
}

/// The new content of a channel for one turn.
enum NewContent {
    /// Messages, or `None` if there are none.
    Messages(Option<Batch>),
    /// A command of a person to this agent.
    Command(Batch, Command),
}

impl TeamTurn {
    /// Returns the task that the item belongs to.
    pub(super) fn task(&self) -> Option<&str> {
        self.item.as_ref().and_then(|item| item.task.as_deref())
    }

    /// Returns how many turns with this item have broken off.
    pub(super) fn attempts(&self) -> u32 {
        self.item.as_ref().map_or(0, |item| item.attempts)
    }
}

impl Team {
    /// Runs a turn of this session with all that is new for it, and tells the scheduler how it ended.
    pub(super) async fn work(self: Arc<Self>, session: SessionKey) {
        // While the database can't be written, a turn would only fail. So the turn waits.
        let usable = self.swarm.store().until_usable();
        if self.gateway.stop.run_until_cancelled(usable).await.is_none() {
            return;
        }
        let Some(lease) = self.swarm.ownership().enter_agent(session.agent()) else {
            // Another gateway takes care of the agent now, or the database does not answer.
            return self.swarm.notifier().tell(SchedulerEvent::Ended { session, how: TurnEnd::Refused });
        };
        let turn = TurnId::new();
        let held = self.hold(turn);
        let how = match self.prepare(&session, turn).await {
            Ok(Some((work, order))) => {
                fault_point::reach(FaultPoint::Taken);
                let woken = turn_trace::wake(self.swarm.telemetry(), &session, causes(&work, &order));
                let how = telemetry::scoped(woken, self.run_one(&work, order)).await;
                // On a stop nobody is told: the scheduler ends too, and the next start takes the turn up.
                if self.gateway.stop.is_cancelled() {
                    return;
                }
                how
            }
            Ok(None) => TurnEnd::Empty,
            Err(error) => {
                tracing::error!(error = chain(&error), %session, "failed to prepare a turn");
                self.give_back(&TeamTurn { session: session.clone(), turn, item: None, inbox: None }).await;
                // A fault of the storage says nothing about the agent, so it must not count against it.
                if error.is_fault() { TurnEnd::Refused } else { TurnEnd::Failed }
            }
        };
        // The turn counts as worked on until here, or the watchdog could take it up before it is concluded.
        drop((held, lease));
        self.swarm.notifier().tell(SchedulerEvent::Ended { session, how });
    }

    /// Takes what is new for the session. Returns `None` if nothing is.
    async fn prepare(
        self: &Arc<Self>,
        session: &SessionKey,
        turn: TurnId,
    ) -> Result<Option<(TeamTurn, TurnRequest)>, StoreError> {
        let store = self.swarm.store();
        let running = self.held();
        // An earlier turn of this session is open in the database although nothing works on it. Its deliveries are
        // settled first.
        if store.deliveries().turns_in_flight(session).await?.iter().any(|turn| !running.contains(turn))
            && let Err(error) = watchdog::settle(self).await
        {
            tracing::error!(error = chain(&error), %session, "failed to settle an earlier turn");
        }
        let agent = session.agent().clone();
        let item = loop {
            let Some(item) = store.inbox().take(session.clone(), turn).await? else { break None };
            match &item.task {
                // The task was stopped between the take above and now.
                Some(task) if !self.swarm.begin_task(task, session, turn).await? => {
                    store.inbox().delete(turn).await?;
                }
                _ => break Some(item),
            }
        };
        let inbox = session
            .channel()
            .map(|channel| Arc::new(ChannelInbox::new(store.clone(), agent.clone(), channel, turn)));
        // A command runs alone. If an item waits as well, the command is left for the next turn, and neither is lost.
        let new = match &inbox {
            Some(inbox) => self.take_new_content(inbox, &agent, turn, item.is_none()).await?,
            None => NewContent::Messages(None),
        };
        let (batch, command) = match new {
            NewContent::Messages(batch) => (batch, item.as_ref().and_then(command_of)),
            NewContent::Command(batch, command) => (Some(batch), Some(command)),
        };
        if item.is_none() && batch.is_none() {
            return Ok(None);
        }
        // A resumed turn may owe an answer to messages that an earlier turn was given.
        if let (Some(inbox), Some(item)) = (&inbox, &item)
            && item.kind == InboxItemKind::Resume
            && self.is_awaited(session).await?
        {
            inbox.expect_answer();
        }
        let mut parts = Vec::new();
        let mut guidance = Vec::new();
        if let Some(item) = &item {
            let (text, about) = compose::item(item);
            parts.push(text);
            guidance.extend(about);
        }
        parts.extend(batch.as_ref().map(|batch| compose::batch(batch, inbox::BYTES)));
        let provenance = match (&batch, &item) {
            (Some(batch), _) => Some(inbox::provenance(batch)),
            (None, Some(item)) => Some(item_provenance(item)),
            (None, None) => None,
        };
        let input = vec![Message::text(Role::User, parts.join("\n\n"))];
        let order = TurnRequest {
            guidance,
            provenance,
            command,
            inbox: inbox.clone().map(|inbox| inbox as Arc<dyn Inbox>),
            ..TurnRequest::new(session.clone(), turn, input)
        };
        Ok(Some((TeamTurn { session: session.clone(), turn, item, inbox }, order)))
    }

    /// Takes what is new in a channel. A command to other agents is nothing to read, so it is skipped.
    async fn take_new_content(
        &self,
        inbox: &ChannelInbox,
        agent: &AgentId,
        turn: TurnId,
        commands: bool,
    ) -> Result<NewContent, StoreError> {
        loop {
            let Some(batch) = inbox.batch(inbox::BYTES, commands).await? else {
                return Ok(NewContent::Messages(None));
            };
            let Some((given, command)) =
                batch.messages.first().and_then(|given| Some((given, inbox::command_of(given)?)))
            else {
                return Ok(NewContent::Messages(Some(batch)));
            };
            if given.mentions.has(agent) {
                return Ok(NewContent::Command(batch, command));
            }
            let (store, channel) = (self.swarm.store(), batch.channel.id.clone());
            store.deliveries().end(agent.clone(), channel, turn, Some(batch.up_to)).await?;
        }
    }

    async fn run_one(&self, work: &TeamTurn, order: TurnRequest) -> TurnEnd {
        // A command asks no model, so it says nothing about the model's provider.
        let mut has_answered = order.command.is_some();
        let commanded = order.command.and(order.provenance.clone());
        let began = Arc::new(AtomicBool::new(false));
        let has_begun = Arc::clone(&began);
        let (notifier, session) = (self.swarm.notifier().clone(), work.session.clone());
        let on_event = move |event: TurnEvent| match event {
            TurnEvent::Began => {
                has_begun.store(true, Ordering::Release);
                fault_point::reach(FaultPoint::Began);
            }
            // Any output means that the provider works. The scheduler is told once, before the turn ends.
            TurnEvent::TextDelta(_) | TurnEvent::ThinkingDelta(_) | TurnEvent::ToolStarted { .. }
                if !has_answered =>
            {
                has_answered = true;
                notifier.tell(SchedulerEvent::Answered(session.clone()));
            }
            _ => {}
        };
        let origin = match &work.item {
            Some(item) if item.kind == InboxItemKind::Session => TurnOrigin::Message,
            _ => TurnOrigin::Team,
        };
        let mut turn = match self.gateway.driver.start(order, origin, CancellationToken::new(), on_event) {
            Ok(turn) => turn,
            Err(refused) => {
                tracing::debug!(session = %work.session, %refused, "a turn was not taken on");
                self.give_back(work).await;
                return TurnEnd::Refused;
            }
        };
        // The inbox is registered only now, when there is a turn that reads it.
        if let Some(inbox) = &work.inbox {
            lock(&self.inboxes).insert(work.session.clone(), Arc::clone(inbox));
            // A message may have come between the batch and this line.
            inbox.look();
        }
        if let Some(task) = work.task()
            && self.swarm.is_task_over(task, &work.session).await
        {
            // The task was stopped before there was a turn to cancel.
            self.gateway.driver.cancel_turn(work.turn);
        }
        let result = turn.end().await;
        fault_point::reach(FaultPoint::Answered);
        lock(&self.inboxes).remove(&work.session);
        let began = began.load(Ordering::Acquire);
        if self.gateway.stop.is_cancelled() && result.is_err() {
            // The turn is left in the state of a crash, and the next start continues it.
            return TurnEnd::Cancelled;
        }
        match result {
            Ok(outcome) => {
                // The agent loop reports only inputs as committed, so the delivery of a command is noted here.
                if let (Some(provenance), Some(inbox)) = (&commanded, &work.inbox) {
                    inbox.committed(provenance).await;
                }
                self.done(work, &outcome.text).await
            }
            Err(TurnFailure::Turn(error)) => self.failed(work, &error, began).await,
            Err(TurnFailure::Lost | TurnFailure::Form(_)) => self.broke_off(work, began).await,
        }
    }
}

/// Returns what the turn begins for, the oldest first.
fn causes(work: &TeamTurn, order: &TurnRequest) -> Vec<Cause> {
    let item = work.item.iter().flat_map(|item| {
        let task = item.task.clone().map(Cause::Task);
        task.into_iter().chain([Cause::Item(item.id.clone())])
    });
    let posts = match &order.provenance {
        Some(Provenance::Channel { channel, from, to }) => {
            let of = |seq: u64| Cause::Post(channel.clone(), seq);
            let (from, to) = (from.unsigned_abs(), to.unsigned_abs());
            // The oldest ones of a long absence say the least.
            (from.max(to.saturating_sub(MAX_CAUSES))..=to).map(of).collect()
        }
        _ => Vec::new(),
    };
    item.chain(posts).collect()
}

/// Most posts that a turn is linked to.
const MAX_CAUSES: u64 = 31;

/// Returns the command that a person sends to the session, if the item is one. Text from an agent is never a command.
fn command_of(item: &InboxItem) -> Option<Command> {
    let is_of_person = matches!(item.sender.parse(), Ok(Party::Human(_)));
    (item.kind == InboxItemKind::Dm && is_of_person).then(|| Command::parse(&item.text)).flatten()
}

fn item_provenance(item: &InboxItem) -> Provenance {
    let id = item.id.clone();
    match item.kind {
        InboxItemKind::Dm => Provenance::Dm { peer: item.sender.clone(), item: id },
        InboxItemKind::Answer => Provenance::Answer { task: item.task.clone().unwrap_or_default(), item: id },
        // The sender was stored as text. If it can't be parsed, the input still says which item it came from.
        InboxItemKind::Session => match item.sender.parse() {
            Ok(session) => Provenance::InterSession {
                session,
                tool: Some(Provenance::SEND_TOOL.to_owned()),
                item: Some(id),
            },
            Err(_) => Provenance::Request { item: id },
        },
        InboxItemKind::Resume => match item.sender.parse() {
            Ok(turn) => Provenance::Resume { turn },
            Err(_) => Provenance::Request { item: id },
        },
        InboxItemKind::Result | InboxItemKind::Notice => Provenance::Request { item: id },
    }
}
