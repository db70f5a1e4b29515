use super::*;
use crate::config::setting::{self, Setting};

fn document(entries: Value) -> Value {
    json!({"plugins": {"entries": {"flock": {"config": {"gatewayAgents": entries}}}}})
}

#[test]
fn renaming_replaces_the_id_everywhere_and_nothing_else() {
    let home = Home::new("/h".into(), None);
    let (old, new) = ("coder".parse().unwrap(), "dev".parse().unwrap());
    let whole = |id: &str| {
        let path = format!("/nix/var/nix/profiles/per-agent/{id}/bin:/usr/bin");
        let mut document = document(json!([{"id": id, "role": "worker"}, {"id": "coder2"}]));
        document["plugins"]["entries"]["flock"]["config"]["budgets"] =
            json!({"agent": {"coder2": {"tokens": 2}, id: {"tokens": 1}}});
        document["agents"] = json!({"list": [
            {"id": id, "workspace": format!("/h/workspaces/{id}"), "sandbox": {"docker": {"env": {"PATH": path}}}},
            {"id": "coder2", "workspace": "/h/workspaces/coder2", "subagents": {"allowAgents": [id, "coder2"]}},
        ]});
        document["bindings"] = json!([{"agentId": id}, {"agentId": "coder2"}]);
        document
    };
    let mut renamed = whole("coder");
    rename(&mut renamed, &home, &old, &new).unwrap();
    assert_eq!(renamed, whole("dev"));
    assert!(matches!(rename(&mut renamed, &home, &old, &new), Err(ConfigError::Exists(_))));
    let other = "x".parse().unwrap();
    assert!(matches!(rename(&mut renamed, &home, &old, &other), Err(ConfigError::Unknown(_))));
    let taken = "coder2".parse().unwrap();
    assert!(matches!(rename(&mut renamed, &home, &new, &taken), Err(ConfigError::Exists(_))));
}

#[test]
fn a_fork_has_the_settings_of_the_original_and_a_place_of_its_own() {
    let home = Home::new("/h".into(), None);
    let (from, to) = ("coder".parse().unwrap(), "dev".parse().unwrap());
    let path = |id: &str| format!("/nix/var/nix/profiles/per-agent/{id}/bin:/usr/bin");
    let mut forked = document(json!([{"id": "coder", "role": "worker", "disk": "1g"}]));
    forked["plugins"]["entries"]["flock"]["config"]["budgets"] = json!({"agent": {"coder": {"tokens": 1}}});
    forked["plugins"]["entries"]["flock"]["config"]["projects"] =
        json!({"lib": {"repo": "/l", "agents": ["coder"]}, "other": {"repo": "/l", "agents": ["x"]}});
    forked["agents"] = json!({"list": [{
        "id": "coder", "default": true, "workspace": "/elsewhere",
        "sandbox": {"docker": {"env": {"PATH": path("coder")}}},
    }]});
    let before = forked.clone();
    fork(&mut forked, &home, &from, &to).unwrap();
    let own = &forked["plugins"]["entries"]["flock"]["config"];
    assert_eq!(own["gatewayAgents"][1], json!({"id": "dev", "role": "worker", "disk": "1g"}));
    assert_eq!(own["budgets"]["agent"]["dev"], json!({"tokens": 1}));
    assert_eq!(own["projects"]["lib"]["agents"], json!(["coder", "dev"]), "it works on the same projects");
    assert_eq!(own["projects"]["other"]["agents"], json!(["x"]));
    let expected = json!({
        "id": "dev", "workspace": "/h/workspaces/dev", "sandbox": {"docker": {"env": {"PATH": path("dev")}}},
    });
    assert_eq!(forked["agents"]["list"][1], expected);
    assert_eq!(forked["agents"]["list"][0], before["agents"]["list"][0]);
    assert!(matches!(fork(&mut forked, &home, &from, &to), Err(ConfigError::Exists(_))));
    let (none, new) = ("x".parse().unwrap(), "y".parse().unwrap());
    assert!(matches!(fork(&mut forked, &home, &none, &new), Err(ConfigError::Unknown(_))));
}

#[test]
fn a_forked_channel_has_the_budget_of_the_original() {
    let mut forked = document(json!([]));
    let budgets = json!({"channel": {"*": {"tokens": 9}, "dev": {"tokens": 1}}});
    forked["plugins"]["entries"]["flock"]["config"]["budgets"] = budgets.clone();
    let [dev, second, none] = ["DEV", "Dev2", "ops"].map(|id| id.parse().unwrap());
    fork_channel_budget(&mut forked, &dev, &second);
    fork_channel_budget(&mut forked, &none, &"ops2".parse().unwrap());
    let own = |document: &Value| document["plugins"]["entries"]["flock"]["config"]["budgets"].clone();
    let expected = json!({"channel": {"*": {"tokens": 9}, "dev": {"tokens": 1}, "dev2": {"tokens": 1}}});
    assert_eq!(own(&forked), expected);
    remove_channel_budget(&mut forked, &second);
    assert_eq!(own(&forked), budgets);
}

#[test]
fn a_new_runtime_loses_host_access() {
    let before =
        document(json!([{"id": "a", "runtime": "claude", "onHost": true}, {"id": "b", "onHost": true}]));
    let id = "a".parse().unwrap();
    let mut same = before.clone();
    setting::set(&mut same, &id, &[(Setting::Runtime, json!("claude"))]).unwrap();
    assert_eq!(same, before);
    let mut other = before.clone();
    setting::set(&mut other, &id, &[(Setting::Runtime, json!("codex"))]).unwrap();
    let expected = json!([{"id": "a", "runtime": "codex"}, {"id": "b", "onHost": true}]);
    assert_eq!(other, document(expected));
    // A change by hand, where `before` and `after` both name an agent program.
    let mut edited = document(
        json!([{"id": "a", "runtime": "claude", "onHost": true}, {"id": "b", "runtime": "gemini", "onHost": true},
            {"id": "c", "runtime": "gemini", "onHost": true}]),
    );
    assert_eq!(revoke_host_access(&before, &mut edited), ["b"]);
    let entries = &edited["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
    assert_eq!((&entries[0]["onHost"], entries[1].get("onHost")), (&json!(true), None));
    assert_eq!(entries[2]["onHost"], true, "a new agent is somebody's choice");
}
