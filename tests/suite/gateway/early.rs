//! Answers that come before a request's body was read, and requests that no route understands: the client reads why,
//! in the documented shape.

use flock::config::{Role, agents};
use flock::supervise::gateway_client::Call;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;

use super::house::{House, LIMIT, TOKEN, read_all};

fn head(house: &House, line: &str, more: &str) -> String {
    format!(
        "{line} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n",
        house.port
    )
}

/// Sends all of a request before it reads anything, as most clients do.
async fn send_all_then_read(house: &House, head: &str, body: &[u8]) -> String {
    let mut stream = house.connect().await;
    stream.write_all(head.as_bytes()).await.unwrap();
    for piece in body.chunks(1 << 16) {
        let written = tokio::time::timeout(LIMIT, stream.write_all(piece)).await.unwrap();
        written.expect("the gateway must take in what it has refused");
    }
    read_all(&mut stream).await
}

async fn ask(house: &House, call: Call) -> (u16, Value) {
    let answer = house.owner().send(call, LIMIT).await.unwrap();
    (answer.status(), answer.json(LIMIT).await.expect("an error is JSON"))
}

fn chunked(size: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..size.div_ceil(1 << 10) {
        body.extend_from_slice(b"400\r\n");
        body.extend_from_slice(&[b' '; 1 << 10]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    body
}

#[tokio::test]
async fn an_answer_that_comes_before_the_body_is_read_arrives() {
    let house = House::new().await;
    for (line, status) in [
        ("POST /v1/embeddings", 404),
        ("POST /v1/models", 405),
        ("POST /api/nothing", 404),
        ("PUT /api/channels", 405),
        ("POST /api/agents/coder%ff/prepare", 400),
    ] {
        for size in [1 << 10, 3 << 20] {
            let announced = head(&house, line, &format!("Connection: close\r\nContent-Length: {size}\r\n"));
            let in_chunks = head(&house, line, "Connection: close\r\nTransfer-Encoding: chunked\r\n");
            for (head, body) in [(announced, vec![b' '; size]), (in_chunks, chunked(size))] {
                let answer = send_all_then_read(&house, &head, &body).await;
                assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{line} {size}: {answer}");
                let (_, body) = answer.split_once("\r\n\r\n").unwrap();
                let body: Value = serde_json::from_str(body).unwrap();
                assert!(body["error"]["message"].is_string(), "{body}");
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_not_invited_to_a_path_that_is_not_there() {
    let house = House::new().await;
    let asking = head(&house, "POST /v1/embeddings", "Content-Length: 1000000\r\nExpect: 100-continue\r\n");
    let answer = house.raw(asking.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
}

#[tokio::test]
async fn below_v1_a_missing_path_is_answered_with_those_that_are_there() {
    let house = House::new().await;
    for path in ["/v1/embeddings", "/v1", "/v1/chat/completions/"] {
        let (status, body) = ask(&house, Call::post(path)).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!((status, &body["error"]["code"]), (404, &"not_found".into()), "{path}");
        for there in ["POST /v1/chat/completions", "POST /v1/responses", "/v1/models"] {
            assert!(message.contains(there), "{message}");
        }
    }
}

#[tokio::test]
async fn queries_and_paths_that_can_not_be_read_are_refused_in_the_documented_shape() {
    let house = House::new().await;
    for ((method, path), code) in [
        (("GET", "/api/sessions?agent=a&agent=b"), "invalid_query"),
        (("GET", "/api/audit?limit=many"), "invalid_query"),
        (("GET", "/api/audit?limit=-1"), "invalid_query"),
        (("GET", "/api/usage?by=moon"), "invalid_query"),
        (("GET", "/api/tasks?limit=x"), "invalid_query"),
        (("GET", "/api/messages?limit=x"), "invalid_query"),
        (("GET", "/api/approvals?state=a&state=b"), "invalid_query"),
        (("GET", "/api/channels/dev/messages?after=x"), "invalid_query"),
        (("POST", "/api/freeze?by=a&by=b"), "invalid_query"),
        (("GET", "/api/channels/%ff"), "invalid_path"),
        (("GET", "/api/sessions/%ff"), "invalid_path"),
        (("GET", "/api/tasks/%ff"), "invalid_path"),
        (("POST", "/api/tasks/%c3/cancel"), "invalid_path"),
        (("POST", "/api/agents/%ff/probe"), "invalid_path"),
        (("POST", "/api/approvals/%ff/revoke"), "invalid_path"),
        (("GET", "/v1/models/%ff"), "invalid_path"),
        (("POST", "/flock/a2a/%ff"), "invalid_path"),
    ] {
        let call = if method == "GET" { Call::get(path) } else { Call::post(path) };
        let (status, body) = ask(&house, call).await;
        assert_eq!((status, &body["error"]["code"]), (400, &code.into()), "{method} {path}: {body}");
    }
}

#[tokio::test]
async fn an_agent_without_a_sandbox_has_nothing_to_probe() {
    let house = House::new().await;
    house.edit(|document| {
        let sysadmin = agents::NewAgent::new("sysadmin".parse().unwrap(), Role::Sysadmin);
        agents::add(document, &house.home, &sysadmin).unwrap();
    });
    let (status, body) = ask(&house, Call::post("/api/agents/sysadmin/probe")).await;
    assert_eq!((status, &body["error"]["code"]), (400, &"no_sandbox".into()), "{body}");
}

#[tokio::test]
async fn a_card_is_kept_by_its_tag() {
    let house = House::new().await;
    for path in ["/flock/a2a/coder/.well-known/agent-card.json", "/flock/.well-known/agent-card.json"] {
        let first = house.owner().send(Call::get(path), LIMIT).await.unwrap();
        assert!(first.header("cache-control").unwrap().contains("private"), "{path}");
        let tag = first.header("etag").unwrap().to_owned();
        for (known, status) in [(tag.as_str(), 304), (&format!("W/{tag}, \"x\""), 304), ("\"x\"", 200)] {
            let call = Call::get(path).header("if-none-match", known);
            let again = house.owner().send(call, LIMIT).await.unwrap();
            assert_eq!((again.status(), again.header("etag")), (status, Some(&*tag)), "{known}");
        }
    }
    let call = Call::post("/flock/a2a/coder/").json(&serde_json::json!({})).unwrap();
    let (status, body) = ask(&house, call).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (200, &(-32600).into()),
        "a slash at the end is no other path"
    );
}
