//! Copies between two machines by way of a folder.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::AtomicBool;

use super::pull::PulledCheckpoint;
use super::sweep::SweptCopies;
use super::*;
use crate::blob::{BlobError, Condition, open, owner};
use crate::checkpoint::agent_store::{AgentStore, NewCheckpoint};
use crate::checkpoint::packages::{self, PackagesThen};
use crate::checkpoint::record::Reason;
use crate::checkpoint::testing::home_with_coder;
use crate::config::{Agent, BlobSettings, CheckpointSettings};
use crate::error::Explain as _;
use crate::generation;
use crate::home::write_fence::WriteFence;

/// A machine with one agent.
struct Machine {
    home: Home,
    agent: Agent,
}

/// A store that outlives machines.
struct Stage {
    folder: tempfile::TempDir,
    store: Arc<dyn BlobStore>,
}

const SETTINGS: CheckpointSettings = CheckpointSettings { turns: true, keep: 4, bytes: 1 << 30 };

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("store");
        fs_err::create_dir(&root).unwrap();
        let home = Home::new(folder.path().join("none"), None);
        let store = open(&home, &BlobSettings::Folder(root));
        Self { folder, store }
    }

    fn machine(&self, name: &str) -> Machine {
        let (home, agent) = home_with_coder(&self.folder.path().join(name));
        Machine { home, agent }
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.path().join("store").join(key)
    }

    /// The files of the store's contents.
    fn contents(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.file("checkpoints/coder/objects")];
        while let Some(folder) = folders.pop() {
            for entry in fs_err::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { found.push(path) }
            }
        }
        found.sort();
        found
    }

    /// Makes all contents as old as those that a sweep deletes.
    fn age(&self) {
        self.contents().iter().for_each(|path| age(path));
    }
}

/// Makes a content as old as those that a sweep deletes.
fn age(path: &Path) {
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 3600);
    std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
}

impl Machine {
    fn write(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.agent.workspace.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, bytes).unwrap();
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        fs_err::read(self.agent.workspace.join(path)).ok()
    }

    /// Makes a checkpoint and returns its record.
    fn checkpoint(&self) -> CheckpointRecord {
        let mut store = AgentStore::open(&self.home, &self.agent, SETTINGS).unwrap();
        let reason = Reason::Asked { by: "human:ann".into(), note: None };
        let new = NewCheckpoint {
            reason,
            is_listed: true,
            is_open: &|| false,
            transcripts: BTreeMap::new(),
            stop: &AtomicBool::new(false),
        };
        store.make(new).unwrap()
    }

    fn records(&self) -> Vec<CheckpointRecord> {
        AgentStore::open(&self.home, &self.agent, SETTINGS).unwrap().log.read().unwrap()
    }

    /// Puts the files of a checkpoint into a folder and compares them with the workspace of another machine.
    fn assert_has(&self, number: u64, other: &Machine) {
        let store = AgentStore::open(&self.home, &self.agent, SETTINGS).unwrap();
        let records = store.log.read().unwrap();
        let record = records.iter().find(|record| record.number == number).unwrap();
        let to = tempfile::tempdir().unwrap();
        store.extract(record.files.unwrap(), to.path()).unwrap();
        let compared =
            std::process::Command::new("diff").arg("-r").args([to.path(), &other.agent.workspace]).output();
        let compared = compared.unwrap();
        assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
    }

    async fn push(&self, stage: &Stage) -> Result<Option<PushedCheckpoint>, CheckpointError> {
        push(&self.home, &self.agent.id, &stage.store).await
    }

    async fn pull(&self, stage: &Stage, number: Option<u64>) -> Result<PulledCheckpoint, CheckpointError> {
        self.pull_behind(&WriteFence::absent(), stage, number).await
    }

    /// Does the same as a gateway with this fence.
    async fn pull_behind(
        &self,
        fence: &WriteFence,
        stage: &Stage,
        number: Option<u64>,
    ) -> Result<PulledCheckpoint, CheckpointError> {
        let (home, agent, fence) = (&self.home, &self.agent, fence.clone());
        let request = PullRequest { home, agent, settings: SETTINGS, number, by: "human:ann", fence };
        pull(request, &stage.store).await
    }

    async fn sweep(&self, stage: &Stage) -> Result<SweptCopies, CheckpointError> {
        sweep(&self.home, &self.agent.id, &stage.store, SETTINGS.keep).await
    }
}

