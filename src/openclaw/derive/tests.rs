use super::*;

use crate::config::agents::{NewAgent, add};
use crate::config::{parse, starter};
use crate::sandbox::mount::ApprovedMount;

const OLD: &str = "2026.2.9";
const NEW: &str = "2026.9.6";

fn home() -> Home {
    Home::new("/nowhere/flock".into(), None)
}

fn facts() -> MachineFacts {
    MachineFacts {
        port: 3790,
        image: "flock-sandbox:1".to_owned(),
        user: SandboxUser { uid: 1000, gid: 1000 },
        users: ["boss", "coder", "admin"]
            .map(|id| (id.parse().unwrap(), SandboxUser { uid: 1000, gid: 1000 }))
            .into(),
        cores: 8,
        engine_socket: Some("/var/run/docker.sock".into()),
        store: Some("/var/lib/docker/volumes/flock-nix/_data".into()),
        plugin: home().extension("flock"),
        plugin_settings: json!({"gateway": "http://127.0.0.1:4000"}),
        hooks: home().extension("hooks"),
        mounts: BTreeMap::new(),
    }
}

/// A home with two agents on flock's own runtime, and a boss, a coder and the sysadmin on OpenClaw.
fn document() -> Value {
    let model = "anthropic/claude-opus-4-5".parse().unwrap();
    let mut document = starter::document(&home(), Some(&model), "owners-token", 4000);
    for (id, role, runtime) in [
        ("native", Role::Worker, "native"),
        ("boss", Role::Orchestrator, "openclaw"),
        ("coder", Role::Worker, "openclaw"),
        ("admin", Role::Sysadmin, "openclaw"),
    ] {
        let mut agent = NewAgent::new(id.parse().unwrap(), role);
        agent.runtime = runtime.to_owned();
        add(&mut document, &home(), &agent).unwrap();
    }
    document
}

/// Returns the entry of an agent in the document's list.
fn listing<'d>(document: &'d mut Value, id: &str) -> &'d mut Value {
    let list = document["agents"]["list"].as_array_mut().unwrap();
    list.iter_mut().find(|entry| entry["id"] == id).unwrap()
}

fn flock_settings(document: &mut Value) -> &mut Value {
    &mut document["plugins"]["entries"]["flock"]["config"]
}

fn derive_for(document: &Value, version: &str) -> Result<DerivedConfig, Vec<SettingRefusal>> {
    derive_with(document, version, &facts())
}

fn derive_with(
    document: &Value,
    version: &str,
    facts: &MachineFacts,
) -> Result<DerivedConfig, Vec<SettingRefusal>> {
    let config = parse::config(document, &home()).unwrap();
    derive(&home(), document, &config, ConfigSchema::of(version), facts).map_err(|error| match error {
        OpenClawError::Refused(refusals) => refusals,
        other => panic!("{other:?}"),
    })
}

fn ok(document: &Value, version: &str) -> DerivedConfig {
    derive_for(document, version).unwrap()
}

/// Returns the single refusal, which must be the same for both versions.
fn single_refusal(document: &Value) -> SettingRefusal {
    let refusals = derive_for(document, NEW).unwrap_err();
    assert_eq!(derive_for(document, OLD).unwrap_err(), refusals);
    assert_eq!(refusals.len(), 1, "{refusals:?}");
    assert!(refusals[0].mend.starts_with("flock "), "{refusals:?}");
    // The command must be safe to type into any shell, and some shells treat brackets as a pattern.
    assert!(!refusals[0].mend.split('\'').step_by(2).any(|plain| plain.contains('[')), "{refusals:?}");
    refusals[0].clone()
}

/// Returns an agent of the derived document, for either form of the agent list.
fn agent<'d>(derived: &'d DerivedConfig, id: &str) -> &'d Value {
    let agents = &derived.document["agents"];
    match agents["list"].as_array() {
        Some(list) => list.iter().find(|entry| entry["id"] == id).unwrap(),
        None => &agents["entries"][id],
    }
}

fn text(derived: &DerivedConfig) -> String {
    format!("{:#}", derived.document)
}

#[test]
fn the_oldest_known_version_gets_the_expected_document() {
    insta::assert_snapshot!(text(&ok(&document(), OLD)));
}

#[test]
fn the_newest_known_version_gets_the_expected_document() {
    insta::assert_snapshot!(text(&ok(&document(), NEW)));
}

