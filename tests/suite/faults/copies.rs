//! A process is killed at every step of copying checkpoints to a second place, of deleting them there, and of bringing a vault
//! back. Every checkpoint that is listed there has all of its contents, no file is half there, and the next command goes on.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde_json::json;

use super::rollback::dies_with;
use crate::support::home::TempHome;
use crate::support::wait_until;
use crate::team::checkpoints::tree;
use crate::team::stage::{LIMIT, Served, log_text};

/// A home with one agent, whose checkpoints go to `store`.
fn home(store: &Path) -> TempHome {
    let home = TempHome::new().init();
    home.flock(["add", "ada", "--no-container"]).ok();
    let blobs = json!({"kind": "folder", "path": store});
    home.flock(["config", "set", "plugins.entries.flock.config.storage.blobs", &blobs.to_string()]).ok();
    home.flock(["config", "set", "plugins.entries.flock.config.checkpoints.keep", "2"]).ok();
    home
}

fn write(home: &TempHome, path: &str, text: &str) {
    let path = home.file("workspaces/ada").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Brings every listed checkpoint to another machine. Returns their number.
fn pull_all(store: &Path) -> usize {
    let other = home(store);
    let listed = other.flock(["storage", "list", "ada", "--json"]).ok().json();
    let listed = listed["checkpoints"].as_array().unwrap().clone();
    for one in &listed {
        other.flock(["storage", "pull", "ada", "--checkpoint", &one["number"].to_string()]).ok();
    }
    listed.len()
}

/// The files of contents in the store.
fn contents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(contents(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_kill_while_a_checkpoint_is_copied_costs_only_that_copy() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    for number in 0..3 {
        write(&home, &format!("src/{number}"), &format!("text {number}"));
    }
    home.flock(["checkpoint", "ada"]).ok();
    let mut step = 1;
    // Each process finds what the one before has written, and has fewer steps.
    while dies_with(&home, "storage push ada", &format!("Copying:{step}"), &[]) {
        assert!(pull_all(folder.path()) <= 1, "at step {step}");
        step += 1;
    }
    assert!(step > 2, "{step}");
    assert_eq!(pull_all(folder.path()), 1);
    // A kill in the middle of a later copy leaves the earlier one.
    write(&home, "src/0", "changed");
    home.flock(["checkpoint", "ada"]).ok();
    for step in 1..=3 {
        dies_with(&home, "storage push ada", &format!("Copying:{step}"), &[]);
        assert!((1..=2).contains(&pull_all(folder.path())), "at step {step}");
    }
    home.flock(["storage", "push", "ada"]).ok();
    assert_eq!(pull_all(folder.path()), 2);
    let other = self::home(folder.path());
    other.flock(["storage", "pull", "ada"]).ok();
    other.flock(["rewind", "ada", "--turn", "2", "--yes"]).ok();
    assert_eq!(tree(&other.file("workspaces/ada")), tree(&home.file("workspaces/ada")));
}

#[test]
fn a_kill_while_a_vault_is_brought_back_leaves_whole_files() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    let text = |name: &str| format!("{name}\n").repeat(100_000);
    let names = ["a.md", "b.md", "deep/c.md", "deep/d.md"];
    for name in names {
        let path = home.file("vaults/notes").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text(name)).unwrap();
    }
    let served = Served::start(&home);
    wait_until("the vault is copied", LIMIT, || {
        let copies = contents(&folder.path().join("vaults/records/notes")).len();
        if copies == 1 { Ok(()) } else { Err(log_text(&home)) }
    });
    served.stop();
    let other = self::home(folder.path());
    let vault = other.file("vaults/notes");
    let mut step = 1;
    while dies_with(&other, "storage pull --vault notes", &format!("Copying:{step}"), &[]) {
        for path in contents(&vault) {
            let name = path.strip_prefix(&vault).unwrap().to_str().unwrap();
            // A draft that a kill has left has a name that nobody sees.
            let is_draft = path.file_name().unwrap().to_str().unwrap().starts_with('.');
            assert!(
                is_draft || std::fs::read_to_string(&path).unwrap() == text(name),
                "{name} at step {step}"
            );
        }
        step += 1;
    }
    assert_eq!(step, names.len() + 1);
    for name in names {
        assert!(std::fs::read_to_string(vault.join(name)).unwrap() == text(name), "{name}");
    }
}

#[test]
fn a_kill_while_copies_are_deleted_leaves_every_listed_one_whole() {
    let folder = tempfile::tempdir().unwrap();
    let home = home(folder.path());
    write(&home, "kept", "in all of them");
    for number in 0..3 {
        write(&home, "changing", &format!("state {number}"));
        home.flock(["checkpoint", "ada"]).ok();
        home.flock(["storage", "push", "ada"]).ok();
    }
    write(&home, "changing", "the last state");
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["storage", "push", "ada"]).ok();
    let objects = folder.path().join("checkpoints/ada/objects");
    let old = SystemTime::now() - Duration::from_secs(2 * 24 * 3600);
    for path in contents(&objects) {
        std::fs::File::options().write(true).open(path).unwrap().set_modified(old).unwrap();
    }
    let before = contents(&objects).len();
    let mut step = 1;
    // Each process finds less to delete than the one before.
    while dies_with(&home, "storage sweep ada", &format!("Copying:{step}"), &[]) {
        assert_eq!(pull_all(folder.path()), 2, "at step {step}");
        step += 1;
    }
    assert!(step > 3, "{step}");
    home.flock(["storage", "sweep", "ada"]).ok();
    assert_eq!(pull_all(folder.path()), 2);
    assert!(contents(&objects).len() < before);
    // What was deleted is written again when a checkpoint needs it.
    write(&home, "changing", "state 0");
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["storage", "push", "ada"]).ok();
    let other = self::home(folder.path());
    let pulled = other.flock(["storage", "pull", "ada", "--json"]).ok().json();
    other.flock(["rewind", "ada", "--turn", &pulled["number"].to_string(), "--yes"]).ok();
    assert_eq!(tree(&other.file("workspaces/ada")), tree(&home.file("workspaces/ada")));
}
