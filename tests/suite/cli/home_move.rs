//! `flock home move`: what it says, what it refuses, and with a server of PostgreSQL the way there and back.

use std::path::PathBuf;

use serde_json::json;

use crate::support::home::TempHome;
use crate::support::postgres;
use crate::team::stage::Served;

fn with_channel() -> TempHome {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    for number in 0..5 {
        home.flock(["channel", "post", "work", &format!("message {number}")]).ok();
    }
    home
}

/// Counts the messages of the channel.
fn messages(home: &TempHome) -> usize {
    home.flock(["channel", "read", "work", "--json"]).ok().stdout.matches("message ").count()
}

fn check(home: &TempHome, name: &str) -> (String, String) {
    let doctor = home.flock(["doctor", "--json"]).json();
    let checks = doctor["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name).unwrap();
    (found["state"].as_str().unwrap().to_owned(), found["message"].as_str().unwrap().to_owned())
}

#[test]
fn what_is_wrong_is_said_with_the_command_that_helps() {
    let home = TempHome::new();
    home.flock(["home", "move", "--to", "sqlite"]).fails(3);
    let home = home.init();
    home.flock(["home"]).fails(2);
    let run = home.flock(["home", "move", "--to", "postgres://flock:hunter2@127.0.0.1/flock"]).fails(2);
    assert!(run.stderr.contains("password") && !run.stderr.contains("hunter2"), "{run:?}");
    let run = home.flock(["home", "move", "--to", "mysql://flock:hunter2@db/flock"]).fails(2);
    assert!(run.stderr.contains("--to takes") && !run.stderr.contains("hunter2"), "{run:?}");
    let run = home.flock(["home", "move", "--to", "sqlite", "--schema", "x"]).fails(2);
    assert!(run.stderr.contains("are for a server"), "{run:?}");
    let run = home.flock(["home", "move", "--to", "sqlite"]).fails(5);
    assert!(run.stderr.contains("a file of the home"), "{run:?}");
    let port = crate::support::home::free_port();
    let address = format!("postgres://flock@127.0.0.1:{port}/flock");
    let run = home.flock(["home", "move", "--to", &address, "--json"]).fails(12);
    let error = run.json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains(&format!("127.0.0.1:{port}/flock")), "{error}");
    assert!(
        error["hint"].as_str().unwrap().ends_with(&format!("go on with: flock home move --to {address}")),
        "{error}"
    );
    assert!(!home.file("store.json").exists());
    home.flock(["audit", "--verify"]).ok();
}

#[test]
fn a_home_that_runs_is_not_moved() {
    let home = with_channel();
    let served = Served::start(&home);
    let run = home.flock(["home", "move", "--to", "postgres://flock@127.0.0.1:1/flock"]).fails(5);
    assert!(run.stderr.contains("flock runs") && run.stderr.contains("flock stop"), "{run:?}");
    served.stop();
}

