//! MCP servers in real sandboxes: granted and called over the whole way, and each wall tried from inside.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flock::config::Live;
use flock::gateway::mcp;
use flock::home::Home;
use flock::id::{SessionKey, SessionKind, TurnId};
use flock::mcp::{SandboxLauncher, Servers, sandbox_source};
use flock::provider::Block;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::engine::Engine;
use flock::store::Store;
use flock::tool::{CallContext, ToolError, ToolSource as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::egress::{Elsewhere, GET, server};
use super::walls::ATTACKS;
use crate::support::docker::{self, docker as docker_command};
use crate::support::home::TempHome;
use crate::support::wait_until;

const SERVER: &str = include_str!("../../fixtures/mcp/server.py");
/// A value that may be seen by the server alone.
const PLANTED: &str = "sk-planted-4711-only-for-the-server";

/// Writes the program of a server to the folder that is its workspace.
fn write_program(home: &TempHome, server: &str) {
    let folder = home.file(format!("mcp/{server}/workspace"));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.py"), SERVER).unwrap();
}

fn container(home: &TempHome, server: &str) -> String {
    home.container("x").replace("flock-sbx-x", &format!("flock-mcp-{server}"))
}

/// Calls the granted tools of `coder` in this process.
struct Caller {
    servers: Arc<Servers>,
    live: Arc<Live>,
}

impl Caller {
    async fn open(home: &TempHome) -> Self {
        Self::with(home, mcp::servers).await
    }

    /// With servers whose connections lead to a server of the test, wherever they are meant to lead.
    async fn open_elsewhere(home: &TempHome, dial: &Arc<Elsewhere>) -> Self {
        Self::with(home, |live, store| {
            let (home, newest) = (live.home().clone(), Arc::clone(live));
            let source = sandbox_source(home.clone(), Arc::new(move || newest.current()));
            let sandbox = DockerSandbox::new(home.clone(), source, Arc::new(Engine::from_env()));
            let launcher = SandboxLauncher::new(home, sandbox.with_dial(Arc::<Elsewhere>::clone(dial)));
            Servers::new(Arc::clone(live), Arc::clone(store), Arc::new(launcher))
        })
        .await
    }

    async fn with(home: &TempHome, servers: impl FnOnce(&Arc<Live>, &Arc<Store>) -> Arc<Servers>) -> Self {
        let home = Home::locate(Some(&home.path())).unwrap();
        let live = Arc::new(Live::open(home.clone()).unwrap());
        let store = Arc::new(Store::open(&home).unwrap());
        let servers = servers(&live, &store);
        servers.refresh().await.unwrap();
        Self { servers, live }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let agent: flock::id::AgentId = "coder".parse().unwrap();
        let config = self.live.current();
        let tools = self.servers.tools(config.agent(&agent).unwrap());
        let tool = tools.iter().find(|found| found.spec().name == tool).expect("it is granted");
        let session = SessionKey::new(&agent, SessionKind::Main, "ann");
        let (turn, cancel) = (TurnId::new(), CancellationToken::new());
        let context = CallContext { agent, session, turn, cancel, progress: None };
        let texts = |content: Vec<Block>| -> String {
            let texts = content.into_iter().map(|block| match block {
                Block::Text { text, .. } => text,
                _ => String::new(),
            });
            texts.collect::<Vec<_>>().join("\n")
        };
        match tool.call(&context, &arguments).await {
            Ok(output) => Ok(texts(output.content)),
            Err(ToolError::ForModel(text)) => Err(text),
            Err(error) => panic!("{error}"),
        }
    }

    /// Runs Python inside the server's own process and returns its `result`.
    async fn python(&self, code: &str) -> String {
        let said = self.call("mcp_tools_do", json!({"code": code})).await.unwrap();
        said.split_once('\n').map_or(said.clone(), |(_, rest)| rest.to_owned())
    }
}

#[test]
fn a_server_is_added_granted_called_by_an_agent_and_removed() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let replies = json!({"replies": [{"steps": [
        {"calls": [{"name": "mcp_tools_echo", "arguments": {"text": "hello from outside"}}]},
        {"say": "It said: {{last_result}}"},
    ]}]});
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file("scripts/coder.json"), replies.to_string()).unwrap();
    home.flock(["add", "coder", "--model", "script/coder.json"]).ok();
    write_program(&home, "tools");
    home.flock(["mcp", "add", "tools", "--memory", "256m", "--", "python3", "/workspace/server.py"]).ok();
    home.flock(["mcp", "add", "tools", "--", "x"]).fails(5);
    let found = home.flock(["mcp", "test", "tools", "--json"]).ok().json();
    assert!(found["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "echo"), "{found}");
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "echo"]).fails(2);
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "nothing", "--yes"]).fails(1);
    let granted =
        home.flock(["mcp", "grant", "tools", "coder", "--tools", "echo", "--yes", "--json"]).ok().json();
    assert_eq!(granted["offeredAs"], json!(["mcp_tools_echo"]));
    assert_eq!(
        docker_command(&["ps", "-aq", "--filter", &format!("name=^{}$", container(&home, "tools"))]),
        ""
    );
    home.flock(["start"]).ok();
    let said = home.flock(["chat", "coder", "go"]).ok().stdout;
    assert!(said.contains("hello from outside") && said.contains("of the MCP server tools"), "{said}");
    let inspected = "{{.HostConfig.Memory}} {{.HostConfig.NetworkMode}} {{.HostConfig.ReadonlyRootfs}}";
    assert_eq!(
        docker_command(&["inspect", "-f", inspected, &container(&home, "tools")]),
        "268435456 none true"
    );
    let listed = home.flock(["mcp", "list", "--json"]).ok().json();
    assert_eq!(listed["servers"][0]["running"], true, "{listed}");
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("mcp.grant") && audit.contains("mcp_tools_echo"), "{audit}");
    home.flock(["mcp", "revoke", "tools", "coder"]).ok();
    let said = home.flock(["chat", "coder", "go"]).ok().stdout;
    assert!(said.contains("there is no tool"), "{said}");
    home.flock(["mcp", "remove", "tools", "--yes"]).ok();
    assert_eq!(
        docker_command(&["ps", "-aq", "--filter", &format!("name=^{}$", container(&home, "tools"))]),
        ""
    );
    home.flock(["mcp", "show", "tools"]).fails(1);
    home.flock(["stop"]).ok();
}

