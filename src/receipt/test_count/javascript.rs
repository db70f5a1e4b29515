//! Jest, Vitest, Mocha and Node's own runner.

use super::{Kind, TestCounts, list, number};

/// Reads `Tests:       1 failed, 2 skipped, 1 todo, 10 passed, 14 total`.
pub(super) fn jest(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("jest");
    for line in lines {
        let Some(numbers) = line.trim_start().strip_prefix("Tests:") else { continue };
        let kind = |word: &str| {
            Some(match word {
                "passed" => Kind::Passed,
                "failed" => Kind::Failed,
                "skipped" | "todo" => Kind::Skipped,
                "total" => Kind::Ignored,
                _ => return None,
            })
        };
        if list(numbers, ",", &mut counts, kind) {
            counts.summaries += 1;
        }
    }
    (counts.summaries > 0).then_some(counts)
}

/// Reads `Tests  1 failed | 10 passed | 2 skipped (13)`.
pub(super) fn vitest(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("vitest");
    for line in lines {
        let Some(rest) = line.trim_start().strip_prefix("Tests  ") else { continue };
        let Some((numbers, total)) = rest.rsplit_once('(') else { continue };
        if number(total).is_none() {
            continue;
        }
        let kind = |word: &str| {
            Some(match word {
                "passed" => Kind::Passed,
                "failed" => Kind::Failed,
                "skipped" | "todo" | "expected fail" => Kind::Skipped,
                _ => return None,
            })
        };
        if list(numbers, "|", &mut counts, kind) {
            counts.summaries += 1;
        }
    }
    (counts.summaries > 0).then_some(counts)
}

/// Reads `10 passing (20ms)`, `2 pending` and `1 failing`.
pub(super) fn mocha(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("mocha");
    for line in lines.iter().filter(|line| line.starts_with("  ")) {
        let Some((count, rest)) = number(line.trim_start()) else { continue };
        let mut words = rest.split_whitespace();
        let (word, time) = (words.next(), words.next());
        match (word, time) {
            (Some("passing"), Some(time)) if time.starts_with('(') => {
                counts.add(Kind::Passed, count);
                counts.summaries += 1;
            }
            (Some("pending"), None) => counts.add(Kind::Skipped, count),
            (Some("failing"), None) => counts.add(Kind::Failed, count),
            _ => {}
        }
    }
    (counts.summaries > 0).then_some(counts)
}

/// Reads the lines at the end of `node --test`: `ℹ tests 5`, or `# tests 5` as TAP, and so on.
pub(super) fn node(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("node");
    for line in lines {
        let Some(rest) = line.strip_prefix("ℹ ").or_else(|| line.strip_prefix("# ")) else { continue };
        let Some((word, value)) = rest.split_once(' ') else { continue };
        let Some((value, "")) = number(value.trim()) else { continue };
        match word {
            "tests" => counts.summaries += 1,
            "pass" => counts.add(Kind::Passed, value),
            "fail" | "cancelled" => counts.add(Kind::Failed, value),
            "skipped" | "todo" => counts.add(Kind::Skipped, value),
            _ => {}
        }
    }
    (counts.summaries > 0).then_some(counts)
}
