//! `flock generations` and `flock rollback`: each change is one generation, and going back is one step.

use serde_json::{Value, json};

use crate::support::home::{Run, TempHome, free_port};

/// The generations, the newest first.
fn all(home: &TempHome) -> Vec<Value> {
    home.flock(["generations", "--json"]).ok().json()["generations"].as_array().unwrap().clone()
}

fn newest(home: &TempHome) -> Value {
    all(home)[0].clone()
}

fn number(home: &TempHome) -> u64 {
    newest(home)["number"].as_u64().unwrap()
}

/// Goes back without a question.
fn back(home: &TempHome, to: u64) -> Run {
    home.flock(["rollback", &to.to_string(), "--yes"])
}

fn agents(home: &TempHome) -> Vec<String> {
    let listed = home.flock(["list", "--json"]).ok().json();
    let ids =
        listed["agents"].as_array().unwrap().iter().map(|agent| agent["id"].as_str().unwrap().to_owned());
    ids.collect()
}

#[test]
fn every_change_is_exactly_one_generation() {
    let home = TempHome::new().init();
    let first = newest(&home);
    assert_eq!((first["number"].as_u64(), first["why"].as_str()), (Some(1), Some("flock init")), "{first}");
    let coder = "agents.list[coder].model added";
    let steps: [(&[&str], &str, &str); 7] = [
        (
            &["config", "set", "plugins.entries.flock.config.maxAgents", "7"],
            "flock config set",
            "….maxAgents added: 7",
        ),
        (
            &["config", "unset", "plugins.entries.flock.config.maxAgents"],
            "flock config unset",
            "….maxAgents removed",
        ),
        (&["add", "coder", "--no-container"], "flock add", "agents.list[coder] added"),
        (&["edit", "coder", "--model", "script/other", "--yes"], "flock edit", coder),
        (&["rename", "coder", "maker"], "the rename of coder to maker", "agents.list[maker] added"),
        (&["remove", "maker"], "the removal of maker", "agents.list[maker] removed"),
        (&["config", "set", "gateway.custom", "1"], "flock config set", "gateway.custom added: 1"),
    ];
    for (count, (args, why, what)) in steps.into_iter().enumerate() {
        home.flock(args).ok();
        let found = newest(&home);
        assert_eq!(found["number"].as_u64(), Some(count as u64 + 2), "{args:?}: {found}");
        assert_eq!((found["by"].as_str(), found["why"].as_str()), (Some("human:ann"), Some(why)), "{found}");
        let named = found["what"].as_array().unwrap();
        assert!(named.iter().any(|text| text.as_str().unwrap().starts_with(what)), "{what}: {found}");
    }
    // What changes nothing is no generation.
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    home.flock(["list"]).ok();
    assert_eq!(number(&home), 8);
    let shown = home.flock(["generations", "show", "6", "--json"]).ok().json();
    assert_eq!(shown["renamed"], json!({"from": "coder", "to": "maker"}));
    let text = home.flock(["generations", "show", "2"]).ok().stdout;
    assert!(text.contains("….maxAgents added: 7") && text.contains("human:ann"), "{text}");
    assert!(home.flock(["generations", "show", "99"]).fails(1).stderr.contains("there is no generation 99"));
}

#[test]
fn a_change_by_hand_becomes_a_generation_of_its_own() {
    let home = TempHome::new().init();
    let mut config = home.config();
    config["gateway"]["custom"] = json!("by hand");
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    let found = newest(&home);
    assert_eq!((found["number"].as_u64(), found["by"].as_str()), (Some(2), Some("unknown")), "{found}");
    assert_eq!(found["why"], "changed by hand");
    // The next change notices it, too, and is not mixed with it.
    config["gateway"]["custom"] = json!("again");
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    home.flock(["config", "set", "gateway.other", "1"]).ok();
    let all = all(&home);
    assert_eq!((&all[0]["why"], &all[1]["why"]), (&json!("flock config set"), &json!("changed by hand")));
    assert_eq!(all[0]["what"], json!(["gateway.other added: 1"]));
    // A broken file is no state, and is not lost either.
    std::fs::write(home.file("config.json"), "{").unwrap();
    let run = home.flock(["generations", "--json"]).ok();
    assert_eq!(run.json()["generations"].as_array().unwrap().len(), 4);
    assert_eq!(home.config_text(), "{");
}

