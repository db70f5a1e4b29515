//! `flock freeze` and `flock thaw` where no gateway runs.

use crate::support::home::TempHome;

#[test]
fn a_frozen_agent_is_shown_and_stays_frozen_without_a_gateway() {
    let home = TempHome::new().init();
    home.flock(["freeze"]).fails(2);
    home.flock(["freeze", "orchestrator", "--all"]).fails(2);
    home.flock(["freeze", "nobody"]).fails(1);
    let frozen = home.flock(["freeze", "orchestrator", "--json"]).ok().json();
    assert_eq!(
        (&frozen["agents"][0]["id"], &frozen["agents"][0]["changed"]),
        (&"orchestrator".into(), &true.into())
    );
    let shown = home.flock(["list"]).ok().stdout;
    assert!(shown.contains("FROZEN since") && shown.contains("by human:ann"), "{shown}");
    let listed = home.flock(["list", "--json"]).ok().json();
    assert_eq!(listed["agents"][0]["frozen"]["by"], "human:ann");
    assert!(listed["agents"][1]["frozen"].is_null());
    // What flock froze by itself has its reason.
    let why = "system: its workspace holds more than 32 MiB, its limit";
    let change = format!("UPDATE agent_state SET frozen_by = '{why}' WHERE agent = 'orchestrator'");
    assert_eq!(home.database().execute(&change), 1);
    assert!(home.flock(["list"]).ok().stdout.contains(why));
    let listed = home.flock(["list", "--json"]).ok().json();
    let status = home.flock(["status", "--json"]).fails(4).json();
    assert_eq!(listed["agents"][0]["frozen"]["by"], why);
    assert_eq!(status["agents"][0]["frozen"], listed["agents"][0]["frozen"]);
    let status = home.flock(["status"]).fails(4).stdout;
    assert!(status.contains("FROZEN since"), "{status}");
    let again = home.flock(["freeze", "--all"]).ok().stdout;
    assert!(
        again.contains("orchestrator was frozen already") && again.contains("sysadmin frozen"),
        "{again}"
    );
    home.flock(["thaw", "--all"]).ok();
    assert!(!home.flock(["list"]).ok().stdout.contains("FROZEN"));
    home.flock(["audit", "--verify"]).ok();
}

#[test]
fn a_freeze_has_the_reason_that_was_given_last() {
    let home = TempHome::new().init();
    let frozen = home.flock(["freeze", "orchestrator", "--reason", "it loops\nall \u{202e}day"]).ok().stdout;
    assert!(frozen.contains("orchestrator frozen: it loops all day"), "{frozen}");
    assert!(home.flock(["list"]).ok().stdout.contains("by human:ann: it loops all day"));
    let again = home.flock(["freeze", "orchestrator", "--json"]).ok().json();
    assert_eq!(again["agents"][0]["reason"], "it loops all day", "no reason is no other reason");
    let again = home.flock(["freeze", "orchestrator", "--reason", "its key is old", "--json"]).ok().json();
    assert_eq!(again["agents"][0]["changed"], false);
    let listed = home.flock(["list", "--json"]).ok().json();
    assert_eq!(listed["agents"][0]["frozen"]["reason"], "its key is old");
    let status = home.flock(["status", "--json"]).fails(4).json();
    assert_eq!(status["agents"][0]["frozen"], listed["agents"][0]["frozen"]);
    assert!(home.flock(["status"]).fails(4).stdout.contains("by human:ann: its key is old"));
    let audit = home.flock(["audit", "--json", "--action", "agent.freeze"]).ok().stdout;
    assert!(audit.contains("it loops all day") && audit.contains("its key is old"), "{audit}");
    home.flock(["freeze", "orchestrator", "--reason", &"x".repeat(301)]).fails(2);
    home.flock(["freeze", "--all", "--reason", "a holiday"]).ok();
    let listed = home.flock(["list", "--json"]).ok().json();
    assert_eq!(listed["frozen"]["reason"], "a holiday");
    assert_eq!(listed["agents"][0]["frozen"]["reason"], "its key is old", "its own freeze stays");
    assert_eq!(listed["agents"][1]["frozen"]["reason"], "a holiday");
    home.flock(["thaw", "--all"]).ok();
    home.flock(["freeze", "orchestrator"]).ok();
    let listed = home.flock(["list", "--json"]).ok().json();
    assert!(listed["agents"][0]["frozen"]["reason"].is_null(), "a new freeze has no old reason");
    home.flock(["audit", "--verify"]).ok();
}

#[test]
fn who_is_added_to_a_frozen_home_is_frozen_until_all_are_thawed() {
    let home = TempHome::new().init();
    home.flock(["freeze", "--all"]).ok();
    home.flock(["thaw", "orchestrator"]).ok();
    let added = home.flock(["add", "later", "--no-container", "--json"]).ok().json();
    assert!(added["agent"]["frozen"]["since"].is_i64(), "{added}");
    let listed = home.flock(["list", "--json"]).ok().json();
    assert!(listed["frozen"]["by"].as_str().unwrap().starts_with("human:"), "{listed}");
    let frozen = |id: &str| {
        let agents = listed["agents"].as_array().unwrap();
        !agents.iter().find(|agent| agent["id"] == id).unwrap()["frozen"].is_null()
    };
    assert!(frozen("later") && frozen("sysadmin") && !frozen("orchestrator"));
    let status = home.flock(["status"]).fails(4);
    assert!((status.stdout + &status.stderr).contains("the whole home is FROZEN since"));
    home.flock(["thaw", "--all"]).ok();
    assert!(!home.flock(["list"]).ok().stdout.contains("FROZEN"));
    home.flock(["add", "free", "--no-container"]).ok();
    assert!(!home.flock(["list"]).ok().stdout.contains("FROZEN"));
    home.flock(["audit", "--verify"]).ok();
}
