use super::*;

use serde_json::json;

use crate::config::agents::{NewAgent, add, remove};
use crate::config::model::{Effort, Network, Role, SandboxMode, SkillsMode};
use crate::config::{CheckpointSettings, ConfigError, starter};

fn home() -> Home {
    Home::new("/nowhere/flock".into(), None)
}

fn new_agent(id: &str, role: Role) -> NewAgent {
    NewAgent { memory: Some("512m".into()), cpus: Some(1.5), ..NewAgent::new(id.parse().unwrap(), role) }
}

fn document() -> Value {
    let model = "anthropic/claude-opus-4-5".parse().unwrap();
    starter::document(&home(), Some(&model), "token", 4000)
}

#[test]
fn an_avatar_is_a_public_address_and_nothing_else() {
    let read = |avatar: &str| {
        let mut document = document();
        add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
        let list = document["agents"]["list"].as_array_mut().unwrap();
        let coder = list.iter_mut().find(|entry| entry["id"] == "coder").unwrap();
        coder["identity"] = json!({"name": "Cody", "avatar": avatar});
        config(&document, &home()).unwrap().agent(&"coder".parse().unwrap()).unwrap().avatar.clone()
    };
    assert_eq!(read("https://example.org/a.png").as_deref(), Some("https://example.org/a.png"));
    // OpenClaw takes these, and no platform could fetch them.
    for other in ["avatars/coder.png", "data:image/png;base64,AAAA", "http://127.0.0.1/a.png"] {
        assert_eq!(read(other), None, "{other}");
    }
}

#[test]
fn what_a_prompt_is_made_of_is_read_and_checked() {
    let read = |path: &[&str], value: Value| {
        let mut document = document();
        add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
        let own = &mut document["plugins"]["entries"]["flock"]["config"];
        let coder =
            own["gatewayAgents"].as_array().unwrap().iter().position(|entry| entry["id"] == "coder").unwrap();
        match path {
            [name] => own[*name] = value,
            [_, name] => own["gatewayAgents"][coder][*name] = value,
            _ => unreachable!(),
        }
        let config = config(&document, &home())?;
        Ok::<_, Problem>(config.agent(&"coder".parse().unwrap()).unwrap().clone())
    };
    let policy =
        read(&["policy"], json!({"allowedCommands": ["git"], "forbiddenPaths": ["/etc"]})).unwrap().policy;
    assert_eq!(
        (policy.allowed_commands, policy.forbidden_paths),
        (Some(vec!["git".into()]), vec!["/etc".into()])
    );
    assert_eq!(read(&["language"], json!("ko")).unwrap().language.unwrap(), "ko");
    assert_eq!(read(&["coder", "language"], json!("pt-BR")).unwrap().language.unwrap(), "pt-BR");
    assert_eq!(read(&["coder", "skillsMode"], json!("full")).unwrap().skills, SkillsMode::Full);
    assert_eq!(read(&["coder", "effort"], json!("off")).unwrap().effort, Some(Effort::Off));
    let persona =
        read(&["coder", "identity"], json!({"format": "aieos", "path": "nova.json"})).unwrap().persona;
    assert_eq!(persona.unwrap(), PathBuf::from("nova.json"));
    for (path, value) in [
        (&["policy"][..], json!({"allowed": []})),
        (&["language"], json!("../etc")),
        (&["language"], json!("ko-")),
        (&["coder", "language"], json!(1)),
        (&["coder", "skillsMode"], json!("all")),
        (&["coder", "effort"], json!("huge")),
        (&["coder", "identity"], json!({"format": "soul", "path": "x"})),
        (&["coder", "identity"], json!({"format": "aieos"})),
        (&["coder", "identity"], json!({"format": "aieos", "path": "../x.json"})),
        (&["coder", "identity"], json!({"format": "aieos", "path": "/"})),
    ] {
        assert!(read(path, value.clone()).is_err(), "{path:?} {value}");
    }
}

