use serde_json::json;

use super::*;
use crate::config::agents::{NewAgent, add};
use crate::config::{Role, starter};

fn home() -> Home {
    Home::new("/nowhere/flock".into(), None)
}

fn document(change: impl FnOnce(&mut Value)) -> Value {
    let mut document = starter::document(&home(), None, "token", 4000);
    add(&mut document, &home(), &NewAgent::new("coder".parse().unwrap(), Role::Worker)).unwrap();
    change(&mut document["plugins"]["entries"]["flock"]["config"]);
    document
}

fn found(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let texts = settings(&document(change), &home());
    texts.iter().map(|unread| unread.text().replace("plugins.entries.flock.config", "…")).collect()
}

#[test]
fn what_init_and_add_write_is_read() {
    assert_eq!(found(|_| ()), [""; 0]);
}

#[test]
fn a_misspelt_key_is_named_with_the_nearest_known_one() {
    let texts = found(|own| {
        own["budget"] = json!({"day": {"usd": 5}});
        own["gatewayAgents"][0]["autonmy"] = json!("full");
        own["gateway"]["prot"] = json!(1);
        own["nix"] = json!({"flakes": "x", "image": "y"});
        own["zzz"] = json!(1);
    });
    assert_eq!(
        &texts[..4],
        [
            "….gatewayAgents[0].autonmy is not known: did you mean autonomy?",
            "….gateway.prot is not known: did you mean port?",
            "….budget is not known: did you mean budgets?",
            "….nix.flakes is not known: did you mean flake?",
        ]
    );
    let last = &texts[4];
    assert!(last.starts_with("….zzz is not known here: use ") && last.contains("maxAgents"), "{last}");
}

#[test]
fn a_database_or_a_folder_that_is_not_there_yet_is_named() {
    let texts = found(|own| {
        own["dbBackend"] = json!("postgres");
        own["dataDir"] = json!("/elsewhere");
    });
    assert_eq!(
        texts,
        [
            "….dbBackend must be \"sqlite\": `flock home move` brings a database to a server",
            "….dataDir must be \"/nowhere/flock/data\": flock keeps its data nowhere else yet",
        ]
    );
}

#[test]
fn a_setting_that_was_already_ignored_is_not_newly_ignored() {
    let before = document(|own| own["old"] = json!(1));
    let mut after = before.clone();
    after["plugins"]["entries"]["flock"]["config"]["new"] = json!(1);
    let added = added(&before, &after, &home());
    assert_eq!(added.len(), 1);
    assert!(added[0].at.ends_with(".new"), "{added:?}");
}

#[test]
fn every_key_of_the_documentation_is_read() {
    let text = include_str!("../../docs/config.md");
    let rows = text.lines().filter(|line| line.starts_with("| `…"));
    let keys: Vec<&str> = rows.filter_map(|row| row.split('`').nth(1)).collect();
    assert!(keys.len() > 20, "{keys:?}");
    let document = document(|own| {
        own["projects"] = json!({"lib": {"repo": "/srv/lib"}});
        own["engines"] = json!({"lib": {"address": "unix:///run/lib.sock"}});
    });
    let asked = parse::keys(&document, &home()).unwrap();
    for key in keys {
        let key =
            key.replace('…', "plugins.entries.flock.config.").replace("[]", "[0]").replace("<name>", "lib");
        assert!(asked.contains(key.trim_end_matches("[0]")), "{key}");
    }
}

#[test]
fn a_key_is_known_also_in_a_home_without_agents() {
    let with = parse::keys(&document(|_| ()), &home()).unwrap();
    let without = parse::keys(&starter::document(&home(), None, "token", 4000), &home()).unwrap();
    let own = |key: &&String| key.starts_with(&PLUGIN.join(".")) && !key.contains("gatewayAgents[");
    let [with, without] = [&with, &without].map(|keys| keys.iter().filter(own).collect::<Vec<_>>());
    assert_eq!(with, without);
}
