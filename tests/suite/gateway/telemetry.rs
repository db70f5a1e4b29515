//! Spans and metrics, as a collector gets them from the real program.

use std::time::{Duration, Instant};

use flock::config::agents::{self, NewAgent};
use flock::config::{self, Role};
use nix::sys::signal::Signal;
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use serde_json::{Value, json};

use super::process::{Process, edit, get, log_text, play};
use crate::support::collector::{Collector, Reply, attribute, text_of};
use crate::support::home::TempHome;
use crate::support::model_server::{self, ModelServer};
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);
const PLANTED: &str = "planted-secret-of-no-known-form-4711";

/// A home whose gateway sends to this collector, with these settings besides.
fn home(collector: &Collector, more: &Value) -> TempHome {
    let home = TempHome::new().init();
    // In the configuration alone: the command line would ask for an engine.
    let opened = flock::home::Home::new(home.path(), None);
    let coder = NewAgent::new("coder".parse().unwrap(), Role::Worker);
    config::edit(&opened, |document| agents::add(document, &opened, &coder)).unwrap();
    std::fs::create_dir_all(home.file("workspaces/coder")).unwrap();
    send_to(&home, collector, more);
    home
}

fn send_to(home: &TempHome, collector: &Collector, more: &Value) {
    let mut otlp = json!({"endpoint": collector.url(), "metricsSeconds": 1});
    otlp.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    edit(home, |config| config["plugins"]["entries"]["flock"]["config"]["telemetry"] = json!({"otlp": otlp}));
}

/// Replies that read a file and then answer.
fn reading() -> Value {
    json!([{"steps": [
        {"say": "looking", "calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]},
        {"say": "done with it"},
    ]}])
}

/// Returns the report of the gateway about its telemetry.
fn status(home: &TempHome) -> Value {
    let token = home.token();
    let answer = get(home.port(), "/api/status", &token).unwrap();
    let body = answer.split_once("\r\n\r\n").unwrap().1;
    let start = body.find('{').unwrap();
    let end = body.rfind('}').unwrap();
    serde_json::from_str::<Value>(&body[start..=end]).unwrap()["telemetry"].clone()
}

fn is_child(child: &Span, parent: &Span) -> bool {
    child.trace_id == parent.trace_id && child.parent_span_id == parent.span_id
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_turn_is_one_trace_with_its_calls_and_without_contents() {
    let collector = Collector::start();
    let home = home(&collector, &json!({"headers": {"Authorization": "secret:otlp.authorization"}}));
    std::fs::write(home.file("secrets/otlp.authorization"), "Basic of-the-collector\n").unwrap();
    std::fs::write(home.file("workspaces/coder/notes.txt"), "what only the agent reads").unwrap();
    play(&home, &reading());
    let _gateway = Process::start(&home);
    home.flock(["chat", "coder", "please look at the notes"]).ok();

    let turn = collector.span("invoke_agent coder");
    let calls = collector.spans_named("chat test", 2);
    let tool = collector.span("execute_tool read");
    assert!(turn.parent_span_id.is_empty());
    assert_eq!((turn.trace_id.len(), turn.span_id.len()), (16, 8));
    assert!(calls.iter().all(|call| is_child(call, &turn)) && is_child(&tool, &turn));
    assert_eq!(turn.kind, SpanKind::Internal as i32);
    assert!(calls.iter().all(|call| call.kind == SpanKind::Client as i32));
    for span in calls.iter().chain([&tool]) {
        assert!(turn.start_time_unix_nano <= span.start_time_unix_nano);
        assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        assert!(span.end_time_unix_nano <= turn.end_time_unix_nano);
    }
    for (key, value) in [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", "coder"),
        ("gen_ai.provider.name", "script"),
        ("gen_ai.request.model", "test"),
        ("flock.turn.origin", "request"),
        ("flock.turn.steps", "2"),
    ] {
        assert_eq!(attribute(&turn, key), value, "{key}");
    }
    assert!(attribute(&turn, "gen_ai.conversation.id").starts_with("agent:coder:flock:main:"));
    for (key, value) in [("gen_ai.operation.name", "chat"), ("gen_ai.agent.name", "coder")] {
        assert!(calls.iter().all(|call| attribute(call, key) == value), "{key}");
    }
    assert_eq!(attribute(&calls[0], "gen_ai.response.finish_reasons"), "tool_call");
    assert_eq!(attribute(&calls[1], "gen_ai.response.finish_reasons"), "stop");
    let tokens = |span: &Span, key: &str| attribute(span, key).parse::<u64>().unwrap();
    for key in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
        assert_eq!(tokens(&turn, key), tokens(&calls[0], key) + tokens(&calls[1], key), "{key}");
    }
    for (key, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "read"),
        ("gen_ai.tool.type", "function"),
        ("flock.tool.decision", "allow"),
    ] {
        assert_eq!(attribute(&tool, key), value, "{key}");
    }
    assert!(tool.status.is_none() && turn.status.is_none());

    // Nothing of what was said, read or answered has left the machine.
    for received in collector.received() {
        let body = String::from_utf8_lossy(&received.body).into_owned();
        for said in ["look at the notes", "only the agent reads", "looking", "done with it", "notes.txt"] {
            assert!(!body.contains(said), "{said}");
        }
        assert_eq!(received.headers["authorization"], "Basic of-the-collector");
        assert_eq!(received.headers["content-type"], "application/x-protobuf");
    }
    assert!(collector.received().iter().any(|received| received.headers.contains_key("content-encoding")));
    assert_eq!(collector.resource("service.name").as_deref(), Some("flock"));
    assert_eq!(collector.resource("service.version").as_deref(), Some(env!("CARGO_PKG_VERSION")));
    assert!(collector.resource("service.instance.id").is_some_and(|id| !id.is_empty()));
}

