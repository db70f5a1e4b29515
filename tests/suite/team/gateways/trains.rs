//! The merge train of two gateways: one of them joins what was submitted, and the other one goes on when that one is gone.

use git2::{Commit, Oid, Repository, RepositoryInitOptions, Signature};
use serde_json::Value;

use super::{LIMIT, Pair, quiet_home};
use crate::support::home::TempHome;
use crate::support::wait_until;

/// Commits a new file on a new branch that begins at `parent`.
fn commit(repository: &Repository, branch: &str, parent: Option<Oid>, file: &str) {
    let parent = parent.map(|id| repository.find_commit(id).unwrap());
    let before = parent.as_ref().map(|parent| parent.tree().unwrap());
    let mut entries = repository.treebuilder(before.as_ref()).unwrap();
    entries.insert(file, repository.blob(b"text\n").unwrap(), 0o100_644).unwrap();
    let tree = repository.find_tree(entries.write().unwrap()).unwrap();
    let by = Signature::now("ann", "ann@example.org").unwrap();
    let parents: Vec<&Commit<'_>> = parent.iter().collect();
    let (name, message) = (format!("refs/heads/{branch}"), format!("add {file}"));
    repository.commit(Some(&name), &by, &by, &message, &tree, &parents).unwrap();
}

/// Adds the project `lib`, with work of ada and bob that is not submitted. Without checks, work passes at once.
fn add_project(home: &TempHome) {
    let owner = home.outside().join("owner");
    let repository =
        Repository::init_opts(&owner, RepositoryInitOptions::new().initial_head("main")).unwrap();
    commit(&repository, "main", None, "README.md");
    let repo = owner.to_str().unwrap();
    home.flock(["project", "add", "lib", "--repo", repo, "--agent", "ada", "--agent", "bob"]).ok();
    let lib = Repository::open_bare(home.file("projects/lib.git")).unwrap();
    let tip = lib.refname_to_id("refs/heads/main").unwrap();
    for agent in ["ada", "bob"] {
        commit(&lib, &format!("flock/{agent}/work"), Some(tip), agent);
    }
}

/// Returns what was submitted, newest first.
fn submissions(home: &TempHome) -> Vec<Value> {
    let listed = home.flock(["project", "submissions", "lib", "--json"]).ok().json();
    listed["submissions"].as_array().unwrap().clone()
}

/// The agents and the states of submissions.
fn states(submissions: &[Value]) -> Vec<(&str, &str)> {
    submissions.iter().filter_map(|one| Some((one["agent"].as_str()?, one["state"].as_str()?))).collect()
}

#[test]
fn one_gateway_merges_and_after_its_death_in_the_middle_another_one_merges_all_once() {
    let Some(first) = quiet_home() else { return };
    add_project(&first);
    let pair = Pair::of(first, |_| ());
    let (first, _second) = pair.start_with("train", "lib");
    // The tip can't be moved while a folder has the place of its lock. So the gateway stops between the check and the merge.
    let obstacle = pair.first.file("projects/lib.git/refs/heads/main.lock");
    std::fs::create_dir(&obstacle).unwrap();
    pair.first.flock(["project", "submit", "lib", "ada"]).ok();
    let problem =
        |home: &TempHome| home.flock(["project", "show", "lib", "--json"]).ok().json()["error"].clone();
    wait_until("the first gateway is about to merge", LIMIT, || {
        let found = problem(&pair.first);
        let waits = found.as_str().is_some_and(|text| text.contains("the merge train waits"));
        waits.then_some(()).ok_or_else(|| format!("{found}\n{}", pair.logs()))
    });
    pair.second.flock(["project", "submit", "lib", "bob"]).ok();
    let all = submissions(&pair.second);
    assert_eq!(states(&all), [("bob", "queued"), ("ada", "checking")], "{}", pair.logs());
    assert!(problem(&pair.second).is_null(), "the other one tried it too\n{}", pair.logs());

    first.kill();
    std::fs::remove_dir(&obstacle).unwrap();
    let all = wait_until("both are merged", LIMIT, || {
        let all = submissions(&pair.second);
        let merged = states(&all).iter().filter(|(_, state)| *state == "merged").count();
        let has_lease = pair.holds(&pair.second, "train", "lib");
        assert!(merged == 0 || has_lease, "it merged without the lease\n{}", pair.logs());
        if merged == 2 { Ok(all) } else { Err(format!("{all:?}\n{}", pair.logs())) }
    });
    let log = pair.second.flock(["project", "log", "lib", "--json"]).ok().json();
    let mut subjects: Vec<&str> =
        log["commits"].as_array().unwrap().iter().filter_map(|commit| commit["subject"].as_str()).collect();
    subjects.sort_unstable();
    let expected =
        ["Merge flock/ada/work (lib)", "Merge flock/bob/work (lib)", "add README.md", "add ada", "add bob"];
    assert_eq!(subjects, expected, "{}", pair.logs());
    let audit = pair.second.audited("project.merge");
    let recorded: Vec<&str> = audit.iter().filter_map(|row| row["subject"].as_str()).collect();
    let numbers: Vec<String> = all.iter().map(|one| format!("lib#{}", one["id"])).collect();
    assert_eq!(recorded, numbers, "{}", pair.logs());
    pair.second.flock(["audit", "--verify"]).ok();
}
