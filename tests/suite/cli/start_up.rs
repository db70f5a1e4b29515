//! What holds for every verb: help, version, wrong words, a home that is not there or too new.

use super::session::{session, snapshot};
use crate::support::home::{TempHome, finish};

#[test]
fn the_program_says_what_it_is() {
    let home = TempHome::new();
    snapshot!(
        "start-up",
        session(&home, &["--version", "lsit", "list --jsno", "lsit --json", "list --color sometimes"])
    );
    let version = home.flock(["--version"]).ok().stdout;
    assert_eq!(version, format!("flock {}\n", env!("FLOCK_VERSION")));
    assert!(version.starts_with(concat!("flock ", env!("CARGO_PKG_VERSION"))), "{version}");
    let help = home.flock(["--help"]).ok();
    assert!(help.stderr.is_empty() && help.stdout.contains("Usage: flock"), "{help:?}");
    let nothing = home.flock::<&str>([]).fails(2);
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("Usage: flock"), "{nothing:?}");
}

#[test]
fn without_a_home_every_verb_says_how_to_make_one() {
    let home = TempHome::new();
    for line in [
        &["list"][..],
        &["add", "coder"],
        &["remove", "coder"],
        &["config", "get"],
        &["config", "set", "a.b", "1"],
        &["config", "validate"],
        &["nix", "list", "coder"],
    ] {
        let run = home.flock(line).fails(3);
        assert!(run.stderr.contains("hint: run `flock init`"), "{line:?}: {run:?}");
        let json = home.flock(line.iter().chain(&["--json"])).fails(3).json();
        assert_eq!(json["error"]["code"], "not_initialised", "{line:?}");
        assert_eq!(json["error"]["hint"], "flock init", "{line:?}");
    }
    assert!(!home.path().exists(), "looking makes nothing");
}

#[test]
fn a_newer_home_is_read_and_not_written() {
    let home = TempHome::new().init();
    std::fs::write(home.file("version"), "2\n").unwrap();
    let before = home.config_text();
    home.flock(["list"]).ok();
    home.flock(["config", "get"]).ok();
    home.flock(["nix", "pin"]).ok();
    let shown = home.flock(["session", "show", "agent:sysadmin:flock:main:x"]).fails(1);
    assert!(shown.stderr.contains("there is no session"), "{shown:?}");
    for line in [
        &["add", "coder", "--no-container"][..],
        &["remove", "sysadmin"],
        &["config", "set", "a.b", "1"],
        &["nix", "pin", "--update"],
        &["session", "reset", "agent:sysadmin:flock:main:x"],
    ] {
        home.flock(line).fails(7);
    }
    assert_eq!(home.config_text(), before);
    assert!(!home.file("workspaces/coder").exists());
}

#[test]
fn colour_is_for_who_asks() {
    let home = TempHome::new().init();
    let colour = |args: &[&str], no_color: Option<&str>| {
        let mut command = home.command();
        if let Some(value) = no_color {
            command.env("NO_COLOR", value);
        }
        let run = finish(command.args(args));
        run.stdout.contains('\u{1b}') || run.stderr.contains('\u{1b}')
    };
    assert!(!colour(&["list"], None), "a pipe gets none");
    assert!(colour(&["list", "--color", "always"], None));
    assert!(colour(&["remove", "nobody", "--color", "always"], Some("1")), "what was asked for wins");
    assert!(!colour(&["list", "--color", "never"], None));
}

#[test]
fn quiet_leaves_data_and_errors() {
    let home = TempHome::new().init();
    let run = home.flock(["-q", "add", "coder", "--no-container"]).ok();
    assert!(run.stderr.is_empty(), "{run:?}");
    assert!(home.flock(["-q", "remove", "nobody"]).fails(1).stderr.contains("error: "));
}

#[test]
fn two_homes_do_not_meet() {
    let one = TempHome::new().init();
    let two = TempHome::new().init();
    one.flock(["add", "coder", "--no-container"]).ok();
    two.flock(["add", "coder", "--no-container"]).ok();
    let listed = one.flock(["--home", two.path().to_str().unwrap(), "list", "--json"]).ok().json();
    assert_eq!(
        listed["agents"][2]["workspace"].as_str().unwrap(),
        two.file("workspaces/coder").to_str().unwrap(),
        "--home wins over FLOCK_HOME"
    );
    let bind = |home: &TempHome| home.config()["agents"]["defaults"]["sandbox"]["docker"]["binds"][0].clone();
    assert_ne!(bind(&one), bind(&two), "each has a store of its own");
}
