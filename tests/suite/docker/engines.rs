//! A second engine: agents are placed on both, one engine that hangs or is gone concerns nobody else's, and agents move
//! away from an engine that is drained, with their workspaces.

use std::time::Duration;

use flock::config::EngineSettings;
use flock::id::EngineName;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::engines::PlannedMove;
use flock::sandbox::{Command, Relocation, Sandbox as _, SandboxError, image};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::sandbox::{id, output, run};
use super::store::flake;
use crate::support::docker::{self, Team, docker as docker_command};
use crate::support::engine_proxy::{EngineProxy, Fault};
use crate::support::extra_engine::ExtraEngine;
use crate::support::home::TempHome;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(120);

/// The error of an agent whose engine `second` does not answer.
fn is_silent(error: &SandboxError) -> bool {
    matches!(error, SandboxError::Unavailable { engine: Some(name), .. } if name.as_str() == "second")
}

#[test]
fn an_engine_that_hangs_or_is_gone_costs_its_own_agents_a_clear_state_and_nobody_else() {
    let Some(team) = Team::new(&["ada", "bob"]) else { return };
    let Some(mut extra) = ExtraEngine::plain() else { return };
    let second = "second".parse().unwrap();
    team.configure(|config| config.engines = vec![EngineSettings::new(second, Some(extra.host()))]);
    // Another process of the home, which has no connection to a sandbox yet.
    let next = || -> DockerSandbox { team.sandbox() };
    docker::block_on(async {
        let config = (team.source())();
        image::ensure_images(&extra.engine(), &team.home, &config, &|_| {}).await.unwrap();
        let sandbox = next();
        assert_eq!(output(&sandbox, "ada", "echo ada > made; cat made").await, "ada");
        assert_eq!(output(&sandbox, "bob", "echo bob > made; cat made").await, "bob");
        let placed = sandbox.engines().placements().await.unwrap();
        let where_is = |agent: &str| placed[&id(agent)].to_string();
        assert_eq!((where_is("ada").as_str(), where_is("bob").as_str()), ("local", "second"));
        let file = team.home.workspace(&id("bob")).join("made");
        assert_eq!(std::fs::read_to_string(file).unwrap(), "bob\n", "its workspace is this machine's folder");
        assert!(sandbox.probe(&id("bob")).await.unwrap().is_confined());
        let names = docker_command(&["-H", &extra.host(), "ps", "--format", "{{.Names}}"]);
        assert_eq!(names, team.container("bob"), "only its own agents are there");
        drop(sandbox);

        // It hangs: connections are accepted, and nothing answers.
        extra.signal(Signal::SIGSTOP);
        let sandbox = next();
        let engine = sandbox.engines().of_id(&id("bob")).await.unwrap().engine;
        assert!(is_silent(&engine.ping().await.unwrap_err()), "that is known at once");
        let mut waits = Box::pin(run(&sandbox, "bob", "cat made"));
        tokio::select! {
            answered = &mut waits => panic!("a stopped engine answered: {answered:?}"),
            found = output(&sandbox, "ada", "cat made") => assert_eq!(found, "ada"),
        }
        extra.signal(Signal::SIGCONT);
        let outcome = waits.await.unwrap();
        assert_eq!(outcome.output.head, b"bob\n", "the command waited, and ran once");
        drop(sandbox);

        // It is gone.
        extra.kill();
        let sandbox = next();
        let error = run(&sandbox, "bob", "cat made").await.unwrap_err();
        assert!(is_silent(&error), "{}", flock::error::chain(&error));
        assert_eq!(output(&sandbox, "ada", "cat made").await, "ada");
        let placed = sandbox.engines().placements().await.unwrap();
        assert_eq!(
            placed[&id("bob")].as_str(),
            "second",
            "it is not made elsewhere beside what may still run"
        );

        // It is back: the agent goes on with the files that it had.
        extra.revive();
        assert_eq!(output(&sandbox, "bob", "cat made").await, "bob");
        sandbox.remove(&id("bob")).await.unwrap();
        let names = docker_command(&["-H", &extra.host(), "ps", "-a", "--format", "{{.Names}}"]);
        assert_eq!(names, "", "it was removed from its own engine");
    });
}