fn large() -> Vec<u8> {
    let mut bytes = vec![0; 3 * usize::try_from(PART).unwrap() + 17];
    // The middle part is a hole.
    for (at, byte) in bytes.iter_mut().enumerate() {
        let part = at as u64 / PART;
        if part != 1 {
            *byte = u8::try_from(at % 251).unwrap();
        }
    }
    bytes
}

#[tokio::test]
async fn a_checkpoint_is_the_same_on_another_machine() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    first.write("src/main.rs", "fn main() {}");
    first.write("src/empty", "");
    first.write("data", large());
    std::os::unix::fs::symlink("src/main.rs", first.agent.workspace.join("link")).unwrap();
    let script = first.agent.workspace.join("src/run");
    fs_err::write(&script, "#!").unwrap();
    fs_err::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(first.push(&stage).await.unwrap(), None, "there is no checkpoint");
    let id = first.agent.id.clone();
    let changed = generation::change(&first.home, |state| {
        state.packages.insert(id.clone(), 3);
    });
    changed.unwrap();
    let made = first.checkpoint();
    let pushed = first.push(&stage).await.unwrap().unwrap();
    assert_eq!(pushed.number, made.number);
    assert_eq!(first.push(&stage).await.unwrap(), None, "it is there already");
    let listed = list(&*stage.store, &first.agent.id).await.unwrap();
    assert_eq!(listed, [StoredCheckpoint { number: made.number, at: made.at }]);
    let pulled = second.pull(&stage, None).await.unwrap();
    assert_eq!((pulled.from, pulled.number, pulled.entries), (made.number, made.number, made.entries));
    assert!(!pulled.is_in_use && pulled.contents > 0);
    second.assert_has(pulled.number, &first);
    let record = second.records().remove(0);
    assert_eq!((record.files, record.at), (made.files, made.at));
    assert_eq!(packages::at(&second.home, &id, &record), PackagesThen::Elsewhere);
    assert!(record.is_open, "an empty workspace may be filled");
    let again = second.pull(&stage, None).await.unwrap();
    assert_eq!((again.number, again.contents), (pulled.number, 0));
    assert_eq!(second.records().len(), 1);
    // Its own home, which has lost it, has its packages.
    fs_err::remove_file(first.home.checkpoints(&id).join("records.jsonl")).unwrap();
    first.pull(&stage, None).await.unwrap();
    assert_eq!(packages::at(&first.home, &id, &first.records()[0]), PackagesThen::Here(3));
    let left: Vec<String> = crate::home::scratch::names(&second.home.checkpoints(&second.agent.id));
    assert!(!left.iter().any(|name| name.starts_with("fetching-")), "{left:?}");
}

#[tokio::test]
async fn a_gateway_that_may_have_been_replaced_lists_nothing_of_what_it_has_fetched() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    first.write("a", "hello");
    first.checkpoint();
    first.push(&stage).await.unwrap().unwrap();
    let fence = WriteFence::new();
    fence.write_until(crate::clock::boot_ms());
    let refused = second.pull_behind(&fence, &stage, None).await.unwrap_err();
    assert!(matches!(refused, CheckpointError::CutOff(_)), "{refused:?}");
    assert_eq!(second.records(), []);
    // It was cut off for a moment only.
    fence.write_until(i64::MAX);
    second.pull_behind(&fence, &stage, None).await.unwrap();
    second.assert_has(1, &first);
}

