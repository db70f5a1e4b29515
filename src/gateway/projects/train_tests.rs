use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::config::{Live, Review};
use crate::gateway::projects::checks::SandboxChecks;
use crate::gateway::projects::{Answers, ReviewVerdict, Work};
use crate::id::{AgentId, TurnId};
use crate::project::testing::Sample;
use crate::store::NewFinding;
use crate::swarm::testing::Team;

/// Checks that fail for a tree with a file `broken`, and ask for a person if there is a file `weak`. They remember the
/// trees that passed.
#[derive(Default)]
struct Checks {
    folder: Mutex<std::path::PathBuf>,
    passed: Mutex<BTreeSet<String>>,
    count: AtomicUsize,
    /// Runs once, in the middle of the next check.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    is_down: Mutex<bool>,
}

impl TreeChecks for Checks {
    fn check(&self, work: CheckWork) -> BoxFuture<'_, Result<CheckVerdict, ProjectsError>> {
        Box::pin(async move {
            self.count.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
            if let Some(meanwhile) = self.meanwhile.lock().unwrap().take() {
                meanwhile();
            }
            if *self.is_down.lock().unwrap() {
                return Err(ProjectsError::Invalid("the engine is down".into()));
            }
            let repository = ProjectRepository::open(&self.folder.lock().unwrap())?;
            let tree = repository.commit(work.candidate)?.tree().unwrap();
            if tree.get_name("broken").is_some() {
                return Ok(CheckVerdict::Failed { receipt: Some("r0".into()), log: "1 test failed".into() });
            }
            self.passed.lock().unwrap().insert(tree.id().to_string());
            let reasons = tree.get_name("weak").map(|_| "tests were removed".to_owned());
            Ok(CheckVerdict::Passed { receipt: Some("r1".into()), reasons: reasons.into_iter().collect() })
        })
    }
}

struct Scene {
    team: Team,
    projects: Arc<Projects>,
    checks: Arc<Checks>,
    train: Train,
    sample: Sample,
    base: ObjectId,
}

fn name() -> ProjectName {
    "lib".parse().unwrap()
}

impl Scene {
    /// Makes a project whose tip has the files `a` and `b`.
    fn new(review: Review, agents: &[&str]) -> Self {
        let listed =
            json!({"lib": {"repo": "/srv/lib", "agents": agents, "checks": ["true"], "review": review}});
        let team = Team::with(|own| own["projects"] = listed);
        let folder = team.swarm.home().project_repository(&name());
        let repository = ProjectRepository::create(&folder, "main").unwrap();
        let sample = Sample { repository, folder: tempfile::tempdir().unwrap() };
        let base = sample.commit(&[], &[("a", "1\n"), ("b", "1\n")]);
        sample.set("main", base);
        let projects = Arc::new(Projects::new(Arc::clone(&team.swarm)));
        let checks = Arc::new(Checks { folder: Mutex::new(folder), ..Checks::default() });
        let train = Train::new(Arc::clone(&projects), checks.clone());
        Self { team, projects, checks, train, sample, base }
    }

    /// Pushes a commit with these files to an agent's branch and submits it.
    async fn submit(&self, agent: &str, files: &[(&str, &str)]) -> Result<Submission, ProjectsError> {
        self.submit_with(agent, files, Answers::default()).await
    }

    async fn submit_with(
        &self,
        agent: &str,
        files: &[(&str, &str)],
        answers: Answers,
    ) -> Result<Submission, ProjectsError> {
        let commit = self.sample.commit_as(&format!("by {agent}"), &[self.base], files);
        self.sample.set(&format!("flock/{agent}/work"), commit);
        let session: crate::id::SessionKey = format!("agent:{agent}:flock:main:kim").parse().unwrap();
        let by = self.team.by(agent, session.as_str());
        let work = Work {
            agent: agent.parse().unwrap(),
            branch: None,
            title: None,
            session: Some(session),
            task: None,
            answers,
        };
        self.projects.submit(&by, &name(), work).await.map(|done| done.submission)
    }

    async fn run(&self) {
        self.train.drain(&name()).await.unwrap();
    }

