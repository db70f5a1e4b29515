//! A home whose agents run on a stand-in of OpenClaw, with a gateway of flock's own and the plugin between the two.

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use flock::config::{self, Live, Role, agents, secret};
use flock::home::Home;
use flock::openclaw::{place, plugin};
use flock::process::ProcessId;
use flock::supervise::gateway_client::{Call, Client};
use flock::supervise::pid_file;
use serde_json::{Value, json};

use crate::support::home::{TempHome, free_port};
use crate::support::openclaw::{Era, Upstream};
use crate::support::wait_until;

pub const LIMIT: Duration = Duration::from_secs(60);
pub const PLUGIN_TOKEN: &str = "token-of-the-plugin";
const OPENCLAW_TOKEN: &str = "token-of-openclaw";

/// A process that ends with the value.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `coder` and `boss`, an orchestrator, run on OpenClaw, `tester` natively.
pub struct Stage {
    pub gateway: Option<Running>,
    openclaw: Option<Running>,
    pub home: TempHome,
    era: Era,
    upstream: Upstream,
    pub port: u16,
}

impl Stage {
    /// A home with the plugin, where nothing runs yet.
    pub fn new(era: Era) -> Self {
        let home = TempHome::new().init();
        let flock = Home::new(home.path(), None);
        config::edit(&flock, |document| {
            for agent in ["coder", "tester"] {
                let agent = agents::NewAgent::new(agent.parse().unwrap(), Role::Worker);
                agents::add(document, &flock, &agent).unwrap();
            }
            Ok::<_, config::ConfigError>(())
        })
        .unwrap();
        let file = home.file("config.json");
        let mut config = home.config();
        config["gateway"]["port"] = free_port().into();
        let own = &mut config["plugins"]["entries"]["flock"]["config"];
        let port = u16::try_from(own["gateway"]["port"].as_u64().unwrap()).unwrap();
        for agent in own["gatewayAgents"].as_array_mut().unwrap() {
            if agent["id"] == "coder" || agent["id"] == "orchestrator" {
                agent["runtime"] = "openclaw".into();
            }
        }
        std::fs::write(&file, config.to_string()).unwrap();
        let upstream = Upstream::new(era);
        let stage = Self { gateway: None, openclaw: None, home, era, upstream, port };
        stage.pretend_installed();
        let home = stage.flock();
        secret::set(&home, plugin::SECRET, PLUGIN_TOKEN).unwrap();
        secret::set(&home, place::TOKEN, OPENCLAW_TOKEN).unwrap();
        plugin::install(&home, &flock::tool::catalog::specs()).unwrap();
        stage
    }

    /// With both gateways running.
    pub fn running(era: Era) -> Self {
        let mut stage = Self::new(era);
        stage.start_openclaw();
        stage.start_gateway();
        stage
    }

    pub fn flock(&self) -> Home {
        Home::new(self.home.path(), None)
    }

    /// A version as an install leaves it, as far as a turn asks.
    fn pretend_installed(&self) {
        let commit = self.upstream.head();
        let folder = self.home.file(format!("gateways/openclaw/2026.2.9-{}", &commit[..12]));
        std::fs::create_dir_all(&folder).unwrap();
        let record = json!({
            "version": "2026.2.9", "commit": commit, "reference": "main", "follows": true,
            "origin": self.upstream.path(), "committedAt": 1, "builtAt": 1, "node": "/usr/bin/node",
            "nodeVersion": "22.0.0",
        });
        std::fs::write(folder.join("flock-install.json"), record.to_string()).unwrap();
        std::os::unix::fs::symlink(&folder, self.home.file("openclaw")).unwrap();
    }

    fn state(&self) -> PathBuf {
        self.home.outside().join("openclaw-state")
    }

