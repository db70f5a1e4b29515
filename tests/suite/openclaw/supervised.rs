//! OpenClaw as the supervisor's second child, on a stand-in.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flock::home::Home;
use flock::openclaw::container_prefix;
use flock::openclaw::probe::{self, Depth, ProbeError};
use flock::process::ProcessId;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::stage::{LIMIT, Stage};
use crate::support::docker::{self, docker};
use crate::support::home::{TempHome, free_port};
use crate::support::openclaw::{Era, Upstream};
use crate::support::wait_until;

/// A home with OpenClaw, and a model that it can ask.
fn installed(era: Era, home: TempHome) -> (TempHome, Upstream) {
    let upstream = Upstream::built(era);
    install(&home, &upstream);
    (home, upstream)
}

pub fn install(home: &TempHome, upstream: &Upstream) {
    let port = free_port().to_string();
    let line = ["init", "--yes", "--no-images", "--model", "lab/x", "--port", &port, "--gateway", "openclaw"];
    home.flock(line.into_iter().chain(["--repo", &upstream.path(), "--ref", "main"])).ok();
    home.database();
    let lab = json!({"lab": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "secret:lab"}});
    home.flock(["config", "set", "models.providers", &lab.to_string()]).ok();
    home.flock(["config", "set", "gateway.port", &free_port().to_string()]).ok();
    std::fs::write(home.file("secrets/lab"), "planted-key").unwrap();
}

pub fn add(home: &TempHome, agent: &str) {
    home.flock(["add", agent, "--runtime", "openclaw", "--no-container", "--yes"]).ok();
}

fn status(home: &TempHome) -> Value {
    home.flock(["status", "--json"]).json()
}

fn openclaw(home: &TempHome) -> Value {
    status(home)["openclaw"].clone()
}

/// Waits until it stands like this; how it stands then.
fn until(home: &TempHome, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    wait_until(what, LIMIT, || {
        let found = openclaw(home);
        if wanted(&found) { Ok(found) } else { Err(found.to_string()) }
    })
}

