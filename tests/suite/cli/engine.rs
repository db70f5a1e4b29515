//! `flock engine` where no engine answers: what is refused, and what is shown. `docker::engines` has the rest.

use crate::support::home::TempHome;

#[test]
fn the_machines_own_engine_is_always_there_and_needs_no_entry() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let listed = home.flock(["engine", "list", "--json"]).ok().json();
    let engines = listed["engines"].as_array().unwrap();
    assert_eq!(engines.len(), 1, "{listed:#}");
    assert_eq!((&engines[0]["name"], &engines[0]["reachable"]), (&"local".into(), &false.into()));
    assert!(engines[0]["problem"].as_str().unwrap().starts_with("the Docker engine at"), "{listed:#}");
    let table = home.flock(["engine", "list"]).ok().stdout;
    assert!(table.contains("local") && table.contains("does not answer"), "{table}");
    let shown = home.flock(["engine", "show", "local", "--check"]).fails(1).stdout;
    assert!(shown.contains("FAILED"), "{shown}");
    let run = home.flock(["engine", "remove", "local"]).fails(2);
    assert!(run.stderr.contains("flock engine drain local"), "{run:?}");
    assert_eq!(home.config_text(), before);
}

#[test]
fn an_engine_that_cannot_be_used_is_refused_by_what_is_wrong() {
    let home = TempHome::new().init();
    let before = home.config_text();
    let nowhere = format!("unix://{}", home.file("nothing.sock").display());
    for (args, code, words) in [
        (vec!["second", "tcp://10.0.0.1:2376"], 2, "needs --ca, --cert and --key"),
        (vec!["second", "http://gpu.invalid"], 2, "flock uses none without"),
        (vec!["second", "/run/docker.sock"], 2, "must be the address of an engine"),
        (vec!["second", &nowhere, "--labels", "a b"], 2, "is not a label"),
        (vec!["second", &nowhere, "--memory", "much"], 2, "is not a size"),
        (vec!["second", &nowhere], 6, "its socket is not there"),
        (vec!["local", &nowhere], 2, "local is the machine's own engine"),
    ] {
        let run = home.flock([&["engine", "add"], &args[..]].concat()).fails(code);
        assert!(run.stderr.contains(words) && run.stderr.contains("hint: "), "{args:?}: {run:?}");
    }
    let run = home.flock(["engine", "show", "second"]).fails(1);
    assert!(run.stderr.contains("there is no engine second"), "{run:?}");
    assert_eq!(home.config_text(), before);
}
