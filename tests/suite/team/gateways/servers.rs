//! An MCP server of two gateways: one of them runs it, and the agents of both call it.

use serde_json::json;

use super::{AGENTS, LIMIT, Pair};
use crate::gateway::process::port;
use crate::support::home::TempHome;
use crate::support::{postgres, wait_until};
use crate::team::stage::add;

const SERVER: &str = include_str!("../../../fixtures/mcp/server.py");

/// Counts its calls in the folder of the server, and says in which sandbox that is.
const COUNT: &str = "import os\nopen('/workspace/calls', 'a').write('x')\nresult = os.readlink('/proc/self/ns/pid'), \
    os.path.getsize('/workspace/calls')";

/// Two gateways with a server whose tool all agents may call.
fn pair() -> Option<Pair> {
    postgres::server()?;
    let first = TempHome::init_in_docker()?;
    let call = json!([{"steps": [
        {"calls": [{"name": "mcp_tools_do", "arguments": {"code": COUNT}}]},
        {"say": "{{last_result}}"},
    ]}]);
    let folder = first.file("mcp/tools/workspace");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("server.py"), SERVER).unwrap();
    for agent in AGENTS {
        add(&first, agent, &call);
    }
    first.flock(["mcp", "add", "tools", "--", "python3", "/workspace/server.py"]).ok();
    // The third and the fourth get it while the gateways run.
    for agent in &AGENTS[..2] {
        grant(&first, agent);
    }
    Some(Pair::of(first, |_| ()))
}

fn grant(home: &TempHome, agent: &str) {
    home.flock(["mcp", "grant", "tools", agent, "--tools", "do", "--yes"]).ok();
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
    let port = port(home);
    let count = pair.first.database().number(&format!(
        "SELECT count(*) FROM lease l JOIN gateway g ON g.epoch = l.epoch
         WHERE l.kind = 'server' AND l.subject = 'tools' AND g.address = '127.0.0.1:{port}'"
    ));
    count == 1
}

#[test]
fn agents_of_both_gateways_call_one_server_with_one_folder() {
    let Some(pair) = pair() else { return };
    let (first, second) = pair.start();
    let (mut count, mut place) = (0, None);
    for agent in AGENTS {
        if !AGENTS[..2].contains(&agent) {
            // A gateway that does not have the server has the other one show and grant its tools.
            grant(&pair.second, agent);
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
