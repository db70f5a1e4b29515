//! Who may ask.

use flock::supervise::gateway_client::{Call, Client};
use flock::supervise::health::{self, HomeIdentity};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::house::{House, LIMIT, TOKEN};

#[tokio::test]
async fn everything_but_health_needs_the_token() {
    let house = House::new().await;
    for path in ["/v1/models", "/api/agents", "/api/sessions", "/api/events", "/api/status", "/nothing"] {
        for client in [Client::new(house.port), Client::new(house.port).with_token("wrong")] {
            let answer = client.send(Call::get(path), LIMIT).await.unwrap();
            assert_eq!(answer.status(), 401, "{path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            let body: Value = answer.json(LIMIT).await.unwrap();
            let code = body["error"]["code"].as_str().unwrap();
            assert!(code == "no_token" || code == "wrong_token", "{body}");
            if path.starts_with("/v1") {
                assert_eq!(body["error"]["type"], "authentication_error");
            } else {
                assert!(body["error"]["hint"].is_string(), "{body}");
            }
        }
    }
    let body: Value = house.owner().get_json("/v1/models", LIMIT).await.unwrap();
    assert_eq!(body["data"][0]["id"], "coder");
    assert_eq!(body["data"][1]["object"], "model");
}

#[tokio::test]
async fn health_proves_whose_it_is() {
    let house = House::new().await;
    let home = |token: &str| HomeIdentity { instance: "instance-of-the-test".into(), token: token.into() };
    let health = health::ask(house.port, &home(TOKEN), LIMIT).await.unwrap();
    assert_eq!(health.status, "ok");
    assert_eq!(health.version, env!("CARGO_PKG_VERSION"));
    assert!(health::ask(house.port, &home("other"), LIMIT).await.is_err());
}

#[tokio::test]
async fn a_foreign_host_or_origin_is_refused_before_its_body_is_read() {
    let house = House::new().await;
    let port = house.port;
    let cases = [
        "Host: evil.example".to_owned(),
        format!("Host: evil.example:{port}"),
        "Host: 127.0.0.1:1".to_owned(),
        format!("Host: 127.0.0.1:{port}\r\nOrigin: https://evil.example"),
        format!("Host: 127.0.0.1:{port}\r\nOrigin: null"),
        format!("Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}"),
    ];
    for headers in cases {
        // The body is announced and never sent: an answer means that nobody waited for it.
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\n{headers}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Length: 1000\r\n\r\n"
        );
        let mut stream = house.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut bytes = [0; 2048];
        let read = tokio::time::timeout(LIMIT, stream.read(&mut bytes)).await.unwrap().unwrap();
        let answer = String::from_utf8_lossy(&bytes[..read]);
        assert!(answer.starts_with("HTTP/1.1 403 "), "{headers}: {answer}");
        assert!(answer.contains("foreign_"), "{headers}: {answer}");
    }
    let own = format!(
        "GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: http://localhost:{port}\r\n\
         Connection: close\r\n\r\n"
    );
    assert!(house.raw(own.as_bytes()).await.starts_with("HTTP/1.1 200 "));
    let health = "GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert!(house.raw(health.as_bytes()).await.starts_with("HTTP/1.1 403 "), "health is no exception");
}

#[tokio::test]
async fn unknown_paths_and_methods_have_the_shape_of_their_place() {
    let house = House::new().await;
    let owner = house.owner();
    let answer = owner.send(Call::get("/v1/nothing"), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 404);
    assert!(answer.header("x-request-id").is_some());
    let body: Value = answer.json(LIMIT).await.unwrap();
    assert_eq!(body["error"]["type"], "invalid_request_error");
    let answer = owner.send(Call::delete("/api/agents"), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 405);
    let body: Value = answer.json(LIMIT).await.unwrap();
    assert_eq!(body["error"]["code"], "method_not_allowed");
}
