//! Workspaces that are given up with their engine. A folder of this machine stands in for the other one until its mark.

use std::path::Path;

use serde_json::json;

use super::super::TurnCheckpoints;
use super::super::journal;
use super::super::record::Reason;
use super::super::rewind::RewindRequest;
use super::super::testing::{PlainServices, rewind_to};
use super::super::view::RewindView;
use super::*;
use crate::agent::{TurnWatch as _, WatchedTurn};
use crate::home::elsewhere::{self, Mark};
use crate::id::{SessionKey, TurnId};
use crate::sandbox::workspace::placeholder;
use crate::store::testing::begin_turn;
use crate::swarm::testing::Team;

struct Process;

impl PlainServices for Process {}

struct Stage {
    team: Team,
    agent: Agent,
    checkpoints: Arc<Checkpoints>,
}

impl Stage {
    /// Creates a team whose settings have this block of storage.
    fn new(storage: Option<&Path>) -> Self {
        let team = Team::with(|config| {
            if let Some(path) = storage {
                config["storage"] = json!({"blobs": {"kind": "folder", "path": path}});
            }
        });
        let agent = team.swarm.config().agent(&"coder".parse().unwrap()).unwrap().clone();
        std::fs::create_dir_all(&agent.workspace).unwrap();
        let (live, store) = (Arc::clone(team.swarm.live()), Arc::clone(&team.store));
        let ownership = Arc::clone(team.swarm.ownership());
        let checkpoints = Arc::new(Checkpoints::new(live, store, ownership));
        checkpoints.serve(Arc::new(Process));
        Self { team, agent, checkpoints }
    }

    /// Creates a team whose agent has had two turns: `a` is 0 before them, and 1 and 2 after them. `dir/b` is of the second.
    async fn after_two_turns(storage: Option<&Path>) -> Self {
        let stage = Self::new(storage);
        stage.write("a", "0");
        // On another machine this is a copy of the identity file.
        stage.write("SOUL.md", "a copy");
        stage.turn(|| stage.write("a", "1")).await;
        stage
            .turn(|| {
                stage.write("a", "2");
                stage.write("dir/b", "2");
            })
            .await;
        stage
    }

    fn at(&self, path: &str) -> PathBuf {
        self.agent.workspace.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        std::fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        std::fs::write(self.at(path), text).unwrap();
    }

    /// Returns the texts of `a` and `dir/b`.
    fn texts(&self) -> [Option<String>; 2] {
        ["a", "dir/b"].map(|path| std::fs::read_to_string(self.at(path)).ok())
    }

    async fn begin(&self) -> Box<dyn WatchedTurn> {
        let session: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
        let watch = TurnCheckpoints(Arc::clone(&self.checkpoints));
        let turn = watch.begin(&self.agent.id, &session, TurnId::new()).await;
        turn.may_change().await;
        turn
    }

    async fn end(&self, turn: Box<dyn WatchedTurn>) {
        drop(turn);
        // The look at its end holds its pass.
        drop(self.checkpoints.gate(&self.agent.id).alone().await.unwrap());
    }

    async fn turn(&self, work: impl FnOnce()) {
        let turn = self.begin().await;
        work();
        self.end(turn).await;
    }

    /// Puts a mark in the place of the workspace, whose files nobody reaches from then on.
    fn move_away(&self) -> LostEngine {
        let name: EngineName = "far".parse().unwrap();
        let there = elsewhere::mark(&self.agent.workspace, &Mark::new(&name, &self.agent.id)).unwrap();
        std::fs::remove_dir_all(there.unwrap()).unwrap();
        LostEngine { name, by: "human:ann".to_owned(), needs_newest: false }
    }

    /// Loses the workspace with its engine.
    async fn lose(&self) -> Result<Replacement, CheckpointError> {
        let engine = self.move_away();
        self.checkpoints.replace_lost(&self.agent, &engine).await
    }

    async fn rewind(&self, checkpoint: Option<u64>, undo: bool) -> Result<RewindView, CheckpointError> {
        let request = RewindRequest { undo, ..rewind_to(checkpoint) };
        self.checkpoints.rewind(&self.agent, request).await
    }

    fn folder(&self) -> PathBuf {
        self.team.swarm.home().checkpoints(&self.agent.id)
    }

