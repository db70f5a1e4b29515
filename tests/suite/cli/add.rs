//! `flock add`.

use super::session::{session, snapshot};
use crate::support::home::TempHome;
use flock::agent::prompt::archetype;

#[test]
fn add_says_what_it_did() {
    let home = TempHome::new().init();
    snapshot!(
        "add",
        session(
            &home,
            &[
                "add coder --no-container",
                "add coder --no-container",
                "add writer --no-container --role worker --model anthropic/claude-opus-4-5 --memory 1g --cpus 1.5",
                "add second-admin --role sysadmin --json",
                "config get agents.list[writer].sandbox.docker",
                "add --help",
            ]
        )
    );
}

#[test]
fn a_wrong_id_is_refused_before_anything_is_written() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let long = "a".repeat(300);
    let bad = [
        "a/b",
        "..",
        "../x",
        "",
        " ",
        "a b",
        &long,
        "a\u{1b}[2J",
        "human:ann",
        "Coder",
        "-x",
        "_x",
        "ü",
        "main",
        "unknown",
        "all",
        "human",
        "system",
        "flock",
        "openclaw",
        ".",
    ];
    for id in bad {
        let run = home.flock(["add", "--no-container", "--", id]).fails(2);
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains("hint: "), "{id:?}: {run:?}");
        assert!(!run.stderr.contains('\u{1b}') && run.stderr.len() < 1000, "{id:?}: {run:?}");
    }
    assert_eq!(home.config_text(), before);
    assert_eq!(std::fs::read_dir(home.file("workspaces")).unwrap().count(), 2);
}

#[test]
fn what_this_flock_can_not_do_is_refused_plainly() {
    let home = TempHome::new().init();
    snapshot!(
        "add-refused",
        session(
            &home,
            &[
                "add x --role boss",
                "add x --runtime claude --role sysadmin",
                "add x --runtime perl",
                "add x --network none --egress example.org",
                "add x --role sysadmin --egress example.org",
                "add x --network host",
                "add x --egress https://example.org",
                "add x --egress 10.0.0.1",
                "add x --egress *",
                "add x --on-host",
                "add x --runtime claude --on-host --memory 1g",
                "add x --memory lots",
                "add x --memory 1k",
                "add x --cpus 0",
                "add x --cpus many",
                "add x --model opus",
                "add x --effort huge",
                "add x --archetype missing",
                "add x --archetype ../x",
                "add x --packages 'a b'",
                "add x --packages github:evil/flake",
                "add",
                "add main --json",
                "list --json",
            ]
        )
    );
}

#[test]
fn without_an_engine_nothing_is_half_added() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let run = home.flock(["add", "coder"]).fails(6);
    assert!(run.stderr.contains("hint: "), "{run:?}");
    assert_eq!(home.config_text(), before);
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn an_agents_own_archetype_and_its_files_are_taken() {
    let home = TempHome::new().init();
    std::fs::write(home.file("archetypes/painter.md"), "You paint.").unwrap();
    home.flock(["add", "vera", "--archetype", "painter", "--no-container"]).ok();
    let identity = std::fs::read_to_string(home.file("agents/vera/identity/IDENTITY.md")).unwrap();
    assert!(identity.contains("vera") && identity.contains("painter"), "{identity}");
    let soul = std::fs::read_to_string(home.file("agents/vera/identity/SOUL.md")).unwrap();
    assert_eq!(soul, "You paint.");
    for file in ["AGENTS.md", "USER.md", "TOOLS.md"] {
        assert!(home.file(format!("agents/vera/identity/{file}")).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn each_archetype_that_comes_with_flock_is_named_and_can_be_taken() {
    let home = TempHome::new().init();
    let help = home.flock(["add", "--help"]).ok().stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for (name, text) in archetype::BUILT_IN {
        assert!(help.contains(name), "{name}: {help}");
        home.flock(["add", name, "--archetype", name, "--no-container"]).ok();
        let soul = std::fs::read_to_string(home.file(format!("agents/{name}/identity/SOUL.md"))).unwrap();
        assert_eq!(soul, text);
    }
    let before = home.config_text();
    let run = home.flock(["add", "x", "--archetype", "boss"]).fails(2);
    assert!(run.stderr.contains("ideation, product-developer") && run.stderr.contains("hint: "), "{run:?}");
    assert_eq!(home.config_text(), before);
}

#[test]
fn fifty_at_once_leave_fifty_agents() {
    let home = TempHome::new().init();
    let runs: Vec<_> = (0..50)
        .map(|n| {
            home.command()
                .args(["add", &format!("agent-{n}"), "--no-container", "-q"])
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    let agents = home.flock(["list", "--json"]).ok().json();
    assert_eq!(agents["agents"].as_array().unwrap().len(), 52);
    assert_eq!(home.config()["agents"]["list"].as_array().unwrap().len(), 52);
}

#[test]
fn one_id_from_many_at_once_is_added_once() {
    let home = TempHome::new().init();
    let runs: Vec<_> = (0..10)
        .map(|_| {
            home.command()
                .args(["add", "coder", "--no-container"])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    let codes: Vec<i32> = runs.into_iter().map(|mut run| run.wait().unwrap().code().unwrap()).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == 5).count(), 9, "{codes:?}");
}

#[test]
fn fifty_at_once_with_the_gateway_up_leave_fifty_agents() {
    let home = TempHome::new().init();
    home.flock(["start"]).ok();
    let runs: Vec<_> = (0..50)
        .map(|n| {
            home.command()
                .args(["add", &format!("agent-{n}"), "--no-container", "-q"])
                .stdout(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    let agents = home.flock(["list", "--json"]).ok().json();
    assert_eq!(agents["agents"].as_array().unwrap().len(), 52);
    home.flock(["stop"]).ok();
}

#[test]
fn an_engine_that_hangs_up_is_an_unavailable_one() {
    let home = TempHome::new().init();
    let socket = home.outside().join("no-engine.sock");
    let engine = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || while engine.accept().is_ok() {});
    let before = home.config_text();
    let run = home.flock(["add", "coder"]).fails(6);
    assert!(run.stderr.contains("does not answer"), "{run:?}");
    assert_eq!(home.config_text(), before);
    let json = home.flock(["add", "coder", "--json"]).fails(6).json();
    assert_eq!(json["error"]["code"], "docker_unavailable");
}