#[test]
fn versions_in_between_are_given_the_list_with_paths() {
    for version in ["2026.2.26", "2026.3.31", "2026.6.11", "2026.7.35"] {
        let derived = ok(&document(), version);
        assert!(derived.document["agents"].get("ownership").is_none(), "{version}");
        let binds = &agent(&derived, "coder")["sandbox"]["docker"]["binds"];
        assert_eq!(*binds, json!(["/var/lib/docker/volumes/flock-nix/_data:/nix:ro"]), "{version}");
    }
    let newest = ok(&document(), NEW);
    for unknown in ["2031.1.1", "main"] {
        assert_eq!(ok(&document(), unknown), newest, "{unknown}");
    }
}

#[test]
fn no_version_asks_for_models_or_prices_by_itself() {
    let off = json!({"enabled": false});
    for (version, pricing, catalog) in [
        (OLD, &Value::Null, &Value::Null),
        ("2026.6.11", &off, &Value::Null),
        ("2026.7.35", &off, &Value::Null),
        (NEW, &Value::Null, &off),
    ] {
        let models = &ok(&document(), version).document["models"];
        assert_eq!((&models["pricing"], &models["catalogRefresh"]), (pricing, catalog), "{version}");
    }
}

#[test]
fn only_openclaw_agents_are_included_and_no_secret() {
    let mut document = document();
    document["models"]["providers"]["anthropic"]["apiKey"] = "sk-planted".into();
    for version in [OLD, NEW] {
        let derived = ok(&document, version);
        let text = text(&derived);
        assert!(!text.contains("native"), "{text}");
        assert!(!text.contains("owners-token") && !text.contains("planted"), "{text}");
        assert_eq!(derived.document["gateway"]["auth"]["token"], "${FLOCK_OPENCLAW_TOKEN}");
        let key = &derived.document["models"]["providers"]["anthropic"]["apiKey"];
        assert_eq!(*key, "${FLOCK_PROVIDER_KEY_ANTHROPIC}");
        let variable = "FLOCK_PROVIDER_KEY_ANTHROPIC".to_owned();
        assert_eq!(derived.keys, [ProviderKey { provider: "anthropic".to_owned(), variable, needed: true }]);
    }
}

#[test]
fn what_a_sandbox_may_not_have_is_refused_by_flocks_own_rules() {
    for (key, value) in [
        ("binds", json!(["/etc:/data:ro"])),
        ("binds", json!(["/var/run/docker.sock:/var/run/docker.sock"])),
        ("binds", json!(["/nowhere/flock/secrets:/s:ro"])),
        ("binds", json!(["flock-nix:/nix"])),
        ("binds", json!(["other:/data"])),
        ("network", json!("host")),
        ("network", json!("bridge")),
        ("network", json!("container:flock-nix-daemon")),
        ("privileged", json!(true)),
        ("capAdd", json!(["SYS_ADMIN"])),
        ("devices", json!(["/dev/kvm"])),
        ("gpus", json!("all")),
        ("seccompProfile", json!("unconfined")),
        ("apparmorProfile", json!("unconfined")),
        ("extraHosts", json!(["x:127.0.0.1"])),
        ("user", json!("0:0")),
        ("readOnlyRoot", json!(false)),
        ("capDrop", json!([])),
        ("tmpfs", json!(["/"])),
        ("runtime", json!("runsc")),
        ("dangerouslyAllowExternalBindSources", json!(true)),
        ("dangerouslyAllowContainerNamespaceJoin", json!(true)),
        ("dangerouslyAllowReservedContainerTargets", json!(true)),
    ] {
        let mut one = document();
        listing(&mut one, "coder")["sandbox"]["docker"][key] = value.clone();
        let refusal = single_refusal(&one);
        assert_eq!(refusal.at, "agents.list[coder].sandbox", "{key} {value}");
        assert!(refusal.why.starts_with("may not have "), "{refusal}");
        // A global setting is refused like that of one agent.
        let mut all = document();
        all["agents"]["defaults"]["sandbox"]["docker"][key] = value;
        assert_eq!(derive_for(&all, NEW).unwrap_err().len(), 3, "{key}");
    }
}