fn pid(bundle: &Value) -> ProcessId {
    ProcessId::of(i32::try_from(bundle["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

/// What the stand-in wrote of its start.
fn started(home: &TempHome) -> Value {
    serde_json::from_slice(&std::fs::read(home.file("gateways/openclaw/state/started.json")).unwrap())
        .unwrap()
}

fn kill(process: ProcessId) {
    nix::sys::signal::kill(Pid::from_raw(process.pid), Signal::SIGKILL).unwrap();
}

fn supervisor(home: &TempHome) -> ProcessId {
    ProcessId::of(i32::try_from(status(home)["supervisor"]["pid"].as_i64().unwrap()).unwrap()).unwrap()
}

fn starts(home: &TempHome) -> usize {
    let log = std::fs::read_to_string(home.file("logs/supervisor.log")).unwrap();
    log.matches("openclaw started with pid").count()
}

#[test]
fn a_start_runs_both_and_a_stop_leaves_nothing() {
    for era in [Era::Old, Era::New] {
        let (home, upstream) = installed(era, TempHome::new());
        add(&home, "coder");
        let told = home.flock(["start"]).ok();
        assert!(told.stderr.contains("gateway is up") && told.stderr.contains("OpenClaw runs"), "{told:?}");
        let bundle = openclaw(&home);
        assert_eq!(bundle["healthy"], true, "{bundle}");
        assert_eq!(bundle["installed"]["commit"], upstream.head().as_str());
        assert_eq!(bundle["serving"], bundle["installed"]);
        let process = pid(&bundle);
        assert_eq!(started(&home)["pid"], process.pid);
        // Its own folders, and of secrets what its configuration refers to.
        let environment = started(&home)["env"].clone();
        assert_eq!(
            environment,
            json!([
                "DOCKER_HOST",
                "FLOCK_OPENCLAW_TOKEN",
                "FLOCK_PROVIDER_KEY_LAB",
                "FLOCK_SUPERVISED",
                "HOME",
                "NO_COLOR",
                "OPENCLAW_CONFIG_PATH",
                "OPENCLAW_NO_RESPAWN",
                "OPENCLAW_STATE_DIR",
                "PATH",
                "USER"
            ])
        );
        let answer = home.flock(["chat", "coder", "hello"]).ok();
        assert!(answer.stdout.contains("coder heard (1): hello"), "{answer:?}");
        let shown = home.flock(["status"]).ok().stdout;
        assert!(shown.contains("openclaw    healthy") && shown.contains(&upstream.head()[..7]), "{shown}");
        home.flock(["start"]).ok();
        assert_eq!(pid(&openclaw(&home)), process, "a second start changes nothing");
        home.flock(["stop"]).ok();
        assert!(!process.is_alive());
        let bundle = openclaw(&home);
        assert_eq!((&bundle["state"], &bundle["serving"]), (&json!("stopped"), &Value::Null), "{bundle}");
        let logs = home.flock(["logs", "openclaw"]).ok().stdout;
        assert!(logs.contains("listening") && !logs.contains("planted-key"), "{logs}");
    }
}

#[test]
fn it_runs_as_long_as_agents_run_on_it_and_takes_up_what_is_changed() {
    let (home, _upstream) = installed(Era::New, TempHome::new());
    home.flock(["start"]).ok();
    let bundle = openclaw(&home);
    assert_eq!((&bundle["state"], &bundle["agents"]), (&json!("stopped"), &json!(0)), "{bundle}");
    assert!(home.flock(["status"]).ok().stdout.contains("no agent runs on it"));
    add(&home, "coder");
    let first = pid(&until(&home, "it runs", |bundle| bundle["healthy"] == true));
    // Another agent with nothing new: its file is another one, its process the same.
    add(&home, "tester");
    let file = home.file("gateways/openclaw/openclaw.json");
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"tester\""));
    assert_eq!(pid(&openclaw(&home)), first);
    // A key that it was started without: it is started anew.
    std::fs::write(home.file("secrets/lab"), "another-key").unwrap();
    home.flock(["config", "set", "agents.list[tester].model.primary", "lab/y"]).ok();
    let second = until(&home, "it is another process", |bundle| {
        bundle["healthy"] == true && bundle["pid"] != first.pid
    });
    assert_ne!(pid(&second), first);
    // What it refuses changes nothing of what runs.
    home.flock(["config", "set", "agents.defaults.sandbox.docker.network", "host"]).ok();
    wait_until("the supervisor says so", LIMIT, || {
        let log = std::fs::read_to_string(home.file("logs/supervisor.log")).unwrap();
        log.contains("openclaw keeps running with its earlier configuration").then_some(()).ok_or(log)
    });
    assert_eq!(pid(&openclaw(&home)), pid(&second));
    home.flock(["config", "unset", "agents.defaults.sandbox.docker.network"]).ok();
    for agent in ["tester", "coder"] {
        home.flock(["remove", agent, "--yes"]).ok();
    }
    let last = until(&home, "it is stopped", |bundle| bundle["state"] == "stopped");
    assert_eq!(last["pid"], Value::Null);
    assert_eq!(status(&home)["gateway"]["state"], "healthy");
}

#[test]
fn two_that_are_added_at_once_are_both_known() {
    let (home, _upstream) = installed(Era::New, TempHome::new());
    // The first that is asked takes its time.
    let entry = home.file("openclaw/openclaw.mjs");
    let text = std::fs::read_to_string(&entry).unwrap();
    let slow = "if (process.argv[2] === \"config\" && first_time(\"slow\")) await new Promise((done) => setTimeout(done, 2000));\n";
    std::fs::write(&entry, text.replacen("const args", &format!("{slow}const args"), 1)).unwrap();
    let add = |agent: &str| {
        let mut command = home.command();
        command.args(["add", agent, "--runtime", "openclaw", "--no-container", "--yes"]).spawn().unwrap()
    };
    for mut child in [add("coder"), add("tester")] {
        assert!(child.wait().unwrap().success());
    }
    let derived = std::fs::read_to_string(home.file("gateways/openclaw/openclaw.json")).unwrap();
    assert!(derived.contains("\"coder\"") && derived.contains("\"tester\""), "{derived}");
}

#[test]
fn another_version_that_was_put_in_use_is_taken_up_with_the_next_change() {
    let (home, upstream) = installed(Era::New, TempHome::new());
    add(&home, "coder");
    home.flock(["start"]).ok();
    let first = pid(&openclaw(&home));
    // Made while nothing runs, and put in use by hand under what runs.
    let before = std::fs::read_link(home.file("openclaw")).unwrap();
    home.flock(["stop"]).ok();
    let newer = upstream.release("2026.9.7");
    home.flock(["init", "--yes", "--no-images", "--gateway", "openclaw"]).ok();
    let after = std::fs::read_link(home.file("openclaw")).unwrap();
    let point = |target: &Path| {
        std::fs::remove_file(home.file("openclaw")).unwrap();
        std::os::unix::fs::symlink(target, home.file("openclaw")).unwrap();
    };
    point(&before);
    home.flock(["start"]).ok();
    assert_ne!(openclaw(&home)["serving"]["commit"], newer.as_str());
    point(&after);
    add(&home, "tester");
    let bundle = until(&home, "the newer one serves", |bundle| {
        bundle["healthy"] == true && bundle["serving"]["commit"] == newer.as_str()
    });
    assert_ne!(pid(&bundle), first);
    let derived = std::fs::read_to_string(home.file("gateways/openclaw/openclaw.json")).unwrap();
    assert!(derived.contains("\"tester\""), "{derived}");
}

#[test]
fn an_end_that_would_come_again_is_said_and_the_gateway_stays() {
    let (home, upstream) = installed(Era::New, TempHome::new());
    add(&home, "coder");
    upstream.fault("start", "exit:78");
    let again = TempHome::new();
    install(&again, &upstream);
    add(&again, "coder");
    let told = again.flock(["start"]).fails(2);
    assert!(told.stderr.contains("gateway is up"), "{told:?}");
    assert!(
        told.stderr.contains("OpenClaw does not run") && told.stderr.contains("told to end with 78"),
        "{told:?}"
    );
    assert!(told.stderr.contains("flock logs openclaw"), "{told:?}");
    let bundle = openclaw(&again);
    assert_eq!((&bundle["state"], starts(&again)), (&json!("failed"), 1), "{bundle}");
    assert_eq!(status(&again)["gateway"]["state"], "healthy");
    let shown = again.flock(["status"]).ok().stdout;
    assert!(shown.contains("openclaw    failed"), "{shown}");
    drop(home);
}

#[test]
fn its_crashes_are_counted_and_end_in_the_breaker() {
    let (home, upstream) = installed(Era::Old, TempHome::new());
    upstream.fault("start", "crash");
    let again = TempHome::new();
    install(&again, &upstream);
    add(&again, "coder");
    let told = again.flock(["start"]).fails(1);
    assert!(told.stderr.contains("OpenClaw crashed 5 times"), "{told:?}");
    assert_eq!((openclaw(&again)["state"].clone(), starts(&again)), (json!("breaker-open"), 5));
    drop(home);
}

#[test]
fn a_killed_one_is_started_again_and_ends_with_its_supervisor() {
    let (home, _upstream) = installed(Era::Old, TempHome::new());
    add(&home, "coder");
    home.flock(["start"]).ok();
    let first = pid(&openclaw(&home));
    kill(first);
    let second =
        pid(&until(&home, "it runs again", |bundle| bundle["healthy"] == true && bundle["pid"] != first.pid));
    assert_eq!(openclaw(&home)["restarts"], 1);
    kill(supervisor(&home));
    // Its plugin notices that nobody holds its standard input any more.
    wait_until("it ends with its supervisor", LIMIT, || {
        (!second.is_alive()).then_some(()).ok_or("alive".to_owned())
    });
    home.flock(["start"]).ok();
    let third = pid(&openclaw(&home));
    // Whoever is faster ends it: itself, or the stop.
    kill(supervisor(&home));
    home.flock(["stop"]).ok();
    assert!(!third.is_alive());
}

#[test]
fn a_port_that_another_program_holds_is_named_before_it_is_started() {
    let (home, _upstream) = installed(Era::Old, TempHome::new());
    add(&home, "coder");
    let port = home.config()["gateway"]["port"].as_u64().unwrap();
    let listener = TcpListener::bind(("127.0.0.1", u16::try_from(port).unwrap())).unwrap();
    let told = home.flock(["start"]).fails(5);
    assert!(told.stderr.contains(&format!("port {port} is taken by")), "{told:?}");
    assert!(told.stderr.contains(&format!("pid {}", std::process::id())), "{told:?}");
    assert_eq!(starts(&home), 0);
    drop(listener);
    let told = home.flock(["start"]).ok();
    assert!(told.stderr.contains("OpenClaw runs"), "{told:?}");
}

/// Has the program never answer when it is asked about another configuration; the file that it writes its pid to.
fn never_answers(home: &TempHome) -> PathBuf {
    let (entry, asked) = (home.file("openclaw/openclaw.mjs"), home.file("asked.pid"));
    let text = std::fs::read_to_string(&entry).unwrap();
    let slow = format!(
        "if (process.argv[2] === \"config\") {{ (await import(\"node:fs\")).writeFileSync({asked:?}, `${{process.pid}} `); await new Promise(() => setInterval(() => {{}}, 1000)); }}\n"
    );
    std::fs::write(&entry, text.replacen("const args", &format!("{slow}const args"), 1)).unwrap();
    home.flock(["config", "set", "agents.list[coder].model.primary", "lab/z"]).ok();
    asked
}

/// Waits until it is asked.
fn asked(file: &Path) -> ProcessId {
    let process = wait_until("it is asked", LIMIT, || {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        text.strip_suffix(' ').and_then(|pid| ProcessId::of(pid.parse().ok()?)).ok_or(text)
    });
    std::fs::remove_file(file).unwrap();
    process
}

fn gone(process: ProcessId) {
    wait_until("it is gone", LIMIT, || (!process.is_alive()).then_some(()).ok_or("alive".to_owned()));
}

#[test]
fn a_stop_while_it_is_made_ready_gives_it_up() {
    let (home, upstream) = installed(Era::New, TempHome::new());
    add(&home, "coder");
    let file = never_answers(&home);
    let mut start = home.command().arg("start").spawn().unwrap();
    let first = asked(&file);
    // Nobody is left who could end it, or have another supervisor go on.
    let watching = supervisor(&home);
    start.kill().unwrap();
    start.wait().unwrap();
    kill(watching);
    gone(first);
    let _ = std::fs::remove_file(&file);
    let mut start = home.command().arg("start").spawn().unwrap();
    let second = asked(&file);
    until(&home, "it is starting", |bundle| bundle["state"] == "starting");
    home.flock(["stop"]).ok();
    assert!(!start.wait().unwrap().success());
    assert_eq!((openclaw(&home)["state"].clone(), starts(&home)), (json!("stopped"), 0));
    gone(second);
    // Also of the one that was killed.
    let entries = std::fs::read_dir(home.file("gateways/openclaw")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    let left = |name: &&String| name.starts_with("candidate-") || name.starts_with(".asked-");
    assert_eq!(names.iter().find(left), None, "{names:?}");
    drop(upstream);
}

#[test]
fn an_uninstall_while_it_is_made_ready_waits_until_that_is_given_up() {
    let (home, upstream) = installed(Era::New, TempHome::new());
    add(&home, "coder");
    let file = never_answers(&home);
    let mut start = home.command().arg("start").spawn().unwrap();
    let process = asked(&file);
    home.flock(["uninstall", "openclaw", "--purge", "--force", "--yes"]).ok();
    gone(process);
    let left = ["openclaw", "gateways", "extensions", "secrets/openclaw-token", "secrets/openclaw-plugin"];
    assert_eq!(left.map(|name| home.file(name).exists()), [false; 5]);
    start.wait().unwrap();
    assert_eq!(starts(&home), 0);
    drop(upstream);
}

#[test]
fn a_purged_agent_leaves_no_conversation_in_openclaw() {
    let (home, _upstream) = installed(Era::New, TempHome::new());
    add(&home, "coder");
    add(&home, "writer");
    home.flock(["start"]).ok();
    let own = |agent: &str| {
        ["state", "state-of-2026.2.9-aa"]
            .map(|state| home.file("gateways/openclaw").join(state).join("agents").join(agent))
    };
    for folder in own("coder").into_iter().chain(own("writer")) {
        std::fs::create_dir_all(folder.join("sessions")).unwrap();
        std::fs::write(folder.join("sessions/sessions.json"), "{}").unwrap();
    }
    let before = pid(&openclaw(&home));
    let told = home.flock(["remove", "coder", "--purge", "--yes", "--json"]).json();
    assert_eq!(told["kept"], json!([]));
    assert_eq!(own("coder").map(|folder| folder.exists()), [false; 2]);
    assert_eq!(own("writer").map(|folder| folder.exists()), [true; 2]);
    // Only then: it no longer has the agent.
    let text = std::fs::read_to_string(home.file("gateways/openclaw/openclaw.json")).unwrap();
    assert!(!text.contains("coder") && text.contains("writer"), "{text}");
    assert!(!home.file("gateways/openclaw/roles/coder.md").exists());
    assert!(before.is_alive());
    // What is kept is said.
    let told = home.flock(["remove", "writer", "--yes", "--json"]).json();
    for folder in own("writer") {
        assert!(told["kept"].as_array().unwrap().contains(&json!(folder)), "{told}");
    }
}

#[tokio::test]
async fn only_this_homes_gateway_proves_itself() {
    let limit = Duration::from_secs(10);
    for era in [Era::Old, Era::New] {
        let mut stage = Stage::new(era);
        stage.start_openclaw();
        let (port, token, process) = stage.openclaw();
        let ask = |token: &'static str, process| probe::ask(port, token, process, Depth::Proof, limit);
        ask(token, process).await.unwrap();
        assert!(matches!(ask("another", process).await, Err(ProbeError::Impostor { wanted: 400, .. })));
        // It knows the token, and is an orphan's.
        let stranger = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let stranger = super::stage::Running(stranger);
        let other = ProcessId::of(i32::try_from(stranger.0.id()).unwrap()).unwrap();
        let error = ask(token, other).await.unwrap_err();
        assert!(
            matches!(&error, ProbeError::Foreign { holder, .. } if holder.contains(&process.pid.to_string()))
        );
    }
    for (how, impostor) in [("impostor", true), ("never", false)] {
        let mut stage = Stage::new(Era::New);
        stage.fault("health", how);
        stage.start_openclaw();
        let (port, token, process) = stage.openclaw();
        let error = probe::ask(port, token, process, Depth::Proof, limit).await.unwrap_err();
        assert_eq!(matches!(error, ProbeError::Impostor { wanted: 401, .. }), impostor, "{how}: {error}");
        assert_eq!(matches!(error, ProbeError::Loopback(_)), !impostor, "{how}: {error}");
    }
}

#[test]
fn its_containers_are_removed_before_a_start_and_after_a_stop() {
    if docker::engine_with_images().is_none() {
        return;
    }
    let (home, _upstream) = installed(Era::New, TempHome::new().with_docker());
    add(&home, "coder");
    let prefix = container_prefix(&Home::new(home.path(), None));
    let image = docker(&["images", "-q", "flock-sandbox"]).lines().next().unwrap().to_owned();
    let (ours, other) =
        (format!("{prefix}coder-1"), format!("flock-oc-other-{}-coder-1", std::process::id()));
    let make = |name: &str| {
        docker(&[
            "run",
            "-d",
            "--network=none",
            "--label=openclaw.sandbox=1",
            "--name",
            name,
            &image,
            "sleep",
            "600",
        ])
    };
    let exists = |name: &str| !docker(&["ps", "-aq", "--filter", &format!("name=^{name}$")]).is_empty();
    make(&ours);
    make(&other);
    home.flock(["start"]).ok();
    assert_eq!((exists(&ours), exists(&other)), (false, true));
    make(&ours);
    home.flock(["stop"]).ok();
    assert_eq!((exists(&ours), exists(&other)), (false, true));
    docker(&["rm", "-f", &other]);
}

#[test]
fn an_uninstall_ends_the_one_that_runs_and_the_gateway_stays() {
    let (home, _upstream) = installed(Era::New, TempHome::new());
    add(&home, "coder");
    home.flock(["start"]).ok();
    let process = pid(&until(&home, "it runs", |bundle| bundle["healthy"] == true));
    home.flock(["uninstall", "openclaw", "--yes"]).fails(1);
    assert!(process.is_alive());
    home.flock(["uninstall", "openclaw", "--force", "--yes"]).ok();
    assert!(!process.is_alive());
    assert!(!home.file("openclaw").is_symlink() && !home.file("extensions").exists());
    assert_eq!(status(&home)["gateway"]["state"], "healthy");
    // With all the rest it goes at once.
    home.flock(["uninstall", "--purge", "--yes"]).ok();
    assert!(!home.path().exists());
}
