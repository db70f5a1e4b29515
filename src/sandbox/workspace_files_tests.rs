use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;

use super::*;
use crate::error::chain;
use crate::home::elsewhere;
use crate::provider::BoxFuture;
use crate::sandbox::testing::helper;
use crate::sandbox::{BackgroundJob, Command, CommandOutcome, JobReply, JobRequest, Sandbox, SandboxError};

/// Paths of what [`fill`] makes, and of what is not there.
const PATHS: [&str; 20] = [
    "file",
    "./file",
    "folder",
    "folder/",
    "folder/file",
    "folder/./file",
    "folder/../file",
    "../outside/secret",
    "/etc/passwd",
    "up",
    "up/secret",
    "up/new",
    "link",
    "within",
    "file/below",
    "fifo",
    "socket",
    "nothing",
    "nothing/below",
    "long",
];

const LONG: usize = 700 * 1024;

fn fill(folder: &Path) -> PathBuf {
    let (place, outside) = (folder.join("place"), folder.join("outside"));
    std::fs::create_dir_all(place.join("folder")).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("secret"), "secret").unwrap();
    std::fs::write(place.join("file"), "file").unwrap();
    std::fs::write(place.join("folder/file"), "inner").unwrap();
    std::fs::write(place.join("long"), vec![b'x'; LONG]).unwrap();
    symlink("../outside", place.join("up")).unwrap();
    symlink("../outside/secret", place.join("link")).unwrap();
    symlink("file", place.join("within")).unwrap();
    nix::unistd::mkfifo(&place.join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    drop(UnixListener::bind(place.join("socket")).unwrap());
    place
}

/// Returns the result as a text. An error is shown without its path, of which one kind may name a part only.
fn shown<T: std::fmt::Debug>(done: Result<T, BeneathError>) -> Result<String, String> {
    done.map(|value| format!("{value:?}")).map_err(|error| match &error {
        // A link on the way is not always told from a file.
        BeneathError::Outside { .. } | BeneathError::WrongKind { found: "a file or a link", .. } => {
            "outside".to_owned()
        }
        BeneathError::NotFound { .. } => "not there".to_owned(),
        BeneathError::WrongKind { found, wanted, .. } => format!("{found}, not {wanted}"),
        BeneathError::TooLarge { size, cap, .. } => format!("{size} of {cap}"),
        BeneathError::Io { verb, source, .. } => format!("{verb}: {source}"),
        _ => chain(&error),
    })
}

type Look = fn(&WorkspaceFiles, &Path) -> Result<String, String>;

/// Everything that can be asked of a path, and then what can be done with it.
const LOOKS: [(&str, Look); 12] = [
    ("read", |files, path| shown(files.read(path, 100))),
    ("read all", |files, path| shown(files.read(path, 1 << 20).map(|bytes| bytes.len()))),
    ("begin", |files, path| shown(files.beginning(path, 3))),
    ("begin at nothing", |files, path| shown(files.beginning(path, 0))),
    ("stream", |files, path| {
        shown(files.open_file(path).map(|(mut file, size)| {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            (bytes.len(), size)
        }))
    }),
    ("stat", |files, path| shown(files.stat(path).map(|found| (found.path, found.kind)))),
    ("mode", |files, path| shown(files.file_mode(path))),
    ("list", |files, path| {
        let names = |(found, more): (Vec<DirEntry>, bool)| {
            (found.into_iter().map(|entry| (entry.path, entry.kind)).collect::<Vec<_>>(), more)
        };
        shown(files.list(path, 100).map(names))
    }),
    ("write", |files, path| shown(files.write(path, b"new", None, None))),
    ("write much", |files, path| shown(files.write(path, &vec![b'y'; LONG], Some(0o755), None))),
    ("make", |files, path| shown(files.create_dir_all(path, None))),
    ("remove", |files, path| shown(files.remove(path))),
];

