//! `flock backup` and `flock restore ARCHIVE`: what they say, and what they refuse.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::json;

use crate::support::home::TempHome;

/// Returns the archives beside the home.
fn archives(home: &TempHome) -> Vec<PathBuf> {
    let all = std::fs::read_dir(home.outside()).unwrap().map(|entry| entry.unwrap().path());
    all.filter(|path| path.display().to_string().ends_with(".tar.gz")).collect()
}

#[test]
fn a_backup_is_one_private_file_that_is_verified_and_restored() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    // The database is there from the first channel on, and with it the audit.
    home.flock(["channel", "create", "work", "--topic", "the work"]).ok();
    let made = home.flock(["backup"]).ok();
    let found = archives(&home);
    let [file] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!(made.stdout.trim(), file.display().to_string());
    assert!(made.stderr.contains("keep it as safe as the home itself"), "{made:?}");
    assert!(file.file_name().unwrap().to_string_lossy().starts_with("flock-home-20"), "{file:?}");
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    let file = file.display().to_string();
    let told = home.flock(["backup", "--verify", &file]).ok();
    assert!(
        told.stdout.contains("whole") && told.stdout.contains(&home.path().display().to_string()),
        "{told:?}"
    );
    let doctor = home.flock(["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "backup").unwrap();
    assert!(check["state"] == "ok" && check["message"].as_str().unwrap().contains(&file), "{check}");
    let status = home.flock(["status", "--json"]).json();
    assert_eq!(status["backup"]["file"], file.as_str(), "{status:#}");
    assert!(status["backup"]["at"].as_i64().unwrap() <= flock::clock::unix_ms(), "{status:#}");
    let shown = home.flock(["status"]);
    assert!(shown.stdout.contains("backup ") && shown.stdout.contains(&file), "{shown:?}");

    // Who made it is in the audit, with the file's name and not its place.
    let audit = home.flock(["audit", "--action", "home.backup", "--json"]).ok();
    let name = found[0].file_name().unwrap().to_string_lossy().into_owned();
    for part in [&*name, "human:", "with the keys, with the workspaces, verified"] {
        assert!(audit.stdout.contains(part), "{part}: {audit:?}");
    }
    assert!(!audit.stdout.contains(&file), "{audit:?}");

    let other = home.outside().join("other").display().to_string();
    let done = home.flock(["--home", &other, "restore", &file, "--json"]).ok().json();
    assert_eq!((&done["home"], &done["replaced"]), (&json!(other), &json!(null)), "{done:#}");
    // Where the database was, if that is another place than the home's own file.
    let notes = done["notes"].as_array().unwrap();
    assert_eq!(notes.len(), usize::from(home.file("store.json").exists()), "{done:#}");
    assert!(notes.iter().all(|note| note.as_str().unwrap().contains("home move")), "{done:#}");
    let list = |home: &TempHome, more: &[&str]| {
        let all = home.flock([more, &["list", "--json"]].concat()).ok().json();
        let agents = all["agents"].as_array().unwrap().clone();
        agents.into_iter().map(|agent| agent["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(list(&home, &["--home", &other]), list(&home, &[]));
    // The copy names its own folders, and the restore is in its audit.
    let config = std::fs::read_to_string(format!("{other}/config.json")).unwrap();
    assert!(config.contains(&other) && !config.contains(&home.path().display().to_string()), "{config}");
    home.flock(["--home", &other, "audit", "--verify"]).ok();
    let audit = home.flock(["--home", &other, "audit", "--action", "home.restore", "--json"]).ok();
    assert!(audit.stdout.contains("the backup of"), "{audit:?}");
    let doctor = home.flock(["--home", &other, "doctor", "--json"]).json();
    let bad = |name: &str| {
        doctor["checks"]
            .as_array()
            .unwrap()
            .iter()
            .any(|check| check["name"] == name && check["state"] == "bad")
    };
    assert!(!["home", "config", "database", "audit", "sessions"].into_iter().any(bad), "{doctor:#}");
}

#[test]
fn a_restore_says_whose_the_workspaces_on_other_machines_are() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let workspace = home.file("workspaces/coder");
    std::fs::create_dir_all(&workspace).unwrap();
    std::fs::remove_dir_all(&workspace).unwrap();
    let mark = "This workspace is on another machine.\nengine: far\nvolume: flock-ws-coder-0123\n";
    std::fs::write(&workspace, mark).unwrap();
    let file = home.outside().join("one.tar.gz").display().to_string();
    home.flock(["backup", &file]).ok();
    let other = home.outside().join("other").display().to_string();
    let run = home.flock(["--home", &other, "restore", &file]).ok();
    for part in ["of coder in the engine far stay the original home's", "flock engine remove far --force"] {
        assert!(run.stderr.contains(part), "{part}: {run:?}");
    }
    // The home that was there is the original.
    let run = home.flock(["restore", &file, "--replace", "--yes"]).ok();
    assert!(!run.stderr.contains("the engine far"), "{run:?}");
    // The original may be on another machine.
    std::fs::rename(home.path(), home.outside().join("gone")).unwrap();
    let run = home.flock(["restore", &file]).ok();
    assert!(run.stderr.contains("never run both"), "{run:?}");
}

#[test]
fn keys_that_are_left_out_are_named_and_the_home_gets_a_token_of_its_own() {
    let home = TempHome::new().init();
    home.flock_with_input(
        ["config", "set", "models.providers.anthropic.apiKey", "-"],
        "sk-not-for-everybody\n",
    )
    .ok();
    let token = home.token();
    let file = home.outside().join("one.tar.gz").display().to_string();
    let made = home.flock(["backup", &file, "--without-secrets", "--json"]).ok().json();
    assert_eq!(made["without"], json!(["secrets"]));
    let again: Vec<&str> =
        made["enterAgain"].as_array().unwrap().iter().map(|one| one.as_str().unwrap()).collect();
    assert!(again.contains(&"secrets/anthropic"), "{again:?}");
    let other = home.outside().join("other");
    let run = home.flock(["--home", &other.display().to_string(), "restore", &file]).ok();
    assert!(run.stderr.contains("secrets/anthropic"), "{run:?}");
    let config = std::fs::read_to_string(other.join("config.json")).unwrap();
    assert!(!config.contains(&token), "{config}");
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    assert_eq!(config["gateway"]["auth"]["token"].as_str().unwrap().len(), 64);
    assert!(!other.join("secrets/anthropic").exists());
}

#[test]
fn what_is_wrong_is_said_with_the_command_that_helps() {
    let home = TempHome::new();
    home.flock(["backup"]).fails(3);
    let home = home.init();
    let file = home.outside().join("one.tar.gz").display().to_string();
    let run = home.flock(["backup", &home.file("data/x.tar.gz").display().to_string()]).fails(2);
    assert!(run.stderr.contains("is in the home"), "{run:?}");
    home.flock(["backup", &file, "--without-workspaces"]).ok();
    let run = home.flock(["backup", &file]).fails(5);
    assert!(run.stderr.contains("exists already"), "{run:?}");
    let run = home.flock(["restore", &file]).fails(5);
    assert!(run.stderr.contains("is not empty") && run.stderr.contains("--replace"), "{run:?}");
    let run = home.flock(["restore", &file, "--replace"]).fails(2);
    assert!(run.stderr.contains("must be confirmed") && run.stderr.contains("--yes"), "{run:?}");
    let run = home.flock(["restore", "--yes", "--from", &file]).fails(2);
    assert!(
        run.stderr.contains("whole home") && run.stderr.contains(&format!("flock restore {file}")),
        "{run:?}"
    );
    std::fs::write(home.outside().join("x"), "no archive").unwrap();
    let run = home.flock(["backup", "--verify", "x"]).fails(1);
    assert!(run.stderr.contains("no whole backup"), "{run:?}");
    let error = home.flock(["backup", "--verify", "nowhere", "--json"]).fails(1).json();
    assert!(error["error"]["message"].as_str().unwrap().contains("failed to read nowhere"), "{error}");
    home.flock(["backup", "--verify"]).fails(2);
    let replaced = home.flock(["restore", &file, "--replace", "--yes", "--json"]).ok().json();
    let aside = PathBuf::from(replaced["replaced"].as_str().unwrap());
    assert!(aside.join("config.json").exists() && home.file("config.json").exists());
    assert_eq!(replaced["without"], json!(["workspaces"]));
}
