use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::collect::Moment;
use super::error::BackupError;
use super::footer::Footer;
use super::manifest::{Digest, Entry, FORMAT, HomeIdentity, Manifest, Named, Node, Part, RawPath};
use super::restore::{UnpackedHome, require_empty, unpack};
use super::tar_form::{head, manifest_head, padding};
use super::writer::{ArchiveWriter, FileFacts};
use super::*;
use crate::error::{Explain as _, Kind};
use crate::home::{Home, atomic, instance, version};
use crate::id::SessionKind;
use crate::store::{AuditEntry, Level, NewSession, Store};

/// An entry of an archive, with its content.
type StoredEntry<'b> = (Entry, &'b [u8]);

/// Shows nothing.
struct Silent;

impl BackupWatcher for Silent {
    fn step(&self, _: &str) {}

    fn at(&self, _: u64, _: u64) {}
}

struct Stage {
    folder: tempfile::TempDir,
    home: Home,
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn entry(number: usize) -> AuditEntry {
    AuditEntry {
        actor: "human:ann".to_owned(),
        action: "test",
        subject: number.to_string(),
        level: Level::Green,
        detail: String::new(),
        session: None,
        turn: None,
    }
}

impl Stage {
    /// A home with a database of some rows, an agent with a session, a workspace, and a key.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap().join("home");
        let home = Home::new(root, None);
        home.make_folders().unwrap();
        version::stamp(&home).unwrap();
        instance::settle(&home).unwrap();
        let stage = Self { folder, home };
        stage.write("config.json", br#"{"gateway": {"auth": {"token": "0123456789abcdef"}}, "x": 1}"#);
        std::fs::set_permissions(stage.home.config(), std::fs::Permissions::from_mode(0o600)).unwrap();
        stage.write("agents/coder/sessions/s-1.jsonl", b"{\"a\":1}\n{\"b\":2}\n");
        stage.write("agents/coder/identity/SOUL.md", b"kind\n");
        stage.write("workspaces/coder/src/main.rs", b"fn main() {}\n");
        stage.write("vaults/team/notes.md", b"notes\n");
        stage.write("secrets/openai", b"sk-a-secret-key");
        stage.write("logs/gateway.log", b"a log\n");
        stage.write("run/control.sock", b"");
        let store = Store::open(&stage.home).unwrap();
        runtime().block_on(async {
            for number in 0..50 {
                store.audit().append(entry(number), 1).await.unwrap();
            }
            let agent = "coder".parse().unwrap();
            let key = crate::id::SessionKey::new(&agent, SessionKind::Main, "ann");
            assert!(store.sessions().create(NewSession { key, file: "s-1".into() }, 1).await.unwrap());
            store.settle().await.unwrap();
        });
        stage
    }

    fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        self.home.root().join(path)
    }

    fn write(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let path = self.at(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn back_up(&self, name: &str, without: &[Part]) -> Result<MadeBackup, BackupError> {
        let file = self.beside(name);
        make(&BackupRequest { home: &self.home, file: &file, without, verify: true }, &Silent)
    }

    /// Returns the place of a restored home.
    fn target(&self, name: &str) -> Home {
        Home::new(self.beside(name), None)
    }

    fn restore(&self, name: &str, to: &Home) -> Result<Option<PathBuf>, BackupError> {
        let file = self.beside(name);
        let unpacked: UnpackedHome = unpack(&file, to, &Silent)?;
        unpacked.place(to, (&file, false))
    }
}

/// Returns kind, mode and content of everything below a folder, by its path.
fn tree(root: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let before = std::fs::metadata(&folder).unwrap().permissions();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let facts = path.symlink_metadata().unwrap();
            let content = if facts.is_dir() {
                folders.push(path.clone());
                Vec::new()
            } else if facts.is_symlink() {
                std::fs::read_link(&path).unwrap().as_os_str().as_bytes().to_vec()
            } else if facts.is_file() && facts.len() < 64 << 20 {
                let before = facts.permissions();
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
                let bytes = std::fs::read(&path).unwrap();
                std::fs::set_permissions(&path, before).unwrap();
                bytes
            } else {
                facts.len().to_string().into_bytes()
            };
            found.insert(path.strip_prefix(root).unwrap().to_owned(), (facts.mode(), content));
        }
        std::fs::set_permissions(&folder, before).unwrap();
    }
    found
}

