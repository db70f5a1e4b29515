//! Tests with a real helper over streams that break again and again, in the middle of frames.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use tokio::io::{DuplexStream, duplex};
use tokio::process::{Child, ChildStdin, ChildStdout, Command as Process};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::sandbox::helper::message::HELLO;
use crate::sandbox::helper::{Environment, HelperClient, PROGRAM};
use crate::sandbox::{Command, CommandExit, testing};

/// Number of bytes after which streams break.
const UNTIL_BREAK: usize = 900;

/// A helper whose streams are attached to by one client at a time, as an engine does it: without one, its output is lost.
struct Host {
    child: Child,
    _folder: tempfile::TempDir,
    dials: mpsc::UnboundedSender<DuplexStream>,
    breaks: Arc<AtomicUsize>,
}

impl Host {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("flock-helper");
        std::fs::write(&program, PROGRAM).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = Process::new(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let end = Instant::now() + Duration::from_secs(60);
        let mut child = loop {
            match command.spawn() {
                Ok(child) => break child,
                // Another test's fork may hold the file open for writing for a moment.
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
            tokio::task::yield_now().await;
        };
        let (dials, dialled) = mpsc::unbounded_channel();
        let breaks = Arc::new(AtomicUsize::new(0));
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        tokio::spawn(relay(input, output, dialled, Arc::clone(&breaks)));
        Self { child, _folder: folder, dials, breaks }
    }

    /// Dials once the gate is open.
    fn redial(&self, gate: &CancellationToken) -> Redial {
        let (dials, gate) = (self.dials.clone(), gate.clone());
        Arc::new(move || -> BoxFuture<'static, io::Result<Option<HelperStreams>>> {
            let (dials, gate) = (dials.clone(), gate.clone());
            Box::pin(async move {
                gate.cancelled().await;
                // The relay ends with its helper.
                Ok(dial(&dials))
            })
        })
    }

    /// Attaches, and again after breaks once the gate is open.
    async fn attach(&self, gate: &CancellationToken) -> HelperClient {
        let streams = dial(&self.dials).unwrap();
        let resumption = Resumption::new(self.redial(gate), PausableClock::plain());
        let client = HelperClient::attach_resumable(streams, None, resumption).await.unwrap();
        client.with_environment(Environment { root: "/tmp".to_owned(), ..Environment::default() })
    }
}

fn dial(dials: &mpsc::UnboundedSender<DuplexStream>) -> Option<HelperStreams> {
    let (near, far) = duplex(1 << 20);
    dials.send(far).ok()?;
    let (reader, writer) = tokio::io::split(near);
    Some((Box::new(reader), Box::new(writer)))
}

fn open() -> CancellationToken {
    let gate = CancellationToken::new();
    gate.cancel();
    gate
}

