//! `flock prompt show --request`: what it prints is what is sent, and printing it changes nothing.

use serde_json::{Value, json};

use crate::provider::bedrock::server::BedrockServer;
use crate::provider::bedrock::{SECRET, TOKEN};
use crate::support::home::{Run, TempHome};
use crate::support::model_server::{ModelServer, Reply};

const KEY: &str = "sk-planted-key-0123456789";
const SESSION: &str = "agent:orchestrator:flock:main:ann";

/// A provider for each wire, and one whose model calls no tools by its API.
const WIRES: [(&str, &str); 6] = [
    ("anthropic", "anthropic-messages"),
    ("openai", "openai-completions"),
    ("responses", "openai-responses"),
    ("codex", "openai-codex-responses"),
    ("gemini", "google-generative-ai"),
    ("plain", "openai-completions"),
];

fn edit(home: &TempHome, change: impl FnOnce(&mut Value)) {
    let mut config = home.config();
    change(&mut config);
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
}

/// A provider `lab-<name>` with the model `m`.
fn add_provider(home: &TempHome, name: &str, api: &str, url: &str, key: &str) {
    let model = json!({"id": "m", "contextWindow": 200_000, "maxTokens": 4_000, "input": ["text"],
        "compat": {"supportsTools": name != "plain"}});
    let provider = json!({"baseUrl": url, "apiKey": key, "api": api, "models": [model]});
    edit(home, |config| config["models"]["providers"][format!("lab-{name}")] = provider);
}

fn home_with(server: &ModelServer) -> TempHome {
    let home = TempHome::new().init();
    for (name, api) in WIRES {
        let url = match name {
            "anthropic" | "gemini" => server.base_url(),
            "codex" => format!("{}/backend-api", server.base_url()),
            _ => server.openai_url(),
        };
        add_provider(&home, name, api, &url, KEY);
    }
    home
}

fn use_model(home: &TempHome, model: &str) {
    home.flock(["config", "set", "agents.defaults.model.primary", model, "-q"]).ok();
}

fn request(home: &TempHome, more: &[&str]) -> Run {
    home.flock([&["prompt", "show", "orchestrator", "--request"], more].concat())
}

/// The bytes of all transcripts, in the order of their names.
fn transcripts(home: &TempHome) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let folder = std::fs::read_dir(home.file("agents/orchestrator/sessions")).unwrap();
    let mut files: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

fn no_key(run: &Run) {
    for secret in [KEY, SECRET, TOKEN, "AKIDEXAMPLE"] {
        assert!(!run.stdout.contains(secret) && !run.stderr.contains(secret), "{run:#?}");
    }
}

/// One conversation goes from wire to wire. On each a turn is answered, with a tool, and the next one is refused: what it
/// was sent is what it would be sent once more.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_is_what_is_sent_on_every_wire() {
    let server = ModelServer::start();
    let bedrock = BedrockServer::start().await;
    let home = home_with(&server);
    let pair = format!("AKIDEXAMPLE:{SECRET}:{TOKEN}");
    add_provider(&home, "bedrock", "bedrock-converse-stream", &bedrock.url(), &pair);
    home.flock(["start", "-q"]).ok();
    let mut last = Vec::new();
    for (name, _) in WIRES.into_iter().chain([("bedrock", "")]) {
        let model = format!("lab-{name}/m");
        use_model(&home, &model);
        if name != "bedrock" && name != "plain" {
            server.reply(Reply::call(&format!("call_{name}"), "flock_channel_list", &json!({})));
        }
        home.flock(["chat", "orchestrator", "look at the channels"]).ok();
        let refusal = json!({"error": {"message": "not today"}}).to_string();
        if name == "bedrock" {
            bedrock.reply(400, refusal.into_bytes());
        } else {
            server.reply(Reply::body(400, "application/json", refusal));
        }
        home.flock(["chat", "orchestrator", "and now? \u{e9}\u{202e}"]).fails(1);
        last = if name == "bedrock" { bedrock.last().bytes } else { server.requests().pop().unwrap().bytes };
        let before = transcripts(&home);
        let printed = request(&home, &["--session", SESSION]).ok();
        assert_eq!(printed.stdout, String::from_utf8(last.clone()).unwrap(), "{name}");
        assert!(printed.stderr.starts_with(&format!("{model}, ")), "{}", printed.stderr);
        let named = request(&home, &["--session", SESSION, "--model", &model, "--json"]).ok();
        assert_eq!(named.json()["body"], serde_json::from_slice::<Value>(&last).unwrap(), "{name}");
        no_key(&printed);
        no_key(&named);
        assert_eq!(transcripts(&home), before, "{name}");
    }
    assert_eq!((server.rejections(), bedrock.rejections()), (Vec::new(), Vec::new()));
    // Another model would be sent another form of it, and one is told what was done.
    let other = request(&home, &["--session", SESSION, "--model", "lab-anthropic/m"]).ok();
    assert!(other.stderr.contains("Hygiene: merged in "), "{}", other.stderr);
    assert_eq!(serde_json::from_str::<Value>(&other.stdout).unwrap()["messages"][0]["role"], "user");
    // Without a gateway it is the same.
    home.flock(["stop", "-q"]).ok();
    let asked = server.requests().len();
    assert_eq!(request(&home, &["--session", SESSION]).ok().stdout.into_bytes(), last);
    assert_eq!(server.requests().len(), asked, "nothing was sent");
}

