//! The requests that flock makes to a helper, in the types of [`crate::sandbox`].

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::connection::{Connection, PendingReply, PortForward};
use super::error::HelperError;
use super::line::{HelperStreams, RESUME_LIMIT, Resumption};
use super::message::{
    Ended, JobState, MAX_COMMAND, MAX_ENV, MAX_KEEP, MAX_TEXT, MAX_WRITE, PROBE_PATIENCE, Reply, Request,
    Start,
};
use super::pausable_clock::PausableClock;
use super::probe_report::ProbeReport;
use crate::sandbox::spec::HELPER_TARGET;
use crate::sandbox::{BackgroundJob, Command, CommandOutcome, JobReply, JobRequest, Output};

/// Timeout of requests that a helper answers at once.
pub(super) const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// Time from the moment when a command must end to the answer about it. The helper itself needs up to 6 s if a process
/// hangs.
const GRACE: Duration = Duration::from_secs(15);
/// The longest time limit of a command. A command without a limit gets this one here.
const MAX_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3600);

/// The environment of every command in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    /// The working folder of a command that names none, and the base of relative ones.
    pub root: String,
    /// Variables for every command. A command's own variables override them.
    pub variables: Vec<(String, String)>,
}

impl Default for Environment {
    /// Returns `/workspace` as the root and Debian's standard PATH.
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

/// A connection to a helper. Many tasks may use it at the same time.
pub struct HelperClient {
    connection: Connection,
    environment: Environment,
    patience: PausableClock,
}

impl HelperClient {
    /// Connects over the streams of a helper. This ends the commands of an earlier connection, but not its background
    /// jobs. The helper listens at the entrance if one is given. A port that is already in use is not an error: it is
    /// logged, and no connection arrives.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::Lost`] if the streams end or carry too many damaged frames, [`HelperError::Silent`] if
    /// the helper does not answer the greeting in time, and [`HelperError::Version`] if it speaks another version of
    /// the protocol.
    pub async fn attach<R, W>(
        reader: R,
        writer: W,
        entrance: Option<PortForward>,
    ) -> Result<Self, HelperError>
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let connection = Connection::open(reader, writer, entrance).await?;
        Ok(Self { connection, environment: Environment::default(), patience: PausableClock::plain() })
    }

