//! The way to an engine on another machine by the system's `ssh`, which forwards a socket of this machine to the engine's.
//!
//! Nothing is started before the first connection. If `ssh` has ended, a later connection starts it again, after a pause
//! that doubles with each failure. So an engine that can't be reached costs whoever asks for it a clear error, and no more.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as UnixSocket;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStderr, Command};

use crate::clean;
use crate::config::SshAddress;
use crate::error::Explain;
use crate::process::{self, subreaper};

/// Time that `ssh` has to sign in and to forward the socket.
const START_LIMIT: Duration = Duration::from_secs(15);
/// Time between two looks if the socket is there yet.
const POLL: Duration = Duration::from_millis(20);
/// Time to wait for the last words of an `ssh` that has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// The longest path that fits into the address of a socket, see `supervise::control`.
const MAX_SOCKET_PATH: usize = 103;
/// The end of the line in which `ssh` tells that a key of the host is unknown or has changed.
const KEY_REFUSED: &str = "you have requested strict checking.";
/// Limit on a line of `ssh` that is kept, in bytes.
const MAX_MESSAGE: u64 = 16 * 1024;

/// An error of a tunnel.
#[derive(Debug, thiserror::Error)]
pub enum SshError {
    /// The path of the socket on this machine can't be used.
    #[error("{0:?} can't be the path of a socket: it is too long, or has a colon or a dollar sign")]
    Path(PathBuf),
    /// The program could not be started.
    #[error("ssh can't be started")]
    Start(#[source] std::io::Error),
    /// The program ended.
    #[error("ssh to {} ended: {reason}", address.destination())]
    Ended {
        address: SshAddress,
        /// The last line that it wrote, and the one before if that tells why a key of the host was refused.
        reason: String,
    },
    /// The socket was not forwarded in time.
    #[error("ssh to {} did not connect within {} seconds", address.destination(), START_LIMIT.as_secs())]
    Silent { address: SshAddress },
    /// It failed before and is not tried again yet.
    #[error("ssh to {} is tried again in {} s: {reason}", address.destination(), left.as_secs().max(1))]
    Paused {
        address: SshAddress,
        /// The message of the last failure.
        reason: String,
        left: Duration,
    },
    /// It is connected, and nothing is at the other end.
    #[error(
        "no engine answers at {} on {}, or the user of ssh may not open it ({reason})",
        address.socket(),
        address.destination()
    )]
    NoEngine {
        address: SshAddress,
        /// The last line that it wrote.
        reason: String,
    },
    /// The tunnel was closed for good.
    #[error("the tunnel to {} was closed", address.destination())]
    Closed { address: SshAddress },
}

impl Explain for SshError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Ended { address, reason } | Self::Paused { address, reason, .. } => {
                Some(mend(address, reason))
            }
            Self::Silent { address } => Some(mend(address, "")),
            Self::NoEngine { address, .. } => {
                Some(format!("ssh {} docker -H unix://{} version", address.arguments(), address.socket()))
            }
            Self::Start(_) => Some("sudo apt-get install openssh-client".to_owned()),
            Self::Path(_) => Some("use a home with a shorter path, without a colon".to_owned()),
            Self::Closed { .. } => None,
        }
    }
}

/// Returns the command that mends what `ssh` could not do, or that asks what the tunnel may not ask, such as whether a new
/// key of the host is right.
fn mend(address: &SshAddress, reason: &str) -> String {
    let arguments = address.arguments();
    match reason.contains("Permission denied") {
        true => format!("ssh-copy-id {arguments}"),
        false => format!("ssh {arguments} true"),
    }
}

/// A tunnel to the socket of an engine. Closing or dropping it ends `ssh`.
pub struct SshTunnel {
    address: SshAddress,
    /// The socket on this machine, in a folder that only this user can enter.
    socket: PathBuf,
    /// The command that runs the program and ends it when this process has ended, in whatever way.
    keeper: Vec<OsString>,
    /// The program with its first arguments.
    program: Vec<OsString>,
    state: tokio::sync::Mutex<TunnelState>,
}

#[derive(Default)]
struct TunnelState {
    running: Option<RunningSsh>,
    /// The number of failures since the last connection.
    failures: u32,
    /// The last failure, with the time until which nothing is tried.
    failed: Option<(String, Instant)>,
    is_closed: bool,
}