#[tokio::test(flavor = "multi_thread")]
async fn both_kinds_of_workspaces_answer_the_same() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = fill(there.path());
    let (_child, client) = helper(there.path(), &place).await;
    let here_files = WorkspaceFiles::from(Root::open(&fill(here.path())).unwrap());
    let there_files = WorkspaceFiles::from(RemoteFiles::new(Arc::new(client), Handle::current()));
    let (whole, more) = there_files.list(Path::new(""), 100).unwrap();
    assert_eq!((whole.len(), more), (here_files.list(Path::new(""), 100).unwrap().0.len(), false));
    for (what, look) in LOOKS {
        for path in PATHS {
            let at = Path::new(path);
            assert_eq!(look(&there_files, at), look(&here_files, at), "{what} {path:?}");
        }
    }
    let limits = WalkLimits { depth: 9, entries: 99 };
    let walked = |files: &WorkspaceFiles| {
        let found = files.walk(Path::new(""), limits).unwrap();
        found.entries.into_iter().map(|entry| (entry.path, entry.kind, entry.size)).collect::<Vec<_>>()
    };
    // The size of a folder depends on its file system.
    let files_of = |files: &WorkspaceFiles| {
        walked(files).into_iter().filter(|(_, kind, _)| *kind == FileKind::File).collect::<Vec<_>>()
    };
    assert_eq!(files_of(&there_files), files_of(&here_files));
    for folder in [&here, &there] {
        assert_eq!(std::fs::read_to_string(folder.path().join("outside/secret")).unwrap(), "secret");
        assert!(!folder.path().join("outside/new").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_replaced_while_it_is_streamed_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let place = fill(folder.path());
    let (_child, client) = helper(folder.path(), &place).await;
    let files = WorkspaceFiles::from(RemoteFiles::new(Arc::new(client), Handle::current()));
    let (mut file, size) = files.open_file(Path::new("long")).unwrap();
    assert_eq!(size, LONG as u64);
    let mut first = [0; 10];
    file.read_exact(&mut first).unwrap();
    std::fs::write(place.join("other"), vec![b'z'; LONG]).unwrap();
    std::fs::rename(place.join("other"), place.join("long")).unwrap();
    let mut rest = Vec::new();
    assert!(file.read_to_end(&mut rest).is_err());
    assert!(rest.iter().all(|byte| *byte == b'x'), "no part of the other file");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_is_gone_is_told_and_nothing_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let place = fill(folder.path());
    let (mut child, client) = helper(folder.path(), &place).await;
    let files = WorkspaceFiles::from(RemoteFiles::new(Arc::new(client), Handle::current()));
    child.kill().await.unwrap();
    for (what, look) in LOOKS {
        let error = look(&files, Path::new("file")).unwrap_err();
        assert!(error.contains("failed to reach"), "{what}: {error}");
    }
}

/// A sandbox that has only files.
struct FilesOnly(Option<RemoteFiles>);

impl Sandbox for FilesOnly {
    fn ensure<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, Result<(), SandboxError>> {
        Box::pin(async { Err(SandboxError::Off(agent.clone())) })
    }

    fn run<'a>(
        &'a self,
        agent: &'a AgentId,
        _: Command,
        _: &'a tokio_util::sync::CancellationToken,
    ) -> BoxFuture<'a, Result<CommandOutcome, SandboxError>> {
        Box::pin(async { Err(SandboxError::Off(agent.clone())) })
    }

    fn spawn<'a>(
        &'a self,
        agent: &'a AgentId,
        _: Command,
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
            match &self.0 {
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

#[tokio::test(flavor = "multi_thread")]
async fn the_mark_of_a_workspace_leads_to_its_sandbox_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let place = fill(folder.path());
    let (_child, client) = helper(folder.path(), &place).await;
    let files = RemoteFiles::new(Arc::new(client), Handle::current());
    let coder: AgentId = "coder".parse().unwrap();
    let workspace = folder.path().join("coder");
    std::fs::create_dir(&workspace).unwrap();
    std::fs::write(workspace.join("file"), "here").unwrap();
    let read = |workspaces: &Workspaces| match workspaces.open(&coder, &workspace) {
        Ok(files) => Ok(String::from_utf8(files.read(Path::new("file"), 100).unwrap()).unwrap()),
        Err(error) => Err(chain(&error)),
    };
    let sandboxes: [Arc<dyn Sandbox>; 2] = [Arc::new(FilesOnly(Some(files))), Arc::new(FilesOnly(None))];
    let [all, silent] = [Workspaces::new(&sandboxes[0]), Workspaces::new(&sandboxes[1])];
    let local = Workspaces::of_this_machine();
    for workspaces in [&all, &silent, &local] {
        assert_eq!(read(workspaces).unwrap(), "here", "a folder of this machine needs no sandbox");
    }
    elsewhere::mark(&workspace, &elsewhere::Mark::new(&"far".parse().unwrap(), &"coder".parse().unwrap()))
        .unwrap();
    assert_eq!(read(&all).unwrap(), "file");
    let error = read(&all.without_starting()).unwrap_err();
    assert!(error.contains("is on the engine far"), "{error}");
    let error = read(&silent).unwrap_err();
    assert!(error.contains("sandbox can't be reached"), "{error}");
    let error = read(&local).unwrap_err();
    assert!(error.contains("is on the engine far"), "{error}");
}
