//! Packages and images are a part of the home's generations.

use serde_json::Value;

use super::store::flake;
use crate::support::docker::docker as docker_command;
use crate::support::home::TempHome;

fn generations(home: &TempHome) -> Vec<Value> {
    home.flock(["generations", "--json"]).ok().json()["generations"].as_array().unwrap().clone()
}

fn packages(home: &TempHome) -> Vec<String> {
    let listed = home.flock(["nix", "list", "coder", "--json"]).ok().json();
    let all = listed["agents"][0]["packages"].as_array().unwrap().clone();
    all.iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn packages_go_back_and_forth_with_the_home() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let flake = flake(&home.outside());
    let set =
        ["config", "set", "plugins.entries.flock.config.nix.flake", &format!("path:{}", flake.display())];
    home.flock(set).ok();
    home.flock(["add", "coder", "--packages", "greet"]).ok();
    let all = generations(&home);
    assert_eq!(all.len(), 3, "an agent with packages is one change: {all:?}");
    assert!(all[0]["what"].to_string().contains("packages of coder: profile 1"), "{all:?}");
    home.flock(["nix", "install", "coder", "part"]).ok();
    home.flock(["nix", "remove", "coder", "greet"]).ok();
    home.flock(["nix", "rollback", "coder"]).ok();
    let all = generations(&home);
    let whys: Vec<&str> = all.iter().map(|found| found["why"].as_str().unwrap()).collect();
    assert_eq!(whys[..3], ["flock nix rollback", "flock nix remove", "flock nix install"]);
    assert_eq!(packages(&home), ["greet", "part"]);

    home.flock(["rollback", "5", "--yes"]).ok();
    assert_eq!(packages(&home), ["part"]);
    home.flock(["start"]).ok();
    home.flock(["rollback", "3", "--yes"]).ok();
    assert_eq!(packages(&home), ["greet"]);
    let greeting = docker_command(&[
        "exec",
        &home.container("coder"),
        "/nix/var/nix/profiles/per-agent/coder/bin/greet",
    ]);
    assert_eq!(greeting.trim(), "greet from the store");
    // Before it had a profile at all: the agent itself goes, too.
    home.flock(["rollback", "2", "--yes"]).ok();
    home.flock(["rollback", "4", "--yes"]).ok();
    assert_eq!(packages(&home), ["greet", "part"]);
    // A profile that was collected is no way back, and nothing is changed.
    home.flock(["nix", "gc", "--keep-days", "0"]).ok();
    let refused = home.flock(["rollback", "5", "--yes"]).fails(5);
    assert!(refused.stderr.contains("are removed from the store"), "{refused:?}");
    assert_eq!(packages(&home), ["greet", "part"]);
    // Another one is installed beside it.
    home.flock(["nix", "remove", "coder", "part"]).ok();
    assert_eq!(packages(&home), ["greet"]);
}

#[test]
fn an_image_that_was_made_anew_goes_back_by_its_name() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let name = format!("flock-test-image-{}:1", std::process::id());
    let state = generations_state(&home);
    let (own, id) = state.as_object().unwrap().iter().next().unwrap();
    docker_command(&["tag", own, &name]);
    home.flock(["config", "set", "plugins.entries.flock.config.sandbox.image", &name]).ok();
    home.flock(["add", "coder"]).ok();
    let before = generations(&home).len();
    // Somebody gives the name to another image.
    let other = docker_command(&["commit", "-m", "another", &home.container("coder")]);
    docker_command(&["tag", other.trim(), &name]);
    home.flock(["add", "tester", "--no-container"]).ok();
    home.flock(["add", "other"]).ok();
    let what = generations(&home).iter().map(|found| found["what"].to_string()).collect::<String>();
    assert!(what.contains(&format!("image {name}")), "{what}");
    home.flock(["rollback", &before.to_string(), "--only", "images", "--yes"]).ok();
    let now = docker_command(&["image", "inspect", "-f", "{{.Id}}", &name]);
    assert_eq!(now.trim(), id.as_str().unwrap());
    home.flock(["stop"]).ok();
    for agent in ["coder", "other"] {
        home.flock(["remove", agent]).ok();
    }
    docker_command(&["rmi", "-f", &name]);
    docker_command(&["rmi", "-f", other.trim()]);
}

fn generations_state(home: &TempHome) -> Value {
    home.flock(["generations", "show", "1", "--json"]).ok().json()["state"]["images"].clone()
}
