//! Copies of a vault between two homes by way of a folder.

use std::ffi::OsStr;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use super::pull::PulledVault;
use super::push::{CopiedVault, VaultLook};
use super::*;
use crate::blob::{BlobFacts, BlobKey, BlobPage, Condition, Put, open};
use crate::clock::{boot_ms, unix_ms};
use crate::config::BlobSettings;
use crate::error::{Explain as _, Kind};
use crate::home::Home;
use crate::home::lock::Lock;
use crate::home::write_fence::WriteFence;
use crate::process::{host_name, login};
use crate::provider::BoxFuture;
use crate::swarm::vault::Vaults;

const HOUR: i64 = 3_600_000;

/// A home with the vault `notes`, a store, and what the gateway of that home knows of the copies.
struct Stage {
    folder: tempfile::TempDir,
    store: Arc<dyn BlobStore>,
    home: Home,
    vaults: Arc<Vaults>,
    vault: FolderName,
    copies: VaultCopies,
    fence: WriteFence,
    /// The time of all looks: the beginning of an hour after the tests, so that all copies belong to one hour.
    now: i64,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        fs_err::create_dir(&root).unwrap();
        let home = Home::new(folder.path().join("home"), None);
        home.make_folders().unwrap();
        let (store, vaults) = (open(&home, &BlobSettings::Folder(root)), Arc::new(Vaults::new(&home)));
        let vault: FolderName = "notes".parse().unwrap();
        vaults.create(&vault).unwrap();
        let (copies, fence) = (VaultCopies::default(), WriteFence::absent());
        let now = (unix_ms() / HOUR + 2) * HOUR;
        Self { folder, store, home, vaults, vault, copies, fence, now }
    }

    fn file(&self, path: &str) -> PathBuf {
        self.home.vaults().join("notes").join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.file(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    /// Looks at the vault after a while in which nothing has changed. `None` if nothing is to be copied.
    async fn look(&mut self) -> Result<Option<VaultLook>, VaultCopyError> {
        let mut look = self.copies.look(&self.vaults, &self.vault).await?;
        look.iter_mut().for_each(|look| look.at = self.now);
        Ok(look)
    }

    /// Looks and copies. `None` if nothing was to be copied.
    async fn copy(&mut self) -> Result<Option<CopiedVault>, VaultCopyError> {
        let Some(look) = self.look().await? else { return Ok(None) };
        self.copy_look(look).await.map(Some)
    }

    async fn copy_look(&mut self, look: VaultLook) -> Result<CopiedVault, VaultCopyError> {
        let Self { copies, vaults, vault, store, fence, .. } = self;
        copies.copy(look, vaults, vault, store, fence).await
    }

    /// Copies, and returns the number of contents that were written.
    async fn copied(&mut self) -> u64 {
        let copied = self.copy().await.unwrap().unwrap();
        assert!(copied.is_new && copied.problem.is_none(), "{copied:?}");
        copied.contents
    }

    async fn records(&self) -> Vec<i64> {
        records(&*self.store, &self.vault).await.unwrap()
    }

    /// The paths in the newest record.
    async fn listed(&self) -> Vec<String> {
        let newest = self.records().await[0];
        let record = read_record(&*self.store, &self.vault, newest).await.unwrap();
        record.files.into_iter().map(|file| file.path).collect()
    }

    /// Writes a record of a file with this content.
    async fn plant(&self, at: i64, path: &str, content: &str) {
        let sha256 = crate::provider::sigv4::digest(content.as_bytes());
        let file = CopiedFile { path: path.to_owned(), size: content.len() as u64, sha256 };
        let key = keys::object(&self.vault, &file.sha256).unwrap();
        self.store.put(&key, content.to_owned().into(), Condition::Any).await.unwrap();
        let record = VaultRecord { format: FORMAT, vault: self.vault.clone(), at, files: vec![file] };
        let (key, bytes) = (keys::record(&self.vault, at).unwrap(), serde_json::to_vec(&record).unwrap());
        self.store.put(&key, bytes.into(), Condition::Any).await.unwrap();
    }

    /// The files of the store's contents.
    fn contents(&self) -> Vec<PathBuf> {
        below(&self.folder.path().join("store/vaults/objects"))
    }

    fn other_home(&self) -> Home {
        let home = Home::new(self.folder.path().join("other"), None);
        home.make_folders().unwrap();
        home
    }

    async fn pull(&self, home: &Home, until: Option<i64>) -> Result<PulledVault, VaultCopyError> {
        let held = HeldVault::take(home, &self.vault, VaultWork::Pull)?;
        let at = newest(&*self.store, &self.vault, until).await?;
        let (pulled, ended) = pull(VaultPull { held: &held, at, replaces: false }, &self.store).await;
        ended.map(|()| pulled)
    }
}

/// The files below a folder, sorted.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(below(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Checks that each copy in a store has all of its contents.
async fn assert_whole(store: &dyn BlobStore, vault: &FolderName) -> usize {
    let all = records(store, vault).await.unwrap();
    for at in &all {
        for file in read_record(store, vault, *at).await.unwrap().files {
            let bytes = store.get(&keys::object(vault, &file.sha256).unwrap(), None).await.unwrap();
            assert_eq!(crate::provider::sigv4::digest(&bytes), file.sha256, "{}", file.path);
        }
    }
    all.len()
}

#[tokio::test]
async fn only_what_has_changed_is_copied_and_a_vault_comes_back_byte_for_byte() {
    let mut stage = Stage::new();
    assert!(stage.copy().await.unwrap().is_none(), "an empty vault has no copy");
    let names = ["plan.md", "deep/er/ä b.md", "-rf", "line\nbreak.md", "back\\slash", "empty"];
    for name in &names[..5] {
        stage.write(name, format!("text of {name}"));
    }
    stage.write("empty", "");
    stage.write("same.md", "text of plan.md");
    stage.write("binary", [0_u8, 159, 146, 150]);
    // Nothing of these: what programs keep for themselves, and what is no file of the vault.
    stage.write(".git/hooks/post-commit", "#!");
    stage.write("deep/.hidden", "x");
    symlink("/etc/passwd", stage.file("link.md")).unwrap();
    symlink("/etc", stage.file("folder")).unwrap();
    nix::unistd::mkfifo(&stage.file("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    stage.copied().await;
    assert_eq!(stage.contents().len(), 7, "one for each content");
    assert!(stage.copy().await.unwrap().is_none(), "nothing has changed");
    stage.write("plan.md", "another plan");
    assert_eq!(stage.copied().await, 1);
    // After a restart, nothing is known, and nothing is written twice.
    stage.copies = VaultCopies::default();
    let again = stage.copy().await.unwrap().unwrap();
    assert_eq!((again.contents, again.is_new), (0, false));
    let home = stage.other_home();
    let pulled = stage.pull(&home, None).await.unwrap();
    assert_eq!((pulled.written, pulled.same, pulled.at), (8, 0, stage.records().await[0]));
    assert_eq!((pulled.kept.len(), pulled.missing.len()), (0, 0));
    let there = home.vaults().join("notes");
    for name in names.iter().chain(&["same.md", "binary"]) {
        let both = [stage.file(name), there.join(name)].map(|path| fs_err::read(path).unwrap());
        assert_eq!(both[0], both[1], "{name}");
    }
    assert_eq!(below(&there).len(), 8);
    let again = stage.pull(&home, None).await.unwrap();
    assert_eq!((again.written, again.same), (0, 8));
}

#[tokio::test]
async fn a_change_that_may_not_show_is_looked_for_again() {
    let mut stage = Stage::new();
    stage.write("plan.md", "one");
    // The clock of a file system is coarse, so another change at this moment could leave the times as they are.
    let mut look = stage.look().await.unwrap().unwrap();
    look.at = fs_err::metadata(stage.file("plan.md")).unwrap().ctime() * 1000;
    assert!(stage.copy_look(look).await.unwrap().is_new);
    assert!(stage.look().await.unwrap().is_some());
    assert!(!stage.copy().await.unwrap().unwrap().is_new);
    assert!(stage.look().await.unwrap().is_none(), "it has rested for long enough");
}

#[tokio::test]
async fn what_is_deleted_here_stays_in_earlier_copies() {
    let mut stage = Stage::new();
    stage.write("plan.md", "one");
    stage.write("gone.md", "two");
    // It was copied the day before.
    let before = unix_ms() - 20 * HOUR;
    stage.plant(before, "gone.md", "two").await;
    stage.copied().await;
    fs_err::remove_file(stage.file("gone.md")).unwrap();
    stage.copied().await;
    assert_eq!(stage.listed().await, ["plan.md"]);
    let kept = stage.records().await;
    assert_eq!((kept.len(), kept[2]), (3, before), "the newest ones stay, and the one of yesterday");
    let home = stage.other_home();
    stage.pull(&home, Some(before)).await.unwrap();
    assert_eq!(fs_err::read_to_string(home.vaults().join("notes/gone.md")).unwrap(), "two");
    let early = stage.pull(&home, Some(before - 1)).await.unwrap_err();
    assert!(early.to_string().contains("of that time or before; it has copies of notes"), "{early}");
    // An empty folder may be one without its disk.
    fs_err::remove_file(stage.file("plan.md")).unwrap();
    assert!(stage.copies.has_files());
    assert!(stage.copy().await.unwrap().is_none());
    assert!(!stage.copies.has_files());
    assert_eq!(stage.listed().await, ["plan.md"]);
    fs_err::remove_dir_all(stage.file("")).unwrap();
    let lost = stage.copy().await.unwrap_err();
    assert!(matches!(lost, VaultCopyError::Vault(_)), "{lost}");
    assert_eq!(lost.hint(), None, "doctor is who shows it");
    assert_eq!(stage.listed().await, ["plan.md"]);
}

#[tokio::test]
async fn a_file_that_can_not_be_copied_is_named_and_stays_as_it_was() {
    let mut stage = Stage::new();
    stage.write("large", "small");
    stage.write("plan.md", "one");
    stage.copied().await;
    let large = std::fs::File::options().write(true).open(stage.file("large")).unwrap();
    large.set_len(MAX_FILE + 1).unwrap();
    stage.write("plan.md", "another");
    let copied = stage.copy().await.unwrap().unwrap();
    let problem = copied.problem.unwrap();
    assert!(problem.to_string().contains("\"large\" of vault notes has 67108865 bytes"), "{problem}");
    assert_eq!((copied.is_new, problem.hint().as_deref()), (true, Some("flock backup")));
    let home = stage.other_home();
    stage.pull(&home, None).await.unwrap();
    let there = |name: &str| fs_err::read_to_string(home.vaults().join("notes").join(name)).unwrap();
    assert_eq!((there("large").as_str(), there("plan.md").as_str()), ("small", "another"));
    // It is tried again, and copied once it fits.
    assert!(!stage.copy().await.unwrap().unwrap().is_new);
    large.set_len(3).unwrap();
    assert_eq!(stage.copied().await, 1);
    // A name that is no text.
    fs_err::write(stage.file("").join(OsStr::from_bytes(b"\xff.md")), "x").unwrap();
    let problem = stage.copy().await.unwrap().unwrap().problem.unwrap();
    assert!(matches!(problem, VaultCopyError::Unnamed { .. }), "{problem}");
    // What can't be listed must not be taken for deleted.
    let deep = stage.file(&"deep/".repeat(20));
    fs_err::create_dir_all(deep).unwrap();
    let before = stage.records().await;
    let error = stage.copy().await.unwrap_err();
    assert!(matches!(error, VaultCopyError::Unlisted(_)), "{error}");
    assert_eq!(stage.records().await, before);
}

#[tokio::test]
async fn what_somebody_has_made_here_is_not_overwritten_unasked() {
    let mut stage = Stage::new();
    stage.write("plan.md", "theirs");
    stage.write("deep/same.md", "same");
    stage.copied().await;
    let home = stage.other_home();
    Vaults::new(&home).create(&stage.vault).unwrap();
    let there = home.vaults().join("notes");
    fs_err::write(there.join("plan.md"), "mine").unwrap();
    fs_err::write(there.join("own.md"), "mine alone").unwrap();
    let pulled = stage.pull(&home, None).await.unwrap();
    assert_eq!((pulled.written, pulled.kept.as_slice()), (1, &["plan.md".to_owned()][..]));
    assert_eq!(fs_err::read_to_string(there.join("plan.md")).unwrap(), "mine");
    let held = HeldVault::take(&home, &stage.vault, VaultWork::Pull).unwrap();
    let wish = VaultPull { held: &held, at: pulled.at, replaces: true };
    let (pulled, ended) = pull(wish, &stage.store).await;
    ended.unwrap();
    assert_eq!((pulled.written, pulled.same, pulled.kept.len()), (1, 1, 0));
    assert_eq!(fs_err::read_to_string(there.join("plan.md")).unwrap(), "theirs");
    assert_eq!(fs_err::read_to_string(there.join("own.md")).unwrap(), "mine alone");
}

#[tokio::test]
async fn a_content_that_is_missing_or_damaged_is_named_and_the_others_come() {
    let mut stage = Stage::new();
    for name in ["a.md", "b.md", "c.md"] {
        stage.write(name, format!("text of {name}"));
    }
    stage.copied().await;
    let contents = stage.contents();
    fs_err::remove_file(&contents[0]).unwrap();
    let mut bytes = fs_err::read(&contents[1]).unwrap();
    bytes[3] ^= 1;
    fs_err::write(&contents[1], bytes).unwrap();
    let home = stage.other_home();
    let pulled = stage.pull(&home, None).await.unwrap();
    assert_eq!((pulled.written, pulled.missing.len()), (1, 2), "{pulled:?}");
    for missing in &pulled.missing {
        assert!(missing.problem.contains("vaults/objects/notes/"), "{missing:?}");
        assert!(!home.vaults().join("notes").join(&missing.path).exists());
    }
    assert_eq!(below(&home.vaults().join("notes")).len(), 1, "no part of a file is left");
}

#[tokio::test]
async fn a_pull_that_fails_says_what_it_has_written() {
    let mut stage = Stage::new();
    for number in 10..10 + 2 * PARALLEL {
        stage.write(&format!("{number}.md"), format!("text {number}"));
    }
    stage.copied().await;
    // The disk of the place fails at one of the first files, beside which others are under way.
    let is_it = |path: &PathBuf| fs_err::read(path).unwrap() == b"text 13";
    let spoilt = stage.contents().into_iter().find(is_it).unwrap();
    fs_err::remove_file(&spoilt).unwrap();
    fs_err::create_dir(&spoilt).unwrap();
    let home = stage.other_home();
    let held = HeldVault::take(&home, &stage.vault, VaultWork::Pull).unwrap();
    let wish = VaultPull { held: &held, at: stage.records().await[0], replaces: false };
    let (pulled, ended) = pull(wish, &stage.store).await;
    let error = ended.unwrap_err();
    assert!(matches!(error, VaultCopyError::Blob(BlobError::Io { .. })), "{error}");
    // Those that were under way have ended, and count.
    assert_eq!(pulled.written, below(&home.vaults().join("notes")).len());
    assert!(pulled.written >= PARALLEL - 1, "{pulled:?}");
}

#[tokio::test]
async fn a_record_that_leads_elsewhere_brings_nothing() {
    let stage = Stage::new();
    let home = stage.other_home();
    let (long, deep) = (["x".repeat(200).as_str(); 6].join("/"), "x/".repeat(MAX_DEPTH) + "x");
    for path in
        ["../out.md", "/out.md", "a/../../out.md", ".git/hooks/x", "a/.b", "a//b", "", "a/", &long, &deep]
    {
        stage.plant(7, path, "theirs").await;
        let error = stage.pull(&home, None).await.unwrap_err();
        assert!(matches!(error, VaultCopyError::Blob(BlobError::Damaged { .. })), "{path}: {error}");
    }
    let key = keys::record(&stage.vault, 7).unwrap();
    let record = |change: serde_json::Value| {
        let mut record = serde_json::json!({"format": 1, "vault": "notes", "at": 7, "files": []});
        record.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        record.to_string()
    };
    for changed in [
        "{".to_owned(),
        record(serde_json::json!({"format": 2})),
        record(serde_json::json!({"vault": "other"})),
        record(serde_json::json!({"at": 8})),
        record(serde_json::json!({"files": [{"path": "a", "size": 1, "sha256": "../../../../flock.json"}]})),
    ] {
        stage.store.put(&key, changed.clone().into(), Condition::Any).await.unwrap();
        assert!(stage.pull(&home, None).await.is_err(), "{changed}");
    }
    assert!(!home.vaults().join("notes").exists());
    // Something else than a file is in the way.
    stage.plant(9, "out.md", "theirs").await;
    Vaults::new(&home).create(&stage.vault).unwrap();
    let outside = home.root().join("outside");
    fs_err::write(&outside, "mine").unwrap();
    symlink(&outside, home.vaults().join("notes/out.md")).unwrap();
    let pulled = stage.pull(&home, None).await.unwrap();
    assert_eq!((pulled.written, pulled.missing.len()), (0, 1), "{pulled:?}");
    assert_eq!(fs_err::read_to_string(outside).unwrap(), "mine");
}

#[tokio::test]
async fn a_copy_is_newer_than_those_before_it_whatever_the_clock_says() {
    let mut stage = Stage::new();
    let ahead = unix_ms() + 24 * HOUR;
    stage.plant(ahead, "plan.md", "from a gateway whose clock was ahead").await;
    stage.write("plan.md", "one");
    stage.copied().await;
    assert_eq!(stage.records().await[0], ahead + 1);
    // Another gateway has written meanwhile: the next copy is newer than that one, too.
    stage.plant(ahead + 500, "plan.md", "of another gateway").await;
    stage.write("plan.md", "another");
    stage.copied().await;
    assert_eq!(stage.records().await[0], ahead + 501);
    assert!(stage.copy().await.unwrap().is_none());
}

#[tokio::test]
async fn a_place_that_was_emptied_gets_everything_again_with_the_next_change() {
    let mut stage = Stage::new();
    for name in ["a.md", "b.md"] {
        stage.write(name, format!("text of {name}"));
    }
    assert_eq!(stage.copied().await, 2);
    // A person has replaced the disk, and taken the place again.
    fs_err::remove_dir_all(stage.folder.path().join("store/vaults")).unwrap();
    stage.write("a.md", "another");
    assert_eq!(stage.copied().await, 2);
    assert_eq!(assert_whole(&*stage.store, &stage.vault).await, 1);
    assert_eq!(stage.listed().await, ["a.md", "b.md"]);
}

#[tokio::test]
async fn a_gateway_that_another_one_may_have_replaced_makes_no_copy() {
    let mut stage = Stage::new();
    stage.write("plan.md", "one");
    stage.fence = WriteFence::new();
    stage.fence.write_until(boot_ms());
    let error = stage.copy().await.unwrap_err();
    assert!(matches!(error, VaultCopyError::CutOff(_)), "{error}");
    assert_eq!(stage.records().await, Vec::<i64>::new());
    // It was not replaced, and goes on.
    stage.fence.write_until(i64::MAX);
    let copied = stage.copy().await.unwrap().unwrap();
    assert!(copied.is_new);
    assert_eq!(assert_whole(&*stage.store, &stage.vault).await, 1);
}

#[tokio::test]
async fn contents_that_no_copy_needs_are_deleted_after_a_day_and_no_others() {
    let mut stage = Stage::new();
    let open_fence = WriteFence::absent();
    for text in ["one", "another"] {
        stage.write("plan.md", text);
        stage.copied().await;
    }
    // The earlier copy is superfluous some time.
    let earlier = keys::record(&stage.vault, stage.records().await[1]).unwrap();
    stage.store.delete(&earlier).await.unwrap();
    assert_eq!(stage.contents().len(), 2);
    assert_eq!(sweep(&*stage.store, &stage.vault, &open_fence).await.unwrap(), 0, "it is young");
    let old = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    for path in stage.contents() {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    // Nothing is deleted while a copy can't be read, or if another gateway may have taken over.
    let key = keys::record(&stage.vault, 7).unwrap();
    stage.store.put(&key, "{".into(), Condition::Any).await.unwrap();
    let error = sweep(&*stage.store, &stage.vault, &open_fence).await.unwrap_err();
    assert!(matches!(error, VaultCopyError::Blob(BlobError::Damaged { .. })), "{error}");
    stage.store.delete(&key).await.unwrap();
    let closed = WriteFence::new();
    closed.write_until(boot_ms());
    let error = sweep(&*stage.store, &stage.vault, &closed).await.unwrap_err();
    assert!(matches!(error, VaultCopyError::CutOff(_)), "{error}");
    assert_eq!(stage.contents().len(), 2);
    assert_eq!(sweep(&*stage.store, &stage.vault, &open_fence).await.unwrap(), 1);
    assert_eq!(assert_whole(&*stage.store, &stage.vault).await, 1);
    // What was deleted is written again when it is needed.
    stage.copies.forget_store();
    stage.write("plan.md", "one");
    assert_eq!(stage.copied().await, 1);
    assert_whole(&*stage.store, &stage.vault).await;
}

#[tokio::test]
async fn a_copy_that_breaks_off_anywhere_leaves_only_whole_copies() {
    let mut stage = Stage::new();
    let whole = Arc::clone(&stage.store);
    for round in 0..3 {
        for name in ["a.md", "b.md", "deep/c.md"] {
            stage.write(name, format!("round {round} of {name}"));
        }
        let mut steps = 0;
        loop {
            let left = AtomicUsize::new(steps);
            stage.store = Arc::new(Breaking { store: Arc::clone(&whole), left, is_full: false });
            // A process that is killed knows nothing afterwards.
            stage.copies = VaultCopies::default();
            let copied = stage.copy().await;
            let copies = assert_whole(&*whole, &stage.vault).await;
            assert!(copies >= usize::from(round > 0), "an earlier copy is there");
            match copied {
                Ok(_) => break,
                Err(error) => assert!(matches!(error, VaultCopyError::Blob(_)), "{error}"),
            }
            steps += 1;
        }
        assert!(steps > 1, "{steps}");
        stage.store = Arc::clone(&whole);
        assert_eq!(stage.listed().await, ["a.md", "b.md", "deep/c.md"]);
    }
}

#[tokio::test]
async fn a_vault_that_a_person_gives_up_is_deleted_and_others_stay() {
    let mut stage = Stage::new();
    crate::home::instance::settle(&stage.home).unwrap();
    stage.write("plan.md", "one");
    stage.copied().await;
    let other: FolderName = "notes-2".parse().unwrap();
    let key = keys::record(&other, 7).unwrap();
    stage.store.put(&key, "{}".into(), Condition::Any).await.unwrap();
    assert_eq!(
        list(&*stage.store).await.unwrap().into_keys().collect::<Vec<_>>(),
        [stage.vault.clone(), other.clone()]
    );
    // It is here, or was brought back while a person was asked.
    let refused = forget(&stage.home, &stage.vault, &*stage.store).await.unwrap_err();
    assert!(matches!(refused, VaultCopyError::Present(_)), "{refused}");
    assert_eq!(assert_whole(&*stage.store, &stage.vault).await, 1);
    fs_err::remove_dir_all(stage.file("")).unwrap();
    assert_eq!(forget(&stage.home, &stage.vault, &*stage.store).await.unwrap(), 1);
    assert_eq!(list(&*stage.store).await.unwrap().into_keys().collect::<Vec<_>>(), [other]);
    assert_eq!(stage.contents(), Vec::<PathBuf>::new());
    let error = stage.pull(&stage.home, None).await.unwrap_err();
    assert!(error.to_string().ends_with("no copy of a vault notes; it has copies of notes-2"), "{error}");
}

#[tokio::test]
async fn one_process_of_all_gateways_brings_a_vault_back_or_deletes_its_copies() {
    let mut stage = Stage::new();
    stage.write("plan.md", "one");
    stage.copied().await;
    fs_err::remove_dir_all(stage.file("")).unwrap();
    // The home of another gateway that shares the files.
    let joined = Home::new(stage.folder.path().join("joined"), None).seen_with_files(stage.home.root());
    let by = format!(" by {} on {} (process {}, since ", login(), host_name(), std::process::id());
    for (work, under_way) in [
        (VaultWork::Pull, "vault notes is being brought back"),
        (VaultWork::Forget, "the copies of vault notes are being deleted"),
    ] {
        let _held = HeldVault::take(&stage.home, &stage.vault, work).unwrap();
        for home in [&stage.home, &joined] {
            let pulled = stage.pull(home, None).await.unwrap_err();
            let forgotten = forget(home, &stage.vault, &*stage.store).await.unwrap_err();
            for refused in [pulled, forgotten] {
                assert!(refused.to_string().starts_with(&format!("{under_way}{by}")), "{refused}");
                assert_eq!(refused.kind(), Kind::Conflict);
                assert!(refused.hint().unwrap().starts_with("wait until that has ended"), "{refused}");
            }
        }
        assert!(!stage.file("").exists());
        assert_eq!(assert_whole(&*stage.store, &stage.vault).await, 1);
        // Each vault has a lock of its own.
        HeldVault::take(&joined, &"notes-2".parse().unwrap(), work).unwrap();
    }
    // One that has not said yet who it is keeps others out, too.
    let path = stage.home.vault_copies_lock(&stage.vault);
    let silent = Lock::try_acquire(&path).unwrap();
    fs_err::write(&path, "").unwrap();
    let refused = stage.pull(&joined, None).await.unwrap_err();
    assert_eq!(refused.to_string(), "another process brings vault notes back or deletes its copies");
    drop(silent);
    stage.pull(&joined, None).await.unwrap();
    assert_eq!(fs_err::read_to_string(stage.file("plan.md")).unwrap(), "one");
}

#[tokio::test]
async fn a_store_that_says_of_every_record_that_it_exists_ends_the_copy() {
    let mut stage = Stage::new();
    stage.write("a.md", "text");
    let breaking = Breaking { store: Arc::clone(&stage.store), left: AtomicUsize::new(1000), is_full: true };
    stage.store = Arc::new(breaking);
    let error = stage.copy().await.unwrap_err();
    assert!(error.to_string().contains("that it is there already"), "{error}");
    assert_eq!(stage.records().await, Vec::<i64>::new());
}

/// A store that fails after so many writes and deletions.
struct Breaking {
    store: Arc<dyn BlobStore>,
    left: AtomicUsize,
    /// `true` if it says of each new blob that it exists.
    is_full: bool,
}

impl Breaking {
    fn step(&self) -> Result<(), BlobError> {
        let stepped = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let (place, problem) = (self.place().to_owned(), "it is gone".to_owned());
        stepped.map(drop).map_err(|_| BlobError::Unreachable { place, problem })
    }
}

impl BlobStore for Breaking {
    fn place(&self) -> &str {
        self.store.place()
    }

    fn put<'a>(
        &'a self,
        key: &'a BlobKey,
        bytes: Bytes,
        condition: Condition,
    ) -> BoxFuture<'a, Result<Put, BlobError>> {
        Box::pin(async move {
            self.step()?;
            if self.is_full {
                return Ok(Put::Exists);
            }
            self.store.put(key, bytes, condition).await
        })
    }

    fn get<'a>(
        &'a self,
        key: &'a BlobKey,
        range: Option<Range<u64>>,
    ) -> BoxFuture<'a, Result<Bytes, BlobError>> {
        self.store.get(key, range)
    }

    fn head<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<Option<BlobFacts>, BlobError>> {
        self.store.head(key)
    }

    fn list<'a>(
        &'a self,
        prefix: &'a str,
        after: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BlobPage, BlobError>> {
        self.store.list(prefix, after)
    }

    fn delete<'a>(&'a self, key: &'a BlobKey) -> BoxFuture<'a, Result<(), BlobError>> {
        Box::pin(async move {
            self.step()?;
            self.store.delete(key).await
        })
    }
}
