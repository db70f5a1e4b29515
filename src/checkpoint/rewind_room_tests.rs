//! Rewinds of a workspace on a disk without room.

use super::super::journal;
use super::super::testing::{home_with_coder, rewind_to};
use super::*;
use crate::config::CheckpointSettings;
use crate::home::Home;
use crate::home::free_space::RESERVE;

struct Stage {
    _folder: tempfile::TempDir,
    home: Home,
    agent: Agent,
    store: AgentStore,
}

impl Stage {
    /// Makes a workspace in which the file `a` has the text `1`, and a checkpoint of it.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (home, agent) = home_with_coder(&folder.path().join("home"));
        let store = AgentStore::open(&home, &agent, CheckpointSettings::default()).unwrap();
        let mut stage = Self { _folder: folder, home, agent, store };
        stage.write("a", "1");
        let new = NewCheckpoint {
            reason: Reason::Asked { by: "human:ann".to_owned(), note: None },
            is_listed: true,
            is_open: &|| true,
            transcripts: BTreeMap::new(),
            stop: &AtomicBool::new(false),
        };
        stage.store.make(new).unwrap();
        stage
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.agent.workspace.join(name), text).unwrap();
    }

    /// Returns the texts of the files `a` and `b`.
    fn texts(&self) -> [Option<String>; 2] {
        ["a", "b"].map(|name| std::fs::read_to_string(self.agent.workspace.join(name)).ok())
    }

    /// Writes down a rewind to the checkpoint.
    fn begin(&mut self) -> Result<Journal, CheckpointError> {
        let moments = Moments { home: &self.home, agent: &self.agent, sessions: &[] };
        begin(&mut self.store, &moments, &rewind_to(Some(1)), None).map(|(journal, _)| journal)
    }

    fn is_begun(&self) -> bool {
        journal::path(&self.store.folder).exists()
    }
}

fn texts(a: &str, b: Option<&str>) -> [Option<String>; 2] {
    [Some(a), b].map(|text| text.map(str::to_owned))
}

#[test]
fn a_rewind_without_room_is_refused_before_its_first_change() {
    let mut stage = Stage::new();
    stage.write("a", "2");
    stage.write("b", "2");
    let records = stage.store.log.read().unwrap();
    // One file does not fit beside what stays free.
    stage.store.measure = |_| Ok(RESERVE);
    let refused = stage.begin();
    assert!(matches!(refused, Err(CheckpointError::NoRoom { .. })), "{refused:?}");
    assert_eq!((stage.texts(), stage.is_begun()), (texts("2", Some("2")), false));
    assert_eq!(stage.store.log.read().unwrap(), records);

    stage.store.measure = |_| Ok(RESERVE + (1 << 20));
    let journal = stage.begin().unwrap();
    // Others fill the disk before the first file is changed.
    stage.store.measure = |_| Ok(RESERVE);
    let refused = stage.store.complete_files(&journal);
    assert!(matches!(refused, Err(CheckpointError::NoRoom { .. })), "{refused:?}");
    assert_eq!((stage.texts(), stage.is_begun()), (texts("2", Some("2")), true));
    stage.store.measure = |_| Ok(RESERVE + (1 << 20));
    assert_eq!(stage.store.complete_files(&journal).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(stage.texts(), texts("1", None));
}

#[test]
fn a_rewind_that_only_removes_files_needs_no_room() {
    let mut stage = Stage::new();
    stage.write("b", "2");
    stage.store.measure = |_| Ok(0);
    let journal = stage.begin().unwrap();
    stage.store.complete_files(&journal).unwrap();
    assert_eq!(stage.texts(), texts("1", None));
}
