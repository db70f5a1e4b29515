//! Tests of agents that are set back or copied: each stays at its gateway meanwhile, and only a copy of a team takes those of
//! other gateways.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::agent_store::NewCheckpoint;
use super::fork::ForkRequest;
use super::journal::Journal;
use super::record::Reason;
use super::team_fork::{CopyName, TeamForkRequest};
use super::testing::{PlainServices, rewind_to};
use super::{CheckpointError, Checkpoints, TurnCheckpoints, journal};
use crate::agent::TurnWatch as _;
use crate::clock;
use crate::config::Agent;
use crate::home::lock::Lock;
use crate::home::write_fence::WriteFence;
use crate::id::{AgentId, Party, SessionKey, TurnId};
use crate::provider::BoxFuture;
use crate::store::testing::{begin_turn, turn_done};
use crate::store::{LeaseSubject, Store};
use crate::swarm::Actor;
use crate::swarm::channel::ChannelSpec;
use crate::swarm::lease::Ownership;
use crate::swarm::testing::Team;

/// A process that notes for each agent with which something happens if it is kept here at that moment.
struct Services {
    ownership: Arc<Ownership>,
    seen: Mutex<Vec<(String, bool)>>,
    store: Arc<Store>,
    /// The work that the other gateway does once, after the files of the first agent were copied.
    meanwhile: Mutex<Option<Meanwhile>>,
    /// Closed when a sandbox is stopped.
    closed: Mutex<Option<WriteFence>>,
}

/// A turn of an agent.
struct Meanwhile {
    agent: &'static str,
    /// `true` if it also ends.
    is_ended: bool,
}

impl Services {
    fn note(&self, agent: &AgentId) {
        let is_kept = self.ownership.is_in_use(&LeaseSubject::agent(agent));
        self.seen.lock().unwrap().push((agent.to_string(), is_kept));
    }
}

impl PlainServices for Services {
    fn stopped<'a>(&'a self, agent: &'a AgentId) -> BoxFuture<'a, ()> {
        self.note(agent);
        if let Some(fence) = self.closed.lock().unwrap().take() {
            fence.write_until(clock::boot_ms());
        }
        Box::pin(std::future::ready(()))
    }

    fn copied<'a>(&'a self, from: &'a AgentId) -> BoxFuture<'a, ()> {
        self.note(from);
        let meanwhile = self.meanwhile.lock().unwrap().take();
        Box::pin(async move {
            if let Some(Meanwhile { agent, is_ended }) = meanwhile {
                let turn = begin_turn(&self.store, agent).await;
                if is_ended {
                    self.store.turns().end(turn, turn_done()).await.unwrap();
                }
            }
        })
    }
}

/// A team of which the gateway `second` has these agents, and this gateway `coder` and `tester` without them.
struct Stage {
    team: Team,
    ownership: Arc<Ownership>,
    services: Arc<Services>,
    checkpoints: Arc<Checkpoints>,
}

impl Stage {
    fn new(elsewhere: &[&str]) -> Self {
        let here: Vec<&str> =
            ["coder", "tester"].into_iter().filter(|agent| !elsewhere.contains(agent)).collect();
        let ownership = Ownership::for_test(&here, elsewhere);
        let team = Team::new();
        for agent in ["coder", "tester"] {
            let workspace = team.swarm.home().workspace(&agent.parse().unwrap());
            std::fs::create_dir_all(&workspace).unwrap();
            std::fs::write(workspace.join("notes"), agent).unwrap();
        }
        let (live, store) = (Arc::clone(team.swarm.live()), Arc::clone(&team.store));
        let checkpoints = Arc::new(Checkpoints::new(live, store, Arc::clone(&ownership)));
        let services = Arc::new(Services {
            ownership: Arc::clone(&ownership),
            seen: Mutex::default(),
            store: Arc::clone(&team.store),
            meanwhile: Mutex::default(),
            closed: Mutex::default(),
        });
        checkpoints.serve(services.clone());
        Self { team, ownership, services, checkpoints }
    }

