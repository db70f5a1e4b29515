//! Tests of the packages at checkpoints of this home and of others.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::agent_store::AgentStore;
use super::fork::ForkRequest;
use super::journal::{self, Journal, JournalPackages};
use super::packages::{self, PackagesThen};
use super::record::CheckpointRecord;
use super::rewind::RewindRequest;
use super::testing::home_with_coder;
use super::view::RewindView;
use super::{AgentServices, CheckpointError, Checkpoints};
use crate::agent::transcript::RewindRecord;
use crate::clock::unix_ms;
use crate::config::{Agent, CheckpointSettings, Live};
use crate::generation::{self, log};
use crate::home::{Home, instance};
use crate::id::{AgentId, SessionKey};
use crate::nix_store::ProfileDifference;
use crate::provider::BoxFuture;
use crate::store::Store;
use crate::swarm::lease::Ownership;

/// A process whose package store has all generations, and notes what it is asked for.
#[derive(Default)]
struct Services {
    set_back: Mutex<Vec<u32>>,
    copied: Mutex<Vec<Option<u32>>>,
}

impl AgentServices for Services {
    fn stop_sandbox<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn packages_difference<'a>(
        &'a self,
        _: &'a AgentId,
        _: u32,
    ) -> BoxFuture<'a, Result<Option<ProfileDifference>, String>> {
        Box::pin(async { Ok(Some(ProfileDifference::default())) })
    }

    fn set_packages_back<'a>(&'a self, _: &'a AgentId, to: u32) -> BoxFuture<'a, Result<bool, String>> {
        self.set_back.lock().unwrap().push(to);
        Box::pin(async { Ok(true) })
    }

    fn copy_packages<'a>(
        &'a self,
        _: &'a AgentId,
        _: &'a AgentId,
        number: Option<u32>,
    ) -> BoxFuture<'a, Result<(), String>> {
        self.copied.lock().unwrap().push(number);
        Box::pin(async { Ok(()) })
    }

    fn forget_packages<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn set_back<'a>(
        &'a self,
        _: &'a SessionKey,
        _: RewindRecord,
    ) -> BoxFuture<'a, Result<(), CheckpointError>> {
        Box::pin(async { Ok(()) })
    }
}

struct Stage {
    _folder: tempfile::TempDir,
    home: Home,
    agent: Agent,
    services: Arc<Services>,
    checkpoints: Checkpoints,
}

/// Records that an agent's profile has this generation now.
fn change(home: &Home, agent: &AgentId, number: u32) {
    let changed = generation::change(home, |state| {
        state.packages.insert(agent.clone(), number);
    });
    changed.unwrap();
}

impl Stage {
    /// Makes a home with a checkpoint of profile 1, whose agent has profile 2 now.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (home, agent) = home_with_coder(&folder.path().join("home"));
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let store = Arc::new(Store::open(&home).unwrap());
        let ownership = Ownership::new(&store);
        let checkpoints = Checkpoints::new(live, store, ownership);
        let services = Arc::new(Services::default());
        checkpoints.serve(services.clone());
        let stage = Self { _folder: folder, home, agent, services, checkpoints };
        change(&stage.home, &stage.agent.id, 1);
        stage.make().await;
        let at = stage.record().at;
        while unix_ms() <= at {
            tokio::task::yield_now().await;
        }
        change(&stage.home, &stage.agent.id, 2);
        stage
    }

    async fn make(&self) {
        self.checkpoints.make(&self.agent, "human:ann".to_owned(), None).await.unwrap();
    }

    fn open(&self) -> AgentStore {
        AgentStore::open(&self.home, &self.agent, CheckpointSettings::default()).unwrap()
    }

    /// The record of the first checkpoint.
    fn record(&self) -> CheckpointRecord {
        self.open().log.read().unwrap().remove(0)
    }

    /// Writes another number into it, and whose that is.
    fn rewrite(&self, number: Option<u32>, of: Option<&str>) {
        let store = self.open();
        let mut records = store.log.read().unwrap();
        records[0].packages = number;
        records[0].packages_of = of.map(str::to_owned);
        store.log.replace(&records).unwrap();
    }

    fn request(without_packages: bool) -> RewindRequest {
        RewindRequest {
            checkpoint: Some(1),
            undo: false,
            parts: None,
            keep_others: false,
            without_packages,
            plan: None,
            by: "human:ann".to_owned(),
        }
    }

    async fn preview(&self) -> RewindView {
        self.checkpoints.preview(&self.agent, Self::request(false)).await.unwrap()
    }

    /// The number that a list of the checkpoints shows.
    async fn listed(&self) -> Value {
        self.checkpoints.list(&self.agent).await.unwrap().pop().unwrap()["packages"].take()
    }

    fn set_back(&self) -> Vec<u32> {
        std::mem::take(&mut *self.services.set_back.lock().unwrap())
    }
}

