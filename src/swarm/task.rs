//! Tasks: one agent's direct message to another and what comes of it, or a request that came by A2A.
//!
//! A task waits for its assignee's session as an item of the inbox; what the turn with that item ends with is
//! its answer. The assignee may instead ask something back: then the task waits for the requester's reply,
//! which goes into the same session. Who may do what is known from the session that calls, never from
//! what it says.

use std::time::Duration;

use serde_json::{Value, json};

use super::scheduler::{Event, Priority};
use super::{By, Swarm, SwarmError};
use crate::clean;
use crate::clock::unix_ms;
use crate::id::{AgentId, SessionKey, SessionKind, TurnId};
use crate::store::{
    AuditEntry, IdempotencyKey, ItemKind, Level, NewExchange, NewItem, NewTask, StoreError, Task, TaskAdded,
    TaskChange, TaskChanged, TaskKind, TaskState,
};
use crate::tool::bounded::start;

/// The most bytes of what is asked, asked back or replied.
pub const MAX_TEXT: usize = 256 * 1024;
/// The most characters of a summary.
pub const MAX_SUMMARY: usize = 200;
/// The most bytes of a reason why there is no answer.
const MAX_REASON: usize = 1000;
/// What begins the peer of a session that serves A2A. No agent's id can hold a colon.
const A2A: &str = "a2a:";
/// The client that has the owner's token.
const OWNER: &str = "owner";

/// How a turn ended that had a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// With this text.
    Done(String),
    /// Without one, for this reason. It is told to the requester.
    Failed(String),
    /// It was stopped.
    Cancelled,
}

/// What happens to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TaskEvent {
    /// A turn has it.
    Began(TurnId),
    /// A turn that had it has ended.
    Ended(TurnId, TaskEnd),
    /// The assignee asks the requester something, from this turn.
    Asked(Option<TurnId>, String),
    /// The requester replies.
    Replied(String),
    /// Somebody stops it.
    Stopped,
    /// It can't be done any more, for this reason.
    Lost(String),
}

/// What is kept with a change, besides the task.
#[derive(Debug, Default)]
struct Kept {
    /// The row of the audit.
    entry: Option<AuditEntry>,
    /// What counts for the brakes.
    exchange: Option<NewExchange>,
    /// The name and the digest of a client's message.
    key: Option<IdempotencyKey>,
}

/// Whose move it is after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Nobody is told.
    Nobody,
    /// The requester.
    Requester,
    /// The assignee.
    Assignee,
}

/// What a task becomes by an event, and who is told: a pure function.
///
/// # Errors
///
/// Why it can't, for whoever asked.
fn next(task: &Task, event: &TaskEvent, now: i64) -> Result<(Task, Told), String> {
    let state = task.state;
    let mut after = Task { updated_at: now, ..task.clone() };
    let told = match event {
        // A turn that had asked back and broke off goes on; the task still waits for the reply.
        TaskEvent::Began(_) if state == TaskState::InputRequired => {
            return Err(format!("task {} waits for a reply", task.id));
        }
        TaskEvent::Began(turn) => {
            after.state = TaskState::Working;
            after.turn = Some(*turn);
            Told::Nobody
        }
        // The reply to a question is for the next turn: this one ended with other words than the answer.
        TaskEvent::Ended(turn, _) if task.asked_in == Some(*turn) && task.turn != Some(*turn) => {
            return Err(format!("task {} went on after that turn", task.id));
        }
        TaskEvent::Ended(turn, end) => {
            after.turn = Some(*turn);
            let (state, response) = match end {
                TaskEnd::Done(text) => (TaskState::Completed, text.clone()),
                TaskEnd::Failed(reason) => (TaskState::Failed, start(reason, MAX_REASON).to_owned()),
                TaskEnd::Cancelled => (TaskState::Canceled, "its turn was stopped".to_owned()),
            };
            after.state = state;
            after.response = Some(response);
            Told::Requester
        }
        TaskEvent::Asked(turn, question) => {
            after.state = TaskState::InputRequired;
            after.asked_in = *turn;
            after.turn = None;
            after.question = Some(question.clone());
            after.reply = None;
            Told::Requester
        }
        TaskEvent::Replied(reply) if state == TaskState::InputRequired => {
            after.state = TaskState::Working;
            after.reply = Some(reply.clone());
            Told::Assignee
        }
        TaskEvent::Replied(_) => {
            return Err(format!("task {} is {}: nothing was asked", task.id, state.as_str()));
        }
        TaskEvent::Stopped => {
            after.state = TaskState::Canceled;
            after.response = Some("it was stopped".to_owned());
            Told::Requester
        }
        TaskEvent::Lost(reason) => {
            let never_began = state == TaskState::Submitted;
            after.state = if never_began { TaskState::Rejected } else { TaskState::Failed };
            after.response = Some(start(reason, MAX_REASON).to_owned());
            Told::Requester
        }
    };
    if !state.may_become(after.state) {
        return Err(format!(
            "task {} is {} and can't become {}",
            task.id,
            state.as_str(),
            after.state.as_str()
        ));
    }
    after.completed_at = after.state.is_final().then_some(now);
    Ok((after, told))
}

