//! Runs of the binary written down as a person would see them: the line, what it printed, how it ended.

use std::fmt::Write as _;

use crate::support::home::{Run, TempHome};

/// The lines, one after the other in one home, as text for a snapshot.
pub fn session(home: &TempHome, lines: &[&str]) -> String {
    let mut text = String::new();
    for line in lines {
        text.push_str(&shown(home, line, &home.flock(words(line))));
    }
    text
}

/// One run as text for a snapshot.
pub fn shown(home: &TempHome, line: &str, run: &Run) -> String {
    let mut text = format!("$ flock {line}\n");
    text.push_str(&run.stdout);
    for line in run.stderr.lines() {
        text.push_str("2> ");
        text.push_str(line);
        text.push('\n');
    }
    writeln!(text, "[exit {}]\n", run.code).unwrap();
    // The path of the home holds that of its folder, so it goes first.
    text.replace(&home.path().display().to_string(), "[HOME]")
        .replace(&home.outside().display().to_string(), "[TMP]")
        .replace(env!("FLOCK_VERSION"), "[VERSION]")
}

/// The words of a line; quotes hold a word with spaces together.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

/// Compares text with the checked-in snapshot, with what differs from run to run replaced.
macro_rules! snapshot {
    ($name:literal, $text:expr) => {
        insta::with_settings!({
            filters => vec![
                (r"\b[0-9a-f]{64}\b", "[TOKEN]"),
                (r"127\.0\.0\.1:\d+", "127.0.0.1:[PORT]"),
                (r#""port": \d+"#, r#""port": [PORT]"#),
                (r"(flock-nix|flock-sbx-[a-z]+)-[0-9a-f]{8}\b", "$1-[HOME]"),
                (r"config-\d+-\d+\.json", "config-[TIME].json"),
                (r" in \d+(ms|s)\b", " in [TIME]"),
                // What this machine has.
                (r"(?m)^2> found .* flock add ID --runtime \w+\n", ""),
                (r#"(?s)"programs": \[.*?\]"#, r#""programs": [PROGRAMS]"#),
            ],
            prepend_module_to_snapshot => false,
            omit_expression => true,
        }, { insta::assert_snapshot!($name, $text) });
    };
}
pub(super) use snapshot;
