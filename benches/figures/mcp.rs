//! A call of an MCP server's tool in a turn, against the same server asked without flock.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::home::Home;
use crate::http::Connection;
use crate::{Sample, docker, row, stub};

const SERVER: &str = include_str!("../../tests/fixtures/mcp/server.py");
/// Calls of one turn.
const CALLS: usize = 20;
const TURNS: usize = 30;

pub fn run() {
    if !docker::answers() {
        row("MCP", "no engine answers");
        return;
    }
    let home = Home::new(stub::start());
    home.flock(&["init", "--yes"]);
    home.fill(3);
    let folder = home.path().join("mcp/tools/workspace");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("server.py");
    std::fs::write(&program, SERVER).unwrap();
    let most = CALLS.to_string();
    home.flock(&["mcp", "add", "tools", "--calls-per-turn", &most, "--", "python3", "/workspace/server.py"]);
    home.flock(&["mcp", "grant", "tools", "agent-2", "--tools", "echo", "--yes"]);
    let (_gateway, _) = home.serve();
    let mut client = Connection::open(home.port, &home.token).unwrap();
    let mut turn = |calls: usize| {
        stub::CALLS.store(calls, Ordering::Relaxed);
        client.chat("agent-2", None).unwrap()
    };
    // The first call starts the server.
    turn(1);
    let (mut plain, mut calling, mut direct) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that a machine that gets slower slows all.
    for _ in 0..TURNS {
        plain.push(turn(0));
        calling.push(turn(CALLS));
        direct.extend(directly(&program));
    }
    let (plain, calling, direct) = (Sample::from(plain), Sample::from(calling), Sample::from(direct));
    let each = calling.median().saturating_sub(plain.median()) / u32::try_from(CALLS).unwrap();
    row("a call of an MCP server, asked directly", &direct);
    row("a turn without a call", &plain);
    row(&format!("a turn with {CALLS} calls of it, one after the other"), &calling);
    row("one call of them, with policy, audit, transcript and the request to the model after it", ms(each));
    row("so a call costs at most", ms(each.saturating_sub(direct.median())));
}

fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// Asks the same program over its own streams. Returns the time of each call.
fn directly(program: &Path) -> Vec<Duration> {
    let mut child =
        Command::new("python3").arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut ask = |id: usize, method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.contains("result"), "{line}");
    };
    ask(0, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}));
    let times = (1..=CALLS).map(|id| {
        let began = Instant::now();
        ask(id, "tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
        began.elapsed()
    });
    let times = times.collect();
    child.kill().unwrap();
    child.wait().unwrap();
    times
}