/// What is put into an inbox because of a change.
fn item(after: &Task, told: Told, now: i64) -> Option<NewItem> {
    let task = Some(after.id.clone());
    match told {
        Told::Nobody => None,
        Told::Assignee => Some(NewItem {
            session: after.session.clone(),
            kind: ItemKind::Dm,
            sender: after.requester.clone(),
            text: after.reply.clone().unwrap_or_default(),
            task,
            now,
        }),
        Told::Requester => {
            let response = after.response.as_deref().unwrap_or_default();
            let text = match after.state {
                TaskState::InputRequired => format!(
                    "[task {} waits for your reply: call flock_task_respond with this id]\n{}",
                    after.id,
                    after.question.as_deref().unwrap_or_default()
                ),
                TaskState::Completed if response.trim().is_empty() => {
                    format!("[task {} was done without a word]", after.id)
                }
                TaskState::Completed => response.to_owned(),
                state => format!("[task {} {}: {response}]", after.id, state.as_str()),
            };
            Some(NewItem {
                session: after.origin.clone()?,
                kind: ItemKind::Answer,
                sender: after.assignee().to_string(),
                text,
                task,
                now,
            })
        }
    }
}

fn checked(text: &str) -> Result<(), SwarmError> {
    if text.trim().is_empty() {
        return Err(SwarmError::Invalid("the message is empty".to_owned()));
    }
    if text.len() > MAX_TEXT {
        return Err(SwarmError::Invalid(format!(
            "the message has {} bytes, and at most {MAX_TEXT} are taken: write a file and name it",
            text.len()
        )));
    }
    Ok(())
}

/// The name of a client of A2A as the requester of tasks.
#[must_use]
pub fn a2a_requester(client: &str) -> String {
    format!("{A2A}{client}")
}

/// The session in which an agent serves one conversation of A2A.
#[must_use]
pub fn a2a_session(agent: &AgentId, client: &str, context: &str) -> SessionKey {
    // No client gets into the conversation of another one by naming its context.
    let client = if client == OWNER { String::new() } else { format!("token:{client}:") };
    SessionKey::new(agent, SessionKind::Dm, &format!("{A2A}{client}{context}"))
}