#[test]
fn what_opens_its_gateway_or_runs_commands_elsewhere_is_refused() {
    for (at, value) in [
        ("/gateway/tailscale", json!({"mode": "funnel"})),
        ("/tools/exec", json!({"host": "gateway"})),
        ("/tools/exec", json!({"host": "node"})),
    ] {
        let mut document = document();
        *document.pointer_mut(at.rsplit_once('/').unwrap().0).unwrap() = {
            let (parent, name) = at.rsplit_once('/').unwrap();
            let mut parent = document.pointer(parent).unwrap().clone();
            parent[name] = value;
            parent
        };
        let refusal = single_refusal(&document);
        assert!(refusal.at.starts_with(&at[1..].replace('/', ".")), "{refusal}");
    }
    let mut document = document();
    listing(&mut document, "coder")["tools"]["exec"] = json!({"host": "gateway"});
    assert_eq!(single_refusal(&document).at, "agents.list[coder].tools.exec.host");
}

#[test]
fn an_own_port_a_model_and_no_network_are_required() {
    let facts = MachineFacts { port: 4000, ..facts() };
    assert_eq!(derive_with(&document(), NEW, &facts).unwrap_err()[0].at, "gateway.port");

    let mut without = document();
    without["agents"]["defaults"].as_object_mut().unwrap().shift_remove("model");
    let refusals = derive_for(&without, NEW).unwrap_err();
    assert_eq!(refusals.len(), 3);
    assert_eq!(refusals[0].at, "agents.list[boss].model");

    let mut outside = document();
    let agents = flock_settings(&mut outside)["gatewayAgents"].as_array_mut().unwrap();
    agents.iter_mut().find(|entry| entry["id"] == "coder").unwrap()["network"] = "proxy".into();
    assert!(single_refusal(&outside).why.contains("network"));
}

#[test]
fn a_workspace_that_is_not_an_agents_own_is_refused() {
    for workspace in ["/etc", "/var/lib/docker", "/"] {
        let mut document = document();
        listing(&mut document, "coder")["workspace"] = workspace.into();
        if parse::config(&document, &home()).is_ok() {
            assert!(single_refusal(&document).why.contains("workspace"), "{workspace}");
        }
    }
}

#[test]
fn models_that_openclaw_cannot_ask_are_refused() {
    let with = |model: &str, provider: Value| {
        let mut document = document();
        document["models"]["providers"]["lab"] = provider;
        listing(&mut document, "coder")["model"] = json!({"primary": model});
        document
    };
    for (model, provider) in [
        ("script/demo", json!({})),
        ("nobody/knows", json!({})),
        ("lab/x", json!({"api": "openai-completions"})),
        ("lab/x", json!({"api": "google-gemini-cli", "baseUrl": "http://127.0.0.1:1"})),
    ] {
        let refusal = single_refusal(&with(model, provider));
        assert_eq!(refusal.at, "agents.list[coder].model");
        assert!(refusal.why.contains(model), "{refusal}");
    }
    // This wire format exists only in later versions.
    let codex = with("lab/x", json!({"api": "openai-codex-responses", "baseUrl": "http://127.0.0.1:1"}));
    assert_eq!(derive_for(&codex, OLD).unwrap_err().len(), 1);
    for (version, api) in [("2026.2.26", "openai-codex-responses"), (NEW, "openai-chatgpt-responses")] {
        assert_eq!(ok(&codex, version).document["models"]["providers"]["lab"]["api"], api);
    }
}

#[test]
fn every_model_in_use_comes_with_what_flock_knows_of_it() {
    let mut document = document();
    document["models"]["providers"] = json!({
        "la-b": {"baseUrl": "http://127.0.0.1:8000/v1", "apiKey": "secret:x", "headers": {"x": "${HOME}", "y": "z"},
            "models": [{"id": "q/3", "contextWindow": 1000, "maxTokens": 100, "input": ["text"],
                "compat": {"supportsStore": false, "supportsTools": true, "odd": 1}}]},
        "la_b": {"baseUrl": "http://127.0.0.1:8001", "api": "anthropic-messages"},
        "unused": {"baseUrl": "http://127.0.0.1:9"},
    });
    let primary =
        json!({"primary": "la-b/q/3", "fallbacks": ["la_b/c", "google/gemini-2.5-pro", "la-b/q/3"]});
    listing(&mut document, "coder")["model"] = primary;
    let derived = ok(&document, NEW);
    let providers = &derived.document["models"]["providers"];
    assert_eq!(derived.document["models"]["mode"], "replace");
    let names: Vec<&str> = providers.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["anthropic", "google", "la-b", "la_b"]);
    assert_eq!(providers["la-b"]["headers"], json!({"y": "z"}));
    let model = &providers["la-b"]["models"][0];
    assert_eq!((&model["id"], &model["contextWindow"]), (&json!("q/3"), &json!(1000)));
    assert_eq!(model["compat"], json!({"supportsStore": false, "supportsTools": true}));
    assert_eq!(
        ok(&document, OLD).document["models"]["providers"]["la-b"]["models"][0]["compat"],
        json!({"supportsStore": false})
    );
    assert_eq!(providers["google"]["baseUrl"], "https://generativelanguage.googleapis.com/v1beta");
    assert_eq!(providers["anthropic"]["baseUrl"], "https://api.anthropic.com");
    assert_eq!(providers["anthropic"]["models"][0]["cost"]["output"], 25.0);
    assert_eq!(agent(&derived, "coder")["model"]["fallbacks"], json!(["la_b/c", "google/gemini-2.5-pro"]));
    let variables: Vec<&str> = derived.keys.iter().map(|key| key.variable.as_str()).collect();
    let prefix = "FLOCK_PROVIDER_KEY_";
    assert_eq!(variables, ["ANTHROPIC", "GOOGLE", "LA_B", "LA_B_"].map(|name| format!("{prefix}{name}")));
    assert!(derived.dropped.contains(&"models.providers.la-b.headers.x".to_owned()));
}

