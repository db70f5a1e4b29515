//! `image`: gives the model a picture to look at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::failure::for_model;
use super::path::Place;
use super::{Workspace, picture};
use crate::provider::{Block, ToolSpec};
use crate::tool::arguments::Arguments;
use crate::tool::{ToolError, ToolOutput, bounded};

/// A model API takes no larger picture, counted as Base64. A transcript that held one would be refused at
/// every later call, so it must not get there.
const MAX_ENCODED: u64 = 5 * 1024 * 1024;

/// The longest side a model API takes, in pixels.
const MAX_SIDE: u32 = 8000;

pub(super) fn spec() -> ToolSpec {
    ToolSpec {
        name: "image".to_owned(),
        description: "Look at a picture in your workspace (PNG, JPEG, GIF, WebP).".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "prompt": {"type": "string", "description": "what to look for"}
            },
            "required": ["path"]
        }),
    }
}

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let place = Place::parse(&arguments.required_or::<String>("path", "file_path")?)?;
    let prompt: Option<String> = arguments.optional("prompt")?;
    let bytes = workspace
        .root
        .read(place.relative(), MAX_ENCODED / 4 * 3)
        .map_err(|failure| for_model(&place, &failure))?;
    let picture = picture::sniff(&bytes).ok_or_else(|| {
        ToolError::model(format!("{place} is not a PNG, JPEG, GIF or WebP picture ({} bytes)", bytes.len()))
    })?;
    let (width, height) = picture.size.ok_or_else(|| {
        ToolError::model(format!("{place} begins like {}, but is damaged or incomplete", picture.media_type))
    })?;
    if width == 0 || height == 0 || width > MAX_SIDE || height > MAX_SIDE {
        return Err(ToolError::model(format!(
            "{place} is {width}x{height} pixels; each side may have 1 to {MAX_SIDE}"
        )));
    }
    let mut text = format!("{place}: {}, {width}x{height} pixels, {} bytes", picture.media_type, bytes.len());
    if let Some(prompt) = prompt {
        text.push_str("\nlook for: ");
        text.push_str(bounded::start(&prompt, 2000));
    }
    Ok(ToolOutput {
        content: vec![
            Block::text(text),
            Block::Image { media_type: picture.media_type.to_owned(), data: STANDARD.encode(&bytes) },
        ],
    })
}
