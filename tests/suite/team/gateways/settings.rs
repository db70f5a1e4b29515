//! Changes of the configuration by people, at several gateways.

use flock::supervise::gateway_client::Call;
use serde_json::{Map, Value, json};

use super::http::json_of;
use super::{AGENTS, LIMIT, Pair};
use crate::support::home::TempHome;
use crate::support::wait_until;

/// The number of times that both gateways are asked at the same moment.
const ROUNDS: usize = 20;

fn limits(value: usize) -> Value {
    json!({"tokens": value * 1_000_000, "usd": value})
}

/// Changes the limits of an agent. Returns `false` if that was refused because of another change.
async fn set_limits(home: &TempHome, agent: &str, value: usize) -> bool {
    let path = format!("plugins.entries.flock.config.budgets.agent.{agent}");
    let body = json!({"path": path, "value": limits(value), "by": agent});
    let call = Call::put("/api/config/value").json(&body).unwrap();
    let answer = home.owner().send(call, LIMIT).await.unwrap();
    let (status, said) = (answer.status(), json_of(answer).await);
    let is_refused = status == 409 && said["error"]["code"] == "conflict";
    assert!(status == 200 || is_refused, "{status} {said}");
    !is_refused
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_at_the_same_moment_count_or_are_refused() {
    let Some(pair) = Pair::new() else { return };
    let _gateways = pair.start();
    let homes = [&pair.first, &pair.second];
    let (mut expected, mut accepted) = (Map::new(), 0);
    for round in 1..=ROUNDS {
        let [one, two] = [0, 1].map(|at| set_limits(homes[at], AGENTS[at], round));
        let counts = tokio::join!(one, two);
        assert!(counts.0 || counts.1, "each refused the other one");
        for (agent, _) in AGENTS.iter().zip([counts.0, counts.1]).filter(|(_, counts)| *counts) {
            expected.insert((*agent).to_owned(), limits(round));
            accepted += 1;
        }
    }
    let expected = Value::Object(expected);
    wait_until("both homes have what was accepted", LIMIT, || {
        let found = homes
            .map(|home| home.config()["plugins"]["entries"]["flock"]["config"]["budgets"]["agent"].clone());
        let is_same = found.iter().all(|found| *found == expected);
        is_same.then_some(()).ok_or_else(|| format!("{found:?}, and not {expected}\n{}", pair.logs()))
    });
    let recorded = |action: &str| {
        pair.first.database().number(&format!("SELECT count(*) FROM audit WHERE action = '{action}'"))
    };
    assert_eq!(recorded("config.set"), accepted);
    // The database has a change as soon as it is acknowledged.
    let settings = json!({"agent": AGENTS[2], "cli": "native", "effort": "high"});
    let call = Call::put("/api/settings").json(&settings).unwrap();
    assert_eq!(pair.second.owner().send(call, LIMIT).await.unwrap().status(), 200);
    let shared = "SELECT count(*) FROM gateway_group WHERE config LIKE '%\"effort\":\"high\"%'";
    assert_eq!((pair.first.database().number(shared), recorded("agent.settings")), (1, 1));
    pair.first.flock(["audit", "--verify"]).ok();
}
