//! What flock costs, measured on the built binary: `cargo bench --bench figures [-- PART…]`.
//!
//! Parts: `process gateway turns telemetry prompt hygiene context scheduler channels clone docker mcp postgres remote`; all of them where none is named. Prints a
//! Markdown table, as in docs/performance.md. Nothing here asserts: machines differ, and these figures are to be read.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a program for developers that may fail loudly"
)]

mod channels;
mod clone;
mod context;
#[path = "../scale/simulation/database.rs"]
#[expect(dead_code, reason = "the simulation also fills and measures its databases from outside")]
mod database;
mod docker;
mod gateways;
mod home;
mod http;
mod hygiene;
mod mcp;
mod postgres;
mod process;
mod prompt;
mod remote;
mod scheduler;
#[path = "../scale/server.rs"]
mod server;
mod stub;
mod telemetry;
mod turns;

use std::time::Duration;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let runs = |part: &str| wanted.is_empty() || wanted.iter().any(|word| word == part);
    println!("| figure | value |\n|---|---|");
    if runs("process") {
        process::commands();
    }
    if runs("gateway") {
        process::gateway();
    }
    if runs("turns") {
        turns::run();
    }
    if runs("telemetry") {
        telemetry::run();
    }
    if runs("prompt") {
        prompt::run();
    }
    if runs("scheduler") {
        scheduler::run();
    }
    if runs("channels") {
        channels::run();
    }
    if runs("hygiene") {
        hygiene::run();
    }
    if runs("context") {
        context::run();
    }
    if runs("clone") {
        clone::run();
    }
    if runs("docker") {
        docker::run();
    }
    if runs("mcp") {
        mcp::run();
    }
    if runs("postgres") {
        postgres::run();
    }
    if runs("remote") {
        remote::run();
    }
}

/// One row of the table.
fn row(figure: &str, value: impl std::fmt::Display) {
    println!("| {figure} | {value} |");
}

/// Durations, sorted, for what is read from them.
struct Sample(Vec<Duration>);

impl Sample {
    /// Runs `work` once unmeasured, then `times` times measured by itself.
    fn of(times: usize, mut work: impl FnMut() -> Duration) -> Self {
        work();
        Self::from((0..times).map(|_| work()).collect::<Vec<_>>())
    }

    fn at(&self, share: f64) -> Duration {
        let last = self.0.len() - 1;
        self.0[((last as f64) * share).round() as usize]
    }

    fn median(&self) -> Duration {
        self.at(0.5)
    }
}

impl From<Vec<Duration>> for Sample {
    fn from(mut durations: Vec<Duration>) -> Self {
        durations.sort_unstable();
        Self(durations)
    }
}

impl std::fmt::Display for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |duration: Duration| duration.as_secs_f64() * 1000.0;
        write!(
            f,
            "median {:.2} ms (min {:.2}, p95 {:.2}, n={})",
            ms(self.median()),
            ms(self.at(0.0)),
            ms(self.at(0.95)),
            self.0.len()
        )
    }
}
