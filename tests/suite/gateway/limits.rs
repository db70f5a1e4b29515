//! What a client may not do, before anybody asks who it is.

use std::time::Duration;

use flock::gateway::ServerLimits;
use flock::supervise::gateway_client::Call;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::house::{House, LIMIT, TOKEN, read_all};

fn head(house: &House, more: &str) -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {TOKEN}\r\n{more}\r\n",
        house.port
    )
}

/// Sends a head and then bytes until the gateway closes or all are sent; gives the answer.
async fn pour(house: &House, head: &str, piece: &[u8], times: usize) -> String {
    let (mut reader, mut writer) = house.connect().await.into_split();
    writer.write_all(head.as_bytes()).await.unwrap();
    let piece = piece.to_vec();
    let pouring = tokio::spawn(async move {
        for _ in 0..times {
            if writer.write_all(&piece).await.is_err() {
                break;
            }
        }
        writer
    });
    let mut bytes = vec![0; 4096];
    let read = tokio::time::timeout(LIMIT, reader.read(&mut bytes)).await.unwrap().unwrap();
    drop(tokio::time::timeout(LIMIT, pouring).await.unwrap());
    String::from_utf8_lossy(&bytes[..read]).into_owned()
}

#[tokio::test]
async fn a_body_of_100_mb_is_refused_and_the_client_reads_why() {
    let house = House::new().await;
    let piece = vec![b' '; 1 << 20];
    let announced = head(&house, &format!("Content-Length: {}\r\n", 100 << 20));
    let answer = pour(&house, &announced, &piece, 100).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("body_too_large"), "{answer}");

    let mut chunk = b"100000\r\n".to_vec();
    chunk.extend_from_slice(&piece);
    chunk.extend_from_slice(b"\r\n");
    let chunked = head(&house, "Transfer-Encoding: chunked\r\n");
    let answer = pour(&house, &chunked, &chunk, 100).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");

    let nobody = format!(
        "POST /api/x HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nTransfer-Encoding: chunked\r\n\r\n",
        house.port
    );
    let answer = pour(&house, &nobody, &chunk, 100).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "a body without a token is never read: {answer}");
}

