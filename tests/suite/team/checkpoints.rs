//! Checkpoints of agents, the way back to them, and agents that go on from one.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use super::stage::{LIMIT, Served, log_text};
use crate::faults::provider::with_agents;
use crate::support::home::TempHome;
use crate::support::model_server::{ModelServer, Reply};
use crate::support::wait_until;

/// Everything below a folder: paths with kind, permissions and content.
pub fn tree(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    add(folder, folder, &mut found);
    found
}

fn add(root: &Path, folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let meta = path.symlink_metadata().unwrap();
        let what = if meta.is_symlink() {
            format!("link {:?}", path.read_link().unwrap())
        } else if meta.is_dir() {
            add(root, &path, found);
            format!("folder {:o}", meta.mode() & 0o777)
        } else if meta.is_file() {
            format!("file {:o} {:?}", meta.mode() & 0o777, std::fs::read(&path).unwrap())
        } else {
            "other".to_owned()
        };
        found.insert(format!("{:?}", path.strip_prefix(root).unwrap()), what);
    }
}

pub struct Stage {
    pub home: TempHome,
    pub model: ModelServer,
    pub served: Option<Served>,
}

pub const KEY: &str = "agent:ada:flock:main:ann";

impl Stage {
    pub fn new() -> Self {
        let model = ModelServer::start();
        let home = with_agents(&model, &["ada"]);
        let stage = Self { home, model, served: None };
        let at = |path: &str| stage.workspace().join(path);
        std::fs::create_dir_all(at("src/deep")).unwrap();
        std::fs::create_dir(at("empty")).unwrap();
        std::fs::write(at("src/main.txt"), "one\ntwo\nthree\n").unwrap();
        std::fs::write(at("src/deep/run.sh"), "run").unwrap();
        std::fs::set_permissions(at("src/deep/run.sh"), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(at("MEMORY.md"), "remember").unwrap();
        symlink("src/main.txt", at("link")).unwrap();
        stage
    }

    pub fn serve(mut self) -> Self {
        self.served = Some(Served::start(&self.home));
        self
    }

    pub fn workspace(&self) -> std::path::PathBuf {
        self.home.file("workspaces/ada")
    }

    pub fn tree(&self) -> BTreeMap<String, String> {
        tree(&self.workspace())
    }

    /// A turn in which the agent writes these files.
    pub fn turn(&self, text: &str, files: &[(&str, &str)]) {
        for (at, (path, content)) in files.iter().enumerate() {
            self.model.reply(Reply::call(
                &format!("c{at}"),
                "write",
                &json!({"path": path, "content": content}),
            ));
        }
        self.model.reply(Reply::text("done"));
        let before = self.records("turnEnd");
        self.home.flock(["chat", "ada", text, "--session", KEY]).ok();
        wait_until("the turn's end is noted", LIMIT, || {
            let found = self.records("turnEnd");
            if found > before { Ok(()) } else { Err(format!("{found}\n{}", log_text(&self.home))) }
        });
    }

    fn records(&self, kind: &str) -> usize {
        let path = self.home.file("agents/ada/checkpoints/records.jsonl");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter(|line| line.contains(&format!("\"kind\":\"{kind}\""))).count()
    }

    pub fn checkpoints(&self) -> Vec<Value> {
        let listed = self.home.flock(["checkpoints", "ada", "--json"]).ok().json();
        listed["checkpoints"].as_array().unwrap().clone()
    }

    fn last_request(&self) -> String {
        self.model.requests().pop().unwrap().body.to_string()
    }
}

#[test]
fn a_turn_is_undone_and_the_rewind_too() {
    let stage = Stage::new().serve();
    let before = stage.tree();
    stage.turn(
        "first words",
        &[("src/main.txt", "one\n2\nthree\n"), ("src/new/file", "new"), ("MEMORY.md", "more")],
    );
    let after = stage.tree();
    assert_ne!(before, after);
    let listed = stage.checkpoints();
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!((&listed[0]["reason"], &listed[0]["session"]), (&json!("turn"), &json!(KEY)));

    let shown = stage.home.flock(["rewind", "ada", "--dry-run", "--json"]).ok().json();
    let paths: Vec<&str> = shown["rewind"]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["MEMORY.md", "src/main.txt", "src/new", "src/new/file"]);
    let diff = shown["rewind"]["files"][1]["diff"].as_str().unwrap();
    assert!(diff.contains("-2") && diff.contains("+two"), "{diff}");
    assert_eq!(stage.tree(), after, "nothing is done yet");
    assert_eq!(stage.home.flock(["rewind", "ada"]).code, 2, "nobody has agreed");