#[test]
fn the_walls_of_an_agent_stand_around_a_server_too() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder", "--no-container"]).ok();
    std::fs::write(home.file("workspaces/coder/private.txt"), "private").unwrap();
    write_program(&home, "tools");
    write_program(&home, "other");
    std::fs::write(home.file("mcp/other/workspace/private.txt"), "private").unwrap();
    home.flock(["mcp", "add", "tools", "--secret", "API_KEY", "--", "python3", "/workspace/server.py"]).ok();
    home.flock(["mcp", "test", "tools"]).fails(1);
    home.flock_with_input(["mcp", "secret", "tools", "API_KEY"], PLANTED).ok();
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "do,env", "--yes"]).ok();
    docker::block_on(async {
        let caller = Caller::open(&home).await;
        let secret = caller.call("mcp_tools_env", json!({"name": "API_KEY"})).await.unwrap();
        assert!(secret.contains(&format!("{PLANTED}|/secrets/API_KEY|{PLANTED}")), "{secret}");
        // Where an engine, a list of processes or an agent could show it.
        let name = container(&home, "tools");
        let inspected = docker_command(&["inspect", &name]);
        assert!(inspected.contains("flock.mcp") && !inspected.contains(PLANTED));
        assert!(!docker_command(&["top", &name, "-eo", "pid,args"]).contains(PLANTED));
        let network = "import socket\nresult = []\nfor where in [('1.1.1.1', 443), ('172.17.0.1', 80)]:\n  try:\n    \
            socket.create_connection(where, 2); result.append(where)\n  except OSError: pass";
        assert_eq!(caller.python(network).await, "[]", "there is no network");
        let writes = "import os\nresult = []\nfor path in ['/x', '/usr/x', '/nix/x', '/secrets/x', '/secrets/API_KEY', '/flock-helper']:\n  \
            try:\n    open(path, 'w').write('x'); result.append(path)\n  except OSError: pass";
        assert_eq!(caller.python(writes).await, "[]", "nothing but its folder can be written");
        let reads = "import subprocess\nresult = subprocess.run(['sh', '-c', 'find / -xdev -name private.txt 2>/dev/null; \
            ls /workspace'], capture_output=True, text=True).stdout";
        let seen = caller.python(reads).await;
        assert!(!seen.contains("private") && seen.contains("server.py"), "{seen}");
        let rights = "import os\nresult = [line for line in open('/proc/self/status') if line.startswith(('CapEff', 'NoNewPrivs', \
            'Seccomp:'))]";
        let rights = caller.python(rights).await;
        assert!(
            rights.contains("CapEff:\\t0000000000000000") && rights.contains("NoNewPrivs:\\t1"),
            "{rights}"
        );
        let attacks = format!(
            "import subprocess\nresult = subprocess.run(['sh', '-c', {ATTACKS:?}], capture_output=True, text=True).stdout"
        );
        assert_eq!(caller.python(&attacks).await.trim(), "nothing");
        let user = caller.python("import os\nresult = os.getuid()").await;
        assert_ne!(user.trim(), "0");
        caller.servers.stop_all().await;
    });
    assert!(!home.file("run/mcp-secrets/tools/API_KEY").exists(), "the copy is gone with the server");
    let own = home.file("secrets/mcp-tools.API_KEY");
    assert_eq!(
        files_with(&home.path(), PLANTED),
        [own],
        "the secret is in its file and nowhere else in the home"
    );
}