#[tokio::test]
async fn a_rewind_leaves_the_packages_if_another_home_made_the_checkpoint() {
    let stage = Stage::new().await;
    let own = packages::stores_of(&stage.home).unwrap();
    assert!(!own.contains(&instance::read(&stage.home).unwrap()), "the second place is not told the id");
    let made = stage.record();
    assert_eq!((made.packages, made.packages_of.as_ref()), (Some(1), Some(&own)));
    let plan = serde_json::to_value(stage.preview().await).unwrap();
    assert_eq!((&plan["packages"]["from"], &plan["packages"]["to"]), (&json!(2), &json!(1)), "{plan}");
    assert_eq!(plan["packagesElsewhere"], false, "{plan}");
    assert_eq!(stage.listed().await, 1);

    stage.rewrite(Some(1), Some("another"));
    let made = stage.checkpoints.rewind(&stage.agent, Stage::request(false)).await.unwrap();
    assert!(made.warnings[0].contains("checkpoint 1 has those of another home"), "{made:?}");
    let made = serde_json::to_value(made).unwrap();
    assert_eq!((&made["packages"], &made["packagesElsewhere"]), (&Value::Null, &json!(true)));
    assert_eq!(stage.set_back(), Vec::<u32>::new());
    assert!(stage.listed().await.is_null(), "here, the number would stand for other packages");
    let wanted = stage.checkpoints.preview(&stage.agent, Stage::request(true)).await.unwrap();
    assert!(!wanted.packages_elsewhere && wanted.warnings.is_empty(), "nobody has asked for them");
    let request =
        ForkRequest { name: "copy".parse().unwrap(), checkpoint: Some(1), by: "human:ann".to_owned() };
    let forked = stage.checkpoints.fork(&stage.agent, request).await.unwrap();
    assert!(forked.warnings[0].starts_with("its packages are the present ones"), "{forked:?}");
    assert_eq!(*stage.services.copied.lock().unwrap(), [None]);

    stage.rewrite(Some(1), Some(&own));
    stage.checkpoints.rewind(&stage.agent, Stage::request(false)).await.unwrap();
    assert_eq!(stage.set_back(), [1]);
}

#[tokio::test]
async fn a_number_of_an_older_flock_counts_if_this_home_had_it_at_that_time() {
    let stage = Stage::new().await;
    stage.rewrite(Some(1), None);
    assert!(stage.preview().await.packages.is_some());
    // The generations of this home have another one for that time.
    stage.rewrite(Some(7), None);
    let plan = stage.preview().await;
    assert!(plan.packages.is_none() && plan.packages_elsewhere, "{plan:?}");
    // Without a number, those of this home say which one it was, but not if another home made it.
    stage.rewrite(None, None);
    assert!(stage.preview().await.packages.is_some());
    stage.rewrite(None, Some("another"));
    let plan = stage.preview().await;
    assert!(plan.packages.is_none() && plan.packages_elsewhere, "{plan:?}");
    // Where no agent has packages, nothing is said of them.
    change(&stage.home, &stage.agent.id, 0);
    let plan = stage.preview().await;
    assert!(plan.packages.is_none() && !plan.packages_elsewhere, "{plan:?}");
}

#[tokio::test]
async fn a_rewind_that_another_home_has_begun_is_completed_without_its_packages() {
    let stage = Stage::new().await;
    let own = packages::stores_of(&stage.home);
    for (of, expected) in [(Some("another".to_owned()), vec![]), (own, vec![1]), (None, vec![1])] {
        let journal = Journal {
            id: "ab12".to_owned(),
            at: 7,
            by: "human:ann".to_owned(),
            to: 1,
            files: None,
            packages: Some(JournalPackages { from: 2, to: 1, of }),
            conversations: Vec::new(),
            lost: None,
        };
        stage.open().write_journal(&journal).unwrap();
        stage.make().await;
        assert_eq!(stage.set_back(), expected);
        assert!(!journal::path(&stage.home.checkpoints(&stage.agent.id)).exists());
    }
}

#[tokio::test]
async fn a_home_that_was_moved_knows_nothing_of_its_new_stores() {
    let stage = Stage::new().await;
    let (coder, tester): (AgentId, AgentId) = (stage.agent.id.clone(), "tester".parse().unwrap());
    change(&stage.home, &tester, 5);
    let record = stage.record();
    let old = CheckpointRecord { packages_of: None, ..record.clone() };
    assert_eq!(packages::at(&stage.home, &coder, &record), PackagesThen::Here(1));
    let to = stage.home.root().with_file_name("moved");
    fs_err::rename(stage.home.root(), &to).unwrap();
    let moved = Home::new(to, None);
    assert_eq!(packages::present(&moved, &coder), None);
    for record in [&record, &old] {
        assert_eq!(packages::at(&moved, &coder, record), PackagesThen::Elsewhere);
    }
    change(&moved, &coder, 1);
    assert_eq!(packages::present(&moved, &coder), Some(1));
    assert_eq!(packages::present(&moved, &tester), None);
    let newest = log::newest(&moved).unwrap().unwrap();
    assert_eq!(newest.state.packages, BTreeMap::from([(coder.clone(), 1)]));
    assert_eq!(newest.what, ["packages of coder: profile 1"], "nothing was removed");
    assert_eq!(packages::at(&moved, &coder, &record), PackagesThen::Elsewhere);
}
