//! Known settings that have no effect in their place. A user must not rely on them.

use serde_json::Value;

use super::parse::PLUGIN;

/// Runtimes that run inside flock, or in a sandbox that they make themselves. They never run on the host.
pub(super) const NEVER_ON_HOST: [&str; 2] = ["native", "openclaw"];

/// Returns the settings of the document that have no effect, as paths that `flock config unset` takes.
#[must_use]
pub fn settings(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let own = PLUGIN.iter().fold(document, |place, name| &place[*name]);
    let at = PLUGIN.join(".");
    for agent in own["gatewayAgents"].as_array().into_iter().flatten() {
        let id = agent["id"].as_str().unwrap_or_default();
        let runtime = agent["runtime"].as_str().unwrap_or("native");
        // `false` is reported too: the key has no meaning for these runtimes.
        if !agent["onHost"].is_null() && NEVER_ON_HOST.contains(&runtime) {
            found.push(format!("{at}.gatewayAgents[{id}].onHost"));
        }
    }
    found
}

/// Returns the warning about one of these paths.
#[must_use]
pub(crate) fn warning(path: &str) -> String {
    format!("{path} is set but has no effect: only agent programs run on the host")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_setting_without_effect_is_named() {
        let own = json!({
            "gatewayAgents": [{"id": "coder", "onHost": true, "role": "worker"}, {"id": "x", "onHost": null},
                {"id": "y", "onHost": true, "runtime": "claude"}],
        });
        let document = json!({
            "plugins": {"entries": {"flock": {"config": own}}},
        });
        let at = "plugins.entries.flock.config";
        assert_eq!(settings(&document), [format!("{at}.gatewayAgents[coder].onHost")]);
        assert_eq!(settings(&json!([])), Vec::<String>::new());
    }
}