#[test]
fn a_server_reaches_the_hosts_that_it_was_added_with_and_no_others() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder", "--no-container"]).ok();
    for (name, more) in [("tools", &["--egress", "files.example"][..]), ("other", &[])] {
        write_program(&home, name);
        let line = [&["mcp", "add", name], more, &["--", "python3", "/workspace/server.py"]].concat();
        home.flock(line).ok();
        home.flock(["mcp", "grant", name, "coder", "--tools", "do", "--yes"]).ok();
    }
    docker::block_on(async {
        let dial = Arc::new(Elsewhere { server: server().await, connected: Mutex::default() });
        let caller = Caller::open_elsewhere(&home, &dial).await;
        let fetched = caller.python(&format!("{GET}\nresult = get('http://files.example/a?b')")).await;
        assert_eq!(fetched, "(200, b'GET /a?b HTTP/1.1 | files.example | ')");
        assert_eq!(
            dial.connected.lock().unwrap().drain(..).collect::<Vec<_>>(),
            ["93.184.215.14:80".parse().unwrap()]
        );
        let said = format!(
            "{GET}\nresult = [get('http://mixed.example/')[0], tunnel('mixed.example:443')[0], tunnel('files.example:22')[0]]"
        );
        assert_eq!(caller.python(&said).await, "[403, 403, 403]");
        // Its list is no other server's, and the way out is not even there for one that has none.
        let direct = "import socket\nresult = socket.socket().connect_ex(('127.0.0.1', 3128)) != 0";
        let said = caller.call("mcp_other_do", json!({"code": direct})).await.unwrap();
        assert!(said.ends_with("\nTrue"), "{said}");
        assert_eq!(dial.connected.lock().unwrap().len(), 0, "nothing else was connected to");
        caller.servers.stop_all().await;
    });
}

/// A flake with a package `nodejs`, built without a network. Its program runs Python.
fn flake_with_node(folder: &Path) -> String {
    let flake = folder.join("flake");
    std::fs::create_dir_all(&flake).unwrap();
    let script = r##"mkdir -p $out/bin; printf '#!/bin/sh\nFROM_THE_STORE=yes exec python3 \"$@\"\n' > $out/bin/node; chmod 755 $out/bin/node"##;
    let package = format!(
        r#"derivation {{ name = "nodejs"; system = "x86_64-linux"; builder = "/bin/sh"; PATH = "/usr/bin:/bin"; args = [ "-c" "{script}" ]; }}"#
    );
    let text =
        format!("{{ outputs = {{ self }}: {{ packages.x86_64-linux = {{ nodejs = {package}; }}; }}; }}");
    std::fs::write(flake.join("flake.nix"), text).unwrap();
    format!("path:{}", flake.display())
}

