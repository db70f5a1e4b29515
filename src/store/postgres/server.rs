//! A server, and new connections to it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::runtime::Runtime;
use super::session::Session;
use super::settings::Settings;
use super::text::quoted;
use super::{PostgresError, tls, wait};
use crate::config::secret;
use crate::home::Home;
use crate::store::StoreError;

/// The name of the secret with the password, if the home names no other.
pub(in crate::store) const DEFAULT_SECRET: &str = "postgres";

/// The longest time that a statement may take on the server. It is for statements that hang: none of flock's own takes
/// nearly as long.
const STATEMENT_TIMEOUT: Duration = Duration::from_mins(1);
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
/// The time for a migration, or for another change of the whole database.
const LONG_LIMIT: Duration = Duration::from_hours(1);

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Read,
    Write,
    /// Changes of the schema, which may take long and find no schema yet.
    Migrate,
}

/// A server, shared by all that use it in this process.
pub(in crate::store) struct Server {
    pub(super) settings: Settings,
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
        let tls = tls::connector(&settings).map_err(|reason| {
            let source = PostgresError::Settings(reason).into();
            StoreError::Connect { place: settings.to_string(), secret: home.secrets().join(&secret), source }
        })?;
        let runtime = Runtime::start().map_err(StoreError::Thread)?;
        Ok(Arc::new(Self { settings, home: home.clone(), secret, tls, runtime }))
    }

    /// Makes a connection.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError::Connect`] if the server can't be reached or refuses the sign-in, and [`StoreError::Beside`]
    /// if the password can't be read.
    pub(super) fn connect(self: &Arc<Self>, purpose: Purpose) -> Result<Session, StoreError> {
        // Read each time, so that a new password is used by the next connection.
        let password = secret::get(&self.home, &self.secret)?;
        self.sign_in(password.as_deref(), purpose).map_err(|source| StoreError::Connect {
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

    fn sign_in(self: &Arc<Self>, password: Option<&str>, purpose: Purpose) -> Result<Session, PostgresError> {
        let config = self.settings.with_password(password);
        let tls = self.tls.clone();
        let (tell, told) = oneshot::channel();
        // The whole connection is made on the thread on which it lives: its socket belongs to that thread's runtime.
        self.runtime.spawn(async move {
            match config.connect(tls).await {
                Ok((client, connection)) => {
                    // If nobody waits any more, the client is dropped, and the connection ends by that.
                    drop(tell.send(Ok(client)));
                    if let Err(error) = connection.await {
                        tracing::debug!(
                            error = crate::error::chain(&error),
                            "a connection to PostgreSQL ended"
                        );
                    }
                }
                Err(error) => drop(tell.send(Err(error))),
            }
        });
        let client = match wait::within(CONNECT_LIMIT, told) {
            Some(Ok(connected)) => connected?,
            Some(Err(_)) => return Err(PostgresError::Connection("its thread has ended".to_owned())),
            None => return Err(PostgresError::NoAnswer(CONNECT_LIMIT)),
        };
        let statement_timeout = if purpose == Purpose::Migrate { Duration::ZERO } else { STATEMENT_TIMEOUT };
        let idle_timeout =
            if purpose == Purpose::Write { IDLE_CHANGE_TIMEOUT } else { IDLE_TRANSACTION_TIMEOUT };
        let limit = if purpose == Purpose::Migrate { LONG_LIMIT } else { STATEMENT_TIMEOUT + ANSWER_MARGIN };
        let session = Session::new(client, Arc::clone(self), limit);
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
}
