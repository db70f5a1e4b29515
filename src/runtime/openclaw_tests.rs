use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::error::Explain as _;

const LIMIT: Duration = Duration::from_secs(20);

fn order() -> RuntimeRequest {
    RuntimeRequest {
        turn: crate::id::TurnId::new(),
        model: "openai/gpt-5.5".parse().unwrap(),
        effort: None,
        recent: String::new(),
        missed: None,
        agent: "coder".parse().unwrap(),
        session: "agent:coder:flock:channel:dev".parse().unwrap(),
        conversation: "agent:coder:flock:channel:dev.7".to_owned(),
        system: "You are coder.".to_owned(),
        messages: vec![Message::text(Role::User, "hello")],
    }
}

fn runtime(port: u16) -> OpenClaw {
    OpenClaw::new(Arc::new(move || Ok(OpenClawAddress { port, token: "s3cret".to_owned() })))
}

/// Reads one request, head and body.
async fn read_request(stream: &mut TcpStream) -> (String, Value) {
    let mut bytes = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let read = stream.read(&mut piece).await.unwrap();
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n")
            && let Ok(body) = serde_json::from_str(body)
        {
            return (head.to_lowercase(), body);
        }
        assert!(read > 0, "the request broke off: {text}");
    }
}

/// Answers one request with these bytes and closes the connection.
async fn serve_once(answer: String) -> (u16, tokio::task::JoinHandle<(String, Value)>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        stream.write_all(answer.as_bytes()).await.unwrap();
        request
    });
    (port, server)
}

fn stream(events: &[&str]) -> String {
    let events: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

fn delta(text: &str) -> String {
    json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]}).to_string()
}