#[test]
fn a_home_moves_to_a_server_and_back() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_channel(), postgres::schema());
    let to_server = ["home", "move", "--to", &server, "--schema", &schema];
    let planned = home.flock([&to_server[..], &["--dry-run", "--json"]].concat()).ok().json();
    assert_eq!(planned["target"], "nothing is there yet", "{planned:#}");
    let message = json!({"name": "message", "rows": 6});
    assert!(planned["tables"].as_array().unwrap().contains(&message), "{planned:#}");
    assert!(!home.file("store.json").exists() && home.file("data/flock.db").exists());
    let run = home.flock([&to_server[..], &["--dry-run"]].concat()).ok();
    assert!(run.stdout.contains("message") && run.stderr.contains("would be moved"), "{run:?}");

    let moved = home.flock([&to_server[..], &["--json"]].concat()).ok().json();
    assert_eq!((&moved["rows"], &moved["auditFault"]), (&planned["rows"], &json!(null)), "{moved:#}");
    let kept = PathBuf::from(moved["kept"]["place"].as_str().unwrap());
    assert!(kept.exists() && !home.file("data/flock.db").exists(), "{moved:#}");
    assert_eq!(messages(&home), 5);
    home.flock(["audit", "--verify"]).ok();
    let audit = home.flock(["audit", "--action", "home.move", "--json"]).ok();
    assert!(audit.stdout.contains(&schema), "{audit:?}");
    let (state, text) = check(&home, "database");
    assert!(state == "ok" && text.contains(&schema), "{text}");
    let status = home.flock(["status", "--json"]).json();
    assert_eq!(status["database"]["kind"], "postgres", "{status:#}");
    assert!(status["database"]["address"].as_str().unwrap().contains(&schema), "{status:#}");
    assert!(home.flock(["status"]).stdout.contains(&schema));
    let refused = home.flock(["restore", "--yes"]).fails(1);
    assert!(refused.stderr.contains("flock backup") && refused.stderr.contains("pg_dump"), "{refused:?}");
    let again = home.flock(to_server).fails(5);
    assert!(again.stderr.contains("on a server"), "{again:?}");
    home.flock(["channel", "post", "work", "message on the server"]).ok();

    let back = home.flock(["home", "move", "--to", "sqlite"]).ok();
    assert!(back.stdout.contains("flock.db now") && back.stderr.contains("DROP SCHEMA"), "{back:?}");
    assert!(!home.file("store.json").exists() && home.file("data/flock.db").exists());
    assert_eq!(messages(&home), 6);
    home.flock(["audit", "--verify"]).ok();
    assert_eq!(check(&home, "database").0, "ok");
    assert_eq!(home.flock(["status", "--json"]).json()["database"], json!({"kind": "sqlite"}));
    home.flock(["channel", "post", "work", "message in the file"]).ok();
    // A copy of the home that still names the server can't write there.
    let document = json!({"postgres": server, "schema": schema}).to_string();
    std::fs::write(home.file("store.json"), document).unwrap();
    let refused = home.flock(["channel", "post", "work", "message to nowhere"]).fails(5);
    assert!(
        refused.stderr.contains("was moved to") && refused.stderr.contains("not written any more"),
        "{refused:?}"
    );
    std::fs::remove_file(home.file("store.json")).unwrap();
    assert_eq!(messages(&home), 7);
    home.flock(["backup"]).ok();
}

#[test]
fn the_second_place_stays_this_homes_on_the_way_to_a_server_and_back() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_channel(), postgres::schema());
    let place = tempfile::tempdir().unwrap();
    let settings = json!({"kind": "folder", "path": place.path()}).to_string();
    home.flock(["config", "set", "plugins.entries.flock.config.storage.blobs", &settings]).ok();
    home.flock(["add", "ada", "--no-container"]).ok();
    let copy = |number: u64| {
        std::fs::write(home.file("workspaces/ada/notes"), number.to_string()).unwrap();
        home.flock(["checkpoint", "ada"]).ok();
        home.flock(["storage", "push", "ada"]).ok();
        let listed = home.flock(["storage", "list", "ada", "--json"]).ok().json();
        assert_eq!(listed["checkpoints"][0]["number"], number, "{listed}");
        assert_eq!(home.flock(["storage", "check", "--json"]).ok().json()["owner"], "this");
        std::fs::read(place.path().join("flock.json")).unwrap()
    };
    let mark = copy(1);
    home.flock(["home", "move", "--to", &server, "--schema", &schema]).ok();
    assert_eq!(copy(2), mark);
    home.flock(["home", "move", "--to", "sqlite"]).ok();
    assert_eq!(copy(3), mark);
}

#[test]
fn a_gateway_works_with_the_moved_database() {
    let Some(server) = postgres::server() else { return };
    let (home, schema) = (with_channel(), postgres::schema());
    home.flock(["home", "move", "--to", &server, "--schema", &schema]).ok();
    let served = Served::start(&home);
    home.flock(["channel", "post", "work", "message to the gateway"]).ok();
    let refused = home.flock(["home", "move", "--to", "sqlite"]).fails(5);
    assert!(refused.stderr.contains("flock stop"), "{refused:?}");
    served.stop();
    home.flock(["home", "move", "--to", "sqlite"]).ok();
    assert_eq!(messages(&home), 6);
}

