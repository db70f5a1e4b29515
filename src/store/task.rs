//! Tasks: requests of one party to an agent, and their outcomes.
//!
//! Each task is one row, whoever asked, and all counts are computed from these rows. A task changes its state only as
//! [`TaskState::may_become`] allows. Each change is one transaction with its inbox items and its audit row.

use super::audit::{self, AuditEntry};
use super::exchange::{self, NewExchange};
use super::idempotency::{self, IdempotencyKey};
use super::inbox::{self, NewInboxItem};
use super::session::parsed;
use super::sql::{
    self, Connection, FromSql, FromSqlError, FromSqlResult, OptionalExtension as _, Row, ToSql, ToSqlResult,
    Transaction, ValueRef, params_from_iter,
};
use super::subjects::Tasks;
use super::{Database, Store, StoreError, person, usage};
use crate::id::{AgentId, ChannelId, ProjectName, SessionKey, TurnId};

/// The way in which a task was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// By a direct message of another agent.
    Message,
    /// By a request of the Agent2Agent (A2A) protocol.
    A2a,
}

impl TaskKind {
    /// Returns the name that the database and the API use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::A2a => "a2a",
        }
    }
}

impl FromSql for TaskKind {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_str()? {
            "message" => Ok(Self::Message),
            "a2a" => Ok(Self::A2a),
            _ => Err(FromSqlError::InvalidType),
        }
    }
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Accepted; no turn has begun to work on it.
    Submitted,
    /// A turn works on it, or will continue to.
    Working,
    /// The assignee asked a question and waits for the reply.
    InputRequired,
    /// Ended with an answer.
    Completed,
    /// Ended without an answer.
    Failed,
    /// Stopped by the requester or by a person.
    Canceled,
    /// Refused before it began.
    Rejected,
}

impl TaskState {
    /// All states.
    pub const ALL: [Self; 7] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    /// Returns the name that the database, agents and the API use. It is the name that A2A defines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::InputRequired => "input-required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
            Self::Rejected => "rejected",
        }
    }

    /// Returns the state with this name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Returns `true` if no other state can follow.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Returns `true` if a task may change from this state to `next`.
    ///
    /// Working may follow Working: that is another turn for the same task.
    #[must_use]
    pub(crate) const fn may_become(self, next: Self) -> bool {
        match self {
            // A task may end before any turn has worked on it.
            Self::Submitted => !matches!(next, Self::Submitted),
            Self::Working => !matches!(next, Self::Submitted | Self::Rejected),
            // There is no answer without a turn, so only a reply, a failure or a cancellation ends the wait.
            Self::InputRequired => matches!(next, Self::Working | Self::Failed | Self::Canceled),
            Self::Completed | Self::Failed | Self::Canceled | Self::Rejected => false,
        }
    }
}

impl FromSql for TaskState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Self::named(value.as_str()?).ok_or(FromSqlError::InvalidType)
    }
}

impl ToSql for TaskState {
    fn to_sql(&self) -> ToSqlResult<'_> {
        Ok(self.as_str().into())
    }
}

/// A task as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// A UUID of version 7, so ids sort by time.
    pub id: String,
    /// The id of the conversation that it belongs to.
    pub context: String,
    pub kind: TaskKind,
    /// An agent id, or `a2a:<name>`.
    pub requester: String,
    /// The requester's session, which receives the answer.
    pub origin: Option<SessionKey>,
    /// The session of the agent that works on it.
    pub session: SessionKey,
    pub state: TaskState,
    /// The start of the request, on one line.
    pub summary: String,
    /// The full request.
    pub request: String,
    /// The assignee's latest question.
    pub question: Option<String>,
    /// The turn that asked it.
    pub asked_in: Option<TurnId>,
    /// The reply to that question.
    pub reply: Option<String>,
    /// The answer, or the reason why there is none.
    pub response: Option<String>,
    /// The latest turn that worked on it.
    pub turn: Option<TurnId>,
    /// The project in which it has to be delivered: it is done only when the project's tip has the work.
    pub project: Option<ProjectName>,
    /// The turn that said that it is done.
    pub delivered_in: Option<TurnId>,
    /// The number of turns that said so without having submitted anything.
    pub reminders: u32,
    /// Unix milliseconds of its acceptance.
    pub created_at: i64,
    /// Unix milliseconds of its last change.
    pub updated_at: i64,
    /// Unix milliseconds at which it reached its final state.
    pub completed_at: Option<i64>,
}

