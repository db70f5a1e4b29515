//! The team over a gateway process: what agents, people and other systems ask of it.

mod a2a;
pub mod approvals;
mod channels;
pub mod checkpoints;
pub mod cli;
mod conversations;
mod gateways;
mod hooks;
mod isolation;
mod lifecycle;
mod play;
mod races;
mod requests;
mod roles;
mod schedule_clock;
mod schedules;
mod search;
pub mod stage;
mod tasks;

use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::home::TempHome;
use crate::support::wait_until;

const LIMIT: Duration = Duration::from_secs(60);

/// A home whose agents play a script, and its gateway.
struct House {
    home: TempHome,
    gateway: Option<Child>,
    ids: AtomicU64,
}

impl House {
    /// A gateway whose agents answer by these replies.
    fn new(replies: &Value) -> Self {
        let home = TempHome::new().init();
        home.flock(["config", "set", "agents.defaults.model.primary", "script/team"]).ok();
        std::fs::write(home.file("scripts/team"), json!({ "replies": replies }).to_string()).unwrap();
        for worker in ["coder", "tester"] {
            home.flock(["add", worker, "--no-container"]).ok();
        }
        let mut house = Self { home, gateway: None, ids: AtomicU64::new(0) };
        house.start();
        house
    }

    /// Starts the gateway and waits until it is healthy.
    fn start(&mut self) {
        let path = self.home.outside().join("gateway.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let mut command = self.home.command();
        command.args(["gateway", "serve"]).env("FLOCK_LOG", "debug").stdin(Stdio::null()).stderr(log);
        self.gateway = Some(command.spawn().unwrap());
        wait_until("the gateway is healthy", LIMIT, || match self.http("GET", "/health", None, true) {
            Some((200, _)) => Ok(()),
            other => Err(format!("{other:?}\n{}", std::fs::read_to_string(&path).unwrap_or_default())),
        });
    }

    /// Ends the gateway as `kill -9` does.
    fn kill(&mut self) {
        if let Some(mut gateway) = self.gateway.take() {
            drop(gateway.kill());
            drop(gateway.wait());
        }
    }

    /// Status and body; `None` where nothing answers.
    fn http(&self, method: &str, path: &str, body: Option<&Value>, is_known: bool) -> Option<(u16, String)> {
        use std::io::{Read as _, Write as _};
        let token = if is_known { self.home.token() } else { "wrong".to_owned() };
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.home.port())).ok()?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let body = if head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
            unchunked(body)
        } else {
            body.to_owned()
        };
        Some((status, body))
    }

    /// The JSON at a path of the API.
    fn get(&self, path: &str) -> Value {
        let (status, body) = self.http("GET", path, None, true).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// A call of A2A to an agent, as it was answered.
    fn post(&self, path: &str) {
        let (status, body) = self.http("POST", path, None, true).unwrap();
        assert_eq!(status, 200, "{path}: {body}");
    }

    fn call(&self, agent: &str, method: &str, params: Value) -> Value {
        let (status, body) = self.call_raw(agent, method, params);
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
    }

    fn call_raw(&self, agent: &str, method: &str, params: Value) -> (u16, String) {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.http("POST", &format!("/flock/a2a/{agent}"), Some(&call), true).unwrap()
    }

    /// Waits until `look` gives something.
    fn until<T>(&self, what: &str, mut look: impl FnMut(&Self) -> Result<T, String>) -> T {
        wait_until(what, LIMIT, || look(self))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.kill();
    }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        if size == 0 || rest.len() < size {
            break;
        }
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}
