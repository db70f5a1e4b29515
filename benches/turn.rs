//! What a turn costs besides the model: `cargo bench --bench turn [-- TURNS SESSIONS CONCURRENT]`.
//!
//! The script answers at once, so all that is measured is flock's own work, the committed transcript
//! included. The figures of the whole way over HTTP are taken by `standalone/bench.sh`.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement may fail loudly, and its figures are its output"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flock::agent::{Engine, Limits, Parts, TurnRequest};
use flock::config::{Live, Role, agents, starter};
use flock::home::Home;
use flock::id::{AgentId, SessionKey, SessionKind, TurnId};
use flock::provider::{Catalog, Message, Role as Speaker};
use flock::store::Store;
use flock::tool::Registry;
use tokio_util::sync::CancellationToken;

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let turns = numbers.next().unwrap_or(10_000);
    let sessions = numbers.next().unwrap_or(500);
    let concurrent = numbers.next().unwrap_or(8);
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(engine(folder.path()));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();

    runtime.block_on(one_by_one(&engine, 200, 20, "warm"));
    println!("resident after 200 turns: {} KiB", resident());
    let times = runtime.block_on(one_by_one(&engine, turns, sessions, "peer"));
    for (part, slice) in times.chunks(times.len().div_ceil(5).max(1)).enumerate() {
        println!("turns, fifth {}: {}", part + 1, summary(slice));
    }
    println!("all: {}", summary(&times));
    println!("resident: {} KiB", resident());

    let began = Instant::now();
    runtime.block_on(at_once(&engine, turns, sessions, concurrent));
    let rate = turns as f64 / began.elapsed().as_secs_f64();
    println!("{concurrent} at once: {rate:.0} turns/s");
    println!("resident: {} KiB", resident());
}

fn engine(folder: &Path) -> Engine {
    let home = Home::new(folder.join("home"), None);
    home.make_folders().unwrap();
    let script = r#"{"replies": [{"steps": [{"say": "A short answer, as models give it to a greeting."}]}]}"#;
    fs_err::write(home.scripts().join("bench"), script).unwrap();
    let mut document = starter::document(&home, Some(&"script/bench".parse().unwrap()), "token", 4_001);
    let agent = agents::NewAgent {
        id: agent(),
        role: Role::Worker,
        archetype: None,
        runtime: "native".into(),
        model: None,
        effort: None,
        autonomy: None,
        memory: None,
        cpus: None,
    };
    agents::add(&mut document, &home, &agent).unwrap();
    fs_err::write(home.config(), document.to_string()).unwrap();
    flock::agent::identity::write(&home.workspace(&agent.id), &agent.id, Role::Worker, None).unwrap();
    Engine::new(Parts {
        config: Arc::new(Live::open(home.clone()).unwrap()),
        store: Arc::new(Store::open(&home).unwrap()),
        registry: Registry::default(),
        catalog: Catalog::new(home),
        limits: Limits::default(),
    })
}

fn agent() -> AgentId {
    "coder".parse().unwrap()
}

async fn turn(engine: &Engine, session: &str) {
    let request = TurnRequest {
        agent: agent(),
        session: SessionKey::new(&agent(), SessionKind::Main, session),
        turn: TurnId::new(),
        input: vec![Message::text(Speaker::User, "hello, how are you today?")],
        context: Vec::new(),
    };
    engine.run(request, CancellationToken::new(), &mut |_| {}).await.unwrap();
}

async fn one_by_one(engine: &Engine, turns: usize, sessions: usize, name: &str) -> Vec<Duration> {
    let mut times = Vec::with_capacity(turns);
    for n in 0..turns {
        let session = format!("{name}{}", n % sessions);
        let began = Instant::now();
        turn(engine, &session).await;
        times.push(began.elapsed());
    }
    times
}

async fn at_once(engine: &Arc<Engine>, turns: usize, sessions: usize, concurrent: usize) {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..concurrent {
        let (engine, next) = (Arc::clone(engine), Arc::clone(&next));
        tasks.spawn(async move {
            // Each has sessions of its own: two turns of one session never run at once.
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= turns {
                    return;
                }
                turn(&engine, &format!("at-once-{worker}-{}", n % (sessions / concurrent).max(1))).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

fn summary(times: &[Duration]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize];
    format!("median {:?}, 95th {:?}, worst {:?}", at(0.5), at(0.95), at(1.0))
}

fn resident() -> u64 {
    let status = fs_err::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
