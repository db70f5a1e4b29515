//! Commands run through the engine's own exec. This is forty times slower than the helper, and the engine does not end
//! a command when its caller goes away. It is used for the store's container and for a sandbox whose streams cannot be
//! attached.

use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::{ExecConfig, ExecInspectResponse};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::sandbox::engine::{self, Engine};
use crate::sandbox::helper::output_buffer::OutputBuffer;
use crate::sandbox::{CommandExit, CommandOutcome, OutputChunk, SandboxError, containers};

/// A command for the engine to run in a container.
#[derive(Clone, Debug, Default)]
pub struct EngineExec {
    /// The container's name or id.
    pub container: String,
    pub command: Vec<String>,
    /// The user as `uid:gid`. `None` for the container's own.
    pub user: Option<String>,
    /// The working folder. `None` for the container's own.
    pub workdir: Option<String>,
    /// Variables as `NAME=value`, added to the container's own.
    pub env: Vec<String>,
    /// Bytes for its standard input, which is closed after them.
    pub input: Option<Bytes>,
    /// The time limit.
    pub timeout: Duration,
    /// The number of output bytes to keep, half from the start and half from the end.
    pub keep: usize,
}

/// Runs a command and waits for its end. When the timeout passes or `cancel` fires, the command and every process it
/// started are killed.
///
/// A missing program is not an error. It gives an outcome with code 126 or 127, as in a shell.
///
/// # Errors
///
/// Fails if the engine cannot be reached, refuses the exec or breaks off the stream, and if the container ends while
/// the command runs.
pub async fn run(
    engine: &Engine,
    exec: &EngineExec,
    cancel: &CancellationToken,
) -> Result<CommandOutcome, SandboxError> {
    run_with(engine, exec, cancel, &|_| {}).await
}

/// Runs a command as [`run`] does, and passes each chunk of output to `watch` when it arrives.
///
/// # Errors
///
/// Fails under the same conditions as [`run`].
pub(crate) async fn run_with(
    engine: &Engine,
    exec: &EngineExec,
    cancel: &CancellationToken,
    watch: &(dyn Fn(&[u8]) + Send + Sync),
) -> Result<CommandOutcome, SandboxError> {
    let began = Instant::now();
    let mut kept = OutputBuffer::new(exec.keep);
    let mut heard = |piece: OutputChunk<'_>| {
        let (OutputChunk::Out(bytes) | OutputChunk::Err(bytes)) = piece;
        watch(bytes);
        kept.push(bytes);
    };
    let mut running = RunningExec::new(engine, exec);
    let end = tokio::select! {
        code = running.follow(engine, exec, &mut heard) => CommandExit::Exited(code?),
        () = tokio::time::sleep(exec.timeout) => CommandExit::TimedOut,
        () = cancel.cancelled() => CommandExit::Cancelled,
    };
    // `kill` returns `None` if the command has ended by itself.
    if let Some(killed) = running.kill() {
        // Wait until the command is gone before the caller gets the outcome.
        let _ = killed.await;
    }
    Ok(CommandOutcome { end, output: kept.all(), took: began.elapsed() })
}

/// Wraps an error that happened after a command was started. The result is always [`SandboxError::Engine`], so that no
/// caller takes the command for one that never ran and may be repeated.
pub(super) fn begun(what: &str, error: &SandboxError) -> SandboxError {
    SandboxError::Engine { what: what.to_owned(), source: crate::error::chain(error).into() }
}

