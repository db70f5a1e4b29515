//! Starting and stopping with containers: what `status` measured of them, and that `stop` leaves none running.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::docker::docker;
use crate::support::home::TempHome;
use crate::support::wait_until;

fn running(home: &TempHome) -> String {
    let label = format!("label=flock.home={}", home.path().display());
    docker(&["ps", "--filter", &label, "--format", "{{.Names}}"])
}

fn container<'a>(status: &'a Value, agent: &str) -> &'a Value {
    let all = status["containers"].as_array().unwrap();
    all.iter().find(|one| one["agent"] == agent).unwrap_or_else(|| panic!("{status:#}"))
}

fn pid(value: &Value) -> Pid {
    Pid::from_raw(i32::try_from(value.as_i64().unwrap()).unwrap())
}

#[test]
fn status_says_what_the_probe_found_and_stop_stops_the_containers() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder"]).ok();
    let before = home.flock(["status", "--json"]).fails(4).json();
    assert_eq!(container(&before, "coder")["state"], "running", "asked without a gateway");
    assert!(before["images"].as_array().unwrap().iter().all(|image| image["present"] == true), "{before:#}");

    home.flock(["start"]).ok();
    let status = home.flock(["status", "--probe", "--json"]).ok().json();
    let coder = container(&status, "coder");
    assert_eq!(coder["probe"]["confined"], true, "{status:#}");
    assert!(coder["probe"]["ageMs"].as_i64().unwrap() < 60_000, "{status:#}");
    assert_eq!(status["docker"]["reachable"], true);
    let text = home.flock(["status"]).ok().stdout;
    assert!(text.contains("confined, probed"), "{text}");

    let stopped = home.flock(["stop", "--json"]).ok().json();
    assert_eq!((&stopped["orderly"], &stopped["containers"]), (&true.into(), &Value::Array(Vec::new())));
    assert_eq!(running(&home), "");
}

#[test]
fn stop_stops_the_containers_of_a_gateway_that_was_killed() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["start"]).ok();
    home.flock(["add", "coder"]).ok();
    let status = home.flock(["status", "--json"]).ok().json();
    // Else the gateway may begin to stop them itself, once its supervisor is gone.
    kill(pid(&status["gateway"]["pid"]), Signal::SIGSTOP).unwrap();
    for process in ["supervisor", "gateway"] {
        kill(pid(&status[process]["pid"]), Signal::SIGKILL).unwrap();
    }
    wait_until("nobody answers", std::time::Duration::from_secs(30), || {
        let run = home.flock(["status"]);
        if run.code == 4 { Ok(()) } else { Err(run.stdout) }
    });
    assert!(running(&home).contains(&home.container("coder")), "nobody has stopped it yet");
    let stopped = home.flock(["stop", "--json"]).ok().json();
    let names = stopped["containers"].as_array().unwrap();
    assert!(names.contains(&home.container("coder").into()), "{stopped}");
    assert_eq!(running(&home), "");
    assert!(home.flock(["stop"]).ok().stderr.contains("nothing is running"));
}