#[test]
fn a_model_that_calls_no_tools_is_known() {
    let mut document = document();
    document["models"] = json!({"providers": {"lab": {"models": [
        {"id": "plain", "compat": {"supportsTools": false}},
        {"id": "able", "compat": {"supportsTools": true}},
        {"id": "silent"},
    ]}}});
    let config = config(&document, &home()).unwrap();
    let said = |model: &str| config.model(&model.parse().unwrap()).map(|own| own.tools);
    assert_eq!(said("lab/plain"), Some(Some(false)));
    assert_eq!(said("lab/able"), Some(Some(true)));
    assert_eq!(said("lab/silent"), Some(None), "where nothing is said, somebody else may know");
    assert_eq!((said("lab/other"), said("x/y")), (None, None));
}

#[test]
fn the_number_of_turns_at_once_has_limits() {
    let read = |value: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["maxTurns"] = value;
        config(&document, &home()).map(|config| config.max_turns)
    };
    assert_eq!(
        (read(Value::Null).unwrap(), read(json!(1)).unwrap(), read(json!(4096)).unwrap()),
        (8, 1, 4096)
    );
    for value in [json!(0), json!(4097), json!("8"), json!(1.5)] {
        assert!(read(value.clone()).is_err(), "{value}");
    }
}

#[test]
fn each_agent_of_a_large_team_is_found_with_its_own_settings() {
    let mut document = document();
    let plugin = &mut document["plugins"]["entries"]["flock"]["config"];
    plugin["gatewayAgents"] = (0..3000).map(|n| json!({"id": format!("a{n}")})).collect();
    // The other list has another order, lacks an agent, knows one that flock does not, and has one of them twice.
    let mut listed: Vec<Value> =
        (1..3000).rev().map(|n| json!({"id": format!("a{n}"), "workspace": format!("/srv/{n}")})).collect();
    listed.push(json!({"id": "other", "workspace": "/srv/other"}));
    listed.push(json!({"id": "a7", "workspace": "/srv/second"}));
    document["agents"]["list"] = listed.into();
    let config = config(&document, &home()).unwrap();
    assert_eq!(config.agents.len(), 3000);
    for n in 1..3000 {
        let agent = config.agent(&format!("a{n}").parse().unwrap()).unwrap();
        assert_eq!(agent.workspace, PathBuf::from(format!("/srv/{n}")));
    }
    let unlisted = config.agent(&"a0".parse().unwrap()).unwrap();
    assert_eq!(unlisted.workspace, home().workspace(&unlisted.id));
    assert_eq!(config.agent(&"other".parse().unwrap()), None);
    assert_eq!(config.agent(&"a3000".parse().unwrap()), None);
}

#[test]
fn what_init_and_add_write_is_read_back() {
    let mut document = document();
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    add(&mut document, &home(), &new_agent("admin", Role::Sysadmin)).unwrap();
    let config = config(&document, &home()).unwrap();
    assert_eq!((config.port, config.token.as_str()), (4000, "token"));
    let coder = config.agent(&"coder".parse().unwrap()).unwrap();
    assert_eq!(coder.role, Role::Worker);
    assert_eq!(coder.sandbox, SandboxMode::All);
    assert_eq!(coder.model.as_ref().unwrap().as_str(), "anthropic/claude-opus-4-5");
    assert_eq!((coder.docker.memory, coder.docker.cpu_millis), (Some(512 << 20), Some(1500)));
    assert!(coder.docker.env["PATH"].starts_with("/nix/var/nix/profiles/per-agent/coder/bin:"));
    assert!(coder.allow.iter().any(|tool| tool == "exec"));
    let admin = config.agent(&"admin".parse().unwrap()).unwrap();
    assert_eq!(admin.sandbox, SandboxMode::Off);
    assert!(admin.allow.iter().any(|tool| tool == "triage_decision"));
    assert!(matches!(
        add(&mut document, &home(), &new_agent("coder", Role::Worker)),
        Err(ConfigError::Exists(_))
    ));
    remove(&mut document, &"coder".parse().unwrap()).unwrap();
    assert!(matches!(remove(&mut document, &"coder".parse().unwrap()), Err(ConfigError::Unknown(_))));
}

