//! `flock update`: what is new is made, tried and put in use; whatever fails leaves what was in use.

use flock::home::lock::Lock;
use serde_json::{Value, json};

use super::install::{current, folders, init, log, record};
use crate::support::home::{Run, TempHome};
use crate::support::openclaw::{Era, Upstream};

pub fn update(home: &TempHome, more: &[&str]) -> Run {
    home.flock([&["update"], more].concat())
}

pub fn checked(home: &TempHome, more: &[&str]) -> Value {
    home.flock([&["update", "--check", "--json"], more].concat()).ok().json()
}

/// A home that follows `main`.
pub fn following(upstream: &Upstream) -> TempHome {
    let home = TempHome::new();
    init(&home, &upstream.path(), "main").ok();
    home
}

#[test]
fn without_openclaw_there_is_nothing_to_update() {
    let home = TempHome::new().init();
    let told = update(&home, &[]).ok();
    assert!(told.stderr.contains("there is no OpenClaw in this home"), "{told:?}");
    assert_eq!(update(&home, &["--json"]).ok().json(), json!({"state": "none", "installed": null}));
    assert_eq!(checked(&home, &[])["state"], "none");
    update(&home, &["--rollback"]).ok();
    update(&TempHome::new(), &[]).fails(3);
}

#[test]
fn a_followed_branch_is_told_apart_by_its_commit_and_never_by_its_version() {
    let upstream = Upstream::built(Era::Old);
    let first = upstream.head();
    let home = following(&upstream);
    let before = (record(&home), log(&home), folders(&home));
    let told = update(&home, &[]).ok();
    assert!(told.stderr.contains("main is installed"), "{told:?}");
    assert_eq!(checked(&home, &[])["state"], "current");

    // The same version.
    let second = upstream.mend();
    let told = checked(&home, &[]);
    assert_eq!((&told["state"], &told["wanted"]["commit"]), (&json!("available"), &json!(second)));
    assert_eq!(told["installed"]["commit"], json!(first));
    let told = home.flock(["update", "--check"]).ok();
    assert!(told.stdout.contains(&second[..12]) && told.stdout.contains(&first[..12]), "{told:?}");
    assert_eq!((record(&home), log(&home), folders(&home)), before, "a check changes nothing");

    let told = update(&home, &["--json"]).ok().json();
    assert_eq!((&told["state"], &told["installed"]["commit"]), (&json!("updated"), &json!(second)));
    assert_eq!(told["previous"]["commit"], json!(first));
    assert_eq!(record(&home)["commit"], json!(second));
    assert_eq!(folders(&home).iter().filter(|name| name.starts_with("2026")).count(), 2);
    assert!(update(&home, &[]).ok().stderr.contains("main is installed"));

    // An older commit that the branch was set back to is new as well.
    let third = upstream.release("2026.2.10");
    update(&home, &[]).ok();
    assert_eq!(record(&home)["commit"], json!(third));
    assert!(!folders(&home).iter().any(|name| name.ends_with(&first[..12])), "only the one before stays");
}

#[test]
fn a_tag_or_a_commit_is_not_followed_until_a_branch_is_named() {
    let upstream = Upstream::built(Era::Old);
    let first = upstream.head();
    let home = TempHome::new();
    init(&home, &upstream.path(), "v2026.2.9").ok();
    let second = upstream.release("2026.2.10");
    // The tag is moved, too.
    upstream.tag("v2026.2.9", &second);
    let told = update(&home, &[]).ok();
    assert!(told.stderr.contains("v2026.2.9 is a tag or a commit"), "{told:?}");
    assert_eq!(checked(&home, &[])["state"], "fixed");
    assert_eq!(record(&home)["commit"], json!(first));
    update(&home, &["--ref", &first[..10]]).ok();
    assert_eq!(record(&home)["commit"], json!(first));

    update(&home, &["--ref", "main"]).ok();
    assert_eq!((&record(&home)["commit"], &record(&home)["follows"]), (&json!(second), &json!(true)));
    // The same commit under another name: what is followed changes all the same.
    update(&home, &["--ref", "v2026.2.10"]).ok();
    let now = record(&home);
    assert_eq!((&now["reference"], &now["follows"]), (&json!("v2026.2.10"), &json!(false)));
    assert_eq!(now["commit"], json!(second));
    update(&home, &["--ref", "main"]).ok();
    assert_eq!(record(&home)["follows"], json!(true));
    update(&home, &["--ref", "no-such-branch"]).fails(1);
}

