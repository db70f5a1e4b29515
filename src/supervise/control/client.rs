//! The client side of the control socket, used by commands.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::place;
use super::protocol::{ControlReply, ControlRequest, MAX_REPLY, SupervisorStatus};
use crate::error::{Explain, Kind};
use crate::home::Home;

/// An error of a request to a supervisor.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nothing listens on the socket.
    #[error("no supervisor answers at {}", path.display())]
    Absent {
        /// The path of the socket.
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The socket belongs to a process of another user.
    #[error("the control socket {} belongs to another user", path.display())]
    Foreign {
        /// The path of the socket.
        path: PathBuf,
    },
    /// No answer came in time.
    #[error("the supervisor did not answer within {limit:?}")]
    Timeout {
        /// The time that was waited.
        limit: Duration,
    },
    /// The connection broke before the answer was complete.
    #[error("the supervisor closed the connection before its answer was complete")]
    Broken(#[source] io::Error),
}

impl Explain for ControlError {
    fn kind(&self) -> Kind {
        match self {
            Self::Absent { .. } => Kind::NotRunning,
            Self::Foreign { .. } => Kind::Conflict,
            Self::Timeout { .. } | Self::Broken(_) => Kind::Failed,
        }
    }

    fn hint(&self) -> Option<String> {
        Some("flock logs supervisor".to_owned())
    }
}

/// A connection to the supervisor of a home.
#[derive(Debug)]
pub struct ControlConnection {
    stream: BufReader<UnixStream>,
    pid: Option<i32>,
}

impl ControlConnection {
    /// Connects to the supervisor of a home.
    ///
    /// # Errors
    ///
    /// Returns [`ControlError::Absent`] if no supervisor listens, and [`ControlError::Foreign`] if the listener belongs
    /// to another user.
    pub async fn open(home: &Home) -> Result<Self, ControlError> {
        let path = place::find(home).unwrap_or_else(|| home.control_socket());
        let absent = |source| ControlError::Absent { path: path.clone(), source };
        let stream = UnixStream::connect(&path).await.map_err(absent)?;
        // The kernel reports who listens, so another user can't pose as the supervisor.
        let peer = stream.peer_cred().map_err(absent)?;
        let own = nix::unistd::Uid::current();
        if peer.uid() != own.as_raw() && !own.is_root() {
            return Err(ControlError::Foreign { path });
        }
        Ok(Self { stream: BufReader::new(stream), pid: peer.pid() })
    }

    /// Returns the status of the supervisor of a home, or `None` if none answers within `limit`.
    pub(crate) async fn status(home: &Home, limit: Duration) -> Option<SupervisorStatus> {
        let mut supervisor = Self::open(home).await.ok()?;
        supervisor.ask(ControlRequest::Status, limit).await.ok()?.status
    }

    /// Returns the pid of the listener, as reported by the kernel.
    #[must_use]
    pub const fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// Sends a request and waits at most `limit` for the answer.
    ///
    /// # Errors
    ///
    /// Returns [`ControlError::Timeout`] if no answer comes within `limit`, and [`ControlError::Broken`] if the
    /// connection breaks or the answer is invalid.
    pub async fn ask(
        &mut self,
        request: ControlRequest,
        limit: Duration,
    ) -> Result<ControlReply, ControlError> {
        let exchange = async {
            let mut line = serde_json::to_vec(&request)?;
            line.push(b'\n');
            self.stream.get_mut().write_all(&line).await?;
            let mut answer = Vec::new();
            // The limit keeps a faulty listener from filling the memory.
            (&mut self.stream).take(MAX_REPLY).read_until(b'\n', &mut answer).await?;
            if answer.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            Ok(serde_json::from_slice(&answer)?)
        };
        let reply = tokio::time::timeout(limit, exchange).await;
        reply.map_err(|_| ControlError::Timeout { limit })?.map_err(ControlError::Broken)
    }
}