#[test]
fn a_backup_becomes_the_same_home() {
    let stage = Stage::new();
    let workspace = stage.at("workspaces/coder");
    let made = stage.back_up("one.tar.gz", &[]).unwrap();
    let file = stage.beside("one.tar.gz");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), made.bytes);
    let database = made.manifest.database.as_ref().unwrap();
    assert_eq!((database.rows["audit"], database.rows["session"]), (50, 1));
    assert_eq!((database.audit_head.id, database.audit_fault.as_ref()), (50, None));
    assert_eq!(verify::read(&file, &Silent).unwrap(), made.manifest);
    let record = record::BackupRecord::read(&stage.home).unwrap().unwrap();
    assert!(record.verified && record.file == file && record.bytes == made.bytes);

    let to = stage.target("second");
    assert_eq!(stage.restore("one.tar.gz", &to).unwrap(), None);
    let (first, second) = (tree(stage.home.root()), tree(to.root()));
    for (path, found) in &first {
        let is_there = super::selection::may_hold(path, &Node::Folder { mode: 0 });
        match second.get(path) {
            // A copy by SQLite has the same rows and other bytes.
            Some(_) if path == Path::new("data/flock.db") => {}
            Some(same) => assert_eq!(same, found, "{}", path.display()),
            None => assert!(!is_there, "{} is missing", path.display()),
        }
    }
    for path in ["logs/gateway.log", "run/control.sock", "data/backup.json"] {
        assert!(first.contains_key(Path::new(path)) && !second.contains_key(Path::new(path)), "{path}");
    }
    let store = Store::open(&to).unwrap();
    let verified = runtime().block_on(store.audit().verify()).unwrap();
    assert_eq!((verified.rows, verified.broken), (50, None));
    assert!(workspace.exists());
    let names: Vec<_> =
        std::fs::read_dir(stage.folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{names:?}");
}

#[test]
fn everything_that_an_agent_plants_is_kept_as_it_is_or_left_out_and_named() {
    let stage = Stage::new();
    let outside = stage.beside("outside");
    std::fs::write(&outside, "not of the home").unwrap();
    let at = |path: &str| stage.at("workspaces/coder").join(path);
    symlink(&outside, at("link")).unwrap();
    symlink("../../secrets/openai", at("to-secret")).unwrap();
    symlink("x".repeat(3000), at("long-link")).unwrap();
    nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let strange = at("").join(OsStr::from_bytes(b"\xff\n\x1b[31m \"name"));
    std::fs::write(&strange, "strange").unwrap();
    let deep: PathBuf = std::iter::repeat_n("a folder with a rather long name", 40).collect();
    std::fs::create_dir_all(at("").join(&deep)).unwrap();
    std::fs::write(at("").join(&deep).join("file"), "deep").unwrap();
    std::fs::write(at("many"), vec![7; 3 << 20]).unwrap();
    for number in 0..500 {
        std::fs::hard_link(at("many"), at(&format!("many-{number}"))).unwrap();
    }
    let sparse = File::create(at("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for place in [0, 1 << 30, (1 << 40) - 5] {
        (&sparse).seek(SeekFrom::Start(place)).unwrap();
        (&sparse).write_all(b"data!").unwrap();
    }
    std::fs::create_dir(at("closed")).unwrap();
    std::fs::write(at("closed/file"), "closed").unwrap();
    std::fs::set_permissions(at("closed/file"), std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::set_permissions(at("closed"), std::fs::Permissions::from_mode(0o000)).unwrap();
    std::fs::write(at("program"), "x").unwrap();
    std::fs::set_permissions(at("program"), std::fs::Permissions::from_mode(0o4755)).unwrap();

    let made = stage.back_up("one.tar.gz", &[]).unwrap();
    assert_eq!(made.manifest.left_out.count, 2, "{:?}", made.manifest.left_out);
    assert_eq!(made.manifest.changed().count, 0);
    assert!(made.manifest.totals().1 < 8 << 20, "further names and holes take no space");
    assert_eq!(std::fs::metadata(at("closed")).unwrap().permissions().mode() & 0o777, 0);
    let to = stage.target("second");
    stage.restore("one.tar.gz", &to).unwrap();
    let restored = |path: &str| to.root().join("workspaces/coder").join(path);
    let (mut first, second) = (tree(&at("")), tree(&restored("")));
    for name in ["fifo", "socket"] {
        assert!(first.remove(Path::new(name)).is_some() && !second.contains_key(Path::new(name)));
    }
    // Bits that give a program its owner's rights are not kept.
    first.get_mut(Path::new("program")).unwrap().0 &= !0o7000;
    assert_eq!(first.keys().collect::<Vec<_>>(), second.keys().collect::<Vec<_>>());
    for (path, found) in &first {
        assert!(second[path] == *found, "{}", path.display());
    }
    let of = |name: &str| std::fs::metadata(restored(name)).unwrap();
    assert_eq!(of("many").ino(), of("many-499").ino());
    assert_eq!((of("sparse").len(), of("sparse").blocks() < 1 << 12), (1 << 40, true));
    let mut end = [0; 5];
    let mut file = File::open(restored("sparse")).unwrap();
    file.seek(SeekFrom::End(-5)).unwrap();
    file.read_exact(&mut end).unwrap();
    assert_eq!(&end, b"data!");
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), "not of the home");
}