/// Carries bytes between the helper and who has dialled last, in small pieces, and drops the streams again and again.
async fn relay(
    mut input: ChildStdin,
    mut output: ChildStdout,
    mut dialled: mpsc::UnboundedReceiver<DuplexStream>,
    breaks: Arc<AtomicUsize>,
) {
    let mut current: Option<DuplexStream> = None;
    let (mut up, mut down) = (vec![0; 100], vec![0; 100]);
    let mut left = UNTIL_BREAK;
    loop {
        let count = tokio::select! {
            next = dialled.recv() => {
                let Some(next) = next else { return };
                current = Some(next);
                left = UNTIL_BREAK;
                continue;
            }
            count = output.read(&mut down) => {
                let count = count.unwrap();
                if count == 0 {
                    return;
                }
                if let Some(stream) = &mut current {
                    let _ = stream.write_all(&down[..count]).await;
                }
                count
            }
            count = async { current.as_mut().unwrap().read(&mut up).await }, if current.is_some() => {
                match count {
                    Ok(count @ 1..) => {
                        if input.write_all(&up[..count]).await.is_err() {
                            return;
                        }
                        count
                    }
                    _ => {
                        current = None;
                        continue;
                    }
                }
            }
        };
        left = left.saturating_sub(count);
        if left == 0 && current.take().is_some() {
            breaks.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[tokio::test]
async fn a_command_runs_once_however_often_the_streams_break() {
    let host = Host::start().await;
    let client = host.attach(&open()).await;
    let folder = tempfile::tempdir().unwrap();
    let ran = folder.path().join("ran");
    for number in 0..100 {
        let text = format!("echo {number} >> {}; seq 1 40; echo {number}", ran.display());
        let command = Command { command: text, keep: 4096, ..Command::default() };
        let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
        assert_eq!(outcome.end, CommandExit::Exited(0));
        assert!(outcome.output.text().ends_with(&format!("40\n{number}\n")), "{:?}", outcome.output);
    }
    let found = std::fs::read_to_string(ran).unwrap();
    let expected: String = (0..100).map(|number| format!("{number}\n")).collect();
    assert_eq!(found, expected, "each ran once, in order");
    assert!(host.breaks.load(Ordering::Relaxed) > 10, "the streams broke");
}

#[tokio::test]
async fn a_connection_that_another_client_has_replaced_is_not_resumed() {
    let host = Host::start().await;
    let gate = CancellationToken::new();
    let first = host.attach(&gate).await;
    let second = host.attach(&open()).await;
    let command = Command { command: "true".to_owned(), keep: 100, ..Command::default() };
    second.run(&command, &CancellationToken::new()).await.unwrap();
    // One client is attached at a time.
    drop(second);
    gate.cancel();
    let error = first.run(&command, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(&error, HelperError::Lost(reason) if reason.contains("not known any more")), "{error}");
    assert!(!first.is_alive());
}

#[tokio::test]
async fn a_helper_that_has_ended_is_not_waited_for() {
    let mut host = Host::start().await;
    let client = host.attach(&open()).await;
    let command = Command { command: "sleep 1000".to_owned(), keep: 100, ..Command::default() };
    let cancel = CancellationToken::new();
    let run = client.run(&command, &cancel);
    let (outcome, killed) = tokio::join!(run, host.child.kill());
    killed.unwrap();
    let error = outcome.unwrap_err();
    assert!(matches!(&error, HelperError::Lost(reason) if reason.contains("has ended")), "{error}");
}

#[tokio::test]
async fn no_time_for_resuming_passes_while_the_sandbox_is_frozen() {
    let host = Host::start().await;
    let (frozen, clock) = watch::channel(true);
    let (tries, is_open) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (dials, counted, opened) = (host.dials.clone(), Arc::clone(&tries), Arc::clone(&is_open));
    let redial: Redial = Arc::new(move || -> BoxFuture<'static, io::Result<Option<HelperStreams>>> {
        counted.fetch_add(1, Ordering::Relaxed);
        let answer: io::Result<_> = match opened.load(Ordering::Relaxed) {
            true => Ok(dial(&dials)),
            false => Err(io::ErrorKind::NotConnected.into()),
        };
        Box::pin(std::future::ready(answer))
    });
    let resumption =
        Resumption { limit: Duration::ZERO, ..Resumption::new(redial, PausableClock::new(clock)) };
    let streams = dial(&host.dials).unwrap();
    let client = HelperClient::attach_resumable(streams, None, resumption).await.unwrap();
    let client = client.with_environment(Environment { root: "/tmp".to_owned(), ..Environment::default() });
    // The helper has been told to keep frames when it has answered. Before that, it does not know the connection again.
    let first = Command { command: "true".to_owned(), ..Command::default() };
    client.run(&first, &CancellationToken::new()).await.unwrap();
    // Streams that are attached end the ones before.
    let break_streams = || drop(dial(&host.dials));

    break_streams();
    testing::until("it is tried again", || tries.load(Ordering::Relaxed) > 1).await;
    assert!(client.is_alive());
    is_open.store(true, Ordering::Relaxed);
    let command = Command { command: "echo on".to_owned(), keep: 100, ..Command::default() };
    let outcome = client.run(&command, &CancellationToken::new()).await.unwrap();
    assert_eq!(outcome.output.text(), "on\n");

    is_open.store(false, Ordering::Relaxed);
    frozen.send_replace(false);
    break_streams();
    testing::until("it is given up", || !client.is_alive()).await;
    let error = client.run(&command, &CancellationToken::new()).await.unwrap_err();
    assert!(
        matches!(&error, HelperError::Lost(reason) if reason.contains("can't be reached again")),
        "{error}"
    );
}

/// A helper that welcomes its client, waits for a request, and asks for it again in each of many frames.
async fn ask_without_end(mut far: DuplexStream) -> DuplexStream {
    let mut decoder = Decoder::new(HELLO);
    let mut buffer = vec![0; 64 * 1024];
    let mut frames = Vec::new();
    // The hello, the word that frames are kept, and the request.
    while frames.len() < 3 {
        match decoder.next_frame() {
            Some(frame) => {
                if frames.is_empty() {
                    let welcome = Reply::Welcome { version: VERSION, listens: false };
                    far.write_all(&reply(&frame.nonce, &welcome)).await.unwrap();
                }
                frames.push(frame);
            }
            None => {
                let count = far.read(&mut buffer).await.unwrap();
                decoder.push(&buffer[..count]);
            }
        }
    }
    let again = Reply::Confirm { received: Number::default(), again: true };
    far.write_all(&reply(&frames[0].nonce, &again).repeat(400)).await.unwrap();
    far
}

fn reply(nonce: &[u8; 16], reply: &Reply) -> Vec<u8> {
    let (kind, payload) = reply.encode();
    encode(kind, nonce, &payload).unwrap()
}

#[tokio::test]
async fn a_helper_that_asks_for_the_same_again_and_again_is_given_up() {
    let (near, far) = duplex(2 << 20);
    let (reader, writer) = tokio::io::split(near);
    let redial: Redial = Arc::new(|| -> BoxFuture<'static, io::Result<Option<HelperStreams>>> {
        Box::pin(std::future::ready(Ok(None)))
    });
    let hostile = tokio::spawn(ask_without_end(far));
    let streams: HelperStreams = (Box::new(reader), Box::new(writer));
    let resumption = Resumption::new(redial, PausableClock::plain());
    let client = HelperClient::attach_resumable(streams, None, resumption).await.unwrap();
    let command = Command { command: "x".repeat(100_000), keep: 100, ..Command::default() };
    let cancel = CancellationToken::new();
    let run = tokio::time::timeout(Duration::from_secs(60), client.run(&command, &cancel));
    let error = run.await.expect("it is given up").unwrap_err();
    assert!(matches!(&error, HelperError::Lost(reason) if reason.contains("again and again")), "{error}");
    drop(hostile.await.unwrap());
}