struct RunningSsh {
    child: Child,
    /// Closing it has the keeper end `ssh`.
    _hand: UnixSocket,
    started: Instant,
    /// The last line that it wrote to standard error, see [`keep`].
    said: Arc<Mutex<String>>,
    reader: tokio::task::JoinHandle<()>,
}

impl SshTunnel {
    /// Creates the value without starting anything. `socket` is created on this machine; its folder must exist and must
    /// belong to this user alone.
    ///
    /// # Errors
    ///
    /// Returns [`SshError::Path`] if `ssh` can't take the path.
    pub fn new(address: SshAddress, socket: PathBuf) -> Result<Self, SshError> {
        let is_usable = |text: &str| text.len() <= MAX_SOCKET_PATH && !text.contains([':', '$']);
        if !socket.to_str().is_some_and(is_usable) {
            return Err(SshError::Path(socket));
        }
        // The mark is of no home: nobody else looks for this process.
        let keeper =
            [process::own_executable().into(), "hold".into(), "--turn=ssh".into(), "--".into()].into();
        let program = vec!["ssh".into()];
        Ok(Self { address, socket, keeper, program, state: tokio::sync::Mutex::default() })
    }

    /// Returns the arguments of `ssh`.
    fn arguments(&self) -> Vec<String> {
        // It must neither ask anything nor wait for ever, and must not share a connection whose end is not its own.
        let mut arguments: Vec<String> = ["-N", "-T"].map(str::to_owned).to_vec();
        for option in [
            "BatchMode=yes",
            "StrictHostKeyChecking=yes",
            "ControlMaster=no",
            "ControlPath=none",
            "ExitOnForwardFailure=yes",
            "StreamLocalBindUnlink=yes",
            "StreamLocalBindMask=0177",
            "ForwardAgent=no",
            "ForwardX11=no",
            "PermitLocalCommand=no",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
        ] {
            arguments.extend(["-o".to_owned(), option.to_owned()]);
        }
        if let Some(port) = self.address.port() {
            arguments.extend(["-p".to_owned(), port.to_string()]);
        }
        // A percent sign begins what `ssh` replaces.
        let socket = self.socket.to_string_lossy().replace('%', "%%");
        arguments.extend(["-L".to_owned(), format!("{socket}:{}", self.address.socket())]);
        arguments.extend(["--".to_owned(), self.address.destination()]);
        arguments
    }

    /// Connects to the engine's socket, and starts `ssh` before if it does not run.
    ///
    /// # Errors
    ///
    /// Returns an [`SshError`] that tells why the engine can't be reached. After a failure, further calls return
    /// [`SshError::Paused`] at once for a while, and after [`SshTunnel::close`] they return [`SshError::Closed`].
    pub async fn connect(&self) -> Result<UnixStream, SshError> {
        if let Ok(stream) = UnixStream::connect(&self.socket).await {
            return Ok(stream);
        }
        // One caller starts it, and the others wait here.
        let mut state = self.state.lock().await;
        if state.is_closed {
            return Err(SshError::Closed { address: self.address.clone() });
        }
        loop {
            if let Ok(stream) = UnixStream::connect(&self.socket).await {
                state.failures = 0;
                state.failed = None;
                return Ok(stream);
            }
            // One that was connected and has ended since, as after a restart of the other machine, is no failure to connect.
            if let Some(running) = &mut state.running
                && running.started.elapsed() > START_LIMIT
                && matches!(running.child.try_wait(), Ok(Some(_)))
            {
                state.running = None;
            }
            if state.running.is_none() {
                if let Some((reason, until)) = &state.failed
                    && let Some(left) = until.checked_duration_since(Instant::now())
                {
                    let address = self.address.clone();
                    return Err(SshError::Paused { address, reason: reason.clone(), left });
                }
                state.running = Some(self.start()?);
            }
            let Some(running) = &mut state.running else { continue };
            let error = if running.started.elapsed() > START_LIMIT {
                SshError::Silent { address: self.address.clone() }
            } else {
                match tokio::time::timeout(POLL, running.child.wait()).await {
                    // It still signs in.
                    Err(_) => continue,
                    Ok(_) => {
                        let reason = running.last_words().await;
                        SshError::Ended { address: self.address.clone(), reason }
                    }
                }
            };
            // Dropping it ends it, if it still runs.
            state.running = None;
            state.failures = state.failures.saturating_add(1);
            let reason = match &error {
                SshError::Ended { reason, .. } => reason.clone(),
                other => other.to_string(),
            };
            state.failed = Some((reason, Instant::now() + pause(state.failures)));
            return Err(error);
        }
    }