impl Task {
    /// Returns the agent that works on it.
    #[must_use]
    pub const fn assignee(&self) -> &AgentId {
        self.session.agent()
    }
}

/// A task to be added.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The id of the conversation that it belongs to.
    pub context: String,
    pub kind: TaskKind,
    /// An agent id, or `a2a:<name>`.
    pub requester: String,
    /// The requester's session, which will receive the answer.
    pub origin: Option<SessionKey>,
    /// The channel that its model calls are charged to.
    pub charged: Option<ChannelId>,
    /// The name of the person whose budget its model calls count against.
    pub person: Option<String>,
    /// The session of the agent that will work on it.
    pub session: SessionKey,
    /// The start of the request, on one line.
    pub summary: String,
    /// The full request.
    pub request: String,
    /// The project in which it has to be delivered.
    pub project: Option<ProjectName>,
    /// A row for the brakes on agents that talk to each other.
    pub exchange: Option<NewExchange>,
    /// The name of the message and the digest of the request, if the client may repeat it.
    pub key: Option<IdempotencyKey>,
    /// The current time in Unix milliseconds.
    pub now: i64,
}

/// A message in a task that was submitted by A2A.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMessage {
    /// Set if the client wrote it, unset if the agent did.
    pub is_client: bool,
    /// The id that the client gave the message.
    pub name: Option<String>,
    pub text: String,
}

/// A change of a task, with the rows that go with it.
#[derive(Clone, Debug)]
pub struct TaskChange {
    /// The task after the change. Its id, parties and request can't change.
    pub task: Task,
    /// An item for a session's inbox.
    pub item: Option<NewInboxItem>,
    /// Set to delete the task's items that no turn has received yet.
    pub recall: bool,
    /// The row in the audit, if there is to be one.
    pub entry: Option<AuditEntry>,
    /// A row for the brakes on agents that talk to each other.
    pub exchange: Option<NewExchange>,
    /// The name of the reply's message and the digest of the request, if the client may repeat it.
    pub key: Option<IdempotencyKey>,
}

/// The result of adding a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskSubmission {
    /// The task was added.
    New(Task),
    /// The client sent the same request before; contains the existing task.
    Before(Task),
    /// The key was used before, for a different request.
    KeyReused,
}

/// The result of a change of a task.
#[derive(Clone, Debug)]
pub struct TaskChangeResult {
    /// The task before the change.
    pub before: Task,
    /// The task after the change; `None` if nothing was changed.
    pub after: Option<Task>,
    /// The turn that received the task and has not ended.
    pub in_flight: Option<TurnId>,
}

/// The selection of tasks that a query returns. Fields that are `None` select all.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    pub requester: Option<String>,
    pub assignee: Option<AgentId>,
    /// An agent that is the requester or the assignee.
    pub party: Option<AgentId>,
    pub kind: Option<TaskKind>,
    pub context: Option<String>,
    pub state: Option<TaskState>,
    /// The earliest time of the last change, in Unix milliseconds.
    pub since: Option<i64>,
    /// The id of a task; only older tasks are returned.
    pub before: Option<String>,
}

/// The number of an agent's tasks and of their outcomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TaskCounts {
    pub total: u64,
    pub completed: u64,
    pub failed: u64,
}

const COLUMNS: &str =
    "id, context, kind, requester, origin, session, state, summary, request, question, asked_in,
    reply, response, turn, created_at, updated_at, completed_at, project, delivered_in, reminders";

