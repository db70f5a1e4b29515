//! Helpers that read the output of programs without trusting it.

use serde_json::Value;

use super::interface::{ProgramExit, RunOutcome};
use crate::clean;

/// Most characters of a program's message about a failure.
const MAX_MESSAGE: usize = 500;

/// Returns the text at a JSON pointer.
pub fn text<'v>(value: &'v Value, pointer: &str) -> Option<&'v str> {
    value.pointer(pointer).and_then(Value::as_str)
}

/// Returns the items of the list at a JSON pointer. None if there is no list.
pub fn items<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// Returns the number at a JSON pointer, or 0.
pub fn count(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// Returns the HTTP status at a JSON pointer.
pub fn status(value: &Value, pointer: &str) -> Option<u16> {
    value.pointer(pointer).and_then(Value::as_u64).and_then(valid_status)
}

/// Returns a number as an HTTP status, or `None` if it is not one.
pub fn valid_status(number: u64) -> Option<u16> {
    u16::try_from(number).ok().filter(|status| (100..600).contains(status))
}

/// Returns the amount of dollars at a JSON pointer.
pub fn dollars(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64).filter(|sum| sum.is_finite() && *sum >= 0.0)
}

/// Returns the text of a content that is a string or a list of blocks.
pub fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks.iter().filter_map(|block| text(block, "/text")).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// Returns a message on one line.
pub fn one_line(text: &str) -> String {
    clean::summary(text, MAX_MESSAGE)
}

/// Returns the result of a program that ended without a report.
pub fn broken(title: &str, exit: &ProgramExit<'_>) -> RunOutcome {
    // flock reports a signal as 128 plus its number.
    let how = match exit.code {
        code @ 129..=192 => format!("was ended by signal {}", code - 128),
        code => format!("ended with exit code {code}"),
    };
    let last = last_line(exit.stderr);
    let reason = if last.is_empty() { String::new() } else { format!(": {last}") };
    let message = format!("{title} {how} before its answer was whole{reason}");
    RunOutcome::Broken { message }
}

/// Returns the last line of standard error that is not empty and not a warning, on one line.
pub fn last_line(stderr: &str) -> String {
    let says = |line: &String| !line.is_empty() && !line.starts_with("WARNING");
    stderr.lines().rev().map(one_line).find(says).unwrap_or_default()
}

/// Returns the first word of the output that looks like a version, such as `2.1.330`.
pub fn version(printed: &str) -> Option<String> {
    let parts = |word: &str| {
        // A suffix such as `-beta.1` is not a part of the three numbers.
        let core = word.split(['-', '+']).next().unwrap_or_default();
        core.split('.').count() == 3
            && core.split('.').all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    };
    printed
        .split_whitespace()
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.len() <= 64 && parts(word))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_version_is_found_in_output() {
        for (printed, expected) in [
            ("2.1.330 (Claude Code)\n", Some("2.1.330")),
            ("codex-cli 0.169.0\n", Some("0.169.0")),
            ("v1.18.33", Some("1.18.33")),
            ("0.61.0-nightly.20261122", Some("0.61.0-nightly.20261122")),
            ("1.2", None),
            ("1.2.3.4 .. 1..2", None),
            ("", None),
            ("error: unknown option", None),
        ] {
            assert_eq!(version(printed).as_deref(), expected, "{printed:?}");
        }
    }

    #[test]
    fn the_exit_is_described() {
        let said = |code, stderr: &str| match broken("Codex", &ProgramExit { code, stderr }) {
            RunOutcome::Broken { message } => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(0, ""), "Codex ended with exit code 0 before its answer was whole");
        assert_eq!(said(137, "\n \n"), "Codex was ended by signal 9 before its answer was whole");
        assert_eq!(
            said(1, "first\n\u{1b}[91mError: \u{1b}[0mno such\u{7}\n\n"),
            "Codex ended with exit code 1 before its answer was whole: [91mError: [0mno such"
        );
    }

    #[test]
    fn contents_of_all_shapes_are_read() {
        assert_eq!(content(&json!("a")), "a");
        assert_eq!(
            content(&json!([{"type": "text", "text": "a"}, {"type": "image"}, 3, {"text": "b"}])),
            "a\nb"
        );
        assert_eq!(content(&json!({"text": "a"})), "");
        assert_eq!(status(&json!({"s": 500}), "/s"), Some(500));
        assert_eq!(status(&json!({"s": 70_000}), "/s"), None);
        assert_eq!(dollars(&json!({"c": -1}), "/c"), None);
        assert_eq!(dollars(&json!({"c": 0.5}), "/c"), Some(0.5));
    }
}
