//! Tasks: what one party asked of an agent, and what became of it. One row each, whoever asked; what is
//! counted of them is counted from these rows. A task changes its state along [`TaskState::may_become`] or
//! not at all, and each change is one transaction with what it puts into inboxes and the audit.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction};

use super::audit::{self, AuditEntry};
use super::exchange::{self, NewExchange};
use super::idempotency::{self, IdempotencyKey};
use super::inbox::{self, NewItem};
use super::session::parsed;
use super::{Reader, Store, StoreError, usage};
use crate::id::{AgentId, ChannelId, SessionKey, TurnId};

/// How a task came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// A direct message of another agent.
    Message,
    /// A request by the Agent2Agent protocol.
    A2a,
}

impl TaskKind {
    /// The word in the database and the API.
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

/// Where a task stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskState {
    /// Accepted; no turn has begun with it.
    Submitted,
    /// A turn works on it, or is to go on with it.
    Working,
    /// The assignee asked something back and waits.
    InputRequired,
    /// There is an answer.
    Completed,
    /// There will be none.
    Failed,
    /// The requester or a person stopped it.
    Canceled,
    /// It was never begun.
    Rejected,
}

impl TaskState {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Submitted,
        Self::Working,
        Self::InputRequired,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
        Self::Rejected,
    ];

    /// The word in the database, for agents and in the API; the one of A2A.
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

    /// The state with this word.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing comes after it.
    #[must_use]
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled | Self::Rejected)
    }

    /// Whether a task may go from this state to the next. Working again is another turn with it.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        match self {
            Self::Submitted => !matches!(next, Self::Submitted),
            Self::Working => !matches!(next, Self::Submitted | Self::Rejected),
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
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.as_str().into())
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its id; ids sort by time.
    pub id: String,
    /// The conversation that it belongs to.
    pub context: String,
    /// How it came.
    pub kind: TaskKind,
    /// Who asked: an agent's id, or `a2a:<name>`.
    pub requester: String,
    /// The requester's session, which is given the answer.
    pub origin: Option<SessionKey>,
    /// The session of the agent that does it.
    pub session: SessionKey,
    /// Where it stands.
    pub state: TaskState,
    /// The beginning of what was asked, on one line.
    pub summary: String,
    /// What was asked.
    pub request: String,
    /// What the assignee asked back last.
    pub question: Option<String>,
    /// In which turn it did.
    pub asked_in: Option<TurnId>,
    /// What it was told.
    pub reply: Option<String>,
    /// The answer, or why there is none.
    pub response: Option<String>,
    /// The turn that works on it, or did.
    pub turn: Option<TurnId>,
    /// When it was accepted, in Unix milliseconds.
    pub created_at: i64,
    /// When it last changed, in Unix milliseconds.
    pub updated_at: i64,
    /// When it came to its final state, in Unix milliseconds.
    pub completed_at: Option<i64>,
}

impl Task {
    /// Who does it.
    #[must_use]
    pub const fn assignee(&self) -> &AgentId {
        self.session.agent()
    }
}

/// A task that is to be.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// The conversation that it belongs to.
    pub context: String,
    /// How it came.
    pub kind: TaskKind,
    /// Who asks.
    pub requester: String,
    /// The requester's session, which is to be given the answer.
    pub origin: Option<SessionKey>,
    /// The channel that its calls are charged to.
    pub charged: Option<ChannelId>,
    /// The session of the agent that is to do it.
    pub session: SessionKey,
    /// The beginning of what is asked, on one line.
    pub summary: String,
    /// What is asked.
    pub request: String,
    /// What counts for the brakes.
    pub exchange: Option<NewExchange>,
    /// The name of the message and the digest of the request, where its client may send it again.
    pub key: Option<IdempotencyKey>,
    /// Now, in Unix milliseconds.
    pub now: i64,
}

/// Something that was said in a task which came by A2A.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskMessage {
    /// Whether its client said it; else the agent did.
    pub is_client: bool,
    /// The name that the client gave it.
    pub name: Option<String>,
    /// What was said.
    pub text: String,
}