#[tokio::test]
async fn the_state_after_a_turn_is_copied_too_and_gets_a_number_here() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    first.write("a", "before the turn");
    first.checkpoint();
    first.write("a", "after the turn");
    let session = "agent:coder:flock:main:ann".parse().unwrap();
    let new = NewCheckpoint {
        reason: Reason::TurnEnd { session, turn: crate::id::TurnId::new() },
        is_listed: false,
        is_open: &|| false,
        transcripts: BTreeMap::new(),
        stop: &AtomicBool::new(false),
    };
    AgentStore::open(&first.home, &first.agent, SETTINGS).unwrap().make(new).unwrap();
    assert_eq!(first.push(&stage).await.unwrap().unwrap().number, 0);
    let pulled = second.pull(&stage, None).await.unwrap();
    assert_eq!((pulled.from, pulled.number), (0, 1));
    second.assert_has(1, &first);
}

#[tokio::test]
async fn only_what_is_new_is_copied() {
    let stage = Stage::new();
    let machine = stage.machine("first");
    for number in 0..40 {
        machine.write(&format!("folder-{}/{number}", number % 4), format!("{number}"));
    }
    machine.checkpoint();
    let first = machine.push(&stage).await.unwrap().unwrap();
    assert_eq!(first.contents, 40 + 4 + 1, "files, folders and the workspace");
    machine.write("folder-1/1", "changed");
    machine.checkpoint();
    let second = machine.push(&stage).await.unwrap().unwrap();
    assert_eq!(second.contents, 3, "the file, its folder and the workspace");
    // A machine that has lost what it knew asks the store, and writes nothing twice.
    fs_err::remove_file(machine.home.checkpoints(&machine.agent.id).join("copied")).unwrap();
    fs_err::remove_file(machine.home.checkpoints(&machine.agent.id).join("copied.json")).unwrap();
    let third = machine.push(&stage).await.unwrap().unwrap();
    assert_eq!((third.number, third.contents), (second.number, 0));
}

#[tokio::test]
async fn a_place_that_was_emptied_and_taken_again_gets_everything_again() {
    let stage = Stage::new();
    let machine = stage.machine("first");
    machine.write("a", "one");
    machine.write("b", "two");
    machine.checkpoint();
    for contents in [Some(3), None] {
        assert_eq!(machine.push(&stage).await.unwrap().map(|pushed| pushed.contents), contents);
    }
    for is_newer in [false, true] {
        fs_err::remove_dir_all(stage.file("checkpoints")).unwrap();
        fs_err::remove_file(stage.file(owner::NAME)).unwrap();
        let lost = machine.push(&stage).await.unwrap_err();
        assert!(matches!(lost, CheckpointError::Blob(BlobError::Lost { .. })), "{lost}");
        owner::take(&machine.home, &*stage.store).await.unwrap();
        if is_newer {
            machine.write("a", "three");
            machine.checkpoint();
        }
        let again = machine.push(&stage).await.unwrap().unwrap();
        assert_eq!(again.contents, 3, "both files and the workspace");
        let other = stage.machine(&format!("other-{is_newer}"));
        let pulled = other.pull(&stage, None).await.unwrap();
        other.assert_has(pulled.number, &machine);
    }
}

#[tokio::test]
async fn a_content_that_is_missing_or_damaged_is_named_and_brings_nothing() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    first.write("a", "hello");
    first.write("data", large());
    first.checkpoint();
    first.push(&stage).await.unwrap().unwrap();
    for path in stage.contents() {
        let bytes = fs_err::read(&path).unwrap();
        let name = path.strip_prefix(stage.file("")).unwrap().to_str().unwrap().to_owned();
        // The name of the whole stands for its parts.
        let name = name.split('.').next().unwrap().to_owned();
        let mut damaged = bytes.clone();
        damaged[bytes.len() / 2] ^= 1;
        for change in [None, Some(damaged), Some(bytes[..bytes.len() - 1].to_vec())] {
            match &change {
                Some(bytes) => fs_err::write(&path, bytes).unwrap(),
                None => fs_err::remove_file(&path).unwrap(),
            }
            let error = second.pull(&stage, None).await.unwrap_err();
            assert!(error.to_string().contains(&name), "{error}");
            assert_eq!(error.hint().as_deref(), Some("flock storage check"));
            assert_eq!(second.records(), []);
        }
        fs_err::write(&path, bytes).unwrap();
    }
    second.pull(&stage, None).await.unwrap();
    second.assert_has(1, &first);
}

