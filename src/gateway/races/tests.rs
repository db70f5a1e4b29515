use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use serde_json::json;

use super::rule::{self, CopyEnd, CopyFacts};
use super::*;
use crate::agent::{ModelCall, NoOversight, Oversight as _};
use crate::checkpoint::testing::PlainServices;
use crate::clock::MAX_DIFFERENCE;
use crate::config::Live;
use crate::gateway::projects::train::{CheckVerdict, CheckWork, Train, TreeChecks};
use crate::gateway::projects::{Answers, ProjectsError, Work};
use crate::id::{Party, TurnId};
use crate::project::testing::Sample;
use crate::project::{ObjectId, ProjectRepository};
use crate::provider::BoxFuture;
use crate::store::{ChannelState, Freeze, Level, Page, Submission, SubmissionState};
use crate::swarm::Actor;
use crate::swarm::channel::ChannelSpec;
use crate::swarm::lease::Ownership;
use crate::swarm::operation::{self, ExternalServices};
use crate::swarm::oversight::TeamOversight;
use crate::swarm::testing::Team;

/// A process without sandboxes and packages.
struct Nothing;

impl PlainServices for Nothing {}

impl ExternalServices for Nothing {
    fn release<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn forget_packages<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn rename_packages<'a>(&'a self, _: &'a AgentId, _: &'a AgentId) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn openclaw_drops<'a>(&'a self, _: &'a AgentId) -> BoxFuture<'a, bool> {
        Box::pin(async { true })
    }
}

/// Checks that fail for a tree with a file `broken`, and ask for a person if there is a file `weak`.
struct Checks(std::path::PathBuf);

impl TreeChecks for Checks {
    fn check(&self, work: CheckWork) -> BoxFuture<'_, Result<CheckVerdict, ProjectsError>> {
        Box::pin(async move {
            let repository = ProjectRepository::open(&self.0)?;
            let tree = repository.commit(work.candidate)?.tree().unwrap();
            if tree.get_name("broken").is_some() {
                return Ok(CheckVerdict::Failed { receipt: Some("r0".into()), log: "1 test failed".into() });
            }
            let reasons = tree.get_name("weak").map(|_| "tests/x.py was changed".to_owned());
            Ok(CheckVerdict::Passed { receipt: Some("r1".into()), reasons: reasons.into_iter().collect() })
        })
    }
}

struct Scene {
    team: Team,
    projects: Arc<Projects>,
    races: Races,
    train: Train,
    sample: Sample,
    base: ObjectId,
    race: Race,
}

const BASE: [(&str, &str); 2] = [("a", "1\n"), ("b", "1\n")];

impl Scene {
    /// Begins a race of three copies of the team `coder` and `tester`.
    async fn new() -> Self {
        Self::with(None, "none").await
    }

    async fn with(tokens: Option<u64>, review: &str) -> Self {
        let listed = json!({"lib": {"repo": "/srv/lib", "agents": ["coder", "orchestrator"], "checks": ["true"],
            "review": review}});
        let team = Team::with(|own| own["projects"] = listed);
        let home = team.swarm.home().clone();
        for agent in ["coder", "tester"] {
            let workspace = home.workspace(&agent.parse().unwrap());
            std::fs::create_dir_all(&workspace).unwrap();
            std::fs::write(workspace.join("notes"), agent).unwrap();
        }
        let folder = home.project_repository(&"lib".parse().unwrap());
        let repository = ProjectRepository::create(&folder, "main").unwrap();
        let sample = Sample { repository, folder: tempfile::tempdir().unwrap() };
        let base = sample.commit(&[], &BASE);
        sample.set("main", base);
        let projects = Arc::new(Projects::new(Arc::clone(&team.swarm)));
        let train = Train::new(Arc::clone(&projects), Arc::new(Checks(folder)));
        let races = races(&team, &projects);
        let members = ["coder", "tester", "human:ann"].map(|id| id.parse::<Party>().unwrap()).to_vec();
        let wanted = ChannelSpec { id: "dev".parse().unwrap(), topic: "work".into(), members, message: None };
        team.swarm.create_channel(&Actor::human("ann"), wanted).await.unwrap();
        let (race, warnings) = races.begin(request(3, "fix it @coder", tokens)).await.unwrap();
        assert_eq!(warnings, [""; 0]);
        Self { team, projects, races, train, sample, base, race }
    }

