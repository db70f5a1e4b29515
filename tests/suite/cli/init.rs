//! `flock init`.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::session::{session, snapshot};
use crate::support::home::{TempHome, finish, free_port};

#[test]
fn init_makes_a_home_and_says_where_it_is() {
    let home = TempHome::new();
    let port = free_port().to_string();
    let first = format!("init --yes --no-images --model script/demo --port {port}");
    snapshot!(
        "init",
        session(
            &home,
            &[
                first.as_str(),
                "init --yes --no-images",
                "init --yes --no-images --json",
                "config get",
                "init --repo https://example.org/openclaw.git",
                "init --model opus",
                "init --port 0",
                "init --help",
            ]
        )
        .replace(&port, "[PORT]")
    );
}

#[test]
fn what_is_secret_is_the_owners_alone() {
    let home = TempHome::new().init();
    let mode = |path: &str| home.file(path).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("config.json"), 0o600);
    assert_eq!(mode("secrets"), 0o700);
    assert_eq!(mode("data"), 0o700);
    assert_eq!(mode(""), 0o700);
}

#[test]
fn a_second_init_changes_nothing() {
    let home = TempHome::new().init();
    home.flock(["add", "coder", "--no-container"]).ok();
    let before = home.config_text();
    let instance = std::fs::read(home.file("data/instance")).unwrap();
    std::fs::write(home.file("agents/coder/identity/USER.md"), "Ann").unwrap();
    home.flock(["init", "--yes", "--no-images"]).ok();
    assert_eq!(home.config_text(), before);
    assert_eq!(std::fs::read(home.file("data/instance")).unwrap(), instance);
    assert_eq!(std::fs::read_to_string(home.file("agents/coder/identity/USER.md")).unwrap(), "Ann");
}

#[test]
fn a_home_that_was_left_half_made_is_completed() {
    let whole = TempHome::new().init();
    // Whatever an interrupted init or a person left out, one more init brings it back.
    for missing in
        ["config.json", "data", "workspaces", "version", "run", "secrets", "agents/sysadmin/identity/SOUL.md"]
    {
        let path = whole.file(missing);
        if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) }.unwrap();
        whole.flock(["init", "--yes", "--no-images"]).ok();
        assert!(path.exists(), "{missing}");
        let agents = whole.flock(["list", "--json"]).ok().json()["agents"].as_array().unwrap().len();
        assert_eq!(agents, 2, "{missing}");
    }
}

#[test]
fn a_configuration_of_openclaw_keeps_its_keys_and_their_order() {
    let home = TempHome::new();
    std::fs::create_dir(home.path()).unwrap();
    let theirs = r#"{"zebra": {"b": 1, "a": 2}, "agents": {"list": [{"id": "main", "custom": [1]}]},
        "gateway": {"port": 18789, "auth": {"token": "a-token-of-theirs"}}, "models": {"mode": "merge"}}"#;
    std::fs::write(home.file("config.json"), theirs).unwrap();
    home.flock(["init", "--yes", "--no-images", "--model", "script/demo"]).ok();
    let config = home.config();
    let keys: Vec<&String> = config.as_object().unwrap().keys().take(4).collect();
    assert_eq!(keys, ["zebra", "agents", "gateway", "models"]);
    assert_eq!(config["zebra"], json!({"b": 1, "a": 2}));
    assert_eq!(config["agents"]["list"][0], json!({"id": "main", "custom": [1]}));
    assert_eq!(config["gateway"]["auth"]["token"], "a-token-of-theirs");
    assert_eq!(std::fs::read_dir(home.file("backups")).unwrap().count(), 1, "the old one is kept");
}