/// How a task is to be changed.
#[derive(Clone, Debug)]
pub struct TaskChange {
    /// What it is to be afterwards; its id, its parties and its request stay as they were.
    pub task: Task,
    /// What is to wait for a session because of it.
    pub item: Option<NewItem>,
    /// Whether what still waits for a turn because of it is taken back.
    pub recall: bool,
    /// The row of the audit, where it gets one.
    pub entry: Option<AuditEntry>,
    /// What counts for the brakes.
    pub exchange: Option<NewExchange>,
    /// The name of the reply's message and the digest of the request, where its client may send it again.
    pub key: Option<IdempotencyKey>,
}

/// What a new task came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is there.
    New(Task),
    /// It was there already: its client has sent it before.
    Before(Task),
    /// Its client sent another request under the same key.
    KeyReused,
}

/// What a change came to.
#[derive(Clone, Debug)]
pub struct TaskChanged {
    /// The task as it was.
    pub before: Task,
    /// The task as it is now; `None` where nothing was changed.
    pub after: Option<Task>,
    /// The turn that it was given to and that has not ended.
    pub in_flight: Option<TurnId>,
}

/// Which tasks.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// Those that this party asked for.
    pub requester: Option<String>,
    /// Those that this agent does.
    pub assignee: Option<AgentId>,
    /// Those that this agent asked for or does.
    pub party: Option<AgentId>,
    /// Those that came this way.
    pub kind: Option<TaskKind>,
    /// Those of this conversation.
    pub context: Option<String>,
    /// Those in this state.
    pub state: Option<TaskState>,
    /// Those that changed at this time (Unix milliseconds) or later.
    pub since: Option<i64>,
    /// Those older than this one.
    pub before: Option<String>,
}

/// How many tasks an agent was given and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct TaskCounts {
    /// In all.
    pub total: u64,
    /// Those with an answer.
    pub completed: u64,
    /// Those that failed.
    pub failed: u64,
}

const COLUMNS: &str =
    "id, context, kind, requester, origin, session, state, summary, request, question, asked_in,
    reply, response, turn, created_at, updated_at, completed_at";

fn row(row: &Row<'_>) -> rusqlite::Result<Task> {
    let origin: Option<String> = row.get(4)?;
    Ok(Task {
        id: row.get(0)?,
        context: row.get(1)?,
        kind: row.get(2)?,
        requester: row.get(3)?,
        origin: origin.map(|key| key.parse()).transpose().map_err(|_| rusqlite::Error::InvalidQuery)?,
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
    })
}

fn turn(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<TurnId>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| text.parse()).transpose().map_err(|_| rusqlite::Error::InvalidQuery)
}

fn find(connection: &Connection, id: &str) -> rusqlite::Result<Option<Task>> {
    connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM task WHERE id = ?1"))?
        .query_row([id], row)
        .optional()
}

fn list(connection: &Connection, filter: &TaskFilter, limit: u32) -> rusqlite::Result<Vec<Task>> {
    let (conditions, mut values) = conditions(filter);
    values.push(Box::new(limit));
    let sql = format!("SELECT {COLUMNS} FROM task WHERE {conditions} ORDER BY id DESC LIMIT ?");
    connection.prepare_cached(&sql)?.query_map(rusqlite::params_from_iter(values), row)?.collect()
}