    /// Pushes a commit with these files besides those of the base for the coder of a copy, and submits it.
    async fn submit(&self, copy: u32, files: &[(&str, &str)]) -> Result<Submission, ProjectsError> {
        let agent = self.coder(copy);
        let files = [&BASE[..], files].concat();
        let commit = self.sample.commit_as(&format!("by {agent}"), &[self.base], &files);
        self.sample.set(&format!("flock/{agent}/work"), commit);
        let work =
            Work { agent, branch: None, title: None, session: None, task: None, answers: Answers::default() };
        let done = self.projects.submit(&Actor::human("ann"), &"lib".parse().unwrap(), work).await;
        done.map(|done| done.submission)
    }

    async fn run_train(&self) {
        while self.train.advance(&"lib".parse().unwrap()).await.unwrap() {}
    }

    fn coder(&self, copy: u32) -> AgentId {
        format!("coder-r1-{copy}").parse().unwrap()
    }

    async fn state(&self, submission: &Submission) -> SubmissionState {
        self.projects.submission(&"lib".parse().unwrap(), submission.id).await.unwrap().state
    }

    fn tip(&self) -> ObjectId {
        self.sample.repository.branch("main").unwrap().unwrap()
    }

    async fn race(&self) -> Race {
        self.races.find(self.race.id).await.unwrap()
    }

    async fn channel_state(&self, copy: u32) -> ChannelState {
        self.team.swarm.channel(&format!("dev-r1-{copy}").parse().unwrap()).await.unwrap().state
    }

    /// Looks at the races when their time is over.
    async fn time_is_over(&self) {
        self.races.look(self.race.ends_at.unwrap()).await;
    }

    /// One right copy, one whose checks fail, and one that changes the tests.
    async fn play(&self) -> [Submission; 3] {
        let all = [
            self.submit(1, &[("weak", "")]).await.unwrap(),
            self.submit(2, &[("broken", "")]).await.unwrap(),
            self.submit(3, &[("fix", "right\n")]).await.unwrap(),
        ];
        self.run_train().await;
        all
    }
}

fn races(team: &Team, projects: &Arc<Projects>) -> Races {
    let live = Arc::new(Live::open(team.swarm.home().clone()).unwrap());
    let ownership = Arc::clone(team.swarm.ownership());
    let checkpoints = Arc::new(Checkpoints::new(live, Arc::clone(&team.store), ownership));
    checkpoints.serve(Arc::new(Nothing));
    Races::new(Arc::clone(&team.swarm), Arc::clone(projects), checkpoints)
}

fn request(copies: u32, task: &str, tokens: Option<u64>) -> RaceRequest {
    RaceRequest {
        channel: "dev".parse().unwrap(),
        copies,
        project: "lib".parse().unwrap(),
        task: task.to_owned(),
        tokens,
        cost: None,
        minutes: Some(30),
        by: Party::human("ann"),
    }
}

