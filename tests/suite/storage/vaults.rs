//! Vaults outlive the disk: the gateway copies what changes in them, and a person brings them back.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use super::transcripts::files;
use super::verbs::{at_folder, at_server, doctor, home};
use crate::support::home::TempHome;
use crate::support::object_server::{Fault, ObjectServer};
use crate::support::wait_until;
use crate::team::stage::{LIMIT, Served, log_text};

const RECORDS: &str = "flock/vaults/records/notes/";

fn notes(home: &TempHome) -> PathBuf {
    home.file("vaults/notes")
}

fn write(home: &TempHome, path: &str, text: &str) {
    let path = notes(home).join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn read(home: &TempHome, path: &str) -> String {
    std::fs::read_to_string(notes(home).join(path)).unwrap()
}

/// The newest copy in the place: its key and its record.
fn newest(server: &ObjectServer) -> Option<(String, Value)> {
    let key = server.keys(RECORDS).pop()?;
    let record = serde_json::from_slice(&server.blob(&key)?).unwrap();
    Some((key, record))
}

/// Waits until the newest copy has files with these paths, and returns it.
fn until_copied(home: &TempHome, server: &ObjectServer, paths: &[&str]) -> (String, Value) {
    wait_until("the vault is copied", LIMIT, || {
        let found = newest(server);
        let files = found.iter().flat_map(|(_, record)| record["files"].as_array().unwrap());
        let listed: Vec<&str> = files.map(|file| file["path"].as_str().unwrap()).collect();
        if listed == paths { Ok(found.unwrap()) } else { Err(format!("{listed:?}\n{}", log_text(home))) }
    })
}

#[test]
fn a_vault_that_a_gateway_has_copied_comes_back_in_another_home() {
    let server = ObjectServer::start();
    let (home, other) = (home(), home());
    at_server(&home, &server);
    at_server(&other, &server);
    // The other one has a database, and so an audit.
    other.flock(["channel", "create", "work", "--topic", "x"]).ok();
    write(&home, "plan.md", "first");
    write(&home, "deep/er/a note.md", "second");
    write(&home, ".git/hooks/post-commit", "a program");
    let served = Served::start(&home);
    until_copied(&home, &server, &["deep/er/a note.md", "plan.md"]);
    assert_eq!(server.keys("flock/vaults/objects/notes/").len(), 2);
    let shown = wait_until("the copy is shown", LIMIT, || {
        let shown = home.flock(["status", "--json"]).json()["storage"]["vaults"].clone();
        if shown["copiedAt"].is_i64() { Ok(shown) } else { Err(shown.to_string()) }
    });
    assert_eq!((&shown["waiting"], &shown["failed"]), (&json!([]), &json!([])), "{shown}");
    let shown = home.flock(["status"]).ok();
    assert!(shown.stdout.contains("; vaults copied "), "{shown:?}");
    // What somebody deletes here is in no later copy.
    std::fs::remove_dir_all(notes(&home).join("deep")).unwrap();
    write(&home, "new.md", "third");
    let (key, mut record) = until_copied(&home, &server, &["new.md", "plan.md"]);
    let listed = other.flock(["storage", "list", "--json"]).ok().json();
    assert_eq!(listed["vaults"][0], json!({"vault": "notes", "at": record["at"]}), "{listed}");
    assert!(other.flock(["storage", "list"]).ok().stdout.contains("notes"));
    // Another home reads, and does not have to own the place for that.
    let pulled = other.flock(["storage", "pull", "--vault", "notes", "--json"]).ok().json();
    let expected =
        json!({"vault": "notes", "at": record["at"], "written": 2, "same": 0, "kept": [], "missing": []});
    assert_eq!(pulled, expected);
    assert_eq!((read(&other, "plan.md").as_str(), read(&other, "new.md").as_str()), ("first", "third"));
    assert_eq!(std::fs::read_dir(notes(&other)).unwrap().count(), 2, "and nothing else");
    let written = format!("notes: 2 files of {}/team/flock, as of ", server.url());
    assert!(
        other.audited_of_people("storage.pull")[0].starts_with(&written),
        "{:?}",
        other.audited_of_people("storage.pull")
    );
    // What is different here stays unless a person gives it up.
    write(&other, "plan.md", "changed here");
    let pulled = other.flock(["storage", "pull", "--vault", "notes"]).ok();
    assert!(pulled.stderr.contains("plan.md differs here and stays"), "{pulled:?}");
    // A pull that breaks off goes on with the same copy, although the gateway of this home may make others meanwhile.
    let named = pulled.stderr.split_once("--at '").and_then(|(_, rest)| rest.split_once('\''));
    let same = other.flock(["storage", "pull", "--vault", "notes", "--at", named.unwrap().0, "--json"]);
    assert_eq!(same.ok().json()["at"], record["at"]);
    assert_eq!(read(&other, "plan.md"), "changed here");
    other.flock(["storage", "pull", "--vault", "notes", "--replace"]).ok();
    assert_eq!(read(&other, "plan.md"), "first");
    served.stop();
    // An earlier copy.
    record["at"] = json!(1_700_000_000_000_i64);
    record["files"].as_array_mut().unwrap().truncate(1);
    let early = Path::new(&key).with_file_name("001700000000000.json");
    server.set_blob(early.to_str().unwrap(), Some(record.to_string().into()));
    let at = |time: &str| other.flock(["storage", "pull", "--vault", "notes", "--at", time, "--json"]);
    assert_eq!(at("2023-12-24 18:00:00").ok().json()["same"], 1);
    let none = at("2020-01-01T00:00:00").fails(2);
    assert!(none.stdout.contains("of that time or before"), "{none:?}");
    let none = other.flock(["storage", "pull", "--vault", "plans"]).fails(2);
    assert!(none.stderr.contains("no copy of a vault plans; it has copies of notes"), "{none:?}");
    assert!(none.stderr.contains("flock storage list"), "{none:?}");
    other.flock(["storage", "pull"]).fails(2);
    other.flock(["storage", "pull", "ada", "--vault", "notes"]).fails(2);
    other.flock(["storage", "pull", "ada", "--replace"]).fails(2);
}

#[test]
fn a_vault_that_can_not_be_copied_is_said_and_copied_later() {
    let server = ObjectServer::start();
    let home = home();
    at_server(&home, &server);
    write(&home, "plan.md", "first");
    let served = Served::start(&home);
    until_copied(&home, &server, &["plan.md"]);
    server.always(Some(Fault::Status(403, "AccessDenied")));
    write(&home, "new.md", "second");
    let said = wait_until("the failure is reported", LIMIT, || {
        let found = doctor(&home);
        let is_it = |check: &&Value| {
            check["message"].as_str().unwrap().starts_with("not all of the vault notes was copied to ")
        };
        found.iter().find(is_it).cloned().ok_or(format!("{found:?}"))
    });
    assert!(said["mend"].as_str().unwrap().contains("secretAccessKey"), "{said}");
    let status = home.flock(["status", "--json"]).json();
    let failed = &status["storage"]["vaults"]["failed"][0];
    assert_eq!((&failed["vault"], &failed["message"]), (&json!("notes"), &said["message"]), "{status:#}");
    let shown = home.flock(["status"]);
    assert!(shown.stdout.contains(", failing: 1 vault (notes)"), "{shown:?}");
    assert!(home.flock(["top", "--json"]).ok().stdout.contains("not all of the vault notes"));
    server.always(None);
    until_copied(&home, &server, &["new.md", "plan.md"]);
    wait_until("nothing fails any more", LIMIT, || {
        let shown = home.flock(["status", "--json"]).json()["storage"]["vaults"].clone();
        if shown["failed"] == json!([]) { Ok(()) } else { Err(shown.to_string()) }
    });
    served.stop();
    // A content that the place has lost is named, and the others come.
    let other = self::home();
    at_server(&other, &server);
    let lost = server.keys("flock/vaults/objects/notes/").remove(0);
    server.set_blob(&lost, None);
    let run = other.flock(["storage", "pull", "--vault", "notes", "--json"]).fails(1);
    let pulled = run.json();
    assert_eq!((&pulled["written"], pulled["missing"].as_array().unwrap().len()), (&json!(1), 1), "{pulled}");
    let problem = pulled["missing"][0]["problem"].as_str().unwrap();
    assert!(problem.contains(lost.strip_prefix("flock/").unwrap()), "{problem}");
    assert_eq!(std::fs::read_dir(notes(&other)).unwrap().count(), 1);
}

#[test]
fn a_pull_that_fails_is_in_the_audit_with_what_it_has_written() {
    let (home, other, place) = (home(), home(), tempfile::tempdir().unwrap());
    for home in [&home, &other] {
        at_folder(home, place.path());
    }
    // The other one has a database, and so an audit.
    other.flock(["channel", "create", "work", "--topic", "x"]).ok();
    write(&home, "plan.md", "first");
    write(&home, "new.md", "second");
    let served = Served::start(&home);
    let records = place.path().join("vaults/records/notes");
    wait_until("the vault is copied", LIMIT, || {
        if files(&records).len() == 1 { Ok(()) } else { Err(log_text(&home)) }
    });
    served.stop();
    // The disk of the place fails at one of the two.
    let contents = files(&place.path().join("vaults/objects/notes"));
    let spoilt = contents.iter().find(|path| std::fs::read(path).unwrap() == b"second").unwrap();
    std::fs::remove_file(spoilt).unwrap();
    std::fs::create_dir(spoilt).unwrap();
    let pull = || other.flock(["storage", "pull", "--vault", "notes"]);
    let failed = pull().fails(1);
    assert!(failed.stderr.contains("it is no regular file"), "{failed:?}");
    assert_eq!(read(&other, "plan.md"), "first");
    let audited = || other.audited_of_people("storage.pull");
    let (found, written) = (audited(), format!("notes: 1 files of {}, as of ", place.path().display()));
    assert!(found.len() == 1 && found[0].starts_with(&written), "{found:?}");
    assert!(found[0].ends_with(", and then it failed"), "{found:?}");
    // One that has written nothing has done nothing.
    pull().fails(1);
    assert_eq!(audited(), found);
}

#[test]
fn a_vault_that_is_being_brought_back_is_left_alone_by_other_commands() {
    let server = ObjectServer::start();
    let (home, other) = (home(), home());
    at_server(&home, &server);
    at_server(&other, &server);
    write(&home, "plan.md", "first");
    let served = Served::start(&home);
    until_copied(&home, &server, &["plan.md"]);
    served.stop();
    // A pull that waits for the place, which answers nobody.
    server.always(Some(Fault::Slow(600_000)));
    let pull = ["storage", "pull", "--vault", "notes"];
    let mut waiting = other.command();
    waiting.args(pull).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut waiting = waiting.spawn().unwrap();
    let lock = other.file("run/vault-notes.lock");
    wait_until("the pull holds the vault", LIMIT, || {
        let said = std::fs::read_to_string(&lock).unwrap_or_default();
        if said.ends_with('}') { Ok(()) } else { Err(said) }
    });
    let refused = [other.flock(pull), other.flock(["storage", "forget", "--vault", "notes", "--yes"])];
    waiting.kill().unwrap();
    waiting.wait().unwrap();
    server.always(None);
    for refused in refused {
        let refused = refused.fails(5);
        assert!(refused.stderr.contains("vault notes is being brought back by ann on "), "{refused:?}");
        assert!(refused.stderr.contains(&format!("(process {}, since ", waiting.id())), "{refused:?}");
        assert!(refused.stderr.contains("or end that process, and try again"), "{refused:?}");
    }
    assert_eq!(server.keys("flock/vaults/").len(), 2, "the copy and its content");
    // A process that was killed holds nothing.
    other.flock(pull).ok();
    assert_eq!(read(&other, "plan.md"), "first");
}

#[test]
fn the_copies_of_a_vault_stay_until_a_person_gives_them_up() {
    let server = ObjectServer::start();
    let home = home();
    at_server(&home, &server);
    write(&home, "plan.md", "first");
    let served = Served::start(&home);
    let (key, _) = until_copied(&home, &server, &["plan.md"]);
    let refused = home.flock(["storage", "forget", "--vault", "notes", "--yes"]).fails(5);
    assert!(refused.stderr.contains("notes is a vault of this home"), "{refused:?}");
    // Its disk is not mounted: the folder is empty, and then it is gone.
    std::fs::remove_file(notes(&home).join("plan.md")).unwrap();
    wait_until("the gateway has looked at the empty vault", LIMIT, || {
        let log = log_text(&home);
        if log.contains("a vault has no files any more") { Ok(()) } else { Err(log) }
    });
    std::fs::remove_dir_all(notes(&home)).unwrap();
    assert_eq!(server.keys(RECORDS), [key]);
    served.stop();
    home.flock(["storage", "forget", "--vault", "notes"]).fails(2);
    let done = home.flock(["storage", "forget", "--vault", "notes", "--yes", "--json"]).ok().json();
    assert_eq!((&done["vault"], &done["copies"]), (&json!("notes"), &json!(1)), "{done}");
    assert_eq!(server.keys("flock/vaults/"), Vec::<String>::new());
    let expected = format!("notes: 1 copies in {}/team/flock", server.url());
    assert_eq!(home.audited_of_people("storage.forget"), [expected]);
}
