//! `go test`, as text and with `-json`.

use serde_json::Value;

use super::{Kind, TestCounts};

/// Counts the events of `go test -json`. Each test has one that ends it.
pub(super) fn json(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("go test");
    for line in lines.iter().filter(|line| line.starts_with("{\"") && line.contains("\"Action\"")) {
        let Ok(event) = serde_json::from_str::<Value>(line) else { continue };
        let text = |key: &str| event.get(key).and_then(Value::as_str);
        let Some(action) = text("Action") else { continue };
        if text("Package").is_none() {
            continue;
        }
        // An event without a test is about its package.
        if text("Test").is_none() {
            counts.summaries += u64::from(matches!(action, "pass" | "fail" | "skip"));
            continue;
        }
        match action {
            "pass" => counts.add(Kind::Passed, 1),
            "fail" => counts.add(Kind::Failed, 1),
            "skip" => counts.add(Kind::Skipped, 1),
            _ => {}
        }
    }
    (counts.summaries > 0).then_some(counts)
}

/// Counts `--- PASS:` lines of `go test -v`. Without `-v` there are only the lines of packages, which
/// begin with `ok` and have their name and time after tabs.
pub(super) fn plain(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("go test");
    let mut packages = TestCounts::new("go test");
    for line in lines {
        let test = line.trim_start().strip_prefix("--- ").and_then(|rest| rest.split_once(": "));
        match test.map(|(word, _)| word) {
            Some("PASS") => counts.add(Kind::Passed, 1),
            Some("FAIL") => counts.add(Kind::Failed, 1),
            Some("SKIP") => counts.add(Kind::Skipped, 1),
            _ => {}
        }
        let mut fields = line.split('\t');
        let kind = match fields.next().map(str::trim_end) {
            Some("ok") if line.contains("[no tests to run]") => Kind::Ignored,
            Some("ok") => Kind::Passed,
            Some("FAIL") => Kind::Failed,
            Some("?") => Kind::Ignored,
            _ => continue,
        };
        // `FAIL` alone ends a package's output, and the package follows in a line of its own.
        if fields.next().is_some_and(|package| !package.trim().is_empty()) {
            packages.add(kind, 1);
            packages.summaries += 1;
        }
    }
    if packages.summaries == 0 {
        return None;
    }
    if counts.run() + counts.skipped == 0 {
        return Some(packages);
    }
    Some(TestCounts { summaries: packages.summaries, ..counts })
}
