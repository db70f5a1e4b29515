use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::process::Child;
use tokio::runtime::Handle;

use super::super::diff::diff;
use super::super::scan::{ScanLimits, scan, scan_there};
use super::*;
use crate::id::AgentId;
use crate::sandbox::testing::special_helper;

/// One workspace with two stores: one is filled by looks on this machine, the other one by its helper.
struct Stage {
    folder: tempfile::TempDir,
    here: (Objects, Index),
    there: (Objects, Index),
    files: RemoteFiles,
    child: Child,
    limits: ScanLimits,
}

impl Stage {
    async fn new() -> Self {
        Self::of(None).await
    }

    /// A workspace whose sandbox has this user.
    async fn of(user: Option<u32>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().join("w");
        std::fs::create_dir(&workspace).unwrap();
        for path in [folder.path(), &workspace] {
            chown(path, user, user).unwrap();
        }
        let (child, client) = special_helper(folder.path(), &workspace, user, usize::MAX).await;
        let store = |name: &str| (Objects::open(&folder.path().join(name)).unwrap().0, Index::default());
        let (here, there) = (store("here"), store("there"));
        let files = RemoteFiles::new(Arc::new(client), Handle::current());
        Self { here, there, files, child, limits: ScanLimits::with_bytes(1 << 30), folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("w").join(path)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), bytes).unwrap();
    }

    fn look_there(&mut self) -> Result<Scan, CheckpointError> {
        let agent: AgentId = "coder".parse().unwrap();
        let (workspace, stop) = (self.folder.path().join("w"), AtomicBool::new(false));
        let input = ScanInput { agent: &agent, workspace: &workspace, limits: self.limits, stop: &stop };
        let (objects, index) = &mut self.there;
        scan_there(&input, &self.files, objects, (index, self.folder.path()))
    }

    fn look_here(&mut self) -> Scan {
        let agent: AgentId = "coder".parse().unwrap();
        let (workspace, stop) = (self.folder.path().join("w"), AtomicBool::new(false));
        let input = ScanInput { agent: &agent, workspace: &workspace, limits: self.limits, stop: &stop };
        let (objects, index) = &mut self.here;
        scan(&input, objects, index).unwrap()
    }

    /// Looks from both sides, which find the same.
    fn look(&mut self) -> Scan {
        let (here, there) = (self.look_here(), self.look_there().unwrap());
        assert_eq!((there.tree, there.entries), (here.tree, here.entries));
        assert_eq!((&there.left_out, &there.unstable), (&here.left_out, &here.unstable));
        for change in diff(&self.there.0, None, Some(there.tree)).unwrap() {
            if let Some(Node::File { content, .. }) = change.after {
                self.there.0.check(content).unwrap();
            }
        }
        there
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_by_the_helper_finds_what_a_look_on_this_machine_finds() {
    let mut stage = Stage::new().await;
    stage.look();
    stage.write("a/b/small", "one");
    stage.write("a/empty", "");
    stage.write("large", (0..3 << 20).map(|number: u32| (number % 251) as u8).collect::<Vec<_>>());
    stage.write(&"n".repeat(255), "long name");
    for number in 0..600 {
        stage.write(&format!("many/{number}"), number.to_string());
    }
    symlink("../../etc/passwd", stage.at("a/link")).unwrap();
    nix::unistd::mkfifo(&stage.at("a/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::fs::set_permissions(stage.at("a/b/small"), std::fs::Permissions::from_mode(0o750)).unwrap();
    let first = stage.look();
    assert_eq!(first.left_out.paths, ["a/fifo"]);
    stage.write("a/b/small", "two");
    std::fs::remove_file(stage.at("a/empty")).unwrap();
    std::fs::remove_dir_all(stage.at("many")).unwrap();
    stage.write("many", "no folder any more");
    let second = stage.look();
    assert_ne!(second.tree, first.tree);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_agent_closes_to_itself_is_kept_by_its_helper_and_stays_closed() {
    // Root opens everything.
    let user = nix::unistd::Uid::effective().is_root().then_some(20_007);
    let mut stage = Stage::of(user).await;
    stage.write("closed/inner/file", "x");
    stage.write("secret", "y");
    let all = ["", "closed", "closed/inner", "closed/inner/file", "secret"];
    for path in all {
        chown(stage.at(path), user, user).unwrap();
    }
    for rights in [0o000, 0o055, 0o100, 0o400] {
        for path in all.iter().rev() {
            std::fs::set_permissions(stage.at(path), std::fs::Permissions::from_mode(rights)).unwrap();
        }
        let scan = stage.look_there().unwrap();
        assert!(scan.left_out.is_empty(), "{rights:o}: {scan:?}");
        assert_eq!(scan.entries, 4, "{rights:o}");
        for path in all {
            let found = std::fs::symlink_metadata(stage.at(path)).unwrap();
            assert_eq!(found.mode() & 0o777, rights, "{path}");
            std::fs::set_permissions(stage.at(path), std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        for change in diff(&stage.there.0, None, Some(scan.tree)).unwrap() {
            let found = match change.after.unwrap() {
                Node::File { mode, content, .. } => {
                    stage.there.0.check(content).unwrap();
                    mode
                }
                Node::Folder { mode, .. } => mode,
                Node::Link { .. } => panic!("{:?}", change.path),
            };
            assert_eq!(found, rights, "{:?}", change.path);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_all_the_time_is_kept_and_marked() {
    let mut stage = Stage::new().await;
    stage.write("log", vec![b'x'; 2 << 20]);
    let (path, stop) = (stage.at("log"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            while !stop.load(Ordering::Relaxed) {
                file.write_all(b"line\n").unwrap();
                std::thread::yield_now();
            }
        });
        let end = Instant::now() + Duration::from_secs(60);
        let marked = loop {
            let found = stage.look_there().unwrap();
            if found.unstable.paths == ["log"] || Instant::now() > end {
                break found;
            }
        };
        stop.store(true, Ordering::Relaxed);
        assert_eq!((marked.unstable.count, marked.entries), (1, 1), "{marked:?}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unchanged_file_is_not_transferred_again() {
    let mut stage = Stage::new().await;
    stage.write("old", "old");
    let end = Instant::now() + Duration::from_secs(10);
    // Until the file is so old that its times prove that it is the same.
    while !stage.there.1.folders().any(|folder| folder.files().any(|file| file.is_trusted)) {
        assert!(Instant::now() < end);
        stage.look_there().unwrap();
    }
    let content = ContentId::of_file(b"old");
    assert!(stage.there.0.has(content));
    // Without its content, another transfer would be seen.
    stage.there.0.sweep(|id| id != content).unwrap();
    stage.write("new", "a new one");
    stage.look_there().unwrap();
    assert!(!stage.there.0.has(content) && stage.there.0.has(ContentId::of_file(b"a new one")));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_a_lost_helper_are_errors_and_what_was_stored_stays_known() {
    let mut stage = Stage::new().await;
    stage.write("a/one", "one");
    stage.write("two", "two");
    let all = stage.limits;
    for limits in [
        ScanLimits { entries: 2, ..all },
        ScanLimits { depth: 1, ..all },
        ScanLimits { bytes: 5, ..all },
        ScanLimits { time: Duration::ZERO, ..all },
    ] {
        stage.limits = limits;
        let error = stage.look_there().unwrap_err();
        assert!(matches!(error, CheckpointError::Limit { .. }), "{limits:?}: {error}");
    }
    stage.limits = all;
    stage.look();
    stage.child.kill().await.unwrap();
    let error = stage.look_there().unwrap_err();
    assert!(matches!(error, CheckpointError::Workspace(BeneathError::Unreachable { .. })), "{error}");
    assert_eq!(stage.there.1.folders().count(), 2, "what was known before");
}