#[tokio::test]
async fn a_race_gives_each_copy_the_task_and_branches_of_its_own() {
    let scene = Scene::new().await;
    let config = scene.team.swarm.config();
    let lib = &config.projects[0];
    for copy in 1..=3 {
        assert!(lib.has_agent(&scene.coder(copy)), "it works on the project of its original");
        let channel = format!("dev-r1-{copy}").parse().unwrap();
        let posts = scene.team.store.posts().page(&channel, Page::Last, 5).await.unwrap();
        let last = posts.last().unwrap();
        assert_eq!((last.author.to_string(), last.content.as_str()), ("human:ann".into(), "fix it @coder"));
        assert_eq!(last.mentions.agents, [scene.coder(copy)], "the copy is meant");
        let workspace = scene.team.swarm.home().workspace(&scene.coder(copy));
        assert_eq!(std::fs::read_to_string(workspace.join("notes")).unwrap(), "coder");
    }
    let told = scene.team.store.posts().page(&"dev".parse().unwrap(), Page::Last, 1).await.unwrap();
    assert!(told[0].content.contains("began race 1"), "{}", told[0].content);
    assert!(scene.team.audited().await.contains(&"race.start".to_owned()));
    // Nothing of a race that can't be begun is made.
    for (request, text) in [
        (request(1, "x", None), "2 to 8 copies"),
        (request(9, "x", None), "2 to 8 copies"),
        (request(2, " ", None), "task is empty"),
        (request(2, "x", Some(0)), "leaves no room"),
        (request(8, "x", None), "maxAgents"),
        (RaceRequest { project: "none".parse().unwrap(), ..request(2, "x", None) }, "no project none"),
    ] {
        let refused = scene.races.begin(request).await.unwrap_err().to_string();
        assert!(refused.contains(text), "{refused}");
    }
    assert_eq!(scene.team.store.races().list(9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_gateway_whose_clock_is_ahead_ends_no_copy_too_early() {
    let scene = Scene::new().await;
    let team = Team::in_group(Ownership::for_test(&["coder", "tester"], &[]));
    let races = races(&team, &scene.projects);
    let end = |now: i64, copy: CopyFacts| rule::end(races.race_facts(&scene.race, now), copy);
    let (over, idle) = (scene.race.ends_at.unwrap(), 120_000);
    let busy = CopyFacts { is_busy: true, ..CopyFacts::default() };
    assert_eq!(end(over + MAX_DIFFERENCE - 1, busy), None);
    assert_eq!(end(over + MAX_DIFFERENCE, busy), Some(CopyEnd::Late));
    // Its last turn has just ended at a gateway whose clock is behind.
    let at = scene.race.created_at + 1;
    let quiet = CopyFacts { last_at: Some(at), ..CopyFacts::default() };
    assert_eq!(end(at + MAX_DIFFERENCE + idle - 1, quiet), None);
    assert_eq!(end(at + MAX_DIFFERENCE + idle, quiet), Some(CopyEnd::GaveUp));
}

#[tokio::test]
async fn a_race_that_another_gateway_ends_ends_the_turns_here() {
    let team = Team::new();
    let projects = Arc::new(Projects::new(Arc::clone(&team.swarm)));
    let here = Arc::new(races(&team, &projects));
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    here.end_turns_by(move |agent| drop(sender.send(agent.clone())));
    let stop = CancellationToken::new();
    let following = tokio::spawn(Arc::clone(&here).follow_freezes(stop.clone()));
    // The other gateway writes into the database, and a notice has this one read it again.
    for (agent, by) in [("tester", "human:ann"), ("coder", "system")] {
        let reason = Some("race 7: another copy has won".to_owned());
        let freeze = Freeze { at: 1, by: by.to_owned(), reason };
        let entry = Actor::system().entry("agent.freeze", agent, Level::Yellow, String::new());
        team.store.freezes().set(agent.parse().unwrap(), Some(freeze), entry, 1).await.unwrap();
        team.swarm.reload_frozen().await.unwrap();
    }
    let first = tokio::time::timeout(Duration::from_secs(30), ended.recv()).await.unwrap();
    assert_eq!(first.unwrap().as_str(), "coder");
    stop.cancel();
    following.await.unwrap();
    assert!(ended.try_recv().is_err(), "a person's freeze lets the turn go on later");
}

#[tokio::test]
async fn the_right_copy_wins_and_is_merged_and_the_others_stop() {
    let scene = Scene::new().await;
    let [weak, broken, right] = scene.play().await;
    let states = [scene.state(&weak).await, scene.state(&broken).await, scene.state(&right).await];
    assert_eq!(states, [SubmissionState::Proven, SubmissionState::Refused, SubmissionState::Proven]);
    assert_eq!(scene.tip(), scene.base, "nothing of a race is merged before the decision");
    scene.races.look(unix_ms()).await;
    assert_eq!(scene.race().await.state, RaceState::Running, "copy 2 still works");
    assert!(scene.team.swarm.is_frozen(&scene.coder(3)), "who has delivered waits");
    assert!(!scene.team.swarm.is_frozen(&scene.coder(2)));
    let again = scene.submit(3, &[("more", "")]).await.unwrap_err();
    assert!(matches!(again, ProjectsError::Forbidden(_)), "{again}");

    scene.time_is_over().await;
    let race = scene.race().await;
    assert_eq!((race.state, race.winner, race.chosen_by.clone()), (RaceState::Decided, Some(3), None));
    assert!(race.why.contains("its receipt is accepted"), "{}", race.why);
    assert!(race.copies[1].why.contains("the time was over"), "{:?}", race.copies[1]);
    assert!(!scene.team.swarm.is_frozen(&scene.coder(3)), "the winner goes on");
    scene.run_train().await;
    assert_eq!(scene.state(&right).await, SubmissionState::Merged);
    assert_ne!(scene.tip(), scene.base);
    scene.races.look(unix_ms()).await;
    assert_eq!(scene.state(&weak).await, SubmissionState::Withdrawn);
    assert_eq!(scene.race().await.settled, Settled::Finally);
    for loser in [1, 2] {
        assert_eq!(scene.channel_state(loser).await, ChannelState::Archived);
        assert!(scene.team.swarm.is_frozen(&scene.coder(loser)));
    }
    assert_eq!(scene.channel_state(3).await, ChannelState::Active);
    let late = scene.races.keep(&Actor::human("ann"), 1, Some(1)).await.unwrap_err();
    assert!(matches!(late, RacesError::Merged(1)), "{late}");
    let told = scene.team.store.posts().page(&"dev".parse().unwrap(), Page::Last, 1).await.unwrap();
    assert!(told[0].content.contains("copy 3 (#dev-r1-3) has won"), "{}", told[0].content);
}

#[tokio::test]
async fn a_race_whose_project_wants_a_review_asks_for_it_after_the_decision() {
    let scene = Scene::with(None, "agent").await;
    let [_, _, right] = scene.play().await;
    scene.time_is_over().await;
    scene.run_train().await;
    let waiting = scene.projects.submission(&"lib".parse().unwrap(), right.id).await.unwrap();
    assert_eq!(waiting.state, SubmissionState::Review, "{}", waiting.detail);
    let reviewer = waiting.reviewer.unwrap();
    assert!(
        ["coder", "orchestrator"].contains(&reviewer.as_str()),
        "a copy that lost reviews nothing: {reviewer}"
    );
    assert_eq!(scene.tip(), scene.base);
}

#[tokio::test]
async fn without_an_accepted_receipt_a_person_chooses_and_still_accepts() {
    let scene = Scene::new().await;
    let weak = scene.submit(2, &[("weak", "")]).await.unwrap();
    scene.submit(1, &[("broken", "")]).await.unwrap();
    scene.run_train().await;
    let ann = Actor::human("ann");
    let early = scene.races.keep(&ann, 1, Some(2)).await.unwrap_err();
    assert!(matches!(early, RacesError::State { state: RaceState::Running, .. }), "{early}");
    scene.time_is_over().await;
    assert_eq!(scene.race().await.state, RaceState::Person);
    assert_eq!(scene.channel_state(2).await, ChannelState::Active);
    let nothing = scene.races.keep(&ann, 1, Some(1)).await.unwrap_err();
    assert!(matches!(nothing, RacesError::NothingDelivered { number: 1, .. }), "{nothing}");
    let kept = scene.races.keep(&ann, 1, None).await.unwrap();
    assert_eq!((kept.winner, kept.chosen_by.as_deref()), (Some(2), Some("human:ann")));
    scene.run_train().await;
    assert_eq!(
        scene.state(&weak).await,
        SubmissionState::Review,
        "what was changed of the tests is still looked at"
    );
    scene.projects.accept(&ann, &"lib".parse().unwrap(), weak.id).await.unwrap();
    scene.run_train().await;
    assert_eq!(scene.state(&weak).await, SubmissionState::Merged);
}

#[tokio::test]
async fn a_person_can_choose_another_winner_until_one_is_merged() {
    let scene = Scene::new().await;
    let first = scene.submit(1, &[("fix", "1\n")]).await.unwrap();
    let second = scene.submit(2, &[("fix", "1\n"), ("more", "2\n")]).await.unwrap();
    scene.run_train().await;
    scene.time_is_over().await;
    assert_eq!(scene.race().await.winner, Some(1), "the smaller change");
    assert_eq!(scene.channel_state(2).await, ChannelState::Archived);
    scene.races.keep(&Actor::human("ann"), 1, Some(2)).await.unwrap();
    assert_eq!(scene.state(&first).await, SubmissionState::Proven);
    assert_eq!(
        (scene.channel_state(1).await, scene.channel_state(2).await),
        (ChannelState::Archived, ChannelState::Active)
    );
    assert!(scene.team.swarm.is_frozen(&scene.coder(1)) && !scene.team.swarm.is_frozen(&scene.coder(2)));
    scene.run_train().await;
    assert_eq!(scene.state(&second).await, SubmissionState::Merged);
    scene.races.look(unix_ms()).await;
    assert_eq!(scene.state(&first).await, SubmissionState::Withdrawn);
}

#[tokio::test]
async fn a_tip_that_moved_during_the_race_means_another_check_of_the_winner_alone() {
    let scene = Scene::new().await;
    let moved = scene.sample.commit(&[scene.base], &[&BASE[..], &[("owner", "")]].concat());
    let [_, _, right] = scene.play().await;
    let found = scene.projects.submission(&"lib".parse().unwrap(), right.id).await.unwrap();
    assert_eq!(found.base, Some(scene.base.to_string()));
    scene.sample.set("main", moved);
    let late = scene.submit(2, &[("fix", "late\n")]).await.unwrap();
    scene.run_train().await;
    let found = scene.projects.submission(&"lib".parse().unwrap(), late.id).await.unwrap();
    assert_eq!(found.base, Some(scene.base.to_string()), "all copies are joined with the same tip");
    scene.races.look(unix_ms()).await;
    let winner = scene.race().await.winner.unwrap();
    scene.run_train().await;
    let merged = if winner == 2 { late } else { right };
    assert_eq!(scene.state(&merged).await, SubmissionState::Merged);
    let tree = scene.sample.repository.commit(scene.tip()).unwrap().tree().unwrap();
    assert!(tree.get_name("owner").is_some() && tree.get_name("fix").is_some());
}

#[tokio::test]
async fn a_race_that_is_stopped_or_delivers_nothing_has_no_winner() {
    let scene = Scene::new().await;
    let stopped = scene.races.stop(&Actor::human("ann"), 1).await.unwrap();
    assert_eq!((stopped.state, stopped.winner), (RaceState::Stopped, None));
    assert!(matches!(scene.races.stop(&Actor::human("ann"), 1).await, Err(RacesError::State { .. })));
    assert!((1..=3).all(|copy| scene.team.swarm.is_frozen(&scene.coder(copy))));

    let scene = Scene::new().await;
    scene.time_is_over().await;
    assert_eq!(scene.race().await.state, RaceState::Over);
    let nothing = scene.races.keep(&Actor::human("ann"), 1, None).await.unwrap_err();
    assert!(matches!(nothing, RacesError::NothingDelivered { .. }), "{nothing}");
}

#[tokio::test]
async fn dropping_a_race_leaves_nothing_of_the_losers() {
    let scene = Scene::new().await;
    scene.play().await;
    let early = scene.races.drop_losers(&Actor::human("ann"), 1).await.unwrap_err();
    assert!(matches!(early, RacesError::State { .. }), "{early}");
    scene.time_is_over().await;
    scene.run_train().await;
    scene.races.drop_losers(&Actor::human("ann"), 1).await.unwrap();
    let ended = operation::finish_all(&scene.team.swarm, &Nothing).await.unwrap();
    assert_eq!(ended.len(), 4, "both agents of two copies");
    assert!(ended.iter().all(|(_, how)| how.is_ok()), "{ended:?}");
    let home = scene.team.swarm.home();
    let config = scene.team.swarm.config();
    for copy in [1, 2] {
        for agent in ["coder", "tester"] {
            let id: AgentId = format!("{agent}-r1-{copy}").parse().unwrap();
            assert!(config.agent(&id).is_none(), "{id}");
            assert!(!home.workspace(&id).exists() && !home.agent(&id).exists(), "{id}");
            assert!(!scene.team.store.agents().has_data(&id).await.unwrap(), "{id}");
        }
        assert_eq!(scene.channel_state(copy).await, ChannelState::Archived);
    }
    assert!(!config.projects[0].agents.iter().any(|agent| agent.as_str().contains("-r1-1")));
    let branches = scene.sample.repository.references("refs/heads/flock/").unwrap();
    assert_eq!(
        branches.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["refs/heads/flock/coder-r1-3/work"]
    );
    assert!(scene.sample.repository.references("refs/flock/train/").unwrap().is_empty());
    assert!(
        config.agent(&scene.coder(3)).is_some() && home.workspace(&scene.coder(3)).exists(),
        "the winner is kept"
    );
    // What the copies did can still be looked at.
    let shown = scene.races.shown(&scene.race().await).await.unwrap();
    assert_eq!((&shown["winner"], shown["droppedAt"].is_null()), (&json!(3), false));
    assert!(shown["copies"][0]["why"].as_str().unwrap().contains("copy 3 is better"), "{shown}");
}

fn call(agent: &str) -> ModelCall {
    ModelCall {
        agent: agent.parse().unwrap(),
        session: format!("agent:{agent}:flock:main:ann").parse().unwrap(),
        turn: TurnId::new(),
        model: "anthropic/claude-opus-4-5".parse().unwrap(),
        input_estimate: 900,
        max_output: 100,
        step: 1,
        server: None,
    }
}

#[tokio::test]
async fn all_copies_share_one_budget_and_its_end_decides_the_race() {
    use crate::agent::CallUsage;
    let scene = Scene::with(Some(2_500), "none").await;
    let watch = TeamOversight::new(Arc::clone(&scene.team.swarm), Arc::new(NoOversight));
    let first = watch.reserve(&call("coder-r1-1")).await.unwrap();
    let second = watch.reserve(&call("tester-r1-2")).await.unwrap();
    // Two calls run, and nothing is used yet: the third one waits, and the race goes on.
    let refused = watch.reserve(&call("coder-r1-3")).await.unwrap_err().to_string();
    assert!(refused.contains("the budget of race 1"), "{refused}");
    assert_eq!(scene.race().await.spent_at, None);
    // The original has no part in it.
    let other = watch.reserve(&call("coder")).await.unwrap();
    watch.settle(other, CallUsage::Begun);
    watch.settle(first, CallUsage::Begun);
    watch.settle(second, CallUsage::Begun);
    scene.team.store.settle().await.unwrap();
    watch.reserve(&call("coder-r1-3")).await.unwrap_err();
    assert!(scene.race().await.spent_at.is_some());
    let found = scene.submit(2, &[("fix", "")]).await.unwrap();
    scene.races.look(unix_ms()).await;
    assert!((1..=3).all(|copy| scene.team.swarm.is_frozen(&scene.coder(copy))), "nobody goes on");
    assert_eq!(scene.race().await.state, RaceState::Running, "what was submitted is still checked");
    scene.run_train().await;
    scene.races.look(unix_ms()).await;
    let race = scene.race().await;
    assert_eq!((race.state, race.winner), (RaceState::Decided, Some(2)));
    assert!(race.copies[0].why.contains("the budget was used up"), "{:?}", race.copies[0]);
    scene.run_train().await;
    assert_eq!(scene.state(&found).await, SubmissionState::Merged);
    let shown = scene.races.shown(&race).await.unwrap();
    assert_eq!(shown["used"]["tokens"], 2000);
    // After the decision the winner works under its own budgets.
    watch.reserve(&call("coder-r1-2")).await.unwrap();
}

/// Polls a future at most `polls` times and drops it then, as a kill would.
async fn cut<T>(scene: &Scene, work: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    let done = poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        left = left.saturating_sub(1);
        if left == 0 { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    // What was given to the writer is written all the same. After a kill, no write comes behind the next process's look.
    scene.team.store.sync().await.unwrap();
    done
}

#[tokio::test]
async fn whatever_is_cut_off_the_next_process_completes_the_race() {
    for polls in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        let scene = Scene::new().await;
        let [_, _, right] = scene.play().await;
        let over = scene.race.ends_at.unwrap();
        cut(&scene, scene.races.look(over), polls).await;
        // The next process knows nothing of this one.
        let next = races(&scene.team, &scene.projects);
        next.look(over).await;
        let race = scene.race().await;
        assert_eq!((race.state, race.winner), (RaceState::Decided, Some(3)), "{polls}");
        cut(&scene, scene.train.advance(&"lib".parse().unwrap()), polls).await;
        scene.run_train().await;
        assert_eq!(scene.state(&right).await, SubmissionState::Merged, "{polls}");
        cut(&scene, scene.races.look(over), polls).await;
        races(&scene.team, &scene.projects).look(over).await;
        races(&scene.team, &scene.projects).look(over).await;
        assert_eq!(scene.race().await.settled, Settled::Finally, "{polls}");
        cut(&scene, scene.races.drop_losers(&Actor::human("ann"), 1), polls).await;
        // Nothing of the request is there, or all of it will be.
        if scene.race().await.dropped_at.is_some() {
            // What was cut off may still write on a thread of its own, so that the first look finds it busy. A gateway looks again.
            let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
            loop {
                races(&scene.team, &scene.projects).look(over).await;
                operation::finish_all(&scene.team.swarm, &Nothing).await.unwrap();
                if scene.team.swarm.config().agent(&scene.coder(1)).is_none() {
                    break;
                }
                assert!(std::time::Instant::now() < end, "{polls}");
                tokio::task::yield_now().await;
            }
        }
        assert!(scene.team.swarm.config().agent(&scene.coder(3)).is_some(), "{polls}");
    }
}
