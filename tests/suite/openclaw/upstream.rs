//! The stand-in itself: what it shares with the real one is what the other tests rely on.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::home::{Run, finish, free_port};
use crate::support::openclaw::{Era, Upstream};
use crate::support::wait_until;

/// Installs and builds in the working tree.
fn built(era: Era) -> Upstream {
    let upstream = Upstream::new(era);
    for step in ["install", "ui", "build"] {
        let line = ["scripts/step.mjs", step];
        assert_eq!(node(&upstream).args(line).status().unwrap().code(), Some(0));
    }
    upstream
}

fn node(upstream: &Upstream) -> Command {
    let mut command = Command::new("node");
    command.current_dir(upstream.root()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs the gateway with this configuration to its end.
fn run(upstream: &Upstream, config: &Value) -> Run {
    finish(gateway(upstream, config).stdout(Stdio::piped()).stderr(Stdio::piped()))
}

fn gateway(upstream: &Upstream, config: &Value) -> Command {
    let file = upstream.root().join("../openclaw.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let mut command = node(upstream);
    command
        .args(["openclaw.mjs", "gateway", "run"])
        .env("OPENCLAW_CONFIG_PATH", file)
        .env("OPENCLAW_STATE_DIR", upstream.root().join("../state"));
    command
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn config(port: u16) -> Value {
    json!({
        "gateway": {"mode": "local", "port": port, "auth": {"mode": "token", "token": "t0ken"}},
        "agents": {"list": [{"id": "coder"}]},
    })
}

#[test]
fn it_refuses_what_the_real_one_refuses_with_the_same_code() {
    for (era, code) in [(Era::Old, 1), (Era::New, 78)] {
        let upstream = built(era);
        let mut unknown = config(1);
        unknown["flock"] = json!({});
        let told = run(&upstream, &unknown).fails(code);
        assert!(told.stderr.contains("Unrecognized key: \"flock\""), "{told:?}");
        run(&upstream, &json!({"gateway": {"auth": {"token": "t"}}})).fails(code);
        let mut hooks = config(1);
        hooks["gateway"]["host"] = json!("127.0.0.1");
        run(&upstream, &hooks).fails(code);
    }
}

#[test]
fn it_answers_what_only_it_answers() {
    let upstream = built(Era::Old);
    let port = free_port();
    let _running = Running(gateway(&upstream, &config(port)).spawn().unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = reqwest_client();
    let ask = |token: &str, body: Value| {
        let url = format!("http://127.0.0.1:{port}/v1/chat/completions");
        let request = client.post(url).bearer_auth(token).body(body.to_string());
        runtime.block_on(async {
            let answer = request.send().await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            Ok::<_, String>((status, answer.text().await.map_err(|error| error.to_string())?))
        })
    };
    let (status, text) =
        wait_until("the gateway answers", Duration::from_secs(30), || ask("t0ken", json!({})));
    assert_eq!(status, 400);
    assert!(text.contains("Missing user message"), "{text}");
    assert_eq!(ask("wrong", json!({})).unwrap().0, 401);
    let hello = json!({"model": "openclaw:coder", "messages": [{"role": "user", "content": "hello"}]});
    assert!(ask("t0ken", hello).unwrap().1.contains("coder heard (1): hello"));
}

fn reqwest_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy().build().unwrap()
}

#[test]
fn a_step_fails_when_it_is_told_to() {
    let upstream = built(Era::Old);
    upstream.fault("build", "fail");
    let told = finish(
        node(&upstream).args(["scripts/step.mjs", "build"]).stdout(Stdio::piped()).stderr(Stdio::piped()),
    )
    .fails(1);
    assert!(told.stderr.contains("build is told to fail"), "{told:?}");
    upstream.mend();
    finish(node(&upstream).args(["scripts/step.mjs", "build"])).ok();
}