#[test]
fn the_token_comes_from_a_file_or_from_stdin() {
    let home = TempHome::new();
    let line = ["init", "--yes", "--no-images", "--token-file", "-"];
    home.flock_with_input(line, "a-token-from-stdin\n").ok();
    assert_eq!(home.config()["gateway"]["auth"]["token"], "a-token-from-stdin");
    let file = home.outside().join("token");
    std::fs::write(&file, "a-token-from-a-file").unwrap();
    home.flock(["init", "--yes", "--no-images", "--token-file", file.to_str().unwrap()]).ok();
    assert_eq!(home.config()["gateway"]["auth"]["token"], "a-token-from-a-file");
    for bad in ["", "short", "with a space in it", "ümlaut-is-no-ascii"] {
        let run = home.flock_with_input(line, bad).fails(2);
        assert!(bad.is_empty() || !run.stderr.contains(bad), "the token is not repeated: {run:?}");
    }
    home.flock(["init", "--yes", "--no-images", "--token-file", "/no/such/file"]).fails(1);
    assert_eq!(home.config()["gateway"]["auth"]["token"], "a-token-from-a-file");
}

#[test]
fn a_port_in_use_is_not_chosen() {
    // Whoever has the usual port, a test or another program: the home gets one that is free.
    let usual = std::net::TcpListener::bind(("127.0.0.1", 3779));
    let home = TempHome::new();
    home.flock(["init", "--yes", "--no-images"]).ok();
    assert_ne!(home.port(), 3779);
    drop(usual);
}

#[test]
fn init_leaves_a_newer_home_and_an_impossible_one_alone() {
    let home = TempHome::new().init();
    std::fs::write(home.file("version"), "99\n").unwrap();
    let before = home.config_text();
    let run = home.flock(["init", "--yes", "--no-images", "--port", "4000"]).fails(7);
    assert!(run.stderr.contains("format 99"), "{run:?}");
    assert_eq!(home.config_text(), before);
    let file = home.outside().join("file");
    std::fs::write(&file, "").unwrap();
    for bad in [file.to_str().unwrap(), "/", "/tmp/a:b"] {
        home.flock(["--home", bad, "init", "--yes", "--no-images"]).fails(2);
    }
}

#[test]
fn many_inits_at_once_make_one_home() {
    let home = TempHome::new();
    let line = ["init", "--yes", "--no-images", "--model", "script/demo"];
    let runs: Vec<_> = (0..8)
        .map(|_| home.command().args(line).stdout(std::process::Stdio::null()).spawn().unwrap())
        .collect();
    for mut run in runs {
        assert!(run.wait().unwrap().success());
    }
    let agents = home.flock(["list", "--json"]).ok().json();
    assert_eq!(agents["agents"].as_array().unwrap().len(), 2);
    let token: Value = home.config()["gateway"]["auth"]["token"].clone();
    home.flock(line).ok();
    assert_eq!(home.config()["gateway"]["auth"]["token"], token);
}

#[test]
fn keys_in_the_environment_choose_the_model_and_are_not_stored_unasked() {
    let home = TempHome::new();
    let run =
        finish(home.command().env("OPENAI_API_KEY", "sk-planted").args(["init", "--yes", "--no-images"]));
    assert!(run.clone().ok().stderr.contains("openai/"), "{run:?}");
    assert_eq!(std::fs::read_dir(home.file("secrets")).unwrap().count(), 0);
    assert!(!home.config_text().contains("sk-planted"));
}

#[test]
fn a_server_of_models_on_loopback_is_found() {
    use std::io::{Read as _, Write as _};
    let server = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = server.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let body =
                r#"{"object":"list","data":[{"id":"llama3:8b"},{"id":"with space"},{"id":"\u001b[2J"}]}"#;
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            let _ = stream.write_all(format!("{head}{body}").as_bytes());
        }
    });
    let home = TempHome::new();
    let mut command = home.command();
    command.env("OLLAMA_HOST", format!("127.0.0.1:{port}"));
    let run = finish(command.args(["init", "--yes", "--no-images"])).ok();
    assert!(run.stderr.contains("ollama/llama3:8b") && !run.stderr.contains('\u{1b}'), "{run:?}");
    let config = home.config();
    assert_eq!(config["agents"]["defaults"]["model"]["primary"], "ollama/llama3:8b");
    let url = format!("http://127.0.0.1:{port}/v1");
    assert_eq!(config["models"]["providers"]["ollama"]["baseUrl"], url.as_str());
}
