//! The probe: tries from inside what a sandbox must not allow, and says what came of it, a `key=value` line
//! for each try. It judges nothing: what is confined enough is decided outside.
//!
//! The lines are described where they are read, in `probe_report.rs`. A probe tells the truth as long as
//! nothing hostile ran before it: whoever shares its user could at worst fight it. So it is unreadable like
//! the helper, and flock believes most the one it made before the agent's first command.

mod calls;
mod files;
mod network;
mod process;
mod walls;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A workspace and a store can be very large: the walk ends at this many entries or at this time.
const MAX_ENTRIES: usize = 20_000;
const MAX_WALK: Duration = Duration::from_millis(12);
/// More lines than this say nothing new, and would not fit what is kept of the output.
const MAX_LINES: usize = 2_000;

/// The lines so far.
#[derive(Default)]
pub struct Lines {
    text: String,
    count: usize,
}

impl Lines {
    /// One line. Words stay words: what is not printable in them, and blanks, are written as `%XX`.
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
    let walk = files::walk(&mounts, &mut lines);
    network::sockets(&walk.sockets, &mut lines);
    walls::kernel(&mut lines);
    walls::calls(&mut lines);
    walls::set_id(&mut lines);
    // Last: where it is allowed, it changes who this process is.
    process::namespaces(&mut lines);
    let complete: &[u8] = if lines.count > MAX_LINES { b"truncated" } else { b"whole" };
    lines.count = 0;
    lines.say("took_us", &[start.elapsed().as_micros().to_string().as_bytes()]);
    lines.say("end", &[complete]);
    match std::io::stdout().write_all(lines.text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
