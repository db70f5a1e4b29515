use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;

use super::*;
use crate::clock;
use crate::error::chain;
use crate::home::elsewhere;
use crate::sandbox::Sandbox;
use crate::sandbox::testing::{FilesOnly, helper};

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
const LOOKS: [(&str, Look); 17] = [
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
    ("permissions", |files, path| shown(files.mode(path).map(|mode| mode & 0o777))),
    ("change", |files, path| shown(files.set_mode(path, 0o750))),
    ("put", |files, path| {
        let draft = rand::random();
        shown(
            files
                .draft(path, draft, None)
                .and_then(|mut new| new.write(0, b"put").and_then(|()| new.put(5, 0o640))),
        )
    }),
    ("put a link", |files, path| shown(files.put_link(path, rand::random(), Path::new("../outside"), None))),
    ("remove", |files, path| shown(files.remove(path))),
    ("remove the folder", |files, path| shown(files.remove_folder(path))),
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
async fn a_draft_has_its_holes_and_replaces_what_is_no_folder() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (here_place, there_place) = (fill(here.path()), fill(there.path()));
    let (_child, client) = helper(there.path(), &there_place).await;
    let here_files = WorkspaceFiles::from(Root::open(&here_place).unwrap());
    let there_files = WorkspaceFiles::from(RemoteFiles::new(Arc::new(client), Handle::current()));
    let block = vec![b'b'; 64 << 10];
    for (files, place) in [(&here_files, &here_place), (&there_files, &there_place)] {
        for (number, (path, parts, size)) in [
            ("empty", vec![], 0),
            ("only a hole", vec![], 9 << 20),
            ("fifo", vec![(0, &block[..7])], 7),
            (
                "link",
                vec![(5 << 20, &block[..]), ((5 << 20) + (64 << 10), &block[..]), (9 << 20, &block[..])],
                12 << 20,
            ),
            ("long", (0..12).map(|at| (at * (64 << 10), &block[..])).collect(), (12 * (64 << 10)) + 1),
        ]
        .into_iter()
        .enumerate()
        {
            let mut draft = files.draft(Path::new(path), number as u64, None).unwrap();
            let mut wanted = vec![0; size];
            for (at, bytes) in parts {
                draft.write(at as u64, bytes).unwrap();
                wanted[at..at + bytes.len()].copy_from_slice(bytes);
            }
            draft.put(size as u64, 0o640).unwrap();
            let found = std::fs::symlink_metadata(place.join(path)).unwrap();
            assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o640, "{path}");
            assert!(std::fs::read(place.join(path)).unwrap() == wanted, "{path}");
            assert!(found.blocks() * 512 < 2 << 20, "{path} uses {} blocks", found.blocks());
        }
        let mut draft = files.draft(Path::new("within"), 9, None).unwrap();
        draft.write(1 << 20, &block).unwrap();
        assert!(draft.write(7, &block).is_err(), "the parts have an order");
    }
    assert_eq!(std::fs::read(there.path().join("outside/secret")).unwrap(), b"secret");
    // Nobody waits for the removal of what gets no name, but it comes before the next answer.
    there_files.sync().unwrap();
    let names = |place: &Path| -> Vec<String> {
        let entries = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.into_string().unwrap()).filter(|name| name.starts_with(".flock")).collect()
    };
    assert_eq!(names(&there_place), [""; 0]);
    here_files.sync().unwrap();
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
    let sandboxes: [Arc<dyn Sandbox>; 2] =
        [Arc::new(FilesOnly::new(Some(files))), Arc::new(FilesOnly::new(None))];
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

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_may_have_been_replaced_changes_no_workspace() {
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (folder, place) = (fill(here.path()), fill(there.path()));
    let (_child, client) = helper(there.path(), &place).await;
    let files = RemoteFiles::new(Arc::new(client), Handle::current());
    let sandbox: Arc<dyn Sandbox> = Arc::new(FilesOnly::new(Some(files)));
    let coder: AgentId = "coder".parse().unwrap();
    let marked = there.path().join("coder");
    elsewhere::mark(&marked, &elsewhere::Mark::new(&"far".parse().unwrap(), &coder)).unwrap();
    let fence = WriteFence::new();
    let ways = Workspaces::new(&sandbox).fenced(fence.clone());
    let both = [&folder, &marked].map(|folder| ways.open(&coder, folder).unwrap());
    assert_eq!(both.each_ref().map(|files| files.remote().is_some()), [false, true]);
    let changes =
        ["write", "write much", "make", "change", "put", "put a link", "remove", "remove the folder"];
    for files in &both {
        files.write(Path::new("own"), b"own", None, None).unwrap();
        fence.write_until(clock::boot_ms());
        for (what, look) in LOOKS {
            let done = look(files, Path::new("own"));
            let refused = done.is_err_and(|error| error.contains("may have taken over"));
            assert_eq!(refused, changes.contains(&what), "{what}");
        }
        assert_eq!(files.read(Path::new("own"), 100).unwrap(), b"own");
        let (entries, _) = files.list(Path::new(""), 100).unwrap();
        let is_draft = |entry: &DirEntry| entry.path.to_string_lossy().starts_with(".flock");
        assert!(!entries.iter().any(is_draft), "{entries:?}");
        fence.write_until(i64::MAX);
        files.remove(Path::new("own")).unwrap();
    }
}
