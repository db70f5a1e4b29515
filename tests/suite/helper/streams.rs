//! Connections to the port that the helper listens on, carried to whoever takes its streams.

use std::sync::Arc;

use flock::sandbox::helper::message::{MAX_DATA, MAX_STREAMS, Reply, Request, Step, VERSION, WINDOW};
use flock::sandbox::helper::{HelperClient, HelperStream, PortForward};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::protocol::{NONCE, Raw, bytes, echo, faked, replies};
use super::*;

/// A port that nobody has. Another process may take it before the helper does; the tests then fail to
/// connect, and say so.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

async fn attach(helper: &Helper, entrance: Option<PortForward>) -> HelperClient {
    let (reader, writer) = helper.streams();
    let client = HelperClient::attach(reader, writer, entrance).await.unwrap();
    client.with_environment(helper.environment())
}

fn at(port: u16, entrance: PortForward) -> Option<PortForward> {
    Some(PortForward { port, ..entrance })
}

async fn connect(port: u16) -> TcpStream {
    TcpStream::connect(("127.0.0.1", port)).await.unwrap()
}

fn pattern(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|at| ((at * 31 + at / 251 + seed * 7) % 256) as u8).collect()
}

/// Sends and reads at once, as an echo needs.
async fn there_and_back(port: u16, data: Vec<u8>) {
    let (mut reader, mut writer) = connect(port).await.into_split();
    let mut back = Vec::new();
    let (sent, read) = tokio::join!(
        async {
            writer.write_all(&data).await?;
            writer.shutdown().await
        },
        reader.read_to_end(&mut back)
    );
    sent.unwrap();
    read.unwrap();
    assert!(back == data, "{} bytes came back of {}", back.len(), data.len());
}

