//! `flock sim`: a team's work on a project, without a model, a sandbox or a gateway.

use std::path::Path;

use serde_json::Value;

use crate::support::home::TempHome;

/// Makes a repository whose first change is followed by these, each of one file.
fn repository(folder: &Path, changes: &[(&str, &str)]) {
    let git = git2::Repository::init_opts(
        folder,
        git2::RepositoryInitOptions::new().initial_head("refs/heads/main"),
    )
    .unwrap();
    let who = git2::Signature::new("owner", "owner@flock", &git2::Time::new(1, 0)).unwrap();
    let mut parent: Option<git2::Oid> = None;
    for (path, text) in [("README", "begin\n")].iter().chain(changes) {
        std::fs::write(folder.join(path), text).unwrap();
        let mut index = git.index().unwrap();
        index.add_path(Path::new(path)).unwrap();
        let tree = git.find_tree(index.write_tree().unwrap()).unwrap();
        let before = parent.map(|id| git.find_commit(id).unwrap());
        let parents: Vec<&git2::Commit<'_>> = before.iter().collect();
        parent = Some(git.commit(Some("HEAD"), &who, &who, path, &tree, &parents).unwrap());
    }
}

/// Makes a home with the project `lib` of two agents.
fn home(changes: &[(&str, &str)]) -> TempHome {
    let home = TempHome::new().init();
    for agent in ["ada", "ben"] {
        home.flock(["add", agent, "--no-container", "--model", "anthropic/claude-opus-4-5"]).ok();
    }
    let owner = home.outside().join("owner");
    repository(&owner, changes);
    let owner = owner.to_str().unwrap();
    home.flock([
        "project", "add", "lib", "--repo", owner, "--agent", "ada", "--agent", "ben", "--check", "true",
    ])
    .ok();
    home
}

const APART: [(&str, &str); 4] = [("a", "1\n"), ("b", "1\n"), ("c", "1\n"), ("d", "1\n")];

fn outcome<'a>(played: &'a Value, agents: usize, end: &str) -> &'a Value {
    let sizes = played["sizes"].as_array().unwrap();
    &sizes.iter().find(|size| size["agents"] == agents).unwrap()[end]
}

#[test]
fn a_team_is_played_in_numbers_and_nothing_is_changed() {
    let home = home(&APART);
    let before = home.config_text();
    let played = home.flock(["sim", "lib", "--agents", "2", "--check-seconds", "5", "--json"]).ok().json();
    assert_eq!((&played["work"], &played["checkMs"]), (&4.into(), &5_000.into()), "{played}");
    let [alone, both] = [1, 2].map(|agents| outcome(&played, agents, "low"));
    assert!(both["tookMs"].as_u64() < alone["tookMs"].as_u64(), "{played}");
    assert_eq!(both["calls"], alone["calls"], "the same work, without a conflict");
    let cost = |end| outcome(&played, 2, end)["costMicros"].as_u64().unwrap();
    assert!(cost("low") > 0 && cost("low") < cost("high"), "{played}");
    assert_eq!(both["agents"][0]["agent"], "ada");
    assert_eq!(home.config_text(), before);
    let more = home.flock(["sim", "lib", "--agents", "3", "--json"]).ok().json();
    assert_eq!(outcome(&more, 3, "low")["agents"][2]["agent"], "ada", "the project's agents in turn");
    assert_eq!(more["checkSource"], "a guess: there is no receipt yet");
}

#[test]
fn work_on_the_same_lines_comes_back() {
    let home = home(&[("a", "1\n"), ("a", "2\n"), ("a", "3\n"), ("a", "4\n")]);
    let played = home.flock(["sim", "lib", "--agents", "2", "--json"]).ok().json();
    let low = outcome(&played, 2, "low");
    assert!(low["cameBack"].as_u64().unwrap() > 0, "{played}");
    assert_eq!(low["conflicts"]["a"], low["cameBack"], "{played}");
    let shown = home.flock(["sim", "lib", "--agents", "2"]).ok().stdout;
    for part in
        ["no model was asked", "AGENTS", "1 ada", "2 ben", "CONFLICTS AT", "work again after a conflict"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn what_cannot_be_played_is_said_with_the_command_that_helps() {
    let home = home(&[]);
    let cases = [
        (["sim", "none", "--agents", "2"], 2, "there is no project none", "flock project list"),
        (["sim", "lib", "--agents", "2"], 1, "no past change", "flock project sync lib"),
    ];
    for (arguments, code, text, hint) in cases {
        let told = home.flock(arguments).fails(code).stderr;
        assert!(told.contains(text) && told.contains(hint), "{told}");
    }
    home.flock(["sim", "lib", "--agents", "0"]).fails(2);
    home.flock(["project", "unassign", "lib", "ada", "ben"]).ok();
}