#[tokio::test]
async fn contents_that_are_lost_here_are_brought_back() {
    let stage = Stage::new();
    let machine = stage.machine("first");
    machine.write("a", "hello");
    machine.write("b", "world");
    let made = machine.checkpoint();
    machine.push(&stage).await.unwrap().unwrap();
    let objects = machine.home.checkpoints(&machine.agent.id).join("objects");
    let id = crate::checkpoint::content::ContentId::of_file(b"hello").to_string();
    let path = objects.join(&id[..2]).join(&id[2..]);
    for damage in [None, Some("hellO")] {
        match damage {
            Some(text) => fs_err::write(&path, text).unwrap(),
            None => fs_err::remove_file(&path).unwrap(),
        }
        let pulled = machine.pull(&stage, Some(made.number)).await.unwrap();
        assert_eq!((pulled.number, pulled.contents), (made.number, 1));
        assert_eq!(fs_err::read(&path).unwrap(), b"hello");
    }
    assert_eq!(machine.records().len(), 1);
    // A damaged content does not get its name in the store.
    machine.write("c", "other");
    machine.checkpoint();
    let id = crate::checkpoint::content::ContentId::of_file(b"other").to_string();
    fs_err::write(objects.join(&id[..2]).join(&id[2..]), "othe").unwrap();
    let error = machine.push(&stage).await.unwrap_err();
    assert!(matches!(error, CheckpointError::Missing { .. }), "{error}");
    assert!(!stage.file(&format!("checkpoints/coder/objects/{}/{}", &id[..2], &id[2..])).exists());
    assert_eq!(list(&*stage.store, &machine.agent.id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn old_copies_go_and_what_the_others_need_stays() {
    let stage = Stage::new();
    let (machine, other) = (stage.machine("first"), stage.machine("second"));
    machine.write("kept", "the same in all of them");
    for number in 0..7 {
        machine.write("changing", format!("state {number}"));
        machine.checkpoint();
        machine.push(&stage).await.unwrap().unwrap();
    }
    let before = stage.contents().len();
    let swept = machine.sweep(&stage).await.unwrap();
    assert_eq!((swept.checkpoints, swept.contents, swept.kept), (3, 0, 4), "young contents stay");
    assert_eq!(stage.contents().len(), before);
    stage.age();
    let swept = machine.sweep(&stage).await.unwrap();
    assert_eq!((swept.checkpoints, swept.contents, swept.kept), (0, 6, 4), "three files and three trees");
    for number in 4..=7 {
        let pulled = other.pull(&stage, Some(number)).await.unwrap();
        assert_eq!(pulled.from, number);
    }
    other.assert_has(7, &machine);
    // A content that was deleted is written again when it is needed.
    machine.write("changing", "state 0");
    machine.checkpoint();
    assert_eq!(machine.push(&stage).await.unwrap().unwrap().contents, 2);
    assert!(matches!(other.pull(&stage, Some(1)).await.unwrap_err(), CheckpointError::NotStored { .. }));
}

#[tokio::test]
async fn a_young_tree_whose_older_content_was_deleted_is_copied_with_it_again() {
    let stage = Stage::new();
    let (machine, other) = (stage.machine("first"), stage.machine("second"));
    for number in 0..5 {
        machine.write("changing", format!("state {number}"));
        machine.checkpoint();
        machine.push(&stage).await.unwrap().unwrap();
    }
    // Only the file of the first state is old enough to be deleted, and not the tree that names it.
    let id = crate::checkpoint::content::ContentId::of_file(b"state 0").to_string();
    let content = stage.file(&format!("checkpoints/coder/objects/{}/{}", &id[..2], &id[2..]));
    age(&content);
    let swept = machine.sweep(&stage).await.unwrap();
    assert_eq!((swept.checkpoints, swept.contents, content.exists()), (1, 1, false));
    machine.write("changing", "state 0");
    let made = machine.checkpoint();
    let pushed = machine.push(&stage).await.unwrap().unwrap();
    assert_eq!((pushed.number, pushed.contents), (made.number, 1), "the file alone, as its tree is there");
    let pulled = other.pull(&stage, None).await.unwrap();
    assert_eq!(pulled.from, made.number);
    other.assert_has(pulled.number, &machine);
}

#[tokio::test]
async fn a_sweep_that_can_not_read_a_copy_deletes_nothing() {
    let stage = Stage::new();
    let machine = stage.machine("first");
    for number in 0..6 {
        machine.write("changing", format!("state {number}"));
        machine.checkpoint();
        machine.push(&stage).await.unwrap().unwrap();
    }
    stage.age();
    let before = stage.contents();
    let records = fs_err::read_dir(stage.file("checkpoints/coder/records")).unwrap();
    let newest = records.map(|entry| entry.unwrap().path()).max().unwrap();
    fs_err::write(&newest, "{").unwrap();
    let error = machine.sweep(&stage).await.unwrap_err();
    assert!(matches!(error, CheckpointError::Blob(BlobError::Damaged { .. })), "{error}");
    assert_eq!(stage.contents(), before);
}

#[tokio::test]
async fn two_homes_do_not_write_to_one_store() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    for machine in [&first, &second] {
        machine.write("a", "x");
        machine.checkpoint();
    }
    first.push(&stage).await.unwrap().unwrap();
    for error in [second.push(&stage).await.unwrap_err(), second.sweep(&stage).await.unwrap_err()] {
        assert!(matches!(error, CheckpointError::Blob(BlobError::Foreign { .. })), "{error}");
    }
    // Reading is no change.
    second.pull(&stage, None).await.unwrap();
    let held = lock(&first.home.checkpoints(&first.agent.id), &first.agent.id).unwrap();
    first.checkpoint();
    let error = first.push(&stage).await.unwrap_err();
    assert!(matches!(error, CheckpointError::Copying(_)), "{error}");
    drop(held);
    first.push(&stage).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_somebody_has_made_here_is_not_overwritten_unasked() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    first.write("a", "theirs");
    first.checkpoint();
    first.push(&stage).await.unwrap().unwrap();
    second.write("a", "mine");
    let pulled = second.pull(&stage, None).await.unwrap();
    assert!(pulled.is_in_use && !second.records()[0].is_open);
    assert_eq!(second.read("a").unwrap(), b"mine");
}

#[tokio::test]
async fn a_record_of_another_form_is_refused() {
    let stage = Stage::new();
    let (first, second) = (stage.machine("first"), stage.machine("second"));
    first.write("a", "x");
    let made = first.checkpoint();
    first.push(&stage).await.unwrap().unwrap();
    let copy = StoredCheckpoint { number: made.number, at: made.at };
    let key = keys::record(&first.agent.id, copy).unwrap();
    let record = CopyRecord { format: FORMAT, agent: first.agent.id.clone(), checkpoint: made };
    for (changed, expected) in [
        (CopyRecord { format: FORMAT + 1, ..record.clone() }, "a newer flock"),
        (CopyRecord { agent: "tester".parse().unwrap(), ..record.clone() }, "another checkpoint"),
    ] {
        let bytes = serde_json::to_vec(&changed).unwrap();
        stage.store.put(&key, bytes.into(), Condition::Any).await.unwrap();
        let error = second.pull(&stage, None).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