fn conditions(filter: &TaskFilter) -> (String, Vec<Box<dyn ToSql>>) {
    let mut conditions = vec!["1"];
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    let mut add = |condition, value: Box<dyn ToSql>| {
        conditions.push(condition);
        values.push(value);
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

/// Keeps something that was said in a task.
fn say(
    transaction: &Transaction<'_>,
    task: &str,
    is_client: bool,
    name: Option<&str>,
    text: &str,
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "INSERT INTO task_message (task, seq, is_client, name, text)
             SELECT ?1, coalesce(max(seq), 0) + 1, ?2, ?3, ?4 FROM task_message WHERE task = ?1",
        )?
        .execute((task, is_client, name, text))
        .map(drop)
}

/// Keeps what a change of a task that came by A2A adds to what was said in it.
fn say_change(transaction: &Transaction<'_>, before: &Task, change: &TaskChange) -> rusqlite::Result<()> {
    let after = &change.task;
    if after.kind != TaskKind::A2a {
        return Ok(());
    }
    if let Some(question) = after.question.as_deref().filter(|_| after.state == TaskState::InputRequired) {
        return say(transaction, &after.id, false, None, question);
    }
    if let Some(reply) = after.reply.as_deref().filter(|_| before.state == TaskState::InputRequired) {
        let name = change.key.as_ref().map(|key| key.name.as_str());
        return say(transaction, &after.id, true, name, reply);
    }
    Ok(())
}

fn write(transaction: &Transaction<'_>, task: &Task) -> rusqlite::Result<()> {
    transaction
        .prepare_cached(
            "UPDATE task SET state = ?2, question = ?3, asked_in = ?4, reply = ?5, response = ?6, turn = ?7,
             updated_at = ?8, completed_at = ?9 WHERE id = ?1",
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
        ))
        .map(drop)
}

