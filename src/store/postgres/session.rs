//! A connection to PostgreSQL, used by one thread at a time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use tokio_postgres::{Client, Row, SimpleQueryMessage, Statement};

use super::begin::{Begun, TransactionId};
use super::held_rows::{HeldRows, Insertion};
use super::runtime::OwnRuntime;
use super::server::{Driving, Server};
use super::value::Parameter;
use super::{PostgresError, text, wait};
use crate::store::change::Slot;
use crate::store::sql::{self, ChainEnd, Result, Value};

/// The number of prepared statements that a connection keeps. flock has about five hundred, most of them for seldom
/// use. Each takes some memory on the server too.
const MAX_STATEMENTS: usize = 256;

/// The number of statements after which those that were sent leave this process, so that the server works on them while
/// the next ones are made.
const KICK: usize = 12;

/// The time after an answer for which the server is taken to be there still.
const FRESH: Duration = Duration::from_secs(1);

/// An answer of the server.
type Answer<T> = std::result::Result<T, tokio_postgres::Error>;

/// A statement that was sent.
type Sent = Pin<Box<dyn Future<Output = Answer<()>> + Send>>;

/// The way in which a thread waits for the answers of a connection.
pub(super) enum Waiter {
    /// Until the thread of the connections wakes it.
    Parked,
    /// By running the connection.
    Own(OwnRuntime),
}

/// A connection.
pub(in crate::store) struct Session {
    client: Arc<Client>,
    waiter: Waiter,
    statements: RefCell<StatementCache>,
    /// The place for the answer to the transaction's begin, if that was sent and nobody has waited for it yet.
    begin: RefCell<Option<Slot<Begun>>>,
    /// The identity of the transaction, once its begin was answered.
    transaction: RefCell<TransactionId>,
    /// The rows of the transaction that are not sent yet.
    held: RefCell<HeldRows>,
    /// The statements that were sent, in their order, and whose answers nobody has waited for yet.
    sent: RefCell<Vec<Sent>>,
    /// The time of the last answer.
    answered: Cell<Option<Instant>>,
    /// Set once the connection can't be used any more, as after an answer that did not come: it may come later, in
    /// place of another.
    is_lost: Cell<bool>,
    /// Set if a statement failed. In a transaction, PostgreSQL then refuses all others until a rollback.
    is_spoiled: Cell<bool>,
    /// The notices of the transaction, which go out with its commit.
    notices: RefCell<Vec<String>>,
    /// The end of the audit's chain, as far as the transaction knows it.
    chain_end: RefCell<Option<ChainEnd>>,
    /// The time for which the last transaction waited for the lock of all changes.
    lock_wait: Cell<Duration>,
    limit: Duration,
    // The thread of the connections ends after the last of them.
    pub(super) server: Arc<Server>,
}

impl Session {
    pub(super) fn new(client: Client, waiter: Waiter, server: Arc<Server>, limit: Duration) -> Self {
        Self {
            client: Arc::new(client),
            waiter,
            statements: RefCell::default(),
            begin: RefCell::default(),
            transaction: RefCell::default(),
            held: RefCell::default(),
            sent: RefCell::default(),
            answered: Cell::new(None),
            is_lost: Cell::new(false),
            is_spoiled: Cell::new(false),
            notices: RefCell::default(),
            chain_end: RefCell::default(),
            lock_wait: Cell::default(),
            limit,
            server,
        }
    }

    /// Returns `true` unless the connection is known to be broken.
    pub(in crate::store) fn is_usable(&self) -> bool {
        !self.is_lost.get() && !self.client.is_closed()
    }

    /// Returns `true` if the server has answered a moment ago. A connection that was idle for longer may have ended without a
    /// word, as when the server's machine has lost its power.
    pub(super) fn is_fresh(&self) -> bool {
        self.answered.get().is_some_and(|answered| answered.elapsed() < FRESH)
    }

    /// Returns `true` if a statement has failed since the last [`Self::clear_failure`].
    pub(super) fn is_spoiled(&self) -> bool {
        self.is_spoiled.get()
    }

    /// Takes note of a transaction's begin or end, after which statements are accepted again.
    pub(super) fn clear_failure(&self) {
        self.is_spoiled.set(false);
    }