    fn agent(&self, id: &str) -> Agent {
        self.team.swarm.config().agent(&id.parse().unwrap()).unwrap().clone()
    }

    fn is_kept(&self, id: &str) -> bool {
        self.ownership.is_in_use(&LeaseSubject::agent(&id.parse().unwrap()))
    }

    /// Waits until an agent is kept here, or no more.
    async fn until_kept(&self, id: &str, expected: bool) {
        let waited = async {
            while self.is_kept(id) != expected {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waited).await.unwrap();
    }

    /// Returns what was noted since the last call.
    fn seen(&self) -> Vec<(String, bool)> {
        std::mem::take(&mut *self.services.seen.lock().unwrap())
    }

    async fn make(&self, id: &str) -> Result<(), CheckpointError> {
        self.checkpoints.make(&self.agent(id), "human:ann".to_owned(), None).await.map(drop)
    }

    async fn fork(&self, id: &str) -> Result<(), CheckpointError> {
        let name = "copy".parse().unwrap();
        let request = ForkRequest { name, checkpoint: None, by: "human:ann".to_owned() };
        self.checkpoints.fork(&self.agent(id), request).await.map(drop)
    }

    async fn fork_team(&self) -> Result<(), CheckpointError> {
        let channel = self.team.swarm.channel(&"dev".parse().unwrap()).await.unwrap();
        let request = TeamForkRequest {
            channel,
            copies: vec![CopyName::of_channel("second".parse().unwrap())],
            by: Party::human("ann"),
            race: None,
            mentions: Vec::new(),
        };
        self.checkpoints.fork_team(request).await.map(drop)
    }

    /// Fails to copy the team because an agent is busy. Nothing is left of that.
    async fn fails_to_fork_team(&self, busy: &str) {
        let refused = self.fork_team().await.unwrap_err();
        assert!(matches!(&refused, CheckpointError::Busy(agent) if agent.as_str() == busy), "{refused}");
        let home = self.team.swarm.home();
        assert!(!self.is_kept("coder") && !Checkpoints::is_team_fork_open(home));
        for agent in ["coder-second", "tester-second"] {
            let agent: AgentId = agent.parse().unwrap();
            assert!(!home.agent(&agent).exists() && !home.workspace(&agent).exists(), "{agent}");
            assert!(self.team.swarm.config().agent(&agent).is_none());
        }
        assert!(self.team.swarm.channel(&"second".parse().unwrap()).await.is_err());
    }

    async fn create_channel(&self) {
        let members = ["coder", "tester", "human:ann"].map(|id| id.parse::<Party>().unwrap()).to_vec();
        let wanted = ChannelSpec { id: "dev".parse().unwrap(), topic: "work".into(), members, message: None };
        self.team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
    }
}

#[tokio::test]
async fn an_agent_is_given_up_to_no_other_gateway_while_it_is_set_back_or_copied() {
    let stage = Stage::new(&[]);
    let coder = stage.agent("coder");
    // The gate is closed, so the checkpoint is begun and waits.
    let closed = stage.checkpoints.gate(&coder.id).alone().await.unwrap();
    let opened = async {
        stage.until_kept("coder", true).await;
        drop(closed);
    };
    let (made, ()) = tokio::join!(stage.make("coder"), opened);
    made.unwrap();
    assert!(!stage.is_kept("coder"));
    stage.checkpoints.rewind(&coder, rewind_to(Some(1))).await.unwrap();
    assert_eq!(stage.seen(), [("coder".to_owned(), true)]);
    assert!(!stage.is_kept("coder"));
    stage.fork("coder").await.unwrap();
    assert_eq!(stage.seen(), [("coder".to_owned(), true)]);
    stage.create_channel().await;
    stage.fork_team().await.unwrap();
    assert_eq!(stage.seen(), ["coder", "tester"].map(|agent| (agent.to_owned(), true)));
    assert!(!stage.is_kept("coder") && !stage.is_kept("tester"));
}

#[tokio::test]
async fn an_agent_stays_here_until_the_end_of_its_turn_was_looked_at() {
    let stage = Stage::new(&[]);
    let coder = stage.agent("coder");
    let session: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
    let watch = TurnCheckpoints(Arc::clone(&stage.checkpoints));
    let turn = watch.begin(&coder.id, &session, TurnId::new()).await;
    turn.may_change().await;
    // The look at the end waits for this.
    let jobs = Arc::clone(&stage.checkpoints.gate(&coder.id).jobs).lock_owned().await;
    drop(turn);
    assert!(stage.is_kept("coder"));
    drop(jobs);
    stage.until_kept("coder", false).await;
}

#[tokio::test]
async fn an_agent_of_another_gateway_is_neither_set_back_nor_copied() {
    let stage = Stage::new(&["coder"]);
    let coder = stage.agent("coder");
    for refused in [
        stage.make("coder").await,
        stage.checkpoints.preview(&coder, rewind_to(Some(1))).await.map(drop),
        stage.checkpoints.rewind(&coder, rewind_to(Some(1))).await.map(drop),
        stage.fork("coder").await,
    ] {
        let refused = refused.unwrap_err();
        assert!(matches!(refused, CheckpointError::Elsewhere { .. }), "{refused}");
        assert_eq!(refused.to_string(), "the gateway second (127.0.0.1:2) has coder");
    }
    let home = stage.team.swarm.home();
    assert!(!home.checkpoints(&coder.id).exists() && !home.workspace(&"copy".parse().unwrap()).exists());
    assert!(stage.seen().is_empty());
    // This one was silent for so long that another gateway may have the rest.
    stage.make("tester").await.unwrap();
    stage.ownership.lapse();
    let refused = stage.make("tester").await.unwrap_err().to_string();
    assert_eq!(refused, "another gateway has tester, or is about to take it");
}

#[tokio::test]
async fn a_team_with_an_agent_of_another_gateway_is_copied_if_nothing_of_it_runs() {
    let stage = Stage::new(&["tester"]);
    stage.create_channel().await;
    let turn = begin_turn(&stage.team.store, "tester").await;
    stage.fails_to_fork_team("tester").await;
    stage.team.store.turns().end(turn, turn_done()).await.unwrap();
    let home = stage.team.swarm.home();
    let tester = home.checkpoints(&"tester".parse().unwrap());
    std::fs::create_dir_all(&tester).unwrap();
    // The other gateway completes this rewind.
    std::fs::write(journal::path(&tester), "{}").unwrap();
    stage.fails_to_fork_team("tester").await;
    std::fs::remove_file(journal::path(&tester)).unwrap();
    assert!(stage.seen().is_empty());
    stage.fork_team().await.unwrap();
    assert_eq!(stage.seen(), [("coder".to_owned(), true), ("tester".to_owned(), false)]);
    for agent in ["coder", "tester"] {
        let copy: AgentId = format!("{agent}-second").parse().unwrap();
        assert_eq!(std::fs::read_to_string(home.workspace(&copy).join("notes")).unwrap(), agent);
    }
    assert!(stage.team.swarm.channel(&"second".parse().unwrap()).await.is_ok());
    assert!(!stage.is_kept("coder"));
}

#[tokio::test]
async fn a_turn_at_another_gateway_in_the_middle_of_a_copy_of_a_team_is_found() {
    let stage = Stage::new(&["tester"]);
    stage.create_channel().await;
    let all = [("coder".to_owned(), true), ("tester".to_owned(), false)];
    for is_ended in [false, true] {
        *stage.services.meanwhile.lock().unwrap() = Some(Meanwhile { agent: "tester", is_ended });
        stage.fails_to_fork_team("tester").await;
        assert_eq!(stage.seen(), all, "the turn began after the first look");
        for turn in stage.team.store.turns().running().await.unwrap() {
            stage.team.store.turns().end(turn.id, turn_done()).await.unwrap();
        }
    }
    stage.fork_team().await.unwrap();
    assert_eq!(stage.seen(), all);
}

#[tokio::test]
async fn an_agent_goes_on_while_a_gateway_that_stands_still_holds_its_checkpoints() {
    let stage = Stage::new(&[]);
    let coder = stage.agent("coder");
    stage.make("coder").await.unwrap();
    let folder = stage.team.swarm.home().checkpoints(&coder.id);
    let held = Lock::try_acquire(&folder.join("lock")).unwrap();
    // Whoever waited for the lock would wait for minutes.
    let recovered = stage.checkpoints.recover_agent(&coder.id);
    tokio::time::timeout(Duration::from_secs(60), recovered).await.unwrap();
    drop(held);
}

#[tokio::test]
async fn a_gateway_that_may_have_been_replaced_names_no_checkpoint_and_sets_nothing_back() {
    let stage = Stage::new(&[]);
    let (coder, fence) = (stage.agent("coder"), stage.team.store.syncer().fence());
    let session: SessionKey = "agent:coder:flock:main:ann".parse().unwrap();
    let (folder, notes) = (stage.team.swarm.home().checkpoints(&coder.id), coder.workspace.join("notes"));
    let turn =
        TurnCheckpoints(Arc::clone(&stage.checkpoints)).begin(&coder.id, &session, TurnId::new()).await;
    turn.may_change().await;
    std::fs::write(&notes, "changed").unwrap();
    drop(turn);
    stage.until_kept("coder", false).await;
    let named = || ["records.jsonl", "index"].map(|name| std::fs::read(folder.join(name)).unwrap());
    let before = named();

    fence.write_until(clock::boot_ms());
    assert!(matches!(stage.make("coder").await, Err(CheckpointError::CutOff(_))));
    let journal = Journal {
        id: "ab12".to_owned(),
        at: 7,
        by: "human:ann".to_owned(),
        to: 1,
        files: None,
        packages: None,
        conversations: Vec::new(),
        lost: None,
    };
    let written = stage.checkpoints.blocking(&coder, move |store| store.write_journal(&journal)).await;
    assert!(matches!(written, Err(CheckpointError::CutOff(_))));
    let cleared = stage.checkpoints.blocking(&coder, |store| store.clear_journal()).await;
    assert!(matches!(cleared, Err(CheckpointError::CutOff(_))));
    fence.write_until(i64::MAX);
    *stage.services.closed.lock().unwrap() = Some(fence.clone());
    let set_back = stage.checkpoints.rewind(&coder, rewind_to(Some(1))).await;
    assert!(matches!(set_back, Err(CheckpointError::CutOff(_))));
    assert_eq!(named(), before);
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "changed");
    assert!(!journal::path(&folder).exists());

    // The time is over when the files are stored.
    fence.write_until(i64::MAX);
    let closed = fence.clone();
    let close = move || {
        closed.write_until(clock::boot_ms());
        false
    };
    let made = stage.checkpoints.blocking(&coder, move |mut store| {
        store.make(NewCheckpoint {
            reason: Reason::Asked { by: "human:ann".to_owned(), note: None },
            is_listed: true,
            is_open: &close,
            transcripts: BTreeMap::new(),
            stop: &AtomicBool::new(false),
        })
    });
    assert!(matches!(made.await, Err(CheckpointError::CutOff(_))));
    assert_eq!(named()[0], before[0]);

    // It was cut off for a moment only.
    fence.write_until(i64::MAX);
    stage.checkpoints.rewind(&coder, rewind_to(Some(1))).await.unwrap();
    assert_eq!(std::fs::read_to_string(&notes).unwrap(), "coder");
}
