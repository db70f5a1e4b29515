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
    let database = rusqlite::Connection::open(home.file("data/flock.db")).unwrap();
    let why = "system: its workspace holds more than 32 MiB, its limit";
    let changed = database
        .execute("UPDATE agent_state SET frozen_by = ?1 WHERE agent = 'orchestrator'", [why])
        .unwrap();
    assert_eq!(changed, 1);
    drop(database);
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