    stage.home.flock(["rewind", "ada", "--yes"]).ok();
    assert_eq!(stage.tree(), before);
    stage.model.reply(Reply::text("hello"));
    stage.home.flock(["chat", "ada", "second words", "--session", KEY]).ok();
    let asked = stage.last_request();
    assert!(asked.contains("second words") && !asked.contains("first words"), "{asked}");

    let stage = Stage { served: None, ..stage };
    let run = stage.home.flock(["rewind", "ada", "--undo", "--yes"]).ok();
    assert_eq!(stage.tree(), after, "{run:?}");
    let stage = stage.serve();
    stage.model.reply(Reply::text("hello"));
    stage.home.flock(["chat", "ada", "third words", "--session", KEY]).ok();
    let asked = stage.last_request();
    assert!(asked.contains("first words") && asked.contains("third words"), "{asked}");
    assert!(!asked.contains("second words"), "{asked}");
    let whole = super::stage::transcripts(&stage.home, "ada").concat();
    assert!(["first words", "second words", "third words"].iter().all(|text| whole.contains(text)));
}

#[test]
fn files_and_conversations_are_set_back_apart() {
    let stage = Stage::new().serve();
    let before = stage.tree();
    stage.turn("first words", &[("a", "a")]);
    let after = stage.tree();
    stage.home.flock(["rewind", "ada", "--conversation", "--yes"]).ok();
    assert_eq!(stage.tree(), after);
    stage.model.reply(Reply::text("hello"));
    stage.home.flock(["chat", "ada", "second words", "--session", KEY]).ok();
    assert!(!stage.last_request().contains("first words"));
    stage.home.flock(["rewind", "ada", "--turn", "1", "--files", "--yes"]).ok();
    assert_eq!(stage.tree(), before);
    stage.model.reply(Reply::text("hello"));
    stage.home.flock(["chat", "ada", "third words", "--session", KEY]).ok();
    assert!(stage.last_request().contains("second words"));
}

#[test]
fn what_a_person_changed_stops_a_rewind_and_is_never_overwritten() {
    let stage = Stage::new().serve();
    stage.turn("go", &[("src/main.txt", "agent\n"), ("both", "agent\n"), ("own", "agent\n")]);
    let at = |path: &str| stage.workspace().join(path);
    std::fs::write(at("both"), "agent\nperson\n").unwrap();
    std::fs::write(at("src/note"), "person").unwrap();
    std::fs::remove_file(at("link")).unwrap();
    let edited = stage.tree();
    let run = stage.home.flock(["rewind", "ada", "--yes"]).fails(5);
    assert!(run.stderr.contains("both") && run.stderr.contains("src/note"), "{run:?}");
    assert!(run.stderr.contains("--keep-others"), "{run:?}");
    assert_eq!(stage.tree(), edited);
    assert_eq!(stage.checkpoints().len(), 1, "a rewind that did not begin is no checkpoint");

    stage.home.flock(["rewind", "ada", "--keep-others", "--yes"]).ok();
    let now = stage.tree();
    assert!(now["\"src/main.txt\""].contains("file"), "{now:?}");
    assert_eq!(std::fs::read_to_string(at("src/main.txt")).unwrap(), "one\ntwo\nthree\n");
    assert!(!at("own").exists());
    assert_eq!(std::fs::read_to_string(at("both")).unwrap(), "agent\nperson\n");
    assert_eq!(std::fs::read_to_string(at("src/note")).unwrap(), "person");
    assert!(at("link").symlink_metadata().is_err());
    stage.home.flock(["rewind", "ada", "--undo", "--yes"]).ok();
    assert_eq!(stage.tree(), edited);
}

