use super::*;

use serde_json::json;

use crate::config::{Live, read, starter};

fn home() -> (tempfile::TempDir, Home) {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::new(dir.path().join("flock"), None);
    home.make_folders().unwrap();
    let document = starter::document(&home, None, "token", 3779);
    atomic::write(&home.config(), &render(&document), 0o600).unwrap();
    (dir, home)
}

fn change(home: &Home, change: impl FnOnce(&mut Value)) -> Result<(), ConfigError> {
    edit(home, |document| {
        change(document);
        Ok(())
    })
}

#[test]
fn unknown_keys_and_their_order_survive() {
    let (_dir, home) = home();
    let text = std::fs::read_to_string(home.config()).unwrap();
    let text = text.replacen('{', "{\n  \"zulu\": {\"b\": 1, \"a\": [3, 2, 1]},\n  \"alpha\": 1e3,", 1);
    std::fs::write(home.config(), &text).unwrap();
    change(&home, |document| document["plugins"]["entries"]["flock"]["config"]["maxAgents"] = json!(7))
        .unwrap();
    let new = std::fs::read_to_string(home.config()).unwrap();
    assert_eq!(read(&home).unwrap().max_agents, 7);
    let at = |needle: &str| new.find(needle).unwrap_or_else(|| panic!("{needle} is gone"));
    assert!(at("\"zulu\"") < at("\"alpha\"") && at("\"alpha\"") < at("\"gateway\""));
    assert!(at("\"b\"") < at("\"a\""));
    let backups = file::backups(&home);
    assert_eq!(std::fs::read_to_string(&backups[0]).unwrap(), text, "the old file is kept as it was");
}

#[test]
fn a_change_that_breaks_it_is_not_written() {
    let (_dir, home) = home();
    let before = std::fs::read(home.config()).unwrap();
    let error = change(&home, |document| document["gateway"]["auth"]["token"] = json!(5)).unwrap_err();
    assert!(matches!(&error, ConfigError::Refused { at, .. } if at == "gateway.auth.token"), "{error}");
    assert_eq!(std::fs::read(home.config()).unwrap(), before);
}

#[test]
fn a_preview_has_the_checks_of_a_change_and_writes_nothing() {
    let (_dir, home) = home();
    let bytes = std::fs::read(home.config()).unwrap();
    let limit = |most: Value| {
        preview(&home, |document| {
            document["plugins"]["entries"]["flock"]["config"]["maxAgents"] = most;
            Ok("done")
        })
    };
    let Preview { value, before, after, config } = limit(json!(7)).unwrap();
    assert_eq!((value, config.max_agents), ("done", 7));
    assert_eq!(before, file::document(&bytes).unwrap());
    assert_eq!(after["plugins"]["entries"]["flock"]["config"]["maxAgents"], 7);
    assert!(matches!(limit(json!("many")).err(), Some(ConfigError::Refused { .. })));
    assert_eq!(std::fs::read(home.config()).unwrap(), bytes);
    std::fs::write(home.config(), "{").unwrap();
    assert!(matches!(preview(&home, |_| Ok(())).err(), Some(ConfigError::Syntax { .. })));
}

#[test]
fn a_broken_file_is_named_with_its_line_and_never_overwritten() {
    use crate::error::Explain as _;
    let (_dir, home) = home();
    change(&home, |document| document["x"] = json!(1)).unwrap();
    let good = std::fs::read_to_string(home.config()).unwrap();
    let half = &good[..good.len() / 2];
    for (broken, says) in [
        (half.to_owned(), "line"),
        ("not json".to_owned(), "line 1"),
        (good.replacen('{', "{\n  // mine\n", 1), "comments"),
        ("[]".to_owned(), "must hold one object"),
        (String::new(), "line 1"),
    ] {
        std::fs::write(home.config(), &broken).unwrap();
        let error = change(&home, |document| document["y"] = json!(1)).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
        assert!(error.hint().unwrap().starts_with("cp "), "the last good backup is named");
        assert_eq!(std::fs::read_to_string(home.config()).unwrap(), broken);
    }
    std::fs::write(home.config(), format!("\u{feff}{good}")).unwrap();
    change(&home, |document| document["y"] = json!(1)).unwrap();
}

#[test]
fn concurrent_edits_are_all_kept() {
    let (_dir, home) = home();
    std::thread::scope(|scope| {
        for n in 0..50 {
            let home = &home;
            scope.spawn(move || change(home, |document| document[format!("key{n}")] = json!(n)).unwrap());
        }
    });
    let (_, document) = file::read_document(&home).unwrap();
    assert!((0..50).all(|n| document[format!("key{n}")] == n));
    assert!(file::backups(&home).len() <= MAX_BACKUPS);
}

#[test]
fn a_running_gateway_follows_the_file_and_keeps_the_last_good_one() {
    let (_dir, home) = home();
    let live = Live::open(home.clone()).unwrap();
    change(&home, |document| document["gateway"]["auth"]["token"] = json!("second")).unwrap();
    assert_eq!(live.current().token, "second");
    std::fs::write(home.config(), "{").unwrap();
    assert_eq!(live.current().token, "second");
    assert!(live.problem().unwrap().contains("not valid JSON"));
}
