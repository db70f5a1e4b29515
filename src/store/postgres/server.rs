//! A server, and new connections to it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::runtime::{OwnRuntime, Runtime};
use super::session::{Session, Waiter};
use super::settings::{Encryption, Settings};
use super::text::quoted;
use super::{PostgresError, hosts, tls, wait};
use crate::config::secret;
use crate::home::Home;
use crate::store::{ReadDeadline, StoreError, sql};

/// The name of the secret with the password, if the home names no other.
pub(in crate::store) const DEFAULT_SECRET: &str = "postgres";

/// The longest time that a statement may take on the server. It is for statements that hang: none of flock's own takes
/// nearly as long.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(1);
/// The same while a gateway starts. Its supervisor would take a longer wait, as for a table that is locked, for a crash.
const START_STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);
/// The time after which the server ends a transaction whose client does nothing.
const IDLE_TRANSACTION_TIMEOUT: Duration = Duration::from_mins(1);
/// The same for changes. They hold the lock of all changes: if a process is paused in the middle of one, or cut off, all gateways
/// wait for it, and can't even say that they live. With the time between two signs of life, this has to stay within
/// [`LATE_MS`](crate::store::gateway::LATE_MS), or the others count as late themselves and replace nobody.
const IDLE_CHANGE_TIMEOUT: Duration = Duration::from_secs(1);
/// The time beyond the server's own limit after which an answer is not waited for any more.
const ANSWER_MARGIN: Duration = Duration::from_secs(10);
/// The time in which a new connection has to be ready. Each address of each host may take the timeout of a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);
/// The time that connections have to tell the server that they close.
const GOODBYE_LIMIT: Duration = Duration::from_secs(2);
/// The same for readers with a deadline, which leave nothing behind at the server.
const SHORT_GOODBYE_LIMIT: Duration = Duration::from_millis(100);
/// The time for a migration, or for another change of the whole database.
const LONG_LIMIT: Duration = Duration::from_hours(1);

/// The task of a connection.
pub(super) type Task = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
    /// Changes of the schema, which may take long and find no schema yet.
    Migrate,
}

/// The thread on which the task of a connection runs, which reads and writes its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driving {
    /// The thread of the connections. Any thread may use the connection.
    Apart,
    /// The thread that uses the connection, while it waits for an answer, which saves two changes of threads for each. A
    /// thread on which a runtime runs its tasks can't wait like that.
    Here,
}

/// A server, shared by all that use it in this process.
pub(in crate::store) struct Server {
    pub(super) settings: Settings,
    /// The end of the time in which it has to answer, if this process does not wait for longer.
    pub(super) deadline: ReadDeadline,
    home: Home,
    secret: String,
    tls: MakeRustlsConnect,
    runtime: Runtime,
}

impl Server {
    /// Returns the server of these settings. The password is the secret of this name, if there is one.
    pub(in crate::store) fn new(
        home: &Home,
        settings: Settings,
        secret: String,
    ) -> Result<Arc<Self>, StoreError> {
        Self::until(home, settings, secret, ReadDeadline::default())
    }

    /// Returns the server as [`Self::new`] does, for reads that end at this deadline.
    pub(in crate::store) fn until(
        home: &Home,
        settings: Settings,
        secret: String,
        deadline: ReadDeadline,
    ) -> Result<Arc<Self>, StoreError> {
        let tls = tls::connector(&settings).map_err(|reason| {
            let source = PostgresError::Settings(reason).into();
            StoreError::Connect { place: settings.to_string(), secret: home.secrets().join(&secret), source }
        })?;
        let goodbye = if deadline.is_set() { SHORT_GOODBYE_LIMIT } else { GOODBYE_LIMIT };
        let runtime = Runtime::start(goodbye).map_err(StoreError::Thread)?;
        Ok(Arc::new(Self { settings, deadline, home: home.clone(), secret, tls, runtime }))
    }

    /// Makes a connection.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Connect`] if the server can't be reached or refuses the sign-in, and [`StoreError::Beside`]
    /// if the password can't be read.
    pub(super) fn connect(self: &Arc<Self>, purpose: Purpose) -> Result<Session, StoreError> {
        self.connect_driven(purpose, Driving::Apart)
    }

    /// Makes a connection as [`Self::connect`] does, and has its task run where `driving` says.
    pub(super) fn connect_driven(
        self: &Arc<Self>,
        purpose: Purpose,
        driving: Driving,
    ) -> Result<Session, StoreError> {
        // Read each time, so that a new password is used by the next connection.
        let password = secret::get(&self.home, &self.secret)?;
        self.sign_in(password.as_deref(), purpose, driving).map_err(|source| StoreError::Connect {
            place: self.settings.to_string(),
            secret: self.home.secrets().join(&self.secret),
            source: source.into(),
        })
    }

    /// Returns what another connection than [`Self::connect`] makes needs to have.
    pub(super) fn parts(&self) -> (Settings, Home, String, MakeRustlsConnect) {
        (self.settings.clone(), self.home.clone(), self.secret.clone(), self.tls.clone())
    }

