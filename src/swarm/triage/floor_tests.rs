use serde_json::{Value, json};

use super::*;
use crate::config::model::Network;
use crate::home::Home;

fn config() -> Config {
    let agent = |id: &str, role: &str| json!({"id": id, "role": role, "network": "proxy"});
    let document = json!({
        "gateway": {"auth": {"token": "t"}},
        "agents": {"defaults": {"model": {"primary": "script/demo"}}, "list": [
            {"id": "sysadmin", "sandbox": {"mode": "off"}}
        ]},
        "plugins": {"entries": {"flock": {"config": {"maxAgents": 4, "gatewayAgents": [
            agent("orchestrator", "orchestrator"), agent("sysadmin", "sysadmin"), agent("coder", "worker")
        ]}}}},
    });
    crate::config::parse::config(&document, &Home::new("/home/ann/.flock".into(), None)).unwrap()
}

fn request(value: Value) -> Request {
    serde_json::from_value(value).unwrap()
}

fn context<'a>(config: &'a Config, agent: &str) -> LevelContext<'a> {
    let agent = config.agent(&agent.parse().unwrap()).unwrap();
    LevelContext {
        config,
        agent,
        granted: false,
        place: PathClass::Outside,
        pinned: true,
        installs: 0,
        archetype: true,
    }
}

#[test]
fn each_kind_has_its_minimum_level() {
    let config = config();
    let standing = context(&config, "coder");
    let below = LevelContext { place: PathClass::Below, ..standing.clone() };
    let granted = LevelContext { granted: true, ..below.clone() };
    let loose = LevelContext { pinned: false, ..standing.clone() };
    let many = LevelContext { installs: config.packages_per_day, ..standing.clone() };
    for (standing, value, level) in [
        (&standing, json!({"kind": "package", "package": "ripgrep"}), Level::Green),
        (&standing, json!({"kind": "package", "package": "ripgrep", "action": "remove"}), Level::Green),
        (&loose, json!({"kind": "package", "package": "ripgrep"}), Level::Red),
        (&loose, json!({"kind": "package", "package": "ripgrep", "action": "remove"}), Level::Green),
        (&many, json!({"kind": "package", "package": "ripgrep"}), Level::Yellow),
        (&many, json!({"kind": "package", "package": "ripgrep", "action": "remove"}), Level::Green),
        (&standing, json!({"kind": "package", "package": "github:a/b#c"}), Level::Red),
        (&standing, json!({"kind": "egress", "host": "static.crates.io"}), Level::Red),
        (&standing, json!({"kind": "egress", "host": "static.crates.io", "port": 443}), Level::Red),
        (&standing, json!({"kind": "egress", "host": "static.crates.io", "port": 22}), Level::Red),
        (&standing, json!({"kind": "egress", "host": "*.crates.io"}), Level::Red),
        (&standing, json!({"kind": "egress", "host": "1.1.1.1"}), Level::Red),
        (&standing, json!({"kind": "egress", "host": "2606:4700:4700::1111"}), Level::Red),
        (&granted, json!({"kind": "egress", "host": "static.crates.io"}), Level::Green),
        (&granted, json!({"kind": "egress", "host": "1.1.1.1"}), Level::Red),
        (&below, json!({"kind": "mount", "path": "/srv/data"}), Level::Red),
        (&granted, json!({"kind": "mount", "path": "/srv/data"}), Level::Green),
        (&standing, json!({"kind": "mount", "path": "/srv/data"}), Level::Red),
        (&standing, json!({"kind": "command", "command": "true"}), Level::Red),
        (&granted, json!({"kind": "command", "command": "true"}), Level::Red),
        (&standing, json!({"kind": "agent-create", "id": "tester"}), Level::Yellow),
        (&standing, json!({"kind": "agent-create", "id": "tester", "model": "script/demo"}), Level::Yellow),
        (&standing, json!({"kind": "agent-create", "id": "tester", "model": "other/dear"}), Level::Red),
        (&standing, json!({"kind": "agent-remove", "id": "coder"}), Level::Red),
        (&standing, json!({"kind": "other", "request": "please"}), Level::Green),
    ] {
        let (found, why) = floor(&request(value.clone()), standing);
        assert_eq!(found, level, "{value}");
        assert!(!why.is_empty(), "{value}");
    }
}