    /// Ends `ssh` for good, with all connections through it. It is not started again.
    pub async fn close(&self) {
        let mut state = self.state.lock().await;
        // Set under the lock, so that nobody who waits for it starts another one.
        state.is_closed = true;
        state.running = None;
    }

    /// Returns why a connection that was opened ended at once, or `None` if `ssh` has said nothing about it.
    pub async fn refusal(&self) -> Option<SshError> {
        let end = Instant::now() + LAST_WORDS;
        loop {
            let reason = {
                let state = self.state.lock().await;
                let running = state.running.as_ref()?;
                running.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
            };
            if reason.contains("open failed") {
                return Some(SshError::NoEngine { address: self.address.clone(), reason });
            }
            // What it says arrives by another way than the end of the connection.
            if Instant::now() > end {
                return None;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    fn start(&self) -> Result<RunningSsh, SshError> {
        let missing = || SshError::Start(std::io::ErrorKind::NotFound.into());
        self.program.first().and_then(|program| which::which(program).ok()).ok_or_else(missing)?;
        let mut words = self.keeper.iter().chain(&self.program);
        let mut command = Command::new(words.next().ok_or_else(missing)?);
        let (mut hand, keepers) = UnixSocket::pair().map_err(SshError::Start)?;
        hand.write_all(&subreaper::encode_input(&[])).map_err(SshError::Start)?;
        command.arg0("flock").args(words).args(self.arguments());
        // Without a terminal it can ask nothing; messages are in the language that errors are known in.
        command.stdin(OwnedFd::from(keepers)).stdout(Stdio::null()).stderr(Stdio::piped()).env("LC_ALL", "C");
        let mut child = command.spawn().map_err(SshError::Start)?;
        let said = Arc::new(Mutex::new(String::new()));
        let stderr = child.stderr.take();
        let reader = tokio::spawn(read_lines(stderr, Arc::clone(&said)));
        Ok(RunningSsh { child, _hand: hand, started: Instant::now(), said, reader })
    }
}

impl RunningSsh {
    /// Returns the last line that an `ssh` wrote which has ended.
    async fn last_words(&mut self) -> String {
        // A program that it started may still hold its standard error open.
        let _ = tokio::time::timeout(LAST_WORDS, &mut self.reader).await;
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if said.is_empty() { "it gave no reason".to_owned() } else { said }
    }
}

/// Keeps the end of what is read, cleaned: it may come from the other machine.
async fn read_lines(stderr: Option<ChildStderr>, said: Arc<Mutex<String>>) {
    let Some(stderr) = stderr else { return };
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut reader).take(MAX_MESSAGE).read_until(b'\n', &mut line).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let text = String::from_utf8_lossy(&line);
        let text = clean::inline(text.trim());
        if !text.is_empty() {
            keep(&mut said.lock().unwrap_or_else(PoisonError::into_inner), &text);
        }
    }
}

/// Keeps a line in place of the one before. The last line about a key of the host is the same for an unknown key and for a
/// changed one. Only the line before tells which it is, so that one is kept with it.
fn keep(said: &mut String, line: &str) {
    if line.starts_with("Host key verification failed") && said.ends_with(KEY_REFUSED) {
        said.push(' ');
    } else {
        said.clear();
    }
    said.push_str(line);
}

/// Returns the pause after so many failures.
fn pause(failures: u32) -> Duration {
    let doubled = 1_u64.checked_shl(failures.saturating_sub(1)).unwrap_or(u64::MAX);
    Duration::from_secs(doubled).min(MAX_PAUSE)
}

#[cfg(test)]
#[path = "ssh_tunnel_tests.rs"]
mod tests;