#[test]
fn a_package_from_the_nix_store_is_in_the_sandbox_of_its_server_alone() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let flake = flake_with_node(&home.outside());
    home.flock(["config", "set", "plugins.entries.flock.config.nix.flake", &flake]).ok();
    home.flock(["add", "coder", "--no-container"]).ok();
    let program = ["--", "node", "/workspace/server.py"];
    for (name, more) in [("tools", &["--packages", "nodejs"][..]), ("other", &[])] {
        write_program(&home, name);
        home.flock([&["mcp", "add", name], more, &program].concat()).ok();
    }
    let missing = home.flock(["mcp", "test", "other"]).fails(1);
    assert!(missing.stderr.contains("node"), "{missing:?}");
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "do", "--yes"]).ok();
    docker::block_on(async {
        let caller = Caller::open(&home).await;
        let code = "import os, shutil\nresult = os.environ['FROM_THE_STORE'], shutil.which('node')";
        let said = caller.python(code).await;
        assert!(said.starts_with("('yes', '/nix/var/nix/profiles/"), "{said}");
        caller.servers.stop_all().await;
    });
    home.flock(["mcp", "add", "third", "--packages", "no-such-package", "--", "node"]).fails(1);
    home.flock(["mcp", "show", "third"]).fails(1);
}

#[test]
fn a_changed_definition_waits_for_a_person_and_is_approved_as_it_was_shown() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let calls =
        |tool: &str| json!({"calls": [{"name": format!("mcp_tools_{tool}"), "arguments": {"text": "x"}}]});
    let replies = json!({"replies": [
        {"when": "change", "steps": [calls("change"), {"say": "{{last_result}}"}]},
        {"steps": [calls("echo"), {"say": "{{last_result}}"}]},
    ]});
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file("scripts/coder.json"), replies.to_string()).unwrap();
    home.flock(["add", "coder", "--model", "script/coder.json", "--no-container"]).ok();
    write_program(&home, "tools");
    home.flock(["mcp", "add", "tools", "--", "python3", "/workspace/server.py"]).ok();
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "echo,change", "--yes"]).ok();
    home.flock(["start"]).ok();
    home.flock(["chat", "coder", "change"]).ok();
    let said = home.flock(["chat", "coder", "go"]).ok().stdout;
    assert!(said.contains("differently") && said.contains("waits for a person"), "{said}");
    let listed = home.flock(["mcp", "list"]).ok().stdout;
    assert!(listed.contains("waits for you"), "{listed}");
    let open = home.flock(["approvals", "list", "--json"]).ok().json();
    let id = open["requests"][0]["id"].as_str().unwrap().to_owned();
    let shown = home.flock(["approvals", "show", &id]).ok().stdout;
    assert!(shown.contains("| +") && shown.contains(".env"), "the difference is shown: {shown}");
    home.flock(["approvals", "approve", &id, "--yes"]).ok();
    wait_until("the tool can be used again", Duration::from_secs(60), || {
        let said = home.flock(["chat", "coder", "go"]).ok().stdout;
        if said.contains("[result of the tool echo") { Ok(()) } else { Err(said) }
    });
    home.flock(["stop"]).ok();
}

