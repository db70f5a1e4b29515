//! What agents ask for and a person decides: on the command line with and without a gateway, over HTTP, and
//! across the death of a gateway in the middle.

use std::path::PathBuf;

use flock::clock::unix_ms;
use flock::home::Home;
use flock::id::{AgentId, SessionKey, SessionKind};
use flock::store::{Along, AuditEntry, Level, NewRequest, RequestRow, RequestState, Scope, Store};
use flock::supervise::gateway_client::{Call, Client};
use flock::swarm::triage::{Execution, FiledRequest, Request};
use serde_json::{Value, json};

use crate::gateway::house::{House, LIMIT};
use crate::support::home::TempHome;
use crate::support::wait_until;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn request(home: &Home, id: &str, agent: &str, request: Value, expires_at: i64) -> NewRequest {
    let agent: AgentId = agent.parse().unwrap();
    let mut request: Request = serde_json::from_value(request).unwrap();
    if let Request::Command { execution, .. } = &mut request {
        *execution = Some(Execution::new(home, id));
    }
    let kind = request.kind();
    NewRequest {
        id: id.to_owned(),
        kind,
        session: SessionKey::new(&agent, SessionKind::Main, "ann"),
        body: FiledRequest { agent: agent.clone(), request }.body(),
        agent,
        channel: None,
        reason: "it is needed".to_owned(),
        floor: Level::Red,
        why: vec!["it runs on the host".to_owned()],
        state: RequestState::Waiting,
        scope: Scope::Once,
        asks_sysadmin: false,
        expires_at,
        exchange: None,
        now: unix_ms(),
    }
}

fn along() -> Along {
    Along::audit(AuditEntry {
        actor: "orchestrator".to_owned(),
        action: "request.ask",
        subject: "x".to_owned(),
        level: Level::Red,
        detail: String::new(),
        session: None,
        turn: None,
    })
}

/// Puts a request of the orchestrator for a command on the host into the home's database.
pub fn wants(home: &TempHome, id: &str, command: &str, expires_at: i64) {
    let home = Home::locate(Some(&home.path())).unwrap();
    let store = Store::open(&home).unwrap();
    let new = request(&home, id, "orchestrator", json!({"kind": "command", "command": command}), expires_at);
    assert!(block_on(store.requests().add(new, along())).unwrap());
}

/// Puts a folder of the host that this agent was granted into the home's database.
pub fn has_mount(home: &TempHome, id: &str, agent: &str, path: &std::path::Path) {
    let home = Home::locate(Some(&home.path())).unwrap();
    let store = Store::open(&home).unwrap();
    let new = NewRequest {
        state: RequestState::Done,
        scope: Scope::Agent,
        ..request(&home, id, agent, json!({"kind": "mount", "path": path}), later())
    };
    assert!(block_on(store.requests().add(new, along())).unwrap());
}

pub fn later() -> i64 {
    unix_ms() + 3_600_000
}

fn until(home: &TempHome, id: &str, state: &str) {
    wait_until(state, LIMIT, || {
        let row = shown(home, id);
        if row["state"] == state { Ok(()) } else { Err(row.to_string()) }
    });
}

/// Where commands of the tests write: beside the home, where no agent can.
fn ran(home: &TempHome) -> PathBuf {
    home.outside().join("ran.txt")
}

fn shown(home: &TempHome, id: &str) -> Value {
    home.flock(["approvals", "show", id, "--json"]).ok().json()["request"].clone()
}

#[test]
fn a_command_that_the_sysadmin_wants_to_run_waits_for_a_person_and_is_run_once_approved() {
    let home = TempHome::new().init();
    let command = format!("echo ran >> {}", ran(&home).display());
    let script = json!({"replies": [
        {"when": "outcome of your request", "steps": [{"say": "Seen."}]},
        {"steps": [
            {"calls": [{"name": "exec", "arguments": {"command": command}}]},
            {"say": "{{last_result}}"},
        ]},
    ]});
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file("scripts/host.json"), script.to_string()).unwrap();
    home.flock(["config", "set", "agents.list[sysadmin].model.primary", "script/host.json"]).ok();
    home.flock(["start", "-q"]).ok();
    let ask = || {
        let said = home.flock(["chat", "sysadmin", "go", "--json"]).ok().json();
        let open = home.flock(["approvals", "list", "--json"]).ok().json();
        let row = open["requests"][0].clone();
        let id = row["id"].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (&row["kind"], &row["level"], &row["state"]),
            (&json!("command"), &json!("RED"), &json!("waiting"))
        );
        assert!(!id.is_empty() && said["text"].as_str().unwrap().contains(&id), "{said}");
        id
    };
    let approved = ask();
    assert!(!ran(&home).exists(), "nothing has run");
    home.flock(["approvals", "approve", &approved]).ok();
    until(&home, &approved, "done");
    // Approved once is not approved again.
    let denied = ask();
    home.flock(["approvals", "deny", &denied]).ok();
    let again = home.flock(["chat", "sysadmin", "go", "--json"]).ok().json();
    assert!(again["text"].as_str().unwrap().contains("denied exactly this"), "{again}");
    assert_eq!(home.flock(["approvals", "list", "--json"]).ok().json()["requests"], json!([]));
    assert_eq!(std::fs::read_to_string(ran(&home)).unwrap(), "ran\n");
    home.flock(["stop", "-q"]).ok();
}

