//! An MCP server of two gateways: one of them runs it, and the agents of both call it.

use flock::supervise::gateway_client::Call;
use serde_json::{Value, json};

use super::http::json_of;
use super::{AGENTS, LIMIT, Pair};
use crate::support::docker::block_on;
use crate::support::home::TempHome;
use crate::support::{postgres, wait_until};
use crate::team::stage::add;

const SERVER: &str = include_str!("../../../fixtures/mcp/server.py");

/// Counts its calls in the folder of the server, and says in which sandbox that is.
const COUNT: &str = "import os\nopen('/workspace/calls', 'a').write('x')\nresult = os.readlink('/proc/self/ns/pid'), \
    os.path.getsize('/workspace/calls')";

/// A home whose agents call a tool of a server and say what it says.
fn home_that_calls(tool: &str, arguments: &Value) -> Option<TempHome> {
    postgres::server()?;
    let first = TempHome::init_in_docker()?;
    let call = json!([{"steps": [
        {"calls": [{"name": format!("mcp_tools_{tool}"), "arguments": arguments}]},
        {"say": "{{last_result}}"},
    ]}]);
    let folder = first.file("mcp/tools/workspace");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.py"), SERVER).unwrap();
    for agent in AGENTS {
        add(&first, agent, &call);
    }
    first.flock(["mcp", "add", "tools", "--", "python3", "/workspace/server.py"]).ok();
    Some(first)
}

fn grant(home: &TempHome, agent: &str, tool: &str) {
    home.flock(["mcp", "grant", "tools", agent, "--tools", tool, "--yes"]).ok();
}

/// Has an agent call the tool, by the gateway of a home. Returns the sandbox and the number of the call.
fn called(pair: &Pair, home: &TempHome, agent: &str) -> (String, usize) {
    let said = wait_until("the agent has called the tool", LIMIT, || {
        let run = home.flock(["chat", agent, "go"]);
        let is_answered = run.code == 0 && run.stdout.contains("of the MCP server tools");
        if is_answered { Ok(run.stdout) } else { Err(format!("{run:?}\n{}", pair.logs())) }
    });
    let result = said.rsplit_once("('").and_then(|(_, rest)| rest.split_once("', "));
    let (place, count) = result.unwrap_or_else(|| panic!("{said}"));
    let digits: String = count.chars().take_while(char::is_ascii_digit).collect();
    (place.to_owned(), digits.parse().unwrap())
}

/// Returns `true` if the gateway of a home has the server.
fn has_server(pair: &Pair, home: &TempHome) -> bool {
    let port = home.port();
    let count = pair.first.database().number(&format!(
        "SELECT count(*) FROM lease l JOIN gateway g ON g.epoch = l.epoch
         WHERE l.kind = 'server' AND l.subject = 'tools' AND g.address = '127.0.0.1:{port}'"
    ));
    count == 1
}

#[test]
fn agents_of_both_gateways_call_one_server_with_one_folder() {
    let Some(home) = home_that_calls("do", &json!({"code": COUNT})) else { return };
    // The third and the fourth get it while the gateways run.
    for agent in &AGENTS[..2] {
        grant(&home, agent, "do");
    }
    let pair = Pair::of(home, |_| ());
    let (first, second) = pair.start();
    let (mut count, mut place) = (0, None);
    for agent in AGENTS {
        if !AGENTS[..2].contains(&agent) {
            // A gateway that does not have the server has the other one show and grant its tools.
            grant(&pair.second, agent, "do");
        }
        for home in [&pair.first, &pair.second] {
            let (sandbox, number) = called(&pair, home, agent);
            count += 1;
            assert_eq!(number, count, "{agent}: the folder is one\n{}", pair.logs());
            assert_eq!(*place.get_or_insert_with(|| sandbox.clone()), sandbox, "{agent}");
        }
    }
    // The gateway that runs it dies. The other one goes on with the same folder.
    let (dies, left) = if has_server(&pair, &pair.first) { (first, second) } else { (second, first) };
    let home = if has_server(&pair, &pair.first) { &pair.second } else { &pair.first };
    dies.kill();
    for agent in AGENTS {
        let (sandbox, number) = called(&pair, home, agent);
        count += 1;
        assert_eq!(number, count, "{agent}: {}", pair.logs());
        assert_ne!(Some(sandbox), place);
    }
    left.stop();
}