#[test]
fn egress_ask_decides_who_approves_a_new_host() {
    let host = || request(json!({"kind": "egress", "host": "static.crates.io"}));
    let odd = || request(json!({"kind": "egress", "host": "static.crates.io", "port": 22}));
    for (ask, level, asks) in [
        (EgressApprover::Person, Level::Red, false),
        (EgressApprover::Sysadmin, Level::Yellow, true),
        (EgressApprover::Auto, Level::Yellow, false),
    ] {
        let config = Config { egress_ask: ask, ..config() };
        let coder = context(&config, "coder");
        assert_eq!(floor(&host(), &coder).0, level, "{ask:?}");
        assert_eq!(asks_sysadmin(&host(), &coder, level), asks, "{ask:?}");
        assert_eq!(floor(&odd(), &coder).0, Level::Red, "{ask:?}");
        assert!(!asks_sysadmin(&odd(), &coder, Level::Red), "{ask:?}");
        let granted = LevelContext { granted: true, ..coder };
        assert_eq!(floor(&host(), &granted).0, Level::Green, "{ask:?}");
    }
    // Nobody decides about their own requests.
    let config = Config { egress_ask: EgressApprover::Sysadmin, ..config() };
    assert_eq!(floor(&host(), &context(&config, "sysadmin")).0, Level::Red);
    let without = Config {
        agents: config.agents.iter().filter(|agent| agent.role != Role::Sysadmin).cloned().collect(),
        ..config.clone()
    };
    assert_eq!(floor(&host(), &context(&without, "coder")).0, Level::Red);
}

#[test]
fn requests_that_nobody_can_grant_are_refused() {
    let config = config();
    let standing = context(&config, "orchestrator");
    let refused = |value: Value, standing: &LevelContext<'_>| refusal(&request(value), standing);
    let mount = || json!({"kind": "mount", "path": "/home/ann/.ssh"});
    assert!(refused(mount(), &standing).is_some());
    assert!(
        refused(mount(), &LevelContext { place: PathClass::Never("keys"), ..standing.clone() }).is_some()
    );
    assert!(refused(mount(), &LevelContext { place: PathClass::Below, ..standing.clone() }).is_none());
    assert!(refused(json!({"kind": "agent-create", "id": "coder"}), &standing).is_some());
    assert!(refused(json!({"kind": "agent-create", "id": "tester"}), &standing).is_none());
    let none = LevelContext { archetype: false, ..standing.clone() };
    assert!(refused(json!({"kind": "agent-create", "id": "tester", "archetype": "none"}), &none).is_some());
    assert!(refused(json!({"kind": "agent-create", "id": "tester"}), &none).is_none());
    let full = Config { max_agents: 3, ..config.clone() };
    let full = LevelContext { config: &full, ..standing.clone() };
    assert!(refused(json!({"kind": "agent-create", "id": "tester"}), &full).is_some());
    assert!(refused(json!({"kind": "agent-remove", "id": "orchestrator"}), &standing).is_some(), "itself");
    assert!(refused(json!({"kind": "agent-remove", "id": "nobody"}), &standing).is_some());
    assert!(refused(json!({"kind": "agent-remove", "id": "coder"}), &standing).is_none());
    let shut = Agent { network: Network::None, ..standing.agent.clone() };
    let shut = LevelContext { agent: &shut, ..standing.clone() };
    let egress = || json!({"kind": "egress", "host": "a.example"});
    assert!(refused(egress(), &shut).is_some(), "the owner gave it no way out");
    assert!(refused(egress(), &standing).is_none());
    let alone = Config {
        agents: config.agents.iter().filter(|agent| agent.role != Role::Sysadmin).cloned().collect(),
        ..config.clone()
    };
    let alone = LevelContext { config: &alone, ..standing.clone() };
    assert!(refused(json!({"kind": "command", "command": "true"}), &alone).is_some());
}

#[test]
fn only_a_link_that_the_owner_allowed_and_that_lets_nobody_else_in_needs_no_person() {
    let mut config = config();
    let link = |bridge: &str, external: &str, widens: bool| {
        request(json!({"kind": "bridge-link", "bridge": bridge, "channel": "work", "external": external,
            "title": "#open", "hears": ["@a:h"], "widens": widens}))
    };
    let standing = context(&config, "orchestrator");
    assert!(refusal(&link("chat", "!a:h", false), &standing).unwrap().contains("chat"));
    let document = json!({
        "gateway": {"auth": {"token": "t"}},
        "plugins": {"entries": {"flock": {"config": {"bridges": {
            "chat": {"platform": "matrix", "homeserver": "https://h", "allow": ["!*:h"]},
            "open": {"platform": "discord", "allow": ["title:#open"]},
            "shut": {"platform": "slack"}
        }}}}},
    });
    let home = Home::new("/home/ann/.flock".into(), None);
    config.bridges = crate::config::parse::config(&document, &home).unwrap().bridges;
    let standing = context(&config, "orchestrator");
    for (bridge, external, widens, level) in [
        ("chat", "!a:h", false, Level::Yellow),
        ("chat", "!a:h", true, Level::Red),
        ("chat", "!a:h.evil", false, Level::Red),
        ("open", "1", false, Level::Yellow),
        ("shut", "C1", false, Level::Red),
    ] {
        let asked = link(bridge, external, widens);
        assert_eq!(refusal(&asked, &standing), None);
        assert_eq!(floor(&asked, &standing).0, level, "{bridge} {external} {widens}");
    }
}