#[test]
fn a_plan_that_is_no_longer_true_is_not_carried_out() {
    let stage = Stage::new().serve();
    stage.turn("go", &[("a", "agent")]);
    let plan =
        stage.home.flock(["rewind", "ada", "--dry-run", "--json"]).ok().json()["rewind"]["plan"].clone();
    std::fs::write(stage.workspace().join("a"), "person").unwrap();
    let (port, token) = (stage.home.port(), stage.home.token());
    let body = json!({"plan": plan, "keepOthers": true}).to_string();
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    write!(
        stream,
        "POST /api/agents/ada/rewind HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
    assert_eq!(std::fs::read_to_string(stage.workspace().join("a")).unwrap(), "person");
}

#[test]
fn checkpoints_on_demand_work_without_a_gateway_and_old_ones_go() {
    let stage = Stage::new();
    let set = |key: &str, value: &str| {
        stage
            .home
            .flock(["config", "set", &format!("plugins.entries.flock.config.checkpoints.{key}"), value])
            .ok();
    };
    set("keep", "4");
    let made = stage.home.flock(["checkpoint", "ada", "--note", "before\u{7} lunch", "--json"]).ok().json();
    assert_eq!(made["checkpoint"]["number"], 1);
    assert_eq!(made["checkpoint"]["note"], "before lunch");
    for round in 0..8 {
        std::fs::write(stage.workspace().join("round"), format!("{round}")).unwrap();
        stage.home.flock(["checkpoint", "ada"]).ok();
    }
    let numbers: Vec<u64> = stage.checkpoints().iter().map(|one| one["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [9, 8, 7, 6, 5]);
    assert_eq!(stage.home.flock(["rewind", "ada", "--turn", "1", "--yes"]).code, 2);
    // A person has made the changes, so that only a checkpoint with the same files is one to go back to at once.
    stage.home.flock(["rewind", "ada", "--turn", "6", "--yes"]).fails(5);
    let objects = walk_files(&stage.home.file("agents/ada/checkpoints/objects"));
    set("bytes", "1048576");
    std::fs::write(stage.workspace().join("large"), vec![7; 2 << 20]).unwrap();
    let run = stage.home.flock(["checkpoint", "ada"]);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stderr.contains("more than 1048576 bytes"), "{run:?}");
    assert!(walk_files(&stage.home.file("agents/ada/checkpoints/objects")) <= objects + 3);
}

fn walk_files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| {
            let path = entry.unwrap().path();
            if path.is_dir() { walk_files(&path) } else { 1 }
        })
        .sum()
}

#[test]
fn turns_make_no_checkpoint_if_that_is_switched_off() {
    let stage = Stage::new();
    stage.home.flock(["config", "set", "plugins.entries.flock.config.checkpoints.turns", "false"]).ok();
    let stage = stage.serve();
    stage.model.reply(Reply::text("hello"));
    stage.home.flock(["chat", "ada", "hi", "--session", KEY]).ok();
    assert!(!stage.home.file("agents/ada/checkpoints").exists());
    stage.home.flock(["checkpoint", "ada"]).ok();
    let before = stage.tree();
    stage.model.reply(Reply::call("c", "write", &json!({"path": "a", "content": "a"})));
    stage.model.reply(Reply::text("done"));
    stage.home.flock(["chat", "ada", "write", "--session", KEY]).ok();
    assert_eq!(stage.checkpoints().len(), 1);
    stage.home.flock(["rewind", "ada", "--turn", "1", "--yes"]).ok();
    assert_eq!(stage.tree(), before, "the turn's work is not taken for a person's");
}

#[test]
fn a_fork_goes_on_beside_the_original() {
    let stage = Stage::new().serve();
    stage.turn("first words", &[("a", "first")]);
    let first = stage.tree();
    stage.turn("second words", &[("a", "second")]);
    let second = stage.tree();
    stage.home.flock(["fork", "ada", "eve", "--checkpoint", "2"]).ok();
    stage.home.flock(["fork", "ada", "bob"]).ok();
    let files = |agent: &str| tree(&stage.home.file(format!("workspaces/{agent}")));
    assert_eq!((files("eve"), files("bob"), stage.tree()), (first, second.clone(), second));
    let soul =
        |agent: &str| std::fs::read(stage.home.file(format!("agents/{agent}/identity/SOUL.md"))).unwrap();
    assert_eq!(soul("bob"), soul("ada"));
    for (agent, has_second) in [("eve", false), ("bob", true)] {
        stage.model.reply(Reply::text("hello"));
        let key = format!("agent:{agent}:flock:main:ann");
        stage.home.flock(["chat", agent, "third words", "--session", &key]).ok();
        let asked = stage.last_request();
        assert!(asked.contains("first words") && asked.contains("third words"), "{asked}");
        assert_eq!(asked.contains("second words"), has_second, "{agent}: {asked}");
    }
    assert_eq!(stage.home.flock(["fork", "ada", "bob"]).code, 5, "the id is taken");
    stage.home.flock(["remove", "bob"]).ok();
    let run = stage.home.flock(["fork", "ada", "bob"]).fails(5);
    assert!(run.stderr.contains("flock remove bob --purge"), "{run:?}");
}

