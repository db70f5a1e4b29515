//! A server that runs: its program or its address, the connection to it, and the tools that it lists.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::sync::{Semaphore, mpsc};

use super::asks::Asks;
use super::connection::{Connection, Handshake, OpenError, PAGE_TIME};
use super::definition::{ListedTool, listed};
use super::error::McpError;
use super::launch::Launcher;
use super::lines::{Flow, LineReader, LineTransport};
use super::oauth;
use super::package::{self, installed_problem};
use super::remote::HttpTransport;
use super::servers::Hold;
use crate::config::McpServer;
use crate::error::chain;
use crate::home::Home;
use crate::sandbox::OutputChunk;
use crate::sync::lock;

/// The longest time from the start of the program to the end of the handshake. A new container is part of it.
const START_TIME: Duration = Duration::from_secs(120);
/// The number of messages that wait to be written to a server.
const INPUT_QUEUE: usize = 64;
/// The number of calls that a server works on at once. Others wait.
const MAX_CALLS: usize = 8;
/// The time after which the tools of a server are listed again, whatever notices it promises to send.
const LIST_AGE: Duration = Duration::from_secs(30);
/// The shortest time between two looks at the tools of a server that says that they have changed.
const LEAST_LIST_AGE: Duration = Duration::from_millis(200);

/// A running server.
pub(super) struct Running {
    /// The settings that it was started with.
    pub server: McpServer,
    /// The sign-in that the connection began with.
    pub sign_in: Option<String>,
    /// The folder of the package that it was started with.
    pub package: Option<(u64, i64)>,
    pub connection: Connection,
    /// Keeps other gateways from running the server, until its sandbox is gone.
    pub hold: Option<Hold>,
    /// Limits the calls that run at once.
    pub calls: Semaphore,
    /// The calls that run or wait.
    active: AtomicUsize,
    used: Mutex<Instant>,
    pub started: Instant,
    tools: tokio::sync::Mutex<Listing>,
}

struct Listing {
    tools: Arc<Vec<ListedTool>>,
    at: Instant,
    /// Set when the server says that its tools have changed, until they were listed.
    is_stale: bool,
}

impl Running {
    /// Starts the program of a server, opens the connection, and lists the tools.
    pub async fn start(
        home: &Home,
        server: &McpServer,
        launcher: &Arc<dyn Launcher>,
        asks: &Arc<Asks>,
    ) -> Result<Self, McpError> {
        // Nothing but the pinned package is started.
        if let Some(problem) = installed_problem(home, server, false) {
            return Err(McpError::Package { server: server.name.clone(), problem });
        }
        match Self::open(home, server, launcher, asks, Handshake::Initialize).await {
            Err(OpenFailure::OtherHandshake(first)) => {
                // Only the newest servers refuse the handshake of all versions before them.
                let opened = Self::open(home, server, launcher, asks, Handshake::Discover).await;
                opened.map_err(|failure| match failure {
                    OpenFailure::OtherHandshake(_) => failed(server, first),
                    OpenFailure::Failed(error) => error,
                })
            }
            Err(OpenFailure::Failed(error)) => Err(error),
            Ok(running) => Ok(running),
        }
    }

