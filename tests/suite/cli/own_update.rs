//! `flock update --self`: a small crate stands in for flock's source, everything else is real: git, cargo, the trial on a
//! copy of the home, the swap, the restart and the way back.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::home::{Run, TempHome, finish};
use crate::support::own_source::{OLD_SCHEMA, OwnSource, SICK, TRIAL_FAILS, WRONG_VERSION, hangs_once};
use crate::support::{copy_program, flock_binary, wait_until};

/// A cargo build beside the load of a whole suite takes its time.
const LIMIT: Duration = Duration::from_secs(180);

/// A home whose flock is a file of the test's own, and a source to update it from.
struct Stage {
    home: TempHome,
    /// The program that is replaced.
    program: PathBuf,
    /// The one that replaces it, and that the stand-ins hand on to.
    real: PathBuf,
    source: OwnSource,
}

impl Stage {
    fn new() -> Self {
        let home = TempHome::new().init();
        let at = |folder: &str| {
            let path = home.outside().join(folder).join("flock");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            // Never written to, only renamed over.
            if std::fs::hard_link(flock_binary(), &path).is_err() {
                copy_program(flock_binary().as_ref(), &path);
            }
            path
        };
        let (program, real) = (at("bin"), at("real"));
        let source = OwnSource::new(&real);
        Self { home, program, real, source }
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let template = self.home.command();
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.home.outside()).args(args).stdin(Stdio::null());
        for (name, value) in template.get_envs() {
            command.envs(value.map(|value| (name, value)));
        }
        // The cargo that runs this test, not a proxy that looks for its settings in the home folder.
        let tools = Path::new(env!("CARGO")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(tools).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(all).unwrap());
        command
    }

    /// Runs the program in use.
    fn flock(&self, args: &[&str]) -> Run {
        finish(&mut self.command(&self.program, args))
    }

    fn own_command(&self, args: &[&str]) -> Command {
        let program = self.program.display().to_string();
        let all: Vec<&str> =
            ["update", "--self", "--program", &program].into_iter().chain(args.iter().copied()).collect();
        self.command(&self.real, &all)
    }

    /// Updates the program in use.
    fn own(&self, args: &[&str]) -> Run {
        finish(&mut self.own_command(args))
    }

    /// Updates from the source.
    fn update(&self) -> Run {
        self.own(&["--from", &self.source.path()])
    }

    fn version(&self) -> String {
        self.flock(&["--version"]).ok().stdout.trim().to_owned()
    }

    /// The gateway's process, where one runs.
    fn gateway(&self) -> Option<i64> {
        let status: Value = self.home.flock(["status", "--json"]).json();
        status["running"].as_bool().unwrap().then(|| status["gateway"]["pid"].as_i64().unwrap())
    }

    fn audit(&self) -> String {
        self.home.flock(["audit", "--json"]).ok().stdout
    }

    /// What is left of a change.
    fn is_tidy(&self) {
        let folder = self.home.file("gateways/flock");
        for name in ["underway.json", "flock-next", "flock-left", "state-before", "trial-home"] {
            assert!(!folder.join(name).exists(), "{name}");
        }
        let beside: Vec<_> = std::fs::read_dir(self.program.parent().unwrap()).unwrap().collect();
        assert_eq!(beside.len(), 1, "{beside:?}");
    }

    /// Begins an update, waits until it is at `marker`, and kills it.
    fn kill_at(&self, marker: &Path) {
        let mut child = self.begin();
        Self::wait_for(&mut child, marker);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Waits until an update is at `marker`. One that ends before says why.
    fn wait_for(child: &mut Child, marker: &Path) {
        wait_until("the step", LIMIT, || {
            if marker.exists() {
                return Ok(());
            }
            if let Some(status) = child.try_wait().unwrap() {
                let mut said = String::new();
                child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
                panic!("it ended ({status}) before {marker:?}: {said}");
            }
            Err(format!("{marker:?}"))
        });
    }

    fn begin(&self) -> Child {
        let mut command = self.own_command(&["--from", &self.source.path()]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

fn named(version: &str, commit: &str) -> String {
    format!("flock {version} ({})", &commit[..12])
}

#[test]
fn a_program_is_built_tried_put_in_use_and_rolled_back() {
    let stage = Stage::new();
    let first = stage.version();
    stage.flock(&["start"]).ok();
    let before = stage.gateway().unwrap();
    let nine = stage.source.release("9.0.0", "");
    stage.source.write("notes.txt", "not committed");

    let check = stage.own(&["--check", "--from", &stage.source.path(), "--json"]).ok().json();
    assert_eq!(
        (check["state"].as_str(), check["wanted"]["commit"].as_str()),
        (Some("available"), Some(&*nine))
    );
    assert_eq!(check["uncommitted"], 1);
    let run = stage.update().ok();
    assert!(run.stderr.contains("1 changes that are not committed"), "{run:?}");
    assert_eq!(stage.version(), named("9.0.0", &nine));
    let after = stage.gateway().expect("it runs again");
    assert_ne!(after, before);
    assert!(stage.audit().contains("program.update"), "{}", stage.audit());
    stage.is_tidy();
    // Where it came from is remembered.
    let current = stage.own(&["--json"]).ok().json();
    assert_eq!(
        (current["state"].as_str(), current["installed"]["commit"].as_str()),
        (Some("current"), Some(&*nine))
    );
    assert_eq!(
        current["previous"]["version"].as_str().map(|version| format!("flock {version}")),
        Some(first)
    );

    let ten = stage.source.release("10.0.0", "");
    let updated = stage.own(&["--json"]).ok().json();
    assert_eq!((updated["state"].as_str(), updated["serves"].as_bool()), (Some("updated"), Some(true)));
    assert_eq!(stage.version(), named("10.0.0", &ten));
    let back = stage.own(&["--rollback"]).ok();
    assert!(back.stderr.contains("in use again"), "{back:?}");
    assert_eq!(stage.version(), named("9.0.0", &nine));
    assert!(stage.gateway().is_some());
    let passed = stage.own(&[]).ok();
    assert!(passed.stderr.contains("it was rolled back"), "{passed:?}");
    assert_eq!(stage.version(), named("9.0.0", &nine));
    // Without a gateway there is nothing to start.
    stage.flock(&["stop"]).ok();
    let retried = stage.own(&["--retry", "--json"]).ok().json();
    assert_eq!((retried["state"].as_str(), retried["serves"].as_bool()), (Some("updated"), Some(false)));
    assert_eq!(stage.version(), named("10.0.0", &ten));
    assert!(stage.gateway().is_none());
    stage.is_tidy();
}

#[test]
fn what_does_not_compile_or_does_not_pass_its_trial_is_not_put_in_use() {
    let stage = Stage::new();
    let first = stage.version();
    stage.flock(&["start"]).ok();
    let gateway = stage.gateway();
    let tried = |said: &str| {
        let run = stage.update().fails(1);
        assert!(run.stderr.contains(said) && run.stderr.contains("is in use as before"), "{run:?}");
        assert_eq!((stage.version(), stage.gateway()), (first.clone(), gateway), "nothing has happened");
        let again = stage.update().ok();
        assert!(again.stderr.contains("did not work here"), "{again:?}");
        let log = std::fs::read_to_string(stage.home.file("logs/update-flock.log")).unwrap();
        assert!(log.contains("$ cargo"), "{log}");
    };
    stage.source.release("9.0.0", "this is no Rust;");
    tried("cargo build --release ended with code 101");
    stage.source.release("9.0.1", TRIAL_FAILS);
    tried("this home is not mine");
    stage.source.release("9.0.2", OLD_SCHEMA);
    tried("its database is of version 1");
    stage.source.release("9.0.3", WRONG_VERSION);
    tried("and not 9.0.3");
    stage.source.package("heron", "9.0.4");
    stage.source.commit("Another program");
    tried("is not flock: its package is heron");
    stage.is_tidy();
    let check = stage.home.flock(["audit", "--json"]).ok().stdout;
    assert!(!check.contains("program."), "{check}");
}

#[test]
fn one_that_does_not_get_healthy_is_taken_back() {
    let stage = Stage::new();
    let first = stage.version();
    stage.flock(&["start"]).ok();
    stage.source.release("9.0.0", SICK);
    let run = stage.update().fails(1);
    assert!(run.stderr.contains("did not get healthy: it feels sick"), "{run:?}");
    assert_eq!(stage.version(), first);
    assert!(stage.gateway().is_some(), "the old one runs again");
    assert!(stage.audit().contains("program.take-back"), "{}", stage.audit());
    stage.is_tidy();
    assert!(stage.update().ok().stderr.contains("did not work here"));
}

#[test]
fn a_database_that_it_changed_is_taken_back_with_it() {
    let stage = Stage::new();
    stage.flock(&["start"]).ok();
    stage.home.flock(["channel", "create", "work", "--topic", "what was there"]).ok();
    // What a newer version would make of the database.
    let newer = stage.home.outside().join("newer.db");
    {
        let database = rusqlite::Connection::open(stage.home.file("data/flock.db")).unwrap();
        database.execute("VACUUM INTO ?1", [newer.to_str().unwrap()]).unwrap();
    }
    let database = rusqlite::Connection::open(&newer).unwrap();
    database.execute("INSERT INTO schema_version VALUES (999, 1)", ()).unwrap();
    drop(database);
    let there = stage.home.file("data/flock.db");
    stage.source.release(
        "9.0.0",
        &format!(
            r#"if args == ["gateway", "check"] {{ println!("{{{{\"schema\": 999}}}}"); return; }}
            if args.iter().any(|arg| *arg == "start") {{
                for name in ["-wal", "-shm"] {{ drop(std::fs::remove_file(format!("{{}}{{name}}", {there:?}))); }}
                std::fs::copy({newer:?}, {there:?}).unwrap();
                std::fs::write(format!("{{}}-wal", {there:?}), "of a killed gateway").unwrap();
                eprintln!("error: it came that far");
                std::process::exit(1);
            }}"#
        ),
    );
    let run = stage.update().fails(1);
    assert!(run.stderr.contains("it came that far"), "{run:?}");
    assert!(run.stderr.contains("the database is restored to its state before"), "{run:?}");
    // What the new version wrote is kept, also what was only in its log.
    let log = std::fs::read_to_string(stage.home.file("backups/flock-unproved.db-wal")).unwrap();
    assert_eq!(log, "of a killed gateway");
    assert!(stage.gateway().is_some(), "the old one runs again: {run:?}");
    let listed = stage.home.flock(["channel", "list"]).ok().stdout;
    assert!(listed.contains("what was there"), "{listed}");
    stage.home.flock(["audit", "--verify"]).ok();
    stage.is_tidy();
}

#[test]
fn killed_at_each_step_it_is_ended_by_the_next_one() {
    let stage = Stage::new();
    stage.flock(&["start"]).ok();
    let marker = |name: &str| stage.home.outside().join(name);
    // While it compiles.
    let building = marker("building");
    stage.source.write(
        "build.rs",
        &format!(
            r#"fn main() {{
                if !std::path::Path::new({building:?}).exists() {{
                    std::fs::write({building:?}, "x").unwrap();
                    loop {{ std::thread::park(); }}
                }}
            }}"#
        ),
    );
    let nine = stage.source.release("9.0.0", &hangs_once("check", &marker("trying")));
    let before = stage.gateway();
    let first = stage.version();
    stage.kill_at(&building);
    assert_eq!((stage.version(), stage.gateway()), (first.clone(), before));
    // While it is tried.
    stage.kill_at(&marker("trying"));
    assert_eq!((stage.version(), stage.gateway()), (first, before));
    let run = stage.own(&[]).ok();
    assert!(run.stderr.contains("going on with the interrupted"), "{run:?}");
    assert_eq!(stage.version(), named("9.0.0", &nine));
    stage.is_tidy();

    // While it starts, after the swap.
    let ten = stage.source.release("10.0.0", &hangs_once("start", &marker("starting")));
    stage.kill_at(&marker("starting"));
    assert_eq!(stage.version(), named("10.0.0", &ten));
    for verb in ["status", "doctor"] {
        let said = stage.home.flock([verb]);
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(text.contains("interrupted") && text.contains("flock update --self"), "{verb}: {text}");
    }
    let run = stage.own(&[]).ok();
    assert!(run.stderr.contains("going on with the interrupted change to flock 10.0.0"), "{run:?}");
    assert!(stage.gateway().is_some());
    stage.is_tidy();

    // While it is taken back: the one before hangs when it is started again.
    std::fs::remove_file(marker("starting")).unwrap();
    stage.source.release("11.0.0", SICK);
    stage.kill_at(&marker("starting"));
    let run = stage.own(&[]).ok();
    assert!(run.stderr.contains("going back to flock 10.0.0"), "{run:?}");
    assert_eq!(stage.version(), named("10.0.0", &ten));
    assert!(stage.gateway().is_some());
    assert!(stage.own(&[]).ok().stderr.contains("did not work here"));
    stage.is_tidy();
}

#[test]
fn two_at_once_are_one() {
    let stage = Stage::new();
    let marker = stage.home.outside().join("trying");
    stage.source.release("9.0.0", &hangs_once("check", &marker));
    let mut child = stage.begin();
    Stage::wait_for(&mut child, &marker);
    let run = stage.update().fails(5);
    assert!(run.stderr.contains("another flock is updating"), "{run:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    stage.update().ok();
}

#[test]
fn what_must_not_be_replaced_or_is_not_safe_to_fetch_is_refused_with_what_mends_it() {
    let stage = Stage::new();
    let run = stage.own(&[]).fails(2);
    assert!(run.stderr.contains("--from"), "{run:?}");
    let run = stage.own(&["--from", "http://example.invalid/flock"]).fails(2);
    assert!(run.stderr.contains("is not encrypted") && run.stderr.contains("--unencrypted"), "{run:?}");
    stage.own(&["--from", "git://example.invalid/flock"]).fails(2);
    // Said, it is asked, and so is this machine; nobody is there.
    stage.own(&["--from", "http://example.invalid/flock", "--unencrypted"]).fails(1);
    stage.own(&["--from", "http://127.0.0.1:1/flock"]).fails(1);
    let empty = stage.home.outside().join("empty");
    std::fs::create_dir(&empty).unwrap();
    stage.own(&["--from", empty.to_str().unwrap()]).fails(1);
    let run = stage.own(&["--rollback"]).fails(1);
    assert!(run.stderr.contains("no version of flock to go back to"), "{run:?}");

    stage.source.release("9.0.0", "");
    let tools = stage.home.outside().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let asked = tools.join("dpkg-query");
    std::fs::write(&asked, "#!/bin/sh\n[ \"$1\" = -S ] && echo \"flock-agents: $2\"\n").unwrap();
    std::fs::set_permissions(&asked, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = stage.own_command(&["--from", &stage.source.path()]);
    let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap().to_owned();
    let all = std::iter::once(tools).chain(std::env::split_paths(&path));
    let run = finish(command.env("PATH", std::env::join_paths(all).unwrap())).fails(1);
    assert!(run.stderr.contains("belongs to the Debian package flock-agents"), "{run:?}");
    assert!(run.stderr.contains("install -D -m 755"), "{run:?}");
    assert!(!stage.home.file("gateways/flock/.staging").exists(), "nothing was fetched");
}

#[test]
fn a_tag_of_the_source_that_was_moved_is_taken_only_by_its_commit() {
    let stage = Stage::new();
    let from = stage.source.path();
    let tag = |commit: &str| {
        let repository = git2::Repository::open(&from).unwrap();
        let object = repository.find_object(git2::Oid::from_str(commit).unwrap(), None).unwrap();
        repository.tag_lightweight("v9", &object, true).unwrap();
    };
    let nine = stage.source.release("9.0.0", "");
    tag(&nine);
    stage.own(&["--from", &from, "--ref", "v9"]).ok();
    assert_eq!(stage.version(), named("9.0.0", &nine));
    let ten = stage.source.release("10.0.0", "");
    tag(&ten);
    let told = stage.own(&["--check", "--ref", "v9", "--json"]).ok().json();
    assert_eq!((told["state"].as_str(), told["wanted"]["was"].as_str()), (Some("moved"), Some(&*nine)));
    let run = stage.own(&["--ref", "v9"]).fails(1);
    for word in [&*nine, &*ten, "first seen here", "flock update --self --ref"] {
        assert!(run.stderr.contains(word), "{word}: {run:?}");
    }
    assert_eq!(stage.version(), named("9.0.0", &nine));
    stage.own(&["--ref", &ten]).ok();
    assert_eq!(stage.version(), named("10.0.0", &ten));
    stage.is_tidy();
}

impl Stage {
    /// Goes back by the real program, which names the one to replace.
    fn rollback_command(&self, args: &[&str]) -> Command {
        let program = self.program.display().to_string();
        let all: Vec<&str> =
            ["rollback", "--program", &program].into_iter().chain(args.iter().copied()).collect();
        self.command(&self.real, &all)
    }

    fn rollback(&self, args: &[&str]) -> Run {
        finish(&mut self.rollback_command(args))
    }

    fn generations(&self) -> Vec<Value> {
        let listed = self.home.flock(["generations", "--json"]).ok().json();
        listed["generations"].as_array().unwrap().clone()
    }
}

#[test]
fn a_rollback_of_the_home_takes_the_program_with_it() {
    let stage = Stage::new();
    let first = stage.version();
    stage.home.flock(["config", "set", "gateway.custom", "1"]).ok();
    stage.flock(&["start"]).ok();
    let nine = stage.source.release("9.0.0", "");
    stage.update().ok();
    let all = stage.generations();
    assert_eq!((all.len(), &all[0]["why"]), (3, &"flock update".into()), "{all:?}");
    assert!(all[0]["what"][0].as_str().unwrap().contains("-> 9.0.0"), "{all:?}");
    stage.home.flock(["config", "set", "gateway.custom", "2"]).ok();

    stage.rollback(&["1", "--yes"]).ok();
    assert_eq!(stage.version(), first);
    assert!(stage.home.config()["gateway"].get("custom").is_none());
    assert!(stage.gateway().is_some(), "it runs again");
    assert_eq!(stage.generations()[0]["backTo"], 1);
    stage.is_tidy();
    // And forth again.
    stage.rollback(&["4", "--yes"]).ok();
    assert_eq!(stage.version(), named("9.0.0", &nine));
    assert_eq!(stage.home.config()["gateway"]["custom"], 2);
    assert_eq!(stage.generations().len(), 6);

    // One more update, and the first program is gone.
    stage.source.release("10.0.0", "");
    stage.update().ok();
    let lost = stage.generations().last().unwrap()["lost"].to_string();
    assert!(lost.contains("program removed"), "{lost}");
    let refused = stage.rollback(&["1", "--yes"]).fails(5);
    assert!(refused.stderr.contains("--only config,packages,openclaw"), "{refused:?}");
    stage.rollback(&["1", "--yes", "--only", "config,packages,openclaw"]).ok();
    assert!(stage.version().starts_with("flock 10.0.0"));
}

#[test]
fn a_program_that_does_not_get_healthy_takes_the_whole_rollback_back() {
    let stage = Stage::new();
    let marker = stage.home.outside().join("may-start");
    // It starts once, and never again.
    let sick = format!(
        r#"if args.contains(&"start") {{
            if std::path::Path::new({marker:?}).exists() {{ eprintln!("error: it feels sick"); std::process::exit(1); }}
            std::fs::write({marker:?}, "x").unwrap();
        }}"#
    );
    stage.flock(&["start"]).ok();
    stage.source.release("9.0.0", &sick);
    stage.update().ok();
    let ten = stage.source.release("10.0.0", "");
    stage.update().ok();
    stage.home.flock(["config", "set", "gateway.custom", "2"]).ok();
    let config = stage.home.config_text();
    let failed = stage.rollback(&["2", "--yes"]);
    assert!(
        failed.code != 0 && failed.stderr.contains("everything is as in generation 4 again"),
        "{failed:?}"
    );
    assert_eq!((stage.version(), stage.home.config_text()), (named("10.0.0", &ten), config));
    assert!(stage.gateway().is_some());
    assert_eq!(stage.generations().len(), 4);
    assert!(!stage.home.file("generations/rollback").exists());
    stage.is_tidy();
}

#[test]
fn a_rollback_that_is_killed_at_its_program_is_completed_by_the_next_command() {
    let stage = Stage::new();
    let marker = stage.home.outside().join("starting");
    // The first start is that of the rollback: nothing runs before.
    let nine = stage.source.release("9.0.0", &hangs_once("start", &marker));
    stage.update().ok();
    stage.source.release("10.0.0", "");
    stage.update().ok();
    stage.home.flock(["config", "set", "gateway.custom", "2"]).ok();
    stage.flock(&["start"]).ok();
    let mut child = stage.rollback_command(&["2", "--yes"]).stderr(Stdio::piped()).spawn().unwrap();
    Stage::wait_for(&mut child, &marker);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stage.home.file("generations/rollback").exists());
    let all = stage.generations();
    assert_eq!((all.len(), &all[0]["backTo"]), (5, &2.into()), "{all:?}");
    assert_eq!(stage.version(), named("9.0.0", &nine));
    assert!(stage.home.config()["gateway"].get("custom").is_none());
    assert!(stage.gateway().is_some(), "it ran before");
    assert!(!stage.home.file("generations/rollback").exists());
    stage.is_tidy();
}

