//! A command run by the engine's own exec: forty times slower than the helper, and the engine does not end
//! it with its caller. It serves the store's container, and a sandbox whose streams can't be had.

use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::{ExecConfig, ExecInspectResponse};
use bollard::query_parameters::InspectContainerOptions;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{End, Outcome, Output, Piece, SandboxError};

/// A command for the engine to run in a container.
#[derive(Clone, Debug, Default)]
pub struct Exec {
    /// The container.
    pub container: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// `uid:gid`; the container's own where absent.
    pub user: Option<String>,
    /// The working folder; the container's own where absent.
    pub workdir: Option<String>,
    /// `NAME=value` each, on top of the container's own.
    pub env: Vec<String>,
    /// What is written to its standard input, which is then closed.
    pub input: Option<Bytes>,
    /// How long it may run.
    pub timeout: Duration,
    /// Bytes of output to keep.
    pub keep: usize,
}

/// Runs it to its end, and ends it with all it started when time is up or `cancel` fires.
///
/// # Errors
///
/// As [`Engine::call`]. A program that is not there is an outcome with code 126 or 127, as in a shell.
pub async fn run(engine: &Engine, exec: &Exec, cancel: &CancellationToken) -> Result<Outcome, SandboxError> {
    run_with(engine, exec, cancel, &|_| {}).await
}

/// As [`run`], with each piece of output shown to `watch` as it comes.
///
/// # Errors
///
/// As [`run`].
pub async fn run_with(
    engine: &Engine,
    exec: &Exec,
    cancel: &CancellationToken,
    watch: &(dyn Fn(&[u8]) + Send + Sync),
) -> Result<Outcome, SandboxError> {
    let began = Instant::now();
    let mut kept = Kept::new(exec.keep);
    let mut heard = |piece: Piece<'_>| {
        let (Piece::Out(bytes) | Piece::Err(bytes)) = piece;
        watch(bytes);
        kept.add(bytes);
    };
    let mut running = Running::new(engine, exec);
    let end = tokio::select! {
        code = running.follow(engine, exec, &mut heard) => End::Exited(code?),
        () = tokio::time::sleep(exec.timeout) => End::TimedOut,
        () = cancel.cancelled() => End::Cancelled,
    };
    if let Some(killed) = running.kill() {
        let _ = killed.await;
    }
    Ok(Outcome { end, output: kept.output(), took: began.elapsed() })
}

/// What went wrong after a command was started. Whatever it was, nobody may take the command for one that was never begun.
pub(super) fn begun(what: &str, error: &SandboxError) -> SandboxError {
    SandboxError::Engine { what: what.to_owned(), source: crate::error::chain(error).into() }
}

/// The streams of an exec close a moment before the engine knows its code.
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
            return unended(engine, what, &found).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// The code of a command that has closed its streams and that the engine knows no end of: 0 where it goes on, as a daemon
/// of its own making. Where its container has ended, so has the command, in the middle of what it did.
async fn unended(engine: &Engine, what: &str, exec: &ExecInspectResponse) -> Result<i32, SandboxError> {
    // An engine may go on to call a command running whose container was killed.
    let container = exec.container_id.as_deref().unwrap_or_default();
    let client = engine.client()?;
    let found = client.inspect_container(container, None::<InspectContainerOptions>);
    let found = engine.find(what, engine::QUICK, found).await?;
    let lives = found.and_then(|found| found.state?.running) == Some(true);
    if lives && exec.running == Some(true) {
        return Ok(0);
    }
    let source = "its container ended while it ran: what it had done until then is not known".into();
    Err(SandboxError::Engine { what: what.to_owned(), source })
}

/// A command, ended with all it started when this goes out of scope: the engine would let it go on.
struct Running {
    engine: Engine,
    container: String,
    user: Option<String>,
    /// Inherited by all it starts, and kept over any change of process group: how they are found again. `None` when
    /// there is nothing to end.
    mark: Option<String>,
}

impl Running {
    fn new(engine: &Engine, exec: &Exec) -> Self {
        let (container, user) = (exec.container.clone(), exec.user.clone());
        Self { engine: engine.clone(), container, user, mark: None }
    }

