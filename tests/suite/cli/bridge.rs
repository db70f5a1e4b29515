//! `flock bridge` and `flock person` where no gateway runs, with a homeserver of the test's own.

use serde_json::json;

use crate::support::home::TempHome;
use crate::support::matrix_server::{ALIAS, MatrixServer, ROOM, TOKEN};

/// A home with the channel `work` and the bridge `matrix`.
fn stage(server: &MatrixServer) -> TempHome {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "work", "--topic", "the work"]).ok();
    let added = home.flock_with_input(
        ["bridge", "add", "matrix", "--homeserver", server.url(), "--token-file", "-", "--json"],
        TOKEN,
    );
    assert_eq!(added.ok().json()["account"], "@flock:h");
    home
}

#[test]
fn a_channel_is_linked_listed_changed_tested_and_unlinked() {
    let server = MatrixServer::start();
    let home = stage(&server);
    assert!(!home.config_text().contains(TOKEN));
    let room = format!("matrix:{ALIAS}");
    let linked = home.flock(["bridge", "link", "work", &room, "--bots", "--json"]).ok().json();
    assert_eq!(linked["external"], ROOM, "{linked}");
    assert_eq!((&linked["hearsBots"], &linked["isCross"]), (&json!(true), &json!(false)));
    assert!(linked["hears"].as_array().unwrap().contains(&json!("@ann:h")), "{linked}");
    let again = home.flock(["bridge", "link", "work", &room]).fails(1);
    assert!(again.stderr.contains("flock bridge unlink"), "{again:?}");
    let allowed = home.flock(["bridge", "allow", &room, "role:7", "@ben:h", "--json"]).ok().json();
    assert!(allowed["hears"].as_array().unwrap().contains(&json!("role:7")), "{allowed}");
    home.flock(["bridge", "disallow", &room, "@ann:h", "@flock:h"]).ok();
    home.flock(["bridge", "allow", &room, "a b"]).fails(2);
    home.flock(["bridge", "allow", "matrix", "@ben:h"]).fails(2);
    let link = home.flock(["bridge", "list", "--json"]).ok().json()["bridges"][0]["links"][0].clone();
    assert_eq!(link["hears"], json!(["role:7", "@ben:h"]), "{link}");
    home.flock(["bridge", "pause", &room]).ok();
    assert_eq!(
        home.flock(["bridge", "list", "--json"]).ok().json()["bridges"][0]["links"][0]["state"],
        "paused"
    );
    home.flock(["bridge", "resume", &room]).ok();
    home.flock(["bridge", "test", &room]).ok();
    assert!(server.sent().iter().any(|sent| sent["body"].as_str().unwrap_or_default().contains("work")));
    home.flock(["bridge", "unlink", &room]).ok();
    let gone = home.flock(["bridge", "unlink", &room]).fails(1);
    assert!(gone.stderr.contains("flock bridge list"), "{gone:?}");
    let audit = home.audited("bridge");
    for action in ["bridge.link", "bridge.heard", "bridge.pause", "bridge.resume", "bridge.unlink"] {
        assert!(audit.iter().any(|row| row["action"] == action), "{action}: {audit:?}");
    }
    home.flock(["audit", "--verify"]).ok();
    home.flock(["bridge", "remove", "matrix"]).ok();
    assert!(!home.file("secrets/bridge-matrix").exists());
}

#[test]
fn a_token_that_the_platform_refuses_is_not_stored() {
    let server = MatrixServer::start();
    let home = TempHome::new().init();
    let args = ["bridge", "add", "matrix", "--homeserver", server.url(), "--token-file", "-"];
    let refused = home.flock_with_input(args, "another-token").fails(1);
    assert!(refused.stderr.contains("docs/bridges.md"), "{refused:?}");
    assert!(!home.file("secrets/bridge-matrix").exists());
    assert!(!home.config_text().contains("matrix"), "{}", home.config_text());
}

#[test]
fn a_token_of_the_environment_is_used_only_if_it_is_asked_for() {
    let home = TempHome::new().init();
    let env = [("DISCORD_BOT_TOKEN", "token-of-the-test")];
    // Nothing listens there, so that no token leaves the machine.
    let args = ["bridge", "add", "discord", "--api", "http://127.0.0.1:9", "--yes"];
    let unasked = home.flock_with_env(args, &env).fails(1);
    assert!(
        unasked.stderr.contains("--from-env") && !unasked.stderr.contains("token-of-the-test"),
        "{unasked:?}"
    );
    let none = home.flock(["bridge", "add", "discord", "--from-env"]).fails(1);
    assert!(none.stderr.contains("DISCORD_BOT_TOKEN"), "{none:?}");
    home.flock(["bridge", "add", "matrix", "--homeserver", "http://127.0.0.1:9", "--from-env"]).fails(2);
}

