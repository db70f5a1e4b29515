//! Runs a program that performs an agent's turn, or an MCP server. The engine's exec starts it, so that it has standard streams of its
//! own. The helper registers it as a guest, and only the helper can end it: the helper is running already when the
//! sandbox's process limit is reached, and it finds processes that changed their session, parent and environment.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::activity_count::ActivityCount;
use super::slot::LiveContainer;
use crate::id::AgentId;
use crate::sandbox::engine::{self, Engine};
use crate::sandbox::exec::begun;
use crate::sandbox::helper::{HelperClient, HelperError};
use crate::sandbox::spec::WORKSPACE_TARGET;
use crate::sandbox::{OutputChunk, ProgramCommand, ProgramFeed, SandboxError};

/// The reason why a program was not run to its end.
pub(crate) enum ProgramRunError {
    /// The container is gone or stopped, and the program was never started. The caller may try again in a new
    /// container.
    Gone(SandboxError),
    /// Any other failure. The program may have been started.
    Failed(SandboxError),
}

/// The standard input of a program.
pub(super) enum ProgramInput<'a> {
    /// These bytes, then what the feed gives while the program runs, if there is one, and then its end.
    Whole(&'a Bytes, Option<&'a ProgramFeed>),
    /// The input that arrives while the program runs, until the sender is dropped.
    Stream(&'a mut mpsc::Receiver<Bytes>),
}

impl ProgramInput<'_> {
    /// Returns the interval between two checks if a program with open streams has ended.
    const fn poll_interval(&self) -> Duration {
        match self {
            Self::Whole(..) => POLL_INTERVAL,
            // It may be idle for hours, and its end is noticed by its streams except if it leaves a process behind.
            Self::Stream(_) => STREAM_POLL_INTERVAL,
        }
    }

    /// Writes the input to a program. The streams of the program end this by being dropped.
    async fn feed(&mut self, input: &mut (dyn AsyncWrite + Send + Unpin)) {
        // A program may end without reading all of its input, so a write error is not a failure.
        match self {
            Self::Whole(given, feed) => {
                drop(input.write_all(given).await);
                drop(input.flush().await);
                while let Some(piece) = next(*feed).await {
                    if input.write_all(&piece).await.is_err() || input.flush().await.is_err() {
                        break;
                    }
                }
            }
            Self::Stream(pieces) => {
                while let Some(piece) = pieces.recv().await {
                    if input.write_all(&piece).await.is_err() || input.flush().await.is_err() {
                        break;
                    }
                }
            }
        }
        drop(input.shutdown().await);
    }
}

/// Returns the next bytes of a feed. Without one there are none.
async fn next(feed: Option<&ProgramFeed>) -> Option<Bytes> {
    feed?.next().await
}

