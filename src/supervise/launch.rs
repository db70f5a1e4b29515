//! Starting a supervisor: detached from the terminal, the shell and the caller's open files, and never two at once.
//!
//! There are two steps. `flock start` runs `flock supervise --detach`, which creates a session of its own, starts
//! `flock supervise` in it and exits. The supervisor is then nobody's child. It does not lead a session, so it can
//! never get a terminal. Of its files only the log is open. It reports the result of its start through the pipe that is
//! its standard output at first.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

use super::SUPERVISOR;
use super::control::{ControlConnection, ControlError, ControlReply, ControlRequest, SupervisorStatus};
use crate::env;
use crate::error::{Explain, Kind};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};

/// The result of a supervisor's start: one line of JSON on its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LaunchReport {
    /// It accepts requests now.
    Listening,
    /// Another supervisor holds the home's lock.
    Held,
    /// It failed to start.
    Failed {
        /// The code of the error kind.
        code: String,
        message: String,
        /// A command or advice that helps.
        hint: Option<String>,
    },
}

/// An error of starting a supervisor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The program could not be run.
    #[error("failed to start the supervisor")]
    Spawn(#[source] std::io::Error),
    /// A file of the home could not be used.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The supervisor reported why it can't start.
    #[error("{message}")]
    Said {
        /// The kind of the reported error.
        kind: Kind,
        message: String,
        /// A command or advice that helps.
        hint: Option<String>,
    },
    /// It ended without a report.
    #[error("the supervisor ended as soon as it was started")]
    Silent,
    /// It runs and can't be asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The supervisor or its processes were not ready in time.
    #[error("the gateway was not ready within {limit:?}")]
    Timeout {
        /// The time that was waited.
        limit: Duration,
    },
}

impl Explain for LaunchError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Said { kind, .. } => *kind,
            // The caller wanted it started, so a supervisor that does not answer is a failure and not the state "not
            // running".
            Self::Spawn(_) | Self::Silent | Self::Control(_) | Self::Timeout { .. } => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            Self::Home(error) => error.hint(),
            Self::Said { hint, .. } => hint.clone(),
            Self::Spawn(_) => Some("flock doctor".to_owned()),
            Self::Silent | Self::Control(_) | Self::Timeout { .. } => {
                Some("flock logs supervisor".to_owned())
            }
        }
    }
}

/// The result of [`ensure`].
#[derive(Clone, Debug)]
pub(crate) struct LaunchResult {
    pub status: SupervisorStatus,
    /// Set if this call started the supervisor.
    pub fresh: bool,
}

/// Makes sure that a supervisor runs and has processed `want`, which starts or restarts its processes. Waits until all
/// of them are healthy or can't become healthy.
///
/// # Errors
///
/// Returns [`LaunchError::Timeout`] if that takes longer than `limit`, and another [`LaunchError`] if the supervisor
/// can't be started or asked.
pub(crate) async fn ensure(
    home: &Home,
    want: ControlRequest,
    limit: Duration,
) -> Result<LaunchResult, LaunchError> {
    let end = Instant::now() + limit;
    let timeout = || LaunchError::Timeout { limit };
    let mut fresh = false;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timeout());
        }
        let opened = ControlConnection::open(home).await;
        if let Ok(mut connection) = opened {
            // A supervisor that this call started has started everything anew already.
            let request = if fresh { ControlRequest::Start } else { want };
            match connection.ask(request, left).await {
                Ok(ControlReply { status: Some(status), refused: None }) => {
                    return Ok(LaunchResult { status, fresh });
                }
                Err(ControlError::Timeout { .. }) => return Err(timeout()),
                // The supervisor is ending or has just ended. The next attempt finds its lock free.
                Ok(_) | Err(_) => {}
            }
        } else if let Err(error @ ControlError::Foreign { .. }) = opened {
            return Err(error.into());
        } else {
            match spawn_detached(home, left).await? {
                LaunchReport::Listening => {
                    fresh = true;
                    continue;
                }
                LaunchReport::Held => {}
                LaunchReport::Failed { code, message, hint } => {
                    return Err(LaunchError::Said { kind: Kind::of_code(&code), message, hint });
                }
            }
        }
        // The lock's holder can't be asked yet, or no longer. That lasts only milliseconds.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Takes the supervisor's lock for the life of the process. Returns `None` if another supervisor has it.
