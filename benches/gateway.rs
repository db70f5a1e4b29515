//! What a turn costs: the real gateway, loaded over HTTP, against a model that answers at once.
//!
//! `cargo bench --bench gateway -- [--turns N] [--sessions N] [--connections N] [--agents N] [--json]`
//!
//! Everything runs on this machine: a model server and the clients in this process, the gateway in a process
//! and a home of its own. A turn's own cost is what the client measured less what the model server did.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program for measuring: it may fail loudly"
)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

const TOKEN: &str = "bench-token";

struct Settings {
    turns: usize,
    sessions: usize,
    connections: usize,
    agents: usize,
    json: bool,
}

fn settings() -> Settings {
    let mut settings = Settings { turns: 2000, sessions: 500, connections: 8, agents: 20, json: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).expect("a number");
        match arg.as_str() {
            "--turns" => settings.turns = number(),
            "--sessions" => settings.sessions = number(),
            "--connections" => settings.connections = number(),
            "--agents" => settings.agents = number(),
            "--json" => settings.json = true,
            _ => {}
        }
    }
    settings
}

/// What the model server saw of the answer that it gave last.
#[derive(Default)]
struct Model {
    /// Microseconds from a request's arrival to its last byte, all together.
    spent: AtomicU64,
    calls: AtomicU64,
    first_byte: Mutex<Option<Instant>>,
}

async fn serve_model(listener: TcpListener, model: Arc<Model>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let model = model.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, model.clone()));
            drop(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await,
            );
        });
    }
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>;