    async fn open(
        home: &Home,
        server: &McpServer,
        launcher: &Arc<dyn Launcher>,
        asks: &Arc<Asks>,
        handshake: Handshake,
    ) -> Result<Self, OpenFailure> {
        let asks = Arc::clone(asks);
        let flow = Arc::new(Flow::default());
        let sign_in = oauth::current(home, server);
        let package = package::placed(home, server);
        // Whatever happens to this future, the program ends with it, unless the connection is handed out.
        let guard = flow.over.clone().drop_guard();
        let opened = async {
            let Some(remote) = &server.remote else {
                let (input, written) = mpsc::channel(INPUT_QUEUE);
                let (reader, lines) = LineReader::new(Arc::clone(&flow));
                tokio::spawn(run(server.clone(), Arc::clone(launcher), Arc::clone(&flow), written, reader));
                let transport = LineTransport::new(Arc::clone(&flow), input, lines);
                return Connection::open(server, transport, Arc::clone(&flow), asks, handshake).await;
            };
            let transport = HttpTransport::new(home, server, remote, Arc::clone(&flow)).await;
            let transport = transport.map_err(OpenError::Prepared)?;
            Connection::open(server, transport, Arc::clone(&flow), asks, handshake).await
        };
        let connection = match tokio::time::timeout(START_TIME, opened).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(OpenError::OtherHandshake(reason))) => {
                return Err(OpenFailure::OtherHandshake(reason));
            }
            Ok(Err(OpenError::Prepared(error))) => return Err(OpenFailure::Failed(error)),
            // The end of its program says more than the end of its connection.
            Ok(Err(OpenError::Failed(reason))) => {
                let reason = flow.reason().unwrap_or(reason);
                return Err(OpenFailure::Failed(failed(server, with_errors(&flow, reason))));
            }
            Err(_) => {
                let reason = format!("it did not answer within {} s", START_TIME.as_secs());
                return Err(OpenFailure::Failed(failed(server, with_errors(&flow, reason))));
            }
        };
        let tools = connection.tools(PAGE_TIME).await.map_err(OpenFailure::Failed)?;
        let tools = Arc::new(listed(&server.name, &tools));
        drop(guard.disarm());
        let now = Instant::now();
        Ok(Self {
            server: server.clone(),
            sign_in,
            package,
            connection,
            hold: None,
            calls: Semaphore::new(MAX_CALLS),
            active: AtomicUsize::new(0),
            used: Mutex::new(now),
            started: now,
            tools: tokio::sync::Mutex::new(Listing { tools, at: now, is_stale: false }),
        })
    }

    /// Returns `true` if the program runs, as far as is known.
    pub fn is_alive(&self) -> bool {
        !self.connection.flow.over.is_cancelled()
    }

    /// Returns the tools that the server lists, and `true` if they were listed anew.
    pub async fn tools(&self) -> Result<(Arc<Vec<ListedTool>>, bool), McpError> {
        let mut listing = self.tools.lock().await;
        let age = listing.at.elapsed();
        listing.is_stale |= self.connection.take_changed();
        // A server can change its definitions without a notice, also one that says that it sends them.
        if !listing.is_stale && age <= LIST_AGE {
            return Ok((Arc::clone(&listing.tools), false));
        }
        // A server that announces changes without a pause must not make flock list without one.
        if let Some(wait) = LEAST_LIST_AGE.checked_sub(age) {
            tokio::time::sleep(wait).await;
        }
        // A server that does one thing after the other may be busy with a call.
        let limit = self.server.call_time.max(PAGE_TIME);
        let tools: Vec<Value> = self.connection.tools(limit).await?;
        let tools = Arc::new(listed(&self.server.name, &tools));
        *listing = Listing { tools, at: Instant::now(), is_stale: false };
        Ok((Arc::clone(&listing.tools), true))
    }

    /// Lets the last look at the tools become older, as time does.
    #[cfg(test)]
    pub async fn age_tools(&self) {
        let mut listing = self.tools.lock().await;
        listing.at = listing.at.checked_sub(LIST_AGE + Duration::from_millis(1)).unwrap();
    }

    /// Counts a use of the server, until the returned guard is dropped.
    pub fn begin(self: &Arc<Self>) -> UseGuard {
        self.active.fetch_add(1, Ordering::AcqRel);
        UseGuard(Arc::clone(self))
    }

    /// Returns `true` if somebody uses the server.
    pub fn is_used(&self) -> bool {
        self.active.load(Ordering::Acquire) > 0
    }

    /// Returns the time for which nobody has used the server.
    pub fn idle_for(&self) -> Duration {
        if self.is_used() { Duration::ZERO } else { lock(&self.used).elapsed() }
    }

    /// Ends the program.
    pub fn end(&self, reason: &str) {
        self.connection.flow.end(reason);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end("it was stopped");
    }
}

/// A use of a server. It is not idle meanwhile.
pub(super) struct UseGuard(Arc<Running>);

impl Drop for UseGuard {
    fn drop(&mut self) {
        *lock(&self.0.used) = Instant::now();
        self.0.active.fetch_sub(1, Ordering::AcqRel);
    }
}

enum OpenFailure {
    OtherHandshake(String),
    Failed(McpError),
}

fn failed(server: &McpServer, reason: String) -> McpError {
    McpError::NotStarted { server: server.name.clone(), reason }
}

fn with_errors(flow: &Flow, reason: String) -> String {
    let errors = flow.last_errors();
    if errors.is_empty() || reason.contains(&errors) {
        reason
    } else {
        format!("{reason}; it printed: {errors}")
    }
}

/// Runs the program until it ends or has to.
async fn run(
    server: McpServer,
    launcher: Arc<dyn Launcher>,
    flow: Arc<Flow>,
    mut written: mpsc::Receiver<bytes::Bytes>,
    mut reader: LineReader,
) {
    let errors = Arc::clone(&flow);
    let mut heard = |chunk: OutputChunk<'_>| match chunk {
        OutputChunk::Out(piece) => reader.heard(piece),
        OutputChunk::Err(piece) => errors.heard_error(piece),
    };
    let ran = launcher.run(&server, &mut written, &mut heard);
    let reason = match flow.over.run_until_cancelled(ran).await {
        None => return,
        Some(Ok(code)) => with_errors(&flow, format!("its program ended with the code {code}")),
        Some(Err(error)) => chain(&error),
    };
    tracing::info!(server = %server.name, reason, "the program of an MCP server has ended");
    flow.end(reason);
}
