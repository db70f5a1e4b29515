//! Backups of the whole home: while a team works, killed at every step, on a disk that is full, and restored.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use flock::fault_point::FaultPoint;
use serde_json::json;

use super::rollback::dies;
use super::with_limit;
use crate::support::home::{TempHome, finish};
use crate::team::stage::{Served, add, said, until_said};

fn with_channel() -> TempHome {
    let home = TempHome::new().init();
    let replies =
        json!([{"when": "are you there?", "steps": [{"say": "here I am"}]}, {"steps": [{"say": "done"}]}]);
    add(&home, "coder", &replies);
    home.flock(["channel", "create", "work", "--topic", "x", "--member", "coder"]).ok();
    std::fs::create_dir_all(home.file("workspaces/coder")).unwrap();
    std::fs::write(home.file("workspaces/coder/file"), vec![7; 4 << 20]).unwrap();
    home
}

/// Returns the path of an archive beside the home.
fn archive(home: &TempHome, name: &str) -> String {
    home.outside().join(name).display().to_string()
}

fn is_sound(home: &TempHome) {
    home.flock(["audit", "--verify"]).ok();
    let found = home.flock(["doctor", "--deep", "--json"]).json();
    for name in ["database", "audit", "sessions", "config", "home"] {
        let checks = found["checks"].as_array().unwrap();
        let check = checks.iter().find(|check| check["name"] == name);
        assert!(check.is_some_and(|check| check["state"] != "bad"), "{name}: {found:#}");
    }
}

/// The most messages of one person, so that a channel has no more than a look at it shows.
const POSTS: usize = 25;

