//! `flock storage`, and the copies that a gateway makes by itself.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::object_server::{BUCKET, Fault, KEY_ID, ObjectServer, REGION, SECRET};
use crate::support::wait_until;
use crate::team::checkpoints::tree;
use crate::team::stage::{LIMIT, Served, log_text};

const BLOBS: &str = "plugins.entries.flock.config.storage.blobs";

pub(super) fn home() -> TempHome {
    let home = TempHome::new().init();
    home.flock(["add", "ada", "--no-container"]).ok();
    home
}

pub(super) fn at_folder(home: &TempHome, folder: &Path) {
    home.flock(["config", "set", BLOBS, &json!({"kind": "folder", "path": folder}).to_string()]).ok();
}

pub(super) fn at_server(home: &TempHome, server: &ObjectServer) {
    let settings = json!({
        "kind": "s3", "endpoint": server.url(), "bucket": BUCKET, "region": REGION, "prefix": "flock",
        "accessKeyId": KEY_ID, "secretAccessKey": SECRET,
    });
    home.flock(["config", "set", BLOBS, &settings.to_string()]).ok();
}

fn write(home: &TempHome, path: &str, text: &str) {
    let path = home.file("workspaces/ada").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

pub(super) fn doctor(home: &TempHome) -> Vec<Value> {
    let found = home.flock(["doctor", "--json"]).json();
    let checks = found["checks"].as_array().unwrap().clone();
    checks.into_iter().filter(|check| check["name"] == "storage").collect()
}

#[test]
fn without_a_place_everything_says_how_one_is_set() {
    let home = home();
    for verb in ["check", "list", "push", "sweep"] {
        let run = home.flock(["storage", verb]).fails(2);
        assert!(run.stderr.contains("no place for blobs is set"), "{run:?}");
        assert!(run.stderr.contains(&format!("flock config set {BLOBS}")), "{run:?}");
    }
    assert_eq!(doctor(&home), Vec::<Value>::new());
    assert!(home.flock(["status", "--json"]).fails(4).json().get("storage").is_none());
    assert!(!home.flock(["status"]).fails(4).stdout.contains("storage  "));
}

#[test]
fn a_checkpoint_comes_back_on_another_machine() {
    let server = ObjectServer::start();
    let first = home();
    at_server(&first, &server);
    let config = first.config_text();
    assert!(!config.contains(SECRET) && config.contains("secret:blobs.secret"), "{config}");
    let checked = first.flock(["storage", "check", "--json"]).ok().json();
    assert_eq!((&checked["keepsConditions"], &checked["owner"]), (&json!(true), &json!("none")), "{checked}");
    write(&first, "src/main.txt", "hello");
    write(&first, "notes", "remember");
    first.flock(["checkpoint", "ada"]).ok();
    let copied = |answer: &Value| {
        let agents = answer["agents"].as_array().unwrap();
        agents.iter().find(|one| one["agent"] == "ada").unwrap()["copied"].clone()
    };
    let pushed = first.flock(["storage", "push", "--json"]).ok().json();
    assert_eq!(copied(&pushed)["number"], 1, "{pushed}");
    let again = first.flock(["storage", "push", "--json"]).ok().json();
    assert_eq!(copied(&again), Value::Null, "{again}");
    let listed = first.flock(["storage", "list", "--json"]).ok().json();
    assert_eq!(listed["checkpoints"][0]["newest"], true, "{listed}");
    let second = home();
    at_server(&second, &server);
    let pulled = second.flock(["storage", "pull", "ada"]).ok();
    assert!(pulled.stderr.contains("flock rewind ada --turn 1"), "{pulled:?}");
    second.flock(["rewind", "ada", "--turn", "1", "--yes"]).ok();
    assert_eq!(tree(&second.file("workspaces/ada")), tree(&first.file("workspaces/ada")));
    // The place is the first home's until somebody says that it is lost.
    write(&second, "notes", "changed");
    second.flock(["checkpoint", "ada"]).ok();
    let refused = second.flock(["storage", "push"]).fails(1);
    assert!(refused.stderr.contains("belongs to another home"), "{refused:?}");
    second.flock(["storage", "check"]).fails(5);
    let unasked = second.flock(["storage", "take"]).fails(2);
    assert!(unasked.stderr.contains("flock storage take --yes"), "{unasked:?}");
    second.flock(["storage", "take", "--yes"]).ok();
    second.flock(["storage", "push"]).ok();
    first.flock(["storage", "check"]).fails(5);
    let unknown = second.flock(["storage", "pull", "ada", "--checkpoint", "99"]).fails(2);
    assert!(unknown.stderr.contains("flock storage list ada"), "{unknown:?}");
}

#[test]
fn a_home_that_was_restored_writes_nothing_until_it_takes_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let home = home();
    at_folder(&home, folder.path());
    write(&home, "notes", "one");
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["storage", "push"]).ok();
    let file = home.outside().join("one.tar.gz").display().to_string();
    home.flock(["backup", &file]).ok();
    // At the same path, as on another machine while the original goes on.
    let restored = home.flock(["restore", &file, "--replace", "--yes"]).ok();
    assert!(restored.stderr.contains("flock storage take"), "{restored:?}");
    home.flock(["storage", "check"]).fails(5);
    let refused = home.flock(["storage", "sweep", "ada"]).fails(5);
    assert!(refused.stderr.contains("belongs to another home"), "{refused:?}");
    let refused = home.flock(["storage", "push"]).fails(1);
    assert!(refused.stderr.contains("belongs to another home"), "{refused:?}");
    assert_eq!(home.audited_of_people("storage"), Vec::<String>::new());
    home.flock(["storage", "take", "--yes"]).ok();
    assert_eq!(home.audited_of_people("storage.take"), [format!("storage: {}", folder.path().display())]);
    home.flock(["storage", "push"]).ok();
    home.flock(["storage", "sweep", "ada"]).ok();
}

