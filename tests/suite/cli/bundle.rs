//! `flock doctor --bundle`.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::support::home::TempHome;

/// The files of a bundle and their texts.
fn unpacked(file: &Path) -> BTreeMap<String, String> {
    let bytes = std::fs::File::open(file).unwrap();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    let mut parts = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        parts.insert(name, text);
    }
    parts
}

fn json(parts: &BTreeMap<String, String>, name: &str) -> Value {
    serde_json::from_str(&parts[name]).unwrap()
}

fn percent(text: &str) -> String {
    let encode = |byte: u8| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(encode).collect()
}

/// Fails where a key is in a bundle in any form.
fn lacks(parts: &BTreeMap<String, String>, key: &str) {
    let mut forms = vec![key.to_owned(), percent(key)];
    // Within base64 of something longer a key has three faces; their middles are the key's alone.
    for before in ["", "x", "xx"] {
        for encoded in [
            STANDARD.encode(format!("{before}{key}yyy")),
            URL_SAFE_NO_PAD.encode(format!("{before}{key}yyy")),
        ] {
            forms.push(encoded[4..4 + key.len()].to_owned());
        }
    }
    for (name, text) in parts {
        for form in &forms {
            assert!(
                !text.contains(form.as_str()) && !name.contains(form.as_str()),
                "{key} as {form} in {name}:\n{text}"
            );
        }
    }
}

#[test]
fn no_planted_key_and_no_word_is_in_a_bundle() {
    let [stored, literal, variable, sandbox, logged, vault, name] = [
        "store/d+k3y-0a1b2c3d4e5f",
        "l1teral?&key-9f8e7d6c5b",
        "vari able~key-5566778899",
        "sandb0x+key/112233445566",
        "sk-proj-4f9aQz81LmXw22Rt",
        "v4ult-key-aabbccddeeff00",
        "sk-live-4f9a2c81d3e7b605",
    ];
    let home = TempHome::new().init();
    home.flock_with_input(["config", "set", "models.providers.mine.apiKey", "-"], stored).ok();
    home.flock([
        "config",
        "set",
        "models.providers.mine.baseUrl",
        "https://ann:pw-77-secret@models.example/v1",
    ])
    .ok();
    home.flock(["config", "set", "agents.defaults.sandbox.docker.env.MINE", sandbox]).ok();
    home.flock(["add", name, "--no-container"]).ok();
    let mut config = home.config();
    config["models"]["providers"]["other"] =
        serde_json::json!({"apiKey": literal, "baseUrl": "http://127.0.0.1:1/v1"});
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    let token = config["gateway"]["auth"]["token"].as_str().unwrap().to_owned();
    home.flock(["channel", "create", "dev", "--topic", "the-topic-nobody-sees"]).ok();
    home.flock(["channel", "post", "dev", "the words that nobody sees"]).ok();
    std::fs::write(home.file(format!("vaults/{vault}.md")), vault).unwrap();
    std::fs::write(home.file(format!("workspaces/{name}/{vault}")), vault).unwrap();
    std::fs::create_dir_all(home.file("agents/orchestrator/sessions")).unwrap();
    std::fs::write(home.file("agents/orchestrator/sessions/x.jsonl"), "the words that nobody sees").unwrap();
    let mut log =
        std::fs::OpenOptions::new().append(true).create(true).open(home.file("logs/gateway.log")).unwrap();
    for key in [stored, literal, variable, sandbox, logged, &token] {
        writeln!(
            log,
            "2026-11-23T08:00:00Z ERROR flock: the provider says: invalid key {key} ({})",
            percent(key)
        )
        .unwrap();
        for before in ["", "x", "xx"] {
            writeln!(
                log,
                "body {} {}",
                STANDARD.encode(format!("{before}{key}yyy")),
                URL_SAFE_NO_PAD.encode(format!("{before}{key}yyy"))
            )
            .unwrap();
        }
    }
    writeln!(log, "the last line helps").unwrap();
    let file = home.outside().join("report.tar.gz");
    let run = home
        .flock_with_env(["doctor", "--bundle", file.to_str().unwrap()], &[("OPENAI_API_KEY", variable)])
        .ok();
    assert!(run.stdout.contains("config.json") && run.stdout.contains("left out:"), "{run:?}");
    let parts = unpacked(&file);
    for key in [stored, literal, variable, sandbox, logged, vault, name, token.as_str(), "pw-77-secret"] {
        lacks(&parts, key);
    }
    for words in ["the words that nobody sees", "the-topic-nobody-sees"] {
        assert!(parts.values().all(|text| !text.contains(words)), "{words}");
    }
    // And yet it helps.
    assert!(parts["gateway.log"].contains("the last line helps"));
    assert_eq!(json(&parts, "version.json")["version"], env!("CARGO_PKG_VERSION"));
    let database = json(&parts, "database.json");
    if let Some(file) = home.database().file() {
        assert_eq!(database["check"]["whole"], true);
        let tables = database["counts"]["tables"].clone();
        let rows = |name: &str| {
            tables.as_array().unwrap().iter().find(|table| table["name"] == name).unwrap()["rows"].clone()
        };
        assert!(rows("message").as_u64().unwrap() >= 1, "{tables}");
        assert!(parts["files.txt"].contains(file.file_name().unwrap().to_str().unwrap()));
    } else {
        assert!(database["server"].as_str().unwrap().contains(home.database().name()), "{database}");
        assert!(database["problem"].is_null(), "{database}");
    }
    assert_eq!(json(&parts, "audit.json")["valid"], true);
    assert!(json(&parts, "doctor.json")["checks"].as_array().unwrap().len() > 5);
    assert_eq!(json(&parts, "status.json")["running"], false);
    assert_eq!(json(&parts, "config.json")["models"]["providers"]["mine"]["apiKey"], "secret:mine");
    assert_eq!(json(&parts, "config.json")["models"]["providers"]["other"]["apiKey"], "[removed]");
    assert!(
        parts["files.txt"].contains("data/instance") && parts["files.txt"].contains("-0600"),
        "{}",
        parts["files.txt"]
    );
    assert!(json(&parts, "system.json")["kernel"].is_string());
    assert!(json(&parts, "engine.json")["problem"].is_string());
    for name in ["doctor.json", "README.txt", "supervisor.log"] {
        assert!(parts.contains_key(name), "{name}: {:?}", parts.keys());
    }
}