#[test]
fn what_fails_while_it_is_made_leaves_what_is_in_use_and_is_passed_over_from_then_on() {
    let upstream = Upstream::new(Era::Old);
    let home = following(&upstream);
    let good = record(&home);
    for (step, how, word) in [
        ("build", "fail", "build is told to fail"),
        ("ui", "fail", "ui is told to fail"),
        ("version", "exit:7", "ended with code 7"),
    ] {
        let commit = upstream.fault(step, how);
        let told = update(&home, &[]).fails(1);
        for word in [word, "is in use as before", &good["commit"].as_str().unwrap()[..12], "--retry"] {
            assert!(told.stderr.contains(word), "{step} {word}: {told:?}");
        }
        assert_eq!(record(&home), good, "{step}");
        let written = log(&home);
        let told = update(&home, &[]).ok();
        assert!(told.stderr.contains("is passed over") && told.stderr.contains(&commit[..12]), "{told:?}");
        assert_eq!(log(&home), written, "{step}: nothing was tried again");
        let told = checked(&home, &[]);
        assert_eq!((&told["state"], &told["wanted"]["commit"]), (&json!("failed"), &json!(commit)));
        assert!(told["failed"]["at"].as_i64().unwrap() > 0);
        update(&home, &["--retry"]).fails(1);
        assert_ne!(log(&home), written, "{step}: it was tried again");
    }
    // A newer commit is no longer the one that failed.
    let commit = upstream.mend();
    update(&home, &[]).ok();
    assert_eq!(record(&home)["commit"], json!(commit));
    // What is no OpenClaw at all.
    std::fs::remove_file(upstream.root().join("openclaw.mjs")).unwrap();
    upstream.commit("Be something else");
    let told = update(&home, &[]).fails(1);
    assert!(told.stderr.contains("it has no openclaw.mjs"), "{told:?}");
    assert!(update(&home, &[]).ok().stderr.contains("is passed over"));
}

#[test]
fn dependencies_that_can_not_be_installed_and_a_killed_step_are_tried_again_by_the_next_update() {
    let upstream = Upstream::new(Era::Old);
    let home = following(&upstream);
    let good = record(&home);
    for (step, how, word) in
        [("install", "fail", "install is told to fail"), ("version", "crash", "was killed (often")]
    {
        let commit = upstream.fault(step, how);
        let told = update(&home, &[]).fails(1);
        assert!(told.stderr.contains(word) && !told.stderr.contains("--retry"), "{step}: {told:?}");
        let told = checked(&home, &[]);
        assert_eq!((&told["state"], &told["wanted"]["commit"]), (&json!("available"), &json!(commit)));
        let written = log(&home);
        update(&home, &[]).fails(1);
        assert_ne!(log(&home), written, "{step}: it was tried again");
        assert_eq!(record(&home), good, "{step}");
    }
}

#[test]
fn a_repository_that_does_not_answer_is_nobodys_fault_and_is_asked_again() {
    let upstream = Upstream::built(Era::Old);
    let home = following(&upstream);
    let good = record(&home);
    let commit = upstream.mend();
    let away = upstream.root().with_file_name("away");
    std::fs::rename(upstream.root(), &away).unwrap();
    let told = update(&home, &[]).fails(1);
    assert!(told.stderr.contains("there is no such folder"), "{told:?}");
    std::fs::rename(&away, upstream.root()).unwrap();
    // A repository with a hole in it answers, and can't be fetched.
    let blob = upstream.repository().revparse_single("HEAD:fault.json").unwrap().id().to_string();
    let object = upstream.root().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    let kept = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    let told = update(&home, &[]).fails(1);
    assert!(told.stderr.contains("is in use as before"), "{told:?}");
    assert_eq!(record(&home), good);
    std::fs::write(&object, kept).unwrap();
    update(&home, &[]).ok();
    assert_eq!(record(&home)["commit"], json!(commit));
}

