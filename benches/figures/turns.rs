//! Turns against a model that answers at once: what is left is flock's own cost.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::home::Home;
use crate::http::Connection;
use crate::{Sample, row, stub};

const SESSIONS: usize = 500;
const TURNS: usize = 10_000;
/// Turns of a long session.
const LONG: usize = 2_000;

/// Measures turns of one client after the other, in sessions that have had some, with any database.
pub fn few(home: &Home, model: u16, database: &str) {
    home.fill(20);
    let (_gateway, _) = home.serve();
    let mut direct = Connection::open(model, "").unwrap();
    let floor = Sample::of(500, || direct.ask_stub().unwrap());
    let mut client = Connection::open(home.port, &home.token).unwrap();
    let taken: Vec<Duration> = (0..2 * SESSIONS).map(|n| turn(&mut client, n)).collect();
    let (first, second) = taken.split_at(SESSIONS);
    row(&format!("{database}: a turn's own cost, in {SESSIONS} new sessions"), own(first, &floor));
    row(&format!("{database}: a turn's own cost, the second one of each"), own(second, &floor));
}

/// Runs turn `n`, in one session after the other.
fn turn(client: &mut Connection, n: usize) -> Duration {
    let n = n % SESSIONS;
    let agent = format!("agent-{}", 2 + n % 18);
    client.chat(&agent, Some(&format!("agent:{agent}:flock:dm:bench-{n}"))).unwrap()
}

/// Returns what turns took without the model.
fn own(taken: &[Duration], model: &Sample) -> Sample {
    Sample::from(taken.iter().map(|took| took.saturating_sub(model.median())).collect::<Vec<_>>())
}

/// One connection, then eight; memory before and after; how fast a first piece is passed on.
pub fn run() {
    let model = stub::start();
    let home = Home::new(model);
    home.fill(20);
    let (gateway, _) = home.serve();
    let mut direct = Connection::open(model, "").unwrap();
    let floor = Sample::of(500, || direct.ask_stub().unwrap());
    row("the stub model itself, asked directly", &floor);

    let mut client = Connection::open(home.port, &home.token).unwrap();
    for n in 0..SESSIONS {
        turn(&mut client, n);
    }
    let resident = gateway.resident();
    let all: Vec<Duration> = (0..TURNS).map(|n| turn(&mut client, n)).collect();
    row("a turn's own cost, turns 1 to 1,000 of 10,000 in 500 sessions", own(&all[..1000], &floor));
    row("a turn's own cost, the last 1,000 of them", own(&all[TURNS - 1000..], &floor));
    let grown = gateway.resident().saturating_sub(resident);
    row("growth over these 10,000 turns", format!("{:.1} MiB", grown as f64 / 1024.0));

    let fresh = Sample::of(500, || client.chat("agent-2", None).unwrap());
    row("a turn in a new session each time, whole", fresh);

    let long = |client: &mut Connection| client.chat("agent-2", Some("agent:agent-2:flock:dm:long")).unwrap();
    for _ in 0..LONG {
        long(&mut client);
    }
    let taken: Vec<Duration> = (0..200).map(|_| long(&mut client)).collect();
    row(&format!("a turn's own cost in a session of {LONG} turns"), own(&taken, &floor));

    let next = AtomicUsize::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = Connection::open(home.port, &home.token).unwrap();
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= TURNS {
                        return;
                    }
                    turn(&mut client, n);
                }
            });
        }
    });
    let rate = TURNS as f64 / began.elapsed().as_secs_f64();
    row("turns a second, 8 at once", format!("{rate:.0}"));
    row("resident after all of this", format!("{:.1} MiB", gateway.resident() as f64 / 1024.0));

    stub::SLOW.store(true, Ordering::Relaxed);
    let passed = Sample::of(100, || {
        let mut first = None;
        client
            .stream("agent-2", |piece| {
                if first.is_none() && piece.windows(3).any(|window| window == b"All") {
                    first = Some(stub::now());
                }
            })
            .unwrap();
        Duration::from_nanos(first.unwrap().saturating_sub(stub::WRITTEN.load(Ordering::SeqCst)))
    });
    stub::SLOW.store(false, Ordering::Relaxed);
    row("first piece, from the model's write to the client's read", passed);
}