#[test]
fn a_server_asks_the_model_of_the_agent_that_calls_it_within_its_budget() {
    let Some(home) = TempHome::init_in_docker() else { return };
    // The model answers the server's question as it answers a person's, and says what it has used.
    let sample = json!({"calls": [{"name": "mcp_tools_sample", "arguments": {}}]});
    let replies = json!({"replies": [
        {"when": "sample me", "steps": [{"say": "sampled answer", "usage": {"input": 100, "output": 20}}]},
        {"when": "much", "steps": [{"calls": sample["calls"], "usage": {"input": 900_000}}, {"say": "{{last_result}}"}]},
        {"steps": [sample, {"say": "{{last_result}}"}]},
    ]});
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file("scripts/coder.json"), replies.to_string()).unwrap();
    home.flock(["add", "coder", "--model", "script/coder.json", "--no-container"]).ok();
    write_program(&home, "tools");
    home.flock(["mcp", "add", "tools", "--", "python3", "/workspace/server.py"]).ok();
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "sample", "--yes"]).ok();
    home.flock(["start"]).ok();
    let said = home.flock(["chat", "coder", "go"]).ok().stdout;
    assert!(said.contains("-32601") && said.contains("not granted"), "{said}");
    home.flock(["mcp", "grant", "tools", "coder", "--sampling"]).fails(2);
    let granted = home.flock(["mcp", "grant", "tools", "coder", "--sampling", "--yes", "--json"]).ok().json();
    assert_eq!(granted["granted"]["capabilities"], json!(["sampling"]), "{granted}");
    let said = home.flock(["chat", "coder", "go"]).ok().stdout;
    assert!(said.contains("sampled answer") && said.contains("endTurn"), "{said}");
    assert!(said.contains("tools asked your model 1 times") && said.contains("120 tokens"), "{said}");
    let shown = home.flock(["mcp", "show", "tools", "--json"]).ok().json();
    let lent = &shown["server"]["capabilities"][0];
    assert_eq!((&lent["agent"], &lent["today"]["tokens"]), (&json!("coder"), &json!(120)), "{shown}");
    let text = home.flock(["mcp", "show", "tools"]).ok().stdout;
    assert!(text.contains("sampling   the model of coder (1 calls and 120 tokens today"), "{text}");
    let sums = home.flock(["usage", "--by", "server", "--json"]).ok().json();
    let (name, calls) = (&sums["usage"][0]["name"], &sums["usage"][0]["calls"]);
    assert_eq!((name, calls), (&json!("tools"), &json!(1)), "{sums}");
    let budgets = json!({"agent": {"coder": {"tokens": 900_000}}}).to_string();
    home.flock(["config", "set", "plugins.entries.flock.config.budgets", &budgets]).ok();
    // The first call of the turn uses the rest up, and neither the server nor the turn gets another answer.
    drop(home.flock(["chat", "coder", "much"]));
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("mcp.sample") && audit.contains("answered by coder.json, 120 tokens"), "{audit}");
    assert!(audit.contains("refused: the agent's budget has no room for this"), "{audit}");
    home.flock(["mcp", "revoke", "tools", "coder", "--sampling"]).ok();
    let shown = home.flock(["mcp", "show", "tools", "--json"]).ok().json();
    assert_eq!(shown["server"]["capabilities"], json!([]), "{shown}");
    assert_eq!(shown["server"]["grants"][0]["tool"], "sample", "the tool stays granted: {shown}");
    home.flock(["stop"]).ok();
}

