//! Gateways of two versions on one database: the newer one has brought the schema to its version, and the older one goes on.

use super::{AGENTS, LIMIT, Pair, QUESTIONS};
use crate::support::{postgres, wait_until};
use crate::team::stage::Served;

/// A migration of the newer version, which only adds something. The unit tests of the store apply it, too.
const ADDITION: &str = include_str!("../../../fixtures/postgres/addition.sql");

/// The version that the newer gateway states.
const NEWER: &str = "99.0.0 (0123456789ab)";

/// Returns the version of the schema.
fn version(pair: &Pair) -> i64 {
    pair.first.database().number("SELECT max(version) FROM schema_version")
}

/// Migrates the schema by one version, as a newer flock does at its start. From then on, a flock has to know the version `oldest`
/// at least.
fn migrate(pair: &Pair, migration: &str, oldest: i64) {
    let (database, next) = (pair.first.database(), version(pair) + 1);
    let statements = format!(
        "SET search_path TO \"{}\"; SET lock_timeout = '500ms'; {migration};
         INSERT INTO schema_version (version, applied_at, oldest) VALUES ({next}, 1, {oldest})",
        database.name()
    );
    wait_until("the schema is migrated", LIMIT, || {
        // No gateway makes a change meanwhile. One that reads may be in the way, and waits for nothing then.
        let _alone = database.locked();
        postgres::run(&statements).map(drop)
    });
}

/// Has each gateway pass on a request to the other one.
fn pass_on(pair: &Pair, number: usize) {
    for (asked, other) in [(&pair.first, &pair.second), (&pair.second, &pair.first)] {
        let agent = AGENTS.into_iter().find(|agent| pair.has(other, agent));
        let agent = agent.unwrap_or_else(|| panic!("the other one has no agents\n{}", pair.logs()));
        let said = asked.flock(["chat", agent, &format!("question {number}.")]).ok().stdout;
        assert!(said.contains(&format!("answer {number} of {agent}")), "{said}\n{}", pair.logs());
    }
}

#[test]
fn gateways_go_on_and_join_again_under_the_schema_of_a_newer_one() {
    let Some(pair) = Pair::new() else { return };
    let (first, second) = pair.start();
    Pair::ask(&pair.first, 1);
    pair.until_answered(&pair.second, 1);
    let known = version(&pair);
    migrate(&pair, ADDITION, known);
    // Both go on with the connections and the prepared statements that they had.
    for (home, other, number) in [(&pair.first, &pair.second, 2), (&pair.second, &pair.first, 3)] {
        Pair::ask(home, number);
        pair.until_answered(other, number);
    }
    pass_on(&pair, 4);

    // The newer one is told from the other one.
    let newer = format!(
        "UPDATE gateway SET version = '{NEWER}' WHERE ended_at IS NULL AND address = '127.0.0.1:{}'",
        pair.second.port()
    );
    assert_eq!(pair.first.database().execute(&newer), 1);
    let status = pair.first.flock(["status"]).ok().stdout;
    assert!(status.contains(&format!("version {NEWER}")), "{status}");
    let doctor = pair.first.flock(["doctor", "--json"]);
    assert!(doctor.stdout.contains(&format!("has the version {NEWER}")), "{doctor:?}");
    // What the older one does not know would be missing in its copy.
    let archive = pair.first.outside().join("flock.tar.gz");
    let refused = pair.first.flock(["backup", archive.to_str().unwrap()]).fails(1);
    assert!(refused.stderr.contains("alone") && refused.stderr.contains("flock update"), "{refused:?}");
    assert!(!archive.exists());

    // One dies while its agents are at work, and joins again.
    Pair::ask(&pair.first, QUESTIONS);
    pair.until_all_run();
    second.kill();
    pair.until_answered(&pair.first, QUESTIONS);
    let second = Served::start(&pair.second);
    wait_until("the second gateway has agents again", LIMIT * 2, || {
        let any = AGENTS.iter().any(|agent| pair.has(&pair.second, agent));
        let all = pair.count("l.epoch IS NOT NULL") == AGENTS.len() + 2;
        (any && all).then_some(()).ok_or_else(|| pair.logs())
    });
    Pair::ask(&pair.second, 5);
    pair.until_answered(&pair.second, 5);
    pass_on(&pair, 6);
    let status = pair.first.flock(["status"]).ok().stdout;
    assert!(!status.contains(NEWER), "{status}");
    pair.check(&pair.first, &[1, 2, 3, 5, QUESTIONS]);
    first.stop();
    second.stop();

    // The version after that drops what this one needs.
    migrate(&pair, "", known + 1);
    let refused = pair.second.flock(["gateway", "serve"]).fails(7);
    let reason = format!("has version {}, and this flock knows versions up to {known}", known + 2);
    assert!(refused.stderr.contains(&reason) && refused.stderr.contains("flock update"), "{refused:?}");
}