#[test]
fn files_that_somebody_made_on_the_other_machine_stay_unless_a_person_asks() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (home(), home());
    at_folder(&first, folder.path());
    at_folder(&second, folder.path());
    write(&first, "notes", "theirs");
    first.flock(["checkpoint", "ada"]).ok();
    first.flock(["storage", "push"]).ok();
    write(&second, "notes", "mine");
    let pulled = second.flock(["storage", "pull", "ada", "--json"]).ok().json();
    assert_eq!(pulled["isInUse"], true, "{pulled}");
    second.flock(["rewind", "ada", "--turn", "1", "--yes"]).fails(5);
    assert_eq!(std::fs::read_to_string(second.file("workspaces/ada/notes")).unwrap(), "mine");
}

#[test]
fn what_a_removed_agent_has_in_the_place_is_deleted_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let home = home();
    at_folder(&home, folder.path());
    write(&home, "notes", "one");
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["storage", "push"]).ok();
    let refused = home.flock(["storage", "forget", "ada", "--yes"]).fails(5);
    assert!(refused.stderr.contains("flock remove ada"), "{refused:?}");
    home.flock(["remove", "ada", "--purge", "--yes"]).ok();
    assert!(folder.path().join("checkpoints/ada/records").read_dir().unwrap().count() == 1);
    home.flock(["storage", "forget", "ada"]).fails(2);
    let done = home.flock(["storage", "forget", "ada", "--yes", "--json"]).ok().json();
    assert_eq!(done["checkpoints"], 1, "{done}");
    let expected = format!("ada: 1 checkpoints in {}", folder.path().display());
    assert_eq!(home.audited_of_people("storage.forget"), [expected]);
    let left: Vec<String> = tree(folder.path())
        .into_iter()
        .filter(|(_, what)| what.starts_with("file"))
        .map(|(path, _)| path)
        .collect();
    assert_eq!(left, ["\"flock.json\""]);
    // An agent of the same name begins anew.
    home.flock(["add", "ada", "--no-container"]).ok();
    write(&home, "notes", "one");
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["storage", "push"]).ok();
    let other = self::home();
    at_folder(&other, folder.path());
    other.flock(["storage", "pull", "ada"]).ok();
}

#[test]
fn a_gateway_copies_what_is_new_and_goes_on_after_the_place_was_gone() {
    let server = ObjectServer::start();
    let home = home();
    at_server(&home, &server);
    write(&home, "notes", "one");
    let served = Served::start(&home);
    home.flock(["checkpoint", "ada"]).ok();
    let records = || server.keys("flock/checkpoints/ada/records/").len();
    let copied = |count: usize| {
        wait_until("the checkpoint is copied", LIMIT, || {
            if records() == count { Ok(()) } else { Err(format!("{}\n{}", records(), log_text(&home))) }
        });
    };
    copied(1);
    server.always(Some(Fault::Status(403, "AccessDenied")));
    write(&home, "notes", "two");
    home.flock(["checkpoint", "ada"]).ok();
    let failed = wait_until("the failure is reported", LIMIT, || {
        let found = doctor(&home);
        let is_it =
            |check: &&Value| check["message"].as_str().unwrap().contains("no checkpoint of ada was copied");
        found.iter().find(is_it).cloned().ok_or(format!("{found:?}"))
    });
    assert!(failed["message"].as_str().unwrap().contains("AccessDenied"), "{failed}");
    assert!(failed["mend"].as_str().unwrap().contains("secretAccessKey"), "{failed}");
    server.always(None);
    copied(2);
    wait_until("doctor is content", LIMIT, || {
        let found = doctor(&home);
        if found.iter().all(|check| check["state"] == "ok") { Ok(()) } else { Err(format!("{found:?}")) }
    });
    drop(served);
    let log = log_text(&home);
    assert!(!log.contains(SECRET), "{log}");
}

