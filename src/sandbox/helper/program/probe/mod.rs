//! The probe. It tries from inside everything that a sandbox must not allow, and prints the result of each try as a
//! `key=value` line. It judges nothing: flock decides outside if the sandbox is confined enough.
//!
//! `probe_report.rs` reads the lines and describes them. A probe tells the truth as long as nothing hostile ran before
//! it, because a process of the same user could disturb it. So the probe is unreadable like the helper, and flock
//! trusts the probe before the agent's first command most.

mod calls;
mod files;
mod network;
mod process;
mod walls;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Limits of the walk in entries and time. A workspace and a store can be very large.
const MAX_ENTRIES: usize = 20_000;
const MAX_WALK: Duration = Duration::from_millis(12);
/// Limit on the lines. More of them say nothing new and would not fit into the kept output.
const MAX_LINES: usize = 2_000;

#[derive(Default)]
pub struct Lines {
    text: String,
    count: usize,
}

impl Lines {
    /// Adds a line. Blanks and unprintable characters in a word are written as `%XX`, so that words stay separate.
    pub fn say(&mut self, key: &str, words: &[&[u8]]) {
        self.count += 1;
        if self.count > MAX_LINES {
            return;
        }
        self.text.push_str(key);
        for (index, word) in words.iter().enumerate() {
            self.text.push(if index == 0 { '=' } else { ' ' });
            for byte in word.iter().take(512) {
                match byte {
                    b'%' | 0..=b' ' | 0x7f.. => drop(write!(self.text, "%{byte:02X}")),
                    _ => self.text.push(char::from(*byte)),
                }
            }
        }
        self.text.push('\n');
    }

    /// Adds a line that says if something is open.
    pub fn say_open(&mut self, key: &str, open: bool) {
        self.say(key, &[if open { b"open" } else { b"closed" }]);
    }
}

/// Runs all checks and prints the lines. `targets` are addresses to try besides the well-known ones.
pub fn run(targets: &str) -> ExitCode {
    let start = Instant::now();
    let mut lines = Lines::default();
    process::identity(&mut lines);
    process::limits(&mut lines);
    process::helper(&mut lines);
    let mounts = files::mounts(&mut lines);
    files::writes(&mounts, &mut lines);
    network::interfaces(&mut lines);
    network::connects(targets, &mut lines);
    let sockets = files::walk(&mounts, &mut lines);
    network::sockets(&sockets, &mut lines);
    walls::kernel(&mut lines);
    walls::calls(&mut lines);
    walls::set_id(&mut lines);
    // The last check, because it changes the identity of this process if it succeeds.
    process::namespaces(&mut lines);
    let complete: &[u8] = if lines.count > MAX_LINES { b"truncated" } else { b"whole" };
    // The last two lines are printed even if the limit was reached.
    lines.count = 0;
    lines.say("took_us", &[start.elapsed().as_micros().to_string().as_bytes()]);
    lines.say("end", &[complete]);
    match std::io::stdout().write_all(lines.text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