    /// Runs a task on the thread of the connections. It must not keep this server.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(task);
    }

    fn sign_in(
        self: &Arc<Self>,
        password: Option<&str>,
        purpose: Purpose,
        driving: Driving,
    ) -> Result<Session, PostgresError> {
        let time = self.deadline.of_step(CONNECT_LIMIT);
        let mut config = self.settings.with_password(password);
        config.connect_timeout(self.settings.socket_limit(time));
        let connecting = connect(config, self.settings.encryption, self.tls.clone());
        let (client, waiter) = match driving {
            Driving::Apart => (self.connect_apart(connecting, time)?, Waiter::Parked),
            Driving::Here => {
                let runtime = OwnRuntime::new()?;
                let connected = runtime.within(time, connecting);
                let (client, task) = connected.ok_or(PostgresError::NoAnswer(time))??;
                runtime.spawn(until_its_end(task));
                (client, Waiter::Own(runtime))
            }
        };
        let statement_timeout = if purpose == Purpose::Migrate { Duration::ZERO } else { STATEMENT_TIMEOUT };
        let idle_timeout =
            if purpose == Purpose::Write { IDLE_CHANGE_TIMEOUT } else { IDLE_TRANSACTION_TIMEOUT };
        let limit = if purpose == Purpose::Migrate { LONG_LIMIT } else { STATEMENT_TIMEOUT + ANSWER_MARGIN };
        let session = Session::new(client, waiter, Arc::clone(self), limit);
        session
            .batch(&format!(
            "SET search_path TO {}; SET statement_timeout = {}; SET idle_in_transaction_session_timeout = {};
             SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = {};
             SET synchronous_commit = {}; SET standard_conforming_strings = on; SET jit = off",
            quoted(&self.settings.schema),
            statement_timeout.as_millis(),
            idle_timeout.as_millis(),
            if purpose == Purpose::Read { "on" } else { "off" },
            self.settings.commit_wait.of_changes(),
        ))
            .map_err(|error| match error {
                crate::store::sql::Error::Postgres(error) => error,
                other => PostgresError::Connection(other.to_string()),
            })?;
        Ok(session)
    }

    /// Makes a connection within `time` on the thread of the connections: its socket belongs to that thread's runtime.
    fn connect_apart(
        &self,
        connecting: impl Future<Output = Result<(Client, Task), tokio_postgres::Error>> + Send + 'static,
        time: Duration,
    ) -> Result<Client, PostgresError> {
        let (tell, told) = oneshot::channel();
        self.runtime.spawn(async move {
            // An attempt that nobody waits for has to end: a server that hangs would have one more of them after each read.
            match tokio::time::timeout(time, connecting).await {
                Ok(Ok((client, task))) => {
                    // If nobody waits any more, the client is dropped, and the connection ends by that.
                    drop(tell.send(Ok(client)));
                    until_its_end(task).await;
                }
                Ok(Err(error)) => drop(tell.send(Err(PostgresError::from(error)))),
                Err(_) => drop(tell.send(Err(PostgresError::NoAnswer(time)))),
            }
        });
        match wait::within(time, told) {
            Some(Ok(connected)) => connected,
            Some(Err(_)) => Err(PostgresError::Connection("its thread has ended".to_owned())),
            None => Err(PostgresError::NoAnswer(time)),
        }
    }
}

/// Connects with the password in `config`, encrypted or not, to the first of its servers that takes changes.
///
/// # Errors
///
/// Returns the reason of a server, or of the network.
pub(super) async fn connect(
    config: Config,
    encryption: Encryption,
    tls: MakeRustlsConnect,
) -> Result<(Client, Task), tokio_postgres::Error> {
    // The driver would wait for one that stands still, and ask no other.
    let each = hosts::each(&config).into_iter();
    let mut attempts: VecDeque<_> =
        each.map(|host| Box::pin(connect_to(host, encryption, tls.clone()))).collect();
    match attempts.pop_front() {
        Some(first) => hosts::first_of(first, attempts.into()).await,
        None => connect_to(config, encryption, tls).await,
    }
}

async fn connect_to(
    config: Config,
    encryption: Encryption,
    tls: MakeRustlsConnect,
) -> Result<(Client, Task), tokio_postgres::Error> {
    if encryption == Encryption::Spared {
        let mut plain = config.clone();
        plain.ssl_mode(SslMode::Disable);
        match plain.connect(tls.clone()).await {
            // The server's own rules may ask for encryption here, too.
            Err(error) if error.code() == Some(&SqlState::INVALID_AUTHORIZATION_SPECIFICATION) => {}
            done => return done,
        }
    }
    config.connect(tls).await
}

/// Sets the time that a statement of this connection may take on the server: less while a gateway starts.
///
/// # Errors
///
/// Returns an error if the server fails.
pub(super) fn limit_statements(session: &Session, is_start: bool) -> sql::Result<()> {
    let limit = if is_start { START_STATEMENT_TIMEOUT } else { STATEMENT_TIMEOUT };
    session.batch(&format!("SET statement_timeout = {}", limit.as_millis()))
}

async fn until_its_end(task: Task) {
    if let Err(error) = task.await {
        tracing::debug!(error = crate::error::chain(&error), "a connection to PostgreSQL ended");
    }
}