/// Waits until a question waits. Returns its id. Both gateways list the same.
fn asked(pair: &Pair) -> String {
    let listed = |home: &TempHome| {
        block_on(async {
            json_of(home.owner().send(Call::get("/api/approvals"), LIMIT).await.unwrap()).await
        })
    };
    let open = wait_until("a question waits", LIMIT, || {
        let open = listed(&pair.first);
        if open["requests"][0].is_object() { Ok(open) } else { Err(pair.logs()) }
    });
    assert_eq!(listed(&pair.second), open);
    for home in [&pair.first, &pair.second] {
        let status = home.flock(["status", "--json"]).ok().json();
        assert_eq!(status["approvalsWaiting"], 1, "{status}");
    }
    open["requests"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_person_answers_a_question_of_a_server_at_any_gateway() {
    let Some(home) = home_that_calls("elicit", &json!({})) else { return };
    for agent in AGENTS {
        grant(&home, agent, "elicit");
        home.flock(["mcp", "grant", "tools", agent, "--elicitation", "--yes"]).ok();
    }
    let pair = &Pair::of(home, |_| ());
    let (first, second) = pair.start();
    wait_until("a gateway has the server", LIMIT, || {
        let has = has_server(pair, &pair.first) || has_server(pair, &pair.second);
        has.then_some(()).ok_or_else(|| pair.logs())
    });
    let is_first = has_server(pair, &pair.first);
    let (dies, left) = if is_first { (first, second) } else { (second, first) };
    let (with, without) = if is_first { (&pair.first, &pair.second) } else { (&pair.second, &pair.first) };
    let agent_of = |home: &TempHome| AGENTS.into_iter().find(|agent| pair.has(home, agent)).unwrap();
    std::thread::scope(|scope| {
        let chat = |agent: &'static str| scope.spawn(move || without.flock(["chat", agent, "go"]));
        for agent in [agent_of(with), agent_of(without)] {
            for home in [with, without] {
                let chat = chat(agent);
                let id = asked(pair);
                home.flock(["approvals", "approve", &id, "--yes"]).fails(1);
                home.flock(["approvals", "answer", &id, "table=notes", "rows=none"]).fails(1);
                let answered = home.flock(["approvals", "answer", &id, "table=notes", "--json"]).ok().json();
                assert_eq!(answered["request"]["state"], "done", "{answered}\n{}", pair.logs());
                let said = chat.join().unwrap().ok().stdout;
                for part in [r#""action": "accept""#, r#""table": "notes""#, r#""rows": 10"#] {
                    assert!(said.contains(part), "{said}\n{}", pair.logs());
                }
            }
            let chat = chat(agent);
            without.flock(["approvals", "deny", &asked(pair)]).ok();
            let said = chat.join().unwrap().ok().stdout;
            assert!(said.contains(r#""action": "decline""#), "{said}\n{}", pair.logs());
        }
        // The gateway of the call dies, and the agent's goes on.
        let chat = chat(agent_of(without));
        let id = asked(pair);
        dies.kill();
        let said = chat.join().unwrap().ok().stdout;
        assert!(said.contains("was lost before it answered"), "{said}\n{}", pair.logs());
        wait_until("the question is over", LIMIT, || {
            let found = without.flock(["approvals", "show", &id, "--json"]).ok().json();
            let state = &found["request"]["state"];
            if state == "expired" { Ok(()) } else { Err(format!("{state}\n{}", pair.logs())) }
        });
        without.flock(["approvals", "answer", &id, "table=notes"]).fails(1);
    });
    left.stop();
}
