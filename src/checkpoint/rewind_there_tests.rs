//! Rewinds of a workspace on another machine. Its helper is a process of this one.

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::sync::Mutex;

use super::super::TurnCheckpoints;
use super::super::journal;
use super::super::testing::{PlainServices, rewind_to};
use super::*;
use crate::agent::TurnWatch as _;
use crate::config::agents::{self, NewAgent};
use crate::config::{Live, Role, starter};
use crate::error::Explain as _;
use crate::home::Home;
use crate::home::elsewhere::{self, Mark};
use crate::id::{AgentId, TurnId};
use crate::provider::BoxFuture;
use crate::sandbox::Sandbox;
use crate::sandbox::testing::{FilesOnly, special_helper};
use crate::sandbox::workspace_files::{RemoteFiles, Workspaces};
use crate::store::Store;
use crate::swarm::lease::Ownership;

/// The other machine: a folder, and the helper that reaches it.
struct Far {
    folder: std::path::PathBuf,
    files: Arc<FilesOnly>,
    child: Mutex<Option<Child>>,
    /// The writes after which the next connection breaks.
    writes: AtomicUsize,
}

impl Far {
    /// Ends everything that runs there, and begins anew.
    async fn restart(&self) {
        let mut child = self.child.lock().await;
        if let Some(mut old) = child.take() {
            old.kill().await.unwrap();
        }
        let writes = self.writes.swap(usize::MAX, Ordering::SeqCst);
        // A connection that breaks needs a hello first.
        let (new, client) =
            special_helper(&self.folder, &self.folder.join("w"), None, writes.saturating_add(1)).await;
        *child = Some(new);
        self.files.set(Some(RemoteFiles::new(Arc::new(client), Handle::current())));
    }
}

impl PlainServices for Far {
    fn stopped<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, ()> {
        Box::pin(self.restart())
    }
}

struct Stage {
    folder: tempfile::TempDir,
    agent: Agent,
    checkpoints: Arc<Checkpoints>,
    far: Arc<Far>,
    _sandbox: Arc<dyn Sandbox>,
}

type State = BTreeMap<String, String>;

