//! Starting a supervisor, as whoever wants one sees it: detached from the terminal, the shell and the
//! caller's open files, and never two of them.
//!
//! The double step: `flock start` runs `flock supervise --detach`, which leaves the caller's session for one
//! of its own, starts `flock supervise` there and ends. The supervisor is then nobody's child, leads no
//! session, so it can never get a terminal, and has nothing open but its log. What it has to say about its
//! start goes through the pipe that was its standard output.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt as _;

use super::SUPERVISOR;
use super::control::{Connection, ControlError, Reply, Request, Status};
use crate::env;
use crate::error::{Explain, Kind};
use crate::home::lock::Lock;
use crate::home::{Home, HomeError};

/// What a supervisor that was just started says of its start: one line of JSON on its standard output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Report {
    /// It can be asked now.
    Listening,
    /// Another supervisor holds the home.
    Held,
    /// It can't begin.
    Failed {
        /// The code of the kind of error.
        code: String,
        /// What is wrong.
        message: String,
        /// What mends it.
        hint: Option<String>,
    },
}

/// Why no supervisor could be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// It could not be run.
    #[error("failed to start the supervisor")]
    Spawn(#[source] std::io::Error),
    /// The home failed.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// It said why it can't begin.
    #[error("{message}")]
    Said {
        /// The kind of error.
        kind: Kind,
        /// What is wrong.
        message: String,
        /// What mends it.
        hint: Option<String>,
    },
    /// It ended without a word.
    #[error("the supervisor ended as soon as it was started")]
    Silent,
    /// It can't be asked.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Neither a supervisor nor the gateway got ready.
    #[error("the gateway was not ready within {limit:?}")]
    Timeout {
        /// How long was waited.
        limit: Duration,
    },
}

impl Explain for LaunchError {
    fn kind(&self) -> Kind {
        match self {
            Self::Home(error) => error.kind(),
            Self::Said { kind, .. } => *kind,
            // It was to be started: that nothing answers is a failure, not a state.
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

/// What came of wanting a supervisor.
#[derive(Clone, Debug)]
pub struct Started {
    /// How things stand.
    pub status: Status,
    /// Whether the supervisor was started for this.
    pub fresh: bool,
}

/// Sees to it that a supervisor runs and has been told to start everything, or to start it anew, and waits
/// until all is healthy or can't become so.
///
/// # Errors
///
/// If that can't be had within `limit`.
pub async fn ensure(home: &Home, want: Request, limit: Duration) -> Result<Started, LaunchError> {
    let end = Instant::now() + limit;
    let timeout = || LaunchError::Timeout { limit };
    let mut fresh = false;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(timeout());
        }
        let opened = Connection::open(home).await;
        if let Ok(mut connection) = opened {
            // A supervisor that was started for this need not start anything anew.
            let request = if fresh { Request::Start } else { want };
            match connection.ask(request, left).await {
                Ok(Reply { status: Some(status), refused: None }) => return Ok(Started { status, fresh }),
                Err(ControlError::Timeout { .. }) => return Err(timeout()),
                // It is ending, or has just ended; the next round finds its lock free.
                Ok(_) | Err(_) => {}
            }
        } else if let Err(error @ ControlError::Foreign { .. }) = opened {
            return Err(error.into());
        } else {
            match detached(home, left).await? {
                Report::Listening => {
                    fresh = true;
                    continue;
                }
                Report::Held => {}
                Report::Failed { code, message, hint } => {
                    let kind = Kind::ALL.into_iter().find(|kind| kind.code() == code);
                    return Err(LaunchError::Said { kind: kind.unwrap_or(Kind::Failed), message, hint });
                }
            }
        }
        // Somebody holds the home and can't be asked yet, or no more: that is a matter of milliseconds.
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

/// Takes the supervisor's lock for life; `None` where another supervisor has it.
///
/// # Errors
///
/// If the lock can't be looked at.
pub async fn claim(home: &Home) -> Result<Option<Lock>, HomeError> {
    let end = Instant::now() + CLAIM;
    loop {
        match Lock::try_acquire(&home.supervisor_lock()) {
            Ok(lock) => return Ok(Some(lock)),
            Err(HomeError::Held { .. }) => {}
            Err(error) => return Err(error),
        }
        // Whoever only looks whether the lock is held holds it for that moment; a supervisor can be asked.
        if Connection::open(home).await.is_ok() || Instant::now() >= end {
            return Ok(None);
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// How long a lock may be held by somebody who is no supervisor.
const CLAIM: Duration = Duration::from_secs(1);

/// Starts a supervisor of its own session and returns what it says of its start.
async fn detached(home: &Home, limit: Duration) -> Result<Report, LaunchError> {
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
        // Where a program on the host has started flock, the end of its turn is not the end of flock.
        .env_remove(env::TURN.name)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
        .map_err(LaunchError::Spawn)?;
    let said = async {
        let mut text = String::new();
        if let Some(output) = process.stdout.take() {
            // It ends when the supervisor has let go of its standard output, or has ended itself.
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

/// The middle of the double step: leaves the caller's session, starts the supervisor, and lets go of
/// everything the caller had open.
///
/// # Errors
///
/// If the supervisor can't be started.
pub fn detach(home: &Home) -> std::io::Result<()> {
    close_inherited();
    // Fails only for the leader of a group, which is in a session of its own already.
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

/// Says what became of the start, and lets go of standard output.
pub fn report(report: &Report) {
    let mut output = std::io::stdout().lock();
    if let Ok(text) = serde_json::to_string(report) {
        // Whoever asked may have gone; then nobody needs to know.
        let _ = writeln!(output, "{text}").and_then(|()| output.flush());
    }
    if let Ok(null) = std::fs::OpenOptions::new().write(true).open("/dev/null") {
        let _ = nix::unistd::dup2_stdout(null);
    }
}

/// This program's file.
///
/// # Errors
///
/// If the system does not tell.
pub fn program() -> std::io::Result<PathBuf> {
    let path = std::env::current_exe()?;
    // After an update Linux says this of the path; the new program is where the old one was.
    match path.to_str().and_then(|text| text.strip_suffix(" (deleted)")) {
        Some(text) => Ok(text.into()),
        None => Ok(path),
    }
}

/// Closes what was inherited besides the three standard streams: a pipe or lock of the caller's that a
/// supervisor kept would never end.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/dev/fd") else { return };
    let open: Vec<i32> = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // The folder's own one is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}