#[test]
fn aws_signs_by_its_own_variables() {
    let mut document = document();
    listing(&mut document, "coder")["model"] = "amazon-bedrock/anthropic.claude-x".into();
    let derived = ok(&document, NEW);
    let provider = &derived.document["models"]["providers"]["amazon-bedrock"];
    assert_eq!((&provider["auth"], provider.get("apiKey")), (&json!("aws-sdk"), None));
    assert!(derived.keys.iter().all(|key| key.provider != "amazon-bedrock"));
}

#[test]
fn a_persons_settings_keep_their_meaning_where_the_version_takes_them() {
    let mut document = document();
    document["agents"]["defaults"]["timeFormat"] = "24".into();
    document["agents"]["defaults"]["timeoutSeconds"] = 77.into();
    document["agents"]["defaults"]["compaction"] =
        json!({"mode": "safeguard", "reserveTokensFloor": 5, "model": "x/y"});
    document["agents"]["defaults"]["heartbeat"] = json!({"every": "1m"});
    document["agents"]["defaults"]["skipBootstrap"] = false.into();
    document["tools"]["exec"] = json!({"timeoutSec": 9, "pathPrepend": ["/x"]});
    document["tools"]["elevated"] = json!({"enabled": true});
    document["session"] = json!({"reset": {"mode": "daily", "atHour": 3}, "scope": "global"});
    document["channels"] = json!({"telegram": {"botToken": "planted"}});
    document["plugins"]["load"] = json!({"paths": ["/evil"]});
    document["plugins"]["entries"]["other"] = json!({"enabled": true});
    document["hooks"] = json!({"enabled": true});
    document["gateway"]["controlUi"] = json!({"enabled": true});
    document["gateway"]["http"]["endpoints"]["responses"] = json!({"enabled": true});
    listing(&mut document, "coder")["identity"] = json!({"name": "Cody ${HOME} ${x}", "avatar": "a.png"});
    listing(&mut document, "coder")["agentDir"] = "/evil".into();
    let old = ok(&document, OLD);
    let new = ok(&document, NEW);
    for derived in [&old, &new] {
        let whole = text(derived);
        assert!(!whole.contains("planted") && !whole.contains("/evil") && !whole.contains("1m"), "{whole}");
        let document = &derived.document;
        assert_eq!(document["agents"]["defaults"]["timeoutSeconds"], 77);
        assert_eq!(document["agents"]["defaults"]["skipBootstrap"], true);
        assert_eq!(
            document["session"],
            json!({"reset": {"mode": "daily", "idleMinutes": 5_256_000, "atHour": 3}})
        );
        assert_eq!(document["gateway"]["controlUi"]["enabled"], false);
        assert_eq!(document["plugins"]["allow"], json!(["flock"]));
        assert_eq!(document["tools"]["elevated"]["enabled"], false);
        assert_eq!(agent(derived, "coder")["identity"], json!({"name": "Cody $${HOME} ${x}"}));
        for place in [
            "channels",
            "hooks",
            "plugins.load",
            "plugins.entries.other",
            "gateway.controlUi",
            "gateway.http.endpoints.responses",
            "agents.defaults.heartbeat",
            "agents.defaults.compaction.model",
            "agents.list[coder].agentDir",
            "agents.list[coder].identity.avatar",
            "session.scope",
            "tools.elevated",
            "tools.exec.pathPrepend",
        ] {
            assert!(derived.dropped.iter().any(|dropped| dropped == place), "{place}: {:?}", derived.dropped);
        }
    }
    assert_eq!(old.document["agents"]["defaults"]["timeFormat"], "24");
    assert!(new.document["agents"]["defaults"].get("timeFormat").is_none());
    assert!(new.dropped.contains(&"agents.defaults.timeFormat".to_owned()));
    assert!(!old.dropped.contains(&"agents.defaults.timeFormat".to_owned()));
    assert_eq!(old.document["agents"]["defaults"]["compaction"]["reserveTokensFloor"], 5);
    assert_eq!(old.document["tools"]["exec"]["timeoutSec"], 9);
}

