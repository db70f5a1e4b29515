//! What agents ask for and a person decides: on the command line with and without a gateway, over HTTP, and
//! across the death of a gateway in the middle.

use std::sync::Arc;

use flock::clock::unix_ms;
use flock::home::Home;
use flock::id::{AgentId, SessionKey, SessionKind};
use flock::store::{Along, AuditEntry, Level, NewRequest, RequestRow, RequestState, Scope, Store};
use flock::supervise::loopback::{Call, Client};
use flock::swarm::triage::{Asked, Hands, Request, Triage};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::gateway::house::{House, LIMIT};
use crate::support::home::TempHome;
use crate::support::wait_until;

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

fn request(id: &str, agent: &str, request: Value, expires_at: i64) -> NewRequest {
    let agent: AgentId = agent.parse().unwrap();
    let request: Request = serde_json::from_value(request).unwrap();
    let kind = request.kind();
    NewRequest {
        id: id.to_owned(),
        kind,
        session: SessionKey::new(&agent, SessionKind::Main, "ann"),
        body: Asked { agent: agent.clone(), request }.body(),
        agent,
        channel: None,
        reason: "it is needed".to_owned(),
        floor: Level::Red,
        why: vec!["it runs on the host".to_owned()],
        state: RequestState::Waiting,
        scope: Scope::Once,
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
    let store = Store::open(&Home::locate(Some(&home.path())).unwrap()).unwrap();
    let new = request(id, "orchestrator", json!({"kind": "command", "command": command}), expires_at);
    assert!(block_on(store.open_request(new, along())).unwrap());
}

/// Puts a folder of the host that this agent was granted into the home's database.
pub fn has_mount(home: &TempHome, id: &str, agent: &str, path: &std::path::Path) {
    let store = Store::open(&Home::locate(Some(&home.path())).unwrap()).unwrap();
    let new = NewRequest {
        state: RequestState::Done,
        scope: Scope::Agent,
        ..request(id, agent, json!({"kind": "mount", "path": path}), later())
    };
    assert!(block_on(store.open_request(new, along())).unwrap());
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

fn shown(home: &TempHome, id: &str) -> Value {
    home.flock(["approvals", "show", id, "--json"]).ok().json()["request"].clone()
}

#[test]
fn a_command_that_the_sysadmin_wants_to_run_waits_for_a_person_and_is_run_once_approved() {
    let home = TempHome::new().init();
    let script = json!({"replies": [
        {"when": "outcome of your request", "steps": [{"say": "Seen."}]},
        {"steps": [
            {"calls": [{"name": "exec", "arguments": {"command": "echo ran >> ran.txt"}}]},
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
    assert!(!home.file("workspaces/sysadmin/ran.txt").exists(), "nothing has run");
    home.flock(["approvals", "approve", &approved]).ok();
    until(&home, &approved, "done");
    // Approved once is not approved again.
    let denied = ask();
    home.flock(["approvals", "deny", &denied]).ok();
    let again = home.flock(["chat", "sysadmin", "go", "--json"]).ok().json();
    assert!(again["text"].as_str().unwrap().contains("denied exactly this"), "{again}");
    assert_eq!(home.flock(["approvals", "list", "--json"]).ok().json()["requests"], json!([]));
    assert_eq!(std::fs::read_to_string(home.file("workspaces/sysadmin/ran.txt")).unwrap(), "ran\n");
    home.flock(["stop", "-q"]).ok();
}

#[test]
fn a_person_decides_without_a_gateway_and_what_was_approved_runs_once_at_the_next_start() {
    let home = TempHome::new().init();
    let none = home.flock(["approvals", "list", "--json"]).ok().json();
    assert_eq!(none, json!({"requests": []}));
    wants(&home, "r-first", "echo ran >> ran.txt", later());
    wants(&home, "r-second", "echo never >> ran.txt", later());
    wants(&home, "r-late", "echo late >> ran.txt", unix_ms() - 1);
    let listed = home.flock(["approvals", "list", "--json"]).ok().json();
    assert_eq!(listed["requests"][0]["summary"], "run on the host: echo ran >> ran.txt");
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
    let written = std::fs::read_to_string(home.file("workspaces/sysadmin/ran.txt")).unwrap();
    assert_eq!(written, "ran\n", "it ran once, and nothing else ran");
}

#[test]
fn what_ran_when_the_gateway_was_killed_has_an_unknown_outcome_and_does_not_run_again() {
    let home = TempHome::new().init();
    home.flock(["start", "-q"]).ok();
    wants(&home, "r-long", "echo begun >> ran.txt; echo $$ > pid.txt; exec sleep 600", later());
    let row = home.flock(["approvals", "approve", "r-long", "--json"]).ok().json();
    assert_eq!(row["request"]["state"], "running");
    let gateway = home.flock(["status", "--json"]).ok().json()["gateway"]["pid"].as_i64().unwrap();
    let kill = |pid: i64| {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(pid).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
    };
    kill(gateway);
    until(&home, "r-long", "failed");
    let command = std::fs::read_to_string(home.file("workspaces/sysadmin/pid.txt")).unwrap();
    kill(command.trim().parse().unwrap());
    assert_eq!(shown(&home, "r-long")["result"], "interrupted, outcome unknown");
    home.flock(["approvals", "approve", "r-long"]).fails(1);
    home.flock(["stop", "-q"]).ok();
    assert_eq!(std::fs::read_to_string(home.file("workspaces/sysadmin/ran.txt")).unwrap(), "begun\n");
}

/// Hands that do nothing and say so.
struct Idle;

impl Hands for Idle {
    fn carry_out<'a>(
        &'a self,
        _asked: &'a Asked,
        _cancel: &'a CancellationToken,
    ) -> flock::provider::BoxFuture<'a, Result<String, String>> {
        Box::pin(std::future::ready(Ok("worked".to_owned())))
    }
}

async fn row(house: &House, id: &str) -> RequestRow {
    house.gateway.swarm.store().request(id).unwrap().unwrap()
}

#[tokio::test]
async fn over_http_only_the_owners_token_decides_and_only_about_what_was_shown() {
    let house = House::new().await;
    let triage = Triage::new(Arc::clone(&house.gateway.swarm), Arc::new(Idle));
    assert!(house.gateway.triage.set(triage).is_ok());
    let store = house.gateway.swarm.store().clone();
    let new = request("r-http", "coder", json!({"kind": "command", "command": "true"}), later());
    assert!(store.open_request(new, along()).await.unwrap());
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