#[test]
fn without_an_engine_a_rewind_of_packages_says_how_it_goes_on_without_them() {
    let home = TempHome::new().init();
    home.flock(["add", "ada", "--no-container"]).ok();
    let made = home.flock(["checkpoint", "ada", "--json"]).ok().json();
    // As if packages had been installed afterwards, while there was an engine.
    let listed = home.flock(["generations", "--json"]).ok().json();
    let number = listed["generations"][0]["number"].as_u64().unwrap();
    let path = |number: u64| home.file(format!("generations/{number}.json"));
    let mut generation: Value = serde_json::from_slice(&std::fs::read(path(number)).unwrap()).unwrap();
    generation["state"]["packages"] = json!({"ada": 0});
    std::fs::write(path(number), generation.to_string()).unwrap();
    generation["number"] = (number + 1).into();
    generation["at"] = (made["checkpoint"]["at"].as_i64().unwrap() + 1).into();
    generation["state"]["packages"] = json!({"ada": 1});
    std::fs::write(path(number + 1), generation.to_string()).unwrap();
    let refused = home.flock(["rewind", "ada", "--turn", "1", "--yes"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.stderr.contains("flock rewind ada --without-packages"), "{refused:?}");
    home.flock(["rewind", "ada", "--turn", "1", "--without-packages", "--yes"]).ok();
}

/// Has the newest generation of a home say that an agent's package profile is at this one of its own.
pub fn record_profile(home: &TempHome, agent: &str, profile: u32) {
    let listed = home.flock(["generations", "--json"]).ok().json();
    let path = home.file(format!("generations/{}.json", listed["generations"][0]["number"]));
    let mut generation: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    generation["state"]["packages"][agent] = profile.into();
    std::fs::write(path, generation.to_string()).unwrap();
}

#[test]
fn a_copy_of_a_home_does_not_take_the_packages_of_the_original_for_its_own() {
    let home = TempHome::new().init();
    home.flock(["add", "ada", "--no-container"]).ok();
    // A home has an id from its first start.
    home.flock(["start"]).ok();
    home.flock(["stop"]).ok();
    record_profile(&home, "ada", 3);
    let made = home.flock(["checkpoint", "ada", "--json"]).ok().json();
    assert_eq!(made["checkpoint"]["packages"], 3, "{made}");
    let copy = home.outside().join("copy");
    let copied = std::process::Command::new("cp").arg("-a").args([&home.path(), &copy]).status().unwrap();
    assert!(copied.success());
    let _database = home.database().copied_to(&flock::home::Home::new(copy.clone(), None));
    let there = copy.display().to_string();
    let in_copy = |args: &[&str]| home.flock([&["--home", there.as_str()][..], args].concat());
    let listed = in_copy(&["checkpoints", "ada", "--json"]).ok().json();
    assert_eq!(listed["checkpoints"][0]["packages"], json!(null), "{listed}");
    let rewind = ["rewind", "ada", "--turn", "1", "--dry-run", "--json"];
    let plan = in_copy(&rewind).ok().json();
    assert_eq!(plan["rewind"]["packages"], json!(null), "{plan}");
    assert_eq!(plan["rewind"]["packagesElsewhere"], true, "{plan}");
    let shown = in_copy(&["rewind", "ada", "--turn", "1", "--yes"]).ok();
    assert!(
        shown.stderr.contains("packages stay as they are: checkpoint 1 has those of another"),
        "{shown:?}"
    );
    let made = in_copy(&["checkpoint", "ada", "--json"]).ok().json();
    assert_eq!(made["checkpoint"]["packages"], json!(null), "nothing is known of its store: {made}");
    // Nor does a rollback to a generation of the original.
    let then = home.flock(["generations", "--json"]).ok().json()["generations"][0]["number"].to_string();
    in_copy(&["config", "set", "plugins.entries.flock.config.checkpoints.keep", "7"]).ok();
    let back = in_copy(&["rollback", &then, "--dry-run", "--json"]).ok().json();
    let note = format!("generation {then} has those of the home at {}", home.path().display());
    assert!(back["notes"].to_string().contains(&note), "{back}");
    assert!(!back["changes"].to_string().contains("packages of"), "{back}");
    let plan = home.flock(rewind).ok().json();
    assert_eq!(plan["rewind"]["packagesElsewhere"], false, "{plan}");
}

fn messages(home: &TempHome, channel: &str) -> Vec<Value> {
    let read = home.flock(["channel", "read", channel, "--json"]).ok().json();
    read["messages"].as_array().unwrap().clone()
}

#[test]
fn a_channel_is_forked_with_its_team() {
    let model = ModelServer::start();
    let home = with_agents(&model, &["ada", "bob"]);
    let stage = Stage { home, model, served: None };
    let home = &stage.home;
    std::fs::write(stage.workspace().join("notes"), "of ada").unwrap();
    let create =
        ["channel", "create", "Dev", "--topic", "build it", "--member", "ada", "--member", "human:ann"];
    home.flock(create).ok();
    let stage = stage.serve();
    let home = &stage.home;
    stage.model.always(Reply::text("understood"));
    home.flock(["channel", "post", "dev", "first words"]).ok();
    wait_until("ada answers", LIMIT, || {
        let said = messages(home, "dev");
        let is_said = said.iter().any(|post| post["content"] == "understood");
        if is_said { Ok(()) } else { Err(format!("{said:?}")) }
    });
    // The agent may still be at the end of its turn.
    let made = wait_until("the fork", LIMIT, || {
        let run = home.flock(["fork", "#dev", "second", "--json"]);
        if run.code == 0 { Ok(run.json()) } else { Err(format!("{run:?}")) }
    });
    assert_eq!(made["fork"]["agents"], json!([{"agent": "ada-second", "from": "ada"}]), "{made}");
    assert_eq!((&made["fork"]["channel"], &made["fork"]["from"]), (&json!("second"), &json!("Dev")));
    assert_eq!(std::fs::read_to_string(home.file("workspaces/ada-second/notes")).unwrap(), "of ada");
    let [original, copy] = ["dev", "second"].map(|id| messages(home, id));
    assert_eq!(copy.len(), original.len() + 1);
    let contents = |posts: &[Value]| posts.iter().map(|post| post["content"].clone()).collect::<Vec<_>>();
    assert_eq!(contents(&original), contents(&copy)[..original.len()]);
    assert!(copy.last().unwrap()["content"].as_str().unwrap().contains("here ada is ada-second"));
    let shown = home.flock(["channel", "list", "--json"]).ok().json();
    let second =
        shown["channels"].as_array().unwrap().iter().find(|one| one["channelId"] == "second").unwrap();
    assert_eq!(second["topic"], "build it");
    let asked = stage.model.requests().len();
    home.flock(["channel", "post", "second", "next words"]).ok();
    wait_until("the copy is asked", LIMIT, || {
        let requests = stage.model.requests();
        let found = requests[asked..]
            .iter()
            .map(|request| request.body.to_string())
            .find(|body| body.contains("next words"));
        match found {
            Some(body) if body.contains("first words") && body.contains("ada-second") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    assert!(!contents(&messages(home, "dev")).contains(&json!("next words")), "both go on independently");
    // Names that are in use or can't be ids, and too many agents.
    let refused = |args: &[&str], code: i32, text: &str| {
        let run = home.flock(args.iter().copied()).fails(code);
        assert!(run.stderr.contains(text), "{args:?}: {run:?}");
    };
    refused(&["fork", "#dev", "second"], 5, "there is a channel second already");
    refused(&["fork", "#dev", &"x".repeat(62)], 2, "a copy can't be named");
    refused(&["fork", "nobody", "third"], 1, "nobody");
    refused(&["fork", "#dev", "third", "--checkpoint", "1"], 2, "--checkpoint is for an agent");
    home.flock(["channel", "create", "bob", "--topic", "x", "--member", "bob"]).ok();
    refused(&["fork", "bob", "third"], 2, "write the channel as '#bob'");
    home.flock(["config", "set", "plugins.entries.flock.config.maxAgents", "3"]).ok();
    refused(&["fork", "#bob", "third"], 5, "maxAgents");
    home.flock(["config", "set", "plugins.entries.flock.config.maxAgents", "9"]).ok();
    home.flock(["fork", "#bob", "third"]).ok();
    home.flock(["fork", "bob", "fourth", "--checkpoint", "77"]).fails(2);
}

#[test]
fn a_team_is_not_forked_in_the_middle_of_a_turn() {
    let stage = Stage::new().serve();
    let home = &stage.home;
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "ada"]).ok();
    let held = stage.model.reply_held("late");
    home.flock(["channel", "post", "dev", "work"]).ok();
    wait_until("the turn begins", LIMIT, || {
        if stage.model.requests().is_empty() { Err(String::new()) } else { Ok(()) }
    });
    let run = home.flock(["fork", "#dev", "second"]).fails(5);
    assert!(run.stderr.contains("ada is in the middle of a turn"), "{run:?}");
    assert!(!home.file("workspaces/ada-second").exists() && !home.file("data/team-fork.json").exists());
    held.notify_one();
}
