//! A small run of the simulation by which `standalone/scale.sh` measures how the costs of a team grow.

#[path = "../../benches/scale/simulation/mod.rs"]
mod simulation;

use simulation::{Database, Plan};

/// Has a small team talk, and checks that each message reached everybody.
fn check(database: &Database) {
    let plan = Plan { agents: 40, messages: 5, posts: 10, seed: 7 };
    let folder = tempfile::tempdir().unwrap();
    let figures = simulation::run(plan, database, folder.path());
    let get = |name: &str| {
        let found = figures.all().iter().find(|(known, _)| known == name);
        found.unwrap_or_else(|| panic!("{name} was not measured")).1
    };
    assert_eq!(get("undelivered_count"), 0.0);
    assert_eq!(get("post_count"), 10.0);
    // Each post of a person wakes all members of its channel, or reaches their running turns.
    assert_eq!(get("wake_count"), 100.0);
    assert!(get("turns_count") >= 100.0 && get("agent_post_count") >= 10.0, "{figures:?}");
    assert!(get("simulated_s") > 3000.0, "the time was simulated: {figures:?}");
    for (name, value) in figures.all() {
        assert!(value.is_finite(), "{name} was not measured: {figures:?}");
    }
}

#[test]
fn a_simulated_team_gets_all_messages_on_sqlite() {
    check(&Database::Sqlite);
}

#[test]
fn a_simulated_team_gets_all_messages_on_postgresql() {
    let server = std::env::var("FLOCK_TEST_POSTGRES").ok().filter(|address| !address.is_empty());
    let Some(server) = server else {
        let must = std::env::var("FLOCK_TEST_REQUIRE_POSTGRES").is_ok_and(|value| value == "1");
        assert!(!must, "FLOCK_TEST_REQUIRE_POSTGRES=1 and FLOCK_TEST_POSTGRES names no server");
        eprintln!("not run: FLOCK_TEST_POSTGRES names no server");
        return;
    };
    check(&Database::postgres(&server));
}
