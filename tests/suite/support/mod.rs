//! What suites share: a home of their own, the built binary, waiting by condition.
#![allow(dead_code, reason = "not every suite uses every part")]

pub mod cluster;
pub mod collector;
pub mod database;
pub mod docker;
pub mod engine_proxy;
pub mod extra_engine;
pub mod home;
pub mod matrix_server;
pub mod model_server;
pub mod object_server;
pub mod openclaw;
pub mod own_source;
pub mod package_registry;
pub mod postgres;
pub mod preload;
pub mod receipt;
pub mod schema;
pub mod served_router;
pub mod ssh_server;
pub mod terminal;

use std::path::Path;
use std::time::{Duration, Instant};

/// The pauses of [`wait_until`].
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// Waits until `condition` gives a value, at most `limit`; a wait that fails says what it waited for and
/// the last state.
pub fn wait_until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Result<T, String>) -> T {
    let end = Instant::now() + limit;
    loop {
        let asked = Instant::now();
        match condition() {
            Ok(value) => return value,
            Err(state) if Instant::now() >= end => {
                panic!("{what}: not within {limit:?}; last state: {state}")
            }
            // Many conditions start a program. Most of the processor is left to what is waited for.
            Err(_) => std::thread::sleep((asked.elapsed() * 3).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)),
        }
    }
}

/// Copies a program that is to be run.
///
/// Another process does the writing. A process that a parallel test forks meanwhile would inherit this one's open file,
/// and the kernel refuses to run a file that is open for writing.
pub fn copy_program(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").args([from, to]).status().unwrap().success());
}

/// Runs git in a folder, without anybody's settings, and gives what it says.
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = std::process::Command::new("git")
        .args(["-c", "user.name=owner", "-c", "user.email=owner@flock", "-c", "safe.directory=*"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
    assert!(output.status.success(), "git {arguments:?}: {text}");
    // Newer versions of git have another name for a setting that libgit2 knows under this one.
    let is_own = |line: &&str| !line.contains("core.fsyncObjectFiles is deprecated");
    text.lines().filter(is_own).collect::<Vec<_>>().join("\n")
}

/// The built flock binary.
pub fn flock_binary() -> &'static str {
    env!("CARGO_BIN_EXE_flock")
}