#[test]
fn a_compaction_is_in_it_where_there_was_one_and_is_told_where_one_would_come() {
    let server = ModelServer::start();
    let home = home_with(&server);
    use_model(&home, "lab-openai/m");
    home.flock(["start", "-q"]).ok();
    for n in 0..4 {
        home.flock(["chat", "orchestrator", &format!("message {n} {}", "x".repeat(4_000))]).ok();
    }
    // One that takes less makes room first, in memory alone.
    edit(&home, |config| {
        let mut small = config["models"]["providers"]["lab-openai"].clone();
        small["models"][0]["contextWindow"] = json!(11_000);
        config["models"]["providers"]["lab-small"] = small;
    });
    let before = transcripts(&home);
    let small = request(&home, &["--session", SESSION, "--model", "lab-small/m"]).ok();
    assert!(
        small.stderr.contains("The conversation would be compacted first, from about "),
        "{}",
        small.stderr
    );
    assert!(small.stdout.contains("[HISTORY COMPRESSED]"), "{}", small.stdout);
    let told = request(&home, &["--session", SESSION, "--model", "lab-small/m", "--json"]).ok().json();
    let (tokens, after) = (told["tokens"].as_u64().unwrap(), told["compaction"]["after"].as_u64().unwrap());
    assert!(
        after < told["compaction"]["before"].as_u64().unwrap() && after < tokens && tokens < 11_000,
        "{told}"
    );
    assert_eq!(transcripts(&home), before);
    let whole = request(&home, &["--session", SESSION]).ok();
    assert!(
        !whole.stdout.contains("[HISTORY COMPRESSED]") && !whole.stderr.contains("compacted"),
        "{whole:#?}"
    );
    // One that is written is in every request after it.
    home.flock(["session", "compact", SESSION]).ok();
    server.reply(Reply::status(400, "not today"));
    home.flock(["chat", "orchestrator", "go on"]).fails(1);
    let sent = String::from_utf8(server.requests().pop().unwrap().bytes).unwrap();
    assert!(sent.contains("[HISTORY COMPRESSED]"), "{sent}");
    assert_eq!(request(&home, &["--session", SESSION]).ok().stdout, sent);
    home.flock(["stop", "-q"]).ok();
    assert_eq!(request(&home, &["--session", SESSION]).ok().stdout, sent);
}

#[test]
fn no_key_is_needed_for_it_and_none_is_read() {
    let home = TempHome::new().init();
    edit(&home, |config| {
        config["models"]["providers"]["mine"] = json!({"baseUrl": "https://models.example.org/v1",
            "apiKey": "env:FLOCK_TEST_NO_SUCH", "api": "openai-completions", "models": [{"id": "m", "name": "m"}]});
    });
    let text = |body: &Value, path: &str| body.pointer(path).unwrap().as_str().unwrap().to_owned();
    for (model, system) in [
        ("mine/m", "/messages/0/content"),
        ("openai/gpt-5.2", "/instructions"),
        ("anthropic/claude-opus-4-5", "/system/0/text"),
        ("google/gemini-3-pro-preview", "/systemInstruction/parts/0/text"),
        ("amazon-bedrock/anthropic.claude-sonnet-4-5-20250929-v1:0", "/system/0/text"),
        ("script/demo", "/system"),
    ] {
        let printed = request(&home, &["--model", model]).ok();
        let body: Value = serde_json::from_str(&printed.stdout).unwrap();
        assert!(text(&body, system).contains("## Project Context"), "{model}: {body}");
        assert!(printed.stderr.contains("0 messages") && printed.stderr.contains("changed nothing"));
    }
    // The agent's own model, where none is named.
    assert_eq!(request(&home, &["--json"]).ok().json()["model"], "script/demo");
}

#[test]
fn who_is_not_there_has_no_request() {
    let home = TempHome::new().init();
    for (line, code, told) in [
        (&["prompt", "show", "nobody", "--request"][..], 1, "nobody"),
        (&["prompt", "show", "orchestrator", "--request", "--session", SESSION], 1, "there is no session"),
        (
            &["prompt", "show", "sysadmin", "--request", "--session", SESSION],
            2,
            "does not belong to agent sysadmin",
        ),
        (&["prompt", "show", "orchestrator", "--request", "--model", "nowhere/m"], 1, "nowhere.baseUrl"),
        (&["prompt", "show", "orchestrator", "--request", "--model", "script/none"], 1, "script"),
        (&["prompt", "show", "orchestrator", "--request", "--model", "nonsense"], 2, "provider/model"),
        (&["prompt", "show", "orchestrator", "--model", "script/demo"], 2, "--request"),
    ] {
        let run = home.flock(line).fails(code);
        assert!(run.stderr.contains(told) && run.stdout.is_empty(), "{run:#?}");
    }
    edit(&home, |config| {
        config["plugins"]["entries"]["flock"]["config"]["gatewayAgents"][0]["runtime"] = json!("openclaw");
    });
    let run = request(&home, &[]).ok();
    let made = run.json();
    let system = made["body"]["messages"][0]["content"].as_str().unwrap();
    assert!(system.contains("orchestrator"), "what OpenClaw is told of the agent is shown: {system}");
    assert_eq!(
        (&made["agent"], &made["body"]["model"]),
        (&json!("orchestrator"), &json!("openclaw/orchestrator"))
    );
    let token = home.token();
    assert!(!run.stdout.contains(&token), "no token is in it");
}