    /// What OpenClaw was asked.
    pub fn requests(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.state().join("requests.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Has the stand-in do this wrong from its next start on.
    pub fn fault(&self, step: &str, how: &str) {
        self.upstream.fault(step, how);
    }

    /// Port and token of the OpenClaw that was started, and its process.
    pub fn openclaw(&self) -> (u16, &'static str, ProcessId) {
        let port = self.home.config()["gateway"]["port"].as_u64().unwrap();
        let process = self.openclaw.as_ref().unwrap().0.id();
        let process = ProcessId::of(i32::try_from(process).unwrap()).unwrap();
        (u16::try_from(port).unwrap(), OPENCLAW_TOKEN, process)
    }

    pub fn start_openclaw(&mut self) {
        let root = self.upstream.root();
        std::fs::create_dir_all(root.join("dist")).unwrap();
        std::fs::copy(root.join("src/gateway.mjs"), root.join("dist/gateway.mjs")).unwrap();
        let live = Live::open(self.flock()).unwrap();
        let config = live.current();
        let mut entry = json!({"enabled": true, "config": plugin::settings(&self.flock(), &config)});
        if self.era == Era::New {
            entry["hooks"] = json!({"allowConversationAccess": true});
        }
        let document = json!({
            "gateway": {"mode": "local", "port": config.openclaw.port, "auth": {"mode": "token", "token": OPENCLAW_TOKEN}},
            "agents": {"list": [{"id": "coder"}, {"id": "orchestrator"}]},
            "plugins": {"load": {"paths": [plugin::folder(&self.flock())]}, "entries": {"flock": entry}},
        });
        let file = self.home.outside().join("openclaw.json");
        std::fs::write(&file, document.to_string()).unwrap();
        let log = std::fs::File::create(self.home.outside().join("openclaw.log")).unwrap();
        let child = std::process::Command::new("node")
            .args(["openclaw.mjs", "gateway", "run"])
            .current_dir(&root)
            .env("OPENCLAW_CONFIG_PATH", file)
            .env("OPENCLAW_STATE_DIR", self.state())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let process = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        pid_file::write(&self.flock().pid_file("openclaw"), &pid_file::PidRecord { process, socket: None })
            .unwrap();
        self.openclaw = Some(Running(child));
        let started = self.state().join("started.json");
        wait_until("OpenClaw listens", LIMIT, || {
            started.exists().then_some(()).ok_or_else(|| self.log("openclaw.log"))
        });
    }

    pub fn start_gateway(&mut self) {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.home.outside().join("gateway.log"))
            .unwrap();
        let child =
            self.home.command().args(["gateway", "serve"]).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        self.gateway = Some(Running(child));
        let port = self.port;
        wait_until("the gateway is healthy", LIMIT, || {
            std::net::TcpStream::connect(("127.0.0.1", port)).map(drop).map_err(|_| self.log("gateway.log"))
        });
    }

    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.outside().join(name)).unwrap_or_default()
    }

    pub fn owner(&self) -> Client {
        let token = self.home.token();
        Client::new(self.port).with_token(&token)
    }

    pub fn plugin(&self) -> Client {
        Client::new(self.port).with_token(PLUGIN_TOKEN)
    }

    /// Status and body of a request.
    pub async fn send(&self, client: &Client, call: Call) -> (u16, Value) {
        let answer = client.send(call, LIMIT).await.unwrap();
        (answer.status(), answer.json(LIMIT).await.unwrap_or_default())
    }

    /// Asks an agent in a session, without a stream; status and body.
    pub async fn chat(&self, agent: &str, peer: &str, text: &str) -> (u16, Value) {
        let body = json!({"model": agent, "messages": [{"role": "user", "content": text}]});
        let key = format!("agent:{agent}:flock:main:{peer}");
        let call = Call::post("/v1/chat/completions").json(&body).unwrap();
        self.send(&self.owner(), call.header("x-openclaw-session-key", &key)).await
    }

    /// Calls a tool as the plugin does.
    pub async fn tool(&self, tool: &str, agent: &str, key: &str, params: Value) -> (u16, Value) {
        let body = json!({"agentId": agent, "sessionKey": key, "toolCallId": "c1", "params": params});
        let call = Call::post(&format!("/api/plugin/tools/{tool}")).json(&body).unwrap();
        self.send(&self.plugin(), call).await
    }

    /// The newest rows of the audit of tool calls.
    pub async fn audit(&self) -> Vec<Value> {
        let call = Call::get("/api/audit?action=tool.call&limit=50");
        let (status, body) = self.send(&self.owner(), call).await;
        assert_eq!(status, 200, "{body}");
        body["rows"].as_array().unwrap().clone()
    }

    /// All lines of an agent's transcripts.
    pub fn transcript(&self, agent: &str) -> Vec<Value> {
        let folder = self.home.file(format!("agents/{agent}/sessions"));
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let texts: Vec<String> = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
        texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// The text of an answer without a stream.
pub fn said(body: &Value) -> &str {
    body["choices"][0]["message"]["content"].as_str().unwrap_or_else(|| panic!("{body}"))
}
