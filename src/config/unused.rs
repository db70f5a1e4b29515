//! Settings that the format has and nothing of this flock reads yet: who sets one must not count on it.

use serde_json::Value;

use super::parse::PLUGIN;

/// In an entry of `gatewayAgents`.
const OF_AN_AGENT: [&str; 1] = ["onHost"];

/// The settings of this document that have no effect yet, as paths that `flock config unset` takes.
#[must_use]
pub fn settings(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |place: &Value, at: &str, names: &[&str]| {
        found.extend(names.iter().filter(|name| !place[**name].is_null()).map(|name| format!("{at}.{name}")));
    };
    let own = PLUGIN.iter().fold(document, |place, name| &place[*name]);
    let at = PLUGIN.join(".");
    for agent in own["gatewayAgents"].as_array().into_iter().flatten() {
        let id = agent["id"].as_str().unwrap_or_default();
        look(agent, &format!("{at}.gatewayAgents[{id}]"), &OF_AN_AGENT);
    }
    found
}

/// What a person is told of one of them.
#[must_use]
pub fn warning(path: &str) -> String {
    format!("{path} is set but not used by this flock yet")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_setting_without_effect_is_named() {
        let own = json!({
            "gatewayAgents": [{"id": "coder", "onHost": true, "role": "worker"}, {"id": "x", "onHost": null}],
        });
        let document = json!({
            "plugins": {"entries": {"flock": {"config": own}}},
        });
        let at = "plugins.entries.flock.config";
        assert_eq!(settings(&document), [format!("{at}.gatewayAgents[coder].onHost")]);
        assert_eq!(settings(&json!([])), Vec::<String>::new());
    }
}