#[test]
fn a_rollback_goes_back_once_and_the_next_update_does_not_undo_it() {
    let upstream = Upstream::built(Era::Old);
    let home = following(&upstream);
    let told = update(&home, &["--rollback"]).fails(1);
    assert!(told.stderr.contains("there is no version before"), "{told:?}");
    let (first, name) = (upstream.head(), current(&home));
    let second = upstream.release("2026.2.10");
    update(&home, &[]).ok();
    let told = update(&home, &["--rollback", "--json"]).ok().json();
    assert_eq!((&told["state"], &told["installed"]["commit"]), (&json!("rolled-back"), &json!(first)));
    assert_eq!(current(&home), name);
    // The branch still has the commit that was left.
    let told = update(&home, &[]).ok();
    assert!(told.stderr.contains("it was rolled back"), "{told:?}");
    assert_eq!(record(&home)["commit"], json!(first));
    let told = update(&home, &["--rollback"]).fails(1);
    assert!(told.stderr.contains("it was rolled back") && told.stderr.contains("--retry"), "{told:?}");
    // All the same: it is there, so nothing is made again.
    let written = log(&home);
    update(&home, &["--retry"]).ok();
    assert_eq!(record(&home)["commit"], json!(second));
    assert_eq!(log(&home), written);
    update(&home, &["--rollback"]).ok();
    let third = upstream.mend();
    update(&home, &[]).ok();
    assert_eq!(record(&home)["commit"], json!(third), "a newer one is taken");
}

#[test]
fn one_change_at_a_time_and_a_check_may_look_on() {
    let upstream = Upstream::built(Era::Old);
    let home = following(&upstream);
    upstream.mend();
    let held = Lock::try_acquire(&home.file("run/install.lock")).unwrap();
    let told = update(&home, &[]).fails(5);
    assert!(told.stderr.contains("another flock is installing"), "{told:?}");
    update(&home, &["--rollback"]).fails(5);
    assert_eq!(checked(&home, &[])["state"], "available");
    drop(held);
    update(&home, &[]).ok();
}

#[test]
fn the_configuration_names_what_is_followed() {
    let upstream = Upstream::built(Era::Old);
    let home = following(&upstream);
    let commit = upstream.release("2026.2.10");
    upstream.branch("stable", &commit);
    home.flock(["config", "set", "plugins.entries.flock.config.openclaw.ref", "stable"]).ok();
    update(&home, &[]).ok();
    assert_eq!((&record(&home)["reference"], &record(&home)["commit"]), (&json!("stable"), &json!(commit)));
    let commit = upstream.mend();
    let told = update(&home, &["--ref", "main"]).ok();
    assert_eq!(record(&home)["commit"], json!(commit));
    assert!(told.stderr.contains("the configuration names stable"), "{told:?}");
    home.flock(["update", "--check", "--rollback"]).fails(2);
}

#[test]
fn a_tag_that_was_moved_is_taken_only_by_its_commit() {
    let upstream = Upstream::built(Era::Old);
    let first = upstream.head();
    let home = TempHome::new();
    init(&home, &upstream.path(), "v2026.2.9").ok();
    let second = upstream.mend();
    upstream.tag("v2026.2.9", &second);
    let before = (record(&home), log(&home), folders(&home));
    let told = checked(&home, &["--ref", "v2026.2.9"]);
    assert_eq!((&told["state"], &told["wanted"]["commit"]), (&json!("moved"), &json!(second)));
    assert_eq!(told["wanted"]["was"], json!(first));
    for told in [
        update(&home, &["--ref", "v2026.2.9"]).fails(1),
        init(&home, &upstream.path(), "v2026.2.9").fails(1),
        init(&home, &upstream.path(), "refs/tags/v2026.2.9").fails(1),
    ] {
        for word in [&first, &second, "first seen here", &format!("--ref {second}")] {
            assert!(told.stderr.contains(word), "{word}: {told:?}");
        }
    }
    assert_eq!((record(&home), log(&home), folders(&home)), before, "nothing of it was fetched");
    // What is installed is not needed to know: it was noted.
    std::fs::remove_dir_all(current(&home)).unwrap();
    std::fs::remove_file(home.file("openclaw")).unwrap();
    let told = init(&home, &upstream.path(), "v2026.2.9").fails(1);
    assert!(told.stderr.contains("first seen here"), "{told:?}");
    init(&home, &upstream.path(), &first).ok();
    // Who asks for the commit itself knows what it is, and the tag is that one from then on.
    update(&home, &["--ref", &second]).ok();
    assert_eq!(record(&home)["commit"], json!(second));
    update(&home, &["--ref", "v2026.2.9"]).ok();
    assert_eq!(record(&home)["reference"], json!("v2026.2.9"));
    // A branch of that name is another thing, too.
    upstream.branch("v2026.2.9", &upstream.mend());
    let told = update(&home, &["--ref", "v2026.2.9"]).fails(1);
    assert!(told.stderr.contains("is a branch now"), "{told:?}");
}

