//! The trace of a turn whose tool runs a command in a real sandbox.

use serde_json::json;

use crate::support::collector::{Collector, attribute, text_of};
use crate::support::home::TempHome;

#[test]
fn a_command_in_a_sandbox_is_below_its_call_with_its_exit_code() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let collector = Collector::start();
    let replies = json!({"replies": [{"steps": [
        {"calls": [{"name": "exec", "arguments": {"command": "echo of-the-command; exit 3"}}]},
        {"say": "ran"},
    ]}]});
    std::fs::write(home.file("scripts/test"), replies.to_string()).unwrap();
    home.flock(["config", "set", "agents.defaults.model.primary", "script/test"]).ok();
    let endpoint = "plugins.entries.flock.config.telemetry.otlp.endpoint";
    home.flock(["config", "set", endpoint, &collector.url()]).ok();
    home.flock(["add", "coder"]).ok();
    home.flock(["start"]).ok();
    home.flock(["chat", "coder", "run it"]).ok();

    let command = collector.span("sandbox exec");
    let call = collector.span("execute_tool exec");
    let turn = collector.span("invoke_agent coder");
    assert_eq!(
        (command.parent_span_id.clone(), command.trace_id.clone()),
        (call.span_id.clone(), call.trace_id.clone())
    );
    assert_eq!((call.parent_span_id.clone(), &call.trace_id), (turn.span_id.clone(), &turn.trace_id));
    assert!(turn.parent_span_id.is_empty());
    assert_eq!(attribute(&command, "process.exit.code"), "3");
    assert_eq!(attribute(&command, "error.type"), "exit_code");
    assert!(command.start_time_unix_nano >= call.start_time_unix_nano);
    assert!(command.end_time_unix_nano <= call.end_time_unix_nano);
    assert_eq!(text_of(&command.attributes, "process.command_line"), None);
    for received in collector.received() {
        assert!(!String::from_utf8_lossy(&received.body).contains("of-the-command"));
    }
    home.flock(["stop"]).ok();
}