#[test]
fn a_rollback_to_an_older_schema_needs_its_backup_and_counts_the_loss() {
    use flock::home::Home;
    use flock::store::Store;

    let stage = Stage::new();
    let place = Home::new(stage.home.path(), None);
    let first = stage.version();
    stage.home.flock(["channel", "create", "old", "--topic", "x"]).ok();
    // A backup of the time before. The first program would have made it with an older schema.
    let made = Store::open(&place).unwrap().back_up(&place, 5).unwrap();
    std::fs::rename(&made.path, stage.home.file("backups/flock-v1-5.db")).unwrap();
    stage.source.release("9.0.0", "");
    stage.update().ok();
    let file = stage.home.file("generations/1.json");
    let mut record: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    record["state"]["schema"] = 1.into();
    std::fs::write(&file, record.to_string()).unwrap();
    stage.home.flock(["channel", "create", "new", "--topic", "x"]).ok();
    stage.home.flock(["channel", "post", "new", "one"]).ok();
    let channels = || stage.home.flock(["channel", "list", "--json"]).ok().stdout;

    let refused = stage.rollback(&["1", "--yes"]).fails(5);
    assert!(refused.stderr.contains("can't read today's database"), "{refused:?}");
    let dry = stage.rollback(&["1", "--restore-backup", "--dry-run"]).ok().stdout;
    assert!(dry.contains("less than the present database: 2 messages"), "{dry}");
    assert!(channels().contains("\"new\""));
    stage.rollback(&["1", "--restore-backup", "--yes"]).ok();
    assert_eq!(stage.version(), first);
    assert!(channels().contains("\"old\"") && !channels().contains("\"new\""), "{}", channels());
    // What was replaced is kept as a backup of its own.
    let kept = stage.home.flock(["restore", "--list"]).ok().stdout;
    assert_eq!(kept.lines().filter(|line| line.contains("migration")).count(), 2, "{kept}");
    stage.is_tidy();
}