/// Runs a program in a container, waits for its end and returns its exit code. Dropping the future ends the program and
/// every process it started. `endings` counts that ending until it is done.
pub async fn attend(
    engine: &Arc<Engine>,
    agent: &AgentId,
    live: &Arc<LiveContainer>,
    endings: &ActivityCount,
    (run, input): (&ProgramCommand, &mut ProgramInput<'_>),
    heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
) -> Result<i32, ProgramRunError> {
    // The program reaches its model through the helper's streams, so the engine's exec alone is not enough.
    live.helper(agent, "an agent program asks its model through them").map_err(ProgramRunError::Failed)?;
    let guest = ProgramGuard {
        agent: agent.clone(),
        live: Arc::clone(live),
        endings: endings.clone(),
        mark: None,
        exec: None,
    };
    let environment = live.plan.exec_environment(run.env.clone());
    let config = ExecConfig {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        cmd: Some(run.command.clone()),
        working_dir: Some(WORKSPACE_TARGET.to_owned()),
        env: Some(environment.into_iter().map(|(name, value)| format!("{name}={value}")).collect()),
        ..ExecConfig::default()
    };
    // A separate task, because the engine may start the program although the caller has been dropped in the middle. The
    // task then still ends it.
    let task = tokio::spawn(start(Arc::clone(engine), guest, config));
    let mut starting = StartGuard { task: Some(task), endings: endings.clone() };
    let (guest, mut program) = starting.done().await?;
    let code = forward_streams(engine, &mut program, input, heard).await.map_err(ProgramRunError::Failed)?;
    guest.leave(code).await;
    Ok(code.unwrap_or(0))
}

/// A program that has been started.
struct ProgramExec {
    id: String,
    what: String,
    output: Pin<Box<dyn Stream<Item = Result<LogOutput, bollard::errors::Error>> + Send>>,
    input: Pin<Box<dyn AsyncWrite + Send>>,
}

async fn start(
    engine: Arc<Engine>,
    mut guest: ProgramGuard,
    mut config: ExecConfig,
) -> Result<(ProgramGuard, ProgramExec), ProgramRunError> {
    let container = guest.live.container.clone();
    let what = format!("run a program in {container}");
    let helper = guest.live.helper(&guest.agent, "").map_err(ProgramRunError::Failed)?;
    let mark = match helper.admit().await {
        Ok(mark) => mark,
        Err(error @ HelperError::Lost(_)) => return Err(ProgramRunError::Gone(error.of(&guest.agent))),
        Err(error) => return Err(ProgramRunError::Failed(error.of(&guest.agent))),
    };
    // The helper's program sets the mark on itself and then becomes the requested program.
    config.cmd = Some(HelperClient::guest(mark, &config.cmd.unwrap_or_default()));
    // Set before the start: from here on dropping the guest ends the program, whatever happens.
    guest.mark = Some(mark);
    let gone = |error: SandboxError| match engine::refusal(&error) {
        Some(404 | 409) => ProgramRunError::Gone(error),
        _ => ProgramRunError::Failed(error),
    };
    let client = engine.client().map_err(ProgramRunError::Failed)?;
    let created = client.create_exec(&container, config);
    let id = engine.call(&what, engine::SLOW, created).await.map_err(gone)?.id;
    guest.exec = Some((Arc::clone(&engine), id.clone()));
    let started = engine.call(&what, engine::SLOW, client.start_exec(&id, None)).await;
    let started = started.map_err(|error| match engine::refusal(&error) {
        Some(_) => gone(error),
        // The engine may or may not have started the program.
        None => ProgramRunError::Failed(begun(&what, &error)),
    })?;
    let StartExecResults::Attached { output, input } = started else {
        return Err(ProgramRunError::Failed(SandboxError::Engine {
            what,
            source: "it was not attached".into(),
        }));
    };
    Ok((guest, ProgramExec { id, what, output, input }))
}

/// A start in progress. Dropping it ends the program if the start succeeds.
struct StartGuard {
    task: Option<JoinHandle<Result<(ProgramGuard, ProgramExec), ProgramRunError>>>,
    endings: ActivityCount,
}

impl StartGuard {
    async fn done(&mut self) -> Result<(ProgramGuard, ProgramExec), ProgramRunError> {
        let Some(task) = &mut self.task else { return Err(ProgramRunError::Failed(not_started())) };
        let done = task.await;
        self.task = None;
        done.unwrap_or_else(|_| Err(ProgramRunError::Failed(not_started())))
    }
}

impl Drop for StartGuard {
    fn drop(&mut self) {
        let Some(task) = self.task.take() else { return };
        let ending = self.endings.begin();
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                // Dropping the result ends the program. That ending is counted before this one stops being counted, so
                // that the count does not reach zero in between.
                drop(task.await);
                drop(ending);
            });
        }
    }
}

fn not_started() -> SandboxError {
    SandboxError::NotStarted { reason: "its start was cancelled".to_owned() }
}

/// Passes the program's output to `heard` until it has ended, and returns its exit code. The result is `None` if the
/// program has closed its streams and still runs.
async fn forward_streams(
    engine: &Engine,
    program: &mut ProgramExec,
    given: &mut ProgramInput<'_>,
    heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
) -> Result<Option<i32>, SandboxError> {
    let ProgramExec { id, what, output, input } = program;
    let (id, what) = (id.as_str(), what.as_str());
    let poll_interval = given.poll_interval();
    let feed = async {
        given.feed(input).await;
        // Only the reading branch may end the `select!` below.
        std::future::pending::<()>().await;
    };
    let read = async {
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + poll_interval, poll_interval);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Set when the program has ended. A process that it left behind may hold the streams open and keep writing to
        // them.
        let mut ended: Option<Instant> = None;
        loop {
            let silence = async {
                match ended {
                    Some(ended) if ended.elapsed() > MAX_DRAIN => {}
                    Some(_) => tokio::time::sleep(DRAIN_SILENCE).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = silence => return Ok(()),
                piece = output.next() => match piece {
                    Some(Ok(LogOutput::StdErr { message })) => heard(OutputChunk::Err(&message)),
                    Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message })) => {
                        heard(OutputChunk::Out(&message));
                    }
                    Some(Ok(LogOutput::StdIn { .. })) => {}
                    Some(Err(error)) => return Err(begun(what, &engine.error(what, error))),
                    None => return Ok(()),
                },
                _ = look.tick(), if ended.is_none() => {
                    ended = exit(engine, what, id).await?.map(|_| Instant::now());
                }
            }
        }
    };
    tokio::select! {
        read = read => read?,
        () = feed => {}
    }
    // The streams close a moment before the engine knows the exit code.
    let limit = Instant::now() + engine::QUICK;
    loop {
        match exit(engine, what, id).await? {
            None if Instant::now() < limit => tokio::time::sleep(Duration::from_millis(10)).await,
            code => return Ok(code),
        }
    }
}

