//! The traces of turns whose commands, or whose programs, run in a real sandbox.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::json;

use crate::support::collector::{Collector, attribute, text_of};
use crate::support::home::TempHome;
use crate::support::model_server::ModelServer;
use crate::support::wait_until;

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

/// A program that runs turns by ACP. It calls a tool of flock's and asks its model, and names a span of its own choice as
/// the parent of both, in each place in which a client could.
const PROGRAM: &str = r#"#!/bin/bash
parent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
ask() {
    local url=${1#http://} answer
    local host=${url%%/*}
    exec 3<>"/dev/tcp/${host%:*}/${host#*:}"
    printf 'POST /%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\ntraceparent: %s\r\ntracestate: rojo=1\r\nConnection: close\r\nContent-Length: %s\r\n\r\n%s' \
        "${url#*/}" "$host" "$2" "$parent" "${#3}" "$3" >&3
    answer=$(cat <&3)
    exec 3>&-
    echo "${answer%%$'\r'*}"
}
while IFS= read -r line; do
    [[ $line =~ \"id\":([0-9]+) ]] && id=${BASH_REMATCH[1]}
    case $line in
    *'"method":"initialize"'*)
        echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}}'
        ;;
    *'"method":"session/new"'*)
        [[ $line =~ \"Bearer\ ([^\"]+)\" ]] && token=${BASH_REMATCH[1]}
        echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"sessionId":"s1"}}'
        ;;
    *'"method":"session/prompt"'*)
        posted=$(ask "$FLOCK_MCP_URL" "$token" '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"flock_channel_post","arguments":{"channelId":"dev","message":"from inside"},"_meta":{"traceparent":"'"$parent"'"}}}')
        asked=$(ask "$OPENAI_BASE_URL/chat/completions" "$OPENAI_API_KEY" '{"model":"m","messages":[{"role":"user","content":"hi"}]}')
        echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"posted: '"$posted"', asked: '"$asked"'"}}}}'
        echo '{"jsonrpc":"2.0","id":'"$id"',"result":{"stopReason":"end_turn"}}'
        ;;
    esac
done
"#;

#[test]
fn a_program_in_a_sandbox_can_not_choose_the_parent_of_its_spans() {
    let Some(home) = TempHome::init_in_docker() else { return };
    let (collector, models) = (Collector::start(), ModelServer::start());
    let program = home.outside().join("some-agent");
    std::fs::write(&program, PROGRAM).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = home.config();
    config["models"]["providers"]["lab"] = json!({"baseUrl": models.openai_url(), "apiKey": "sk-of-the-lab",
        "api": "openai-completions", "models": [{"id": "m", "contextWindow": 100_000}]});
    // The model's server is told which span asks it.
    config["plugins"]["entries"]["flock"]["config"]["telemetry"] =
        json!({"otlp": {"endpoint": collector.url(), "propagateToModels": true}});
    std::fs::write(home.file("config.json"), config.to_string()).unwrap();
    let runtime = format!("acp:{}", program.display());
    home.flock(["add", "far", "--runtime", &runtime, "--model", "lab/m"]).ok();
    home.flock(["channel", "create", "dev", "--topic", "x", "--member", "far"]).ok();
    home.flock(["start", "-q"]).ok();
    let said = home.flock(["chat", "far", "go on"]).ok().stdout;
    assert!(said.contains("posted: HTTP/1.1 200 OK, asked: HTTP/1.1 200 OK"), "{said}");

    let is_child = |child: &Span, parent: &Span| {
        child.trace_id == parent.trace_id && child.parent_span_id == parent.span_id
    };
    let (call, chat) = wait_until("a turn with its call and its model call", Duration::from_secs(30), || {
        let spans = collector.spans();
        let below = |parent: &Span, name: &str| {
            spans.iter().find(|span| span.name.starts_with(name) && is_child(span, parent)).cloned()
        };
        let turns = spans.iter().filter(|span| {
            span.name == "invoke_agent far" && attribute(span, "flock.turn.origin") == "request"
        });
        let mut found = turns.filter_map(|turn| {
            Some((below(turn, "execute_tool flock_channel_post")?, below(turn, "chat m")?))
        });
        found.next().ok_or_else(|| format!("{spans:#?}"))
    });
    let posts = collector.spans_named("post dev", 1);
    assert!(posts.iter().any(|post| is_child(post, &call)), "{posts:#?}");
    // What it named is nowhere: not in flock's spans, and not in what a model's server is told.
    let chosen = |id: &[u8]| id[..4] == [0x4b, 0xf9, 0x2f, 0x35];
    for span in collector.spans() {
        assert!(!chosen(&span.trace_id) && span.trace_state.is_empty(), "{span:?}");
        assert!(span.links.iter().all(|link| !chosen(&link.trace_id)), "{span:?}");
    }
    let trace: String = chat.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let told: Vec<String> =
        models.requests().iter().map(|request| request.header("traceparent").to_owned()).collect();
    assert!(told.iter().any(|parent| parent.contains(&trace)), "{told:?} without {trace}");
    assert!(told.iter().all(|parent| !parent.contains("4bf92f35")), "{told:?}");
    home.flock(["stop"]).ok();
}
