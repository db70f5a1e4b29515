//! Five agents in real sandboxes commit, push and submit to one project at the same time, and anything of flock is killed at
//! random moments: the gateway, the supervisor, sandboxes and the containers of checks.
//!
//! The tip is green at every moment, nobody's branch is written by another, and no commit is lost.
//!
//! `FLOCK_TEST_INTERLEAVINGS=100` plays as many rounds, `FLOCK_TEST_SEED` the kills and the work of an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use git2::{Oid, Repository};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use super::projects::sync;
use crate::support::docker::docker;
use crate::support::home::TempHome;
use crate::support::{git, wait_until};

const AGENTS: [&str; 5] = ["ann", "bob", "cleo", "dan", "eve"];
const LIMIT: Duration = Duration::from_secs(300);

/// What the owner checks: the two numbers may be changed by different branches, each of which passes alone. It is a script of the
/// project, so that the numbers are not files that a check names.
const CHECK: &str = "test ! -e broken && test $(($(cat left) + $(cat right))) -le 12\n";

/// What an agent does in a turn: it takes up the tip or does not, makes some commits, good ones and bad ones, and pushes. It
/// writes down the commits before git sends them, and those of which git said that they arrived.
const WORK: &str = r#"
cd /workspace/lib || exit 1
me=$(git config user.name)
n=$(($(cat ../count 2>/dev/null || echo 0) + 1)); echo $n > ../count
RANDOM=$(((SEED + n * 131 + $(printf %s "$me" | cksum | cut -d' ' -f1)) % 32768))
find .git -name '*.lock' -delete
git checkout -qf flock/$me/work 2>&1; git reset -q --hard || { rm -f .git/index; git reset -q --hard; }
push() {
    git rev-parse HEAD >> ../made
    git push -q origin HEAD:flock/$me/work 2>&1 && git rev-parse HEAD >> ../accepted
}
git fetch -q origin 2>&1
if [ $((RANDOM % 4)) -ne 0 ]; then
    git merge -q --no-edit -X theirs origin/main >/dev/null 2>&1 || { git checkout -q --theirs . ; git add -A; git commit -qm Join; }
fi
git rm -q --ignore-unmatch broken
for i in $(seq $((1 + RANDOM % 3))); do
    case $((RANDOM % 8)) in
    0) echo $((RANDOM % 9)) > left ;;
    1) echo $((RANDOM % 9)) > right ;;
    2 | 3) echo "$me $n $i" > shared ;;
    4) [ $((RANDOM % 2)) -eq 0 ] && echo x > broken ;;
    *) mkdir -p work; echo "$n" > "work/$me-$n-$i" ;;
    esac
    git add -A; git commit -q --allow-empty -m "$me $n $i"
    [ $((RANDOM % 3)) -eq 0 ] && push
done
push
echo pushed
"#;

/// The number that an environment variable has.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

struct Stage {
    home: TempHome,
    owner: PathBuf,
    lib: PathBuf,
}

impl Stage {
    fn new(seed: u64) -> Option<Self> {
        let home = TempHome::init_in_docker()?;
        let owner = home.outside().join("owner");
        std::fs::create_dir_all(&owner).unwrap();
        git(&owner, &["init", "-q", "-b", "main"]);
        for (name, text) in [("left", "1\n"), ("right", "2\n"), ("shared", "nobody\n"), ("check.sh", CHECK)] {
            std::fs::write(owner.join(name), text).unwrap();
        }
        git(&owner, &["add", "-A"]);
        git(&owner, &["commit", "-q", "-m", "begin"]);
        let work = format!("cat > /tmp/work.sh <<'END'\nSEED={seed}\n{WORK}END\nbash /tmp/work.sh");
        let replies = json!({"replies": [
            {"when": "begin round", "steps": [
                {"calls": [{"name": "exec", "arguments": {"command": work}}]},
                {"calls": [{"name": "flock_project_submit", "arguments": {"project": "lib", "title": "work"}}]},
                {"say": "done"},
            ]},
            {"steps": [{"say": "noted"}]},
        ]});
        std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
        home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
        for agent in AGENTS {
            home.flock(["add", agent]).ok();
        }
        let lib = home.file("projects/lib.git");
        sync(&lib, &owner);
        let project =
            json!({"lib": {"repo": owner, "agents": AGENTS, "checks": ["sh check.sh"]}}).to_string();
        home.flock(["config", "set", "plugins.entries.flock.config.projects", &project]).ok();
        home.flock(["start"]).ok();
        Some(Self { home, owner, lib })
    }

