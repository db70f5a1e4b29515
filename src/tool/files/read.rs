//! `read`: a text file, or a part of one. Lines come as they are, without numbers, so that what is read can
//! be given to `edit`.

use serde_json::json;

use super::failure::for_model;
use super::path::Place;
use super::{MAX_FILE, Workspace, picture};
use crate::provider::ToolSpec;
use crate::tool::arguments::Arguments;
use crate::tool::{ToolError, ToolOutput, bounded};

const MAX_LINES: u64 = 2000;
const MAX_BYTES: usize = 50 * 1024;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "read".to_owned(),
        description: "Read a text file of your workspace: at most 2000 lines or 50 KB at once, go on with \
                      offset. For pictures use image."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "offset": {"type": "integer", "description": "first line, from 1"},
                "limit": {"type": "integer", "description": "lines"}
            },
            "required": ["path"]
        }),
    }
}

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let place = Place::parse(&arguments.required_or::<String>("path", "file_path")?)?;
    let first = arguments.optional::<u64>("offset")?.unwrap_or(1).max(1);
    let limit = arguments.optional::<u64>("limit")?.unwrap_or(MAX_LINES).clamp(1, MAX_LINES);
    let bytes = workspace.read(&place, MAX_FILE).map_err(|failure| for_model(&place, &failure))?;
    if let Some(picture) = picture::sniff(&bytes) {
        return Err(ToolError::model(format!(
            "{place} is a picture ({}, {} bytes): use image",
            picture.media_type,
            bytes.len()
        )));
    }
    if bytes.contains(&0) {
        return Err(ToolError::model(format!(
            "{place} is a binary file of {} bytes: use exec with a program that reads it",
            bytes.len()
        )));
    }
    let (text, damaged) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    let mut shown = part(&place, &text, first, limit)?;
    if damaged {
        shown.push_str("\n[not valid UTF-8: each byte that could not be read is shown as \u{fffd}]");
    }
    Ok(ToolOutput::text(shown))
}

/// The lines from `first` on that fit, and a last line that says what is missing.
fn part(place: &Place, text: &str, first: u64, limit: u64) -> Result<String, ToolError> {
    if text.is_empty() {
        return Ok("[the file is empty]".to_owned());
    }
    let total = text.split_inclusive('\n').count();
    let skipped = usize::try_from(first - 1).unwrap_or(usize::MAX);
    if skipped >= total {
        return Err(ToolError::model(format!("{place} has {total} lines; offset {first} is after its end")));
    }
    let limit = usize::try_from(limit).unwrap_or(1);
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
            "{start}\n[line {first} has {} bytes, {} are shown; the rest of it: exec with cut -c or tail -c. {total} lines in all]",
            line.len(),
            start.len()
        ));
    }
    let last = skipped + count;
    if last < total {
        let before = if shown.ends_with('\n') { "" } else { "\n" };
        let rest = format!("{before}[lines {first} to {last} of {total}; go on with offset {}]", last + 1);
        shown.push_str(&rest);
    }
    Ok(shown)
}
