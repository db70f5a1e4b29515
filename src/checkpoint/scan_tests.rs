use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Instant;

use nix::sys::stat::Mode;
use nix::unistd::{Uid, chown, setfsuid};

use super::super::diff::{diff, find};
use super::super::tree::Node;
use super::*;

/// The user of the sandbox where the tests run as root.
const AGENT: Uid = Uid::from_raw(20_007);

struct Stage {
    folder: tempfile::TempDir,
    objects: Objects,
    index: Index,
    limits: ScanLimits,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("w")).unwrap();
        let (objects, _) = Objects::open(&folder.path().join("store")).unwrap();
        // Also where the machine has one processor.
        let limits = ScanLimits { threads: 4, ..ScanLimits::with_bytes(1 << 30) };
        Self { folder, objects, index: Index::default(), limits }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join("w").join(path)
    }

    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), bytes).unwrap();
    }

    fn try_scan(&mut self) -> Result<Scan, CheckpointError> {
        let agent = "coder".parse().unwrap();
        let workspace = self.folder.path().join("w");
        let stop = AtomicBool::new(false);
        let input = ScanInput { agent: &agent, workspace: &workspace, limits: self.limits, stop: &stop };
        scan(&input, &self.objects, &mut self.index)
    }

    fn scan(&mut self) -> Scan {
        self.try_scan().unwrap()
    }

    /// Looks until the times of all files are so old that they are trusted.
    fn scan_aged(&mut self) -> Scan {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let scan = self.scan();
            if self.index.folders().all(|folder| folder.files().all(|file| file.is_trusted)) {
                return scan;
            }
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
    }

    fn paths(&self, tree: ContentId) -> Vec<String> {
        let changes = diff(&self.objects, None, Some(tree)).unwrap();
        changes.into_iter().map(|change| change.path.to_string_lossy().into_owned()).collect()
    }

    fn text(&self, tree: ContentId, path: &str) -> Vec<u8> {
        match find(&self.objects, tree, Path::new(path)).unwrap() {
            Some(Node::File { content, .. }) => self.objects.bytes(content, 1 << 20).unwrap().unwrap(),
            other => panic!("{path}: {other:?}"),
        }
    }

    fn limit(&mut self) -> String {
        match self.try_scan() {
            Err(CheckpointError::Limit { limit, .. }) => limit,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn everything_that_can_be_kept_is_kept_and_the_rest_is_named() {
    let mut stage = Stage::new();
    stage.write("a/b", "x");
    stage.write(".git/config", "hidden");
    std::fs::create_dir(stage.at("empty")).unwrap();
    symlink("/etc/shadow", stage.at("link")).unwrap();
    symlink("/etc", stage.at("folder link")).unwrap();
    let odd = std::ffi::OsString::from_vec(vec![0xff, b'\n', 0xfe]);
    std::fs::write(stage.at("").join(&odd), "odd").unwrap();
    let mode = std::fs::Permissions::from_mode(0o751);
    std::fs::set_permissions(stage.at("a/b"), mode).unwrap();
    nix::unistd::mkfifo(&stage.at("fifo"), Mode::S_IRWXU).unwrap();
    let _socket = UnixListener::bind(stage.at("socket")).unwrap();
    let scan = stage.scan();
    let paths = stage.paths(scan.tree);
    assert_eq!(paths.len(), 8, "{paths:?}");
    assert_eq!(scan.entries, 8);
    assert_eq!(scan.left_out, Named { count: 2, paths: vec!["fifo".into(), "socket".into()] });
    let find = |path: &Path| find(&stage.objects, scan.tree, path).unwrap();
    assert!(matches!(find(Path::new("a/b")), Some(Node::File { mode: 0o751, size: 1, .. })));
    assert_eq!(find(Path::new("link")), Some(Node::Link { target: b"/etc/shadow".to_vec() }));
    assert_eq!(find(Path::new("folder link")), Some(Node::Link { target: b"/etc".to_vec() }));
    assert!(find(Path::new(&odd)).is_some() && find(Path::new("empty")).is_some());
}

#[test]
fn an_unchanged_file_is_not_read_again_and_a_changed_one_is() {
    let mut stage = Stage::new();
    stage.write("a", "one");
    stage.write("b/c", "two");
    let first = stage.scan_aged();
    let added = stage.objects.added();
    let second = stage.scan();
    assert_eq!((second.tree, stage.objects.added()), (first.tree, added));
    // The same length, and a time of modification that was set back: only the time of the change tells.
    let before = std::fs::metadata(stage.at("a")).unwrap().modified().unwrap();
    stage.write("a", "eno");
    std::fs::File::options().write(true).open(stage.at("a")).unwrap().set_modified(before).unwrap();
    let third = stage.scan();
    assert_eq!(stage.text(third.tree, "a"), b"eno");
    std::fs::rename(stage.at("b"), stage.at("d")).unwrap();
    let fourth = stage.scan();
    assert_eq!(stage.text(fourth.tree, "d/c"), b"two");
}

#[test]
fn a_change_in_the_same_tick_as_the_look_is_found() {
    let mut stage = Stage::new();
    for round in 0..200_u32 {
        stage.write("a", round.to_le_bytes());
        let scan = stage.scan();
        assert_eq!(stage.text(scan.tree, "a"), round.to_le_bytes(), "{round}");
    }
}

#[test]
fn nothing_outside_is_read_while_folders_and_links_are_swapped() {
    let mut stage = Stage::new();
    let secret = stage.folder.path().join("secret");
    std::fs::create_dir_all(secret.join("d")).unwrap();
    std::fs::write(secret.join("d/key"), "the secret").unwrap();
    std::fs::write(secret.join("key"), "the secret").unwrap();
    for name in 0..20 {
        stage.write(&format!("d{name}/key"), "own");
    }
    let (root, target) = (stage.at(""), secret);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                for name in 0..20 {
                    let (real, aside) = (root.join(format!("d{name}")), root.join(format!("x{name}")));
                    // Whatever fails here was swapped already.
                    drop(std::fs::rename(&real, &aside));
                    drop(symlink(&target, &real));
                    drop(std::fs::remove_file(&real));
                    drop(std::fs::rename(&aside, &real));
                    let key = real.join("key");
                    drop(std::fs::remove_file(&key));
                    drop(symlink(target.join("key"), &key));
                    drop(std::fs::remove_file(&key));
                    drop(std::fs::write(&key, "own"));
                }
            }
        });
        for _ in 0..150 {
            let scan = stage.scan();
            for change in diff(&stage.objects, None, Some(scan.tree)).unwrap() {
                if let Some(Node::File { content, .. }) = change.after {
                    let text = stage.objects.bytes(content, 1 << 20).unwrap().unwrap();
                    assert_ne!(text, b"the secret", "{:?}", change.path);
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_file_that_changes_all_the_time_is_marked() {
    let mut stage = Stage::new();
    let path = stage.at("log");
    std::fs::write(&path, vec![b'x'; 8 << 20]).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write as _;
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            while !stop.load(Ordering::Relaxed) {
                file.write_all(b"line\n").unwrap();
                std::thread::yield_now();
            }
        });
        let mut marked = false;
        for _ in 0..50 {
            marked |= stage.scan().unstable.paths == ["log"];
            if marked {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(marked);
    });
}

#[test]
fn limits_are_said() {
    let mut stage = Stage::new();
    for name in 0..20 {
        stage.write(&format!("f{name}"), "x");
    }
    stage.limits.entries = 10;
    assert_eq!(stage.limit(), "the workspace has more than 10 files and folders");
    stage.limits = ScanLimits { bytes: 30_000, ..ScanLimits::with_bytes(1) };
    assert_eq!(stage.limit(), "the workspace uses more than 30000 bytes");
    stage.limits = ScanLimits { time: Duration::ZERO, ..ScanLimits::with_bytes(1 << 30) };
    assert_eq!(stage.limit(), "reading the workspace takes longer than 0 s");
    stage.limits = ScanLimits { depth: 5, ..ScanLimits::with_bytes(1 << 30) };
    std::fs::create_dir_all(stage.at("d/d/d/d/d/d")).unwrap();
    assert_eq!(stage.limit(), "the folders of the workspace are nested too deep");
}

#[test]
fn a_huge_sparse_file_costs_what_is_in_it() {
    let mut stage = Stage::new();
    let file = std::fs::File::create(stage.at("sparse")).unwrap();
    file.set_len(1 << 42).unwrap();
    drop(file);
    let scan = stage.scan();
    assert!(matches!(
        find(&stage.objects, scan.tree, Path::new("sparse")).unwrap(),
        Some(Node::File { size: 4_398_046_511_104, .. })
    ));
    assert!(stage.objects.added() < 1 << 20);
}

#[test]
fn a_hundred_thousand_files_are_kept() {
    let mut stage = Stage::new();
    let folder = stage.at("many");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("0"), "x").unwrap();
    for name in 1..60_000 {
        // Links to few files are quicker to make than files.
        if std::fs::hard_link(folder.join("0"), folder.join(name.to_string())).is_err() {
            symlink("0", folder.join(name.to_string())).unwrap();
        }
    }
    for name in 0..40_000 {
        symlink("x", folder.join(format!("l{name}"))).unwrap();
    }
    assert_eq!(stage.scan().entries, 100_001);
    std::fs::remove_file(folder.join("l7")).unwrap();
    let before = stage.objects.added();
    assert_eq!(stage.scan().entries, 100_000);
    assert!(stage.objects.added() - before < 1 << 20, "{}", stage.objects.added() - before);
}

