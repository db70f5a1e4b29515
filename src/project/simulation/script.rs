//! The model calls that a piece of work takes, and their tokens. Pure.
//!
//! A script takes the place of a model: it reads each file that the work changes, changes it, runs the checks, commits and
//! submits.

use std::ops::AddAssign;

use super::history::{Work, WorkFile};
use crate::provider::Usage;

/// The way in which the scripted model works, for the two ends of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each change is right at once, and the provider keeps what it has read before.
    Sure,
    /// Each change is right at the third attempt, and the provider reads everything anew with each call.
    Laborious,
}

/// A model call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Tokens that the model writes.
    pub output: u64,
    /// Tokens of what its tool calls return.
    pub result: u64,
    /// `true` if the checks are run in the agent's sandbox.
    pub runs_checks: bool,
}

/// Model calls and their tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub calls: u64,
    pub usage: Usage,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.usage.input += other.usage.input;
        self.usage.output += other.usage.output;
        self.usage.cache_read += other.usage.cache_read;
        self.usage.cache_write += other.usage.cache_write;
    }
}

/// Tokens of a tool call besides the text in it.
const CALL: u64 = 80;
/// Tokens of the message that gives the work.
const WISH: u64 = 300;
/// Tokens of what a short command prints.
const PRINTED: u64 = 200;
/// Tokens of the part of a check's output that an agent reads.
const CHECK_OUTPUT: u64 = 800;
/// Tokens of a line of code.
const LINE: u64 = 12;
/// The most tokens that one reading of a file returns.
const READ: u64 = 12_500;
/// The most files that one agent reads for a piece of work.
const FILES: usize = 40;

const fn call(output: u64, result: u64) -> Call {
    Call { output, result, runs_checks: false }
}

const CHECKS: Call = Call { output: CALL, result: CHECK_OUTPUT, runs_checks: true };

impl Manner {
    const fn attempts(self) -> usize {
        match self {
            Self::Sure => 1,
            Self::Laborious => 3,
        }
    }
}

fn read(file: &WorkFile) -> Call {
    call(CALL, (file.bytes / 4).clamp(20, READ))
}

fn edit(file: &WorkFile) -> Call {
    call(CALL + file.lines * LINE, 60)
}

/// Returns the calls for a piece of work, from the message to the answer.
#[must_use]
pub fn work(work: &Work, manner: Manner) -> Vec<Call> {
    change(&work.files.iter().collect::<Vec<_>>(), manner)
}

/// Returns the calls for work that came back because it can't be joined with the tip at these paths.
#[must_use]
pub fn rework(work: &Work, paths: &[String], manner: Manner) -> Vec<Call> {
    let files: Vec<&WorkFile> = work.files.iter().filter(|file| paths.contains(&file.path)).collect();
    change(&files, manner)
}

/// Returns the calls that look around, read and change these files, run the checks and deliver.
fn change(files: &[&WorkFile], manner: Manner) -> Vec<Call> {
    let files = || files.iter().take(FILES).copied();
    let mut calls = vec![call(CALL, PRINTED)];
    calls.extend(files().map(read));
    for _ in 0..manner.attempts() {
        calls.extend(files().map(edit));
        calls.push(CHECKS);
    }
    calls.extend(deliver());
    calls
}

/// Returns the calls for a review: the difference is read, and an answer is given.
#[must_use]
pub fn review(work: &Work, manner: Manner) -> Vec<Call> {
    let mut calls = vec![call(CALL, (work.lines() * LINE).clamp(PRINTED, 4 * READ))];
    if manner == Manner::Laborious {
        calls.extend(work.files.iter().take(FILES).map(read));
        calls.push(CHECKS);
    }
    calls.extend([call(2 * CALL, PRINTED), call(CALL, 0)]);
    calls
}

/// Commit and push, submit, answer.
const fn deliver() -> [Call; 3] {
    [call(CALL, PRINTED), call(CALL, PRINTED), call(CALL, 0)]
}

/// Returns what calls cost that begin with a prompt of this many tokens.
#[must_use]
pub fn spend(prompt: u64, calls: &[Call], manner: Manner) -> Spent {
    let mut spent = Spent { calls: calls.len() as u64, ..Spent::default() };
    let usage = &mut spent.usage;
    let (mut known, mut new) = (prompt, WISH);
    for call in calls {
        match manner {
            Manner::Sure => {
                usage.cache_read += known;
                usage.cache_write += new;
            }
            Manner::Laborious => usage.input += known + new,
        }
        usage.output += call.output;
        known += new;
        new = call.output + call.result;
    }
    spent
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Work {
        let file =
            |path: &str, bytes, lines| WorkFile { path: path.into(), bytes, lines, spans: vec![(1, 2)] };
        Work { commit: "c".into(), files: vec![file("a", 4_000, 10), file("b", 400, 2)] }
    }

    #[test]
    fn a_sure_model_reads_changes_checks_and_delivers() {
        let calls = work(&sample(), Manner::Sure);
        assert_eq!(calls.len(), 1 + 2 + 2 + 1 + 3);
        assert_eq!(calls.iter().filter(|call| call.runs_checks).count(), 1);
        assert_eq!(work(&sample(), Manner::Laborious).len(), 1 + 2 + 3 * (2 + 1) + 3);
        let again = rework(&sample(), &["b".to_owned()], Manner::Sure);
        assert_eq!(again.len(), 1 + 1 + 1 + 1 + 3, "only the file that conflicts");
    }

    #[test]
    fn every_token_is_sent_with_each_later_call() {
        let calls = [call(10, 100), call(20, 0)];
        let dear = spend(1_000, &calls, Manner::Laborious);
        assert_eq!(dear.usage.input, (1_000 + WISH) + (1_000 + WISH + 110));
        assert_eq!((dear.usage.output, dear.calls), (30, 2));
        let cheap = spend(1_000, &calls, Manner::Sure).usage;
        assert_eq!((cheap.cache_read, cheap.cache_write), (1_000 + 1_000 + WISH, WISH + 110));
        assert_eq!(cheap.cache_read + cheap.cache_write, dear.usage.input);
    }
}
