//! The helper of a sandbox as a plain child process, spoken to over pipes. Here it is a subreaper, not init;
//! everything else is as in a container.

use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use flock::sandbox::helper::frame::{self, Decoder};
use flock::sandbox::helper::message::{self, Ask, Reply, Request, Start};
use flock::sandbox::helper::{Environment, HelperClient, HelperError, PROGRAM};
use flock::sandbox::{Command, End, JobRequest, Outcome};
use tokio::net::unix::pipe;
use tokio_util::sync::CancellationToken;

use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(30);

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

    fn started_by(command: impl Fn(&std::path::Path) -> Process) -> Self {
        let folder = tempfile::tempdir().unwrap();
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
        self.child.id() as i32
    }

    async fn attach(&self) -> HelperClient {
        let input = self.input.as_ref().unwrap().as_fd().try_clone_to_owned().unwrap();
        let output = self.output.as_fd().try_clone_to_owned().unwrap();
        let reader = pipe::Receiver::from_owned_fd(output).unwrap();
        let writer = pipe::Sender::from_owned_fd(input).unwrap();
        let client = HelperClient::attach(reader, writer).await.unwrap();
        let default = Environment::default();
        let root = self.folder.path().to_str().unwrap().to_owned();
        client.with_environment(Environment { root, ..default })
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.pid());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

fn sh(command: &str) -> Command {
    Command { command: command.to_owned(), keep: 64 * 1024, timeout: Some(LIMIT), ..Command::default() }
}

async fn run(client: &HelperClient, command: &str) -> Outcome {
    client.run(&sh(command), &CancellationToken::new()).await.unwrap()
}

fn text(outcome: &Outcome) -> &str {
    std::str::from_utf8(&outcome.output.head).unwrap()
}

#[tokio::test]
async fn a_command_ends_with_its_output_in_order_and_its_code() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let outcome = run(&client, "echo one; echo two >&2; printf three; exit 7").await;
    assert_eq!((outcome.end, text(&outcome)), (End::Exited(7), "one\ntwo\nthree"));
    assert_eq!(outcome.output.total, 13);
}

#[tokio::test]
#[ignore = "prints a figure, proves nothing"]
async fn median_of_true() {
    let helper = Helper::start();
    let client = helper.attach().await;
    let mut times = Vec::new();
    for _ in 0..500 {
        let start = Instant::now();
        assert_eq!(run(&client, "true").await.end, End::Exited(0));
        times.push(start.elapsed());
    }
    times.sort();
    eprintln!("true: median {:?}, 95th percentile {:?}", times[250], times[475]);
}