#[test]
fn the_status_says_when_something_was_copied_and_what_was_not() {
    let server = ObjectServer::start();
    let home = home();
    at_server(&home, &server);
    let status = || home.flock(["status", "--json"]).json()["storage"].clone();
    let place = format!("{}/{BUCKET}/flock", server.url());
    let unknown = json!({"place": place, "checkpoints": null, "conversations": null, "vaults": null});
    assert_eq!(status(), unknown, "nothing was copied, and no gateway runs");
    write(&home, "notes", "one");
    let served = Served::start(&home);
    home.flock(["checkpoint", "ada"]).ok();
    wait_until("the copy is shown", LIMIT, || {
        let shown = status();
        let is_copied = shown["checkpoints"]["copiedAt"].is_i64() && shown["conversations"].is_object();
        if is_copied { Ok(()) } else { Err(format!("{shown}\n{}", log_text(&home))) }
    });
    let shown = home.flock(["status"]).ok();
    assert!(shown.stdout.contains(&format!("{place}; checkpoints copied ")), "{shown:?}");
    server.always(Some(Fault::Status(403, "AccessDenied")));
    write(&home, "notes", "two");
    home.flock(["checkpoint", "ada"]).ok();
    // The gateway and doctor, which reads what it has written, say the same.
    let failed = wait_until("the failure is shown", LIMIT, || {
        let (shown, found) = (status(), doctor(&home));
        let failed = shown["checkpoints"]["failed"][0].clone();
        let is_it = |check: &Value| check["message"] == failed["message"] && check["mend"] == failed["hint"];
        let is_shown = failed["agent"] == "ada" && found.iter().any(is_it);
        if is_shown { Ok(failed) } else { Err(format!("{shown}\n{found:?}")) }
    });
    assert!(failed["since"].is_i64(), "{failed}");
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with(&format!("no checkpoint of ada was copied to {place} since ")), "{message}");
    let shown = home.flock(["status"]).ok();
    assert!(shown.stdout.contains(", failing: 1 agent (ada)"), "{shown:?}");
    let warning = format!("{message}; to mend it: {}", failed["hint"].as_str().unwrap());
    assert!(shown.stderr.contains(&warning), "{shown:?}");
    let top = home.flock(["top", "--json"]).ok().json();
    assert_eq!(top["gateway"]["storage"]["place"], place.as_str(), "{top}");
    assert!(!top.to_string().contains(SECRET) && !format!("{shown:?}").contains(SECRET));
    served.stop();
    // It is known without a gateway, too.
    let shown = status();
    assert_eq!(shown["checkpoints"]["failed"][0]["since"], failed["since"], "{shown}");
    server.always(None);
    let served = Served::start(&home);
    wait_until("nothing fails any more", LIMIT, || {
        let shown = status();
        if shown["checkpoints"]["failed"] == json!([]) { Ok(()) } else { Err(shown.to_string()) }
    });
    drop(served);
}

#[test]
fn a_folder_whose_disk_is_not_mounted_is_said_and_not_filled() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("nas");
    std::fs::create_dir(&place).unwrap();
    let home = home();
    at_folder(&home, &place);
    write(&home, "notes", "one");
    home.flock(["checkpoint", "ada"]).ok();
    home.flock(["storage", "push"]).ok();
    // The folder of the mount is there, and its disk is not.
    std::fs::remove_dir_all(&place).unwrap();
    std::fs::create_dir(&place).unwrap();
    write(&home, "notes", "two");
    home.flock(["checkpoint", "ada"]).ok();
    let run = home.flock(["storage", "push"]).fails(1);
    assert!(run.stderr.contains("is not the store that this home has used"), "{run:?}");
    assert_eq!(std::fs::read_dir(&place).unwrap().count(), 0);
    std::fs::remove_dir(&place).unwrap();
    let run = home.flock(["storage", "push"]).fails(1);
    assert!(run.stderr.contains("does not exist"), "{run:?}");
    let found = doctor(&home);
    assert!(found.iter().any(|check| check["state"] == "bad"), "{found:?}");
}