#[tokio::test]
async fn it_listens_only_when_told_and_on_loopback_only() {
    let helper = Helper::start();
    let port = free_port();
    let client = helper.attach().await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    drop(client);
    let client = attach(&helper, at(port, echo())).await;
    there_and_back(port, b"hello".to_vec()).await;
    let bound = text(&run(&client, "cat /proc/net/tcp").await).to_uppercase();
    assert!(bound.contains(&format!("0100007F:{port:04X}")), "{bound}");
    assert!(!bound.contains(&format!("00000000:{port:04X}")), "{bound}");
    // A stream ends with its connection, and the port with the next one that does not want it.
    let mut old = connect(port).await;
    drop(client);
    let client = attach(&helper, at(port, echo())).await;
    assert!(matches!(old.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    there_and_back(port, b"again".to_vec()).await;
    drop(client);
    let _client = helper.attach().await;
    assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_carry_megabytes_both_ways_and_commands_go_on() {
    let helper = Helper::start();
    let port = free_port();
    let client = attach(&helper, at(port, echo())).await;
    // One that never reads what comes back.
    let mut stuck = connect(port).await;
    let filler = tokio::spawn(async move { while stuck.write_all(&[7; 4096]).await.is_ok() {} });
    let mut all: Vec<_> =
        (0..50).map(|seed| tokio::spawn(there_and_back(port, pattern(seed, 300_000 + seed)))).collect();
    all.push(tokio::spawn(there_and_back(port, pattern(99, 10 << 20))));
    for n in 0..20 {
        assert_eq!(text(&run(&client, &format!("echo {n}")).await), format!("{n}\n"));
    }
    for one in all {
        one.await.unwrap();
    }
    filler.abort();
}

#[tokio::test]
async fn what_is_sent_before_an_end_arrives_however_late_it_is_read() {
    let helper = Helper::start();
    let port = free_port();
    let accept = Arc::new(|mut stream: HelperStream| {
        tokio::spawn(async move {
            stream.write_all(&pattern(1, 200_000)).await.unwrap();
            // Dropped without reading, as a server does that has answered.
            stream.shutdown().await.unwrap();
        });
    });
    let client = attach(&helper, at(port, PortForward { port, accept })).await;
    let mut late = connect(port).await;
    // Some work in between instead of a pause.
    run(&client, "true").await;
    let mut read = Vec::new();
    late.read_to_end(&mut read).await.unwrap();
    assert!(read == pattern(1, 200_000), "{}", read.len());
}

#[tokio::test]
async fn one_that_is_broken_off_on_either_side_is_gone_on_the_other() {
    let helper = Helper::start();
    let port = free_port();
    let (sender, mut taken) = tokio::sync::mpsc::unbounded_channel();
    let accept = Arc::new(move |stream: HelperStream| sender.send(stream).unwrap());
    let client = attach(&helper, at(port, PortForward { port, accept })).await;
    let mut program = connect(port).await;
    drop(taken.recv().await.unwrap());
    assert!(matches!(program.read(&mut [0; 1]).await, Ok(0) | Err(_)));

    let program = connect(port).await;
    let mut stream = taken.recv().await.unwrap();
    program.set_zero_linger().unwrap();
    drop(program);
    let broken = async { while stream.write_all(&[0; 1024]).await.is_ok() {} };
    tokio::time::timeout(LIMIT, broken).await.unwrap();
    stream.gone().cancelled().await;

    let _program = connect(port).await;
    let mut stream = taken.recv().await.unwrap();
    drop(client);
    assert!(stream.read(&mut [0; 1]).await.is_err());
}

#[test]
fn a_helper_survives_steps_that_make_no_sense() {
    let helper = Helper::start();
    let port = free_port();
    let mut raw = Raw::of(&helper);
    raw.send(&bytes(NONCE, &Request::Hello { version: VERSION, port }));
    assert_eq!(raw.reply(NONCE), Reply::Welcome { version: VERSION, listens: true });
    let step = |stream, step| bytes(NONCE, &Request::Stream { stream, step });
    for stream in [0, 1, 77, u32::MAX] {
        raw.send(&step(stream, Step::Data(vec![1; MAX_DATA])));
        raw.send(&step(stream, Step::Credit(u32::MAX)));
        raw.send(&step(stream, Step::Open));
        raw.send(&step(stream, Step::End));
        raw.send(&step(stream, Step::Reset));
    }
    // All of it is read before a stream of one of these numbers begins.
    raw.runs(NONCE);
    let connect = || std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let flooded = connect();
    assert_eq!(raw.reply(NONCE), Reply::Stream { stream: 1, step: Step::Open });
    // More than its window, though the program reads nothing: what fits the socket's own buffers does not
    // count, so much more is sent.
    let mut sent = 0;
    while sent < 64 << 20 {
        raw.send(&step(1, Step::Data(vec![1; MAX_DATA])));
        sent += MAX_DATA;
    }
    loop {
        match raw.reply(NONCE) {
            Reply::Stream { stream: 1, step: Step::Reset } => break,
            Reply::Stream { stream: 1, step: Step::Credit(more) } => assert!(more as usize <= WINDOW),
            other => panic!("{other:?}"),
        }
    }
    drop(flooded);
    // Too much credit is no leave to flood flock.
    let greedy = connect();
    assert_eq!(raw.reply(NONCE), Reply::Stream { stream: 2, step: Step::Open });
    (0..10).for_each(|_| raw.send(&step(2, Step::Credit(u32::MAX))));
    // All of it has come before the first byte is written: what is given later may be used again.
    raw.runs(NONCE);
    // From a thread of its own, for as long as somebody takes it: how much fits the socket is the system's.
    let mut endless = greedy.try_clone().unwrap();
    let writing = std::thread::spawn(move || {
        use std::io::Write as _;
        while endless.write(&[5; 65536]).is_ok() {}
    });
    let mut got = 0;
    while got < WINDOW {
        match raw.reply(NONCE) {
            Reply::Stream { stream: 2, step: Step::Data(data) } => got += data.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(got, WINDOW);
    raw.runs(NONCE);
    // No more streams at once than it says.
    let many: Vec<_> = (0..MAX_STREAMS + 20).map(|_| connect()).collect();
    for _ in 0..MAX_STREAMS - 1 {
        assert!(matches!(raw.reply(NONCE), Reply::Stream { step: Step::Open, .. }));
    }
    raw.runs(NONCE);
    drop(many);
    greedy.shutdown(std::net::Shutdown::Both).unwrap();
    writing.join().unwrap();
}

#[tokio::test]
async fn a_client_takes_no_more_of_a_stream_than_its_window() {
    let client = faked(|nonce| {
        let stream = |stream, step| Reply::Stream { stream, step };
        let mut sent = vec![
            Reply::Welcome { version: VERSION, listens: true },
            stream(5, Step::Data(b"before it is open".to_vec())),
            stream(5, Step::Open),
            stream(5, Step::Open),
            stream(5, Step::End),
            stream(5, Step::Data(b"after its end".to_vec())),
        ];
        for id in 10..1000 {
            sent.push(stream(id, Step::Open));
            sent.extend((0..8).map(|_| stream(id, Step::Data(vec![0; MAX_DATA]))));
            sent.push(stream(id, Step::Credit(u32::MAX)));
        }
        replies(nonce, &sent)
    })
    .await
    .unwrap();
    // The stand-in reads everything and answers nothing.
    let never = CancellationToken::new();
    let command = sh("true");
    tokio::select! {
        result = client.run(&command, &never) => assert!(result.is_err()),
        () = tokio::time::sleep(Duration::from_millis(50)) => {}
    }
    assert!(client.is_alive());
}
