//! Packages are a part of checkpoints, rewinds and forks.

use serde_json::{Value, json};

use super::store::flake;
use crate::support::home::TempHome;

/// The names of an agent's packages.
pub fn packages(home: &TempHome, agent: &str) -> Vec<String> {
    let listed = home.flock(["nix", "list", agent, "--json"]).ok().json();
    let all = listed["agents"][0]["packages"].as_array().unwrap().clone();
    all.iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect()
}

fn newest_generation(home: &TempHome) -> Value {
    home.flock(["generations", "--json"]).ok().json()["generations"][0].clone()
}

#[test]
fn packages_go_back_with_the_files_and_a_fork_has_those_of_its_checkpoint() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let flake = flake(&home.outside());
    let set =
        ["config", "set", "plugins.entries.flock.config.nix.flake", &format!("path:{}", flake.display())];
    home.flock(set).ok();
    home.flock(["add", "ada"]).ok();
    // Nobody knows yet that it has no packages. The first change of them says so.
    let made = home.flock(["checkpoint", "ada", "--json"]).ok().json();
    assert_eq!(made["checkpoint"]["packages"], json!(null), "{made}");
    home.flock(["nix", "install", "ada", "greet"]).ok();
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["nix", "install", "ada", "part"]).ok();
    let listed = home.flock(["checkpoints", "ada", "--json"]).ok().json();
    assert_eq!(listed["checkpoints"][0]["packages"], json!(1), "{listed}");
    assert!(home.flock(["checkpoints", "ada"]).ok().stdout.contains("profile 1"));

    let plan = home.flock(["rewind", "ada", "--turn", "2", "--dry-run", "--json"]).ok().json();
    let change = json!({"from": 2, "to": 1, "added": [], "removed": ["part (part)"]});
    assert_eq!(plan["rewind"]["packages"], change);
    let shown = home.flock(["rewind", "ada", "--turn", "2", "--dry-run"]).ok();
    assert!(format!("{shown:?}").contains("packages: from profile 2 to profile 1"), "{shown:?}");
    for kept in ["--conversation", "--without-packages"] {
        let plan = home.flock(["rewind", "ada", "--turn", "2", kept, "--dry-run", "--json"]).ok().json();
        assert_eq!(plan["rewind"]["packages"], json!(null), "{kept}");
    }
    let before = newest_generation(&home)["number"].as_u64().unwrap();
    home.flock(["rewind", "ada", "--turn", "2", "--yes"]).ok();
    assert_eq!(packages(&home, "ada"), ["greet"]);
    let generation = newest_generation(&home);
    assert_eq!(generation["number"], before + 1, "one generation: {generation}");
    assert_eq!(generation["why"], "flock rewind ada");
    assert!(generation["what"].to_string().contains("packages of ada: profile 2 -> 1"), "{generation}");
    home.flock(["rewind", "ada", "--undo", "--yes"]).ok();
    assert_eq!(packages(&home, "ada"), ["greet", "part"]);

    // Also with a gateway, and back to having none.
    home.flock(["start"]).ok();
    home.flock(["rewind", "ada", "--turn", "1", "--yes"]).ok();
    assert_eq!(packages(&home, "ada"), Vec::<String>::new());
    home.flock(["rewind", "ada", "--undo", "--yes"]).ok();
    assert_eq!(packages(&home, "ada"), ["greet", "part"]);
    home.flock(["fork", "ada", "eve", "--checkpoint", "2"]).ok();
    assert_eq!(packages(&home, "eve"), ["greet"]);
    assert_eq!(packages(&home, "ada"), ["greet", "part"]);
    let generation = newest_generation(&home);
    assert_eq!(generation["why"], "flock fork ada eve", "{generation}");
    assert!(generation["what"].to_string().contains("packages of eve"), "{generation}");

    // Packages that were collected are no way back, and nothing is changed.
    home.flock(["nix", "gc", "--keep-days", "0"]).ok();
    let refused = home.flock(["rewind", "ada", "--turn", "2", "--yes"]).fails(5);
    assert!(refused.stderr.contains("are removed from the store"), "{refused:?}");
    assert!(refused.stderr.contains("flock rewind ada --without-packages"), "{refused:?}");
    assert_eq!(packages(&home, "ada"), ["greet", "part"]);
    home.flock(["rewind", "ada", "--turn", "2", "--without-packages", "--yes"]).ok();
    assert_eq!(packages(&home, "ada"), ["greet", "part"]);
    home.flock(["stop"]).ok();
}