#[test]
fn a_backup_of_a_home_on_a_server_becomes_a_home_in_a_file_or_on_a_server() {
    let Some(server) = postgres::server() else { return };
    let (home, first, second) = (with_channel(), postgres::schema(), postgres::schema());
    home.flock(["home", "move", "--to", &server, "--schema", &first]).ok();
    let file = home.outside().join("one.tar.gz").display().to_string();
    let served = Served::start(&home);
    let made = home.flock(["backup", &file, "--json"]).ok().json();
    assert!(made["database"]["server"].as_str().unwrap().ends_with(&format!("schema {first}")), "{made:#}");
    assert_eq!(made["database"]["auditFault"], json!(null), "{made:#}");
    home.flock(["backup", "--verify", &file]).ok();
    let beside = |name: &str| home.outside().join(name);
    let in_home = |name: &str, line: &[&str]| {
        let place = beside(name).display().to_string();
        home.flock([&["--home", &*place], line].concat())
    };
    // A gateway runs there.
    let taken = in_home("taken", &["restore", &file, "--to", &server, "--schema", &first]).fails(5);
    assert!(taken.stderr.contains("another gateway uses the database"), "{taken:?}");
    served.stop();
    let occupied = in_home("taken", &["restore", &file, "--to", &server, "--schema", &first]).fails(5);
    assert!(
        occupied.stderr.contains("it has a database of flock") && occupied.stderr.contains("DROP SCHEMA"),
        "{occupied:?}"
    );
    assert!(!beside("taken").exists() && home.drafts().is_empty(), "{:?}", home.drafts());

    let restored = in_home("file", &["restore", &file, "--json"]).ok().json();
    assert_eq!(restored["server"], json!(null), "{restored:#}");
    assert!(restored["notes"][0].as_str().unwrap().contains(&first), "{restored:#}");
    assert!(!beside("file/store.json").exists() && beside("file/data/flock.db").exists());
    let on_server = ["restore", &file, "--to", &server, "--schema", &second, "--json"];
    let restored = in_home("server", &on_server).ok().json();
    assert!(restored["server"].as_str().unwrap().ends_with(&format!("schema {second}")), "{restored:#}");
    assert_eq!(restored["notes"], json!([]), "{restored:#}");
    assert!(beside("server/store.json").exists());
    let files = std::fs::read_dir(beside("server/data")).unwrap().map(|file| file.unwrap().file_name());
    let kept: Vec<_> = files.filter(|name| name.to_string_lossy().starts_with("flock.db")).collect();
    assert!(kept.is_empty(), "{kept:?}");
    for name in ["file", "server"] {
        in_home(name, &["audit", "--verify"]).ok();
        let read = in_home(name, &["channel", "read", "work", "--json"]).ok();
        assert_eq!(read.stdout.matches("message ").count(), 5, "{read:?}");
        in_home(name, &["channel", "post", "work", "it goes on"]).ok();
        let audit = in_home(name, &["audit", "--action", "home.restore", "--json"]).ok();
        assert!(audit.stdout.contains("the backup of"), "{audit:?}");
    }
    // What the restored homes write is theirs alone.
    assert_eq!(messages(&home), 5);
    assert!(!home.flock(["channel", "read", "work"]).ok().stdout.contains("it goes on"));
    postgres::discard(&second);
}

#[test]
fn a_backup_and_a_restore_without_the_server_leave_nothing() {
    let home = with_channel();
    let file = home.outside().join("one.tar.gz").display().to_string();
    home.flock(["backup", &file]).ok();
    let port = crate::support::home::free_port();
    let address = format!("postgres://flock@127.0.0.1:{port}/flock");
    let other = home.outside().join("other").display().to_string();
    let line = ["--home", &other, "restore", &file];
    let failed = home.flock([&line[..], &["--to", &address]].concat()).fails(12);
    assert!(failed.stderr.contains(&format!("127.0.0.1:{port}/flock")), "{failed:?}");
    assert!(!home.outside().join("other").exists() && home.drafts().is_empty(), "{:?}", home.drafts());
    for wrong in
        [&["--to", "mysql://a:hunter2@db/b"][..], &["--schema", "x"], &["--to", "sqlite", "--replace-nul"]]
    {
        let refused = home.flock([&line[..], wrong].concat()).fails(2);
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    }
    let database = home.file("data/flock.db");
    std::fs::rename(&database, home.file("data/flock.db.kept")).unwrap();
    std::fs::write(home.file("store.json"), json!({"postgres": address}).to_string()).unwrap();
    let two = home.outside().join("two.tar.gz");
    let failed = home.flock(["backup", &two.display().to_string()]).fails(12);
    assert!(failed.stderr.contains(&format!("127.0.0.1:{port}/flock")), "{failed:?}");
    assert!(!two.exists() && home.drafts().is_empty(), "{:?}", home.drafts());
    // An archive whose home names a server is a home with a file: nobody else's server is used for it.
    std::fs::remove_file(home.file("store.json")).unwrap();
    std::fs::rename(home.file("data/flock.db.kept"), &database).unwrap();
    home.flock([&line[..], &["--json"]].concat()).ok();
    home.flock(["--home", &other, "audit", "--verify"]).ok();
}