#[test]
fn an_old_home_begins_with_the_state_in_which_it_was_found() {
    let home = TempHome::new().init();
    std::fs::remove_dir_all(home.file("generations")).unwrap();
    home.flock(["add", "coder", "--no-container"]).ok();
    let all = all(&home);
    let whys: Vec<&str> = all.iter().map(|found| found["why"].as_str().unwrap()).collect();
    assert_eq!(whys, ["flock add", "found as it is"]);
    back(&home, 1).ok();
    assert!(!agents(&home).contains(&"coder".to_owned()));
}

#[test]
fn no_key_is_ever_in_a_generation() {
    let home = TempHome::new().init();
    let mut config = home.config();
    config["gateway"]["auth"]["token"] = json!("planted-token-of-the-owner");
    config["models"]["providers"]["mine"] = json!({
        "baseUrl": "https://ann:planted-password@example.org/v1", "apiKey": "planted-key", "api": "openai-completions",
        "headers": {"x-team": "planted-header"}, "models": [{"id": "m", "name": "m"}],
    });
    config["agents"]["list"][0]["sandbox"]["docker"]["env"]["MY_API_KEY"] = json!("planted-variable");
    config["agents"]["list"][0]["note"] = json!("sk-planted-0123456789abcdef");
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock_with_input(["config", "set", "models.providers.mine.apiKey", "-"], "planted-new-key").ok();
    let before = number(&home);
    back(&home, before - 1).ok();
    let now = home.config();
    assert_eq!(now["gateway"]["auth"]["token"], "planted-token-of-the-owner");
    assert_eq!(now["models"]["providers"]["mine"]["headers"]["x-team"], "planted-header");
    let mut files = 0;
    for entry in std::fs::read_dir(home.file("generations")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(!text.contains("planted"), "{}", path.display());
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        files += 1;
    }
    assert!(files >= 4, "{files}");
    let shown = home.flock(["generations", "show", "2", "--json"]).ok().stdout;
    assert!(!shown.contains("planted"), "{shown}");
}

#[test]
fn a_key_alone_makes_no_generation() {
    let home = TempHome::new().init();
    home.flock_with_input(["config", "set", "gateway.auth.token", "-"], "another-token").ok();
    assert_eq!(number(&home), 1);
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    back(&home, 1).ok();
    assert_eq!(home.config()["gateway"]["auth"]["token"], "another-token", "the present token stays");
}

