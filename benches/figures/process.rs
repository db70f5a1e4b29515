//! Whole processes: how long a verb takes, how long until a gateway answers, what it uses when idle.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::home::{FLOCK, Home};
use crate::{Sample, row, stub};

/// Verbs that need no gateway.
pub fn commands() {
    let version = Sample::of(50, || {
        let began = Instant::now();
        let status = Command::new(FLOCK).arg("--version").stdout(Stdio::null()).status().unwrap();
        assert!(status.success());
        began.elapsed()
    });
    row("`flock --version`", version);
    let size = std::fs::metadata(FLOCK).unwrap().len();
    row("the binary", format!("{:.1} MB", size as f64 / 1e6));
}

/// The gateway's start, `flock start`, `flock status`, memory and CPU when idle.
pub fn gateway() {
    let home = Home::new(stub::start());
    home.fill(20);
    row("`flock gateway serve`, spawn to healthy, 20 agents", Sample::of(20, || home.serve().1));

    let (gateway, _) = home.serve();
    std::thread::sleep(Duration::from_secs(5));
    let before = gateway.ticks();
    std::thread::sleep(Duration::from_secs(20));
    let used = gateway.ticks() - before;
    row(
        "gateway, idle for 5 s, 20 agents: resident",
        format!("{:.1} MiB", gateway.resident() as f64 / 1024.0),
    );
    row("gateway, idle: CPU in 20 s", format!("{used} clock ticks of 10 ms"));
    drop(gateway);

    let start = Sample::of(10, || {
        let took = home.flock(&["start"]);
        home.flock(&["stop"]);
        took
    });
    row("`flock start`, to healthy", start);
    home.flock(&["start"]);
    let status = Sample::of(30, || home.flock(&["status"]));
    row("`flock status`, gateway up, 20 agents", status);
    row("`flock list`", Sample::of(20, || home.flock(&["list"])));
    home.flock(&["stop"]);
}