#[test]
fn an_agent_whose_job_runs_stays_on_a_drained_engine_also_without_a_connection() {
    let Some(team) = Team::new(&["ada"]) else { return };
    let ada = id("ada");
    let planned = PlannedMove { agent: ada.clone(), from: EngineName::local(), to: Ok(EngineName::local()) };
    let container = team.container("ada");
    docker::block_on(async {
        let sandbox = team.sandbox();
        let command = "until [ -e go ]; do sleep 0.1; done".to_owned();
        let job = Command { command, keep: 1024, ..Command::default() };
        sandbox.spawn(&ada, job).await.unwrap();
        let before = sandbox.containers().await.unwrap().remove(0).id;
        let waits = async |sandbox: &DockerSandbox, reason: &str| {
            let moved = sandbox.relocate(&planned).await.unwrap();
            assert!(matches!(&moved, Relocation::Waits(found) if found.starts_with(reason)), "{moved:?}");
            let found = sandbox.containers().await.unwrap().remove(0);
            assert!(found.id == before && found.is_running(), "{found:?}");
        };
        waits(&sandbox, "a background job runs").await;
        drop(sandbox);

        // A gateway that was restarted has no connection, and its next command would get another container.
        team.configure(|config| config.agents[0].docker.memory = Some(256 << 20));
        let next = team.sandbox();
        waits(&next, "a background job runs").await;
        docker_command(&["pause", &container]);
        waits(&next, "it is frozen").await;
        docker_command(&["unpause", &container]);

        // The helper can't be asked for its jobs.
        let proxy = EngineProxy::new(&team.engine);
        proxy.set(Fault::NoAttach);
        let through = DockerSandbox::new(team.home.clone(), team.source(), proxy.engine());
        waits(&through, "it is not known what runs in its sandbox").await;

        // Then the engine tells that the helper is alone. There is no other engine, so the container goes and the agent stays.
        std::fs::write(team.home.workspace(&ada).join("go"), "").unwrap();
        let goes = async {
            while !through.containers().await.unwrap().is_empty() {
                through.relocate(&planned).await.unwrap();
            }
        };
        tokio::time::timeout(LIMIT, goes).await.unwrap();
    });
}

/// The engine of this name in the status, or null.
fn engine(home: &TempHome, name: &str) -> Value {
    // Without a gateway the exit code says so.
    let status = home.flock(["status", "--json"]).json();
    let engines = status["engines"].as_array().cloned().unwrap_or_default();
    engines.into_iter().find(|engine| engine["name"] == name).unwrap_or_default()
}

/// Waits until the agent is on an engine.
fn until_on(home: &TempHome, agent: &str, name: &str) {
    wait_until("the agent moves", LIMIT, || {
        let found = engine(home, name);
        let is_there = found["agents"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == agent));
        is_there.then_some(()).ok_or_else(|| home.flock(["engine", "list", "--json"]).stdout)
    });
}

fn is_running(engine: &[&str], container: &str) -> bool {
    let filter = format!("name=^{container}$");
    !docker_command(&[engine, &["ps", "-q", "--filter", &filter]].concat()).is_empty()
}