    async fn state(&self, submission: &Submission) -> Submission {
        self.projects.submission(&name(), submission.id).await.unwrap()
    }

    fn tip(&self) -> ObjectId {
        self.sample.repository.branch("main").unwrap().unwrap()
    }

    fn has(&self, file: &str) -> bool {
        let tree = self.sample.repository.commit(self.tip()).unwrap().tree().unwrap();
        tree.get_name(file).is_some()
    }

    /// Returns what an agent is told in its session next.
    async fn told(&self, session: &str) -> String {
        let item = self.team.take(&session.parse().unwrap(), TurnId::new()).await;
        item.map(|item| item.text).unwrap_or_default()
    }

    async fn review(&self, agent: &str, number: i64, verdict: Value) -> Result<Submission, ProjectsError> {
        let verdict: ReviewVerdict = serde_json::from_value(verdict).unwrap();
        let id: AgentId = agent.parse().unwrap();
        let by = self.team.by(agent, &format!("agent:{agent}:flock:request:review-{number}"));
        self.projects.review(&by, &id, number, verdict).await
    }
}

#[tokio::test]
async fn a_branch_that_passes_moves_the_tip_and_its_author_is_told() {
    let scene = Scene::new(Review::None, &["coder", "tester"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    scene.run().await;
    let after = scene.state(&found).await;
    assert_eq!((after.state, after.receipt.as_deref()), (SubmissionState::Merged, Some("r1")));
    assert_eq!(after.candidate, Some(scene.tip().to_string()));
    assert!(scene.told("agent:coder:flock:main:kim").await.contains("it is merged"));
    assert!(scene.team.notified_sessions().contains(&"agent:coder:flock:main:kim".to_owned()));
    assert!(scene.sample.repository.references("refs/flock/train/").unwrap().is_empty());
    assert_eq!(scene.team.audited().await, ["project.submit", "project.check", "project.merge"]);
}

#[tokio::test]
async fn a_branch_that_fails_goes_back_with_its_log_and_the_others_go_on() {
    let scene = Scene::new(Review::None, &["coder", "tester"]);
    let bad = scene.submit("coder", &[("a", "1\n"), ("b", "1\n"), ("broken", "")]).await.unwrap();
    let good = scene.submit("tester", &[("a", "1\n"), ("b", "1\n"), ("c", "")]).await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&bad).await.state, SubmissionState::Refused);
    assert!(scene.told("agent:coder:flock:main:kim").await.contains("1 test failed"));
    assert_eq!(scene.state(&good).await.state, SubmissionState::Merged);
    assert!(scene.has("c") && !scene.has("broken"));
}

#[tokio::test]
async fn work_that_is_two_files_here_and_one_elsewhere_goes_back() {
    let scene = Scene::new(Review::None, &["coder", "tester"]);
    let bad = scene.submit("coder", &[("a", "1\n"), ("b", "1\n"), ("A", "")]).await.unwrap();
    // The tree is refused before a sandbox is made for it, so these checks need no engine.
    let store = Arc::clone(scene.team.swarm.store());
    let live = Arc::new(Live::open(scene.team.swarm.home().clone()).unwrap());
    let checks = SandboxChecks::new(live, store, CancellationToken::new());
    Train::new(Arc::clone(&scene.projects), Arc::new(checks)).drain(&name()).await.unwrap();
    assert_eq!(scene.state(&bad).await.state, SubmissionState::Refused);
    let told = scene.told("agent:coder:flock:main:kim").await;
    assert!(told.contains(r#"the names "A" and "a" are one on some machines"#), "{told}");
    assert_eq!(scene.tip(), scene.base);
}

#[tokio::test]
async fn the_later_one_of_a_conflict_is_told_with_both_sides() {
    let scene = Scene::new(Review::None, &["coder", "tester"]);
    let first = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    let second = scene.submit("tester", &[("a", "3\n"), ("b", "1\n")]).await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&first).await.state, SubmissionState::Merged);
    assert_eq!(scene.state(&second).await.state, SubmissionState::Conflict);
    let told = scene.told("agent:tester:flock:main:kim").await;
    assert!(
        told.contains("\"by tester\"") && told.contains("\"by coder\"") && told.contains("\na: "),
        "{told}"
    );
}