/// Returns the exit code of an exec, polling because its streams close a moment before the engine knows the code.
async fn exit_code(engine: &Engine, what: &str, id: &str) -> Result<i32, SandboxError> {
    let client = engine.client()?;
    let limit = Instant::now() + engine::QUICK;
    loop {
        let found = engine.call(what, engine::QUICK, client.inspect_exec(id)).await?;
        if found.running != Some(true)
            && let Some(code) = found.exit_code
        {
            return Ok(i32::try_from(code).unwrap_or(-1));
        }
        if Instant::now() > limit {
            return unreported_exit_code(engine, what, &found).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the code of a command that has closed its streams and for which the engine reports no end. It is 0 if the
/// process still runs, for example as a daemon.
///
/// # Errors
///
/// Returns [`SandboxError::Engine`] if the container has ended, because the command then ended halfway.
async fn unreported_exit_code(
    engine: &Engine,
    what: &str,
    exec: &ExecInspectResponse,
) -> Result<i32, SandboxError> {
    // The engine may still report a command as running although its container was killed. Look at the container itself.
    let container = exec.container_id.as_deref().unwrap_or_default();
    let found = containers::inspect(engine, container).await?;
    let lives = found.and_then(|found| found.state?.running) == Some(true);
    if lives && exec.running == Some(true) {
        return Ok(0);
    }
    let source = "its container ended while it ran: what it had done until then is not known".into();
    Err(SandboxError::Engine { what: what.to_owned(), source })
}

/// A running command. Dropping this value kills the command and every process it started, because the engine would let
/// them run on.
struct RunningExec {
    engine: Engine,
    container: String,
    user: Option<String>,
    /// An environment variable that all child processes inherit, even if they change their process group. It is how
    /// they are found again. `None` if there is nothing to kill.
    mark: Option<String>,
}

impl RunningExec {
    fn new(engine: &Engine, exec: &EngineExec) -> Self {
        let (container, user) = (exec.container.clone(), exec.user.clone());
        Self { engine: engine.clone(), container, user, mark: None }
    }

    /// Starts the command, passes its output to `heard` until it has ended, and returns its exit code.
    async fn follow(
        &mut self,
        engine: &Engine,
        exec: &EngineExec,
        heard: &mut (dyn FnMut(OutputChunk<'_>) + Send),
    ) -> Result<i32, SandboxError> {
        let client = engine.client()?;
        let what = format!("run a command in {}", exec.container);
        // Random, so that two commands in one container never share a mark.
        let mark = format!("FLOCK_EXEC={:016x}", rand::random::<u64>());
        let config = ExecConfig {
            attach_stdin: Some(exec.input.is_some()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(exec.command.clone()),
            user: exec.user.clone(),
            working_dir: exec.workdir.clone(),
            env: Some(exec.env.iter().cloned().chain([mark.clone()]).collect()),
            ..ExecConfig::default()
        };
        let id = engine.call(&what, engine::SLOW, client.create_exec(&exec.container, config)).await?.id;
        // From here on the process may exist, so that dropping `self` has to kill it.
        self.mark = Some(mark);
        let started = engine.call(&what, engine::SLOW, client.start_exec(&id, None)).await?;
        let StartExecResults::Attached { output: mut stream, mut input } = started else {
            return Err(SandboxError::Engine { what, source: "it was not attached".into() });
        };
        let feed = async {
            if let Some(bytes) = &exec.input {
                // A program may end without reading all of its input, so a write error is not a failure.
                let _ = input.write_all(bytes).await;
                let _ = input.shutdown().await;
            }
            // Only the reading branch of the `select!` below may end it. Input that is written does not mean that the
            // command is done.
            std::future::pending::<()>().await;
        };
        let read = async {
            loop {
                match tokio::time::timeout(POLL_INTERVAL, stream.next()).await {
                    Ok(Some(Ok(LogOutput::StdErr { message }))) => heard(OutputChunk::Err(&message)),
                    Ok(Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message }))) => {
                        heard(OutputChunk::Out(&message));
                    }
                    Ok(Some(Ok(LogOutput::StdIn { .. }))) => {}
                    Ok(Some(Err(error))) => return Err(begun(&what, &engine.error(&what, error))),
                    Ok(None) => return Ok(()),
                    // A process that the command left behind may hold the streams open. Ask the engine if the command
                    // itself has ended.
                    Err(_) => {
                        let found = engine.call(&what, engine::QUICK, client.inspect_exec(&id)).await;
                        let found = found.map_err(|error| begun(&what, &error))?;
                        if found.running == Some(false) {
                            return Ok(());
                        }
                    }
                }
            }
        };
        tokio::select! {
            read = read => read?,
            () = feed => {}
        }
        let code = exit_code(engine, &what, &id).await.map_err(|error| begun(&what, &error))?;
        // The command has ended by itself, so nothing is killed. Processes that it left behind stay.
        self.mark = None;
        Ok(code)
    }

    /// Kills the command in a separate task, so that a caller that stops waiting does not stop the killing.
    fn kill(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let mark = self.mark.take()?;
        let (engine, container, user) = (self.engine.clone(), self.container.clone(), self.user.clone());
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move { kill(&engine, &container, user, &mark).await }))
    }
}

impl Drop for RunningExec {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

/// Silence on a command's streams after which the engine is asked if its process still runs.
const POLL_INTERVAL: Duration = Duration::from_secs(2);

/// Kills every process that carries the mark. A failure is only logged, because the caller's answer is the same either
/// way.
async fn kill(engine: &Engine, container: &str, user: Option<String>, mark: &str) {
    loop {
        match kill_once(engine, container, user.clone(), mark).await {
            Ok(()) => return,
            // If the container is gone, so are its processes. A frozen container has to be waited for: after the thaw
            // its processes would go on.
            Err(error) if matches!(engine::refusal(&error), Some(404 | 409)) => {
                if !is_paused(engine, container).await {
                    return;
                }
                tokio::time::sleep(THAW_POLL_INTERVAL).await;
            }
            Err(error) => {
                let error = crate::error::chain(&error);
                tracing::warn!(container, %error, "a command could not be ended");
                return;
            }
        }
    }
}

async fn is_paused(engine: &Engine, container: &str) -> bool {
    let found = containers::inspect(engine, container).await;
    found.is_ok_and(|found| found.and_then(|found| found.state?.paused) == Some(true))
}

async fn kill_once(
    engine: &Engine,
    container: &str,
    user: Option<String>,
    mark: &str,
) -> Result<(), SandboxError> {
    let client = engine.client()?;
    let config = ExecConfig {
        attach_stdout: Some(true),
        cmd: Some(["sh", "-c", KILL_SCRIPT, "flock-kill", mark].map(str::to_owned).to_vec()),
        user,
        ..ExecConfig::default()
    };
    let what = format!("end a command in {container}");
    let id = engine.call(&what, engine::SLOW, client.create_exec(container, config)).await?.id;
    let started = engine.call(&what, engine::SLOW, client.start_exec(&id, None)).await?;
    if let StartExecResults::Attached { mut output, .. } = started {
        let drain = async { while output.next().await.is_some() {} };
        // The script ends by itself after at most 50 rounds.
        if tokio::time::timeout(engine::QUICK, drain).await.is_err() {
            return Err(engine.silent(&what, engine::QUICK));
        }
    }
    match exit_code(engine, &what, &id).await? {
        0 => Ok(()),
        code => {
            let source = format!("not all of its processes could be killed (code {code})").into();
            Err(SandboxError::Engine { what, source })
        }
    }
}

/// Interval between two looks at a frozen container in which something is to be killed.
const THAW_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Shell script that kills every process with the mark. It needs several rounds, because a process that forks without
/// end creates new ones while the old ones are killed. SIGSTOP comes first so that a process cannot fork between the
/// two signals. The script fails if processes are left after the last round.
const KILL_SCRIPT: &str = r#"
round=0
while [ $round -lt 50 ]; do
  found=
  for process in /proc/[0-9]*; do
    if tr '\0' '\n' < "$process/environ" 2>/dev/null | grep -qxF "$1"; then
      pid=${process#/proc/}
      kill -STOP "$pid" 2>/dev/null
      kill -KILL "$pid" 2>/dev/null && found=1
    fi
  done
  [ -z "$found" ] && exit 0
  round=$((round + 1))
done
exit 1
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Output, testing};

    #[tokio::test]
    async fn an_ending_that_leaves_processes_is_reported() {
        for (ended, is_done) in
            [(r#"{"Running":false,"ExitCode":0}"#, true), (r#"{"Running":false,"ExitCode":1}"#, false)]
        {
            let (engine, _folder) = testing::engine(move |request| {
                if request.contains("/containers/box/exec") {
                    (201, r#"{"Id":"1"}"#)
                } else if request.contains("/exec/1/start") {
                    (101, "")
                } else {
                    (200, ended)
                }
            });
            let killed = kill_once(&engine, "box", None, "FLOCK_EXEC=0").await;
            assert_eq!(killed.is_ok(), is_done, "{ended}: {killed:?}");
            if let Err(error) = killed {
                assert!(crate::error::chain(&error).contains("not all of its processes"), "{error:?}");
            }
        }
    }

    #[test]
    fn a_long_output_keeps_its_head_and_tail() {
        let mut kept = OutputBuffer::new(8);
        for piece in ["ab", "cdef", "", "ghijklmnop", "q"] {
            kept.push(piece.as_bytes());
        }
        assert_eq!(kept.all(), Output { head: b"abcd".to_vec(), tail: b"nopq".to_vec(), total: 17 });
        let mut kept = OutputBuffer::new(100);
        kept.push(b"short");
        assert_eq!(kept.all(), Output { head: b"short".to_vec(), tail: Vec::new(), total: 5 });
    }
}
