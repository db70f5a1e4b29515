//! Commands in the sandbox of an engine that is reached by `ssh`, the one that `FLOCK_BENCH_ENGINE` names:
//! `./standalone/remote_engine.sh cargo bench --bench figures -- remote`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flock::config::Live;
use flock::sandbox::docker::DockerSandbox;
use flock::sandbox::engine::Engine;
use flock::sandbox::engines::{Engines, PlacementRecords};
use flock::sandbox::{Command as Run, Sandbox as _};
use flock::store::Store;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::home::Home;
use crate::{Sample, row, stub};

const RUNS: usize = 300;

/// Says so and measures nothing if no engine is named.
pub fn run() {
    let Some(address) = std::env::var("FLOCK_BENCH_ENGINE").ok().filter(|address| !address.is_empty()) else {
        row("a command on another machine", "not measured, FLOCK_BENCH_ENGINE names no engine");
        return;
    };
    let home = Home::new(stub::start());
    home.flock(&["init", "--yes"]);
    home.flock(&["engine", "add", "far", &address, "--labels", "far"]);
    home.flock(&["add", "near"]);
    home.flock(&["add", "distant", "--labels", "far"]);
    let echo = Echo::start(&address);
    let mut stream = UnixStream::connect(echo.folder.path().join("near")).unwrap();
    let runner = Runner::new(&home);
    for agent in ["near", "distant"] {
        runner.time(agent);
    }
    let (mut trips, mut near, mut distant) = (Vec::new(), Vec::new(), Vec::new());
    // In turn, so that a machine that gets slower slows all.
    for _ in 0..RUNS {
        trips.push(round_trip(&mut stream));
        near.push(runner.time("near"));
        distant.push(runner.time("distant"));
    }
    drop(runner);
    for agent in ["near", "distant"] {
        home.flock(&["remove", agent, "--yes", "--purge"]);
    }
    home.flock(&["engine", "remove", "far"]);
    let (trips, near, distant) = (Sample::from(trips), Sample::from(near), Sample::from(distant));
    let more = distant.median().saturating_sub(trips.median());
    row("64 bytes through `ssh` and back", &trips);
    row("`true` in a warm sandbox of this machine's engine", &near);
    row("`true` in a warm sandbox of an engine by `ssh`", &distant);
    row("the latter without the round trip", format!("{:.2} ms", more.as_secs_f64() * 1000.0));
}

/// Runs commands in sandboxes of all engines of a home.
struct Runner {
    runtime: Runtime,
    sandbox: DockerSandbox,
}

impl Runner {
    fn new(home: &Home) -> Self {
        let runtime = Runtime::new().unwrap();
        let opened = home.open();
        let config = Arc::new(Live::open(opened.clone()).unwrap());
        let local = Arc::new(Engine::from_env());
        let source = move || config.current();
        let source: flock::sandbox::docker::ConfigSource = Arc::new(source);
        let store = Arc::new(Store::open(&opened).unwrap());
        let records = PlacementRecords::Store(store);
        let engines = Engines::new(opened.clone(), Arc::clone(&source), Arc::clone(&local), records);
        let sandbox = DockerSandbox::new(opened, source, local).with_engines(Arc::new(engines));
        Self { runtime, sandbox }
    }

    fn time(&self, agent: &str) -> Duration {
        let command = Run { command: "true".into(), keep: 1000, ..Run::default() };
        let cancel = CancellationToken::new();
        let began = Instant::now();
        self.runtime.block_on(self.sandbox.run(&agent.parse().unwrap(), command, &cancel)).unwrap();
        began.elapsed()
    }
}

/// A socket at the far end of an `ssh` of its own that sends back what it is sent.
struct Echo {
    ssh: Child,
    folder: tempfile::TempDir,
}

impl Echo {
    fn start(address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (near, far) = (folder.path().join("near"), folder.path().join("far"));
        let listener = UnixListener::bind(&far).unwrap();
        std::thread::spawn(move || {
            let Ok((mut stream, _)) = listener.accept() else { return };
            let mut bytes = [0; 64];
            while stream.read_exact(&mut bytes).is_ok() && stream.write_all(&bytes).is_ok() {}
        });
        let rest = address.strip_prefix("ssh://").unwrap();
        let (host, port) = rest.split('/').next().unwrap().split_once(':').unwrap();
        let forward = format!("{}:{}", near.display(), far.display());
        let ssh = Command::new("ssh")
            .args(["-N", "-T", "-o", "BatchMode=yes", "-p", port, "-L", &forward, host])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let began = Instant::now();
        while !near.exists() {
            assert!(began.elapsed() < Duration::from_secs(30), "ssh does not connect");
            std::thread::yield_now();
        }
        Self { ssh, folder }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

fn round_trip(stream: &mut UnixStream) -> Duration {
    let mut bytes = [7; 64];
    let began = Instant::now();
    stream.write_all(&bytes).unwrap();
    stream.read_exact(&mut bytes).unwrap();
    began.elapsed()
}