#[test]
fn gnu_tar_unpacks_an_archive() {
    let stage = Stage::new();
    std::fs::write(stage.at("workspaces/coder/").join("long".repeat(50)), "long").unwrap();
    let sparse = File::create(stage.at("workspaces/coder/sparse")).unwrap();
    sparse.set_len(20 << 20).unwrap();
    stage.back_up("one.tar.gz", &[]).unwrap();
    let folder = stage.beside("by-tar");
    std::fs::create_dir(&folder).unwrap();
    let unpacked = std::process::Command::new("tar")
        .arg("-xzf")
        .arg(stage.beside("one.tar.gz"))
        .arg("-C")
        .arg(&folder)
        .output()
        .unwrap();
    assert!(unpacked.status.success() && unpacked.stderr.is_empty(), "{unpacked:?}");
    let at = |path: &str| folder.join("flock-backup").join(path);
    let read = |path: &str| std::fs::read(at(path)).unwrap();
    assert_eq!(read("home/workspaces/coder/src/main.rs"), b"fn main() {}\n");
    assert_eq!(read(&format!("home/workspaces/coder/{}", "long".repeat(50))), b"long");
    assert_eq!(std::fs::metadata(at("home/workspaces/coder/sparse")).unwrap().len(), 20 << 20);
    let manifest: Manifest = serde_json::from_slice(&read("manifest.json")).unwrap();
    assert_eq!(manifest.home.path, stage.home.root());
}

#[test]
fn any_changed_byte_and_any_cut_is_found() {
    let stage = Stage::new();
    stage.back_up("one.tar.gz", &[]).unwrap();
    let whole = std::fs::read(stage.beside("one.tar.gz")).unwrap();
    let file = stage.beside("other.tar.gz");
    let refuses = |bytes: &[u8], what: &str| {
        std::fs::write(&file, bytes).unwrap();
        let error = verify::read(&file, &Silent).map(drop).unwrap_err();
        let is_named = matches!(error, BackupError::Damaged { .. } | BackupError::NoArchive { .. });
        assert!(is_named && error.to_string().contains("other.tar.gz"), "{what}: {error}");
    };
    let to = stage.target("never");
    let becomes_no_home = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        assert!(stage.restore("other.tar.gz", &to).is_err() && !to.root().exists());
    };
    let changed = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    // Also the first bytes, and some of the last ones, which say where the manifest is.
    let step = (whole.len() / 40).max(1);
    let places =
        (0..10).chain((10..whole.len()).step_by(step)).chain((whole.len() - 130..whole.len()).step_by(5));
    for at in places {
        refuses(&changed(at), &format!("byte {at} of {}", whole.len()));
    }
    for length in [0, 1, 50, whole.len() / 2, whole.len() - 1] {
        refuses(&whole[..length], &format!("{length} bytes"));
        becomes_no_home(&whole[..length]);
    }
    refuses(&[&whole[..], b"x"].concat(), "one byte more");
    for at in [6, whole.len() / 2, whole.len() - 60] {
        becomes_no_home(&changed(at));
    }
    std::fs::write(&file, &whole).unwrap();
    verify::read(&file, &Silent).unwrap();
}

