//! A text shown by lines, a part at a time.

use std::fmt::Display;

use super::{ToolError, bounded};

/// The most lines of one part.
pub const MAX_LINES: u64 = 2000;

/// The most bytes of one part.
pub const MAX_BYTES: usize = 50 * 1024;

/// The lines of `text` from number `first` (from 1) on that fit, and a last line that says what is missing.
/// `name` is what the model calls the text; `rest` says how to come by the rest of a line that is too long.
///
/// # Errors
///
/// For the model, where the text has fewer lines.
pub fn part(name: &dyn Display, text: &str, first: u64, limit: u64, rest: &str) -> Result<String, ToolError> {
    if text.is_empty() {
        return Ok("[the file is empty]".to_owned());
    }
    let first = first.max(1);
    let total = text.split_inclusive('\n').count();
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    if skipped >= total {
        return Err(ToolError::model(format!("{name} has {total} lines; offset {first} is after its end")));
    }
    let limit = usize::try_from(limit.clamp(1, MAX_LINES)).unwrap_or(1);
    let mut shown = String::new();
    let mut count = 0;
    for line in text.split_inclusive('\n').skip(skipped).take(limit) {
        if shown.len() + line.len() > MAX_BYTES {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    if count == 0 {
        let line = text.split_inclusive('\n').nth(skipped).unwrap_or_default();
        let start = bounded::start(line, MAX_BYTES);
        return Ok(format!(
            "{start}\n[line {first} has {} bytes, {} are shown{rest}. {total} lines in all]",
            line.len(),
            start.len()
        ));
    }
    let last = skipped + count;
    if last < total {
        let before = if shown.ends_with('\n') { "" } else { "\n" };
        let more = format!("{before}[lines {first} to {last} of {total}; go on with offset {}]", last + 1);
        shown.push_str(&more);
    }
    Ok(shown)
}