#[test]
fn a_person_decides_without_a_gateway_and_what_was_approved_runs_once_at_the_next_start() {
    let home = TempHome::new().init();
    let none = home.flock(["approvals", "list", "--json"]).ok().json();
    assert_eq!(none, json!({"requests": []}));
    let file = ran(&home);
    wants(&home, "r-first", &format!("echo ran >> {}", file.display()), later());
    wants(&home, "r-second", &format!("echo never >> {}", file.display()), later());
    wants(&home, "r-late", &format!("echo late >> {}", file.display()), unix_ms() - 1);
    let listed = home.flock(["approvals", "list", "--json"]).ok().json();
    let summary = format!("run on the host: echo ran >> {}", file.display());
    assert_eq!(listed["requests"][0]["summary"], summary);
    assert_eq!(home.flock(["status", "--json"]).json()["approvalsWaiting"], 3);

    let row = home.flock(["approvals", "approve", "r-first", "--json"]).ok().json();
    assert_eq!(
        (&row["request"]["state"], &row["request"]["decidedBy"]),
        (&json!("approved"), &json!("human:ann"))
    );
    home.flock(["approvals", "approve", "r-first"]).fails(1);
    home.flock(["approvals", "deny", "r-second", "--reason", "no"]).ok();
    home.flock(["approvals", "approve", "r-second"]).fails(1);
    home.flock(["approvals", "approve", "r-late"]).fails(1);
    home.flock(["approvals", "approve", "r-nothing"]).fails(1);
    home.flock(["approvals", "show", "../../x"]).fails(1);
    assert_eq!(shown(&home, "r-late")["state"], "expired");

    for _ in 0..2 {
        home.flock(["start", "-q"]).ok();
        until(&home, "r-first", "done");
        home.flock(["stop", "-q"]).ok();
    }
    let written = std::fs::read_to_string(ran(&home)).unwrap();
    assert_eq!(written, "ran\n", "it ran once, and nothing else ran");
}

#[test]
fn what_ran_when_the_gateway_was_killed_has_an_unknown_outcome_and_does_not_run_again() {
    let home = TempHome::new().init();
    home.flock(["start", "-q"]).ok();
    let (file, pid) = (ran(&home), home.outside().join("pid.txt"));
    let command = format!("echo begun >> {}; echo $$ > {}; exec sleep 600", file.display(), pid.display());
    wants(&home, "r-long", &command, later());
    let row = home.flock(["approvals", "approve", "r-long", "--json"]).ok().json();
    assert_eq!(row["request"]["state"], "running");
    // It is running as soon as that is written down; the command itself begins after that.
    let command: i64 = wait_until("the command has begun", LIMIT, || {
        let text = std::fs::read_to_string(&pid).unwrap_or_default();
        text.strip_suffix('\n').and_then(|pid| pid.parse().ok()).ok_or(text)
    });
    let gateway = home.flock(["status", "--json"]).ok().json()["gateway"]["pid"].as_i64().unwrap();
    let kill = |pid: i64| {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    };
    kill(gateway);
    until(&home, "r-long", "failed");
    kill(command);
    assert_eq!(shown(&home, "r-long")["result"], "interrupted, outcome unknown");
    home.flock(["approvals", "approve", "r-long"]).fails(1);
    home.flock(["stop", "-q"]).ok();
    assert_eq!(std::fs::read_to_string(ran(&home)).unwrap(), "begun\n");
}

