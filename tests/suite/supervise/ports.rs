//! A port that somebody else has.

use std::net::TcpListener;

use super::Flock;
use crate::support::home::free_port;

#[test]
fn another_program_on_the_port_is_named() {
    let flock = Flock::new();
    let listener = TcpListener::bind(("127.0.0.1", flock.port())).unwrap();
    let hanging_up = std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            drop(stream);
            if STOP.load(std::sync::atomic::Ordering::Relaxed) {
                break;
            }
        }
        drop(listener);
    });
    let run = flock.flock(["start"]).fails(1);
    assert!(run.stderr.contains(&format!("port {} is taken", flock.port())), "{run:?}");
    assert!(run.stderr.contains(&format!("pid {}", std::process::id())), "{run:?}");
    assert!(run.stderr.contains("gateway.port"), "{run:?}");
    let status = flock.flock(["status", "--json"]).fails(4).json();
    assert_eq!(status["gateway"]["proven"], false);
    STOP.store(true, std::sync::atomic::Ordering::Relaxed);
    drop(std::net::TcpStream::connect(("127.0.0.1", flock.port())));
    hanging_up.join().unwrap();
    flock.flock(["start"]).ok();
}

static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[test]
fn another_home_on_the_port_is_named_and_left_alone() {
    let first = Flock::started();
    let second = Flock::new();
    let port = first.port().to_string();
    second.flock(["config", "set", "plugins.entries.flock.config.gateway.port", &port]).ok();
    let run = second.flock(["start"]).fails(5);
    assert!(run.stderr.contains(&first.path().display().to_string()), "{run:?}");
    assert_eq!(second.processes(), []);
    let status = second.flock(["status", "--json"]).fails(4).json();
    assert!(status["gateway"]["problem"].as_str().unwrap().contains("another home"), "{status:#}");
    second.flock(["stop"]).ok();
    assert_eq!(first.status()["running"], true, "the other home's stop did not touch it");
}

#[test]
fn another_port_counts_after_a_restart_and_everybody_says_so() {
    let flock = Flock::started();
    let old = flock.port();
    let new = free_port();
    let note = format!("listens on port {old}; the configured port {new} takes effect after `flock restart`");
    let init = ["init", "--yes", "--no-images", "--port", &new.to_string()];
    let run = flock.flock(init).ok();
    assert!(run.stderr.contains(&note), "{run:?}");
    assert_eq!(flock.flock(init.iter().chain(&["--json"])).ok().json()["restart"], true);
    let path = "plugins.entries.flock.config.gateway.port";
    let run = flock.flock(["config", "set", path, &new.to_string()]).ok();
    assert!(run.stderr.contains(&note), "{run:?}");
    let status = flock.flock(["status", "--json"]).ok().json();
    assert_eq!(status["gateway"]["port"], old);
    assert!(status["warnings"].to_string().contains(&note), "{status:#}");
    let doctor = flock.flock(["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let gateway = checks.iter().find(|check| check["name"] == "gateway").unwrap();
    assert_eq!((&gateway["state"], &gateway["mend"]), (&"warn".into(), &"flock restart".into()), "{gateway}");
    let said = flock.flock(["chat", "orchestrator", "hello"]).ok();
    assert!(!said.stdout.is_empty(), "who talks to the gateway finds it where it is: {said:?}");

    let restarted = flock.flock(["restart"]).ok();
    assert_eq!(restarted.stdout, format!("http://127.0.0.1:{new}\n"));
    let status = flock.flock(["status", "--json"]).ok().json();
    assert_eq!((&status["gateway"]["port"], &status["warnings"]), (&new.into(), &serde_json::json!([])));
    let run = flock.flock(init).ok();
    assert!(!run.stderr.contains("flock restart"), "{run:?}");
}