#[test]
fn a_version_whose_files_were_changed_is_built_anew_and_nothing_of_it_runs() {
    let upstream = Upstream::new(Era::Old);
    let home = following(&upstream);
    let (first, place) = (upstream.head(), current(&home));
    let second = upstream.release("2026.2.10");
    update(&home, &[]).ok();
    let entry = place.join("openclaw.mjs");
    let good = std::fs::read(&entry).unwrap();
    let bad = home.outside().join("ran");
    std::fs::write(&entry, format!("import fs from 'node:fs'; fs.writeFileSync({bad:?}, 'x');\n")).unwrap();
    let told = update(&home, &["--rollback"]).fails(1);
    assert!(told.stderr.contains("openclaw.mjs") && told.stderr.contains(&first), "{told:?}");
    assert_eq!(record(&home)["commit"], json!(second));
    let told = update(&home, &["--ref", &first]).ok();
    assert!(told.stderr.contains("has changed since it was built"), "{told:?}");
    assert_eq!(record(&home)["commit"], json!(first));
    assert_eq!(std::fs::read(&entry).unwrap(), good);
    // The one in use as well.
    std::fs::write(&entry, "throw 1").unwrap();
    init(&home, &upstream.path(), &first).ok();
    assert_eq!(std::fs::read(&entry).unwrap(), good);
    assert!(!bad.exists());
}

#[test]
fn a_version_of_openclaw_goes_back_with_the_home() {
    let upstream = Upstream::built(Era::Old);
    let first = upstream.head();
    let home = following(&upstream);
    let listed = |home: &TempHome| home.flock(["generations", "--json"]).ok().json()["generations"].clone();
    let before = listed(&home).as_array().unwrap().len();
    let second = upstream.release("2026.2.10");
    update(&home, &[]).ok();
    let all = listed(&home);
    assert_eq!(all.as_array().unwrap().len(), before + 1, "{all}");
    assert_eq!(all[0]["why"], "flock update");
    assert!(all[0]["what"][0].as_str().unwrap().starts_with("OpenClaw 2026"), "{all}");
    home.flock(["config", "set", "gateway.custom", "1"]).ok();

    home.flock(["rollback", &before.to_string(), "--yes"]).ok();
    assert_eq!(record(&home)["commit"], json!(first));
    assert!(home.config()["gateway"].get("custom").is_none());
    // Forth again, although updates pass over a version that was rolled back.
    home.flock(["rollback", &(before + 2).to_string(), "--yes"]).ok();
    assert_eq!(record(&home)["commit"], json!(second));
    assert_eq!(listed(&home).as_array().unwrap().len(), before + 4);
    // By hand.
    let (link, folder) = (home.file("openclaw"), current(&home));
    let other = folders(&home).into_iter().find(|name| name.ends_with(&first[..12])).unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(format!("gateways/openclaw/{other}"), &link).unwrap();
    home.flock(["rollback", "--dry-run"]).ok();
    assert_eq!(listed(&home)[0]["why"], "changed by hand");
    assert_ne!(current(&home), folder);

    // A third one, and the first is removed.
    home.flock(["rollback", "--yes"]).ok();
    upstream.release("2026.2.11");
    update(&home, &[]).ok();
    let lost = listed(&home).as_array().unwrap().last().unwrap()["lost"].clone();
    assert!(lost.to_string().contains("build removed") || lost == json!([]), "{lost}");
    let of_first = listed(&home);
    let of_first = of_first.as_array().unwrap().iter().find(|found| found["number"] == before).unwrap();
    assert!(of_first["lost"].to_string().contains("build removed"), "{of_first}");
    let refused = home.flock(["rollback", &before.to_string(), "--yes"]).fails(5);
    assert!(refused.stderr.contains("is removed"), "{refused:?}");
}
