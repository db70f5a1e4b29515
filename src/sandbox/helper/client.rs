//! What flock asks of a helper, in the words of [`crate::sandbox`].

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, Entrance, Pending};
use super::error::HelperError;
use super::message::{
    Ask, Ended, HowEnded, JobState, Kept, MAX_COMMAND, MAX_ENV, MAX_KEEP, MAX_TEXT, MAX_WRITE, Reply,
    Request, Start,
};
use super::patience::Patience;
use super::probe_report::ProbeReport;
use crate::sandbox::spec::HELPER_TARGET;
use crate::sandbox::{Command, End, Job, JobReply, JobRequest, Outcome, Output};

/// For what a helper answers at once.
const PROMPT: Duration = Duration::from_secs(10);
/// From the moment a command must be gone to its answer: the helper itself takes 6 s where a process hangs.
const GRACE: Duration = Duration::from_secs(15);
/// For ever, as far as a command is concerned.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What every command of a sandbox gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// Where a command runs that names no folder, and what relative ones are relative to.
    pub root: String,
    /// Its variables; a command's own win.
    pub variables: Vec<(String, String)>,
}

impl Default for Environment {
    /// `/workspace`, with Debian's standard PATH.
    fn default() -> Self {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Self {
            root: "/workspace".to_owned(),
            variables: vec![
                variable("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
                variable("HOME", "/workspace"),
                variable("LANG", "C.UTF-8"),
            ],
        }
    }
}

/// A connection to a helper. Many tasks may use it at once.
pub struct HelperClient {
    connection: Connection,
    environment: Environment,
    patience: Patience,
}

impl HelperClient {
    /// Connects over the streams of a helper. That ends the commands, but not the background jobs, of an
    /// earlier connection.
    ///
    /// # Errors
    ///
    /// [`HelperError::Lost`], [`HelperError::Silent`] or [`HelperError::Version`].
    pub async fn attach<R, W>(reader: R, writer: W) -> Result<Self, HelperError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        Self::attach_with(reader, writer, None).await
    }