fn row(row: &Row<'_>) -> sql::Result<Task> {
    let origin: Option<String> = row.get(4)?;
    let project: Option<String> = row.get(17)?;
    Ok(Task {
        id: row.get(0)?,
        context: row.get(1)?,
        kind: row.get(2)?,
        requester: row.get(3)?,
        origin: origin.map(|key| key.parse()).transpose().map_err(|_| sql::Error::Malformed)?,
        session: parsed(row, 5)?,
        state: row.get(6)?,
        summary: row.get(7)?,
        request: row.get(8)?,
        question: row.get(9)?,
        asked_in: turn(row, 10)?,
        reply: row.get(11)?,
        response: row.get(12)?,
        turn: turn(row, 13)?,
        created_at: row.get(14)?,
        updated_at: row.get(15)?,
        completed_at: row.get(16)?,
        project: project.map(|_| parsed(row, 17)).transpose()?,
        delivered_in: turn(row, 18)?,
        reminders: row.get(19)?,
    })
}

fn turn(row: &Row<'_>, column: usize) -> sql::Result<Option<TurnId>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| text.parse()).transpose().map_err(|_| sql::Error::Malformed)
}

fn find(connection: &Connection<'_>, id: &str) -> sql::Result<Option<Task>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM task WHERE id = ?1"))?
        .query_row([id], row)
        .optional()
}

fn list(connection: &Connection<'_>, filter: &TaskFilter, limit: u32) -> sql::Result<Vec<Task>> {
    let (conditions, mut values) = conditions(filter);
    values.push(Box::new(limit));
    // Ids start with a time stamp, so the highest ids are the newest tasks.
    let sql =
        format!("SELECT {COLUMNS} FROM task WHERE {conditions} ORDER BY id DESC LIMIT ?{}", values.len());
    connection.prepare_cached(&sql)?.query_map(params_from_iter(values), row)?.collect()
}

fn conditions(filter: &TaskFilter) -> (String, Vec<Box<dyn ToSql>>) {
    // The condition that is always true keeps the list from being empty.
    let mut conditions = vec!["true".to_owned()];
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    // `?` stands for the number of the parameter.
    let mut add = |condition: &str, value: Box<dyn ToSql>| {
        values.push(value);
        conditions.push(condition.replace('?', &format!("?{}", values.len())));
    };
    if let Some(requester) = &filter.requester {
        add("requester = ?", Box::new(requester.clone()));
    }
    if let Some(assignee) = &filter.assignee {
        add("assignee = ?", Box::new(assignee.to_string()));
    }
    if let Some(party) = &filter.party {
        add("? IN (requester, assignee)", Box::new(party.to_string()));
    }
    if let Some(kind) = filter.kind {
        add("kind = ?", Box::new(kind.as_str()));
    }
    if let Some(context) = &filter.context {
        add("context = ?", Box::new(context.clone()));
    }
    if let Some(state) = filter.state {
        add("state = ?", Box::new(state));
    }
    if let Some(since) = filter.since {
        add("updated_at >= ?", Box::new(since));
    }
    if let Some(before) = &filter.before {
        add("id < ?", Box::new(before.clone()));
    }
    (conditions.join(" AND "), values)
}

/// Stores a message of a task.
fn insert_message(
    transaction: &Transaction<'_>,
    task: &str,
    is_client: bool,
    name: Option<&str>,
    text: &str,
) -> sql::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO task_message (task, seq, is_client, name, text)
             SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3, ?4 FROM task_message WHERE task = ?1",
        )?
        .execute((task, is_client, name, text))
        .map(drop)
}

