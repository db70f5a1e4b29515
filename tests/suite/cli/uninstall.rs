//! `flock uninstall` without an engine: what goes, what stays, and every state that it is called in.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::home::TempHome;

/// The names in a home's folder.
fn names(home: &TempHome) -> Vec<String> {
    let entries = std::fs::read_dir(home.path()).into_iter().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Every path of a home with what it holds.
fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(tree(&path));
        }
        found.push((path.display().to_string(), std::fs::read(&path).unwrap_or_default()));
    }
    found.sort();
    found
}

#[test]
fn what_was_made_stays_and_init_makes_the_rest_again() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    std::fs::write(home.file("workspaces/coder/work.txt"), "mine").unwrap();
    std::fs::write(home.file("notes.txt"), "a person's").unwrap();
    home.flock(["start", "-q"]).ok();
    let port = home.port();
    let before = home.config_text();
    let told = home.flock(["uninstall", "--yes"]).ok();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "it is stopped");
    assert!(!home.file("run").exists() && !home.file("logs").exists() && !home.file("gateways").exists());
    assert_eq!(home.config_text(), before);
    assert_eq!(std::fs::read_to_string(home.file("workspaces/coder/work.txt")).unwrap(), "mine");
    for word in ["files of the agents", "notes.txt", "uninstall --purge", "flock itself"] {
        assert!(told.stderr.contains(word), "{word}: {told:?}");
    }
    // Again there is nothing to do, and nothing is asked.
    let told = home.flock(["uninstall"]).ok();
    assert!(told.stdout.contains("nothing of flock to remove"), "{told:?}");
    home.flock(["init", "--yes", "--no-images"]).ok();
    let agents = home.flock(["list", "--json"]).ok().json();
    assert_eq!(agents["agents"][2]["id"], "coder");
    home.flock(["start", "-q"]).ok();
    home.flock(["stop", "-q"]).ok();
}

#[test]
fn nothing_goes_without_a_yes_and_a_dry_run_shows_it_all() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let before = tree(&home.path());
    let refused = home.flock(["uninstall", "--purge"]).fails(2);
    assert!(refused.stderr.contains("flock uninstall --purge --yes"), "{refused:?}");
    let refused = home.flock(["uninstall", "--json"]).fails(2).json();
    assert_eq!(refused["error"]["code"], "usage");
    let shown = home.flock(["uninstall", "--purge", "--dry-run"]).ok();
    assert!(shown.stdout.contains("config.json") && shown.stdout.contains("the folder itself"), "{shown:?}");
    let shown = home.flock(["uninstall", "--dry-run", "--json"]).ok().json();
    assert_eq!(shown["dryRun"], true);
    let files: Vec<&Value> = shown["removes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(files, [&json!("logs"), &json!("run")]);
    assert!(
        shown["kept"].as_array().unwrap().iter().any(|kept| kept["path"] == json!(home.file("config.json")))
    );
    assert_eq!(tree(&home.path()), before);
}

#[test]
fn from_every_half_state_a_purge_leaves_nothing() {
    type State = fn(&TempHome);
    let states: [(&str, State); 9] = [
        ("whole", |_| {}),
        ("configuration broken", |home| std::fs::write(home.file("config.json"), "{\"agents\": [").unwrap()),
        ("configuration of another shape", |home| std::fs::write(home.file("config.json"), "[1]").unwrap()),
        ("configuration gone", |home| std::fs::remove_file(home.file("config.json")).unwrap()),
        ("configuration a folder", |home| {
            std::fs::remove_file(home.file("config.json")).unwrap();
            std::fs::create_dir(home.file("config.json")).unwrap();
        }),
        ("id gone", |home| std::fs::remove_file(home.file("data/instance")).unwrap()),
        ("number unreadable", |home| std::fs::write(home.file("version"), "x").unwrap()),
        ("run gone", |home| std::fs::remove_dir_all(home.file("run")).unwrap()),
        ("drafts of killed writers", |home| {
            std::fs::write(home.file(".new-a1b2c3"), "{").unwrap();
            symlink("gateways/openclaw/x", home.file(".new-openclaw")).unwrap();
        }),
    ];
    for (name, make) in states {
        let home = TempHome::new().init();
        make(&home);
        home.flock(["uninstall", "--purge", "--yes"]).ok();
        assert!(!home.path().exists(), "{name}: {:?}", names(&home));
        home.flock(["uninstall", "--purge", "--yes"]).ok();
    }
}

