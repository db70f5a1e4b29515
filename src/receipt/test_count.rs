//! Reads the numbers of tests from the output of the usual test runners, and compares two runs.
//!
//! An output is a text that the delivered code could have printed as well. So the numbers prove nothing by themselves:
//! they show when a run that succeeded ran less than the run before it.

mod cargo;
mod go;
mod javascript;
mod python;
mod report;

use serde::{Deserialize, Serialize};

/// The numbers of one runner in one output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestCounts {
    /// Tests that failed, with those that could not be set up.
    pub failed: u64,
    /// Tests that the runner left out by a filter or a mark on its command line.
    pub filtered: u64,
    pub passed: u64,
    /// The name of the runner.
    pub runner: String,
    /// Tests that were found and not run, with those that are expected to fail.
    pub skipped: u64,
    /// Number of summaries that were added up. Most runners print one.
    pub summaries: u64,
}

impl TestCounts {
    fn new(runner: &str) -> Self {
        Self { runner: runner.to_owned(), ..Self::default() }
    }

    /// Returns the number of tests that were run.
    #[must_use]
    pub const fn run(&self) -> u64 {
        self.passed.saturating_add(self.failed)
    }

    fn add(&mut self, kind: Kind, number: u64) {
        let field = match kind {
            Kind::Passed => &mut self.passed,
            Kind::Failed => &mut self.failed,
            Kind::Skipped => &mut self.skipped,
            Kind::Filtered => &mut self.filtered,
            Kind::Ignored => return,
        };
        *field = field.saturating_add(number);
    }
}

/// The kinds of numbers in a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Passed,
    Failed,
    Skipped,
    Filtered,
    /// A number that says nothing about tests.
    Ignored,
}

/// Returns the numbers of every runner whose summary is in the output.
#[must_use]
pub fn count(output: &str) -> Vec<TestCounts> {
    let plain = without_escapes(output);
    // A carriage return starts a line anew on a terminal, so each part of such a line is a line here.
    let lines: Vec<&str> = plain.split(['\n', '\r']).collect();
    let mut found: Vec<TestCounts> = [
        python::pytest(&lines),
        python::unittest(&lines),
        cargo::test(&lines),
        cargo::nextest(&lines),
        go::json(&lines).or_else(|| go::plain(&lines)),
        javascript::jest(&lines),
        javascript::vitest(&lines),
        javascript::mocha(&lines),
        javascript::node(&lines),
        report::junit(&plain),
    ]
    .into_iter()
    .flatten()
    .collect();
    // Node's own runner prints TAP, too.
    if !found.iter().any(|counts| counts.runner == "node") {
        found.extend(report::tap(&lines));
    }
    found
}

/// A difference between two runs that a person has to see.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountChange {
    /// No test was run at all.
    NoneRun { runner: String },
    /// Fewer tests were run than before.
    Fewer { runner: String, before: u64, after: u64 },
    /// More tests were skipped than before.
    Skipped { runner: String, before: u64, after: u64 },
    /// More tests were filtered out than before.
    Filtered { runner: String, before: u64, after: u64 },
    /// The runner's summary is gone.
    Gone { runner: String },
    /// The runner printed another number of summaries. One of them may be printed by the code under test.
    Summaries { runner: String, before: u64, after: u64 },
    /// A run of another runner appeared, which the run before did not have.
    Appeared { runner: String },
}

impl std::fmt::Display for CountChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoneRun { runner } => write!(f, "{runner} ran no tests"),
            Self::Fewer { runner, before, after } => {
                write!(f, "{runner} ran {after} tests, and {before} before")
            }
            Self::Skipped { runner, before, after } => {
                write!(f, "{runner} skipped {after} tests, and {before} before")
            }
            Self::Filtered { runner, before, after } => {
                write!(f, "{runner} filtered out {after} tests, and {before} before")
            }
            Self::Gone { runner } => write!(f, "the output has no summary of {runner} any more"),
            Self::Summaries { runner, before, after } => {
                write!(f, "the output has {after} summaries of {runner}, and {before} before")
            }
            Self::Appeared { runner } => {
                write!(f, "the output has a summary of {runner}, which it had not before")
            }
        }
    }
}