/// Stores the message that a change adds to a task submitted by A2A: a question of the agent, or a reply of the client.
fn insert_change_message(
    transaction: &Transaction<'_>,
    before: &Task,
    change: &TaskChange,
) -> sql::Result<()> {
    let after = &change.task;
    // Only A2A clients can read the history of a task.
    if after.kind != TaskKind::A2a {
        return Ok(());
    }
    if let Some(question) = after.question.as_deref().filter(|_| after.state == TaskState::InputRequired) {
        return insert_message(transaction, &after.id, false, None, question);
    }
    if let Some(reply) = after.reply.as_deref().filter(|_| before.state == TaskState::InputRequired) {
        let name = change.key.as_ref().map(|key| key.name.as_str());
        return insert_message(transaction, &after.id, true, name, reply);
    }
    Ok(())
}

fn write(transaction: &Transaction<'_>, task: &Task) -> sql::Result<()> {
    // Only these columns can change. The id, the parties and the request are fixed.
    transaction
        .prepare_cached(
            "UPDATE task SET state = ?2, question = ?3, asked_in = ?4, reply = ?5, response = ?6, turn = ?7,
             updated_at = ?8, completed_at = ?9, delivered_in = ?10, reminders = ?11 WHERE id = ?1",
        )?
        .execute((
            &task.id,
            task.state,
            &task.question,
            task.asked_in.map(|turn| turn.to_string()),
            &task.reply,
            &task.response,
            task.turn.map(|turn| turn.to_string()),
            task.updated_at,
            task.completed_at,
            task.delivered_in.map(|turn| turn.to_string()),
            task.reminders,
        ))
        .map(drop)
}

/// Accepts a task and puts it into the inbox of its session. All rows are written together or not at all.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    new: &NewTask,
    item: NewInboxItem,
    entry: AuditEntry,
) -> sql::Result<TaskSubmission> {
    // A repeated request gets the task that the first one created.
    if let Some(key) = &new.key
        && let Some(first) = idempotency::find(transaction, key, new.now)?
    {
        let id = first.answer.filter(|_| first.digest == key.digest);
        let task = id.map(|id| find(transaction, &id)).transpose()?.flatten();
        return Ok(task.map_or(TaskSubmission::KeyReused, TaskSubmission::Before));
    }
    let id = uuid::Uuid::now_v7().to_string();
    transaction
        .prepare_cached(
            "INSERT INTO task (id, context, kind, requester, origin, assignee, session, state, summary,
             request, created_at, updated_at, project)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'submitted', ?8, ?9, ?10, ?10, ?11)",
        )?
        .execute((
            &id,
            &new.context,
            new.kind.as_str(),
            &new.requester,
            new.origin.as_ref().map(SessionKey::as_str),
            new.session.agent().as_str(),
            new.session.as_str(),
            &new.summary,
            &new.request,
            new.now,
            new.project.as_ref().map(ProjectName::as_str),
        ))?;
    // The task and its inbox item are written together: nobody would work on a task without an item.
    inbox::add(transaction, &NewInboxItem { task: Some(id.clone()), ..item })?;
    if let Some(exchange) = &new.exchange {
        exchange::add(transaction, exchange)?;
    }
    // The channel stays charged for this task, whatever session works on it.
    if let Some(channel) = &new.charged {
        usage::charge(transaction, &id, channel)?;
    }
    if let Some(person) = &new.person {
        person::charge(transaction, &id, person)?;
    }
    // The audit gets a digest, so it can prove the request without containing it.
    let digest = audit::digest(&new.request);
    let detail = format!("{}, {} bytes, sha256 {digest}", entry.detail, new.request.len());
    audit::append(transaction, &AuditEntry { subject: id.clone(), detail, ..entry }, new.now)?;
    if let Some(key) = &new.key {
        idempotency::insert(transaction, key, None, Some(&id), new.now)?;
    }
    // The request is the first message in the history that the client can read.
    if new.kind == TaskKind::A2a {
        let name = new.key.as_ref().map(|key| key.name.as_str());
        insert_message(transaction, &id, true, name, &new.request)?;
    }
    find(transaction, &id)?.map(TaskSubmission::New).ok_or(sql::Error::NoRow)
}

