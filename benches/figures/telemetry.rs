//! A turn with telemetry on, against one with telemetry off: in turns, on one gateway, so that the machine's mood is the
//! same for all.

use std::io::{BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use serde_json::{Value, json};

use crate::home::Home;
use crate::http::Connection;
use crate::{Sample, row, stub};

const ROUNDS: usize = 10;
/// Turns of one round.
const TURNS: usize = 300;

pub fn run() {
    let home = Home::new(stub::start());
    home.fill(4);
    let (gateway, _) = home.serve();
    let mut client = Connection::open(home.port, &home.token).unwrap();
    let (taking, hanging) = (collector(true), collector(false));
    let kinds = [
        ("telemetry off", Value::Null),
        ("telemetry on", json!({"endpoint": taking})),
        ("telemetry on, with contents", json!({"endpoint": taking, "contents": true})),
        ("telemetry on, and the collector never answers", json!({"endpoint": hanging})),
    ];
    let mut taken = vec![Vec::new(); kinds.len()];
    let mut ticks = vec![0; kinds.len()];
    for round in 0..=ROUNDS {
        for (kind, (_, otlp)) in kinds.iter().enumerate() {
            flock::config::edit(&home.open(), |document| -> Result<(), flock::config::ConfigError> {
                let block = if otlp.is_null() { json!({}) } else { json!({"otlp": otlp}) };
                document["plugins"]["entries"]["flock"]["config"]["telemetry"] = block;
                Ok(())
            })
            .unwrap();
            let before = gateway.ticks();
            let times: Vec<Duration> = (0..TURNS)
                .map(|n| {
                    client.chat("agent-2", Some(&format!("agent:agent-2:flock:dm:{round}-{n}"))).unwrap()
                })
                .collect();
            // The first round warms up.
            if round > 0 {
                taken[kind].extend(times);
                ticks[kind] += gateway.ticks() - before;
            }
        }
    }
    for (kind, (name, _)) in kinds.iter().enumerate() {
        row(&format!("a turn in a new session, whole, {name}"), Sample::from(taken[kind].clone()));
        // A tick is 10 ms.
        let ms = ticks[kind] as f64 * 10.0 / (ROUNDS * TURNS) as f64;
        row(&format!("processor time of the gateway for it, {name}"), format!("{ms:.2} ms"));
    }
    row("resident after all of this", format!("{:.1} MiB", gateway.resident() as f64 / 1024.0));
}

/// Serves on a port of its own until the process ends: a collector that takes everything, or one that never answers.
fn collector(answers: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve(stream, answers));
        }
    });
    format!("http://{address}")
}

fn serve(stream: TcpStream, answers: bool) -> Option<()> {
    let mut stream = BufReader::new(stream);
    let mut body = Vec::new();
    loop {
        stub::read_request(&mut stream, &mut body)?;
        if answers {
            stream.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()?;
        }
    }
}
