//! The tool `read`. It shows a text file or a part of one. Lines have no numbers, so that the model can copy them into
//! `edit`.

use serde_json::json;

use super::path::WorkspacePath;
use super::tool_error::for_model;
use super::{MAX_FILE, Workspace};
use crate::picture;
use crate::tool::arguments::Arguments;
use crate::tool::definition::Effect;
use crate::tool::policy::LimitedInput;
use crate::tool::{ToolDefinition, ToolError, ToolOutput, lines};

/// Advice on how to read the rest of a line that is too long.
const LONG_LINE: &str = "; read the rest with exec: cut -c or tail -c";

pub(crate) static READ: ToolDefinition = ToolDefinition {
    name: "read",
    description: "Read a text file of your workspace, at most 2000 lines or 50 KB at once; continue \
                  with offset. For pictures use image.",
    properties: || {
        json!({
            "path": {"type": "string"},
            "offset": {"type": "integer", "description": "first line, from 1"},
            "limit": {"type": "integer", "description": "lines"}
        })
    },
    required: &["path"],
    limited: Some(LimitedInput::Path),
    effect: Effect::Reads,
    ..ToolDefinition::BUILT_IN
};

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let place = WorkspacePath::parse(&arguments.required_with_alias::<String>("path", "file_path")?)?;
    let first = arguments.optional::<u64>("offset")?.unwrap_or(1);
    let limit = arguments.optional::<u64>("limit")?.unwrap_or(lines::MAX_LINES);
    let bytes = workspace.read(&place, MAX_FILE).map_err(|failure| for_model(&place, &failure))?;
    if let Some(picture) = picture::sniff(&bytes) {
        return Err(ToolError::model(format!(
            "{place} is a picture ({}, {} bytes): use image",
            picture.media_type,
            bytes.len()
        )));
    }
    // A NUL byte is valid UTF-8, but in practice it only occurs in binary files.
    if bytes.contains(&0) {
        return Err(ToolError::model(format!(
            "{place} is a binary file of {} bytes: use exec with a program that reads it",
            bytes.len()
        )));
    }
    let (text, damaged) = match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        // A damaged text can be read but not edited, because the replaced bytes would be lost.
        Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
    };
    let mut shown = lines::part(&place, &text, first, limit, LONG_LINE)?;
    if damaged {
        shown.push_str("\n[not valid UTF-8: each invalid byte is shown as \u{fffd}]");
    }
    Ok(ToolOutput::text(shown))
}