async fn answer(request: Request<Incoming>, model: Arc<Model>) -> Result<Response<Body>, hyper::Error> {
    let began = Instant::now();
    request.into_body().collect().await?;
    let chunk = |delta: Value, finish: Value, usage: Value| {
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "one",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": usage});
        Bytes::from(format!("data: {chunk}\n\n"))
    };
    let frames = [
        chunk(json!({"role": "assistant", "content": "It is"}), Value::Null, Value::Null),
        chunk(json!({"content": " done."}), Value::Null, Value::Null),
        chunk(
            json!({}),
            "stop".into(),
            json!({"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}),
        ),
        Bytes::from_static(b"data: [DONE]\n\n"),
    ];
    *model.first_byte.lock().unwrap() = Some(Instant::now());
    let stream = futures_util::stream::iter(frames.map(|bytes| Ok(Frame::data(bytes))));
    model.calls.fetch_add(1, Ordering::Relaxed);
    model.spent.fetch_add(u64::try_from(began.elapsed().as_micros()).unwrap(), Ordering::Relaxed);
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    Ok(response)
}

/// The gateway's process and its home.
struct Gateway {
    child: Child,
    port: u16,
    _home: tempfile::TempDir,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = nix::sys::signal::kill(self.pid(), nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}

impl Gateway {
    fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// Makes a home whose agents ask the model server, and starts its gateway; says how long that took.
    async fn start(model_port: u16, agents: usize) -> (Self, Duration) {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().canonicalize().unwrap().join("home");
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let init = flock(&home)
            .args(["init", "--yes", "--no-images", "--model", "stub/one", "--port", &port.to_string()])
            .output()
            .unwrap();
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        configure(&home, model_port, agents);
        let log = std::fs::File::create(dir.path().join("log")).unwrap();
        let began = Instant::now();
        let child = flock(&home).args(["gateway", "serve"]).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let gateway = Self { child, port, _home: dir };
        while !gateway.is_healthy().await {
            assert!(began.elapsed() < Duration::from_secs(20), "the gateway did not start");
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        (gateway, began.elapsed())
    }

    async fn is_healthy(&self) -> bool {
        let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)).await else { return false };
        let mut line = connect(stream).await;
        let request = Request::get("/health").header("host", "localhost").body(Full::default()).unwrap();
        line.send_request(request).await.is_ok_and(|answer| answer.status() == 200)
    }

    async fn line(&self) -> SendRequest<Full<Bytes>> {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        connect(stream).await
    }

    fn resident_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    fn cpu_ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

fn flock(home: &Path) -> Command {
    let mut command = Command::new(PathBuf::from(env!("CARGO_BIN_EXE_flock")));
    command.env("FLOCK_HOME", home).env("DOCKER_HOST", "unix:///nonexistent/docker.sock");
    command
}

fn configure(home: &Path, model_port: u16, agents: usize) {
    let path = home.join("config.json");
    let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    config["gateway"]["auth"]["token"] = TOKEN.into();
    config["models"]["providers"]["stub"] = json!({
        "baseUrl": format!("http://127.0.0.1:{model_port}/v1"),
        "apiKey": "none",
        "api": "openai-completions",
        "models": [{"id": "one", "name": "one", "contextWindow": 200_000, "maxTokens": 4096}],
    });
    for number in 0..agents.saturating_sub(2) {
        let id = format!("worker-{number}");
        let workspace = home.join("workspaces").join(&id);
        std::fs::create_dir_all(&workspace).unwrap();
        let listed = config["agents"]["list"].as_array_mut().unwrap();
        listed.push(json!({"id": id, "workspace": workspace, "sandbox": {"mode": "all", "scope": "agent"}}));
        let own = &mut config["plugins"]["entries"]["flock"]["config"]["gatewayAgents"];
        own.as_array_mut().unwrap().push(json!({"id": id, "role": "worker", "runtime": "native"}));
    }
    std::fs::write(path, config.to_string()).unwrap();
}

async fn connect(stream: TcpStream) -> SendRequest<Full<Bytes>> {
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn turn(session: usize, streamed: bool) -> Request<Full<Bytes>> {
    let body = json!({"model": "orchestrator", "stream": streamed,
        "messages": [{"role": "user", "content": "Say that it is done."}]});
    Request::post("/v1/chat/completions")
        .header("host", "localhost")
        .header("authorization", format!("Bearer {TOKEN}"))
        .header("x-openclaw-session-key", format!("agent:orchestrator:flock:main:bench-{session}"))
        .body(Full::new(body.to_string().into()))
        .unwrap()
}

async fn run_turn(line: &mut SendRequest<Full<Bytes>>, session: usize) -> Duration {
    line.ready().await.unwrap();
    let began = Instant::now();
    let answer = line.send_request(turn(session, false)).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(status, 200, "{}", String::from_utf8_lossy(&body));
    began.elapsed()
}

/// Median and 95th percentile, in milliseconds.
fn spread(mut times: Vec<Duration>) -> (f64, f64) {
    times.sort_unstable();
    let at =
        |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    (at(50), at(95))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let settings = settings();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let model_port = listener.local_addr().unwrap().port();
    let model = Arc::new(Model::default());
    tokio::spawn(serve_model(listener, model.clone()));
    let mut figures = serde_json::Map::new();
    let mut note = |name: &str, value: f64| {
        if !settings.json {
            println!("{name:<34} {value:>10.2}");
        }
        figures.insert(name.to_owned(), json!((value * 100.0).round() / 100.0));
    };

    let mut starts = Vec::new();
    for _ in 0..7 {
        starts.push(Gateway::start(model_port, settings.agents).await.1);
    }
    note("spawn to healthy, median ms", spread(starts).0);
    let (gateway, _) = Gateway::start(model_port, settings.agents).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    note("idle, MiB resident", gateway.resident_kib() as f64 / 1024.0);
    let ticks = gateway.cpu_ticks();
    tokio::time::sleep(Duration::from_secs(5)).await;
    note("idle for 5 s, CPU ticks of 10 ms", (gateway.cpu_ticks() - ticks) as f64);

    let mut line = gateway.line().await;
    for session in 0..20 {
        run_turn(&mut line, session % settings.sessions).await;
    }
    let mut first = Vec::new();
    for session in 0..200.min(settings.turns) {
        line.ready().await.unwrap();
        let mut answer =
            line.send_request(turn(session % settings.sessions, true)).await.unwrap().into_body();
        let mut seen = None;
        while let Some(frame) = answer.frame().await {
            let data = frame.unwrap().into_data().unwrap_or_default();
            if seen.is_none() && data.windows(5).any(|part| part == b"It is") {
                seen = Some(Instant::now());
            }
        }
        first.push(seen.unwrap() - model.first_byte.lock().unwrap().unwrap());
    }
    let (median, late) = spread(first);
    note("model's first byte to client's, ms", median);
    note("… 95th percentile", late);

    let spent = model.spent.swap(0, Ordering::Relaxed) / model.calls.swap(0, Ordering::Relaxed).max(1);
    note("the model server's own part, ms", spent as f64 / 1000.0);
    let before = gateway.resident_kib();
    let mut times = Vec::with_capacity(settings.turns);
    for number in 0..settings.turns {
        times.push(run_turn(&mut line, number % settings.sessions).await);
    }
    let quarter = settings.turns / 4;
    note("first quarter of the turns, ms", spread(times[..quarter].to_vec()).0);
    note("last quarter of the turns, ms", spread(times[settings.turns - quarter..].to_vec()).0);
    let (median, late) = spread(times);
    note("a turn, median ms", median);
    note("… 95th percentile", late);

    let began = Instant::now();
    let mut clients = Vec::new();
    for client in 0..settings.connections {
        let mut line = gateway.line().await;
        let share = settings.turns / settings.connections;
        let step = settings.sessions / settings.connections;
        clients.push(tokio::spawn(async move {
            for number in 0..share {
                run_turn(&mut line, client * step + number % step.max(1)).await;
            }
            share
        }));
    }
    let mut done = 0;
    for client in clients {
        done += client.await.unwrap();
    }
    note("turns a second, concurrent", done as f64 / began.elapsed().as_secs_f64());
    note("growth over all turns, MiB", (gateway.resident_kib() as f64 - before as f64) / 1024.0);
    note("resident at the end, MiB", gateway.resident_kib() as f64 / 1024.0);
    if settings.json {
        println!("{}", Value::Object(figures));
    }
}