#[test]
fn the_metrics_of_the_conventions_add_up() {
    let collector = Collector::start();
    let home = home(&collector, &json!({}));
    play(&home, &reading());
    let _gateway = Process::start(&home);
    home.flock(["chat", "coder", "once"]).ok();
    let model = [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.provider.name", "script"),
        ("gen_ai.request.model", "test"),
    ];
    let first = collector.point("gen_ai.client.operation.duration", &model);
    assert_eq!((first.count, first.bucket_counts.len(), first.explicit_bounds.len()), (2, 15, 14));
    assert_eq!(first.bucket_counts.iter().sum::<u64>(), 2);
    assert!(first.start_time_unix_nano < first.time_unix_nano);
    let calls = collector.spans_named("chat test", 2);
    for (kind, key) in [("input", "gen_ai.usage.input_tokens"), ("output", "gen_ai.usage.output_tokens")] {
        let labels = [model.as_slice(), &[("gen_ai.token.type", kind)]].concat();
        let point = collector.point("gen_ai.client.token.usage", &labels);
        let sum: u64 = calls.iter().map(|call| attribute(call, key).parse::<u64>().unwrap()).sum();
        assert_eq!((point.count, point.sum), (2, Some(sum as f64)), "{kind}");
    }
    // The script's `read` fails: there is no such file.
    let labels = [("gen_ai.tool.name", "read"), ("error.type", "tool_error"), ("gen_ai.agent.name", "coder")];
    assert_eq!(collector.point("gen_ai.execute_tool.duration", &labels).count, 1);
    assert_eq!(collector.point("gen_ai.invoke_agent.duration", &[("gen_ai.agent.name", "coder")]).count, 1);
    // The next request holds what was counted before, too.
    home.flock(["chat", "coder", "twice"]).ok();
    wait_until("the counts grow", LIMIT, || {
        let point = collector.point("gen_ai.invoke_agent.duration", &[("gen_ai.agent.name", "coder")]);
        (point.count == 2 && point.start_time_unix_nano == first.start_time_unix_nano)
            .then_some(())
            .ok_or_else(|| format!("{point:?}"))
    });
}

