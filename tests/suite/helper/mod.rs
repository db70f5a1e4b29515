//! The helper of a sandbox as a plain child process, spoken to over pipes. Here it is a subreaper, not init;
//! everything else is as in a container.

mod background;
mod command;
mod ending;
mod files;
mod flood;
mod guest;
mod protocol;
mod streams;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flock::sandbox::helper::{Environment, HelperClient, PROGRAM};
use flock::sandbox::{Command, CommandExit, CommandOutcome};
use nix::sys::resource::{Resource, setrlimit};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);
/// The number of helpers whose processes are limited.
static HELPERS: AtomicU32 = AtomicU32::new(0);

/// A helper with its working folder. Dropped, it ends with all it has started.
struct Helper {
    child: Child,
    input: Option<OwnedFd>,
    output: OwnedFd,
    folder: tempfile::TempDir,
}

impl Helper {
    fn start() -> Self {
        Self::started_by(|program| Process::new(program))
    }

    /// A helper that together with all it starts has at most about `most` processes.
    fn start_with_few_processes(most: usize) -> Self {
        let root = nix::unistd::geteuid().is_root();
        let most = if root { most } else { most + processes().len() } as u64;
        Self::started_by(|program| {
            let mut process = Process::new(program);
            if root {
                // The limit does not hold for root. Nobody else has this id, also none of the same suite.
                let id =
                    1_000_000_000 + std::process::id() * 16 + HELPERS.fetch_add(1, Ordering::Relaxed) % 16;
                process.uid(id).gid(id);
            }
            // SAFETY: one system call, between fork and exec.
            unsafe {
                process.pre_exec(move || Ok(setrlimit(Resource::RLIMIT_NPROC, most, most)?));
            }
            process
        })
    }

    fn started_by(command: impl Fn(&Path) -> Process) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
        let program = folder.path().join("flock-helper");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        // Another test's fork may hold the file open for writing for a moment.
        let mut child = wait_until("start the helper", LIMIT, || {
            command(&program)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())
        });
        let input = Some(child.stdin.take().unwrap().into());
        let output = child.stdout.take().unwrap().into();
        Self { child, input, output, folder }
    }

    fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    fn streams(&self) -> (pipe::Receiver, pipe::Sender) {
        let input = self.input.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
        let output = self.output.as_fd().try_clone_to_owned().unwrap();
        (pipe::Receiver::from_owned_fd(output).unwrap(), pipe::Sender::from_owned_fd(input).unwrap())
    }

    async fn attach(&self) -> HelperClient {
        let (reader, writer) = self.streams();
        let client = HelperClient::attach(reader, writer, None).await.unwrap();
        client.with_environment(self.environment())
    }

    fn environment(&self) -> Environment {
        let root = self.folder.path().to_str().unwrap().to_owned();
        Environment { root, ..Environment::default() }
    }

    /// The processes that descend from the helper and live.
    fn descendants(&self) -> Vec<i32> {
        let all = processes();
        let parent = |pid: i32| all.iter().find(|(found, ..)| *found == pid).map(|(_, parent, _)| *parent);
        let descends = |pid: i32| {
            let above = std::iter::successors(parent(pid), |pid| parent(*pid));
            above.take(1000).any(|pid| pid == self.pid())
        };
        all.iter().filter(|(pid, _, state)| *state != 'Z' && descends(*pid)).map(|(pid, ..)| *pid).collect()
    }

    /// Waits until so many descend from the helper.
    async fn grows_to(&self, count: usize) {
        let end = Instant::now() + LIMIT;
        while self.descendants().len() != count {
            assert!(Instant::now() < end, "{} processes, not {count}", self.descendants().len());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.pid());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

/// Pid, parent and state of every process.
fn processes() -> Vec<(i32, i32, char)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let stats = entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(entry.path().join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat).into_owned();
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        Some((pid, fields.next()?.parse().ok()?, state))
    });
    stats.collect()
}

fn sh(command: &str) -> Command {
    Command { command: command.to_owned(), keep: 64 * 1024, timeout: Some(LIMIT), ..Command::default() }
}

async fn run(client: &HelperClient, command: &str) -> CommandOutcome {
    client.run(&sh(command), &CancellationToken::new()).await.unwrap()
}

fn text(outcome: &CommandOutcome) -> &str {
    std::str::from_utf8(&outcome.output.head).unwrap()
}
