//! A home of the measurement's own, its gateway, and what a process uses.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::http::Connection;

/// The built binary.
pub const FLOCK: &str = env!("CARGO_BIN_EXE_flock");

/// A temporary home with a port of its own.
pub struct Home {
    dir: tempfile::TempDir,
    pub port: u16,
    pub token: String,
}

impl Home {
    /// A home without images, whose agents ask the model at `model_port`.
    pub fn new(model_port: u16) -> Self {
        let dir = tempfile::Builder::new().prefix("flock-bench-").tempdir_in("/var/tmp").unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut home = Self { dir, port, token: String::new() };
        let port = port.to_string();
        home.flock(&["init", "--yes", "--no-images", "--model", "bench/instant", "--port", &port]);
        let opened = home.open();
        flock::config::edit(&opened, |document| -> Result<(), flock::config::ConfigError> {
            document["models"]["providers"]["bench"] = json!({
                "baseUrl": format!("http://127.0.0.1:{model_port}/v1"),
                "apiKey": "none",
                "api": "openai-completions",
                "models": [{"id": "instant", "contextWindow": 128_000, "maxTokens": 4096}],
            });
            Ok(())
        })
        .unwrap();
        home.token = flock::config::read(&opened).unwrap().token;
        home
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join("home")
    }

    pub fn open(&self) -> flock::home::Home {
        flock::home::Home::locate(Some(&self.path())).unwrap()
    }

    /// Adds workers to the configuration, until there are `count` agents.
    pub fn fill(&self, count: usize) {
        let home = self.open();
        let known = flock::config::read(&home).unwrap().agents.len();
        flock::config::edit(&home, |document| -> Result<(), flock::config::ConfigError> {
            for n in known..count {
                let agent = flock::config::agents::NewAgent::new(
                    format!("agent-{n}").parse().unwrap(),
                    flock::config::Role::Worker,
                );
                flock::config::agents::add(document, &home, &agent)?;
                std::fs::create_dir_all(home.workspace(&agent.id)).unwrap();
            }
            Ok(())
        })
        .unwrap();
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(FLOCK);
        command.arg("--home").arg(self.path()).args(args).stdin(Stdio::null());
        command
    }

    /// Runs a verb to its end; it must succeed.
    pub fn flock(&self, args: &[&str]) -> Duration {
        let began = Instant::now();
        let output = self.command(args).output().unwrap();
        let took = began.elapsed();
        assert!(output.status.success(), "flock {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        took
    }

    /// Starts the gateway alone; returns when it answers.
    pub fn serve(&self) -> (Gateway, Duration) {
        let began = Instant::now();
        let log = std::fs::File::create(self.dir.path().join("gateway.log")).unwrap();
        let child = self.command(&["gateway", "serve"]).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        while Connection::open(self.port, "").and_then(|mut c| c.get("/health")).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "the gateway does not answer");
            std::thread::yield_now();
        }
        (Gateway { child }, began.elapsed())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command(&["stop"]).output();
    }
}

/// A running gateway.
pub struct Gateway {
    child: Child,
}

impl Gateway {
    /// Resident memory in KiB.
    pub fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Clock ticks of CPU time it has used.
    pub fn ticks(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).unwrap());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
