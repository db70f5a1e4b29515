//! The tool `edit`. It replaces a piece of text that occurs exactly once in a file.

use serde_json::json;

use super::path::WorkspacePath;
use super::tool_error::for_model;
use super::{MAX_FILE, Workspace};
use crate::tool::arguments::Arguments;
use crate::tool::policy::LimitedInput;
use crate::tool::{ToolDefinition, ToolError, ToolOutput};

pub(crate) static EDIT: ToolDefinition = ToolDefinition {
    name: "edit",
    description: "Replace text in a file of your workspace. oldText must occur exactly once, including \
                  whitespace.",
    properties: || {
        json!({
            "path": {"type": "string"},
            "oldText": {"type": "string"},
            "newText": {"type": "string"}
        })
    },
    required: &["path", "oldText", "newText"],
    changes: true,
    limited: Some(LimitedInput::Path),
    ..ToolDefinition::BUILT_IN
};

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let place =
        WorkspacePath::parse_writable(&arguments.required_with_alias::<String>("path", "file_path")?)?;
    let old: String = arguments.required_with_alias("oldText", "old_string")?;
    let new: String = arguments.required_with_alias("newText", "new_string")?;
    let text = workspace.text(&place)?;
    let (at, changed) =
        replace(&text, &old, &new).map_err(|reason| ToolError::model(format!("{place}: {reason}")))?;
    workspace.put(&place, &changed, None)?;
    let line = text[..at].matches('\n').count() + 1;
    Ok(ToolOutput::text(format!("replaced the text at line {line} of {place}")))
}

impl Workspace {
    /// Reads a whole text file in order to change it. Other bytes are refused, because they could not be written back
    /// unchanged.
    pub(super) fn text(&self, place: &WorkspacePath) -> Result<String, ToolError> {
        let bytes =
            self.files.read(place.relative(), MAX_FILE).map_err(|failure| for_model(place, &failure))?;
        let size = bytes.len();
        String::from_utf8(bytes).map_err(|_| {
            ToolError::model(format!("{place} is not a UTF-8 text file ({size} bytes): change it with exec"))
        })
    }
}

/// Number of further occurrences after which counting stops. Counting all of them in a long, repetitive text would take
/// long.
const MAX_COUNTED: usize = 100;

/// Maximum number of line comparisons for a hint.
const MAX_COMPARISONS: usize = 50_000_000;

/// Returns the offset of the replaced text and the whole new text, or the reason for a failure.
fn replace(text: &str, old: &str, new: &str) -> Result<(usize, String), String> {
    if old.is_empty() {
        return Err("oldText is empty".to_owned());
    }
    if old == new {
        return Err("oldText and newText are the same".to_owned());
    }
    // The tools show a CRLF file unchanged, but models write LF.
    let (old, new) = if !text.contains(old) && text.contains("\r\n") && !old.contains('\r') {
        // The new text is normalised first, so that line endings that are CRLF already are not doubled.
        (old.replace('\n', "\r\n"), new.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        (old.to_owned(), new.to_owned())
    };
    let mut places = places(text, &old);
    match (places.next(), places.take(MAX_COUNTED).count()) {
        (None, _) => Err(not_found_error(text, &old)),
        (Some(at), 0) => {
            let mut changed = text.to_owned();
            changed.replace_range(at..at + old.len(), &new);
            Ok((at, changed))
        }
        (Some(_), more) => Err(format!(
            "oldText occurs {}{} times, it must occur once: add lines around it. Nothing was changed",
            if more == MAX_COUNTED { "more than " } else { "" },
            if more == MAX_COUNTED { more } else { more + 1 }
        )),
    }
}

/// Returns the offsets at which `old` occurs, including overlapping occurrences.
fn places<'a>(text: &'a str, old: &'a str) -> impl Iterator<Item = usize> + 'a {
    // The search goes on one character later, not after the match, so that overlapping occurrences count.
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(old)?;
        from = at + step;
        Some(at)
    })
}

/// Returns the error for a text that does not occur. It names a place that differs in white space only, if there is
/// one.
fn not_found_error(text: &str, old: &str) -> String {
    let wanted: Vec<&str> = old.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines: Vec<(usize, &str)> = text
        .lines()
        .enumerate()
        .map(|(number, line)| (number + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    // A large file with a long text is not worth the time for a hint.
    let near = (!wanted.is_empty() && lines.len().saturating_mul(wanted.len()) <= MAX_COMPARISONS)
        .then(|| {
            lines
                .windows(wanted.len())
                .find(|window| window.iter().map(|(_, line)| *line).eq(wanted.iter().copied()))
        })
        .flatten();
    match near {
        Some(window) => {
            format!("oldText occurs only at line {} with other whitespace. Nothing was changed", window[0].0)
        }
        None => "oldText does not occur. Nothing was changed".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_old_text_must_occur_exactly_once() {
        assert_eq!(replace("a b c", "b", "x").unwrap(), (2, "a x c".to_owned()));
        assert_eq!(replace("añb", "ñ", "").unwrap(), (1, "ab".to_owned()));
        for (text, old, new, part) in [
            ("a b", "c", "d", "does not occur"),
            ("a b a", "a", "d", "occurs 2 times"),
            ("aaa", "aa", "b", "occurs 2 times"),
            (&"a".repeat(100), "a", "b", "occurs 100 times"),
            (&"a".repeat(101), "a", "b", "occurs more than 100 times"),
            ("ññ", "ñ", "b", "occurs 2 times"),
            ("a", "", "b", "empty"),
            ("a", "a", "a", "the same"),
            ("fn x() {\n    y();\n}", "fn x() {\n  y();\n}", "z", "at line 1 with other whitespace"),
        ] {
            let error = replace(text, old, new).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn crlf_line_endings_are_kept() {
        assert_eq!(replace("a\r\nb\r\nc\r\n", "a\nb", "x\ny").unwrap().1, "x\r\ny\r\nc\r\n");
        assert_eq!(replace("a\r\nb", "a\r\nb", "x").unwrap().1, "x");
    }

    proptest! {
        #[test]
        fn unique_text_is_replaced(before in "[ab\n]{0,20}", after in "[ab\n]{0,20}", new in "[ab]{0,5}") {
            let text = format!("{before}XñX{after}");
            prop_assert_eq!(replace(&text, "XñX", &new).unwrap().1, format!("{before}{new}{after}"));
        }

        #[test]
        fn any_input_is_replaced_or_refused(text in ".{0,60}", old in ".{0,4}", new in ".{0,4}") {
            let _ = replace(&text, &old, &new);
        }
    }
}