#[test]
fn an_agent_of_openclaw_keeps_what_it_has_and_gets_what_it_lacks() {
    let mut document = document();
    document["agents"]["list"] = json!([{
        "id": "coder",
        "custom": [1],
        "tools": {"sandbox": {"tools": {"allow": ["read"]}}},
        "sandbox": {"docker": {"memory": "4g", "env": {"LANG": "C"}}},
    }]);
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    let listed = &document["agents"]["list"];
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(listed[0]["custom"], json!([1]));
    let config = config(&document, &home()).unwrap();
    let coder = &config.agents[0];
    assert_eq!(listed[0]["workspace"], json!(coder.workspace));
    assert_eq!(coder.allow, ["read"], "its own list stays");
    assert_eq!((coder.docker.memory, coder.docker.cpu_millis), (Some(512 << 20), Some(1500)));
    assert_eq!(coder.docker.env["LANG"], "C");
    assert!(coder.docker.env["PATH"].starts_with("/nix/var/nix/profiles/per-agent/coder/bin:"));
}

#[test]
fn every_error_names_its_key() {
    let with = |path: &str, value: Value| {
        let mut document = document();
        add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
        *document.pointer_mut(path).unwrap() = value;
        config(&document, &home()).unwrap_err().at
    };
    let own = "/plugins/entries/flock/config";
    assert_eq!(with("", json!([])), "the file");
    assert_eq!(with("/gateway/auth/token", json!("")), "gateway.auth.token");
    assert_eq!(with("/gateway", json!(3)), "gateway");
    assert_eq!(with("/gateway/bind", json!("lan")), "gateway.bind");
    assert_eq!(
        with("/gateway/http/endpoints/chatCompletions/enabled", json!("no")),
        "gateway.http.endpoints.chatCompletions.enabled"
    );
    assert_eq!(
        with(&format!("{own}/gateway/port"), json!(70000)),
        "plugins.entries.flock.config.gateway.port"
    );
    assert_eq!(
        with(&format!("{own}/gatewayAgents/0/id"), json!("../x")),
        "plugins.entries.flock.config.gatewayAgents[0].id"
    );
    assert_eq!(
        with(&format!("{own}/gatewayAgents/0/role"), json!("boss")),
        "plugins.entries.flock.config.gatewayAgents[0].role"
    );
    assert_eq!(with("/agents/list", json!({})), "agents.list");
    assert_eq!(with("/agents/list/0/sandbox/mode", json!("off")), "agents.list[0].sandbox.mode");
    assert_eq!(
        with("/agents/list/0/sandbox/docker/memory", json!("1k")),
        "agents.list[0].sandbox.docker.memory"
    );
    for place in ["/nowhere/flock", "/nowhere/flock/secrets", "/nowhere", "/nowhere/flock/workspaces/other"] {
        assert_eq!(with("/agents/list/0/workspace", json!(place)), "agents.list[0].workspace");
    }
    assert_eq!(with("/agents/defaults/model/primary", json!("gpt")), "agents.defaults.model.primary");
}

#[test]
fn agents_read_every_channel_by_default() {
    let read = |value: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["channels"] = value;
        config(&document, &home()).map(|config| config.channel_readers)
    };
    assert_eq!(read(Value::Null).unwrap(), ChannelReaders::All);
    assert_eq!(read(json!({"read": "all"})).unwrap(), ChannelReaders::All);
    assert_eq!(read(json!({"read": "members"})).unwrap(), ChannelReaders::Members);
    let problem = read(json!({"read": "nobody"})).unwrap_err();
    assert_eq!(problem.at, "plugins.entries.flock.config.channels.read");
}

#[test]
fn a_missing_gateway_section_means_loopback_and_openais_paths() {
    let mut document = document();
    document["gateway"]["http"]["endpoints"]["chatCompletions"]["enabled"] = json!(false);
    document["gateway"]["http"]["endpoints"]["responses"]["enabled"] = json!(false);
    let read = config(&document, &home()).unwrap();
    assert!(!read.chat_completions && !read.responses);
    document["gateway"] = json!({"auth": {"token": "token"}});
    let read = config(&document, &home()).unwrap();
    assert!(read.chat_completions && read.responses);
}

#[test]
fn keys_that_weaken_a_sandbox_are_recorded_as_unsupported() {
    let mut document = document();
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    document["agents"]["list"][0]["sandbox"]["docker"]["privileged"] = json!(true);
    document["agents"]["defaults"]["sandbox"]["docker"]["capAdd"] = json!(["SYS_ADMIN"]);
    document["agents"]["list"][0]["sandbox"]["docker"]["devices"] = json!(false);
    let config = config(&document, &home()).unwrap();
    assert_eq!(config.agents[0].docker.refused, ["capAdd", "privileged"]);
}