    /// As [`HelperClient::attach`], and has the helper listen at an entrance, if one is given. Without one it
    /// listens nowhere.
    ///
    /// # Errors
    ///
    /// As [`HelperClient::attach`]. A port that is taken is no error: nothing connects then, and it is logged.
    pub async fn attach_with<R, W>(
        reader: R,
        writer: W,
        entrance: Option<Entrance>,
    ) -> Result<Self, HelperError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let connection = Connection::open(reader, writer, entrance).await?;
        Ok(Self { connection, environment: Environment::default(), patience: Patience::plain() })
    }

    /// The same connection, with another environment than the default one for its commands.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// The same connection, to a helper that may be frozen: what is under way then waits.
    #[must_use]
    pub fn with_patience(self, patience: Patience) -> Self {
        Self { patience, ..self }
    }

    /// Whether the connection still stands, as far as is known.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Runs a command to its end. Where `cancel` fires, or this future is dropped, the command and all it
    /// started are killed.
    ///
    /// # Errors
    ///
    /// [`HelperError::Refused`] where it can't start, [`HelperError::Lost`] where the connection breaks,
    /// [`HelperError::Frozen`] where `cancel` fires while it is frozen: the command ends when it is thawed.
    pub async fn run(&self, command: &Command, cancel: &CancellationToken) -> Result<Outcome, HelperError> {
        let start = self.start(command)?;
        let limit = command.timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
        let (ended, output) = self.foreground(start, limit, cancel).await?;
        Ok(Outcome { end: ended.end.into(), output, took: Duration::from_micros(ended.took_us) })
    }

    /// Starts a background job.
    ///
    /// # Errors
    ///
    /// As [`HelperClient::run`].
    pub async fn spawn(&self, command: &Command) -> Result<Job, HelperError> {
        let start = self.start(command)?;
        let make = |request| Request::Start(Start { request, background: true, ..start });
        match self.ask(make, PROMPT, 0).await? {
            Reply::Started { job, .. } => Ok(job.into()),
            _ => Err(HelperError::Unexpected),
        }
    }

    /// Asks about background jobs.
    ///
    /// # Errors
    ///
    /// [`HelperError::NoJob`], [`HelperError::Refused`] where a job takes no more input, or
    /// [`HelperError::Lost`].
    pub async fn jobs(&self, request: JobRequest) -> Result<JobReply, HelperError> {
        let (ask, id, limit) = match request {
            JobRequest::List => (Ask::List, 0, PROMPT),
            JobRequest::Poll(id) => (Ask::Poll(id), id, PROMPT),
            JobRequest::Log(id) => (Ask::Log(id), id, PROMPT),
            JobRequest::Write(_, data) if data.len() > MAX_WRITE => {
                return Err(HelperError::TooLarge("the input"));
            }
            JobRequest::Write(id, data) => (Ask::Write(id, data), id, PROMPT),
            JobRequest::Kill(id) => (Ask::Kill(id), id, GRACE),
        };
        match self.ask(|request| Request::Jobs { request, ask }, limit, id).await? {
            Reply::Jobs { jobs, output, .. } => {
                Ok(JobReply { jobs: jobs.into_iter().map(Job::from).collect(), output: output.into() })
            }
            _ => Err(HelperError::Unexpected),
        }
    }

    /// Asks for a mark that a guest is to carry: a program that the engine starts in the sandbox, by
    /// [`HelperClient::guest`]. It is ended when the next connection is opened. Waits for those that are being ended.
    ///
    /// # Errors
    ///
    /// As [`HelperClient::run`].
    pub async fn admit(&self) -> Result<u64, HelperError> {
        match self.ask(|request| Request::Admit { request }, GRACE, 0).await? {
            Reply::Admitted { mark, .. } => Ok(mark),
            _ => Err(HelperError::Unexpected),
        }
    }

    /// A guest has ended by itself. What it left in the sandbox stays there.
    ///
    /// # Errors
    ///
    /// [`HelperError::Lost`].
    pub async fn dismiss(&self, mark: u64) -> Result<(), HelperError> {
        let make = |request| Request::Dismiss { request, mark, end: false };
        self.ask(make, PROMPT, 0).await.map(drop)
    }

    /// Asks a guest to end, and after a moment kills it with all that it has started. It returns when all that is gone.
    ///
    /// # Errors
    ///
    /// [`HelperError::Lost`]. A guest that has ended, or has never come, is none.
    pub async fn end(&self, mark: u64) -> Result<(), HelperError> {
        let make = |request| Request::Dismiss { request, mark, end: true };
        match self.ask(make, GRACE, 0).await? {
            Reply::Dismissed { survivors: 0, .. } => {}
            Reply::Dismissed { survivors, .. } => {
                tracing::warn!(survivors, "a program left processes that can't be killed");
            }
            _ => return Err(HelperError::Unexpected),
        }
        Ok(())
    }

    /// The words that start a program as a guest with this mark.
    #[must_use]
    pub fn guest(mark: u64, command: &[String]) -> Vec<String> {
        let own = [HELPER_TARGET.to_owned(), "run".to_owned(), mark.to_string()];
        own.into_iter().chain(command.iter().cloned()).collect()
    }

    /// Probes the sandbox from inside: tries what must not be possible. `targets` are addresses to try to
    /// connect to besides well-known ones.
    ///
    /// # Errors
    ///
    /// As [`HelperClient::run`]. That something was found is no error: see [`ProbeReport::findings`].
    pub async fn probe(&self, targets: &[SocketAddr]) -> Result<ProbeReport, HelperError> {
        let words: Vec<String> = targets.iter().map(SocketAddr::to_string).collect();
        let start = Start {
            probe: true,
            keep: u32::try_from(MAX_KEEP).unwrap_or(0),
            timeout_ms: millis(PROMPT),
            command: words.join("\n").into_bytes(),
            workdir: b"/".to_vec(),
            ..Start::default()
        };
        let (_, output) = self.foreground(start, PROMPT, &CancellationToken::new()).await?;
        Ok(ProbeReport::parse(&output.head))
    }

    async fn foreground(
        &self,
        start: Start,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<(Ended, Output), HelperError> {
        let mut pending = self.connection.send(|request| Request::Start(Start { request, ..start })).await?;
        // Held until the answer is there: whoever drops this future drops the command with it.
        let mut running = Running { connection: &self.connection, request: Some(pending.request) };
        let reply = tokio::select! {
            reply = pending.answer() => reply?,
            () = cancel.cancelled() => {
                running.cancel();
                tokio::select! {
                    reply = self.within(&mut pending, GRACE) => reply?,
                    () = self.patience.frozen() => return Err(HelperError::Frozen),
                }
            }
            () = self.patience.sleep(limit + GRACE) => {
                return Err(self.connection.give_up("it did not end a command whose time was up"));
            }
        };
        running.request = None;
        match reply {
            Reply::Ended { ended, output, .. } => {
                if ended.survivors > 0 {
                    tracing::warn!(
                        survivors = ended.survivors,
                        "a command left processes that can't be killed"
                    );
                }
                Ok((ended, output.into()))
            }
            reply => Err(HelperError::refused(&reply, 0)),
        }
    }

    async fn ask(
        &self,
        make: impl FnOnce(u32) -> Request,
        limit: Duration,
        job: u32,
    ) -> Result<Reply, HelperError> {
        let mut pending = self.connection.send(make).await?;
        match self.within(&mut pending, limit).await? {
            reply @ Reply::Refused { .. } => Err(HelperError::refused(&reply, job)),
            reply => Ok(reply),
        }
    }

    async fn within(&self, pending: &mut Pending<'_>, limit: Duration) -> Result<Reply, HelperError> {
        tokio::select! {
            reply = pending.answer() => reply,
            () = self.patience.sleep(limit) => Err(self.connection.give_up("it did not answer in time")),
        }
    }

    fn start(&self, command: &Command) -> Result<Start, HelperError> {
        let root = self.environment.root.as_str();
        let workdir = match command.workdir.as_deref() {
            None | Some("") => root.to_owned(),
            Some(absolute) if absolute.starts_with('/') => absolute.to_owned(),
            Some(relative) => format!("{root}/{relative}"),
        };
        let start = Start {
            keep: u32::try_from(command.keep.min(MAX_KEEP)).unwrap_or(0),
            timeout_ms: command.timeout.map_or(0, millis),
            command: command.command.clone().into_bytes(),
            workdir: workdir.into_bytes(),
            env: self.variables(command)?,
            ..Start::default()
        };
        if start.command.len() > MAX_COMMAND {
            return Err(HelperError::TooLarge("the command"));
        }
        if start.workdir.len() > MAX_TEXT {
            return Err(HelperError::TooLarge("the working folder's name"));
        }
        if start.env.len() > MAX_ENV || start.env.iter().any(|entry| entry.len() > MAX_TEXT) {
            return Err(HelperError::TooLarge("the environment"));
        }
        Ok(start)
    }

    fn variables(&self, command: &Command) -> Result<Vec<Vec<u8>>, HelperError> {
        let mut variables: Vec<(&str, &str)> = Vec::new();
        for (name, value) in self.environment.variables.iter().chain(&command.env) {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(HelperError::Refused(format!(
                    "{name:?} is no name of a variable, or its value holds a zero byte"
                )));
            }
            variables.retain(|(earlier, _)| earlier != name);
            variables.push((name, value));
        }
        Ok(variables.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect())
    }
}

/// Cancels a command when it goes out of scope.
struct Running<'a> {
    connection: &'a Connection,
    request: Option<u32>,
}

impl Running<'_> {
    fn cancel(&mut self) {
        if let Some(request) = self.request.take() {
            self.connection.tell(&Request::Cancel { request });
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Rounded up: 0 would be no limit at all.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.min(MAX_TIMEOUT).as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

impl From<HowEnded> for End {
    fn from(end: HowEnded) -> Self {
        match end {
            HowEnded::Exited(code) => Self::Exited(code),
            HowEnded::Signalled(signal) => Self::Signalled(signal),
            HowEnded::TimedOut => Self::TimedOut,
            HowEnded::Cancelled => Self::Cancelled,
        }
    }
}

impl From<Kept> for Output {
    fn from(Kept { head, tail, total }: Kept) -> Self {
        Self { head, tail, total }
    }
}

impl From<JobState> for Job {
    fn from(job: JobState) -> Self {
        Self {
            id: job.id,
            command: String::from_utf8_lossy(&job.command).into_owned(),
            end: job.end.map(End::from),
            total: job.total,
            took: Duration::from_micros(job.took_us),
        }
    }
}