impl<A> Tasks<&Database<A>> {
    /// Returns the messages of a task submitted by A2A, oldest first. Tasks from before messages were stored have none.
    pub(crate) async fn messages(self, id: &str) -> Result<Vec<TaskMessage>, StoreError> {
        self.read("read what was said in a task", |connection| {
            connection
                .prepare_cached(
                    "SELECT is_client, name, text FROM task_message WHERE task = ?1 ORDER BY seq",
                )?
                .query_map([id], |row| {
                    Ok(TaskMessage { is_client: row.get(0)?, name: row.get(1)?, text: row.get(2)? })
                })?
                .collect()
        })
        .await
    }

    /// Finds a task by its id.
    pub async fn find(self, id: &str) -> Result<Option<Task>, StoreError> {
        self.read("find a task", |connection| find(connection, id)).await
    }

    /// Returns the number of tasks.
    pub(crate) async fn count(self, filter: &TaskFilter) -> Result<u64, StoreError> {
        let filter = filter.clone();
        self.read_long("count tasks", move |connection| {
            let (conditions, values) = conditions(&filter);
            let count: i64 = connection
                .prepare_cached(&format!("SELECT count(*) FROM task WHERE {conditions}"))?
                .query_row(params_from_iter(values), |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
        .await
    }

    /// Counts the tasks of each agent that has any.
    pub(crate) async fn counts(self) -> Result<std::collections::HashMap<String, TaskCounts>, StoreError> {
        self.read_long("count tasks", |connection| {
            connection
                .prepare_cached(
                    "SELECT assignee, count(*), count(*) FILTER (WHERE state = 'completed'),
                        count(*) FILTER (WHERE state = 'failed')
                     FROM task GROUP BY assignee",
                )?
                .query_map((), |row| {
                    let count = |column| row.get::<i64>(column).map(i64::unsigned_abs);
                    Ok((
                        row.get(0)?,
                        TaskCounts { total: count(1)?, completed: count(2)?, failed: count(3)? },
                    ))
                })?
                .collect()
        })
        .await
    }

    /// Returns the ids of open tasks that no inbox item refers to, each with its assignee.
    ///
    /// Their turn ended, and the process was killed before it could record that. A task whose assignee asked a question
    /// waits for the reply and is not among them.
    pub async fn stranded(self) -> Result<Vec<(String, AgentId)>, StoreError> {
        // An item stays in the inbox until its turn has ended, so an open task without one is lost. One that was delivered
        // waits for its submission.
        self.read("look for lost tasks", |connection| {
            connection
                .prepare(
                    "SELECT id, assignee FROM task WHERE state IN ('submitted', 'working')
                     AND NOT EXISTS (SELECT 1 FROM inbox
                         WHERE inbox.task = task.id AND inbox.kind IN ('dm', 'resume', 'notice'))
                     AND NOT EXISTS (SELECT 1 FROM submission
                         WHERE submission.task = task.id AND submission.state IN ('queued', 'checking', 'review'))",
                )?
                .query_map((), |row| Ok((row.get(0)?, parsed(row, 1)?)))?
                .collect()
        })
        .await
    }

    /// Returns the agents with unfinished tasks.
    pub(crate) async fn assignees(self) -> Result<Vec<AgentId>, StoreError> {
        self.read("list tasks", |connection| {
            connection
                .prepare(
                    "SELECT DISTINCT assignee FROM task
                     WHERE state IN ('submitted', 'working', 'input-required')",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect()
        })
        .await
    }

    /// Returns the ids of an agent's unfinished tasks.
    pub(crate) async fn open_ids(self, assignee: &AgentId) -> Result<Vec<String>, StoreError> {
        self.read("list tasks", |connection| {
            connection
                .prepare_cached(
                    "SELECT id FROM task WHERE assignee = ?1
                     AND state IN ('submitted', 'working', 'input-required')",
                )?
                .query_map([assignee.as_str()], |row| row.get(0))?
                .collect()
        })
        .await
    }

    /// Returns tasks, newest first, at most `limit`.
    pub async fn list(self, filter: &TaskFilter, limit: u32) -> Result<Vec<Task>, StoreError> {
        let filter = filter.clone();
        self.read_long("list tasks", move |connection| list(connection, &filter, limit)).await
    }
}

impl Tasks<&Store> {
    /// Accepts a task and puts it into the inbox of its session.
    pub(crate) async fn add(
        self,
        new: NewTask,
        item: NewInboxItem,
        entry: AuditEntry,
    ) -> Result<TaskSubmission, StoreError> {
        self.write("accept a task", move |transaction| insert(transaction, &new, item, entry)).await
    }

    /// Changes a task as `change` decides. Returns `None` if the task does not exist.
    ///
    /// Nothing is changed if `change` returns `None` or a state that can't follow.
    pub(crate) async fn change<F>(self, id: String, change: F) -> Result<Option<TaskChangeResult>, StoreError>
    where
        F: FnOnce(&Task) -> Option<TaskChange> + Send + 'static,
    {
        self.write("change a task", move |transaction| {
            let Some(before) = find(transaction, &id)? else { return Ok(None) };
            // The turn that holds the task now: the caller may have to stop it.
            let in_flight: Option<String> = transaction
                .prepare_cached(
                    "SELECT turn FROM inbox WHERE task = ?1 AND turn IS NOT NULL AND kind IN ('dm', 'resume')
                     ORDER BY id LIMIT 1",
                )?
                .query_row([&id], |row| row.get(0))
                .optional()?;
            let in_flight = in_flight.map(|turn| turn.parse()).transpose();
            let in_flight = in_flight.map_err(|_| sql::Error::Malformed)?;
            // The callback decides within the transaction, from the current row.
            let change = change(&before).filter(|change| before.state.may_become(change.task.state));
            let Some(change) = change else {
                return Ok(Some(TaskChangeResult { before, after: None, in_flight }));
            };
            write(transaction, &change.task)?;
            insert_change_message(transaction, &before, &change)?;
            if let Some(key) = &change.key {
                let (id, now) = (&change.task.id, change.task.updated_at);
                idempotency::insert(transaction, key, None, Some(id), now)?;
            }
            // Items that a turn has received are left for the end of that turn.
            if change.recall {
                transaction
                    .prepare_cached("DELETE FROM inbox WHERE task = ?1 AND turn IS NULL")?
                    .execute([&id])?;
            }
            if let Some(item) = &change.item {
                inbox::add(transaction, item)?;
            }
            if let Some(exchange) = &change.exchange {
                exchange::add(transaction, exchange)?;
            }
            if let Some(entry) = &change.entry {
                audit::append(transaction, entry, change.task.updated_at)?;
            }
            Ok(Some(TaskChangeResult { before, after: Some(change.task), in_flight }))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_state_changes_only_as_the_table_allows() {
        use TaskState::{Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working};
        let allowed = |from: TaskState| -> Vec<TaskState> {
            TaskState::ALL.into_iter().filter(|to| from.may_become(*to)).collect()
        };
        assert_eq!(
            allowed(Submitted),
            [Working, InputRequired, Completed, Failed, Canceled, Rejected],
            "a turn that was not announced may have ended already"
        );
        assert_eq!(allowed(Working), [Working, InputRequired, Completed, Failed, Canceled]);
        assert_eq!(allowed(InputRequired), [Working, Failed, Canceled]);
        for end in [Completed, Failed, Canceled, Rejected] {
            assert!(end.is_final());
            assert_eq!(allowed(end), []);
        }
        for state in TaskState::ALL {
            assert_eq!(TaskState::named(state.as_str()), Some(state));
            let reached = TaskState::ALL.into_iter().any(|from| from != state && from.may_become(state));
            assert_eq!(reached, state != Submitted, "{state:?}");
        }
    }
}