/// Writes an archive of these entries, whose manifest says what `manifest` makes of it.
fn forge(file: &Path, entries: &[StoredEntry<'_>], more: &[u8], change: impl FnOnce(&mut Manifest)) {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    for (entry, content) in entries {
        packed.write_all(&head(entry, 1)).unwrap();
        packed.write_all(content).unwrap();
        packed.write_all(&vec![0; padding(content.len() as u64)]).unwrap();
    }
    packed.write_all(more).unwrap();
    let packed = packed.finish().unwrap();
    let mut manifest = Manifest {
        format: FORMAT,
        flock: "0.2.0".to_owned(),
        at: 1_000,
        home: HomeIdentity { path: "/h".into(), format: 1, id: None },
        database: None,
        without: Vec::new(),
        enter_again: Vec::new(),
        left_out: Named::default(),
        entries: entries.iter().map(|(entry, _)| entry.clone()).collect(),
    };
    change(&mut manifest);
    let text = serde_json::to_vec(&manifest).unwrap();
    let mut second = GzEncoder::new(Vec::new(), Compression::fast());
    second.write_all(&manifest_head(text.len() as u64, 1)).unwrap();
    second.write_all(&text).unwrap();
    second.write_all(&vec![0; padding(text.len() as u64) + 1024]).unwrap();
    let second = second.finish().unwrap();
    let digest = |bytes: &[u8]| Digest(Sha256::digest(bytes).into());
    let footer = Footer {
        offset: packed.len() as u64,
        size: text.len() as u64,
        files: digest(&packed),
        manifest: digest(&second),
    };
    std::fs::write(file, [packed, second, footer.encode()].concat()).unwrap();
}

fn folder(path: &str) -> StoredEntry<'static> {
    (Entry { path: RawPath(path.into()), node: Node::Folder { mode: 0o700 } }, b"")
}

fn link(path: &str, target: &Path) -> StoredEntry<'static> {
    let target = RawPath::from(target);
    (Entry { path: RawPath(path.into()), node: Node::Link { target } }, b"")
}

fn file<'b>(path: &str, content: &'b [u8]) -> StoredEntry<'b> {
    let sha256 = Digest(Sha256::digest(content).into());
    let size = content.len() as u64;
    let node = Node::File { mode: 0o600, modified: 1, size, sha256, data: None, changed: false };
    (Entry { path: RawPath(path.into()), node }, content)
}

#[test]
fn a_hostile_archive_writes_nothing_outside_and_becomes_no_home() {
    let stage = Stage::new();
    let victim = stage.beside("victim");
    std::fs::create_dir(&victim).unwrap();
    std::fs::write(victim.join("file"), "kept").unwrap();
    let archive = stage.beside("hostile.tar.gz");
    let to = stage.target("never");
    let inside = || vec![folder("workspaces"), folder("workspaces/a")];
    let under_link = || [inside(), vec![link("workspaces/a/l", &victim)]].concat();
    let absolute = victim.join("x").display().to_string();
    let cases: Vec<(&str, Vec<StoredEntry<'_>>)> = vec![
        ("a parent folder", vec![file("../victim/x", b"x")]),
        ("an absolute path", vec![file(&absolute, b"x")]),
        (
            "a parent folder in the middle",
            [inside(), vec![file("workspaces/a/../../../victim/x", b"x")]].concat(),
        ),
        ("a file below a link", [under_link(), vec![file("workspaces/a/l/x", b"x")]].concat()),
        ("a folder below a link", [under_link(), vec![folder("workspaces/a/l/x")]].concat()),
        ("a file in the place of a link", [under_link(), vec![file("workspaces/a/l", b"x")]].concat()),
        (
            "the same file twice",
            [inside(), vec![file("workspaces/a/x", b"x"), file("workspaces/a/x", b"y")]].concat(),
        ),
        ("a file without a folder", vec![file("vaults/x/y", b"x")]),
        ("a link in the place of a folder of flock", vec![link("workspaces", &victim)]),
        (
            "a program of flock",
            vec![folder("gateways"), folder("gateways/flock"), file("gateways/flock/flock-previous", b"x")],
        ),
        (
            "a hard link through a link",
            [
                under_link(),
                vec![(
                    Entry {
                        path: RawPath(b"workspaces/a/y".to_vec()),
                        node: Node::Same { of: RawPath(b"workspaces/a/l/file".to_vec()) },
                    },
                    &b""[..],
                )],
            ]
            .concat(),
        ),
        (
            "a hard link to a link",
            [
                under_link(),
                vec![(
                    Entry {
                        path: RawPath(b"workspaces/a/y".to_vec()),
                        node: Node::Same { of: RawPath(b"workspaces/a/l".to_vec()) },
                    },
                    &b""[..],
                )],
            ]
            .concat(),
        ),
    ];
    for (what, entries) in cases {
        forge(&archive, &entries, b"", |_| {});
        assert!(stage.restore("hostile.tar.gz", &to).is_err(), "{what}");
        assert!(!to.root().exists(), "{what}");
        let left: Vec<_> = std::fs::read_dir(&victim).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(left, ["file"], "{what}");
        assert_eq!(std::fs::metadata(victim.join("file")).unwrap().nlink(), 1, "{what}");
        let drafts = std::fs::read_dir(stage.folder.path()).unwrap().map(|one| one.unwrap().file_name());
        assert!(drafts.into_iter().all(|name| !name.to_string_lossy().starts_with('.')), "{what}");
    }
    // The same form is taken if nothing in it is wrong.
    let good = [under_link(), vec![file("workspaces/a/x", b"x")]].concat();
    forge(&archive, &good, b"", |_| {});
    let to = stage.target("good");
    stage.restore("hostile.tar.gz", &to).unwrap();
    assert_eq!(std::fs::read(to.workspaces().join("a/x")).unwrap(), b"x");
}