#[test]
fn contents_are_sent_if_they_are_asked_for_and_without_secrets() {
    let collector = Collector::start();
    let home = home(&collector, &json!({"contents": true}));
    std::fs::write(home.file("secrets/planted"), PLANTED).unwrap();
    let planted = format!("the key is {PLANTED} and ghp_0123456789abcdefghij");
    std::fs::write(home.file("workspaces/coder/notes.txt"), &planted).unwrap();
    let answer = format!("I saw {PLANTED}");
    play(
        &home,
        &json!([{"steps": [
            {"say": answer, "calls": [{"name": "read", "arguments": {"path": "notes.txt"}}]},
            {"say": answer},
        ]}]),
    );
    let _gateway = Process::start(&home);
    let token = home.token();
    home.flock(["chat", "coder", &format!("my words, {PLANTED}, {token}")]).ok();

    let turn = collector.span("invoke_agent coder");
    let calls = collector.spans_named("chat test", 2);
    let tool = collector.span("execute_tool read");
    let messages = |span: &Span, key: &str| -> Value { serde_json::from_str(&attribute(span, key)).unwrap() };
    let asked = messages(&turn, "gen_ai.input.messages");
    assert_eq!(asked[0]["parts"][0]["content"], "my words, [key], [key]");
    let answered = messages(&turn, "gen_ai.output.messages");
    assert_eq!(answered[0]["parts"][0]["content"], "I saw [key]");
    assert_eq!(attribute(&tool, "gen_ai.tool.call.arguments"), r#"{"path":"notes.txt"}"#);
    let answered = messages(&calls[0], "gen_ai.output.messages");
    assert_eq!(answered[0]["parts"][0]["content"], "I saw [key]");
    assert_eq!(answered[0]["parts"][1]["arguments"], json!({"path": "notes.txt"}));
    let result = attribute(&tool, "gen_ai.tool.call.result");
    assert!(result.contains("the key is [key] and [key]"), "{result}");
    let conversation = messages(&calls[1], "gen_ai.input.messages");
    let last = conversation.as_array().unwrap().last().unwrap();
    assert_eq!(last["parts"][0]["type"], "tool_call_response");
    assert!(
        messages(&calls[0], "gen_ai.system_instructions")[0]["content"].as_str().unwrap().contains("coder")
    );
    for received in collector.received() {
        let body = String::from_utf8_lossy(&received.body).into_owned();
        assert!(!body.contains(PLANTED) && !body.contains("ghp_0123") && !body.contains(&token));
    }
}

#[test]
fn a_callers_span_is_the_parent_and_an_unsampled_one_is_respected() {
    let collector = Collector::start();
    let home = home(&collector, &json!({"metricsSeconds": 1}));
    play(&home, &json!([{"steps": [{"say": "hello"}]}]));
    let _gateway = Process::start(&home);
    let token = home.token();
    let ask = |traceparent: &str| {
        let body =
            json!({"model": "flock/coder", "messages": [{"role": "user", "content": "hi"}]}).to_string();
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\ntraceparent: {traceparent}\r\ntracestate: rojo=1\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", home.port())).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    };
    ask("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    ask("nonsense");
    ask("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    let turns = collector.spans_named("invoke_agent coder", 2);
    let called = turns.iter().find(|turn| !turn.parent_span_id.is_empty()).unwrap();
    assert_eq!(hex(&called.trace_id), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(hex(&called.parent_span_id), "00f067aa0ba902b7");
    assert_eq!((called.kind, called.trace_state.as_str()), (SpanKind::Server as i32, "rojo=1"));
    // The bits say that the trace is sampled and that the parent is another program's.
    assert_eq!(called.flags, 0x301);
    let chat = collector.spans_named("chat", 2).into_iter().find(|chat| is_child(chat, called)).unwrap();
    assert_eq!(chat.trace_state, "rojo=1");
    // The unsampled turn is counted all the same.
    let count = || collector.point("gen_ai.invoke_agent.duration", &[("gen_ai.agent.name", "coder")]).count;
    wait_until("three turns are counted", LIMIT, || (count() == 3).then_some(()).ok_or_else(String::new));
    assert!(!collector.spans().iter().any(|span| hex(&span.trace_id).starts_with("0af765")));
}

#[test]
fn model_servers_see_a_trace_only_if_that_is_asked_for() {
    let collector = Collector::start();
    let home = home(&collector, &json!({}));
    let models = ModelServer::start();
    std::fs::write(home.file("secrets/lab"), "a-key-of-the-lab").unwrap();
    edit(&home, |config| {
        config["models"]["providers"]["lab"] = json!({"baseUrl": models.openai_url(), "api": "openai-completions",
            "apiKey": "secret:lab", "models": [{"id": "m", "name": "m"}]});
        config["agents"]["defaults"]["model"]["primary"] = "lab/m".into();
    });
    let _gateway = Process::start(&home);
    models.reply(model_server::Reply::text("one"));
    home.flock(["chat", "coder", "hi"]).ok();
    assert_eq!(models.requests().last().unwrap().header("traceparent"), "");
    send_to(&home, &collector, &json!({"propagateToModels": true}));
    models.reply(model_server::Reply::text("two"));
    home.flock(["chat", "coder", "again"]).ok();
    let sent = models.requests().last().unwrap().header("traceparent").to_owned();
    let calls = collector.spans_named("chat m", 2);
    let call = calls.iter().find(|call| sent.contains(&hex(&call.span_id))).expect(&sent);
    assert_eq!(sent, format!("00-{}-{}-01", hex(&call.trace_id), hex(&call.span_id)));
    assert_eq!(attribute(call, "gen_ai.usage.input_tokens"), "10");
    assert_eq!(attribute(call, "gen_ai.provider.name"), "lab");
    assert!(text_of(&call.attributes, "gen_ai.response.time_to_first_chunk").is_some());
}

#[test]
fn a_post_wakes_an_agent_and_its_turn_belongs_to_the_post() {
    let collector = Collector::start();
    let home = home(&collector, &json!({}));
    play(&home, &json!([{"steps": [{"say": "on it"}]}]));
    let _gateway = Process::start(&home);
    home.flock(["channel", "create", "build", "--topic", "to build", "--member", "coder"]).ok();
    home.flock(["channel", "post", "build", "@coder the secret plan"]).ok();
    let (post, wake, turn) = wait_until("a turn below a wake below a post", LIMIT, || {
        let spans = collector.spans();
        let below = |parent: &Span, name: &str| {
            spans.iter().find(|span| span.name.starts_with(name) && is_child(span, parent)).cloned()
        };
        let posts = spans.iter().filter(|span| span.name == "post build");
        let mut found = posts.filter_map(|post| {
            let wake = below(post, "wake coder")?;
            let turn = below(&wake, "invoke_agent coder")?;
            Some((post.clone(), wake, turn))
        });
        found
            .next_back()
            .ok_or_else(|| format!("{:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>()))
    });
    assert_eq!((post.kind, wake.kind), (SpanKind::Producer as i32, SpanKind::Consumer as i32));
    assert_eq!(attribute(&post, "messaging.destination.name"), "build");
    assert_eq!(attribute(&turn, "flock.turn.origin"), "team");
    assert!(wake.start_time_unix_nano <= turn.start_time_unix_nano);
    // People are not named, and nobody is quoted.
    let of_person = wait_until("the person's post", LIMIT, || {
        let posts = collector.spans().into_iter().filter(|span| span.name == "post build");
        let authors: Vec<String> = posts.map(|post| attribute(&post, "flock.post.author")).collect();
        authors.contains(&"human".to_owned()).then_some(authors.clone()).ok_or_else(|| format!("{authors:?}"))
    });
    assert!(of_person.iter().all(|author| ["human", "system", "coder"].contains(&author.as_str())));
    assert!(
        collector
            .received()
            .iter()
            .all(|request| { !String::from_utf8_lossy(&request.body).contains("secret plan") })
    );
}

#[test]
fn a_collector_that_hangs_costs_a_turn_nothing_and_a_stop_little() {
    let collector = Collector::start();
    collector.always(Some(Reply::Hang));
    let home = home(&collector, &json!({}));
    play(&home, &reading());
    let gateway = Process::start(&home);
    let began = Instant::now();
    for _ in 0..5 {
        home.flock(["chat", "coder", "go on"]).ok();
    }
    let took = began.elapsed();
    // One request of ten seconds would show.
    assert!(took < Duration::from_secs(9), "{took:?}");
    wait_until("a request hangs", LIMIT, || {
        (!collector.received().is_empty()).then_some(()).ok_or_else(|| log_text(&home))
    });
    assert_eq!(status(&home)["sent"], 0);
    let began = Instant::now();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.ended().code(), Some(0), "{}", log_text(&home));
    let took = began.elapsed();
    assert!(took < Duration::from_secs(8), "{took:?}");
}

#[test]
fn a_collector_that_refuses_is_asked_again_when_it_says_and_every_loss_is_counted() {
    let collector = Collector::start();
    let home = home(&collector, &json!({}));
    play(&home, &json!([{"steps": [{"say": "hello"}]}]));
    collector.reply(Reply::Status(503, Some("2"))).reply(Reply::Status(429, None));
    let _gateway = Process::start(&home);
    home.flock(["chat", "coder", "hi"]).ok();
    collector.span("invoke_agent coder");
    let traces: Vec<_> =
        collector.received().into_iter().filter(|received| received.path == "/v1/traces").collect();
    assert_eq!(traces.len(), 3);
    assert_eq!(traces[0].body, traces[2].body, "the same spans");
    assert!(traces[1].at - traces[0].at >= Duration::from_millis(1_900), "Retry-After is honoured");
    wait_until("the error is over", LIMIT, || {
        let status = status(&home);
        let is_over = status["sent"] == 2 && status["error"]["lasts"] == false && status["waiting"] == 0;
        is_over.then_some(()).ok_or_else(|| status.to_string())
    });
    assert_eq!(status(&home)["lost"], json!({"full": 0, "undelivered": 0, "rejected": 0}));

    // A wrong key is no matter of time: the spans are given up, and people are told where they look.
    collector.always(Some(Reply::Status(401, None)));
    home.flock(["chat", "coder", "hi"]).ok();
    wait_until("the loss is counted", LIMIT, || {
        let status = status(&home);
        (status["lost"]["undelivered"] == 2).then_some(()).ok_or_else(|| status.to_string())
    });
    let shown = home.flock(["status"]).stdout;
    assert!(shown.contains("2 lost, not reached: ") && shown.contains("401: not now"), "{shown}");
    let report = home.flock(["status", "--json"]).json();
    assert_eq!(report["telemetry"]["lost"]["undelivered"], 2, "{report:#}");
    let doctor = home.flock(["doctor", "--json"]).json();
    let found: Vec<&Value> =
        doctor["checks"].as_array().unwrap().iter().filter(|check| check["name"] == "telemetry").collect();
    let text = format!("{found:?}");
    assert!(text.contains("takes no spans") && text.contains("2 that were not taken"), "{text}");
    let token = home.token();
    let metrics = get(home.port(), "/metrics", &token).unwrap();
    assert!(metrics.contains(r#"flock_telemetry_spans_total{end="undelivered"} 2"#), "{metrics}");

    collector.always(Some(Reply::Reject(1)));
    home.flock(["chat", "coder", "hi"]).ok();
    wait_until("the rejection is counted", LIMIT, || {
        let status = status(&home);
        (status["lost"]["rejected"] == 1 && status["sent"] == 3)
            .then_some(())
            .ok_or_else(|| status.to_string())
    });
}

#[test]
fn the_last_spans_go_out_at_a_stop_and_a_restart_goes_on() {
    let collector = Collector::start();
    let home = home(&collector, &json!({}));
    play(&home, &json!([{"steps": [{"say": "hello"}]}]));
    let gateway = Process::start(&home);
    home.flock(["chat", "coder", "hi"]).ok();
    // At once, before a second has passed.
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.ended().code(), Some(0));
    let first = collector.spans_named("invoke_agent coder", 1);
    let address = collector.address();
    drop(collector);

    // The collector is away while the gateway starts, and comes back.
    let _gateway = Process::start(&home);
    home.flock(["chat", "coder", "are you there"]).ok();
    let telemetry = wait_until("the problem is told", LIMIT, || {
        let status = status(&home);
        (status["error"]["lasts"] == true).then_some(status.clone()).ok_or_else(|| status.to_string())
    });
    assert!(telemetry["error"]["message"].as_str().unwrap().contains("refused"), "{telemetry}");
    let collector = Collector::start_at(address);
    let second = collector.spans_named("invoke_agent coder", 1);
    assert_ne!(first[0].trace_id, second[0].trace_id);
}

#[test]
fn without_the_setting_nothing_is_sent_and_nothing_is_shown() {
    let collector = Collector::start();
    let home = TempHome::new().init();
    play(&home, &json!([{"steps": [{"say": "hello"}]}]));
    let gateway = Process::start(&home);
    home.flock(["chat", "orchestrator", "hi"]).ok();
    assert_eq!(status(&home), Value::Null);
    assert_eq!(home.flock(["status", "--json"]).json()["telemetry"], Value::Null);
    // Switched on, it counts from the next request on, and switched off again too.
    send_to(&home, &collector, &json!({}));
    home.flock(["chat", "orchestrator", "hi"]).ok();
    collector.span("invoke_agent orchestrator");
    edit(&home, |config| {
        config["plugins"]["entries"]["flock"]["config"].as_object_mut().unwrap().remove("telemetry");
    });
    let before = collector.spans().len();
    home.flock(["chat", "orchestrator", "hi"]).ok();
    gateway.signal(Signal::SIGTERM);
    assert_eq!(gateway.ended().code(), Some(0));
    assert_eq!(collector.spans().len(), before);
}

#[test]
fn a_key_given_on_the_command_line_moves_to_the_secrets() {
    let home = TempHome::new().init();
    let otlp = "plugins.entries.flock.config.telemetry.otlp";
    home.flock(["config", "set", &format!("{otlp}.endpoint"), "https://otlp.example.org"]).ok();
    let header = format!("{otlp}.headers.Authorization");
    home.flock_with_input(["config", "set", header.as_str(), "-"], PLANTED).ok();
    assert!(!home.config_text().contains(PLANTED));
    assert_eq!(std::fs::read_to_string(home.file("secrets/otlp.authorization")).unwrap().trim(), PLANTED);
    let wrong =
        home.flock(["config", "set", &format!("{otlp}.endpoint"), "http://otlp.example.org"]).fails(2);
    assert!(wrong.stderr.contains("must be https"), "{wrong:?}");
}