///
/// # Errors
///
/// Returns an error if the lock file can't be opened.
pub(crate) async fn claim(home: &Home) -> Result<Option<Lock>, HomeError> {
    let end = Instant::now() + LOCK_TIMEOUT;
    loop {
        match Lock::try_acquire(&home.supervisor_lock()) {
            Ok(lock) => return Ok(Some(lock)),
            Err(HomeError::Held { .. }) => {}
            Err(error) => return Err(error),
        }
        // A process that only checks the lock holds it for a moment. Only a holder that accepts requests is a
        // supervisor.
        if ControlConnection::open(home).await.is_ok() || Instant::now() >= end {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The time for which a process other than a supervisor may hold the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a supervisor in its own session and returns its report.
async fn spawn_detached(home: &Home, limit: Duration) -> Result<LaunchReport, LaunchError> {
    let log = home.log(SUPERVISOR);
    let errors = std::fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(&log)
        .map_err(|source| HomeError::Io { verb: "open the log", path: log, source })?;
    let mut process = tokio::process::Command::new(program().map_err(LaunchError::Spawn)?)
        .arg("--home")
        .arg(home.root())
        .args(["supervise", "--detach"])
        .env_remove(env::SUPERVISED.name)
        // If an agent program on the host runs this command, flock must not end with that program's turn.
        .env_remove(env::TURN.name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(LaunchError::Spawn)?;
    let said = async {
        let mut text = String::new();
        if let Some(output) = process.stdout.take() {
            // The stream ends when the supervisor closes its standard output or ends.
            output.take(64 << 10).read_to_string(&mut text).await?;
        }
        process.wait().await?;
        Ok(text)
    };
    let text = tokio::time::timeout(limit, said)
        .await
        .map_err(|_| LaunchError::Timeout { limit })?
        .map_err(LaunchError::Spawn)?;
    serde_json::from_str(text.trim()).map_err(|_| LaunchError::Silent)
}

/// Runs the intermediate step: leaves the caller's session, starts the supervisor, and closes everything that was
/// inherited from the caller.
///
/// # Errors
///
/// Returns an error if the supervisor can't be started.
pub(crate) fn detach(home: &Home) -> std::io::Result<()> {
    close_inherited();
    // This fails only for the leader of a process group, which then has a session of its own already.
    let _ = nix::unistd::setsid();
    Command::new(program()?)
        .arg("--home")
        .arg(home.root())
        .arg("supervise")
        .current_dir("/")
        .process_group(0)
        .stdin(Stdio::null())
        .spawn()
        .map(drop)
}

/// Reports the result of the start, and closes standard output.
pub(crate) fn report(report: &LaunchReport) {
    let mut output = std::io::stdout().lock();
    if let Ok(text) = serde_json::to_string(report) {
        // The process that asked may be gone, and then nobody needs the report.
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        // Replaced by /dev/null instead of closed: the next opened file would otherwise become standard output.
        let _ = nix::unistd::dup2_stdout(null);
    }
}

/// Returns the path of this program.
///
/// # Errors
///
/// Returns an error if the system does not report it.
pub(crate) fn program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // Linux appends this after an update replaced the file. The new program is at the same path.
    match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => Ok(text.into()),
        None => Ok(path),
    }
}

/// Closes inherited file descriptors except the three standard streams. If the supervisor kept a pipe or a lock of the
/// caller, it would never be released.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // Closing fails for the descriptor that the listing itself used, which is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