#[test]
fn what_a_killed_init_left_is_removed() {
    for n in 0..25_u64 {
        let home = TempHome::new();
        let line = ["init", "--yes", "--no-images", "--model", "script/demo"];
        let mut child =
            home.command().args(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(n * 700));
        child.kill().unwrap();
        child.wait().unwrap();
        home.flock(["uninstall", "--purge", "--yes"]).ok();
        assert!(!home.path().exists(), "{n}: {:?}", names(&home));
    }
}

#[test]
fn killed_at_any_moment_it_is_finished_by_the_next_one() {
    for n in 0..25_u64 {
        let home = TempHome::new().init();
        for file in 0..200 {
            std::fs::write(home.file(format!("workspaces/orchestrator/{file}")), "x").unwrap();
        }
        if n % 5 == 0 {
            home.flock(["start", "-q"]).ok();
        }
        let line = ["uninstall", "--purge", "--yes"];
        let mut child =
            home.command().args(line).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(n * 4));
        child.kill().unwrap();
        child.wait().unwrap();
        home.flock(line).ok();
        assert!(!home.path().exists(), "{n}: {:?}", names(&home));
    }
}

#[test]
fn a_home_of_a_newer_flock_is_not_touched() {
    let home = TempHome::new().init();
    std::fs::write(home.file("version"), "99\n").unwrap();
    let before = tree(&home.path());
    for line in [
        &["uninstall", "--purge", "--yes"][..],
        &["uninstall", "openclaw", "--yes"],
        &["uninstall", "--dry-run"],
    ] {
        let refused = home.flock(line).fails(7);
        assert!(refused.stderr.contains("newer flock"), "{refused:?}");
    }
    assert_eq!(tree(&home.path()), before);
}

#[test]
fn a_folder_that_is_no_home_keeps_all_it_has() {
    let home = TempHome::new();
    for file in ["data/table.csv", "logs/app.log", "gateways/openclaw/x", "scripts/build.sh"] {
        let file = home.file(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "precious").unwrap();
    }
    let before = tree(&home.path());
    for line in [&["uninstall", "--purge", "--yes"][..], &["uninstall", "openclaw", "--purge", "--yes"]] {
        let told = home.flock(line).ok();
        assert!(told.stderr.contains("nothing in it proves that flock made it"), "{told:?}");
    }
    assert_eq!(tree(&home.path()), before);
}

#[test]
fn no_link_is_followed_and_what_is_a_persons_stays() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let outside = home.outside().join("precious");
    std::fs::create_dir_all(outside.join("vault")).unwrap();
    std::fs::write(outside.join("vault/file"), "kept").unwrap();
    symlink(&outside, home.file("workspaces/coder/link")).unwrap();
    std::fs::remove_dir_all(home.file("vaults")).unwrap();
    symlink(&outside, home.file("vaults")).unwrap();
    std::fs::remove_dir_all(home.file("gateways")).unwrap();
    symlink(&outside, home.file("gateways")).unwrap();
    let project = home.outside().join("project");
    std::fs::create_dir(&project).unwrap();
    home.flock(["config", "set", "agents.list[coder].workspace", project.to_str().unwrap()]).ok();
    std::fs::create_dir(home.file("photos")).unwrap();
    std::fs::write(home.file("photos/one"), "x").unwrap();
    let told = home.flock(["uninstall", "--purge", "--yes"]).ok();
    assert_eq!(names(&home), ["photos"]);
    assert!(outside.join("vault/file").exists() && project.exists());
    for word in ["photos", "project", "precious"] {
        assert!(told.stderr.contains(word), "{word}: {told:?}");
    }
}

