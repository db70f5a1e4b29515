//! Reports that many runners can write: JUnit's XML and TAP.

use super::{Kind, TestCounts};

/// Reads the attributes of `<testsuites …>`, or adds up those of each `<testsuite …>`.
pub(super) fn junit(text: &str) -> Option<TestCounts> {
    let mut whole = TestCounts::new("junit");
    let mut parts = TestCounts::new("junit");
    for (at, _) in text.match_indices("<testsuite") {
        let rest = &text[at..];
        let Some(end) = rest.find('>') else { continue };
        let tag = &rest[..end];
        let is_whole = tag.starts_with("<testsuites");
        let counts = if is_whole { &mut whole } else { &mut parts };
        // `<testsuites>` may have no numbers of its own.
        let Some(tests) = attribute(tag, "tests") else { continue };
        let failed = attribute(tag, "failures").unwrap_or(0) + attribute(tag, "errors").unwrap_or(0);
        let skipped = attribute(tag, "skipped").unwrap_or(0) + attribute(tag, "disabled").unwrap_or(0);
        counts.add(Kind::Passed, tests.saturating_sub(failed + skipped));
        counts.add(Kind::Failed, failed);
        counts.add(Kind::Skipped, skipped);
        counts.summaries += 1;
    }
    [whole, parts].into_iter().find(|counts| counts.summaries > 0)
}

fn attribute(tag: &str, name: &str) -> Option<u64> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    super::number(rest).map(|(value, _)| value)
}

/// Counts the lines of TAP, if its version or a plan is there.
pub(super) fn tap(lines: &[&str]) -> Option<TestCounts> {
    let mut counts = TestCounts::new("tap");
    for line in lines {
        let plan = line.strip_prefix("1..").is_some_and(|rest| super::number(rest).is_some());
        counts.summaries += u64::from(plan);
        let (is_ok, rest) = match (line.strip_prefix("ok"), line.strip_prefix("not ok")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        if !rest.is_empty() && !rest.starts_with(' ') {
            continue;
        }
        let directive = rest.rsplit_once("# ").map(|(_, text)| text.to_ascii_lowercase());
        let directive = directive.as_deref().unwrap_or_default();
        let kind = if directive.starts_with("skip") || directive.starts_with("todo") {
            Kind::Skipped
        } else if is_ok {
            Kind::Passed
        } else {
            Kind::Failed
        };
        counts.add(kind, 1);
    }
    // Without a plan it is another text that has such lines.
    (counts.summaries > 0).then_some(counts)
}