#[test]
fn a_workspace_has_a_limit_unless_it_is_set_to_none() {
    let mut document = document();
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    let limit = |document: &Value| config(document, &home()).map(|config| config.agents[0].docker.disk);
    assert_eq!(limit(&document).unwrap(), Some(32 << 30));
    document["plugins"]["entries"]["flock"]["config"]["sandbox"]["disk"] = json!("1g");
    assert_eq!(limit(&document).unwrap(), Some(1 << 30));
    document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"][0]["disk"] = json!("none");
    assert_eq!(limit(&document).unwrap(), None);
    document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"][0]["disk"] = json!("12 parsecs");
    assert!(limit(&document).is_err());
}

#[test]
fn unsupported_docker_keys_are_refused_unless_redundant() {
    let read = |block: Value| {
        let mut document = document();
        add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
        document["agents"]["defaults"]["sandbox"]["docker"] = block;
        config(&document, &home()).map(|config| config.agents[0].docker.clone())
    };
    let anyway = json!({"readOnlyRoot": true, "network": "none", "capDrop": ["ALL"], "workdir": "/workspace", "tmpfs": ["/tmp"],
        "pidsLimit": 256, "memory": "1g", "memorySwap": "1g", "privileged": false, "devices": [], "user": null});
    assert_eq!(read(anyway).unwrap().refused, [""; 0]);
    for (key, value) in [
        ("user", json!("0:0")),
        ("readOnlyRoot", json!(false)),
        ("readOnlyRoots", json!(true)),
        ("capDrop", json!(["NET_RAW"])),
        ("pidsLimit", json!(100_000)),
        ("tmpfs", json!(["/tmp", "/run"])),
        ("memorySwap", json!("8g")),
        ("privileged", json!(true)),
        ("setupCommand", json!("apt-get update")),
        ("Runtime", json!("runsc")),
    ] {
        assert_eq!(read(json!({key: value})).unwrap().refused, [key]);
    }
    assert_eq!(read(json!({"runtime": "runsc"})).unwrap().runtime.as_deref(), Some("runsc"));
    for odd in ["", "-x", "a b", "../runc"] {
        assert!(read(json!({"runtime": odd})).is_err(), "{odd}");
    }
}

#[test]
fn an_agents_own_list_replaces_the_global_one_and_denials_add_up() {
    let mut document = document();
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    document["tools"]["sandbox"]["tools"]["deny"] = json!(["image"]);
    document["agents"]["list"][0]["tools"]["sandbox"]["tools"] = json!({"allow": ["read"], "deny": ["exec"]});
    let config = config(&document, &home()).unwrap();
    assert_eq!(config.agents[0].allow, ["read"]);
    assert_eq!(config.agents[0].deny, ["image", "exec"]);
}

#[test]
fn without_a_list_an_agent_has_flocks_own_tools() {
    let mut document = document();
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    document["tools"] = json!({});
    document["agents"]["list"][0]["tools"] = json!({});
    let parsed = config(&document, &home()).unwrap();
    assert!(parsed.agents[0].allow.iter().any(|tool| tool == "exec"));
    document["agents"]["list"][0]["tools"]["sandbox"]["tools"]["allow"] = json!([]);
    assert_eq!(config(&document, &home()).unwrap().agents[0].allow, Vec::<String>::new());
}

