//! Rust: `cargo test` and `cargo nextest`.

use super::{Kind, TestCounts, list, number};

/// Adds up `test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`, of which
/// each test binary prints one.
pub(super) fn test(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("cargo test");
    for line in lines {
        let Some(rest) = line.strip_prefix("test result: ") else { continue };
        let Some((_, numbers)) = rest.split_once(". ") else { continue };
        let numbers = numbers.split("; finished in").next().unwrap_or_default();
        let kind = |word: &str| {
            Some(match word {
                "passed" => Kind::Passed,
                "failed" => Kind::Failed,
                "ignored" => Kind::Skipped,
                "filtered out" => Kind::Filtered,
                "measured" => Kind::Ignored,
                _ => return None,
            })
        };
        if list(numbers, ";", &mut counts, kind) {
            counts.summaries += 1;
        }
    }
    (counts.summaries > 0).then_some(counts)
}

/// Reads `Summary [   0.123s] 5 tests run: 4 passed (1 slow), 1 failed, 2 skipped`.
pub(super) fn nextest(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("nextest");
    for line in lines {
        let Some(rest) = line.trim_start().strip_prefix("Summary [") else { continue };
        let Some((_, rest)) = rest.split_once("] ") else { continue };
        let Some((_, after)) = number(rest.trim_start()) else { continue };
        let Some((total, numbers)) = after.split_once(" run: ") else { continue };
        if !total.trim_end().ends_with("test") && !total.trim_end().ends_with("tests") {
            continue;
        }
        let numbers = without_parentheses(numbers);
        let kind = |word: &str| {
            Some(match word {
                "passed" => Kind::Passed,
                "failed" | "exec failed" | "timed out" => Kind::Failed,
                "skipped" => Kind::Skipped,
                _ => return None,
            })
        };
        if list(&numbers, ",", &mut counts, kind) {
            counts.summaries += 1;
        }
    }
    (counts.summaries > 0).then_some(counts)
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::new();
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain
}