#[test]
fn agents_move_between_engines_when_one_is_drained() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Some(mut extra) = ExtraEngine::plain() else { return };
    let (host, container) = (extra.host(), home.container("coder"));
    let there: [&str; 2] = ["-H", &host];
    home.flock(["add", "coder"]).ok();
    assert!(home.flock(["status", "--json"]).json().get("engines").is_none());

    // What can't hold sandboxes is refused by name.
    let nowhere = format!("unix://{}", home.file("nothing.sock").display());
    let run = home.flock(["engine", "add", "second", &nowhere]).fails(6);
    assert!(run.stderr.contains("its socket is not there"), "{run:?}");
    home.flock(["engine", "add", "second", "http://gpu:2375"]).fails(2);
    let own = flock::sandbox::engine::Engine::from_env();
    let run = home.flock(["engine", "add", "twin", own.endpoint()]).fails(1);
    assert!(run.stderr.contains("which this home has already"), "{run:?}");
    let run = home.flock(["engine", "add", "second", &host, "--runtime", "kata-none"]).fails(1);
    assert!(run.stderr.contains("it has no runtime \"kata-none\""), "{run:?}");
    assert_eq!(engine(&home, "second"), Value::Null, "nothing was written");

    let added = home.flock(["engine", "add", "second", &host, "--labels", "gpu", "--json"]).ok().json();
    assert!(added["checks"].as_array().unwrap().iter().any(|check| check["name"] == "walls"), "{added:#}");
    assert_eq!(docker_command(&[&there[..], &["ps", "-aq"]].concat()), "", "the trial's container is gone");
    home.flock(["engine", "add", "second", &host]).fails(5);
    let local = engine(&home, "local")["agents"].as_array().unwrap().clone();
    assert!(local.iter().any(|agent| agent["id"] == "coder"), "it stays where it was: {local:?}");
    home.flock(["add", "painter", "--labels", "gpu"]).ok();
    assert!(is_running(&there, &home.container("painter")));
    let doctor = home.flock(["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let walls = checks.iter().find(|check| {
        check["name"] == "engines" && check["message"].as_str().unwrap().starts_with("second, walls: ")
    });
    assert_eq!(walls.unwrap()["state"], "ok", "{doctor:#}");

    // Away from the machine's own engine, while a gateway runs.
    home.flock(["start"]).ok();
    home.flock(["chat", "coder", "please write fizzbuzz"]).ok();
    assert!(is_running(&[], &container));
    home.flock(["engine", "drain", "local"]).ok();
    until_on(&home, "coder", "second");
    assert!(!is_running(&[], &container), "its container was removed before it was placed");
    let run = home.flock(["chat", "coder", "please write fizzbuzz"]).ok();
    assert!(run.stdout.contains("exit code 0"), "{run:?}");
    assert!(is_running(&there, &container) && !is_running(&[], &container));
    let run = home.flock(["engine", "remove", "second"]).fails(5);
    assert!(run.stderr.contains("coder") && run.stderr.contains("flock engine drain second"), "{run:?}");

    // It is gone: its agents have a clear state.
    extra.kill();
    let found = engine(&home, "second");
    assert_eq!(found["reachable"], false, "{found:#}");
    assert!(found["problem"].as_str().unwrap().starts_with("the engine second at unix://"), "{found:#}");
    let run = home.flock(["status"]).ok();
    assert!(run.stdout.contains("CAN'T WORK: its engine second does not answer"), "{run:?}");
    assert!(
        run.stderr.contains("these agents can run no command until it does: orchestrator, coder, painter"),
        "{run:?}"
    );
    home.flock(["engine", "show", "second", "--check"]).fails(1);
    home.flock(["engine", "remove", "second"]).fails(5);
    extra.revive();

    // And back. An agent that no other engine fits stays, and says why.
    home.flock(["engine", "drain", "local", "--stop"]).ok();
    home.flock(["engine", "drain", "second"]).ok();
    until_on(&home, "coder", "local");
    home.flock(["chat", "coder", "please write fizzbuzz"]).ok();
    assert!(is_running(&[], &container) && !is_running(&there, &container));
    let left = engine(&home, "second");
    let painter = left["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "painter").unwrap();
    let waits = painter["waits"].as_str().unwrap();
    assert!(waits.contains("local does not have the label gpu"), "{left:#}");
    let path = "plugins.entries.flock.config.gatewayAgents[painter].labels";
    home.flock(["config", "unset", path]).ok();
    until_on(&home, "painter", "local");
    home.flock(["engine", "remove", "second"]).ok();
    let label = format!("label=flock.home={}", home.path().display());
    for kind in [&["ps", "-aq"][..], &["volume", "ls", "-q"]] {
        let found = docker_command(&[&there[..], kind, &["--filter", &label]].concat());
        assert_eq!(found, "", "nothing of this home is left in it");
    }
    assert!(home.flock(["status", "--json"]).ok().json().get("engines").is_none());
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    for action in ["engine.add", "engine.drain", "engine.undrain", "engine.move", "engine.remove"] {
        assert!(audit.contains(&json!(action).to_string()), "{action}: {audit}");
    }
    home.flock(["stop"]).ok();
}