#[test]
fn what_an_agent_locked_or_buried_goes_too() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = TempHome::new().init();
    let locked = home.file("workspaces/orchestrator/locked");
    std::fs::create_dir_all(locked.join("in")).unwrap();
    std::fs::write(locked.join("in/file"), "x").unwrap();
    if nix::unistd::Uid::effective().is_root() {
        for path in [home.file("workspaces/orchestrator"), locked.join("in/file")] {
            std::os::unix::fs::chown(path, Some(10_001), Some(10_001)).unwrap();
        }
    }
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o000)).unwrap();
    home.flock(["uninstall", "--purge", "--yes"]).ok();
    assert!(!home.path().exists());
}

#[test]
fn one_step_that_fails_leaves_the_others_and_the_next_call_finishes() {
    let home = TempHome::new().init();
    let (theirs, place) = (home.outside().join("theirs"), home.file("workspaces/orchestrator/mounted"));
    for folder in [&theirs, &place] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(theirs.join("file"), "x").unwrap();
    let mounted = std::process::Command::new("mount").arg("--bind").args([&theirs, &place]).output();
    if !mounted.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: nothing can be mounted here");
        return;
    }
    let told = home.flock(["uninstall", "--purge", "--yes"]);
    let shown = home.flock(["uninstall", "--purge", "--yes", "--json"]);
    assert!(std::process::Command::new("umount").arg(&place).status().unwrap().success());
    assert_eq!((told.code, shown.code), (1, 1), "{told:?} {shown:?}");
    let said = ["something is mounted there", "removes the rest"];
    assert!(said.iter().all(|text| told.stderr.contains(text)), "{told:?}");
    assert!(
        shown.json()["failed"][0]["message"].as_str().unwrap().contains("orchestrator/mounted"),
        "{shown:?}"
    );
    assert_eq!(names(&home), ["data", "workspaces"], "and the id by which the home is known");
    home.flock(["uninstall", "--purge", "--yes"]).ok();
    assert!(theirs.join("file").exists() && !home.path().exists());
}

#[test]
fn an_install_under_way_is_not_torn_down() {
    let home = TempHome::new().init();
    let held = flock::home::lock::Lock::try_acquire(&home.file("run/install.lock")).unwrap();
    let told = home.flock(["uninstall", "--purge", "--yes", "--json"]).fails(5).json();
    assert!(told["failed"][0]["message"].as_str().unwrap().contains("another flock is installing"), "{told}");
    assert!(home.file("config.json").exists() && home.file("run").exists());
    drop(held);
    home.flock(["uninstall", "--purge", "--yes"]).ok();
    assert!(!home.path().exists());
}

#[test]
fn a_service_of_this_home_goes_and_that_of_another_stays() {
    if Path::new("/run/systemd/system").exists() {
        eprintln!("not run: a service manager would take part");
        return;
    }
    let home = TempHome::new().init();
    // As `service install` for the user, without a manager: its file is where the manager looks.
    let written = home.flock(["service", "install", "--user", "--root", "/", "--json"]).ok().json();
    let unit = std::path::PathBuf::from(written["path"].as_str().unwrap());
    assert!(unit.starts_with(home.outside()), "{}", unit.display());
    let other = std::fs::read_to_string(&unit).unwrap().replace("/home\"", "/home2\"");
    std::fs::write(&unit, &other).unwrap();
    home.flock(["uninstall", "--yes"]).ok();
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), other, "it runs another home");
    home.flock(["init", "--yes", "--no-images"]).ok();
    home.flock(["service", "install", "--user", "--root", "/"]).ok();
    let told = home.flock(["uninstall", "--yes", "--json"]).ok().json();
    assert_eq!(told["removes"][0], json!({"what": "service", "name": unit}));
    assert!(!unit.exists());
}
