//! The tool `write`. It writes a whole file in one step.

use serde_json::json;

use super::path::WorkspacePath;
use super::tool_error::for_model;
use super::{MAX_FILE, Workspace};
use crate::home::beneath::BeneathError;
use crate::tool::arguments::Arguments;
use crate::tool::policy::LimitedInput;
use crate::tool::{ToolDefinition, ToolError, ToolOutput};

pub(crate) static WRITE: ToolDefinition = ToolDefinition {
    name: "write",
    description: "Create or replace a file of your workspace. Missing folders are created.",
    properties: || json!({"path": {"type": "string"}, "content": {"type": "string"}}),
    required: &["path", "content"],
    changes: true,
    limited: Some(LimitedInput::Path),
    ..ToolDefinition::BUILT_IN
};

/// The beginning of the result if there was no file before.
pub(crate) const CREATED: &str = "created ";

pub(super) fn work(workspace: &Workspace, arguments: &Arguments) -> Result<ToolOutput, ToolError> {
    let place =
        WorkspacePath::parse_writable(&arguments.required_with_alias::<String>("path", "file_path")?)?;
    let content: String = arguments.required("content")?;
    let is_new = matches!(workspace.files.beginning(place.relative(), 0), Err(BeneathError::NotFound { .. }));
    workspace.put(&place, &content, None)?;
    let size = content.len();
    let said = if is_new {
        format!("{CREATED}{place} with {size} bytes")
    } else {
        format!("wrote {size} bytes to {place}")
    };
    Ok(ToolOutput::text(said))
}

impl Workspace {
    /// Writes a file and creates the missing folders above it. `mode` is the permission bits to take over from a moved
    /// file.
    pub(super) fn put(
        &self,
        place: &WorkspacePath,
        content: &str,
        mode: Option<u32>,
    ) -> Result<(), ToolError> {
        // Checked before any folder is made, so that a refusal changes nothing.
        if content.len() as u64 > MAX_FILE {
            return Err(ToolError::model(format!(
                "{} bytes for {place}; at most {MAX_FILE} are possible",
                content.len()
            )));
        }
        let explain = |failure| for_model(place, &failure);
        if let Some(folder) = place.relative().parent().filter(|folder| !folder.as_os_str().is_empty()) {
            self.files.create_dir_all(folder, self.owner).map_err(explain)?;
        }
        self.files.write(place.relative(), content.as_bytes(), mode, self.owner).map_err(explain)
    }
}