#[tokio::test]
async fn a_conflict_is_found_when_work_is_submitted() {
    let scene = Scene::new(Review::None, &["coder", "tester"]);
    let other = scene.sample.commit(&[scene.base], &[("a", "9\n"), ("b", "1\n")]);
    scene.sample.set("flock/tester/work", other);
    let commit = scene.sample.commit(&[scene.base], &[("a", "2\n"), ("b", "1\n")]);
    scene.sample.set("flock/coder/work", commit);
    let tester = "tester".parse().unwrap();
    scene.projects.claim(&tester, &name(), &["a".to_owned()], None).await.unwrap();
    let work = Work {
        agent: "coder".parse().unwrap(),
        branch: None,
        title: Some("x".into()),
        session: None,
        task: None,
        answers: Answers::default(),
    };
    let done = scene.projects.submit(&Actor::human("kim"), &name(), work).await.unwrap();
    assert_eq!(done.conflicts[0].0.to_string(), "flock/tester/work");
    assert_eq!(done.conflicts[0].1[0].path, "a");
    assert_eq!(done.claimed[0].agent, tester);
}

#[tokio::test]
async fn a_tip_that_moved_during_the_check_means_another_check() {
    let scene = Scene::new(Review::None, &["coder"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    let moved = scene.sample.commit(&[scene.base], &[("a", "1\n"), ("b", "1\n"), ("owner", "")]);
    let folder = scene.sample.repository.folder().to_owned();
    let base = scene.base;
    *scene.checks.meanwhile.lock().unwrap() = Some(Box::new(move || {
        let change = RefChange { name: "refs/heads/main".into(), old: Some(base), new: Some(moved) };
        ProjectRepository::open(&folder).unwrap().update(&[change]).unwrap();
    }));
    scene.run().await;
    assert_eq!(scene.state(&found).await.state, SubmissionState::Merged);
    assert_eq!(scene.checks.count.load(Ordering::Relaxed), 2);
    let tree = scene.sample.repository.commit(scene.tip()).unwrap().tree_id().to_string();
    assert!(scene.checks.passed.lock().unwrap().contains(&tree) && scene.has("owner"));
}

#[tokio::test]
async fn work_without_anything_new_and_work_that_was_not_pushed_are_refused() {
    let scene = Scene::new(Review::None, &["coder"]);
    scene.sample.set("flock/coder/work", scene.base);
    let work = |agent: &str, branch: Option<&str>| Work {
        agent: agent.parse().unwrap(),
        branch: branch.map(str::to_owned),
        title: None,
        session: None,
        task: None,
        answers: Answers::default(),
    };
    let submit = async |work| scene.projects.submit(&Actor::human("kim"), &name(), work).await.unwrap_err();
    assert!(matches!(submit(work("coder", None)).await, ProjectsError::NothingNew { .. }));
    assert!(matches!(submit(work("coder", Some("none"))).await, ProjectsError::NotPushed { .. }));
    assert!(matches!(submit(work("coder", Some("../x"))).await, ProjectsError::Invalid(_)));
    assert!(matches!(submit(work("tester", None)).await, ProjectsError::NotAssigned { .. }));
    let task = Work { task: Some("none".into()), ..work("coder", None) };
    assert!(matches!(submit(task).await, ProjectsError::Invalid(_)));
}

#[tokio::test]
async fn a_reviewer_sends_work_back_once_and_then_approves() {
    let scene = Scene::new(Review::Agent, &["coder", "tester"]);
    let first = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&first).await.state, SubmissionState::Review);
    let asked = scene.told(&format!("agent:tester:flock:request:review-{}", first.id)).await;
    assert!(asked.contains("receipt r1") && asked.contains("origin/flock/coder/work"), "{asked}");
    let blocking =
        json!({"approve": false, "findings": [{"text": "off by one", "path": "a", "blocking": true}]});
    // Neither the author nor anybody who was not asked may review.
    for agent in ["coder", "orchestrator"] {
        let refused = scene.review(agent, first.id, json!({"approve": true})).await.unwrap_err();
        assert!(matches!(refused, ProjectsError::Forbidden(_)), "{agent}");
    }
    scene.review("tester", first.id, blocking).await.unwrap();
    assert_eq!(scene.state(&first).await.state, SubmissionState::Refused);
    let told = scene.told("agent:coder:flock:main:kim").await;
    assert!(told.contains("(blocking) a: off by one"), "{told}");

    let files = [("a", "3\n"), ("b", "1\n")];
    let unanswered = scene.submit("coder", &files).await.unwrap_err();
    assert!(matches!(unanswered, ProjectsError::Unanswered(_)), "{unanswered}");
    let finding = scene.projects.findings(first.id).await.unwrap()[0].id;
    let answers = Answers::ByNumber(vec![(finding, "corrected".into())]);
    let second = scene.submit_with("coder", &files, answers).await.unwrap();
    scene.run().await;
    scene.review("tester", second.id, json!({"approve": true})).await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&second).await.state, SubmissionState::Merged);
    // What was reviewed is what was checked: the approval needs no other check.
    assert_eq!(scene.checks.count.load(Ordering::Relaxed), 2);
    let kept = scene.projects.findings(first.id).await.unwrap();
    assert_eq!(kept[0].answer.as_deref(), Some("corrected"));
}