/// Returns the exit code if the program has ended.
async fn exit(engine: &Engine, what: &str, id: &str) -> Result<Option<i32>, SandboxError> {
    let client = engine.client()?;
    let found = engine.call(what, engine::QUICK, client.inspect_exec(id)).await;
    let found = found.map_err(|error| begun(what, &error))?;
    let code = found.exit_code.filter(|_| found.running != Some(true));
    Ok(code.map(|code| i32::try_from(code).unwrap_or(-1)))
}

/// A program as the helper knows it. Dropping it ends the program and every process it started.
struct ProgramGuard {
    agent: AgentId,
    live: Arc<LiveContainer>,
    endings: ActivityCount,
    /// The helper's mark on all processes of the program. `None` if there is nothing to end.
    mark: Option<u64>,
    /// The engine and the id of its exec.
    exec: Option<(Arc<Engine>, String)>,
}

impl ProgramGuard {
    /// Reports to the helper that the program has ended by itself, so that its remaining processes may stay. Without an
    /// exit code the program still runs with closed streams, and it is ended.
    async fn leave(mut self, code: Option<i32>) {
        if code.is_none() {
            return;
        }
        if let (Some(mark), Ok(helper)) = (self.mark.take(), self.live.helper(&self.agent, "")) {
            // A failure needs no retry, because the next client that connects ends what it finds.
            if let Err(error) = helper.dismiss(mark).await {
                tracing::debug!(agent = %self.agent, %error, "failed to tell the helper that a program has ended");
            }
        }
    }
}

impl Drop for ProgramGuard {
    fn drop(&mut self) {
        let Some(mark) = self.mark.take() else { return };
        let (agent, live, ending) = (self.agent.clone(), Arc::clone(&self.live), self.endings.begin());
        let exec = self.exec.take();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        // A separate task, so that a caller that stops waiting does not stop the ending.
        runtime.spawn(async move {
            if let Some((engine, id)) = exec {
                // The helper can only end a process that exists already, so wait for the engine to start it.
                wait_for_process(&engine, &id).await;
            }
            if let Ok(helper) = live.helper(&agent, "")
                && let Err(error) = helper.end(mark).await
            {
                // If the container is gone, so is the program. A helper that still runs ends it when the next client
                // connects.
                tracing::info!(%agent, %error, "failed to wait for the end of a program");
            }
            drop(ending);
        });
    }
}

/// Waits until an exec has or had a process. The engine opens the streams before it starts the process.
async fn wait_for_process(engine: &Engine, id: &str) {
    let Ok(client) = engine.client() else { return };
    let limit = Instant::now() + PROCESS_START_TIMEOUT;
    while Instant::now() < limit {
        let found = engine.call("inspect a program", engine::DISPLAY_TIMEOUT, client.inspect_exec(id)).await;
        match found {
            Ok(found) if found.pid.unwrap_or(0) == 0 && found.exit_code.is_none() => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            _ => return,
        }
    }
}

/// Time that the engine may take to start a process after it has opened its streams.
const PROCESS_START_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval between two checks if a program with open streams has ended.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The same interval for a program whose input arrives while it runs.
const STREAM_POLL_INTERVAL: Duration = Duration::from_secs(15);
/// Silence on the streams after which a program that has ended is considered done.
const DRAIN_SILENCE: Duration = Duration::from_millis(300);
/// Limit on the time for which the streams of a program that has ended are read.
const MAX_DRAIN: Duration = Duration::from_secs(5);