#[test]
fn what_an_agent_closes_to_itself_is_kept_and_stays_closed() {
    let mut stage = Stage::new();
    stage.write("closed/inner/file", "x");
    stage.write("secret", "y");
    let is_root = Uid::effective().is_root();
    let all = ["", "closed", "closed/inner", "closed/inner/file", "secret"];
    if is_root {
        for path in [
            stage.folder.path().to_owned(),
            stage.folder.path().join("store"),
            stage.folder.path().join("store/objects"),
            stage.folder.path().join("store/objects/new"),
        ]
        .into_iter()
        .chain(all.map(|path| stage.at(path)))
        {
            chown(&path, Some(AGENT), None).unwrap();
        }
    }
    let mut test = || {
        for rights in [0o000, 0o055, 0o100, 0o400] {
            for path in all.iter().rev() {
                std::fs::set_permissions(stage.at(path), std::fs::Permissions::from_mode(rights)).unwrap();
            }
            let scan = stage.scan();
            assert!(scan.left_out.is_empty(), "{rights:o}: {scan:?}");
            assert_eq!(stage.paths(scan.tree).len(), 4, "{rights:o}");
            for path in all {
                let found = std::fs::symlink_metadata(stage.at(path)).unwrap();
                assert_eq!(found.mode() & 0o777, rights, "{path}");
                std::fs::set_permissions(stage.at(path), std::fs::Permissions::from_mode(0o700)).unwrap();
            }
            let inner = find(&stage.objects, scan.tree, Path::new("closed/inner")).unwrap();
            assert!(matches!(inner, Some(Node::Folder { mode, .. }) if mode == rights));
        }
    };
    if is_root {
        // Without root's right to open everything.
        std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    setfsuid(AGENT);
                    test();
                })
                .join()
                .unwrap();
        });
    } else {
        test();
    }
}