#[test]
fn tools_are_those_that_flocks_policy_gives() {
    let allowed = |document: &Value, id: &str| {
        let derived = ok(document, NEW);
        agent(&derived, id)["tools"]["sandbox"]["tools"]["allow"].clone()
    };
    let has = |list: &Value, tool: &str| list.as_array().unwrap().iter().any(|name| name == tool);
    let plain = allowed(&document(), "coder");
    for tool in
        ["exec", "process", "read", "write", "edit", "apply_patch", "image", "sessions_list", "flock_*"]
    {
        assert!(has(&plain, tool), "{tool}");
    }
    assert!(!has(&plain, "triage_decision") && has(&allowed(&document(), "admin"), "triage_decision"));

    let mut narrow = document();
    listing(&mut narrow, "coder")["tools"] = json!({
        "deny": ["exec", "memory_*"],
        "sandbox": {"tools": {"allow": ["group:fs", "exec", "web_fetch", "memory_get", "flock_status"]}}
    });
    let derived = ok(&narrow, NEW);
    let tools = &agent(&derived, "coder")["tools"];
    assert_eq!(
        tools["sandbox"]["tools"]["allow"],
        json!(["read", "write", "edit", "apply_patch", "flock_*"])
    );
    for denied in ["exec", "process", "image", "sessions_spawn", "memory_*"] {
        assert!(has(&tools["deny"], denied), "{denied}");
    }
    assert!(derived.dropped.iter().any(|place| place.contains("web_fetch")));

    let mut readonly = document();
    let agents = flock_settings(&mut readonly)["gatewayAgents"].as_array_mut().unwrap();
    agents.iter_mut().find(|entry| entry["id"] == "coder").unwrap()["autonomy"] = "readonly".into();
    let list = allowed(&readonly, "coder");
    assert!(has(&list, "read") && !has(&list, "exec") && !has(&list, "process") && !has(&list, "write"));

    let mut limited = document();
    flock_settings(&mut limited)["policy"] = json!({"allowedCommands": ["git"]});
    let list = allowed(&limited, "coder");
    assert!(has(&list, "write") && !has(&list, "exec") && !has(&list, "process"));
    flock_settings(&mut limited)["policy"] = json!({"forbiddenPaths": ["secrets"]});
    assert!(!has(&allowed(&limited, "coder"), "read"));
}

#[test]
fn the_sysadmin_has_a_sandbox_unless_the_owner_says_otherwise() {
    let mut document = document();
    for version in [OLD, NEW] {
        let derived = ok(&document, version);
        let admin = agent(&derived, "admin");
        assert_eq!((&admin["sandbox"]["mode"], admin["tools"].get("exec")), (&json!("all"), None));
        assert_eq!(admin["sandbox"]["docker"]["network"], "none");
        // Some versions create an agent for any id in a request.
        let unknown = &derived.document["agents"]["defaults"]["sandbox"];
        assert_eq!((&unknown["mode"], &unknown["docker"]["network"]), (&json!("all"), &json!("none")));
        let allowed = admin["tools"]["sandbox"]["tools"]["allow"].as_array().unwrap();
        assert!(allowed.contains(&json!("process")), "a sandbox has room for jobs");
    }
    flock_settings(&mut document)["openclaw"] = json!({"unsandboxedSysadmin": true});
    for version in [OLD, NEW] {
        let derived = ok(&document, version);
        let admin = agent(&derived, "admin");
        assert_eq!(admin["sandbox"], json!({"mode": "off"}));
        assert_eq!(admin["tools"]["exec"]["host"], "gateway");
        assert!(admin["tools"].get("alsoAllow").is_none(), "not beside allow");
        assert_eq!(agent(&derived, "coder")["sandbox"]["mode"], "all");
        assert_eq!(derived.document["tools"]["exec"]["host"], "sandbox");
    }
}