#[test]
fn an_archive_that_unpacks_to_more_than_it_says_is_refused_at_once() {
    let stage = Stage::new();
    let archive = stage.beside("bomb.tar.gz");
    let to = stage.target("never");
    // So many zeros are few bytes when packed.
    forge(&archive, &[folder("vaults")], &vec![0; 64 << 20], |_| {});
    assert!(std::fs::metadata(&archive).unwrap().len() < 1 << 20);
    let error = stage.restore("bomb.tar.gz", &to).unwrap_err();
    assert!(error.to_string().contains("more than its manifest says"), "{error}");
    // What the manifest says is compared with the disk before anything is unpacked.
    forge(&archive, &[file("x", b"x")], b"", |manifest| {
        if let Node::File { size, .. } = &mut manifest.entries[0].node {
            *size = 1 << 60;
        }
    });
    assert!(matches!(stage.restore("bomb.tar.gz", &to).unwrap_err(), BackupError::Full { .. }));
    forge(&archive, &[file("x", b"x")], b"", |manifest| {
        if let Node::File { size, .. } = &mut manifest.entries[0].node {
            *size = 2;
        }
    });
    assert!(matches!(stage.restore("bomb.tar.gz", &to).unwrap_err(), BackupError::Damaged { .. }));
    assert!(!to.root().exists());
}

#[test]
fn an_archive_of_a_newer_flock_is_refused_by_name() {
    let stage = Stage::new();
    let archive = stage.beside("newer.tar.gz");
    let changes: [fn(&mut Manifest); 3] = [
        |manifest| manifest.format = FORMAT + 1,
        |manifest| manifest.home.format += 1,
        |manifest| {
            manifest.database = Some(super::manifest::DatabaseRecord {
                server: None,
                schema: crate::store::snapshot::newest_schema() + 1,
                rows: BTreeMap::new(),
                audit_head: crate::store::snapshot::AuditHead { id: 0, hash: String::new() },
                audit_fault: None,
            });
        },
    ];
    for change in changes {
        forge(&archive, &[folder("vaults")], b"", |manifest| {
            manifest.flock = "9.8.7".to_owned();
            change(manifest);
        });
        let error = verify::read(&archive, &Silent).map(drop).unwrap_err();
        assert_eq!(error.kind(), Kind::NewerHome, "{error}");
        assert!(error.to_string().contains("flock 9.8.7") && error.hint().is_some(), "{error}");
    }
}