    /// Adds a notice to the transaction.
    pub(in crate::store) fn add_notice(&self, text: String) {
        let mut notices = self.notices.borrow_mut();
        if !notices.contains(&text) {
            notices.push(text);
        }
    }

    /// Returns the number of notices that the transaction has.
    pub(super) fn notice_count(&self) -> usize {
        self.notices.borrow().len()
    }

    /// Drops the notices after the first `count`, whose changes were undone.
    pub(super) fn drop_notices(&self, count: usize) {
        self.notices.borrow_mut().truncate(count);
    }

    /// Returns the notices of the transaction, and begins anew.
    pub(super) fn take_notices(&self) -> Vec<String> {
        self.notices.take()
    }

    /// Returns where the task of the connection runs.
    pub(super) const fn driving(&self) -> Driving {
        match self.waiter {
            Waiter::Parked => Driving::Apart,
            Waiter::Own(_) => Driving::Here,
        }
    }

    /// Returns the end of the audit's chain, if the transaction knows it. Only changes add to the chain, and they are serial,
    /// so the end stays what it is until this transaction adds to it.
    pub(in crate::store) fn chain_end(&self) -> Result<Option<ChainEnd>> {
        self.settle_begin()?;
        Ok(self.chain_end.borrow().clone())
    }

    /// Takes note of the end of the audit's chain, or that it is not known.
    pub(in crate::store) fn set_chain_end(&self, end: Option<ChainEnd>) {
        self.chain_end.replace(end);
    }

    /// Returns the time for which the last transaction waited for the lock of all changes.
    pub(super) fn lock_wait(&self) -> Duration {
        self.lock_wait.get()
    }

    /// Takes note of the time for which a transaction waited in vain for the lock of all changes.
    pub(super) fn set_lock_wait(&self, wait: Duration) {
        self.lock_wait.set(wait);
    }

    /// Makes the connection unusable, so that nobody uses it again.
    pub(super) fn give_up(&self) {
        self.is_lost.set(true);
    }