    /// Removes a content from the checkpoints.
    fn damage(&self, text: &str) {
        let name = ContentId::of_file(text.as_bytes()).to_string();
        let (above, name) = name.split_at(2);
        std::fs::remove_file(self.folder().join("objects").join(above).join(name)).unwrap();
    }

    async fn records(&self) -> Vec<CheckpointRecord> {
        self.checkpoints.blocking(&self.agent, |store| store.log.read()).await.unwrap()
    }
}

fn texts(a: Option<&str>, b: Option<&str>) -> [Option<String>; 2] {
    [a, b].map(|text| text.map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_workspace_gets_its_last_files_back_and_is_set_back_further() {
    let stage = Stage::after_two_turns(None).await;
    let last = stage.records().await.last().unwrap().at;
    let replaced = stage.lose().await.unwrap();
    assert!(matches!(replaced, Replacement::Restored { at } if at == last), "{replaced:?}");
    let restored = texts(Some("2"), Some("2"));
    assert_eq!(stage.texts(), restored);
    assert!(!journal::path(&stage.folder()).exists());
    // The identity files are flock's own.
    let soul = || std::fs::read_to_string(stage.at("SOUL.md")).unwrap();
    assert_eq!(soul(), placeholder("SOUL.md"));

    stage.rewind(None, false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("1"), None));
    stage.rewind(Some(1), false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("0"), None));
    stage.rewind(None, true).await.unwrap();
    stage.turn(|| stage.write("a", "3")).await;
    stage.rewind(None, false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("1"), None));
    assert_eq!(soul(), placeholder("SOUL.md"));
    // What somebody has changed since is still theirs.
    stage.write("a", "a person");
    let refused = stage.rewind(Some(1), false).await.map(drop);
    assert!(matches!(refused, Err(CheckpointError::Foreign { count: 1, .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_not_back_yet_are_named_and_come_back_before_the_next_turn() {
    let stage = Stage::after_two_turns(None).await;
    let home = stage.team.swarm.home().clone();
    let lost = || Checkpoints::lost_with(&home, &stage.agent.id);
    let begin = || {
        let engine = stage.move_away();
        // Without the identity files, the new folder can't be filled.
        let identity = stage.agent.identity.clone();
        stage.checkpoints.blocking(&stage.agent, move |store| {
            drop(std::fs::remove_dir_all(&identity));
            std::fs::write(&identity, "").unwrap();
            let given_up = write_down(&store, &engine, false);
            std::fs::remove_file(&identity).unwrap();
            given_up
        })
    };
    assert_eq!(lost(), None);
    // It ends here, and the next turn finds what is written down.
    begin().await.unwrap().unwrap();
    assert_eq!((stage.texts(), lost()), (texts(None, None), Some("far".parse().unwrap())));
    assert_eq!(
        Checkpoints::interrupted(&home, &stage.team.swarm.config()),
        std::slice::from_ref(&stage.agent.id)
    );
    stage.turn(|| assert_eq!(stage.texts(), texts(Some("2"), Some("2")))).await;
    assert_eq!(lost(), None);
    stage.rewind(Some(1), false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("0"), None));
    stage.rewind(None, true).await.unwrap();

    // So does a checkpoint that a person makes.
    begin().await.unwrap().unwrap();
    stage.checkpoints.make(&stage.agent, "human:ann".to_owned(), None).await.unwrap();
    assert_eq!((stage.texts(), lost()), (texts(Some("2"), Some("2")), None));

    // A second attempt has the same aim, also when nothing else has happened in between.
    begin().await.unwrap().unwrap();
    let name = "far".parse().unwrap();
    let engine = LostEngine { name, by: "human:ann".to_owned(), needs_newest: false };
    let replaced = stage.checkpoints.replace_lost(&stage.agent, &engine).await.unwrap();
    assert!(matches!(replaced, Replacement::Restored { .. }), "{replaced:?}");
    assert_eq!((stage.texts(), lost()), (texts(Some("2"), Some("2")), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_for_which_the_disk_has_no_room_are_waited_for() {
    let stage = Stage::after_two_turns(None).await;
    let home = stage.team.swarm.home();
    let missing = || Checkpoints::all_missing_files(home, &stage.team.swarm.config());
    let engine = stage.move_away();
    let filled = stage.checkpoints.blocking(&stage.agent, move |mut store| {
        store.measure = |_| Ok(0);
        let given_up = write_down(&store, &engine, false)?.unwrap();
        bring_back(&mut store, &given_up, false)
    });
    let filled = filled.await;
    assert!(matches!(filled, Err(CheckpointError::NoRoom { .. })), "{filled:?}");
    assert_eq!(stage.texts(), texts(None, None));
    let hints: Vec<String> = missing().into_iter().map(|found| found.hint).collect();
    assert_eq!(hints, ["flock checkpoint coder"]);
    stage.turn(|| assert_eq!(stage.texts(), texts(Some("2"), Some("2")))).await;
    assert_eq!(missing(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_can_not_be_given_up_stays_as_it_is() {
    let stage = Stage::after_two_turns(None).await;
    let engine = stage.move_away();
    let other = LostEngine { name: "other".parse().unwrap(), ..engine.clone() };
    let mark = elsewhere::read(&stage.agent.workspace);
    let before = stage.records().await;
    // The folder of checkpoints can't be used.
    let (folder, aside) = (stage.folder(), stage.folder().with_extension("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    std::fs::write(&folder, "").unwrap();
    stage.checkpoints.replace_lost(&stage.agent, &engine).await.unwrap_err();
    assert_eq!(elsewhere::read(&stage.agent.workspace), mark);
    std::fs::remove_file(&folder).unwrap();
    std::fs::rename(&aside, &folder).unwrap();
    // Another engine may still have it.
    stage.checkpoints.replace_lost(&stage.agent, &other).await.unwrap_err();
    assert_eq!(elsewhere::read(&stage.agent.workspace), mark);
    // It is on this machine by now.
    std::fs::remove_file(&stage.agent.workspace).unwrap();
    stage.write("a", "a person");
    let refused = stage.checkpoints.replace_lost(&stage.agent, &engine).await;
    assert!(matches!(refused, Err(CheckpointError::NotLost(_))), "{refused:?}");
    assert_eq!(stage.texts(), texts(Some("a person"), None));
    assert_eq!(stage.records().await, before);
    assert!(!journal::path(&folder).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_does_not_end_is_waited_for_no_longer_than_the_limit() {
    let stage = Stage::new(None);
    let taken = stage.checkpoints.jobs_within(&stage.agent.id, Duration::ZERO).await.unwrap();
    let refused = stage.checkpoints.jobs_within(&stage.agent.id, Duration::ZERO).await;
    assert!(matches!(refused, Err(CheckpointError::Busy(_))), "{refused:?}");
    drop(taken);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_state_is_passed_over_for_the_one_before_it() {
    let stage = Stage::after_two_turns(None).await;
    // `a` and `dir/b` of the last state.
    stage.damage("2");
    let replaced = stage.lose().await.unwrap();
    assert!(matches!(replaced, Replacement::Restored { .. }), "{replaced:?}");
    assert_eq!(stage.texts(), texts(Some("1"), None));
    stage.rewind(Some(1), false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("0"), None));
    let is_lost = |record: &CheckpointRecord| matches!(record.reason, Reason::Lost { .. });
    assert_eq!(stage.records().await.iter().filter(|record| is_lost(record)).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_word_of_a_person_only_the_newest_files_take_the_place() {
    let place = tempfile::tempdir().unwrap();
    let stage = Stage::after_two_turns(Some(place.path())).await;
    let home = stage.team.swarm.home();
    let store = blob::open(home, stage.team.swarm.config().blobs.as_ref().unwrap());
    let number = stage.records().await.last().unwrap().number;
    let is_there = || elsewhere::engine_of(&stage.agent.workspace).is_some();
    let lose = || async {
        let engine = LostEngine { needs_newest: true, ..stage.move_away() };
        stage.checkpoints.replace_lost(&stage.agent, &engine).await.unwrap()
    };
    remote::push_and_sweep(home, &stage.agent.id, &store, 4).await.unwrap().unwrap();

    // The second place mends the newest state, before the one before it is taken.
    stage.damage("2");
    let replaced = lose().await;
    assert!(matches!(replaced, Replacement::Restored { .. }), "{replaced:?}");
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));

    // Or it has the only one. Nothing is there to compare it with.
    std::fs::remove_dir_all(stage.folder()).unwrap();
    let replaced = lose().await;
    assert!(matches!(replaced, Replacement::Restored { .. }), "{replaced:?}");
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));

    // It can't be asked.
    std::fs::remove_dir_all(stage.folder()).unwrap();
    std::fs::remove_dir_all(place.path()).unwrap();
    let replaced = lose().await;
    assert!(matches!(replaced, Replacement::Kept { newest: None, problem: Some(_) }), "{replaced:?}");
    assert!(is_there());

    // There is none. The state before the newest one is whole, but older.
    let stage = Stage::after_two_turns(None).await;
    stage.damage("2");
    let engine = LostEngine { needs_newest: true, ..stage.move_away() };
    let replaced = stage.checkpoints.replace_lost(&stage.agent, &engine).await.unwrap();
    let newest = match replaced {
        Replacement::Kept { newest, problem: None } => newest,
        other => panic!("{other:?}"),
    };
    assert_eq!(newest, Some(number));
    assert!(elsewhere::engine_of(&stage.agent.workspace).is_some());
    assert!(!journal::path(&stage.folder()).exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_goes_on_in_the_new_folder_and_what_it_does_there_is_its_own_work() {
    let stage = Stage::after_two_turns(None).await;
    let turn = stage.begin().await;
    begin_turn(&stage.team.store, "coder").await;
    let replaced = stage.lose().await.unwrap();
    assert!(matches!(replaced, Replacement::Restored { .. }), "{replaced:?}");
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));
    stage.write("a", "3");
    stage.end(turn).await;
    stage.rewind(None, false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_new_folder_has_its_files_from_the_beginning_and_a_turn_in_it_is_not_disturbed() {
    let stage = Stage::after_two_turns(None).await;
    let turn = stage.begin().await;
    let engine = stage.move_away();
    let given_up = stage.checkpoints.blocking(&stage.agent, move |store| write_down(&store, &engine, false));
    let given_up = given_up.await.unwrap().unwrap();
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));
    assert_eq!(std::fs::read_to_string(stage.at("SOUL.md")).unwrap(), placeholder("SOUL.md"));
    let beside = std::fs::read_dir(stage.agent.workspace.parent().unwrap()).unwrap();
    let beside: Vec<_> = beside.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(beside, ["coder"], "nothing is left beside it");

    stage.write("a", "3");
    std::fs::remove_file(stage.at("dir/b")).unwrap();
    let end =
        stage.checkpoints.blocking(&stage.agent, move |mut store| bring_back(&mut store, &given_up, true));
    end.await.unwrap();
    assert_eq!(stage.texts(), texts(Some("3"), None));
    assert!(!journal::path(&stage.folder()).exists());
    stage.end(turn).await;
    stage.rewind(None, false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_checkpoint_it_is_empty_unless_the_second_place_has_one() {
    let place = tempfile::tempdir().unwrap();
    for storage in [None, Some(place.path())] {
        let stage = Stage::new(storage);
        stage.write("a", "0");
        let replaced = stage.lose().await.unwrap();
        assert!(matches!(replaced, Replacement::Empty(None)), "{replaced:?}");
        assert_eq!(std::fs::read_dir(&stage.agent.workspace).unwrap().count(), 0);
        assert!(!journal::path(&stage.folder()).exists());
    }

    let stage = Stage::after_two_turns(Some(place.path())).await;
    let home = stage.team.swarm.home();
    let config = stage.team.swarm.config();
    let store = blob::open(home, config.blobs.as_ref().unwrap());
    remote::push_and_sweep(home, &stage.agent.id, &store, 4).await.unwrap().unwrap();
    std::fs::remove_dir_all(stage.folder()).unwrap();
    let replaced = stage.lose().await.unwrap();
    assert!(matches!(replaced, Replacement::Restored { .. }), "{replaced:?}");
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));
    stage.turn(|| stage.write("a", "3")).await;
    stage.rewind(Some(1), false).await.unwrap();
    assert_eq!(stage.texts(), texts(Some("2"), Some("2")));

    // A place that can't be asked is told.
    std::fs::remove_dir_all(stage.folder()).unwrap();
    std::fs::remove_dir_all(place.path()).unwrap();
    let replaced = stage.lose().await.unwrap();
    assert!(matches!(replaced, Replacement::Empty(Some(_))), "{replaced:?}");
}