#[test]
fn a_bundle_is_private_and_replaces_nothing_unasked() {
    let home = TempHome::new().init();
    let file = home.outside().join("report.tar.gz");
    let line = ["doctor", "--bundle", file.to_str().unwrap()];
    std::fs::write(&file, "mine").unwrap();
    let run = home.flock(line).fails(5);
    assert!(run.stderr.contains("exists already") && run.stderr.contains("--force"), "{run:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
    let told = home.flock([&line[..], &["--force", "--json"]].concat()).ok().json();
    assert_eq!(told["bundle"], file.to_str().unwrap());
    assert!(told["parts"].as_array().unwrap().len() > 8 && !told["leftOut"].as_array().unwrap().is_empty());
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        std::fs::read_dir(home.outside())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".new"))
            .count(),
        0
    );
    let nowhere = home.outside().join("none/report.tar.gz");
    home.flock(["doctor", "--bundle", nowhere.to_str().unwrap()]).fails(1);
}

#[test]
fn a_bundle_is_made_of_what_is_broken() {
    let home = TempHome::new().init();
    home.flock(["channel", "create", "dev", "--topic", "x"]).ok();
    std::fs::write(home.file("config.json"), "{\"gateway\": {\"auth\": {\"token\": \"in-a-broken-file-77\"")
        .unwrap();
    if let Some(file) = home.database().file() {
        std::fs::write(file, "nonsense ".repeat(2_000)).unwrap();
    }
    let file = home.outside().join("report.tar.gz");
    home.flock(["doctor", "--bundle", file.to_str().unwrap()]).ok();
    let parts = unpacked(&file);
    lacks(&parts, "in-a-broken-file-77");
    assert!(json(&parts, "config.json")["problem"].as_str().unwrap().contains("not valid JSON"), "{parts:?}");
    assert_ne!(json(&parts, "database.json")["check"]["whole"], true);
    assert!(parts["README.txt"].contains("why the configuration is left out"));
    // Where nothing was set up there is something to say, too.
    let none = TempHome::new();
    let file = none.outside().join("report.tar.gz");
    none.flock(["doctor", "--bundle", file.to_str().unwrap()]).ok();
    assert!(unpacked(&file)["doctor.json"].contains("flock init"));
}