/// The names of the packages that an agent has in the engine where it is.
fn packages(home: &TempHome, agent: &str) -> Vec<String> {
    let listed = home.flock(["nix", "list", agent, "--json"]).ok().json();
    let all = listed["agents"][0]["packages"].as_array().unwrap().clone();
    all.iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

/// Has an agent run a command, so that its container is made, and runs the program of a package there.
fn greeting(home: &TempHome, engine: &[&str]) -> String {
    home.flock(["chat", "coder", "please write fizzbuzz"]).ok();
    let program = "/nix/var/nix/profiles/per-agent/coder/bin/greet";
    docker_command(&[engine, &["exec", &home.container("coder"), program]].concat()).trim().to_owned()
}

#[test]
fn packages_follow_an_agent_to_another_engine_and_back() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Some(extra) = ExtraEngine::plain() else { return };
    let host = extra.host();
    let source = format!("path:{}", flake(&home.outside()).display());
    home.flock(["config", "set", "plugins.entries.flock.config.nix.flake", &source]).ok();
    home.flock(["add", "coder", "--packages", "greet,part"]).ok();
    home.flock(["engine", "add", "second", &host]).ok();
    home.flock(["start"]).ok();
    home.flock(["engine", "drain", "local"]).ok();
    until_on(&home, "coder", "second");
    assert_eq!(packages(&home, "coder"), ["greet", "part"]);
    assert_eq!(greeting(&home, &["-H", &host]), "greet from the store");
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("greet part in the engine second"), "{audit}");

    // Without a gateway the command itself brings them. What was removed since does not come back with the old store.
    home.flock(["nix", "remove", "coder", "part"]).ok();
    home.flock(["stop"]).ok();
    home.flock(["engine", "drain", "local", "--stop"]).ok();
    home.flock(["engine", "drain", "second"]).ok();
    until_on(&home, "coder", "local");
    assert_eq!(packages(&home, "coder"), ["greet"]);
    home.flock(["engine", "remove", "second"]).ok();
    home.flock(["start"]).ok();
    assert_eq!(greeting(&home, &[]), "greet from the store");
    home.flock(["stop"]).ok();
}

#[test]
fn an_agent_whose_packages_can_not_be_installed_elsewhere_stays_and_says_why() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let Some(extra) = ExtraEngine::plain() else { return };
    let folder = flake(&home.outside());
    let source = format!("path:{}", folder.display());
    home.flock(["config", "set", "plugins.entries.flock.config.nix.flake", &source]).ok();
    home.flock(["add", "coder", "--packages", "greet"]).ok();
    home.flock(["engine", "add", "second", &extra.host()]).ok();
    // The package set is not the pinned one any more, so nothing of it is installed.
    std::fs::write(folder.join("more"), "more").unwrap();
    let reason = "its packages can't be installed in second: the content of the flake";
    let drained = home.flock(["engine", "drain", "local", "--json"]).ok().stdout;
    assert!(drained.contains(reason) && drained.contains("flock nix remove coder greet"), "{drained}");
    assert_eq!(packages(&home, "coder"), ["greet"], "it has what it had");
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("greet in the engine second: failed: the content of the flake"), "{audit}");

    // So does a gateway, until the agent does without.
    home.flock(["start"]).ok();
    wait_until("the reason is shown", LIMIT, || {
        let shown = home.flock(["engine", "show", "local", "--json"]).ok().stdout;
        let is_there = shown.contains(reason);
        is_there.then_some(()).ok_or(shown)
    });
    home.flock(["nix", "remove", "coder", "greet"]).ok();
    until_on(&home, "coder", "second");
    home.flock(["stop"]).ok();
}
