//! The tool `image`. It shows a picture to the model.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use super::Workspace;
use super::path::WorkspacePath;
use super::tool_error::for_model;
use crate::picture::{self, FittedPicture, PictureLimits};
use crate::provider::Block;
use crate::tool::arguments::Arguments;
use crate::tool::definition::{Effect, ToolGroup};
use crate::tool::policy::LimitedInput;
use crate::tool::{ToolDefinition, ToolError, ToolOutput, safe_text};

/// The limits for a picture in a transcript. No model API accepts a larger one, or one with more bytes, which the APIs
/// count as Base64. A request may contain a smaller version of it.
const LIMITS: PictureLimits = PictureLimits { side: 2000, bytes: 5 * 1024 * 1024 / 4 * 3 };

pub(crate) static IMAGE: ToolDefinition = ToolDefinition {
    name: "image",
    description: "Look at a picture in your workspace (PNG, JPEG, GIF, WebP).",
    properties: || {
        json!({
            "path": {"type": "string"},
            "prompt": {"type": "string", "description": "what to look for"}
        })
    },
    required: &["path"],
    group: ToolGroup::Pictures,
    limited: Some(LimitedInput::Path),
    effect: Effect::Reads,
    ..ToolDefinition::BUILT_IN
};

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let place = WorkspacePath::parse(&arguments.required_with_alias::<String>("path", "file_path")?)?;
    let prompt: Option<String> = arguments.optional("prompt")?;
    let bytes = workspace
        .files
        .read(place.relative(), picture::MAX_INPUT_BYTES as u64)
        .map_err(|failure| for_model(&place, &failure))?;
    let (mut text, picture) = shown(&place, &bytes)?;
    if let Some(prompt) = prompt {
        text.push_str("\nlook for: ");
        text.push_str(safe_text::start(&prompt, 2000));
    }
    Ok(vec![Block::text(text), picture].into())
}

/// Returns a picture as a model is shown it, with a line about it. `place` is the model's name for it.
///
/// # Errors
///
/// Returns [`ToolError::ForModel`] if the bytes are no picture that can be shown.
pub(crate) fn shown(place: &dyn Display, bytes: &[u8]) -> Result<(String, Block), ToolError> {
    // The text describes the original picture, even if a smaller one is shown.
    let found = picture::sniff(bytes);
    let fit = picture::fit(bytes, LIMITS).map_err(|reason| {
        ToolError::model(format!("{place} can't be shown: {reason} ({} bytes)", bytes.len()))
    })?;
    let (width, height) = found.and_then(|found| found.size).unwrap_or_default();
    let kind = found.map_or("a picture", |found| found.media_type);
    let mut text = format!("{place}: {kind}, {width}x{height} pixels, {} bytes", bytes.len());
    let (media_type, data) = match fit {
        FittedPicture::AsIs(_) => (kind, STANDARD.encode(bytes)),
        FittedPicture::Jpeg { bytes, size: (width, height) } => {
            text = format!("{text}; shown smaller, {width}x{height} pixels");
            ("image/jpeg", STANDARD.encode(&bytes))
        }
    };
    Ok((text, Block::Image { media_type: media_type.to_owned(), data }))
}