    /// Connects as [`HelperClient::attach`] does, to a helper on another machine. If the streams break, the connection goes on
    /// over others, and no command is run twice. The clock of the resumption is that of the requests, too.
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`HelperClient::attach`].
    pub(crate) async fn attach_resumable(
        streams: HelperStreams,
        entrance: Option<PortForward>,
        resumption: Resumption,
    ) -> Result<Self, HelperError> {
        let patience = resumption.patience.clone();
        let connection = Connection::open_resumable(streams, entrance, resumption).await?;
        Ok(Self { connection, environment: Environment::default(), patience })
    }

    /// Replaces the environment of the commands.
    #[must_use]
    pub fn with_environment(self, environment: Environment) -> Self {
        Self { environment, ..self }
    }

    /// Sets the clock for a helper that may be frozen. Requests in progress then wait until it is thawed.
    #[must_use]
    pub(crate) fn with_clock(self, patience: PausableClock) -> Self {
        Self { patience, ..self }
    }

    /// Returns `true` if the connection is open, as far as is known.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.connection.is_alive()
    }

    /// Closes the connection. Everything that waits for an answer fails with this reason.
    pub(crate) fn disconnect(&self, reason: &str) {
        drop(self.connection.give_up(reason));
    }

    /// Runs a command and waits for its end. If `cancel` fires, or the future is dropped, the command and every process
    /// it started are killed.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::Refused`] if the command cannot be started, [`HelperError::TooLarge`] if it exceeds a
    /// limit of the protocol, and [`HelperError::Lost`] if the connection breaks. Returns [`HelperError::Frozen`] if
    /// `cancel` fires while the sandbox is frozen: the command then ends when the sandbox is thawed.
    pub async fn run(
        &self,
        command: &Command,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, HelperError> {
        let start = self.start(command)?;
        let limit = command.timeout.unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT);
        let (ended, output) = self.foreground(start, limit, cancel).await?;
        Ok(CommandOutcome { end: ended.end, output, took: Duration::from_micros(ended.took_us) })
    }

    /// Starts a background job.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::Refused`] if the job cannot be started, [`HelperError::TooLarge`] if it exceeds a limit
    /// of the protocol, and [`HelperError::Lost`] if the connection breaks.
    pub async fn spawn(&self, command: &Command) -> Result<BackgroundJob, HelperError> {
        let start = self.start(command)?;
        let make = |request| Request::Start(Start { request, background: true, ..start });
        match self.ask(make, REPLY_TIMEOUT, 0).await? {
            Reply::Started { job, .. } => Ok(job.into()),
            _ => Err(HelperError::Unexpected),
        }
    }

    /// Lists, reads, writes to or kills background jobs.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::NoJob`] if there is no such job, [`HelperError::Refused`] if a job accepts no more input,
    /// [`HelperError::TooLarge`] if the input exceeds [`MAX_WRITE`], and [`HelperError::Lost`] if the connection
    /// breaks.
    pub async fn jobs(&self, request: JobRequest) -> Result<JobReply, HelperError> {
        let (id, limit) = match &request {
            JobRequest::List => (0, REPLY_TIMEOUT),
            JobRequest::Write(_, data) if data.len() > MAX_WRITE => {
                return Err(HelperError::TooLarge("the input"));
            }
            JobRequest::Poll(id) | JobRequest::Log(id) | JobRequest::Write(id, _) => (*id, REPLY_TIMEOUT),
            // The reply comes when the job's processes are gone.
            JobRequest::Kill(id) => (*id, GRACE),
        };
        let ask = request;
        match self.ask(|request| Request::Jobs { request, ask }, limit, id).await? {
            Reply::Jobs { jobs, output, .. } => {
                Ok(JobReply { jobs: jobs.into_iter().map(BackgroundJob::from).collect(), output })
            }
            _ => Err(HelperError::Unexpected),
        }
    }

    /// Returns the background jobs that have not ended.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::Lost`] if the connection breaks.
    pub(crate) async fn running_jobs(&self) -> Result<Vec<BackgroundJob>, HelperError> {
        let mut jobs = self.jobs(JobRequest::List).await?.jobs;
        jobs.retain(|job| job.end.is_none());
        Ok(jobs)
    }

    /// Requests a mark for a guest, which is a program that the engine starts in the sandbox with the command line of
    /// [`HelperClient::guest`]. The answer comes when all guests that are being ended are gone. The guest itself is
    /// ended when the next connection is opened.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::Refused`] if there are too many guests, and [`HelperError::Lost`] if the connection
    /// breaks.
    pub async fn admit(&self) -> Result<u64, HelperError> {
        match self.ask(|request| Request::Admit { request }, GRACE, 0).await? {
            Reply::Admitted { mark, .. } => Ok(mark),
            _ => Err(HelperError::Unexpected),
        }
    }

    /// Reports that a guest has ended by itself. Processes that it left in the sandbox stay.
    pub async fn dismiss(&self, mark: u64) -> Result<(), HelperError> {
        let make = |request| Request::Dismiss { request, mark, end: false };
        self.ask(make, REPLY_TIMEOUT, 0).await.map(drop)
    }

    /// Asks a guest to end, kills it after a moment with every process it started, and waits until all of them are
    /// gone. It is not an error if the guest has ended already or was never started.
    ///
    /// # Errors
    ///
    /// Returns [`HelperError::Lost`] if the connection breaks.
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

    /// Returns the command line that starts a program as a guest with this mark.
    #[must_use]
    pub fn guest(mark: u64, command: &[String]) -> Vec<String> {
        let own = [HELPER_TARGET.to_owned(), "run".to_owned(), mark.to_string()];
        own.into_iter().chain(command.iter().cloned()).collect()
    }

    /// Returns the folder in which commands run that name none.
    pub(super) fn root(&self) -> &str {
        &self.environment.root
    }

    /// Probes the sandbox from inside: it tries actions that must be impossible. `targets` are addresses to connect to
    /// in addition to well-known ones.
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`HelperClient::run`]. Findings are not an error here, see
    /// [`ProbeReport::findings`].
    pub async fn probe(&self, targets: &[SocketAddr]) -> Result<ProbeReport, HelperError> {
        self.probe_with(targets.iter().map(SocketAddr::to_string).collect()).await
    }

    /// Probes a sandbox that has a network interface behind a policy that denies all traffic. Each address gets this time to
    /// answer, because a packet that was dropped looks like one whose answer is slow.
    ///
    /// # Errors
    ///
    /// Fails under the same conditions as [`HelperClient::probe`].
    pub async fn probe_network(
        &self,
        targets: &[SocketAddr],
        patience: Duration,
    ) -> Result<ProbeReport, HelperError> {
        let patience = format!("{PROBE_PATIENCE}{}", millis(patience));
        self.probe_with(targets.iter().map(SocketAddr::to_string).chain([patience]).collect()).await
    }

    async fn probe_with(&self, words: Vec<String>) -> Result<ProbeReport, HelperError> {
        let start = Start {
            probe: true,
            keep: u32::try_from(MAX_KEEP).unwrap_or(0),
            timeout_ms: millis(REPLY_TIMEOUT),
            command: words.join("\n").into_bytes(),
            workdir: b"/".to_vec(),
            ..Start::default()
        };
        let (_, output) = self.foreground(start, REPLY_TIMEOUT, &CancellationToken::new()).await?;
        Ok(ProbeReport::parse(&output.head))
    }

    async fn foreground(
        &self,
        start: Start,
        limit: Duration,
        cancel: &CancellationToken,
    ) -> Result<(Ended, Output), HelperError> {
        let mut pending = self.connection.send(|request| Request::Start(Start { request, ..start })).await?;
        // Dropping this guard cancels the command, so it lives until the answer has arrived.
        let mut running = CancelGuard { connection: &self.connection, request: Some(pending.request) };
        let reply = tokio::select! {
            reply = pending.answer() => reply?,
            () = cancel.cancelled() => {
                running.cancel();
                tokio::select! {
                    reply = self.within(&mut pending, GRACE) => reply?,
                    () = self.patience.frozen() => return Err(HelperError::Frozen),
                }
            }
            // The helper enforces the time limit itself. No answer long after it means that the helper hangs.
            () = self.patience.sleep(limit + GRACE) => {
                let reason = "it did not end a command whose time was up";
                if !self.connection.suspect() {
                    return Err(self.connection.give_up(reason));
                }
                self.once_more(&mut pending, GRACE, reason).await?
            }
        };
        // The command has ended, so there is nothing left to cancel.
        running.request = None;
        match reply {
            Reply::Ended { ended, output, .. } => {
                if ended.survivors > 0 {
                    tracing::warn!(
                        survivors = ended.survivors,
                        "a command left processes that can't be killed"
                    );
                }
                Ok((ended, output))
            }
            reply => Err(HelperError::refused(&reply, 0)),
        }
    }

    /// Sends a request without waiting for its answer.
    pub(super) fn tell(&self, request: &Request) {
        self.connection.tell(request);
    }

    /// Sends a request and waits for its answer, at most for `limit`. `job` is named if the helper knows no such job.
    pub(super) async fn ask(
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

    async fn within(&self, pending: &mut PendingReply<'_>, limit: Duration) -> Result<Reply, HelperError> {
        tokio::select! {
            reply = pending.answer() => reply,
            () = self.patience.sleep(limit) => {
                let reason = "it did not answer in time";
                if !self.connection.suspect() {
                    return Err(self.connection.give_up(reason));
                }
                self.once_more(pending, limit, reason).await
            }
        }
    }

    /// Waits for an answer over other streams, after the first ones brought none.
    async fn once_more(
        &self,
        pending: &mut PendingReply<'_>,
        limit: Duration,
        reason: &str,
    ) -> Result<Reply, HelperError> {
        tokio::select! {
            reply = pending.answer() => reply,
            () = self.patience.sleep(RESUME_LIMIT + limit) => Err(self.connection.give_up(reason)),
        }
    }

    fn start(&self, command: &Command) -> Result<Start, HelperError> {
        let start = Start {
            keep: u32::try_from(command.keep.min(MAX_KEEP)).unwrap_or(0),
            timeout_ms: command.timeout.map_or(0, millis),
            command: command.command.clone().into_bytes(),
            workdir: command.folder(&self.environment.root).into_bytes(),
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
            // The last value of a name wins. With two entries the program could read either.
            variables.retain(|(earlier, _)| earlier != name);
            variables.push((name, value));
        }
        Ok(variables.iter().map(|(name, value)| format!("{name}={value}").into_bytes()).collect())
    }
}

/// A guard that cancels a command when it is dropped.
struct CancelGuard<'a> {
    connection: &'a Connection,
    request: Option<u32>,
}

impl CancelGuard<'_> {
    fn cancel(&mut self) {
        if let Some(request) = self.request.take() {
            self.connection.tell(&Request::Cancel { request });
        }
    }
}

impl Drop for CancelGuard<'_> {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// Converts a duration to milliseconds, rounded up, because 0 would mean no limit.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.min(MAX_TIMEOUT).as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1)
}

impl From<JobState> for BackgroundJob {
    fn from(job: JobState) -> Self {
        Self {
            id: job.id,
            command: String::from_utf8_lossy(&job.command).into_owned(),
            end: job.end,
            total: job.total,
            took: Duration::from_micros(job.took_us),
        }
    }
}