    fn pid(&self, name: &str) -> Option<Pid> {
        let text = std::fs::read_to_string(self.home.file(format!("run/{name}.pid"))).ok()?;
        text.split_whitespace().next()?.parse().ok().map(Pid::from_raw)
    }

    fn lines(&self, agent: &str, name: &str) -> Vec<String> {
        let path = self.home.file(format!("workspaces/{agent}/{name}"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter(|line| line.len() == 40).map(str::to_owned).collect()
    }

    /// Kills one thing. Returns `false` if there was none.
    fn strike(&self, kind: &str, random: &mut StdRng) -> bool {
        if matches!(kind, "gateway" | "supervisor") {
            return self.pid(kind).is_some_and(|pid| kill(pid, Signal::SIGKILL).is_ok());
        }
        let owner = format!("label=flock.home={}", self.home.path().display());
        let label = if kind == "check" { "label=flock.check" } else { "label=flock.agent" };
        let found = docker(&["ps", "-q", "--filter", &owner, "--filter", label]);
        let all: Vec<&str> = found.split_whitespace().collect();
        if all.is_empty() {
            return false;
        }
        // It may have ended by itself meanwhile.
        let chosen = all[random.random_range(0..all.len())];
        let command = std::process::Command::new("docker").args(["kill", chosen]).output().unwrap();
        command.status.success()
    }

    /// Brings everything up again.
    fn up(&self) {
        wait_until("flock serves", LIMIT, || {
            let run = self.home.flock(["start", "-q"]);
            let answers = run.code == 0 && self.home.flock(["status", "--json"]).code == 0;
            answers.then_some(()).ok_or(run.stderr)
        });
    }

    fn submissions(&self) -> Option<Vec<Value>> {
        let run = self.home.flock(["project", "submissions", "lib", "--json"]);
        let list = serde_json::from_str::<Value>(&run.stdout).ok()?;
        list["submissions"].as_array().cloned()
    }

    /// Waits until the train has nothing to do.
    fn settle(&self) -> Vec<Value> {
        let mut last = Vec::new();
        wait_until("every submission has come to an end", LIMIT, || {
            self.up();
            let all = self.submissions().ok_or("no answer")?;
            let is_open = |one: &&Value| matches!(one["state"].as_str(), Some("queued" | "checking"));
            match all.iter().find(is_open) {
                Some(open) => Err(open.to_string()),
                None => {
                    last = all;
                    Ok(())
                }
            }
        });
        last
    }

    /// Asks an agent for work until a turn comes to its end. What is killed meanwhile may end a turn in between.
    fn ask(&self, agent: &str, round: u64) -> Result<(), String> {
        let (mut last, end) = (String::new(), Instant::now() + LIMIT);
        for attempt in 0.. {
            let text = format!("begin round {round}, attempt {attempt}");
            let run = self.home.flock(["chat", agent, &text]);
            if run.code == 0 && run.stdout.contains("done") {
                return Ok(());
            }
            last = format!("{agent}: {run:?}");
            if Instant::now() > end {
                break;
            }
            std::thread::sleep(Duration::from_millis(300));
        }
        Err(last)
    }
}

/// What the watch saw.
#[derive(Default)]
struct Seen {
    /// The tips, in order.
    tips: Vec<Oid>,
    /// The heads of each agent's branches.
    heads: BTreeMap<String, BTreeSet<Oid>>,
    wrong: Vec<String>,
}

/// Watches the references of the project from outside flock, all the time.
struct Watch {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn begin(lib: &Path) -> Self {
        let (seen, stop) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (path, there, ends) = (lib.to_owned(), Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                look(&path, &mut there.lock().unwrap());
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self { seen, stop, thread: Some(thread) }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Looks once at the tip and at the branches.
fn look(lib: &Path, seen: &mut Seen) {
    let Ok(repository) = Repository::open_bare(lib) else { return };
    let Ok(found) = repository.references_glob("refs/heads/*") else { return };
    for reference in found.flatten() {
        let (Ok(name), Some(target)) = (reference.name().map(str::to_owned), reference.target()) else {
            continue;
        };
        if name != "refs/heads/main" {
            seen.heads.entry(name).or_default().insert(target);
            continue;
        }
        if seen.tips.last() == Some(&target) {
            continue;
        }
        let before = seen.tips.last().copied();
        match line(&repository, target, before) {
            Err(wrong) => seen.wrong.push(wrong),
            Ok(new) => {
                let red = new.iter().filter(|commit| !is_green(&repository, **commit));
                seen.wrong.extend(red.map(|commit| format!("the tip {commit} is red")));
                seen.tips.extend(new.into_iter().rev());
            }
        }
    }
}

/// Returns the commits of the tip's first parents down to a known one, the newest first.
fn line(repository: &Repository, tip: Oid, known: Option<Oid>) -> Result<Vec<Oid>, String> {
    let mut found = Vec::new();
    let mut next = Some(tip);
    while let Some(commit) = next.filter(|commit| Some(*commit) != known) {
        found.push(commit);
        let commit = repository.find_commit(commit).map_err(|error| format!("the tip {tip}: {error}"))?;
        next = commit.parent_id(0).ok();
    }
    if known.is_some() && next.is_none() {
        return Err(format!("the tip {tip} has lost {known:?}"));
    }
    Ok(found)
}

/// Does what the check does.
fn is_green(repository: &Repository, commit: Oid) -> bool {
    let tree = repository.find_commit(commit).and_then(|commit| commit.tree()).unwrap();
    let number = |name: &str| {
        let entry = tree.get_name(name)?;
        let blob = repository.find_blob(entry.id()).ok()?;
        String::from_utf8_lossy(blob.content()).trim().parse::<i64>().ok()
    };
    let sum = number("left").zip(number("right")).map(|(left, right)| left + right);
    tree.get_name("broken").is_none() && sum.is_some_and(|sum| sum <= 12)
}

/// One round: everybody works, and something is killed meanwhile.
fn round(stage: &Stage, number: u64, random: &mut StdRng, killed: &mut BTreeMap<&'static str, u64>) {
    let working: Vec<&str> = AGENTS.into_iter().filter(|_| random.random_bool(0.9)).collect();
    std::thread::scope(|scope| {
        let turns: Vec<_> =
            working.iter().map(|agent| scope.spawn(move || stage.ask(agent, number))).collect();
        for _ in 0..random.random_range(1..=3) {
            std::thread::sleep(Duration::from_millis(random.random_range(50..4000)));
            let kind = match random.random_range(0..12) {
                0..4 => "gateway",
                4..7 => "supervisor",
                7..11 => "sandbox",
                _ => "check",
            };
            if stage.strike(kind, random) {
                *killed.entry(kind).or_default() += 1;
            }
            // Now and then a second one falls while everything still comes back.
            if random.random_bool(0.3) && stage.strike("gateway", random) {
                *killed.entry("gateway").or_default() += 1;
            }
            stage.up();
        }
        for turn in turns {
            let done = turn.join().unwrap();
            assert!(done.is_ok(), "no turn comes to an end: {done:?}");
        }
    });
}

/// Compares the branches with what their agents wrote down.
fn compare(stage: &Stage, seen: &Seen) {
    assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
    let repository = Repository::open_bare(&stage.lib).unwrap();
    for agent in AGENTS {
        let branch = format!("refs/heads/flock/{agent}/work");
        let made: BTreeSet<Oid> =
            stage.lines(agent, "made").iter().map(|line| Oid::from_str(line).unwrap()).collect();
        for head in seen.heads.get(&branch).into_iter().flatten() {
            assert!(made.contains(head), "{branch} was at {head}, which {agent} did not push");
        }
        let accepted = stage.lines(agent, "accepted");
        let Ok(head) = repository.refname_to_id(&branch) else {
            assert!(accepted.is_empty(), "{branch} is gone");
            continue;
        };
        for commit in accepted {
            let commit = Oid::from_str(&commit).unwrap();
            let is_there = commit == head || repository.graph_descendant_of(head, commit).unwrap();
            assert!(is_there, "{branch} has lost {commit}");
        }
    }
    let others = seen
        .heads
        .keys()
        .filter(|name| !AGENTS.iter().any(|agent| **name == format!("refs/heads/flock/{agent}/work")));
    assert_eq!(others.count(), 0, "{:?}", seen.heads.keys());
}

/// Compares the tip with the submissions: what is called merged is there, and nothing that was submitted is forgotten.
fn compare_submissions(stage: &Stage, known: &mut BTreeMap<u64, String>, all: &[Value]) {
    let repository = Repository::open_bare(&stage.lib).unwrap();
    let tip = repository.refname_to_id("refs/heads/main").unwrap();
    for one in all {
        let commit = one["commit"].as_str().unwrap().to_owned();
        let oid = Oid::from_str(&commit).unwrap();
        let is_in = oid == tip || repository.graph_descendant_of(tip, oid).unwrap();
        let state = one["state"].as_str().unwrap();
        assert!(is_in || state != "merged", "it is said to be merged: {one}");
        assert_ne!(state, "review", "nobody has to look at it: {one}");
        known.insert(one["number"].as_u64().or(one["id"].as_u64()).unwrap(), commit);
    }
    for (number, commit) in known {
        let oid = Oid::from_str(commit).unwrap();
        assert!(repository.find_commit(oid).is_ok(), "submission {number} has lost {commit}");
    }
}

#[test]
fn five_agents_and_random_kills_lose_no_commit_and_the_tip_stays_green() {
    let rounds = number("FLOCK_TEST_INTERLEAVINGS").unwrap_or(1);
    let seed = number("FLOCK_TEST_SEED").unwrap_or_else(|| u64::from(rand::random::<u16>()));
    println!("FLOCK_TEST_SEED={seed} FLOCK_TEST_INTERLEAVINGS={rounds}");
    let Some(stage) = Stage::new(seed) else { return };
    let mut random = StdRng::seed_from_u64(seed);
    let owners = git(&stage.owner, &["for-each-ref"]);
    let watch = Watch::begin(&stage.lib);
    let (mut killed, mut known, begin) = (BTreeMap::new(), BTreeMap::new(), Instant::now());
    let mut all = Vec::new();
    for number in 1..=rounds {
        round(&stage, number, &mut random, &mut killed);
        all = stage.settle();
        compare_submissions(&stage, &mut known, &all);
        compare(&stage, &watch.seen.lock().unwrap());
        let tips = watch.seen.lock().unwrap().tips.len();
        println!(
            "round {number}: {tips} tips, {} submissions, killed {killed:?}, {} s",
            known.len(),
            begin.elapsed().as_secs()
        );
    }
    // Each commit that became the tip has a receipt for exactly its tree.
    let receipts =
        stage.home.flock(["receipt", "list", "--project", "lib", "--limit", "1000", "--json"]).ok().json();
    let accepted: BTreeSet<&str> = receipts["receipts"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["result"] == "accepted")
        .filter_map(|one| one["tree"].as_str())
        .collect();
    let repository = Repository::open_bare(&stage.lib).unwrap();
    let tips = watch.seen.lock().unwrap().tips.clone();
    for tip in tips.iter().skip(1) {
        let tree = repository.find_commit(*tip).unwrap().tree_id().to_string();
        assert!(accepted.contains(tree.as_str()) || accepted.len() >= 900, "the tip {tip} has no receipt");
    }
    let states = all.iter().fold(BTreeMap::new(), |mut states: BTreeMap<String, u64>, one| {
        *states.entry(one["state"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
        states
    });
    println!("{} tips, {states:?}, killed {killed:?}, {} s", tips.len(), begin.elapsed().as_secs());
    assert_eq!(git(&stage.owner, &["for-each-ref"]), owners, "the owner's repository is only read");
    assert!(rounds < 5 || tips.len() > 3, "nothing was merged");
    drop(watch);
    stage.home.flock(["stop"]).ok();
    assert_eq!(git(&stage.lib, &["fsck", "--full", "--strict", "--no-dangling"]), "");
}
