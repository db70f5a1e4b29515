//! A command run by the engine's own exec: forty times slower than the helper, and the engine does not end
//! it with its caller. It serves the store's container, and a sandbox whose streams can't be had.

use std::time::{Duration, Instant};

use bollard::container::LogOutput;
use bollard::exec::StartExecResults;
use bollard::models::ExecConfig;
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio_util::sync::CancellationToken;

use crate::sandbox::engine::{self, Engine};
use crate::sandbox::{End, Outcome, Output, SandboxError};

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
    let client = engine.client()?;
    let began = Instant::now();
    let what = format!("run a command in {}", exec.container);
    // Inherited by all it starts, and kept over any change of process group: how they are found again.
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
    let mut running = Running {
        engine: engine.clone(),
        container: exec.container.clone(),
        user: exec.user.clone(),
        mark: Some(mark),
    };
    let started = engine.call(&what, engine::SLOW, client.start_exec(&id, None)).await?;
    let StartExecResults::Attached { output: mut stream, mut input } = started else {
        return Err(SandboxError::Engine { what, source: "it was not attached".into() });
    };
    let mut kept = Kept::new(exec.keep);
    let feed = async {
        if let Some(bytes) = &exec.input {
            // A program may end without reading all of it.
            let _ = input.write_all(bytes).await;
            let _ = input.shutdown().await;
        }
        std::future::pending::<()>().await;
    };
    let read = async {
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(LogOutput::StdIn { .. }) => {}
                Ok(piece) => {
                    watch(piece.as_ref());
                    kept.add(piece.as_ref());
                }
                Err(error) => return Err(engine.error(&what, error)),
            }
        }
        Ok(())
    };
    let end = tokio::select! {
        read = read => { read?; None }
        () = feed => None,
        () = tokio::time::sleep(exec.timeout) => Some(End::TimedOut),
        () = cancel.cancelled() => Some(End::Cancelled),
    };
    let end = match end {
        Some(end) => {
            if let Some(killed) = running.kill() {
                let _ = killed.await;
            }
            end
        }
        None => {
            running.mark = None;
            End::Exited(exit_code(engine, &what, &id).await?)
        }
    };
    Ok(Outcome { end, output: kept.output(), took: began.elapsed() })
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
            // It closed its streams and goes on: a daemon of its own making.
            return Ok(0);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Ends a command, with all it started, when it goes out of scope: the engine would let it go on.
struct Running {
    engine: Engine,
    container: String,
    user: Option<String>,
    mark: Option<String>,
}

impl Running {
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

/// Ends everything that carries the mark. What could not be ended is logged: the caller's own answer is the
/// same either way.
async fn kill(engine: &Engine, container: &str, user: Option<String>, mark: &str) {
    let killed = async {
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
        Ok::<(), SandboxError>(())
    };
    if let Err(error) = killed.await
        // With the container, all that ran in it is gone.
        && !matches!(engine::refusal(&error), Some(404 | 409))
    {
        tracing::warn!(container, error = %crate::error::chain(&error), "a command could not be ended");
    }
}

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