fn status(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Runs a turn. Returns the events as text, and the result.
async fn run(answer: String) -> (String, Result<RuntimeReply, RuntimeError>) {
    let (port, server) = serve_once(answer).await;
    let (order, mut text) = (order(), String::new());
    let reply = {
        let mut tell = |event| {
            if let RuntimeEvent::Text(more) = event {
                text.push_str(&more);
            }
        };
        tokio::time::timeout(LIMIT, runtime(port).run(&order, &mut tell)).await.unwrap()
    };
    server.await.unwrap();
    (text, reply)
}

#[tokio::test]
async fn a_turn_is_one_streamed_request_with_the_agent_and_the_conversation_in_its_head() {
    let usage = r#"{"choices":[],"usage":{"prompt_tokens":11,"completion_tokens":7}}"#;
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let (port, server) = serve_once(stream(&[&delta("Hel"), &delta("lo"), stop, usage, "[DONE]"])).await;
    let (order, mut told) = (order(), Vec::new());
    let reply = runtime(port).run(&order, &mut |event| told.push(event)).await.unwrap();
    assert_eq!(told, [RuntimeEvent::Text("Hel".to_owned()), RuntimeEvent::Text("lo".to_owned())]);
    assert_eq!(reply.stop, StopReason::End);
    assert_eq!(reply.usage.map(|usage| (usage.input, usage.output)), Some((11, 7)));
    let (head, body) = server.await.unwrap();
    for line in [
        "post /v1/chat/completions ",
        "authorization: bearer s3cret",
        "x-openclaw-agent-id: coder",
        "x-openclaw-session-key: agent:coder:flock:channel:dev.7",
    ] {
        assert!(head.contains(line), "{line} in {head}");
    }
    assert_eq!(body["model"], "openclaw/coder");
    assert_eq!((&body["stream"], &body["stream_options"]["include_usage"]), (&true.into(), &true.into()));
    let said = json!([{"role": "system", "content": "You are coder."}, {"role": "user", "content": "hello"}]);
    assert_eq!(body["messages"], said);
}

#[tokio::test]
async fn missing_usage_and_stop_reason_are_accepted() {
    let (text, reply) = run(stream(&[&delta("Hello"), "[DONE]"])).await;
    assert_eq!((text.as_str(), reply), ("Hello", Ok(RuntimeReply { stop: StopReason::End, usage: None })));
}

#[tokio::test]
async fn an_agent_that_says_nothing_has_no_text() {
    for silence in ["No response from OpenClaw.", "NO_REPLY"] {
        let (text, reply) = run(stream(&[&delta(silence), "[DONE]"])).await;
        assert_eq!((text.as_str(), reply.is_ok()), ("", true), "{silence}");
    }
    for speech in
        ["No", "No response from OpenClaw. But from me.", "NO_REPLY is a word", "Error: it is broken"]
    {
        let (text, reply) = run(stream(&[&delta(speech), "[DONE]"])).await;
        assert_eq!((text.as_str(), reply.is_ok()), (speech, true));
    }
    // A model that quotes an exception writes it piece by piece.
    let (text, reply) = run(stream(&[&delta("Error"), &delta(": TypeError: x"), "[DONE]"])).await;
    assert_eq!((text.as_str(), reply.is_ok()), ("Error: TypeError: x", true));
}

#[tokio::test]
async fn every_failure_has_a_message_and_a_hint() {
    let error = r#"{"error":{"message":"the provider is down","type":"api_error"}}"#;
    for (answer, wanted, hint) in [
        (
            stream(&[error, "[DONE]"]),
            "failed to run the turn: status 500: the provider is down",
            "flock logs openclaw",
        ),
        (stream(&[&delta("half"), error, "[DONE]"]), "failed to run the turn", "flock logs openclaw"),
        (
            stream(&[&delta("Error: FailoverError: no model"), "[DONE]"]),
            "failed to run the turn: FailoverError: no model",
            "flock logs openclaw",
        ),
        (stream(&["[DONE]"]), "failed to run the turn: it ends before it begins", "flock logs openclaw"),
        (stream(&[&delta("half")]), "interrupted, the outcome of the turn is unknown", "flock logs openclaw"),
        (stream(&[]), "interrupted, the outcome of the turn is unknown", "flock logs openclaw"),
        (
            status("500 Internal Server Error", r#"{"error":{"message":"internal error"}}"#),
            "status 500: internal error",
            "flock logs openclaw",
        ),
        (
            status("401 Unauthorized", r#"{"error":{"message":"Unauthorized"}}"#),
            "refused the turn (401): Unauthorized",
            "flock restart",
        ),
        (
            status("400 Bad Request", r#"{"error":{"message":"Unknown agent 'coder'."}}"#),
            "refused the turn (400): Unknown agent 'coder'.",
            "flock restart",
        ),
        (
            status("404 Not Found", "Not Found"),
            "another program may have taken the port",
            "flock status --probe",
        ),
        (
            status("429 Too Many Requests", r#"{"error":{"message":"busy"}}"#),
            "refused the turn (429): busy",
            "flock logs openclaw",
        ),
    ] {
        let (_, reply) = run(answer.clone()).await;
        let error = reply.expect_err(&answer);
        assert!(error.to_string().contains(wanted), "{error}: {answer}");
        assert_eq!(error.hint().as_deref(), Some(hint), "{error}");
        assert!(!format!("{error:?}").contains("s3cret"));
    }
}

#[tokio::test]
async fn a_closed_port_is_reported_as_not_running() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = runtime(port).run(&order(), &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, RuntimeError::NotRunning { .. }), "{error:?}");
    assert!(error.is_passing() && !error.may_have_begun());
    assert_eq!(error.hint().as_deref(), Some("flock start"));
    assert!(error.to_string().contains(&port.to_string()), "{error}");
}

#[tokio::test]
async fn cancelling_a_turn_closes_the_connection() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        read_request(&mut connection).await;
        connection.write_all(stream(&[&delta("half")]).as_bytes()).await.unwrap();
        // Ends when the other side has closed the connection.
        let mut rest = [0; 16];
        connection.read(&mut rest).await.unwrap_or(0)
    });
    let order = order();
    let openclaw = runtime(port);
    let (heard, mut half) = tokio::sync::mpsc::unbounded_channel();
    let mut tell = |event| drop(heard.send(event));
    {
        let mut turn = std::pin::pin!(openclaw.run(&order, &mut tell));
        tokio::select! {
            reply = &mut turn => panic!("it ended: {reply:?}"),
            event = half.recv() => assert_eq!(event, Some(RuntimeEvent::Text("half".to_owned()))),
        }
    }
    assert_eq!(tokio::time::timeout(LIMIT, server).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn pictures_and_message_order_are_kept() {
    let mut order = order();
    order.system = String::new();
    order.messages = vec![
        Message::text(Role::User, "one"),
        Message::text(Role::Assistant, "two"),
        Message {
            role: Role::User,
            content: vec![
                Block::text("three"),
                Block::Image { media_type: "image/png".to_owned(), data: "AAAA".into() },
            ],
        },
    ];
    let body = body(&order);
    assert_eq!(body["messages"][0], json!({"role": "user", "content": "one"}));
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "two"}));
    assert_eq!(body["messages"][2]["content"][1]["image_url"]["url"], "data:image/png;base64,AAAA");
}