#[tokio::test]
async fn an_agents_approval_does_not_replace_a_persons() {
    let scene = Scene::new(Review::Agent, &["coder", "tester"]);
    let found = scene.submit("coder", &[("a", "1\n"), ("b", "1\n"), ("weak", "")]).await.unwrap();
    scene.run().await;
    scene.review("tester", found.id, json!({"approve": true})).await.unwrap();
    scene.run().await;
    let waiting = scene.state(&found).await;
    assert_eq!(waiting.state, SubmissionState::Review);
    assert!(waiting.detail.contains("a person has to accept it: tests were removed"), "{}", waiting.detail);
    assert_eq!(scene.tip(), scene.base);
    scene.projects.accept(&Actor::human("kim"), &name(), found.id).await.unwrap();
    scene.run().await;
    let after = scene.state(&found).await;
    assert_eq!((after.state, after.accepted_by.as_deref()), (SubmissionState::Merged, Some("human:kim")));
    assert!(scene.projects.accept(&Actor::human("kim"), &name(), found.id).await.is_err(), "it is over");
}

#[tokio::test]
async fn a_person_accepts_only_what_was_shown() {
    let scene = Scene::new(Review::Person, &["coder"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&found).await.state, SubmissionState::Review);
    scene.projects.accept(&Actor::human("kim"), &name(), found.id).await.unwrap();
    // The owner's side moves before the merge, and the joined tree has a reason that nobody has seen.
    let moved = scene.sample.commit(&[scene.base], &[("a", "1\n"), ("b", "1\n"), ("weak", "")]);
    scene.sample.set("main", moved);
    scene.run().await;
    let again = scene.state(&found).await;
    assert_eq!((again.state, again.accepted_by), (SubmissionState::Review, None));
    assert_eq!(scene.tip(), moved);
}

#[tokio::test]
async fn without_another_agent_a_person_reviews() {
    let scene = Scene::new(Review::Agent, &["coder"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    scene.run().await;
    let waiting = scene.state(&found).await;
    assert_eq!(waiting.state, SubmissionState::Review);
    assert!(waiting.detail.contains("no other agent"), "{}", waiting.detail);
}

#[tokio::test]
async fn work_that_is_taken_back_or_refused_is_not_merged() {
    let scene = Scene::new(Review::Person, &["coder", "tester"]);
    let first = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    let second = scene.submit("tester", &[("a", "1\n"), ("b", "2\n")]).await.unwrap();
    scene.projects.withdraw(&Actor::human("kim"), &name(), first.id).await.unwrap();
    scene.run().await;
    scene.projects.refuse(&Actor::human("kim"), &name(), second.id, "not now").await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&first).await.state, SubmissionState::Withdrawn);
    assert_eq!(scene.state(&second).await.state, SubmissionState::Refused);
    let told =
        [scene.told("agent:tester:flock:main:kim").await, scene.told("agent:tester:flock:main:kim").await];
    assert!(told[0].contains("a person reviews it") && told[1].contains("not now"), "{told:?}");
    assert_eq!(scene.tip(), scene.base);
}