#[test]
fn a_wrong_place_is_refused_before_anything_is_written() {
    let stage = Stage::new();
    let make_at = |file: &Path| {
        make(&BackupRequest { home: &stage.home, file, without: &[], verify: true }, &Silent).map(drop)
    };
    let inside = stage.at("workspaces/coder/x.tar.gz");
    assert!(matches!(make_at(&inside).unwrap_err(), BackupError::Inside { .. }));
    symlink(stage.home.root(), stage.beside("link")).unwrap();
    assert!(matches!(make_at(&stage.beside("link").join("x")).unwrap_err(), BackupError::Inside { .. }));
    std::fs::write(stage.beside("there"), "mine").unwrap();
    assert!(matches!(make_at(&stage.beside("there")).unwrap_err(), BackupError::Exists { .. }));
    assert_eq!(std::fs::read_to_string(stage.beside("there")).unwrap(), "mine");
    let held = crate::home::lock::Lock::try_acquire(&stage.home.backup_lock()).unwrap();
    assert!(matches!(make_at(&stage.beside("x")).unwrap_err(), BackupError::Busy { .. }));
    drop(held);
    let joined = stage.home.seen_with_files(&stage.beside("shared"));
    let request = BackupRequest { home: &joined, file: &stage.beside("x"), without: &[], verify: true };
    assert!(matches!(make(&request, &Silent).map(drop).unwrap_err(), BackupError::Joined { .. }));
    assert!(!stage.beside("x").exists());
    stage.back_up("one.tar.gz", &[]).unwrap();
    let full = stage.target("full");
    std::fs::create_dir(full.root()).unwrap();
    std::fs::write(full.root().join("x"), "x").unwrap();
    assert!(matches!(require_empty(&full, Path::new("f")), Err(BackupError::NotEmpty { .. })));
    assert!(matches!(stage.restore("one.tar.gz", &full).unwrap_err(), BackupError::NotEmpty { .. }));
    assert_eq!(std::fs::read_dir(full.root()).unwrap().count(), 1);
}

#[test]
fn a_home_that_is_replaced_is_moved_aside_in_one_step() {
    let stage = Stage::new();
    stage.back_up("one.tar.gz", &[]).unwrap();
    stage.write("workspaces/coder/later", b"later");
    let archive = stage.beside("one.tar.gz");
    let unpacked = unpack(&archive, &stage.home, &Silent).unwrap();
    let aside = unpacked.place(&stage.home, (&archive, true)).unwrap().unwrap();
    assert!(aside.join("workspaces/coder/later").exists() && !stage.at("workspaces/coder/later").exists());
    assert!(stage.at("workspaces/coder/src/main.rs").exists() && aside.join("logs/gateway.log").exists());
    assert!(aside.file_name().unwrap().to_string_lossy().starts_with("home-replaced-"));
}

#[test]
fn keys_are_left_out_on_request_and_named() {
    let stage = Stage::new();
    let openclaw = "gateways/openclaw/state/agents/coder/agent";
    stage.write(format!("{openclaw}/auth-profiles.json"), b"sk-a-secret-key");
    stage.write(format!("{openclaw}/data.json"), b"{}");
    let made = stage.back_up("one.tar.gz", &[Part::Secrets, Part::Workspaces]).unwrap();
    assert_eq!(made.manifest.enter_again, ["secrets/openai"], "the token is made again");
    let to = stage.target("second");
    stage.restore("one.tar.gz", &to).unwrap();
    for (path, (_, content)) in tree(to.root()) {
        let text = String::from_utf8_lossy(&content);
        assert!(
            !text.contains("sk-a-secret-key") && !text.contains("0123456789abcdef"),
            "{}",
            path.display()
        );
    }
    let config: serde_json::Value = serde_json::from_slice(&std::fs::read(to.config()).unwrap()).unwrap();
    assert_eq!(config["x"], 1);
    assert!(!to.workspaces().join("coder").exists());
    assert!(to.root().join("agents/coder/sessions/s-1.jsonl").exists());
    assert!(to.root().join(openclaw).join("data.json").exists());
    assert!(!to.root().join(openclaw).join("auth-profiles.json").exists());
}

#[test]
fn a_transcript_ends_with_a_whole_record() {
    let stage = Stage::new();
    let path = stage.at("agents/coder/sessions/s-1.jsonl");
    let mut transcript = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    transcript.write_all(b"{\"half of a rec").unwrap();
    stage.back_up("one.tar.gz", &[]).unwrap();
    let to = stage.target("second");
    stage.restore("one.tar.gz", &to).unwrap();
    let found = std::fs::read(to.root().join("agents/coder/sessions/s-1.jsonl")).unwrap();
    assert_eq!(found, b"{\"a\":1}\n{\"b\":2}\n");
}