impl Swarm {
    /// Sends another agent a message; its answer comes back to the session that sent it. `data` goes along as
    /// JSON.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn send_message(
        &self,
        by: &By,
        to: &AgentId,
        text: &str,
        data: Option<&Value>,
    ) -> Result<Task, SwarmError> {
        checked(text)?;
        let Some(sender) = by.party.agent() else {
            return Err(SwarmError::Invalid("only an agent sends direct messages".to_owned()));
        };
        if sender == to {
            return Err(SwarmError::Invalid("that is yourself: there is nobody else to answer".to_owned()));
        }
        self.require_agent(to)?;
        let request = match data {
            Some(data) => format!("{text}\n\nAttached data: {data}"),
            None => text.to_owned(),
        };
        checked(&request)?;
        let session = SessionKey::new(to, SessionKind::Dm, sender.as_str());
        let (after, exchange) = self.brake_direct(by, sender, to, text).await?;
        let charged = match &by.session {
            Some(session) => self.charged(session, by.turn)?,
            None => None,
        };
        let new = NewTask {
            context: session.to_string(),
            kind: TaskKind::Message,
            requester: sender.to_string(),
            origin: by.session.clone(),
            charged,
            session,
            summary: clean::summary(text, MAX_SUMMARY),
            request,
            exchange: Some(exchange),
            key: None,
            now: unix_ms(),
        };
        let entry = by.entry("task.send", "", Level::Green, format!("to {to}"));
        self.accept(new, entry, after).await
    }

    /// Takes a request that came by A2A from `client`, as its credential names it; once for each key.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn send_a2a(
        &self,
        client: &str,
        to: &AgentId,
        context: &str,
        text: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<Task, SwarmError> {
        checked(text)?;
        self.require_agent(to)?;
        let requester = a2a_requester(client);
        let entry = actor_entry(&requester, "task.send", format!("to {to}"));
        let new = NewTask {
            context: context.to_owned(),
            kind: TaskKind::A2a,
            requester,
            origin: None,
            charged: None,
            session: a2a_session(to, client, context),
            summary: clean::summary(text, MAX_SUMMARY),
            request: text.to_owned(),
            exchange: None,
            key,
            now: unix_ms(),
        };
        self.accept(new, entry, Duration::ZERO).await
    }

    async fn accept(&self, new: NewTask, entry: AuditEntry, after: Duration) -> Result<Task, SwarmError> {
        let item = NewItem {
            session: new.session.clone(),
            kind: ItemKind::Dm,
            sender: new.requester.clone(),
            text: new.request.clone(),
            task: None,
            now: new.now,
        };
        let task = match self.store().add_task(new, item, entry).await? {
            TaskAdded::New(task) => task,
            TaskAdded::Before(task) => return Ok(task),
            TaskAdded::KeyReused => return Err(SwarmError::KeyReused),
        };
        self.wake(&By::system(), task.assignee(), "a message").await?;
        self.tell_of(&task);
        self.bell().ring_later(task.session.clone(), Priority::Mention, after);
        Ok(task)
    }

    /// Asks or replies within a task, as the caller's part in it is: the assignee of one that is under way
    /// asks its requester something; the requester of one that waits for that replies.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn respond_task(&self, by: &By, id: &str, text: &str) -> Result<Task, SwarmError> {
        checked(text)?;
        let Some(caller) = by.party.agent() else {
            return Err(SwarmError::Invalid("only an agent responds to tasks".to_owned()));
        };
        let task = self.store().task(id)?.filter(|task| {
            task.assignee() == caller || (task.kind == TaskKind::Message && task.requester == caller.as_str())
        });
        // A task of others is not told from one that is not there.
        let Some(task) = task else { return Err(no_task(id)) };
        let (event, action) = if task.assignee() == caller {
            if task.state == TaskState::InputRequired {
                return Err(SwarmError::Refused(format!(
                    "task {id} waits for {}, who was asked already",
                    task.requester
                )));
            }
            (TaskEvent::Asked(by.turn, text.to_owned()), "task.ask")
        } else {
            (TaskEvent::Replied(text.to_owned()), "task.reply")
        };
        next(&task, &event, unix_ms()).map_err(SwarmError::Refused)?;
        let other = if task.assignee() == caller {
            task.requester.parse().ok()
        } else {
            Some(task.assignee().clone())
        };
        let (after, exchange) = match other.filter(|_| task.kind == TaskKind::Message) {
            Some(other) => {
                let (after, exchange) = self.brake_direct(by, caller, &other, text).await?;
                (after, Some(exchange))
            }
            None => (Duration::ZERO, None),
        };
        let entry = by.entry(action, id, Level::Green, format!("{} bytes", text.len()));
        let kept = Kept { entry: Some(entry), exchange, key: None };
        self.change_later(id, event, kept, after).await.map(|(task, _)| task)
    }

    /// Replies to what was asked back within a task that came by A2A from this client.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn reply_a2a(
        &self,
        client: &str,
        id: &str,
        text: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<Task, SwarmError> {
        checked(text)?;
        let requester = a2a_requester(client);
        if self.store().task(id)?.is_none_or(|task| task.requester != requester) {
            return Err(no_task(id));
        }
        let mut entry = actor_entry(&requester, "task.reply", format!("{} bytes", text.len()));
        id.clone_into(&mut entry.subject);
        let event = TaskEvent::Replied(text.to_owned());
        let kept = Kept { entry: Some(entry), exchange: None, key };
        self.change_later(id, event, kept, Duration::ZERO).await.map(|(task, _)| task)
    }

    /// Stops a task. What waits because of it is taken back; the turn that has it, if one has, is the caller's
    /// to end.
    ///
    /// # Errors
    ///
    /// As [`SwarmError`] says.
    pub async fn stop_task(&self, actor: &str, id: &str) -> Result<(Task, Option<TurnId>), SwarmError> {
        let mut entry = actor_entry(actor, "task.cancel", String::new());
        id.clone_into(&mut entry.subject);
        let (task, in_flight) = self.change(id, TaskEvent::Stopped, Some(entry)).await?;
        if in_flight.is_none() && !self.store().has_items(&task.session)? {
            self.bell().tell(Event::Seen(task.session.clone()));
        }
        Ok((task, in_flight))
    }

    /// A turn of this session begins with something of this task. `false` where the task has come to an end
    /// meanwhile: nothing must be begun for it.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn task_began(&self, id: &str, session: &SessionKey, turn: TurnId) -> Result<bool, StoreError> {
        if self.store().task(id)?.is_none_or(|task| task.session != *session) {
            // The requester is told something of it.
            return Ok(true);
        }
        match self.change(id, TaskEvent::Began(turn), None).await {
            Ok(_) => Ok(true),
            Err(SwarmError::Store(error)) => Err(error),
            Err(_) => Ok(self.store().task(id)?.is_some_and(|task| !task.state.is_final())),
        }
    }

    /// Whether a task that is done in this session has come to an end; `false` where that is not known.
    #[must_use]
    pub fn task_is_over(&self, id: &str, session: &SessionKey) -> bool {
        let task = self.store().task(id).ok().flatten();
        task.is_some_and(|task| task.session == *session && task.state.is_final())
    }

    /// A turn of this session ended that had been given something of this task. The answer goes to the session
    /// that asked; where the assignee asked something back in that turn, the task waits on. What a turn of
    /// the requester ends with is nothing to the task. To be told twice of the same is no harm.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn task_ended(
        &self,
        id: &str,
        session: &SessionKey,
        turn: TurnId,
        end: TaskEnd,
    ) -> Result<(), StoreError> {
        let Some(task) = self.store().task(id)?.filter(|task| task.session == *session) else {
            return Ok(());
        };
        let entry = AuditEntry {
            actor: task.assignee().to_string(),
            action: "task.end",
            subject: id.to_owned(),
            level: Level::Green,
            detail: match &end {
                TaskEnd::Done(text) => format!("answered, {} bytes", text.len()),
                TaskEnd::Failed(reason) => format!("failed: {}", clean::summary(reason, MAX_SUMMARY)),
                TaskEnd::Cancelled => "stopped".to_owned(),
            },
            session: Some(task.session),
            turn: Some(turn),
        };
        match self.change(id, TaskEvent::Ended(turn, end), Some(entry)).await {
            Err(SwarmError::Store(error)) => Err(error),
            // Else it was stopped, waits for a reply, or was told before.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Ends the tasks that an earlier run left under way with nothing that could end them, and those of agents
    /// that are gone. Gives how many the first were.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn settle_tasks(&self) -> Result<usize, SwarmError> {
        let stranded = self.store().stranded_tasks()?;
        self.lose_tasks(&stranded, "the gateway stopped before its answer was kept").await?;
        let config = self.config();
        for agent in self.store().assignees()?.iter().filter(|agent| config.agent(agent).is_none()) {
            self.forget_tasks(agent).await?;
        }
        Ok(stranded.len())
    }

    /// Ends tasks that nothing could end any more, for this reason. One that can't be ended holds none of the others up.
    ///
    /// # Errors
    ///
    /// Those of the database: the first there was.
    pub async fn lose_tasks(&self, tasks: &[String], reason: &str) -> Result<(), SwarmError> {
        let mut failed = None;
        for id in tasks {
            if let Err(error) = self.lose(id, reason).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Ends the tasks of an agent that was removed, and forgets its card.
    ///
    /// # Errors
    ///
    /// Those of the database.
    pub async fn forget_tasks(&self, agent: &AgentId) -> Result<(), SwarmError> {
        for id in self.store().open_tasks(agent)? {
            self.lose(&id, "the agent was removed").await?;
        }
        self.store().forget_card(agent.clone()).await?;
        Ok(())
    }

    async fn lose(&self, id: &str, reason: &str) -> Result<(), SwarmError> {
        let mut entry = actor_entry("system", "task.end", reason.to_owned());
        id.clone_into(&mut entry.subject);
        match self.change(id, TaskEvent::Lost(reason.to_owned()), Some(entry)).await {
            Ok(_) | Err(SwarmError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes a task and tells whoever has to know.
    async fn change(
        &self,
        id: &str,
        event: TaskEvent,
        entry: Option<AuditEntry>,
    ) -> Result<(Task, Option<TurnId>), SwarmError> {
        self.change_later(id, event, Kept { entry, ..Kept::default() }, Duration::ZERO).await
    }

    /// Changes a task, and wakes whoever's move it is after a while.
    async fn change_later(
        &self,
        id: &str,
        event: TaskEvent,
        kept: Kept,
        after_while: Duration,
    ) -> Result<(Task, Option<TurnId>), SwarmError> {
        let now = unix_ms();
        let recall = matches!(event, TaskEvent::Stopped | TaskEvent::Lost(_));
        let asked = event.clone();
        let change = move |task: &Task| {
            let (after, told) = next(task, &event, now).ok()?;
            let item = item(&after, told, now);
            let Kept { entry, exchange, key } = kept;
            Some(TaskChange { task: after, item, recall, entry, exchange, key })
        };
        let changed = self.store().change_task(id.to_owned(), change).await?;
        let Some(TaskChanged { before, after, in_flight }) = changed else { return Err(no_task(id)) };
        let Some(after) = after else {
            let reason = next(&before, &asked, now).err().unwrap_or_default();
            return Err(SwarmError::Refused(reason));
        };
        self.tell_of(&after);
        match next(&before, &asked, now) {
            Ok((_, Told::Assignee)) => {
                self.bell().ring_later(after.session.clone(), Priority::Mention, after_while);
            }
            Ok((_, Told::Requester)) => {
                if let Some(origin) = after.origin.clone() {
                    self.bell().ring_later(origin, Priority::Mention, after_while);
                }
            }
            _ => {}
        }
        Ok((after, in_flight))
    }

    fn tell_of(&self, task: &Task) {
        let data = json!({
            "task": task.id,
            "state": task.state.as_str(),
            "kind": task.kind.as_str(),
            "requester": task.requester,
            "assignee": task.assignee(),
            "turn": task.turn,
        });
        self.bell().publish("task.changed", &data);
    }
}

fn actor_entry(actor: &str, action: &'static str, detail: String) -> AuditEntry {
    AuditEntry {
        actor: actor.to_owned(),
        action,
        subject: String::new(),
        level: Level::Green,
        detail,
        session: None,
        turn: None,
    }
}

fn no_task(id: &str) -> SwarmError {
    SwarmError::Invalid(format!("there is no task {:?} of yours", clean::summary(id, 80)))
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