impl Store {
    /// Accepts a task: it waits for its session.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn add_task(
        &self,
        new: NewTask,
        item: NewItem,
        entry: AuditEntry,
    ) -> Result<Added, StoreError> {
        self.write("accept a task", move |transaction| {
            if let Some(key) = &new.key
                && let Some(first) = idempotency::find(transaction, key, new.now)?
            {
                let id = first.answer.filter(|_| first.digest == key.digest);
                let task = id.map(|id| find(transaction, &id)).transpose()?.flatten();
                return Ok(task.map_or(Added::KeyReused, Added::Before));
            }
            let id = uuid::Uuid::now_v7().to_string();
            transaction
                .prepare_cached(
                    "INSERT INTO task (id, context, kind, requester, origin, assignee, session, state, summary,
                     request, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 'submitted', ?8, ?9, ?10, ?10)",
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
                ))?;
            inbox::add(transaction, &NewItem { task: Some(id.clone()), ..item })?;
            if let Some(exchange) = &new.exchange {
                exchange::add(transaction, exchange)?;
            }
            if let Some(channel) = &new.charged {
                usage::charge(transaction, &id, channel)?;
            }
            let digest = audit::digest(&new.request);
            let detail = format!("{}, {} bytes, sha256 {digest}", entry.detail, new.request.len());
            audit::append(transaction, &AuditEntry { subject: id.clone(), detail, ..entry }, new.now)?;
            if let Some(key) = &new.key {
                idempotency::insert(transaction, key, None, Some(&id), new.now)?;
            }
            if new.kind == TaskKind::A2a {
                let name = new.key.as_ref().map(|key| key.name.as_str());
                say(transaction, &id, true, name, &new.request)?;
            }
            find(transaction, &id)?.map(Added::New).ok_or(rusqlite::Error::QueryReturnedNoRows)
        })
        .await
    }

    /// What was said in a task that came by A2A, oldest first. Empty for tasks of before that was kept.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn task_messages(&self, id: &str) -> Result<Vec<TaskMessage>, StoreError> {
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
    }

    /// Changes a task as `change` decides; `None` changes nothing, and so does a state that can't follow.
    /// `None` is returned where there is no such task.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub async fn change_task<F>(&self, id: String, change: F) -> Result<Option<TaskChanged>, StoreError>
    where
        F: FnOnce(&Task) -> Option<TaskChange> + Send + 'static,
    {
        self.write("change a task", move |transaction| {
            let Some(before) = find(transaction, &id)? else { return Ok(None) };
            let in_flight: Option<String> = transaction
                .prepare_cached(
                    "SELECT turn FROM inbox WHERE task = ?1 AND turn IS NOT NULL AND kind IN ('dm', 'resume')
                     ORDER BY id LIMIT 1",
                )?
                .query_row([&id], |row| row.get(0))
                .optional()?;
            let in_flight = in_flight.map(|turn| turn.parse()).transpose();
            let in_flight = in_flight.map_err(|_| rusqlite::Error::InvalidQuery)?;
            let change = change(&before).filter(|change| before.state.may_become(change.task.state));
            let Some(change) = change else {
                return Ok(Some(TaskChanged { before, after: None, in_flight }));
            };
            write(transaction, &change.task)?;
            say_change(transaction, &before, &change)?;
            if let Some(key) = &change.key {
                let (id, now) = (&change.task.id, change.task.updated_at);
                idempotency::insert(transaction, key, None, Some(id), now)?;
            }
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
            Ok(Some(TaskChanged { before, after: Some(change.task), in_flight }))
        })
        .await
    }

    /// The task with this id.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn task(&self, id: &str) -> Result<Option<Task>, StoreError> {
        self.read("find a task", |connection| find(connection, id))
    }

    /// Tasks, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn tasks(&self, filter: &TaskFilter, limit: u32) -> Result<Vec<Task>, StoreError> {
        self.read("list tasks", |connection| list(connection, filter, limit))
    }

    /// How many tasks there are.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn count_tasks(&self, filter: &TaskFilter) -> Result<u64, StoreError> {
        self.read("count tasks", |connection| {
            let (conditions, values) = conditions(filter);
            let count: i64 = connection
                .prepare_cached(&format!("SELECT count(*) FROM task WHERE {conditions}"))?
                .query_row(rusqlite::params_from_iter(values), |row| row.get(0))?;
            Ok(count.unsigned_abs())
        })
    }

    /// How many tasks each agent was given, those without one left out.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn task_counts(&self) -> Result<std::collections::HashMap<String, TaskCounts>, StoreError> {
        self.read("count tasks", |connection| {
            connection
                .prepare_cached(
                    "SELECT assignee, count(*), sum(state = 'completed'), sum(state = 'failed')
                     FROM task GROUP BY assignee",
                )?
                .query_map((), |row| {
                    let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
                    Ok((
                        row.get(0)?,
                        TaskCounts { total: count(1)?, completed: count(2)?, failed: count(3)? },
                    ))
                })?
                .collect()
        })
    }

    /// The tasks that are under way though nothing of them waits and no turn has them: whoever was to say how
    /// their turn ended was killed before. Those whose assignee asked back wait for a reply and are none.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn stranded_tasks(&self) -> Result<Vec<String>, StoreError> {
        self.read("look for lost tasks", |connection| {
            connection
                .prepare(
                    "SELECT id FROM task WHERE state IN ('submitted', 'working')
                     AND NOT EXISTS (SELECT 1 FROM inbox WHERE inbox.task = task.id AND inbox.kind IN ('dm', 'resume'))",
                )?
                .query_map((), |row| row.get(0))?
                .collect()
        })
    }

    /// The agents with tasks that have not come to an end.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn assignees(&self) -> Result<Vec<AgentId>, StoreError> {
        self.read("list tasks", |connection| {
            connection
                .prepare(
                    "SELECT DISTINCT assignee FROM task WHERE state IN ('submitted', 'working', 'input-required')",
                )?
                .query_map((), |row| parsed(row, 0))?
                .collect()
        })
    }

    /// The tasks of an agent that have not come to an end.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn open_tasks(&self, assignee: &AgentId) -> Result<Vec<String>, StoreError> {
        self.read("list tasks", |connection| {
            connection
                .prepare_cached(
                    "SELECT id FROM task WHERE assignee = ?1 AND state IN ('submitted', 'working', 'input-required')",
                )?
                .query_map([assignee.as_str()], |row| row.get(0))?
                .collect()
        })
    }
}

impl Reader {
    /// Tasks, the newest first.
    ///
    /// # Errors
    ///
    /// As [`StoreError`] says.
    pub fn tasks(&self, filter: &TaskFilter, limit: u32) -> Result<Vec<Task>, StoreError> {
        self.read("list tasks", |connection| list(connection, filter, limit))
    }
}

#[cfg(test)]
impl Store {
    /// The actions in the audit, the oldest first.
    pub(crate) fn audited(&self) -> Vec<String> {
        self.read("read the audit", |connection| {
            connection
                .prepare("SELECT action FROM audit ORDER BY id")?
                .query_map((), |row| row.get(0))?
                .collect()
        })
        .unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_moves_only_along_the_table() {
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
