//! Shows a text by lines, one part at a time.

use std::fmt::Display;

use super::{ToolError, safe_text};

/// Maximum number of lines of a part.
pub(crate) const MAX_LINES: u64 = 2000;

/// Maximum number of bytes of a part.
pub(crate) const MAX_BYTES: usize = 50 * 1024;

/// Returns the lines of `text` from number `first` (counted from 1) that fit, and a last line that says which lines are
/// missing.
///
/// `name` is the model's name for the text. `rest` is advice on how to read the rest of a line that is too long.
///
/// # Errors
///
/// Returns [`ToolError::ForModel`] if the text has fewer than `first` lines.
pub fn part(name: &dyn Display, text: &str, first: u64, limit: u64, rest: &str) -> Result<String, ToolError> {
    if text.is_empty() {
        return Ok("[the file is empty]".to_owned());
    }
    let first = first.max(1);
    let total = text.split_inclusive('\n').count();
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    if skipped >= total {
        return Err(ToolError::model(format!("{name} has {total} lines; offset {first} is after the end")));
    }
    let limit = usize::try_from(limit.clamp(1, MAX_LINES)).unwrap_or(1);
    let mut shown = String::new();
    let mut count = 0;
    for line in text.split_inclusive('\n').skip(skipped).take(limit) {
        // Only whole lines are shown, so that the next part begins with a whole line too.
        if shown.len() + line.len() > MAX_BYTES {
            break;
        }
        shown.push_str(line);
        count += 1;
    }
    // The first line alone exceeds the limit. Its beginning is shown, so that the model does not get stuck there.
    if count == 0 {
        let line = text.split_inclusive('\n').nth(skipped).unwrap_or_default();
        let start = safe_text::start(line, MAX_BYTES);
        return Ok(format!(
            "{start}\n[line {first} has {} bytes, {} are shown{rest}. {total} lines in all]",
            line.len(),
            start.len()
        ));
    }
    let last = skipped + count;
    if last < total {
        let before = if shown.ends_with('\n') { "" } else { "\n" };
        let more = format!("{before}[lines {first} to {last} of {total}; continue with offset {}]", last + 1);
        shown.push_str(&more);
    }
    Ok(shown)
}