#[test]
fn approved_folders_are_mounted_and_others_refuse_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let data = root.join("data");
    std::fs::create_dir(&data).unwrap();
    let with = |source: PathBuf| {
        let mounts = Mounts {
            approved: vec![ApprovedMount { source, name: "data".to_owned() }],
            roots: vec![root.clone()],
            ..Mounts::default()
        };
        MachineFacts { mounts: BTreeMap::from([("coder".parse().unwrap(), mounts)]), ..facts() }
    };
    for version in [OLD, NEW] {
        let derived = derive_with(&document(), version, &with(data.clone())).unwrap();
        let binds = agent(&derived, "coder")["sandbox"]["docker"]["binds"].as_array().unwrap().clone();
        assert!(binds.contains(&json!(format!("{}:/mnt/data:ro", data.display()))), "{binds:?}");
        assert_eq!(agent(&derived, "boss")["sandbox"]["docker"]["binds"].as_array().unwrap().len(), 1);
        assert!(derive_with(&document(), version, &with("/etc".into())).is_err());
    }
    let colon = root.join("a:b");
    std::fs::create_dir(&colon).unwrap();
    assert!(derive_with(&document(), NEW, &with(colon)).unwrap_err()[0].why.contains("colon"));
}

#[test]
fn limits_are_those_of_flocks_own_sandboxes() {
    let mut document = document();
    let docker = &mut listing(&mut document, "coder")["sandbox"]["docker"];
    docker["memory"] = "512m".into();
    docker["cpus"] = 1.5.into();
    docker["env"]["LANG"] = "C".into();
    docker["image"] = "mine:1".into();
    docker["readOnlyRoot"] = true.into();
    docker["capDrop"] = json!(["ALL"]);
    docker["tmpfs"] = json!(["/tmp"]);
    for version in [OLD, NEW] {
        let derived = ok(&document, version);
        let docker = &agent(&derived, "coder")["sandbox"]["docker"];
        assert_eq!((&docker["memory"], &docker["cpus"]), (&json!("536870912"), &json!(1.5)));
        assert_eq!((&docker["user"], &docker["image"]), (&json!("1000:1000"), &json!("mine:1")));
        assert_eq!((&docker["readOnlyRoot"], &docker["capDrop"]), (&json!(true), &json!(["ALL"])));
        assert_eq!(docker["pidsLimit"], 256);
        assert_eq!(docker["env"]["LANG"], "C");
        assert!(
            docker["env"]["PATH"].as_str().unwrap().starts_with("/nix/var/nix/profiles/per-agent/coder/bin:")
        );
    }
}

#[test]
fn ids_that_openclaw_could_not_tell_apart_never_get_there() {
    let mut twice = document();
    let agents = flock_settings(&mut twice)["gatewayAgents"].as_array_mut().unwrap();
    agents.push(json!({"id": "coder", "runtime": "openclaw"}));
    assert!(parse::config(&twice, &home()).unwrap_err().message.contains("twice"));
    let mut upper = document();
    let agents = flock_settings(&mut upper)["gatewayAgents"].as_array_mut().unwrap();
    agents.push(json!({"id": "Coder", "runtime": "openclaw"}));
    assert!(parse::config(&upper, &home()).is_err());
    // The same entries do no harm in the list that only OpenClaw reads.
    let mut listed = document();
    let list = listed["agents"]["list"].as_array_mut().unwrap();
    list.push(json!({"id": "Coder", "workspace": "/evil"}));
    list.push(json!({"id": "coder", "workspace": "/evil"}));
    let derived = ok(&listed, NEW);
    assert!(!text(&derived).contains("/evil"));
    assert!(derived.dropped.contains(&"agents.list[Coder]".to_owned()));
}

#[test]
fn two_homes_never_share_a_container() {
    let plain = Home::new("/home/ann/.flock".into(), Some("/home/ann/.flock".as_ref()));
    let prefixes = [plain, home()].map(|home| super::super::container_prefix(&home));
    assert_ne!(prefixes[0], prefixes[1]);
    for prefix in prefixes {
        assert!(prefix.starts_with("flock-oc-") && prefix.len() + 42 <= 63, "{prefix}");
    }
}