#[test]
fn a_file_that_changes_is_taken_whole_or_named() {
    use std::os::unix::fs::FileExt as _;
    let stage = Stage::new();
    let (small, large) = (64 << 10, 9 << 20);
    for (name, size) in [("small", small), ("large", large)] {
        stage.write(format!("workspaces/coder/{name}"), &vec![b'a'; size]);
    }
    let stop = AtomicBool::new(false);
    let mut named = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let open = |name: &str| {
                std::fs::OpenOptions::new().write(true).open(stage.at("workspaces/coder").join(name)).unwrap()
            };
            let (one, other) = (open("small"), open("large"));
            for letter in (b'a'..=b'z').cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                one.write_all_at(&vec![letter; small], 0).unwrap();
                other.write_all_at(&vec![letter; large], 0).unwrap();
            }
        });
        for round in 0..3 {
            let name = format!("{round}.tar.gz");
            let made = stage.back_up(&name, &[]).unwrap();
            let to = stage.target(&format!("home-{round}"));
            stage.restore(&name, &to).unwrap();
            for file in ["small", "large"] {
                let path = format!("workspaces/coder/{file}");
                let entry =
                    made.manifest.entries.iter().find(|entry| entry.path.0 == path.as_bytes()).unwrap();
                let Node::File { changed, .. } = entry.node else { panic!("{entry:?}") };
                let content = std::fs::read(to.root().join(&path)).unwrap();
                let is_one = content.iter().all(|byte| *byte == content[0]);
                assert!(changed || is_one, "{path} is mixed and not named");
                named += usize::from(changed);
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(named > 0, "nothing changed while it was read");
}

#[test]
fn what_is_removed_while_the_archive_is_written_is_noticed() {
    let stage = Stage::new();
    let scratch = stage.target("scratch");
    let attempt = |remove: &dyn Fn()| {
        drop(std::fs::remove_dir_all(scratch.root()));
        let moment = Moment::take(&stage.home, &scratch, &[]).unwrap();
        remove();
        let archive = tempfile::tempfile().unwrap();
        let mut on_progress = |_: u64| {};
        let mut writer = ArchiveWriter::new(&archive, Path::new("x"), 1, &mut on_progress);
        moment.write((&stage.home, &scratch), &[], (&mut writer, &mut Named::default()))
    };
    attempt(&|| {}).unwrap();
    let error = attempt(&|| std::fs::remove_dir_all(stage.at("vaults/team")).unwrap()).unwrap_err();
    assert!(matches!(&error, BackupError::Restless { what } if what.contains("vaults/team")), "{error}");
    // A session without a transcript has had no turn.
    let path = stage.at("agents/coder/sessions/s-1.jsonl");
    attempt(&|| std::fs::remove_file(&path).unwrap()).unwrap();
    // One that was deleted meanwhile is in the copy of the database, and must have one.
    let delete = || {
        let store = Store::open(&stage.home).unwrap();
        runtime().block_on(crate::store::testing::forget_sessions(&store));
    };
    let error = attempt(&delete).unwrap_err();
    assert!(matches!(&error, BackupError::Restless { what } if what.contains("s-1.jsonl")), "{error}");
}

#[test]
fn a_list_of_checkpoints_has_every_content_that_it_names() {
    let stage = Stage::new();
    let folder = stage.at("agents/coder/checkpoints");
    std::fs::create_dir_all(folder.join("objects/ab")).unwrap();
    let content = |number: u32| folder.join(format!("objects/ab/{number}"));
    let list = |number: u32| {
        let text: String = (number.saturating_sub(1)..=number).map(|one| format!("{one}\n")).collect();
        atomic::write(&folder.join("records.jsonl"), text.as_bytes(), 0o600).unwrap();
    };
    std::fs::write(content(0), "0").unwrap();
    list(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // As old checkpoints are removed: the list first, then the contents.
        scope.spawn(|| {
            for number in 1..400 {
                std::fs::write(content(number), number.to_string()).unwrap();
                list(number);
                if let Some(old) = number.checked_sub(2) {
                    std::fs::remove_file(content(old)).unwrap();
                }
            }
            is_over.store(true, Ordering::Release);
        });
        for round in 0.. {
            let is_last = is_over.load(Ordering::Acquire);
            let name = format!("{round}.tar.gz");
            match stage.back_up(&name, &[]) {
                Ok(_) => {
                    let to = stage.target(&format!("home-{round}"));
                    stage.restore(&name, &to).unwrap();
                    let at = to.root().join("agents/coder/checkpoints");
                    for line in std::fs::read_to_string(at.join("records.jsonl")).unwrap().lines() {
                        assert!(at.join("objects/ab").join(line).exists(), "{line}");
                    }
                }
                // The list was replaced in each of many rounds.
                Err(error) => assert!(!is_last && matches!(error, BackupError::Restless { .. }), "{error}"),
            }
            if is_last {
                break;
            }
        }
    });
}