#[test]
fn what_the_sysadmin_leaves_in_its_workspace_does_not_run_with_an_approved_command() {
    let home = TempHome::new().init();
    let (planted, seen) = (home.outside().join("planted"), home.outside().join("seen"));
    // git asks this program what has changed, with the rights of whoever runs git.
    let config = format!("[core]\n\tfsmonitor = \"touch {}; false\"\n", planted.display());
    let workspace = home.file("workspaces/sysadmin");
    for (path, text) in [
        (".git/HEAD", "ref: refs/heads/main\n"),
        (".git/config", &config),
        (".envrc", "touch planted"),
        ("Makefile", "all:\n\ttouch planted\n"),
    ] {
        let path = workspace.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for folder in [".git/objects", ".git/refs"] {
        std::fs::create_dir_all(workspace.join(folder)).unwrap();
    }
    let look = format!("pwd > {0}; ls -A >> {0}; stat -c %a . >> {0}", seen.display());
    wants(&home, "r-status", &format!("git status --short; make; {look}"), later());
    let row = shown(&home, "r-status");
    let folder =
        home.file("run/commands/r-status").canonicalize().unwrap_or(home.file("run/commands/r-status"));
    let lines = row["shown"].as_array().unwrap();
    assert!(lines.iter().any(|line| line.as_str().unwrap().starts_with("folder: ")), "{row}");
    home.flock(["approvals", "approve", "r-status"]).ok();
    home.flock(["start", "-q"]).ok();
    wait_until("it has run", LIMIT, || {
        let row = shown(&home, "r-status");
        if ["done", "failed"].iter().any(|state| row["state"] == *state) {
            Ok(())
        } else {
            Err(row.to_string())
        }
    });
    home.flock(["stop", "-q"]).ok();
    assert!(!planted.exists() && !workspace.join("planted").exists(), "what an agent wrote did not run");
    let seen = std::fs::read_to_string(seen).unwrap();
    assert_eq!(seen, format!("{}\n700\n", folder.display()), "it ran in an empty folder of its own");
    assert!(!folder.exists(), "which is gone");
}

#[test]
fn a_file_of_an_agents_that_changed_after_the_approval_is_not_run() {
    let home = TempHome::new().init();
    let (script, file) = (home.file("workspaces/sysadmin/tidy.sh"), ran(&home));
    let say = |word: &str| std::fs::write(&script, format!("echo {word} >> {}\n", file.display())).unwrap();
    say("good");
    let replies = json!({"replies": [
        {"when": "outcome of your request", "steps": [{"say": "Seen."}]},
        {"steps": [
            {"calls": [{"name": "exec", "arguments": {"command": format!("sh {}", script.display())}}]},
            {"say": "{{last_result}}"},
        ]},
    ]});
    std::fs::create_dir_all(home.file("scripts")).unwrap();
    std::fs::write(home.file("scripts/host.json"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.list[sysadmin].model.primary", "script/host.json"]).ok();
    home.flock(["start", "-q"]).ok();
    let ask = || {
        home.flock(["chat", "sysadmin", "go"]).ok();
        let open = home.flock(["approvals", "list", "--json"]).ok().json();
        open["requests"][0].clone()
    };
    let row = ask();
    let id = row["id"].as_str().unwrap().to_owned();
    assert!(row["why"].to_string().contains("it names what an agent can write"), "{row}");
    let text = home.flock(["approvals", "show", &id]).ok().stdout;
    assert!(text.contains("an agent can write: ") && text.contains("tidy.sh (a file, sha256 "), "{text}");
    say("evil");
    home.flock(["approvals", "approve", &id]).fails(1);
    until(&home, &id, "failed");
    let row = shown(&home, &id);
    assert!(row["result"].as_str().unwrap().contains("changed after this was asked for"), "{row}");
    assert!(!file.exists(), "nothing has run");
    // What is there now can be asked for, and runs.
    say("good");
    let id = ask()["id"].as_str().unwrap().to_owned();
    home.flock(["approvals", "approve", &id]).ok();
    until(&home, &id, "done");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "good\n");
    home.flock(["stop", "-q"]).ok();
}

async fn row(house: &House, id: &str) -> RequestRow {
    house.gateway.swarm.store().requests().find(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn over_http_only_the_owners_token_decides_and_only_about_what_was_shown() {
    let house = House::new().await;
    let store = house.gateway.swarm.store().clone();
    let home = house.gateway.swarm.home();
    let new = request(home, "r-http", "coder", json!({"kind": "command", "command": "true"}), later());
    assert!(store.requests().add(new, along()).await.unwrap());
    let sha256 = row(&house, "r-http").await.sha256;
    let approve = |client: Client, body: Value| async move {
        let call = Call::post("/api/approvals/r-http/approve").json(&body).unwrap();
        let answer = client.send(call, LIMIT).await.unwrap();
        (answer.status(), answer.json::<Value>(LIMIT).await.unwrap())
    };
    let whole = json!({"sha256": sha256, "by": "ann"});
    for stranger in [Client::new(house.port), Client::new(house.port).with_token("agent-token")] {
        assert_eq!(approve(stranger, whole.clone()).await.0, 401);
    }
    for (body, status) in [
        (json!({}), 400),
        (json!({"sha256": sha256, "agent": "coder"}), 400),
        (json!({"sha256": "0".repeat(64)}), 409),
    ] {
        assert_eq!(approve(house.owner(), body.clone()).await.0, status, "{body}");
    }
    assert_eq!(row(&house, "r-http").await.state, RequestState::Waiting);
    let listed: Value = house.owner().get_json("/api/approvals", LIMIT).await.unwrap();
    assert_eq!(listed["requests"][0]["body"], row(&house, "r-http").await.body);
    let (status, answer) = approve(house.owner(), whole.clone()).await;
    assert_eq!((status, &answer["request"]["state"]), (200, &json!("done")), "{answer}");
    assert_eq!(answer["request"]["result"], "worked");
    let (status, answer) = approve(house.owner(), whole).await;
    assert_eq!((status, &answer["error"]["code"]), (409, &json!("already_decided")));
    let missing = house.owner().send(Call::get("/api/approvals/r-none"), LIMIT).await.unwrap();
    assert_eq!(missing.status(), 404);
    house.stopped().await;
}

#[tokio::test]
async fn a_client_decides_only_with_the_right_and_for_its_agents() {
    let house = House::new().await;
    let store = house.gateway.swarm.store().clone();
    for (id, agent) in [("r-ours", "coder"), ("r-theirs", "tester"), ("r-denied", "coder")] {
        let home = house.gateway.swarm.home();
        let new = request(home, id, agent, json!({"kind": "command", "command": "true"}), later());
        assert!(store.requests().add(new, along()).await.unwrap());
    }
    let mut clients = Vec::new();
    for (name, rights) in [("chatter", json!(["chat", "read", "a2a"])), ("boss", json!(["approve"]))] {
        let wanted = json!({"name": name, "agents": ["coder"], "rights": rights});
        let made = house.owner().send(Call::post("/api/tokens").json(&wanted).unwrap(), LIMIT).await.unwrap();
        let made: Value = made.json(LIMIT).await.unwrap();
        clients.push(Client::new(house.port).with_token(made["token"].as_str().unwrap()));
    }
    let (chatter, boss) = (&clients[0], &clients[1]);
    let decide = async |client: &Client, id: &str, verb: &str, by: Option<&str>| {
        let mut body =
            if verb == "approve" { json!({"sha256": row(&house, id).await.sha256}) } else { json!({}) };
        if let Some(by) = by {
            body["by"] = by.into();
        }
        let call = Call::post(&format!("/api/approvals/{id}/{verb}")).json(&body).unwrap();
        client.send(call, LIMIT).await.unwrap().status()
    };
    for verb in ["approve", "deny", "revoke"] {
        assert_eq!(decide(chatter, "r-ours", verb, None).await, 403, "{verb} without the right");
        assert_eq!(decide(boss, "r-theirs", verb, None).await, 403, "{verb} for another agent");
        assert_eq!(decide(boss, "r-ours", verb, Some("ann")).await, 403, "{verb} as somebody else");
    }
    assert_eq!(row(&house, "r-ours").await.state, RequestState::Waiting);
    let listed: Value = boss.get_json("/api/approvals", LIMIT).await.unwrap();
    let mut ids: Vec<&str> =
        listed["requests"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["r-denied", "r-ours"]);
    assert_eq!(decide(boss, "r-ours", "approve", None).await, 200);
    assert_eq!(decide(boss, "r-denied", "deny", Some("boss")).await, 200);
    for id in ["r-ours", "r-denied"] {
        assert_eq!(row(&house, id).await.decided_by.as_deref(), Some("human:token:boss"), "{id}");
    }
    let audit: Value = house.owner().get_json("/api/audit?action=request.approve", LIMIT).await.unwrap();
    assert_eq!(audit["rows"][0]["actor"], "human:token:boss", "{audit}");
    house.stopped().await;
}