#[test]
fn a_backup_of_a_working_team_has_every_answered_post() {
    let home = with_channel();
    let served = Served::start(&home);
    let answered = Mutex::new(Vec::new());
    let stop = AtomicBool::new(false);
    let post = |text: &str| {
        home.flock(["channel", "post", "work", text]).ok();
        answered.lock().unwrap().push(text.to_owned());
    };
    for number in 0..5 {
        post(&format!("before {number} @coder"));
    }
    let mut known = Vec::new();
    std::thread::scope(|scope| {
        for poster in 0..3 {
            let (post, stop) = (&post, &stop);
            scope.spawn(move || {
                for number in 0..POSTS {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    post(&format!("{poster}: {number} @coder"));
                }
            });
        }
        for round in 0..3 {
            let at_least = answered.lock().unwrap().len() + 5;
            crate::support::wait_until("more posts", super::LONG, || {
                let count = answered.lock().unwrap().len();
                if count >= at_least || count == 5 + 3 * POSTS { Ok(()) } else { Err(count.to_string()) }
            });
            let before = answered.lock().unwrap().clone();
            let name = archive(&home, &format!("{round}.tar.gz"));
            let made = home.flock(["backup", &name, "--json"]);
            known.push((name, before, made));
        }
        stop.store(true, Ordering::Relaxed);
    });
    served.stop();
    let all = answered.into_inner().unwrap();
    for (name, before, made) in known {
        let made = made.ok().json();
        assert_eq!(made["database"]["auditFault"], json!(null), "{made:#}");
        home.flock(["restore", &name, "--replace", "--yes"]).ok();
        let texts: Vec<String> = said(&home, "work").into_iter().map(|(_, text)| text).collect();
        let missing: Vec<&String> = before.iter().filter(|text| !texts.contains(text)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
        // Nothing is in it that nobody has said, and nothing is in it twice.
        for text in texts.iter().filter(|text| text.contains("@coder")) {
            assert!(all.contains(text), "{text}");
            assert_eq!(texts.iter().filter(|other| *other == text).count(), 1, "{text}");
        }
        is_sound(&home);
        let served = Served::start(&home);
        home.flock(["channel", "post", "work", "are you there? @coder"]).ok();
        until_said(&home, "work", "coder", "here I am");
        served.stop();
    }
}

#[test]
fn a_killed_backup_leaves_no_archive_and_the_next_one_is_whole() {
    let home = with_channel();
    let file = archive(&home, "one.tar.gz");
    for at in [FaultPoint::BackupCopied, FaultPoint::BackupWritten, FaultPoint::BackupVerified] {
        assert!(dies(&home, &format!("backup {file}"), at), "{at:?}");
        assert!(!Path::new(&file).exists(), "{at:?}");
        is_sound(&home);
    }
    home.flock(["backup", &file]).ok();
    home.flock(["backup", "--verify", &file]).ok();
    assert!(home.drafts().is_empty(), "{:?}", home.drafts());
    assert_eq!(std::fs::read_dir(home.file("run/backup")).unwrap().count(), 0);
}

#[test]
fn a_killed_restore_leaves_the_old_home_or_the_new_one() {
    let home = with_channel();
    home.flock(["channel", "post", "work", "in the backup"]).ok();
    let file = archive(&home, "one.tar.gz");
    home.flock(["backup", &file]).ok();
    home.flock(["channel", "post", "work", "after the backup"]).ok();
    let texts = || said(&home, "work").into_iter().map(|(_, text)| text).collect::<Vec<_>>();
    let line = format!("restore {file} --replace --yes");
    for at in [FaultPoint::RestoreUnpacked, FaultPoint::RestoreReady] {
        assert!(dies(&home, &line, at), "{at:?}");
        assert!(texts().contains(&"after the backup".to_owned()), "{at:?}");
        is_sound(&home);
    }
    assert!(dies(&home, &line, FaultPoint::RestorePlaced));
    assert!(
        texts().contains(&"in the backup".to_owned()) && !texts().contains(&"after the backup".to_owned())
    );
    is_sound(&home);
    let asides = std::fs::read_dir(home.outside()).unwrap().map(|entry| entry.unwrap().path());
    let asides: Vec<PathBuf> =
        asides.filter(|path| path.display().to_string().contains("home-replaced-")).collect();
    assert_eq!(asides.len(), 1, "the old home is kept");
    assert!(asides[0].join("config.json").exists());

    // A home that is not there is there as a whole or not at all.
    let other = home.outside().join("other").display().to_string();
    let line = format!("--home {other} restore {file}");
    for at in [FaultPoint::RestoreUnpacked, FaultPoint::RestoreReady] {
        assert!(dies(&home, &line, at), "{at:?}");
        assert!(!Path::new(&other).exists(), "{at:?}");
    }
    home.flock(["--home", &other, "restore", &file]).ok();
    home.flock(["--home", &other, "audit", "--verify"]).ok();
    assert!(home.drafts().is_empty(), "{:?}", home.drafts());
}

#[test]
fn a_disk_without_room_leaves_no_archive_and_no_home() {
    let home = with_channel();
    let file = archive(&home, "one.tar.gz");
    // The first limit is reached by the copy of the database, and the second by the archive.
    std::fs::write(
        home.file("workspaces/coder/random"),
        rand::random_iter().take(6 << 20).collect::<Vec<u8>>(),
    )
    .unwrap();
    for limit in ["ulimit -f 8;", "ulimit -f 8000;"] {
        let failed = finish(with_limit(&home, limit).args(["backup", &file]));
        // The copy of a server's database is a database itself, whose disk fails.
        assert!(matches!(failed.code, 1 | 10), "{limit} {failed:?}");
        assert!(failed.stderr.contains("failed to"), "{failed:?}");
        assert!(!Path::new(&file).exists() && home.drafts().is_empty(), "{limit} {:?}", home.drafts());
        is_sound(&home);
    }
    home.flock(["backup", &file]).ok();
    let other = home.outside().join("other").display().to_string();
    let failed = finish(with_limit(&home, "ulimit -f 8000;").args(["--home", &other, "restore", &file]));
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(!Path::new(&other).exists() && home.drafts().is_empty(), "{:?}", home.drafts());
    home.flock(["--home", &other, "restore", &file]).ok();
}

#[test]
fn a_running_home_is_not_replaced() {
    let home = with_channel();
    let file = archive(&home, "one.tar.gz");
    let served = Served::start(&home);
    home.flock(["backup", &file]).ok();
    let run = home.flock(["restore", &file, "--replace", "--yes"]).fails(5);
    assert!(run.stderr.contains("flock runs") && run.stderr.contains("flock stop"), "{run:?}");
    home.flock(["channel", "post", "work", "it goes on"]).ok();
    served.stop();
    home.flock(["restore", &file, "--replace", "--yes"]).ok();
}
