//! Tasks: direct messages between agents with their answers, and requests that arrive by A2A.
//!
//! A task waits for its assignee's session as an item of the inbox. The final text of the turn that gets the item is
//! the task's answer. The assignee may instead ask a question back. Then the task waits for the requester's reply,
//! which goes to the same session. Permissions depend on the session that calls and never on what the caller says.

use std::time::Duration;

use serde_json::{Value, json};

use super::scheduler::{Priority, SchedulerEvent};
use super::{Actor, Swarm, SwarmError};
use crate::clean;
use crate::clock::unix_ms;
use crate::id::{AgentId, Party, ProjectName, SessionKey, SessionKind, TurnId};
use crate::store::{
    AuditEntry, IdempotencyKey, InboxItemKind, Level, NewExchange, NewInboxItem, NewTask, StoreError,
    Submission, SubmissionFilter, SubmissionState, Task, TaskAdded, TaskChange, TaskChangeResult, TaskKind,
    TaskState,
};
use crate::telemetry::Cause;
use crate::tool::safe_text::start;

/// Maximum size in bytes of a request, a question or a reply.
pub(crate) const MAX_TEXT: usize = 256 * 1024;
/// Maximum number of characters of a summary.
pub(crate) const MAX_SUMMARY: usize = 200;
/// Maximum size in bytes of a reason why there is no answer.
const MAX_REASON: usize = 1000;
/// The number of times that an assignee is reminded that a task needs delivered work, until the task fails.
const MAX_REMINDERS: u32 = 3;
/// Prefix of the peer of a session that serves A2A. An agent's id can't contain a colon.
const A2A_PREFIX: &str = "a2a:";
/// Name of the client that has the owner's token.
const OWNER_CLIENT: &str = "owner";

/// The outcome of a turn that had a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TaskEnd {
    /// The turn ended with this text.
    Done(String),
    /// The turn ended without an answer, for this reason. The requester is told the reason.
    Failed(String),
    /// The turn was stopped.
    Cancelled,
}

/// An event of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TaskEvent {
    /// A turn was given the task.
    Began(TurnId),
    /// A turn that had the task has ended.
    Ended(TurnId, TaskEnd),
    /// The assignee asks the requester a question, in this turn.
    Asked(Option<TurnId>, String),
    /// The requester replies.
    Replied(String),
    /// A turn says that the work for a project is done. It counts once the project's tip has it.
    Delivered {
        turn: TurnId,
        text: String,
        /// Set if something is submitted for it and on its way.
        is_submitted: bool,
    },
    /// The project's tip has the work.
    Proven,
    /// Somebody stops the task.
    Stopped,
    /// The task can't be done any more, for this reason.
    Lost(String),
}

/// Records that are committed together with a change of a task.
#[derive(Debug, Default)]
pub(super) struct TaskRecords {
    pub(super) entry: Option<AuditEntry>,
    /// The record that the brake counts.
    pub(super) exchange: Option<NewExchange>,
    /// Name and digest of a client's message.
    pub(super) key: Option<IdempotencyKey>,
}

/// The party that has to act after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recipient {
    /// Nobody has to act.
    Nobody,
    Requester,
    Assignee,
    /// The assignee, who said that it is done and has submitted nothing.
    Reminded,
}