#[test]
fn what_killed_processes_left_is_removed_by_the_next_backup() {
    let stage = Stage::new();
    std::fs::write(stage.beside(".flock-backup-dead"), "half").unwrap();
    std::fs::create_dir_all(stage.home.backup_scratch().join("home/data")).unwrap();
    std::fs::write(stage.home.backup_scratch().join("home/data/flock.db"), "half").unwrap();
    stage.back_up("one.tar.gz", &[]).unwrap();
    assert!(!stage.beside(".flock-backup-dead").exists());
    assert_eq!(std::fs::read_dir(stage.home.backup_scratch()).unwrap().count(), 0);
}

#[test]
fn facts_of_a_file_do_not_depend_on_the_writer() {
    // What is written in one piece and what is streamed are the same entry.
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(b"content").unwrap();
    let facts = FileFacts { mode: 0o640, modified: 9 };
    let entries = |write: &dyn Fn(&mut ArchiveWriter<'_>)| {
        let archive = tempfile::tempfile().unwrap();
        let mut on_progress = |_: u64| {};
        let mut writer = ArchiveWriter::new(&archive, Path::new("x"), 1, &mut on_progress);
        write(&mut writer);
        writer.entries().to_vec()
    };
    let path = Path::new("vaults/x");
    let one = entries(&|writer| writer.bytes(path, facts, b"content", false).unwrap());
    let other = entries(&|writer| writer.stream(path, facts, (&file, 7, None), || Ok(false)).unwrap());
    assert_eq!(one, other);
    // A file that became shorter is filled up, and named.
    let short = entries(&|writer| writer.stream(path, facts, (&file, 9, None), || Ok(false)).unwrap());
    let Node::File { size: 9, changed: true, sha256, .. } = short[0].node else { panic!("{short:?}") };
    assert_eq!(sha256, Digest(Sha256::digest(b"content\0\0").into()));
}

#[test]
fn a_home_of_an_archive_names_no_server() {
    let stage = Stage::new();
    // A home on a server has this file. That of another home would have a restore change somebody's database.
    let location = br#"{"postgres": "postgres://flock@db.example/flock"}"#;
    std::fs::write(stage.home.store_location(), location).unwrap();
    let archive = stage.beside("named.tar.gz");
    forge(&archive, &[file("store.json", location)], b"", |_| {});
    let unpacked = unpack(&archive, &stage.target("other"), &Silent).unwrap();
    assert!(!unpacked.home().store_location().exists());
    assert_eq!(crate::store::server_address(&unpacked.home()).unwrap(), None);
}

#[test]
fn only_at_its_old_path_is_a_home_known_as_one_of_a_group() {
    let stage = Stage::new();
    stage.write("flock-files", b"0123456789abcdef\n");
    stage.back_up("one.tar.gz", &[]).unwrap();
    let id = instance::read(&stage.home).unwrap();
    let copy = stage.target("copy");
    stage.restore("one.tar.gz", &copy).unwrap();
    assert_eq!(instance::of_shared_files(&copy), None);
    assert_ne!(instance::read(&copy).unwrap(), id);
    // The old home is kept, so that the new folder is another one.
    std::fs::rename(stage.home.root(), stage.beside("old")).unwrap();
    stage.restore("one.tar.gz", &stage.home).unwrap();
    assert_eq!(instance::of_shared_files(&stage.home).as_deref(), Some("0123456789abcdef"));
    assert_eq!(instance::read(&stage.home).unwrap(), id);
}

#[test]
fn the_record_of_a_second_place_is_in_no_archive_and_comes_from_none() {
    let stage = Stage::new();
    let record = br#"{"place": "/mnt/nas/flock", "secret": "0123456789abcdef"}"#;
    stage.write("data/blobs.json", record);
    let made = stage.back_up("one.tar.gz", &[]).unwrap();
    let is_in = |name: &str| made.manifest.entries.iter().any(|entry| entry.path.0 == name.as_bytes());
    assert!(is_in("data/instance") && !is_in("data/blobs.json"));
    let to = stage.target("second");
    stage.restore("one.tar.gz", &to).unwrap();
    assert!(to.instance().exists() && !to.blob_record().exists());
    // An archive of an earlier version has it.
    let archive = stage.beside("old.tar.gz");
    forge(&archive, &[folder("data"), file("data/blobs.json", record)], b"", |_| {});
    let unpacked = unpack(&archive, &stage.target("third"), &Silent).unwrap();
    assert!(!unpacked.home().blob_record().exists());
}