#[test]
fn a_person_answers_a_question_of_a_server() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let elicit = json!({"calls": [{"name": "mcp_tools_elicit", "arguments": {}}]});
    let replies = json!({"replies": [{"steps": [elicit, {"say": "{{last_result}}"}]}]});
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file("scripts/coder.json"), replies.to_string()).unwrap();
    home.flock(["add", "coder", "--model", "script/coder.json", "--no-container"]).ok();
    write_program(&home, "tools");
    home.flock(["mcp", "add", "tools", "--", "python3", "/workspace/server.py"]).ok();
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "elicit", "--yes"]).ok();
    home.flock(["start"]).ok();
    let said = home.flock(["chat", "coder", "go"]).ok().stdout;
    assert!(said.contains("-32601"), "{said}");
    home.flock(["mcp", "grant", "tools", "coder", "--elicitation", "--yes"]).ok();
    // The chat waits for the answer that is given meanwhile.
    let asked = || {
        let mut id = String::new();
        wait_until("a question waits", Duration::from_secs(60), || {
            let open = home.flock(["approvals", "list", "--json"]).ok().json();
            match open["requests"][0]["id"].as_str() {
                Some(found) => {
                    found.clone_into(&mut id);
                    Ok(())
                }
                None => Err(open.to_string()),
            }
        });
        id
    };
    std::thread::scope(|scope| {
        let chat = scope.spawn(|| home.flock(["chat", "coder", "go"]).ok().stdout);
        let id = asked();
        let shown = home.flock(["approvals", "show", &id]).ok().stdout;
        assert!(
            shown.contains("| Which table?") && shown.contains("| field table (a text, required)"),
            "{shown}"
        );
        home.flock(["approvals", "approve", &id, "--yes"]).fails(1);
        home.flock(["approvals", "answer", &id]).fails(1);
        home.flock(["approvals", "answer", &id, "table=notes", "rows=none"]).fails(1);
        let answered = home.flock(["approvals", "answer", &id, "table=notes", "--json"]).ok().json();
        assert_eq!(answered["request"]["kind"], "mcp-question", "{answered}");
        let said = chat.join().unwrap();
        for part in [r#""action": "accept""#, r#""table": "notes""#, r#""rows": 10"#] {
            assert!(said.contains(part), "{said}");
        }
        let chat = scope.spawn(|| home.flock(["chat", "coder", "go"]).ok().stdout);
        home.flock(["approvals", "deny", &asked()]).ok();
        assert!(chat.join().unwrap().contains(r#""action": "decline""#));
        // A question does not outlive its gateway.
        let chat = scope.spawn(|| home.flock(["chat", "coder", "go"]));
        let id = asked();
        home.flock(["stop"]).ok();
        chat.join().unwrap();
        home.flock(["start"]).ok();
        wait_until("the question is over", Duration::from_secs(60), || {
            let found = home.flock(["approvals", "show", &id, "--json"]).ok().json();
            let state = found["request"]["state"].clone();
            if state == "expired" { Ok(()) } else { Err(state.to_string()) }
        });
        home.flock(["approvals", "answer", &id, "table=notes"]).fails(1);
    });
    let audit = home.flock(["audit", "--json"]).ok().stdout;
    assert!(audit.contains("mcp.elicit") && audit.contains("request.approve"), "{audit}");
    home.flock(["stop"]).ok();
}

#[test]
fn an_idle_server_is_stopped_with_its_sandbox_and_started_again() {
    let Some(home) = TempHome::init_in_docker() else { return };
    home.flock(["add", "coder", "--no-container"]).ok();
    write_program(&home, "tools");
    home.flock(["mcp", "add", "tools", "--idle-minutes", "1", "--", "python3", "/workspace/server.py"]).ok();
    home.flock(["mcp", "grant", "tools", "coder", "--tools", "echo", "--yes"]).ok();
    docker::block_on(async {
        let caller = Caller::open(&home).await;
        caller.call("mcp_tools_echo", json!({"text": "x"})).await.unwrap();
        let name = container(&home, "tools");
        let filter = format!("name=^{name}$");
        let there = || !docker_command(&["ps", "-aq", "--filter", &filter]).is_empty();
        assert!(there());
        let deadline = Instant::now() + Duration::from_secs(120);
        while there() {
            assert!(Instant::now() < deadline, "it is never stopped");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        caller.call("mcp_tools_echo", json!({"text": "x"})).await.unwrap();
        // Killed from outside, it is started again too.
        docker_command(&["kill", &name]);
        let again = caller.call("mcp_tools_echo", json!({"text": "x"})).await;
        if again.is_err() {
            caller.call("mcp_tools_echo", json!({"text": "x"})).await.unwrap();
        }
        caller.servers.stop_all().await;
    });
}

/// Returns the files below a folder that contain a text.
fn files_with(folder: &Path, text: &str) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_with(&entry.path(), text));
        } else if kind.is_file() {
            let bytes = std::fs::read(entry.path()).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(entry.path());
            }
        }
    }
    found
}