/// Returns the task after an event, and the party that has to act. A pure function.
///
/// # Errors
///
/// Returns the reason for the caller if the event is not possible in the task's state.
fn next(task: &Task, event: &TaskEvent, now: i64) -> Result<(Task, Recipient), String> {
    let state = task.state;
    let mut after = Task { updated_at: now, ..task.clone() };
    let told = match event {
        // A turn that asked a question and was interrupted may continue. The task still waits for the reply then.
        TaskEvent::Began(_) if state == TaskState::InputRequired => {
            return Err(format!("task {} waits for a reply", task.id));
        }
        TaskEvent::Began(turn) => {
            after.state = TaskState::Working;
            after.turn = Some(*turn);
            Recipient::Nobody
        }
        // The reply to a question is for the next turn. The turn that asked ended with a text that is not the answer.
        TaskEvent::Ended(turn, _) if task.asked_in == Some(*turn) && task.turn != Some(*turn) => {
            return Err(format!("task {} continued after that turn", task.id));
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
            Recipient::Requester
        }
        TaskEvent::Asked(turn, question) => {
            after.state = TaskState::InputRequired;
            after.asked_in = *turn;
            after.turn = None;
            after.question = Some(question.clone());
            after.reply = None;
            Recipient::Requester
        }
        TaskEvent::Replied(reply) if state == TaskState::InputRequired => {
            after.state = TaskState::Working;
            after.reply = Some(reply.clone());
            Recipient::Assignee
        }
        TaskEvent::Replied(_) => {
            return Err(format!("task {} is {}: nothing was asked", task.id, state.as_str()));
        }
        TaskEvent::Delivered { turn, .. } if task.delivered_in == Some(*turn) => {
            return Err(format!("task {} was delivered by that turn before", task.id));
        }
        TaskEvent::Delivered { turn, text, is_submitted } => {
            after.turn = Some(*turn);
            after.delivered_in = Some(*turn);
            after.response = Some(text.clone());
            after.state = TaskState::Working;
            if *is_submitted {
                Recipient::Nobody
            } else if task.reminders < MAX_REMINDERS {
                after.reminders += 1;
                Recipient::Reminded
            } else {
                after.state = TaskState::Failed;
                after.response = Some(
                    "it was said to be done, but nothing was delivered that passes the checks".to_owned(),
                );
                Recipient::Requester
            }
        }
        TaskEvent::Proven if state == TaskState::Working && task.delivered_in.is_some() => {
            after.state = TaskState::Completed;
            Recipient::Requester
        }
        TaskEvent::Proven => return Err(format!("nobody has said yet that task {} is done", task.id)),
        TaskEvent::Stopped => {
            after.state = TaskState::Canceled;
            after.response = Some("it was stopped".to_owned());
            Recipient::Requester
        }
        TaskEvent::Lost(reason) => {
            // The A2A protocol separates a refusal before the work began from a failure during it.
            let never_began = state == TaskState::Submitted;
            after.state = if never_began { TaskState::Rejected } else { TaskState::Failed };
            after.response = Some(start(reason, MAX_REASON).to_owned());
            Recipient::Requester
        }
    };
    // The states of A2A allow only certain transitions, so this check also covers events that arrive twice or late.
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

/// Returns the inbox item that results from a change.
fn item(after: &Task, told: Recipient, now: i64) -> Option<NewInboxItem> {
    let task = Some(after.id.clone());
    match told {
        Recipient::Nobody => None,
        Recipient::Reminded => Some(NewInboxItem {
            session: after.session.clone(),
            kind: InboxItemKind::Notice,
            sender: Party::System.to_string(),
            text: format!(
                "Task {} is not done: nothing that you submitted for it to {} has passed. Push your branch and call \
                 flock_project_submit with taskId {0}, or say with flock_task_respond what you need.",
                after.id,
                after.project.as_ref().map_or("its project", ProjectName::as_str)
            ),
            task,
            now,
        }),
        Recipient::Assignee => Some(NewInboxItem {
            session: after.session.clone(),
            kind: InboxItemKind::Dm,
            sender: after.requester.clone(),
            text: after.reply.clone().unwrap_or_default(),
            task,
            now,
        }),
        Recipient::Requester => {
            let response = after.response.as_deref().unwrap_or_default();
            let text = match after.state {
                TaskState::InputRequired => format!(
                    "[task {} waits for your reply: call flock_task_respond with this id]\n{}",
                    after.id,
                    after.question.as_deref().unwrap_or_default()
                ),
                TaskState::Completed if response.trim().is_empty() => {
                    format!("[task {} was completed without a text]", after.id)
                }
                TaskState::Completed => response.to_owned(),
                state => format!("[task {} {}: {response}]", after.id, state.as_str()),
            };
            Some(NewInboxItem {
                // A request by A2A has no session of origin: its client fetches the answer.
                session: after.origin.clone()?,
                kind: InboxItemKind::Answer,
                sender: after.assignee().to_string(),
                text,
                task,
                now,
            })
        }
    }
}

pub(super) fn check_text(text: &str) -> Result<(), SwarmError> {
    if text.trim().is_empty() {
        return Err(SwarmError::Invalid("the message is empty".to_owned()));
    }
    if text.len() > MAX_TEXT {
        return Err(SwarmError::Invalid(format!(
            "the message has {} bytes, at most {MAX_TEXT} are possible: write a file and name it",
            text.len()
        )));
    }
    Ok(())
}

/// Returns the requester name of an A2A client.
#[must_use]
pub(crate) fn a2a_requester(client: &str) -> String {
    format!("{A2A_PREFIX}{client}")
}

/// Returns the session in which an agent serves one A2A conversation.
#[must_use]
pub(crate) fn a2a_session(agent: &AgentId, client: &str, context: &str) -> SessionKey {
    // The client's name is part of the key. Otherwise a client could enter another one's conversation by naming its
    // context.
    let client = match client.strip_prefix("human:") {
        _ if client == OWNER_CLIENT => String::new(),
        // A client can be named `human:2`, but no person.
        Some(person) if person.starts_with(|c: char| c.is_ascii_lowercase()) => format!("person:{person}:"),
        _ => format!("token:{client}:"),
    };
    SessionKey::new(agent, SessionKind::Dm, &format!("{A2A_PREFIX}{client}{context}"))
}

impl Swarm {
    /// Sends another agent a message. The answer comes back to the session that sent it. `data` is attached as JSON.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Self::send_work`].
    pub async fn send_message(
        &self,
        by: &Actor,
        to: &AgentId,
        text: &str,
        data: Option<&Value>,
    ) -> Result<Task, SwarmError> {
        self.send_work(by, to, text, data, None).await
    }

    /// Sends another agent a message as [`Self::send_message`] does. With a project, the task is done only when the
    /// project's tip has what the agent submitted for it.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the text is empty or too long, the recipient does not work on the project, or
    /// the sender is not an agent or is the recipient. Returns [`SwarmError::NoAgent`] if the recipient does not exist, and [`SwarmError::Refused`] if the
    /// brake stops the message.
    pub(crate) async fn send_work(
        &self,
        by: &Actor,
        to: &AgentId,
        text: &str,
        data: Option<&Value>,
        project: Option<ProjectName>,
    ) -> Result<Task, SwarmError> {
        check_text(text)?;
        if let Some(name) = &project {
            let config = self.config();
            let works = config.projects.iter().any(|found| found.name == *name && found.has_agent(to));
            if !works {
                return Err(SwarmError::Invalid(format!("{to} does not work on a project {name}")));
            }
        }
        let Some(sender) = by.party.agent() else {
            return Err(SwarmError::Invalid("only an agent sends direct messages".to_owned()));
        };
        // The turn would wait for its own answer.
        if sender == to {
            return Err(SwarmError::Invalid("you can't send a message to yourself".to_owned()));
        }
        self.require_agent(to)?;
        let request = match data {
            Some(data) => format!("{text}\n\nAttached data: {data}"),
            None => text.to_owned(),
        };
        // Checked again, because the attached data counts too.
        check_text(&request)?;
        // One session for each pair of agents, so that the recipient remembers earlier messages of this sender.
        let session = SessionKey::new(to, SessionKind::Dm, sender.as_str());
        let (after, exchange) = self.check_direct_message(by, sender, to, text).await?;
        // The work for this message is charged to the channel in which it began.
        let charged = match &by.session {
            Some(session) => self.charged(session, by.turn).await?,
            None => None,
        };
        // So is it to the person for whom it began.
        let person = match &by.session {
            Some(session) => self.charged_person(session, by.turn).await?,
            None => None,
        };
        let new = NewTask {
            context: session.to_string(),
            kind: TaskKind::Message,
            requester: sender.to_string(),
            origin: by.session.clone(),
            charged,
            person,
            session,
            summary: clean::summary(text, MAX_SUMMARY),
            request,
            project,
            exchange: Some(exchange),
            key: None,
            now: unix_ms(),
        };
        let entry = by.entry("task.send", "", Level::Green, format!("to {to}"));
        self.accept(new, entry, after).await
    }

    /// Accepts a request that came by A2A from `client`, which is named by its credential. It is accepted once for each
    /// idempotency key.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the text is empty or too long, [`SwarmError::NoAgent`] if the agent does not
    /// exist, and [`SwarmError::KeyReused`] if the key was used for another request.
    pub async fn send_a2a(
        &self,
        client: &str,
        to: &AgentId,
        context: &str,
        text: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<Task, SwarmError> {
        check_text(text)?;
        self.require_agent(to)?;
        let requester = a2a_requester(client);
        let entry = AuditEntry::new(&requester, "task.send", "", Level::Green, format!("to {to}"));
        let new = NewTask {
            context: context.to_owned(),
            kind: TaskKind::A2a,
            requester,
            // The client fetches the answer or follows a stream. No session of flock gets it.
            origin: None,
            charged: None,
            person: None,
            session: a2a_session(to, client, context),
            summary: clean::summary(text, MAX_SUMMARY),
            request: text.to_owned(),
            project: None,
            exchange: None,
            key,
            now: unix_ms(),
        };
        self.accept(new, entry, Duration::ZERO).await
    }

    pub(super) async fn accept(
        &self,
        new: NewTask,
        entry: AuditEntry,
        after: Duration,
    ) -> Result<Task, SwarmError> {
        let item = NewInboxItem {
            session: new.session.clone(),
            kind: InboxItemKind::Dm,
            sender: new.requester.clone(),
            text: new.request.clone(),
            task: None,
            now: new.now,
        };
        let task = match self.store().tasks().add(new, item, entry).await? {
            TaskAdded::New(task) => task,
            // The same message was sent again. It has its task and must not run twice.
            TaskAdded::Before(task) => return Ok(task),
            TaskAdded::KeyReused => return Err(SwarmError::KeyReused),
        };
        self.announce_task_after(&task, after).await?;
        Ok(task)
    }

    /// Tells everybody who is concerned of a task that was accepted.
    pub(super) async fn announce_task(&self, task: &Task) -> Result<(), SwarmError> {
        self.announce_task_after(task, Duration::ZERO).await
    }

    async fn announce_task_after(&self, task: &Task, after: Duration) -> Result<(), SwarmError> {
        self.note_cause(Cause::Task(task.id.clone()));
        // A direct message wakes a sleeping agent, as a mention does.
        self.wake(&Actor::system(), task.assignee(), "a message").await?;
        self.publish_task(task);
        self.notifier().notify_session_after(task.session.clone(), Priority::Mention, after);
        Ok(())
    }

    /// Continues a task. The assignee of a task in progress asks its requester a question. The requester of a task that
    /// waits for a reply gives it.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the text is empty or too long, or the caller has no such task. Returns
    /// [`SwarmError::Refused`] if the task's state does not allow it or the brake stops the message.
    pub(crate) async fn respond_task(&self, by: &Actor, id: &str, text: &str) -> Result<Task, SwarmError> {
        check_text(text)?;
        let Some(caller) = by.party.agent() else {
            return Err(SwarmError::Invalid("only an agent responds to tasks".to_owned()));
        };
        let task = self.store().tasks().find(id).await?.filter(|task| {
            task.assignee() == caller || (task.kind == TaskKind::Message && task.requester == caller.as_str())
        });
        // The same answer for a task of others as for a missing one, so that ids of other tasks can't be probed.
        let Some(task) = task else { return Err(no_such_task(id)) };
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
        // Checked before the brake, so that a message that can't be sent is not counted.
        next(&task, &event, unix_ms()).map_err(SwarmError::Refused)?;
        let other = if task.assignee() == caller {
            task.requester.parse().ok()
        } else {
            Some(task.assignee().clone())
        };
        let (after, exchange) = match other.filter(|_| task.kind == TaskKind::Message) {
            Some(other) => {
                let (after, exchange) = self.check_direct_message(by, caller, &other, text).await?;
                (after, Some(exchange))
            }
            None => (Duration::ZERO, None),
        };
        let entry = by.entry(action, id, Level::Green, format!("{} bytes", text.len()));
        let kept = TaskRecords { entry: Some(entry), exchange, key: None };
        self.change_task_delayed(id, event, kept, after).await.map(|(task, _)| task)
    }

    /// Replies to a question within a task that came by A2A from this client.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if the text is empty or too long, or the client has no such task. Returns
    /// [`SwarmError::Refused`] if the task waits for no reply, and [`SwarmError::KeyReused`] if the key was used for
    /// another message.
    pub(crate) async fn reply_a2a(
        &self,
        client: &str,
        id: &str,
        text: &str,
        key: Option<IdempotencyKey>,
    ) -> Result<Task, SwarmError> {
        check_text(text)?;
        let requester = a2a_requester(client);
        let detail = format!("{} bytes", text.len());
        let entry = AuditEntry::new(&requester, "task.reply", id, Level::Green, detail);
        self.reply_as(&requester, id, text, TaskRecords { entry: Some(entry), exchange: None, key }).await
    }

    /// Gives a requester's reply to the question of its task.
    pub(super) async fn reply_as(
        &self,
        requester: &str,
        id: &str,
        text: &str,
        kept: TaskRecords,
    ) -> Result<Task, SwarmError> {
        // A requester sees only its own tasks, and other ids look like missing ones.
        if self.store().tasks().find(id).await?.is_none_or(|task| task.requester != requester) {
            return Err(no_such_task(id));
        }
        let event = TaskEvent::Replied(text.to_owned());
        self.change_task_delayed(id, event, kept, Duration::ZERO).await.map(|(task, _)| task)
    }

    /// Stops a task and removes the inbox items that it caused. Returns the turn that has the task, if there is one.
    /// The caller must end that turn.
    ///
    /// # Errors
    ///
    /// Returns [`SwarmError::Invalid`] if there is no such task, and [`SwarmError::Refused`] if it has ended.
    pub(crate) async fn stop_task(
        &self,
        actor: &str,
        id: &str,
    ) -> Result<(Task, Option<TurnId>), SwarmError> {
        let entry = AuditEntry::new(actor, "task.cancel", id, Level::Green, String::new());
        let (task, in_flight) = self.change(id, TaskEvent::Stopped, Some(entry)).await?;
        // Nothing is left for the session, so the scheduler must not start a turn for it.
        if in_flight.is_none() && !self.store().inbox().has_items(&task.session).await? {
            self.notifier().tell(SchedulerEvent::Seen(task.session.clone()));
        }
        Ok((task, in_flight))
    }

    /// Records that a turn of this session begins with an item of this task. Returns `false` if the task has ended
    /// meanwhile. The turn must not begin then.
    pub(crate) async fn begin_task(
        &self,
        id: &str,
        session: &SessionKey,
        turn: TurnId,
    ) -> Result<bool, StoreError> {
        if self.store().tasks().find(id).await?.is_none_or(|task| task.session != *session) {
            // A session of the requester, which is given an answer or a question of the task.
            return Ok(true);
        }
        match self.change(id, TaskEvent::Began(turn), None).await {
            Ok(_) => Ok(true),
            Err(SwarmError::Store(error)) => Err(error),
            Err(_) => Ok(self.store().tasks().find(id).await?.is_some_and(|task| !task.state.is_final())),
        }
    }

    /// Returns `true` if a task that is done in this session has ended. Returns `false` if that is not known.
    #[must_use]
    pub(crate) async fn is_task_over(&self, id: &str, session: &SessionKey) -> bool {
        let task = self.store().tasks().find(id).await.ok().flatten();
        task.is_some_and(|task| task.session == *session && task.state.is_final())
    }

    /// Records the end of a turn of this session that was given an item of this task. The answer goes to the session
    /// that asked. If the assignee asked a question in that turn, the task keeps waiting. The end of a requester's turn
    /// does not affect the task. Repeated calls do no harm.
    pub(crate) async fn end_task(
        &self,
        id: &str,
        session: &SessionKey,
        turn: TurnId,
        end: TaskEnd,
    ) -> Result<(), StoreError> {
        if self.store().tasks().find(id).await?.is_none_or(|task| task.session != *session) {
            return Ok(());
        }
        let detail = match &end {
            TaskEnd::Done(text) => format!("answered, {} bytes", text.len()),
            TaskEnd::Failed(reason) => format!("failed: {}", clean::summary(reason, MAX_SUMMARY)),
            TaskEnd::Cancelled => "stopped".to_owned(),
        };
        let entry = Actor::agent(session, Some(turn)).entry("task.end", id, Level::Green, detail);
        let event = match end {
            TaskEnd::Done(text) if self.needs_proof(id).await? => {
                TaskEvent::Delivered { turn, text, is_submitted: self.is_submitted(id).await? }
            }
            end => TaskEvent::Ended(turn, end),
        };
        match self.change(id, event, Some(entry)).await {
            Err(SwarmError::Store(error)) => Err(error),
            // Any other error means that the task was stopped, waits for a reply, or has ended before.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns `true` if a task has a project whose tip does not have the work for it yet.
    async fn needs_proof(&self, id: &str) -> Result<bool, StoreError> {
        if self.store().tasks().find(id).await?.is_none_or(|task| task.project.is_none()) {
            return Ok(false);
        }
        let submitted = self.newest_submission(id).await?;
        Ok(submitted.is_none_or(|found| found.state != SubmissionState::Merged))
    }

    async fn is_submitted(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.newest_submission(id).await?.is_some_and(|found| found.state.is_open()))
    }

    async fn newest_submission(&self, task: &str) -> Result<Option<Submission>, StoreError> {
        let filter = SubmissionFilter { task: Some(task.to_owned()), ..SubmissionFilter::default() };
        Ok(self.store().submissions().list(&filter, 1).await?.pop())
    }

    /// Records that a project's tip has the work for a task. The task is completed with the answer that a turn gave before,
    /// or when a turn gives one.
    pub(crate) async fn prove_task(&self, id: &str) -> Result<(), StoreError> {
        let entry = AuditEntry::new("system", "task.prove", id, Level::Green, String::new());
        match self.change(id, TaskEvent::Proven, Some(entry)).await {
            Err(SwarmError::Store(error)) => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Ends tasks in progress that an earlier run left and that nothing could end any more, and the tasks of agents
    /// that no longer exist. Returns the number of the former.
    pub(crate) async fn fail_stranded_tasks(&self) -> Result<usize, SwarmError> {
        let stranded: Vec<String> =
            self.store().tasks().stranded().await?.into_iter().map(|(id, _)| id).collect();
        self.fail_tasks(&stranded, "the gateway stopped before its answer was stored").await?;
        let config = self.config();
        for agent in
            self.store().tasks().assignees().await?.iter().filter(|agent| config.agent(agent).is_none())
        {
            self.end_agent_tasks(agent).await?;
        }
        Ok(stranded.len())
    }

    /// Ends tasks that nothing could end any more, with this reason. A failure for one task does not stop the others.
    ///
    /// # Errors
    ///
    /// Returns the first error.
    pub(crate) async fn fail_tasks(&self, tasks: &[String], reason: &str) -> Result<(), SwarmError> {
        let mut failed = None;
        for id in tasks {
            if let Err(error) = self.lose(id, reason).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Ends the tasks of a deleted agent and removes its card.
    pub(crate) async fn end_agent_tasks(&self, agent: &AgentId) -> Result<(), SwarmError> {
        for id in self.store().tasks().open_ids(agent).await? {
            self.lose(&id, "the agent was removed").await?;
        }
        self.store().cards().delete(agent.clone()).await?;
        Ok(())
    }

    async fn lose(&self, id: &str, reason: &str) -> Result<(), SwarmError> {
        let entry = AuditEntry::new("system", "task.end", id, Level::Green, reason.to_owned());
        match self.change(id, TaskEvent::Lost(reason.to_owned()), Some(entry)).await {
            // A task that has ended meanwhile is what the caller wanted.
            Ok(_) | Err(SwarmError::Refused(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Changes a task and notifies the party that has to act.
    async fn change(
        &self,
        id: &str,
        event: TaskEvent,
        entry: Option<AuditEntry>,
    ) -> Result<(Task, Option<TurnId>), SwarmError> {
        self.change_task_delayed(id, event, TaskRecords { entry, ..TaskRecords::default() }, Duration::ZERO)
            .await
    }

    /// Changes a task and notifies the party that has to act after a delay.
    async fn change_task_delayed(
        &self,
        id: &str,
        event: TaskEvent,
        kept: TaskRecords,
        after_while: Duration,
    ) -> Result<(Task, Option<TurnId>), SwarmError> {
        let now = unix_ms();
        // Items of the task that no turn has taken yet must not start one.
        let recall = matches!(event, TaskEvent::Stopped | TaskEvent::Lost(_));
        let asked = event.clone();
        let change = move |task: &Task| {
            let (after, told) = next(task, &event, now).ok()?;
            let item = item(&after, told, now);
            let TaskRecords { entry, exchange, key } = kept;
            Some(TaskChange { task: after, item, recall, entry, exchange, key })
        };
        // The closure runs inside the write transaction, so that it sees the current state of the task.
        let changed = self.store().tasks().change(id.to_owned(), change).await?;
        let Some(TaskChangeResult { before, after, in_flight }) = changed else {
            return Err(no_such_task(id));
        };
        let Some(after) = after else {
            // `next` is pure, so repeating it gives the reason for which the transaction changed nothing.
            let reason = next(&before, &asked, now).err().unwrap_or_default();
            return Err(SwarmError::Refused(reason));
        };
        self.publish_task(&after);
        match next(&before, &asked, now) {
            Ok((_, Recipient::Assignee | Recipient::Reminded)) => {
                self.notifier().notify_session_after(after.session.clone(), Priority::Mention, after_while);
            }
            Ok((_, Recipient::Requester)) => {
                if let Some(origin) = after.origin.clone() {
                    self.notifier().notify_session_after(origin, Priority::Mention, after_while);
                }
            }
            _ => {}
        }
        Ok((after, in_flight))
    }

    fn publish_task(&self, task: &Task) {
        let data = json!({
            "task": task.id,
            "state": task.state.as_str(),
            "kind": task.kind.as_str(),
            "requester": task.requester,
            "assignee": task.assignee(),
            "turn": task.turn,
        });
        self.notifier().publish("task.changed", &data);
    }
}

fn no_such_task(id: &str) -> SwarmError {
    SwarmError::Invalid(format!("you have no task {:?}", clean::summary(id, 80)))
}

#[cfg(test)]
#[path = "task_tests.rs"]
mod tests;
