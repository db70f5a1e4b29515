//! Helpers shared by the tests of this module.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, ChildStdin, Command};

use crate::config::{Agent, CommandPolicy, DockerSettings, Role, SandboxMode, SkillsMode};
use crate::home::Home;
use crate::id::AgentId;
use crate::provider::BoxFuture;
use crate::sandbox::engine::Engine;
use crate::sandbox::helper::{Environment, HelperClient, PROGRAM};
use crate::sandbox::mount::Mounts;
use crate::sandbox::spec::{ContainerSpec, HostFacts, SandboxUser};
use crate::sandbox::workspace_files::RemoteFiles;
use crate::sandbox::{self, BackgroundJob, CommandOutcome, JobReply, JobRequest, Sandbox, SandboxError};

/// Returns the configuration of a worker agent with this id.
pub(crate) fn agent(id: &str, workspace: PathBuf) -> Agent {
    Agent {
        id: id.parse().unwrap(),
        role: Role::Worker,
        archetype: None,
        runtime: "native".to_owned(),
        on_host: false,
        model: None,
        effort: None,
        fallbacks: Vec::new(),
        identity: workspace.with_file_name("identity"),
        workspace,
        sandbox: SandboxMode::All,
        autonomy: crate::config::Autonomy::Supervised,
        allow: Vec::new(),
        profile: None,
        deny: Vec::new(),
        network: crate::config::Network::None,
        egress: Vec::new(),
        docker: DockerSettings::default(),
        policy: CommandPolicy::default(),
        persona: None,
        avatar: None,
        skills: SkillsMode::Compact,
        language: None,
        has_project: true,
        labels: Vec::new(),
    }
}

/// Returns the specification of the sandbox of such an agent.
pub(crate) fn spec() -> ContainerSpec {
    let workspace = PathBuf::from("/srv/flock/workspaces/coder");
    let host = HostFacts {
        image: "sha256:abc".to_owned(),
        user: SandboxUser { uid: 1000, gid: 1000 },
        helper: "/srv/flock/run/helper/1/flock-helper".into(),
        workspace: workspace.clone(),
        identity: Vec::new(),
        cores: 8,
        engine_socket: None,
        mounts: Mounts::default(),
        fittings: Vec::new(),
        projects: Vec::new(),
        volume: None,
    };
    ContainerSpec::build(&Home::new("/srv/flock".into(), None), &agent("coder", workspace), &host).unwrap()
}

/// Waits until a condition is met.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        tokio::task::yield_now().await;
    }
}

/// Starts an engine that gives fixed answers, and returns it with the folder of its socket. `answer` gets the first
/// line of a request and returns the status and the JSON text of the answer. With status 101 the streams of an exec
/// begin and end at once, and with status 0 there is no answer.
///
/// Must be called inside a runtime, and serves as long as that lives.
pub(crate) fn engine(
    answer: impl Fn(&str) -> (u16, &'static str) + Clone + Send + 'static,
) -> (Engine, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("engine.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, answer.clone()));
        }
    });
    (Engine::at(format!("unix://{}", socket.display())), folder)
}

/// Starts such an engine, and returns also the first lines of all requests that it gets.
pub(crate) fn asked_engine(
    answer: impl Fn(&str) -> (u16, &'static str) + Clone + Send + 'static,
) -> (Engine, Arc<Mutex<Vec<String>>>, TempDir) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let (engine, folder) = engine(move |line: &str| {
        seen.lock().unwrap().push(line.to_owned());
        answer(line)
    });
    (engine, asked, folder)
}

/// Answers one request and closes the connection.
async fn serve(stream: UnixStream, answer: impl Fn(&str) -> (u16, &'static str) + Send) {
    let mut stream = BufReader::new(stream);
    let (mut request, mut length) = (String::new(), 0_usize);
    stream.read_line(&mut request).await.unwrap();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let line = line.trim_end().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    // The body is read although nobody looks at it: closing a socket with unread bytes would break off the answer.
    stream.read_exact(&mut vec![0; length]).await.unwrap();
    let (status, text) = answer(request.trim_end());
    if status == 0 {
        std::future::pending::<()>().await;
    }
    let head = if status == 101 {
        "connection: upgrade\r\nupgrade: tcp".to_owned()
    } else {
        format!("connection: close\r\ncontent-type: application/json\r\ncontent-length: {}", text.len())
    };
    let whole = format!("HTTP/1.1 {status} Answer\r\n{head}\r\n\r\n{text}");
    stream.write_all(whole.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

/// Starts a helper as a plain process, with a root for its files.
pub(crate) async fn helper(folder: &Path, root: &Path) -> (Child, HelperClient) {
    special_helper(folder, root, None, usize::MAX).await
}

/// Does the same as [`helper`], as another user, and with a connection that breaks after so many writes.
pub(crate) async fn special_helper(
    folder: &Path,
    root: &Path,
    user: Option<u32>,
    writes: usize,
) -> (Child, HelperClient) {
    let program = folder.join("flock-helper");
    std::fs::write(&program, PROGRAM).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let end = Instant::now() + Duration::from_secs(60);
    let mut child = loop {
        match command.spawn() {
            Ok(child) => break child,
            // Another test's fork may hold the file open for writing for a moment.
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        tokio::task::yield_now().await;
    };
    let (reader, writer) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
    let writer = BreakingWriter { inner: writer, left: writes };
    let client = HelperClient::attach(reader, writer, None).await.unwrap();
    let root = root.to_str().unwrap().to_owned();
    (child, client.with_environment(Environment { root, ..Environment::default() }))
}

/// A way to a helper that breaks after so many writes.
struct BreakingWriter {
    inner: ChildStdin,
    left: usize,
}

impl AsyncWrite for BreakingWriter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.left == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let done = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.left -= usize::from(done.is_ready());
        done
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

/// A sandbox that has only files.
pub(crate) struct FilesOnly(Mutex<Option<RemoteFiles>>);

impl FilesOnly {
    /// Without files, the sandbox is frozen.
    pub(crate) fn new(files: Option<RemoteFiles>) -> Self {
        Self(Mutex::new(files))
    }

    pub(crate) fn set(&self, files: Option<RemoteFiles>) {
        *self.0.lock().unwrap() = files;
    }
}

impl Sandbox for FilesOnly {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Off(agent.clone())) })
    }

    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        _: sandbox::Command,
        _: &'a tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        Box::pin(async { Err(SandboxError::Off(agent.clone())) })
    }

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        _: sandbox::Command,
    ) -> BoxFuture<'a, Result<BackgroundJob, SandboxError>> {
        Box::pin(async { Err(SandboxError::Off(agent.clone())) })
    }

    fn jobs<'a>(
        &'a self,
        agent: &'a AgentId,
        _: JobRequest,
    ) -> BoxFuture<'a, Result<JobReply, SandboxError>> {
        Box::pin(async { Err(SandboxError::Off(agent.clone())) })
    }

    fn remote_files<'a>(
        &'a self,
        agent: &'a AgentId,
        starts: bool,
    ) -> BoxFuture<'a, Result<Option<RemoteFiles>, SandboxError>> {
        Box::pin(async move {
            match &*self.0.lock().unwrap() {
                Some(files) => Ok(starts.then(|| files.clone())),
                None => Err(SandboxError::Frozen(agent.clone())),
            }
        })
    }

    fn remove<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }

    fn pause<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }

    fn resume<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Ok(()) })
    }
}
