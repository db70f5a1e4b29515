//! pytest and Python's own unittest.

use super::{Kind, TestCounts, list, number};

/// Reads pytest's last line: `=== 3 passed, 1 skipped in 0.12s ===`, with or without the frame.
pub(super) fn pytest(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("pytest");
    for line in lines {
        let text = line.trim().trim_matches('=').trim();
        // With a long duration, pytest adds it as hours in parentheses.
        let Some((summary, duration)) = text.rsplit_once(" in ") else { continue };
        let seconds = duration.split(' ').next().unwrap_or_default();
        let is_duration = seconds.strip_suffix('s').is_some_and(|number| number.parse::<f64>().is_ok());
        if !is_duration {
            continue;
        }
        let kind = |word: &str| {
            Some(match word {
                "passed" | "xpassed" => Kind::Passed,
                "failed" | "error" | "errors" => Kind::Failed,
                "skipped" | "xfailed" => Kind::Skipped,
                "deselected" => Kind::Filtered,
                "warning" | "warnings" | "rerun" | "subtests passed" => Kind::Ignored,
                _ => return None,
            })
        };
        if summary == "no tests ran" || list(summary, ",", &mut counts, kind) {
            counts.summaries += 1;
        }
    }
    (counts.summaries > 0).then_some(counts)
}

/// Reads `Ran 3 tests in 0.001s`, and the verdict that follows: `OK (skipped=1)` or `FAILED (failures=1, errors=1)`.
pub(super) fn unittest(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("unittest");
    for (at, line) in lines.iter().enumerate() {
        let Some((ran, rest)) = line.strip_prefix("Ran ").and_then(number) else { continue };
        if !rest.starts_with(" test") || !rest.contains(" in ") {
            continue;
        }
        counts.summaries += 1;
        let verdict = lines[at + 1..].iter().take(4).find(|line| !line.trim().is_empty());
        let verdict = verdict.map_or("", |line| line.trim());
        let numbers = verdict.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches(')'));
        let (mut failed, mut skipped) = (0, 0);
        for part in numbers.split(',') {
            let Some((name, value)) = part.trim().split_once('=') else { continue };
            let Some((value, _)) = number(value) else { continue };
            match name {
                "failures" | "errors" | "unexpected successes" => failed += value,
                "skipped" | "expected failures" => skipped += value,
                _ => {}
            }
        }
        // A verdict that is missing says that the run did not end.
        let passed = if verdict.starts_with("OK") || verdict.starts_with("FAILED") {
            ran.saturating_sub(failed + skipped)
        } else {
            0
        };
        counts.add(Kind::Passed, passed);
        counts.add(Kind::Failed, failed);
        counts.add(Kind::Skipped, skipped);
    }
    (counts.summaries > 0).then_some(counts)
}