#[tokio::test]
async fn a_client_that_asks_first_is_not_invited_to_send() {
    let house = House::new().await;
    let asking = format!("Content-Length: {}\r\nExpect: 100-continue\r\n", 100 << 20);
    let answer = house.raw(head(&house, &asking).as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn a_header_flood_is_refused() {
    let house = House::new().await;
    let many: String = (0..200).map(|n| format!("X-{n}: y\r\n")).collect();
    assert!(house.raw(head(&house, &many).as_bytes()).await.starts_with("HTTP/1.1 431 "));
    let large = format!("X-Large: {}\r\n", "y".repeat(60 << 10));
    assert!(house.raw(head(&house, &large).as_bytes()).await.starts_with("HTTP/1.1 431 "));
}

#[tokio::test]
async fn slow_heads_and_slow_bodies_are_cut_off() {
    let limits = ServerLimits {
        header_timeout: Duration::from_millis(50),
        body_timeout: Duration::from_millis(50),
        ..ServerLimits::default()
    };
    let house = House::with(limits).await;
    let mut slow = house.connect().await;
    slow.write_all(b"GET /health HTTP/1.1\r\nHost: ").await.unwrap();
    assert_eq!(read_all(&mut slow).await, "", "closed without an answer");

    let mut idle = house.connect().await;
    assert_eq!(read_all(&mut idle).await, "", "a connection that says nothing is closed");

    let mut slow = house.connect().await;
    slow.write_all(head(&house, "Content-Length: 100\r\n").as_bytes()).await.unwrap();
    slow.write_all(b"{").await.unwrap();
    assert!(read_all(&mut slow).await.starts_with("HTTP/1.1 408 "));
}

#[tokio::test]
async fn a_client_that_stops_reading_is_cut_off() {
    let house = House::with(ServerLimits {
        write_timeout: Duration::from_millis(50),
        unread: usize::MAX,
        ..ServerLimits::default()
    })
    .await;
    let body = super::house::ask_streamed("flood").to_string();
    let mut stream = house.connect().await;
    let request = format!("{}{body}", head(&house, &format!("Content-Length: {}\r\n", body.len())));
    stream.write_all(request.as_bytes()).await.unwrap();
    let cancelled = || house.runner.cancelled.load(std::sync::atomic::Ordering::SeqCst);
    super::house::until("the turn is cancelled", || cancelled() == 1).await;
}

/// A connection that has shown the owner's token and stays open.
async fn known(house: &House) -> TcpStream {
    let mut stream = house.connect().await;
    let request = format!(
        "GET /api/agents HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n",
        house.port
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut first = [0; 13];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 ");
    stream
}

/// Whether the other end has closed, after what it had sent already.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = [0; 4096];
    loop {
        match tokio::time::timeout(Duration::ZERO, stream.read(&mut bytes)).await {
            Err(_) => return false,
            Ok(Ok(0) | Err(_)) => return true,
            Ok(Ok(_)) => {}
        }
    }
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let house = House::with(ServerLimits { connections: 1, ..ServerLimits::default() }).await;
    let mut first = known(&house).await;
    let mut second = house.connect().await;
    let answer = read_all(&mut second).await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert!(answer.contains("too_many_connections"));
    assert!(!is_closed(&mut first).await);
    drop(first);
    let end = tokio::time::Instant::now() + LIMIT;
    while !house.owner().send(Call::get("/health"), LIMIT).await.is_ok_and(|answer| answer.status() == 200) {
        assert!(tokio::time::Instant::now() < end, "the place was not given back");
    }
}

#[tokio::test]
async fn who_shows_no_token_can_keep_nobody_out() {
    let house = House::with(ServerLimits { connections: 3, ..ServerLimits::default() }).await;
    let mut mine = known(&house).await;
    let mut silent = house.connect().await;
    let mut asking = house.connect().await;
    asking.write_all(b"GET /health HTTP/1.1\r\nHost: ").await.unwrap();
    let mut held = Vec::new();
    for _ in 0..20 {
        held.push(house.connect().await);
        let answer = house.owner().send(Call::get("/health"), LIMIT).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    assert_eq!(read_all(&mut silent).await, "");
    assert_eq!(read_all(&mut asking).await, "");
    let answer = house.owner().send(Call::get("/api/agents"), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert!(!is_closed(&mut mine).await, "who has shown the token gives way to nobody");
}

#[tokio::test]
async fn a_wrong_token_earns_no_place() {
    let house = House::with(ServerLimits { connections: 1, ..ServerLimits::default() }).await;
    let mut wrong = house.connect().await;
    let body = "GET /api/agents HTTP/1.1\r\nAuthorization: Bearer wrong\r\nContent-Length: 9\r\nHost: ";
    wrong.write_all(format!("{body}127.0.0.1:{}\r\n\r\n", house.port).as_bytes()).await.unwrap();
    let mut first = [0; 13];
    wrong.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 401 ");
    let answer = house.owner().send(Call::get("/health"), LIMIT).await.unwrap();
    assert_eq!(answer.status(), 200);
}

#[tokio::test]
async fn what_is_no_http_or_no_request_is_refused() {
    let house = House::new().await;
    assert!(house.raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").await.starts_with("HTTP/1.1 400 "));
    for body in ["", "{", "[]", "{\"model\":\"coder\"}", "\u{feff}{}", "{\"model\":1,\"messages\":[]}"] {
        let request = format!(
            "{}{body}",
            head(&house, &format!("Connection: close\r\nContent-Length: {}\r\n", body.len()))
        );
        let answer = house.raw(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{body}: {answer}");
        assert!(answer.contains("\"invalid_request_error\""), "{body}: {answer}");
    }
}