impl Stage {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let id: AgentId = "coder".parse().unwrap();
        let mut document = starter::document(&home, None, "token", 3779);
        agents::add(&mut document, &home, &NewAgent::new(id.clone(), Role::Worker)).unwrap();
        std::fs::write(home.config(), document.to_string()).unwrap();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let agent = live.current().agent(&id).unwrap().clone();
        std::fs::create_dir_all(agent.workspace.parent().unwrap()).unwrap();
        elsewhere::mark(&agent.workspace, &Mark::new(&"far".parse().unwrap(), &id)).unwrap();
        let there = folder.path().join("far");
        std::fs::create_dir_all(there.join("w")).unwrap();
        std::fs::create_dir(there.join("outside")).unwrap();
        std::fs::write(there.join("outside/secret"), "secret").unwrap();
        let far = Arc::new(Far {
            folder: there,
            files: Arc::new(FilesOnly::new(None)),
            child: Mutex::default(),
            writes: AtomicUsize::new(usize::MAX),
        });
        far.restart().await;
        let store = Arc::new(Store::open(&home).unwrap());
        let ownership = Ownership::new(&store);
        let checkpoints = Arc::new(Checkpoints::new(live, store, ownership));
        let sandbox: Arc<dyn Sandbox> = far.files.clone();
        checkpoints.reach_workspaces(Workspaces::new(&sandbox));
        checkpoints.serve(far.clone());
        Self { folder, agent, checkpoints, far, _sandbox: sandbox }
    }

    fn at(&self, path: &str) -> std::path::PathBuf {
        self.far.folder.join("w").join(path)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), bytes).unwrap();
    }

    fn mode(&self, path: &str, mode: u32) {
        std::fs::set_permissions(self.at(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Everything in the workspace, except for a copy of an identity file.
    fn state(&self) -> State {
        assert_eq!(std::fs::read(self.far.folder.join("outside/secret")).unwrap(), b"secret");
        assert_eq!(std::fs::read_dir(self.far.folder.join("outside")).unwrap().count(), 1);
        let mut found = BTreeMap::new();
        add(&self.at(""), &self.at(""), &mut found);
        found.remove("SOUL.md");
        found
    }

    /// A turn in which the agent does this.
    async fn turn(&self, work: impl FnOnce()) {
        let session: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let watch = TurnCheckpoints(Arc::clone(&self.checkpoints));
        let turn = watch.begin(&self.agent.id, &session, TurnId::new()).await;
        turn.may_change().await;
        work();
        drop(turn);
        // The look at its end holds its pass.
        drop(self.checkpoints.gate(&self.agent.id).alone().await.unwrap());
    }

    /// The states that [`first`] and [`second`] leave, with a turn between them.
    async fn two_states(&self) -> [State; 2] {
        self.first();
        let before = self.state();
        self.turn(|| self.second()).await;
        [before, self.state()]
    }

    fn first(&self) {
        for number in 0..5 {
            self.write(&format!("src/{number}"), number.to_string());
        }
        self.write("src/deep/run.sh", "run");
        self.mode("src/deep/run.sh", 0o755);
        self.write("large", (0..700 << 10).map(|at: u32| (at % 251) as u8).collect::<Vec<_>>());
        let sparse = std::fs::File::create(self.at("sparse")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", 3 << 20).unwrap();
        self.write("link or file", "file");
        self.write("file or folder", "file");
        self.write("folder or link/inner/file", "inner");
        self.write("folder or fifo", "file");
        self.write("same", "same");
        self.write("SOUL.md", "of the first container");
        symlink("src/1", self.at("link")).unwrap();
        std::fs::create_dir(self.at("empty")).unwrap();
        self.mode("empty", 0o500);
    }

    fn second(&self) {
        self.write("src/1", "changed");
        self.write("src/new/file", "new");
        std::fs::remove_file(self.at("src/2")).unwrap();
        self.mode("src/3", 0o600);
        self.write("large", "small");
        self.write("sparse", "");
        let swap = |path: &str| {
            std::fs::remove_file(self.at(path)).unwrap();
            self.at(path)
        };
        // What used to be a file or a folder leads outside.
        symlink("../outside/secret", swap("link or file")).unwrap();
        std::fs::create_dir(swap("file or folder")).unwrap();
        self.write("file or folder/inner", "inner");
        std::fs::remove_dir_all(self.at("folder or link")).unwrap();
        symlink("../outside", self.at("folder or link")).unwrap();
        std::fs::create_dir(swap("folder or fifo")).unwrap();
        nix::unistd::mkfifo(&self.at("folder or fifo/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        symlink("src/deep", swap("link")).unwrap();
        self.write("SOUL.md", "of the second container");
        std::fs::remove_dir(self.at("empty")).unwrap();
        self.write("closed/file", "closed");
        self.mode("closed", 0o500);
    }

    async fn rewind(&self, request: RewindRequest) -> Result<RewindView, CheckpointError> {
        self.checkpoints.rewind(&self.agent, request).await
    }

    fn folder(&self) -> std::path::PathBuf {
        self.folder.path().join("home/agents/coder/checkpoints")
    }

    fn is_interrupted(&self) -> bool {
        journal::path(&self.folder()).exists()
    }
}

fn add(root: &Path, folder: &Path, found: &mut State) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let what = if meta.is_symlink() {
            format!("link {:?}", path.read_link().unwrap())
        } else if meta.is_dir() {
            add(root, &path, found);
            format!("folder {:o}", meta.mode() & 0o777)
        } else if meta.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            let blocks = if meta.blocks() * 512 < 2 << 20 { "" } else { "full " };
            // Not a `ContentId`: a debug build takes long to find the zeros that it leaves out.
            let content = hex(&Sha256::digest(&bytes));
            format!("{blocks}file {:o} of {} {content}", meta.mode() & 0o777, bytes.len())
        } else {
            // No rewind makes or keeps it.
            continue;
        };
        found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned(), what);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_on_another_machine_go_back_and_forth() {
    let stage = Stage::new().await;
    let [before, after] = stage.two_states().await;
    assert_ne!(before, after);

    let shown = stage.checkpoints.preview(&stage.agent, rewind_to(None)).await.unwrap();
    assert_eq!((shown.foreign_count, stage.state() == after), (0, true), "nothing is done yet");
    let request = RewindRequest { plan: Some(shown.plan), ..rewind_to(None) };
    let done = stage.rewind(request.clone()).await.unwrap();
    assert_eq!(stage.state(), before);
    assert_eq!((done.file_count, done.warnings), (shown.file_count, Vec::<String>::new()));
    assert!(!stage.is_interrupted());
    // A copy of an identity file is flock's own.
    assert_eq!(std::fs::read_to_string(stage.at("SOUL.md")).unwrap(), "of the second container");
    let error = stage.rewind(request).await.unwrap_err();
    assert!(matches!(error, CheckpointError::Changed(_)), "{error}");

    let undo = RewindRequest { undo: true, ..rewind_to(None) };
    stage.rewind(undo.clone()).await.unwrap();
    assert_eq!(stage.state(), after);
    stage.rewind(undo).await.unwrap();
    assert_eq!(stage.state(), before);

    // What changes between turns is somebody else's.
    stage.write("src/1", "a person");
    let error = stage.rewind(rewind_to(None)).await.map(drop);
    assert!(matches!(error, Err(CheckpointError::Foreign { count: 1, .. })), "{error:?}");
    let kept = RewindRequest { keep_others: true, undo: true, ..rewind_to(None) };
    stage.rewind(kept).await.unwrap();
    assert_eq!(std::fs::read_to_string(stage.at("src/1")).unwrap(), "a person");
    stage.write("src/1", "changed");
    assert_eq!(stage.state(), after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_that_is_gone_refuses_a_rewind_before_anything_is_written_down() {
    let stage = Stage::new().await;
    let [_, after] = stage.two_states().await;
    let records = std::fs::read(stage.folder().join("records.jsonl")).unwrap();
    stage.far.writes.store(0, Ordering::SeqCst);
    let error = stage.rewind(rewind_to(None)).await.unwrap_err();
    assert!(matches!(error, CheckpointError::WithoutFiles { .. }), "{error}");
    assert_eq!((stage.state(), stage.is_interrupted()), (after.clone(), false));
    assert_eq!(std::fs::read(stage.folder().join("records.jsonl")).unwrap(), records);

    // A person has frozen the agent, so that no sandbox is made.
    stage.far.files.set(None);
    let error = stage.checkpoints.preview(&stage.agent, rewind_to(None)).await.unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("flock thaw coder"), "{error}");
    assert_eq!(stage.state(), after);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_at_any_request_leaves_a_rewind_that_is_completed_or_taken_back() {
    let stage = Stage::new().await;
    let states = stage.two_states().await;
    let undo = RewindRequest { undo: true, ..rewind_to(None) };
    // The way there is that of the turn, and the way back that of the undoing.
    let (mut now, mut begun, mut step) = (1, 0, 0);
    loop {
        stage.far.writes.store(step, Ordering::SeqCst);
        let request = if begun == 0 { rewind_to(None) } else { undo.clone() };
        match stage.rewind(request).await {
            Ok(_) => {
                assert_eq!(stage.state(), states[1 - now], "all requests were answered");
                break;
            }
            Err(CheckpointError::Interrupted { .. }) => {
                assert!(stage.is_interrupted());
                begun += 1;
                now = 1 - now;
                // A sandbox that is still gone changes nothing.
                stage.far.writes.store(0, Ordering::SeqCst);
                let error = stage.rewind(undo.clone()).await.unwrap_err();
                assert!(matches!(error, CheckpointError::Interrupted { .. }), "step {step}: {error}");
                assert_eq!(error.hint().as_deref(), Some("flock engine list"));
                if begun % 8 == 2 {
                    // Taken back, which completes it before.
                    stage.rewind(undo.clone()).await.unwrap();
                    now = 1 - now;
                } else if begun % 8 == 1 {
                    // A turn waits for it.
                    stage.turn(|| {}).await;
                    stage.rewind(RewindRequest { keep_others: true, ..undo.clone() }).await.unwrap();
                    now = 1 - now;
                } else {
                    stage.checkpoints.recover(|_| true).await;
                }
            }
            Err(error) => assert!(!stage.is_interrupted(), "step {step}: {error}"),
        }
        assert!(!stage.is_interrupted());
        assert_eq!(stage.state(), states[now], "step {step}, after {begun} that were begun");
        step += 1 + step / 16;
    }
    assert!(begun > 5, "{begun}");
}