#[test]
fn a_token_in_the_configuration_is_moved_to_secrets() {
    let server = MatrixServer::start();
    let home = stage(&server);
    let key = "plugins.entries.flock.config.bridges.matrix.token";
    let moved = || std::fs::read_to_string(home.file("secrets/bridge-matrix")).unwrap();
    home.flock_with_input(["config", "set", key, "-"], "set-by-hand").ok();
    assert_eq!((moved().as_str(), home.config_text().contains("set-by-hand")), ("set-by-hand", false));
    // A person may write the file by hand, too.
    let by_hand = |token: &str| {
        let text = home.config_text().replace("secret:bridge-matrix", token);
        std::fs::write(home.file("config.json"), text).unwrap();
    };
    by_hand("written-by-hand");
    let found = home.flock(["doctor", "--fix"]);
    assert!(found.stdout.contains("moved the token of matrix to secrets/"), "{found:?}");
    assert_eq!(
        (moved().as_str(), home.config_text().contains("written-by-hand")),
        ("written-by-hand", false)
    );
    by_hand(TOKEN);
    home.flock(["bridge", "link", "work", &format!("matrix:{ALIAS}")]).ok();
    assert_eq!((moved().as_str(), home.config_text().contains(TOKEN)), (TOKEN, false));
    let refused = home.flock(["config", "set", key, "env:MATRIX_TOKEN"]).fails(2);
    assert!(refused.stderr.contains("secret:bridge-matrix"), "{refused:?}");
}

#[test]
fn a_token_that_is_not_good_any_more_is_replaced_and_the_links_stay() {
    let server = MatrixServer::start();
    let home = stage(&server);
    home.flock(["bridge", "link", "work", &format!("matrix:{ALIAS}")]).ok();
    std::fs::write(home.file("secrets/bridge-matrix"), "revoked").unwrap();
    let add = |more: &[&'static str]| {
        let args = ["bridge", "add", "matrix", "--homeserver", server.url(), "--token-file", "-"];
        home.flock_with_input(args.into_iter().chain(more.iter().copied()), TOKEN)
    };
    let known = add(&[]).fails(5);
    assert!(known.stderr.contains("--replace"), "{known:?}");
    add(&["--replace", "--name", "other"]).fails(5);
    add(&["--replace"]).ok();
    assert_eq!(std::fs::read_to_string(home.file("secrets/bridge-matrix")).unwrap(), TOKEN);
    let listed = home.flock(["bridge", "list", "--json"]).ok().json();
    assert_eq!(listed["bridges"].as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed["bridges"][0]["links"][0]["external"], ROOM, "{listed}");
    let elsewhere =
        ["bridge", "add", "matrix", "--homeserver", "http://127.0.0.1:9", "--token-file", "-", "--replace"];
    let refused = home.flock_with_input(elsewhere, TOKEN).fails(5);
    assert!(refused.stderr.contains(server.url()), "{refused:?}");
}

#[test]
fn doctor_and_status_say_how_bridges_are() {
    let server = MatrixServer::start();
    let home = stage(&server);
    let checks = |home: &TempHome| {
        let found = home.flock(["doctor", "--json"]).json();
        let checks = found["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "bridge");
        checks.map(|check| check["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert!(checks(&home)[0].contains("linked with no channel"), "{:?}", checks(&home));
    home.flock(["bridge", "link", "work", &format!("matrix:{ALIAS}")]).ok();
    assert!(checks(&home)[0].contains("1 links"), "{:?}", checks(&home));
    home.flock(["bridge", "pause", "matrix"]).ok();
    assert!(checks(&home)[0].contains("paused"), "{:?}", checks(&home));
    home.flock(["bridge", "resume", "matrix"]).ok();
    std::fs::remove_file(home.file("secrets/bridge-matrix")).unwrap();
    assert!(checks(&home)[0].contains("secrets/bridge-matrix"), "{:?}", checks(&home));
    assert!(home.flock(["status", "--json"]).json().get("bridges").is_some());
}

#[test]
fn accounts_are_bound_to_a_person_renamed_and_forgotten() {
    let home = TempHome::new().init();
    home.flock(["person", "link", "anna", "matrix:@anna:h"]).ok();
    home.flock(["person", "link", "anna", "slack:U1"]).ok();
    let listed = home.flock(["person", "list", "--json"]).ok().json();
    let accounts = listed["accounts"].as_array().unwrap();
    assert!(accounts.len() == 2 && accounts.iter().all(|one| one["person"] == "human:anna"), "{listed}");
    assert!(accounts.iter().all(|one| one["boundBy"] == "human:ann"), "{listed}");
    home.flock(["person", "link", "ben", "matrix:@ben:h"]).ok();
    let taken = home.flock(["person", "rename", "anna", "BEN"]).fails(1);
    assert!(taken.stderr.contains("flock person link"), "{taken:?}");
    home.flock(["person", "rename", "anna", "zoe"]).ok();
    // Nobody gets the name of the owner by a renaming, and nobody's name is an agent's or a client's.
    home.flock(["person", "rename", "zoe", "ann"]).fails(1);
    home.flock(["person", "link", "orchestrator", "matrix:@x:h"]).fails(2);
    home.flock(["person", "link", "token:ci", "matrix:@x:h"]).fails(2);
    home.flock(["person", "link", "zoe", "irc:x"]).fails(1);
    home.flock(["person", "unlink", "slack:U1"]).ok();
    home.flock(["person", "unlink", "slack:U1"]).fails(1);
    let listed = home.flock(["person", "list"]).ok().stdout;
    assert!(listed.contains("human:zoe") && !listed.contains("U1"), "{listed}");
    home.flock(["audit", "--verify"]).ok();
}