#[tokio::test]
async fn work_that_is_taken_back_after_its_checks_is_not_merged() {
    let scene = Scene::new(Review::None, &["coder", "tester"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    // The train needs this right before it moves the tip.
    let held = scene.projects.hold(&name()).await.unwrap();
    let taken_back = async {
        while scene.state(&found).await.checked.is_none() {
            tokio::task::yield_now().await;
        }
        let submissions = scene.team.store.submissions();
        let to = SubmissionChange::to(SubmissionState::Withdrawn);
        submissions.step(found.id, &SubmissionState::OPEN, to, None, unix_ms()).await.unwrap().unwrap();
        drop(held);
    };
    let both = async { tokio::join!(scene.run(), taken_back) };
    tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    assert_eq!(scene.state(&found).await.state, SubmissionState::Withdrawn);
    assert_eq!(scene.tip(), scene.base);
}

#[tokio::test]
async fn checks_that_can_not_run_say_nothing_about_the_work() {
    let scene = Scene::new(Review::None, &["coder"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    *scene.checks.is_down.lock().unwrap() = true;
    assert!(scene.train.drain(&name()).await.is_err());
    assert!(scene.state(&found).await.state.is_open());
    *scene.checks.is_down.lock().unwrap() = false;
    scene.run().await;
    assert_eq!(scene.state(&found).await.state, SubmissionState::Merged);
}

/// Polls a future at most `polls` times and drops it then, as a kill would.
async fn cut<T>(work: impl Future<Output = T>, polls: usize) -> Option<T> {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|context| {
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Some(done));
        }
        left = left.saturating_sub(1);
        if left == 0 { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

#[tokio::test]
async fn whatever_is_cut_off_the_tip_stays_green_and_no_commit_is_lost() {
    // `FLOCK_TEST_TRAIN_RUNS=100` runs as many.
    let runs = std::env::var("FLOCK_TEST_TRAIN_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(10);
    for seed in 0..runs {
        let scene = Scene::new(Review::None, &["orchestrator", "coder", "tester"]);
        let mut random = StdRng::seed_from_u64(seed);
        let mut all = Vec::new();
        for round in 0..4 {
            for agent in ["orchestrator", "coder", "tester"] {
                let text = format!("{round}\n");
                let own = format!("{agent}-{round}");
                // Some work of two agents conflicts, and some is broken.
                let shared = if random.random_bool(0.3) { text.as_str() } else { "1\n" };
                let mut files = vec![("a", shared), ("b", "1\n"), (&*own, "")];
                if random.random_bool(0.2) {
                    files.push(("broken", ""));
                }
                let branch = format!("flock/{agent}/work");
                all.push(scene.submit(agent, &files).await.unwrap());
                let before = scene.sample.repository.branch(&branch).unwrap();
                cut(scene.train.advance(&name()), random.random_range(1..12)).await;
                assert_eq!(scene.sample.repository.branch(&branch).unwrap(), before, "nobody else writes it");
                let tip = scene.tip();
                let tree = scene.sample.repository.commit(tip).unwrap().tree_id().to_string();
                let is_green = tip == scene.base || scene.checks.passed.lock().unwrap().contains(&tree);
                assert!(is_green, "seed {seed}: the tip {tip} was never checked");
            }
        }
        scene.run().await;
        for submitted in &all {
            let after = scene.state(submitted).await;
            assert!(!after.state.is_open(), "seed {seed}: {after:?}");
            let commit = ObjectId::from_str(&after.commit).unwrap();
            assert!(scene.sample.repository.commit(commit).is_ok());
            let is_in = scene.sample.repository.contains(scene.tip(), commit).unwrap();
            assert_eq!(is_in, after.state == SubmissionState::Merged, "seed {seed}: {after:?}");
        }
    }
}

/// Gives the agent `coder` a task in the project. Returns its id.
async fn assign(scene: &Scene) -> String {
    let by = scene.team.by("tester", "agent:tester:flock:main:kim");
    let coder = "coder".parse().unwrap();
    let task = scene.team.swarm.send_work(&by, &coder, "do it", None, Some(name())).await.unwrap();
    task.id
}

async fn say_done(scene: &Scene, task: &str) {
    let session = "agent:coder:flock:dm:tester".parse().unwrap();
    let turn = TurnId::new();
    assert!(scene.team.swarm.begin_task(task, &session, turn).await.unwrap());
    let end = crate::swarm::TaskEnd::Done("it is done".into());
    scene.team.swarm.end_task(task, &session, turn, end.clone()).await.unwrap();
    // A turn's end may be written again after a kill.
    scene.team.swarm.end_task(task, &session, turn, end).await.unwrap();
}

async fn task_state(scene: &Scene, task: &str) -> (crate::store::TaskState, u32) {
    let found = scene.team.store.tasks().find(task).await.unwrap().unwrap();
    (found.state, found.reminders)
}

/// Submits work for a task.
async fn deliver(scene: &Scene, task: &str, files: &[(&str, &str)]) -> Submission {
    let commit = scene.sample.commit(&[scene.base], files);
    scene.sample.set("flock/coder/work", commit);
    let work = Work {
        agent: "coder".parse().unwrap(),
        branch: None,
        title: None,
        session: None,
        task: Some(task.to_owned()),
        answers: Answers::default(),
    };
    let by = scene.team.by("coder", "agent:coder:flock:dm:tester");
    scene.projects.submit(&by, &name(), work).await.unwrap().submission
}

#[tokio::test]
async fn a_task_is_done_only_when_the_tip_has_its_work() {
    use crate::store::TaskState;
    let scene = Scene::new(Review::None, &["coder"]);
    let task = assign(&scene).await;
    // Said, but nothing is delivered: the assignee is reminded, and the requester hears nothing.
    say_done(&scene, &task).await;
    assert_eq!(task_state(&scene, &task).await, (TaskState::Working, 1));
    assert_eq!(scene.told("agent:coder:flock:dm:tester").await, "do it");
    assert!(scene.told("agent:coder:flock:dm:tester").await.contains("is not done"));
    // Delivered, but it fails: nobody calls it done, and the news begins a turn of the task.
    deliver(&scene, &task, &[("a", "1\n"), ("broken", "")]).await;
    say_done(&scene, &task).await;
    assert_eq!(task_state(&scene, &task).await, (TaskState::Working, 1));
    scene.run().await;
    assert_eq!(task_state(&scene, &task).await.0, TaskState::Working);
    let turn = TurnId::new();
    let item = scene.team.take(&"agent:coder:flock:dm:tester".parse().unwrap(), turn).await.unwrap();
    assert_eq!(item.task.as_deref(), Some(&*task));
    assert!(item.text.contains("1 test failed"), "{}", item.text);
    // Delivered and merged: the answer goes to whoever asked.
    deliver(&scene, &task, &[("a", "1\n"), ("b", "1\n"), ("c", "")]).await;
    say_done(&scene, &task).await;
    scene.run().await;
    assert_eq!(task_state(&scene, &task).await.0, TaskState::Completed);
    assert_eq!(scene.told("agent:tester:flock:main:kim").await, "it is done");
}

#[tokio::test]
async fn work_without_a_task_is_for_the_only_one_of_its_session() {
    let scene = Scene::new(Review::None, &["coder"]);
    let session = "agent:coder:flock:dm:tester".parse().unwrap();
    let elsewhere = "agent:coder:flock:main:kim".parse().unwrap();
    let of = async |session| scene.projects.task_of(&name(), session).await.unwrap();
    assert_eq!(of(&session).await, None);
    let task = assign(&scene).await;
    assert_eq!(of(&session).await, Some(task));
    assert_eq!(of(&elsewhere).await, None);
    assign(&scene).await;
    assert_eq!(of(&session).await, None, "one of two is a guess");
}

#[tokio::test]
async fn a_task_that_is_only_said_to_be_done_fails_in_the_end() {
    use crate::store::TaskState;
    let scene = Scene::new(Review::None, &["coder"]);
    let task = assign(&scene).await;
    for _ in 0..3 {
        say_done(&scene, &task).await;
    }
    assert_eq!(task_state(&scene, &task).await, (TaskState::Working, 3));
    say_done(&scene, &task).await;
    assert_eq!(task_state(&scene, &task).await.0, TaskState::Failed);
    assert!(scene.told("agent:tester:flock:main:kim").await.contains("nothing was delivered"));
    let by = scene.team.by("coder", "agent:coder:flock:main:kim");
    let tester = "tester".parse().unwrap();
    let refused = scene.team.swarm.send_work(&by, &tester, "x", None, Some(name())).await;
    assert!(refused.is_err(), "it does not work on the project");
}

#[tokio::test]
async fn work_that_is_merged_before_the_turn_ends_completes_its_task_then() {
    use crate::store::TaskState;
    let scene = Scene::new(Review::None, &["coder"]);
    let task = assign(&scene).await;
    deliver(&scene, &task, &[("a", "1\n"), ("b", "1\n"), ("c", "")]).await;
    scene.run().await;
    assert_eq!(task_state(&scene, &task).await.0, TaskState::Submitted);
    say_done(&scene, &task).await;
    assert_eq!(task_state(&scene, &task).await, (TaskState::Completed, 0));
}

#[tokio::test]
async fn a_text_without_a_number_answers_the_only_blocking_finding() {
    let scene = Scene::new(Review::Agent, &["coder", "tester"]);
    let submit = async |file: &str, answers| {
        let found = scene.submit_with("coder", &[("a", file), ("b", "1\n")], answers).await;
        scene.run().await;
        found
    };
    let blocking = |text: &str| json!({"text": text, "blocking": true});
    let answer = || Answers::ToTheOnlyOne("done".into());
    let first = submit("2\n", Answers::default()).await.unwrap();
    let two = json!({"approve": false, "findings": [blocking("one"), blocking("two")]});
    scene.review("tester", first.id, two).await.unwrap();
    let refused = submit("3\n", answer()).await.unwrap_err();
    assert!(matches!(refused, ProjectsError::Unanswered(_)), "it could be for either: {refused}");
    let numbers = scene.projects.findings(first.id).await.unwrap();
    let one = Answers::ByNumber(vec![(numbers[0].id, "done".into())]);
    assert!(submit("3\n", one).await.is_err(), "the other one is still open");
    assert!(submit("3\n", answer()).await.is_err(), "a submit that is refused answers nothing");
    let both = Answers::ByNumber(numbers.iter().map(|finding| (finding.id, "done".into())).collect());
    let second = submit("3\n", both).await.unwrap();
    let one = json!({"approve": false, "findings": [blocking("three"), {"text": "a name"}]});
    scene.review("tester", second.id, one).await.unwrap();
    submit("4\n", answer()).await.unwrap();
    let answered = scene.projects.findings(second.id).await.unwrap();
    assert_eq!(answered[0].answer.as_deref(), Some("done"));
}

#[tokio::test]
async fn a_finding_of_advice_needs_no_answer() {
    let scene = Scene::new(Review::Agent, &["coder", "tester"]);
    let found = scene.submit("coder", &[("a", "2\n"), ("b", "1\n")]).await.unwrap();
    scene.run().await;
    let advice = NewFinding { is_blocking: false, path: None, line: None, text: "a name".into() };
    let verdict = json!({"approve": true, "findings": [advice]});
    scene.review("tester", found.id, verdict).await.unwrap();
    scene.run().await;
    assert_eq!(scene.state(&found).await.state, SubmissionState::Merged);
    assert!(scene.submit("coder", &[("a", "4\n"), ("b", "1\n")]).await.is_ok());
}
