//! Checks of telemetry: the collector, and what was lost on the way to it.

use std::time::Duration;

use serde_json::Value;

use super::check::Check;
use crate::config::Config;
use crate::gateway::telemetry::CollectorClient;
use crate::home::Home;
use crate::supervise::gateway_client::Client;

const NAME: &str = "telemetry";
/// The longest wait for the gateway's answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The command that shows the setting.
const SHOW: &str = "flock config get plugins.entries.flock.config.telemetry";

/// Asks the collector if it takes spans from here, with a request that holds none. Nothing is checked if telemetry is
/// off.
pub(super) async fn collector(home: &Home, config: &Config) -> Option<Check> {
    let settings = config.otlp.as_deref()?;
    let endpoint = &settings.endpoint;
    Some(match CollectorClient::new().probe(home, settings).await {
        Ok(()) if settings.contents => {
            Check::ok(NAME, format!("{endpoint} takes spans, with the contents of messages and calls"))
        }
        Ok(()) => Check::ok(NAME, format!("{endpoint} takes spans")),
        Err(problem) => Check::warn(NAME, format!("{endpoint} takes no spans: {problem}"), SHOW),
    })
}

/// Reports what the gateway has lost since its start.
pub(super) async fn losses(gateway: &Client) -> Option<Check> {
    // A gateway that does not answer is reported by its own check.
    let status = gateway.get_json::<Value>("/api/status", TIMEOUT).await.ok()?;
    losses_check(&status["telemetry"])
}

fn losses_check(telemetry: &Value) -> Option<Check> {
    let lost = telemetry["lost"].as_object()?;
    let count = |key: &str| lost.get(key).and_then(Value::as_u64).unwrap_or_default();
    let (full, undelivered, rejected) = (count("full"), count("undelivered"), count("rejected"));
    if full + undelivered + rejected == 0 {
        return None;
    }
    let error = telemetry["error"]["message"].as_str();
    let error = error.map_or_else(String::new, |error| format!("; the last problem was: {error}"));
    let text = format!(
        "spans were lost since the gateway's start: {full} because too many waited, {undelivered} that were not taken, \
         {rejected} that were rejected{error}"
    );
    Some(Check::warn(NAME, text, "flock status"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn losses_are_named_and_no_loss_is_no_finding() {
        let lost = |full: u64| {
            json!({"lost": {"full": full, "undelivered": 2, "rejected": 0},
            "error": {"message": "the collector answered 503"}})
        };
        let found = losses_check(&lost(1)).unwrap();
        assert!(
            found.message.contains("1 because too many waited, 2 that were not taken"),
            "{}",
            found.message
        );
        assert!(found.message.ends_with("answered 503"), "{}", found.message);
        assert_eq!(losses_check(&json!({"lost": {"full": 0, "undelivered": 0, "rejected": 0}})), None);
        assert_eq!(losses_check(&Value::Null), None);
    }
}