#[test]
fn many_threads_find_what_one_finds() {
    let mut stage = Stage::new();
    for name in 0..3_000 {
        stage.write(&format!("flat/{name}"), format!("{name}"));
    }
    for name in 0..300 {
        stage.write(&format!("deep/{}/{}/x/y/{name}", name % 7, name % 11), format!("{name}"));
        symlink("x", stage.at(&format!("deep/{}/l{name}", name % 7))).unwrap();
    }
    for name in 0..30 {
        nix::unistd::mkfifo(&stage.at(&format!("flat/fifo{name:02}")), Mode::S_IRWXU).unwrap();
    }
    stage.limits.threads = 1;
    let one = stage.scan();
    for threads in [2, 4, 16] {
        stage.limits.threads = threads;
        // Once with everything to read, and once with everything known.
        stage.index = Index::default();
        for _ in 0..2 {
            let many = stage.scan();
            assert_eq!((many.tree, many.entries), (one.tree, one.entries), "{threads}");
            assert_eq!(many.left_out, one.left_out);
            assert_eq!(stage.index.folders().count(), 77 * 3 + 7 + 3);
        }
    }
    // An error in one thread leaves no folder of which a part is missing.
    for limit in [100, 1_000, 3_500] {
        stage.index = Index::default();
        stage.limits.entries = limit;
        stage.limit();
        stage.limits.entries = 500_000;
        let again = stage.scan();
        assert_eq!((again.tree, again.entries), (one.tree, one.entries), "{limit}");
    }
}