#[test]
fn writers_at_the_same_time_each_make_one_generation() {
    let home = TempHome::new().init();
    let children: Vec<_> = (0..12)
        .map(|n| {
            let mut command = home.command();
            command.args(["config", "set", &format!("gateway.custom{n}"), "1", "-q"]);
            command.spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let all = all(&home);
    let numbers: Vec<u64> = all.iter().map(|found| found["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (1..=13).rev().collect::<Vec<_>>());
    for found in &all[..12] {
        assert_eq!(found["what"].as_array().unwrap().len(), 1, "{found}");
    }
}

#[test]
fn only_as_many_as_configured_are_kept() {
    let home = TempHome::new().init();
    let keep = "plugins.entries.flock.config.generations.keep";
    home.flock(["config", "set", keep, "3"]).ok();
    for n in 0..5 {
        home.flock(["config", "set", "gateway.custom", &n.to_string()]).ok();
    }
    let numbers: Vec<u64> = all(&home).iter().map(|found| found["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [7, 6, 5]);
    assert!(home.flock(["config", "set", keep, "0"]).fails(2).stderr.contains("a number of generations"));
    assert!(back(&home, 4).fails(1).stderr.contains("there is no generation 4"));
}

#[test]
fn a_rollback_shows_asks_and_can_be_undone() {
    let home = TempHome::new().init();
    // A home without a database has no audit yet.
    home.flock(["channel", "create", "work", "--topic", "x"]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    let after = home.config();
    let dry = home.flock(["rollback", "1", "--dry-run"]).ok();
    assert!(dry.stdout.contains("agents.list[coder] removed"), "{dry:?}");
    assert!(dry.stdout.contains("agent coder leaves the configuration"), "{dry:?}");
    let json = home.flock(["rollback", "1", "--dry-run", "--json"]).ok().json();
    assert_eq!(
        (json["from"].as_u64(), json["to"].as_u64(), json["dryRun"].as_bool()),
        (Some(3), Some(1), Some(true))
    );
    let unasked = home.flock(["rollback", "1"]).fails(2);
    assert!(
        unasked.stderr.contains("must be confirmed") && unasked.stderr.contains("rollback 1 --yes"),
        "{unasked:?}"
    );
    assert_eq!((home.config(), number(&home)), (after.clone(), 3), "nothing was changed");

    let done = home.flock(["rollback", "1", "--yes", "--json"]).ok().json();
    assert_eq!((done["changed"].as_bool(), done["generation"].as_u64()), (Some(true), Some(4)));
    assert!(!agents(&home).contains(&"coder".to_owned()));
    let found = newest(&home);
    assert_eq!(
        (found["backTo"].as_u64(), found["why"].as_str()),
        (Some(1), Some("flock rollback 1")),
        "{found}"
    );
    assert!(home.file("workspaces/coder").exists(), "a workspace is never touched");
    assert!(home.flock(["audit", "--json"]).ok().stdout.contains("home.rollback"));

    // Without a number it is the one before.
    home.flock(["rollback", "--yes"]).ok();
    assert_eq!(home.config(), after);
    let none = home.flock(["rollback", "3", "--yes", "--json"]).ok().json();
    assert_eq!(none["changed"], false);
    assert!(!home.file("generations/rollback").exists());
}

#[test]
fn an_agent_comes_back_with_its_workspace_or_a_word_about_it() {
    let home = TempHome::new().init();
    home.flock(["add", "kept", "--no-container"]).ok();
    home.flock(["add", "purged", "--no-container"]).ok();
    std::fs::write(home.file("workspaces/kept/notes"), "mine").unwrap();
    home.flock(["remove", "kept"]).ok();
    home.flock(["remove", "purged", "--purge", "--yes"]).ok();
    let dry = home.flock(["rollback", "3", "--dry-run"]).ok().stdout;
    assert!(dry.contains("agent kept comes back with its workspace"), "{dry}");
    assert!(
        dry.contains("agent purged comes back, but its workspace") && dry.contains("is deleted"),
        "{dry}"
    );
    back(&home, 3).ok();
    assert!(agents(&home).contains(&"kept".to_owned()) && agents(&home).contains(&"purged".to_owned()));
    assert_eq!(std::fs::read_to_string(home.file("workspaces/kept/notes")).unwrap(), "mine");
    assert!(home.file("workspaces/purged").exists() && home.file("agents/purged/identity/TOOLS.md").exists());
}

#[test]
fn a_rename_since_is_refused_with_the_way_around() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["rename", "coder", "maker"]).ok();
    let refused = back(&home, 2).fails(5);
    assert!(refused.stderr.contains("flock rename maker coder"), "{refused:?}");
    home.flock(["rename", "maker", "coder"]).ok();
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    back(&home, 2).ok();
    assert!(home.config()["gateway"].get("custom").is_none());
}

#[test]
fn a_running_gateway_takes_up_a_rollback_and_stays_healthy() {
    let home = TempHome::new().init();
    home.flock(["start"]).ok();
    let pid = |home: &TempHome| home.flock(["status", "--json"]).ok().json()["gateway"]["pid"].as_i64();
    let before = pid(&home);
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["chat", "coder", "hello"]).ok();
    back(&home, 1).ok();
    assert_eq!(pid(&home), before, "it is not restarted");
    assert!(home.flock(["chat", "coder", "hello"]).code != 0);
    back(&home, 2).ok();
    home.flock(["chat", "coder", "hello again"]).ok();
    assert_eq!(number(&home), 4);
}

#[test]
fn an_unhealthy_gateway_has_everything_put_back() {
    let home = TempHome::new().init();
    home.flock(["start"]).ok();
    let port = "plugins.entries.flock.config.gateway.port";
    let first = home.config()["plugins"]["entries"]["flock"]["config"]["gateway"]["port"].clone();
    let second = free_port();
    home.flock(["config", "set", port, &second.to_string()]).ok();
    home.flock(["restart"]).ok();
    // Another program takes the port that the generation before has.
    let taken =
        std::net::TcpListener::bind(("127.0.0.1", u16::try_from(first.as_u64().unwrap()).unwrap())).unwrap();
    let config = home.config_text();
    let failed = back(&home, 1);
    assert_ne!(failed.code, 0, "{failed:?}");
    assert!(failed.stderr.contains("everything is as in generation 2 again"), "{failed:?}");
    assert_eq!(home.config_text(), config);
    assert_eq!(number(&home), 2, "what failed is no generation");
    assert!(home.flock(["status", "--json"]).ok().json()["gateway"]["healthy"].as_bool().unwrap());
    drop(taken);
    back(&home, 1).ok();
    let status = home.flock(["status", "--json"]).ok().json();
    assert!(status["url"].as_str().unwrap().ends_with(&first.to_string()), "{status}");
}

#[test]
fn only_the_named_parts_change_and_numbers_are_completed() {
    let home = TempHome::new().init();
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    let none = home.flock(["rollback", "1", "--only", "packages,openclaw", "--yes", "--json"]).ok().json();
    assert_eq!(none["changed"], false);
    home.flock(["rollback", "1", "--only", "config", "--yes"]).ok();
    assert!(home.config()["gateway"].get("custom").is_none());
    let offered = home.flock(["--version", "--complete", "2", "--", "flock", "rollback", ""]).ok().stdout;
    assert!(offered.starts_with("3\t") && offered.contains("\n1\t"), "{offered:?}");
    let offered =
        home.flock(["--version", "--complete", "3", "--", "flock", "generations", "show", ""]).ok().stdout;
    assert!(offered.contains("2\tgateway.custom added: 1"), "{offered:?}");
}

#[test]
fn damaged_generations_are_named_and_stand_in_nobodys_way() {
    let home = TempHome::new().init();
    home.flock(["config", "set", "gateway.custom", "1"]).ok();
    home.flock(["config", "set", "gateway.custom", "2"]).ok();
    std::fs::write(home.file("generations/2.json"), "{").unwrap();
    let listed = home.flock(["generations", "--json"]).ok();
    assert_eq!(listed.json()["unreadable"][0]["number"], 2, "{listed:?}");
    assert!(home.flock(["doctor"]).stdout.contains("generation 2 can't be read"));
    back(&home, 1).ok();
    let refused = back(&home, 2);
    assert!(refused.code != 0 && refused.stderr.contains("2.json"), "{refused:?}");
}

#[test]
fn a_copied_home_goes_back_to_paths_of_its_own() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    home.flock(["remove", "coder"]).ok();
    let copy = home.outside().join("copy");
    let copied =
        std::process::Command::new("cp").args(["-a"]).args([home.path(), copy.clone()]).status().unwrap();
    assert!(copied.success());
    let there = copy.display().to_string();
    let config = home.config_text();
    home.flock(["--home", &there, "rollback", "2", "--yes"]).ok();
    let text = std::fs::read_to_string(copy.join("config.json")).unwrap();
    let original = home.path().display().to_string();
    assert!(text.contains("workspaces/coder") && !text.contains(&original), "{text}");
    assert_eq!(home.config_text(), config);
}
