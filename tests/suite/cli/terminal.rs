//! What the program does for a person at a terminal: it asks, with the answers given here as keys.

use std::io::Write as _;
use std::time::Duration;

use crate::support::home::TempHome;
use crate::support::terminal::Terminal;
use crate::support::wait_until;

const DOWN: &str = "\u{1b}[B";
const ENTER: &str = "\r";
const CTRL_C: &str = "\u{3}";

#[test]
fn init_asks_for_the_model_and_offers_the_demo() {
    let home = TempHome::new();
    let mut terminal = Terminal::new(&home, &["init", "--no-images"], &[("OPENAI_API_KEY", "sk-planted")]);
    // The demo comes after what was found.
    terminal.at("OPENAI_API_KEY is set", DOWN);
    terminal.at("to try flock without an account", ENTER);
    terminal.at("Add the OpenClaw gateway", ENTER);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert_eq!(home.config()["agents"]["defaults"]["model"]["primary"], "script/demo", "{seen}");
    assert!(!seen.contains("sk-planted"), "{seen}");
}

#[test]
fn a_key_is_kept_for_who_says_yes() {
    for (answer, kept) in [("y", true), ("n", false)] {
        let home = TempHome::new();
        let mut terminal =
            Terminal::new(&home, &["init", "--no-images"], &[("OPENAI_API_KEY", "sk-planted")]);
        terminal.at("OPENAI_API_KEY is set", ENTER);
        terminal.at("Keep the key of OPENAI_API_KEY", answer);
        terminal.at("Add the OpenClaw gateway", ENTER);
        let (code, seen) = terminal.end();
        assert_eq!(code, 0, "{seen}");
        assert_eq!(home.file("secrets/openai").exists(), kept, "{seen}");
        assert!(!seen.contains("sk-planted"), "{seen}");
    }
}

#[test]
fn giving_up_makes_no_home() {
    let home = TempHome::new();
    let mut terminal = Terminal::new(&home, &["init", "--no-images"], &[]);
    terminal.at("Which model", "");
    // Before the program reads single keys, the terminal swallows this one.
    let mut keys = terminal.keys.try_clone().unwrap();
    wait_until("the end", Duration::from_secs(20), || {
        let _ = keys.write_all(CTRL_C.as_bytes());
        terminal.child.try_wait().unwrap().ok_or_else(|| "it runs".to_owned())
    });
    let (code, seen) = terminal.end();
    assert_eq!(code, 1, "{seen}");
    assert!(seen.contains("given up") && !home.file("config.json").exists(), "{seen}");
}

#[test]
fn purge_asks_and_takes_no_for_an_answer() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let mut terminal = Terminal::new(&home, &["remove", "coder", "--purge"], &[]);
    terminal.at("for good?", ENTER);
    let (code, seen) = terminal.end();
    assert_eq!(code, 1, "no is the default: {seen}");
    assert!(home.file("workspaces/coder").exists());
    let mut terminal = Terminal::new(&home, &["remove", "coder", "--purge"], &[]);
    terminal.at("for good?", "y");
    assert_eq!(terminal.end().0, 0);
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn with_yes_nobody_is_asked() {
    let home = TempHome::new();
    let terminal = Terminal::new(&home, &["init", "--no-images", "--yes"], &[]);
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
}

#[test]
fn uninstall_shows_what_it_removes_and_asks() {
    let home = TempHome::new().init();
    let mut terminal = Terminal::new(&home, &["uninstall", "--purge"], &[]);
    terminal.at("Remove all this for good?", ENTER);
    terminal.at("nothing was removed", "");
    let (code, seen) = terminal.end();
    assert_eq!(code, 1, "no is what it takes for an answer: {seen}");
    assert!(seen.contains("workspaces, agents"), "{seen}");
    assert!(home.file("config.json").exists());
    let mut terminal = Terminal::new(&home, &["uninstall", "--purge"], &[]);
    terminal.at("Remove all this for good?", "y");
    let (code, seen) = terminal.end();
    assert_eq!(code, 0, "{seen}");
    assert!(!home.path().exists());
}

#[test]
fn edit_asks_with_the_present_values_and_for_a_yes() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container", "--archetype", "qa", "--memory", "1g"]).ok();
    let before = home.config_text();
    for (answer, is_changed) in [("n", false), ("y", true)] {
        let mut terminal = Terminal::new(&home, &["edit", "coder"], &[]);
        terminal.at("Role", ENTER);
        terminal.at("Archetype", ENTER);
        terminal.at("Runtime", ENTER);
        terminal.at("Model, or", ENTER);
        terminal.at("Reasoning effort of its model", DOWN);
        terminal.at("32m>\u{1b}[0m off", ENTER);
        terminal.at("Memory limit", ENTER);
        terminal.at("Limit of cores", ENTER);
        terminal.at("Limit of tokens", ENTER);
        terminal.at("Limit of dollars", ENTER);
        terminal.at("→ off", "");
        terminal.at("Change these settings of coder?", answer);
        let (code, seen) = terminal.end();
        assert_eq!(code, i32::from(!is_changed), "{seen}");
        assert_eq!(home.config_text() != before, is_changed, "{seen}");
    }
    let told = &home.config()["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
    let coder = told.as_array().unwrap().iter().find(|agent| agent["id"] == "coder").unwrap();
    assert_eq!((&coder["effort"], &coder["archetype"]), (&"off".into(), &"qa".into()), "the rest stays");
    let mut terminal = Terminal::new(&home, &["edit", "coder", "--effort", "low"], &[]);
    terminal.at("→ low", "");
    terminal.at("Change these settings of coder?", "y");
    assert_eq!(terminal.end().0, 0);
    let unasked = Terminal::new(&home, &["edit", "coder", "--effort", "high", "--yes"], &[]);
    let (code, seen) = unasked.end();
    assert!(code == 0 && !seen.contains("Change these"), "{seen}");
}
