//! The gateways that share a database on a server.

use serde::Deserialize;

use crate::dashboard::format::{Moment, fill};
use crate::dashboard::texts::Texts;
use crate::store::GATEWAY_LIFETIME_MS;

/// The most agents of a gateway that are named.
const MOST_NAMED_AGENTS: usize = 8;

/// A gateway in the status.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SharedGateway {
    epoch: i64,
    name: String,
    address: String,
    version: String,
    /// Unix seconds.
    started_at: i64,
    /// Milliseconds since its last sign of life.
    silent_ms: i64,
    own: bool,
    agents: Vec<String>,
    /// `None` if it did not answer.
    turns: Option<TurnCounts>,
}

#[derive(Deserialize)]
struct TurnCounts {
    running: u64,
    waiting: u64,
}

/// A row of the table.
pub(super) struct GatewayView {
    /// Number of its run. Gateways of one machine have the same name.
    pub epoch: i64,
    pub name: String,
    pub is_own: bool,
    pub address: String,
    pub state: &'static str,
    pub is_good: bool,
    /// Last sign of life of a gateway that is silent.
    pub last_sign: Option<Moment>,
    pub started: Moment,
    pub version: String,
    pub agents: String,
    /// Empty if it did not answer.
    pub turns: String,
}

impl GatewayView {
    /// Creates the row of a gateway. `now` is in Unix milliseconds.
    pub(super) fn new(texts: &'static Texts, gateway: SharedGateway, now: i64) -> Self {
        let is_silent = gateway.silent_ms >= GATEWAY_LIFETIME_MS;
        let (state, is_good) = match &gateway.turns {
            _ if is_silent => (texts.gateway_silent, false),
            None => (texts.gateway_unreachable, false),
            Some(_) => (texts.gateway_running, true),
        };
        let count = |text: &str, number: u64| fill(text, &[&number.to_string()]);
        let turns = gateway.turns.map(|turns| {
            let running = count(texts.turns_running, turns.running);
            format!("{running}, {}", count(texts.turns_waiting, turns.waiting))
        });
        Self {
            state,
            is_good,
            last_sign: is_silent.then(|| Moment::new(now.saturating_sub(gateway.silent_ms))),
            started: Moment::new(gateway.started_at * 1000),
            agents: agents(&gateway.agents),
            turns: turns.unwrap_or_default(),
            epoch: gateway.epoch,
            name: gateway.name,
            is_own: gateway.own,
            address: gateway.address,
            version: gateway.version,
        }
    }
}

/// Returns the number of the agents, and their ids if they are few.
fn agents(ids: &[String]) -> String {
    let count = ids.len();
    if ids.is_empty() || count > MOST_NAMED_AGENTS {
        count.to_string()
    } else {
        format!("{count}: {}", ids.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dashboard::Language;

    fn view(change: impl FnOnce(&mut serde_json::Value)) -> GatewayView {
        let mut gateway = json!({
            "epoch": 7, "name": "box", "address": "127.0.0.1:18789", "version": "0.2.0", "startedAt": 1_795_300_481,
            "silentMs": GATEWAY_LIFETIME_MS - 1, "own": true, "leases": {"agent": 2, "clock": 1},
            "agents": ["ada", "bob"], "turns": {"running": 1, "waiting": 2},
        });
        change(&mut gateway);
        let gateway = serde_json::from_value(gateway).unwrap();
        GatewayView::new(Language::English.texts(), gateway, 1_795_300_500_000)
    }

    #[test]
    fn a_gateway_is_shown_with_its_state_its_agents_and_its_turns() {
        let running = view(|_| {});
        assert_eq!((running.state, running.is_good, running.last_sign), ("running", true, None));
        assert_eq!((running.epoch, running.name.as_str(), running.is_own), (7, "box", true));
        assert_eq!((running.address.as_str(), running.version.as_str()), ("127.0.0.1:18789", "0.2.0"));
        assert_eq!(running.started, Moment::new(1_795_300_481_000));
        assert_eq!(
            (running.agents.as_str(), running.turns.as_str()),
            ("2: ada, bob", "1 running, 2 waiting")
        );

        let unreachable = view(|gateway| gateway["turns"] = json!(null));
        assert_eq!((unreachable.state, unreachable.is_good), ("does not answer", false));
        assert_eq!((unreachable.last_sign, unreachable.turns.as_str()), (None, ""));

        let silent = view(|gateway| {
            gateway["silentMs"] = json!(9_000);
            gateway["turns"] = json!(null);
        });
        assert_eq!((silent.state, silent.is_good), ("silent; last sign of life:", false));
        assert_eq!(silent.last_sign, Some(Moment::new(1_795_300_491_000)));
    }

    #[test]
    fn agents_are_named_if_they_are_few() {
        let ids = |count: usize| (0..count).map(|at| format!("a{at}")).collect::<Vec<_>>();
        assert_eq!([agents(&ids(0)), agents(&ids(1)), agents(&ids(9))], ["0", "1: a0", "9"]);
        assert!(agents(&ids(8)).ends_with(", a7"));
    }
}
