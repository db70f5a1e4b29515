//! Tests against a server that plays back bytes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;
use crate::error::{Explain as _, Kind};

const LIMIT: Duration = Duration::from_secs(10);

/// Answers one connection with these bytes, and returns the request that it got.
async fn serve_once(answer: &'static str) -> (Client, JoinHandle<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.windows(4).any(|four| four == b"\r\n\r\n") {
            let mut piece = [0; 1024];
            let read = stream.read(&mut piece).await.unwrap();
            asked.extend_from_slice(&piece[..read]);
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        String::from_utf8(asked).unwrap()
    });
    (Client::new(port).with_token("secret"), server)
}

#[tokio::test]
async fn the_token_is_sent_and_json_is_returned() {
    let (client, server) = serve_once("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{\"a\": 1}\n").await;
    let value: serde_json::Value = client.get_json("/api/x?y=1", LIMIT).await.unwrap();
    assert_eq!(value["a"], 1);
    let asked = server.await.unwrap();
    assert!(asked.starts_with("GET /api/x?y=1 HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("authorization: Bearer secret\r\n"), "{asked}");
    assert!(asked.contains(&format!("host: {}\r\n", client.address())), "{asked}");
}

#[tokio::test]
async fn an_error_status_keeps_its_message_and_kind() {
    let (client, server) = serve_once(
        "HTTP/1.1 409 Conflict\r\nconnection: close\r\n\r\n\
         {\"error\":{\"code\":\"conflict\",\"message\":\"exists\",\"hint\":\"take another\"}}",
    )
    .await;
    let error = client.ask(Call::post("/api/agents"), LIMIT).await.err().unwrap();
    assert_eq!(error.kind(), Kind::Conflict);
    assert_eq!(error.to_string(), "exists");
    assert_eq!(error.hint().as_deref(), Some("take another"));
    server.await.unwrap();
}

#[tokio::test]
async fn a_closed_port_is_reported_as_not_running() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let error = Client::new(port).send(Call::get("/"), LIMIT).await.err().unwrap();
    assert!(error.is_refused());
    assert_eq!(error.kind(), Kind::NotRunning);
}

#[tokio::test]
async fn garbage_silence_and_half_bodies_are_errors() {
    let (client, _server) = serve_once("SSH-2.0-OpenSSH\r\n").await;
    assert!(matches!(client.send(Call::get("/"), LIMIT).await, Err(GatewayClientError::Broken { .. })));

    let (client, _server) = serve_once("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf").await;
    let answer = client.send(Call::get("/"), LIMIT).await.unwrap();
    assert!(matches!(answer.bytes(1000, LIMIT).await, Err(GatewayClientError::Broken { .. })));

    let (client, _server) = serve_once("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlong").await;
    let answer = client.send(Call::get("/"), LIMIT).await.unwrap();
    assert!(matches!(answer.bytes(3, LIMIT).await, Err(GatewayClientError::TooLong { .. })));

    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = Client::new(silent.local_addr().unwrap().port());
    let error = client.send(Call::get("/"), Duration::from_millis(1)).await.err().unwrap();
    assert!(matches!(error, GatewayClientError::Timeout { .. }));
}

#[tokio::test]
async fn events_are_read_to_the_end() {
    let (client, server) = serve_once(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
         data: one\n\ndata: two\n\n",
    )
    .await;
    let mut events = client.ask(Call::get("/"), LIMIT).await.unwrap().events();
    assert_eq!(events.next(LIMIT).await.unwrap().unwrap().data, "one");
    assert_eq!(events.next(LIMIT).await.unwrap().unwrap().data, "two");
    assert_eq!(events.next(LIMIT).await.unwrap(), None);
    server.await.unwrap();
}