    /// Prepares a statement, or finds it among those that are prepared.
    pub(in crate::store) fn prepare(&self, sql: &str) -> Result<PreparedStatement<'_>> {
        let kept = self.statements.borrow_mut().find(sql);
        let statement = match kept {
            Some(statement) => statement,
            None => {
                let prepared = self.run(self.client.prepare(&text::with_dollars(sql)))?;
                self.statements.borrow_mut().keep(sql, prepared.clone());
                prepared
            }
        };
        Ok(PreparedStatement { session: self, statement })
    }

    /// Inserts a row of the transaction with the next statement whose answer is waited for, together with other rows of this
    /// statement. `sql` ends with `VALUES (?1, …)`. Statements that are only sent may come before the row.
    pub(in crate::store) fn hold(&self, sql: &str, row: Vec<Value>) {
        self.held.borrow_mut().add(sql, row);
    }

    /// Runs statements without parameters, and reads no rows.
    pub(in crate::store) fn batch(&self, sql: &str) -> Result<()> {
        self.run(self.client.batch_execute(sql))
    }

    /// Makes the commit of the transaction wait for the server's disk, and for its synchronous replica.
    pub(in crate::store) fn commit_on_disk(&self) -> Result<()> {
        self.send_batch(self.server.settings.commit_wait.for_decision())
    }

    /// Runs statements without parameters, and returns the texts of the last row.
    pub(super) fn texts(&self, sql: &str) -> Result<Vec<Option<String>>> {
        Ok(last_row(self.run(self.client.simple_query(sql))?))
    }

    /// Sends the statements that begin a transaction. The next statement waits for their answer too, which costs no way of
    /// its own, and reports their failure in place of its own answer.
    ///
    /// # Errors
    ///
    /// Returns an error if they can't be sent.
    pub(super) fn begin(&self, statements: String) -> Result<()> {
        self.clear_failure();
        self.drop_notices(0);
        self.set_chain_end(None);
        self.transaction.take();
        self.held.take();
        let (client, answer) = (Arc::clone(&self.client), Slot::default());
        self.begin.replace(Some(answer.clone()));
        self.send(async move {
            let messages = client.simple_query(&statements).await?;
            answer.fill(Begun::read(&last_row(messages)));
            Ok(())
        })
    }

    /// Waits until the transaction has begun.
    ///
    /// # Errors
    ///
    /// Returns [`sql::Error::Fenced`] if the gateway of the fence was ended, and the failure of the begin or of a statement
    /// that was sent after it.
    pub(super) fn settle_begin(&self) -> Result<()> {
        if self.begin.borrow().is_none() { Ok(()) } else { self.run(std::future::ready(Ok(()))) }
    }

    /// Returns the identity of the transaction, once [`Self::settle_begin`] has waited for it.
    pub(super) fn transaction_id(&self) -> TransactionId {
        self.transaction.borrow().clone()
    }

    /// Sends statements without parameters and does not wait for the answer, as [`PreparedStatement::send`]. Held rows come
    /// before it.
    pub(super) fn send_batch(&self, sql: &'static str) -> Result<()> {
        self.send_held()?;
        let client = Arc::clone(&self.client);
        self.send(async move { client.batch_execute(sql).await })
    }

    /// Waits for the answers to all that was sent.
    ///
    /// # Errors
    ///
    /// Returns the first failure.
    pub(super) fn settle(&self) -> Result<()> {
        let is_settled = self.sent.borrow().is_empty() && self.held.borrow().is_empty();
        if is_settled { Ok(()) } else { self.run(std::future::ready(Ok(()))) }
    }

    /// Sends the rows that are held.
    fn send_held(&self) -> Result<()> {
        // Taken first, because preparing a statement comes here again.
        let held = self.held.borrow_mut().take();
        held.into_iter().try_for_each(|Insertion { sql, values }| self.prepare(&sql)?.send(values))
    }

    /// Takes note of the connection's end, if the server has ended it since it was used last.
    pub(super) fn look_for_end(&self) {
        if let Waiter::Own(runtime) = &self.waiter {
            // Its task runs only while this thread waits. The first turn hears from the socket, and the second runs the task.
            runtime.kick();
            runtime.kick();
        }
    }

    /// Undoes changes by this rollback. Statements are accepted again after it, and nobody asks any more what became of those
    /// that were sent.
    pub(super) fn undo(&self, rollback: &str) -> Result<()> {
        self.begin.take();
        self.held.take();
        self.sent.take();
        self.set_chain_end(None);
        self.batch(rollback)?;
        self.clear_failure();
        Ok(())
    }

    fn send(&self, answer: impl Future<Output = Answer<()>> + Send + 'static) -> Result<()> {
        let mut answer = Box::pin(answer);
        // Its first poll sends it. Nobody has to be woken: whoever waits next polls it again.
        match answer.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => self.run(std::future::ready(done)),
            Poll::Pending => {
                let mut sent = self.sent.borrow_mut();
                sent.push(answer);
                if sent.len().is_multiple_of(KICK)
                    && let Waiter::Own(runtime) = &self.waiter
                {
                    runtime.kick();
                }
                Ok(())
            }
        }
    }

    /// Takes note of the answer to the transaction's begin. Returns `false` if it may change nothing.
    fn has_begun(&self, begun: Begun) -> bool {
        self.transaction.replace(begun.id);
        self.set_chain_end(begun.chain_end);
        self.lock_wait.set(begun.lock_wait);
        begun.may_change
    }

    /// Waits for an answer of the server, and for those to all that was sent before, which come first.
    fn run<T>(&self, answer: impl Future<Output = Answer<T>>) -> Result<T> {
        if self.is_lost.get() {
            return Err(PostgresError::Connection("it broke before".to_owned()).into());
        }
        self.send_held()?;
        let (begin, sent) = (self.begin.take(), self.sent.take());
        let both = async {
            let earlier = async {
                for answer in sent {
                    answer.await?;
                }
                Ok(())
            };
            // At once, so that this one is on its way while the earlier ones are waited for.
            let (earlier, answer) = futures_util::future::join(earlier, answer).await;
            // What failed first is the reason for what failed then.
            earlier.and(answer)
        };
        let limit = self.server.deadline.of_step(self.limit);
        let waited = match &self.waiter {
            Waiter::Parked => wait::within(limit, both),
            Waiter::Own(runtime) => runtime.within(limit, both),
        };
        if let Some(begun) = begin.and_then(|answer| answer.take())
            && !self.has_begun(begun)
        {
            self.is_spoiled.set(true);
            return Err(sql::Error::Fenced);
        }
        let error = match waited {
            Some(Ok(done)) => {
                self.answered.set(Some(Instant::now()));
                return Ok(done);
            }
            Some(Err(error)) => PostgresError::from(error),
            None => PostgresError::NoAnswer(limit),
        };
        self.is_spoiled.set(true);
        if error.ends_connection() {
            self.is_lost.set(true);
        }
        if error.code() == Some(CHANGED_RESULT) {
            self.statements.borrow_mut().clear();
        }
        Err(error.into())
    }
}