/// Compares the numbers of a command with those of the same command on the base. `names_runner` is `true` if the command
/// itself names a test runner, so that a run without any summary ran no tests.
#[must_use]
pub fn compare(before: &[TestCounts], after: &[TestCounts], names_runner: bool) -> Vec<CountChange> {
    let mut changes = Vec::new();
    let of = |list: &[TestCounts], runner: &str| list.iter().find(|one| one.runner == runner).cloned();
    for old in before {
        let runner = old.runner.clone();
        let Some(new) = of(after, &runner) else {
            changes.push(CountChange::Gone { runner });
            continue;
        };
        let numbers = |before, after| (runner.clone(), before, after);
        if new.run() < old.run() {
            let (runner, before, after) = numbers(old.run(), new.run());
            changes.push(CountChange::Fewer { runner, before, after });
        }
        if new.skipped > old.skipped {
            let (runner, before, after) = numbers(old.skipped, new.skipped);
            changes.push(CountChange::Skipped { runner, before, after });
        }
        if new.filtered > old.filtered {
            let (runner, before, after) = numbers(old.filtered, new.filtered);
            changes.push(CountChange::Filtered { runner, before, after });
        }
        if prints_one_summary(&runner) && new.summaries != old.summaries {
            let (runner, before, after) = numbers(old.summaries, new.summaries);
            changes.push(CountChange::Summaries { runner, before, after });
        }
    }
    for new in after {
        let runner = new.runner.clone();
        if new.run() == 0 {
            changes.push(CountChange::NoneRun { runner: runner.clone() });
        }
        match of(before, &runner) {
            None if !before.is_empty() => changes.push(CountChange::Appeared { runner }),
            // Without a run before there is nothing to compare with, and more than one summary is suspicious.
            None if prints_one_summary(&runner) && new.summaries > 1 => {
                changes.push(CountChange::Summaries { runner, before: 1, after: new.summaries });
            }
            _ => {}
        }
    }
    if after.is_empty() && names_runner {
        changes.push(CountChange::NoneRun { runner: "the test runner".to_owned() });
    }
    changes
}

/// Returns `true` if the runner prints one summary for each time it is started. The others print one for each part.
fn prints_one_summary(runner: &str) -> bool {
    !matches!(runner, "cargo test" | "go test" | "junit" | "tap")
}

/// Returns `true` if a command names one of the usual test runners.
#[must_use]
pub fn names_runner(command: &str) -> bool {
    let words: Vec<&str> = command.split(|c: char| c.is_whitespace() || ";&|()".contains(c)).collect();
    let is = |word: &str, name: &str| word.rsplit('/').next() == Some(name);
    let single = [
        "pytest",
        "py.test",
        "jest",
        "vitest",
        "mocha",
        "cargo-nextest",
        "prove",
        "ctest",
        "unittest",
        "nose2",
        "tox",
    ];
    let pairs = [
        ("cargo", "test"),
        ("cargo", "nextest"),
        ("go", "test"),
        ("npm", "test"),
        ("npm", "t"),
        ("yarn", "test"),
        ("pnpm", "test"),
        ("node", "--test"),
        ("make", "test"),
        ("make", "check"),
        ("deno", "test"),
        ("bun", "test"),
    ];
    words.iter().any(|word| single.iter().any(|name| is(word, name)))
        || pairs.iter().any(|(first, second)| {
            words.iter().position(|word| is(word, first)).is_some_and(|at| words[at + 1..].contains(second))
        })
}

/// Removes the escape sequences of terminals.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
            continue;
        }
        if chars.peek() == Some(&'[') {
            chars.next();
            // Parameters end with a byte from `@` to `~`.
            while chars.next_if(|c| !('@'..='~').contains(c)).is_some() {}
            chars.next();
        }
    }
    plain
}

/// Returns the number at the start of a text, and the rest. A number that is too long is none.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    // Twelve digits are more than any test suite has, and sums of them do not overflow.
    (1..=12).contains(&digits.len()).then(|| Some((digits.parse().ok()?, rest)))?
}

/// Reads a list such as `3 passed, 1 failed` into `counts`. `kind` says what a word means. Returns `false` if a part of
/// the list is something else.
fn list(text: &str, separator: &str, counts: &mut TestCounts, kind: impl Fn(&str) -> Option<Kind>) -> bool {
    let mut read = counts.clone();
    for part in text.split(separator) {
        let Some((count, word)) = number(part.trim()) else { return false };
        let Some(kind) = kind(word.trim()) else { return false };
        read.add(kind, count);
    }
    *counts = read;
    true
}

#[cfg(test)]
#[path = "test_count_tests.rs"]
mod tests;