    /// Starts it and tells what it prints until it has ended; its exit code.
    async fn follow(
        &mut self,
        engine: &Engine,
        exec: &Exec,
        heard: &mut (dyn FnMut(Piece<'_>) + Send),
    ) -> Result<i32, SandboxError> {
        let client = engine.client()?;
        let what = format!("run a command in {}", exec.container);
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
        self.mark = Some(mark);
        let started = engine.call(&what, engine::SLOW, client.start_exec(&id, None)).await?;
        let StartExecResults::Attached { output: mut stream, mut input } = started else {
            return Err(SandboxError::Engine { what, source: "it was not attached".into() });
        };
        let feed = async {
            if let Some(bytes) = &exec.input {
                // A program may end without reading all of it.
                let _ = input.write_all(bytes).await;
                let _ = input.shutdown().await;
            }
            std::future::pending::<()>().await;
        };
        let read = async {
            loop {
                match tokio::time::timeout(LOOK, stream.next()).await {
                    Ok(Some(Ok(LogOutput::StdErr { message }))) => heard(Piece::Err(&message)),
                    Ok(Some(Ok(LogOutput::StdOut { message } | LogOutput::Console { message }))) => {
                        heard(Piece::Out(&message));
                    }
                    Ok(Some(Ok(LogOutput::StdIn { .. }))) => {}
                    Ok(Some(Err(error))) => return Err(begun(&what, &engine.error(&what, error))),
                    Ok(None) => return Ok(()),
                    // What it left behind may hold its streams open.
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
        self.mark = None;
        Ok(code)
    }

    /// In a task of its own, so that nobody who gives up waiting gives up the killing.
    fn kill(&mut self) -> Option<tokio::task::JoinHandle<()>> {
        let mark = self.mark.take()?;
        let (engine, container, user) = (self.engine.clone(), self.container.clone(), self.user.clone());
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move { kill(&engine, &container, user, &mark).await }))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.kill());
    }
}

/// How long a program's streams are silent before its process is looked at.
const LOOK: Duration = Duration::from_secs(2);

/// Ends everything that carries the mark. What could not be ended is logged: the caller's own answer is the
/// same either way.
async fn kill(engine: &Engine, container: &str, user: Option<String>, mark: &str) {
    loop {
        match kill_once(engine, container, user.clone(), mark).await {
            Ok(()) => return,
            // With the container, all that ran in it is gone; but a frozen one thaws, and all of it goes on.
            Err(error) if matches!(engine::refusal(&error), Some(404 | 409)) => {
                if !is_paused(engine, container).await {
                    return;
                }
                tokio::time::sleep(THAW).await;
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
    let Ok(client) = engine.client() else { return false };
    let found = client.inspect_container(container, None::<InspectContainerOptions>);
    let found = engine.find("look at it", engine::QUICK, found).await;
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
        cmd: Some(["sh", "-c", KILL, "flock-kill", mark].map(str::to_owned).to_vec()),
        user,
        ..ExecConfig::default()
    };
    let what = format!("end a command in {container}");
    let id = engine.call(&what, engine::SLOW, client.create_exec(container, config)).await?.id;
    let started = engine.call(&what, engine::SLOW, client.start_exec(&id, None)).await?;
    if let StartExecResults::Attached { mut output, .. } = started {
        let drain = async { while output.next().await.is_some() {} };
        // The script ends by itself after at most 50 rounds.
        let _ = tokio::time::timeout(engine::QUICK, drain).await;
    }
    Ok(())
}

/// How often a frozen container is looked at in which something is to be ended.
const THAW: Duration = Duration::from_secs(1);

/// Rounds, because a process that forks without end makes new ones while the old are killed.
const KILL: &str = r#"
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

/// The first and the last bytes of an output of any length.
#[derive(Debug)]
pub struct Kept {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    half: usize,
    total: u64,
}

impl Kept {
    /// Keeps at most this many bytes.
    #[must_use]
    pub fn new(keep: usize) -> Self {
        Self { head: Vec::new(), tail: std::collections::VecDeque::new(), half: keep / 2, total: 0 }
    }

    /// More of it came.
    pub fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let room = self.half.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        let rest = &rest[rest.len().saturating_sub(self.half)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.half);
        self.tail.drain(..over.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// What is kept.
    #[must_use]
    pub fn output(self) -> Output {
        Output { head: self.head, tail: self.tail.into(), total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_output_the_ends_are_kept() {
        let mut kept = Kept::new(8);
        for piece in ["ab", "cdef", "", "ghijklmnop", "q"] {
            kept.add(piece.as_bytes());
        }
        assert_eq!(kept.output(), Output { head: b"abcd".to_vec(), tail: b"nopq".to_vec(), total: 17 });
        let mut kept = Kept::new(100);
        kept.add(b"short");
        assert_eq!(kept.output(), Output { head: b"short".to_vec(), tail: Vec::new(), total: 5 });
    }
}