/// Returns the texts of the last row of the answers to statements.
fn last_row(messages: Vec<SimpleQueryMessage>) -> Vec<Option<String>> {
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    let last = rows.last();
    last.map_or_else(Vec::new, |row| {
        (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()
    })
}

/// The SQLSTATE for a prepared statement whose table has changed since, as by another gateway's migration.
const CHANGED_RESULT: &str = "0A000";

/// A prepared statement of a connection.
pub(in crate::store) struct PreparedStatement<'s> {
    session: &'s Session,
    statement: Statement,
}

impl PreparedStatement<'_> {
    /// Runs it, and returns the number of rows that it changed.
    pub(in crate::store) fn execute(&self, values: &[Value]) -> Result<usize> {
        let parameters = self.parameters(values)?;
        let changed = self.session.run(self.session.client.execute_raw(&self.statement, &parameters))?;
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    /// Sends it and does not wait for the answer, which costs no way to the server and back. The next statement that waits
    /// for one reports its failure, or the commit.
    pub(in crate::store) fn send(&self, values: Vec<Value>) -> Result<()> {
        self.check_count(&values)?;
        let (client, statement) = (Arc::clone(&self.session.client), self.statement.clone());
        self.session.send(async move {
            let parameters: Vec<Parameter<'_>> = values.iter().map(Parameter).collect();
            client.execute_raw(&statement, &parameters).await.map(drop)
        })
    }

    /// Runs it, and returns its rows.
    pub(in crate::store) fn query(&self, values: &[Value]) -> Result<Vec<Row>> {
        let parameters = self.parameters(values)?;
        let client = &self.session.client;
        self.session.run(async {
            let rows = client.query_raw(&self.statement, &parameters).await?;
            rows.try_collect().await
        })
    }

    /// Runs it with each of these values, and returns the rows of each. All are sent before the first answer is waited for.
    pub(in crate::store) fn query_each(&self, each: &[Vec<Value>]) -> Result<Vec<Vec<Row>>> {
        let each = each.iter().map(|values| self.parameters(values)).collect::<Result<Vec<_>>>()?;
        let answer = async |parameters: &Vec<Parameter<'_>>| {
            let rows = self.session.client.query_raw(&self.statement, parameters).await?;
            rows.try_collect().await
        };
        self.session.run(try_join_all(each.iter().map(answer)))
    }

    fn parameters<'v>(&self, values: &'v [Value]) -> Result<Vec<Parameter<'v>>> {
        self.check_count(values)?;
        Ok(values.iter().map(Parameter).collect())
    }

    fn check_count(&self, values: &[Value]) -> Result<()> {
        let (given, wanted) = (values.len(), self.statement.params().len());
        if given == wanted { Ok(()) } else { Err(PostgresError::ParameterCount { given, wanted }.into()) }
    }
}

/// The prepared statements of a connection, by their texts.
#[derive(Default)]
struct StatementCache {
    kept: HashMap<Box<str>, (Statement, u64)>,
    uses: u64,
}

impl StatementCache {
    fn find(&mut self, sql: &str) -> Option<Statement> {
        let (statement, used) = self.kept.get_mut(sql)?;
        self.uses += 1;
        *used = self.uses;
        Some(statement.clone())
    }

    fn keep(&mut self, sql: &str, statement: Statement) {
        if self.kept.len() >= MAX_STATEMENTS {
            // A search is cheap beside the way to the server that made it necessary.
            let oldest = self.kept.iter().min_by_key(|(_, (_, used))| *used).map(|(sql, _)| sql.clone());
            oldest.and_then(|oldest| self.kept.remove(&oldest));
        }
        self.uses += 1;
        self.kept.insert(sql.into(), (statement, self.uses));
    }

    fn clear(&mut self) {
        self.kept.clear();
    }
}