#[test]
fn allow_and_profile_narrow_all_tools() {
    let mut document = document();
    add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
    let mut profile = |global: serde_json::Value, own: serde_json::Value| {
        document["tools"] = global;
        document["agents"]["list"][0]["tools"] = own;
        config(&document, &home()).map(|config| config.agents[0].profile.clone())
    };
    for (global, own, want) in [
        (json!({}), json!({}), None),
        (json!({}), json!({"alsoAllow": ["group:plugins"]}), None),
        (json!({"profile": "full"}), json!({}), None),
        (json!({"profile": "minimal"}), json!({}), Some(vec!["session_status"])),
        (json!({"profile": "minimal"}), json!({"profile": "full"}), None),
        (json!({"profile": "full"}), json!({"profile": "minimal"}), Some(vec!["session_status"])),
        (
            json!({"profile": "minimal", "alsoAllow": ["read"]}),
            json!({"alsoAllow": ["flock_*"]}),
            Some(vec!["session_status", "flock_*", "read"]),
        ),
        (json!({"allow": ["read", "exec"]}), json!({}), Some(vec!["read", "exec"])),
        (json!({"allow": ["read", "exec"]}), json!({"allow": ["read"]}), Some(vec!["read"])),
        (json!({"allow": []}), json!({"allow": []}), None),
    ] {
        let want = want.map(|list| list.into_iter().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(profile(global.clone(), own.clone()).unwrap(), want, "{global} {own}");
    }
    assert_eq!(profile(json!({"profile": "everything"}), json!({})).unwrap_err().at, "tools.profile");
}

#[test]
fn a_list_of_hosts_implies_the_proxy_network() {
    let read = |settings: Value| {
        let mut document = document();
        add(&mut document, &home(), &new_agent("coder", Role::Worker)).unwrap();
        let agents = &mut document["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
        let entry = agents.as_array_mut().unwrap().iter_mut().find(|entry| entry["id"] == "coder").unwrap();
        for (name, value) in settings.as_object().unwrap() {
            entry[name] = value.clone();
        }
        let read = config(&document, &home()).map_err(|problem| problem.message)?;
        let coder = read.agents.into_iter().find(|agent| agent.id.as_str() == "coder").unwrap();
        Ok::<_, String>((coder.network, coder.egress))
    };
    let hosts = || vec!["example.org:8080".to_owned()];
    assert_eq!(read(json!({})), Ok((Network::None, Vec::new())));
    assert_eq!(read(json!({"egress": hosts()})), Ok((Network::Proxy, hosts())));
    assert_eq!(read(json!({"network": "none", "egress": hosts()})), Ok((Network::None, hosts())));
    assert_eq!(read(json!({"network": "proxy"})), Ok((Network::Proxy, Vec::new())));
    assert!(read(json!({"network": "host"})).is_err());
    assert!(read(json!({"egress": "example.org"})).is_err());
}

#[test]
fn folders_for_mounts_are_absolute_and_outside_of_the_home() {
    let read = |roots: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["mountRoots"] = roots;
        config(&document, &home()).map(|config| config.mount_roots)
    };
    assert_eq!(read(Value::Null).unwrap(), Vec::<PathBuf>::new());
    assert_eq!(read(json!(["/srv/data"])).unwrap(), [PathBuf::from("/srv/data")]);
    for wrong in [json!(["data"]), json!(["/srv/../etc"]), json!(["/nowhere/flock/secrets"]), json!("/srv")] {
        assert!(read(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_turn_timeout_is_one_second_to_thirty_days() {
    let read = |value: Value| {
        let mut document = document();
        document["agents"]["defaults"]["timeoutSeconds"] = value;
        config(&document, &home()).map(|config| config.turn_time)
    };
    assert_eq!(config(&document(), &home()).unwrap().turn_time, None);
    for seconds in [1, 2_592_000] {
        assert_eq!(read(json!(seconds)).unwrap(), Some(std::time::Duration::from_secs(seconds)));
    }
    for wrong in [json!(0), json!(-1), json!(1.5), json!("600"), json!(2_592_001)] {
        let problem = read(wrong.clone()).unwrap_err();
        assert_eq!(problem.at, "agents.defaults.timeoutSeconds", "{wrong}");
    }
}

#[test]
fn the_patience_with_a_quota_is_two_minutes_or_the_owners_time() {
    let with = |quota: Value| {
        let mut document = starter::document(&home(), None, "token", 3779);
        document["plugins"]["entries"]["flock"]["config"]["quota"] = quota;
        config(&document, &home())
    };
    assert_eq!(with(json!({})).unwrap().quota_patience.as_secs(), 120);
    assert_eq!(with(json!({"patienceSeconds": 0})).unwrap().quota_patience.as_secs(), 0);
    for wrong in [json!({"patienceSeconds": 3_601}), json!({"patienceSeconds": "1m"}), json!({"patience": 1})]
    {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn a_copy_in_a_race_gives_up_after_two_minutes_or_the_owners_time() {
    let with = |races: Value| {
        let mut document = starter::document(&home(), None, "token", 3779);
        document["plugins"]["entries"]["flock"]["config"]["races"] = races;
        config(&document, &home())
    };
    assert_eq!(with(json!({})).unwrap().race_idle.as_secs(), 120);
    assert_eq!(with(json!({"idleSeconds": 5})).unwrap().race_idle.as_secs(), 5);
    for wrong in [json!({"idleSeconds": 0}), json!({"idle": 5})] {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn other_gateways_reach_one_at_an_address_with_a_port() {
    let with = |address: Value| {
        let mut document = starter::document(&home(), None, "token", 3779);
        document["plugins"]["entries"]["flock"]["config"]["gateway"]["peerAddress"] = address;
        config(&document, &home()).map(|config| config.peer_address.map(|address| address.to_string()))
    };
    for right in ["10.0.0.5:18790", "[fd00::5]:18790"] {
        assert_eq!(with(json!(right)).unwrap().as_deref(), Some(right));
    }
    for wrong in [
        json!("10.0.0.5"),
        json!("0.0.0.0:18790"),
        json!("[::]:18790"),
        json!("db.example:1"),
        json!("10.0.0.5:0"),
        json!(1),
    ] {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn webhooks_come_from_the_owners_own_addresses_alone() {
    let with = |hooks: Value| {
        let mut document = starter::document(&home(), None, "token", 3779);
        document["plugins"]["entries"]["flock"]["config"]["hooks"] = hooks;
        config(&document, &home())
    };
    assert!(with(json!({})).unwrap().hook_origins.is_empty());
    let set = with(json!({"trustedOrigins": ["https://hooks.example.org"]})).unwrap();
    assert!(set.hook_origins[0].has_authority("hooks.example.org"));
    assert!(set.trusted_origins.is_empty(), "the dashboard stays where it is");
    assert!(with(json!({"trustedOrigins": ["http://hooks.example.org"]})).is_err());
    assert!(with(json!({"trustedHosts": []})).is_err());
}

#[test]
fn schedules_of_agents_have_an_hour_between_two_runs_or_the_owners_time() {
    let with = |schedules: Value| {
        let mut document = starter::document(&home(), None, "token", 3779);
        document["plugins"]["entries"]["flock"]["config"]["schedules"] = schedules;
        config(&document, &home())
    };
    assert_eq!(with(json!({})).unwrap().schedule_distance.as_secs(), 3600);
    assert_eq!(with(json!({"agentMinutes": 5})).unwrap().schedule_distance.as_secs(), 300);
    for wrong in [json!({"agentMinutes": 0}), json!({"agentMinutes": 10_081}), json!({"minutes": 5})] {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn checkpoints_are_bounded_by_default_and_by_the_owner() {
    let with = |checkpoints: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["checkpoints"] = checkpoints;
        config(&document, &home())
    };
    let unset = CheckpointSettings { turns: true, keep: 50, bytes: 5 << 30 };
    assert_eq!(with(json!({})).unwrap().checkpoints, unset);
    let set = with(json!({"turns": false, "keep": 2, "bytes": 1_048_576})).unwrap().checkpoints;
    assert_eq!(set, CheckpointSettings { turns: false, keep: 2, bytes: 1 << 20 });
    for wrong in [json!({"keep": 1}), json!({"bytes": 1}), json!({"turns": 1}), json!({"kept": 3})] {
        assert!(with(wrong.clone()).is_err(), "{wrong}");
    }
}

#[test]
fn requests_are_decided_over_every_bridge_unless_the_owner_says_less() {
    use crate::config::model::DecidingBridges;
    let read = |value: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["approvals"] = value;
        config(&document, &home()).map(|config| config.approvals)
    };
    let default = read(Value::Null).unwrap();
    assert!(default.bridges.has("matrix") && !default.bridge_host_commands);
    assert_eq!(read(json!({"bridges": true})).unwrap(), default);
    let off = read(json!({"bridges": false, "bridgeHostCommands": true})).unwrap();
    assert!(!off.bridges.has("matrix") && off.bridge_host_commands);
    let some = read(json!({"bridges": ["slack"]})).unwrap();
    assert_eq!(some.bridges, DecidingBridges::Only(vec!["slack".into()]));
    assert!(some.bridges.has("slack") && !some.bridges.has("matrix"));
    for (value, message) in [
        (json!({"bridges": "on"}), "must be true, false, or a list of names of bridges"),
        (json!({"bridges": [1]}), "must be true, false, or a list of names of bridges"),
        (json!({"bridgeHostCommands": "yes"}), "must be true or false"),
        (json!({"bridge": true}), "did you mean bridges?"),
    ] {
        let problem = read(value).unwrap_err();
        assert!(problem.message.contains(message), "{problem:?}");
        assert!(problem.at.starts_with("plugins.entries.flock.config.approvals."), "{problem:?}");
    }
}

#[test]
fn telemetry_is_off_until_it_has_an_endpoint() {
    let read = |otlp: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["telemetry"] = json!({ "otlp": otlp });
        config(&document, &home()).map(|config| config.otlp).map_err(|problem| problem.message)
    };
    assert_eq!(config(&document(), &home()).unwrap().otlp, None);
    assert_eq!(read(json!({"contents": true})).unwrap(), None);
    let settings = read(json!({"endpoint": "http://127.0.0.1:4318/"})).unwrap().unwrap();
    assert_eq!((settings.endpoint.as_str(), settings.service.as_str()), ("http://127.0.0.1:4318", "flock"));
    assert_eq!((settings.contents, settings.metrics_interval.as_secs()), (false, 60));
    assert!(settings.headers.is_empty() && !settings.propagates_to_models);
    let settings = read(json!({
        "endpoint": "https://cloud.example.org/api/public/otel",
        "headers": {"Authorization": "secret:otlp.authorization", "x-key": "env:KEY"},
        "contents": true, "propagateToModels": true, "metricsSeconds": 5, "serviceName": "my team",
    }));
    let settings = settings.unwrap().unwrap();
    assert_eq!(settings.headers[0], ("Authorization".to_owned(), "secret:otlp.authorization".to_owned()));
    assert!(settings.contents && settings.propagates_to_models);
    for (otlp, expected) in [
        (json!({"endpoint": "localhost"}), "must be a URL"),
        (json!({"endpoint": "https://ann:pw@example.org"}), "without a password"),
        (json!({"endpoint": "ftp://example.org"}), "must be a URL"),
        (json!({"endpoint": "http://example.org", "headers": {"a": "secret:a"}}), "must be https"),
        (json!({"headers": {"Authorization": "Basic c2VjcmV0"}}), "must be a reference"),
        (json!({"headers": {"content-type": "secret:a"}}), "flock sets itself"),
        (json!({"headers": {"a b": "secret:a"}}), "with a name of letters"),
        (json!({"metricsSeconds": 0}), "a number of seconds"),
        (json!({"serviceName": ""}), "must be a name"),
        (json!({"endpiont": "http://127.0.0.1"}), "endpoint"),
    ] {
        let message = read(otlp.clone()).unwrap_err();
        assert!(message.contains(expected), "{otlp}: {message}");
    }
    // A collector on this machine or in its network may have keys without TLS.
    for near in ["http://127.0.0.1:4318", "http://[::1]:4318", "http://192.168.1.7", "http://collector:4318"]
    {
        assert!(read(json!({"endpoint": near, "headers": {"a": "secret:a"}})).unwrap().is_some(), "{near}");
    }
}

#[test]
fn blobs_stay_on_this_disk_until_another_place_is_set() {
    use crate::config::{BlobSettings, S3Settings};
    let read = |blobs: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["storage"] = json!({ "blobs": blobs });
        config(&document, &home()).map(|config| config.blobs).map_err(|problem| problem.message)
    };
    assert_eq!(config(&document(), &home()).unwrap().blobs, None);
    assert_eq!(read(json!({})).unwrap(), None);
    let folder = read(json!({"kind": "folder", "path": "/mnt/nas/flock"})).unwrap().unwrap();
    assert_eq!(*folder, BlobSettings::Folder("/mnt/nas/flock".into()));
    let bucket = json!({
        "kind": "s3", "endpoint": "https://s3.example.org/", "bucket": "team", "prefix": "flock/a",
        "accessKeyId": "AKID", "secretAccessKey": "secret:blobs.secret",
    });
    let found = read(bucket.clone()).unwrap().unwrap();
    let expected = S3Settings {
        endpoint: "https://s3.example.org".into(),
        bucket: Some("team".into()),
        prefix: "flock/a".into(),
        region: "us-east-1".into(),
        key_id: "AKID".into(),
        secret: "secret:blobs.secret".into(),
        token: None,
    };
    assert_eq!(found.place(), "https://s3.example.org/team/flock/a");
    assert_eq!(*found, BlobSettings::S3(expected));
    for (key, value, expected) in [
        ("kind", json!("ftp"), "must be \"folder\" or \"s3\""),
        ("kind", Value::Null, "is missing: \"folder\" or \"s3\""),
        ("endpoint", json!("http://s3.example.org"), "must be https"),
        ("endpoint", json!("s3.example.org"), "must be a URL"),
        ("endpoint", Value::Null, "is missing"),
        ("bucket", json!("a/b"), "must be the name of a bucket"),
        ("prefix", json!("/a"), "with slashes between them"),
        ("prefix", json!("a/../b"), "with slashes between them"),
        ("region", json!("a b"), "must be a region"),
        ("accessKeyId", Value::Null, "is missing"),
        ("secretAccessKey", json!("wJalr"), "must be a reference"),
        ("secretAccessKey", Value::Null, "is missing"),
        ("buckets", json!("team"), "did you mean bucket?"),
    ] {
        let mut wrong = bucket.clone();
        wrong[key] = value.clone();
        let message = read(wrong).unwrap_err();
        assert!(message.contains(expected), "{key} {value}: {message}");
    }
    for (path, expected) in [(json!("flock"), "absolute"), (Value::Null, "is missing")] {
        let message = read(json!({"kind": "folder", "path": path})).unwrap_err();
        assert!(message.contains(expected), "{message}");
    }
    // A server on this machine or in its network may be asked without TLS.
    let mut near = bucket;
    near["endpoint"] = json!("http://127.0.0.1:9000");
    assert!(read(near).unwrap().is_some());
}

#[test]
fn nobody_signs_in_at_a_provider_until_there_is_an_issuer() {
    let read = |oidc: Value| {
        let mut document = document();
        document["plugins"]["entries"]["flock"]["config"]["dashboard"] = json!({ "oidc": oidc });
        config(&document, &home()).map(|config| config.oidc).map_err(|problem| problem.message)
    };
    assert_eq!(config(&document(), &home()).unwrap().oidc, None);
    assert_eq!(read(json!({"clientId": "flock", "clientSecret": "secret:oidc.client"})).unwrap(), None);
    let settings =
        read(json!({"issuer": "https://login.example.org/x", "clientId": "flock"})).unwrap().unwrap();
    assert_eq!(settings.scopes, ["openid", "email"]);
    assert_eq!((settings.name.as_str(), settings.allow_local), ("login.example.org", false));
    assert_eq!(settings.client_secret, None);
    let settings = read(json!({"issuer": "http://127.0.0.1:8080", "clientId": "flock", "name": "Home",
        "clientSecret": "env:SECRET", "scopes": ["profile"]}));
    let settings = settings.unwrap().unwrap();
    assert_eq!(settings.scopes, ["openid", "profile"]);
    assert!(settings.allow_local && settings.name == "Home");
    for (oidc, expected) in [
        (json!({"issuer": "http://login.example.org", "clientId": "flock"}), "https"),
        (json!({"issuer": "https://login.example.org"}), "is missing"),
        (json!({"issuer": "https://login.example.org", "clientId": "a b"}), "the id that the provider gave"),
        (json!({"clientSecret": "s3cret"}), "must be a reference"),
        (json!({"scopes": ["a b"]}), "scopes"),
        (json!({"name": ""}), "a name of 1 to 40"),
        (json!({"isuer": "https://a"}), "issuer"),
    ] {
        let message = read(oidc.clone()).unwrap_err();
        assert!(message.contains(expected), "{oidc}: {message}");
    }
}
